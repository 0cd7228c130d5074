// Sizes that the run computes: how many elements of a mask are true, and numbers read out of tensors that sizes are
// made of.
//
// Why here: to torch such a size is a symbol, as that of an input is. qcg.measure gives it its value (ir/graph.h).
//
//   aten.nonzero.default(%mask)        ->   the number of true elements u0, and where the running sum of the mask grows
//   aten.index.Tensor(%x, [%mask])     ->   aten.index_select.default of these places, of x whose axes of the mask are one
//   aten.index_put.default(%x, [%mask], %values [u0])   ->   the same, written there
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/ops/infer.h"
#include "graph/ops/size_values.h"
#include "graph/read/torch/export_reader.h"
#include "graph/read/torch/meta.h"
#include "graph/read/torch/operators.h"
#include "graph/read/torch/symbols.h"

namespace qcg {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;  // a bound of a size that is larger says nothing

bool is_size(ArgKind kind) {
  return kind == ArgKind::integer || kind == ArgKind::optional_integer || kind == ArgKind::integers ||
         kind == ArgKind::optional_integers;
}

bool is_mask(const Value& value) { return value.dtype == DType::boolean; }

void add_unbacked(const Dim& size, std::set<std::string, std::less<>>& symbols) {
  for (std::string& symbol : size.symbols())
    if (is_unbacked(symbol)) symbols.insert(std::move(symbol));
}

// Whether both are computed alike, as x > 0 is that a model writes twice.
bool is_same(const Graph& graph, ValueId a, ValueId b, int depth = 4) {
  if (a == b) return true;
  if (a == kNoValue || b == kNoValue || depth == 0) return false;
  const Value &x = graph.value(a), &y = graph.value(b);
  if (x.kind != ValueKind::node || y.kind != ValueKind::node || x.output != y.output) return false;
  const Node &first = graph.nodes[x.producer], &second = graph.nodes[y.producer];
  if (first.op != second.op || first.args.size() != second.args.size()) return false;
  for (size_t i = 0; i < first.args.size(); ++i) {
    const auto *one = first.args[i].get<ValueId>(), *other = second.args[i].get<ValueId>();
    const bool same = one && other ? is_same(graph, *one, *other, depth - 1) : first.args[i] == second.args[i];
    if (!same) return false;
  }
  return true;
}

}  // namespace

Status TorchExportReader::find_measured(const JsonCursor& nodes) {
  if (std::ranges::none_of(graph().symbols, [](const Symbol& s) { return is_unbacked(s.name); })) return {};
  for (const auto& [name, meta_at] : metas_) {
    QCG_TRY(meta, read_tensor_meta(meta_at));
    for (const Dim& size : meta.sizes) add_unbacked(size, sizes_of_tensors_);
  }
  const auto add = [&](const JsonCursor& number) {
    const auto name = number.is(JsonKind::object) ? number.string_at("as_name") : Result<std::string_view>("");
    const auto described = name.ok() ? sizes_.find(*name) : sizes_.end();
    if (described == sizes_.end()) return;
    if (const auto size = read_sym_int(described->second); size.ok()) add_unbacked(*size, sizes_of_tensors_);
  };
  for (JsonCursor node : nodes) {
    const OpSchema* op = find_torch_op(*node.string_at("target"));
    const auto inputs = node.find("inputs");
    if (!op || !inputs || !inputs->is(JsonKind::array)) continue;
    for (JsonCursor input : *inputs) {
      const auto name = input.string_at("name");
      const auto argument = input.find("arg");
      const int index = name.ok() ? op->arg_index(*name) : -1;
      if (!argument || index < 0 || !is_size(op->args[static_cast<size_t>(index)].kind)) continue;
      if (const auto one = argument->find("as_sym_int")) add(*one);
      if (const auto many = argument->find("as_sym_ints"); many && many->is(JsonKind::array))
        for (JsonCursor number : *many) add(number);
    }
  }
  return {};
}

std::optional<SizeCondition> TorchExportReader::bound_of(const std::string& symbol) const {
  for (const SizeCondition& asserted : asserted_of_data_) {
    if (asserted.says != SizeCondition::Says::at_least_0) continue;
    const Dim most = asserted.difference + Dim::symbol(symbol);
    const auto symbols = most.symbols();
    if (std::ranges::none_of(symbols, is_unbacked))
      return SizeCondition{asserted.says, settled_size(asserted.difference), asserted.text};
  }
  const auto range = std::ranges::find(out_.graph.symbols, symbol, &Symbol::name);
  if (range == out_.graph.symbols.end() || range->max > kMostElements) return std::nullopt;
  return SizeCondition{SizeCondition::Says::at_least_0, Dim(range->max) - Dim::symbol(symbol),
                       fmt::format("{} <= {}", symbol, range->max)};
}

