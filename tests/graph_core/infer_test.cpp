#include "graph/ops/infer.h"

#include <doctest/doctest.h>

#include <cmath>

#include "graph/ir/elements.h"
#include "graph/ops/size_values.h"
#include "graph/ops/verify.h"
#include "graph/read/text.h"

using namespace qcg;

namespace {

// The error of verifying a one-node graph, or what was wrong with it being accepted.
std::string verdict(const std::string& inputs, const std::string& node) {
  auto g = parse_graph("symbol s0 in [1, 64]\nsymbol s1 in [2, 8]\ngraph(" + inputs + ") {\n  " + node +
                       "\n  return %x\n}\n");
  if (!g.ok()) return "parse: " + g.error().to_string();
  Status status = verify_graph(*g);
  return status.ok() ? "ok" : status.error().message;
}

struct Case {
  const char* inputs;
  const char* node;
};

}  // namespace

TEST_CASE("symbolic shapes follow the ops") {
  const Case cases[] = {
      {"%x: bf16[s0, s1, 64], %w: bf16[8, 64]", "%y = aten.linear.default(%x, %w) : bf16[s0, s1, 8]"},
      {"%x: f32[s0, s1, 64]", "%y = aten.reshape.default(%x, shape = [-1, 64]) : f32[s0*s1, 64]"},
      {"%x: f32[s0*s1, 64]", "%y = aten.reshape.default(%x, shape = [s0, -1, 32]) : f32[s0, 2*s1, 32]"},
      {"%x: f32[s0+1, s1]", "%y = aten.reshape.default(%x, shape = [-1]) : f32[s0*s1+s1]"},
      {"%x: f32[s0, 4]", "%y = aten.slice.Tensor(%x, start = 0, end = 1) : f32[1, 4]"},
      {"%x: f32[s0, 4]", "%y = aten.slice.Tensor(%x, end = 9223372036854775807) : f32[s0, 4]"},
      {"%x: f32[s0, 4]", "%y = aten.slice.Tensor(%x, start = -1) : f32[1, 4]"},
      {"%x: f32[s1, 4]", "%y = aten.slice.Tensor(%x, start = 2) : f32[s1-2, 4]"},
      {"%x: f32[s0, 4]", "%y = aten.slice.Tensor(%x, start = 100) : f32[0, 4]"},
      {"%x: f32[s0+s1, 4]", "%y = aten.slice.Tensor(%x, start = s0) : f32[s1, 4]"},
      {"%x: f32[s0, 4]", "%y = aten.select.int(%x, dim = 0, index = -1) : f32[4]"},
      {"%x: f32[s0, 4]", "%y = aten.expand.default(%x, size = [s1, -1, 4]) : f32[s1, s0, 4]"},
      {"%x: f32[s0, 1], %z: f32[1, s1]", "%y = aten.add.Tensor(%x, %z) : f32[s0, s1]"},
      {"%x: f32[s0, 4], %z: f32[s0, s1]", "%y = aten.cat.default([%x, %z], dim = -1) : f32[s0, s1+4]"},
      {"%x: f32[s0, 4], %z: f32[s1, 4]", "%y = aten.cat.default([%x, %z, %x]) : f32[2*s0+s1, 4]"},
      {"%x: f32[s0, 4]",
       "%a, %b = aten.split_with_sizes.default(%x, split_sizes = [1, s0-1]) : f32[1, 4], f32[s0-1, 4]"},
      {"%x: f32[3*s0+3]", "%a, %b, %c = aten.chunk.default(%x, chunks = 3) : f32[s0+1], f32[s0+1], f32[s0+1]"},
      {"%x: f32[4, 2*s0]", "%a, %b = aten.split.Tensor(%x, split_size = s0, dim = 1) : f32[4, s0], f32[4, s0]"},
      {"%x: f32[4, s0]", "%a = aten.split.Tensor(%x, split_size = s0, dim = 1) : f32[4, s0]"},
      {"%x: f32[s0, s1]", "%y = aten.mean.dim(%x, dim = [1], keepdim = true) : f32[s0, 1]"},
      {"%x: bf16[s0, s1, 64]",
       "%s, %z = torchao.choose_qparams_affine.default(%x, mapping_type = \"SYMMETRIC\", block_size = [1, 1, 64], "
       "target_dtype = i8, "
       "scale_dtype = f32, zero_point_dtype = i8, keepdim = true) : f32[s0, s1, 1], i8[s0, s1, 1]"},
      {"%x: bf16[s0, 64]",
       "%s, %z = torchao.choose_qparams_affine.default(%x, mapping_type = \"ASYMMETRIC\", block_size = [1, 32], "
       "target_dtype = i8) "
       ": bf16[s0, 2], i32[s0, 2]"},
      {"%x: bf16[s0, s1, 64]",
       "%q, %s, %z = qcg.quantize_rows(%x, mapping = \"SYMMETRIC\", quant_min = -128, quant_max = 127) : i8[s0, s1, "
       "64], f32[s0, s1, 1], i32[s0, s1, 1]"},
      {"%x: bf16[s0, 64], %z: f32[s0, 1]",
       "%y, %u = qcg.loop([%x, %z], exprs = [mul(in0, in1), in0]) : f32[s0, 64], i8[s0, 64]"},
      {"%x: bf16[s0, s1, 64], %w: f32[64], %c: f32[s1, 1]",
       "%y, %u = qcg.rows([%x, %w, %c], steps = [mul(in0, in0), mul(in0, mul(acc0, in1)), add(acc0, in2)], reduce = "
       "\"mean - -\", stores = [1, 2], shape = [s0, s1, 64]) : bf16[s0, s1, 64], f32[s0, s1, 1]"},
      {"%x: i32[4], %z: i32[4]", "%y = aten.sub_.Tensor(%x, %z) : i32[4]"},
      {"%x: bf16[4], %z: f32[4]", "%y = aten.mul_.Tensor(%x, %z) : bf16[4]"},
      {"%x: f32[1]", "%y = aten.tril_indices.default(row = 8192, col = 8192) : i64[2, 33558528]"},
      {"%x: f32[1]", "%y = aten.triu_indices.default(row = 5, col = 3, offset = -1) : i64[2, 9]"},
      {"%x: f32[1]", "%y = aten.tril_indices.default(row = 2, col = 7, offset = 4) : i64[2, 11]"},
  };
  for (const Case& c : cases) CHECK_MESSAGE(verdict(c.inputs, c.node) == "ok", c.node);
}

