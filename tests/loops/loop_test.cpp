// Pointwise loops: every function, every dtype, broadcasts, strides of any kind, moves, and the ends of buffers.
#include "codegen/kernel/render_template.h"
#include "graph/ir/tensor.h"
#include "loops_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// One tensor of a loop: its strides in elements, and memory that ends or begins at a page that traps.
struct Side {
  DType dtype;
  std::vector<int64_t> strides;
};

int64_t span_of(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
  int64_t last = 0;
  for (size_t a = 0; a < extents.size(); ++a) {
    if (extents[a] == 0) return 0;
    last += (extents[a] - 1) * strides[a];
  }
  return last + 1;
}

int64_t offset_of(int64_t index, const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t a = extents.size(); a-- > 0;) {
    offset += index % extents[a] * strides[a];
    index /= extents[a];
  }
  return offset;
}

struct LoopCase {
  LoopProblem problem;
  std::vector<std::vector<int64_t>> extents;  // every shape to run at
  std::function<std::vector<std::vector<int64_t>>(const std::vector<int64_t>& extents)> strides;  // operands, outputs
};

Expr in(int i) { return Expr::in(i); }

std::vector<int64_t> dense(const std::vector<int64_t>& e) {
  std::vector<int64_t> s(e.size(), 1);
  for (size_t a = e.size(); a-- > 1;) s[a - 1] = s[a] * e[a];
  return s;
}

const std::vector<std::vector<int64_t>> kRows = {{0, 5},  {3, 0},  {1, 1},    {2, 7},    {3, 8},
                                                 {5, 17}, {7, 33}, {2, 4096}, {2, 4099}, {1300, 3}};

std::vector<LoopCase> make_cases() {
  std::vector<LoopCase> cases;
  auto all_dense = [](size_t n) { return [n](const std::vector<int64_t>& e) { return std::vector(n, dense(e)); }; };

  LoopCase gate{{2,
                 {DType::bf16, DType::f32},
                 {1, 1},
                 {DType::bf16},
                 {Expr::call("mul", {Expr::call("silu", {in(0)}), in(1)})},
                 "a\nb\\"},
                kRows,
                all_dense(3)};
  cases.push_back(gate);

  // A row vector, a column vector, a scalar and a strided operand; the output is strided too.
  LoopCase broadcast;
  broadcast.problem = {3,
                       {DType::f32, DType::f16, DType::f32, DType::bf16},
                       {1, 0, 0, -1},
                       {DType::f32},
                       {Expr::call("add", {Expr::call("sub", {Expr::call("mul", {in(0), in(1)}), in(2)}), in(3)})},
                       ""};
  broadcast.extents = {{2, 3, 5}, {1, 4, 16}, {3, 2, 35}, {2, 1, 1}};
  broadcast.strides = [](const std::vector<int64_t>& e) {
    return std::vector<std::vector<int64_t>>{
        {0, 0, 1}, {e[1], 1, 0}, {0, 0, 0}, {e[1] * e[2] * 3, e[2] * 3, 3}, {e[1] * e[2] * 2, e[2] * 2, 2}};
  };
  cases.push_back(broadcast);

  // Transposes as moves: the bytes stay, whatever the dtype.
  LoopCase move{{2, {DType::i64, DType::f8e4m3}, {-1, -1}, {DType::i64, DType::f8e4m3}, {in(0), in(1)}, ""},
                {{3, 4}, {1, 9}, {33, 17}},
                {}};
  move.strides = [](const std::vector<int64_t>& e) {
    return std::vector<std::vector<int64_t>>{{1, e[0]}, {1, e[0]}, {e[1], 1}, {e[1], 1}};
  };
  cases.push_back(move);

  LoopProblem dtypes{1,
                     {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i8, DType::u8, DType::i16, DType::i32,
                      DType::i64, DType::boolean},
                     {},
                     {},
                     {},
                     ""};
  dtypes.operand_inner_stride.assign(dtypes.operands.size(), 1);
  dtypes.outputs = dtypes.operands;
  for (size_t i = 0; i < dtypes.outputs.size(); ++i)
    dtypes.exprs.push_back(Expr::call("neg", {in(static_cast<int>((i + 1) % dtypes.operands.size()))}));
  cases.push_back({dtypes, {{1}, {16}, {21}}, all_dense(20)});
  return cases;
}

