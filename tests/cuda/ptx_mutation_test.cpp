// The executor finds bugs: two pipelined kernels are right, and each of the bugs below, put into their PTX, is
// reported as what it is. No CUDA toolkit is needed.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <optional>
#include <random>

#include "tests/cuda/ptx/executor.h"
#include "tests/cuda/ptx/floats.h"
#include "tests/paths.h"
#include "tests/temp_dir.h"

using namespace qcg;
using namespace qcg::ptx;

namespace {

struct Edit {
  std::string from, to;
};
// The kind is that of the first thing that is found: without a barrier a thread may read what another has not yet
// begun to copy (uninitialized), or what is under way to be overwritten (race).
struct Mutation {
  std::string name;
  std::vector<Edit> edits;
  std::optional<FaultKind> fault;  // nothing: the result is wrong
};

const std::vector<Mutation> kAmpere = {
    {"no __syncthreads", {{"bar.sync 0;", ""}}, FaultKind::uninitialized},
    {"waits for one group less", {{"wait_group 1", "wait_group 2"}}, FaultKind::race},
    {"loads before the barrier",
     {{"bar.sync 0;", ""}, {"  setp.lt.u32 %p3, %r20, 2;", "  bar.sync 0;\n  setp.lt.u32 %p3, %r20, 2;"}},
     FaultKind::race},
    {"swapped lanes", {{"and.b32 %r13, %r11, 15;", "xor.b32 %r13, %r11, 1;\n  and.b32 %r13, %r13, 15;"}}, {}},
    {"halves of k swapped", {{"shr.u32 %r14, %r11, 4;", "shr.u32 %r14, %r11, 4;\n  xor.b32 %r14, %r14, 1;"}}, {}},
    {"row bound off by one", {{"setp.lt.u32 %p0, %r8, %r0;", "setp.le.u32 %p0, %r8, %r0;"}}, FaultKind::out_of_bounds},
    {"stores a row too many",
     {{"setp.lt.u32 %p6, %r30, %r0;", "setp.le.u32 %p6, %r30, %r0;"}},
     FaultKind::out_of_bounds},
    {"a chunk of w is not loaded",
     {{"setp.lt.u32 %p1, %r2, 16;", "setp.lt.u32 %p1, %r2, 15;"}},
     FaultKind::uninitialized},
    {"multiplies a step too early",
     {{"setp.lt.u32 %p3, %r20, 2;", "setp.lt.u32 %p3, %r20, 1;"}},
     FaultKind::uninitialized},
    {"chunks of 8 bytes", {{"shl.b32 %r7, %r6, 4;", "shl.b32 %r7, %r6, 3;"}}, FaultKind::misaligned},
    {"rows beyond the tensor do not multiply", {{"  mma.sync", "  @%p0 mma.sync"}}, FaultKind::deadlock},
    {"the barrier counts a third warp", {{"bar.sync 0;", "bar.sync 0, 96;"}}, FaultKind::deadlock},
    {"stores to x",
     {{"mad.wide.u32 %rd6, %r30, 32, %rd2;", "mad.wide.u32 %rd6, %r30, 32, %rd0;"}},
     FaultKind::read_only},
    {"accumulators start with what was there", {{"mov.f32 %d2, 0f00000000;", ""}}, {}},
};

const std::vector<Mutation> kHopper = {
    {"stage released before the product is done",
     {{"  wgmma.wait_group.sync.aligned 0;\n", ""}, {"$STORE:\n", "$STORE:\n  wgmma.wait_group.sync.aligned 0;\n"}},
     FaultKind::race},
    {"the wait leaves one group", {{"wait_group.sync.aligned 0", "wait_group.sync.aligned 1"}}, FaultKind::race},
    {"three of four depths",
     {{"  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, %rd16, %rd17, %p6, 1, 1, 0, 0;\n",
       ""}},
     {}},
    {"step of the descriptor", {{"add.u64 %rd12, %rd10, 2;", "add.u64 %rd12, %rd10, 1;"}}, {}},
    {"distance of row groups",
     {{"or.b64 %rd10, %rd10, 0x4000004000010000", "or.b64 %rd10, %rd10, 0x4000002000010000"}},
     {}},
    {"parity of the full barrier",
     {{"[%r14], %r12;", "[%r14], %r15;"}, {"$WAIT_FULL:", "xor.b32 %r15, %r12, 1;\n$WAIT_FULL:"}},
     FaultKind::race},
    {"parity of the empty barrier", {{"xor.b32 %r15, %r12, 1;", "mov.u32 %r15, %r12;"}}, FaultKind::deadlock},
    {"expects too many bytes", {{"[%r14], 9216;", "[%r14], 10240;"}}, FaultKind::deadlock},
    {"three warps release a stage",
     {{"setp.eq.u32 %p7, %r5, 0;", "setp.eq.u32 %p7, %r5, 0;\n  setp.ne.and.u32 %p7, %r4, 3, %p7;"}},
     FaultKind::deadlock},
    {"does not wait for the copies",
     {{"  @!%p4 bra $WAIT_FULL;\n", ""}, {"mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r14], %r12;", ""}},
     FaultKind::race},
    {"barriers are not known to all", {{"bar.sync 0;", ""}}, FaultKind::race},
    {"no wgmma.fence", {{"wgmma.fence.sync.aligned;", ""}}, FaultKind::protocol},
    {"w copied from 8 bytes further",
     {{"add.u64 %rd5, %rd5, %rd1;", "add.u64 %rd5, %rd5, %rd1;\n  add.u64 %rd5, %rd5, 8;"}},
     FaultKind::misaligned},
    {"a copy of w too many",
     {{"mul.wide.u32 %rd5, %r10, 1024;", "mul.wide.u32 %rd5, %r10, 1024;\n  add.u64 %rd5, %rd5, 1024;"}},
     FaultKind::out_of_bounds},
    {"one warp does not multiply",
     {{"  wgmma.fence.sync", "  setp.eq.u32 %p7, %r4, 3;\n  @%p7 bra $STORE;\n  wgmma.fence.sync"}},
     FaultKind::deadlock},
};

std::string mutated(std::string text, const Mutation& mutation) {
  for (const Edit& e : mutation.edits) {
    const size_t at = text.find(e.from);
    REQUIRE_MESSAGE(at != text.npos, mutation.name, ": '", e.from, "' is not in the kernel");
    text.replace(at, e.from.size(), e.to);
  }
  return text;
}

struct Data {
  int m, steps, depth;  // depth: k of a step
  std::vector<uint16_t> x, w;
  Data(int rows, int count, int k) : m(rows), steps(count), depth(k) {
    std::mt19937 random(3);
    const auto small = [&] { return to_bf16(static_cast<float>(static_cast<int>(random() % 9) - 4)); };
    for (int i = 0; i < m * steps * depth; ++i) x.push_back(small());
    for (int i = 0; i < 8 * steps * depth; ++i) w.push_back(small());
  }
  float at(int row, int column) const {
    float sum = 0;
    for (int k = 0; k < steps * depth; ++k)
      sum += from_bf16(x[static_cast<size_t>(row * steps * depth + k)]) *
             from_bf16(w[static_cast<size_t>(column * steps * depth + k)]);
    return sum;
  }
};

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& v) {
  std::vector<uint8_t> out(v.size() * sizeof(T));
  std::memcpy(out.data(), v.data(), out.size());
  return out;
}

