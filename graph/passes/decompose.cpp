// decompose: what no pattern recognized becomes operations that always have a kernel.
//
//   linear, mm, addmm, bmm            aten.matmul (+ permute, scale and bias as pointwise operations)
//   _weight_int8pack_mm               matmul of the cast weight, times the scales
//   _scaled_mm, tensor_cast linears   matmul of both operands dequantized to f32, plus the bias
//   choose_qparams_affine             amin, amax over the block, then pointwise
//   quantize_affine, dequantize_affine   pointwise on the tensor reshaped to its blocks
//   matmul of vectors                 reshape + matmul
//   select                            slice + reshape
//   select_scatter, scatter of a number   slice_scatter, scatter of a tensor
//   cat of unlike parts               cat of the same, cast, without those of shape [0]
//   softmax, layer_norm, …            see composed_ops.h
//   scaled_dot_product_attention      that recognize_attention left: see attention.h
//
// So that a graph with an unknown spelling still compiles, unfused: correct first, and explain says what was missing.
// Follows torchao's definitions step by step, in the dtypes torchao computes in.
//
// Why here: after everything that recognizes; before fold_epilogue and lower_loops, which want small operations.
#include <algorithm>

#include "graph/ir/float_format.h"
#include "graph/passes/attention.h"
#include "graph/passes/composed_ops.h"
#include "graph/passes/pass_list.h"
#include "graph/patterns/gemm.h"
#include "graph/rewrite/dequantize_operand.h"
#include "graph/rewrite/op_emitter.h"
#include "graph/rewrite/pointwise.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

constexpr Op kChooseAsymmetricRows[] = {"quantized_decomposed.choose_qparams_per_token_asymmetric.default",
                                        "quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default"};
constexpr Op kCastsFirst[] = {"aten.cumsum.default",  "aten.cumprod.default", "aten.sum.default",
                              "aten.sum.dim_IntList", "aten.prod.default",    "aten.prod.dim_int"};

class Decomposer : OpEmitter {
 public:
  Decomposer(Graph& graph, PassContext& context) : OpEmitter(graph, {}), context_(context), readers_(graph) {}

  Status run() {
    const NodeId count = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = 0; id < count; ++id) QCG_CHECK(decompose_node(id));
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  Status decompose_node(NodeId id) {
    like_ = graph_.nodes[id];
    error_ = {};
    std::vector<ValueId> results;
    if (is_op(like_, "aten._int_mm.default") || is_matrix_product()) return {};
    if (is_op(like_, "aten.matmul.default")) results = {product_of_vectors()};
    else if (as_gemm(graph_, like_)) results = {product_of_gemm()};
    else if (is_op(like_, "aten._weight_int8pack_mm.default")) results = {int8pack()};
    else if (is_op(like_, "torchao.choose_qparams_affine.default")) results = choose_qparams();
    else if (is_op(like_, "torchao.choose_scale_float8.default")) results = {choose_scale_float8()};
    else if (is_op(like_, "torchao.quantize_affine.default")) results = {quantize()};
    else if (is_op(like_, "torchao.dequantize_affine.default")) {
      if (as_pointwise(graph_, like_)) return {};
      results = {dequantize()};
    } else if (is_op(like_, "quantized_decomposed.quantize_per_token.default"))
      results = {quantize_rows(input_shape())};
    else if (is_op(like_, "quantized_decomposed.quantize_per_channel_group.default")) results = {quantize_groups()};
    else if (is_op(like_, "quantized_decomposed.choose_qparams.tensor")) results = choose_of_tensor(false);
    else if (is_op(like_, "quantized_decomposed.choose_qparams_symmetric.tensor")) results = choose_of_tensor(true);
    else if (is_op(like_, "quantized_decomposed.choose_qparams_per_token.default")) results = choose_symmetric_rows();
    else if (is_any_op(like_, kChooseAsymmetricRows)) results = choose_asymmetric_rows();
    else if (is_scaled_product(like_.op)) results = {write_scaled_product(*this, graph_, like_)};
    else if (is_op(like_, "qcg.dequantize_4bit")) return unread_four_bit();
    else if (is_op(like_, "aten.select.int")) results = {select()};
    else if (is_op(like_, "aten.copy.default")) results = {copied()};
    else if (is_op(like_, "aten.slice_scatter.default")) {
      if (!writes_other_dtype()) return {};
      results = {scatter_cast()};
    } else if (is_any_op(like_, kCastsFirst)) {
      if (!casts_first()) return {};
      results = {of_cast()};
    } else if (is_op(like_, "aten.select_scatter.default")) results = {scatter_row()};
    else if (is_op(like_, "aten.scatter.value")) results = {scatter_number()};
    else if (mask_of_index_put(graph_, like_) != kNoValue) results = {put_at_mask()};
    else if (sums_at_positions(like_)) {
      if (!sums_otherwise()) return {};
      results = {sum_in_f32()};
    } else if (is_op(like_, "aten.cat.default")) {
      if (!joins_unlike()) return {};
      results = {cat()};
    } else if (is_attention(like_.op)) {
      QCG_CHECK(check_first_output_alone());
      results = {write_attention(*this, graph_, like_)};
    } else if (const ComposedOp* composed = find_composed(like_.op)) {
      results = composed->write(*this, graph_, like_);
    } else {
      return {};
    }
    QCG_CHECK(std::move(error_));
    for (size_t i = 0; i < results.size(); ++i) {
      const ValueId out = like_.outputs[i];
      ValueId result = results[i];
      if (graph_.value(result).dtype != graph_.value(out).dtype) result = to(result, graph_.value(out).dtype);
      if (graph_.value(result).shape != graph_.value(out).shape) result = reshape(result, graph_.value(out).shape);
      QCG_CHECK(std::move(error_));
      readers_.replace(out, result);
    }
    ++context_.report.fired;
    ++context_.report.counters[like_.op->name];
    return {};
  }

