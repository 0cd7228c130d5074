// The oracle's rule for qcg.rows: a row at a time, step by step, in double.
#include <algorithm>
#include <cmath>

#include "graph/ir/row_program.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

double reduced(RowReduction reduction, const std::vector<double>& values) {
  const bool adds = reduction == RowReduction::sum || reduction == RowReduction::mean;
  const bool largest = reduction == RowReduction::amax;
  double out = adds ? 0 : largest ? -INFINITY : INFINITY;
  for (const double v : values)
    out = adds ? out + v : std::isnan(out) || std::isnan(v) ? NAN : largest ? std::max(out, v) : std::min(out, v);
  return reduction == RowReduction::mean ? out / static_cast<double>(values.size()) : out;
}

Result<Tensors> run_rows(const RefContext& c) {
  const auto program = read_row_program(c.graph, c.node);
  if (!program) return Error::internal(c.node.where, "a qcg.rows that is no program");
  std::vector<int64_t> shape;
  for (const Dim& d : *c.node.arg("shape").get<std::vector<Dim>>()) shape.push_back(c.evaluate(d));
  const int64_t n = shape.back();
  std::vector<std::vector<double>> operands;
  for (const RefValue* v : c.tensors("operands")) operands.push_back(read_doubles(broadcast_to(v->data, shape)));
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < shape.size(); ++axis) rows *= shape[axis];
  std::vector<std::vector<double>> outputs(program->stores.size());
  const size_t count = program->steps.size();
  std::vector<std::vector<double>> values(count, std::vector<double>(static_cast<size_t>(n)));
  std::vector<double> accs(count), ins(operands.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t j = 0; j < count; ++j) {
      const RowStep& step = program->steps[j];
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(i);
        for (size_t o = 0; o < ins.size(); ++o) ins[o] = operands[o][static_cast<size_t>(row * n + i)];
        for (size_t k = 0; k < j; ++k) accs[k] = values[k][at];
        values[j][at] = step.expr.evaluate(accs, ins);
      }
      if (step.reduction != RowReduction::none) std::ranges::fill(values[j], reduced(step.reduction, values[j]));
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      const std::vector<double>& v = values[program->stores[o]];
      outputs[o].insert(outputs[o].end(), v.begin(),
                        program->steps[program->stores[o]].per_row ? v.begin() + (n > 0) : v.end());
    }
  }
  Tensors results;
  for (size_t o = 0; o < outputs.size(); ++o) results.push_back(store_results(c.dtype(o), c.sizes(o), outputs[o]));
  return results;
}

constexpr RefRow kRowRules[] = {{"qcg.rows", run_rows}};

}  // namespace

std::span<const RefRow> reference_rows() { return kRowRules; }

}  // namespace qcg
