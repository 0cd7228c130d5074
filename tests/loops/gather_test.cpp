// Look-ups against the definition, over element sizes, strides and both kinds of positions; positions out of range.
#include "codegen/gather/gather.h"

#include "loops_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

struct GatherRun {
  int kernel;
  Isa isa;
  GatherProblem problem;
};

std::vector<GatherRun> add_gathers(KernelSet& kernels, const std::vector<GatherProblem>& problems) {
  std::vector<GatherRun> runs;
  for (const Isa isa : testable_isas())
    for (const GatherProblem& p : problems)
      runs.push_back({kernels.add(isa, [&](auto symbol) { return render_gather(p, isa, symbol); }), isa, p});
  kernels.build();
  return runs;
}

// Runs all items in uneven ranges and returns what the kernel refused.
int64_t run_gather(const qcg_kernel& kernel, const std::vector<qcg_arg>& args, const std::vector<int64_t>& params) {
  int64_t fault = INT64_MAX;
  const qcg_call call = {args.data(), params.data(), nullptr, &fault};
  const int64_t items = kernel.items(&call, 0);
  for (int64_t end = items, size = 1; end > 0; size = size % 3 + 1) {
    const int64_t begin = std::max<int64_t>(0, end - size);
    kernel.run(&call, 0, begin, end, nullptr);
    end = begin;
  }
  return fault;
}

void set_id(DType d, Guarded& ids, int64_t i, int64_t id) {
  if (d == DType::i32) reinterpret_cast<int32_t*>(ids.data())[i] = static_cast<int32_t>(id);
  else reinterpret_cast<int64_t*>(ids.data())[i] = id;
}

// A table [size, d] looked up at n positions, dense or with every second element skipped.
struct Rows {
  Rows(const GatherProblem& p, int64_t n, int64_t d, int64_t size, bool sparse, bool at_end)
      : n(n),
        d(d),
        step(sparse ? 2 : 1),
        bytes(static_cast<int64_t>(dtype_bytes(p.dtype))),
        id_dtype(p.ids[0].dtype),
        table(static_cast<size_t>(std::max<int64_t>(0, size * d * step - (step - 1)) * bytes), at_end),
        ids(static_cast<size_t>(n) * dtype_bytes(id_dtype), at_end),
        y(static_cast<size_t>(n * d * bytes), at_end, 0xcd),
        params{n, d, 0, step, 1, 0, d, 1, size, d * step} {
    for (size_t i = 0; i < table.bytes(); ++i) table.data()[i] = static_cast<char>(i * 37 + i / 251);
  }
  std::vector<qcg_arg> args() { return {{table.data(), 0}, {ids.data(), 0}, {y.data(), 0}}; }
  bool is_right(int64_t i, int64_t j, int64_t id) {
    return std::memcmp(y.data() + (i * d + j) * bytes, table.data() + (id * d + j) * step * bytes,
                       static_cast<size_t>(bytes)) == 0;
  }

  int64_t n, d, step, bytes;
  DType id_dtype;
  Guarded table, ids, y;
  std::vector<int64_t> params;
};

std::vector<GatherProblem> problems_of_rows() {
  std::vector<GatherProblem> out;
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8, DType::f64})
    for (const bool from_end : {false, true})
      for (const bool rows : {true, false})
        out.push_back({2, dtype, {{from_end ? DType::i32 : DType::i64, from_end}}, rows, ""});
  return out;
}

}  // namespace

TEST_CASE("rows of a table, of any width, step and element size") {
  KernelSet kernels;
  for (const GatherRun& run : add_gathers(kernels, problems_of_rows()))
    for (const auto& [n, d] : {std::pair<int64_t, int64_t>{0, 5}, {1, 1}, {7, 3}, {5, 16}, {3, 9001}, {2, 0}})
      for (const bool sparse : {false, true})
        for (const bool at_end : {false, true}) {
          INFO(isa_info(run.isa).name, " ", run.problem.signature(), " ", n, "x", d);
          const int64_t size = 11;
          Rows rows(run.problem, n, d, size, sparse, at_end);
          std::vector<int64_t> expected;
          for (int64_t i = 0; i < n; ++i) {
            const int64_t id = (i * 7 + size - 1) % size;
            const bool negative = run.problem.ids[0].from_end && i % 2 == 0;
            set_id(rows.id_dtype, rows.ids, i, negative ? id - size : id);
            expected.push_back(id);
          }
          REQUIRE(run_gather(kernels[run.kernel], rows.args(), rows.params) == INT64_MAX);
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < d; ++j)
              if (!rows.is_right(i, j, expected[static_cast<size_t>(i)])) FAIL("[", i, ", ", j, "] is wrong");
        }
}