Status TorchExportReader::measure(ValueId value, const std::string& symbol, const SizeCondition& bound,
                                  const Node& like) {
  const Dim size = Dim::symbol(symbol), most = bound.difference + size;
  auto known = std::ranges::find(graph().symbols, symbol, &Symbol::name);
  if (known == graph().symbols.end()) known = graph().symbols.insert(known, Symbol{symbol});
  known->max = std::min(known->max, range_of(most, graph().symbols).max);
  if (known->max < known->min)
    return Error::unsupported(
        like.where, "the size " + symbol + " is at least " + std::to_string(known->min) + ", and " + bound.text,
        kExportGraphAgain);
  Node& made = graph().nodes[graph().add_node(find_op("qcg.measure"), {value, size, most}, {})];
  made.where = like.where, made.source = like.source, made.origins = like.origins;
  guards_.push_back(bound);  // shape rules ask for what is known of sizes
  graph().conditions.push_back(bound);
  measured_.insert(symbol);
  return {};
}

// `symbol`: the file's name of the number of places, if it has one of its own.
Result<TorchExportReader::Places> TorchExportReader::places_of(ValueId mask, std::string symbol, const Node& like) {
  const auto known =
      std::ranges::find_if(places_, [&](const auto& each) { return is_same(graph(), each.first, mask); });
  if (known != places_.end()) {
    if (!symbol.empty()) known_sizes_.emplace(symbol, known->second.count);
    return known->second;
  }
  const auto emit = [&](std::string_view op, std::vector<Arg> args) {
    return mutations_.emit(op, std::move(args), like);
  };
  ValueId flat = mask;
  if (!is_mask(graph().value(mask))) {
    QCG_TRY(truth, emit("aten.ne.Scalar", {flat, Arg(Dim(0))}));
    flat = truth;
  }
  const Dim elements = product(graph().value(mask).shape);
  QCG_TRY(list, emit("aten.reshape.default", {flat, std::vector<Dim>{elements}}));
  QCG_TRY(sums, emit("aten.cumsum.default", {list, Dim(0), Arg(DType::i64)}));
  QCG_TRY(total, emit("aten.sum.dim_IntList", {list, std::vector<Dim>{Dim(0)}, Arg(false), Arg(DType::i64)}));
  for (size_t i = 0; symbol.empty(); ++i) {
    std::string name = "u_" + std::to_string(i);
    if (std::ranges::find(graph().symbols, name, &Symbol::name) == graph().symbols.end()) symbol = std::move(name);
  }
  const Dim count = Dim::symbol(symbol);
  QCG_CHECK(measure(total, symbol,
                    {SizeCondition::Says::at_least_0, elements - count, symbol + " <= " + elements.str()}, like));
  // Element i of the mask is written to the place before its running sum, or behind all if it is false.
  QCG_TRY(before, emit("aten.sub.Tensor", {sums, Arg(Dim(1))}));
  QCG_TRY(target, emit("aten.where.ScalarOther", {list, before, Arg(count)}));
  QCG_TRY(none, emit("aten.full.default", {std::vector<Dim>{count + Dim(1)}, Arg(Dim(0)), Arg(DType::i64)}));
  QCG_TRY(numbers, emit("aten.arange.default", {Arg(elements), Arg(DType::i64)}));
  QCG_TRY(scattered, emit("aten.scatter.src", {none, Dim(0), target, numbers}));
  QCG_TRY(all, emit("aten.slice.Tensor", {scattered, Dim(0), Dim(0), count, Dim(1)}));
  places_.emplace_back(mask, Places{all, count});
  return places_.back().second;
}

