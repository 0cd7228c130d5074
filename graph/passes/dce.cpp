// dce: nodes whose results nobody reads are dropped.
//
// Why last: every other pass may leave something behind; the planner wants to see only what runs.
#include "graph/passes/pass_list.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

Status dce(Graph& graph, PassContext& context) {
  const size_t before = graph.nodes.size();
  graph.remove_dead();
  context.report.fired = static_cast<int64_t>(before - graph.nodes.size());
  return {};
}

}  // namespace qcg
