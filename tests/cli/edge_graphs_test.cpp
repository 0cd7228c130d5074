// Graphs at the edges: slices that reach past an axis, sums over nothing. Compiled, run and compared with the oracle,
// or refused with the place and a remedy.
#include <fmt/format.h>

#include "tests/cli_runner.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

Run run_on(const std::string& text, std::vector<std::string> arguments) {
  TempDir dir;
  spit(dir / "graph.txt", text);
  arguments.insert(arguments.begin() + 1, dir / "graph.txt");
  return qcodegen(std::move(arguments));
}

void check_passes(const std::string& text, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"check", "--weights", "random:1", "--json"});
  const Run run = run_on(text, std::move(arguments));
  INFO(text, run.out, run.err);
  CHECK(run.status == 0);
  if (run.status == 0) CHECK(run.json()["ok"] == true);
}

// `body` over %x: f32[m, columns] and @w: f32[16, 40]; its last value is %y.
void check_right(const std::string& body, const std::string& result, int columns = 200) {
  const std::string text = "symbol m in [1, 64]\nparam @w: f32[16, 40]\ngraph(%x: f32[m, " + std::to_string(columns) +
                           "]) {\n" + body + "  return %y\n}\n";
  check_passes(text, {"--m", "1,3,17"});
  CHECK(text.find(result) != std::string::npos);
}

}  // namespace

TEST_CASE("a slice reads what torch's would, wherever its ends lie") {
  const std::string right_half = "  %a = aten.slice.Tensor(self = %x, dim = 1, start = 100, end = 200) : f32[m, 100]\n";
  check_right(right_half +
                  "  %h = aten.slice.Tensor(self = %a, dim = 1, start = -120, end = 40) : f32[m, 40]\n"
                  "  %y = aten.linear.default(input = %h, weight = @w) : f32[m, 16]\n",
              "f32[m, 40]");
  for (const char* slice : {"start = -100, end = 4) : f32[m, 4]", "start = -3, end = 100) : f32[m, 3]",
                            "start = 100, end = 200) : f32[m, 0]", "start = 5, end = -100) : f32[m, 0]",
                            "start = -100, end = 100, step = 3) : f32[m, 3]"})
    check_right(std::string("  %h = aten.slice.Tensor(self = %x, dim = 1, ") + slice +
                    "\n  %y = aten.relu.default(self = %h) : " +
                    std::string(slice).substr(std::string(slice).find("f32")) + "\n",
                slice, 8);
  // Rows: the clamp depends on the range of m, not on one value of it.
  check_right(
      "  %h = aten.slice.Tensor(self = %x, dim = 0, start = -1) : f32[1, 8]\n"
      "  %y = aten.relu.default(self = %h) : f32[1, 8]\n",
      "f32[1, 8]", 8);
  check_right(
      "  %h = aten.slice.Tensor(self = %x, dim = 0, start = -100) : f32[m, 8]\n"
      "  %y = aten.relu.default(self = %h) : f32[m, 8]\n",
      "f32[m, 8]", 8);
}

TEST_CASE("bytes are read as another dtype, of elements as wide, narrower and wider, and of views; eye of m rows") {
  const Run run = run_on(R"(symbol m in [1, 64]
graph(%x: f32[m, 8], %h: bf16[4, m]) {
  %d = aten.mul.Scalar(%x, 2) : f32[m, 8]
  %i = aten.view.dtype(%d, dtype = i32) : i32[m, 8]
  %k = aten.bitwise_and.Scalar(%i, other = -65536) : i32[m, 8]
  %y = aten.view.dtype(%k, dtype = f32) : f32[m, 8]
  %t = aten.transpose.int(%h, 0, 1) : bf16[m, 4]
  %u = aten.view.dtype(%t, dtype = u8) : u8[m, 8]
  %w = aten.view.dtype(%u, dtype = f32) : f32[m, 2]
  %e = aten.to.dtype(%d, dtype = f8e4m3) : f8e4m3[m, 8]
  %c = aten.view.dtype(%e, dtype = u8) : u8[m, 8]
  %same = aten.view.dtype(%x, dtype = i32) : i32[m, 8]
  %diagonal = aten.eye.m(m, 8, dtype = bool) : bool[m, 8]
  %ones = aten.eye.default(m, dtype = i64) : i64[m, m]
  return %y, %u, %w, %c, %same, %diagonal, %ones
}
)",
                         {"check", "--m", "1,3,17", "--json"});
  INFO(run.out, run.err);
  CHECK(run.status == 0);
  if (run.status == 0) CHECK(run.json()["ok"] == true);
}

