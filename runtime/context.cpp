#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <new>

#include "runtime/fault.h"
#include "runtime/host/default_floats.h"
#include "runtime/program.h"
#include "runtime/program_cuda.h"
#include "runtime/state.h"

namespace qcg {
namespace {

using BufferKind = ProgramManifest::BufferKind;
using Clock = std::chrono::steady_clock;

// `where`: a path in the manifest, which is said of damaged programs alone.
Error impossible_size(const std::string& where) {
  return Error::bad_input(where, "does not fit its buffer with these input shapes",
                          "the program is damaged: compile it again");
}

Error negative_size(const std::string& message) {
  return Error::bad_input("the inputs' sizes", message,
                          "give inputs of sizes that leave no axis of the model negative");
}

Error wrong_output(const std::string& name, const std::string& message) {
  return Error::bad_input("output '" + name + "'", message,
                          "allocate outputs as Program::output_shapes or qcg_output_shape says");
}

// The bytes of a tensor with these symbol values; nullopt if a size overflows or is negative.
std::optional<int64_t> tensor_bytes(const ProgramManifest::Tensor& tensor, std::span<const int64_t> values) {
  std::vector<int64_t> shape;
  for (const SizeExpr& extent : tensor.shape) {
    const auto value = extent.evaluate(values);
    if (!value) return std::nullopt;
    shape.push_back(*value);
  }
  return byte_count(shape, tensor.dtype);
}

// Whether two dense tensors overlap. Always false if one is strided: strided tensors may interleave without
// overlapping, such as the column blocks of one matrix.
bool share_memory(const TensorView& a, const TensorView& b) {
  const auto* a_data = static_cast<const std::byte*>(a.data);
  const auto* b_data = static_cast<const std::byte*>(b.data);
  const int64_t a_bytes = *byte_count(a.shape, a.dtype), b_bytes = *byte_count(b.shape, b.dtype);
  return a.on_device == b.on_device && a_bytes > 0 && b_bytes > 0 && std::less<>()(a_data, b_data + b_bytes) &&
         std::less<>()(b_data, a_data + a_bytes) && is_dense(a) && is_dense(b);
}

// By buffer: whether a kernel reads positions in it.
std::vector<bool> buffers_of_positions(const ProgramManifest& manifest) {
  std::vector<bool> out(manifest.buffers.size());
  for (const auto& step : manifest.steps)
    for (const auto& arg : step.args)
      if (arg.holds_positions()) out[static_cast<size_t>(arg.buffer)] = true;
  return out;
}

struct Temporaries {
  std::vector<int64_t> sizes;
  std::vector<Lifetime> lifetimes;
  std::vector<size_t> buffers;
};

Result<Temporaries> list_temporaries(const ProgramManifest& manifest, std::span<const int64_t> values) {
  Temporaries t;
  const std::vector<bool> has_positions = buffers_of_positions(manifest);
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    const auto& b = manifest.buffers[i];
    if (b.kind != BufferKind::temp) continue;
    const auto size = b.size.evaluate(values);
    const std::string where = "$.buffers[" + std::to_string(i) + "]";
    if (size && *size < 0) return negative_size("give " + where + " " + std::to_string(*size) + " bytes");
    if (!size) return impossible_size(where);
    t.sizes.push_back(*size);
    // Positions that a kernel of a device refuses are read when all kernels are done.
    const bool is_read_last = manifest.on_device() && has_positions[i];
    t.lifetimes.push_back({b.first, is_read_last ? static_cast<int>(manifest.steps.size()) - 1 : b.last});
    t.buffers.push_back(i);
  }
  return t;
}

// The elements from one row to the next if the caller's tensor is dense.
int64_t row_elements(const ProgramManifest& manifest, const ProgramManifest::Arg& arg,
                     std::span<const int64_t> values) {
  const auto& buffer = manifest.buffers[static_cast<size_t>(arg.buffer)];
  const auto& tensors = buffer.kind == BufferKind::input ? manifest.inputs : manifest.outputs;
  return tensors[static_cast<size_t>(buffer.index)].shape[1].evaluate(values).value_or(0);
}

// Whether a kernel can use the tensor in place: rows of consecutive elements, with any row stride that does not
// overlap.
bool has_plain_rows(const TensorView& view) {
  if (view.shape.size() != 2) return false;
  const bool dense_rows = view.strides[1] == 1 || view.shape[1] <= 1;
  return dense_rows && (view.strides[0] >= view.shape[1] || view.shape[0] <= 1);
}

// `fits`: a kernel can use these strides.
Status check_on_device(const TensorView& view, const std::string& where, bool has_device, bool fits) {
  if (!has_device)
    return Error::unsupported(where, "is on a device, the program runs on the CPU", "copy the tensor to the CPU");
  if (!is_aligned(view))
    return Error::unsupported(where,
                              "is on the device at an address that is no multiple of its element's " +
                                  std::to_string(dtype_bytes(view.dtype)) + " bytes",
                              "pass an aligned copy of it");
  if (!fits)
    return Error::unsupported(where, "is on the device with strides that kernels of this program do not use in place",
                              "pass a dense copy of it");
  return {};
}

// The first kernel that serves m rows; the number of kernels if none does.
size_t choose_kernel(const ProgramManifest::Step& step, int64_t m) {
  const auto serves = [m](const auto& choice) { return choice.m_max < 0 || m <= choice.m_max; };
  return static_cast<size_t>(std::ranges::find_if(step.kernels, serves) - step.kernels.begin());
}

// How far behind the weights of the first group those of the last lie, of the argument that has them.
int64_t bytes_of_other_groups(const ProgramManifest::Step& step, size_t arg) {
  if (!step.groups || static_cast<int>(arg) != step.groups->weights) return 0;
  int64_t out = 0;
  return __builtin_mul_overflow(step.groups->count - 1, step.groups->bytes, &out) ? INT64_MAX : out;
}

int64_t integer_at(const void* data, int64_t item, int64_t index) {
  int64_t wide = 0;
  int32_t narrow = 0;
  const auto* at = static_cast<const std::byte*>(data) + index * item;
  std::memcpy(item == 8 ? static_cast<void*>(&wide) : &narrow, at, static_cast<size_t>(item));
  return item == 8 ? wide : narrow;
}

// What lies this many rows behind an argument of rows.
void* row_of(const qcg_arg& arg, const Reach& reach, int64_t row) {
  return static_cast<std::byte*>(arg.data) + row * arg.stride * reach.item;
}

bool is_written_after(const ProgramManifest& manifest, int buffer, size_t step) {
  for (size_t s = step + 1; s < manifest.steps.size(); ++s)
    for (const auto& arg : manifest.steps[s].args)
      if (arg.buffer == buffer && (!arg.reach || arg.reach->writes)) return true;
  return false;
}

}  // namespace