// Small integers every dtype holds, so that integer dtypes can be compared exactly.
double input_value(DType d, std::mt19937& random) {
  if (d == DType::boolean) return random() % 2;
  if (d == DType::u8) return random() % 100;
  if (is_floating(d)) return round_to(d, std::uniform_real_distribution<double>(-4, 4)(random));
  return static_cast<int>(random() % 200) - 100;
}

void run_case(const LoopCase& c, const qcg_kernel& kernel, const std::vector<int64_t>& extents, bool at_end) {
  const auto strides = c.strides(extents);
  const LoopProblem& p = c.problem;
  const size_t operands = p.operands.size(), sides = operands + p.outputs.size();
  auto dtype = [&](size_t i) { return i < operands ? p.operands[i] : p.outputs[i - operands]; };
  int64_t count = 1;
  for (const int64_t e : extents) count *= e;
  std::vector<int64_t> params = extents;
  std::vector<Guarded> memory;
  std::vector<qcg_arg> args;
  std::mt19937 random(5);
  for (size_t i = 0; i < sides; ++i) {
    params.insert(params.end(), strides[i].begin(), strides[i].end());
    const int64_t span = span_of(extents, strides[i]);
    memory.emplace_back(static_cast<size_t>(span) * dtype_bytes(dtype(i)), at_end, 0xa5);
    for (int64_t j = 0; i < operands && j < span; ++j) {
      if (dtype_bytes(dtype(i)) == 1 && !is_floating(dtype(i)))
        set_element(dtype(i), memory[i].data(), j, input_value(dtype(i), random));
      else if (dtype(i) == DType::f8e4m3) memory[i].data()[j] = static_cast<char>(random());
      else if (dtype(i) == DType::i64 && operands == 2) {
        const uint64_t big = (uint64_t{random()} << 32) | random();
        std::memcpy(memory[i].data() + j * 8, &big, 8);
      } else set_element(dtype(i), memory[i].data(), j, input_value(dtype(i), random));
    }
    args.push_back({memory[i].data(), 0});
  }
  run_kernel(kernel, args, params);
  for (size_t o = 0; o < p.outputs.size(); ++o) {
    const size_t side = operands + o;
    const DType d = p.outputs[o];
    for (int64_t e = 0; e < count; ++e) {
      const int64_t at = offset_of(e, extents, strides[side]);
      if (p.exprs[o].kind == ExprKind::in) {
        const size_t from = static_cast<size_t>(p.exprs[o].index);
        const size_t bytes = dtype_bytes(d);
        const char* want = memory[from].data() + static_cast<size_t>(offset_of(e, extents, strides[from])) * bytes;
        REQUIRE(std::memcmp(memory[side].data() + static_cast<size_t>(at) * bytes, want, bytes) == 0);
        continue;
      }
      std::vector<double> ins;
      for (size_t i = 0; i < operands; ++i)
        ins.push_back(get_element(p.operands[i], memory[i].data(), offset_of(e, extents, strides[i])));
      double want = p.exprs[o].evaluate({}, ins);
      if (d == DType::u8) want = static_cast<uint8_t>(static_cast<int64_t>(want));
      else if (d == DType::boolean) want = want != 0;
      else if (!is_floating(d)) want = std::trunc(want);
      const double got = get_element(d, memory[side].data(), at);
      const double tolerance = !is_floating(d) ? 0
                                               : std::fabs(want) * (d == DType::bf16  ? 0x1p-8
                                                                    : d == DType::f16 ? 0x1p-11
                                                                                      : 0x1p-20) +
                                                     1e-6;
      if (!(std::fabs(got - want) <= tolerance)) FAIL("element ", e, " of output ", o, " is ", got, ", not ", want);
    }
    if (count > 0 && extents.size() == 3)
      CHECK(static_cast<unsigned char>(memory[side].data()[4]) ==
            (span_of(extents, strides[side]) > 1 ? 0xa5 : static_cast<unsigned char>(memory[side].data()[4])));
  }
}

}  // namespace

