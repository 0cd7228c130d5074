// What an operator is: its name, its arguments and their defaults, in aten's own schema notation.
//
// Why here: every node points to one. The table of all operators is ops/op_table.h.
//
//   node.op->name == "aten.gelu.default"     node.op->args[1].default_text == "'none'"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qcg {

struct Arg;

// clang-format off
enum class ArgKind { tensor, optional_tensor, tensors, optional_tensors, integer, optional_integer, integers,
                     optional_integers, real, optional_real, reals, optional_reals, boolean, optional_boolean, string, optional_string,
                     dtype, optional_dtype, scalar /* integer, real or boolean */, optional_scalar,
                     tensor_or_scalar, exprs, ignored /* device, layout, memory format */ };
// clang-format on

struct ArgSpec {
  std::string name;
  ArgKind kind;
  bool keyword_only = false;
  bool has_default = false;
  std::string default_text;  // as in the schema: None, 1, 'none', [0]; parsed by default_arg()
};

// What lowering does with an op when no pattern takes it. `constant`: there is no kernel, its operands have to be
// constants (passes/unpack_constants.cpp evaluates it). `look_up`: elements of a tensor at positions that another tensor
// holds; evaluated where both are constants.
enum class OpRole { view, pointwise, reduction, matmul, quantize, copy, look_up, constant, assertion, internal };

struct OpSchema {
  std::string name;       // "aten.linear.default"
  std::string signature;  // as printed by `list ops`
  OpRole role;
  std::vector<ArgSpec> args;
  int outputs = -1;       // -1: as many as the node says
  uint16_t row = 0;       // in the operator table: an in-place twin's is that of its functional op
  bool in_place = false;  // "aten.relu_.default"

  int arg_index(std::string_view arg) const;  // -1 if there is none
};

Arg default_arg(const ArgSpec& spec);  // precondition: spec.has_default
bool may_be_none(ArgKind kind);

}  // namespace qcg
