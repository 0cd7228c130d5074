#include "codegen/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/view.h"

namespace qcg {

namespace {

bool is_view(const Node& node) { return node.op->role == OpRole::view; }
bool keeps_order(std::string_view op) {
  for (std::string_view name : {"aten.reshape.default", "aten.view.default", "aten._unsafe_view.default",
                                "aten.flatten.using_ints", "aten.unflatten.int", "aten.unsqueeze.default",
                                "aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default"})
    if (op == name) return true;
  return false;
}

int64_t constant_int(const Node& node, std::string_view arg, int64_t otherwise) {
  const Dim* dim = node.arg(arg).get<Dim>();
  return dim && dim->is_constant() ? dim->constant() : otherwise;
}

size_t normalize_axis(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

std::string join_names(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, "+")); }

// Builds the plan in one walk over the nodes. Every value gets a View; steps are appended as nodes need them.
class Planner {
 public:
  Planner(const Graph& graph, const Target& target) : graph_(graph) {
    plan_.target = target;
    plan_.symbols = graph.symbols;
    views_.resize(graph.values.size());
    placed_.resize(graph.values.size());
  }

  Result<Plan> run() {
    add_signature();
    place_outputs();
    for (const Node& node : graph_.nodes) QCG_CHECK(lower(node));
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const View target = dense_view(output_buffers_[i], graph_.value(graph_.outputs[i]).shape);
      const View source = view(graph_.outputs[i]);
      if (source.buffer != target.buffer) add_copy(source, target, graph_.value(graph_.outputs[i]).dtype, "output");
    }
    set_lifetimes();
    return std::move(plan_);
  }