TEST_CASE("conditions say that slices lie inside their axis") {
  const std::string symbols = "symbol s0 in [0, inf]\nsymbol s1 in [0, inf]\n";
  const std::string nodes =
      "graph(%x: f32[12, 4], %s: f32[s0], %n: f32[s1]) {\n"
      "  %a = aten.slice.Tensor(%x, start = s0, end = s0+s1) : f32[s1, 4]\n"
      "  %b = aten.slice_scatter.default(%x, %a, 0, s0, s0+s1) : f32[12, 4]\n"
      "  %c = aten.narrow.default(%b, 0, s0, s1) : f32[s1, 4]\n"
      "  %d = aten.select.int(%b, 0, s0) : f32[4]\n"
      "  %e = aten.slice.Tensor(%c, end = 12) : f32[s1, 4]\n"
      "  return %d, %e\n}\n";
  const auto is_right = [&](const std::string& conditions) {
    auto g = parse_graph(symbols + conditions + nodes);
    REQUIRE_MESSAGE(g.ok(), g.error().to_string());
    return verify_graph(*g).ok();
  };
  CHECK(
      is_right("check at_least_0(12-s0-s1) \"s + n <= 12\"\ncheck at_least_0(9-s0) \"s < 10\"\n"
               "check at_least_0(12-s1) \"n <= 12\"\n"));
  CHECK_FALSE(is_right(""));
  CHECK_FALSE(
      is_right("check at_least_0(12-s0-s1) \"s + n <= 12\"\ncheck at_least_0(12-s0) \"s <= 12\"\n"
               "check at_least_0(12-s1) \"n <= 12\"\n"));  // select
  CHECK_FALSE(
      is_right("check not_zero(12-s0-s1) \"s + n != 12\"\ncheck at_least_0(9-s0) \"s < 10\"\n"
               "check at_least_0(12-s1) \"n <= 12\"\n"));
}

TEST_CASE("a condition says that frames of a run-time length are inside of it") {
  const auto is_right = [](const std::string& condition) {
    auto g = parse_graph("symbol s0 in [15, inf]\n" + condition +
                         "graph(%x: f32[s0]) {\n"
                         "  %a = aten.slice.Tensor(%x, end = 10*floordiv(s0+5,10)-5) : f32[10*floordiv(s0+5,10)-5]\n"
                         "  %b = aten.unfold.default(%a, 0, 25, 10) : f32[floordiv(s0+5,10)-2, 25]\n"
                         "  return %b\n}\n");
    REQUIRE_MESSAGE(g.ok(), g.error().to_string());
    return verify_graph(*g).ok();
  };
  CHECK(is_right("check at_least_0(floordiv(s0+5,10)-3) \"one frame\"\n"));
  CHECK_FALSE(is_right("check at_least_0(floordiv(s0+5,10)-2) \"no frame\"\n"));
  CHECK_FALSE(is_right(""));
}