TEST_CASE("an integer input says how long results are, and is a number in them") {
  const Run run = run_on(
      "symbol n in [0, 40]\nsymbol m in [1, 64]\nparam @w: f32[16, 40]\n"
      "graph(%x: f32[m, 40], %n: i64[] = n) {\n"
      "  %part = aten.slice.Tensor(self = %x, dim = 1, end = n) : f32[m, n]\n"
      "  %wide = aten.mul.Tensor(self = %part, other = n) : f32[m, n]\n"
      "  %range = aten.arange.default(end = n) : i64[n]\n"
      "  %l = aten.linear.default(input = %x, weight = @w) : f32[m, 16]\n"
      "  %y = aten.add.Tensor(self = %l, other = %n) : f32[m, 16]\n"
      "  return %wide, %range, %y\n}\n",
      {"check", "--weights", "random:1", "--m", "1,3,17", "--json"});
  INFO(run.out, run.err);
  CHECK(run.status == 0);
}

TEST_CASE("axes walked backwards are read by loops as they are, by everything else as copies") {
  check_passes(
      "symbol m in [0, 64]\nparam @w: f32[16, 40]\nparam @v: f32[40]\ngraph(%x: f32[m, 40], %z: f32[m, 16]) {\n"
      "  %k = aten.flip.default(self = %x, dims = [1]) : f32[m, 40]\n"
      "  %r = aten.flip.default(self = %x, dims = [0]) : f32[m, 40]\n"
      "  %both = aten.flip.default(self = %x, dims = [0, -1]) : f32[m, 40]\n"
      "  %a = aten.add.Tensor(self = %k, other = %x) : f32[m, 40]\n"
      "  %b = aten.linear.default(input = %r, weight = @w) : f32[m, 16]\n"
      "  %zr = aten.flip.default(self = %z, dims = [0]) : f32[m, 16]\n"
      "  %c = aten.add.Tensor(self = %b, other = %zr) : f32[m, 16]\n"
      "  %t = aten.t.default(self = %k) : f32[40, m]\n"
      "  %d = aten.matmul.default(self = %both, other = %t) : f32[m, m]\n"
      "  %e = aten.sum.dim_IntList(self = %both, dim = [0]) : f32[40]\n"
      "  %f = aten.cat.default(tensors = [%k, %x], dim = 1) : f32[m, 80]\n"
      "  %wf = aten.flip.default(self = @w, dims = [1]) : f32[16, 40]\n"
      "  %g = aten.linear.default(input = %x, weight = %wf) : f32[m, 16]\n"
      "  %bf = aten.flip.default(self = @v, dims = [0]) : f32[40]\n"
      "  %h = aten.mul.Tensor(self = %both, other = %bf) : f32[m, 40]\n"
      "  %cut = aten.slice.Tensor(self = %k, dim = 1, start = 3, end = 33) : f32[m, 30]\n"
      "  %i = aten.relu.default(self = %cut) : f32[m, 30]\n"
      "  return %a, %c, %d, %e, %f, %g, %h, %i, %both\n}\n",
      {"--m", "0,1,3,17"});
}

TEST_CASE("linears find their rows in windows, heads and partitions, at every size") {
  check_passes(R"(symbol m in [1, 64]
param @w: f32[24, 8, 3, 3]
param @b: f32[24]
param @u: f32[10, 24, 2, 5]
param @far: f32[6, 8, 3, 3]
graph(%x: f32[m, 8, 7, 9], %tall: f32[8, m, 9]) {
  %c = aten.conv2d.default(%x, @w, @b, stride = [2, 1], padding = [1, 1]) : f32[m, 24, 4, 9]
  %r = aten.relu.default(%c) : f32[m, 24, 4, 9]
  %y = aten.conv2d.default(%r, @u) : f32[m, 10, 3, 5]
  %z = aten.conv2d.default(%tall, @far, padding = [2, 3], dilation = [2, 3]) : f32[6, m, 9]
  return %y, %z
}
)",
               {"--m", "1,2,11"});
  check_passes(R"(symbol m in [1, 64]
param @w: f32[16, 24]
param @v: bf16[16, 24]
graph(%x: f32[3, 4, m, 6], %h: bf16[3, 4, m, 6], %p: f32[m, 4, 6, 6]) {
  %t = aten.transpose.int(%x, dim0 = 1, dim1 = 2) : f32[3, m, 4, 6]
  %j = aten.reshape.default(%t, shape = [3, m, 24]) : f32[3, m, 24]
  %a = aten.linear.default(%j, @w) : f32[3, m, 16]
  %th = aten.transpose.int(%h, dim0 = 1, dim1 = 2) : bf16[3, m, 4, 6]
  %jh = aten.reshape.default(%th, shape = [3, m, 24]) : bf16[3, m, 24]
  %b = aten.linear.default(%jh, @v) : bf16[3, m, 16]
  %u = aten.unfold.default(self = %p, dimension = 1, size = 2, step = 2) : f32[m, 2, 6, 6, 2]
  %o = aten.unfold.default(self = %u, dimension = 2, size = 2, step = 2) : f32[m, 2, 3, 6, 2, 2]
  %q = aten.permute.default(%o, dims = [0, 1, 2, 4, 5, 3]) : f32[m, 2, 3, 2, 2, 6]
  %k = aten.reshape.default(%q, shape = [m, 6, 24]) : f32[m, 6, 24]
  %c = aten.linear.default(%k, @w) : f32[m, 6, 16]
  %d = aten.add.Tensor(%k, %k) : f32[m, 6, 24]
  return %a, %b, %c, %d
}
)",
               {"--m", "1,2,11"});
}

