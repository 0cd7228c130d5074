// The classes Program, Method, Context and State of the module.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "python/bindings/bindings.h"
#include "python/bindings/borrowed_tensor.h"
#include "python/bindings/errors.h"
#include "python/bindings/frameworks.h"
#include "python/bindings/session.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace qcg::python {

namespace {

using ProgramPtr = std::shared_ptr<const Program>;
using SessionPtr = std::shared_ptr<Session>;

// A tensor as a program declares it.
struct TensorInfo {
  std::string name, dtype;
  std::vector<std::optional<int64_t>> shape;
};

std::string describe_info(const TensorInfo& info) {
  std::string shape;
  for (const auto& extent : info.shape) shape += (shape.empty() ? "" : ", ") + (extent ? std::to_string(*extent) : "?");
  return info.name + ": " + info.dtype + "[" + shape + "]";
}

TensorInfo to_info(const std::string& name, DType dtype, std::span<const int64_t> shape) {
  TensorInfo out{name, std::string(array_dtype_name(dtype)), {}};
  for (const int64_t extent : shape) out.shape.push_back(extent < 0 ? std::nullopt : std::optional(extent));
  return out;
}

std::vector<TensorInfo> to_infos(const std::vector<ProgramManifest::Tensor>& tensors) {
  std::vector<TensorInfo> out;
  for (const auto& tensor : tensors) out.push_back(to_info(tensor.name, tensor.dtype, Program::static_shape(tensor)));
  return out;
}

std::map<std::string, std::tuple<int64_t, int64_t>> symbols_of(const ProgramManifest& manifest) {
  std::map<std::string, std::tuple<int64_t, int64_t>> out;
  for (const auto& symbol : manifest.symbols) out[symbol.name] = {symbol.min, symbol.max};
  return out;
}

// A method on the threads and with the state of a session.
struct Method {
  SessionPtr session;
  ProgramPtr program;
  const ProgramManifest& manifest() const { return program->manifest(); }
};

nb::dict methods_of(const SessionPtr& session) {
  nb::dict out;
  for (const ProgramPtr& method : session->program().methods)
    if (const std::string& name = method->manifest().method; !name.empty())
      out[name.c_str()] = nb::cast(Method{session, method});
  return out;
}

// Whether elements of a tensor lie between two addresses.
bool lies_within(const TensorView& view, const std::byte* begin, const std::byte* end) {
  const auto width = static_cast<int64_t>(dtype_bytes(view.dtype));
  int64_t first = 0, last = 0;
  for (size_t i = 0; i < view.strides.size(); ++i)
    (view.strides[i] < 0 ? first : last) += (view.shape[i] - 1) * view.strides[i];
  const auto* data = static_cast<const std::byte*>(view.data);
  return data + first * width < end && data + (last + 1) * width > begin;
}

// A value may be a view of the tensor that it becomes, turned or reversed.
void copy_into(const TensorView& from, const TensorView& to) {
  const auto bytes = static_cast<size_t>(*byte_count(to.shape, to.dtype));
  auto* data = static_cast<std::byte*>(to.data);
  if (bytes == 0 || !lies_within(from, data, data + bytes)) return copy_to_dense(from, data);
  std::vector<std::byte> copy(bytes);
  copy_to_dense(from, copy.data());
  std::ranges::copy(copy, data);
}

// The tensors of a session's state, by name.
struct States {
  SessionPtr session;
  const std::vector<ProgramManifest::State>& list() const { return session->program().manifest().states; }
  nb::object view(const std::string& name) const {
    const TensorView tensor = session->state_tensor(name);
    return numpy_view(tensor.data, tensor.dtype, tensor.shape, nb::cast(session));
  }
  nb::object dlpack(const std::string& name) const {
    const TensorView tensor = session->state_tensor(name);
    const DTypeInfo& info = dtype_info(tensor.dtype);
    const std::vector<size_t> shape(tensor.shape.begin(), tensor.shape.end());
    return nb::cast(nb::ndarray<nb::array_api>(tensor.data, shape.size(), shape.data(), nb::cast(session), nullptr,
                                               {info.dlpack_code, static_cast<uint8_t>(info.bytes * 8), 1}));
  }
  void assign(const std::string& name, nb::object value) const {
    const TensorView tensor = session->state_tensor(name);
    BorrowedTensor source(value, name, BorrowedTensor::Access::read);
    source.accept_bits(tensor.dtype);
    const TensorView& given = source.view();
    if (given.dtype != tensor.dtype || !std::ranges::equal(given.shape, tensor.shape))
      raise(Error::bad_input(name,
                             "the tensor is " + std::string(array_dtype_name(given.dtype)) + shape_text(given.shape) +
                                 ", the state is " + std::string(array_dtype_name(tensor.dtype)) +
                                 shape_text(tensor.shape),
                             "give a tensor of the state's dtype and shape"));
    copy_into(given, tensor);
  }
};

// A program, and the session that its calls use unless another one is made. That one starts threads, so it is made when
// it is first needed.
class PyProgram {
 public:
  PyProgram(const std::string& path, int threads, bool huge_pages, bool verify, const std::string& target)
      : loaded_(LoadedProgram::load(path, {huge_pages ? WeightsMode::huge_pages : WeightsMode::map, verify, target})),
        threads_(checked_threads(threads)) {}
  const LoadedProgram& loaded() const { return *loaded_; }
  const ProgramPtr& first() const { return loaded_->methods[0]; }
  const ProgramManifest& manifest() const { return loaded_->manifest(); }
  const SessionPtr& session() {
    if (!session_) session_ = std::make_shared<Session>(loaded_, threads_, Session::Threads::common);
    return session_;
  }
  SessionPtr new_context(std::optional<int> threads) const {
    return std::make_shared<Session>(loaded_, threads.value_or(threads_), Session::Threads::own);
  }

