#include "codegen/check/family_oracle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace qcg {

namespace {

constexpr int64_t kAllPoints = 4096;  // of an output that is looked at everywhere
constexpr int64_t kMaxRows = 12, kEdgeColumns = 33, kMaxColumns = 300;
constexpr double kMostOperations = 4e6;  // of the reference
constexpr size_t kMostChanges = 1024;    // of what a call changes

// Some of [0, count): both ends, and random ones between.
std::vector<int64_t> sample(int64_t count, int64_t edge, int64_t most, std::mt19937_64& rng) {
  std::set<int64_t> out;
  for (int64_t i = 0; i < std::min(edge, count); ++i) out.insert(i), out.insert(count - 1 - i);
  while (std::ssize(out) < std::min(most, count))
    out.insert(static_cast<int64_t>(rng() % static_cast<uint64_t>(count)));
  return {out.begin(), out.end()};
}

std::vector<int64_t> choose_points(const CallMemory& call, size_t arg, double operations, std::mt19937_64& rng) {
  const int64_t all = call.elements(arg);
  std::vector<int64_t> out;
  if (all == 0) return out;
  const int64_t affordable =
      std::clamp(static_cast<int64_t>(kMostOperations * static_cast<double>(all) / std::max(operations, 1.0)),
                 int64_t{64}, kAllPoints);
  if (all <= affordable) return sample(all, all, all, rng);
  const int64_t width = call.extents(arg).back(), rows = all / width;
  const std::vector<int64_t> columns = sample(width, kEdgeColumns, kMaxColumns, rng);
  for (const int64_t row : sample(rows, kMaxRows / 3, kMaxRows, rng))
    for (const int64_t column : columns) out.push_back(row * width + column);
  if (std::ssize(out) <= affordable) return out;
  std::shuffle(out.begin(), out.end(), rng);
  out.resize(static_cast<size_t>(affordable));
  std::sort(out.begin(), out.end());
  return out;
}

// Of an output of which a part is written, that part as well.
void add_changes(const KernelProblem& problem, const CallMemory& call, std::mt19937_64& rng, OutputPoints& points) {
  if (!problem.family().changes) return;
  OutputPoints changes = problem.family().changes(problem, call);
  for (size_t o = 0; o < points.size(); ++o) {
    std::shuffle(changes[o].begin(), changes[o].end(), rng);
    changes[o].resize(std::min(changes[o].size(), kMostChanges));
    points[o].insert(points[o].end(), changes[o].begin(), changes[o].end());
  }
}

void compare(const CallMemory& call, const OutputPoints& points, const std::vector<std::vector<Expected>>& expected,
             OracleReport& report) {
  double worst = 0;
  for (size_t o = 0; o < points.size(); ++o)
    for (size_t i = 0; i < points[o].size(); ++i) {
      const size_t arg = call.first_output() + o;
      const std::vector<int64_t> index = call.index_of(arg, points[o][i]);
      const Expected& e = expected[o][i];
      const double got = call.number(arg, call.offset_of(arg, index));
      double error = 0;
      const double ratio = error_ratio(e, got, error);
      if (ratio <= worst) continue;
      worst = ratio;
      report.max_error = error, report.bound = e.bound;
      if (ratio <= 1) continue;
      report.reason =
          fmt::format("{}, at output {} {} of {}", describe_error(e, got, error), o, index, call.extents(arg));
    }
  report.ok = worst <= 1;
}

Result<OracleReport> check(const std::function<Status(CallMemory&)>& run, const KernelProblem& problem,
                           const CallSizes& sizes, uint64_t seed) {
  const KernelFamily& family = problem.family();
  const size_t args = sizes.strides.size();
  QCG_TRY(call, CallMemory::create(family.reaches(problem, args, 0), family.arguments(problem, args), sizes, seed));
  std::mt19937_64 rng(seed);
  OutputPoints points;
  for (size_t o = 0; o < call.outputs(); ++o)
    points.push_back(choose_points(call, call.first_output() + o, family.operations(problem, sizes), rng));
  add_changes(problem, call, rng, points);
  QCG_TRY(expected, family.expect(problem, call, points));
  QCG_CHECK(run(call));
  OracleReport report;
  compare(call, points, expected, report);
  const std::string misplaced = call.find_misplaced();
  if (report.ok && !misplaced.empty()) report = {false, 0, 0, misplaced};
  return report;
}

}  // namespace

OracleReport check_kernel_at(ThreadPool& pool, const qcg_kernel& kernel, const KernelProblem& problem,
                             const CallSizes& sizes, uint64_t seed) {
  const auto run = [&](CallMemory& call) {
    Workspace workspace;
    return run_kernel(pool, kernel, call.call(), workspace);
  };
  return check_call_at(run, problem, sizes, seed);
}

OracleReport check_call_at(const std::function<Status(CallMemory&)>& run, const KernelProblem& problem,
                           const CallSizes& sizes, uint64_t seed) {
  auto report = check(run, problem, sizes, seed);
  return report.ok() ? std::move(*report) : OracleReport{false, 0, 0, report.error().message};
}

}  // namespace qcg
