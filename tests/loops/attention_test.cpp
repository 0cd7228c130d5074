// Attention against its definition in double: shapes around the tiles, masks of all kinds, heads that share key and
// value, rows that see nothing, memory that ends at a page that traps.
#include "codegen/attention/attention.h"

#include "loops_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

using Problem = AttentionProblem;

// AMX is the only one whose attention differs from that of the instructions that it contains.
std::vector<Isa> attention_isas() {
  std::vector<Isa> isas = testable_isas();
  if (const std::string why = why_isa_unavailable(Isa::amx); why.empty() || emulates_amx()) isas.push_back(Isa::amx);
  else MESSAGE("skipped: amx: ", why);
  return isas;
}

Expr expr(std::string_view text) {
  auto e = Expr::parse(text);
  REQUIRE(e.ok());
  return std::move(*e);
}

struct Case {
  Problem problem;
  std::string_view kind;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    const DType f32 = DType::f32, bf16 = DType::bf16, f16 = DType::f16;
    const auto problem = [](DType d, int64_t size, int64_t value_size, int64_t group, std::string_view score,
                            std::string_view mask, EmptyRow empty, std::vector<Problem::Operand> operands) {
      Problem p{.query = d,
                .key = d,
                .value = d,
                .output = d,
                .size = size,
                .value_size = value_size,
                .group = group,
                .score = expr(score),
                .mask = {},
                .empty = empty,
                .operands = std::move(operands),
                .sizes = 0,
                .comment = ""};
      if (!mask.empty()) p.mask = expr(mask);
      return p;
    };
    const Problem::Operand seen{DType::boolean, 1, false}, by_head{DType::boolean, -1, true}, bias{f32, 1, true},
        positions{DType::i64, 0, false}, half{f16, 0, true};
    return std::vector<Case>{
        {problem(f32, 64, 64, 1, "mul(acc0, 0.125)", "", EmptyRow::zero, {}), "none"},
        {problem(f32, 64, 64, 1, "mul(acc0, 0.125)", "ge(pos2, pos3)", EmptyRow::zero, {}), "causal"},
        {problem(f32, 10, 7, 3, "mul(acc0, 0.3)", "in0", EmptyRow::zero, {seen}), "seen"},
        {problem(bf16, 80, 40, 4, "mul(acc0, 0.1)", "in0", EmptyRow::nan, {by_head}), "seen by head"},
        {problem(bf16, 37, 70, 2, "mul(acc0, 0.15)", "ge(pos2, pos3)", EmptyRow::zero, {}), "pairs and one left over"},
        {problem(bf16, 64, 64, 4, "mul(acc0, 0.125)", "ge(pos2, pos3)", EmptyRow::zero, {}), "causal pairs"},
        {problem(bf16, 128, 16, 1, "mul(acc0, 0.09)", "", EmptyRow::zero, {}), "one tile of value"},
        {problem(f16, 16, 16, 1, "add(mul(acc0, 0.2), in0)", "", EmptyRow::nan, {bias}), "bias"},
        {problem(f32, 33, 130, 5, "mul(5, tanh(mul(acc0, 0.2)))", "ge(in0, pos3)", EmptyRow::mean, {positions}),
         "positions"},
        {problem(f32, 8, 8, 20, "sub(acc0, mul(in0, pos3))", "gt(in0, mul(0.01, pos3))", EmptyRow::mean, {half}),
         "slopes"},
    };
  }();
  return all;
}

// A tensor [batch, heads, rows, columns] whose rows lie `gap` elements further apart than they are long.
struct Block {
  DType dtype;
  std::array<int64_t, 4> shape, strides;
  Guarded memory;

  double at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return get_element(dtype, memory.data(), b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3]);
  }
};

Block random_block(DType d, std::array<int64_t, 4> shape, int64_t gap, bool at_end, std::mt19937& random) {
  const int64_t row = shape[3] + gap;
  const std::array<int64_t, 4> strides = {shape[1] * shape[2] * row, shape[2] * row, row, 1};
  const int64_t count = std::max<int64_t>(0, shape[0] * strides[0] - gap);
  Block out{d, shape, strides, Guarded(static_cast<size_t>(count) * dtype_bytes(d), at_end)};
  for (int64_t i = 0; i < count; ++i) {
    const double v = std::uniform_real_distribution<double>(-1, 1)(random);
    set_element(d, out.memory.data(), i,
                d == DType::boolean ? v > 0.4
                : d == DType::i64   ? std::round(v * 150 + 100)
                                    : round_to(d, v));
  }
  return out;
}

