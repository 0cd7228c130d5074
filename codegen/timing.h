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

namespace qcg {

class ChildReport;

// The statistics of one contender's samples.
struct Timing {
  double median_s = 0, p10_s = 0, p90_s = 0;
  int samples = 0;
};
Timing timing_of(std::vector<double> samples);
// The standard error of a median, from the lower half of a normal distribution: the upper one is other processes.
double median_error(const Timing& timing);
// The fastest median, in order of preference: a later one must beat the incumbent by more than 1 % and more than the
// standard error of the difference of their medians. Medians of zero were not timed; -1 if none was.
int choose_winner(std::span<const Timing> timings);

double now_s();

// Candidates are measured by each other. A vendor's kernel is measured to the end, unless it is far behind and its runs take
// long; a ceiling always is.
enum class Role : uint8_t { candidate, vendor, ceiling };

struct Contender {
  size_t index = 0;      // what the report names while it runs
  std::string name;
  Role role = Role::candidate;
  std::function<void()> run;
  int repeats = 1;       // runs in a sample
  std::vector<double> samples;
  bool dropped = false;  // so slow that it was not measured to the end
  bool is_candidate() const { return role == Role::candidate; }
};

// A slow contest gets fewer rounds than it should rather than more than this many budgets.
inline constexpr double kOverBudget = 3;

// Rounds over all contenders, each round starting at another, until the budget is spent.
void time_in_rounds(std::vector<Contender>& contenders, double budget_s, ChildReport& report);

}  // namespace qcg