TEST_CASE("convolutions of groups: sums of few terms slide, of many multiply group by group") {
  check_passes(R"(symbol m in [1, 64]
param @few: f32[24, 4, 3, 3]
param @b: f32[24]
param @many: f32[16, 96, 3, 3]
param @each: bf16[32, 1, 3, 3]
param @bias: bf16[32]
graph(%x: f32[m, 16, 7, 9], %y: f32[m, 192, 5, 4], %h: bf16[m, 16, 5, 4]) {
  %c = aten.conv2d.default(%x, @few, @b, stride = [2, 1], padding = [1, 1], groups = 4) : f32[m, 24, 4, 9]
  %d = aten.conv2d.default(%y, @many, padding = [1, 1], groups = 2) : f32[m, 16, 5, 4]
  %e = aten.conv2d.default(%h, @each, @bias, groups = 16) : bf16[m, 32, 3, 2]
  return %c, %d, %e
}
)",
               {"--m", "1,2,11"});
}

TEST_CASE("a part written into windows that overlap goes into a copy, one along an axis walked backwards in place") {
  check_passes(
      "symbol m in [4, 64]\ngraph(%x: f32[m, 40], %s: f32[m, 1, 3], %v: f32[2, 40], %i: i64[2], %c: f32[m, 1]) {\n"
      "  %p = aten.relu.default(self = %x) : f32[m, 40]\n"
      "  %u = aten.unfold.default(self = %p, dimension = 1, size = 3, step = 1) : f32[m, 38, 3]\n"
      "  %a = aten.slice_scatter.default(self = %u, src = %s, dim = 1, start = 1, end = 2) : f32[m, 38, 3]\n"
      "  %q = aten.exp.default(self = %x) : f32[m, 40]\n"
      "  %far = aten.unfold.default(self = %q, dimension = 1, size = 4, step = 4) : f32[m, 10, 4]\n"
      "  %t1 = aten.slice.Tensor(self = %s, dim = 2, start = 0, end = 1) : f32[m, 1, 1]\n"
      "  %t = aten.expand.default(self = %t1, size = [m, 1, 4]) : f32[m, 1, 4]\n"
      "  %b = aten.slice_scatter.default(self = %far, src = %t, dim = 1, start = 2, end = 3) : f32[m, 10, 4]\n"
      "  %k = aten.tanh.default(self = %x) : f32[m, 40]\n"
      "  %f = aten.flip.default(self = %k, dims = [1]) : f32[m, 40]\n"
      "  %d = aten.slice_scatter.default(self = %f, src = %c, dim = 1, start = 1, end = 2) : f32[m, 40]\n"
      "  %n = aten.neg.default(self = %x) : f32[m, 40]\n"
      "  %g = aten.flip.default(self = %n, dims = [1]) : f32[m, 40]\n"
      "  %e = aten.index_add.default(self = %g, dim = 0, index = %i, source = %v) : f32[m, 40]\n"
      "  return %a, %b, %d, %e\n}\n",
      {"--m", "4,17"});
}

TEST_CASE("a part of an image whose sizes only a run knows is written in place") {
  const std::string text =
      "symbol h in [1, 64]\nsymbol w in [1, 64]\ngraph(%x: f32[2, 3, h, w], %s: f32[2, h, 1]) {\n"
      "  %p = aten.relu.default(self = %x) : f32[2, 3, h, w]\n"
      "  %u = aten.select.int(self = %p, dim = 1, index = 1) : f32[2, h, w]\n"
      "  %y = aten.slice_scatter.default(self = %u, src = %s, dim = 2, start = 0, end = 1) : f32[2, h, w]\n"
      "  return %y\n}\n";
  const Run explained = run_on(text, {"explain"});
  INFO(explained.out, explained.err);
  CHECK(explained.status == 0);
  CHECK(explained.out.find("copy into") != std::string::npos);
  CHECK(explained.out.find("share memory") == std::string::npos);
  check_passes(text, {"--m", "1,5"});
}

