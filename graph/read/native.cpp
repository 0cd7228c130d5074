#include "graph/read/native.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "graph/ops/infer.h"
#include "graph/ops/op_names.h"
#include "graph/ops/op_table.h"
#include "graph/ops/verify.h"
#include "graph/read/files/limits.h"
#include "graph/read/torch/meta.h"

namespace qcg {
namespace {

constexpr const char* kDocs = "docs/native_json.md describes the format";
constexpr int64_t kMaxInlineElements = 1'000'000;

// The variants of an op that a short name prefers, in this order.
constexpr std::string_view kOverloads[] = {"default",       "Tensor",      "dtype", "int",      "using_ints",
                                           "Tensor_Scalar", "dim_IntList", "dim",   "self_int", "input"};

class NativeReader {
 public:
  explicit NativeReader(const JsonDocument& document) : root_(document.root()) {}

  Result<Graph> read() {
    QCG_TRY(version, root_.at("version"));
    QCG_TRY(number, version.integer());
    if (number != 1)
      return version.unsupported("version " + std::to_string(number) + " is not supported, only 1", kDocs);
    if (auto name = root_.find("name")) {
      QCG_TRY(text, name->name());
      graph_.name = std::move(text);
    }
    QCG_CHECK(read_symbols());
    QCG_TRY(inputs, root_.array_at("inputs"));
    for (JsonCursor input : inputs) QCG_CHECK(read_input(input));
    QCG_CHECK(read_parameters());
    QCG_CHECK(read_states());
    QCG_TRY(nodes, root_.array_at("nodes"));
    if (nodes.size() > kMaxNodes)
      return nodes.bad("there are too many nodes", "at most " + std::to_string(kMaxNodes) + " are supported");
    size_t position = 0;
    for (JsonCursor node : nodes) QCG_CHECK(read_node(node, "$.nodes[" + std::to_string(position++) + "]"));
    QCG_TRY(outputs, root_.array_at("outputs"));
    for (JsonCursor output : outputs) {
      QCG_TRY(id, read_value(output));
      graph_.outputs.push_back(id);
      graph_.output_names.push_back(graph_.value(id).name);
    }
    QCG_CHECK(read_next_values());
    return std::move(graph_);
  }

 private:
  // "symbols": {"m": [1, 4096]}
  Status read_symbols() {
    auto symbols = root_.find("symbols");
    if (!symbols) return {};
    QCG_CHECK(symbols->expect(JsonKind::object));
    if (symbols->size() > kMaxSymbols)
      return symbols->bad("there are too many symbols", "at most " + std::to_string(kMaxSymbols) + " are supported");
    for (JsonCursor range : *symbols) {
      auto name = Dim::parse(range.key());
      bool is_name = name.ok() && name->symbols() == std::vector<std::string>{std::string(range.key())};
      if (!is_name) return range.bad("a symbol's name has letters, digits and _ only", kDocs);
      std::vector<int64_t> bounds;
      for (JsonCursor bound : range) {
        QCG_TRY(value, bound.integer());
        bounds.push_back(value);
        if (bounds.size() > 2) break;
      }
      if (bounds.size() != 2 || bounds[0] < 0 || bounds[1] < bounds[0])
        return range.bad("expected [min, max] with 0 <= min <= max", kDocs);
      graph_.symbols.push_back({std::string(range.key()), bounds[0], bounds[1]});
      symbols_.insert(graph_.symbols.back().name);
    }
    return {};
  }

  struct Declared {
    std::string name;
    DType dtype;
    Shape shape;
  };

  Result<Declared> read_declaration(const JsonCursor& item) const {
    Declared d;
    QCG_TRY(name_at, item.at("name"));
    QCG_TRY(name, name_at.name());
    if (values_.contains(name))
      return name_at.bad(quote(name) + " is defined twice", "give every value a name of its own");
    d.name = std::move(name);
    QCG_TRY(dtype_at, item.at("dtype"));
    QCG_TRY(dtype, read_dtype(dtype_at));
    d.dtype = dtype;
    QCG_TRY(shape, item.array_at("shape"));
    QCG_TRY(dims, read_dims(shape, kMaxRank));
    d.shape = std::move(dims);
    for (const Dim& dim : d.shape) {
      if (dim.is_constant() && dim.constant() < 0) return shape.bad("a size is negative", kDocs);
    }
    return d;
  }

  static Result<DType> read_dtype(const JsonCursor& at) {
    QCG_TRY(text, at.string());
    if (auto dtype = dtype_from_name(text)) return *dtype;
    return at.unsupported("unknown element type " + quote(text), "use f32, bf16, f16, i8, u8, i32, ...");
  }

