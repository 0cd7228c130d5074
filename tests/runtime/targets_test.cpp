// Programs for several targets: which one is loaded, and what of the weights it reads.
#include <doctest/doctest.h>

#include "runtime/host/host_isa.h"
#include "runtime/program_target.h"
#include "runtime/qcodegen.h"
#include "tests/runtime/sample_program.h"

using namespace qcg;

namespace {

// A CPU that has everything.
HostCpu best_cpu() { return {.x86_64 = true, .features = ~0u, .saved_state = ~uint64_t{0}}; }

ProgramManifest fat_manifest(const std::vector<std::string>& targets) {
  SampleProgram sample;
  SampleProgram::split_into_targets(sample.manifest, targets);
  auto parsed = parse_program_manifest(sample.manifest.dump());
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().to_string());
  return std::move(*parsed);
}

// Of a machine with this CPU and no device.
CanRun on(const HostCpu& cpu) {
  return [cpu](const ProgramManifest& target) {
    if (target.on_device()) return Status(Error::unsupported("", "there is no device", "buy one"));
    const std::string missing = why_lacks(cpu, target.isa);
    return missing.empty() ? Status() : Status(Error::unsupported("", missing, ""));
  };
}

const std::vector<std::string> kAll = {"cuda:sm_90a", "cuda:sm_80",   "cpu:amx",  "cpu:avx512bf16",
                                       "cpu:avx512",  "cpu:avx2vnni", "cpu:avx2", "cpu:portable"};

}  // namespace

TEST_CASE("a CPU runs the best target that it has the features for") {
  const struct {
    const char* chosen;
    std::vector<const char*> missing;  // of a CPU that has everything else
  } cases[] = {
      {"cpu:amx", {}},
      {"cpu:avx512bf16", {"AMX_TILE"}},
      {"cpu:avx512bf16", {"AMX_INT8"}},
      {"cpu:avx512", {"AMX_BF16", "AVX512_BF16"}},
      {"cpu:avx512", {"AMX_BF16", "AVX512_VBMI"}},
      {"cpu:avx2vnni", {"AVX512F"}},
      {"cpu:avx2vnni", {"AVX512_VNNI"}},
      {"cpu:avx2", {"AVX512VL", "AVX_VNNI"}},
      {"cpu:portable", {"AVX512BW", "F16C"}},
      {"cpu:portable", {"AVX"}},
  };
  for (const auto& [chosen, missing] : cases) {
    HostCpu cpu = best_cpu();
    for (const char* feature : missing) {
      CAPTURE(feature);
      const HostCpu less = cpu.without(feature);
      CHECK(less.features != cpu.features);  // the name is known
      cpu = less;
    }
    const auto target = choose_target(fat_manifest(kAll), "p.qcg", "", on(cpu));
    REQUIRE(target.ok());
    CHECK(target->target == chosen);
    CHECK(target->other_targets.empty());
  }
  HostCpu old_kernel = best_cpu();
  old_kernel.saved_state = 0x7;  // saves YMM registers alone
  CHECK(choose_target(fat_manifest(kAll), "p.qcg", "", on(old_kernel))->target == "cpu:avx2vnni");
  CHECK(choose_target(fat_manifest(kAll), "p.qcg", "", on(HostCpu()))->target == "cpu:portable");
  // This machine: what the mask says of it is what the loader says.
  for (const char* isa : {"portable", "avx2", "avx2vnni", "avx512", "avx512bf16"})
    CHECK(why_lacks(host_cpu(), isa) == why_host_lacks(isa));
}

