// Shape and dtype rules of convolutions, pools and recurrent layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/ops/rows_layers.h"
#include "graph/ops/rows_own.h"

namespace qcg {

namespace {

constexpr int64_t kLargestStep = 1 << 20;  // of a kernel, a stride, a padding, a dilation

bool is_convolution(const OpArgs& a) { return has_arg(a, "weight"); }

// One number for every axis, or one for all of them; `otherwise` when the list is absent or empty.
Result<std::vector<int64_t>> per_axis(const OpArgs& a, std::string_view name, size_t spatial, int64_t low,
                                      std::vector<int64_t> otherwise) {
  const std::vector<Dim> given = has_arg(a, name) ? a.dims(name) : std::vector<Dim>();
  if (given.empty()) return otherwise;
  if (given.size() != 1 && given.size() != spatial)
    return a.fail(name, fmt::format("{} numbers for {} axes", given.size(), spatial));
  std::vector<int64_t> out;
  for (size_t i = 0; i < spatial; ++i) {
    const Dim& d = given[given.size() == 1 ? 0 : i];
    if (!d.is_constant())
      return a.unsupported(name, fmt::format("{} is known only at run time", d.str()), "export with a constant here");
    if (d.constant() < low || d.constant() > kLargestStep)
      return a.fail(name, fmt::format("{} is not in [{}, {}]", d.constant(), low, kLargestStep));
    out.push_back(d.constant());
  }
  return out;
}

Result<std::vector<int64_t>> kernel_of(const OpArgs& a, size_t spatial) {
  if (!is_convolution(a)) {
    QCG_TRY(kernel, per_axis(a, "kernel_size", spatial, 1, {}));
    if (kernel.empty()) return a.fail("kernel_size", "a window without a size");
    return kernel;
  }
  std::vector<int64_t> out;
  for (size_t i = 0; i < spatial; ++i) {
    const Dim& d = a.tensor("weight").shape[2 + i];
    if (!d.is_constant() || d.constant() < 1 || d.constant() > kLargestStep)
      return a.fail("weight", fmt::format("{} is no size of a kernel", d.str()));
    out.push_back(d.constant());
  }
  return out;
}

// padding = 'same': as many places as elements, the odd element behind.
Status pad_by_name(const OpArgs& a, WindowAxis& axis) {
  const std::string& padding = a.string("padding");
  if (padding == "valid") return {};
  if (padding != "same") return a.fail("padding", "expected 'same' or 'valid'");
  if (axis.stride != 1) return a.fail("padding", "'same' needs a stride of 1");
  axis.before = (axis.reach() - 1) / 2;
  axis.behind = axis.reach() - 1 - axis.before;
  return {};
}

// How many places a window has. With ceil_mode one more where the last would begin inside, or in the padding before.
Status count_places(const OpArgs& a, WindowAxis& axis, bool ceil) {
  const Dim room = axis.size + Dim(axis.before + axis.behind - axis.reach());
  // With ceil_mode the only window may stick out, too.
  if (range_of(room, a.graph.symbols).min < (ceil ? 1 - axis.stride : 0))
    return a.fail(
        is_convolution(a) ? "weight" : "kernel_size",
        fmt::format("a window of {} may be larger than the axis of {} with its padding", axis.reach(), axis.size.str()),
        room.is_constant() ? "use a smaller kernel" : "export with a larger minimum of this size");
  if (ceil && !room.is_constant() && !room.divide_exactly(Dim(axis.stride))) {
    // Only windows at least as long as the stride and the padding are sure to begin before the end of the elements.
    if (axis.stride + axis.before > axis.reach())
      return a.unsupported("ceil_mode",
                           fmt::format("whether the last of windows of {} in steps of {} begins in the axis depends on "
                                       "{}, a size known only at run time",
                                       axis.reach(), axis.stride, axis.size.str()),
                           "export with a constant size, or with ceil_mode=False");
    axis.behind += axis.stride - 1;
    axis.count = Dim::floor_divide(room + Dim(axis.stride - 1), Dim(axis.stride)) + Dim(1);
    return {};
  }
  axis.count = Dim::floor_divide(room, Dim(axis.stride)) + Dim(1);
  if (!ceil || !room.is_constant() || room.constant() % axis.stride == 0) return {};
  const int64_t begin = axis.count.constant() * axis.stride;
  if (begin >= axis.size.constant() + axis.before) return {};
  axis.count = axis.count + Dim(1);
  axis.behind = begin + axis.reach() - axis.size.constant() - axis.before;
  return {};
}

Status need_same_dtype(const OpArgs& a, std::string_view name, const Value& v, DType dtype) {
  if (v.dtype == dtype) return {};
  return a.fail(name, fmt::format("{} is not {}", describe(v), dtype_name(dtype)), "cast it before");
}

// `spatial`: the number of axes that a window slides over. Before them are channels, and a batch if there is one.
Status check_rank(const OpArgs& a, std::string_view name, size_t spatial) {
  const Value& x = a.tensor(name);
  if (x.shape.size() == spatial + 1 || x.shape.size() == spatial + 2) return {};
  return a.fail(name, fmt::format("expected [batch, channels] and {} more axes, got {}", spatial, describe(x)));
}

}  // namespace

// "aten.max_pool2d.default" slides over 2 axes.
size_t count_spatial(const OpArgs& a) {
  if (is_convolution(a)) return std::max<size_t>(a.tensor("weight").shape.size(), 2) - 2;
  return static_cast<size_t>(a.node.op->name[a.node.op->name.find_first_of("123")] - '0');
}

Result<std::vector<WindowAxis>> window_axes(const OpArgs& a) {
  const size_t spatial = count_spatial(a);
  if (spatial == 0) return a.fail("weight", "expected [N, C, kernel…], got " + describe(a.tensor("weight")));
  const std::string_view input = is_convolution(a) ? "input" : "self";
  QCG_CHECK(check_rank(a, input, spatial));
  const bool named = has_arg(a, "padding") && a.node.arg("padding").get<std::string>();
  const std::vector<int64_t> ones(spatial, 1), zeros(spatial, 0);
  QCG_TRY(kernel, kernel_of(a, spatial));
  QCG_TRY(stride, per_axis(a, "stride", spatial, 1, is_convolution(a) ? ones : kernel));
  QCG_TRY(dilation, per_axis(a, "dilation", spatial, 1, ones));
  auto padding = named ? Result<std::vector<int64_t>>(zeros) : per_axis(a, "padding", spatial, 0, zeros);
  if (!padding.ok()) return std::move(padding.error());
  const bool ceil = has_arg(a, "ceil_mode") && a.boolean("ceil_mode");
  const Shape& shape = a.tensor(input).shape;
  std::vector<WindowAxis> out(spatial);
  for (size_t i = 0; i < spatial; ++i) {
    WindowAxis& axis = out[i];
    axis.size = shape[shape.size() - spatial + i];
    axis.kernel = kernel[i], axis.stride = stride[i], axis.dilation = dilation[i];
    axis.before = axis.behind = axis.padding = (*padding)[i];
    if (named) QCG_CHECK(pad_by_name(a, axis));
    if (!is_convolution(a) && axis.padding > axis.kernel / 2)
      return a.fail("padding", fmt::format("{} is more than half of the kernel, {}", axis.padding, axis.kernel));
    QCG_CHECK(count_places(a, axis, ceil));
    axis.count = settled(axis.count, a.graph.symbols);
  }
  return out;
}

std::pair<Dim, Dim> adaptive_window(int64_t at, const Dim& size, int64_t count) {
  const Dim end = at + 1 == count ? size : Dim::floor_divide(size * Dim(at + 1) + Dim(count - 1), Dim(count));
  return {Dim::floor_divide(size * Dim(at), Dim(count)), end};
}

bool is_transposed(const OpArgs& a) {
  return has_arg(a, "transposed") ? a.boolean("transposed") : a.node.op->name.find("transpose") != std::string::npos;
}

Result<std::vector<TransposedAxis>> transposed_axes(const OpArgs& a) {
  const size_t spatial = count_spatial(a);
  if (spatial == 0) return a.fail("weight", "expected [C, N, kernel…], got " + describe(a.tensor("weight")));
  QCG_CHECK(check_rank(a, "input", spatial));
  const std::vector<int64_t> ones(spatial, 1), zeros(spatial, 0);
  QCG_TRY(kernel, kernel_of(a, spatial));
  QCG_TRY(stride, per_axis(a, "stride", spatial, 1, ones));
  QCG_TRY(dilation, per_axis(a, "dilation", spatial, 1, ones));
  QCG_TRY(padding, per_axis(a, "padding", spatial, 0, zeros));
  QCG_TRY(more, per_axis(a, "output_padding", spatial, 0, zeros));
  const Shape& shape = a.tensor("input").shape;
  std::vector<TransposedAxis> out(spatial);
  for (size_t i = 0; i < spatial; ++i) {
    WindowAxis& axis = out[i].window;
    out[i].stretch = stride[i];
    axis.size = (shape[shape.size() - spatial + i] - Dim(1)) * Dim(stride[i]) + Dim(1);
    axis.kernel = kernel[i], axis.dilation = dilation[i];
    axis.before = axis.reach() - 1 - padding[i], axis.behind = axis.before + more[i];
    axis.count = axis.size + Dim(axis.before + axis.behind - axis.reach() + 1);
    if (more[i] >= std::max(stride[i], dilation[i]))
      return a.fail("output_padding", fmt::format("{} is not less than stride or dilation", more[i]));
    if (range_of(shape[shape.size() - spatial + i], a.graph.symbols).min < 1 ||
        range_of(axis.count, a.graph.symbols).min < 1)
      return a.fail("padding", fmt::format("{} of an axis of {} may leave nothing", padding[i],
                                           shape[shape.size() - spatial + i].str()));
  }
  return out;
}

static Result<Types> infer_transposed(const OpArgs& a) {
  QCG_TRY(axes, transposed_axes(a));
  const Value &x = a.tensor("input"), &w = a.tensor("weight");
  if (!is_floating(x.dtype)) return a.fail("input", "expected a floating dtype, got " + describe(x));
  QCG_CHECK(need_same_dtype(a, "weight", w, x.dtype));
  QCG_TRY(groups, a.constant("groups"));
  const size_t channels = x.shape.size() - axes.size() - 1;
  if (!w.shape[0].is_constant() || !w.shape[1].is_constant())
    return a.unsupported("weight", "channels known only at run time", "export with constant channels");
  if (groups < 1 || w.shape[0].constant() % groups != 0 || !(x.shape[channels] == w.shape[0]))
    return a.fail("weight", fmt::format("{} in {} groups does not fit {}", describe(w), groups, describe(x)));
  const Dim outputs = w.shape[1] * Dim(groups);
  if (const Value* bias = a.optional_tensor("bias")) {
    QCG_CHECK(need_same_dtype(a, "bias", *bias, x.dtype));
    if (bias->shape != Shape{outputs})
      return a.fail("bias", fmt::format("expected [{}], got {}", outputs.str(), describe(*bias)));
  }
  Shape shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(channels));
  shape.push_back(outputs);
  for (const TransposedAxis& axis : axes) shape.push_back(axis.window.count);
  return one(x.dtype, std::move(shape));
}

