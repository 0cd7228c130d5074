// Torture: many processes look up, build with a fake compiler and publish the same few keys while they are killed at
// random, entries are collected and bytes rot on disk. Zero wrong loads, zero hangs, nothing left behind.
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>

#include "cache/store/scratch.h"
#include "cache/toolchain/compile.h"
#include "cache_test_util.h"

using namespace qcg;
using namespace qcg::testing;

namespace {

struct Torture {
  int processes;
  int operations;  // of each process
  int keys;
  int kills;  // about so many, spread over the run
  uint64_t seed;
  TestDir::Place place;
};

// Shared by all processes; what a killed process counted stays counted.
struct Score {
  std::atomic<long> operations, hits, builds, wrong, errors, published, rotted;
};

// "Compiles" by writing what the source says, slowly and in pieces, as a real link does.
const char kFakeCompiler[] = R"(#!/bin/sh
while [ $# -gt 1 ]; do case "$1" in -o) out="$2"; shift;; esac; shift; done
head -c 50 "$1" > "$out"
cat "$1" > "$out"
)";

size_t size_of(int number) { return 200 + static_cast<size_t>(number) * 97 % 5000; }

void rot_one_byte(const std::string& cache, int number, std::mt19937_64& random) {
  const std::string hex = key_of(number).hex;
  std::fstream file(cache + "/v1/" + hex.substr(0, 2) + "/" + hex + "/kernel.so",
                    std::ios::in | std::ios::out | std::ios::binary);
  if (!file) return;
  const auto at = static_cast<std::streamoff>(random() % size_of(number));
  file.seekg(at);
  char byte = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(byte ^ (1 << (random() % 8))));
}

void build_and_publish(Store& store, const Toolchain& fake, const std::string& temp, int number, Score& score) {
  auto want = files_of(number, size_of(number));
  CompileJob job{.sources = {{"kernel.cpp", want[0].bytes}}};
  auto built = compile_all(fake, {&job, 1}, {.timeout_s = 60, .jobs = 1, .temp_root = temp});
  if (!built.ok() || !(*built)[0].ok()) {
    ++score.errors;
    std::fprintf(stderr, "%s\n", built.ok() ? (*built)[0].log.c_str() : built.error().to_string().c_str());
    return;
  }
  ++score.builds;
  if ((*built)[0].bytes != want[0].bytes) ++score.wrong;
  auto entry = store.publish(key_of(number), want, dump_of(number));
  if (!entry.ok()) {
    ++score.errors;
    std::fprintf(stderr, "%s\n", entry.error().to_string().c_str());
  } else if (is_entry_of(*entry, number, size_of(number))) {
    ++score.published;
  } else {
    ++score.wrong;
  }
}

[[noreturn]] void work(const Torture& t, const std::string& cache, const std::string& temp, uint64_t seed,
                       Score& score) {
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(900);  // a hang ends as a failure, not as a stuck test
  std::mt19937_64 random(seed);
  Toolchain fake{.path = temp + "/fake-cc", .kind = ToolKind::gcc};
  auto opened = Store::open({.dir = cache, .max_bytes = 0});
  if (!opened.ok()) {
    ++score.errors;
    ::_exit(1);
  }
  Store& store = *opened;
  for (int i = 0; i < t.operations; ++i) {
    const int number = static_cast<int>(random() % static_cast<uint64_t>(t.keys));
    const uint64_t dice = random() % 1000;
    if (dice < 5) (void)store.gc(random() % 60000);
    else if (dice < 15) ++score.rotted, rot_one_byte(cache, number, random);
    auto found = store.find(key_of(number));
    if (!found.ok()) {
      ++score.errors;
    } else if (*found) {
      ++score.hits;
      if (!is_entry_of(**found, number, size_of(number))) ++score.wrong;
    } else {
      build_and_publish(store, fake, temp, number, score);
    }
    ++score.operations;
  }
  ::_exit(0);
}

void run_torture(const Torture& t) {
  MESSAGE("seed " << t.seed);
  TestDir dir, cache_dir(t.place);  // the fake compiler must be executable, which /dev/shm may forbid
  const std::string cache = cache_dir.path() + "/cache", temp = dir.path() + "/temp";
  files::create_directory(temp);
  write_text(temp + "/fake-cc", kFakeCompiler);
  ::chmod((temp + "/fake-cc").c_str(), 0700);
  auto* score =
      static_cast<Score*>(::mmap(nullptr, sizeof(Score), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(score != MAP_FAILED);
  new (score) Score{};

  std::mt19937_64 random(t.seed);
  std::vector<pid_t> running;
  const long wanted = static_cast<long>(t.processes) * t.operations;
  auto start = [&] {
    uint64_t seed = random();
    pid_t pid = ::fork();
    if (pid == 0) work(t, cache, temp, seed, *score);
    running.push_back(pid);
  };
  for (int p = 0; p < t.processes; ++p) start();
  int killed = 0, failed = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1200);
  bool hung = false;
  // Whoever is killed is replaced until the work is done.
  while (!running.empty() && !hung) {
    ::usleep(static_cast<useconds_t>(random() % 4000));
    if (score->operations * t.kills > wanted * killed && score->operations < wanted && killed < t.kills) {
      ::kill(running[random() % running.size()], SIGKILL);
      ++killed;
    }
    for (size_t i = 0; i < running.size();) {
      int status = 0;
      if (::waitpid(running[i], &status, WNOHANG) != running[i]) {
        ++i;
        continue;
      }
      running.erase(running.begin() + static_cast<long>(i));
      const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      if (!was_killed && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) ++failed;
      if (was_killed && score->operations < wanted) start();
    }
    hung = std::chrono::steady_clock::now() > deadline;
  }
  for (pid_t pid : running) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);

  MESSAGE(score->operations.load() << " operations, " << score->hits.load() << " hits, " << score->builds.load()
                                   << " builds, " << score->rotted.load() << " bytes rotted, " << killed << " kills");
  CHECK(!hung);
  CHECK(failed == 0);
  CHECK(score->wrong.load() == 0);
  CHECK(score->errors.load() == 0);
  CHECK(score->builds > 0);
  CHECK(score->hits > 0);
  CHECK(killed > 0);
  CHECK(score->operations >= wanted - static_cast<long>(t.operations));

  // What is left is whole, rot aside, and the killed ones' leavings go with the next who comes.
  Store store = open_store(cache);
  CHECK(count_files(cache + "/v1/tmp") == 0);
  remove_stale_scratch(temp);
  CHECK(count_files(temp) == 1);  // the fake compiler
  auto verified = store.verify_all();
  REQUIRE(verified.ok());
  CHECK(verified->corrupt.size() <= static_cast<size_t>(score->rotted));
  for (int n = 0; n < t.keys; ++n) {
    auto found = store.find(key_of(n));
    REQUIRE(found.ok());
    if (*found) CHECK(is_entry_of(**found, n, size_of(n)));
  }
  ::munmap(score, sizeof(Score));
}

}  // namespace

TEST_CASE("torture: 8 processes, 20 keys, random kills") {
  run_torture({.processes = 8,
               .operations = 200,
               .keys = 20,
               .kills = 40,
               .seed = std::random_device()(),
               .place = TestDir::in_memory});
}

TEST_CASE("stress: 32 processes, 500 compiles each over 50 keys, random kills" * doctest::skip()) {
  run_torture({.processes = 32,
               .operations = 625,
               .keys = 50,
               .kills = 400,
               .seed = std::random_device()(),
               .place = TestDir::on_disk});
}