Result<int64_t> arena_bytes(const ProgramManifest& manifest, std::span<const int64_t> symbol_values) {
  if (symbol_values.size() != manifest.symbols.size())
    return Error::internal("arena_bytes", "one value per symbol is needed");
  QCG_TRY(temps, list_temporaries(manifest, symbol_values));
  QCG_TRY(plan, plan_arena(temps.sizes, temps.lifetimes));
  return plan.peak_bytes;
}

Result<std::unique_ptr<Context>> Context::create(std::shared_ptr<const Program> program,
                                                 const ContextOptions& options) {
  try {
    std::unique_ptr<Context> context(new Context());
    if (program->device_) context->device_ = std::make_shared<CudaRun>(program->device_, program->manifest());
    const int threads = context->device_ ? 1 : options.threads;
    context->pool_ = options.pool
                         ? options.pool
                         : std::make_shared<ThreadPool>(PoolOptions{.threads = threads, .spin_us = options.spin_us});
    context->inputs_.resize(program->manifest().inputs.size());
    context->outputs_.resize(program->manifest().outputs.size());
    context->profile_ = options.profile;
    context->program_ = std::move(program);
    return context;
  } catch (const std::exception& e) {
    return Error::io("context", std::string("cannot be created: ") + e.what(), "free memory or use fewer threads");
  }
}

