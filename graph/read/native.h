// Reader of qcodegen's own native JSON: a graph short enough to write by hand. docs/native_json.md describes it.
//
// Why here: examples, bug reports and tests that need no PyTorch.
//
//   {"format": "qcodegen", "version": 1, "symbols": {"m": [1, 4096]},
//    "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", 8]}],
//    "parameters": [{"name": "w", "dtype": "f32", "shape": [4, 8]}],
//    "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w"}, "outputs": ["y"]}],
//    "outputs": ["y"]}
#pragma once

#include "graph/ir/graph.h"
#include "graph/read/files/json.h"

namespace qcg {

bool is_native_graph(const JsonCursor& root);
Result<Graph> read_native_graph(const JsonDocument& document);

// "linear" -> aten.linear.default, "mul" -> aten.mul.Tensor, "torchao.dequantize_affine" -> its .default; full names
// too. nullptr when no op has the name; qcodegen's internal ops are not offered.
const OpSchema* find_op_by_short_name(std::string_view name);

}  // namespace qcg