struct Verdict {
  Outcome outcome;
  bool right = false;
};

Verdict judge(const LoadedKernel& kernel, const Launch& launch, GlobalMemory& memory, std::vector<Argument> arguments,
              const Data& data) {
  const uint64_t y = memory.add("y", std::vector<uint8_t>(static_cast<size_t>(data.m) * 32), Access::output).address;
  arguments.push_back(argument(y));
  arguments.push_back(argument(data.m));
  arguments.push_back(argument(data.steps));
  Verdict v{kernel.run(launch, memory, arguments)};
  v.right = v.outcome.ok();
  for (int row = 0; row < data.m && v.right; ++row)
    for (int column = 0; column < 8; ++column) {
      float got;
      std::memcpy(&got, memory.buffers().back().bytes.data() + (row * 8 + column) * 4, 4);
      v.right &= got == data.at(row, column);
    }
  return v;
}

Verdict run_ampere(const LoadedKernel& kernel) {
  const Data data(37, 6, 16);
  GlobalMemory memory = kernel.memory();
  const uint64_t x = memory.add("x", bytes_of(data.x), Access::input).address;
  const uint64_t w = memory.add("w", bytes_of(data.w), Access::input).address;
  return judge(kernel, {.grid = {2, 1, 1}, .block = {64, 1, 1}}, memory, {argument(x), argument(w)}, data);
}

