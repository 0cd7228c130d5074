// What becomes of candidates that crash, trap, hang, lie or do not compile; and who wins among the others.
#include "codegen/trial/trial.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Result<TuneResult> tune_hand(const Workload& w, const std::vector<BuiltKernel>& built, const TuneOptions& options,
                             Bucket bucket = {5, 16, 16}) {
  return tune(w.problem, w.tensors, w.packed, bucket, some_candidates(w.problem, built.size()), built, options);
}

}  // namespace

TEST_CASE("a child reports, and its end is told") {
  auto fine = run_in_child(
      20, [](ChildReport& report) { report.begin(3), report.send("one"), report.send(""), report.send("two"); });
  REQUIRE(fine.ok());
  CHECK(fine->messages == std::vector<std::string>{"one", "two"});
  CHECK(fine->failure.empty());
  CHECK(fine->current == 3);
  auto trap = run_in_child(20, [](ChildReport& report) { report.send("one"), report.begin(1), __builtin_trap(); });
  REQUIRE(trap.ok());
  CHECK(trap->messages.size() == 1);
  CHECK(trap->current == 1);
  CHECK(trap->failure.starts_with("SIGILL"));
  auto exits = run_in_child(20, [](ChildReport&) { _exit(7); });
  REQUIRE(exits.ok());
  CHECK(exits->failure == "exited with status 7");
  auto hangs = run_in_child(0.2, [](ChildReport& report) { report.begin(2), ::pause(); });
  REQUIRE(hangs.ok());
  CHECK(hangs->failure == "no answer in 0.2 s");
  CHECK(hangs->current == 2);
  // Signs of life count: four of them in more than the patience for one.
  auto slow = run_in_child(3, [](ChildReport& report) {
    for (int i = 0; i < 4; ++i) ::usleep(1'000'000), report.send("");
  });
  REQUIRE(slow.ok());
  CHECK(slow->failure.empty());
}

TEST_CASE("a child that writes too much is ended") {
  // A size that no message has: nothing after it can be read.
  auto large = run_in_child(20, [](ChildReport& report) {
    report.begin(4), report.send("one"), report.send(std::string((16 << 20) + 1, 'x')), ::pause();
  });
  REQUIRE(large.ok());
  CHECK(large->failure == "wrote more than an answer has");
  CHECK(large->messages == std::vector<std::string>{"one"});
  CHECK(large->current == 4);
  auto endless = run_in_child(20, [](ChildReport& report) {
    for (const std::string message(1 << 20, 'x');;) report.send(message);
  });
  REQUIRE(endless.ok());
  CHECK(endless->failure == "wrote more than an answer has");
  CHECK(endless->messages.size() <= 64);
}

TEST_CASE("a child that is stopped, or has no processor because others have it, does not hang") {
  auto stopped = run_in_child(0.5, [](ChildReport& report) {
    const pid_t self = ::getpid();
    if (::fork() == 0) ::usleep(1'500'000), ::kill(self, SIGCONT), ::_exit(0);
    ::raise(SIGSTOP);
    report.send("goes on");
  });
  REQUIRE(stopped.ok());
  CHECK(stopped->failure == "");
  CHECK(stopped->messages.size() == 1);
  // One of nine processes that share a processor needs 0.3 s of it.
  auto crowded = run_in_child(1, [](ChildReport& report) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    ::sched_setaffinity(0, sizeof one, &one);
    for (int i = 0; i < 8; ++i)
      if (::fork() == 0) {
        ::close_range(0, ~0u, 0);  // or its copy of the pipe keeps the parent waiting
        while (std::clock() >= 0) {
        }
      }
    while (std::clock() < static_cast<std::clock_t>(0.3 * CLOCKS_PER_SEC)) {
    }
    report.send("done");
  });
  REQUIRE(crowded.ok());
  CHECK(crowded->failure == "");
  CHECK(crowded->messages.size() == 1);
  // Waiting for nothing is not waiting for a processor.
  const auto begin = std::chrono::steady_clock::now();
  CHECK(run_in_child(0.5, [](ChildReport&) { ::pause(); })->failure == "no answer in 0.5 s");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));
}