TEST_CASE("attention whose keys and values all batches share") {
  check_passes(
      "graph(%q: f32[2, 4, 5, 8], %k: f32[4, 7, 8], %v: f32[4, 7, 8], %one: f32[4, 5, 8], %vs: f32[2, 4, 7, 8]) {\n"
      "  %t = aten.permute.default(self = %k, dims = [0, 2, 1]) : f32[4, 8, 7]\n"
      "  %s = aten.matmul.default(self = %q, other = %t) : f32[2, 4, 5, 7]\n"
      "  %p = aten.softmax.int(self = %s, dim = -1) : f32[2, 4, 5, 7]\n"
      "  %a = aten.matmul.default(self = %p, other = %v) : f32[2, 4, 5, 8]\n"
      "  %vt = aten.permute.default(self = %vs, dims = [0, 1, 3, 2]) : f32[2, 4, 8, 7]\n"
      "  %s1 = aten.matmul.default(self = %one, other = %vt) : f32[2, 4, 5, 7]\n"
      "  %p1 = aten.softmax.int(self = %s1, dim = -1) : f32[2, 4, 5, 7]\n"
      "  %b = aten.matmul.default(self = %p1, other = %vs) : f32[2, 4, 5, 8]\n"
      "  return %a, %b\n}\n",
      {});
}

TEST_CASE("what computes with positions does not change places with slices, look-ups and layers") {
  check_passes(
      "symbol m in [3, 64]\nparam @w: f32[16, 40]\nparam @table: bf16[256, 64]\nparam @c: f32[4, 3, 3, 3]\n"
      "graph(%x: f32[m, 40], %i: i64[m], %image: f32[1, 3, 10, 10]) {\n"
      "  %y = aten.linear.default(input = %x, weight = @w) : f32[m, 16]\n"
      "  %low = aten.tril.default(self = %y) : f32[m, 16]\n"
      "  %last = aten.slice.Tensor(self = %low, dim = 0, start = -1) : f32[1, 16]\n"
      "  %ids = aten.clamp.default(self = %i, min = 0, max = 2) : i64[m]\n"
      "  %wide = aten.to.dtype(self = @table, dtype = f32) : f32[256, 64]\n"
      "  %half = aten.triu.default(self = %wide) : f32[256, 64]\n"
      "  %rows = aten.embedding.default(weight = %half, indices = %ids) : f32[m, 64]\n"
      "  %count = aten.arange.default(end = m, dtype = i64) : i64[m]\n"
      "  %places = aten.index.Tensor(self = %count, indices = [%ids]) : i64[m]\n"
      "  %layer = aten.conv2d.default(input = %image, weight = @c) : f32[1, 4, 8, 8]\n"
      "  %corner = aten.tril.default(self = %layer) : f32[1, 4, 8, 8]\n"
      "  %zeros = aten.fill.Scalar(self = %y, value = 0) : f32[m, 16]\n"
      "  return %last, %rows, %places, %corner, %zeros\n}\n",
      {"--m", "3,17"});
}

TEST_CASE("a product of no columns, and rows at no positions") {
  check_passes(
      "param @none: i64[0]\ngraph(%x: f32[2, 6], %w: f32[6, 0], %z: f32[4, 3]) {\n"
      "  %y = aten.matmul.default(self = %x, other = %w) : f32[2, 0]\n"
      "  %rows = aten.index.Tensor(self = %z, indices = [@none]) : f32[0, 3]\n"
      "  return %y, %rows\n}\n",
      {});
}

TEST_CASE("elements are taken at positions that begin within a tensor") {
  check_passes(
      "graph(%x: f32[6, 4], %i: i64[6]) {\n"
      "  %j = aten.slice.Tensor(self = %i, dim = 0, start = 2, end = 5) : i64[3]\n"
      "  %a = aten.take.default(self = %x, index = %j) : f32[3]\n"
      "  %b = aten.take_along_dim.default(self = %x, indices = %j) : f32[3]\n"
      "  return %a, %b\n}\n",
      {});
}

TEST_CASE("no elements of a tensor that has some, backwards") {
  check_passes(
      "symbol n in [0, 8]\ngraph(%x: f32[8], %z: f32[n]) {\n"
      "  %a = aten.slice.Tensor(self = %x, dim = 0, start = 0, end = n) : f32[n]\n"
      "  %f = aten.flip.default(self = %a, dims = [0]) : f32[n]\n"
      "  %y = aten.add.Tensor(self = %f, other = %z) : f32[n]\n"
      "  return %y\n}\n",
      {"--m", "0,1,8"});
}

TEST_CASE("NaNs become those of floats of one byte") {
  check_passes(
      "graph(%x: f32[3, 16], %z: f32[2, 20]) {\n"
      "  %h = aten.asin.default(self = %x) : f32[3, 16]\n"
      "  %a = aten.to.dtype(self = %h, dtype = f8e4m3) : f8e4m3[3, 16]\n"
      "  %k = aten.asin.default(self = %z) : f32[2, 20]\n"
      "  %b = aten.to.dtype(self = %k, dtype = f8e5m2) : f8e5m2[2, 20]\n"
      "  return %a, %b\n}\n",
      {});
}