  // 256, "m" or "2*m + 1"
  Result<Dim> read_dim(const JsonCursor& at) const {
    if (at.is(JsonKind::integer)) return Dim(*at.integer());
    QCG_TRY(text, at.string());
    auto dim = parse_size_expr(text);
    if (!dim.ok()) dim.error().where = at.path();
    if (!dim.ok()) return dim;
    for (const std::string& name : dim->symbols()) {
      if (!symbols_.contains(name))
        return at.bad("the symbol " + quote(name) + " is not declared", "add it to \"symbols\" with its range");
    }
    return dim;
  }

  Result<std::vector<Dim>> read_dims(const JsonCursor& list, size_t limit) const {
    QCG_CHECK(list.expect(JsonKind::array));
    if (list.size() > limit)
      return list.bad("the list has " + std::to_string(list.size()) + " elements",
                      "at most " + std::to_string(limit) + " are supported");
    std::vector<Dim> dims;
    for (JsonCursor item : list) {
      QCG_TRY(dim, read_dim(item));
      dims.push_back(std::move(dim));
    }
    return dims;
  }

  Status read_input(const JsonCursor& input) {
    QCG_TRY(d, read_declaration(input));
    const ValueId id = graph_.add_input(d.name, d.dtype, std::move(d.shape));
    values_.emplace(d.name, id);
    const auto symbol_at = input.find("symbol");
    if (!symbol_at) return {};
    QCG_TRY(symbol, symbol_at->string());
    if (!symbols_.contains(std::string(symbol)))
      return symbol_at->bad("the symbol " + quote(symbol) + " is not declared", "add it to \"symbols\" with its range");
    if (!may_be_symbol(graph_.value(id)))
      return symbol_at->bad("the value of a symbol is one integer", "give the input the dtype i64 or i32 and shape []");
    graph_.value(id).symbol = symbol;
    return {};
  }

  // ---- parameters

  Status read_parameters() {
    auto parameters = root_.find("parameters");
    if (!parameters) return {};
    QCG_CHECK(parameters->expect(JsonKind::array));
    for (JsonCursor parameter : *parameters) {
      QCG_TRY(d, read_declaration(parameter));
      QCG_TRY(tensor, read_tensor(parameter, d));
      values_.emplace(d.name, graph_.add_parameter(d.name, std::move(tensor)));
    }
    return {};
  }

  // A declaration of constant sizes, with its data where that is given.
  static Result<Tensor> read_tensor(const JsonCursor& at, const Declared& d) {
    Tensor tensor;
    tensor.dtype = d.dtype;
    for (const Dim& dim : d.shape) {
      if (!dim.is_constant()) return at.bad("the size of a parameter or a state is symbolic", "write numbers");
      tensor.shape.push_back(dim.constant());
    }
    tensor.strides.assign(tensor.shape.size(), 0);
    if (!has_sane_extent(tensor)) return at.bad("the tensor is too large", kDocs);
    tensor.strides = Tensor::row_major_strides(tensor.shape);
    if (auto data = at.find("data")) return read_data(*data, tensor);
    return tensor;
  }

  // "states": [{"name": "sum", "dtype": "f32", "shape": [8], "next": "after"}]
  Status read_states() {
    auto states = root_.find("states");
    if (!states) return {};
    QCG_CHECK(states->expect(JsonKind::array));
    for (JsonCursor state : *states) {
      QCG_TRY(d, read_declaration(state));
      QCG_TRY(tensor, read_tensor(state, d));
      if (!tensor.bound()) tensor = Tensor::same_zeros(tensor.dtype, tensor.shape);
      values_.emplace(d.name, graph_.add_state(d.name, d.name, std::move(tensor)));
    }
    return {};
  }

  Status read_next_values() {
    auto states = root_.find("states");
    if (!states) return {};
    size_t position = 0;
    for (JsonCursor state : *states) {
      QCG_TRY(next, state.at("next"));
      QCG_TRY(id, read_value(next));
      const Value& before = graph_.value(graph_.state_input(position));
      const Value& after = graph_.value(id);
      if (before.dtype != after.dtype || before.shape != after.shape)
        return next.bad("the next value is " + std::string(dtype_name(after.dtype)) + to_string(after.shape) +
                            ", the state " + std::string(dtype_name(before.dtype)) + to_string(before.shape),
                        "cast or reshape it: a state keeps its type");
      graph_.outputs.push_back(id);
      graph_.output_names.push_back(graph_.states[position++]);
    }
    return {};
  }

