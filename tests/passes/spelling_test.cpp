// Random spellings of quantized linears keep their values: the oracle on the graph as written against the oracle on
// what the passes made of it. The seed of a failing graph is printed; QCG_SEED=N runs that one alone, QCG_SECONDS=N
// takes fresh seeds for so long.
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "graph/ops/verify.h"
#include "graph/oracle/reference.h"
#include "graph/patterns/recognizer.h"
#include "tests/passes/passes_test_util.h"
#include "tests/passes/random_spelling.h"

using namespace qcg;

namespace {

std::vector<double> read_outputs(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  std::vector<double> out;
  for (int64_t i = 0; i < dense.numel(); ++i)
    out.push_back(
        element_to_double(dense.dtype, dense.bytes().data() + i * static_cast<int64_t>(dtype_bytes(dense.dtype))));
  return out;
}

// How far each element moves when sums and roundings are off by what they may be. Constants are evaluated with the
// roundings that are dropped elsewhere, and a code in between may be another one. Seed 0 rounds everything as eager does:
// what leaves the range of f16 in between may be infinite.
std::vector<std::vector<double>> find_slack(const Graph& graph, const std::vector<Tensor>& inputs,
                                            const std::vector<Tensor>& want, uint64_t seeds) {
  std::vector<std::vector<double>> slack;
  for (const Tensor& t : want) slack.emplace_back(static_cast<size_t>(t.numel()), 0);
  for (uint64_t seed = 0; seed <= seeds; ++seed) {
    const auto moved = evaluate_graph(graph, inputs, {.emulate_casts = seed == 0, .disturbed = seed});
    REQUIRE(moved.ok());
    for (size_t i = 0; i < want.size(); ++i) {
      const auto a = read_outputs(want[i]), b = read_outputs((*moved)[i]);
      for (size_t k = 0; k < a.size(); ++k) {
        const double by = 3 * std::abs(a[k] - b[k]);
        slack[i][k] = std::isfinite(by) ? std::max(slack[i][k], by) : INFINITY;
      }
    }
  }
  return slack;
}

bool has_halves(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const Node& node) { return is_half(graph.value(node.outputs[0]).dtype); });
}

// The first element that differs; empty: none does. Elements are compared with the largest one beside them: sums
// cancel.
std::string find_difference(const std::vector<Tensor>& want, const std::vector<Tensor>& got, double tolerance,
                            const std::vector<std::vector<double>>& slack) {
  for (size_t i = 0; i < want.size(); ++i) {
    const auto a = read_outputs(want[i]), b = read_outputs(got[i]);
    double most = 1;
    for (double v : a)
      if (std::isfinite(v)) most = std::max(most, std::abs(v));
    const double step = largest_step(want[i].dtype);
    for (size_t k = 0; k < a.size(); ++k) {
      const double close = tolerance * most + step * std::abs(a[k]) + (slack.empty() ? 0 : slack[i][k]);
      const bool same = (std::isnan(a[k]) && std::isnan(b[k])) || a[k] == b[k] || std::abs(a[k] - b[k]) <= close ||
                        (!slack.empty() && slack[i][k] == INFINITY);
      if (!same)
        return "output " + std::to_string(i) + " element " + std::to_string(k) + ": " + std::to_string(a[k]) +
               " became " + std::to_string(b[k]);
    }
  }
  return {};
}

struct Tally {
  std::map<std::string, int64_t> recognized;  // by pattern
  std::map<std::string, int64_t> fired;       // by pass
  int64_t seeds = 0, refused = 0;
};

