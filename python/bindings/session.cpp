#include "python/bindings/session.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "python/bindings/borrowed_tensor.h"
#include "python/bindings/errors.h"
#include "python/bindings/frameworks.h"
#include "runtime/program_directory.h"

namespace nb = nanobind;

namespace qcg::python {

namespace {

using Tensors = std::vector<ProgramManifest::Tensor>;

std::string names_of(const Tensors& tensors) {
  std::string out;
  for (const auto& tensor : tensors) out += (out.empty() ? "" : ", ") + tensor.name;
  return out.empty() ? "none" : out;
}

// The inputs in the program's order, from positional and named ones. `out`: the value of that name, which is no input.
std::vector<nb::handle> order_inputs(const Tensors& wanted, const nb::args& inputs, const nb::kwargs& named,
                                     nb::handle& out) {
  std::vector<nb::handle> given(inputs.begin(), inputs.end());
  const size_t positional = given.size();
  size_t filled = positional;
  for (const auto& [key, value] : named) {
    const std::string name = nb::cast<nb::str>(key).c_str();
    size_t index = 0;
    while (index < wanted.size() && wanted[index].name != name) ++index;
    if (index == wanted.size() && name == "out") {
      out = value;
      continue;
    }
    if (index == wanted.size())
      raise({ErrorCode::Usage, name, "the program has no input of this name", "its inputs are: " + names_of(wanted)});
    if (index < positional) raise({ErrorCode::Usage, name, "is given twice", "give it by position or by name"});
    given.resize(wanted.size());
    given[index] = value;
    ++filled;
  }
  if (filled == wanted.size() && given.size() == filled) return given;
  raise({ErrorCode::Usage, "inputs",
         "there are " + std::to_string(filled) + ", the program takes " + std::to_string(wanted.size()),
         "its inputs are: " + names_of(wanted)});
}

class Borrowed {
 public:
  explicit Borrowed(DeviceType program) : program_(program) {}
  void add(nb::handle object, const std::string& where, BorrowedTensor::Access access, DType dtype) {
    tensors_.emplace_back(object, where, access, program_).accept_bits(dtype);
    views_.push_back(tensors_.back().view());
  }
  std::span<const TensorView> views() const { return views_; }
  bool any_on_device() const { return std::ranges::any_of(views_, &TensorView::on_device); }
  // Adds the streams of tensors on a device.
  void list_streams(std::vector<void*>& streams) const {
    for (const BorrowedTensor& tensor : tensors_)
      if (tensor.view().on_device) streams.push_back(tensor.stream());
  }

 private:
  DeviceType program_;
  std::deque<BorrowedTensor> tensors_;  // views point into them
  std::vector<TensorView> views_;
};

// The stream of a call: that of all its tensors on the device.
void* stream_of(const Borrowed& in, const Borrowed& out) {
  std::vector<void*> streams;
  in.list_streams(streams), out.list_streams(streams);
  if (streams.empty()) return nullptr;
  if (std::ranges::count(streams, streams[0]) != std::ssize(streams))
    raise({ErrorCode::Usage, "tensors", "are on the device, but ready on different streams",
           "give tensors of one framework, or make the default stream its current one"});
  return streams[0];
}

// The outputs of `out=`: one tensor, or a sequence of as many as the program has.
std::vector<nb::object> given_outputs(nb::handle out, const Tensors& wanted) {
  const bool several = nb::isinstance<nb::list>(out) || nb::isinstance<nb::tuple>(out);
  std::vector<nb::object> outputs;
  if (several)
    for (nb::handle one : out) outputs.push_back(nb::borrow(one));
  else outputs.push_back(nb::borrow(out));
  if (outputs.size() != wanted.size())
    raise({ErrorCode::Usage, "out",
           "there are " + std::to_string(outputs.size()) + ", the program has " + std::to_string(wanted.size()),
           "its outputs are: " + names_of(wanted)});
  return outputs;
}

nb::object one_or_tuple(std::vector<nb::object> outputs) {
  if (outputs.size() == 1) return std::move(outputs[0]);
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
  for (size_t i = 0; i < outputs.size(); ++i)
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), outputs[i].release().ptr());
  return tuple;
}

}  // namespace

std::shared_ptr<const LoadedProgram> LoadedProgram::load(const std::string& path, const LoadOptions& options) {
  auto loaded = [&]() -> Result<std::shared_ptr<LoadedProgram>> {
    const nb::gil_scoped_release released;
    QCG_TRY(program, Program::load(path, options));
    auto out = std::make_shared<LoadedProgram>();
    out->methods = Program::methods(program);
    out->path = path;
    if (auto report = read_program_file(path + "/report.json"); report.ok()) out->report = std::move(*report);
    return out;
  };
  return value_of(loaded());
}