  // Numbers in row-major order; lists may be nested as the shape is, or not.
  static Result<Tensor> read_data(const JsonCursor& data, const Tensor& declared) {
    int64_t count = declared.numel();
    if (count > kMaxInlineElements)
      return data.bad("inline data has at most " + std::to_string(kMaxInlineElements) + " elements",
                      "put the weights into a safetensors file");
    std::vector<std::byte> bytes(static_cast<size_t>(count) * dtype_bytes(declared.dtype));
    size_t filled = 0;
    QCG_CHECK(read_elements(data, declared.dtype, bytes, filled));
    if (filled != static_cast<size_t>(count)) {
      return data.bad("the data has " + std::to_string(filled) + " elements, the shape " + std::to_string(count),
                      kDocs);
    }
    return Tensor::from_bytes(declared.dtype, declared.shape, std::move(bytes));
  }

  static Status read_elements(const JsonCursor& item, DType dtype, std::vector<std::byte>& bytes, size_t& filled) {
    if (item.is(JsonKind::array)) {
      for (JsonCursor inner : item) QCG_CHECK(read_elements(inner, dtype, bytes, filled));
      return {};
    }
    size_t width = dtype_bytes(dtype);
    if (filled * width >= bytes.size()) return item.bad("the data has more elements than the shape", kDocs);
    std::byte* element = bytes.data() + filled++ * width;
    if (is_floating(dtype)) {
      QCG_TRY(value, item.real());
      double_to_element(dtype, value, element);
      return {};
    }
    QCG_TRY(value, item.integer());
    int_to_element(dtype, value, element);
    bool fits = element_to_int(dtype, element) == value && (dtype != DType::boolean || value == 0 || value == 1);
    return fits ? Status()
                : Status(item.bad(std::to_string(value) + " does not fit " + std::string(dtype_name(dtype)), kDocs));
  }

  // ---- nodes

  Status read_node(const JsonCursor& node, std::string where) {
    QCG_TRY(op_at, node.at("op"));
    QCG_TRY(op_name, op_at.string());
    const OpSchema* op = find_op_by_short_name(op_name);
    if (!op)
      return op_at.unsupported("there is no operator " + quote(op_name) + similar_op(op_name),
                               "`qcodegen list ops` shows the supported operators");
    QCG_TRY(args, read_arguments(node, *op));
    QCG_TRY(names, read_output_names(node));
    Node made;
    made.op = op;
    made.args = args;
    made.where = where;
    QCG_CHECK(check_arguments(graph_, made));
    if (!budget_.spend(graph_, made)) return budget_.exceeded(graph_, made);
    QCG_TRY(types, infer_types(graph_, made));
    if (types.size() != names.size()) {
      return node.bad(op->name + " has " + std::to_string(types.size()) + " outputs, the node names " +
                          std::to_string(names.size()),
                      kDocs);
    }
    std::vector<Value> outputs(types.size());
    for (size_t i = 0; i < types.size(); ++i) {
      outputs[i].name = names[i];
      outputs[i].dtype = types[i].dtype;
      outputs[i].shape = std::move(types[i].shape);
    }
    NodeId id = graph_.add_node(op, std::move(args), std::move(outputs));
    graph_.nodes[id].where = std::move(where);
    if (!names.empty()) graph_.nodes[id].origins.push_back(names[0]);
    for (size_t i = 0; i < names.size(); ++i) values_.emplace(names[i], graph_.nodes[id].outputs[i]);
    return {};
  }

  Result<std::vector<std::string>> read_output_names(const JsonCursor& node) const {
    QCG_TRY(list, node.array_at("outputs"));
    std::vector<std::string> names;
    std::unordered_set<std::string> own;
    for (JsonCursor item : list) {
      QCG_TRY(name, item.name());
      if (values_.contains(name) || !own.insert(name).second)
        return item.bad(quote(name) + " is defined twice", "give every value a name of its own");
      names.push_back(std::move(name));
      if (names.size() > 4096) return list.bad("the node has too many outputs", kDocs);
    }
    return names;
  }

  Result<std::vector<Arg>> read_arguments(const JsonCursor& node, const OpSchema& op) const {
    QCG_TRY(inputs, node.object_at("inputs"));
    std::vector<Arg> args(op.args.size());
    std::vector<bool> given(op.args.size());
    for (JsonCursor input : inputs) {
      int index = op.arg_index(input.key());
      if (index < 0)
        return input.bad(op.name + " has no argument " + quote(input.key()), "its signature is " + op.signature);
      QCG_TRY(arg, read_argument(input, op.args[index]));
      args[index] = std::move(arg);
      given[index] = true;
    }
    for (size_t i = 0; i < args.size(); ++i) {
      const ArgSpec& spec = op.args[i];
      if (!given[i] && spec.has_default) args[i] = default_arg(spec);
      if (!given[i] && !spec.has_default && spec.kind == ArgKind::optional_tensor) args[i] = kNoValue;
      bool optional = spec.has_default || spec.kind == ArgKind::ignored || spec.kind == ArgKind::optional_tensor;
      if (!given[i] && !optional)
        return inputs.bad(op.name + " lacks its argument " + quote(spec.name), "its signature is " + op.signature);
    }
    return args;
  }