// What the passes do wrong to the graph; empty: nothing.
std::string check_graph(Graph before, const RandomSpelling& spelling, uint64_t seed, Tally& tally) {
  before.remove_dead();
  if (auto verified = verify_graph(before); !verified.ok()) return verified.error().to_string();
  ++tally.seeds;
  Graph after = before;
  const auto reports = run_passes(after, {.verify_after_each = true});
  if (!reports.ok() && reports.error().code == ErrorCode::Unsupported) return ++tally.refused, std::string();
  if (!reports.ok()) return reports.error().to_string() + "\n" + print_graph(before);
  for (const PassReport& report : *reports) {
    tally.fired[report.name] += report.fired;
    if (report.name == "recognize_linear")
      for (const auto& [name, count] : report.counters) tally.recognized[name] += count;
  }
  for (int64_t rows : spelling.rows()) {
    const std::vector<Tensor> inputs = random_inputs(before, seed, rows);
    const auto want = evaluate_graph(before, inputs), got = evaluate_graph(after, inputs);
    if (!want.ok()) return "the oracle: " + want.error().to_string() + "\n" + print_graph(before);
    if (!got.ok()) return "behind the passes: " + got.error().to_string() + "\n" + print_graph(after);
    const double tolerance = has_halves(before) ? 0x1p-7 : 1e-5;
    if (find_difference(*want, *got, tolerance, {}).empty()) continue;
    // Few seeds find most of it; of many, one moves the code of nearly every element.
    std::string wrong;
    for (uint64_t seeds : {32, 1024}) {
      wrong = find_difference(*want, *got, tolerance, find_slack(before, inputs, *want, seeds));
      if (wrong.empty()) break;
    }
    if (!wrong.empty())
      return std::to_string(rows) + " rows, " + wrong + "\n" + print_graph(before) + print_graph(after);
  }
  return {};
}

// Of the outputs that are wrong by themselves, the first is shown alone.
std::string check_spelling(uint64_t seed, Tally& tally) {
  RandomSpelling spelling(seed);
  const Graph graph = spelling.build();
  std::string wrong = check_graph(graph, spelling, seed, tally);
  for (size_t i = 0; !wrong.empty() && i < graph.outputs.size(); ++i) {
    Graph one = graph;
    one.outputs = {graph.outputs[i]};
    one.output_names = {graph.output_names[i]};
    Tally ignored;
    const std::string alone = check_graph(one, spelling, seed, ignored);
    if (alone.empty()) continue;
    wrong = alone;
    break;
  }
  return wrong.empty() ? wrong : "QCG_SEED=" + std::to_string(seed) + ": " + wrong;
}

}  // namespace

TEST_CASE("random spellings keep their values") {
  Tally tally;
  const char *one = std::getenv("QCG_SEED"), *seconds = std::getenv("QCG_SECONDS");
  if (one) {
    const std::string wrong = check_spelling(std::strtoull(one, nullptr, 10), tally);
    CHECK_MESSAGE(wrong.empty(), wrong);
    return;
  }
  const uint64_t first = seconds ? std::random_device()() : 1, last = seconds ? UINT64_MAX : 600;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds ? std::atoi(seconds) : 3600);
  if (seconds) std::cout << "seeds from " << first << std::endl;
  int failures = 0;
  // A sum of moved codes that cancels, asked whether it is zero.
  CHECK(check_spelling(2134562899, tally) == "");
  uint64_t seed = first;
  for (; seed <= last && failures < 5 && std::chrono::steady_clock::now() < end; ++seed) {
    INFO("QCG_SEED=", seed);  // of a crash
    const std::string wrong = check_spelling(seed, tally);
    failures += wrong.empty() ? 0 : 1;
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
  if (seconds) std::cout << "to " << seed - 1 << "\n";
  if (failures > 0) return;
  CHECK_MESSAGE(tally.refused * 20 < tally.seeds, tally.refused, " of ", tally.seeds, " graphs are refused");
  // The spellings must reach what they are there to test.
  for (const char* name : {"merge_sibling_linears", "split_cat_linear", "fold_epilogue", "decompose"})
    CHECK_MESSAGE(tally.fired[name] > 5, name, " fired ", tally.fired[name]);
  for (const Recognizer& recognizer : recognizers())
    if (recognizer.name != kDa8w4Linear.name)  // packed with a checksum
      CHECK_MESSAGE(tally.recognized[std::string(recognizer.name)] > 0, recognizer.name);
}
