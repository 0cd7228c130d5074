#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/ops/infer.h"
#include "graph/ops/verify.h"
#include "graph/read/torch/export_reader.h"
#include "graph/read/torch/meta.h"
#include "graph/read/torch/operators.h"
#include "graph/read/torch/symbols.h"

namespace qcg {
namespace {

bool has_unbacked(const Dim& size) {
  const auto symbols = size.symbols();
  return std::ranges::any_of(symbols, is_unbacked);
}

constexpr int64_t kMostPadded = 1 << 20;  // elements
constexpr int64_t kMostRaised = 1 << 12;  // of each factor of a product

// Whether the sizes of a node are checked as those of `op` are.
bool has_rule_of(const Node& node, Op op) { return Op(node.op).row().shape == op.row().shape; }

}  // namespace

Status TorchExportReader::read_symbolic(const JsonCursor& node) {
  QCG_TRY(outputs, node.array_at("outputs"));
  for (JsonCursor output : outputs) {
    QCG_TRY(value, read_union(output));
    const std::string_view target = *node.string_at("target");
    if (target == kItem || target == kScalarOf) {
      QCG_CHECK(read_item(node, value));
    } else if (value.key() == "as_sym_float") {
      QCG_CHECK(read_sym_float(node, value));
    }
    if (value.key() == "as_sym_bool" || value.key() == "as_sym_float" || value.key() == "as_none") continue;
    if (value.key() != "as_sym_int")
      return value.unsupported("this node must compute a size, it has " + quote(value.key()), kExportGraphAgain);
    QCG_TRY(name_at, value.at("as_name"));
    QCG_TRY(name, name_at.string());
    auto described = sizes_.find(name);
    if (described == sizes_.end())
      return name_at.bad("sym_int_values does not describe " + quote(name), kExportGraphAgain);
    QCG_TRY(written, read_sym_int(described->second));
    const Dim size = settled_size(written);
    const auto is_of_data = [&](const std::string& symbol) { return data_symbols_.contains(symbol); };
    if (target == "torch.ops.aten.sym_storage_offset.default" || std::ranges::any_of(size.symbols(), is_of_data)) {
      scope_.of_data.insert(name);
      QCG_CHECK(define_number(node, name, DType::i64));
      continue;
    }
    QCG_CHECK(check_sym_size(node, size));
    if (!scope_.sym_ints.emplace(name, size).second)
      return name_at.bad("the size " + quote(name) + " is defined twice", kExportGraphAgain);
  }
  return {};
}

Status TorchExportReader::read_sym_float(const JsonCursor& node, const JsonCursor& value) {
  QCG_TRY(name_at, value.at("as_name"));
  QCG_TRY(name, name_at.string());
  const auto described = reals_.find(name);
  if (const auto expr = described == reals_.end() ? std::nullopt : described->second.find("as_expr")) {
    QCG_TRY(text, expr->string_at("expr_str"));
    if (const auto number = parse_real_expr(text); number.ok() && *number) {
      scope_.sym_floats.emplace(name, **number);
      return {};
    }
  }
  return define_number(node, name, DType::f64);
}

Status TorchExportReader::read_item(const JsonCursor& node, const JsonCursor& value) {
  QCG_TRY(name, node_name(node, {}));
  if (value.key() == "as_sym_int") {
    QCG_TRY(name_at, value.at("as_name"));
    QCG_TRY(described, name_at.string());
    QCG_TRY(id, item_of(node));
    const auto meta = sizes_.find(described);
    if (meta == sizes_.end())
      return name_at.bad("sym_int_values does not describe " + quote(described), kExportGraphAgain);
    QCG_TRY(symbol, read_sym_int(meta->second));
    if (const auto size = size_held_by(out_.graph, id)) {
      if (is_one_symbol(symbol)) known_sizes_.emplace(symbol.symbols()[0], *size);
      return {};
    }
    if (const ValueId input = input_held_by(out_.graph, id); input != kNoValue && is_one_symbol(symbol)) {
      out_.graph.value(input).symbol = symbol.symbols()[0];
      return {};
    }
    const bool is_size = is_one_symbol(symbol) && sizes_of_tensors_.contains(symbol.symbols()[0]);
    if (const auto bound = is_size ? bound_of(symbol.symbols()[0]) : std::nullopt) {
      QCG_TRY(number, number_of(node));
      if (number != kNoValue && graph().value(number).dtype == DType::i64) {
        Node like;
        like.op = find_op("qcg.measure"), like.where = node.path(), like.origins = {name};
        return measure(number, symbol.symbols()[0], *bound, like);
      }
    }
    for (std::string& one : symbol.symbols()) data_symbols_.insert(std::move(one));
  } else if (value.key() == "as_sym_float") {
    QCG_TRY(real_at, value.at("as_name"));
    QCG_TRY(real, real_at.string());
    scope_.of_data.insert(real);
    QCG_CHECK(define_number(node, real, DType::f64));
  }
  out_.notes.push_back("assertions about " + quote(name) + " are left out: they depend on the data");
  return {};
}

Status TorchExportReader::check_sym_size(const JsonCursor& node, const Dim& size) const {
  if (*node.string_at("target") != "torch.ops.aten.sym_size.int") return {};
  ValueId tensor = kNoValue;
  std::optional<int64_t> axis;
  QCG_TRY(inputs, node.array_at("inputs"));
  for (JsonCursor input : inputs) {
    QCG_TRY(name, input.string_at("name"));
    QCG_TRY(argument, input.at("arg"));
    QCG_TRY(value, read_union(argument));
    if (name == "self" && value.key() == "as_tensor") {
      QCG_TRY(id, read_tensor_name(value, scope_));
      tensor = id;
    } else if (name == "dim" && value.key() == "as_int") {
      QCG_TRY(number, value.integer());
      axis = number;
    }
  }
  if (tensor == kNoValue || !axis) return inputs.bad("sym_size needs a tensor and an axis", kExportGraphAgain);
  const Shape& shape = out_.graph.value(tensor).shape;
  int64_t rank = static_cast<int64_t>(shape.size());
  if (*axis < -rank || *axis >= rank) return inputs.bad("the axis is out of range", kExportGraphAgain);
  const Dim actual = settled_size(shape[*axis < 0 ? *axis + rank : *axis]);
  if (actual == size) return {};
  return inputs.bad("the axis has size " + actual.str() + ", but sym_int_values says " + size.str(), kExportGraphAgain);
}

void TorchExportReader::correct(const Node& made) {
  const bool is_lstm = Op(made.op) == Op("aten.lstm.input"),
             is_quotient = Op(made.op) == Op("aten.div.Tensor") && graph().value(made.outputs[0]).dtype == DType::i64;
  bool follows = false;
  if (!corrected_.empty()) for_each_input(made, [&](ValueId id) { follows = follows || corrected_.contains(id); });
  if ((!is_lstm && !is_quotient && !follows) || !check_arguments(graph(), made).ok()) return;
  const auto types = infer_types(graph(), made);
  if (!types.ok() || types->size() != made.outputs.size()) return;
  for (size_t i = 0; i < made.outputs.size(); ++i) {
    Value& declared = graph().value(made.outputs[i]);
    const ValueType& found = (*types)[i];
    const bool extra_axis = is_lstm && i > 0 && declared.shape.size() == found.shape.size() + 1;
    const bool is_fraction = is_quotient && is_floating(found.dtype);
    if (!extra_axis && !is_fraction && !follows) continue;
    declared.dtype = found.dtype;
    declared.shape = found.shape;
    corrected_.insert(made.outputs[i]);
  }
}

void TorchExportReader::find_sizes(const Node& made) {
  bool symbolic = false;
  const auto look = [&](ValueId id) {
    symbolic = symbolic || std::ranges::any_of(graph().value(id).shape, [](const Dim& d) { return !d.is_constant(); });
  };
  for_each_input(made, look);
  std::ranges::for_each(made.outputs, look);
  if (!symbolic) return;
  if (!Op(made.op).row().formula.empty()) narrow_to_broadcast(made);  // an operator of single elements
  if (!check_arguments(graph(), made).ok()) return;
  equate_sizes(made);
  auto types = infer_types(graph(), made);
  if (!has_declared_sizes(made, types) && use_inequalities(made)) types = infer_types(graph(), made);
  if (!types.ok()) {
    narrow_to_valid(made);
    types = infer_types(graph(), made);
  }
  const auto for_each_size = [&](auto&& f) {
    if (!types.ok() || types->size() != made.outputs.size()) return;
    for (size_t i = 0; i < made.outputs.size(); ++i) {
      const Shape &declared = graph().value(made.outputs[i]).shape, &found = (*types)[i].shape;
      for (size_t axis = 0; axis < std::min(declared.size(), found.size()); ++axis) f(declared[axis], found[axis]);
    }
  };
  for_each_size([&](const Dim& declared, const Dim& found) {
    if (has_unbacked(declared) && !(declared == found) && is_one_symbol(declared))
      known_sizes_.emplace(declared.symbols()[0], found);
  });
  for (const ValueId id : made.outputs)
    for (Dim& size : graph().value(id).shape) size = with_known(size, known_sizes_);
  const Op op(made.op);
  if (op == Op("aten.view.default") || op == Op("aten.reshape.default"))
    narrow(product(graph().value(made.outputs[0]).shape) - product(graph().value(made.tensor("self")).shape));
  else for_each_size([&](const Dim& declared, const Dim& found) { narrow(declared - found); });
}

bool TorchExportReader::has_declared_sizes(const Node& made, const Result<Types>& types) {
  if (!types.ok() || types->size() != made.outputs.size()) return false;
  for (size_t i = 0; i < made.outputs.size(); ++i)
    if (graph().value(made.outputs[i]).shape != (*types)[i].shape) return false;
  return true;
}

void TorchExportReader::narrow_to_broadcast(const Node& made) {
  for_each_input(made, [&](ValueId id) {
    const Shape from = graph().value(id).shape, &to = graph().value(made.outputs[0]).shape;
    if (from.size() > to.size()) return;
    for (size_t axis = 0; axis < from.size(); ++axis)
      if (!from[axis].is_constant(1)) narrow(to[to.size() - from.size() + axis] - from[axis]);
  });
}

void TorchExportReader::narrow_to_valid(const Node& made) {
  const auto valid = [&] { return infer_types(graph(), made).ok(); };
  struct Raised {
    Symbol* symbol;
    int64_t least;
  };
  std::vector<Raised> all;
  for_each_input(made, [&](ValueId id) {
    for (const Dim& size : graph().value(id).shape)
      for (const std::string& name : size.symbols()) {
        const auto symbol = std::ranges::find(graph().symbols, name, &Symbol::name);
        const bool listed = std::ranges::any_of(all, [&](const Raised& other) { return other.symbol->name == name; });
        if (symbol != graph().symbols.end() && !is_unbacked(name) && !listed) all.push_back({&*symbol, symbol->min});
      }
  });
  const auto is_valid_from = [&](int64_t size) {
    for (const auto& [symbol, least] : all) symbol->min = std::max(least, std::min(size, symbol->max));
    return valid();
  };
  // Ranges that begin at 2 were read as if they began at 1. torch does not say how long what is reflected must be.
  // x.flatten().topk(100) needs a product of sizes of at least 100, which the ranges of the factors do not say.
  const bool is_pad = has_rule_of(made, "aten.pad.default"), is_topk = has_rule_of(made, "aten.topk.default");
  int64_t size = is_pad ? kMostPadded : kTracedMin;
  while (is_topk && size < kMostRaised && !is_valid_from(size)) size *= 2;
  const bool helps = !all.empty() && is_valid_from(size);
  for (auto [symbol, low] : all) {
    if (!helps) {
      symbol->min = low;
      continue;
    }
    const int64_t least = low;
    int64_t high = symbol->min;
    while (low < high) {
      symbol->min = low + (high - low) / 2;
      if (valid()) high = symbol->min;
      else low = symbol->min + 1;
    }
    symbol->min = high;
    if (high > least)
      out_.notes.push_back(
          fmt::format("the size {} is at least {}: {} takes none that is smaller", symbol->name, high, made.op->name));
  }
}

void TorchExportReader::equate_sizes(const Node& made) {
  const auto shape_of = [&](std::string_view arg) { return graph().value(made.tensor(arg)).shape; };
  if (has_rule_of(made, "aten.scaled_dot_product_attention.default")) {
    const Shape key = shape_of("key"), value = shape_of("value");
    for (size_t axis = 0; axis + 1 < std::min(key.size(), value.size()); ++axis) equate(key[axis], value[axis]);
  } else if (has_rule_of(made, "aten.stack.default")) {
    const auto tensors = *made.arg("tensors").get<std::vector<ValueId>>();
    if (tensors.empty()) return;
    const Shape first = graph().value(tensors[0]).shape;
    for (size_t i = 1; i < tensors.size(); ++i) {
      const Shape shape = graph().value(tensors[i]).shape;
      for (size_t axis = 0; axis < std::min(first.size(), shape.size()); ++axis) equate(first[axis], shape[axis]);
    }
  } else if (has_rule_of(made, "aten.gather.default") || has_rule_of(made, "aten.scatter.src")) {
    const Shape self = shape_of("self"), index = shape_of("index");
    const auto there = OpArgs{graph(), made}.axis("dim", self.size());
    if (!there.ok() || self.size() != index.size()) return;
    const auto reach = [&](const Dim& size, const Dim& of_index) {  // indices may be fewer
      if (range_of(size - of_index, graph().symbols).min < 0) equate(size, of_index);
    };
    for (size_t axis = 0; axis < self.size(); ++axis)
      if (axis != *there) reach(self[axis], index[axis]);
    if (made.op->arg_index("src") < 0) return;
    const Shape source = shape_of("src");
    for (size_t axis = 0; axis < std::min(source.size(), index.size()); ++axis) reach(source[axis], index[axis]);
  } else if (has_rule_of(made, "aten.index.Tensor") || has_rule_of(made, "aten.index_put.default")) {
    equate_indices(made);
  }
}

// Positions of several axes are as many, and so are the values that are written there.
void TorchExportReader::equate_indices(const Node& made) {
  const auto equate_last = [&](const Shape& a, const Shape& b) {
    for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
      const Dim x = a[a.size() - i], y = b[b.size() - i];
      if (!x.is_constant(1) && !y.is_constant(1)) equate(x, y);
    }
  };
  const auto& indices = *made.arg("indices").get<std::vector<ValueId>>();
  const size_t known = known_sizes_.size();
  ValueId first = kNoValue;
  for (const ValueId id : indices) {
    if (id == kNoValue) continue;
    if (first == kNoValue) first = id;
    else equate_last(graph().value(first).shape, graph().value(id).shape);
  }
  if (made.op->arg_index("values") < 0) return;
  if (known_sizes_.size() != known) settle_sizes();
  Node read;
  read.op = find_op("aten.index.Tensor"), read.args = {made.args[0], made.args[1]};
  if (const auto types = infer_types(graph(), read); types.ok())
    equate_last((*types)[0].shape, graph().value(made.tensor("values")).shape);
}