TEST_CASE("one row given to every row is read as that") {
  // A class token, or what is known of a user, beside rows of their own.
  const std::string first =
      "  %r = aten.slice.Tensor(self = %x, dim = 0, start = 0, end = 1) : f32[1, 40]\n"
      "  %e = aten.expand_as.default(self = %r, other = %x) : f32[m, 40]\n";
  check_right(first + "  %y = aten.linear.default(input = %e, weight = @w) : f32[m, 16]\n", "f32[m, 16]", 40);
  const std::string text =
      "symbol m in [1, 64]\nparam @w: f32[16, 40]\nparam @v: f32[16, 80]\nparam @q: i8[16, 40]\nparam @s: f32[16, 1]\n"
      "graph(%x: f32[m, 40], %z: f32[m, 16], %c: i8[m, 40], %xs: f32[m, 1]) {\n" +
      first +
      "  %l = aten.linear.default(input = %x, weight = @w) : f32[m, 16]\n"
      "  %zr = aten.slice.Tensor(self = %z, dim = 0, start = 0, end = 1) : f32[1, 16]\n"
      "  %ze = aten.expand_as.default(self = %zr, other = %z) : f32[m, 16]\n"
      "  %a = aten.add.Tensor(self = %l, other = %ze) : f32[m, 16]\n"
      "  %both = aten.cat.default(tensors = [%x, %e], dim = -1) : f32[m, 80]\n"
      "  %b = aten.linear.default(input = %both, weight = @v) : f32[m, 16]\n"
      "  %h = aten.relu.default(self = %x) : f32[m, 40]\n"
      "  %hr = aten.slice.Tensor(self = %h, dim = 0, start = 0, end = 1) : f32[1, 40]\n"
      "  %he = aten.expand_as.default(self = %hr, other = %h) : f32[m, 40]\n"
      "  %d = aten.linear.default(input = %he, weight = @w) : f32[m, 16]\n"
      "  %sr = aten.slice.Tensor(self = %xs, dim = 0, start = 0, end = 1) : f32[1, 1]\n"
      "  %se = aten.expand_as.default(self = %sr, other = %xs) : f32[m, 1]\n"
      "  %cd = torchao.dequantize_affine.default(%c, block_size = [1, 40], scale = %se, zero_point = none, "
      "input_dtype = i8, output_dtype = f32) : f32[m, 40]\n"
      "  %qf = aten.to.dtype(self = @q, dtype = f32) : f32[16, 40]\n"
      "  %qd = aten.mul.Tensor(self = %qf, other = @s) : f32[16, 40]\n"
      "  %i = aten.linear.default(input = %cd, weight = %qd) : f32[m, 16]\n  return %a, %b, %h, %d, %i\n}\n";
  const Run run = run_on(text, {"check", "--weights", "random:1", "--m", "1,3,17", "--json"});
  INFO(run.out, run.err);
  CHECK(run.status == 0);
  const Run fixed = run_on(
      "param @w: f32[16, 40]\ngraph(%x: f32[7, 40]) {\n"
      "  %r = aten.slice.Tensor(self = %x, dim = 0, start = 0, end = 1) : f32[1, 40]\n"
      "  %e = aten.expand.default(self = %r, size = [7, 40]) : f32[7, 40]\n"
      "  %y = aten.linear.default(input = %e, weight = @w) : f32[7, 16]\n  return %y\n}\n",
      {"check", "--weights", "random:1", "--json"});
  INFO(fixed.out, fixed.err);
  CHECK(fixed.status == 0);
}

TEST_CASE("one number per row serves siblings of any width, one column among them") {
  for (const char* wide : {"8", "70000"}) {
    const std::string n(wide);
    const Run run = run_on(
        "symbol m in [1, 64]\nparam @b: f32[" + n +
            ", 8]\nparam @a: f32[1, 8]\n"
            "graph(%x: f32[m, 8], %g: f32[m, 1]) {\n  %p = aten.linear.default(input = %x, weight = @b) : f32[m, " +
            n +
            "]\n  %q = aten.linear.default(input = %x, weight = @a) : f32[m, 1]\n"
            "  %y = aten.mul.Tensor(self = %p, other = %g) : f32[m, " +
            n + "]\n  %z = aten.mul.Tensor(self = %q, other = %g) : f32[m, 1]\n  return %y, %z\n}\n",
        {"check", "--weights", "random:1", "--m", "1,3,17", "--json"});
    INFO(n, run.out, run.err);
    CHECK(run.status == 0);
  }
}