TEST_CASE("a target can be asked for, and an error names what the program has") {
  const CanRun here = on(best_cpu());
  CHECK(choose_target(fat_manifest(kAll), "p.qcg", "cpu:avx2", here)->target == "cpu:avx2");
  CHECK(choose_target(fat_manifest({"cuda:sm_80", "cpu:avx2", "cpu:portable"}), "p.qcg", "cpu", here)->target ==
        "cpu:avx2");
  for (const char* wish : {"cpu:avx", "cpu:", "avx2", "cpu:avx2 ", "CPU"}) {
    CAPTURE(wish);
    const auto missing = choose_target(fat_manifest({"cpu:avx2", "cpu:portable"}), "p.qcg", wish, here);
    REQUIRE(!missing.ok());
    CHECK(missing.error().code == ErrorCode::BadInput);
    CHECK(missing.error().where == "p.qcg");
    CHECK(missing.error().help == "it was compiled for cpu:avx2, cpu:portable");
  }
  const auto device = choose_target(fat_manifest(kAll), "p.qcg", "cuda:sm_80", here);
  REQUIRE(!device.ok());
  CHECK(device.error().code == ErrorCode::Unsupported);
  CHECK(device.error().message == "there is no device");
  CHECK(device.error().where == "p.qcg");
  const auto none =
      choose_target(fat_manifest({"cuda:sm_80", "cpu:avx512"}), "p.qcg", "", on(best_cpu().without("AVX512DQ")));
  REQUIRE(!none.ok());
  CHECK(none.error().code == ErrorCode::Unsupported);
  CHECK(
      none.error().message ==
      "was compiled for no target that this machine can run: cuda:sm_80 there is no device; cpu:avx512 the CPU has no "
      "AVX512DQ");
  // What a driver that is there cannot do is no reason to run elsewhere.
  const CanRun broken = [](const ProgramManifest& target) {
    return target.on_device() ? Status(Error::io("cuda device 0", "cuDeviceGet: broken", "")) : Status();
  };
  const auto failed = choose_target(fat_manifest({"cuda:sm_80", "cpu:portable"}), "p.qcg", "", broken);
  REQUIRE(!failed.ok());
  CHECK(failed.error().code == ErrorCode::Io);
}

TEST_CASE("a program for several targets runs the one that was chosen") {
  SampleProgram sample;
  SampleProgram::split_into_targets(sample.manifest, {"cuda:sm_20a", "cpu:avx1024", "cpu:portable"});
  sample.manifest["targets"][1]["steps"][0]["kernels"][0]["symbol"] = "not_there";  // of a module that is not loaded
  sample.sign();
  for (const WeightsMode mode : {WeightsMode::map, WeightsMode::huge_pages}) {
    const auto program = Program::load(sample.dir(), {.weights = mode, .verify_weights = true});
    REQUIRE_MESSAGE(program.ok(), program.error().to_string());
    CHECK((*program)->manifest().target == "cpu:portable");
    auto context = Context::create(*program, {.threads = 1});
    REQUIRE(context.ok());
    SampleRun run(5);
    REQUIRE((*context)->run(run.inputs, run.outputs).ok());
    CHECK(run.is_right());
  }
  CHECK(Program::load(sample.dir(), {.target = "cpu:portable"}).ok());
  const auto other = Program::load(sample.dir(), {.target = "cpu:avx1024"});
  REQUIRE(!other.ok());
  CHECK(other.error().code == ErrorCode::Unsupported);
  CHECK(other.error().message.find("avx1024") != std::string::npos);
  const auto device = Program::load(sample.dir(), {.target = "cuda"});
  REQUIRE(!device.ok());
  CHECK(device.error().code == ErrorCode::Unsupported);

  qcg_program* program = nullptr;
  REQUIRE(qcg_program_load(sample.dir().c_str(), nullptr, &program) == QCG_OK);
  CHECK(qcg_program_target(program) == std::string("cpu:portable"));
  qcg_program_free(program);
  qcg_load_options options = {};
  options.target = "cpu:portable";
  REQUIRE(qcg_program_load(sample.dir().c_str(), &options, &program) == QCG_OK);
  qcg_program_free(program);
  options.target = "cpu:avx2";
  CHECK(qcg_program_load(sample.dir().c_str(), &options, &program) == QCG_ERROR_BAD_INPUT);
  CHECK(std::string(qcg_last_error()).find("cuda:sm_20a, cpu:avx1024, cpu:portable") != std::string::npos);
  options.target = "cpu:avx1024";
  CHECK(qcg_program_load(sample.dir().c_str(), &options, &program) == QCG_ERROR_UNSUPPORTED);
  CHECK(qcg_program_target(nullptr) == nullptr);

  // A program for one target takes that name, and no other.
  SampleProgram plain;
  CHECK(Program::load(plain.dir(), {.target = "cpu:portable"}).ok());
  CHECK(Program::load(plain.dir(), {.target = "cpu"}).ok());
  CHECK(!Program::load(plain.dir(), {.target = "cpu:avx2"}).ok());
}

