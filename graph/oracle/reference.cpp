#include "graph/oracle/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>

#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"
#include "graph/ops/steps.h"
#include "graph/ops/verify.h"
#include "graph/oracle/disturb.h"
#include "graph/oracle/ops.h"
#include "graph/oracle/order.h"

namespace qcg {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 33;

template <class T>
Tensor adopt(DType dtype, std::vector<int64_t> shape, std::vector<T> values) {
  auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  Tensor t;
  t.dtype = dtype;
  t.strides = Tensor::row_major_strides(shape);
  t.shape = std::move(shape);
  t.storage = std::make_shared<const Storage>(Storage{std::as_bytes(std::span(*owner)), owner});
  return t;
}

template <class Out, class In>
void convert_run(const std::byte* p, int64_t stride, int64_t count, Out* out) {
  const In* in = reinterpret_cast<const In*>(p);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(in[i * stride]);
}

template <class Out>
void read_typed_run(const Tensor& t, int64_t from, int64_t stride, int64_t count, Out* out) {
  size_t size = dtype_bytes(t.dtype);
  const std::byte* p = t.storage->bytes.data() + from * static_cast<int64_t>(size);
  // Mapped weights need not be aligned; those and the rarer dtypes take the slow road.
  bool aligned = reinterpret_cast<uintptr_t>(p) % size == 0;
  switch (aligned ? t.dtype : DType::boolean) {
    case DType::f64: return convert_run<Out, double>(p, stride, count, out);
    case DType::f32: return convert_run<Out, float>(p, stride, count, out);
    case DType::i8: return convert_run<Out, int8_t>(p, stride, count, out);
    case DType::u8: return convert_run<Out, uint8_t>(p, stride, count, out);
    case DType::i32: return convert_run<Out, int32_t>(p, stride, count, out);
    case DType::i64: return convert_run<Out, int64_t>(p, stride, count, out);
    default: break;
  }
  for (int64_t i = 0; i < count; ++i, p += stride * static_cast<int64_t>(size)) {
    if constexpr (std::is_same_v<Out, double>) out[i] = element_to_double(t.dtype, p);
    else out[i] = element_to_int(t.dtype, p);
  }
}

template <class Out>
void read_axis(const Tensor& t, size_t axis, int64_t from, Out*& out) {
  if (axis == t.shape.size()) {
    read_typed_run(t, from, 1, 1, out);
    ++out;
    return;
  }
  if (axis + 1 == t.shape.size()) {
    read_typed_run(t, from, t.strides[axis], t.shape[axis], out);
    out += t.shape[axis];
    return;
  }
  for (int64_t i = 0; i < t.shape[axis]; ++i) read_axis(t, axis + 1, from + i * t.strides[axis], out);
}

template <class Out>
std::vector<Out> read_dense(const Tensor& t) {
  std::vector<Out> values(t.numel());
  if (values.empty()) return values;
  const int64_t size = t.shape.empty() ? 1 : t.shape[0], width = t.numel() / size;
  for_each_part(size, width, [&](int64_t first, int64_t last) {
    Tensor part = t;
    if (!t.shape.empty()) part.offset += first * t.strides[0], part.shape[0] = last - first;
    Out* out = values.data() + first * width;
    read_axis(part, 0, part.offset, out);
  });
  return values;
}

// Solves d(s) = size for the one unknown symbol of d, if it occurs linearly.
std::optional<int64_t> solve_for(const Dim& d, const std::string& unknown, int64_t size, SymbolValues known) {
  known[unknown] = 0;
  auto at0 = d.evaluate(known);
  known[unknown] = 1;
  auto at1 = d.evaluate(known);
  if (!at0 || !at1 || *at1 == *at0 || (size - *at0) % (*at1 - *at0) != 0) return std::nullopt;
  known[unknown] = (size - *at0) / (*at1 - *at0);
  return d.evaluate(known) == size ? std::optional(known[unknown]) : std::nullopt;
}

// Binds what the sizes determine; returns whether anything new was found.
bool bind_some(const Graph& graph, const std::vector<std::vector<int64_t>>& shapes, SymbolValues& known) {
  bool found = false;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Shape& shape = graph.value(graph.inputs[i]).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      std::vector<std::string> open;
      for (const std::string& name : shape[axis].symbols())
        if (!known.contains(name)) open.push_back(name);
      if (open.size() != 1 || shape[axis].has_calls()) continue;
      if (auto value = solve_for(shape[axis], open[0], shapes[i][axis], known)) {
        known[open[0]] = *value;
        found = true;
      }
    }
  }
  return found;
}