void TorchExportReader::equate(const Dim& x, const Dim& y) {
  const Dim a = with_known(x, known_sizes_), b = with_known(y, known_sizes_);
  if (a == b || has_unbacked(a) || has_unbacked(b)) return;
  constexpr const char* kReason = "tensors of both are used together";
  if (is_one_symbol(a) && is_one_symbol(b)) return make_multiple({b.symbols()[0], a.symbols()[0]}, kReason);
  for (const SizeMultiple& m : find_multiples({a - b})) make_multiple(m, kReason);
  divide_sizes({with_known(a - b, known_sizes_)}, kReason);
}

// Its value stays a symbol, so that a run checks it against sizes.
bool TorchExportReader::is_integer_input(const std::string& symbol) {
  return std::ranges::find(graph().values, symbol, &Value::symbol) != graph().values.end();
}

void TorchExportReader::replace_symbol(const std::string& symbol, const Dim& size) {
  for (auto& [name, known] : known_sizes_) known = with_known(known, {{symbol, size}});
  known_sizes_.emplace(symbol, size);
}

void TorchExportReader::make_multiple(const SizeMultiple& m, std::string_view reason) {
  const auto symbol = std::ranges::find(graph().symbols, m.symbol, &Symbol::name),
             of = std::ranges::find(graph().symbols, m.of, &Symbol::name);
  if (symbol == graph().symbols.end() || of == graph().symbols.end() || symbol == of) return;
  if (is_integer_input(m.symbol)) return;
  const int64_t min = std::max(of->min, symbol->min / m.factor + (symbol->min % m.factor > 0)),
                max = std::min(of->max, symbol->max / m.factor);
  if (min > max) return;
  of->min = min, of->max = max;
  const Dim size = Dim(m.factor) * Dim::symbol(m.of);
  replace_symbol(m.symbol, size);
  out_.notes.push_back(fmt::format("the size {} must be {}: {}", m.symbol, size.str(), reason));
}