TEST_CASE("a slice in the middle, between quotients of a size that has few values") {
  const auto is_right = [](const char* range) {
    auto g =
        parse_graph(std::string("symbol s0 in ") + range +
                    "\ngraph(%x: f32[32, 4], %s: f32[s0]) {\n"
                    "  %a = aten.slice.Tensor(%x, start = 16-floordiv(s0,2)+floordiv(s0,4), end = 16+floordiv(s0,4)) : "
                    "f32[floordiv(s0,2), 4]\n  return %a\n}\n");
    REQUIRE_MESSAGE(g.ok(), g.error().to_string());
    return verify_graph(*g).ok();
  };
  CHECK(is_right("[2, 65]"));
  CHECK_FALSE(is_right("[2, 66]"));  // begins in front of the axis
  CHECK_FALSE(is_right("[2, 200]"));
}

TEST_CASE("what does not fit is refused, and the message says what") {
  auto refused = [](const char* inputs, const char* node, const char* part) {
    std::string message = verdict(inputs, node);
    CHECK_MESSAGE(message.find(part) != std::string::npos, node << " -> " << message);
  };
  refused("%x: f32[2, 8], %w: f32[4, 9]", "%y = aten.linear.default(%x, %w) : f32[2, 4]",
          "'weight': contracts 8 elements with 9");
  refused("%x: f32[2, 8], %w: bf16[4, 8]", "%y = aten.linear.default(%x, %w) : f32[2, 4]",
          "dtype bf16 does not match f32");
  refused("%x: f32[2, 8], %w: f32[4, 8], %b: f32[5]", "%y = aten.linear.default(%x, %w, %b) : f32[2, 4]", "'bias'");
  refused("%x: f32[2, 8], %w: f32[4, 8]", "%y = aten.linear.default(%x, %w) : f32[2, 5]", "rule 10");
  refused("%x: f32[2, 8], %w: f32[4, 8]", "%y = aten.linear.default(%x, %w) : bf16[2, 4]", "rule 10");
  refused("%x: f32[s0, 8], %w: f32[s1, 8]", "%y = aten.add.Tensor(%x, %w) : f32[s0, 8]", "does not broadcast");
  refused("%x: i8[2, 8], %w: bf16[8, 4]", "%y = aten._int_mm.default(%x, %w) : i32[2, 4]", "expected i8");
  refused("%x: f32[2, 8]", "%y = aten.reshape.default(%x, shape = [3, -1]) : f32[3, 5]", "do not divide");
  refused("%x: f32[2, 8]", "%y = aten.reshape.default(%x, shape = [-1, -1]) : f32[4, 4]", "more than one -1");
  refused("%x: f32[2, 8]", "%y = aten.transpose.int(%x, dim0 = 0, dim1 = 2) : f32[8, 2]", "axis 2 is outside");
  refused("%x: f32[2, 8]", "%y = aten.permute.default(%x, dims = [0, 0]) : f32[2, 2]", "twice");
  refused("%x: f32[s0, 8]", "%y = aten.slice.Tensor(%x, end = 7) : f32[7, 8]", "gives f32[min(7,s0), 8]");
  refused("%x: f32[s0, 8]", "%a = aten.split.Tensor(%x, split_size = 4) : f32[4, 8]", "dynamic");
  refused("%x: f32[3*s0]", "%a, %b = aten.chunk.default(%x, 2) : f32[s0], f32[s0]", "dynamic");
  refused("%x: f32[s0*s1, 8]", "%a = aten.split.Tensor(%x, split_size = s1) : f32[s1, 8]", "dynamic");
  refused("%x: f32[8]", "%a, %b = aten.split.Tensor(%x, split_size = 3) : f32[3], f32[5]", "rule 10");
  refused("%x: f32[9000000000000000000]", "%y = aten.cat.default([%x, %x]) : f32[8]", "does not fit 64 bits");
  refused("%x: i32[4], %z: f32[4]", "%y = aten.mul_.Tensor(%x, %z) : i32[4]", "in-place");
  refused("%x: f32[4]", "%y = aten.gelu.default(%x, approximate = \"fast\") : f32[4]", "'approximate'");
  refused("%x: f32[4]", "%y = aten.dropout.default(%x, p = 0.5, train = true) : f32[4]", "random");
  refused("%x: f32[2, 8], %w: f32[4]",
          "%y = aten.layer_norm.default(%x, normalized_shape = [8], weight = %w) : f32[2, 8]", "expected shape [8]");
  refused("%x: f32[2, 8]", "%y = aten.rms_norm.default(%x, normalized_shape = [2]) : f32[2, 8]", "does not end");
  refused("%x: i32[4]", "%y = aten.softmax.int(%x, dim = 0) : i32[4]", "expected a floating");
  refused("%x: f32[4, 7]", "%y = aten.glu.default(%x) : f32[4, 3]", "not even");
  refused("%x: f32[2, 8], %w: f32[7]", "%y = aten.prelu.default(%x, %w) : f32[2, 8]", "does not fit");
  refused("%x: f32[2, 8], %z: f32[8]", "%y = aten.stack.default([%x, %z]) : f32[2, 2, 8]", "is not of shape");
  refused("%x: f32[2, 8], %z: f32[8]", "%y = aten.expand_as.default(%z, %x) : f32[8]", "rule 10");
  refused("%x: f32[2, 8], %z: f32[8]", "%y = aten.expand_as.default(%x, %z) : f32[8]", "cannot expand");
  refused("%x: f32[4]", "%y = aten.bitwise_and.Tensor(%x, %x) : f32[4]", "expected integers");
  refused("%x: bool[4]", "%y = aten.__rshift__.Tensor(%x, %x) : bool[4]", "expected integers");
  refused("%x: i32[4]", "%y = aten.__rshift__.Scalar(%x, other = 1.5) : f32[4]", "expected integers");
  refused("%x: i32[4]", "%y = aten.div.Tensor_mode(%x, other = 2, rounding_mode = \"up\") : i32[4]", "'floor'");
  refused("%x: f32[4], %i: u8[2]", "%y = aten.index.Tensor(%x, [%i]) : f32[2]", "i32 or i64");
  refused("%x: f32[4], %i: i64[2]", "%y = aten.index.Tensor(%x, [none, %i]) : f32[2]", "2 indices for");
  refused("%x: f32[4, 4], %i: i64[2], %j: i64[3]", "%y = aten.index.Tensor(%x, [%i, %j]) : f32[3]", "broadcast");
  refused("%x: f32[4, 4], %i: i64[2, 2]", "%y = aten.index_select.default(%x, dim = 0, index = %i) : f32[4, 4]",
          "expected a list");
  refused("%x: f32[4, 4], %i: i64[2, 5]", "%y = aten.gather.default(%x, dim = 0, index = %i) : f32[2, 5]", "beyond");
  refused("%x: f32[4], %i: i32[2]", "%y = aten.take.default(%x, %i) : f32[2]", "i64");
  refused("%x: f32[s0, 16], %e: i32[0], %w: f32[0, 8, 16]", "%y = qcg.grouped_linear(%x, %e, %w) : f32[s0, 8]",
          "no elements to multiply");
  refused("%x: f32[s0, 0], %e: i32[2], %w: f32[2, 8, 0]", "%y = qcg.grouped_linear(%x, %e, %w) : f32[s0, 8]",
          "no elements to multiply");
  refused("%x: f32[s0]", "%y = aten.arange.start_step(start = 0, end = s0, step = 2) : i64[s0]",
          "gives i64[floordiv(s0+1,2)]");
  refused("%x: f32[s0]", "%y = aten.arange.start(start = 0.7, end = s0) : f32[s0]", "few bits");
  refused("%x: f32[4]", "%y = aten.arange.start_step(start = 0, end = 4, step = 0) : i64[4]", "infinite");
  refused("%x: f32[4]", "%y = aten.arange.start(start = 4, end = 0) : i64[0]", "before it begins");
  refused("%x: u8[4, 3]", "%y = aten.view.dtype(%x, dtype = i16) : i16[4, 1]", "does not divide");
  refused("%x: f32[4], %z: f32[3]", "%y = aten.slice_scatter.default(%x, %z, start = 2) : f32[4]", "does not fit");
  refused("%x: i32[4]", "%y = aten.masked_fill.Scalar(%x, %x, value = 1) : i32[4]", "expected bool");
  refused("%x: i32[4], %m: bool[4]", "%y = aten.masked_fill.Scalar(%x, %m, value = 1.5) : i32[4]", "a real number");
  refused("%x: f32[4]", "%y = aten.full.default(size = [-4], fill_value = 1.5) : f32[-4]", "is negative");
  refused("%x: f32[4, 30]",
          "%s, %z = torchao.choose_qparams_affine.default(%x, mapping_type = \"SYMMETRIC\", block_size = [1, 7], "
          "target_dtype = i8) : f32[4, 4], f32[4, 4]",
          "does not divide");
  const char* packed = "%x: bf16[s0, 64], %w: u8[48, 32], %z: bf16[2, 48, 2]";
  refused(packed,
          "%y = aten._weight_int4pack_mm_for_cpu.default(%x, %w, qGroupSize = 48, qScaleAndZeros = %z) : bf16[s0, 48]",
          "do not divide");
  refused(packed,
          "%y = aten._weight_int4pack_mm_for_cpu.default(%x, %w, qGroupSize = 64, qScaleAndZeros = %z) : bf16[s0, 48]",
          "expected bf16[1, 48, 2]");
  refused("%x: f32[s0, 64], %w: u8[48, 32], %z: bf16[2, 48, 2]",
          "%y = aten._weight_int4pack_mm_for_cpu.default(%x, %w, qGroupSize = 32, qScaleAndZeros = %z) : f32[s0, 48]",
          "expected f32[2, 48, 2]");
  refused("%x: f32[s0, 64], %w: i32[6, 2, 32, 1], %z: f32[2, 48, 2]",
          "%y = aten._weight_int4pack_mm.default(%x, %w, qGroupSize = 32, qScaleAndZeros = %z) : f32[s0, 48]",
          "expected bf16, in which CUDA multiplies");
  refused("%x: bf16[s0, 64], %w: i32[6, 2, 32, 1], %z: f32[2, 48, 2]",
          "%y = aten._weight_int4pack_mm.default(%x, %w, qGroupSize = 32, qScaleAndZeros = %z) : bf16[s0, 48]",
          "expected bf16[2, 48, 2]");
  refused("%x: f32[4, 2], %z: bf16[4, 3]", "%y = tensor_cast.cat.default([%x, %z], dim = 1) : f32[4, 5]",
          "the same dtype");
  refused("%x: bf16[s0, 64], %w: i32[6, 1, 32, 3], %z: bf16[2, 48, 2]",
          "%y = aten._weight_int4pack_mm.default(%x, %w, qGroupSize = 32, qScaleAndZeros = %z) : bf16[s0, 48]",
          "inner tiles");
  refused(
      "%x: u8[s0, 64], %s: f32[s0], %z: i32[s0], %w: u8[1, 2, 32, 16], %ws: f32[1, 3, 32], %wz: i8[1, 3, 32], %c: "
      "i32[1, 2, 32]",
      "%y = torchao.da8w4_linear_cpu.default(%x, %s, %z, %w, %ws, %wz, %c, none, output_dtype = f32) : f32[s0, 32]",
      "3 groups for 2 blocks");
  refused("%x: f32[4]", "%y = qcg.loop([%x], exprs = [add(in0, in1)]) : f32[4]", "in1");
  refused("%x: f32[4]", "%y = qcg.loop([%x], exprs = [acc0]) : f32[4]", "acc0");
  const auto rows = [&](const char* steps, const char* reduce, const char* stores, const char* shape,
                        const char* part) {
    const std::string node = std::string("%y = qcg.rows([%x, %z], steps = [") + steps + "], reduce = \"" + reduce +
                             "\", stores = [" + stores + "], shape = [" + shape + "]) : f32[2, 4]";
    refused("%x: f32[2, 4], %z: f32[2, 1]", node.c_str(), part);
  };
  rows("in0, acc1", "- -", "0", "2, 4", "'steps'");
  rows("in0, acc0", "sum", "1", "2, 4", "'steps'");
  rows("in0, acc0", "sum product", "1", "2, 4", "'steps'");
  rows("in0, in2", "- -", "1", "2, 4", "'steps'");
  rows("in0, pos1", "- -", "1", "2, 4", "'steps'");
  rows("in0", "-", "1", "2, 4", "'steps'");
  rows("in0", "-", "-1", "2, 4", "'steps'");
  rows("in0", "-", "0", "3, 4", "'operands'");
  rows("in1", "-", "0", "2, 1", "'shape'");
  rows("in1", "-", "0", "2, 4", "[2, 1]");  // one value per row
  refused("%x: f32[3, 5], %t: i64[5]", "%y = aten.nll_loss_nd.default(%x, %t) : f32[]",
          "no class for each of f32[3, 5]");
  refused("%x: f32[3, 5], %t: i64[3], %w: f32[3]", "%y = aten.cross_entropy_loss.default(%x, %t, %w) : f32[]",
          "f32[3] is not one float for each of 5 classes");
  refused("%x: f32[3, 5], %t: f32[4]", "%y = aten.mse_loss.default(%x, %t) : f32[]", "f32[4] does not broadcast");
  refused("%x: f32[3, 5]", "%y = aten.mse_loss.default(%x, %x, 3) : f32[]", "'reduction'");
  refused("%x: f32[3, 5], %t: i64[3]", "%y = aten.multi_margin_loss.default(%x, %t, 3) : f32[]", "expected 1 or 2");
  refused("%x: f32[3, 5], %t: f32[2]", "%y = aten.cosine_embedding_loss.default(%x, %x, %t) : f32[]",
          "f32[2] is not one for each row of f32[3, 5]");
  refused("%x: f32[3, 5]", "%a, %b = aten.dsplit.int(%x, 2) : f32[3, 5], f32[3, 5]", "f32[3, 5] has no axis 2");
  refused("%x: f32[3, 5]", "%y = aten.rot90.default(%x, 1, [0, 0]) : f32[5, 3]", "expected two axes that differ");
  refused("%x: f32[3, 5]", "%y = aten.movedim.intlist(%x, [0, 1], [1, 1]) : f32[5, 3]", "an axis is listed twice");
  refused("%x: f32[s0]", "%y = aten.combinations.default(%x) : f32[6, 2]", "known only at run time");
  refused("%x: f32[2000]", "%y = aten.combinations.default(%x, 3) : f32[6, 2]", "more than 2^20 choices");
  refused("%x: f32[0]", "%y = aten.combinations.default(%x, 9223372036854775807, true) : f32[0, 2]",
          "more than 2^20 numbers");
  refused("%x: f32[3, 5], %s: f32[4]", "%y = aten.diagonal_scatter.default(%x, %s) : f32[3, 5]",
          "expected f32[3], got f32[4]");
  refused("%x: f32[3, 5], %s: f32[3]", "%y = aten.diagonal_scatter.default(%x, %s, -9223372036854775808) : f32[3, 5]",
          "it is beyond the matrix");
  refused("%x: f32[3, 5]", "%y = aten.diag.default(%x, -9223372036854775808) : f32[3]", "it is beyond the matrix");
  refused("%x: f32[3, 5]", "%y = aten.sum_to_size.default(%x, [2, 5]) : f32[2, 5]", "[2, 5] does not broadcast to");
  refused("%x: f32[3, 5], %i: f32[2]", "%y = aten.index_fill.int_Scalar(%x, 0, %i, 1.0) : f32[3, 5]",
          "expected a list of positions, got f32[2]");
  refused("%x: f32[3, 5], %i: i64[2], %s: f32[3]", "%y = aten.put.default(%x, %i, %s) : f32[3, 5]",
          "f32[3] is not one element of f32[3, 5] for each of i64[2]");
  refused("%x: f32[3, 5], %z: f32[4, 3]", "%y = aten.tensordot.default(%x, %z, [1], [0]) : f32[3, 3]",
          "axis 0 of f32[4, 3] is not as long as axis 1 of f32[3, 5]");
  refused("%x: f32[3, 3]", "%y = aten.matrix_power.default(%x, -1) : f32[3, 3]", "powers of an inverse");
  refused("%x: f32[4, 2]", "%y = aten.cross.default(%x, %x) : f32[4, 2]", "have no axis of 3 in common");
  refused("%x: f32[s0]", "%y = aten.vander.default(%x) : f32[s0, s0]", "s0 powers, known only at run time");
  refused("%x: f32[s0, 4]", "%y = aten.pdist.default(%x) : f32[6]", "s0 rows, a number known only at run time");
  refused("%x: f32[3, 5], %z: f32[4]", "%y = aten.trapezoid.x(%x, %z) : f32[3]",
          "f32[4] is not a place for each element of f32[3, 5]");
  refused("%x: f32[3, 5]", "%y = aten.renorm.default(%x, 0, 0, 1.0) : f32[3, 5]", "expected an order above 0");
  refused("%x: f32[3, 5], %m: f32[3, 4], %v: f32[4]", "%y = aten.addmv.default(%x, %m, %v) : f32[3]",
          "f32[3, 5] does not broadcast to [3]");
  refused("%x: f32[4]", "%y = aten.polygamma.default(40, %x) : f32[4]", "expected 0 to 32");
  refused("%x: f32[s2]", "%y = aten.relu.default(%x) : f32[s2]", "rule 4");
}

