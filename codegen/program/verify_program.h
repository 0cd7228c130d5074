// verify_program: a program that is not published yet, run whole and compared with the oracle.
//
// Why here: kernels are verified one by one against their problems (tune.h); passes, the plan, packing and the manifest
// decide whether together they are the graph. This is the only test that all of them pass through.
//
//   QCG_TRY(verdict, verify_program(staging, graph_as_read, {.threads = 4}));   // error Internal: it is wrong
//   verdict.describe();                             // "3 outputs right at s0 = 0, 3 (0.4 s)"
//
// Everything happens in a forked child: a program is code that nobody has run before, and vendors' modules stay out of
// this process. Rows are few and differ from every extent in the graph, so that a transposed or forgotten axis shows;
// where symbols may be 0, they are once. The oracle gets `budget_s`: outputs it does not reach by then are named in the
// verdict, not dropped. A result that looks wrong is looked into at any cost before the program is called so.
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

inline constexpr double kVerifyBudget_s = 5;

struct VerifyOptions {
  bool emulate_casts = false;  // what the program was compiled to do
  int threads = 1;
  double budget_s = kVerifyBudget_s;
  double hang_s = 30;  // a run of the program this long without a sign of life hangs; more for large weights
  const std::atomic<bool>* cancel = nullptr;
};

struct ProgramVerdict {
  std::string scope = "nothing";       // what was verified; or "kernels", one by one; or "program", run as a whole
  std::string why;                     // not the program
  int outputs = 0;                     // of the graph
  std::vector<std::string> trials;     // "s0 = 3": where it was run; empty text for a graph without symbols
  std::vector<int> checked;            // outputs compared and right, by trial
  std::vector<std::string> unchecked;  // "y at s0 = 3: the oracle did not finish within 5 s"
  double wall_s = 0;
  std::string describe() const;  // one line; `unchecked` comes beside it
};
nlohmann::json to_json(const ProgramVerdict& verdict);
ProgramVerdict verdict_from_json(const nlohmann::json& in);  // precondition: to_json wrote it

// Error Internal: an output is wrong, the program did not run, or it took the process along. Error Io: no process can
// be had.
Result<ProgramVerdict> verify_program(const std::string& directory, const Graph& graph, const VerifyOptions& options);

// The symbols that inputs determine, without those that each run computes.
std::vector<Symbol> given_symbols(const Graph& graph);
// The values of all symbols, where those that inputs determine have `given`. What a run computes is at its least.
std::vector<int64_t> values_of_all(const Graph& graph, std::span<const int64_t> given);

// The values of the symbols of each trial, in the order of `symbols`: small and unlike any extent of the graph, and once
// more with 0 for all that may be 0. Values that the graph's conditions exclude are replaced by random ones, or left out.
std::vector<std::vector<int64_t>> rows_to_verify(const Graph& graph, const std::vector<Symbol>& symbols);
// The same sizes where they satisfy the conditions, or else random ones near them that do. nullopt: none were found.
std::optional<std::vector<int64_t>> find_satisfying(const std::vector<SizeCondition>& conditions,
                                                    const std::vector<Symbol>& symbols, std::vector<int64_t> values);

}  // namespace qcg