// By row of the operator table; nullptr: no rule.
RefRule rule_of(Op op) {
  static const auto rules = [] {
    std::array<RefRule, kOpRows.size()> table{};
    for (size_t i = 0; i < kOpRows.size(); ++i)
      table[i] = !kOpRows[i].formula.empty() ? run_formula : kOpRows[i].strides ? run_strides : nullptr;
    for (auto rows : {reference_views(),     reference_pointwise(),     reference_linears(),      reference_packed(),
                      reference_quantize(),  reference_decomposed(),    reference_coded(),        reference_composed(),
                      reference_layers(),    reference_interpolation(), reference_spelled(),      reference_constant(),
                      reference_attention(), reference_along_axis(),    reference_library(),      reference_losses(),
                      reference_functions(), reference_sums(),          reference_arrangements(), reference_groups(),
                      reference_writes(),    reference_rows(),          reference_fourier()})
      for (const RefRow& row : rows) table[row.op.index()] = row.rule;
    return table;
  }();
  return rules[op.index()];
}

// Values that a result of more bits is computed from, which shows how they were rounded (bf16 logits given out as f32).
std::vector<bool> find_widened(const Graph& graph) {
  std::vector<bool> widened(graph.values.size(), false);
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    for (ValueId out : node->outputs) {
      const DType to = graph.value(out).dtype;
      const bool passes_on = node->op->role == OpRole::view && widened[out];
      for_each_input(*node, [&](ValueId id) {
        const DType from = graph.value(id).dtype;
        const bool wider = is_floating(from) && is_floating(to) && dtype_bytes(from) < dtype_bytes(to);
        widened[id] = widened[id] || passes_on || wider;
      });
    }
  return widened;
}

// Whether a result is rounded to its dtype now. 8-bit floats always are, that is what they are for; bf16 and f16 are
// where they decide a step or show in a wider result. Constants are, because the compiler stores them in that dtype;
// views and dequantized weights are not: the former hold what they are views of, the latter stay quantized until they
// are used.
bool rounds_now(const OpSchema& op, DType dtype, bool constant, bool matters, bool emulate_casts) {
  if (op.role == OpRole::view) return false;
  if (emulate_casts || is_float8(dtype)) return true;
  if (matters && is_half(dtype)) return true;
  return constant && (op.role == OpRole::copy || op.role == OpRole::pointwise || op.role == OpRole::reduction ||
                      op.role == OpRole::matmul || op.role == OpRole::look_up || op.role == OpRole::constant);
}

Tensor round_values(DType dtype, const Tensor& t) {
  const bool is_exact = t.dtype == dtype || (is_byte(t.dtype) && !is_float8(dtype));
  if (is_exact || !is_floating(dtype)) return t;
  std::vector<double> values = read_doubles(t);
  for (double& v : values) v = round_as_eager(dtype, v);
  return make_doubles(t.shape, std::move(values));
}

using Clock = std::chrono::steady_clock;

class Evaluator {
 public:
  Evaluator(const Graph& graph, ReferenceOptions options)
      : graph_(graph),
        options_(options),
        decides_step_(find_step_inputs(graph)),
        widened_(find_widened(graph)),
        values_(graph.values.size()),
        disturbance_(options.disturbed),
        quantizations_(options.disturbed != 0 ? count_quantizations(graph) : 0) {}

