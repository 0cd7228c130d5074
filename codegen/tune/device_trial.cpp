#include "codegen/tune/device_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "codegen/trial/trial.h"

namespace qcg {

using nlohmann::json;

namespace {

constexpr double kAskTimeout_s = 60;  // a driver's first start may take long
constexpr double kSample_s = 1e-3;    // of launches in a graph
constexpr int kMostLaunches = 200;
constexpr size_t kCopyOfL2 = 16;  // the copy that measures memory is so many times L2
constexpr int kCopies = 5;

DeviceApi api_of(Isa isa) { return isa_info(isa).device == Device::hip ? DeviceApi::hip : DeviceApi::cuda; }

// Multiplications and additions that tensor cores of a multiprocessor do in a cycle, and its f32 lanes. Source: NVIDIA's
// architecture papers of A100 and H100.
struct Rates {
  double f32, bf16, int8, float8;
};
Rates rates_of(Isa isa) { return isa == Isa::sm_90a ? Rates{256, 4096, 8192, 8192} : Rates{128, 2048, 4096, 0}; }

// Bytes per second of copies within the device's memory, read and written.
Result<double> copy_rate(CudaDriver& driver, int64_t l2_bytes) {
  const size_t bytes = kCopyOfL2 * static_cast<size_t>(std::max<int64_t>(l2_bytes, 1 << 20));
  QCG_TRY(from, driver.allocate(bytes));
  QCG_TRY(to, driver.allocate(bytes));
  QCG_CHECK(driver.clear(from));
  double best = 0;
  for (int i = 0; i < kCopies; ++i) {
    const double begin = now_s();
    QCG_CHECK(driver.copy_on_device(to.data(), from.data(), bytes));
    std::byte last;  // it waits for the copy
    QCG_CHECK(driver.copy_out_at(&last, static_cast<std::byte*>(to.data()) + bytes - 1, 1));
    best = std::max(best, 2.0 * static_cast<double>(bytes) / (now_s() - begin));
  }
  return best;
}

// In a process of its own: the driver does not survive a fork.
Result<json> ask_device(Isa isa) {
  QCG_TRY(driver, CudaDriver::load(api_of(isa)));
  const std::string lacks = driver->why_lacks(isa_info(isa).name);
  if (!lacks.empty()) return json{{"missing", lacks}};
  QCG_TRY(facts, driver->properties());
  QCG_TRY(rate, copy_rate(*driver, facts.l2_bytes));
  return json{{"name", driver->device_name()},
              {"multiprocessors", facts.multiprocessors},
              {"clock_hz", facts.clock_hz},
              {"copy_Bps", rate}};
}

DeviceFacts read_facts(Isa isa, const json& answer) {
  DeviceFacts out;
  const auto number = [&](const char* name) {
    return answer.contains(name) && answer[name].is_number() ? answer[name].get<double>() : 0.0;
  };
  const auto text = [&](const char* name) {
    return answer.contains(name) && answer[name].is_string() ? answer[name].get<std::string>() : std::string();
  };
  out.missing = text("missing"), out.name = text("name");
  const double cycles = number("multiprocessors") * number("clock_hz") / 1e9;
  const Rates rates = rates_of(isa);
  out.ceilings.isa = isa;
  out.ceilings.read_gbps = number("copy_Bps") / 1e9;
  out.ceilings.peak_gflops_f32 = rates.f32 * cycles, out.ceilings.peak_gflops_bf16 = rates.bf16 * cycles;
  out.ceilings.peak_gops_int8 = rates.int8 * cycles, out.ceilings.peak_gflops_float8 = rates.float8 * cycles;
  return out;
}

DeviceFacts find_facts(Isa isa) {
  DeviceFacts none;
  if (isa_info(isa).device == Device::hip) return none.missing = "kernels of HIP are tried on no device", none;
  const auto work = [&](ChildReport& report) {
    const Result<json> answer = ask_device(isa);
    report.send((answer.ok() ? *answer : json{{"missing", answer.error().message}})
                    .dump(-1, ' ', false, json::error_handler_t::replace));
  };
  const Result<ChildResult> child = run_in_child(kAskTimeout_s, work);
  if (!child.ok()) return none.missing = child.error().message, none;
  if (!child->failure.empty() || child->messages.empty())
    return none.missing = "the driver does not answer: " + child->failure, none;
  const json answer = json::parse(child->messages[0], nullptr, false);
  if (!answer.is_object()) return none.missing = "the driver's answer cannot be read", none;
  return read_facts(isa, answer);
}

std::byte* at(const CudaBuffer& buffer, int64_t bytes = 0) { return static_cast<std::byte*>(buffer.data()) + bytes; }

}  // namespace

CudaGrid grid_of(const CudaLaunch& launch, std::span<const int64_t> params) {
  return {static_cast<uint32_t>(launch.blocks(params)), static_cast<uint32_t>(launch.column_tiles),
          static_cast<uint32_t>(launch.threads), static_cast<uint32_t>(launch.shared_bytes)};
}

std::vector<std::byte> parameter_of(const std::vector<qcg_arg>& args, std::span<const int64_t> numbers) {
  std::vector<std::byte> out(args.size() * sizeof(qcg_arg) + numbers.size() * sizeof(int64_t));
  std::memcpy(out.data(), args.data(), args.size() * sizeof(qcg_arg));
  std::memcpy(out.data() + args.size() * sizeof(qcg_arg), numbers.data(), numbers.size() * sizeof(int64_t));
  return out;
}

DeviceFacts device_facts(Isa isa) {
  static std::mutex mutex;
  static std::map<Isa, DeviceFacts> asked;
  const std::lock_guard lock(mutex);
  DeviceFacts& facts = asked.try_emplace(isa).first->second;
  if (facts.name.empty()) facts = find_facts(isa);
  return facts;
}

std::string why_not_here(const Target& target) {
  return target.device == Device::cpu ? why_isa_unavailable(target.isa) : device_facts(target.isa).missing;
}

Ceilings ceilings_of(const Target& target, int threads) {
  return target.device == Device::cpu ? measure_ceilings(target.isa, threads) : device_facts(target.isa).ceilings;
}

// What a clock needs as long as it is read.
struct DeviceTrial::Timed {
  CudaKernel kernel;
  CudaGrid grid;
  std::vector<CudaBuffer> buffers;
  std::vector<std::shared_ptr<CudaBuffer>> shared;
  std::vector<std::vector<std::byte>> parameters;  // of calls that take turns
};

Result<DeviceTrial> DeviceTrial::open(Isa isa) {
  QCG_TRY(driver, CudaDriver::load(api_of(isa)));
  QCG_TRY(stream, driver->create_stream());
  return DeviceTrial(std::move(driver), std::move(stream));
}

Result<CudaBuffer> DeviceTrial::upload(std::span<const std::byte> bytes) {
  QCG_TRY(buffer, driver_->allocate(bytes.size()));
  QCG_CHECK(driver_->copy_in(buffer, bytes.data(), bytes.size()));
  return buffer;
}

OracleReport DeviceTrial::check(const BuiltKernel& built, const KernelOracle& oracle,
                                std::span<const std::byte> packed) {
  const auto failed = [](const Error& error) { return OracleReport{false, 0, 0, error.message}; };
  const auto kernel = driver_->load_kernel(built.bytes, built.source.symbol);
  if (!kernel.ok()) return failed(kernel.error());
  const auto weights = upload(packed);
  if (!weights.ok()) return failed(weights.error());
  return oracle.run_and_check([&](const KernelInputs& inputs, GuardedOutputs& outputs) -> Status {
    std::vector<CudaBuffer> buffers;
    std::vector<qcg_arg> args;
    for (const Tensor& t : inputs.tensors()) {
      QCG_TRY(buffer, upload(t.bytes()));
      args.push_back({buffer.data(), t.shape[1]});
      buffers.push_back(std::move(buffer));
    }
    args.push_back({weights->data(), 0});
    const size_t first = buffers.size();
    for (const GuardedOutputs::Memory& memory : outputs.memory()) {
      QCG_TRY(buffer, upload(memory.bytes));
      args.push_back({at(buffer, memory.first), memory.stride});
      buffers.push_back(std::move(buffer));
    }
    const int64_t m = inputs.m();
    const std::vector<std::byte> parameter = parameter_of(args, {&m, 1});
    QCG_CHECK(driver_->launch(*kernel, grid_of(built.source.launch, {&m, 1}), parameter.data(), parameter.size()));
    size_t o = first;
    for (const GuardedOutputs::Memory& memory : outputs.memory())
      QCG_CHECK(driver_->copy_out(memory.bytes.data(), buffers[o++], memory.bytes.size()));
    return {};
  });
}

Status DeviceTrial::run(const BuiltKernel& built, CallMemory& call) {
  QCG_TRY(kernel, driver_->load_kernel(built.bytes, built.source.symbol));
  const qcg_call host = call.call();
  std::vector<CudaBuffer> buffers;
  std::vector<qcg_arg> args;
  for (size_t i = 0; i < call.args(); ++i) {
    const auto* from = static_cast<const std::byte*>(host.args[i].data) - call.before(i);
    QCG_TRY(buffer, upload({from, static_cast<size_t>(call.span_of(i))}));
    args.push_back({at(buffer, call.before(i)), host.args[i].stride});
    buffers.push_back(std::move(buffer));
  }
  int64_t refused = INT64_MAX;
  QCG_TRY(fault, upload(std::as_bytes(std::span(&refused, 1))));
  std::vector<int64_t> numbers = call.sizes().params;
  numbers.push_back(reinterpret_cast<int64_t>(fault.data()));
  const std::vector<std::byte> parameter = parameter_of(args, numbers);
  QCG_CHECK(
      driver_->launch(kernel, grid_of(built.source.launch, call.sizes().params), parameter.data(), parameter.size()));
  QCG_CHECK(driver_->copy_out(&refused, fault, sizeof refused));
  if (refused != INT64_MAX)
    return Error::bad_input(built.source.name, fmt::format("it refuses number {}", refused),
                            "the positions are random");
  for (size_t i = call.first_output(); i < call.args(); ++i)
    QCG_CHECK(driver_->copy_out(static_cast<std::byte*>(host.args[i].data) - call.before(i), buffers[i],
                                static_cast<size_t>(call.span_of(i))));
  return {};
}

Result<std::function<double()>> DeviceTrial::clock(std::shared_ptr<Timed> timed) {
  std::function<Status()> launch = [this, timed, turn = size_t{0}]() mutable {
    const std::vector<std::byte>& parameter = timed->parameters[turn++ % timed->parameters.size()];
    return driver_->launch_on(stream_.get(), timed->kernel, timed->grid, parameter.data(), parameter.size());
  };
  QCG_CHECK(launch());  // loads the kernel
  return clock(std::move(launch));
}

Result<std::function<double()>> DeviceTrial::clock(std::function<Status()> launch) {
  QCG_TRY(once, driver_->time(stream_, launch));
  const int launches = std::clamp(static_cast<int>(kSample_s / std::max(once, 1e-7)), 1, kMostLaunches);
  QCG_TRY(graph, driver_->record(stream_, [&]() -> Status {
    for (int i = 0; i < launches; ++i) QCG_CHECK(launch());
    return {};
  }));
  return std::function<double()>([this, launch = std::move(launch), launches, graph = std::move(graph)] {
    const auto seconds = driver_->time(stream_, [&] { return driver_->replay(graph, stream_.get()); });
    return seconds.ok() ? *seconds / launches : 0.0;
  });
}

Result<std::function<double()>> DeviceTrial::clock(const BuiltKernel& built, const Problem& problem,
                                                   const KernelInputs& inputs,
                                                   std::span<const std::span<const std::byte>> copies) {
  auto timed = std::make_shared<Timed>();
  QCG_TRY(kernel, driver_->load_kernel(built.bytes, built.source.symbol));
  timed->kernel = std::move(kernel);
  const int64_t m = inputs.m();
  timed->grid = grid_of(built.source.launch, {&m, 1});
  std::vector<qcg_arg> args;
  for (const Tensor& t : inputs.tensors()) {
    QCG_TRY(buffer, upload(t.bytes()));
    args.push_back({buffer.data(), t.shape[1]});
    timed->buffers.push_back(std::move(buffer));
  }
  const size_t weights = args.size();
  args.push_back({});
  for (const Output& output : problem.outputs) {
    QCG_TRY(buffer, driver_->allocate(static_cast<size_t>(m * output.n) * dtype_bytes(output.dtype)));
    args.push_back({buffer.data(), output.n});
    timed->buffers.push_back(std::move(buffer));
  }
  for (const std::span<const std::byte> copy : copies) {
    auto found =
        std::find_if(uploaded_.begin(), uploaded_.end(), [&](const auto& u) { return u.first == copy.data(); });
    if (found == uploaded_.end()) {
      QCG_TRY(buffer, upload(copy));
      uploaded_.emplace_back(copy.data(), std::make_shared<CudaBuffer>(std::move(buffer)));
      found = uploaded_.end() - 1;
    }
    timed->shared.push_back(found->second);
    args[weights] = {found->second->data(), 0};
    timed->parameters.push_back(parameter_of(args, {&m, 1}));
  }
  return clock(std::move(timed));
}

Result<std::function<double()>> DeviceTrial::clock(const BuiltKernel& built, const CallLayout& layout, int64_t copies,
                                                   std::byte benign, uint64_t seed) {
  auto timed = std::make_shared<Timed>();
  QCG_TRY(kernel, driver_->load_kernel(built.bytes, built.source.symbol));
  timed->kernel = std::move(kernel);
  timed->grid = grid_of(built.source.launch, layout.sizes().params);
  int64_t refused = INT64_MAX;
  QCG_TRY(fault, upload(std::as_bytes(std::span(&refused, 1))));
  std::vector<int64_t> numbers = layout.sizes().params;
  numbers.push_back(reinterpret_cast<int64_t>(fault.data()));
  std::vector<std::byte> host(static_cast<size_t>(layout.bytes()));
  for (int64_t c = 0; c < copies; ++c) {
    std::fill(host.begin(), host.end(), benign);
    layout.fill_positions(host.data(), seed + static_cast<uint64_t>(c));
    QCG_TRY(buffer, upload(host));
    timed->parameters.push_back(parameter_of(layout.args_at(at(buffer)), numbers));
    timed->buffers.push_back(std::move(buffer));
  }
  timed->buffers.push_back(std::move(fault));
  return clock(std::move(timed));
}

}  // namespace qcg
