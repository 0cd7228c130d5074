#include "codegen/trial/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "codegen/trial/trial.h"

namespace qcg {

namespace {

constexpr double kDropFactor = 1.5;     // a candidate this much slower after kDropRounds is not measured further
constexpr double kDropAtOnce = 2;       // or this much slower already when it ran for the first times
constexpr double kDisturbedFactor = 3;  // times more where all that is known of it was disturbed
constexpr double kFarBehind = 3;        // of a vendor's kernel
constexpr int kDropRounds = 2, kMinRounds = 3, kMaxRounds = 60;
constexpr int kEnoughClean = 3;      // undisturbed samples that make a figure
constexpr double kDisturbed = 0.05;  // of a sample: a wait this long
constexpr double kMinSample_s =
    3e-3;  // shorter kernels are repeated within a sample: threads are awake as in a program
constexpr double kNoRelativeError = 0.5;  // of a median of one or two disturbed samples: next to nothing is known

double fastest(const Contender& c) {
  return std::min_element(c.samples.begin(), c.samples.end(),
                          [](const Sample& a, const Sample& b) { return a.seconds < b.seconds; })
      ->seconds;
}

int count_clean(std::span<const Sample> samples) {
  return static_cast<int>(std::count_if(samples.begin(), samples.end(), [](const Sample& s) { return !s.disturbed; }));
}

// How much slower than the best it must have been to be out.
double factor_of(const Contender& c, double factor) {
  return count_clean(c.samples) > 0 ? factor : factor * kDisturbedFactor;
}

// Runs everyone once or twice: how long a sample must be, and who is out already. Who seems to be out may have been
// disturbed and has another try, unless a run is so long that a disturbance hardly shows.
void warm_up(std::vector<Contender>& contenders, double budget_s, ChildReport& report) {
  Stopwatch watch;
  double best = HUGE_VAL;
  const double dear = budget_s / 20;
  for (Contender& c : contenders) {
    report.begin(c.index);
    report.send("");   // a sign of life
    watch.time(c, 1);  // first touch
    if (c.samples[0].seconds <= dear) {
      watch.time(c, 1);
      c.samples.erase(c.samples.begin());  // too dear to throw away otherwise
    }
    if (c.is_candidate()) best = std::min(best, fastest(c));
  }
  for (Contender& c : contenders) {
    const auto is_out = [&] { return c.is_candidate() && fastest(c) > factor_of(c, kDropAtOnce) * best; };
    report.begin(c.index);
    const bool is_dear = fastest(c) > dear;
    if (!is_dear && (is_out() || c.samples[0].disturbed)) watch.time(c, 1);
    const double first = fastest(c);
    c.dropped = is_out() || (c.role == Role::vendor && is_dear && first > kFarBehind * best);
    if (c.dropped) c.samples = {{first, count_clean(c.samples) == 0}};
    else if (!is_dear) c.samples.clear();
    c.repeats = static_cast<int>(std::clamp(std::ceil(kMinSample_s / std::max(first, 1e-7)), 1.0, 200.0));
  }
}

bool is_spent(const std::vector<Contender>& contenders, int rounds, double spent_s, double budget_s) {
  if (rounds >= 1 && spent_s > kOverBudget * budget_s) return true;
  if (rounds < kMinRounds || spent_s <= budget_s) return false;
  return spent_s > kDisturbedBudget * budget_s ||
         std::none_of(contenders.begin(), contenders.end(),
                      [](const Contender& c) { return !c.dropped && is_disturbed(timing_of(c.samples)); });
}

double noise_of(const Timing& a, const Timing& b) {
  return std::max(0.01 * a.median_s, std::hypot(median_error(a), median_error(b)));
}

}  // namespace

void Stopwatch::time(const std::function<void()>& run, int repeats, std::vector<Sample>& samples) {
  meter_.start();
  const double begin = now_s();
  for (int repeat = 0; repeat < repeats; ++repeat) run();
  const double end = now_s(), waited = meter_.waited_s();
  const bool disturbed = waited > kDisturbed * (end - begin);
  if (disturbed)
    for (auto t = taken_.rbegin(); t != taken_.rend() && t->end_s > begin - waited; ++t)
      if (t->index < t->samples->size()) (*t->samples)[t->index].disturbed = true;
  samples.push_back({(end - begin) / repeats, disturbed});
  taken_.push_back({&samples, samples.size() - 1, end});
}

void Stopwatch::time(Contender& c, int repeats) {
  if (!c.clock) return time(c.run, repeats, c.samples);
  double seconds = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) seconds += c.clock();
  c.samples.push_back({seconds / repeats, false});  // the device has no other work
}