  Result<Arg> read_argument(const JsonCursor& at, const ArgSpec& spec) const {
    bool none = at.is(JsonKind::null);
    switch (spec.kind) {
      case ArgKind::tensor: return read_value(at);
      case ArgKind::optional_tensor: return none ? Result<Arg>(kNoValue) : read_value(at);
      case ArgKind::tensors:
      case ArgKind::optional_tensors: return read_values(at, spec.kind == ArgKind::optional_tensors);
      case ArgKind::tensor_or_scalar:
        return at.is(JsonKind::string) && values_.contains(std::string(*at.string())) ? read_value(at)
                                                                                      : read_scalar(at);
      case ArgKind::optional_integer:
        if (none) return Arg();
        [[fallthrough]];
      case ArgKind::integer: return read_dim(at);
      case ArgKind::optional_integers:
        if (none) return Arg();
        [[fallthrough]];
      case ArgKind::integers: return read_dims(at, kMaxListLength);
      case ArgKind::optional_real:
        if (none) return Arg();
        [[fallthrough]];
      case ArgKind::real: return at.real();
      case ArgKind::optional_reals:
        if (none) return Arg();
        [[fallthrough]];
      case ArgKind::reals: return read_reals(at);
      case ArgKind::optional_boolean:
        if (none) return Arg();
        [[fallthrough]];
      case ArgKind::boolean: return at.boolean();
      case ArgKind::optional_string:
        if (none) return Arg();
        [[fallthrough]];
      case ArgKind::string: return at.name();
      case ArgKind::optional_dtype:
        if (none) return Arg();
        [[fallthrough]];
      case ArgKind::dtype: return read_dtype(at);
      case ArgKind::optional_scalar:
        if (none) return Arg();
        [[fallthrough]];
      case ArgKind::scalar: return read_scalar(at);
      case ArgKind::exprs:
      case ArgKind::ignored: break;
    }
    return Arg();
  }

  // A number, a boolean, or a size written as text.
  Result<Arg> read_scalar(const JsonCursor& at) const {
    if (at.is(JsonKind::boolean)) return at.boolean();
    if (at.is(JsonKind::real)) return at.real();
    if (at.is(JsonKind::string) && at.real().ok()) return at.real();  // "Infinity"
    return read_dim(at);
  }

  Result<std::vector<double>> read_reals(const JsonCursor& list) const {
    QCG_CHECK(list.expect(JsonKind::array));
    std::vector<double> values;
    for (JsonCursor item : list) {
      QCG_TRY(value, item.real());
      values.push_back(value);
    }
    return values;
  }

  Result<ValueId> read_value(const JsonCursor& at) const {
    QCG_TRY(name, at.string());
    auto it = values_.find(std::string(name));
    if (it != values_.end()) return it->second;
    return at.bad("the value " + quote(name) + " is not defined above this place",
                  "define inputs, parameters and nodes before they are used");
  }

  Result<std::vector<ValueId>> read_values(const JsonCursor& list, bool optional) const {
    QCG_CHECK(list.expect(JsonKind::array));
    if (list.size() > kMaxListLength) return list.bad("the list is too long", kDocs);
    std::vector<ValueId> ids;
    for (JsonCursor item : list) {
      if (optional && item.is(JsonKind::null)) {
        ids.push_back(kNoValue);
        continue;
      }
      QCG_TRY(id, read_value(item));
      ids.push_back(id);
    }
    return ids;
  }

  JsonCursor root_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;
  std::unordered_set<std::string> symbols_;
  SizeBudget budget_;
};

}  // namespace

bool is_native_graph(const JsonCursor& root) {
  auto format = root.find("format");
  return format && format->is(JsonKind::string) && *format->string() == "qcodegen";
}

Result<Graph> read_native_graph(const JsonDocument& document) { return NativeReader(document).read(); }

const OpSchema* find_op_by_short_name(std::string_view name) {
  if (name.starts_with("torch.ops.")) name.remove_prefix(10);
  if (name.size() > 128) return nullptr;
  for (std::string_view space : {"", "aten.", "torchao.", "tensor_cast.", "qcg."}) {
    std::string base = std::string(space) + std::string(name);
    const OpSchema* op = find_op(base);
    for (size_t i = 0; !op && i < std::size(kOverloads); ++i) op = find_op(base + "." + std::string(kOverloads[i]));
    if (op && op->role != OpRole::internal) return op;
  }
  return nullptr;
}

}  // namespace qcg
