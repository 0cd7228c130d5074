// What a pass is given and what it reports.
//
// Why here: passes and the rewrites of patterns/ take it; which passes there are is for passes/pass_list.h to say.
//
//   context.skip(linear_name(graph, node), "its weight is computed at run time");
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

struct Skipped {
  std::string node;    // name of the input graph's node
  std::string reason;  // why the pass left it alone, for people
};

struct PassReport {
  std::string name;
  int64_t fired = 0;                        // how often the pass changed something
  std::map<std::string, int64_t> counters;  // what it did, by kind
  std::vector<Skipped> skipped;
  std::vector<std::string> notes;                // near misses and other remarks
  std::vector<std::string> warnings;             // what costs more than a user may expect
  std::vector<std::vector<std::string>> groups;  // merged siblings; linears whose concatenation was split
  double ms = 0;
};

// Limits of the transformations. The defaults are documented in the header of the pass that reads them.
struct PassGates {
  int64_t cat_max_parts = 16;
  int64_t cat_min_piece_width = 8;
  int64_t cat_max_total_width = 65536;
  int64_t merge_max_siblings = 16;
  int64_t epilogue_max_operands = 6;
  int64_t epilogue_max_nodes = 64;
  int64_t epilogue_max_outputs = 16;
  int64_t constant_max_elements = 1 << 20;
};

// Every gate by name: what a program remembers of them and what its cache key is made of.
template <class Gates, class F>
void for_each_gate(Gates& g, F&& f) {
  f("cat_max_parts", g.cat_max_parts), f("cat_min_piece_width", g.cat_min_piece_width);
  f("cat_max_total_width", g.cat_max_total_width), f("merge_max_siblings", g.merge_max_siblings);
  f("epilogue_max_operands", g.epilogue_max_operands), f("epilogue_max_nodes", g.epilogue_max_nodes);
  f("epilogue_max_outputs", g.epilogue_max_outputs), f("constant_max_elements", g.constant_max_elements);
}

struct PassOptions {
  std::vector<std::string> order;  // names, to be run as they stand here, perhaps repeatedly; empty: kPasses
  std::set<std::string> disabled;
  std::function<void(std::string_view pass, const Graph&)> after_each;  // --print-after, --print-after-all
  bool verify_after_each = false;                                       // debug builds: always
  PassGates gates;
  std::set<std::string> keep_apart;      // source nodes whose linears are not merged: measured faster by themselves
  std::set<std::string> keep_cats;       // and those that read their concatenation as a whole
  bool emulate_precision_casts = false;  // keep every intermediate's rounding to its graph dtype
};

struct PassContext {
  const PassOptions& options;
  PassReport& report;

  void skip(std::string node, std::string reason) { report.skipped.push_back({std::move(node), std::move(reason)}); }
};

}  // namespace qcg