  Status check_first_output_alone() const {
    if (like_.outputs.size() == 1 || readers_.uses()[like_.outputs[1]] == 0) return {};
    return Error::unsupported(like_.where, "the weights of " + like_.op->name + " are used, but have no kernel",
                              "return the values instead, and find the weights outside of the graph");
  }

  // matmul as kernels know it: at least two axes on both sides.
  bool is_matrix_product() const {
    return is_op(like_, "aten.matmul.default") && graph_.value(like_.tensor("self")).shape.size() >= 2 &&
           graph_.value(like_.tensor("other")).shape.size() >= 2;
  }

  // torch casts to the dtype that is asked for first.
  bool casts_first() const {
    return is_floating(graph_.value(like_.tensor("self")).dtype) && !is_floating(graph_.value(like_.outputs[0]).dtype);
  }
  ValueId of_cast() {
    const DType dtype = graph_.value(like_.outputs[0]).dtype;
    std::vector<NamedArg> args = {{"self", to(like_.tensor("self"), dtype)}, {"dtype", dtype}};
    for (const char* name : {"dim", "keepdim"})
      if (like_.op->arg_index(name) >= 0) args.push_back({name, like_.arg(name)});
    return op(like_.op, args);
  }

  // torch lets a list of shape [0] join anything.
  bool is_legacy_empty(ValueId part) const {
    const Shape& shape = graph_.value(part).shape;
    return shape.size() == 1 && shape[0].is_constant(0) && graph_.value(like_.outputs[0]).shape.size() != 1;
  }
  bool joins_unlike() const {
    const auto& parts = *like_.arg("tensors").get<std::vector<ValueId>>();
    const DType dtype = graph_.value(like_.outputs[0]).dtype;
    return std::any_of(parts.begin(), parts.end(),
                       [&](ValueId part) { return graph_.value(part).dtype != dtype || is_legacy_empty(part); });
  }
  ValueId cat() {
    std::vector<ValueId> parts;
    for (ValueId part : *like_.arg("tensors").get<std::vector<ValueId>>())
      if (!is_legacy_empty(part)) parts.push_back(to(part, graph_.value(like_.outputs[0]).dtype));
    return op("aten.cat.default", {{"tensors", parts}, {"dim", like_.arg("dim")}});
  }

