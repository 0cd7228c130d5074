// What a busy machine does to timings: how it is noticed, and what is decided then.
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/trial/timing.h"
#include "codegen/tune/merge_trial.h"
#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::vector<Sample> samples_of(std::vector<double> clean, std::vector<double> disturbed) {
  std::vector<Sample> out;
  for (double s : clean) out.push_back({s, false});
  for (double s : disturbed) out.push_back({s, true});
  return out;
}

// A process that never sleeps, on the processor this thread is bound to; both are gone with it.
class BusyNeighbour {
 public:
  BusyNeighbour() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before_)) ++cpu;
    CPU_SET(cpu, &one);
    REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
    child_ = ::fork();
    if (child_ == 0)
      for (::prctl(PR_SET_PDEATHSIG, SIGKILL);;) asm volatile("");
  }
  ~BusyNeighbour() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ::sched_setaffinity(0, sizeof before_, &before_);
  }

 private:
  cpu_set_t before_;
  pid_t child_ = -1;
};

}  // namespace

TEST_CASE("a figure is that of the undisturbed samples, where there are enough of them") {
  const Timing mixed = timing_of(samples_of({1, 1, 1.1}, {9, 9}));
  CHECK(mixed.median_s == 1);
  CHECK(mixed.p90_s == 1.1);
  CHECK(mixed.samples == 5);
  CHECK(mixed.disturbed == 2);
  CHECK_FALSE(is_disturbed(mixed));
  const Timing most = timing_of(samples_of({1, 1, 1}, {9, 9, 9, 9}));
  CHECK(most.median_s == 1);
  CHECK(is_disturbed(most));
  const Timing nearly_all = timing_of(samples_of({1, 1}, {9, 9, 9}));
  CHECK(nearly_all.median_s == 9);
  CHECK(is_disturbed(nearly_all));
  CHECK_FALSE(is_disturbed(timing_of(samples_of({1}, {}))));  // a slow kernel's only run, and nobody disturbed it
  CHECK(timing_of(samples_of({}, {})).samples == 0);
}

TEST_CASE("nobody loses by 2 % beside a spread of 28 %, and the decision is called close") {
  const auto timings = [](int disturbed) {
    return std::vector<Timing>{{1.0, 0.99, 1.56, 9, disturbed}, {0.98, 0.97, 1.54, 9, disturbed}};
  };
  CHECK(choose_winner(timings(0)) == 1);
  CHECK_FALSE(is_close(timings(0), 1));
  CHECK(choose_winner(timings(9)) == 0);
  CHECK(is_close(timings(9), 0));
  CHECK_FALSE(is_close(std::vector<Timing>{{1.0, 0.99, 1.1, 9, 9}, {7.0, 6.9, 7.1, 9, 9}}, 0));
  // One disturbed run says next to nothing.
  CHECK(choose_winner(std::vector<Timing>{{1.0, 1.0, 1.0, 1, 1}, {0.8, 0.8, 0.8, 1, 1}}) == 0);
  CHECK(choose_winner(std::vector<Timing>{{1.0, 1.0, 1.0, 1, 1}, {0.1, 0.1, 0.1, 1, 1}}) == 1);
}

TEST_CASE("a merge that disturbed timings would undo by little stays, and is called close") {
  const auto timing = [](double seconds, int disturbed) {
    return Timing{seconds, 0.99 * seconds, 1.5 * seconds, 9, disturbed};
  };
  for (const int disturbed : {0, 9}) {
    const std::vector<MergeTiming> timings = {{timing(1, disturbed), timing(0.9, disturbed)}};
    CHECK(separate_is_faster(timings) == (disturbed == 0));
    CHECK(is_close_merge(timings) == (disturbed > 0));
  }
}

TEST_CASE("a machine that changes while it is timed is noticed") {
  CHECK(drift_of(samples_of({1, 1, 1, 1, 1, 1}, {7, 7})) == doctest::Approx(1));
  CHECK(drift_of(samples_of({1, 1, 1, 2, 2, 2}, {})) == doctest::Approx(2));
  CHECK(drift_of(samples_of({2, 2, 2, 1, 1, 1}, {})) == doctest::Approx(2));
  CHECK(drift_of(samples_of({1, 9}, {})) == 1);  // too few to say
}

TEST_CASE("a run that had to wait for a processor is known as disturbed") {
  std::vector<Sample> samples;
  {
    const BusyNeighbour neighbour;
    Stopwatch watch;
    const auto work = [] {
      for (const double end = now_s() + 0.03; now_s() < end;) {
      }
    };
    for (int i = 0; i < 8; ++i) watch.time(work, 1, samples);
  }
  REQUIRE(samples.size() == 8);
  const Timing timing = timing_of(samples);
  CHECK(timing.disturbed >= 5);
  CHECK(is_disturbed(timing));
}

TEST_CASE("one run gives no ratio") {
  const Workload w = hand_workload(31);
  const auto built =
      build_kernels({hand_written("good", {}),
                     hand_written("slow", {.at_row = "for (volatile int i = 0; i < 2000000; i = i + 1) {}"})});
  const auto result =
      tune(w.problem, w.tensors, w.packed, {5, 16, 16}, some_candidates(w.problem, 2), built, quick_options());
  REQUIRE(result.ok());
  const TuneRecord& slow = result->records[1];
  REQUIRE(slow.status == TrialStatus::too_slow);
  REQUIRE(slow.samples == 1);
  CHECK(slow.reason.find('%') == std::string::npos);
}