Result<Types> infer_convolution(const OpArgs& a) {
  if (is_transposed(a)) return infer_transposed(a);
  QCG_TRY(axes, window_axes(a));
  const Value &x = a.tensor("input"), &w = a.tensor("weight");
  if (!is_floating(x.dtype)) return a.fail("input", "expected a floating dtype, got " + describe(x));
  QCG_CHECK(need_same_dtype(a, "weight", w, x.dtype));
  QCG_TRY(groups, a.constant("groups"));
  const size_t channels = x.shape.size() - axes.size() - 1;
  if (!w.shape[0].is_constant() || !w.shape[1].is_constant())
    return a.unsupported("weight", "channels known only at run time", "export with constant channels");
  const int64_t outputs = w.shape[0].constant();
  if (groups < 1 || outputs % groups != 0)
    return a.fail("groups", fmt::format("{} groups of {} outputs", groups, outputs));
  if (!(x.shape[channels] == w.shape[1] * Dim(groups)))
    return a.fail("weight", fmt::format("{} convolves {} channels in {} groups, and {} has {}", describe(w),
                                        w.shape[1].str(), groups, describe(x), x.shape[channels].str()));
  if (const Value* bias = a.optional_tensor("bias")) {
    QCG_CHECK(need_same_dtype(a, "bias", *bias, x.dtype));
    if (bias->shape != Shape{w.shape[0]})
      return a.fail("bias", fmt::format("expected [{}], got {}", outputs, describe(*bias)));
  }
  Shape shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(channels));
  shape.push_back(w.shape[0]);
  for (const WindowAxis& axis : axes) shape.push_back(axis.count);
  return one(x.dtype, std::move(shape));
}

