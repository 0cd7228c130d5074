#include "python/bindings/borrowed_tensor.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "python/bindings/errors.h"
#include "python/bindings/frameworks.h"

namespace nb = nanobind;

namespace qcg::python {

namespace {

constexpr const char* kTensorKinds = "give a numpy array, a torch tensor or another object that has __dlpack__";

// What a type of tensors has beside memory.
struct TypeTraits {
  const DLPackExchangeAPI* api = nullptr;  // null: it has none
  bool is_torch = false;                   // its tensors may have a negative bit, and may need gradients
};

const DLPackExchangeAPI* exchange_api(nb::handle type) {
  const DLPackExchangeAPI* api = nullptr;
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (!capsule.is_none()) {
    api = static_cast<const DLPackExchangeAPI*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (api == nullptr) PyErr_Clear();
    while (api != nullptr && api->version.major != 1) api = api->previous;
    if (api != nullptr && api->dltensor_from_py_object_no_sync == nullptr) api = nullptr;
  }
  return api;
}

// Types are few: each is looked up once and kept.
const TypeTraits& traits_of(PyTypeObject* type) {
  static auto& known = *new std::unordered_map<PyTypeObject*, TypeTraits>();
  if (const auto found = known.find(type); found != known.end()) return found->second;
  const nb::handle handle(reinterpret_cast<PyObject*>(type));
  const TypeTraits traits{exchange_api(handle), nb::hasattr(handle, "resolve_neg") && nb::hasattr(handle, "is_neg")};
  Py_INCREF(type);
  return known.emplace(type, traits).first->second;
}

bool is_neg(nb::handle tensor) {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  const nb::object found = nb::steal(PyObject_CallMethodNoArgs(tensor.ptr(), name));
  if (!found.is_valid()) throw nb::python_error();
  return found.ptr() == Py_True;
}

bool requires_grad(nb::handle tensor) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  const nb::object found = nb::steal(PyObject_GetAttr(tensor.ptr(), name));
  if (!found.is_valid()) throw nb::python_error();
  return found.ptr() == Py_True;
}

// Whether numpy itself has no such dtype.
bool has_no_array(DType dtype) { return dtype == DType::bf16 || is_float8(dtype); }

// "f" and 4 bytes are f32. Letters are those of the struct module.
std::optional<DType> dtype_of_format(const char* format, int64_t itemsize) {
  std::string_view text = format == nullptr ? "B" : format;
  if (text.size() == 2 && (text[0] == '<' || text[0] == '=' || text[0] == '@')) text.remove_prefix(1);
  if (text.size() != 1) return std::nullopt;
  DTypeKind kind = DTypeKind::floating;
  if (text[0] == '?') kind = DTypeKind::boolean;
  else if (std::string_view("bhilq").find(text[0]) != text.npos) kind = DTypeKind::signed_int;
  else if (std::string_view("BHILQ").find(text[0]) != text.npos) kind = DTypeKind::unsigned_int;
  else if (std::string_view("efd").find(text[0]) == text.npos) return std::nullopt;
  for (const DTypeInfo& row : kDTypes)  // the first floats of two and four bytes are f16 and f32
    if (row.kind == kind && row.bytes == itemsize && !has_no_array(row.dtype)) return row.dtype;
  return std::nullopt;
}

// The dtype of a numpy array whose elements are of the package ml_dtypes.
std::optional<DType> dtype_of_ml_dtypes(nb::handle object) {
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  const nb::object name = nb::getattr(dtype, "name", nb::none());
  if (!nb::isinstance<nb::str>(name)) return std::nullopt;
  const std::string_view text = nb::cast<nb::str>(name).c_str();
  for (const DTypeInfo& row : kDTypes)
    if (has_no_array(row.dtype) && text == array_dtype_name(row.dtype)) return row.dtype;
  return std::nullopt;
}

}  // namespace

// Delegates, so that what was borrowed is given back where this throws.
BorrowedTensor::BorrowedTensor(nb::handle object, const std::string& where, Access access, DeviceType program)
    : BorrowedTensor(program) {
  owner_ = without_torch_bits(object, where, access);
  if (owner_.is_valid()) object = owner_;
  if (borrow_by_exchange(object.ptr(), where) || borrow_buffer(object.ptr(), where, access) ||
      borrow_ml_dtypes(object, where, access) || borrow_dlpack(object, where, access))
    return;
  raise(Error::bad_input(where, "is no tensor but a " + std::string(Py_TYPE(object.ptr())->tp_name), kTensorKinds));
}

BorrowedTensor::~BorrowedTensor() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
  if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
}

nb::object BorrowedTensor::without_torch_bits(nb::handle object, const std::string& where, Access access) {
  if (access == Access::look || !traits_of(Py_TYPE(object.ptr())).is_torch) return {};
  const bool negative = is_neg(object);
  if (access == Access::write && negative)
    raise(
        Error::bad_input(where, "has torch's negative bit, so its memory holds other numbers", "give a plain tensor"));
  if (access == Access::write && requires_grad(object))
    raise(Error::bad_input(where, "needs gradients, and programs have none", "give its detach()"));
  return negative ? object.attr("resolve_neg")() : nb::object();
}

void BorrowedTensor::set_axes(size_t rank, const std::string& where) {
  if (rank > kMaxAxes)
    raise(Error::unsupported(where, "has " + std::to_string(rank) + " axes", "programs have tensors of at most 16"));
  view_.shape = {shape_.data(), rank};
  view_.strides = {strides_.data(), rank};
}