TEST_CASE("loops compute what their expression means, and touch nothing else") {
  const std::vector<LoopCase> cases = make_cases();
  KernelSet kernels;
  struct Run {
    int kernel;
    Isa isa;
    const LoopCase* c;
  };
  std::vector<Run> runs;
  for (const Isa isa : testable_isas())
    for (const LoopCase& c : cases)
      runs.push_back({kernels.add(isa, [&](auto symbol) { return render_loop(c.problem, isa, symbol); }), isa, &c});
  kernels.build();
  for (const Run& run : runs)
    for (const auto& extents : run.c->extents)
      for (const bool at_end : {false, true}) {
        INFO(isa_info(run.isa).name, " ", run.c->problem.signature(), " at ",
             fmt::format("{}", fmt::join(extents, "x")));
        run_case(*run.c, kernels[run.kernel], extents, at_end);
      }
}

TEST_CASE("every function of the expression table, and every cast, in a loop") {
  LoopProblem p{1, {DType::f32, DType::f32, DType::f32}, {1, 1, 1}, {}, {}, ""};
  for (const ExprFunction& f : kExprFunctions) {
    if (f.in == kIntegersAlone) continue;
    std::vector<Expr> args;
    for (int i = 0; i < f.arity; ++i) args.push_back(in(i));
    p.exprs.push_back(Expr::call(f.name, std::move(args)));
  }
  for (const double power : {2.0, 3.0, 0.5, -0.5, -1.0, 1.0, 2.5})
    p.exprs.push_back(Expr::call("pow", {in(0), Expr::number(power)}));
  for (const DType d : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i8, DType::u8, DType::i16, DType::i32,
                        DType::i64, DType::boolean})
    p.exprs.push_back(Expr::cast(d, in(0)));
  for (const double number : {0.0, -1.5, 1e-30, 3e38, 0.1})
    p.exprs.push_back(Expr::call("add", {in(0), Expr::number(number)}));
  p.outputs.assign(p.exprs.size(), DType::f32);
  KernelSet kernels;
  std::vector<std::pair<Isa, int>> runs;
  for (const Isa isa : testable_isas())
    runs.push_back({isa, kernels.add(isa, [&](auto symbol) { return render_loop(p, isa, symbol); })});
  kernels.build();
  constexpr int kN = 533;
  std::vector<std::vector<float>> x(3, std::vector<float>(kN)), y(p.exprs.size(), std::vector<float>(kN));
  std::mt19937 random(6);
  for (int i = 0; i < kN; ++i)
    x[0][i] = std::uniform_real_distribution<float>(0.1f, 8)(random),
    x[1][i] = std::uniform_real_distribution<float>(-3, 1)(random),
    x[2][i] = std::uniform_real_distribution<float>(1, 4)(random);
  std::vector<qcg_arg> args;
  for (auto& v : x) args.push_back({v.data(), 0});
  for (auto& v : y) args.push_back({v.data(), 0});
  std::vector<int64_t> params = {kN};
  params.insert(params.end(), args.size(), 1);
  for (const auto& [isa, kernel] : runs) {
    run_kernel(kernels[kernel], args, params);
    for (size_t o = 0; o < p.exprs.size(); ++o) {
      INFO(isa_info(isa).name, " ", p.exprs[o].str());
      for (int i = 0; i < kN; ++i) {
        const double ins[] = {x[0][i], x[1][i], x[2][i]};
        const double want = p.exprs[o].evaluate({}, ins);
        const bool outside = std::isnan(want) && std::isnan(y[o][i]);  // erfinv of 2
        if (!outside && !(std::fabs(y[o][i] - want) <= 4e-7 * std::fabs(want) + 1e-7))
          FAIL("at ", x[0][i], ", ", x[1][i], " gave ", y[o][i], ", not ", want);
      }
    }
  }
}

