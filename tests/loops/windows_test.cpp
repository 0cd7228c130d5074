// Windows against their definition in double: odd extents, padding wider than the image, gaps between rows, no images.
#include "loops_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

struct Image {
  int64_t batch, height, width, channels;
  int64_t gap = 0;  // elements between pixels

  bool channels_first = false;  // without gaps

  std::vector<int64_t> strides() const {
    if (channels_first) return {channels * height * width, width, 1, height * width};
    const int64_t pixel = channels + gap;
    return {height * width * pixel, width * pixel, pixel, 1};
  }
  int64_t span() const {
    return batch * height * width * channels == 0 ? 0 : batch * height * width * (channels + gap) - gap;
  }
  int64_t at(int64_t b, int64_t h, int64_t w, int64_t c) const {
    const std::vector<int64_t> s = strides();
    return b * s[0] + h * s[1] + w * s[2] + c * s[3];
  }
};

int64_t places(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t before) {
  return std::max<int64_t>((size + 2 * before - dilation * (kernel - 1) - 1) / stride + 1, 0);
}

Guarded random_numbers(DType d, int64_t n, bool at_end, std::mt19937& random) {
  Guarded out(static_cast<size_t>(n) * dtype_bytes(d), at_end);
  for (int64_t i = 0; i < n; ++i)
    set_element(d, out.data(), i, round_to(d, std::uniform_real_distribution<double>(-2, 3)(random)));
  return out;
}

void check(const qcg_kernel& kernel, const WindowProblem& p, const Image& image, int64_t gap, bool at_end) {
  std::mt19937 random(11);
  const Image out{image.batch, places(image.height, p.kernel[0], p.stride[0], p.dilation[0], p.before[0]),
                  places(image.width, p.kernel[1], p.stride[1], p.dilation[1], p.before[1]),
                  image.channels / p.inputs * p.outputs, gap};
  Guarded x = random_numbers(p.input, image.span(), at_end, random);
  Guarded w = random_numbers(p.weight, p.terms() * out.channels, at_end, random);
  Guarded y(static_cast<size_t>(out.span()) * dtype_bytes(p.output), at_end, 0x5a);
  std::vector<int64_t> params = {image.batch, image.height, image.width, out.channels, out.height, out.width};
  const std::vector<int64_t> from = image.strides(), to = out.strides();
  params.insert(params.end(), from.begin(), from.end());
  params.insert(params.end(), to.begin(), to.begin() + 3);
  params.push_back(image.channels);
  std::vector<qcg_arg> args = {{x.data(), 0}};
  if (p.has_weight()) args.push_back({w.data(), 0});
  // The first operand has the shape of the result; others have one number for each channel, or one for each place.
  std::vector<Guarded> operands;
  std::vector<std::array<int64_t, 4>> strides;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const bool whole = i == 0, repeated = p.operand_inner_stride[i] == 0;
    const Image own{out.batch, out.height, out.width, repeated ? 1 : out.channels};
    const std::vector<int64_t> s = own.strides();
    strides.push_back(whole || repeated ? std::array{s[0], s[1], s[2], int64_t{!repeated}}
                                        : std::array<int64_t, 4>{0, 0, 0, 1});
    operands.push_back(random_numbers(p.operands[i], whole || repeated ? own.span() : out.channels, at_end, random));
    args.push_back({operands.back().data(), 0});
    params.insert(params.end(), strides.back().begin(), strides.back().begin() + 3);
  }
  args.push_back({y.data(), 0});
  run_kernel(kernel, args, params);
  const auto finished = [&](double sum, int64_t b, int64_t h, int64_t q, int64_t c) {
    std::vector<double> ins;
    for (size_t i = 0; i < operands.size(); ++i)
      ins.push_back(get_element(p.operands[i], operands[i].data(),
                                b * strides[i][0] + h * strides[i][1] + q * strides[i][2] + c * strides[i][3]));
    return p.epilogue ? p.epilogue->evaluate(std::array{sum}, ins) : sum;
  };
  const double unit = p.output == DType::bf16 ? 0x1p-8 : p.output == DType::f16 ? 0x1p-11 : 0x1p-24;
  for (int64_t b = 0; b < out.batch; ++b)
    for (int64_t h = 0; h < out.height; ++h)
      for (int64_t q = 0; q < out.width; ++q)
        for (int64_t c = 0; c < out.channels; ++c) {
          double sum = 0, magnitude = 0, most = -INFINITY;
          for (int64_t i = 0; i < p.kernel[0]; ++i)
            for (int64_t j = 0; j < p.kernel[1]; ++j) {
              const int64_t from_h = h * p.stride[0] - p.before[0] + i * p.dilation[0];
              const int64_t from_w = q * p.stride[1] - p.before[1] + j * p.dilation[1];
              if (from_h < 0 || from_h >= image.height || from_w < 0 || from_w >= image.width) continue;
              for (int64_t k = 0; k < p.inputs; ++k) {
                const int64_t tap = (i * p.kernel[1] + j) * p.inputs + k;
                double v = get_element(p.input, x.data(), image.at(b, from_h, from_w, c / p.outputs * p.inputs + k));
                if (p.has_weight()) v *= get_element(p.weight, w.data(), tap * out.channels + c);
                sum += v, magnitude += std::fabs(v), most = std::max(most, v);
              }
            }
          const double want = finished(p.op == "max" ? most : sum, b, h, q, c);
          const double bound = p.op == "max" ? 0 : magnitude * static_cast<double>(p.terms()) * 0x1p-24;
          const double got = get_element(p.output, y.data(), out.at(b, h, q, c));
          if (!(got == want || std::fabs(got - want) <= bound + unit * std::fabs(want)))
            FAIL("[", b, ", ", h, ", ", q, ", ", c, "] is ", got, ", not ", want);
        }
  if (gap > 0 && out.span() > 0 && out.batch * out.height * out.width > 1) {  // nothing between the pixels
    const unsigned char* first =
        reinterpret_cast<const unsigned char*>(y.data()) + out.channels * static_cast<int64_t>(dtype_bytes(p.output));
    CHECK(*first == 0x5a);
  }
}

}  // namespace