bool TorchExportReader::use_inequalities(const Node& made) {
  constexpr Op kCutting[] = {"aten.slice.Tensor", "aten.narrow.default", "aten.pad.default"};
  if (guards_.empty() || std::ranges::none_of(kCutting, [&](Op op) { return has_rule_of(made, op); })) return false;
  std::set<std::string> used;
  const auto use = [&](const Dim& size) {
    for (std::string& name : with_known(size, known_sizes_).symbols()) used.insert(std::move(name));
  };
  const Shape& shape = graph().value(made.tensor("self")).shape;
  if (has_arg(OpArgs{graph(), made}, "dim")) {
    const auto axis = OpArgs{graph(), made}.axis("dim", shape.size());
    if (!axis.ok() || shape.empty()) return false;
    use(shape[*axis]);
  } else {
    std::ranges::for_each(shape, use);
  }
  for (const Arg& arg : made.args) {
    if (const auto* size = std::get_if<Dim>(&arg.v)) use(*size);
    if (const auto* sizes = std::get_if<std::vector<Dim>>(&arg.v)) std::ranges::for_each(*sizes, use);
  }
  bool changed = false;
  for (const SizeCondition& guard : guards_) {
    if (guard.says != SizeCondition::Says::at_least_0) continue;
    const Dim room = with_known(guard.difference, known_sizes_);
    const std::vector<std::string> symbols = room.symbols();
    if (!std::ranges::all_of(symbols, [&](const std::string& name) { return used.contains(name); })) continue;
    changed = split_larger_size(room) || changed;
  }
  if (changed) settle_sizes();
  return changed;
}