Context::~Context() {
  // The memory must outlive the runs that use it. What they report has nobody to hear it.
  if (device_) (void)device_->wait();
}

Status Context::run(std::span<const TensorView> inputs, std::span<const TensorView> outputs, void* stream) {
  if (!program_->manifest().states.empty())
    return Error::bad_input("run", "the program has state, and none was given",
                            "create one (qcg_state_create) and pass it to each run (qcg_run_state)");
  return run_guarded(inputs, outputs, stream);
}

Status Context::run(State& state, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                    void* stream) {
  if (!state.program_->shares_state_with(*program_))
    return Error::bad_input("state", "belongs to another program",
                            "create states from the program that the context was created from");
  QCG_TRY(hold, State::Hold::take(state, true, "this run did not start"));
  QCG_CHECK(state.check_defined());
  state_ = &state;
  Status status = run_guarded(inputs, outputs, stream);
  state_ = nullptr;
  return status;
}

Status Context::run_guarded(std::span<const TensorView> inputs, std::span<const TensorView> outputs, void* stream) {
  const DefaultFloats floats;
  try {
    return run_checked(inputs, outputs, stream);
  } catch (const std::exception& e) {
    return Error::io("run", e.what(), "free memory");
  }
}

Status Context::run_checked(std::span<const TensorView> inputs, std::span<const TensorView> outputs, void* stream) {
  const ProgramManifest& m = program_->manifest();
  if (stream != nullptr && !device_)
    return Error::unsupported("stream", "is not NULL, but the program runs on the CPU",
                              "pass NULL; outputs are complete on return");
  QCG_CHECK(bind(inputs));
  QCG_CHECK(check_count("outputs", std::ssize(outputs), m.outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i) QCG_CHECK(check_output(i, outputs[i]));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].data == nullptr && *byte_count(inputs[i].shape, inputs[i].dtype) > 0)
      return Error::bad_input("input '" + m.inputs[i].name + "'", "has no data", "pass a pointer to its elements");
    QCG_CHECK(place(inputs[i], "input", m.inputs[i].name, m.input_needs_dense[i], inputs_[i]));
    if (inputs_[i].staged) copy_to_dense(inputs[i], inputs_[i].data);
  }
  QCG_CHECK(check_apart(inputs, outputs));
  for (size_t i = 0; i < outputs.size(); ++i)
    QCG_CHECK(place(outputs[i], "output", m.outputs[i].name, m.output_needs_dense[i], outputs_[i]));

  const bool may_wait = profile_ || !m.reads.empty();
  if (stream != nullptr && !may_wait && std::ranges::all_of(outputs_, &Slot::on_device)) return queue_run(stream);
  QCG_CHECK(run_and_wait(stream));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs_[i].staged) copy_from_dense(outputs_[i].data, outputs[i]);
  return {};
}

Status Context::run_and_wait(void* stream) {
  if (device_) {
    QCG_CHECK(wait());
    QCG_CHECK(device_->use(stream, state_ != nullptr ? state_->queued_ : nullptr));
    QCG_CHECK(copy_to_device());
  }
  if (state_ != nullptr) *state_->defined_ = false;
  QCG_CHECK(run_steps(true));
  if (device_) QCG_CHECK(copy_from_device());
  if (state_ != nullptr) *state_->defined_ = true;
  return {};
}