Result<Types> infer_pool(const OpArgs& a) {
  QCG_TRY(axes, window_axes(a));
  const Value& x = a.tensor("self");
  if (!is_floating(x.dtype))
    return a.unsupported("self", "pools of " + describe(x) + " have no kernel", "cast it to a floating dtype before");
  if (has_arg(a, "divisor_override") && !a.node.arg("divisor_override").is_none()) {
    QCG_TRY(divisor, a.constant("divisor_override"));
    if (divisor == 0) return a.fail("divisor_override", "a mean of none");
  }
  Shape shape = x.shape;
  for (size_t i = 0; i < axes.size(); ++i) shape[shape.size() - axes.size() + i] = axes[i].count;
  Types types = one(x.dtype, shape);
  if (a.node.op->outputs == 2) types.push_back({DType::i64, shape});
  return types;
}

Result<Types> infer_adaptive_pool(const OpArgs& a) {
  const size_t spatial = count_spatial(a);
  QCG_CHECK(check_rank(a, "self", spatial));
  const Value& x = a.tensor("self");
  if (!is_floating(x.dtype))
    return a.unsupported("self", "pools of " + describe(x) + " have no kernel", "cast it to a floating dtype before");
  std::vector<Dim> counts = a.dims("output_size");
  if (counts.size() == 1) counts.resize(spatial, counts[0]);
  if (counts.size() != spatial)
    return a.fail("output_size", fmt::format("{} numbers for {} axes", counts.size(), spatial));
  Shape shape = x.shape;
  for (size_t i = 0; i < spatial; ++i) {
    Dim& size = shape[shape.size() - spatial + i];
    if (range_of(size, a.graph.symbols).min < 1)
      return a.fail("self", fmt::format("an axis of {} may be empty", size.str()));
    const bool stays = counts[i] == size && a.node.op->outputs == 1;  // every element is a pool
    if (!stays && !counts[i].is_constant())
      return a.unsupported("output_size", fmt::format("{} is known only at run time", counts[i].str()),
                           "export with a constant here");
    if (!stays && (counts[i].constant() < 1 || counts[i].constant() > kLargestStep))
      return a.fail("output_size", fmt::format("{} is not in [1, {}]", counts[i].constant(), kLargestStep));
    size = counts[i];
  }
  Types types = one(x.dtype, shape);
  if (a.node.op->outputs == 2) types.push_back({DType::i64, shape});
  return types;
}