Result<std::vector<ValueId>> TorchExportReader::coordinates_of(ValueId mask, std::string symbol, const Node& like) {
  const Shape shape = graph().value(mask).shape;
  QCG_TRY(places, places_of(mask, std::move(symbol), like));
  std::vector<ValueId> out;
  Dim step = product(shape);
  for (const Dim& size : shape) {
    const auto within = step.divide_exactly(size);
    if (!within)
      return Error::unsupported(like.where, "nonzero of an axis of " + size.str() + " elements", kExportGraphAgain);
    step = *within;
    ValueId at = places.positions;
    if (!step.is_constant(1)) {
      QCG_TRY(rows, mutations_.emit("aten.floor_divide.default", {at, Arg(step)}, like));
      at = rows;
    }
    if (!out.empty()) {
      QCG_TRY(rest, mutations_.emit("aten.remainder.Scalar", {at, Arg(size)}, like));
      at = rest;
    }
    out.push_back(at);
  }
  return out;
}

// The symbol of a size of the node's first result that only this node determines. Empty if there is none.
std::string TorchExportReader::new_symbol_of(const JsonCursor& node) const {
  const auto outputs = node.find("outputs");
  if (!outputs || !outputs->is(JsonKind::array) || outputs->size() == 0) return {};
  JsonCursor first = *outputs->begin();
  if (const auto list = first.find("as_tensors"); list && list->is(JsonKind::array) && list->size() > 0)
    first = *list->begin();
  else if (const auto one = first.find("as_tensor")) first = *one;
  const auto name = first.string_at("name");
  const auto meta_at = name.ok() ? metas_.find(*name) : metas_.end();
  if (meta_at == metas_.end()) return {};
  const auto meta = read_tensor_meta(meta_at->second);
  if (!meta.ok()) return {};
  for (const Dim& size : meta->sizes)
    if (is_one_symbol(size) && is_unbacked(size.symbols()[0]) && !measured_.contains(size.symbols()[0]) &&
        !known_sizes_.contains(size.symbols()[0]))
      return size.symbols()[0];
  return {};
}

Status TorchExportReader::read_nonzero(const JsonCursor& node, std::string where) {
  if (regions_ > 0)
    return node.unsupported("a size that depends on the data, in a region under torch.no_grad() or torch.autocast",
                            kExportWithoutGrad);
  QCG_CHECK(mutations_.refresh(node));
  const std::string_view target = *node.string_at("target");
  QCG_TRY(inputs, node.array_at("inputs"));
  std::vector<ValueId> tensors;
  for (JsonCursor input : inputs) {
    QCG_TRY(argument, input.at("arg"));
    QCG_TRY(value, read_union(argument));
    QCG_TRY(id, read_tensor_name(value, scope_));
    tensors.push_back(id);
  }
  const bool selects = target == kMaskedSelect;
  if (tensors.size() != (selects ? 2 : 1)) return inputs.bad("the operator takes other tensors", kExportGraphAgain);
  Node like;
  like.op = find_op("qcg.measure"), like.where = std::move(where);
  QCG_TRY(name, node_name(node, {}));
  like.origins = {name};
  const std::string symbol = new_symbol_of(node);
  if (selects) {
    const auto both = broadcast(graph().value(tensors[0]).shape, graph().value(tensors[1]).shape);
    if (!both) return inputs.bad("the mask does not broadcast with the tensor", kExportGraphAgain);
    for (ValueId& id : tensors) {
      QCG_TRY(expanded,
              mutations_.emit("aten.expand.default", {id, std::vector<Dim>(both->begin(), both->end())}, like));
      id = expanded;
    }
    QCG_TRY(places, places_of(tensors[1], symbol, like));
    QCG_TRY(list, mutations_.emit("aten.reshape.default", {tensors[0], std::vector<Dim>{product(*both)}}, like));
    QCG_TRY(result, mutations_.emit("aten.index_select.default", {list, Dim(0), places.positions}, like));
    return define_checked(node, {result});
  }
  if (graph().value(tensors[0]).shape.empty())
    return inputs.unsupported("nonzero of a tensor without axes", "write it with torch.where");
  QCG_TRY(coordinates, coordinates_of(tensors[0], symbol, like));
  if (target != kNonzero) return define_checked(node, coordinates);
  QCG_TRY(result, mutations_.emit("aten.stack.default", {std::move(coordinates), Dim(-1)}, like));
  return define_checked(node, {result});
}

