// The files a compile reads: changed, replaced or cut off at any moment of it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "codegen/program/input_files.h"
#include "graph/read/files/mapped_file.h"
#include "tests/files/compile_files.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// As an editor or a download does that keeps the file: the same inode, other bytes.
void overwrite(const std::string& path, const std::string& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY);
  REQUIRE(fd >= 0);
  CHECK(::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  ::close(fd);
}

void set_times(const std::string& path, const struct stat& info) {
  const timespec times[] = {info.st_atim, info.st_mtim};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

// Steps of a compile without tuning: the kernels are verified one by one ("[1/6] verify …"), then the program.
constexpr const char *kBuild = "build", *kPack = "pack", *kKernels = "] verify", *kProgram = "verify the program";

// The error of a compile during which `change` is made when the step `at` begins.
Error error_of(const Workplace& place, const CompileOptions& plain, const std::string& at,
               const std::function<void()>& change) {
  CompileOptions options = plain;
  bool reached = false;
  options.on_step = [&](std::string_view step) {
    if (step.find(at) != std::string_view::npos && !std::exchange(reached, true)) change();
  };
  const auto compiled = compile_program(options);
  CHECK(reached);
  REQUIRE_MESSAGE(!compiled.ok(), "a compile of a file that was changed under it was a success");
  CHECK(!fs::exists(place / "p.qcg"));
  return compiled.error();
}

}  // namespace

TEST_CASE("a file that is changed while it is compiled is an error, and nothing is kept under its old contents") {
  const Workplace place;
  place.write_weights("a.safetensors", 1);
  place.write_weights("other.safetensors", 2);
  const std::string weights = place / "a.safetensors", graph = place / "g.json";
  const std::string ones = slurp(weights), twos = slurp(place / "other.safetensors"), text = slurp(graph);
  const CompileOptions options = place.options("a.safetensors", "p.qcg");
  auto check = [&](const Error& error, const std::string& path) {
    CHECK(error.code == ErrorCode::Io);
    CHECK(error.where == path);
    CHECK_MESSAGE(error.message.find("was changed while it was compiled") != std::string::npos, error.to_string());
  };
  // Before the weights are packed, and after it.
  for (const std::string step : {kBuild, kPack, kKernels, kProgram}) {
    CAPTURE(step);
    check(error_of(place, options, step, [&] { overwrite(weights, twos); }), weights);
    overwrite(weights, ones);
    check(error_of(place, options, step,
                   [&] {
                     fs::copy_file(place / "other.safetensors", place / "new");
                     fs::rename(place / "new", weights);
                   }),
          weights);
    overwrite(weights, ones);
    std::string other_graph = text;
    other_graph.replace(other_graph.find("[1, 4]"), 6, "[1, 5]");
    check(error_of(place, options, step, [&] { overwrite(graph, other_graph); }), graph);
    overwrite(graph, text);
  }
  REQUIRE(compile_program(options).ok());
  CHECK(value_of(place / "p.qcg") == 1);
  overwrite(weights, twos);
  REQUIRE(compile_program(options).ok());
  CHECK(value_of(place / "p.qcg") == 2);
}