// All items at once, or one by one and the last first: a kernel may not care.
void run_phases(const qcg_kernel& kernel, const std::vector<qcg_arg>& args, const std::vector<int64_t>& params,
                bool at_once = false) {
  qcg_call call = {args.data(), params.data(), nullptr, nullptr};
  Guarded shared(static_cast<size_t>(kernel.shared_bytes(&call)), true);
  Guarded scratch(static_cast<size_t>(kernel.scratch_bytes(&call) + 63) / 64 * 64, true);
  call.shared = shared.data();
  for (uint32_t phase = 0; phase < kernel.phases; ++phase) {
    const int64_t items = kernel.items(&call, phase);
    if (at_once && items > 0) kernel.run(&call, phase, 0, items, scratch.data());
    for (int64_t item = at_once ? 0 : items; item-- > 0;) kernel.run(&call, phase, item, item + 1, scratch.data());
  }
}

// What is added up to an element, and how far off it may be.
struct Wanted {
  double value, bound;
};

Wanted wanted(const Problem& p, const Block& q, const Block& k, const Block& v, const Block* operand,
              std::array<int64_t, 4> at) {
  const int64_t columns = k.shape[2], kv = at[1] / p.group;
  const Expr score = p.score.as_inputs(1, 5), mask = p.mask ? p.mask->as_inputs(1, 5) : Expr::number(1);
  std::vector<double> scores;
  double largest = -INFINITY;
  for (int64_t j = 0; j < columns; ++j) {
    double product = 0;
    for (int64_t e = 0; e < p.size; ++e) product += q.at(at[0], at[1], at[2], e) * k.at(at[0], kv, j, e);
    const double ins[] = {operand ? operand->at(at[0], at[1], at[2], j) : 0, static_cast<double>(at[0]),
                          static_cast<double>(at[1]), static_cast<double>(at[2]), static_cast<double>(j)};
    const double accs[] = {product};
    scores.push_back(mask.evaluate({}, ins) != 0 ? score.evaluate(accs, ins) : -INFINITY);
    largest = std::max(largest, scores.back());
  }
  const bool sees = largest != -INFINITY;
  if (columns == 0 || (!sees && p.empty == EmptyRow::zero)) return {0, 0};
  if (!sees && p.empty == EmptyRow::nan) return {NAN, 0};
  double sum = 0, y = 0, magnitude = 0;
  for (int64_t j = 0; j < columns; ++j) {
    const double weight = sees ? std::exp(scores[static_cast<size_t>(j)] - largest) : 1, x = v.at(at[0], kv, j, at[3]);
    sum += weight, y += weight * x, magnitude += weight * std::fabs(x);
  }
  const double last = p.output == DType::bf16 ? 0x1p-8 : p.output == DType::f16 ? 0x1p-11 : 0;
  return {y / sum, 4e-6 * magnitude / sum + last * std::fabs(y / sum) + 1e-7};
}

void check(const qcg_kernel& kernel, const Case& test, std::array<int64_t, 4> sizes, bool at_end) {
  const Problem& p = test.problem;
  const auto [batch, kv, rows, columns] = sizes;
  const int64_t heads = kv * p.group;
  std::mt19937 random(static_cast<unsigned>(rows * 1000 + columns));
  const Block q = random_block(p.query, {batch, heads, rows, p.size}, 3, at_end, random);
  const Block k = random_block(p.key, {batch, kv, columns, p.size}, 0, at_end, random);
  const Block v = random_block(p.value, {batch, kv, columns, p.value_size}, 5, at_end, random);
  Block y = random_block(p.output, {batch, heads, rows, p.value_size}, 1, at_end, random);
  std::optional<Block> operand;
  std::vector<int64_t> params = {batch, heads, kv, rows, columns};
  for (const Block* block : {&q, &k, &v, static_cast<const Block*>(&y)})
    params.insert(params.end(), block->strides.begin(), block->strides.begin() + 3);
  std::vector<qcg_arg> args;
  for (const Block* block : {&q, &k, &v}) args.push_back({const_cast<char*>(block->memory.data()), 0});
  if (!p.operands.empty()) {
    const Problem::Operand& o = p.operands[0];
    const bool each = o.inner_stride != 0;
    operand.emplace(random_block(o.dtype, {batch, o.by_head ? heads : 1, rows, each ? columns : 1}, 0, at_end, random));
    if (!o.by_head) operand->strides[1] = 0;
    if (!each) operand->strides[3] = 0;
    params.insert(params.end(), operand->strides.begin(), operand->strides.end());
    args.push_back({operand->memory.data(), 0});
  }
  args.push_back({y.memory.data(), 0});
  run_phases(kernel, args, params, /*at_once=*/true);
  const std::string bytes(y.memory.data(), y.memory.bytes());
  run_phases(kernel, args, params);
  CHECK(bytes == std::string(y.memory.data(), y.memory.bytes()));  // threads change no bit
  int wrong = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i<rows; i += rows> 8 ? 7 : 1)
        for (int64_t e = 0; e<p.value_size; e += p.value_size> 20 ? 13 : 1) {
          const Wanted want = wanted(p, q, k, v, operand ? &*operand : nullptr, {b, h, i, e});
          const double got = y.at(b, h, i, e);
          wrong += std::isnan(want.value) ? !std::isnan(got) : !(std::fabs(got - want.value) <= want.bound);
        }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("attention of few and of many rows, whatever they see") {
  KernelSet kernels;
  std::vector<std::tuple<int, Isa, const Case*>> runs;
  for (const Isa isa : attention_isas())
    for (const Case& c : cases())
      runs.push_back(
          {kernels.add(isa, [&](auto symbol) { return render_attention(c.problem, isa, symbol); }), isa, &c});
  kernels.build();
  // batch, heads of key and value, rows, columns
  const std::array<int64_t, 4> sizes[] = {{1, 1, 0, 5},    {2, 2, 1, 0},   {0, 1, 3, 4},   {1, 2, 1, 1},
                                          {2, 1, 1, 70},   {1, 1, 2, 64},  {1, 2, 3, 300}, {1, 1, 17, 65},
                                          {1, 1, 70, 130}, {1, 1, 131, 40}};
  for (const auto& [kernel, isa, test] : runs)
    for (const auto& s : sizes)
      for (const bool at_end : {false, true}) {
        INFO(isa_info(isa).name, " ", test->kind, " ", s[0], "x", s[1], "x", s[2], "x", s[3]);
        check(kernels[kernel], *test, s, at_end);
      }
}