TEST_CASE("a position out of range is refused, nothing is read for it, and its place is named") {
  KernelSet kernels;
  for (const GatherRun& run : add_gathers(kernels, problems_of_rows()))
    for (const int64_t at : {int64_t{0}, int64_t{40}, int64_t{99}})
      for (const int64_t bad : {int64_t{11}, int64_t{-12}, int64_t{INT32_MAX}, int64_t{INT32_MIN}, INT64_MIN}) {
        INFO(isa_info(run.isa).name, " ", run.problem.signature(), " ", bad, " at ", at);
        const int64_t n = 100, d = 3;
        Rows rows(run.problem, n, d, 11, false, true);
        for (int64_t i = 0; i < n; ++i) set_id(rows.id_dtype, rows.ids, i, i % 11);
        const bool narrow = rows.id_dtype == DType::i32;
        set_id(rows.id_dtype, rows.ids, at, narrow ? std::clamp<int64_t>(bad, INT32_MIN, INT32_MAX) : bad);
        CHECK(run_gather(kernels[run.kernel], rows.args(), rows.params) == (run.problem.rows ? at : at * d));
        for (int64_t i = 0; i < n; ++i) {
          if (i != at) CHECK(rows.is_right(i, d - 1, i % 11));
          else CHECK(static_cast<unsigned char>(rows.y.data()[i * d * rows.bytes]) == 0xcd);
        }
      }
}

TEST_CASE("an empty table refuses every position") {
  KernelSet kernels;
  for (const GatherRun& run : add_gathers(kernels, {problems_of_rows()[0], problems_of_rows()[3]})) {
    Rows rows(run.problem, 2, 3, 0, false, true);
    for (int64_t i = 0; i < 2; ++i) set_id(rows.id_dtype, rows.ids, i, 0);
    CHECK(run_gather(kernels[run.kernel], rows.args(), rows.params) == 0);
  }
}

TEST_CASE("several positions that are broadcast, and one for every element") {
  KernelSet kernels;
  const GatherProblem pair{2, DType::f32, {{DType::i64, true}, {DType::i32, true}}, false, ""};
  const GatherProblem every{2, DType::f32, {{DType::i64, false}}, false, ""};
  for (const GatherRun& run : add_gathers(kernels, {pair, every})) {
    INFO(isa_info(run.isa).name, " ", run.problem.signature());
    std::vector<float> table(5 * 6), y(3 * 4, -1);
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
    if (run.problem.ids.size() == 2) {  // y[i, j] = table[a[i], b[j]]
      const std::vector<int64_t> a = {4, -5, 2};
      const std::vector<int32_t> b = {0, -1, 5, 3};
      REQUIRE(run_gather(kernels[run.kernel],
                         {{table.data(), 0},
                          {const_cast<int64_t*>(a.data()), 0},
                          {const_cast<int32_t*>(b.data()), 0},
                          {y.data(), 0}},
                         {3, 4, 0, 0, 1, 0, 0, 1, 4, 1, 5, 6, 6, 1}) == INT64_MAX);
      CHECK(y == std::vector<float>{24, 29, 29, 27, 0, 5, 5, 3, 12, 17, 17, 15});
    } else {  // y[i, j] = table[i, at[i, j]]
      const std::vector<int64_t> at = {5, 0, 1, 1, 2, 2, 3, 0, 0, 4, 5, 1};
      REQUIRE(run_gather(kernels[run.kernel], {{table.data(), 0}, {const_cast<int64_t*>(at.data()), 0}, {y.data(), 0}},
                         {3, 4, 6, 0, 4, 1, 4, 1, 6, 1}) == INT64_MAX);
      CHECK(y == std::vector<float>{5, 0, 1, 1, 8, 8, 9, 6, 12, 16, 17, 13});
    }
  }
}
