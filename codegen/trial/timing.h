// Timing: how contenders are run in rounds, and what their samples say.
//
// Why here: the tuner and the trial of merges judge by the same statistics; nothing in here knows what a kernel is.
//
//   time_in_rounds(contenders, budget_s, report);            // in the forked process
//   const int winner = choose_winner(timings);               // timing_of(contender.samples) of each
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "codegen/trial/wait_meter.h"

namespace qcg {

class ChildReport;

struct Sample {
  double seconds = 0;
  bool disturbed = false;  // one of its threads had to wait for a processor
};

// The value below which a share q in [0, 1] of ascending values lies, the nearest that is there; 0 of none.
double quantile_of(std::span<const double> ascending, double q);

// The statistics of one contender's samples: of the undisturbed ones where there are enough of them, else of all.
struct Timing {
  double median_s = 0, p10_s = 0, p90_s = 0;
  int samples = 0;    // all of them
  int disturbed = 0;  // of them
};
Timing timing_of(std::span<const Sample> samples);
// Whether most samples were disturbed, or too few were not: the figures are those of a busy machine.
bool is_disturbed(const Timing& timing);
// The standard error of a median, from the lower half of a normal distribution: the upper one is other processes. Of a
// disturbed timing both halves count, because its median may lie in either.
double median_error(const Timing& timing);
// The fastest median, in order of preference: a later one must beat the incumbent by more than 1 % and more than the
// standard error of the difference of their medians. Medians of zero were not timed; -1 if none was.
int choose_winner(std::span<const Timing> timings);
// Whether a disturbed timing is within the noise of the winner's, or any is of a disturbed winner's: the order of
// preference has decided, and another run may decide otherwise.
bool is_close(std::span<const Timing> timings, int winner);
// By what factor the later half of the undisturbed samples differs from the earlier; 1 where there are too few.
double drift_of(std::span<const Sample> samples);

double now_s();

struct Contender;

// Times runs. A wait for a processor shows only when it is over, so earlier samples that it reached into are marked
// then.
class Stopwatch {
 public:
  // Appends one sample of `repeats` runs. `samples` must live as long as the watch.
  void time(const std::function<void()>& run, int repeats, std::vector<Sample>& samples);
  void time(Contender& contender, int repeats);

 private:
  struct Taken {
    std::vector<Sample>* samples;
    size_t index;
    double end_s;
  };
  WaitMeter meter_;
  std::vector<Taken> taken_;
};

// Candidates are measured by each other. A vendor's kernel is measured to the end, unless it is far behind and its runs
// take long; a ceiling always is.
enum class Role : uint8_t { candidate, vendor, ceiling };

struct Contender {
  size_t index = 0;  // what the report names while it runs
  std::string name;
  Role role = Role::candidate;
  std::function<void()> run;
  int repeats = 1;  // runs in a sample
  // Seconds of a run by a clock of its own, a device's for example; then `run` is not called.
  std::function<double()> clock = {};
  std::vector<Sample> samples;
  bool dropped = false;  // so slow that it was not measured to the end
  bool is_candidate() const { return role == Role::candidate; }
};

// A slow contest gets fewer rounds than it should rather than more than this many budgets.
inline constexpr double kOverBudget = 3;
// A disturbed contest gets more rounds, until this many budgets are spent.
inline constexpr double kDisturbedBudget = 2;

// Rounds over all contenders, each round starting at another, until the budget is spent.
void time_in_rounds(std::vector<Contender>& contenders, double budget_s, ChildReport& report);

}  // namespace qcg