 private:
  void add_signature() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const Value& value = graph_.value(graph_.inputs[i]);
      plan_.input_names.push_back(value.name);
      plan_.input_types.push_back({value.dtype, value.shape});
      views_[graph_.inputs[i]] = dense_view(add_buffer({BufferKind::input, static_cast<int>(i), {}, -1, -1}), value.shape);
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Value& value = graph_.value(graph_.outputs[i]);
      plan_.output_names.push_back(graph_.output_names[i]);
      plan_.output_types.push_back({value.dtype, value.shape});
      output_buffers_.push_back(add_buffer({BufferKind::output, static_cast<int>(i), {}, -1, -1}));
      if (value.kind == ValueKind::node && !placed_[graph_.outputs[i]])
        placed_[graph_.outputs[i]] = dense_view(output_buffers_.back(), value.shape);
    }
  }

  // Decides, from the last node to the first, which values can be born where their consumer wants them: in a graph
  // output, in a slice of a concatenation, or under another shape of either.
  void place_outputs() {
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      if (node.outputs.size() != 1) continue;
      const ValueId out = node.outputs[0];
      if (node.op->name == "aten.cat.default") place_concat(node);
      if (!placed_[out] || !keeps_order(node.op->name)) continue;
      const ValueId in = node.tensor("self");
      if (!is_placeable(in)) continue;
      placed_[in] = reshape_view(*placed_[out], graph_.value(in).shape);
    }
  }

  bool is_placeable(ValueId id) const {
    return id != kNoValue && graph_.value(id).kind == ValueKind::node && !placed_[id];
  }

  void place_concat(const Node& node) {
    const ValueId out = node.outputs[0];
    if (!placed_[out]) {
      const Value& value = graph_.value(out);
      placed_[out] = dense_view(add_temp(value.shape, value.dtype), value.shape);
    }
    for_each_slice(node, [&](ValueId source, const View& slice) {
      if (is_placeable(source)) placed_[source] = slice;
    });
  }

  // Calls f(source, its slice of the concatenation's placement) in source order.
  template <class F>
  void for_each_slice(const Node& node, F&& f) {
    const View whole = *placed_[node.outputs[0]];
    const size_t axis = normalize_axis(constant_int(node, "dim", 0), whole.shape.size());
    View slice = whole;
    for (ValueId source : *node.arg("tensors").get<std::vector<ValueId>>()) {
      slice.shape = graph_.value(source).shape;
      f(source, slice);
      slice.offset = slice.offset + whole.strides[axis] * slice.shape[axis];
    }
  }

  Status lower(const Node& node) {
    const std::string& op = node.op->name;
    if (op == "qcg.linear") return lower_linear(node);
    if (op == "qcg.loop") return lower_loop(node);
    if (op == "qcg.quantize_rows") return lower_quantize_rows(node);
    if (op == "aten.cat.default") return lower_concat(node);
    if (node.op->role == OpRole::reduction) return lower_reduction(node);
    if (node.op->role == OpRole::matmul) return lower_matmul(node);
    if (is_view(node)) return lower_view(node);
    return Error::unsupported(node.where, fmt::format("{} ({}) has no lowering", op, node.source),
                              "`qcodegen list ops` shows what is supported; cut the graph before this operator");
  }

  Status lower_concat(const Node& node) {
    views_[node.outputs[0]] = *placed_[node.outputs[0]];
    for_each_slice(node, [&](ValueId source, const View& slice) {
      const View from = view(source);
      if (from.buffer == slice.buffer && from.offset == slice.offset && from.strides == slice.strides) return;
      add_copy(from, slice, graph_.value(source).dtype, "cat");
    });
    return {};
  }

  Status lower_view(const Node& node) {
    if (node.op->name == "aten.split.Tensor" || node.op->name == "aten.split_with_sizes.default" ||
        node.op->name == "aten.chunk.default") {
      const View whole = view(node.tensor("self"));
      const size_t axis = normalize_axis(constant_int(node, "dim", 0), whole.shape.size());
      View part = whole;
      for (ValueId out : node.outputs) {
        part.shape = graph_.value(out).shape;
        views_[out] = part;
        part.offset = part.offset + whole.strides[axis] * part.shape[axis];
      }
      return {};
    }
    const View in = view(node.tensor("self"));
    const Shape& shape = graph_.value(node.outputs[0]).shape;
    if (keeps_order(node.op->name)) {
      auto out = reshape_view(in, shape);
      if (!out) out = dense_view(copy_to_temp(in, graph_.value(node.outputs[0]).dtype), shape);
      views_[node.outputs[0]] = *out;
      return {};
    }
    View out = in;
    out.shape = shape;
    QCG_CHECK(apply_strided_view(node, in, out));
    views_[node.outputs[0]] = out;
    return {};
  }

  static Status apply_strided_view(const Node& node, const View& in, View& out) {
    const std::string& op = node.op->name;
    const size_t rank = in.shape.size();
    if (op == "aten.t.default" || op == "aten.transpose.int") {
      const bool t = op == "aten.t.default";
      if (t && rank < 2) return {};
      const size_t a = t ? 0 : normalize_axis(constant_int(node, "dim0", 0), rank);
      const size_t b = t ? 1 : normalize_axis(constant_int(node, "dim1", 1), rank);
      std::swap(out.strides[a], out.strides[b]);
    } else if (op == "aten.permute.default") {
      const auto& order = *node.arg("dims").get<std::vector<Dim>>();
      for (size_t i = 0; i < rank; ++i) out.strides[i] = in.strides[normalize_axis(order[i].constant(), rank)];
    } else if (op == "aten.expand.default") {
      out = broadcast_view(in, out.shape);
    } else if (op == "aten.slice.Tensor" || op == "aten.select.int" || op == "aten.narrow.default") {
      const size_t axis = normalize_axis(constant_int(node, "dim", 0), rank);
      const char* name = op == "aten.select.int" ? "index" : "start";
      const Dim* start = node.arg(name).get<Dim>();
      Dim begin = start ? *start : Dim(0);
      if (begin.is_constant() && begin.constant() < 0) begin = begin + in.shape[axis];
      out.offset = in.offset + in.strides[axis] * begin;
      if (op == "aten.slice.Tensor") out.strides[axis] = in.strides[axis] * Dim(constant_int(node, "step", 1));
      if (op == "aten.select.int") out.strides.erase(out.strides.begin() + static_cast<ptrdiff_t>(axis));
    } else {
      return Error::unsupported(node.where, fmt::format("view operator {} has no lowering", op),
                                "add .contiguous() or a reshape before it and export again");
    }
    return {};
  }

  // ---- steps ----

  Status lower_linear(const Node& node) {
    Problem problem;
    QCG_CHECK(describe_linear(node, problem));
    PlanStep step{problem.label(), 0, {}, {}, problem.nodes};
    const auto& xs = *node.arg("xs").get<std::vector<ValueId>>();
    const Dim m = leading(graph_.value(xs[0]).shape);
    step.params = {m};
    for (ValueId x : xs) step.args.push_back(row_arg(x));
    for (const char* name : {"x_scale", "x_zero"})
      if (node.tensor(name) != kNoValue) step.args.push_back(scale_arg(node.tensor(name)));
    const auto& operands = *node.arg("operands").get<std::vector<ValueId>>();
    for (size_t i = 0; i < operands.size(); ++i) step.args.push_back(operand_arg(node, operands[i], problem.operands[i]));
    const int packed = add_buffer({BufferKind::weights, 0, {}, -1, -1});
    step.args.push_back({packed, 0, Dim(0)});
    step.problem = intern(problem);
    plan_.constants.push_back({packed, 0, {}, step.problem, segment_tensors(node)});
    add_row_step(std::move(step), node.outputs);
    return {};
  }

  Status describe_linear(const Node& node, Problem& problem) {
    const auto scheme = scheme_from_name(*node.arg("scheme").get<std::string>());
    if (!scheme) return Error::internal(node.where, "unknown scheme " + *node.arg("scheme").get<std::string>());
    problem.scheme = *scheme;
    problem.group = constant_int(node, "group", 0);
    problem.x_has_zero = node.tensor("x_zero") != kNoValue;
    const auto& xs = *node.arg("xs").get<std::vector<ValueId>>();
    problem.activation = graph_.value(xs[0]).dtype;
    for (ValueId x : xs) problem.k_segments.push_back(graph_.value(x).shape.back().constant());
    for (int64_t width : problem.k_segments) problem.k += width;
    const auto tensors = segment_tensors(node);
    const auto& weights = *node.arg("weights").get<std::vector<ValueId>>();
    problem.weight = tensors[0].weight.dtype;
    for (size_t j = 0; j < tensors.size(); ++j) {
      auto has = [&](const char* list) { return list_value(node, list, j) != kNoValue; };
      problem.segments.push_back({tensors[j].weight.shape[0], has("zeros"), has("biases"), graph_.value(weights[j]).name, has("offsets")});
    }
    problem.scale = scale_dtype(tensors);
    const auto& exprs = *node.arg("epilogue").get<std::vector<Expr>>();
    for (size_t i = 0; i < exprs.size(); ++i) {
      Output out{exprs[i], graph_.value(node.outputs[i]).dtype, graph_.value(node.outputs[i]).shape.back().constant(), {}};
      collect_segments(out.expr, out.segments);
      problem.outputs.push_back(std::move(out));
    }
    const Shape& out_shape = graph_.value(node.outputs[0]).shape;
    for (ValueId id : *node.arg("operands").get<std::vector<ValueId>>())
      problem.operands.push_back({graph_.value(id).dtype, classify(graph_.value(id).shape, out_shape, node, id)});
    const auto range = range_of(leading(graph_.value(xs[0]).shape));
    problem.m_min = range.first;
    problem.m_max = range.second;
    problem.nodes = node.origins;
    problem.graph_fragment = print_node(graph_, node);
    return {};
  }

  // What group scales and offsets are stored as: half the bytes where that changes no value (bf16 checkpoints, powers of two).
  static DType scale_dtype(const std::vector<SegmentTensors>& tensors) {
    auto exact = [](const Tensor& t) {
      if (!t.bound() || t.dtype == DType::bf16) return true;
      const Tensor all = t.contiguous();
      const size_t size = dtype_bytes(all.dtype);
      for (size_t at = 0; at < all.bytes().size(); at += size)
        if (const double v = element_to_double(all.dtype, all.bytes().data() + at); round_to_dtype(DType::bf16, v) != v) return false;
      return true;
    };
    const bool all = std::all_of(tensors.begin(), tensors.end(), [&](const SegmentTensors& t) { return t.scales.bound() && exact(t.scales) && exact(t.offsets); });
    return all ? DType::bf16 : DType::f32;
  }

  static void collect_segments(const Expr& expr, std::vector<int>& out) {
    if (expr.kind == ExprKind::acc && std::find(out.begin(), out.end(), expr.index) == out.end()) {
      out.push_back(expr.index);
      std::sort(out.begin(), out.end());
    }
    for (const Expr& arg : expr.args) collect_segments(arg, out);
  }

  // Operands are classified against the output that reads them; outputs of one problem share leading axes.
  Broadcast classify(const Shape& shape, Shape out, const Node& node, ValueId id) const {
    const auto& operands = *node.arg("operands").get<std::vector<ValueId>>();
    const auto& exprs = *node.arg("epilogue").get<std::vector<Expr>>();
    for (size_t i = 0; i < exprs.size(); ++i)
      for (size_t o = 0; o < operands.size(); ++o)
        if (operands[o] == id && reads_operand(exprs[i], static_cast<int>(o))) out = graph_.value(node.outputs[i]).shape;
    if (product(shape).is_constant(1)) return Broadcast::scalar;
    if (product(shape) == shape.back() && shape.back() == out.back()) return Broadcast::row;
    if (shape.back().is_constant(1) && !out.back().is_constant(1)) return Broadcast::column;
    return Broadcast::full;
  }

  static bool reads_operand(const Expr& expr, int index) {
    if (expr.kind == ExprKind::in && expr.index == index) return true;
    return std::any_of(expr.args.begin(), expr.args.end(), [&](const Expr& arg) { return reads_operand(arg, index); });
  }

  PlanArg operand_arg(const Node& node, ValueId id, const Operand& operand) {
    if (operand.broadcast == Broadcast::scalar || operand.broadcast == Broadcast::row) {
      const View flat = *reshape_view(dense(id), {product(graph_.value(id).shape)});
      return {flat.buffer, offset_bytes(flat, operand.dtype), Dim(0)};
    }
    Shape full = graph_.value(node.outputs[0]).shape;
    full.back() = graph_.value(id).shape.back();
    const View wide = broadcast_view(view(id), full);
    return row_arg(wide, operand.dtype);
  }

  Status lower_loop(const Node& node) {
    const auto& operands = *node.arg("operands").get<std::vector<ValueId>>();
    LoopProblem problem;
    problem.exprs = *node.arg("exprs").get<std::vector<Expr>>();
    problem.integers = *node.arg("integers").get<bool>();
    problem.comment = join_names(node.origins);
    const Shape& shape = graph_.value(node.outputs[0]).shape;
    std::vector<View> views;
    for (ValueId id : operands) {
      problem.operands.push_back(graph_.value(id).dtype);
      views.push_back(broadcast_view(view(id), shape));
    }
    for (ValueId id : node.outputs) {
      problem.outputs.push_back(graph_.value(id).dtype);
      views_[id] = placed_[id] ? *placed_[id] : dense_view(add_temp(shape, graph_.value(id).dtype), shape);
      views.push_back(views_[id]);
    }
    add_loop(std::move(problem), views, join_names(node.origins), node.origins);
    return {};
  }

  void add_loop(LoopProblem problem, std::vector<View> views, std::string name, std::vector<std::string> nodes) {
    views = collapse(std::move(views));
    if (views[0].shape.empty())
      for (View& v : views) v.shape = {1}, v.strides = {1};
    problem.rank = static_cast<int>(views[0].shape.size());
    PlanStep step{std::move(name), 0, {}, views[0].shape, std::move(nodes)};
    for (size_t i = 0; i < views.size(); ++i) {
      const bool output = i >= problem.operands.size();
      const DType dtype = output ? problem.outputs[i - problem.operands.size()] : problem.operands[i];
      step.args.push_back({views[i].buffer, offset_bytes(views[i], dtype), Dim(0)});
      step.params.insert(step.params.end(), views[i].strides.begin(), views[i].strides.end());
      const Dim& inner = views[i].strides.back();
      if (!output) problem.operand_inner_stride.push_back(inner.is_constant(1) ? 1 : inner.is_constant(0) ? 0 : -1);
    }
    step.problem = intern(problem);
    plan_.steps.push_back(std::move(step));
  }

  void add_copy(const View& from, const View& to, DType dtype, std::string name) {
    LoopProblem problem;
    problem.operands = problem.outputs = {dtype};
    problem.exprs = {Expr::in(0)};
    add_loop(std::move(problem), {from, to}, "copy " + name, {});
  }

  Status lower_quantize_rows(const Node& node) {
    QuantizeRowsProblem problem;
    const ValueId x = node.tensor("x");
    problem.input = graph_.value(x).dtype;
    problem.k = graph_.value(x).shape.back().constant();
    problem.symmetric = *node.arg("mapping").get<std::string>() == "SYMMETRIC";
    problem.quant_min = constant_int(node, "quant_min", -128);
    problem.quant_max = constant_int(node, "quant_max", 127);
    const double* eps = node.arg("eps").get<double>();
    problem.eps = eps ? *eps : 0;  // 0: torchao's default
    problem.output = graph_.value(node.outputs[0]).dtype;
    problem.scale = *node.arg("scale_dtype").get<DType>();
    problem.comment = join_names(node.origins);
    const bool zero_used = uses()[node.outputs[2]] > 0;
    problem.writes_zero = zero_used;
    PlanStep step{"quantize " + graph_.value(x).name, intern(problem), {row_arg(x)}, {leading(graph_.value(x).shape)}, node.origins};
    std::vector<ValueId> outputs = node.outputs;
    if (!zero_used) outputs.pop_back();
    add_row_step(std::move(step), outputs);
    return {};
  }

  Status lower_reduction(const Node& node) {
    const ValueId x = node.tensor("self");
    const Shape& shape = graph_.value(x).shape;
    std::vector<bool> reduced(shape.size(), false);
    const auto* dims = node.arg("dim").get<std::vector<Dim>>();
    for (size_t i = 0; i < shape.size(); ++i) reduced[i] = !dims || dims->empty();
    if (dims)
      for (const Dim& d : *dims) reduced[normalize_axis(d.constant(), shape.size())] = true;
    View in = view(x);
    View ordered{in.buffer, in.offset, {}, {}};
    Dim outer = 1, extent = 1;
    for (bool pass : {false, true})
      for (size_t i = 0; i < shape.size(); ++i) {
        if (reduced[i] != pass) continue;
        ordered.shape.push_back(in.shape[i]);
        ordered.strides.push_back(in.strides[i]);
        (pass ? extent : outer) = (pass ? extent : outer) * in.shape[i];
      }
    const DType dtype = graph_.value(x).dtype;
    if (!is_dense(ordered)) ordered = dense_view(copy_to_temp(ordered, dtype), ordered.shape);
    ReduceProblem problem;
    for (std::string_view op : {"sum", "mean", "amax", "amin"})
      if (node.op->name.find("." + std::string(op)) != std::string::npos) problem.op = op;
    problem.input = dtype;
    problem.output = graph_.value(node.outputs[0]).dtype;
    problem.comment = join_names(node.origins);
    const View out = output_view(node.outputs[0], is_dense);
    PlanStep step{join_names(node.origins), intern(problem), {}, {outer, extent, Dim(1)}, node.origins};
    step.args = {{ordered.buffer, offset_bytes(ordered, dtype), Dim(0)}, {out.buffer, offset_bytes(out, problem.output), Dim(0)}};
    plan_.steps.push_back(std::move(step));
    finish_output(node.outputs[0], out);
    return {};
  }

  // mm, bmm, matmul and linear of two activations: neither side is a constant that could be packed.
  Status lower_matmul(const Node& node) {
    const std::string& op = node.op->name;
    const bool linear = op == "aten.linear.default", mm = op == "aten.mm.default", bmm = op == "aten.bmm.default";
    const ValueId a = node.tensor(linear ? "input" : "self");
    const ValueId b = node.tensor(linear ? "weight" : op == "aten.matmul.default" ? "other" : "mat2");
    const size_t rank = graph_.value(a).shape.size();
    if (!(linear || mm || bmm || op == "aten.matmul.default") || graph_.value(b).shape.size() < 2 || rank < 2 ||
        (linear && node.tensor("bias") != kNoValue))
      return Error::unsupported(node.where, fmt::format("{} of these operands has no lowering", op),
                                "make one operand a parameter, or write it as bmm of two rank-3 tensors");
    View x = view(a), w = view(b);
    if (linear) std::swap(w.shape[0], w.shape[1]), std::swap(w.strides[0], w.strides[1]);
    const Shape& out_shape = graph_.value(node.outputs[0]).shape;
    const View out = output_view(node.outputs[0], is_dense);
    View y = out;
    const bool batched = w.shape.size() > 2;
    if (!batched && rank != 2) x = as_matrix(x, graph_.value(a).dtype), y = *reshape_view(y, {leading(out_shape), out_shape.back()});
    if (batched) QCG_CHECK(as_batches(node, x, w, y));
    MatmulProblem problem{graph_.value(a).dtype, graph_.value(b).dtype, graph_.value(node.outputs[0]).dtype, join_names(node.origins)};
    const size_t r = x.shape.size(), rw = w.shape.size(), ry = y.shape.size();
    auto batch_stride = [](const View& v) { return v.shape.size() > 2 ? v.strides[0] : Dim(0); };
    PlanStep step{join_names(node.origins), intern(problem), {}, {}, node.origins};
    step.params = {batched ? y.shape[0] : Dim(1), y.shape[ry - 2], y.shape[ry - 1], x.shape[r - 1],
                   batch_stride(x), x.strides[r - 2], x.strides[r - 1],
                   batch_stride(w), w.strides[rw - 1], w.strides[rw - 2],
                   batch_stride(y), y.strides[ry - 2], y.strides[ry - 1]};
    for (auto [v, dtype] : {std::pair(&x, problem.input), std::pair(&w, problem.weight), std::pair(&y, problem.output)})
      step.args.push_back({v->buffer, offset_bytes(*v, dtype), Dim(0)});
    plan_.steps.push_back(std::move(step));
    finish_output(node.outputs[0], out);
    return {};
  }

  // Rank 3 for all three, batch axes broadcast; equal ranks only.
  Status as_batches(const Node& node, View& x, View& w, View& y) {
    Shape lead(y.shape.begin(), y.shape.end() - 2);
    for (View* v : {&x, &w, &y}) {
      Shape full = lead;
      full.insert(full.end(), v->shape.end() - 2, v->shape.end());
      const View wide = broadcast_view(*v, full);
      const auto three = reshape_view(wide, {product(lead), full[full.size() - 2], full.back()});
      if (!three)
        return Error::unsupported(node.where, "a batched matmul over axes that are not stored together",
                                  "call .contiguous() on its operands and export again");
      *v = *three;
    }
    return {};
  }

  View as_matrix(const View& v, DType dtype) {
    const Shape shape = {leading(v.shape), v.shape.back()};
    if (auto flat = reshape_view(v, shape)) return *flat;
    return dense_view(copy_to_temp(v, dtype), shape);
  }

  // ---- buffers and views ----

  int add_buffer(PlanBuffer buffer) {
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  int add_temp(const Shape& shape, DType dtype) {
    return add_buffer({BufferKind::temp, 0, product(shape) * Dim(static_cast<int64_t>(dtype_bytes(dtype))), -1, -1});
  }

  // The view of any value; a parameter read by something other than a linear becomes a plain constant on first use.
  View view(ValueId id) {
    const Value& value = graph_.value(id);
    if (value.kind == ValueKind::parameter && views_[id].buffer < 0) {
      const int64_t bytes = value.data.numel() * static_cast<int64_t>(dtype_bytes(value.dtype));
      const int buffer = add_buffer({BufferKind::weights, 0, Dim(bytes), -1, -1});
      plan_.constants.push_back({buffer, bytes, value.data, -1, {}});
      views_[id] = dense_view(buffer, value.shape);
    }
    return views_[id];
  }

  View dense(ValueId id) {
    const View v = view(id);
    return is_dense(v) ? v : dense_view(copy_to_temp(v, graph_.value(id).dtype), v.shape);
  }

  int copy_to_temp(const View& v, DType dtype) {
    const int buffer = add_temp(v.shape, dtype);
    add_copy(v, dense_view(buffer, v.shape), dtype, "to rows");
    return buffer;
  }

  static Dim offset_bytes(const View& v, DType dtype) { return v.offset * Dim(static_cast<int64_t>(dtype_bytes(dtype))); }
  static Dim leading(const Shape& shape) { return product(Shape(shape.begin(), shape.end() - 1)); }

  // One element serves every row: a stride of 0.
  PlanArg scale_arg(ValueId id) {
    if (!product(graph_.value(id).shape).is_constant(1)) return row_arg(id);
    const View one = view(id);
    return {one.buffer, offset_bytes(one, graph_.value(id).dtype), Dim(0)};
  }

  PlanArg row_arg(ValueId id) { return row_arg(view(id), graph_.value(id).dtype); }

  PlanArg row_arg(View v, DType dtype) {
    if (!rows_of(v)) v = dense_view(copy_to_temp(v, dtype), v.shape);
    const Dim stride = rows_of(v)->stride;
    const BufferKind kind = plan_.buffers[v.buffer].kind;
    const Shape* own = kind == BufferKind::input    ? &plan_.input_types[plan_.buffers[v.buffer].index].shape
                       : kind == BufferKind::output ? &plan_.output_types[plan_.buffers[v.buffer].index].shape
                                                    : nullptr;
    if (own && own->size() == 2 && *own == v.shape && v.offset.is_constant(0)) return {v.buffer, 0, std::nullopt};
    return {v.buffer, offset_bytes(v, dtype), stride};
  }

  // Where `id` is to be written: its placement when `fits` accepts it, else a temporary of its own.
  template <class Fits>
  View output_view(ValueId id, Fits&& fits) {
    const Value& value = graph_.value(id);
    if (placed_[id] && fits(*placed_[id])) return *placed_[id];
    return dense_view(add_temp(value.shape, value.dtype), value.shape);
  }

  // Records where `id` was written and moves it to its placement if that is elsewhere.
  void finish_output(ValueId id, const View& written) {
    views_[id] = written;
    if (!placed_[id] || placed_[id]->buffer == written.buffer) return;
    add_copy(written, *placed_[id], graph_.value(id).dtype, "into place");
    views_[id] = *placed_[id];
  }

  void add_row_step(PlanStep step, const std::vector<ValueId>& outputs) {
    std::vector<View> written;
    for (ValueId id : outputs) {
      written.push_back(output_view(id, [](const View& v) { return rows_of(v).has_value(); }));
      step.args.push_back(row_arg(written.back(), graph_.value(id).dtype));
    }
    plan_.steps.push_back(std::move(step));
    for (size_t i = 0; i < outputs.size(); ++i) finish_output(outputs[i], written[i]);
  }

  // ---- problems ----

  static ValueId list_value(const Node& node, std::string_view arg, size_t j) {
    const auto* list = node.arg(arg).get<std::vector<ValueId>>();
    return list && j < list->size() ? (*list)[j] : kNoValue;
  }

  std::vector<SegmentTensors> segment_tensors(const Node& node) const {
    std::vector<SegmentTensors> out;
    const size_t count = node.arg("weights").get<std::vector<ValueId>>()->size();
    for (size_t j = 0; j < count; ++j) {
      auto data = [&](const char* arg) {
        const ValueId id = list_value(node, arg, j);
        return id == kNoValue ? Tensor{} : graph_.value(id).data;
      };
      out.push_back({data("weights"), data("scales"), data("zeros"), data("biases"), data("offsets")});
    }
    return out;
  }

  int intern(const KernelProblem& problem) {
    const std::string key = problem_signature(problem);
    auto [it, inserted] = problem_index_.emplace(key, static_cast<int>(plan_.problems.size()));
    if (inserted) {
      plan_.problems.push_back(problem);
      const Problem* gemm = std::get_if<Problem>(&problem);
      plan_.layouts.push_back(gemm ? layout_for(*gemm, plan_.target) : PackedLayout{});
    }
    return it->second;
  }

  std::pair<int64_t, int64_t> range_of(const Dim& dim) const {
    SymbolValues low, high;
    for (const Symbol& symbol : graph_.symbols) low[symbol.name] = symbol.min, high[symbol.name] = symbol.max;
    return {dim.evaluate(low).value_or(0), dim.evaluate(high).value_or(INT64_MAX)};
  }

  const std::vector<uint32_t>& uses() {
    if (uses_.empty()) uses_ = graph_.count_uses();
    return uses_;
  }

  void set_lifetimes() {
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      for (const PlanArg& arg : plan_.steps[s].args) {
        PlanBuffer& buffer = plan_.buffers[arg.buffer];
        if (buffer.first < 0) buffer.first = static_cast<int>(s);
        buffer.last = static_cast<int>(s);
      }
    for (PlanConstant& constant : plan_.constants) {
      if (constant.problem >= 0)
        constant.bytes = packed_bytes(std::get<Problem>(plan_.problems[constant.problem]), plan_.layouts[constant.problem]);
      plan_.buffers[constant.buffer].bytes = Dim(constant.bytes);
    }
  }

  const Graph& graph_;
  Plan plan_;
  std::vector<View> views_;
  std::vector<std::optional<View>> placed_;
  std::vector<int> output_buffers_;
  std::map<std::string, int> problem_index_;
  std::vector<uint32_t> uses_;
};

}  // namespace

Result<Plan> plan_kernels(const Graph& graph, const Target& target) { return Planner(graph, target).run(); }

}  // namespace qcg
