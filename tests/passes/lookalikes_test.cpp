// What looks like a linear, a scale or a constant and is none: casts that change numbers, numbers along the other axis
// where extents coincide, sizes known only at run time.
#include <algorithm>

#include "graph/ops/verify.h"
#include "graph/oracle/reference.h"
#include "tests/passes/passes_test_util.h"

using namespace qcg;

namespace {

void check_values(const std::string& text) {
  INFO(text);
  Graph before = parse(text);
  bind_random(before, 5);
  Graph after = before;
  const auto reports = run_passes(after, {.verify_after_each = true});
  REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
  check_same_values(before, after, 6);
}

// A linear of %x: f32[m, 8] whose weight @w: stored[16, 8] is cast to each of these in turn.
std::string linear_of_casts(const std::string& stored, const std::vector<std::string>& casts) {
  std::string text = "symbol m in [1, 9]\nparam @w: " + stored +
                     "[16, 8]\ngraph(%x: f32[m, 8]) {\n  %c0 = aten.to.dtype(@w, dtype = " + casts[0] +
                     ") : " + casts[0] + "[16, 8]\n";
  for (size_t i = 1; i < casts.size(); ++i)
    text += "  %c" + std::to_string(i) + " = aten.to.dtype(%c" + std::to_string(i - 1) + ", dtype = " + casts[i] +
            ") : " + casts[i] + "[16, 8]\n";
  return text + "  %y = aten.linear.default(%x, %c" + std::to_string(casts.size() - 1) +
         ") : f32[m, 16]\n  return %y\n}\n";
}

// torchao's quantization of %x: dtype[rows, 8], and the exact product of the codes with @w: i8[8, n].
std::string int_mm(const std::string& dtype, const std::string& rows, int n, const std::string& mapping) {
  const std::string m = "[" + rows + ", ", columns = std::to_string(n) + "]";
  return "param @w: i8[8, " + columns + " strides [1, 8]\nparam @sw: f32[" + columns + "\ngraph(%x: " + dtype + m +
         "8]) {\n  %s, %z = torchao.choose_qparams_affine.default(%x, mapping_type = \"" + mapping +
         "\", block_size = [1, 8], target_dtype = i8, quant_min = -128, quant_max = 127, eps = 1e-05, scale_dtype = "
         "f32, "
         "zero_point_dtype = i8, keepdim = true) : f32" +
         m + "1], i8" + m +
         "1]\n"
         "  %q = torchao.quantize_affine.default(%x, block_size = [1, 8], scale = %s, zero_point = %z, output_dtype = "
         "i8, "
         "quant_min = -128, quant_max = 127) : i8" +
         m + "8]\n  %p = aten._int_mm.default(%q, @w) : i32" + m + columns + "\n";
}

}  // namespace

TEST_CASE("casts of weights that truncate, wrap or round are computed") {
  for (const auto& [stored, casts] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"i8", {"bool", "f32"}},
           {"i8", {"u8", "f32"}},
           {"i8", {"u8", "i32", "f32"}},
           {"i32", {"i8", "f32"}},
           {"f8e4m3", {"i32", "f32"}},
           {"f8e4m3", {"f8e5m2", "f32"}},
           {"f32", {"f8e4m3", "f32"}},
           {"f32", {"i8", "f32"}},
       })
    check_values(linear_of_casts(stored, casts));
}

