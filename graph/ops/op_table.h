// The operator table: every op a graph may hold (ir/op.h).
//
// Why here: torch.export omits arguments equal to the default, so a reader cannot fill a node without this table; the
// verifier checks nodes against it and `qcodegen list ops` prints it.
//
//   const OpSchema* op = find_op("aten.gelu.default");   // "(Tensor self, *, str approximate='none') -> Tensor"
//
// qcg.* rows are qcodegen's own nodes, made by passes (see graph.h); inputs may not contain them unless they are read
// from the IR text form.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graph/ir/op.h"

namespace qcg {

std::span<const OpSchema> op_table();            // sorted by name
const OpSchema* find_op(std::string_view name);  // without "torch.ops."; nullptr if unknown

// "aten.sub_.Tensor" -> "aten.sub.Tensor": in-place twins mean the same here, because graphs are functional.
// Any other name is returned as it is.
std::string functional_name(std::string_view name);

}  // namespace qcg