 private:
  std::shared_ptr<const LoadedProgram> loaded_;
  int threads_;
  SessionPtr session_;
};

nb::object report_of(const LoadedProgram& program) {
  if (program.report.empty()) return nb::none();
  return nb::module_::import_("json").attr("loads")(program.report.c_str());
}

constexpr const char* kCallDoc =
    "Runs the program. Inputs are given by position or by name: numpy arrays, torch tensors or anything else with\n"
    "__dlpack__, in host memory, of the dtypes and shapes of `inputs`. They are read in place.\n"
    "Returns the output, or a tuple of several: arrays of numpy, or tensors of the framework that the inputs are of.\n"
    "`out`, a writable tensor that requires no gradient or a list of them, is written to instead and returned.\n"
    "A program for a device takes tensors there, too. Torch's are used on its current stream: if that is not the "
    "default\n"
    "stream, a call whose outputs are on the device does not wait, and wait() raises what fails in it.";

constexpr const char* kWaitDoc = "Waits for calls that were queued on a stream. Raises the error of one that failed.";

void bind_infos(nb::module_& m) {
  nb::class_<TensorInfo>(m, "TensorInfo", "A tensor that a program takes, gives or keeps.")
      .def_ro("name", &TensorInfo::name)
      .def_ro("dtype", &TensorInfo::dtype, "As torch and numpy (with ml_dtypes) name it: 'bfloat16'.")
      .def_prop_ro(
          "shape",
          [](const TensorInfo& info) {
            nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(info.shape.size())));
            for (size_t i = 0; i < info.shape.size(); ++i)
              PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), nb::cast(info.shape[i]).release().ptr());
            return nb::borrow<nb::typed<nb::tuple, std::optional<int64_t>, nb::ellipsis>>(tuple);
          },
          "The extents; None for one that depends on the inputs.")
      .def("__repr__", &describe_info);
}

void bind_method(nb::module_& m) {
  nb::class_<Method>(m, "Method", "One graph of a program that was compiled from several.")
      .def(
          "__call__",
          [](const Method& self, nb::args inputs, nb::kwargs named) {
            return self.session->call(self.program, inputs, named);
          },
          kCallDoc)
      .def_prop_ro("name", [](const Method& self) { return self.manifest().method; })
      .def_prop_ro("inputs", [](const Method& self) { return to_infos(self.manifest().inputs); })
      .def_prop_ro("outputs", [](const Method& self) { return to_infos(self.manifest().outputs); })
      .def_prop_ro("symbols", [](const Method& self) { return symbols_of(self.manifest()); });
}