// The element of an axis at a number that is read out of a tensor, or at a size of which nothing says that it lies in
// the axis: x[:, n]. The run checks it. kNoValue: the node is another one.
Result<ValueId> TorchExportReader::read_select(const JsonCursor& node, const OpSchema& op, const std::string& where) {
  if (op.name != "aten.select.int") return kNoValue;
  QCG_TRY(inputs, node.array_at("inputs"));
  bool at_run_time = false;
  for (JsonCursor input : inputs) {
    const auto argument = input.find("arg");
    at_run_time = at_run_time || (argument && argument->find("as_sym_int"));
  }
  if (!at_run_time) return kNoValue;
  Node select;
  select.op = &op, select.where = where, select.args.resize(op.args.size());
  ValueId number = kNoValue;
  for (JsonCursor input : inputs) {
    QCG_TRY(name, input.string_at("name"));
    QCG_TRY(argument, input.at("arg"));
    const int at = op.arg_index(name);
    if (name == "index") number = find_number(argument, scope_);
    if (at < 0 || (name == "index" && number != kNoValue)) continue;
    QCG_TRY(arg, read_torch_arg(argument, op.args[static_cast<size_t>(at)], scope_));
    select.args[static_cast<size_t>(at)] = std::move(arg);
  }
  const ValueId* self = select.args[0].get<ValueId>();
  const Dim *dim = select.args[1].get<Dim>(), *index = select.args[2].get<Dim>();
  if (!self || !dim || !dim->is_constant()) return kNoValue;
  const bool is_size = index && !index->is_constant() && !infer_types(graph(), select).ok();
  if (!is_size && (number == kNoValue || graph().value(number).dtype != DType::i64)) return kNoValue;
  const auto rank = static_cast<int64_t>(graph().value(*self).shape.size());
  const int64_t axis = dim->constant();
  if (axis < -rank || axis >= rank) return kNoValue;
  QCG_TRY(name, node_name(node, {}));
  select.origins = {name};
  if (is_size) {
    QCG_TRY(tensor, mutations_.emit("aten.scalar_tensor.default", {*index, Arg(DType::i64)}, select));
    number = tensor;
  }
  std::vector<ValueId> indices(static_cast<size_t>(axis < 0 ? axis + rank : axis), kNoValue);
  indices.push_back(number);
  return mutations_.emit("aten.index.Tensor", {*self, std::move(indices)}, select);
}

Result<ValueId> TorchExportReader::read_masked(const JsonCursor& node, const OpSchema& op, const std::vector<Arg>& args,
                                               const std::string& where) {
  const bool writes = op.name == "aten.index_put.default";
  if (!writes && op.name != "aten.index.Tensor") return kNoValue;
  const auto* indices = args[1].get<std::vector<ValueId>>();
  if (!indices || regions_ > 0) return kNoValue;
  const auto given = std::ranges::count_if(*indices, [](ValueId id) { return id != kNoValue; });
  const auto at = std::ranges::find_if(*indices, [](ValueId id) { return id != kNoValue; });
  if (given != 1 || !is_mask(graph().value(*at))) return kNoValue;
  Node like;
  like.op = &op, like.where = where, like.args = args;
  // One value for all true elements needs no places.
  if (writes && infer_types(graph(), like).ok()) return kNoValue;
  QCG_TRY(name, node_name(node, {}));
  like.origins = {name};
  const ValueId self = *args[0].get<ValueId>(), mask = *at;
  const Shape shape = graph().value(self).shape, of_mask = graph().value(mask).shape;
  const auto first = static_cast<size_t>(at - indices->begin());
  if (of_mask.empty() || first + of_mask.size() > shape.size()) return kNoValue;  // the shape rule says why
  const auto from = shape.begin() + static_cast<std::ptrdiff_t>(first),
             behind = from + static_cast<std::ptrdiff_t>(of_mask.size());
  if (!std::equal(from, behind, of_mask.begin())) return kNoValue;
  std::vector<Dim> joined(shape.begin(), from);
  joined.push_back(product(of_mask));
  joined.insert(joined.end(), behind, shape.end());
  QCG_TRY(places, places_of(mask, writes ? std::string() : new_symbol_of(node), like));
  QCG_TRY(whole, mutations_.emit("aten.reshape.default", {self, joined}, like));
  if (!writes)
    return mutations_.emit("aten.index_select.default", {whole, Dim(static_cast<int64_t>(first)), places.positions},
                           like);
  std::vector<ValueId> positions(first, kNoValue);
  positions.push_back(places.positions);
  QCG_TRY(written, mutations_.emit("aten.index_put.default", {whole, positions, args[2], args[3]}, like));
  return mutations_.emit("aten.reshape.default", {written, std::vector<Dim>(shape.begin(), shape.end())}, like);
}

}  // namespace qcg