  Result<Tensors> run(const std::vector<Tensor>& inputs) {
    QCG_CHECK(bind(inputs));
    for (const Node& node : graph_.nodes) QCG_CHECK(run_node(node));
    Tensors outputs;
    for (ValueId id : graph_.outputs) {
      QCG_TRY(output, output_of(id));
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

  Result<Tensors> run_until(const std::vector<Tensor>& inputs, Clock::time_point deadline) {
    QCG_CHECK(bind(inputs));
    std::vector<bool> done(graph_.nodes.size(), false);
    Tensors outputs(graph_.outputs.size());
    for (const size_t i : cheapest_outputs_first(graph_, symbols_)) {
      for (const NodeId n : nodes_behind(graph_, graph_.outputs[i])) {
        if (done[n]) continue;
        if (Clock::now() > deadline) return outputs;
        QCG_CHECK(run_node(graph_.nodes[n]));
        done[n] = true;
      }
      QCG_TRY(output, output_of(graph_.outputs[i]));
      outputs[i] = std::move(output);
    }
    return outputs;
  }

 private:
  Result<Tensor> output_of(ValueId id) const {
    if (!values_[id].data.bound())
      return Error::bad_input("@" + graph_.value(id).name, "its data was not given", "pass the weights");
    return held_as(graph_.value(id).dtype, values_[id].data);
  }

  Status bind(const std::vector<Tensor>& inputs) {
    if (inputs.size() != graph_.inputs.size())
      return Error::bad_input(graph_.name,
                              fmt::format("{} inputs for a graph of {}", inputs.size(), graph_.inputs.size()),
                              "give one tensor per input");
    std::vector<std::vector<int64_t>> shapes;
    SymbolValues given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value& v = graph_.value(graph_.inputs[i]);
      if (!inputs[i].in_bounds() || inputs[i].dtype != v.dtype)
        return Error::bad_input("%" + v.name, fmt::format("the input is no valid {} tensor", dtype_name(v.dtype)),
                                "give the dtype of the signature");
      shapes.push_back(inputs[i].shape);
      values_[graph_.inputs[i]] = {inputs[i], v.dtype, false};
      if (v.symbol.empty() || inputs[i].numel() != 1) continue;  // another size is an error below
      const int64_t value = element_to_int(v.dtype, inputs[i].contiguous().bytes().data());
      if (given.emplace(v.symbol, value).first->second != value)
        return Error::bad_input("%" + v.name, fmt::format("it is {}, but {} is another number", value, v.symbol),
                                "give inputs that agree");
    }
    QCG_TRY(symbols, bind_symbols(graph_, shapes, given));
    symbols_ = symbols;
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (graph_.value(id).kind == ValueKind::parameter)
        values_[id] = {graph_.value(id).data, graph_.value(id).dtype, true};
    uses_ = graph_.count_uses();
    return {};
  }

  Status run_node(const Node& node) {
    if (!measured_symbol(node).empty()) return measure(node);
    if (node.outputs.empty()) return {};  // assertions
    bool constant = true;
    ValueId missing = kNoValue;
    for_each_input(node, [&](const ValueId& id) {
      constant = constant && values_[id].constant;
      if (!values_[id].data.bound()) missing = id;
    });
    if (missing != kNoValue)
      return Error::bad_input("@" + graph_.value(missing).name, "its data was not given",
                              "pass the weights, or --weights random:SEED");
    QCG_CHECK(check_sizes(node));
    RefContext context{graph_, node, symbols_, values_, options_.emulate_casts};
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      int64_t elements = 1;
      for (int64_t size : context.sizes(i))
        if (size < 0 || __builtin_mul_overflow(elements, size, &elements) || elements > kMaxElements)
          return Error::unsupported(node.where, "a result is too large for the oracle", "check with smaller inputs");
    }
    const RefRule rule = rule_of(node.op);
    if (!rule) return Error::internal(node.where, node.op->name + " has no rule in the oracle");
    QCG_TRY(results, options_.disturbed != 0 && !constant && chooses_zero_points(node)
                         ? choose_from_nudged(context, rule)
                         : rule(context));
    const double term = options_.disturbed != 0 && !constant ? largest_term(context) : 0;
    // Every fourth seed leaves the codes as they are: a sum that cancels reaches zero beside unmoved codes alone.
    const bool flips = options_.disturbed % 4 != 0 && !constant && rounds_to_codes(context);
    for (size_t i = 0; i < results.size(); ++i) {
      DType dtype = context.dtype(i);
      const ValueId id = node.outputs[i];
      const bool matters = decides_step_[id] || (widened_[id] && !constant);
      const bool round = rounds_now(*node.op, dtype, constant, matters, options_.emulate_casts);
      if (options_.disturbed != 0 && !constant && is_floating(dtype) && node.op->role != OpRole::view)
        results[i] = disturb(round ? DType::f32 : dtype, term, results[i], disturbance_);
      // A kernel that computes further in f32 may leave the rounding to bf16 or f16 out.
      const bool left_out = round && options_.disturbed != 0 && !constant && !options_.emulate_casts &&
                            is_half(dtype) && !decides_step_[id] && disturbance_() % 2 == 0;
      if (round && !left_out) results[i] = round_values(dtype, results[i]);
      // What constants are rounded to in between is dropped where they become scales, zero points and codes.
      if (options_.disturbed != 0 && constant && is_half(dtype) && node.op->role != OpRole::view)
        results[i] = disturb(dtype, 0, results[i], disturbance_);
      // One step of an 8-bit float that is an output is within its tolerance already.
      const bool judged = is_float8(dtype) && std::ranges::find(graph_.outputs, id) != graph_.outputs.end();
      if (flips && i == 0 && !judged) results[i] = flip_codes(dtype, results[i], 1.0 / quantizations_, disturbance_);
      values_[id] = {results[i], dtype, constant};
    }
    release(node);
    return {};
  }