TEST_CASE("promotion is torch's") {
  auto value = [](DType d, bool scalar = false) {
    Value v;
    v.dtype = d;
    if (!scalar) v.shape = {Dim(2)};
    return v;
  };
  auto promote = [](std::vector<Value> values, std::vector<Arg> numbers = {}) {
    Promotion p;
    for (const Value& v : values) p.add(v);
    for (const Arg& n : numbers) p.add(n);
    return p.result();
  };
  CHECK(promote({value(DType::bf16), value(DType::f16)}) == DType::f32);
  CHECK(promote({value(DType::bf16), value(DType::f64, true)}) == DType::bf16);
  CHECK(promote({value(DType::i8), value(DType::f64, true)}) == DType::f64);
  CHECK(promote({value(DType::u8), value(DType::i8)}) == DType::i16);
  CHECK(promote({value(DType::i8)}, {Dim(1000)}) == DType::i8);
  CHECK(promote({value(DType::i8)}, {1.5}) == DType::f32);
  CHECK(promote({value(DType::boolean)}, {Dim(1)}) == DType::i64);
  CHECK(promote({value(DType::f16)}, {1.5}) == DType::f16);
  Promotion refused;
  refused.add(value(DType::f8e4m3));
  refused.add(value(DType::f32));
  refused.result();
  CHECK_FALSE(refused.defined);
}

