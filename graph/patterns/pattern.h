// Pattern: a small tree that a piece of the graph may look like, with names for the parts that matter.
//
// Why here: a quantized linear has as many spellings as there are exporters. Each spelling is one tree in one file of
// this folder; the matcher is written once. A tree is loose (it says what the shape of the code is); the recognizer
// that owns it checks dtypes and sizes and can say what was missing.
//
//   // torchao int8 weight-only: mm(x, w.to(d)) * s
//   mul(gemm(any("x"), cast(parameter("w"))), any("s"))
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ops/op_table.h"

namespace qcg {

struct Pattern {
  enum class Kind { any, parameter, number, op, gemm, either };
  struct NamedPattern;

  Kind kind = Kind::any;
  std::string_view name;           // the capture; a name met twice must be the same value
  std::vector<Op> ops;             // op: one of these
  std::vector<NamedPattern> args;  // op: by argument name; gemm: "x", "w"; either: the choices
  int output = -1;                 // op: which output of the node; -1: any
  bool commutes = false;           // op: args[0] and args[1] may change places
  bool optional_cast = false;      // casts in front that keep the numbers (rewrite.h) are looked through
  bool required_cast = false;      // at least one such cast in front
  bool optional_row_view = false;  // row views (rewrite.h) in front are looked through
  bool single_use = false;         // op, gemm: nobody else reads it, or the match would compute it twice
};
struct Pattern::NamedPattern {
  std::string_view name;
  Pattern pattern;
};

// Leaves.
Pattern any(std::string_view name);
Pattern parameter(std::string_view name);
Pattern number(std::string_view name);  // a scalar argument
// Nodes.
Pattern op(std::vector<Op> ops, std::vector<Pattern::NamedPattern> args, std::string_view name = {});
Pattern mul(Pattern a, Pattern b);  // either order
Pattern add(Pattern a, Pattern b);  // either order
Pattern sub(Pattern a, Pattern b);
Pattern either(Pattern a, Pattern b);
// linear, mm, addmm, matmul, bmm: x and the weight matrix, transposes of the weight looked through (see gemm.h).
Pattern gemm(Pattern x, Pattern w);
// Wrappers.
Pattern cast(Pattern p);        // to(p)
Pattern maybe_cast(Pattern p);  // p or to(p)
Pattern maybe_rows(Pattern p);  // p or to(p) or a row view of p, in any order
Pattern once(Pattern p);        // p, read by nobody else

class Match {
 public:
  ValueId value(std::string_view name) const;  // precondition: the pattern captures a value under this name
  double number(std::string_view name) const;  // precondition: … a number
  NodeId gemm_node() const { return gemm_; }   // the op that multiplies (role matmul), UINT32_MAX if none
  const std::vector<NodeId>& nodes() const { return nodes_; }  // every op on the way, root last

 private:
  friend class Matcher;
  std::vector<std::pair<std::string_view, Arg>> bound_;
  std::vector<NodeId> nodes_;
  NodeId gemm_ = UINT32_MAX;
};

// Does `pattern` match with its root at `root`? `uses` is graph.count_uses().
std::optional<Match> match_pattern(const Graph& graph, const std::vector<uint32_t>& uses, const Pattern& pattern,
                                   NodeId root);

}  // namespace qcg