Status Context::queue_run(void* stream) {
  QCG_CHECK(device_->use(stream, state_ != nullptr ? state_->queued_ : nullptr));
  Status queued = copy_to_device();
  if (queued.ok()) {
    if (state_ != nullptr) *state_->defined_ = false;
    queued = run_steps(false);
    if (queued.ok() && state_ != nullptr) *state_->defined_ = true;
  }
  const Status marked = device_->mark_queued();
  if (state_ != nullptr) {
    state_->queued_ = device_->queued();
    if (!std::ranges::count(queued_states_, state_->defined_)) queued_states_.push_back(state_->defined_);
  }
  QCG_CHECK(queued);
  return marked;
}

Status Context::wait() {
  if (!device_) return {};
  const auto states = std::exchange(queued_states_, {});
  const auto refusal = device_->wait();
  if (refusal.ok() && !*refusal) return {};
  for (const auto& defined : states) *defined = false;
  if (!refusal.ok()) return refusal.error();
  return describe_fault(program_->manifest(), (*refusal)->step, (*refusal)->position);
}

Status Context::check_apart(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const {
  const ProgramManifest& m = program_->manifest();
  // A view of the block that holds all tensors of the state.
  const std::array<int64_t, 1> state_shape = {state_ != nullptr ? m.state_bytes : 0};
  const TensorView state{state_ != nullptr ? state_->base() : nullptr, DType::u8, state_shape, {}, device_ != nullptr};
  for (size_t i = 0; i < inputs.size(); ++i)
    if (share_memory(inputs[i], state))
      return Error::bad_input("input '" + m.inputs[i].name + "'", "overlaps the state of the run", "pass a copy of it");
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string other = share_memory(outputs[i], state) ? "the state of the run" : "";
    for (size_t j = 0; j < inputs.size(); ++j)
      if (share_memory(outputs[i], inputs[j])) other = "input '" + m.inputs[j].name + "'";
    for (size_t j = 0; j < i; ++j)
      if (share_memory(outputs[i], outputs[j])) other = "output '" + m.outputs[j].name + "'";
    if (!other.empty())
      return Error::bad_input("output '" + m.outputs[i].name + "'", "overlaps " + other,
                              "give every output memory of its own");
  }
  return {};
}

// Puts the binding for these inputs first.
Status Context::bind(std::span<const TensorView> inputs) {
  QCG_TRY(values, program_->bind_symbols(inputs));
  auto known = std::ranges::find_if(bindings_, [&](const auto& b) { return b->symbol_values == values; });
  if (known == bindings_.end()) {
    auto binding = std::make_unique<Binding>();
    binding->symbol_values = std::move(values);
    QCG_CHECK(bind_buffers(*binding));
    QCG_CHECK(bind_steps(*binding));
    QCG_TRY(shapes, program_->output_shapes(inputs));
    binding->output_shapes = std::move(shapes);
    if (device_) binding->calls = std::make_shared<CudaCalls>();
    if (bindings_.size() == kBindings) bindings_.pop_back();
    known = bindings_.insert(bindings_.end(), std::move(binding));
  }
  std::rotate(bindings_.begin(), known, known + 1);
  return device_ ? device_->reserve_arena(arena_bytes()) : arena_.reserve(arena_bytes());
}

Status Context::bind_buffers(Binding& binding) const {
  const ProgramManifest& m = program_->manifest();
  binding.buffer_bytes.assign(m.buffers.size(), 0);
  binding.arena_offsets.assign(m.buffers.size(), 0);
  for (size_t i = 0; i < m.buffers.size(); ++i) {
    const auto& b = m.buffers[i];
    if (b.kind == BufferKind::weights) binding.buffer_bytes[i] = b.bytes;
    if (b.kind == BufferKind::state) binding.buffer_bytes[i] = m.states[static_cast<size_t>(b.index)].bytes;
    if (b.kind != BufferKind::input && b.kind != BufferKind::output) continue;
    const auto& tensors = b.kind == BufferKind::input ? m.inputs : m.outputs;
    const auto bytes = tensor_bytes(tensors[static_cast<size_t>(b.index)], binding.symbol_values);
    if (!bytes) return impossible_size("$.buffers[" + std::to_string(i) + "]");
    binding.buffer_bytes[i] = *bytes;
  }
  QCG_TRY(temps, list_temporaries(m, binding.symbol_values));
  QCG_TRY(plan, plan_arena(temps.sizes, temps.lifetimes));
  for (size_t t = 0; t < temps.buffers.size(); ++t) {
    binding.buffer_bytes[temps.buffers[t]] = temps.sizes[t];
    binding.arena_offsets[temps.buffers[t]] = plan.offsets[t];
  }
  binding.arena_bytes = plan.peak_bytes;
  for (const auto& read : m.reads)
    if (binding.buffer_bytes[static_cast<size_t>(read.buffer)] < ProgramManifest::kReadBytes)
      return impossible_size("$.buffers[" + std::to_string(read.buffer) + "]");
  return {};
}