TEST_CASE("no rows at all have columns like any number of rows") {
  const Run run = run_on(
      "symbol m in [0, 64]\nparam @w: f32[4, 8]\ngraph(%x: f32[m, 16]) {\n"
      "  %r = aten.relu.default(self = %x) : f32[m, 16]\n"
      "  %a, %b = aten.chunk.default(self = %r, chunks = 2, dim = 1) : f32[m, 8], f32[m, 8]\n"
      "  %p = aten.linear.default(input = %b, weight = @w) : f32[m, 4]\n"
      "  %s = aten.slice.Tensor(self = %x, dim = 1, start = 4, end = 8) : f32[m, 4]\n"
      "  %c = aten.cat.default(tensors = [%s, %p, %a], dim = 1) : f32[m, 16]\n"
      "  %k = aten.stack.default(tensors = [%a, %b], dim = 1) : f32[m, 2, 8]\n  return %c, %k\n}\n",
      {"check", "--weights", "random:1", "--m", "0,1,3", "--json"});
  INFO(run.out, run.err);
  CHECK(run.status == 0);
}

TEST_CASE("parts of a concatenation take its dtype, and empty lists vanish") {
  const std::string small = "  %h = aten.to.dtype(self = %x, dtype = f16) : f16[m, 8]\n",
                    codes = "  %i = aten.to.dtype(self = %x, dtype = i64) : i64[m, 8]\n",
                    twice = "  %t = aten.mul.Tensor(self = %x, other = 2) : f32[m, 8]\n";
  check_right(small + "  %y = aten.cat.default(tensors = [%x, %h], dim = 1) : f32[m, 16]\n", "m, 16", 8);
  check_right(small + twice + "  %y = aten.cat.default(tensors = [%h, %t], dim = 0) : f32[2*m, 8]\n", "2*m", 8);
  check_right(codes + twice + "  %y = aten.cat.default(tensors = [%t, %i], dim = 1) : f32[m, 16]\n", "m, 16", 8);
  check_right(small + "  %y = aten.stack.default(tensors = [%h, %x], dim = 1) : f32[m, 2, 8]\n", "m, 2, 8", 8);
  const std::string none = "param @e: f32[0]\n";
  const std::string text = "symbol m in [1, 64]\n" + none + "param @w: f32[4, 16]\ngraph(%x: f32[m, 8]) {\n" + twice +
                           "  %c = aten.cat.default(tensors = [@e, %x, %t], dim = -1) : f32[m, 16]\n"
                           "  %y = aten.linear.default(input = %c, weight = @w) : f32[m, 4]\n  return %y\n}\n";
  const Run run = run_on(text, {"check", "--weights", "random:1", "--json"});
  INFO(text, run.out, run.err);
  CHECK(run.status == 0);
}

TEST_CASE("batched products take operands however they are stored") {
  const Run run = run_on(
      "symbol b in [1, 9]\nsymbol t in [1, 64]\ngraph(%x: f32[b, t, 12]) {\n"
      "  %v = aten.view.default(self = %x, size = [b, t, 3, 4]) : f32[b, t, 3, 4]\n"
      "  %q = aten.transpose.int(self = %v, dim0 = 1, dim1 = 2) : f32[b, 3, t, 4]\n"
      "  %k = aten.transpose.int(self = %q, dim0 = 2, dim1 = 3) : f32[b, 3, 4, t]\n"
      "  %y = aten.matmul.default(self = %q, other = %k) : f32[b, 3, t, t]\n  return %y\n}\n",
      {"check", "--m", "1,7", "--json"});
  INFO(run.out, run.err);
  CHECK(run.status == 0);
}

TEST_CASE("a symbol that no input tells is refused before anything is built") {
  const auto compiled = [](const std::string& rows) {
    return run_on("symbol m in [1, 64]\nsymbol q in [1, 5]\nsymbol r in [1, 5]\ngraph(%x: f32[" + rows +
                      ", 8], %z: f32[q]) {\n  %y = aten.relu.default(self = %x) : f32[" + rows +
                      ", 8]\n  return %y\n}\n",
                  {"compile", "--tune=off", "--json"});
  };
  for (const char* rows : {"m*m", "m*q", "m + r"}) {
    const Run run = compiled(rows);
    INFO(rows, run.out, run.err);
    CHECK(run.status == 1);
    CHECK(run.json()["error"]["where"] == "symbol 'm'");
  }
  CHECK(run_on("symbol m in [1, 64]\nsymbol q in [1, 5]\ngraph(%x: f32[2*m + q, 8], %z: f32[q]) {\n"
               "  %y = aten.relu.default(self = %x) : f32[2*m + q, 8]\n  return %y\n}\n",
               {"check", "--m", "1,7", "--json"})
            .status == 0);
}