// With the sizes that torch assumes: 2 and more.
std::vector<Symbol> TorchExportReader::traced_symbols() {
  std::vector<Symbol> traced = graph().symbols;
  for (Symbol& symbol : traced) symbol.min = std::min(std::max(symbol.min, kTracedMin), symbol.max);
  return traced;
}

// Where room = b - a, b is one symbol and a is a sum of others: replaces b by a + b_rest.
bool TorchExportReader::split_larger_size(const Dim& room) {
  if (!room.valid() || room.has_calls() || has_unbacked(room) || range_of(room, graph().symbols).min >= 0) return false;
  const Symbol* larger = nullptr;
  for (const auto& [monomial, coefficient] : room.terms()) {
    if (coefficient < 0 || monomial.empty()) continue;
    const auto symbol = std::ranges::find(graph().symbols, monomial[0], &Symbol::name);
    if (larger || monomial.size() != 1 || coefficient != 1 || symbol == graph().symbols.end()) return false;
    larger = &*symbol;
  }
  if (!larger) return false;
  const std::string name = larger->name;
  const Dim others = Dim::symbol(name) - room;
  const auto of_others = others.symbols();
  // The range of the sum is that of b: b_rest may be any number, and a no less than b for sizes that torch assumes.
  if (larger->max != INT64_MAX || range_of(others, traced_symbols()).min < larger->min) return false;
  if (std::ranges::binary_search(of_others, name)) return false;
  if (std::ranges::find(graph().values, name, &Value::symbol) != graph().values.end()) return false;
  const std::string rest = name + "_rest";
  if (std::ranges::find(graph().symbols, rest, &Symbol::name) != graph().symbols.end()) return false;
  graph().symbols.push_back({rest});
  replace_symbol(name, others + Dim::symbol(rest));
  out_.notes.push_back(
      fmt::format("the size {} is at least {}: torch checked that when it exported", name, others.str()));
  return true;
}