TEST_CASE("ranges of sizes are safe for every value of the symbols") {
  Symbol symbols[] = {{"a", 2, 5}, {"b", 0, INT64_MAX}};
  DimRange r = range_of(Dim::symbol("a") * 3 - 4, symbols);
  CHECK(r.min == 2);
  CHECK(r.max == 11);
  r = range_of(Dim(10) - Dim::symbol("a") * Dim::symbol("a"), symbols);
  CHECK(r.min == -15);
  CHECK(r.max == 6);
  r = range_of(Dim::symbol("b") * Dim::symbol("b"), symbols);
  CHECK(r.min == 0);
  CHECK(r.max == INT64_MAX);
}

TEST_CASE("what a division leaves is smaller than its divisor, and a size that can be one number is that number") {
  const Symbol symbols[] = {{"a", 2, 5}, {"b", 0, INT64_MAX}, {"c", 2, 64}, {"d", 2, 65}};
  const auto range = [&](const char* text) {
    const DimRange r = range_of(*Dim::parse(text), symbols);
    return std::pair(r.min, r.max);
  };
  CHECK(range("63*b-64*floordiv(63*b,64)") == std::pair<int64_t, int64_t>(0, 63));
  CHECK(range("2*b-2*8*floordiv(b,8)+a") == std::pair<int64_t, int64_t>(2, 19));
  CHECK(range("b-floordiv(b,4)") == std::pair<int64_t, int64_t>(0, INT64_MAX));
  CHECK(range("7*floordiv(a,7)-a+9") == std::pair<int64_t, int64_t>(4, 7));
  CHECK(range("c-floordiv(63*c,64)") == std::pair<int64_t, int64_t>(1, 1));
  CHECK(range("d-floordiv(63*d,64)") == std::pair<int64_t, int64_t>(1, 2));
  CHECK(range("8*floordiv(b+7,8)-8").first == -8);
  CHECK(range("8*a-8*floordiv(7*a,8)-8") == std::pair<int64_t, int64_t>(0, 0));  // 8 * ceil(a / 8) - 8
  CHECK(range("6*a+5-6*floordiv(b,6)-b").first == INT64_MIN);
  CHECK(range("9*floordiv(b+5,10)-2-b").first < 0);  // for large b: no bound wraps around
  CHECK(range("7-b-min(7-b,0)") == std::pair<int64_t, int64_t>(0, 7));
  CHECK(range("b-min(b,a)") == std::pair<int64_t, int64_t>(0, INT64_MAX - 2));
  CHECK(range("2*min(a,b)-2*a") == std::pair<int64_t, int64_t>(-10, 0));
  CHECK(range("5-min(a,3)-min(a,4)") == std::pair<int64_t, int64_t>(-2, 1));
  CHECK(settled(*Dim::parse("c-floordiv(63*c,64)"), symbols).is_constant(1));
  CHECK_FALSE(settled(*Dim::parse("d-floordiv(63*d,64)"), symbols).is_constant());
  const auto without = [&](const char* text) { return settled(*Dim::parse(text), symbols).str(); };
  CHECK(without("b*floordiv(63*c,64)") == "b*c-b");
  CHECK(without("b*floordiv(63*d,64)") == "b*floordiv(63*d,64)");
  CHECK(without("min(c,64)+min(b,64)") == (*Dim::parse("min(b,64)+c")).str());
  CHECK(without("floordiv(min(a,7)+1,8)*b") == "0");
  CHECK(without("floordiv(b,c)") == "floordiv(b,c)");
  for (int64_t b = 0; b < 300; ++b) {
    const int64_t value = *Dim::parse("63*b-64*floordiv(63*b,64)")->evaluate({{"b", b}});
    CHECK(value == (64 - b % 64) % 64);
  }
}