TEST_CASE("casts of scales and zero points of weights that wrap or round are computed") {
  // Codes [16, 2, 4] in groups of 4: (codes - zeros) * scales, one of the two cast to `by` on its way.
  const auto weight = [](const std::string& zero, const std::string& zero_by, const std::string& scale_by) {
    const auto cast = [](const std::string& from, const std::string& to, const std::string& by) {
      return "  %" + to + "c = aten.to.dtype(" + from + ", dtype = " + by + ") : " + by + "[16, 2, 1]\n  %" + to +
             " = aten.to.dtype(%" + to + "c, dtype = f32) : f32[16, 2, 1]\n";
    };
    return "symbol m in [1, 9]\nparam @w: i8[16, 2, 4]\nparam @zero: " + zero +
           "[16, 2, 1]\nparam @s: f32[16, 2, 1]\ngraph(%x: f32[m, 8]) {\n" + cast("@zero", "z", zero_by) +
           cast("@s", "k", scale_by) +
           "  %f = aten.to.dtype(@w, dtype = f32) : f32[16, 2, 4]\n  %o = aten.sub.Tensor(%f, %z) : f32[16, 2, 4]\n"
           "  %d = aten.mul.Tensor(%o, %k) : f32[16, 2, 4]\n"
           "  %v = aten.reshape.default(%d, shape = [16, 8]) : f32[16, 8]\n"
           "  %y = aten.linear.default(%x, %v) : f32[m, 16]\n  return %y\n}\n";
  };
  for (const char* by : {"u16", "u8", "f8e4m3", "bool"}) check_values(weight("i8", by, "f64"));
  for (const char* by : {"i16", "f8e4m3", "bool"}) check_values(weight("f32", by, "f64"));
  for (const char* by : {"i32", "f8e4m3", "bool"}) check_values(weight("i8", "i32", by));
}

TEST_CASE("a product that is cast to integers before it is scaled is cast") {
  check_values(
      "symbol m in [1, 9]\nparam @w: i8[16, 8]\nparam @s: f32[16]\ngraph(%x: f32[m, 8]) {\n"
      "  %f = aten.to.dtype(@w, dtype = f32) : f32[16, 8]\n  %t = aten.permute.default(%f, dims = [1, 0]) : f32[8, "
      "16]\n"
      "  %p = aten.mm.default(%x, %t) : f32[m, 16]\n  %i = aten.to.dtype(%p, dtype = i32) : i32[m, 16]\n"
      "  %y = aten.mul.Tensor(%i, @s) : f32[m, 16]\n  return %y\n}\n");
  for (const char* dtype : {"i8", "i16", "f8e4m3"})
    check_values("symbol m in [1, 9]\n" + int_mm("f32", "m", 16, "SYMMETRIC") +
                 "  %i = aten.to.dtype(%p, dtype = " + dtype + ") : " + dtype +
                 "[m, 16]\n  %f = aten.to.dtype(%i, dtype = f32) : f32[m, 16]\n"
                 "  %a = aten.mul.Tensor(%f, %s) : f32[m, 16]\n  %y = aten.mul.Tensor(%a, @sw) : f32[m, 16]\n"
                 "  return %y\n}\n");
}

TEST_CASE("a scale of rows that is truncated or rounded is another scale") {
  for (const char* dtype : {"i32", "f16", "f8e4m3"}) {
    const std::string scale = std::string("  %c = aten.to.dtype(%s, dtype = ") + dtype + ") : " + dtype +
                              "[m, 1]\n  %t = aten.to.dtype(%c, dtype = f32) : f32[m, 1]\n";
    check_values("symbol m in [1, 9]\n" + int_mm("f32", "m", 16, "SYMMETRIC") + scale +
                 "  %f = aten.to.dtype(%p, dtype = f32) : f32[m, 16]\n  %a = aten.mul.Tensor(%f, %t) : f32[m, 16]\n"
                 "  %y = aten.mul.Tensor(%a, @sw) : f32[m, 16]\n  return %y\n}\n");
  }
  // Taken apart by run_decompositions, with a scale that is truncated on its way.
  check_values(
      "symbol m in [1, 9]\nparam @zero: f32[]\ngraph(%x: f32[m, 8]) {\n"
      "  %big = aten.mul.Tensor(%x, other = 1000.0) : f32[m, 8]\n"
      "  %low = aten.amin.default(%big, dim = [1], keepdim = true) : f32[m, 1]\n"
      "  %high = aten.amax.default(%big, dim = [1], keepdim = true) : f32[m, 1]\n"
      "  %a = aten.minimum.default(%low, @zero) : f32[m, 1]\n  %b = aten.maximum.default(%high, @zero) : f32[m, 1]\n"
      "  %n = aten.neg.default(%a) : f32[m, 1]\n  %c = aten.maximum.default(%n, %b) : f32[m, 1]\n"
      "  %d = aten.div.Tensor(%c, other = 127.5) : f32[m, 1]\n  %s0 = aten.clamp.default(%d, min = 1e-05) : f32[m, 1]\n"
      "  %si = aten.to.dtype(%s0, dtype = i32) : i32[m, 1]\n  %s = aten.to.dtype(%si, dtype = f32) : f32[m, 1]\n"
      "  %r = aten.reciprocal.default(%s) : f32[m, 1]\n  %e = aten.mul.Tensor(%big, %r) : f32[m, 8]\n"
      "  %k = aten.round.default(%e) : f32[m, 8]\n  %z = aten.expand.default(@zero, size = [m, 1]) : f32[m, 1]\n"
      "  %o = aten.add.Tensor(%k, %z) : f32[m, 8]\n"
      "  %l = aten.clamp.default(%o, min = -128, max = 127) : f32[m, 8]\n"
      "  %q = aten.to.dtype(%l, dtype = i8) : i8[m, 8]\n  return %q\n}\n");
}

