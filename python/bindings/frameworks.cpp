#include "python/bindings/frameworks.h"

#include <nanobind/ndarray.h>

#include <map>
#include <unordered_map>

#include "python/bindings/errors.h"
#include "runtime/tensor_view.h"

namespace nb = nanobind;

namespace qcg::python {

namespace {

// numpy.dtype("bfloat16") exists once ml_dtypes has registered it.
nb::object numpy_dtype(DType dtype) {
  const nb::object numpy = nb::module_::import_("numpy");
  const std::string name(array_dtype_name(dtype));
  if (dtype != DType::bf16 && !is_float8(dtype)) return numpy.attr("dtype")(name.c_str());
  try {
    return numpy.attr("dtype")(nb::module_::import_("ml_dtypes").attr(name.c_str()));
  } catch (nb::python_error&) {
    return numpy.attr("dtype")(dtype_bytes(dtype) == 1 ? "uint8" : "uint16");
  }
}

nb::tuple to_tuple(std::span<const int64_t> shape) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (size_t i = 0; i < shape.size(); ++i)
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
  return nb::borrow<nb::tuple>(tuple);
}

// "torch" of torch.nn.parameter. Types are few: each is looked up once and kept.
const Framework& framework_of_type(PyTypeObject* type) {
  static auto& known = *new std::unordered_map<PyTypeObject*, const Framework*>();
  if (const auto found = known.find(type); found != known.end()) return *found->second;
  const nb::object name = nb::getattr(nb::handle(reinterpret_cast<PyObject*>(type)), "__module__", nb::str(""));
  std::string root = nb::str(name).c_str();
  // A subclass of torch's tensor lives anywhere.
  if (nb::hasattr(nb::handle(reinterpret_cast<PyObject*>(type)), "__torch_function__")) root = "torch";
  root = root.substr(0, root.find('.'));
  Py_INCREF(type);
  return *known.emplace(type, &Framework::of_module(root)).first->second;
}

}  // namespace

std::string_view array_dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float32";
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    case DType::f64: return "float64";
    case DType::u8: return "uint8";
    case DType::i8: return "int8";
    case DType::i16: return "int16";
    case DType::i32: return "int32";
    case DType::i64: return "int64";
    case DType::boolean: return "bool";
    case DType::u16: return "uint16";
    case DType::u32: return "uint32";
    case DType::u64: return "uint64";
    case DType::f8e4m3: return "float8_e4m3fn";
    case DType::f8e5m2: return "float8_e5m2";
    case DType::f8e8m0: return "float8_e8m0fnu";
  }
  return "";
}

const Framework& Framework::numpy() { return of_module("numpy"); }

const Framework& Framework::of_module(std::string_view root) {
  static auto& known = *new std::map<std::string, Framework, std::less<>>();
  if (const auto found = known.find(root); found != known.end()) return found->second;
  Framework made;
  const bool torch = root == "torch";
  const nb::object module = nb::module_::import_(torch ? "torch" : "numpy");
  made.empty_ = module.attr("empty");
  made.is_torch_ = torch;
  if (torch) {
    made.host_ = module.attr("device")("cpu");
    made.add_version_ = nb::module_::import_("torch.autograd.graph").attr("increment_version");
  }
  for (const DTypeInfo& row : kDTypes)
    made.dtypes_[static_cast<size_t>(row.dtype)] =
        torch ? nb::getattr(module, std::string(array_dtype_name(row.dtype)).c_str(), nb::none())
              : numpy_dtype(row.dtype);
  if (!torch && root != "numpy" && root != "builtins") {
    // jax and others: modules that are there already, since a tensor of theirs is.
    for (const char* home : {"", ".dlpack", ".numpy"}) {
      const nb::object found =
          nb::module_::import_("sys").attr("modules").attr("get")((std::string(root) + home).c_str());
      if (found.is_none() || !nb::hasattr(found, "from_dlpack")) continue;
      made.from_dlpack_ = found.attr("from_dlpack");
      break;
    }
  }
  return known.emplace(root, std::move(made)).first->second;
}

nb::object Framework::allocate(DType dtype, std::span<const int64_t> shape, bool on_device) const {
  if (on_device && !is_torch_)
    raise({ErrorCode::Usage, "out", "is not given, and inputs are on a device",
           "give tensors to write to: outputs on a device are made of torch alone"});
  if (on_device)  // also AMD's device has this name in torch
    return empty_(to_tuple(shape), nb::arg("dtype") = dtypes_[static_cast<size_t>(dtype)],
                  nb::arg("device") = "cuda:0");
  static PyObject* const dtype_name = PyUnicode_InternFromString("dtype");
  static PyObject* const names = PyTuple_Pack(1, dtype_name);
  static PyObject* const torch_names = PyTuple_Pack(2, dtype_name, PyUnicode_InternFromString("device"));
  const nb::tuple size = to_tuple(shape);
  PyObject* const arguments[] = {size.ptr(), dtypes_[static_cast<size_t>(dtype)].ptr(), host_.ptr()};
  PyObject* const made = PyObject_Vectorcall(empty_.ptr(), arguments, 1, is_torch_ ? torch_names : names);
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

nb::object Framework::adopt(nb::object array) const {
  if (!from_dlpack_.is_valid()) return array;
  try {
    return from_dlpack_(array);
  } catch (nb::python_error&) {
    return array;  // a dtype that its __dlpack__ cannot name
  }
}

void Framework::note_write(nb::handle array) const {
  if (add_version_.is_valid()) add_version_(array);
}

const Framework& framework_of(nb::handle array) { return framework_of_type(Py_TYPE(array.ptr())); }

const Framework& framework_of(std::span<const nb::handle> inputs) {
  const Framework& numpy = Framework::numpy();
  for (const nb::handle input : inputs)
    if (const Framework& own = framework_of_type(Py_TYPE(input.ptr())); &own != &numpy) return own;
  return numpy;
}

nb::object numpy_view(void* data, DType dtype, std::span<const int64_t> shape, nb::handle owner) {
  const size_t bytes = static_cast<size_t>(byte_count(shape, dtype).value_or(0));
  const nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>> memory(static_cast<uint8_t*>(data), {bytes}, owner);
  return nb::cast(memory).attr("view")(numpy_dtype(dtype)).attr("reshape")(to_tuple(shape));
}

}  // namespace qcg::python
