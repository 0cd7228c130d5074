// RowBuilder: writes the steps of a row program, one node of the graph after the other.
//
// Why here: fuse_rows decides which nodes become one program; what each of them is in steps is said here.
//
//   RowBuilder b(shape);
//   Expr x = b.operand(id);                                  // in0
//   Expr mean = b.reduce(RowReduction::mean, x, DType::f32); // acc0
#pragma once

#include <vector>

#include "graph/ir/row_program.h"

namespace qcg {

class RowBuilder {
 public:
  Expr operand(ValueId id);  // equal ones once

  // The value of a step, as it is where it is stored: rounded to its dtype.
  Expr pointwise(Expr expr, DType dtype);
  Expr reduce(RowReduction reduction, Expr argument, DType dtype);

  // qcg.quantize_rows, as templates/cpu/quantize_rows.cpp.j2 computes it, to the bit.
  struct Quantized {
    Expr codes, scale, zero;
  };
  static bool can_quantize(const Node& quantize_rows);  // in f32 alone
  Quantized quantize(const Graph& graph, const Node& quantize_rows, const Expr& x);

  void store(const Expr& step);  // as the next output
  // Writes leaves, and steps that one other step reads once, into their reader, and removes steps that nothing reads. A
  // value per row stays a step if its reader would compute it anew for every element.
  void tidy(const Graph& graph);

  const RowProgram& program() const { return program_; }
  const std::vector<ValueId>& operands() const { return operands_; }

 private:
  Expr add(Expr expr, RowReduction reduction = RowReduction::none);
  void drop(size_t step, const Expr* value);

  RowProgram program_;
  std::vector<ValueId> operands_;
};

}  // namespace qcg
