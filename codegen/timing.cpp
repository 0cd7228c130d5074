#include "codegen/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "codegen/trial.h"

namespace qcg {

namespace {

constexpr double kDropFactor = 1.5;      // a candidate this much slower after kDropRounds is not measured further
constexpr double kDropAtOnce = 2;        // or this much slower already when it ran for the first times
constexpr double kFarBehind = 3;         // of a vendor's kernel
constexpr int kDropRounds = 2, kMinRounds = 3, kMaxRounds = 60;
constexpr double kMinSample_s =
    3e-3;  // shorter kernels are repeated within a sample: threads are awake as in a program

double fastest(const Contender& c) { return *std::min_element(c.samples.begin(), c.samples.end()); }

double time_run(const Contender& c) {
  const double begin = now_s();
  c.run();
  return now_s() - begin;
}

// Runs everyone once or twice: how long a sample must be, and who is out already. Who seems to be out may have been disturbed
// and has another try, unless a run is so long that a disturbance hardly shows.
void warm_up(std::vector<Contender>& contenders, double budget_s, ChildReport& report) {
  double best = HUGE_VAL;
  std::vector<double> first;
  const double dear = budget_s / 20;
  for (Contender& c : contenders) {
    report.begin(c.index);
    report.send("");  // a sign of life
    first.push_back(time_run(c));  // first touch
    if (first.back() > dear) c.samples.push_back(first.back());  // too dear to throw away
    else first.back() = time_run(c);
    if (c.is_candidate()) best = std::min(best, first.back());
  }
  for (size_t i = 0; i < contenders.size(); ++i) {
    Contender& c = contenders[i];
    const auto is_out = [&] { return c.is_candidate() && first[i] > kDropAtOnce * best; };
    report.begin(c.index);
    if (is_out() && first[i] <= dear) first[i] = std::min(first[i], time_run(c));
    if (is_out()) c.samples = {first[i]}, c.dropped = true;
    if (c.role == Role::vendor && first[i] > dear && first[i] > kFarBehind * best) c.dropped = true;
    c.repeats = static_cast<int>(std::clamp(std::ceil(kMinSample_s / std::max(first[i], 1e-7)), 1.0, 200.0));
  }
}

}  // namespace

Timing timing_of(std::vector<double> v) {
  if (v.empty()) return {};
  std::sort(v.begin(), v.end());
  auto at = [&](double q) { return v[static_cast<size_t>(q * static_cast<double>(v.size() - 1) + 0.5)]; };
  return {at(0.5), at(0.1), at(0.9), static_cast<int>(v.size())};
}

double median_error(const Timing& t) { return 0.98 * (t.median_s - t.p10_s) / std::sqrt(std::max(1, t.samples)); }

int choose_winner(std::span<const Timing> timings) {
  int winner = -1;
  for (size_t i = 0; i < timings.size(); ++i) {
    const Timing& t = timings[i];
    if (t.median_s <= 0) continue;
    if (winner >= 0) {
      const Timing& best = timings[static_cast<size_t>(winner)];
      const double noise = std::max(0.01 * best.median_s, std::hypot(median_error(best), median_error(t)));
      if (t.median_s >= best.median_s - noise) continue;
    }
    winner = static_cast<int>(i);
  }
  return winner;
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void time_in_rounds(std::vector<Contender>& contenders, double budget_s, ChildReport& report) {
  const double start = now_s();
  warm_up(contenders, budget_s, report);
  for (int round = 0; round < kMaxRounds; ++round) {
    const double spent = now_s() - start;
    if ((round >= kMinRounds && spent > budget_s) || (round >= 1 && spent > kOverBudget * budget_s)) break;
    double best = HUGE_VAL;
    for (size_t i = 0; i < contenders.size(); ++i) {
      Contender& c = contenders[(i + static_cast<size_t>(round)) % contenders.size()];
      if (c.dropped) continue;
      report.begin(c.index);
      const double begin = now_s();
      for (int repeat = 0; repeat < c.repeats; ++repeat) c.run();
      c.samples.push_back((now_s() - begin) / c.repeats);
      if (c.is_candidate()) best = std::min(best, fastest(c));
    }
    if (round + 1 < kDropRounds) continue;
    for (Contender& c : contenders)
      if (!c.dropped && c.is_candidate()) c.dropped = fastest(c) > kDropFactor * best;
  }
}

}  // namespace qcg