  // A vector is one row on the left, one column on the right; the caller gives the result its shape back.
  ValueId product_of_vectors() {
    ValueId a = like_.tensor("self"), b = like_.tensor("other");
    const Shape left = graph_.value(a).shape, right = graph_.value(b).shape;
    if (left.size() == 1) a = reshape(a, {Dim(1), left[0]});
    if (right.size() == 1) b = reshape(b, {right[0], Dim(1)});
    return op("aten.matmul.default", {{"self", a}, {"other", b}});
  }

  ValueId product_of_gemm() {
    const Gemm gemm = *as_gemm(graph_, like_);
    ValueId w = gemm.w;
    if (!gemm.weight_kn) {
      std::vector<Dim> dims;
      const size_t rank = graph_.value(w).shape.size();
      for (size_t i = 0; i < rank; ++i) dims.push_back(Dim(static_cast<int64_t>(i)));
      if (rank >= 2) {
        std::swap(dims[rank - 1], dims[rank - 2]);
        w = op("aten.permute.default", {{"self", w}, {"dims", dims}});
      }
    }
    const bool is_alone = gemm.alpha == 1 && gemm.bias == kNoValue;
    ValueId y = is_alone ? op("aten.matmul.default", {{"self", gemm.x}, {"other", w}}) : wide_product(gemm.x, w);
    if (gemm.alpha != 1) y = binary("aten.mul.Tensor", y, gemm.alpha);
    if (gemm.bias != kNoValue) {
      ValueId bias = widened(gemm.bias);
      if (gemm.beta != 1) bias = binary("aten.mul.Tensor", bias, gemm.beta);
      y = binary("aten.add.Tensor", y, bias);
    }
    return to(y, graph_.value(like_.outputs[0]).dtype);
  }

  ValueId int8pack() {
    const ValueId x = like_.tensor("self");
    const ValueId w = to(like_.tensor("mat2"), graph_.value(x).dtype);
    const ValueId wt = op("aten.permute.default", {{"self", w}, {"dims", std::vector<Dim>{Dim(1), Dim(0)}}});
    return binary("aten.mul.Tensor", op("aten.matmul.default", {{"self", x}, {"other", wt}}), like_.tensor("scales"));
  }

  // Constants were folded before, so this one is computed at run time, or too large to be blown up.
  Status unread_four_bit() const {
    return Error::unsupported(like_.where, "a dequantize_4bit that is not the weight of a linear",
                              "multiply by it with linear, mm or matmul");
  }

  // copy(self, src) is src in the dtype and the shape of self.
  ValueId copied() {
    const Value self = graph_.value(like_.outputs[0]);
    const ValueId src = to(like_.tensor("src"), self.dtype);
    if (graph_.value(src).shape == self.shape) return src;
    return op("aten.expand.default", {{"self", src}, {"size", std::vector<Dim>(self.shape.begin(), self.shape.end())}});
  }

  bool writes_other_dtype() const {
    return graph_.value(like_.tensor("src")).dtype != graph_.value(like_.outputs[0]).dtype;
  }
  ValueId scatter_cast() {
    return op("aten.slice_scatter.default", {{"self", like_.tensor("self")},
                                             {"src", to(like_.tensor("src"), graph_.value(like_.outputs[0]).dtype)},
                                             {"dim", like_.arg("dim")},
                                             {"start", like_.arg("start")},
                                             {"end", like_.arg("end")},
                                             {"step", like_.arg("step")}});
  }

  // index_put at truth values: where they hold.
  ValueId put_at_mask() {
    const Shape& self = graph_.value(like_.tensor("self")).shape;
    const ValueId mask = mask_of_index_put(graph_, like_);
    Shape seen = graph_.value(mask).shape;
    seen.resize(self.size(), Dim(1));
    ValueId values = like_.tensor("values");
    Shape given = graph_.value(values).shape;
    if (given.size() > self.size() - graph_.value(mask).shape.size()) given.erase(given.begin());
    values = reshape(values, given);
    return op("aten.where.self",
              {{"condition", reshape(mask, seen)}, {"self", values}, {"other", like_.tensor("self")}});
  }

