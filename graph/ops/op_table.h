// The operator table: every op a graph may hold, and Op, a handle to one that is checked when it is compiled.
//
// Why here: torch.export omits arguments equal to the default, so a reader cannot fill a node without this table; the
// verifier checks nodes against it and `qcodegen list ops` prints it. Everything behind the readers names ops by
// handles.
//
//   if (is_op(node, "aten.gelu.default")) …              // a name that no row has does not compile
//   const OpSchema* op = find_op(name_from_a_file);       // nullptr if there is none
//
// qcg.* rows are qcodegen's own nodes, made by passes (see graph.h); inputs may not contain them unless they are read
// from the IR text form.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/ir/graph.h"
#include "graph/ops/rows_composed.h"
#include "graph/ops/rows_constant.h"
#include "graph/ops/rows_fourier.h"
#include "graph/ops/rows_functions.h"
#include "graph/ops/rows_layers.h"
#include "graph/ops/rows_library.h"
#include "graph/ops/rows_losses.h"
#include "graph/ops/rows_own.h"
#include "graph/ops/rows_pointwise.h"
#include "graph/ops/rows_products.h"
#include "graph/ops/rows_quantize.h"
#include "graph/ops/rows_sums.h"
#include "graph/ops/rows_views.h"

namespace qcg {

template <size_t... N>
consteval auto join_rows(const OpRow (&... groups)[N]) {
  std::array<OpRow, (N + ...)> all{};
  size_t at = 0;
  const auto add = [&](const auto& group) {
    for (const OpRow& row : group) all[at++] = row;
  };
  (add(groups), ...);
  return all;
}

inline constexpr auto kOpRows =
    join_rows(rows::kProducts, rows::kQuantize, rows::kViews, rows::kPointwise, rows::kFunctions, rows::kComposed,
              rows::kLayers, rows::kLibrary, rows::kFourier, rows::kLosses, rows::kSums, rows::kConstant, rows::kOwn);

class Op {
 public:
  template <size_t N>
  consteval Op(const char (&name)[N]) : row_(find_row({name, N - 1})) {}  // NOLINT: a name is an op
  // An in-place twin is its functional op: is_op() tells them apart.
  Op(const OpSchema* schema) : row_(schema->row) {}  // NOLINT

  const OpRow& row() const { return kOpRows[row_]; }
  constexpr size_t index() const { return row_; }
  const OpSchema* schema() const;

  friend constexpr bool operator==(Op, Op) = default;

 private:
  static consteval uint16_t find_row(std::string_view name) {
    for (size_t i = 0; i < kOpRows.size(); ++i)
      if (kOpRows[i].name == name) return static_cast<uint16_t>(i);
    throw "no row of the operator table has this name";
  }

  uint16_t row_;
};

inline bool is_op(const Node& node, Op op) { return node.op && !node.op->in_place && Op(node.op) == op; }
inline bool is_any_op(const Node& node, std::span<const Op> ops) {
  for (Op op : ops)
    if (is_op(node, op)) return true;
  return false;
}

// Several names of one operation.
inline constexpr Op kIndexes[] = {"aten.index.Tensor", "aten._unsafe_index.Tensor"};
inline constexpr Op kEmbeddingBags[] = {"aten.embedding_bag.default", "aten.embedding_bag.padding_idx",
                                        "aten._embedding_bag.default", "aten._embedding_bag_forward_only.default"};

inline constexpr Op kGroupedProducts[] = {"transformers.grouped_mm_fallback.default", "aten._grouped_mm.default"};

std::span<const OpSchema> op_table();            // sorted by name, in-place twins included
const OpSchema* find_op(std::string_view name);  // without "torch.ops."; nullptr if unknown

// "aten.sub_.Tensor" -> "aten.sub.Tensor": in-place twins mean the same here, because graphs are functional.
// Any other name is returned as it is.
std::string functional_name(std::string_view name);

// Args in schema order with those not named at their default; precondition: the others have one.
struct NamedArg {
  std::string_view name;
  Arg value;
};
std::vector<Arg> make_args(const OpSchema& op, std::vector<NamedArg> named);

}  // namespace qcg