Verdict run_hopper(const LoadedKernel& kernel) {
  const Data data(70, 5, 64);
  std::vector<uint8_t> packed(8 * 128 * 5);  // [steps][8][128 bytes], swizzled
  for (int s = 0; s < 5; ++s)
    for (int n = 0; n < 8; ++n)
      for (int k = 0; k < 64; ++k)
        std::memcpy(packed.data() + s * 1024 + swizzled(static_cast<uint32_t>(n * 128 + k * 2), 128),
                    &data.w[static_cast<size_t>(n * 320 + s * 64 + k)], 2);
  GlobalMemory memory = kernel.memory();
  TensorMap map;
  map.address = memory.add("x", bytes_of(data.x), Access::input).address;
  map.dimensions = 2, map.element_bytes = 2, map.swizzle_bytes = 128;
  map.sizes[0] = 320, map.sizes[1] = 70, map.stride_bytes[0] = 640;
  map.box[0] = 64, map.box[1] = 64;
  const uint64_t w = memory.add("w", packed, Access::input).address;
  return judge(kernel, {.grid = {2, 1, 1}, .block = {160, 1, 1}}, memory, {argument(map), argument(w)}, data);
}

void check_mutations(const std::string& file, const std::vector<Mutation>& mutations,
                     Verdict (*run)(const LoadedKernel&)) {
  const std::string text = test::slurp(test::source_dir() + "/tests/cuda/ptx_cases/" + file);
  std::vector<std::string> texts = {text};
  for (const Mutation& m : mutations) texts.push_back(mutated(text, m));
  auto kernels = load_kernels(texts);
  REQUIRE_MESSAGE(kernels.ok(), kernels.error().to_string());
  const Verdict whole = run((*kernels)[0]);
  REQUIRE_MESSAGE(whole.outcome.ok(), whole.outcome.text());
  REQUIRE(whole.right);
  for (size_t i = 0; i < mutations.size(); ++i) {
    const Verdict v = run((*kernels)[i + 1]);
    INFO(mutations[i].name, " -> ",
         v.outcome.ok() ? std::string(v.right ? "not found" : "wrong result") : v.outcome.text());
    CHECK_FALSE(v.right);
    if (mutations[i].fault) {
      REQUIRE(!v.outcome.ok());
      CHECK(std::string(fault_name(v.outcome.fault->kind)) == std::string(fault_name(*mutations[i].fault)));
    } else {
      CHECK(v.outcome.ok());
    }
  }
}

}  // namespace

TEST_CASE("ptx: bugs seeded into a cp.async pipeline are found") {
  check_mutations("pipeline_sm80.ptx", kAmpere, run_ampere);
}

TEST_CASE("ptx: bugs seeded into a TMA, mbarrier and wgmma pipeline are found") {
  check_mutations("pipeline_sm90.ptx", kHopper, run_hopper);
}