  // The kernel adds elements without a factor, in dtypes that processors add. Sums in f16 and bf16, or times alpha, are
  // written as sums in f32.
  std::string_view summed_argument() const {
    return like_.op->arg_index("source") >= 0 ? "source" : like_.op->arg_index("src") >= 0 ? "src" : "values";
  }
  bool sums_otherwise() const {
    const bool scaled = like_.op->arg_index("alpha") >= 0 && as_number(like_.arg("alpha")) != 1;
    return scaled || is_half(graph_.value(like_.outputs[0]).dtype);
  }
  ValueId sum_in_f32() {
    Node sum = like_;
    ValueId added = widened(like_.tensor(summed_argument()));
    if (like_.op->arg_index("alpha") >= 0) {
      if (as_number(like_.arg("alpha")) != 1) added = binary("aten.mul.Tensor", added, like_.arg("alpha"));
      sum.arg("alpha") = Dim(1);
    }
    sum.arg("self") = widened(like_.tensor("self"));
    sum.arg(summed_argument()) = added;
    std::vector<NamedArg> args;
    for (size_t i = 0; i < sum.args.size(); ++i) args.push_back({sum.op->args[i].name, sum.args[i]});
    return op(sum.op, std::move(args));
  }

  // select_scatter of a row is slice_scatter of a slice of one.
  ValueId scatter_row() {
    Shape shape = graph_.value(like_.outputs[0]).shape;
    const size_t axis = *as_axis(like_.arg("dim"), shape.size());
    Dim at = *like_.arg("index").get<Dim>();
    if (at.is_constant() && at.constant() < 0) at = shape[axis] + at;
    shape[axis] = Dim(1);
    return op("aten.slice_scatter.default",
              {{"self", like_.tensor("self")},
               {"src", reshape(to(like_.tensor("src"), graph_.value(like_.outputs[0]).dtype), shape)},
               {"dim", Dim(static_cast<int64_t>(axis))},
               {"start", at},
               {"end", at + Dim(1)}});
  }

  ValueId scatter_number() {
    const DType dtype = graph_.value(like_.outputs[0]).dtype;
    const Shape shape = graph_.value(like_.tensor("index")).shape;
    const Arg given = like_.arg("value");
    const ValueId src =
        is_beyond_double(given)
            ? op("aten.full.default", {{"size", shape}, {"fill_value", given}, {"dtype", dtype}})
            : op("aten.expand.default",
                 {{"self", add_number(graph_, dtype, *as_number(given), {}, "value")}, {"size", shape}});
    return op(
        "aten.scatter.src",
        {{"self", like_.tensor("self")}, {"dim", like_.arg("dim")}, {"index", like_.tensor("index")}, {"src", src}});
  }

  ValueId select() {
    const Arg dim = like_.arg("dim"), index = like_.arg("index");
    const Dim* at = index.get<Dim>();
    if (!at || (at->is_constant() && at->constant() < 0)) {
      const Shape& shape = graph_.value(like_.tensor("self")).shape;
      auto axis = as_axis(dim, shape.size());
      if (!axis || !at) {
        error_ = Error::unsupported(like_.where, "select with an axis or index that is not a number",
                                    "use a constant index");
        return 0;
      }
      const Dim from = shape[*axis] + *at;
      return op("aten.slice.Tensor",
                {{"self", like_.tensor("self")}, {"dim", dim}, {"start", from}, {"end", from + Dim(1)}});
    }
    return op("aten.slice.Tensor",
              {{"self", like_.tensor("self")}, {"dim", dim}, {"start", *at}, {"end", *at + Dim(1)}});
  }

  // torchao's _get_reduction_params: every axis is cut into blocks; a block's scale has size 1 along it.
  struct Blocks {
    Shape cut;                 // of the tensor
    Shape scales;              // of one scale per block, broadcastable to cut
    std::vector<Dim> reduced;  // axes of cut
  };