Status Context::bind_steps(Binding& binding) const {
  const ProgramManifest& m = program_->manifest();
  binding.steps.assign(m.steps.size(), {});
  for (size_t s = 0; s < m.steps.size(); ++s)
    if (!m.steps[s].uses_reads) QCG_CHECK(bind_step(binding, s, binding.symbol_values, binding.steps[s]));
  return {};
}

Status Context::bind_step(const Binding& binding, size_t index, std::span<const int64_t> symbol_values,
                          BoundStep& bound) const {
  const ProgramManifest& m = program_->manifest();
  const auto& step = m.steps[index];
  const std::string where = "$.steps[" + std::to_string(index) + "]";
  for (const SizeExpr& param : step.params) {
    const auto value = param.evaluate(symbol_values);
    if (!value) return impossible_size(where + ".params");
    bound.params.push_back(*value);
  }
  bound.choice = bound.params.empty() ? 0 : choose_kernel(step, bound.params[0]);
  if (bound.choice == step.kernels.size())
    return Error::unsupported(where + " " + step.name, "has no kernel for m = " + std::to_string(bound.params[0]),
                              "compile the program for more rows");
  if (!device_) bound.kernel = program_->steps_[index].kernels[bound.choice];
  for (const auto& arg : step.args) {
    const auto offset = arg.offset.evaluate(symbol_values);
    const auto stride = arg.stride ? arg.stride->evaluate(symbol_values) : std::optional<int64_t>(0);
    const int64_t bytes = binding.buffer_bytes[static_cast<size_t>(arg.buffer)];
    if (!offset || !stride) return impossible_size(where + ".args");
    const int64_t row_stride = arg.stride || !arg.reach ? *stride : row_elements(m, arg, symbol_values);
    const int64_t least = arg.reach ? least_extent(*arg.reach, bound.params, row_stride) : 1;
    // No elements lie at the start of the buffer: along an axis that is walked backwards their offset may be negative.
    const int64_t at = bytes == 0 || least == 0 ? 0 : *offset;
    const bool fits = at >= 0 && at <= bytes &&
                      (!arg.reach || is_within(*arg.reach, bound.params, row_stride, at,
                                               bytes - bytes_of_other_groups(step, bound.args.size())));
    const std::string place = where + ".args[" + std::to_string(bound.args.size()) + "]";
    if (!fits && least < 0) return negative_size("give " + place + " " + std::to_string(least) + " elements");
    if (!fits) return impossible_size(place);
    bound.offsets.push_back(at);
    bound.args.push_back({nullptr, *stride});
  }
  return {};
}

// Binds a step that uses sizes which the run has read by now, unless the last run has bound it for the same ones.
Status Context::bind_to_run(size_t index) {
  BoundStep& step = bindings_[0]->steps[index];
  if (step.symbol_values == run_values_) return {};
  step = {};
  QCG_CHECK(bind_step(bound(), index, run_values_, step));
  step.symbol_values = run_values_;
  return {};
}

std::span<const int64_t> Context::run_values() const {
  return program_->manifest().reads.empty() ? bound().symbol_values : run_values_;
}