TEST_CASE("infinite value stays infinite in attention") {
  const Case& pairs = *std::ranges::find(cases(), "one tile of value", &Case::kind);
  KernelSet kernels;
  std::vector<int> runs;
  for (const Isa isa : attention_isas())
    runs.push_back(kernels.add(isa, [&](auto symbol) { return render_attention(pairs.problem, isa, symbol); }));
  kernels.build();
  const int64_t rows = 40, d = 128, dv = 16;
  for (const int run : runs) {
    std::mt19937 random(5);
    const Block q = random_block(DType::bf16, {1, 1, rows, d}, 0, true, random),
                k = random_block(DType::bf16, {1, 1, rows, d}, 0, true, random);
    Block v = random_block(DType::bf16, {1, 1, rows, dv}, 0, true, random),
          y = random_block(DType::bf16, {1, 1, rows, dv}, 0, true, random);
    set_element(DType::bf16, v.memory.data(), 7 * dv + 3, -INFINITY);
    const int64_t wide = rows * d, narrow = rows * dv;
    const std::vector<int64_t> params = {1,    1, 1,      rows,   rows, wide,   wide,   d, wide,
                                         wide, d, narrow, narrow, dv,   narrow, narrow, dv};
    run_phases(kernels[run],
               {{const_cast<char*>(q.memory.data()), 0},
                {const_cast<char*>(k.memory.data()), 0},
                {v.memory.data(), 0},
                {y.memory.data(), 0}},
               params);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t e = 0; e < dv; ++e)
        CHECK((e == 3 ? y.at(0, 0, i, e) == -INFINITY : std::isfinite(y.at(0, 0, i, e))));
  }
}

TEST_CASE("attention does not read columns that no row sees") {
  KernelSet kernels;
  const Case& causal = cases()[1];
  std::vector<int> runs;
  for (const Isa isa : attention_isas())
    runs.push_back(kernels.add(isa, [&](auto symbol) { return render_attention(causal.problem, isa, symbol); }));
  kernels.build();
  for (const int run : runs)
    for (const int64_t rows : {int64_t{2}, int64_t{40}}) {
      // Key and value end at a page that traps where the last row sees the last column: the rest is not there.
      std::mt19937 random(3);
      const int64_t columns = 100000;
      const Block q = random_block(DType::f32, {1, 1, rows, 64}, 0, true, random),
                  k = random_block(DType::f32, {1, 1, rows, 64}, 0, true, random);
      Block y = random_block(DType::f32, {1, 1, rows, 64}, 0, true, random);
      const int64_t whole = columns * 64, own = rows * 64;
      const std::vector<int64_t> params = {1,     1,  1,     rows,  columns, own, own, 64, whole,
                                           whole, 64, whole, whole, 64,      own, own, 64};
      char* const data = const_cast<char*>(k.memory.data());
      run_phases(kernels[run], {{const_cast<char*>(q.memory.data()), 0}, {data, 0}, {data, 0}, {y.memory.data(), 0}},
                 params);
      for (int64_t e = 0; e < 64; ++e) CHECK(y.at(0, 0, 0, e) == k.at(0, 0, 0, e));  // the first row sees one column
    }
}