std::shared_ptr<Session::Shared> Session::make_threads(int threads) {
  auto out = std::make_shared<Shared>();
  out->pool = std::make_shared<ThreadPool>(PoolOptions{.threads = threads});
  return out;
}

std::shared_ptr<Session::Shared> Session::common_threads(int threads) {
  static auto& known = *new std::map<int, std::weak_ptr<Shared>>();  // under the GIL
  auto& weak = known[threads];
  if (auto shared = weak.lock()) return shared;
  auto made = make_threads(threads);
  weak = made;
  return made;
}

int checked_threads(int threads) {
  constexpr int kMostThreads = 4096;
  if (threads < 0 || threads > kMostThreads)
    raise({ErrorCode::Usage, "threads", "is " + std::to_string(threads), "give a number from 0 to 4096"});
  return threads;
}

Session::Session(std::shared_ptr<const LoadedProgram> program, int threads, Threads whose)
    : program_(std::move(program)) {
  checked_threads(threads);
  shared_ = whose == Threads::own ? make_threads(threads) : common_threads(threads);
  if (!program_->manifest().states.empty()) state_ = value_of(State::create(program_->methods[0]));
}

std::shared_ptr<Session> Session::clone() const {
  std::shared_ptr<Session> out(new Session());
  out->program_ = program_;
  out->shared_ = shared_;
  if (state_) out->state_ = value_of(state_->clone());
  return out;
}

Status Session::run(const std::shared_ptr<const Program>& method, std::span<const TensorView> inputs,
                    std::span<const TensorView> outputs, void* stream) {
  const std::lock_guard lock(shared_->turn);
  auto& context = contexts_[method.get()];
  if (!context) {
    QCG_TRY(made, Context::create(method, {.pool = shared_->pool}));
    context = std::move(made);
  }
  return state_ ? context->run(*state_, inputs, outputs, stream) : context->run(inputs, outputs, stream);
}

void Session::wait() {
  const auto wait_for_all = [&]() -> Status {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(shared_->turn);
    Status status;
    for (const auto& [method, context] : contexts_)
      if (const Status waited = context->wait(); status.ok()) status = waited;
    return status;
  };
  check(wait_for_all());
}

nb::object Session::call(const std::shared_ptr<const Program>& method, const nb::args& inputs,
                         const nb::kwargs& named) {
  using Access = BorrowedTensor::Access;
  const ProgramManifest& manifest = method->manifest();
  nb::handle out;
  const std::vector<nb::handle> given = order_inputs(manifest.inputs, inputs, named, out);
  Borrowed in(method->device_type()), to(method->device_type());
  for (size_t i = 0; i < given.size(); ++i)
    in.add(given[i], manifest.inputs[i].name, Access::read, manifest.inputs[i].dtype);
  const Framework& framework = framework_of(given);
  std::vector<nb::object> outputs;
  const bool is_given = out.is_valid() && !out.is_none();
  if (is_given) outputs = given_outputs(out, manifest.outputs);
  else {
    const auto shapes = value_of(method->output_shapes(in.views()));
    for (size_t i = 0; i < shapes.size(); ++i)
      outputs.push_back(framework.allocate(manifest.outputs[i].dtype, shapes[i], in.any_on_device()));
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    to.add(outputs[i], manifest.outputs[i].name, Access::write, manifest.outputs[i].dtype);
  void* const stream = stream_of(in, to);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = run(method, in.views(), to.views(), stream);
  }
  if (is_given)
    for (const nb::object& output : outputs) framework_of(output).note_write(output);
  check(status);
  if (is_given) return nb::borrow(out);
  for (nb::object& output : outputs) output = framework.adopt(std::move(output));
  return one_or_tuple(std::move(outputs));
}

void Session::reset() {
  if (state_) check(state_->reset());
}

TensorView Session::state_tensor(std::string_view name) const {
  if (state_ && state_->on_device())
    raise(Error::unsupported(std::string(name), "the state is on a device, where Python sees no memory",
                             "`qcodegen run --state-out` writes it to a file, qcg_state_read of the C API copies it"));
  if (state_) return value_of(state_->tensor(name));
  raise(Error::bad_input(std::string(name), "the program keeps no state", "program.states lists the tensors it keeps"));
}

}  // namespace qcg::python