  std::optional<Blocks> blocks(std::string_view input = "input") {
    const Shape shape = graph_.value(like_.tensor(input)).shape;
    const auto* block = like_.arg("block_size").get<std::vector<Dim>>();
    Blocks out;
    auto add_axis = [&](const Dim& size, bool reduce) {
      if (reduce) out.reduced.push_back(Dim(static_cast<int64_t>(out.cut.size())));
      out.cut.push_back(size);
      out.scales.push_back(reduce ? Dim(1) : size);
    };
    const bool fits = block && block->size() == shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) {
      if ((*block)[i].is_constant(1) || (*block)[i] == shape[i]) {
        add_axis(shape[i], !(*block)[i].is_constant(1));
        continue;
      }
      auto count = shape[i].divide_exactly((*block)[i]);
      if (!count) break;
      add_axis(*count, false);
      add_axis((*block)[i], true);
    }
    if (!fits || !(product(out.cut) == product(shape))) {
      error_ = Error::unsupported(like_.where, "a block size that does not divide the tensor",
                                  "quantize per row or per group that divides the axis");
      return std::nullopt;
    }
    return out;
  }

  // Over each block; blocks of one element are their own extremes (an empty list of axes means all of them).
  ValueId reduce(Op name, ValueId x, const Blocks& b) {
    return b.reduced.empty() ? x : op(name, {{"self", x}, {"dim", b.reduced}, {"keepdim", true}});
  }

  struct Limits {
    double low, high;
  };
  Limits limits(DType dtype) const {
    const IntegerRange all = integer_range(dtype);
    Limits out{static_cast<double>(all.low), static_cast<double>(all.high)};
    if (auto low = as_number(like_.arg("quant_min"))) out.low = *low;
    if (auto high = as_number(like_.arg("quant_max"))) out.high = *high;
    return out;
  }

  ValueId quantize() {
    auto b = blocks();
    if (!b) return 0;
    const Limits range = limits(graph_.value(like_.outputs[0]).dtype);
    const ValueId x = reshape(like_.tensor("input"), b->cut);
    const ValueId inverse = unary("aten.reciprocal.default", reshape(like_.tensor("scale"), b->scales));
    ValueId q = unary("aten.round.default", binary("aten.mul.Tensor", x, inverse));
    if (like_.tensor("zero_point") != kNoValue)
      q = binary("aten.add.Tensor", q, reshape(like_.tensor("zero_point"), b->scales));
    q = op("aten.clamp.default", {{"self", q}, {"min", range.low}, {"max", range.high}});
    return to(reshape(q, graph_.value(like_.outputs[0]).shape), graph_.value(like_.outputs[0]).dtype);
  }

  ValueId dequantize() {
    auto b = blocks();
    if (!b) return 0;
    const DType dtype = graph_.value(like_.outputs[0]).dtype;
    ValueId x = to(reshape(like_.tensor("input"), b->cut), dtype);
    if (like_.tensor("zero_point") != kNoValue)
      x = binary("aten.sub.Tensor", x, to(reshape(like_.tensor("zero_point"), b->scales), dtype));
    return binary("aten.mul.Tensor", x, reshape(like_.tensor("scale"), b->scales));
  }

  ValueId choose_scale_float8() {
    auto b = blocks("tensor");
    if (!b) return 0;
    const ValueId sizes = unary("aten.abs.default", reshape(like_.tensor("tensor"), b->cut));
    ValueId widest = reduce("aten.amax.default", sizes, *b);
    if (!like_.arg("hp_value_lb").is_none() || !like_.arg("hp_value_ub").is_none())
      widest = clamp(widest, like_.arg("hp_value_lb"), like_.arg("hp_value_ub"));
    const DType dtype = *like_.arg("float8_dtype").get<DType>();
    return binary("aten.div.Tensor", widest, float_format(dtype)->max_finite());
  }

  std::vector<ValueId> choose_qparams() {
    auto b = blocks();
    if (!b) return {};
    const std::string* mapping = like_.arg("mapping_type").get<std::string>();
    const DType* target = like_.arg("target_dtype").get<DType>();
    const Limits range = limits(target ? *target : DType::i8);
    const ValueId x = reshape(like_.tensor("input"), b->cut);
    auto extreme = [&](Op name) { return reduce(name, x, *b); };
    const ValueId low = op("aten.clamp_max.default", {{"self", extreme("aten.amin.default")}, {"max", 0.0}});
    const ValueId high = op("aten.clamp_min.default", {{"self", extreme("aten.amax.default")}, {"min", 0.0}});
    const ValueId scale = clamp_to_eps(choose_scale(mapping ? *mapping : "", low, high, range));
    ValueId zero;
    if (mapping && *mapping == "ASYMMETRIC") {
      const ValueId steps = unary("aten.round.default", binary("aten.div.Tensor", low, scale));
      zero = binary("aten.rsub.Scalar", steps, range.low);
      zero = op("aten.clamp.default", {{"self", zero}, {"min", range.low}, {"max", range.high}});
    } else {
      const double middle = static_cast<double>(static_cast<int64_t>((range.high + range.low + 1) / 2));
      // No arithmetic on the scale, which is NaN for a row with a NaN: the zero point is `middle` even there.
      zero = op("aten.expand.default", {{"self", add_number(graph_, graph_.value(scale).dtype, middle, {}, "middle")},
                                        {"size", graph_.value(scale).shape}});
    }
    return {scale, zero};
  }

  ValueId choose_scale(const std::string& mapping, ValueId low, ValueId high, Limits range) {
    if (mapping == "SYMMETRIC") {
      const ValueId widest = binary("aten.maximum.default", unary("aten.neg.default", low), high);
      return binary("aten.div.Tensor", widest, (range.high - range.low) / 2);
    }
    if (mapping == "SYMMETRIC_NO_CLIPPING_ERR") {
      // If the range begins at 0, low / 0 is -inf or NaN, and a maximum would keep the NaN.
      const ValueId from_low = binary("aten.div.Tensor", low, range.low),
                    from_high = binary("aten.div.Tensor", high, range.high);
      return op(
          "aten.where.self",
          {{"condition", binary("aten.gt.Tensor", from_low, from_high)}, {"self", from_low}, {"other", from_high}});
    }
    return binary("aten.div.Tensor", binary("aten.sub.Tensor", high, low), range.high - range.low);
  }

  // ---- quantized_decomposed (torch/ao/quantization/fx/_decomposed.py), what lift_decomposed_quantization left ----

  const Shape& input_shape() const { return graph_.value(like_.tensor("input")).shape; }

  ValueId clamp(ValueId x, Arg low, Arg high) {
    return op("aten.clamp.default", {{"self", x}, {"min", std::move(low)}, {"max", std::move(high)}});
  }

  // One scale per row of the input seen as `shape`; the zero point is added before the rounding.
  ValueId quantize_rows(Shape shape) {
    const Shape whole = input_shape();  // copies: the graph's values move as nodes are added
    Shape rows = shape;
    rows.back() = Dim(1);
    const ValueId x = reshape(to(like_.tensor("input"), DType::f32), shape);
    const ValueId inverse = unary("aten.reciprocal.default", reshape(to(like_.tensor("scales"), DType::f32), rows));
    const ValueId zero = reshape(to(like_.tensor("zero_points"), DType::f32), rows);
    const ValueId q =
        unary("aten.round.default", binary("aten.add.Tensor", binary("aten.mul.Tensor", x, inverse), zero));
    return to(reshape(clamp(q, like_.arg("quant_min"), like_.arg("quant_max")), whole),
              graph_.value(like_.outputs[0]).dtype);
  }

  ValueId quantize_groups() {
    const Shape& shape = input_shape();
    const Dim count = product(graph_.value(like_.tensor("scales")).shape);
    auto group = product(shape).divide_exactly(count);
    if (group) return quantize_rows({count, *group});
    error_ = Error::unsupported(like_.where, "groups that do not divide a row",
                                "quantize in groups that divide the last axis");
    return 0;
  }

  ValueId extreme(Op name, ValueId x, bool rows) {
    std::vector<Dim> dims;
    for (size_t i = rows ? input_shape().size() - 1 : 0; i < input_shape().size(); ++i)
      dims.push_back(Dim(static_cast<int64_t>(i)));
    return op(name, {{"self", x}, {"dim", dims}, {"keepdim", rows}});
  }
  ValueId least(bool rows) {
    return op("aten.clamp_max.default",
              {{"self", extreme("aten.amin.default", like_.tensor("input"), rows)}, {"max", 0.0}});
  }
  ValueId greatest(bool rows) {
    return op("aten.clamp_min.default",
              {{"self", extreme("aten.amax.default", like_.tensor("input"), rows)}, {"min", 0.0}});
  }
  ValueId same_everywhere(ValueId like, double value) { return clamp(like, value, value); }

  std::vector<ValueId> choose_of_tensor(bool symmetric) {
    const double low = *as_number(like_.arg("quant_min")), high = *as_number(like_.arg("quant_max"));
    const ValueId lowest = least(false), highest = greatest(false);
    auto at_least_eps = [&](ValueId scale) {
      return op("aten.clamp_min.default",
                {{"self", to(reshape(scale, {Dim(1)}), DType::f32)}, {"min", *as_number(like_.arg("eps"))}});
    };
    if (symmetric) {
      const ValueId widest = binary("aten.maximum.default", unary("aten.neg.default", lowest), highest);
      const ValueId scale = at_least_eps(binary("aten.div.Tensor", widest, (high - low) / 2));
      return {scale, same_everywhere(scale, *like_.arg("dtype").get<DType>() == DType::u8 ? 128 : 0)};
    }
    const ValueId scale =
        at_least_eps(binary("aten.div.Tensor", binary("aten.sub.Tensor", highest, lowest), high - low));
    const ValueId steps =
        unary("aten.round.default", binary("aten.div.Tensor", reshape(to(lowest, DType::f32), {Dim(1)}), scale));
    return {scale, clamp(binary("aten.rsub.Scalar", steps, low), low, high)};
  }

  std::vector<ValueId> choose_symmetric_rows() {
    ValueId widest = extreme("aten.amax.default", unary("aten.abs.default", like_.tensor("input")), true);
    if (graph_.value(widest).dtype == DType::f16) widest = to(widest, DType::f32);
    const ValueId scale =
        binary("aten.div.Tensor", op("aten.clamp_min.default", {{"self", widest}, {"min", 1e-5}}), 127.0);
    return {scale, same_everywhere(scale, 0)};
  }

  // XNNPACK's rule: the zero point is taken from the end of the range with the smaller error.
  std::vector<ValueId> choose_asymmetric_rows() {
    const ValueId lowest = least(true), highest = greatest(true);
    ValueId scale = binary("aten.div.Tensor", binary("aten.sub.Tensor", highest, lowest), 255.0);
    scale = op("aten.clamp_min.default", {{"self", scale}, {"min", 0x1p-23}});
    const ValueId low = binary("aten.div.Tensor", lowest, scale), high = binary("aten.div.Tensor", highest, scale);
    const ValueId error =
        binary("aten.add.Tensor", binary("aten.add.Scalar", low, -128.0), binary("aten.add.Scalar", high, 127.0));
    const ValueId from_low = binary("aten.rsub.Scalar", low, -128.0),
                  from_high = binary("aten.rsub.Scalar", high, 127.0);
    const ValueId zero =
        op("aten.where.self",
           {{"condition", binary("aten.gt.Scalar", error, 0.0)}, {"self", from_low}, {"other", from_high}});
    return {scale, unary("aten.round.default", clamp(zero, -128.0, 127.0))};
  }

  // eps absent: the smallest normal number of the input's dtype.
  ValueId clamp_to_eps(ValueId scale) {
    const DType dtype = graph_.value(like_.tensor("input")).dtype;
    const double smallest = dtype == DType::f16 ? 0x1p-14 : 0x1p-126;
    const double eps = as_number(like_.arg("eps")).value_or(smallest);
    return op("aten.clamp_min.default", {{"self", scale}, {"min", eps}});
  }

  PassContext& context_;
  Readers readers_;
};

}  // namespace

Status decompose(Graph& graph, PassContext& context) {
  PassReport layers;
  PassContext unreported{context.options, layers};
  QCG_CHECK(expand_layers(graph, unreported));
  QCG_CHECK(Decomposer(graph, context).run());
  // A result is given the dtype and shape it was promised, which its reader may undo.
  PassReport again;
  PassContext quiet{context.options, again};
  return fold_noops(graph, quiet);
}

}  // namespace qcg