double quantile_of(std::span<const double> ascending, double q) {
  if (ascending.empty()) return 0;
  return ascending[static_cast<size_t>(q * static_cast<double>(ascending.size() - 1) + 0.5)];
}

Timing timing_of(std::span<const Sample> samples) {
  if (samples.empty()) return {};
  const int clean = count_clean(samples);
  std::vector<double> v;
  for (const Sample& s : samples)
    if (!s.disturbed || clean < kEnoughClean) v.push_back(s.seconds);
  std::sort(v.begin(), v.end());
  const int all = static_cast<int>(samples.size());
  return {quantile_of(v, 0.5), quantile_of(v, 0.1), quantile_of(v, 0.9), all, all - clean};
}

bool is_disturbed(const Timing& t) {
  const int clean = t.samples - t.disturbed;
  return t.disturbed > 0 && (clean < kEnoughClean || clean < t.disturbed);
}

double median_error(const Timing& t) {
  const int clean = t.samples - t.disturbed, counted = clean >= kEnoughClean ? clean : t.samples;
  if (!is_disturbed(t)) return 0.98 * (t.median_s - t.p10_s) / std::sqrt(std::max(1, counted));
  if (counted < kEnoughClean) return kNoRelativeError * t.median_s;
  return 0.98 * std::max(t.median_s - t.p10_s, t.p90_s - t.median_s) / std::sqrt(counted);
}

int choose_winner(std::span<const Timing> timings) {
  int winner = -1;
  for (size_t i = 0; i < timings.size(); ++i) {
    const Timing& t = timings[i];
    if (t.median_s <= 0) continue;
    if (winner >= 0) {
      const Timing& best = timings[static_cast<size_t>(winner)];
      if (t.median_s >= best.median_s - noise_of(best, t)) continue;
    }
    winner = static_cast<int>(i);
  }
  return winner;
}

bool is_close(std::span<const Timing> timings, int winner) {
  if (winner < 0) return false;
  const Timing& best = timings[static_cast<size_t>(winner)];
  for (size_t i = 0; i < timings.size(); ++i) {
    const Timing& t = timings[i];
    if (static_cast<int>(i) == winner || t.median_s <= 0 || !(is_disturbed(t) || is_disturbed(best))) continue;
    if (std::fabs(t.median_s - best.median_s) <= noise_of(best, t)) return true;
  }
  return false;
}

double drift_of(std::span<const Sample> samples) {
  std::vector<Sample> clean;
  for (const Sample& s : samples)
    if (!s.disturbed) clean.push_back(s);
  if (std::ssize(clean) < 2 * kEnoughClean) return 1;
  const auto half = std::span<const Sample>(clean).first(clean.size() / 2);
  const auto rest = std::span<const Sample>(clean).subspan(clean.size() / 2);
  const double before = timing_of(half).median_s, after = timing_of(rest).median_s;
  return std::max(before, after) / std::min(before, after);
}

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void time_in_rounds(std::vector<Contender>& contenders, double budget_s, ChildReport& report) {
  const double start = now_s();
  warm_up(contenders, budget_s, report);
  Stopwatch watch;  // knows the threads that the first runs have started
  for (int round = 0; round < kMaxRounds && !is_spent(contenders, round, now_s() - start, budget_s); ++round) {
    double best = HUGE_VAL;
    for (size_t i = 0; i < contenders.size(); ++i) {
      Contender& c = contenders[(i + static_cast<size_t>(round)) % contenders.size()];
      if (c.dropped) continue;
      report.begin(c.index);
      watch.time(c, c.repeats);
      if (c.is_candidate()) best = std::min(best, fastest(c));
    }
    if (round + 1 < kDropRounds) continue;
    for (Contender& c : contenders)
      if (!c.dropped && c.is_candidate()) c.dropped = fastest(c) > factor_of(c, kDropFactor) * best;
  }
}

}  // namespace qcg