Status Context::check_output(size_t index, const TensorView& view) const {
  const auto& expected = program_->manifest().outputs[index];
  const auto& shape = bound().output_shapes[index];
  if (view.dtype != expected.dtype)
    return wrong_output(expected.name, "has dtype " + std::string(dtype_name(view.dtype)) + ", the program writes " +
                                           std::string(dtype_name(expected.dtype)));
  if (!std::equal(shape.begin(), shape.end(), view.shape.begin(), view.shape.end()))
    return wrong_output(expected.name,
                        "has shape " + shape_text(view.shape) + ", the program writes " + shape_text(shape));
  if (!view.strides.empty() && view.strides.size() != shape.size())
    return wrong_output(expected.name, "has " + std::to_string(view.strides.size()) + " strides for " +
                                           std::to_string(shape.size()) + " axes");
  for (size_t axis = 0; axis < view.strides.size(); ++axis)
    if (view.strides[axis] == 0 && shape[axis] > 1)
      return wrong_output(expected.name,
                          "has stride 0 on axis " + std::to_string(axis) + ", so that its elements overlap");
  if (view.data == nullptr && *byte_count(shape, expected.dtype) > 0) return wrong_output(expected.name, "has no data");
  return {};
}

// Decides whether kernels use the caller's memory or a dense copy. A device gets copies of the host's tensors.
Status Context::place(const TensorView& view, const char* kind, const std::string& name, bool needs_dense, Slot& slot) {
  const bool dense = is_dense(view), copied_to_device = device_ && !view.on_device;
  const bool fits = dense || (!needs_dense && !copied_to_device && has_plain_rows(view));
  if (view.on_device) QCG_CHECK(check_on_device(view, std::string(kind) + " '" + name + "'", device_ != nullptr, fits));
  slot.staged = !is_aligned(view) || !fits;
  slot.on_device = view.on_device;
  slot.row_stride = view.shape.size() == 2 ? view.shape[1] : 0;
  if (slot.staged) {
    QCG_CHECK(slot.staging.reserve(*byte_count(view.shape, view.dtype)));
    slot.data = slot.staging.data();
    return {};
  }
  slot.data = static_cast<std::byte*>(view.data);
  if (!dense) slot.row_stride = view.strides[0];
  return {};
}

std::byte* Context::buffer_data(int buffer) const {
  const auto& b = program_->manifest().buffers[static_cast<size_t>(buffer)];
  switch (b.kind) {
    case BufferKind::input: return inputs_[static_cast<size_t>(b.index)].data;
    case BufferKind::output: return outputs_[static_cast<size_t>(b.index)].data;
    // The ABI has one pointer type for reading and writing; kernels only read weights.
    case BufferKind::weights: return const_cast<std::byte*>(program_->weights()) + b.offset;
    case BufferKind::state: return state_->data(b.index);
    case BufferKind::temp: return arena_.data() + bound().arena_offsets[static_cast<size_t>(buffer)];
  }
  return nullptr;
}

std::byte* Context::device_data(int buffer) const {
  const auto& b = program_->manifest().buffers[static_cast<size_t>(buffer)];
  if (b.kind == BufferKind::state) return state_->data(b.index);
  if (b.kind == BufferKind::input || b.kind == BufferKind::output) {
    const Slot& slot = (b.kind == BufferKind::input ? inputs_ : outputs_)[static_cast<size_t>(b.index)];
    if (slot.on_device) return slot.data;
  }
  return device_->address(b, bound().arena_offsets[static_cast<size_t>(buffer)]);
}

Status Context::copy_to_device() {
  const ProgramManifest& m = program_->manifest();
  for (size_t b = 0; b < m.buffers.size(); ++b) {
    const auto index = static_cast<size_t>(m.buffers[b].index);
    if (m.buffers[b].kind == BufferKind::input && !inputs_[index].on_device)
      QCG_CHECK(device_->copy_in(index, inputs_[index].data, bound().buffer_bytes[b]));
    if (m.buffers[b].kind == BufferKind::output && !outputs_[index].on_device)
      QCG_CHECK(device_->reserve_output(index, bound().buffer_bytes[b]));
  }
  return {};
}