// Channels are axis 1; weight and bias have one element of each. native: mean and 1 / deviation of each group too.
Result<Types> infer_group_norm(const OpArgs& a) {
  const Value& x = a.tensor("input");
  if (!is_floating(x.dtype)) return a.fail("input", "expected a floating dtype, got " + describe(x));
  if (x.shape.size() < 2 || !x.shape[1].is_constant())
    return a.fail("input", "channels are axis 1, a constant, which " + describe(x) + " has not");
  const std::string_view name = has_arg(a, "group") ? "group" : "num_groups";
  int64_t groups = x.shape[1].constant();
  if (has_arg(a, "use_input_stats")) {  // instance_norm: every channel is a group
    for (std::string_view statistic : {"running_mean", "running_var"}) {
      if (a.boolean("use_input_stats")) break;
      const Value* v = a.optional_tensor(statistic);
      if (!v || !is_floating(v->dtype) || v->shape != Shape{x.shape[1]})
        return a.fail(statistic, "without statistics of the input, it is one float per channel of " + describe(x));
    }
  } else {
    QCG_TRY(given, a.constant(name));
    groups = given;
  }
  if (groups < 1 || x.shape[1].constant() % groups != 0)
    return a.fail(name, fmt::format("{} groups of {} channels", groups, x.shape[1].str()));
  for (std::string_view parameter : {"weight", "bias"})
    if (const Value* v = a.optional_tensor(parameter); v && (!is_floating(v->dtype) || v->shape != Shape{x.shape[1]}))
      return a.fail(parameter, fmt::format("{} is not one float per channel of {}", describe(*v), describe(x)));
  Types types = one(x.dtype, x.shape);
  if (a.node.op->outputs == 1) return types;
  const Value *weight = a.optional_tensor("weight"), *bias = a.optional_tensor("bias");
  const Value* parameter = weight ? weight : bias;
  const DType dtype = parameter && is_half(x.dtype) ? parameter->dtype : x.dtype;
  types.push_back({dtype, {x.shape[0], Dim(groups)}});
  types.push_back({dtype, {x.shape[0], Dim(groups)}});
  return types;
}