  Status measure(const Node& node) {
    const ValueId value = node.tensor("value");
    const int64_t size = read_ints(values_[value].data)[0];
    const auto most = node.arg("most").get<Dim>()->evaluate(symbols_);
    const std::string symbol = measured_symbol(node);
    const auto declared = std::ranges::find(graph_.symbols, symbol, &Symbol::name);
    const int64_t limit = std::min(most.value_or(0), declared->max);
    if (size < declared->min || size > limit)
      return Error::bad_input(node.where.empty() ? "symbol " + symbol : node.where,
                              fmt::format("{} is {}, and may be from {} to {}", symbol, size, declared->min, limit),
                              "give inputs that the model takes");
    symbols_[symbol] = size;
    release(node);
    return {};
  }

  Result<Tensors> choose_from_nudged(const RefContext& c, const RefRule& rule) {
    Tensor& input = values_[*c.node.args[0].get<ValueId>()].data;
    const Tensor exact = std::exchange(input, nudge(input, disturbance_));
    Result<Tensors> results = rule(c);
    input = exact;
    return results;
  }

  // Rules take sizes for numbers: all of them have to be known.
  Status check_sizes(const Node& node) const {
    const Dim* unknown = nullptr;
    const auto look_at = [&](const Dim& size) {
      if (!size.evaluate(symbols_)) unknown = &size;
    };
    for (const Arg& arg : node.args) {
      if (const Dim* size = arg.get<Dim>()) look_at(*size);
      if (const auto* sizes = arg.get<std::vector<Dim>>()) std::for_each(sizes->begin(), sizes->end(), look_at);
    }
    for (ValueId out : node.outputs)
      std::for_each(graph_.value(out).shape.begin(), graph_.value(out).shape.end(), look_at);
    if (!unknown) return {};
    return Error::unsupported(
        node.where, fmt::format("the size {} of {} is unknown or exceeds 64 bits", unknown->str(), node.op->name),
        "give inputs whose shapes determine it");
  }

  // Frees what nobody reads any more: a dequantized weight is eight times its bytes.
  void release(const Node& node) {
    for_each_input(node, [&](const ValueId& id) {
      if (--uses_[id] == 0) values_[id].data.storage.reset();
    });
  }

  const Graph& graph_;
  ReferenceOptions options_;
  const std::vector<bool> decides_step_, widened_;  // by value
  std::vector<RefValue> values_;
  std::vector<uint32_t> uses_;
  SymbolValues symbols_;
  std::mt19937_64 disturbance_;
  int quantizations_;
};

}  // namespace