void BorrowedTensor::describe(const qcg_dltensor& tensor, const std::string& where) {
  const int32_t kind = tensor.device.device_type;
  if (program_ == kDLCPU && kind != kDLCPU && kind != kDLCUDAHost && kind != kDLROCMHost)
    raise(Error::unsupported(where, "is on DLPack device type " + std::to_string(kind),
                             "only host memory is taken here: copy the tensor to the CPU"));
  view_.on_device = value_of(is_on_device(where, kind, tensor.device.device_id, program_));
  const auto row = std::ranges::find_if(kDTypes, [&](const DTypeInfo& info) {
    return info.dlpack_code == tensor.dtype.code && info.bytes * 8 == tensor.dtype.bits && tensor.dtype.lanes == 1;
  });
  if (row == kDTypes.end())
    raise(Error::unsupported(where,
                             "has DLPack dtype code " + std::to_string(tensor.dtype.code) + " with " +
                                 std::to_string(tensor.dtype.bits) + " bits",
                             "program.inputs has the dtypes of this program"));
  view_.dtype = row->dtype;
  set_axes(static_cast<size_t>(tensor.ndim), where);
  int64_t dense = 1, elements = 1;
  for (size_t i = view_.shape.size(); i-- > 0;) {
    shape_[i] = tensor.shape[i];
    strides_[i] = tensor.strides != nullptr ? tensor.strides[i] : dense;
    dense *= shape_[i], elements *= shape_[i];
  }
  if (tensor.data != nullptr) view_.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  else if (elements > 0)
    raise(Error::unsupported(where, "has no memory of its own", "give a plain tensor: no subclass, no fake tensor"));
}

bool BorrowedTensor::borrow_by_exchange(PyObject* object, const std::string& where) {
  const DLPackExchangeAPI* api = traits_of(Py_TYPE(object)).api;
  if (api == nullptr) return false;
  qcg_dltensor tensor;
  if (api->dltensor_from_py_object_no_sync(object, &tensor) != 0) throw nb::python_error();
  describe(tensor, where);
  if (view_.on_device && api->current_work_stream != nullptr &&
      api->current_work_stream(tensor.device.device_type, tensor.device.device_id, &stream_) != 0)
    throw nb::python_error();
  return true;
}

bool BorrowedTensor::borrow_buffer(PyObject* object, const std::string& where, Access access) {
  if (!PyObject_CheckBuffer(object)) return false;
  if (PyObject_GetBuffer(object, &buffer_, access == Access::write ? PyBUF_RECORDS : PyBUF_RECORDS_RO) != 0) {
    // Arrays of ml_dtypes have no format; anything else that refuses may still have __dlpack__.
    PyErr_Clear();
    buffer_.obj = nullptr;
    if (access != Access::write || dtype_of_ml_dtypes(object)) return false;
    raise(Error::bad_input(where, "cannot be written to", "give a writable array"));
  }
  const auto dtype = dtype_of_format(buffer_.format, buffer_.itemsize);
  if (!dtype)
    raise(Error::unsupported(where, std::string("has elements of format '") + buffer_.format + "'",
                             "program.inputs has the dtypes of this program"));
  view_.data = buffer_.buf;
  view_.dtype = *dtype;
  set_axes(static_cast<size_t>(buffer_.ndim), where);
  for (int i = 0; i < buffer_.ndim; ++i) {
    shape_[i] = buffer_.shape[i];
    strides_[i] = buffer_.strides[i] / buffer_.itemsize;
    if (buffer_.strides[i] % buffer_.itemsize != 0)
      raise(Error::unsupported(where, "has a stride that is no multiple of its elements", "give a contiguous copy"));
  }
  return true;
}

bool BorrowedTensor::borrow_ml_dtypes(nb::handle object, const std::string& where, Access access) {
  const auto dtype = PyObject_CheckBuffer(object.ptr()) ? dtype_of_ml_dtypes(object) : std::nullopt;
  if (!dtype) return false;
  owner_ = object.attr("view")(dtype_bytes(*dtype) == 1 ? "uint8" : "uint16");
  if (!borrow_buffer(owner_.ptr(), where, access)) return false;
  view_.dtype = *dtype;
  return true;
}

bool BorrowedTensor::borrow_dlpack(nb::handle object, const std::string& where, Access access) {
  const nb::object method = nb::getattr(object, "__dlpack__", nb::none());
  if (method.is_none()) return false;
  // Without an argument `stream`, a tensor on a device is ready for the default stream.
  try {
    owner_ = method(nb::arg("max_version") = nb::make_tuple(1, 1));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    owner_ = method();  // an exporter of before DLPack 1.0
  }
  PyObject* capsule = owner_.ptr();
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    versioned_ = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    PyCapsule_SetName(capsule, "used_dltensor_versioned");
    if (versioned_->version.major != 1)
      raise(Error::unsupported(where, "is of DLPack " + std::to_string(versioned_->version.major), kTensorKinds));
    if (access == Access::write && (versioned_->flags & kReadOnlyFlag) != 0)
      raise(Error::bad_input(where, "cannot be written to", "give a writable array"));
    describe(versioned_->dl_tensor, where);
    return true;
  }
  if (!PyCapsule_IsValid(capsule, "dltensor")) return false;
  managed_ = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  PyCapsule_SetName(capsule, "used_dltensor");
  describe(managed_->dl_tensor, where);
  return true;
}

void BorrowedTensor::accept_bits(DType wanted) {
  const bool is_bits = buffer_.obj != nullptr && dtype_info(view_.dtype).kind == DTypeKind::unsigned_int;
  if (has_no_array(wanted) && is_bits && dtype_bytes(wanted) == dtype_bytes(view_.dtype)) view_.dtype = wanted;
}

}  // namespace qcg::python