Result<ValueId> TorchExportReader::positions_of_slice(Node& slice, Shape& declared) {
  const auto fits = [&] {
    const auto types = infer_types(graph(), slice);
    return types.ok() && (*types)[0].shape == declared;
  };
  // A size that is split into its parts settles more than a condition does.
  const auto fits_by_ranges = [&] {
    auto conditions = std::exchange(graph().conditions, {});
    const bool fit = fits();
    graph().conditions = std::move(conditions);
    return fit;
  };
  const OpArgs a{graph(), slice};
  const Shape& shape = a.tensor("self").shape;
  const auto axis = a.axis("dim", shape.size());
  if (!axis.ok() || declared.size() != shape.size() || fits_by_ranges()) return kNoValue;
  if (use_inequalities(slice)) {
    settle(slice);
    settle(declared);
  }
  if (fits()) return kNoValue;
  const Dim *start = slice.arg("start").get<Dim>(), *end = slice.arg("end").get<Dim>();
  const auto place = [&](const Dim& given) {
    return range_of(given, graph().symbols).max < 0 ? shape[*axis] + given : given;
  };
  const Dim begin = start ? place(*start) : Dim(0),
            behind = end && !end->is_constant(INT64_MAX) ? place(*end) : shape[*axis], size = declared[*axis];
  std::set<std::string> symbols;
  for (const Dim& each : {begin, behind, shape[*axis]})
    for (std::string& name : each.symbols()) symbols.insert(std::move(name));
  // x.flatten()[:4] of any sizes that torch assumes: a range from 2 on says that the elements are there.
  if (size.is_constant() && range_of(shape[*axis], traced_symbols()).min >= size.constant()) return kNoValue;
  if (symbols.size() < 2 || has_unbacked(begin) || has_unbacked(behind) ||
      !slice.arg("step").get<Dim>()->is_constant(1) || fits())
    return kNoValue;
  if (start && start->is_constant() && start->constant() < 0 && size == shape[*axis] && behind == size)
    return positions_in_window(slice, size, Dim(0) - *start);
  if (!(behind - begin == size)) return kNoValue;
  out_.notes.push_back(fmt::format("{} reads elements {} to {} of {}: that they are there is checked in each run",
                                   slice.origins.front(), begin.str(), (behind - Dim(1)).str(), shape[*axis].str()));
  checked_rooms_.insert(checked_rooms_.end(), {begin, shape[*axis] - behind});
  return mutations_.emit("aten.arange.start", {begin, behind, DType::i64}, slice);
}

