#include "graph/read/torch/args.h"

#include "graph/read/files/limits.h"
#include "graph/read/torch/meta.h"

namespace qcg {
namespace {

struct KindText {
  ArgKind kind;
  std::string_view text;
};
// clang-format off
constexpr KindText kKindTexts[] = {
    {ArgKind::tensor, "a tensor"},         {ArgKind::optional_tensor, "a tensor or none"},
    {ArgKind::tensors, "a tensor list"},   {ArgKind::optional_tensors, "a tensor list"},
    {ArgKind::integer, "an integer"},      {ArgKind::optional_integer, "an integer or none"},
    {ArgKind::integers, "an integer list"}, {ArgKind::optional_integers, "an integer list or none"},
    {ArgKind::real, "a number"},           {ArgKind::optional_real, "a number or none"},
    {ArgKind::reals, "a number list"},     {ArgKind::optional_reals, "a number list or none"},
    {ArgKind::boolean, "a boolean"},
    {ArgKind::optional_boolean, "a boolean or none"}, {ArgKind::string, "a string"},
    {ArgKind::optional_string, "a string or none"}, {ArgKind::dtype, "an element type"},
    {ArgKind::optional_dtype, "an element type or none"}, {ArgKind::scalar, "a number"},
    {ArgKind::optional_scalar, "a number or none"}, {ArgKind::tensor_or_scalar, "a tensor or a number"},
};
// clang-format on

template <class F>
auto read_list(const JsonCursor& list, F&& read) -> Result<std::vector<typename std::decay_t<decltype(*read(list))>>> {
  std::vector<typename std::decay_t<decltype(*read(list))>> out;
  QCG_CHECK(list.expect(JsonKind::array));
  if (list.size() > kMaxListLength) {
    return list.bad("the list has " + std::to_string(list.size()) + " elements",
                    "at most " + std::to_string(kMaxListLength) + " are supported");
  }
  for (JsonCursor item : list) {
    auto one = read(item);
    if (!one.ok()) return std::move(one.error());
    out.push_back(std::move(*one));
  }
  return out;
}

Result<Dim> read_plain_integer(const JsonCursor& value) {
  QCG_TRY(integer, value.integer());
  return Dim(integer);
}

Result<std::vector<Dim>> read_one_integer(const JsonCursor& value) {
  QCG_TRY(integer, read_plain_integer(value));
  return std::vector<Dim>{integer};
}

Result<ValueId> read_optional_tensor(const JsonCursor& object, const TorchScope& scope) {
  QCG_TRY(value, read_union(object));
  if (value.key() == "as_none") return kNoValue;
  if (value.key() == "as_tensor") return read_tensor_name(value, scope);
  return value.bad("expected as_tensor or as_none", "export the graph again");
}

bool takes_tensor(ArgKind kind) {
  return kind == ArgKind::tensor || kind == ArgKind::optional_tensor || kind == ArgKind::tensor_or_scalar;
}

// One reader per alternative; nullopt when the alternative does not fit the kind.
std::optional<Result<Arg>> read_tensors(const JsonCursor& value, ArgKind kind, const TorchScope& scope) {
  bool one = takes_tensor(kind);
  bool many = kind == ArgKind::tensors || kind == ArgKind::optional_tensors;
  if (one && value.key() == "as_tensor") return read_tensor_name(value, scope);
  if (kind == ArgKind::optional_tensor && value.key() == "as_optional_tensor")
    return read_optional_tensor(value, scope);
  if (many && value.key() == "as_tensors") {
    return read_list(value, [&](const JsonCursor& c) { return read_tensor_name(c, scope); });
  }
  if (kind == ArgKind::optional_tensors && value.key() == "as_optional_tensors") {
    return read_list(value, [&](const JsonCursor& c) { return read_optional_tensor(c, scope); });
  }
  return std::nullopt;
}

Error depends_on_data(const JsonCursor& value, std::string_view name) {
  return value.unsupported("the number " + quote(name) + " is read out of a tensor (.item()): it depends on the data",
                           "for a size, say how large it may be: torch._check(n <= x.shape[0]) or torch._check(n <= "
                           "512); for another number, keep it a tensor without axes, or export with a constant");
}

// A size over a multiple of itself is a number.
Result<Arg> read_sym_float_argument(const JsonCursor& argument, const TorchScope& scope) {
  QCG_TRY(value, read_union(argument));
  if (value.key() == "as_float") return value.real();
  QCG_TRY(name, value.string());
  if (scope.of_data.contains(name)) return depends_on_data(value, name);
  if (auto it = scope.sym_floats.find(name); it != scope.sym_floats.end()) return Arg(it->second);
  return value.unsupported(
      "the argument is a fraction or a power of a size that is known only at run time, which this operator takes as a "
      "constant alone",
      "export with that axis static, or multiply a tensor by the number before or after the operator");
}

std::optional<Result<Arg>> read_numbers(const JsonCursor& value, ArgKind kind, const TorchScope& scope) {
  bool scalar = kind == ArgKind::scalar || kind == ArgKind::optional_scalar || kind == ArgKind::tensor_or_scalar;
  bool integer = scalar || kind == ArgKind::integer || kind == ArgKind::optional_integer;
  bool integers = kind == ArgKind::integers || kind == ArgKind::optional_integers;
  bool real = kind == ArgKind::real || kind == ArgKind::optional_real;
  bool boolean = scalar || kind == ArgKind::boolean || kind == ArgKind::optional_boolean;
  std::string_view key = value.key();
  if (integer && key == "as_int") return read_plain_integer(value);
  if (integer && key == "as_sym_int") return read_sym_int_argument(value, scope);
  if (integers && key == "as_ints") return read_list(value, read_plain_integer);
  if (integers && key == "as_sym_ints") {
    return read_list(value, [&](const JsonCursor& c) { return read_sym_int_argument(c, scope); });
  }
  // aten's int[1] takes a bare integer for a list of one.
  if (integers && key == "as_int") return read_one_integer(value);
  if ((scalar || real) && key == "as_float") return value.real();
  if ((scalar || real) && key == "as_sym_float") return read_sym_float_argument(value, scope);
  if (real && key == "as_int") return value.real();
  if ((kind == ArgKind::reals || kind == ArgKind::optional_reals) && key == "as_floats")
    return read_list(value, [](const JsonCursor& c) { return c.real(); });
  if (boolean && key == "as_bool") return value.boolean();
  return std::nullopt;
}

std::optional<Result<Arg>> read_words(const JsonCursor& value, ArgKind kind) {
  if ((kind == ArgKind::string || kind == ArgKind::optional_string) && value.key() == "as_string") return value.name();
  if ((kind == ArgKind::dtype || kind == ArgKind::optional_dtype) && value.key() == "as_scalar_type") {
    return read_export_dtype(value);
  }
  return std::nullopt;
}

}  // namespace

Result<JsonCursor> read_union(const JsonCursor& object) {
  QCG_CHECK(object.expect(JsonKind::object));
  if (object.size() != 1)
    return object.bad("expected an object with one field that says what it holds", "export the graph again");
  return *object.begin();
}

Result<ValueId> read_tensor_name(const JsonCursor& tensor_argument, const TorchScope& scope) {
  QCG_TRY(name, tensor_argument.string_at("name"));
  auto it = scope.tensors.find(name);
  if (it != scope.tensors.end()) return it->second;
  return tensor_argument.bad("the tensor " + quote(name) + " is not defined above this place",
                             "nodes must come after what they read, without cycles; export the graph again");
}

Result<Dim> read_sym_int_argument(const JsonCursor& argument, const TorchScope& scope) {
  QCG_TRY(value, read_union(argument));
  if (value.key() == "as_int") return read_plain_integer(value);
  if (value.key() != "as_name") return value.bad("expected as_int or as_name", "export the graph again");
  QCG_TRY(name, value.string());
  auto it = scope.sym_ints.find(name);
  if (it != scope.sym_ints.end()) return it->second;
  if (scope.of_data.contains(name)) return depends_on_data(value, name);
  return value.bad("the size " + quote(name) + " is not defined above this place",
                   "nodes must come after what they read, without cycles; export the graph again");
}

ValueId find_number(const JsonCursor& argument, const TorchScope& scope) {
  if (scope.numbers.empty()) return kNoValue;
  const auto value = read_union(argument);
  if (!value.ok() || (value->key() != "as_sym_float" && value->key() != "as_sym_int")) return kNoValue;
  const auto named = read_union(*value);
  if (!named.ok() || named->key() != "as_name") return kNoValue;
  const auto name = named->string();
  const auto it = name.ok() ? scope.numbers.find(*name) : scope.numbers.end();
  return it == scope.numbers.end() ? kNoValue : it->second;
}

Result<Arg> read_torch_arg(const JsonCursor& argument, const ArgSpec& spec, const TorchScope& scope) {
  QCG_TRY(value, read_union(argument));
  if (takes_tensor(spec.kind)) {
    const ValueId number = find_number(argument, scope);
    if (number != kNoValue) return Arg(number);
  }
  if (spec.kind == ArgKind::ignored) return Arg();
  if (value.key() == "as_none" && may_be_none(spec.kind)) return Arg();
  if (auto arg = read_tensors(value, spec.kind, scope)) return std::move(*arg);
  if (auto arg = read_numbers(value, spec.kind, scope)) return std::move(*arg);
  if (auto arg = read_words(value, spec.kind)) return std::move(*arg);
  std::string_view wanted = "something else";
  for (const KindText& row : kKindTexts)
    if (row.kind == spec.kind) wanted = row.text;
  return argument.bad(
      "argument " + quote(spec.name) + " must be " + std::string(wanted) + ", found " + quote(value.key()),
      "export the graph again; `qcodegen list ops` shows the arguments of each op");
}

}  // namespace qcg