// Every channel has the mean and the deviation of the batch. Those of halves are declared as halves on a CPU, and may be
// as f32 elsewhere.
Result<Types> infer_batch_statistics(const OpArgs& a) {
  const Value& x = a.tensor("input");
  if (!is_floating(x.dtype) || x.shape.size() < 2)
    return a.fail("input", "expected floats with channels at axis 1, got " + describe(x));
  if (!a.boolean("training")) return a.fail("training", "there are no statistics but those of the batch");
  for (std::string_view name : {"weight", "bias"})
    if (const Value* v = a.optional_tensor(name); v && (!is_floating(v->dtype) || v->shape != Shape{x.shape[1]}))
      return a.fail(name, fmt::format("{} is not one float per channel of {}", describe(*v), describe(x)));
  const auto& outputs = a.node.outputs;
  const bool wide = outputs.size() > 1 && a.graph.value(outputs[1]).dtype == DType::f32;
  const ValueType statistics{wide ? DType::f32 : x.dtype, {x.shape[1]}};
  return Types{{x.dtype, x.shape}, statistics, statistics};
}

// [C * r * r, H, W] and [C, H * r, W * r].
Result<Types> infer_pixel_shuffle(const OpArgs& a) {
  const Value& x = a.tensor("self");
  const bool back = has_arg(a, "downscale_factor");
  QCG_TRY(r, a.constant(back ? "downscale_factor" : "upscale_factor"));
  if (x.shape.size() < 3 || r < 1 || r > kLargestStep)
    return a.fail("self", fmt::format("pixels of {} by a factor of {}", describe(x), r));
  Shape shape = x.shape;
  Dim *w = &shape.back(), *h = w - 1, *c = h - 1;
  for (Dim* d : back ? std::vector{h, w} : std::vector{c, c}) {
    const auto part = d->divide_exactly(Dim(r));
    if (!part) return a.fail("self", fmt::format("{} is no multiple of {}", d->str(), r));
    *d = *part;
  }
  for (Dim* d : back ? std::vector{c, c} : std::vector{h, w}) *d = *d * Dim(r);
  return one(x.dtype, std::move(shape));
}

// Whether channels are whole groups of `inputs`, each of as many results.
static bool are_groups(const Dim& channels, const Dim& inputs, const Dim& results) {
  if (!channels.is_constant() || inputs.constant() < 1 || channels.constant() % inputs.constant() != 0) return false;
  const int64_t groups = channels.constant() / inputs.constant();
  return groups > 0 && results.constant() > 0 && results.constant() % groups == 0;
}

// The epilogue is one expression or none. It reads acc0, the result of a window, and operands that broadcast to y.
static Status check_slid_epilogue(const OpArgs& a, const Shape& shape) {
  const auto& operands = a.tensors("operands");
  const auto& epilogue = a.exprs("epilogue");
  if (epilogue.size() > 1) return a.fail("epilogue", fmt::format("expected one expression, got {}", epilogue.size()));
  if (epilogue.empty() && !operands.empty()) return a.fail("operands", "no epilogue reads them");
  for (const ValueId id : operands) {
    const Value& v = a.graph.value(id);
    if (!is_compute_float(v.dtype) || broadcast(shape, v.shape) != shape)
      return a.fail("operands", fmt::format("{} does not broadcast to {}", describe(v), to_string(shape)));
  }
  for (const Expr& e : epilogue) QCG_CHECK(check_leaves(a, "epilogue", e, {1, operands.size()}));
  return {};
}

