#include "runtime/state.h"

#include <cstring>
#include <string>

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
  QCG_TRY(block, AlignedBuffer::allocate(state->program_->manifest().state_bytes));
  state->block_ = std::move(block);
  state->fill();
  return state;
}

// Fills all tensors with their initial values. Clearing first is cheap: a large block then takes no memory until it is
// written.
void State::fill() {
  block_.clear();
  const ProgramManifest& manifest = program_->manifest();
  for (const auto& tensor : manifest.states)
    if (tensor.initial && tensor.bytes > 0)
      std::memcpy(block_.data() + tensor.place, program_->weights() + *tensor.initial,
                  static_cast<size_t>(tensor.bytes));
  defined_ = true;
}

Status State::reset() {
  QCG_TRY(hold, Hold::take(*this, true, "it cannot be reset"));
  fill();
  return {};
}

Status State::check_defined() const {
  if (defined_) return {};
  return Error::bad_input("state", "is undefined: a run on it failed before its last step",
                          "reset it, or go on with a clone that was made before");
}

Result<std::unique_ptr<State>> State::clone() const {
  QCG_TRY(hold, Hold::take(*this, false, "it cannot be cloned"));
  QCG_CHECK(check_defined());
  std::unique_ptr<State> copy(new State(program_));
  QCG_TRY(block, AlignedBuffer::allocate(block_.bytes()));
  copy->block_ = std::move(block);
  if (block_.bytes() > 0) std::memcpy(copy->block_.data(), block_.data(), static_cast<size_t>(block_.bytes()));
  return copy;
}

Result<TensorView> State::tensor(std::string_view name) const {
  QCG_TRY(hold, Hold::take(*this, false, "it cannot be read"));
  QCG_CHECK(check_defined());
  const auto& states = program_->manifest().states;
  std::string names;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].name == name) return TensorView{data(static_cast<int>(i)), states[i].dtype, states[i].shape, {}};
    names += (i == 0 ? "" : ", ") + states[i].name;
  }
  return Error::bad_input("state", "has no tensor '" + std::string(name) + "'",
                          "it has " + (names.empty() ? "none" : names));
}

std::byte* State::data(int index) const {
  return block_.data() + program_->manifest().states[static_cast<size_t>(index)].place;
}

}  // namespace qcg
