#include "tests/hip/emulator.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>
#include <stdexcept>

#include "cache/store/store.h"
#include "cache/toolchain/compile.h"
#include "codegen/kernel/support_headers.h"
#include "tests/paths.h"
#include "tests/temp_dir.h"

// The declarations of a kernel's machine, without HIP's.
struct Index {
  unsigned x, y;
};
struct EmulatedMachine {
  Index thread, block;
  unsigned char* shared;
  void (*barrier)();
  const unsigned char* (*meet)(int lanes, const void* own, int bytes);
};

namespace qcg::test {
namespace {

constexpr size_t kAround = 4096;
constexpr std::byte kPoison{0xff};  // a NaN in every float dtype
constexpr int kSlotBytes = 32, kMostLanes = 64;

// Lanes that wait for one another. Two sets of slots, because a lane may come to the next meeting while others still read
// those of this one.
struct Group {
  std::vector<int> waiting;
  std::array<std::array<unsigned char, kSlotBytes * kMostLanes>, 2> slots;
  int turn = 0;
};

// The block that runs: one at a time.
struct Block {
  EmulatedMachine machine{};
  ptx::Fibers fibers;
  std::vector<int> at_barrier;
  int live = 0;
  std::map<std::pair<int, int>, Group> groups;  // by lanes, and by number

