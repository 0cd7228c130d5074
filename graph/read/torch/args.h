// Arguments of a torch.export node: the one-key unions ({"as_tensor": ...}) turned into Args of the kind the op's
// schema names.
//
// Why here: export_reader.h walks the graph; what a single argument may look like is a table of its own.
//
//   {"as_sym_ints": [{"as_name": "sym_size_int_1"}, {"as_int": 64}]}  with ArgKind::integers  ->  [s0, 64]
#pragma once

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "graph/ir/graph.h"
#include "graph/read/files/json.h"

namespace qcg {

// What the nodes read so far have defined, by the names the file uses.
struct TorchScope {
  std::unordered_map<std::string_view, ValueId> tensors;
  std::unordered_map<std::string_view, Dim> sym_ints;
  std::unordered_map<std::string_view, double> sym_floats;  // those that do not depend on sizes
  std::unordered_set<std::string_view> of_data;             // numbers that are read out of tensors
  std::unordered_map<std::string_view, ValueId> numbers;    // those that are known only at run time, as tensors
};

// The only member of a union object; its key() says which alternative it is.
Result<JsonCursor> read_union(const JsonCursor& object);

Result<ValueId> read_tensor_name(const JsonCursor& tensor_argument, const TorchScope& scope);  // {"name": "x"}
Result<Dim> read_sym_int_argument(const JsonCursor& argument, const TorchScope& scope);  // {"as_name"|"as_int": ...}
// The tensor of scope.numbers that an argument names; kNoValue: it names none.
ValueId find_number(const JsonCursor& argument, const TorchScope& scope);
Result<Arg> read_torch_arg(const JsonCursor& argument, const ArgSpec& spec, const TorchScope& scope);

}  // namespace qcg