TEST_CASE("windows over two axes, channels around the vector, borders of all kinds") {
  const WindowProblem problems[] = {
      {.op = "product", .kernel = {3, 3}, .stride = {1, 1}, .before = {1, 1}},
      {.op = "product", .kernel = {5, 5}, .stride = {2, 2}, .before = {2, 2}},
      {.op = "product", .kernel = {2, 3}, .stride = {3, 1}, .dilation = {1, 2}, .before = {0, 3}},
      {.op = "product",
       .input = DType::bf16,
       .weight = DType::f32,
       .output = DType::bf16,
       .kernel = {1, 7},
       .before = {0, 3}},
      {.op = "product", .kernel = {3, 3}, .before = {1, 1}, .inputs = 4, .outputs = 4},
      {.op = "product", .kernel = {3, 3}, .stride = {2, 2}, .before = {1, 1}, .inputs = 1, .outputs = 3},
      {.op = "product", .kernel = {1, 17}, .before = {0, 8}, .inputs = 40, .outputs = 37},
      {.op = "product",
       .input = DType::bf16,
       .weight = DType::bf16,
       .output = DType::bf16,
       .kernel = {2, 2},
       .dilation = {1, 2},
       .inputs = 20,
       .outputs = 24},
      {.op = "product", .input = DType::f16, .weight = DType::f32, .output = DType::f16, .inputs = 8, .outputs = 8},
      {.op = "product", .kernel = {3, 3}, .stride = {2, 2}, .before = {1, 1}, .inputs = 3, .outputs = 40},
      {.op = "product",
       .kernel = {3, 3},
       .before = {1, 1},
       .epilogue = *Expr::parse("relu(add(add(acc0, in1), mul(in0, in2)))"),
       .operands = {DType::f32, DType::bf16, DType::f16},
       .operand_inner_stride = {1, 1, 0}},
      {.op = "sum",
       .kernel = {2, 2},
       .stride = {2, 2},
       .epilogue = *Expr::parse("add(mul(acc0, 0.25), in0)"),
       .operands = {DType::f32},
       .operand_inner_stride = {0}},
      {.op = "max", .kernel = {3, 3}, .stride = {2, 2}, .before = {1, 1}},
      {.op = "max",
       .input = DType::f16,
       .weight = DType::f16,
       .output = DType::f16,
       .kernel = {2, 2},
       .dilation = {2, 2}},
      {.op = "sum",
       .input = DType::bf16,
       .weight = DType::bf16,
       .output = DType::f32,
       .kernel = {2, 2},
       .stride = {2, 2}},
  };
  KernelSet kernels;
  struct Run {
    int kernel;
    Isa isa;
    const WindowProblem* p;
  };
  std::vector<Run> runs;
  for (const Isa isa : testable_isas())
    for (const WindowProblem& p : problems)
      runs.push_back({kernels.add(isa, [&](auto symbol) { return render_windows(p, isa, symbol); }), isa, &p});
  kernels.build();
  const Image images[] = {{1, 7, 9, 1}, {2, 5, 5, 16},  {1, 6, 21, 37, 3}, {3, 4, 4, 7, 1},   {0, 5, 5, 8},
                          {1, 5, 5, 0}, {1, 3, 5, 200}, {1, 3, 23, 40},    {1, 4, 13, 80, 5}, {2, 5, 19, 6, 0, true}};
  for (const Run& run : runs)
    for (const Image& image : images)
      for (const bool at_end : {false, true}) {
        if (image.channels % run.p->inputs != 0) continue;
        if (image.channels_first && !run.p->reads_elements()) continue;
        INFO(isa_info(run.isa).name, " ", run.p->signature(), " ", image.batch, "x", image.height, "x", image.width,
             "x", image.channels);
        check(kernels[run.kernel], *run.p, image, at_end ? 0 : 2, at_end);
      }
}

TEST_CASE("a maximum with NaN in its window is NaN, and windows refuse integers") {
  const WindowProblem p{.op = "max", .kernel = {2, 2}, .stride = {1, 1}};
  KernelSet kernels;
  std::vector<int> all;
  for (const Isa isa : testable_isas())
    all.push_back(kernels.add(isa, [&](auto symbol) { return render_windows(p, isa, symbol); }));
  kernels.build();
  for (const int kernel : all) {
    float x[3 * 3] = {1, 2, 3, 4, 5, 6, 7, 8, NAN}, y[4] = {};
    run_kernel(kernels[kernel], {{reinterpret_cast<char*>(x), 0}, {reinterpret_cast<char*>(y), 0}},
               {1, 3, 3, 1, 2, 2, 9, 3, 1, 1, 4, 2, 1, 1});
    CHECK(y[0] == 5);
    CHECK(y[1] == 6);
    CHECK(y[2] == 8);
    CHECK(std::isnan(y[3]));
  }
  CHECK(!render_windows({.op = "max", .input = DType::i8}, Isa::portable, "f").ok());
}
