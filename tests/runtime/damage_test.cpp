// Damaged program directories: each kind of damage is found before any of the damaged bytes is used.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <random>

#include "runtime/cuda.h"
#include "runtime/host/host_isa.h"
#include "tests/runtime/sample_program.h"

using namespace qcg;
namespace fs = std::filesystem;

namespace {

constexpr const char* kFiles[] = {"manifest.json", "manifest.sha256", "weights.bin", "kernels/k.so", "tune.jsonl"};

Result<std::shared_ptr<const Program>> load_checked(const SampleProgram& sample) {
  return Program::load(sample.dir(), {.verify_weights = true});
}

Error load_error(const SampleProgram& sample) {
  const auto program = load_checked(sample);
  REQUIRE(!program.ok());
  CHECK(!program.error().help.empty());
  return program.error();
}

}  // namespace

TEST_CASE("every flipped bit is found") {
  const SampleProgram sample;
  REQUIRE(load_checked(sample).ok());
  for (const char* name : kFiles) {
    if (std::string_view(name) == "tune.jsonl") continue;  // nothing depends on it: its size is checked, not its bytes
    const fs::path path = fs::path(sample.dir()) / name;
    const std::string good = read_file(path);
    // All bytes of short files; of long ones a random choice.
    const size_t count = std::string_view(name) == "manifest.sha256" ? 64 : std::min<size_t>(good.size(), 60);
    for (size_t i = 0; i < count; ++i) {
      std::mt19937_64 rng(i);
      const size_t at = count == 60 ? rng() % good.size() : i;
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << rng() % 8));
      write_file(path, bad);
      CAPTURE(name);
      CAPTURE(at);
      CHECK(!load_checked(sample).ok());
    }
    write_file(path, good);
  }
  CHECK(load_checked(sample).ok());
}

TEST_CASE("truncated, extended, missing and strange files are found") {
  const SampleProgram sample;
  for (const char* name : kFiles) {
    CAPTURE(name);
    const fs::path path = fs::path(sample.dir()) / name;
    const std::string good = read_file(path);
    for (size_t keep : {size_t{0}, good.size() / 2, good.size() - 1}) {
      const bool only_newline = std::string_view(name) == "manifest.sha256" && keep > 64;
      write_file(path, good.substr(0, keep));
      CHECK(load_checked(sample).ok() == only_newline);
    }
    if (std::string_view(name) != "manifest.sha256") {
      write_file(path, good + "x");
      CHECK(!load_checked(sample).ok());
    }
    fs::remove(path);
    CHECK(load_error(sample).code == ErrorCode::Io);
    fs::create_directory(path);
    CHECK(!load_checked(sample).ok());
    fs::remove(path);
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);  // a blocking open would hang here
    CHECK(!load_checked(sample).ok());
    fs::remove(path);
    write_file(path, good);
  }
  CHECK(load_checked(sample).ok());
  CHECK(!Program::load(sample.dir() + "/nowhere").ok());
  CHECK(!Program::load("").ok());
  CHECK(!Program::load(std::string("a\0b", 3)).ok());
}

TEST_CASE("programs for other machines and versions are refused with the reason") {
  SampleProgram sample;
  SUBCASE("version") {
    sample.manifest["version"] = 6;
    sample.sign();
    CHECK(load_error(sample).where == "manifest.json: $.version");
  }
  SUBCASE("kernel ABI in the manifest") {
    sample.manifest["kernel_abi"] = 7;
    sample.sign();
    CHECK(load_error(sample).where == "manifest.json: $.kernel_abi");
  }
  SUBCASE("kernel ABI in a module") {
    sample.manifest["steps"][0]["kernels"][0]["symbol"] = "test_other_abi";
    sample.sign();
    const Error e = load_error(sample);
    CHECK(e.code == ErrorCode::Unsupported);
    CHECK(e.where.find("test_other_abi") != std::string::npos);
  }
  SUBCASE("incomplete kernel") {
    sample.manifest["steps"][0]["kernels"][0]["symbol"] = "test_incomplete";
    sample.sign();
    CHECK(load_error(sample).code == ErrorCode::BadInput);
  }
  SUBCASE("missing symbol") {
    sample.manifest["steps"][0]["kernels"][0]["symbol"] = "test_none";
    sample.sign();
    CHECK(load_error(sample).message == "does not export test_none");
  }
  SUBCASE("device") {
    sample.manifest["target"] = "fpga:x1";
    sample.sign();
    CHECK(load_error(sample).code == ErrorCode::Unsupported);
    sample.manifest["target"] = "cuda:sm_90a";
    sample.sign();
    CHECK(load_error(sample).where.find("launch") != std::string::npos);
    sample.put_on_device();
    sample.sign();
    const Error e = load_error(sample);  // no driver; with one, the module is no cubin
    if (!CudaDriver::load().ok()) {
      CHECK(e.code == ErrorCode::Unsupported);
      CHECK(e.message.find("was compiled for cuda:sm_90a") != std::string::npos);
      CHECK(e.help.find("--target=cpu") != std::string::npos);
    }
  }
  SUBCASE("unknown instruction set") {
    sample.manifest["isa"] = "avx1024";
    sample.sign();
    CHECK(load_error(sample).message.find("avx1024") != std::string::npos);
  }
  SUBCASE("instruction set this host lacks") {
    for (const char* isa : {"avx2", "avx2vnni", "avx512", "avx512bf16", "amx"}) {
      sample.manifest["isa"] = isa;
      sample.sign();
      CHECK(load_checked(sample).ok() == why_host_lacks(isa).empty());
    }
  }
  SUBCASE("a module that is no library") {
    write_file(sample.dir() + "/kernels/k.so", "hello");
    sample.sign_file("kernels/k.so");
    sample.sign();
    CHECK(load_error(sample).where.ends_with("kernels/k.so"));
  }
  SUBCASE("a truncated library with a right checksum") {
    const std::string good = read_file(sample.dir() + "/kernels/k.so");
    write_file(sample.dir() + "/kernels/k.so", good.substr(0, 300));
    sample.sign_file("kernels/k.so");
    sample.sign();
    CHECK(!load_checked(sample).ok());
  }
}
