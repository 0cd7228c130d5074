// --extern=auto: which problems a vendor may serve, that its kernel is right, and when it is chosen.
#include <fstream>

#include "codegen/gemm/kernel_oracle.h"
#include "codegen/trial/trial.h"
#include "codegen/vendor/extern_kernel.h"
#include "codegen/vendor/vendor_module.h"
#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Problem dense(DType x, std::vector<int64_t> ns, DType y) {
  return problem_of(Scheme::dense, x, x, 0, {96}, std::move(ns), y);
}
Problem with_expr(Problem p, Expr expr) {
  p.outputs[0].expr = std::move(expr);
  return p;
}
Problem with_bias(Problem p, size_t segment) {
  p.segments[segment].has_bias = true;
  return p;
}
Problem with_zeros(Problem p) {
  p.segments[0].has_zero = true;
  return p;
}

std::string why_not(const Problem& problem) {
  std::string out;
  const bool none = extern_ways(problem, out).empty();
  CHECK(none == !out.empty());
  return out;
}

bool skip_without_onednn() {
  const VendorStatus vendor = onednn_status();
  if (!vendor.found) MESSAGE("skipped: oneDNN: " << vendor.detail);
  return !vendor.found;
}

// A vendor's kernel with its weights, as compile.cpp hands it to the tuner.
struct Vendor {
  ExternKernel kernel;
  std::vector<std::byte> weights;

  Vendor(const Problem& problem, const std::vector<SegmentTensors>& tensors, ExternKernel k)
      : kernel(std::move(k)), weights(static_cast<size_t>(kernel.weights_bytes())) {
    kernel.write_weights(problem, tensors, 2, weights);
  }
  BuiltKernel built() const { return kernel.built(weights, Isa::portable); }
};

}  // namespace

TEST_CASE("a vendor may serve a problem only if it computes all of it on the weights as they are") {
  const Problem two = dense(DType::f32, {64, 32}, DType::f32);
  CHECK(why_not(dense(DType::f32, {64}, DType::f32)).empty());
  CHECK(why_not(with_bias(two, 1)).empty());
  CHECK(why_not(dense(DType::bf16, {64}, DType::bf16)).empty());
  CHECK(why_not(with_expr(dense(DType::f32, {64}, DType::f32), Expr::call("silu", {Expr::acc(0)}))).empty());
  CHECK(why_not(with_zeros(problem_of(Scheme::w8, DType::f32, DType::i8, 0, {96}, {64}, DType::f32))).empty());
  CHECK(why_not(problem_of(Scheme::w4, DType::f32, DType::i8, 32, {96}, {64}, DType::f32)).empty());
  CHECK(why_not(problem_of(Scheme::s8s8, DType::i8, DType::i8, 0, {96}, {64}, DType::i32)).empty());

  auto says = [](const Problem& problem, const char* part) {
    INFO(problem.signature());
    CHECK(why_not(problem).find(part) != std::string::npos);
  };
  says(problem_of(Scheme::dense, DType::f32, DType::f32, 0, {96}, {64, 64}, DType::f32, true), "part of its epilogue");
  says(with_expr(dense(DType::f32, {64}, DType::f32), Expr::call("tanh", {Expr::acc(0)})), "part of its epilogue");
  Problem residual = with_expr(dense(DType::f32, {64}, DType::f32), Expr::call("add", {Expr::acc(0), Expr::in(0)}));
  residual.operands.push_back({DType::f32, Broadcast::full});
  says(residual, "operands of its epilogue");
  says(problem_of(Scheme::dense, DType::f32, DType::f32, 0, {48, 48}, {64}, DType::f32), "in pieces");
  says(problem_of(Scheme::da8w8, DType::i8, DType::i8, 0, {96}, {64}, DType::f32), "scales of its rows");
  says(problem_of(Scheme::da8w4, DType::i8, DType::i8, 32, {96}, {64}, DType::f32), "scales of its rows");
  says(problem_of(Scheme::w4, DType::bf16, DType::i8, 32, {96}, {64}, DType::bf16), "rounded to bf16");
  says(with_zeros(problem_of(Scheme::w8, DType::bf16, DType::i8, 0, {96}, {64}, DType::bf16)), "rounded to bf16");
  says(dense(DType::bf16, {64}, DType::f16), "results are f32");
  says(with_bias(problem_of(Scheme::s8s8, DType::i8, DType::i8, 0, {96}, {64}, DType::i32), 0), "part of its epilogue");
}

