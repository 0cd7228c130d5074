#include "runtime/state.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/program_cuda.h"

namespace qcg {

Result<State::Hold> State::Hold::take(const State& state, bool to_write, const char* what) {
  int users = state.users_.load(std::memory_order_relaxed);
  do {
    if (users < 0 || (to_write && users > 0))
      return Error::bad_input(
          "state", std::string("is in use by another call, so ") + what,
          "a state serves one run at a time: wait for the other call, or give each sequence its own state");
  } while (!state.users_.compare_exchange_weak(users, to_write ? -1 : users + 1, std::memory_order_acquire));
  return Hold(&state, to_write);
}

State::Hold::~Hold() {
  if (state_ != nullptr) state_->users_.fetch_add(to_write_ ? 1 : -1, std::memory_order_release);
}

Result<std::unique_ptr<State>> State::create(std::shared_ptr<const Program> program) {
  std::unique_ptr<State> state(new State(std::move(program)));
  QCG_CHECK(state->allocate(state->program_->manifest().state_bytes));
  QCG_CHECK(state->fill());
  return state;
}

State::~State() { (void)wait(); }  // the memory must outlive the runs that use it

bool State::on_device() const { return program_->image_->device != nullptr; }

Status State::allocate(int64_t bytes) {
  if (on_device()) {
    QCG_TRY(block, program_->image_->device->driver().allocate(static_cast<size_t>(bytes)));
    device_block_ = std::move(block);
    return {};
  }
  QCG_TRY(block, AlignedBuffer::allocate(bytes));
  block_ = std::move(block);
  return {};
}

// Fills all tensors with their initial values. Clearing first is cheap: a large block then takes no memory until it is
// written.
Status State::fill() {
  defined_ = std::make_shared<std::atomic<bool>>(false);
  if (on_device()) QCG_CHECK(program_->image_->device->driver().clear(device_block_));
  block_.clear();
  const auto& states = program_->manifest().states;
  for (size_t i = 0; i < states.size(); ++i)
    if (states[i].initial && states[i].bytes > 0)
      QCG_CHECK(copy(data(static_cast<int>(i)), initial_data(*states[i].initial), states[i].bytes));
  QCG_CHECK(finish_copies());
  *defined_ = true;
  return {};
}

Status State::wait() const { return queued_ ? program_->image_->device->driver().wait_for(queued_) : Status(); }

// Streams of the caller need not wait for the default stream, which copies.
Status State::finish_copies() const {
  return on_device() ? program_->image_->device->driver().synchronize(nullptr) : Status();
}

const std::byte* State::initial_data(int64_t offset) const {
  return on_device() ? program_->image_->device->weights_at(offset) : program_->weights() + offset;
}

Status State::copy(std::byte* to, const std::byte* from, int64_t bytes) const {
  const auto size = static_cast<size_t>(bytes);
  if (on_device()) return program_->image_->device->driver().copy_on_device(to, from, size);
  if (size > 0) std::memcpy(to, from, size);
  return {};
}

Status State::reset() {
  QCG_TRY(hold, Hold::take(*this, true, "it cannot be reset"));
  QCG_CHECK(wait());
  return fill();
}

Status State::check_defined() const {
  if (*defined_) return {};
  return Error::bad_input("state", "is undefined: a run on it failed before its last step",
                          "reset it, or go on with a clone that was made before");
}

Result<std::unique_ptr<State>> State::clone() const {
  QCG_TRY(hold, Hold::take(*this, false, "it cannot be cloned"));
  QCG_CHECK(wait());
  QCG_CHECK(check_defined());
  std::unique_ptr<State> out(new State(program_));
  const int64_t bytes = program_->manifest().state_bytes;
  QCG_CHECK(out->allocate(bytes));
  QCG_CHECK(copy(out->base(), base(), bytes));
  QCG_CHECK(finish_copies());
  return out;
}

// The index of a tensor, of `bytes` bytes unless that is negative.
Result<int> State::find(std::string_view name, int64_t bytes) const {
  const auto& states = program_->manifest().states;
  std::string names;
  for (size_t i = 0; i < states.size(); ++i) {
    names += (i == 0 ? "" : ", ") + states[i].name;
    if (states[i].name != name) continue;
    if (bytes < 0 || bytes == states[i].bytes) return static_cast<int>(i);
    return Error::bad_input("state '" + states[i].name + "'",
                            "has " + std::to_string(states[i].bytes) + " bytes, not " + std::to_string(bytes),
                            "give memory for all of it, dense");
  }
  return Error::bad_input("state", "has no tensor '" + std::string(name) + "'",
                          "it has " + (names.empty() ? "none" : names));
}

Result<TensorView> State::tensor(std::string_view name) const {
  QCG_TRY(hold, Hold::take(*this, false, "it cannot be read"));
  QCG_CHECK(check_defined());
  QCG_TRY(index, find(name, -1));
  const auto& state = program_->manifest().states[static_cast<size_t>(index)];
  return TensorView{data(index), state.dtype, state.shape, {}, on_device()};
}

Status State::read(std::string_view name, void* to, int64_t bytes) const {
  QCG_TRY(hold, Hold::take(*this, false, "it cannot be read"));
  QCG_CHECK(wait());
  QCG_CHECK(check_defined());
  bytes = std::max<int64_t>(bytes, 0);
  QCG_TRY(index, find(name, bytes));
  if (on_device()) return program_->image_->device->driver().copy_out_at(to, data(index), static_cast<size_t>(bytes));
  if (bytes > 0) std::memcpy(to, data(index), static_cast<size_t>(bytes));
  return {};
}

Status State::write(std::string_view name, const void* from, int64_t bytes) {
  QCG_TRY(hold, Hold::take(*this, true, "it cannot be written"));
  QCG_CHECK(wait());
  QCG_CHECK(check_defined());
  bytes = std::max<int64_t>(bytes, 0);
  QCG_TRY(index, find(name, bytes));
  if (on_device()) {
    QCG_CHECK(program_->image_->device->driver().copy_in_at(data(index), from, static_cast<size_t>(bytes)));
    return finish_copies();
  }
  if (bytes > 0) std::memcpy(data(index), from, static_cast<size_t>(bytes));
  return {};
}

std::byte* State::base() const { return on_device() ? static_cast<std::byte*>(device_block_.data()) : block_.data(); }

std::byte* State::data(int index) const {
  return base() + program_->manifest().states[static_cast<size_t>(index)].place;
}

}  // namespace qcg