const RefValue* RefContext::optional_tensor(std::string_view name) const {
  ValueId id = node.tensor(name);
  return id == kNoValue ? nullptr : &values[id];
}

std::vector<const RefValue*> RefContext::tensors(std::string_view name) const {
  std::vector<const RefValue*> list;
  for (ValueId id : *node.arg(name).get<std::vector<ValueId>>()) list.push_back(id == kNoValue ? nullptr : &values[id]);
  return list;
}

int64_t RefContext::integer_or(std::string_view name, int64_t otherwise) const {
  const Dim* d = node.arg(name).get<Dim>();
  return d ? evaluate(*d) : otherwise;
}

double RefContext::number(std::string_view name) const {
  const Arg& arg = node.arg(name);
  if (const Dim* d = arg.get<Dim>()) return static_cast<double>(evaluate(*d));
  if (const bool* b = arg.get<bool>()) return *b ? 1 : 0;
  const double* v = arg.get<double>();
  return v ? *v : 0;
}

size_t RefContext::axis(std::string_view name, size_t rank) const {
  int64_t a = integer(name);
  return static_cast<size_t>(a < 0 ? a + static_cast<int64_t>(std::max<size_t>(rank, 1)) : a);
}

std::vector<int64_t> RefContext::evaluate(const Shape& shape) const {
  std::vector<int64_t> sizes;
  for (const Dim& d : shape) sizes.push_back(evaluate(d));
  return sizes;
}

std::vector<int64_t> RefContext::broadcast_sizes(std::string_view a, std::string_view b) const {
  return evaluate(*broadcast(graph.value(node.tensor(a)).shape, graph.value(node.tensor(b)).shape));
}

std::vector<double> read_doubles(const Tensor& t) { return read_dense<double>(t); }
std::vector<int64_t> read_ints(const Tensor& t) { return read_dense<int64_t>(t); }
void read_run(const Tensor& t, int64_t from, int64_t stride, int64_t count, double* out) {
  read_typed_run(t, from, stride, count, out);
}
void read_run(const Tensor& t, int64_t from, int64_t stride, int64_t count, int64_t* out) {
  read_typed_run(t, from, stride, count, out);
}

Tensor make_doubles(std::vector<int64_t> shape, std::vector<double> values) {
  return adopt(DType::f64, std::move(shape), std::move(values));
}
Tensor make_floats(std::vector<int64_t> shape, std::vector<float> values) {
  return adopt(DType::f32, std::move(shape), std::move(values));
}
Tensor make_ints(std::vector<int64_t> shape, std::vector<int64_t> values) {
  return adopt(DType::i64, std::move(shape), std::move(values));
}

Tensor store_results(DType dtype, std::vector<int64_t> shape, std::vector<double> values) {
  if (is_floating(dtype)) return make_doubles(std::move(shape), std::move(values));
  std::vector<int64_t> ints;
  for (double v : values) {
    std::byte element[8];
    double_to_element(dtype, v, element);
    ints.push_back(element_to_int(dtype, element));
  }
  return make_ints(std::move(shape), std::move(ints));
}

Tensor held_as(DType dtype, const Tensor& t) {
  const Tensor dense = t.contiguous();
  if (t.dtype == dtype) return dense;
  constexpr int64_t kChunk = 4096;  // a weight as i64 or f64 would be large
  const size_t size = dtype_bytes(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(t.numel()) * size);
  std::byte* p = bytes.data();
  auto convert = [&]<class T>(std::vector<T> chunk, void (*store)(DType, T, std::byte*)) {
    for (int64_t at = 0; at < t.numel(); at += kChunk) {
      const int64_t count = std::min(kChunk, t.numel() - at);
      read_run(dense, dense.offset + at, 1, count, chunk.data());
      for (int64_t i = 0; i < count; ++i, p += size) store(dtype, chunk[static_cast<size_t>(i)], p);
    }
  };
  if (is_floating(dtype)) convert(std::vector<double>(kChunk), double_to_element);
  else convert(std::vector<int64_t>(kChunk), int_to_element);
  return Tensor::from_bytes(dtype, t.shape, std::move(bytes));
}