// Channels last: [batch, axes…, C], or without a batch.
Result<Types> infer_windows(const OpArgs& a) {
  const Value& x = a.tensor("x");
  const size_t spatial = a.dims("kernel").size(), rank = x.shape.size();
  if (spatial < 1 || spatial > 2 || (rank != spatial + 1 && rank != spatial + 2) || !is_floating(x.dtype))
    return a.fail("x", fmt::format("windows over {} axes of {}", spatial, describe(x)));
  const std::string& op = a.string("op");
  const Value* weight = a.optional_tensor("weight");
  if (op != "sum" && op != "max" && op != "product") return a.fail("op", "expected sum, max or product");
  if ((op == "product") != (weight != nullptr)) return a.fail("weight", "a product has one, and nothing else");
  for (std::string_view name : {"kernel", "stride", "dilation", "before"})
    QCG_CHECK(per_axis(a, name, spatial, name == "before" ? 0 : 1, {}));
  for (std::string_view name : {"stride", "dilation", "before", "places"})
    if (a.dims(name).size() != spatial) return a.fail(name, fmt::format("expected {} numbers", spatial));
  Shape taps = a.dims("kernel"), shape = x.shape;
  if (weight) {
    const size_t axes = weight->shape.size();
    const bool fits = axes == spatial + 2 && is_floating(weight->dtype) &&
                      std::ranges::all_of(weight->shape, [](const Dim& d) { return d.is_constant(); }) &&
                      std::ranges::equal(taps, std::span(weight->shape).first(spatial)) &&
                      are_groups(x.shape.back(), weight->shape[spatial], weight->shape.back());
    if (!fits)
      return a.fail("weight", fmt::format("expected {} and channels of a group of {}, and of the result, got {}",
                                          to_string(taps), x.shape.back().str(), describe(*weight)));
    shape.back() = weight->shape.back();
  }
  for (size_t i = 0; i < spatial; ++i) {
    Dim& size = shape[rank - 1 - spatial + i];
    size = a.dims("places")[i];
    if (range_of(size, a.graph.symbols).min < 0) return a.fail("places", size.str() + " may be negative");
  }
  QCG_CHECK(check_slid_epilogue(a, shape));
  return one(a.dtype("dtype").value_or(x.dtype), std::move(shape));
}

namespace {

constexpr int64_t kMostSteps = 4096;  // of all layers and directions: each becomes operations of its own

Status check_state(const OpArgs& a, std::string_view name, const Value& v, const Shape& shape) {
  if (v.dtype == a.tensor("input").dtype && v.shape == shape) return {};
  return a.fail(
      name, fmt::format("expected {}{}, got {}", dtype_name(a.tensor("input").dtype), to_string(shape), describe(v)));
}

// Weights [gates * hidden, size of the input], [gates * hidden, width], a bias for each, and a projection [width, hidden].
Status check_params(const OpArgs& a, const Recurrence& r) {
  const auto& params = a.tensors("params");
  for (size_t i = 0; i < params.size(); ++i) {
    const bool first = i / r.params_each < static_cast<size_t>(r.directions);
    const Dim rows(r.gates * r.hidden), input = first ? a.tensor("input").shape[2] : Dim(r.directions * r.width);
    const size_t kind = i % r.params_each;
    const bool projection = r.projects && kind + 1 == r.params_each;
    const Shape shape = kind == 0    ? Shape{rows, input}
                        : kind == 1  ? Shape{rows, Dim(r.width)}
                        : projection ? Shape{Dim(r.width), Dim(r.hidden)}
                                     : Shape{rows};
    QCG_CHECK(check_state(a, "params", a.graph.value(params[i]), shape));
  }
  return {};
}

}  // namespace

int64_t gates_of(const OpSchema& op) {
  return op.name.starts_with("aten.lstm") ? 4 : op.name.starts_with("aten.gru") ? 3 : 1;
}