TEST_CASE("scales of rows that are turned into columns scale columns, though M is N") {
  const std::string turned = "  %t = aten.reshape.default(%s, shape = [1, 8]) : f32[1, 8]\n";
  const std::string floats = "  %f = aten.to.dtype(%p, dtype = f32) : f32[8, 8]\n";
  for (const char* order :
       {"  %a = aten.mul.Tensor(%f, %t) : f32[8, 8]\n  %y = aten.mul.Tensor(%a, @sw) : f32[8, 8]\n",
        "  %a = aten.mul.Tensor(%f, @sw) : f32[8, 8]\n  %y = aten.mul.Tensor(%a, %t) : f32[8, 8]\n"})
    check_values(int_mm("f32", "8", 8, "SYMMETRIC") + turned + floats + order + "  return %y\n}\n");
  // With zero points: of the scale, of the zero points' own scale, and of the sums.
  for (const auto& [scale, zero_scale, sums] : {std::tuple("%t", "%s", "[1, 8]"), std::tuple("%s", "%t", "[1, 8]"),
                                                std::tuple("%s", "%s", "[8, 1]"), std::tuple("%t", "%t", "[1, 8]")}) {
    const std::string s(scale), zs(zero_scale), k(sums);
    const std::string rows = zs == "%s" ? "[8, 1]" : "[8, 8]", taken_off = rows == k ? "[8, 1]" : "[8, 8]";
    check_values(int_mm("f32", "8", 8, "ASYMMETRIC") + turned + floats + "  %g = aten.mul.Tensor(%f, " + s +
                 ") : f32[8, 8]\n  %zf = aten.to.dtype(%z, dtype = f32) : f32[8, 1]\n"
                 "  %zs = aten.mul.Tensor(%zf, " +
                 zs + ") : f32" + rows +
                 "\n  %k0 = aten.sum.dim_IntList(@w, dim = [0]) : i64[8]\n"
                 "  %k = aten.reshape.default(%k0, shape = " +
                 k + ") : i64" + k + "\n  %kf = aten.to.dtype(%k, dtype = f32) : f32" + k +
                 "\n  %o = aten.mul.Tensor(%zs, %kf) : f32" + taken_off +
                 "\n  %h = aten.sub.Tensor(%g, %o) : f32[8, 8]\n"
                 "  %y = aten.mul.Tensor(%h, @sw) : f32[8, 8]\n  return %y\n}\n");
  }
  // Chosen without keepdim and multiplied by hand.
  check_values(
      "graph(%x: f32[8, 8]) {\n"
      "  %s, %z = torchao.choose_qparams_affine.default(%x, mapping_type = \"SYMMETRIC\", block_size = [1, 8], "
      "target_dtype = i8, quant_min = -128, quant_max = 127, eps = 1e-05, scale_dtype = f32, zero_point_dtype = i8) : "
      "f32[8], i8[8]\n"
      "  %q = torchao.quantize_affine.default(%x, block_size = [1, 8], scale = %s, zero_point = %z, output_dtype = i8, "
      "quant_min = -128, quant_max = 127) : i8[8, 8]\n  %qf = aten.to.dtype(%q, dtype = f32) : f32[8, 8]\n"
      "  %zf = aten.to.dtype(%z, dtype = f32) : f32[8]\n  %c = aten.sub.Tensor(%qf, %zf) : f32[8, 8]\n"
      "  %y = aten.mul.Tensor(%c, %s) : f32[8, 8]\n  return %y\n}\n");
}

