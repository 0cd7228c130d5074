// _transformer_encoder_layer_fwd, the one operator that a strict export makes of nn.TransformerEncoderLayer in eval: read as the
// operators it stands for.
//
//   x = layer_norm(x + attention(x));  y = layer_norm(x + linear(relu(linear(x))))            norm_first = false
//   x = x + attention(layer_norm(x));  y = x + linear(relu(linear(layer_norm(x))))            norm_first = true
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "graph/read/torch/export_reader.h"

namespace qcg {
namespace {

struct EncoderLayer {
  std::map<std::string, ValueId, std::less<>> tensors;
  Dim heads = 0, mask_type = 0;
  double eps = 0;
  bool use_gelu = false, norm_first = false;
};

// The nodes of a layer, of which the first error stays.
class EncoderWriter {
 public:
  using Emit = std::function<Result<ValueId>(std::string_view op, std::vector<Arg> args)>;
  EncoderWriter(const Graph& graph, const EncoderLayer& layer, Emit emit)
      : graph_(graph), layer_(layer), emit_(std::move(emit)) {}

  Result<ValueId> write() {
    const bool first = layer_.norm_first;
    ValueId x = tensor("src");
    x = add(x, attention(first ? norm(x, "1") : x));
    if (!first) x = norm(x, "1");
    x = add(x, feed_forward(first ? norm(x, "2") : x));
    if (!first) x = norm(x, "2");
    if (!error_.ok()) return error_.error();
    return x;
  }

 private:
  ValueId op(std::string_view name, std::vector<Arg> args) {
    if (!error_.ok()) return tensor("src");
    auto made = emit_(name, std::move(args));
    if (made.ok()) return *made;
    error_ = made.error();
    return tensor("src");
  }
  ValueId tensor(std::string_view name) const { return layer_.tensors.find(name)->second; }
  ValueId add(ValueId a, ValueId b) { return op("aten.add.Tensor", {a, b}); }
  ValueId reshape(ValueId x, std::vector<Dim> shape) { return op("aten.reshape.default", {x, std::move(shape)}); }
  ValueId linear(ValueId x, std::string_view weight, std::string_view bias) {
    return op("aten.linear.default", {x, tensor(weight), tensor(bias)});
  }
  ValueId norm(ValueId x, const std::string& which) {
    return op("aten.layer_norm.default", {x, std::vector<Dim>{embedding()}, tensor("norm_weight_" + which),
                                          tensor("norm_bias_" + which), layer_.eps});
  }
  ValueId feed_forward(ValueId x) {
    const ValueId wide = linear(x, "ffn_weight_1", "ffn_bias_1");
    const ValueId active = op(layer_.use_gelu ? "aten.gelu.default" : "aten.relu.default", {wide});
    return linear(active, "ffn_weight_2", "ffn_bias_2");
  }

  // A mask of any dtype hides where it is not 0: a column of the batch (type 1), of a row (0), or of a row of a head (2).
  ValueId attention(ValueId x) {
    const Dim batch = shape()[0], length = shape()[1], size = Dim::floor_divide(embedding(), layer_.heads);
    const ValueId all = reshape(linear(x, "qkv_weight", "qkv_bias"), {batch, length, Dim(3), layer_.heads, size});
    ValueId parts[3];
    for (int64_t i = 0; i < 3; ++i)
      parts[i] = op("aten.transpose.int", {op("aten.select.int", {all, Dim(2), Dim(i)}), Dim(1), Dim(2)});
    ValueId scores = op("aten.matmul.default", {parts[0], op("aten.transpose.int", {parts[1], Dim(2), Dim(3)})});
    scores = op("aten.mul.Scalar", {scores, 1 / std::sqrt(static_cast<double>(size.constant()))});
    if (layer_.tensors.contains("mask")) {
      ValueId hidden = op("aten.ne.Scalar", {tensor("mask"), Dim(0)});
      if (layer_.mask_type.is_constant(1)) hidden = reshape(hidden, {batch, Dim(1), Dim(1), length});
      scores = op("aten.masked_fill.Scalar", {scores, hidden, -std::numeric_limits<double>::infinity()});
    }
    const ValueId y = op("aten.matmul.default", {op("aten.softmax.int", {scores, Dim(-1)}), parts[2]});
    return linear(reshape(op("aten.transpose.int", {y, Dim(1), Dim(2)}), shape()), "proj_weight", "proj_bias");
  }

  const Shape& shape() const { return graph_.value(tensor("src")).shape; }
  Dim embedding() const { return shape()[2]; }

  const Graph& graph_;
  const EncoderLayer& layer_;
  Emit emit_;
  Status error_;
};

}  // namespace

Status TorchExportReader::read_encoder_layer(const JsonCursor& node, std::string where) {
  if (regions_ == 0) QCG_CHECK(mutations_.refresh(node));
  QCG_TRY(inputs, node.array_at("inputs"));
  EncoderLayer layer;
  for (JsonCursor input : inputs) {
    QCG_TRY(name, input.string_at("name"));
    QCG_TRY(argument, input.at("arg"));
    QCG_TRY(value, read_union(argument));
    if (value.key() == "as_tensor") {
      QCG_TRY(id, read_tensor_name(value, scope_));
      layer.tensors[std::string(name)] = id;
    } else if (name == "eps") {
      QCG_TRY(eps, value.real());
      layer.eps = eps;
    } else if (name == "use_gelu" || name == "norm_first") {
      QCG_TRY(flag, value.boolean());
      (name == "use_gelu" ? layer.use_gelu : layer.norm_first) = flag;
    } else if ((name == "num_heads" || name == "mask_type") && value.key() == "as_int") {
      QCG_TRY(number, value.integer());
      (name == "num_heads" ? layer.heads : layer.mask_type) = Dim(number);
    }
  }
  for (std::string_view name :
       {"src", "qkv_weight", "qkv_bias", "proj_weight", "proj_bias", "norm_weight_1", "norm_bias_1", "norm_weight_2",
        "norm_bias_2", "ffn_weight_1", "ffn_bias_1", "ffn_weight_2", "ffn_bias_2"})
    if (!layer.tensors.contains(name))
      return inputs.bad("the layer lacks its tensor " + quote(name), kExportGraphAgain);
  const Shape& shape = graph().value(layer.tensors.find("src")->second).shape;
  const int64_t heads = layer.heads.constant();
  if (shape.size() != 3 || !shape[2].is_constant() || heads < 1 || shape[2].constant() % heads != 0 ||
      shape[2].constant() == 0)
    return inputs.unsupported("an encoder layer of " + to_string(shape) + " in " + layer.heads.str() + " heads",
                              "export with batch_first = True and an embedding that the heads divide");
  Node like;
  like.where = std::move(where);
  QCG_TRY(origin, node_name(node, {}));
  like.origins = {origin};
  read_module(node, origin);
  const auto emit = [&](std::string_view op, std::vector<Arg> args) {
    return mutations_.emit(op, std::move(args), like);
  };
  QCG_TRY(result, EncoderWriter(graph(), layer, emit).write());
  return define_checked(node, {result});
}

}  // namespace qcg