TEST_CASE("rows that no linear takes are no rows to tune at") {
  const Run run = run_on(
      "symbol m in [1, 64]\nparam @w: f32[4, 8]\ngraph(%x: f32[m, 8]) {\n"
      "  %y = aten.linear.default(input = %x, weight = @w) : f32[m, 4]\n  return %y\n}\n",
      {"compile", "--weights", "random:1", "--m", "64,65", "--tune=off"});
  CHECK(run.status == 2);
  CHECK(run.err.find("no linear of this graph takes m=65") != std::string::npos);
}

TEST_CASE("a product over no elements is its bias, or zero") {
  for (const auto& [arguments, parameters] : {std::pair("input = %x, weight = @w", ""),
                                              std::pair("input = %x, weight = @w, bias = @b", "param @b: f32[4]\n")}) {
    const std::string text = std::string("symbol m in [0, 64]\nparam @w: f32[4, 0]\n") + parameters +
                             "graph(%x: f32[m, 0]) {\n  %z = aten.linear.default(" + arguments +
                             ") : f32[m, 4]\n  return %z\n}\n";
    const Run run = run_on(text, {"check", "--weights", "random:1", "--m", "0,3", "--json"});
    INFO(run.out, run.err);
    CHECK(run.status == 0);
  }
  const Run product = run_on(
      "graph(%x: f32[2, 3, 0], %y: f32[2, 0, 5]) {\n  %z = aten.bmm.default(%x, %y) : f32[2, 3, 5]\n  return %z\n}\n",
      {"check", "--json"});
  CHECK_MESSAGE(product.status == 0, product.out << product.err);
}

TEST_CASE("a product of integers whose sums could overflow is refused for that") {
  const auto run = [](int k) {
    const std::string size = std::to_string(k);
    return run_on("param @w: i8[" + size + ", 2]\ngraph(%x: i8[17, " + size +
                      "]) {\n  %y = aten._int_mm.default(%x, @w) : i32[17, 2]\n  return %y\n}\n",
                  {"check", "--weights", "random:1"});
  };
  const Run refused = run(131072);
  CHECK(refused.status == 1);
  CHECK_MESSAGE(refused.err.find("sums of 131072 products could overflow int32") != std::string::npos, refused.err);
  CHECK(refused.err.find("at most 131071") != std::string::npos);
  const Run taken = run(131071);
  CHECK_MESSAGE(taken.status == 0, taken.err);
}

TEST_CASE("a linear of activations with zero points whose integer sums could overflow is computed as floats") {
  const auto run = [](int k, std::vector<std::string> arguments) {
    const std::string graph = fmt::format(R"(param @w: i8[2, {0}]
param @s: f32[2]
param @z: i64[2]
graph(%x: i8[3, {0}], %scales: f32[3, 1], %zeros: i8[3, 1]) {{
  %a = quantized_decomposed.dequantize_per_token.default(%x, %scales, %zeros, quant_min = -128, quant_max = 127, dtype = i8, output_dtype = f32) : f32[3, {0}]
  %b = quantized_decomposed.dequantize_per_channel.default(@w, @s, @z, axis = 0, quant_min = -128, quant_max = 127, dtype = i8) : f32[2, {0}]
  %y = aten.linear.default(%a, %b) : f32[3, 2]
  return %y
}}
)",
                                          k);
    Run out = run_on(graph, arguments);
    CHECK_MESSAGE(out.status == 0, out.err);
    return out.out;
  };
  CHECK(run(65793, {"explain", "--weights", "random:1"}).find("da8w8") != std::string::npos);
  CHECK(run(65794, {"explain", "--weights", "random:1"}).find("da8w8") == std::string::npos);
  run(65794, {"check", "--weights", "random:1"});
}

TEST_CASE("the extreme of no elements is refused, or not read where only the run knows") {
  const Run refused =
      run_on("graph(%x: i32[4, 0]) {\n  %y = aten.amax.default(%x, dim = [1]) : i32[4]\n  return %y\n}\n", {"check"});
  CHECK(refused.status == 1);
  CHECK_MESSAGE(refused.err.find("no elements") != std::string::npos, refused.err);

  TempDir dir;
  spit(dir / "graph.txt",
       "symbol m in [0, 64]\ngraph(%x: i32[4, m]) {\n  %y = aten.amax.default(%x, dim = [1]) : i32[4]\n  return "
       "%y\n}\n");
  REQUIRE(qcodegen({"compile", dir / "graph.txt", "-o", dir / "g.qcg", "--tune=off"}).status == 0);
  const std::string header = R"({"x":{"dtype":"I32","shape":[4,0],"data_offsets":[0,0]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  spit(dir / "in.safetensors", file + header);
  const Run run = qcodegen({"run", dir / "g.qcg", "--inputs", dir / "in.safetensors"});
  CHECK_MESSAGE(run.status == 0, run.err);
}