TEST_CASE("the size that a tensor of one integer holds: constants, sums, and quotients that are rounded") {
  auto g = parse_graph(
      "symbol n in [1, inf]\nparam @kernel: i64[]\nparam @stride: i64[]\ngraph(%x: f32[n]) {\n"
      "  %l = aten.scalar_tensor.default(n, dtype = i64) : i64[]\n"
      "  %d = aten.sub.Tensor(%l, @kernel) : i64[]\n"
      "  %q = aten.div.Tensor(%d, @stride) : f32[]\n"
      "  %p = aten.add.Tensor(%q, 1) : f32[]\n"
      "  %c = aten.ceil.default(%p) : f32[]\n"
      "  %i = aten.to.dtype(%c, dtype = i64) : i64[]\n"
      "  %m = aten.mul.Tensor(%i, @stride) : i64[]\n"
      "  %f = aten.floor.default(%q) : f32[]\n"
      "  %j = aten.to.dtype(%f, dtype = i64) : i64[]\n"
      "  %r = aten.round.default(%q) : f32[]\n"
      "  %k = aten.to.dtype(%r, dtype = i64) : i64[]\n"
      "  return %m, %j, %k\n}\n");
  REQUIRE_MESSAGE(g.ok(), g.error().to_string());
  CHECK_FALSE(size_held_by(*g, g->outputs[0]));  // nothing says what the constants are
  for (Value& value : g->values)
    if (value.kind == ValueKind::parameter)
      value.data = make_tensor(DType::i64, {}, Elements<int64_t>(std::vector<int64_t>{value.name == "kernel" ? 7 : 4}));
  const auto up = size_held_by(*g, g->outputs[0]), down = size_held_by(*g, g->outputs[1]);
  REQUIRE(up);
  REQUIRE(down);
  for (int64_t n = 1; n < 40; ++n) {
    CHECK(up->evaluate({{"n", n}}) == 4 * static_cast<int64_t>(std::ceil(static_cast<double>(n - 7) / 4 + 1)));
    CHECK(down->evaluate({{"n", n}}) == static_cast<int64_t>(std::floor(static_cast<double>(n - 7) / 4)));
  }
  CHECK_FALSE(size_held_by(*g, g->outputs[2]));
}