TEST_CASE("only the weights that a target reads are copied") {
  SampleProgram sample;
  constexpr size_t kPage = 4096,
                   kPages = 1024;  // more than a huge page, so that the block is zero where nothing is copied
  std::string weights(kPage * kPages, 'x');
  const std::string used = read_file(sample.dir() + "/weights.bin").substr(0, 32);
  weights.replace(600 * kPage + 64, used.size(), used);
  write_file(sample.dir() + "/weights.bin", weights);
  sample.sign_file("weights.bin");
  sample.manifest["buffers"][2]["offset"] = 600 * kPage + 64;
  SampleProgram::split_into_targets(sample.manifest, {"cpu:avx1024", "cpu:portable"});
  sample.manifest["targets"][0]["buffers"][2]["offset"] = 64;
  sample.sign();
  const auto ranges =
      weights_read(*choose_target(*parse_program_manifest(sample.manifest.dump()), "", "", on(best_cpu())));
  REQUIRE(ranges.size() == 1);
  CHECK(ranges[0].offset == 600 * kPage);
  CHECK(ranges[0].bytes == 96);
  for (const bool verify : {false, true}) {
    const auto program = Program::load(sample.dir(), {.weights = WeightsMode::huge_pages, .verify_weights = verify});
    REQUIRE_MESSAGE(program.ok(), program.error().to_string());
    const std::byte* const at = (*program)->weights();
    CHECK(at[0] == std::byte{0});
    CHECK(at[600 * kPage - 1] == std::byte{0});
    CHECK(at[600 * kPage] == std::byte{'x'});
    CHECK(std::memcmp(at + 600 * kPage + 64, used.data(), used.size()) == 0);
    CHECK(at[601 * kPage] == std::byte{0});
  }
  // What was damaged is found, also where the target does not read it.
  weights[0] = 'y';
  write_file(sample.dir() + "/weights.bin", weights);
  for (const WeightsMode mode : {WeightsMode::map, WeightsMode::huge_pages}) {
    CHECK(!Program::load(sample.dir(), {.weights = mode, .verify_weights = true}).ok());
    CHECK(Program::load(sample.dir(), {.weights = mode}).ok());
  }
}

TEST_CASE("ranges of weights are those of all methods and states, and those that touch are one") {
  ProgramManifest manifest;
  const auto weights = [](int64_t offset, int64_t bytes) {
    ProgramManifest::Buffer buffer;
    buffer.kind = ProgramManifest::BufferKind::weights;
    buffer.offset = offset, buffer.bytes = bytes;
    return buffer;
  };
  manifest.buffers = {weights(40960, 100), weights(0, 4000), weights(4096, 4096), weights(41024, 8)};
  manifest.others.emplace_back().buffers = {weights(81920, 1)};
  manifest.states.push_back({.name = "s", .shape = {}, .bytes = 8, .initial = 90120});
  const auto ranges = weights_read(manifest);
  REQUIRE(ranges.size() == 4);
  const int64_t wanted[4][2] = {{0, 8192}, {40960, 100}, {81920, 1}, {90112, 16}};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(ranges[i].offset == wanted[i][0]);
    CHECK(ranges[i].bytes == wanted[i][1]);
  }
  CHECK(weights_read(ProgramManifest()).empty());
}