Result<Recurrence> read_recurrence(const OpArgs& a) {
  const Value& x = a.tensor("input");
  if (x.shape.size() != 3 || !is_floating(x.dtype))
    return a.fail("input", "expected floats [batch, steps, size] or [steps, batch, size], got " + describe(x));
  Recurrence r;
  r.gates = gates_of(*a.node.op);
  r.batch_first = a.boolean("batch_first");
  r.directions = a.boolean("bidirectional") ? 2 : 1;
  r.has_biases = a.boolean("has_biases");
  QCG_TRY(layers, a.constant("num_layers"));
  r.layers = layers;
  const auto* dropout = a.node.arg("dropout").get<double>();
  if (a.boolean("train") && layers > 1 && (!dropout || *dropout > 0))
    return a.unsupported("train", "dropout between layers", "call model.eval() before the export");
  const auto& params = a.tensors("params");
  const auto count = static_cast<int64_t>(params.size());
  const int64_t plain = r.has_biases ? 4 : 2, parts = layers < 1 || layers > kMostSteps ? 0 : layers * r.directions;
  r.projects = r.gates == 4 && count == parts * (plain + 1);
  r.params_each = static_cast<size_t>(plain + (r.projects ? 1 : 0));
  if (parts == 0 || count != parts * static_cast<int64_t>(r.params_each))
    return a.fail("params", fmt::format("{} parameters for {} layers", count, layers));
  const Value& w = a.graph.value(params[1]);
  if (w.shape.size() != 2 || !w.shape[0].is_constant() || !w.shape[1].is_constant() || w.shape[1].constant() < 1)
    return a.fail("params", "expected weights [gates * hidden, width], got " + describe(w));
  r.width = w.shape[1].constant();
  r.hidden = r.projects ? w.shape[0].constant() / r.gates : r.width;
  if (r.hidden < 1) return a.fail("params", "expected weights [gates * hidden, width], got " + describe(w));
  const Dim& steps = x.shape[r.batch_first ? 1 : 0];
  if (!steps.is_constant())
    return a.unsupported("input", fmt::format("{} steps, a number known only at run time", steps.str()),
                         "export with a constant number of steps: each becomes operations of its own");
  r.steps = steps.constant();
  if (r.steps < 1) return a.fail("input", "a sequence without steps");
  if (r.steps > kMostSteps / (layers * r.directions))
    return a.unsupported(
        "input", fmt::format("{} steps of {} layers", r.steps, layers * r.directions),
        fmt::format("at most {} steps in all are written out: run parts of the sequence, and give each "
                    "the state that the last has left",
                    kMostSteps));
  return r;
}

// One step of a recurrent layer, of states [batch, hidden].
Result<Types> infer_cell(const OpArgs& a) {
  const Value &x = a.tensor("input"), &w = a.tensor("w_hh");
  const int64_t gates = gates_of(*a.node.op);
  if (x.shape.size() != 2 || !is_floating(x.dtype))
    return a.fail("input", "expected floats [batch, size], got " + describe(x));
  if (w.shape.size() != 2 || !w.shape[1].is_constant() || w.shape[1].constant() < 1)
    return a.fail("w_hh", "expected weights [gates * hidden, hidden], got " + describe(w));
  const Dim hidden = w.shape[1], rows = hidden * Dim(gates);
  const Shape state = {x.shape[0], hidden};
  QCG_CHECK(check_state(a, "w_ih", a.tensor("w_ih"), {rows, x.shape[1]}));
  QCG_CHECK(check_state(a, "w_hh", w, {rows, hidden}));
  for (std::string_view name : {"b_ih", "b_hh"})
    if (const Value* bias = a.optional_tensor(name)) QCG_CHECK(check_state(a, name, *bias, {rows}));
  const auto states = gates == 4 ? a.tensors("hx") : std::vector<ValueId>{a.node.tensor("hx")};
  if (states.size() != (gates == 4 ? 2 : 1))
    return a.fail("hx", fmt::format("expected two tensors, got {}", states.size()));
  for (ValueId id : states) QCG_CHECK(check_state(a, "hx", a.graph.value(id), state));
  return Types(states.size(), {x.dtype, state});
}

Result<Types> infer_recurrence(const OpArgs& a) {
  QCG_TRY(r, read_recurrence(a));
  QCG_CHECK(check_params(a, r));
  const Value& x = a.tensor("input");
  const Shape state = {Dim(r.layers * r.directions), x.shape[r.batch_first ? 0 : 1], Dim(r.width)};
  const Shape cells = {state[0], state[1], Dim(r.hidden)};
  if (r.gates == 4) {
    const auto& hx = a.tensors("hx");
    if (hx.size() != 2) return a.fail("hx", fmt::format("expected two tensors, got {}", hx.size()));
    QCG_CHECK(check_state(a, "hx", a.graph.value(hx[0]), state));
    QCG_CHECK(check_state(a, "hx", a.graph.value(hx[1]), cells));
  } else {
    QCG_CHECK(check_state(a, "hx", a.tensor("hx"), state));
  }
  Types types = {{x.dtype, {x.shape[0], x.shape[1], Dim(r.directions * r.width)}}, {x.dtype, state}};
  if (r.gates == 4) types.push_back({x.dtype, cells});
  return types;
}

}  // namespace qcg