TEST_CASE("an operand written for reshaped rows is read by the rows of the activation") {
  const std::string
      weight =
          "  %wf = aten.to.dtype(@w, dtype = f32) : f32[16, 8]\n  %wd = aten.mul.Tensor(%wf, @sw) : f32[16, 8]\n"
          "  %t = aten.permute.default(%wd, dims = [1, 0]) : f32[8, 16]\n",
      parameters = "symbol m in [1, 9]\nparam @w: i8[16, 8]\nparam @sw: f32[16, 1]\n",
      product =
          "  %v = aten.reshape.default(%d, shape = [3*m, 8]) : f32[3*m, 8]\n"
          "  %y = aten.addmm.default(%r, %v, %t, beta = 0.5) : f32[3*m, 16]\n  return %y\n}\n";
  for (const char* shape : {"[3*m, 16]", "[3*m, 1]", "[1, 16]", "[16]", "[1]"}) {
    const std::string r = std::string("%r: f32") + shape;
    check_values(parameters + "graph(%q: i8[m, 3, 8], %s: f32[m, 3, 1], " + r + ") {\n" + weight +
                 "  %d = torchao.dequantize_affine.default(%q, block_size = [1, 1, 8], scale = %s, zero_point = none, "
                 "input_dtype = i8, output_dtype = f32) : f32[m, 3, 8]\n" +
                 product);
    check_values(
        parameters + "graph(%x: f32[m, 3, 8], " + r + ") {\n" + weight +
        "  %s, %z = torchao.choose_qparams_affine.default(%x, mapping_type = \"SYMMETRIC\", block_size = [1, 1, "
        "8], target_dtype = i8, quant_min = -128, quant_max = 127, eps = 1e-05, scale_dtype = f32, "
        "zero_point_dtype = i8, keepdim = true) : f32[m, 3, 1], i8[m, 3, 1]\n"
        "  %q = torchao.quantize_affine.default(%x, block_size = [1, 1, 8], scale = %s, zero_point = %z, "
        "output_dtype = i8, quant_min = -128, quant_max = 127) : i8[m, 3, 8]\n"
        "  %d = torchao.dequantize_affine.default(%q, block_size = [1, 1, 8], scale = %s, zero_point = %z, "
        "input_dtype = i8, output_dtype = f32) : f32[m, 3, 8]\n" +
        product);
  }
}

TEST_CASE("constants computed with a size known only at run time are computed at run time") {
  check_values(
      "symbol m in [1, 9]\nparam @b: f32[8]\ngraph(%x: f32[m, 8]) {\n"
      "  %c = aten.mul.Tensor(@b, other = m) : f32[8]\n  %y = aten.add.Tensor(%x, %c) : f32[m, 8]\n  return %y\n}\n");
  check_values(
      "symbol m in [1, 9]\nsymbol p in [2, 9]\ngraph(%x: f32[m, 8], %past: f32[p, 8]) {\n"
      "  %i = aten.arange.default(end = 8) : i64[8]\n  %j = aten.add.Tensor(%i, other = p) : i64[8]\n"
      "  %f = aten.to.dtype(%j, dtype = f32) : f32[8]\n  %y = aten.mul.Tensor(%x, %f) : f32[m, 8]\n"
      "  %z = aten.add.Tensor(%past, other = 1.0) : f32[p, 8]\n  return %y, %z\n}\n");
  check_values(
      "symbol m in [1, 9]\nparam @w: i8[16, 8]\nparam @s: f32[16, 1]\ngraph(%x: f32[m, 8]) {\n"
      "  %t = aten.div.Tensor(@s, other = m) : f32[16, 1]\n  %f = aten.to.dtype(@w, dtype = f32) : f32[16, 8]\n"
      "  %d = aten.mul.Tensor(%f, %t) : f32[16, 8]\n  %y = aten.linear.default(%x, %d) : f32[m, 16]\n  return %y\n}\n");
}