TEST_CASE("what a vendor's kernel is told survives the manifest's numbers, and its parts do not overlap") {
  OneDnnTask task{96, DType::f32, DType::i8, DType::f32, true, {{33, kOneDnnSwish, true}, {64, kOneDnnNone, false}}};
  std::vector<int64_t> params = task.params_after_m();
  params.insert(params.begin(), 7);
  const OneDnnTask read = OneDnnTask::from_params(params.data());
  CHECK(read.params_after_m() == task.params_after_m());
  CHECK(OneDnnTask::weights_argument(params.data()) == 4);
  int64_t bytes = 0;
  const auto places = read.places(bytes);
  REQUIRE(places.size() == 2);
  CHECK(places[0].bias >= places[0].weights + 33 * 96);
  CHECK(places[0].scales >= places[0].bias + 33 * 4);
  CHECK(places[1].weights >= places[0].scales + 33 * 4);
  CHECK(bytes >= places[1].scales + 64 * 4);
  for (const auto& p : places) CHECK((p.weights | p.bias | p.scales) % 64 == 0);
}

TEST_CASE("a vendor's kernel is right where it is offered, and one wrong weight is found") {
  if (skip_without_onednn()) return;
  const Problem wide = problem_of(Scheme::dense, DType::f32, DType::f32, 0, {700}, {200, 130}, DType::f32);
  const Problem problems[] = {
      with_bias(with_expr(dense(DType::f32, {97}, DType::f32), Expr::call("relu", {Expr::acc(0)})), 0),
      with_bias(wide, 1),  // several blocks, a narrow last one, two outputs
      dense(DType::bf16, {64}, DType::bf16),
      with_zeros(problem_of(Scheme::w8, DType::f32, DType::i8, 0, {130}, {58}, DType::f32)),
      problem_of(Scheme::w4, DType::f32, DType::i8, 32, {128}, {58}, DType::f32),
      problem_of(Scheme::s8s8, DType::i8, DType::i8, 0, {96}, {64}, DType::i32),
      problem_of(Scheme::s8s8, DType::u8, DType::i8, 0, {96}, {64}, DType::i32),
  };
  uint64_t seed = 40;
  int served = 0;
  for (const Problem& problem : problems) {
    INFO(problem.signature(), " seed ", ++seed);
    ExternOffer offer = find_extern_kernel(problem, 16);
    if (!offer.kernel) {  // half types and bytes need instructions
      CHECK(offer.why_not.find("has no such product on this machine") != std::string::npos);
      continue;
    }
    ++served;
    const auto tensors = random_tensors(problem, seed);
    Vendor vendor(problem, tensors, std::move(*offer.kernel));
    CHECK(vendor.kernel.name.starts_with(onednn_status().detail));
    auto winner = [&](const Bucket& bucket) {
      const auto result =
          tune(problem, tensors, {}, bucket, {Candidate{}}, {vendor.built()}, quick_options(TuneMode::off));
      REQUIRE(result.ok());
      INFO(result->records[0].reason);
      CHECK(is_extern(result->records[0]));
      return result->winner;
    };
    for (const Bucket& bucket : {Bucket{1, 1, 1}, Bucket{2, 4, 4}, Bucket{17, 64, 64}}) CHECK(winner(bucket) == 0);
    const size_t last =
        static_cast<size_t>(vendor.kernel.task.outputs[0].n * problem.k) * dtype_bytes(vendor.kernel.task.w) - 1;
    vendor.weights[last] = vendor.weights[last] ^ std::byte{0x41};
    CHECK(winner({5, 16, 16}) == -1);
  }
  CHECK(served >= 4);
}

TEST_CASE("a vendor's kernel wins when ours is slower by more than the noise, and never when it is wrong") {
  if (skip_without_onednn()) return;
  const Workload w = hand_workload(22);
  ExternOffer offer = find_extern_kernel(w.problem, 16);
  REQUIRE_MESSAGE(offer.kernel, offer.why_not);
  Vendor vendor(w.problem, w.tensors, std::move(*offer.kernel));
  auto built = build_kernels({hand_written("idle", {.at_row = "for (volatile int i = 0; i < 300000; ++i) {}"})});
  std::vector<Candidate> some = some_candidates(w.problem, 1);
  some.emplace_back();
  built.push_back(vendor.built());
  auto chosen = [&] {
    const auto result = tune(w.problem, w.tensors, w.packed, {5, 16, 16}, some, built, quick_options());
    REQUIRE(result.ok());
    return *result;
  };
  const TuneResult right = chosen();
  INFO(right.records[1].reason);
  CHECK(right.winner == 1);
  CHECK(right.records[1].status == TrialStatus::won);
  CHECK(right.records[1].reason.find("oneDNN serves") != std::string::npos);
  CHECK(right.records[1].median_s < right.records[0].median_s);
  const auto line = to_json_line(right.records[1]);
  CHECK(line.find("extern oneDNN") != std::string::npos);

  vendor.weights[3] = std::byte{0x7f};
  const TuneResult wrong = chosen();
  CHECK(wrong.winner == 0);
  CHECK(wrong.records[1].status == TrialStatus::wrong);

  // A library in this process could have threads, which the next fork would lose.
  std::ifstream maps("/proc/self/maps");
  for (std::string line_of_maps; std::getline(maps, line_of_maps);)
    CHECK(line_of_maps.find("libdnnl") == std::string::npos);
}