TEST_CASE("a change that is taken back, times included, before the compile ends is found") {
  const Workplace place;
  place.write_weights("a.safetensors", 1);
  place.write_weights("other.safetensors", 2);
  const std::string weights = place / "a.safetensors", ones = slurp(weights), twos = slurp(place / "other.safetensors");
  struct stat before;
  REQUIRE(::stat(weights.c_str(), &before) == 0);
  ::usleep(20'000);  // a file system's clock ticks every few ms
  CompileOptions options = place.options("a.safetensors", "p.qcg");
  options.on_step = [&](std::string_view step) {
    if (step.starts_with("pack")) overwrite(weights, twos);
    if (step.find(kKernels) != std::string_view::npos) overwrite(weights, ones), set_times(weights, before);
  };
  const auto compiled = compile_program(options);
  REQUIRE(!compiled.ok());
  CHECK(compiled.error().where == weights);
  options.on_step = nullptr;
  REQUIRE(compile_program(options).ok());
  CHECK(value_of(place / "p.qcg") == 1);
}

TEST_CASE("no byte of a large file goes unread, whatever its times say") {
  const Workplace place;
  const std::string large = place / "large.safetensors";
  spit(large, "x");
  fs::resize_file(large, (uint64_t{300} << 20) + 5);
  const CompileOptions options = place.options("large.safetensors", "p.qcg");
  auto identity = [&] {
    const auto inputs = InputFiles::read(options);
    REQUIRE(inputs.ok());
    return inputs->files().at(1).identity;
  };
  const std::string before = identity();
  CHECK(before == identity());
  struct stat info;
  REQUIRE(::stat(large.c_str(), &info) == 0);
  for (const off_t at : {off_t{100'000}, off_t{157'000'001}, (off_t{300} << 20) + 4}) {
    const int fd = ::open(large.c_str(), O_WRONLY);
    REQUIRE(::pwrite(fd, "y", 1, at) == 1);
    set_times(large, info);
    CHECK(identity() != before);
    REQUIRE(::pwrite(fd, "", 1, at) == 1);
    ::close(fd);
  }
  CHECK(identity() == before);
}

TEST_CASE("weights that are cut off while they are compiled are an error, not the end of the process") {
  const Workplace place(64, 64);
  place.write_weights("a.safetensors", 1);
  const std::string weights = place / "a.safetensors", whole = slurp(weights);
  const CompileOptions options = place.options("a.safetensors", "p.qcg");
  const int status = status_of(in_child([&] {
    guard_mapped_files();
    for (const std::string step : {kBuild, kPack, kKernels, kProgram})
      for (const uintmax_t size : {uintmax_t{0}, uintmax_t{4096}}) {
        const Error error = error_of(place, options, step, [&] { fs::resize_file(weights, size); });
        if (error.where != weights || error.code != ErrorCode::Io) return 1;
        spit(weights, whole);
      }
    (void)check_mapped_files();
    {
      auto mapped = MappedFile::open(weights);
      fs::resize_file(weights, 0);
      if (!mapped.ok() || (*mapped)->bytes()[5000] != std::byte{0}) return 2;
      if (const Status cut = check_mapped_files(); cut.ok() || cut.error().where != weights) return 3;
      if (!check_mapped_files().ok()) return 4;
    }
    // What is no mapped file ends the process as ever.
    const int fd = ::open(weights.c_str(), O_RDWR);
    void* own = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *static_cast<volatile char*>(own) = 1;
    return 5;
  }));
  CHECK(status == 1000 + SIGBUS);
}

namespace {

// One process overwrites the weights all the time; every compile is of one moment, or an error that says why not.
void compile_under_a_writer(int rounds) {
  const Workplace place;
  place.write_weights("a.safetensors", 1);
  place.write_weights("other.safetensors", 2);
  const std::string weights = place / "a.safetensors", ones = slurp(weights), twos = slurp(place / "other.safetensors");
  int good = 0, refused = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const pid_t writer = in_child([&]() -> int {
      for (int i = 0;; ++i) {
        overwrite(weights, i % 2 ? ones : twos);
        ::usleep(static_cast<useconds_t>(1000 + round % 17 * 4000));
      }
    });
    fs::remove_all(place / "p.qcg");
    CompileOptions options = place.options("a.safetensors", "p.qcg");
    options.reuse_programs = round % 2 == 0;
    const auto compiled = compile_program(options);
    ::kill(writer, SIGKILL);
    (void)status_of(writer);
    if (compiled.ok()) {
      ++good;
      const float value = value_of(place / "p.qcg");  // an exception where it is torn
      CHECK((value == 1 || value == 2));
    } else {
      ++refused;
      CHECK_MESSAGE(compiled.error().message.find("was changed") != std::string::npos, compiled.error().to_string());
    }
    // What the cache holds for either is of it alone.
    for (const auto& [bytes, value] : {std::pair(ones, 1.0f), std::pair(twos, 2.0f)}) {
      overwrite(weights, bytes);
      REQUIRE(place.compile("a.safetensors", "p.qcg").ok());
      CHECK(value_of(place / "p.qcg") == value);
    }
  }
  MESSAGE(good << " compiles, " << refused << " refused");
}

}  // namespace

TEST_CASE("compiles while the weights are overwritten") { compile_under_a_writer(10); }

TEST_CASE("stress: 250 compiles while the weights are overwritten" * doctest::skip()) { compile_under_a_writer(250); }