TEST_CASE("a quantization in a loop rounds half to even and saturates") {
  auto quantized = [](double inverse, double zero, double low, double high) {
    Expr q = Expr::call("round_even", {Expr::call("mul", {in(0), Expr::number(inverse)})});
    return Expr::call("clamp",
                      {Expr::call("add", {std::move(q), Expr::number(zero)}), Expr::number(low), Expr::number(high)});
  };
  LoopProblem p{1, {DType::f32}, {1}, {DType::i8, DType::u8, DType::u8}, {}, ""};
  p.exprs = {Expr::cast(DType::i8, quantized(2, -3, -128, 127)), quantized(0.5, 120, 0, 255),
             Expr::cast(DType::u8, quantized(1, 0, 3, 9))};
  std::vector<float> x = {0.25f,    0.75f,     1.25f, -0.25f, -0.75f, 1,   3,      5,   1e9f,  -1e9f,
                          INFINITY, -INFINITY, 3e38f, -0.0f,  64,     -64, 63.75f, 255, 1e-40f};
  for (int i = -300; i <= 300; ++i) x.push_back(static_cast<float>(i) * 0.5f);
  const size_t n = x.size();
  KernelSet kernels;
  std::vector<std::pair<Isa, int>> runs;
  for (const Isa isa : testable_isas())
    runs.push_back({isa, kernels.add(isa, [&](auto symbol) { return render_loop(p, isa, symbol); })});
  kernels.build();
  for (const auto& [isa, kernel] : runs) {
    std::vector<std::vector<uint8_t>> y(3, std::vector<uint8_t>(n));
    run_kernel(kernels[kernel], {{x.data(), 0}, {y[0].data(), 0}, {y[1].data(), 0}, {y[2].data(), 0}},
               {static_cast<int64_t>(n), 1, 1, 1, 1});
    for (size_t o = 0; o < 3; ++o)
      for (size_t i = 0; i < n; ++i) {
        const double ins[] = {x[i]};
        INFO(isa_info(isa).name, " output ", o, " of ", x[i]);
        CHECK(y[o][i] == static_cast<uint8_t>(static_cast<int>(p.exprs[o].evaluate({}, ins))));
      }
  }
}