// x[-63:], where x has at most 63 elements, is all of x. The positions 0 to size - 1 are read out of 63 positions, so that
// a run refuses a larger x.
Result<ValueId> TorchExportReader::positions_in_window(const Node& slice, const Dim& size, const Dim& window) {
  out_.notes.push_back(fmt::format("{} reads all of {}: that it is no more than {} is checked in each run",
                                   slice.origins.front(), size.str(), window.str()));
  checked_rooms_.push_back(window - size);
  QCG_TRY(most, mutations_.emit("aten.arange.start", {Dim(0), window, DType::i64}, slice));
  QCG_TRY(all, mutations_.emit("aten.arange.start", {Dim(0), size, DType::i64}, slice));
  return mutations_.emit("aten.index_select.default", {most, Dim(0), all}, slice);
}

void TorchExportReader::note_range(const Symbol& symbol) {
  out_.notes.push_back(fmt::format("the size {} lies in {} to {}: for others torch traced another graph", symbol.name,
                                   symbol.min, symbol.max));
}

bool TorchExportReader::settle_part(const Dim& difference) {
  if (!difference.valid() || difference.has_calls()) return false;
  const std::vector<std::string> symbols = difference.symbols();
  if (symbols.size() != 1 || !is_part(symbols[0])) return false;
  const Dim::Terms terms = difference.terms();
  const auto factor = terms.find({symbols[0]}), rest = terms.find({});
  if (factor == terms.end() || rest == terms.end() || terms.size() != 2) return false;
  const auto number = Dim(rest->second).divide_exactly(Dim(-factor->second));
  if (!number || !number->is_constant() || number->constant() < 1) return false;
  replace_symbol(symbols[0], *number);
  out_.notes.push_back(fmt::format("{} must be {}: for others torch traced another graph", symbols[0], number->str()));
  return true;
}

void TorchExportReader::narrow(const Dim& found) {
  const Dim difference = with_known(found, known_sizes_);
  if (settle_part(difference) || !difference.valid() || !difference.has_calls()) return;
  std::vector<Symbol> ranges = graph().symbols;
  const auto symbol = narrow_to_zero(ranges, difference);
  if (!symbol) return;
  // A range without the size that torch exported is none that torch found.
  const auto exported = exported_.find(symbol->name);
  const auto hint = exported == exported_.end() ? std::nullopt : exported->second.hint;
  if (hint && (*hint < symbol->min || *hint > symbol->max)) return;
  graph().symbols = std::move(ranges);
  note_range(*symbol);
}

Dim TorchExportReader::settled_size(const Dim& size) const {
  return settled(with_known(size, known_sizes_), out_.graph.symbols);
}

void TorchExportReader::settle(Shape& shape) {
  for (Dim& size : shape) size = settled_size(size);
}

void TorchExportReader::settle(Node& node) {
  for (Arg& arg : node.args) {
    if (auto* size = std::get_if<Dim>(&arg.v)) *size = settled_size(*size);
    if (auto* sizes = std::get_if<std::vector<Dim>>(&arg.v)) settle(*sizes);
  }
}

void TorchExportReader::settle_sizes() {
  for (Value& value : graph().values) settle(value.shape);
  for (Node& node : graph().nodes) settle(node);
  for (auto& [name, size] : scope_.sym_ints) size = settled_size(size);
  graph().conditions = open_conditions();
}

}  // namespace qcg