TEST_CASE("ranges and numbers that are sizes known only at run time are what the oracle makes of them") {
  // A causal mask with a past: one loop, seen through reshapes and a slice.
  check_values(
      "symbol s in [1, 9]\nsymbol p in [1, 9]\ngraph(%x: f32[s, 4], %past: f32[p, 4], %len: i64[s]) {\n"
      "  %q = aten.arange.start(start = p, end = s+p) : i64[s]\n  %k = aten.arange.default(end = s+p) : i64[s+p]\n"
      "  %c = aten.unsqueeze.default(%q, dim = 1) : i64[s, 1]\n  %m = aten.le.Tensor(%k, %c) : bool[s, s+p]\n"
      "  %l = aten.unsqueeze.default(%len, dim = 1) : i64[s, 1]\n  %o = aten.lt.Tensor(%k, %l) : bool[s, s+p]\n"
      "  %b = aten.bitwise_and.Tensor(%m, %o) : bool[s, s+p]\n"
      "  %t = aten.slice.Tensor(%k, start = 1, step = 1) : i64[s+p-1]\n"
      "  %y = aten.clamp.default(%x, max = s) : f32[s, 4]\n  %z = aten.add.Tensor(%past, other = s) : f32[p, 4]\n"
      "  return %b, %t, %y, %z\n}\n");
  check_values(
      "symbol s in [1, 9]\ngraph(%x: f32[s, 4]) {\n"
      "  %e = aten.arange.start_step(start = 0, end = 2*s, step = 2, dtype = f32) : f32[s]\n"
      "  %u = aten.unsqueeze.default(%e, dim = 1) : f32[s, 1]\n  %w = aten.expand.default(%u, size = [s, 4]) : f32[s, "
      "4]\n"
      "  %y = aten.mul.Tensor(%x, %w) : f32[s, 4]\n  %f = aten.full.default(size = [s, 2], fill_value = s) : i64[s, "
      "2]\n"
      "  %v = aten.rsub.Scalar(%f, other = 3*s-1) : i64[s, 2]\n  return %y, %v\n}\n");
  // Steps over a size, numbers of a quotient and of an extreme.
  check_values(
      "symbol s in [1, 9]\ngraph(%x: f32[s, 4], %n: i64[s]) {\n"
      "  %e = aten.arange.start_step(start = 1, end = s+1, step = 2) : i64[floordiv(s+1,2)]\n"
      "  %t = aten.slice.Tensor(%x, step = 2) : f32[floordiv(s+1,2), 4]\n"
      "  %c = aten.reshape.default(%e, shape = [-1, 1]) : i64[floordiv(s+1,2), 1]\n"
      "  %y = aten.mul.Tensor(%t, %c) : f32[floordiv(s+1,2), 4]\n"
      "  %z = aten.add.Tensor(%x, other = min(4,s)) : f32[s, 4]\n"
      "  %q = aten.floor_divide.default(%n, other = 3) : i64[s]\n"
      "  %r = aten.remainder.Scalar(%n, other = s) : i64[s]\n  return %y, %z, %q, %r\n}\n");
}

TEST_CASE("a range in steps of a size") {
  check_values(
      "symbol s in [1, 9]\nsymbol p in [1, 5]\ngraph(%x: i64[s, p]) {\n"
      "  %e = aten.arange.start_step(start = 1, end = p*s+1, step = p) : i64[floordiv(p*s+p-1,p)]\n"
      "  %z = aten.mul.Tensor(%e, %e) : i64[floordiv(p*s+p-1,p)]\n  return %z\n}\n");
}