TEST_CASE("loops over integers are exact and wrap") {
  LoopProblem p{2, {DType::i32, DType::i64, DType::i32, DType::i8}, {1, 1, 0, -1}, {}, {}, "", DType::i64};
  for (const char* text : {"add(in0, in2)",
                           "sub(in1, mul(3, in0))",
                           "mul(in0, in0)",
                           "cast_i8(mul(in1, in3))",
                           "clamp(in0, -5, 16777217)",
                           "max(in0, in2)",
                           "min(neg(in1), abs(in3))",
                           "where(gt(in0, in2), in1, relu(in3))",
                           "cast_u8(add(in3, 128))",
                           "in1",
                           "floor_div(in1, in3)",
                           "trunc_div(in0, in3)",
                           "mod(in1, in2)",
                           "bit_and(in0, in2)",
                           "bit_or(in0, in3)",
                           "bit_xor(in1, in3)",
                           "shift_left(in1, in3)",
                           "shift_right(in1, in3)",
                           "gcd(in1, in3)",
                           "gcd(in0, mul(6, in3))",
                           "shift_right(in0, mod(in1, 64))",
                           "cast_i32(shift_left(in0, mod(in1, 64)))"})
    p.exprs.push_back(*Expr::parse(text));
  p.outputs = {DType::i32, DType::i64,     DType::i32, DType::i64, DType::i32, DType::i64, DType::i64, DType::i32,
               DType::i16, DType::boolean, DType::i64, DType::i32, DType::i64, DType::i32, DType::i32, DType::i64,
               DType::i64, DType::i64,     DType::i64, DType::i32, DType::i32, DType::i64};
  constexpr int64_t kRows = 3, kN = 61;
  std::mt19937_64 random(9);
  std::vector<std::vector<int64_t>> values(4, std::vector<int64_t>(kRows * kN));
  for (size_t k = 0; k < 4; ++k)
    for (int64_t& v : values[k]) {
      std::byte element[8];
      int_to_element(p.operands[k], random() % 4 == 0 ? 0 : static_cast<int64_t>(random()), element);
      v = element_to_int(p.operands[k], element);
    }
  auto store = [](DType d, const std::vector<int64_t>& from) {
    std::vector<char> bytes(from.size() * dtype_bytes(d));
    for (size_t i = 0; i < from.size(); ++i)
      int_to_element(d, from[i], reinterpret_cast<std::byte*>(bytes.data()) + i * dtype_bytes(d));
    return bytes;
  };
  KernelSet kernels;
  std::vector<std::pair<Isa, int>> runs;
  for (const Isa isa : testable_isas())
    runs.push_back({isa, kernels.add(isa, [&](auto symbol) { return render_loop(p, isa, symbol); })});
  kernels.build();
  for (const auto& [isa, kernel] : runs) {
    std::vector<std::vector<char>> memory;
    std::vector<qcg_arg> args;
    std::vector<int64_t> params = {kRows, kN, kN, 1, kN, 1, 1, 0, 1, kRows};  // in2: one per row; in3: transposed
    for (size_t k = 0; k < 4; ++k) memory.push_back(store(p.operands[k], values[k]));
    for (DType d : p.outputs) {
      memory.push_back(std::vector<char>(kRows * kN * dtype_bytes(d)));
      params.insert(params.end(), {kN, 1});
    }
    for (auto& bytes : memory) args.push_back({bytes.data(), 0});
    run_kernel(kernels[kernel], args, params);
    for (size_t o = 0; o < p.outputs.size(); ++o)
      for (int64_t i = 0; i < kRows * kN; ++i) {
        const int64_t ins[] = {values[0][i], values[1][i], values[2][i / kN], values[3][i % kN * kRows + i / kN]};
        const size_t bytes = dtype_bytes(p.outputs[o]);
        std::byte want[8];
        int_to_element(
            p.outputs[o],
            p.outputs[o] == DType::boolean ? p.exprs[o].evaluate_integers(ins) != 0 : p.exprs[o].evaluate_integers(ins),
            want);
        INFO(isa_info(isa).name, " ", p.exprs[o].str(), " at ", i);
        CHECK(std::memcmp(memory[4 + o].data() + static_cast<size_t>(i) * bytes, want, bytes) == 0);
      }
  }
}