Status Context::copy_from_device() {
  const ProgramManifest& m = program_->manifest();
  for (size_t b = 0; b < m.buffers.size(); ++b) {
    const auto index = static_cast<size_t>(m.buffers[b].index);
    if (m.buffers[b].kind == BufferKind::output && !outputs_[index].on_device)
      QCG_CHECK(device_->copy_out(index, outputs_[index].data, bound().buffer_bytes[b]));
  }
  return {};
}

Status Context::run_steps(bool waits) {
  const ProgramManifest& m = program_->manifest();
  std::vector<BoundStep>& steps = bindings_[0]->steps;
  const bool reads_sizes = !m.reads.empty();
  run_profile_ = {};
  if (profile_) run_profile_.steps.resize(steps.size()), recorder_.begin_run();
  if (device_) device_->begin();
  if (reads_sizes) run_values_ = bound().symbol_values;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (reads_sizes) QCG_CHECK(read_symbols(s));
    if (m.steps[s].uses_reads) QCG_CHECK(bind_to_run(s));
    BoundStep& step = steps[s];
    for (size_t a = 0; a < step.args.size(); ++a) {
      const auto& arg = m.steps[s].args[a];
      // An empty tensor may have a null pointer, which must not be offset; kernels have no items for it.
      const auto& b = m.buffers[static_cast<size_t>(arg.buffer)];
      std::byte* const data = device_ ? device_data(arg.buffer) : buffer_data(arg.buffer);
      step.args[a].data = data == nullptr ? nullptr : data + step.offsets[a];
      if (arg.stride) continue;
      step.args[a].stride = (b.kind == BufferKind::input ? inputs_ : outputs_)[static_cast<size_t>(b.index)].row_stride;
    }
    if (profile_ && !step.bytes) step.bytes = bytes_of(s, step);
    const double begin_us = profile_ ? recorder_.since_begin_us() : 0;
    QCG_CHECK(device_ ? device_->add(s, step.choice, step.args, step.params) : run_on_cpu(s));
    if (!profile_) continue;
    if (device_) QCG_CHECK(run_on_device(nullptr));
    const double us = recorder_.since_begin_us() - begin_us;
    run_profile_.steps[s] = {begin_us, us, *step.bytes, step.choice, recorder_.take_spans()};
  }
  if (profile_) run_profile_.us = recorder_.since_begin_us();
  if (!device_ || profile_) return {};
  CudaCalls* const last = reads_sizes ? nullptr : bindings_[0]->calls.get();  // most steps have run by now
  return waits ? run_on_device(last) : device_->queue(last);
}

double Context::bytes_of(size_t index, const BoundStep& step) const {
  std::vector<Reach> reaches;
  std::vector<int64_t> strides;
  for (const auto& arg : program_->manifest().steps[index].args) {
    if (!arg.reach) return 0;
    strides.push_back(step.args[reaches.size()].stride);
    reaches.push_back(*arg.reach);
  }
  return bytes_moved(reaches, step.params, strides);
}

// With the positions of the step on the host, unless a later step has written over them.
Status Context::describe_device_fault(size_t index, int64_t position) const {
  const ProgramManifest& m = program_->manifest();
  const BoundStep& step = bindings_[0]->steps[index];
  std::vector<std::vector<std::byte>> copies;
  std::vector<qcg_arg> args = step.args;
  for (size_t a = 0; a < args.size(); ++a) {
    const ProgramManifest::Arg& arg = m.steps[index].args[a];
    if (!arg.holds_positions()) continue;
    if (is_written_after(m, arg.buffer, index)) return describe_fault(m, index, position);
    auto& copy = copies.emplace_back(static_cast<size_t>(bound().buffer_bytes[static_cast<size_t>(arg.buffer)]));
    const auto* const begin = static_cast<const std::byte*>(args[a].data) - step.offsets[a];
    QCG_CHECK(device_->copy_out_at(copy.data(), begin, std::ssize(copy)));
    args[a].data = copy.data() + step.offsets[a];
  }
  return describe_fault(m, index, args, step.params, run_values(), position);
}