void bind_state(nb::module_& m) {
  nb::class_<States>(m, "State", "The tensors that a program keeps between the runs of one sequence, by name.")
      .def("__getitem__", &States::view, "name"_a,
           "The state's own memory as an array of numpy: reading and writing it needs no copy. Not while a call runs.")
      .def("__setitem__", &States::assign, "name"_a, "value"_a, "Copies a tensor of the same dtype and shape.")
      .def("dlpack", &States::dlpack, "name"_a,
           "The same memory as an object with __dlpack__: torch.from_dlpack(state.dlpack(name)).")
      .def(
          "reset", [](const States& self) { self.session->reset(); }, "Sets all tensors to their initial values.")
      .def("keys",
           [](const States& self) {
             std::vector<std::string> names;
             for (const auto& state : self.list()) names.push_back(state.name);
             return names;
           })
      .def("__len__", [](const States& self) { return self.list().size(); })
      .def("__contains__",
           [](const States& self, const std::string& name) {
             return std::ranges::any_of(self.list(), [&](const auto& state) { return state.name == name; });
           })
      .def("__iter__", [](nb::object self) { return nb::iter(self.attr("keys")()); });
}

void bind_context(nb::module_& m) {
  nb::class_<Session>(m, "Context", "Threads, and the state of one sequence, that run a program.")
      .def(
          "__call__",
          [](Session& self, nb::args inputs, nb::kwargs named) {
            return self.call(self.program().methods[0], inputs, named);
          },
          kCallDoc)
      .def_prop_ro(
          "methods", [](const SessionPtr& self) { return methods_of(self); },
          nb::sig("def methods(self) -> dict[str, Method]"), "The methods by name, on this context.")
      .def_prop_ro("state", [](const SessionPtr& self) { return States{self}; })
      .def("reset", &Session::reset, "Sets the state to its initial values.")
      .def("wait", &Session::wait, kWaitDoc)
      .def("clone", &Session::clone,
           "A context with a copy of the state and the same threads: two sequences with one beginning. Calls of the "
           "two\n"
           "run one after the other.")
      .def_prop_ro("threads", &Session::threads);
}

}  // namespace

void bind_program(nb::module_& m) {
  bind_infos(m);
  bind_method(m);
  bind_state(m);
  bind_context(m);
  nb::class_<PyProgram>(m, "Program", "A compiled program. A program directory is code: load only what you would run.")
      .def(nb::init<const std::string&, int, bool, bool, const std::string&>(), "path"_a, nb::kw_only(),
           "threads"_a = 0, "huge_pages"_a = false, "verify"_a = false, "target"_a = "")
      .def(
          "__call__",
          [](PyProgram& self, nb::args inputs, nb::kwargs named) {
            return self.session()->call(self.first(), inputs, named);
          },
          kCallDoc)
      .def_prop_ro("inputs", [](const PyProgram& self) { return to_infos(self.manifest().inputs); })
      .def_prop_ro("outputs", [](const PyProgram& self) { return to_infos(self.manifest().outputs); })
      .def_prop_ro(
          "symbols", [](const PyProgram& self) { return symbols_of(self.manifest()); },
          "Sizes that are known only when the program runs: the least and the greatest value by name.")
      .def_prop_ro(
          "states",
          [](const PyProgram& self) {
            std::vector<TensorInfo> out;
            for (const auto& state : self.manifest().states)
              out.push_back(to_info(state.name, state.dtype, state.shape));
            return out;
          },
          "The tensors that the program keeps between runs.")
      .def_prop_ro(
          "methods", [](PyProgram& self) { return methods_of(self.session()); },
          nb::sig("def methods(self) -> dict[str, Method]"),
          "The methods by name; empty where the program has no names. The program itself is its first one.")
      .def(
          "new_context", &PyProgram::new_context, "threads"_a = nb::none(),
          "A context with threads and a state of its own, for another sequence or another thread of Python.\n"
          "`threads` counts the caller; 0: as many as the CPUs that this process may use. Default: as load() was told.")
      .def_prop_ro(
          "state", [](PyProgram& self) { return States{self.session()}; }, "The state of the program's own calls.")
      .def(
          "reset", [](PyProgram& self) { self.session()->reset(); }, "Sets that state to its initial values.")
      .def(
          "wait", [](PyProgram& self) { self.session()->wait(); }, kWaitDoc)
      .def_prop_ro("threads", [](PyProgram& self) { return self.session()->threads(); })
      .def_prop_ro("path", [](const PyProgram& self) { return self.loaded().path; })
      .def_prop_ro("target", [](const PyProgram& self) { return self.manifest().target; })
      .def_prop_ro(
          "report", [](const PyProgram& self) { return report_of(self.loaded()); },
          nb::sig("def report(self) -> dict[str, typing.Any] | None"),
          "What the compile did, found and measured: report.json.")
      .def("__repr__", [](const PyProgram& self) { return "<qcodegen.Program " + self.loaded().path + ">"; });
}

}  // namespace qcg::python