TEST_CASE("loops of f64: every function, casts, numbers, and dtypes beside it") {
  LoopProblem p{1,
                {DType::f64, DType::f64, DType::f64, DType::i64, DType::f32, DType::bf16, DType::boolean},
                {1, -1, 0, 1, 1, 1, 1},
                {},
                {},
                "",
                DType::f64};
  for (const ExprFunction& f : kExprFunctions) {
    if (f.in != ExprFunction::In::floats) continue;
    std::vector<Expr> args;
    for (int i = 0; i < f.arity; ++i) args.push_back(in(i));
    p.exprs.push_back(Expr::call(f.name, std::move(args)));
  }
  for (const double power : {2.0, 3.0, 0.5, -0.5, -1.0, 1.0, 2.5})
    p.exprs.push_back(Expr::call("pow", {in(0), Expr::number(power)}));
  for (const DType d :
       {DType::f32, DType::f64, DType::i8, DType::u8, DType::i16, DType::i32, DType::i64, DType::boolean})
    p.exprs.push_back(Expr::cast(d, in(0)));
  for (const double number : {0.0, -1.5, 1e-300, 3e200, 0.1, 1700000000.25, static_cast<double>(INFINITY)})
    p.exprs.push_back(Expr::call("add", {in(0), Expr::number(number)}));
  for (int i = 3; i < 7; ++i) p.exprs.push_back(Expr::call("sub", {in(i), in(1)}));
  p.outputs.assign(p.exprs.size(), DType::f64);
  for (const DType d : {DType::f32, DType::bf16, DType::i64, DType::i16, DType::boolean}) {
    p.exprs.push_back(Expr::call("sub", {in(3), in(1)}));
    if (!is_floating(d)) p.exprs.back() = Expr::cast(d, p.exprs.back());
    p.outputs.push_back(d);
  }
  KernelSet kernels;
  std::vector<std::pair<Isa, int>> runs;
  for (const Isa isa : testable_isas())
    runs.push_back({isa, kernels.add(isa, [&](auto symbol) { return render_loop(p, isa, symbol); })});
  kernels.build();
  constexpr size_t kN = 41, kStride = 3;
  std::vector<std::vector<char>> memory;
  std::mt19937_64 random(6);
  for (size_t k = 0; k < p.operands.size(); ++k) {
    const DType d = p.operands[k];
    memory.emplace_back(kN * kStride * dtype_bytes(d));
    for (size_t i = 0; i < kN * kStride; ++i) {
      std::byte* at = reinterpret_cast<std::byte*>(memory[k].data()) + i * dtype_bytes(d);
      if (d == DType::i64) int_to_element(d, 1700000000123 + static_cast<int64_t>(random() % 1000), at);
      else
        double_to_element(d,
                          k == 0 ? std::uniform_real_distribution(0.1, 8.0)(random)
                                 : std::uniform_real_distribution(-3.0, 3.0)(random),
                          at);
    }
  }
  for (const DType d : p.outputs) memory.emplace_back(kN * dtype_bytes(d));
  std::vector<qcg_arg> args;
  for (auto& bytes : memory) args.push_back({bytes.data(), 0});
  std::vector<int64_t> params = {kN, 1, kStride, 0, 1, 1, 1, 1};
  params.insert(params.end(), p.outputs.size(), 1);
  const auto element = [&](size_t k, size_t i) {
    const DType d = k < p.operands.size() ? p.operands[k] : p.outputs[k - p.operands.size()];
    return element_to_double(d, reinterpret_cast<const std::byte*>(memory[k].data()) + i * dtype_bytes(d));
  };
  for (const auto& [isa, kernel] : runs) {
    run_kernel(kernels[kernel], args, params);
    for (size_t o = 0; o < p.exprs.size(); ++o)
      for (size_t i = 0; i < kN; ++i) {
        const double ins[] = {element(0, i), element(1, kStride * i), element(2, 0), element(3, i),
                              element(4, i), element(5, i),           element(6, i)};
        const double exact = p.exprs[o].evaluate({}, ins);
        const double want = p.outputs[o] == DType::f64 ? exact : round_to_dtype(p.outputs[o], exact);
        const double got = element(p.operands.size() + o, i);
        INFO(isa_info(isa).name, " ", p.exprs[o].str(), " at ", i);
        CHECK(
            (got == want || (std::isnan(got) && std::isnan(want)) || std::fabs(got - want) <= 1e-14 * std::fabs(want)));
      }
  }
}