TEST_CASE("the oracle refuses a node whose sizes it cannot know") {
  const Graph graph = parse(
      "symbol m in [1, 9]\nparam @b: f32[8]\ngraph() {\n  %c = aten.mul.Tensor(@b, other = m) : f32[8]\n  return "
      "%c\n}\n");
  Graph bound = graph;
  bind_random(bound, 1);
  const auto result = evaluate_graph(bound, {});
  REQUIRE(!result.ok());
  CHECK(result.error().message.find("the size m of aten.mul.Tensor") != std::string::npos);
}

TEST_CASE("a factor of baddbmm that is known only at run time is refused") {
  const Graph graph = parse(
      "symbol m in [1, 9]\ngraph(%x: f32[2, m, 8], %w: f32[2, 8, 4], %b: f32[2, 1, 4]) {\n"
      "  %y = aten.baddbmm.default(%b, %x, %w, beta = m) : f32[2, m, 4]\n  return %y\n}\n");
  const Status status = verify_graph(graph);
  REQUIRE(!status.ok());
  CHECK(status.error().message.find("known only at run time") != std::string::npos);
}

TEST_CASE("scales without clipping of a range that begins at 0 or above it come from the other end") {
  for (const auto& [low, dtype] : {std::pair(0, "u8"), std::pair(3, "u8"), std::pair(-8, "i8")}) {
    const std::string range = "target_dtype = " + std::string(dtype) + ", quant_min = " + std::to_string(low) +
                              ", quant_max = 15, eps = 1e-05, scale_dtype = f32, zero_point_dtype = i32";
    for (const char* rectify :
         {"  %r = aten.relu.default(%x) : f32[m, 8]\n", "  %r = aten.neg.default(%x) : f32[m, 8]\n"})
      check_values(std::string("symbol m in [1, 9]\ngraph(%x: f32[m, 8]) {\n") + rectify +
                   "  %s, %z = torchao.choose_qparams_affine.default(%r, mapping_type = \"SYMMETRIC_NO_CLIPPING_ERR\", "
                   "block_size = [1, 8], " +
                   range + ", keepdim = true) : f32[m, 1], i32[m, 1]\n  return %s, %z\n}\n");
  }
}

TEST_CASE("an assignment into a slice of an activation changes that slice alone") {
  check_values(
      "symbol m in [1, 9]\ngraph(%x: f32[m, 8], %t: f32[m, 2], %h: f16[2]) {\n"
      "  %y = aten.slice_scatter.default(%x, %t, dim = 1, start = 2, end = 4) : f32[m, 8]\n"
      "  %w = aten.copy.default(%t, %h) : f32[m, 2]\n"
      "  %z = aten.slice_scatter.default(%y, %w, dim = 1, start = -2) : f32[m, 8]\n  return %y, %z\n}\n");
}

TEST_CASE("numbers of output channels are told from those of groups by their axis") {
  // Of 8 channels and K = 16: [1, 8] could be 8 groups of 2.
  Graph graph = parse(
      "param @w: i8[16, 8]\nparam @ws: f32[8]\nparam @xs: f32[1]\ngraph(%x: i8[5, 16]) {\n"
      "  %flat = tensor_cast.static_quant_linear.default(%x, @w, @ws, x_scale = @xs, out_dtype = f32) : f32[5, 8]\n"
      "  %r = aten.reshape.default(@ws, shape = [1, 8]) : f32[1, 8]\n"
      "  %row = tensor_cast.static_quant_linear.default(%x, @w, %r, x_scale = @xs, out_dtype = f32) : f32[5, 8]\n"
      "  return %flat, %row\n}\n");
  bind_random(graph, 1);
  const auto results = evaluate_graph(graph, random_inputs(graph, 2));
  REQUIRE_MESSAGE(results.ok(), results.error().to_string());
  CHECK(std::ranges::equal((*results)[0].bytes(), (*results)[1].bytes()));
}
