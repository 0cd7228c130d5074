// Which nodes of an exported graph become IR nodes, and the one error that lists all that cannot.
//
// Why here: a user wants to know everything that is missing at once, not one operator per attempt.
//
//   error[Unsupported]: 2 operators of this graph have no lowering
//     torch.ops.aten.special_airy_ai.default    20 nodes   first: $.graph_module.graph.nodes[3] (airy), model.py:41
#pragma once

#include <string_view>
#include <unordered_set>

#include "graph/ops/op_table.h"
#include "graph/read/files/json.h"

namespace qcg {

enum class TorchTarget {
  op,          // a row of the op table
  symbolic,    // computes sizes: sym_size, _operator.mul on SymInts, comparisons of sizes
  size_check,  // asserts what range_constraints says already
  region,      // a graph of its own, which is read in its place
  encoder,     // a whole nn.TransformerEncoderLayer
  nonzero,     // finds the true elements of a mask
  complex,     // makes, reads or conjugates complex numbers (complex_pairs.h)
  unsupported,
};

TorchTarget classify_target(std::string_view target);
// nullptr unless the target is a TorchTarget::op. For an operator that writes: the one that computes the new value.
const OpSchema* find_torch_op(std::string_view target);

// Whether a node of this operator writes to its first tensor, as add_ and copy_ do.
bool writes_first_tensor(std::string_view target);
// Whether it gives its first tensor another shape, as unsqueeze_ does: a view, and the tensor's name is not used again.
bool changes_shape_alone(std::string_view target);

// Reads a number out of a tensor.
inline constexpr std::string_view kItem = "torch.ops.aten.item.default",
                                  kScalarOf = "torch.ops.aten._local_scalar_dense.default";
inline constexpr std::string_view kNonzero = "torch.ops.aten.nonzero.default",
                                  kNonzeroByAxis = "torch.ops.aten.nonzero_numpy.default",
                                  kWhere = "torch.ops.aten.where.default",
                                  kMaskedSelect = "torch.ops.aten.masked_select.default";

// On a tensor as it is, this is view(self, size).
inline constexpr std::string_view kAsStrided = "torch.ops.aten.as_strided.default";

// out_dtype(aten.mm, int32, x, w) is _int_mm(x, w): its arguments have no names.
inline constexpr std::string_view kOutDtype = "torch.ops.higher_order.out_dtype";

// To 8-bit floats, whose blocks are those of the scale.
inline constexpr std::string_view kQuantizeFloat8 = "torch.ops.torchao.quantize_affine_float8.default";

// Whether an argument is a number of Python or a size.
bool is_number(const JsonCursor& argument);

// sub.Tensor(2, x), a Python number in front of the tensor, is rsub.Scalar(x, 2): the op that takes such a node with
// self and other swapped; nullptr where self is a tensor, or no op does.
const OpSchema* reversed_op(const JsonCursor& node, const OpSchema& op);

// The graph of a region: what stood in torch.no_grad(), or in torch.autocast(enabled=False). Errors: an autocast that
// converts, a region without a graph.
Result<JsonCursor> graph_of_region(const JsonCursor& node);

Status check_operators(const JsonCursor& nodes, const std::unordered_set<size_t>& unread);

// Positions of nodes of unsupported operators whose results nothing reads, such as random numbers that a model draws
// also when it does not train.
std::unordered_set<size_t> find_unread(const JsonCursor& nodes, const JsonCursor& outputs);

}  // namespace qcg