TEST_CASE(
    "positions and sizes are numbers of a loop, exact to 2^24 in f32, to 2^53 in f64 and to 64 bits in integers") {
  // pos0 along the rows, pos1 along the columns, pos2 along both and backwards.
  const std::vector<int64_t> strides = {1, 0, 0, 1, 3, -2};
  constexpr int64_t kRows = 5, kN = 131;
  for (const DType arithmetic : {DType::f32, DType::f64, DType::i64}) {
    const bool integers = arithmetic == DType::i64;
    LoopProblem p{2, {}, {}, {}, {}, "", arithmetic, {0, 1, -1}, 2};
    for (const char* text :
         {"add(mul(3, pos1), pos0)", "sub(pos2, size1)", "ge(pos0, add(pos1, -2))", "mul(size0, pos1)"})
      p.exprs.push_back(*Expr::parse(text));
    p.outputs = integers                   ? std::vector<DType>{DType::i64, DType::i32, DType::boolean, DType::i64}
                : arithmetic == DType::f64 ? std::vector<DType>{DType::f64, DType::f32, DType::boolean, DType::f64}
                                           : std::vector<DType>{DType::f32, DType::f32, DType::boolean, DType::f16};
    const int64_t most = arithmetic == DType::f32 ? 12 : (int64_t{1} << (integers ? 60 : 40)) + 1;
    const std::vector<int64_t> sizes = {most, 7};
    KernelSet kernels;
    std::vector<std::pair<Isa, int>> runs;
    for (const Isa isa : testable_isas())
      runs.push_back({isa, kernels.add(isa, [&](auto symbol) { return render_loop(p, isa, symbol); })});
    kernels.build();
    for (const auto& [isa, kernel] : runs) {
      std::vector<std::vector<char>> memory;
      std::vector<qcg_arg> args;
      std::vector<int64_t> params = {kRows, kN};
      for (const DType d : p.outputs) {
        memory.emplace_back(kRows * kN * dtype_bytes(d));
        params.insert(params.end(), {kN, 1});
      }
      for (auto& bytes : memory) args.push_back({bytes.data(), 0});
      params.insert(params.end(), strides.begin(), strides.end());
      params.insert(params.end(), sizes.begin(), sizes.end());
      run_kernel(kernels[kernel], args, params);
      for (size_t o = 0; o < p.outputs.size(); ++o)
        for (int64_t row = 0; row < kRows; ++row)
          for (int64_t i = 0; i < kN; ++i) {
            const std::vector<int64_t> ins = {row, i, 3 * row - 2 * i, sizes[0], sizes[1]};
            const Expr e = p.exprs[o].as_inputs(0, 3);
            const auto* got = reinterpret_cast<const std::byte*>(memory[o].data()) +
                              static_cast<size_t>(row * kN + i) * dtype_bytes(p.outputs[o]);
            INFO(isa_info(isa).name, " ", p.exprs[o].str(), " at ", row, ", ", i);
            if (integers) CHECK(element_to_int(p.outputs[o], got) == e.evaluate_integers(ins));
            else CHECK(element_to_double(p.outputs[o], got) == static_cast<double>(e.evaluate_integers(ins)));
          }
    }
  }
}

TEST_CASE("loops refuse dtypes they cannot compute with, and names from files stay in comments") {
  LoopProblem p{1, {DType::u64}, {1}, {DType::f32}, {Expr::call("neg", {in(0)})}, "evil\n#error\\"};
  CHECK(render_loop(p, Isa::portable, "k").error().code == ErrorCode::Unsupported);
  p.operands = {DType::f32};
  auto with = render_loop(p, Isa::portable, "k");
  REQUIRE(with.ok());
  p.comment = "quiet";
  auto without = render_loop(p, Isa::portable, "k");
  REQUIRE(without.ok());
  auto code = [](std::string text) { return text.substr(text.find("#include")); };
  CHECK(code(*with) == code(*without));
  CHECK(sanitize_comment("a\nb\\\\ ") == "a?b");
  CHECK(sanitize_comment("\xff tab\t") == "? tab?");
}