Tensor broadcast_to(const Tensor& t, const std::vector<int64_t>& shape) {
  Tensor out = t;
  out.shape = shape;
  out.strides.assign(shape.size(), 0);
  size_t lead = shape.size() - t.shape.size();
  for (size_t i = 0; i < t.shape.size(); ++i)
    if (t.shape[i] != 1 || shape[lead + i] == 1) out.strides[lead + i] = t.strides[i];
  return out;
}

double round_as_eager(DType dtype, double v) {
  if (is_half(dtype)) v = static_cast<float>(v);
  return round_to_dtype(dtype, v);
}

DType promote(DType a, DType b) {
  Promotion p;
  Value v;
  v.shape = {Dim(1)};
  for (DType d : {a, b}) {
    v.dtype = d;
    p.add(v);
  }
  return p.result();
}

int64_t to_integer(DType dtype, double v) {
  std::byte element[8];
  double_to_element(dtype, v, element);
  return element_to_int(dtype, element);
}

int64_t wrap_to_dtype(DType dtype, int64_t v) {
  std::byte element[8];
  int_to_element(dtype, v, element);
  return element_to_int(dtype, element);
}

Result<SymbolValues> bind_symbols(const Graph& graph, const std::vector<std::vector<int64_t>>& shapes,
                                  const SymbolValues& given) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& v = graph.value(graph.inputs[i]);
    if (i >= shapes.size() || shapes[i].size() != v.shape.size())
      return Error::bad_input("%" + v.name, fmt::format("the input does not have {} axes", v.shape.size()),
                              "the signature says " + to_string(v.shape));
  }
  SymbolValues known = given;
  while (bind_some(graph, shapes, known)) {
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& v = graph.value(graph.inputs[i]);
    for (size_t axis = 0; axis < v.shape.size(); ++axis)
      if (v.shape[axis].evaluate(known) != shapes[i][axis])
        return Error::bad_input(
            "%" + v.name,
            fmt::format("axis {} has size {}, the signature says {}", axis, shapes[i][axis], v.shape[axis].str()),
            "give inputs whose sizes agree");
  }
  for (const Symbol& s : graph.symbols) {
    auto it = known.find(s.name);
    if (it == known.end()) continue;  // no input shows it; a result that needs it will not evaluate
    if (it->second < s.min || it->second > s.max)
      return Error::bad_input("symbol " + s.name,
                              fmt::format("{} is outside its range [{}, {}]", it->second, s.min, s.max),
                              "give inputs of a size the export allowed");
  }
  for (const SizeCondition& condition : graph.conditions)
    if (!condition.holds(known))
      return Error::bad_input("sizes of the inputs", "they do not satisfy " + condition.text,
                              "give inputs of sizes the export allowed");
  const std::vector<std::string> measured = graph.measured_symbols();
  for (const Value& v : graph.values)
    for (const Dim& d : v.kind == ValueKind::node && v.producer == UINT32_MAX ? Shape() : v.shape)
      for (const std::string& name : d.symbols())
        if (!known.contains(name) && std::ranges::find(measured, name) == measured.end())
          return Error::unsupported("%" + v.name, fmt::format("no input shows the value of '{}'", name),
                                    "export with sizes taken from inputs");
  return known;
}

Result<std::vector<Tensor>> evaluate_graph(const Graph& graph, const std::vector<Tensor>& inputs,
                                           ReferenceOptions options) {
  QCG_CHECK(verify_graph(graph));
  return Evaluator(graph, options).run(inputs);
}

Result<std::vector<Tensor>> evaluate_until(const Graph& graph, const std::vector<Tensor>& inputs,
                                           ReferenceOptions options, std::chrono::steady_clock::time_point deadline) {
  QCG_CHECK(verify_graph(graph));
  return Evaluator(graph, options).run_until(inputs, deadline);
}

}  // namespace qcg