TEST_CASE("a cancelled child is gone at once, and the signals of a terminal are not the child's to die of") {
  std::atomic<bool> cancel{false};
  auto spared = run_in_child(
      20, [](ChildReport& report) { ::raise(SIGINT), ::raise(SIGTERM), report.send("alive"); }, &cancel);
  REQUIRE(spared.ok());
  CHECK(spared->messages == std::vector<std::string>{"alive"});
  CHECK(spared->failure.empty());
  std::thread signal([&] { ::usleep(200'000), cancel = true; });
  auto cancelled = run_in_child(
      100, [](ChildReport& report) { report.begin(1), ::pause(); }, &cancel);
  signal.join();
  REQUIRE(!cancelled.ok());
  CHECK(cancelled.error().code == ErrorCode::Interrupted);
}

TEST_CASE("what a child said in time counts, also where its parent was stopped meanwhile") {
  const pid_t parent = ::fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    auto told = run_in_child(2, [](ChildReport& report) { ::kill(::getppid(), SIGSTOP), report.send("done"); });
    ::_exit(told.ok() && told->failure.empty() && told->messages.size() == 1 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(parent, &status, WUNTRACED) == parent);
  REQUIRE(WIFSTOPPED(status));
  ::usleep(2'500'000);
  ::kill(parent, SIGCONT);
  REQUIRE(::waitpid(parent, &status, 0) == parent);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("what a child has started goes with it") {
  for (const bool hangs : {true, false}) {
    CAPTURE(hangs);
    auto result = run_in_child(hangs ? 0.5 : 20, [&](ChildReport& report) {
      const pid_t started = ::fork();
      if (started == 0) {
        if (!hangs) ::close_range(0, ~0u, 0);  // or its copy of the pipe keeps the parent waiting
        for (;;) ::pause();
      }
      report.send(std::to_string(started));
      while (hangs) ::pause();
    });
    REQUIRE(result.ok());
    CHECK(result->failure == (hangs ? "no answer in 0.5 s" : ""));
    REQUIRE(result->messages.size() == 1);
    const std::string stat = "/proc/" + result->messages[0] + "/stat";
    const auto is_gone = [&] {
      std::ifstream in(stat);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      return text.empty() || text.find(") Z") != std::string::npos;
    };
    for (int i = 0; i < 500 && !is_gone(); ++i) ::usleep(10'000);
    CHECK(is_gone());
  }
}

TEST_CASE("a kernel whose compiler is late is called that, with the limit and what helps") {
  std::string folder = (std::filesystem::temp_directory_path() / "qcg-late-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()));
  const std::string slow = folder + "/g++-99";
  std::ofstream(slow) << "#!/bin/sh\nexec sleep 300\n";
  std::filesystem::permissions(slow, std::filesystem::perms::owner_all);
  Store store = Store::none();
  KernelBuilder builder(Toolchain{.path = slow}, store, {.timeout_s = 0.25});
  auto built = builder.build({hand_written("late", {})});
  REQUIRE(built.ok());
  const BuiltKernel& kernel = built->at(0);
  CHECK(!kernel.ok());
  CHECK(kernel.late);
  CHECK(kernel.failure == "g++-99 did not finish within 0.25 s");
  CHECK(builder.counters().late == 1);
  CHECK(builder.counters().compiler_runs == 2);
  CHECK(build_error(kernel).to_string() ==
        "error[Toolchain]: late: g++-99 did not finish within 0.25 s\n"
        "help: use fewer --jobs, or compile while the machine is less busy");
  // So is a header that many kernels would share: without it each of them would take longer still.
  std::vector<KernelSource> many;
  for (const char* name : {"a", "b", "c", "d"}) many.push_back(hand_written(name, {}));
  auto none = builder.build(many);
  REQUIRE(!none.ok());
  CHECK(none.error().code == ErrorCode::Toolchain);
  CHECK(none.error().message == kernel.failure);
  std::filesystem::remove_all(folder);
}

TEST_CASE("bad candidates cost themselves only") {
  const Workload w = hand_workload(11);
  const auto built = build_kernels({
      hand_written("not_built", {.prelude = "#error this is no kernel\n"}),
      hand_written("crash", {.at_start = "*(volatile int*)8 = 1;"}),
      hand_written("trap", {.at_start = "__builtin_trap();"}),
      hand_written("hang", {.at_start = "for (volatile int i = 0;;) i = i;"}),
      hand_written("offset", {.value = "sum + 0.25f"}),
      hand_written("nan", {.value = "n == 63 && m % 2 ? __builtin_nanf(\"\") : sum"}),
      hand_written("outside", {.at_row = "y[m * stride + 64] = 0;"}),
      hand_written("before", {.at_row = "if (m == 0) y[-1] = 0;"}),
      hand_written("unwritten", {.value = "n == 37 && m == 2 ? y[m * stride + n] : sum"}),
      hand_written("crash_when_timed", {.at_start = "if (c->params[0] == 16) __builtin_trap();"}),
      hand_written("slow", {.at_row = "for (volatile int i = 0; i < 2000000; i = i + 1) {}"}),
      hand_written("good", {}),
  });
  TuneOptions options = quick_options();
  options.trial_timeout_s = 4;
  auto result = tune_hand(w, built, options);
  REQUIRE_MESSAGE(result.ok(), result.error().to_string());
  struct Want {
    const char* name;
    TrialStatus status;
    const char* reason;
  };
  const Want wants[] = {
      {"not_built", TrialStatus::failed_to_build, "this is no kernel"},
      {"crash", TrialStatus::crashed, "SIGSEGV"},
      {"trap", TrialStatus::crashed, "SIGILL"},
      {"hang", TrialStatus::crashed, "no answer in 8 s"},
      {"offset", TrialStatus::wrong, "error 0.25 >"},
      {"nan", TrialStatus::wrong, "nan where"},
      {"outside", TrialStatus::wrong, "wrote outside output 0"},
      {"before", TrialStatus::wrong, "wrote outside output 0"},
      {"unwritten", TrialStatus::wrong, "not written at m=2, n=37"},
      {"crash_when_timed", TrialStatus::crashed, "SIGILL"},
      {"slow", TrialStatus::too_slow, "dropped early"},
      {"good", TrialStatus::won, ""},
  };
  REQUIRE(result->records.size() == std::size(wants));
  for (size_t i = 0; i < std::size(wants); ++i) {
    const TuneRecord& r = result->records[i];
    CAPTURE(r.kernel);
    CAPTURE(r.reason);
    CHECK(r.kernel == wants[i].name);
    CHECK(trial_status_name(r.status) == trial_status_name(wants[i].status));
    CHECK(r.reason.find(wants[i].reason) != std::string::npos);
  }
  CHECK(result->winner == 11);
  const TuneRecord& won = result->records[11];
  CHECK(won.samples > 0);
  CHECK(won.median_s > 0);
  CHECK(won.p10_s <= won.median_s);
  CHECK(won.median_s <= won.p90_s);
  CHECK(won.gflops > 0);
  CHECK(won.max_error <= won.error_bound);
  CHECK(won.m == 16);
}

TEST_CASE("a share is one of what the machine did between the candidates, not of what it did before") {
  const Workload w = hand_workload(14);
  const auto built = build_kernels({hand_written("good", {})});
  for (const double before : {1e-9, 1e9}) {
    TuneOptions options = quick_options();
    options.ceilings.read_gbps = 30;  // these weights are too few to measure it again
    options.ceilings.instruction_gflops = {{"fma", before}};
    auto result = tune_hand(w, built, options);
    REQUIRE(result.ok());
    CHECK(result->records[0].share > 1e-5);  // of 1e9 GF/s it would be less, of 1e-9 far more
    CHECK(result->records[0].share < 10);
  }
}

TEST_CASE("without tuning the first right candidate is taken, untimed") {
  const Workload w = hand_workload(12);
  const auto built = build_kernels(
      {hand_written("not_built", {.prelude = "#error no\n"}), hand_written("wrong", {.value = "-sum"}),
       hand_written("trap", {.at_start = "__builtin_trap();"}), hand_written("first", {}), hand_written("second", {})});
  auto result = tune_hand(w, built, quick_options(TuneMode::off));
  REQUIRE(result.ok());
  CHECK(result->winner == 3);
  for (size_t i : {3, 4}) {
    CHECK(result->records[i].status == TrialStatus::untimed);
    CHECK(result->records[i].median_s == 0);
  }
}

TEST_CASE("a candidate that crashed while it was timed is taken in no case") {
  const Workload w = hand_workload(15);
  const HandWritten crash{.at_start = "if (c->params[0] == 16) __builtin_trap();"};
  const auto built = build_kernels({hand_written("first", crash), hand_written("second", crash)});
  auto result = tune_hand(w, built, quick_options());
  REQUIRE(result.ok());
  CHECK(result->winner == -1);
  for (size_t i : {0, 1}) {
    CHECK(result->records[i].status == TrialStatus::crashed);
    CHECK(result->records[i].reason.find("SIGILL") != std::string::npos);
  }
}

TEST_CASE("no right candidate is a result that says why") {
  const Workload w = hand_workload(13);
  const auto built =
      build_kernels({hand_written("wrong", {.value = "0"}), hand_written("not_built", {.prelude = "#error no\n"})});
  for (TuneMode mode : {TuneMode::off, TuneMode::fast}) {
    auto result = tune_hand(w, built, quick_options(mode));
    REQUIRE(result.ok());
    CHECK(result->winner == -1);
    CHECK(result->records[0].status == TrialStatus::wrong);
    CHECK(result->records[1].status == TrialStatus::failed_to_build);
  }
}

TEST_CASE("one wrong weight of 64 x 512 is found") {
  const uint64_t seed = 5;
  CAPTURE(seed);
  const Workload w = hand_workload(seed);
  const auto built = build_kernels({hand_written("good", {})});
  std::mt19937_64 rng(seed);
  for (int i = 0; i < 12; ++i) {
    const size_t at = rng() % (kHandN * kHandK);
    CAPTURE(at);
    Workload broken = w;
    float v;
    std::memcpy(&v, broken.packed.data() + at * sizeof v, sizeof v);
    v += 0.02f;
    std::memcpy(broken.packed.data() + at * sizeof v, &v, sizeof v);
    for (Bucket bucket : {Bucket{1, 1, 1}, Bucket{5, 16, 16}}) {
      auto result = tune_hand(broken, built, quick_options(TuneMode::off), bucket);
      REQUIRE(result.ok());
      CHECK(result->winner == -1);
      CHECK(result->records[0].reason.find(fmt::format("n={}", at / kHandK)) != std::string::npos);
    }
  }
  auto right = tune_hand(w, built, quick_options(TuneMode::off));
  REQUIRE(right.ok());
  CHECK(right->winner == 0);
}
