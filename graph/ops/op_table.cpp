#include "graph/ops/op_table.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace qcg {
namespace {

std::string add_underscore(std::string_view name) {
  size_t dot = name.rfind('.');
  return std::string(name.substr(0, dot)) + "_" + std::string(name.substr(dot));
}

struct KindName {
  std::string_view type;
  ArgKind kind;
};
// clang-format off
constexpr KindName kKinds[] = {
    {"Tensor", ArgKind::tensor}, {"Tensor?", ArgKind::optional_tensor}, {"Tensor[]", ArgKind::tensors},
    {"Tensor?[]", ArgKind::optional_tensors}, {"Tensor|Scalar", ArgKind::tensor_or_scalar},
    {"int", ArgKind::integer}, {"SymInt", ArgKind::integer}, {"int?", ArgKind::optional_integer},
    {"SymInt?", ArgKind::optional_integer}, {"int[]", ArgKind::integers},
    {"SymInt[]", ArgKind::integers}, {"int[]?", ArgKind::optional_integers},
    {"SymInt[]?", ArgKind::optional_integers},
    {"float[]", ArgKind::reals}, {"float[]?", ArgKind::optional_reals},
    {"float", ArgKind::real}, {"float?", ArgKind::optional_real}, {"bool", ArgKind::boolean},
    {"bool?", ArgKind::optional_boolean}, {"str", ArgKind::string}, {"str?", ArgKind::optional_string},
    {"ScalarType", ArgKind::dtype}, {"ScalarType?", ArgKind::optional_dtype}, {"Scalar", ArgKind::scalar},
    {"Scalar?", ArgKind::optional_scalar}, {"Expr[]", ArgKind::exprs},
};
// clang-format on

ArgKind parse_kind(std::string_view given, std::string_view name) {
  if (name == "pin_memory" || name == "non_blocking") return ArgKind::ignored;
  std::string type(given);
  if (const size_t open = type.find('['); open + 1 < type.size() && std::isdigit(type[open + 1]))
    type.erase(open + 1, 1);  // int[2]: a list of two, or one number for both
  for (const auto& row : kKinds)
    if (row.type == type) return row.kind;
  return ArgKind::ignored;  // Device, Layout, MemoryFormat
}

// "Tensor self, *, Scalar alpha=1, int[] dims=[0, 1]" split at its commas, but for those of a list.
std::vector<ArgSpec> parse_args(std::string_view list) {
  std::vector<ArgSpec> args;
  bool keyword_only = false;
  while (!list.empty()) {
    const size_t open = list.find("=["), first = list.find(", ");
    const size_t comma = std::min(open < first ? list.find(", ", list.find(']', open)) : first, list.size());
    std::string_view item = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 2, list.size()));
    if (item == "*") {
      keyword_only = true;
      continue;
    }
    size_t space = item.find(' ');
    std::string_view name = item.substr(space + 1);
    ArgSpec spec;
    spec.keyword_only = keyword_only;
    if (size_t equals = name.find('='); equals != std::string_view::npos) {
      spec.has_default = true;
      spec.default_text = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    spec.name = name;
    spec.kind = parse_kind(item.substr(0, space), name);
    args.push_back(std::move(spec));
  }
  return args;
}

OpSchema parse_schema(uint16_t index) {
  const OpRow& row = kOpRows[index];
  OpSchema op;
  op.name = row.name;
  op.signature = row.signature;
  op.role = row.role;
  op.row = index;
  size_t arrow = row.signature.find(") -> ");
  op.args = parse_args(row.signature.substr(1, arrow - 1));
  std::string_view returns = row.signature.substr(arrow + 5);
  if (returns == "Tensor[]") op.outputs = -1;
  else if (returns == "()") op.outputs = 0;
  else op.outputs = 1 + static_cast<int>(std::count(returns.begin(), returns.end(), ','));
  return op;
}

struct Table {
  std::vector<OpSchema> sorted;
  std::array<const OpSchema*, kOpRows.size()> by_row{};

  Table() {
    for (uint16_t i = 0; i < kOpRows.size(); ++i) {
      sorted.push_back(parse_schema(i));
      if (!kOpRows[i].in_place) continue;
      OpSchema twin = sorted.back();
      twin.name = add_underscore(twin.name);
      twin.in_place = true;
      sorted.push_back(std::move(twin));
    }
    std::ranges::sort(sorted, {}, &OpSchema::name);
    for (const OpSchema& op : sorted)
      if (!op.in_place) by_row[op.row] = &op;
  }
};

const Table& table() {
  static const Table table;
  return table;
}

}  // namespace

std::span<const OpSchema> op_table() { return table().sorted; }

const OpSchema* Op::schema() const { return table().by_row[row_]; }

const OpSchema* find_op(std::string_view name) {
  const std::vector<OpSchema>& ops = table().sorted;
  auto it = std::lower_bound(ops.begin(), ops.end(), name,
                             [](const OpSchema& op, std::string_view n) { return op.name < n; });
  return it != ops.end() && it->name == name ? &*it : nullptr;
}

std::string functional_name(std::string_view name) {
  const OpSchema* op = find_op(name);
  return op && op->in_place ? std::string(Op(op).row().name) : std::string(name);
}

std::vector<Arg> make_args(const OpSchema& op, std::vector<NamedArg> named) {
  std::vector<Arg> args;
  for (const ArgSpec& spec : op.args) {
    auto it = std::find_if(named.begin(), named.end(), [&](const NamedArg& arg) { return arg.name == spec.name; });
    if (it != named.end()) args.push_back(std::move(it->value));
    else args.push_back(spec.has_default ? default_arg(spec) : Arg());
  }
  return args;
}

}  // namespace qcg