Status Context::run_on_device(CudaCalls* last) {
  QCG_TRY(refusal, device_->start(last));
  return refusal ? describe_device_fault(refusal->step, refusal->position) : Status();
}

Status Context::run_on_cpu(size_t index) {
  BoundStep& step = bindings_[0]->steps[index];
  Status status = program_->manifest().steps[index].groups ? run_groups(index) : run_on_pool(step);
  if (status.ok() || !workspace_.refused) return status;
  return describe_fault(program_->manifest(), index, step.args, step.params, run_values(), *workspace_.refused);
}

// Runs a step on the pool or on the calling thread alone. Results are the same, so only time decides.
Status Context::run_on_pool(BoundStep& step) {
  constexpr int kTrials = 8;          // runs that alternate between both ways, four each
  constexpr double kTinyStepUs = 20;  // longer steps always use the pool
  const bool undecided = step.trials < kTrials && pool_->threads() > 1;
  const bool alone = undecided ? (step.trials & 1) != 0 && step.best_us[0] < kTinyStepUs : step.alone;

  const auto start = undecided ? Clock::now() : Clock::time_point();
  QCG_CHECK(run_kernel(alone ? alone_ : *pool_, *step.kernel, {step.args.data(), step.params.data(), nullptr},
                       workspace_, profile_ ? &recorder_ : nullptr));
  if (undecided) {
    const double elapsed_us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    step.best_us[alone] = std::min(step.best_us[alone], elapsed_us);
    if (++step.trials == kTrials) step.alone = step.best_us[1] < step.best_us[0];
  }
  return {};
}

// Each group's rows with its weights, in turn. A row belongs to the first group that ends behind it; rows of none are 0.
Status Context::run_groups(size_t index) {
  const ProgramManifest::Step& step = program_->manifest().steps[index];
  BoundStep& bound = bindings_[0]->steps[index];
  const int64_t rows = bound.params[0], item = step.args.back().reach->item;
  const auto weights = static_cast<size_t>(step.groups->weights);
  std::vector<qcg_arg> args = bound.args;
  std::vector<int64_t> params = bound.params;
  int64_t begin = 0, active = 0;
  for (int64_t g = 0; g < step.groups->count && begin < rows; ++g) {
    const int64_t end = std::min(rows, integer_at(bound.args.back().data, item, g));
    if (end <= begin) continue;
    for (size_t a = 0; a < args.size(); ++a)
      if (is_by_row(*step.args[a].reach)) args[a].data = row_of(bound.args[a], *step.args[a].reach, begin);
    args[weights].data = static_cast<std::byte*>(bound.args[weights].data) + g * step.groups->bytes;
    params[0] = end - begin;
    QCG_CHECK(run_kernel(*pool_, *program_->steps_[index].kernels[choose_kernel(step, end - begin)],
                         {args.data(), params.data(), nullptr}, workspace_, profile_ ? &recorder_ : nullptr));
    begin = end;
    ++active;
  }
  for (size_t a = 0; a < args.size(); ++a) {
    const Reach& reach = *step.args[a].reach;
    for (int64_t row = begin; reach.writes && row < rows; ++row)
      std::memset(row_of(bound.args[a], reach, row), 0, static_cast<size_t>(reach.axes[1].extent.value * reach.item));
  }
  if (profile_) bound.bytes = bytes_of(index, bound) + static_cast<double>((active - 1) * step.groups->bytes);
  return {};
}

}  // namespace qcg