  void release_barrier() {
    if (live == 0 || static_cast<int>(at_barrier.size()) < live) return;
    for (const int thread : std::exchange(at_barrier, {})) fibers.ready(thread);
  }
};
Block* running = nullptr;

void barrier() {
  running->at_barrier.push_back(running->fibers.current());
  running->release_barrier();
  running->fibers.block();
}

const unsigned char* meet(int lanes, const void* own, int bytes) {
  const int thread = running->fibers.current();
  Group& group = running->groups[{lanes, thread / lanes}];
  const int turn = group.turn;
  unsigned char* const slots = group.slots[static_cast<size_t>(turn)].data();
  std::memcpy(slots + thread % lanes * kSlotBytes, own, static_cast<size_t>(bytes));
  group.waiting.push_back(thread);
  if (static_cast<int>(group.waiting.size()) == lanes) {
    group.turn = 1 - turn;
    for (const int one : std::exchange(group.waiting, {})) running->fibers.ready(one);
  }
  running->fibers.block();
  return slots;
}

void alter(std::string& text, const HeaderChange& change) {
  const size_t at = text.find(change.from);
  REQUIRE_MESSAGE(at != text.npos, change.from, " in ", change.file);
  text.replace(at, change.from.size(), change.to);
}

CompileJob job_of(const KernelSource& source, const HeaderChange& change) {
  constexpr std::string_view kShared = "extern __shared__ __align__(128) unsigned char shared[];";
  std::string text = source.source;
  if (const size_t at = text.find(kShared); at != text.npos)
    text.replace(at, kShared.size(), "unsigned char* const shared = qcg_machine->shared;");
  text +=
      "\nextern \"C\" {\nEmulatedMachine* qcg_machine;\nunsigned qcg_parameter_bytes = sizeof(Args);\n"
      "void qcg_run(const void* parameter) {\n  Args args;\n  memcpy((void*)&args, parameter, sizeof args);\n  " +
      source.symbol + "(args);\n}\n}\n";
  CompileJob job;
  job.sources = {{"kernel.cpp", std::move(text)}};
  if (change.file == "kernel") alter(job.sources[0].text, change);
  for (const SourceFile& header : support_headers(source.isa)) {
    job.headers.push_back({header.name, header.name == "amdgcn.cuh"
                                            ? slurp(source_dir() + "/tests/hip/emulated/amdgcn.cuh")
                                            : header.text});
    if (header.name == change.file) alter(job.headers.back().text, change);
  }
  job.flags = {"-std=c++20", "-O0", "-w", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing"};
  return job;
}

}  // namespace

std::byte* DeviceMemory::add(std::span<const std::byte> bytes, uint64_t shift) {
  Buffer buffer;
  buffer.all.assign(bytes.size() + 2 * kAround + 256, kPoison);
  const auto address = reinterpret_cast<uintptr_t>(buffer.all.data());
  buffer.begin = (address + kAround + 255) / 256 * 256 - address + shift;
  buffer.bytes = bytes.size();
  std::copy(bytes.begin(), bytes.end(), buffer.all.begin() + static_cast<std::ptrdiff_t>(buffer.begin));
  buffers_.push_back(std::move(buffer));
  return buffers_.back().all.data() + buffers_.back().begin;
}

bool DeviceMemory::is_intact(size_t index) const {
  const Buffer& b = buffers_[index];
  const auto end = b.all.begin() + static_cast<std::ptrdiff_t>(b.begin + b.bytes);
  const auto poisoned = [](std::byte x) { return x == kPoison; };
  return std::all_of(b.all.begin(), b.all.begin() + static_cast<std::ptrdiff_t>(b.begin), poisoned) &&
         std::all_of(end, b.all.end(), poisoned);
}

std::span<std::byte> DeviceMemory::bytes(size_t index) {
  Buffer& b = buffers_[index];
  return {b.all.data() + b.begin, b.bytes};
}

std::vector<std::vector<std::byte>> DeviceMemory::copy() const {
  std::vector<std::vector<std::byte>> out;
  for (const Buffer& b : buffers_) out.push_back(b.all);
  return out;
}

void DeviceMemory::restore(const std::vector<std::vector<std::byte>>& copy) {
  for (size_t i = 0; i < buffers_.size(); ++i) std::copy(copy[i].begin(), copy[i].end(), buffers_[i].all.begin());
}

Status EmulatedKernel::run_once(uint32_t blocks, const CudaLaunch& launch, std::span<const std::byte> parameter,
                                ptx::Order order) const {
  auto* const entry = reinterpret_cast<void (*)(const void*)>(dlsym(library_.get(), "qcg_run"));
  auto* const machine = static_cast<EmulatedMachine**>(dlsym(library_.get(), "qcg_machine"));
  std::vector<unsigned char> shared(static_cast<size_t>(launch.shared_bytes) + 256);
  Block block;
  running = &block;
  *machine = &block.machine;
  block.machine.barrier = barrier, block.machine.meet = meet;
  const auto address = reinterpret_cast<uintptr_t>(shared.data());
  block.machine.shared = shared.data() + ((address + 255) / 256 * 256 - address);
  block.fibers.on_switch = [&](int thread) { block.machine.thread = {static_cast<unsigned>(thread), 0}; };
  for (uint32_t y = 0; y < static_cast<uint32_t>(launch.column_tiles); ++y)
    for (uint32_t x = 0; x < blocks; ++x) {
      std::fill(shared.begin(), shared.end(), 0xff);
      block.machine.block = {x, y};
      block.live = launch.threads;
      block.groups.clear();
      try {
        block.fibers.run(
            launch.threads, order,
            [&](int) {
              entry(parameter.data());
              --block.live;
              block.release_barrier();
            },
            [] { throw std::runtime_error("threads wait for one another in vain"); });
      } catch (const std::exception& e) {
        return Error::internal(name_, e.what());
      }
    }
  return {};
}

size_t EmulatedKernel::parameter_bytes() const {
  return *static_cast<const unsigned*>(dlsym(library_.get(), "qcg_parameter_bytes"));
}

Status EmulatedKernel::run(uint32_t blocks, const CudaLaunch& launch, std::vector<std::byte> parameter,
                           DeviceMemory& memory) const {
  parameter.resize(parameter_bytes());
  const auto before = memory.copy();
  QCG_CHECK(run_once(blocks, launch, parameter, ptx::Order::ascending));
  for (size_t i = 0; i < memory.count(); ++i)
    if (!memory.is_intact(i)) return Error::internal(name_, fmt::format("writes beside buffer {}", i));
  const auto ascending = memory.copy();
  memory.restore(before);
  QCG_CHECK(run_once(blocks, launch, parameter, ptx::Order::descending));
  if (memory.copy() != ascending) return Error::internal(name_, "its results depend on the order of its threads");
  return {};
}

std::vector<EmulatedKernel> emulate(const std::vector<KernelSource>& sources, const HeaderChange& change) {
  auto cxx = find_cxx();
  REQUIRE_MESSAGE(cxx.ok(), cxx.error().to_string());
  std::vector<CompileJob> jobs;
  for (const KernelSource& source : sources) jobs.push_back(job_of(source, change));
  auto results = compile_all(*cxx, jobs, {.timeout_s = 300});
  REQUIRE_MESSAGE(results.ok(), results.error().to_string());
  std::vector<EmulatedKernel> kernels;
  for (size_t i = 0; i < sources.size(); ++i) {
    REQUIRE_MESSAGE((*results)[i].ok(), sources[i].name, "\n", (*results)[i].log.substr(0, 3000));
    TempDir dir;
    spit(dir / "kernel.so", (*results)[i].bytes);
    void* const handle = dlopen((dir / "kernel.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle, dlerror());
    EmulatedKernel kernel;
    kernel.name_ = sources[i].name;
    kernel.library_ = std::shared_ptr<void>(handle, [](void* h) { dlclose(h); });
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace qcg::test