TEST_CASE("a size that a node measures is used after it, by tensors of the run alone") {
  const auto error = [](const std::string& nodes, const std::string& input = "m") {
    auto g = parse_graph("symbol m in [1, 64]\nsymbol u0 in [0, 64]\ngraph(%x: f32[" + input +
                         "]) {\n  %c = aten.sum.default(%x, dtype = i64) : i64[]\n" + nodes + "  return %y\n}\n");
    REQUIRE_MESSAGE(g.ok(), g.error().to_string());
    g->remove_dead();
    const Status status = verify_graph(*g);
    return status.ok() ? std::string() : status.error().message;
  };
  const std::string measured = "  qcg.measure(%c, size = u0, most = m)\n",
                    used = "  %y = aten.arange.default(end = u0, dtype = i64) : i64[u0]\n";
  CHECK(error(measured + used).empty());
  CHECK(error(used + measured).ends_with("it has a size that is measured after it"));
  CHECK(error(measured + measured + used).ends_with("two nodes measure it"));
  CHECK(error(measured + used, "u0").ends_with("a node measures a size of an input"));
  CHECK(
      error("  qcg.measure(%c, size = u0, most = u0)\n" + used).ends_with("its bound is a size that a node measures"));
  CHECK(error("  qcg.measure(%c, size = 2*u0, most = m)\n" + used).find("is no symbol alone") != std::string::npos);
}