TEST_CASE("a graph of more axes than a program describes is refused when it is read") {
  std::string shape = "[";
  for (int i = 0; i < 16; ++i) shape += "1, ";
  shape += "8]";
  const Run run = run_on(
      "graph(%x: f32" + shape + ") {\n  %y = aten.relu.default(%x) : f32" + shape + "\n  return %y\n}\n", {"explain"});
  CHECK(run.status == 1);
  CHECK_MESSAGE(run.err.find("17 axes") != std::string::npos, run.err);
}

// Rows whose first element is above 0, gathered. A size of its own counts them.
TEST_CASE("a size that the run computes") {
  const std::string chosen = R"(symbol m in [1, 64]
symbol u0 in [0, 64]
param @w: f32[5, 3]
graph(%x: f32[m, 3]) {
  %first = aten.select.int(%x, dim = 1, index = 0) : f32[m]
  %mask = aten.gt.Scalar(%first, other = 0) : bool[m]
  %sums = aten.cumsum.default(%mask, dim = 0) : i64[m]
  %count = aten.sum.default(%mask) : i64[]
  qcg.measure(%count, size = u0, most = m)
  %before = aten.sub.Tensor(%sums, other = 1) : i64[m]
  %target = aten.where.ScalarOther(%mask, %before, other = u0) : i64[m]
  %none = aten.full.default(size = [u0+1], fill_value = 0, dtype = i64) : i64[u0+1]
  %all = aten.arange.default(end = m, dtype = i64) : i64[m]
  %written = aten.scatter.src(%none, 0, %target, %all) : i64[u0+1]
  %places = aten.slice.Tensor(%written, dim = 0, start = 0, end = u0) : i64[u0]
  %rows = aten.index_select.default(%x, 0, %places) : f32[u0, 3]
)";
  check_passes(chosen + R"(  %h = aten.linear.default(%rows, @w) : f32[u0, 5]
  %y = aten.sum.dim_IntList(%h, dim = [0]) : f32[5]
  return %y
}
)",
               {"--m", "1,5,40"});
  TempDir dir;
  spit(dir / "graph.txt", chosen + "  %y = aten.sum.dim_IntList(%rows, dim = [0]) : f32[3]\n  return %y\n}\n");
  REQUIRE(
      qcodegen({"compile", dir / "graph.txt", "-o", dir / "out.qcg", "--tune=off", "--weights", "random:1"}).status ==
      0);
  const Run inspected = qcodegen({"inspect", dir / "out.qcg"});
  CHECK_MESSAGE(inspected.out.find("0 to 64, computed by each run") != std::string::npos, inspected.out);
  // Nobody chooses it, and what is said of trials names only what was chosen.
  const json verified = json::parse(slurp(dir / "out.qcg/report.json"))["verified"];
  CHECK(verified["trials"] == json::array({"m = 2"}));
  CHECK(verified["checked"] == json::array({1}));
  const Run sized = qcodegen({"bench", dir / "out.qcg", "--whole", "--sizes", "u0=1"});
  CHECK(sized.status == 2);
  CHECK_MESSAGE(sized.err.find("u0 is computed by each run") != std::string::npos, sized.err);
  // The caller gives memory for outputs before the run.
  const Run returned = run_on(chosen + "  return %rows\n}\n", {"compile", "-o", "out.qcg", "--weights", "random:1"});
  CHECK(returned.status == 1);
  CHECK(returned.err.find("its size u0 depends on the data") != std::string::npos);
}

TEST_CASE("sums of exponentials and powers of integers, which leave the range of f32 where the integers are large") {
  check_passes(R"(symbol m in [1, 64]
graph(%x: f32[m, 6], %g: f32[m, 1], %p: i64[6]) {
  %f = aten.mul.Tensor(%g, %p) : f32[m, 6]
  %e = aten.exp.default(%f) : f32[m, 6]
  %d = aten.mul.Tensor(%e, %x) : f32[m, 6]
  %a = aten.sum.dim_IntList(%d, dim = [1]) : f32[m]
  %h = aten.pow.Tensor_Tensor(%g, %p) : f32[m, 6]
  %k = aten.mul.Tensor(%h, %x) : f32[m, 6]
  %b = aten.mean.dim(%k, dim = [1]) : f32[m]
  return %a, %b
}
)",
               {"--m", "1,5"});
}

TEST_CASE("sums of integers in a narrower dtype wrap, and are truth values in a boolean one") {
  check_passes(R"(symbol m in [1, 64]
graph(%x: i64[m, 300]) {
  %a = aten.sum.dim_IntList(%x, dim = [1], dtype = u8) : u8[m]
  %b = aten.sum.dim_IntList(%x, dim = [1], dtype = bool) : bool[m]
  %c = aten.sum.dim_IntList(%x, dim = [1], dtype = i8) : i8[m]
  return %a, %b, %c
}
)",
               {"--m", "1,5"});
}
