// True kernels are found right, vendor references run where there are any, ceilings are what a machine can have.
#include "codegen/gemm/render.h"
#include "codegen/trial/trial.h"
#include "codegen/vendor/extern_kernel.h"
#include "codegen/vendor/vendor_module.h"
#include "codegen/vendor/vendor_timings.h"
#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

struct SchemeCase {
  Scheme scheme;
  DType activation, weight;
  int64_t group;
  DType output;
};
constexpr SchemeCase kSchemeCases[] = {
    {Scheme::dense, DType::f32, DType::f32, 0, DType::f32}, {Scheme::dense, DType::bf16, DType::bf16, 0, DType::bf16},
    {Scheme::dense, DType::f16, DType::f16, 0, DType::f16}, {Scheme::w8, DType::bf16, DType::i8, 0, DType::bf16},
    {Scheme::w8, DType::f32, DType::i8, 0, DType::f32},     {Scheme::w4, DType::bf16, DType::i8, 32, DType::bf16},
    {Scheme::w4, DType::f32, DType::i8, 32, DType::f32},    {Scheme::da8w8, DType::i8, DType::i8, 0, DType::bf16},
    {Scheme::da8w8, DType::u8, DType::i8, 0, DType::f32},   {Scheme::s8s8, DType::i8, DType::i8, 0, DType::i32},
};

Problem problem_of(const SchemeCase& s, bool gate_up) {
  const bool floats = s.output != DType::i32;
  Problem p =
      test::problem_of(s.scheme, s.activation, s.weight, s.group, {70, 58}, {65, 65}, s.output, gate_up && floats);
  p.x_has_zero = s.scheme == Scheme::da8w8 && s.activation == DType::u8;
  p.segments[0].has_zero = s.scheme == Scheme::w8 || s.scheme == Scheme::w4;
  p.segments[1].has_bias = floats;
  return p;
}

}  // namespace

TEST_CASE("true kernels of every scheme are right, and one wrong weight in the packing is not") {
  const Target target{Device::cpu, best_host_isa()};
  struct Job {
    Problem problem;
    Bucket bucket;
    Candidate candidate;
  };
  std::vector<Job> jobs;
  std::vector<KernelSource> sources;
  const auto add = [&](const Problem& p, const Bucket& bucket, const Candidate& candidate) {
    const std::string symbol = fmt::format("true_{}", jobs.size());
    auto text = render_gemm(p, schedule_of(candidate), symbol);
    REQUIRE_MESSAGE(text.ok(), text.error().to_string());
    sources.push_back({candidate.kernel(), symbol, *text, target.isa});
    jobs.push_back({p, bucket, candidate});
  };
  for (const SchemeCase& s : kSchemeCases) {
    for (bool gate_up : {true, false}) {
      const Bucket bucket = gate_up ? Bucket{5, 16, 16} : Bucket{1, 1, 1};
      const Problem p = problem_of(s, gate_up);
      add(p, bucket, cpu_candidates(p, target, bucket.m_min, bucket.m_max).at(0));
    }
    Problem rounding = problem_of(s, true);
    rounding.may_round = true;
    for (const Candidate& candidate : cpu_candidates(rounding, target, 17, 64))
      if (schedule_of(candidate).scaling == Scaling::rounded_weights) add(rounding, {17, 64, 64}, candidate);
  }
  const auto built = build_kernels(std::move(sources));
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = jobs[i];
    CAPTURE(built[i].source.name);
    CAPTURE(built[i].failure);
    REQUIRE(built[i].ok());
    const uint64_t seed = 100 + i;
    CAPTURE(seed);
    auto tensors = random_tensors(job.problem, seed);
    auto verdict = [&](const std::vector<std::byte>& packed) {
      auto result =
          tune(job.problem, tensors, packed, job.bucket, {job.candidate}, {built[i]}, quick_options(TuneMode::off));
      REQUIRE(result.ok());
      return *result;
    };
    const auto packed = pack(job.problem, schedule_of(job.candidate).layout, tensors);
    const TuneResult right = verdict(packed);
    CHECK_MESSAGE(right.winner == 0, right.records[0].reason);
    // The kernel's weights keep the value, the oracle is given another: a quarter of the range away.
    auto bytes = tensors[0].weight.bytes();
    std::vector<std::byte> changed(bytes.begin(), bytes.end());
    const DType dtype = tensors[0].weight.dtype;
    const size_t at = (17 * 128 + 101) * dtype_bytes(dtype);
    const double range = job.problem.scheme == Scheme::dense ? 2 : job.problem.scheme == Scheme::w4 ? 16 : 256;
    const double old = element_to_double(dtype, changed.data() + at);
    double_to_element(dtype, old > 0 ? old - range / 4 : old + range / 4, changed.data() + at);
    tensors[0].weight = Tensor::from_bytes(dtype, tensors[0].weight.shape, std::move(changed));
    const TuneResult wrong = verdict(packed);
    CHECK(wrong.winner == -1);
    CHECK(wrong.records[0].reason.find("n=17") != std::string::npos);
  }
}

TEST_CASE("true kernels are right where weights are denormal, and where many groups add up with one sign") {
  const Target target{Device::cpu, best_host_isa()};
  struct Job {
    Problem problem;
    std::vector<SegmentTensors> tensors;
    Candidate candidate;
  };
  std::vector<Job> jobs;
  std::vector<KernelSource> sources;
  const auto add = [&](const Problem& p, const std::vector<SegmentTensors>& tensors) {
    for (const Candidate& candidate : cpu_candidates(p, target, 2, 4)) {
      const std::string symbol = fmt::format("edge_{}", jobs.size());
      auto text = render_gemm(p, schedule_of(candidate), symbol);
      REQUIRE_MESSAGE(text.ok(), text.error().to_string());
      sources.push_back({candidate.kernel(), symbol, *text, target.isa});
      jobs.push_back({p, tensors, candidate});
    }
  };
  for (const auto& [scheme, weight] :
       {std::pair(Scheme::dense, DType::bf16), {Scheme::w8, DType::i8}, {Scheme::w4, DType::i8}}) {
    const Problem p = problem_of(scheme, DType::bf16, weight, scheme == Scheme::w4 ? 64 : 0, {512}, {40}, DType::bf16);
    std::vector<SegmentTensors> tensors = random_tensors(p, 5);
    Tensor& small = scheme == Scheme::dense ? tensors[0].weight : tensors[0].scales;
    std::vector<std::byte> bytes(small.bytes().begin(), small.bytes().end());
    const size_t row = static_cast<size_t>(small.shape[1]) * dtype_bytes(small.dtype);
    for (size_t at = 3 * row; at < 4 * row; at += dtype_bytes(small.dtype))
      double_to_element(small.dtype, 1e-39 * element_to_double(small.dtype, &bytes[at]), &bytes[at]);
    small = Tensor::from_bytes(small.dtype, small.shape, std::move(bytes));
    add(p, tensors);
  }
  const Problem p = problem_of(Scheme::da8w4, DType::i8, DType::i8, 32, {8192}, {40}, DType::f32);
  std::vector<SegmentTensors> tensors = random_tensors(p, 6);
  std::mt19937_64 rng(7);
  tensors[0].weight = random_values(DType::i8, {40, 8192}, rng, 7, 7);
  tensors[0].scales = random_values(DType::f32, {40, 256}, rng, 0.0123, 0.0123);
  add(p, tensors);
  const auto built = build_kernels(std::move(sources));
  for (size_t i = 0; i < jobs.size(); ++i) {
    CAPTURE(built[i].source.name);
    REQUIRE(built[i].ok());
    const auto packed = pack(jobs[i].problem, schedule_of(jobs[i].candidate).layout, jobs[i].tensors);
    auto result = tune(jobs[i].problem, jobs[i].tensors, packed, {2, 4, 4}, {jobs[i].candidate}, {built[i]},
                       quick_options(TuneMode::off));
    REQUIRE(result.ok());
    CHECK_MESSAGE(result->winner == 0, result->records[0].reason);
  }
}

TEST_CASE("an epilogue that cancels or leaves the range of f16 is right, a wrong factor in it is not") {
  const Target target{Device::cpu, best_host_isa()};
  struct EpilogueCase {
    DType dtype;
    const char *right, *wrong;
  };
  const EpilogueCase cases[] = {
      {DType::f32, "mul(mul(acc0, 0.5), add(1, erf(mul(acc0, 0.707))))",
       "mul(mul(acc0, 0.5), add(1, erf(mul(acc0, 0.7071))))"},
      {DType::f32, "add(1, tanh(mul(acc0, 8)))", "add(1.0001, tanh(mul(acc0, 8)))"},
      {DType::f16, "mul(mul(acc0, acc0), 3000)", "mul(mul(acc0, acc0), 3010)"},
      {DType::f16, "mul(mul(acc0, acc0), 3000)", "clamp(mul(mul(acc0, acc0), 3000), -65504, 65504)"}};
  std::vector<Problem> problems;
  std::vector<KernelSource> sources;
  for (const EpilogueCase& c : cases) {
    Problem right = problem_of(Scheme::dense, c.dtype, c.dtype, 0, {128}, {96}, c.dtype), wrong = right;
    right.outputs[0].expr = *Expr::parse(c.right), wrong.outputs[0].expr = *Expr::parse(c.wrong);
    problems.push_back(right);
    for (const Problem& p : {right, wrong}) {
      const std::string symbol = fmt::format("epilogue_{}", sources.size());
      auto text = render_gemm(p, schedule_of(cpu_candidates(p, target, 5, 16).at(0)), symbol);
      REQUIRE_MESSAGE(text.ok(), text.error().to_string());
      sources.push_back({symbol, symbol, *text, target.isa});
    }
  }
  const auto built = build_kernels(std::move(sources));
  for (size_t i = 0; i < built.size(); ++i) {
    const Problem& p = problems[i / 2];
    CAPTURE(cases[i / 2].right);
    CAPTURE(built[i].failure);
    const Candidate candidate = cpu_candidates(p, target, 5, 16).at(0);
    const auto tensors = random_tensors(p, 300);
    auto result = tune(p, tensors, pack(p, schedule_of(candidate).layout, tensors), {5, 16, 16}, {candidate},
                       {built[i]}, quick_options(TuneMode::off));
    REQUIRE(result.ok());
    CHECK_MESSAGE(result->winner == (i % 2 == 0 ? 0 : -1), result->records[0].reason);
  }
}

TEST_CASE("references compute what their names say") {
  const VendorStatus vendor = onednn_status();
  if (!vendor.found) {
    MESSAGE("skipped: oneDNN: " << vendor.detail);
    CHECK_FALSE(vendor.remedy.empty());
    return;
  }
  CHECK(vendor.detail.starts_with("oneDNN "));
  Problem swish = test::problem_of(Scheme::dense, DType::f32, DType::f32, 0, {96}, {48}, DType::f32);
  swish.outputs[0].expr = Expr::call("silu", {Expr::acc(0)});
  struct Want {
    Problem problem;
    std::string name;
  };
  const Want wants[] = {
      {problem_of(kSchemeCases[0], true), "f32 matmul + bias without epilogue"},
      {problem_of(kSchemeCases[0], false), "f32 matmul + bias"},
      {swish, "f32 matmul + swish"},
      {problem_of(kSchemeCases[4], false), "f32 matmul on dequantized weight + bias"},
      {problem_of(kSchemeCases[6], false), "f32 matmul on dequantized weight + bias"},
      {problem_of(kSchemeCases[7], false),
       "i8 x s8 matmul with channel scales, without quantization, row scales + bias"},
      {problem_of(kSchemeCases[9], false), "i8 x s8 matmul to s32"},
  };
  const bool saturates =
      find_extern_kernel(problem_of(Scheme::s8s8, DType::i8, DType::i8, 0, {96}, {64}, DType::i32), 16)
          .why_not.find("without VNNI") != std::string::npos;
  for (const Want& want : wants) {
    const auto tensors = random_tensors(want.problem, 9);
    auto child = run_in_child(60, [&](ChildReport& report) {
      const KernelInputs inputs(want.problem, 16, 4);
      for (const Reference& r : references_for(want.problem, tensors, inputs, 1, 1 << 20)) r.run(), report.send(r.name);
    });
    REQUIRE(child.ok());
    CHECK(child->failure.empty());
    CAPTURE(want.name);
    bool found = false;
    for (const std::string& name : child->messages) found = found || name == vendor.detail + " " + want.name;
    if (!child->messages.empty()) CAPTURE(child->messages[0]);
    if (is_floating(want.problem.activation) || !saturates) CHECK(found);
    else CHECK(child->messages.empty());  // a wrong product is no reference
  }
}

TEST_CASE("references are timed beside the candidates and never win") {
  if (!onednn_status().found) return;
  const Workload w = hand_workload(21);
  const auto built = build_kernels({hand_written("good", {})});
  TuneOptions options = quick_options();
  options.references = true;
  auto result = tune(w.problem, w.tensors, w.packed, {5, 16, 16}, some_candidates(w.problem, 1), built, options);
  REQUIRE(result.ok());
  CHECK(result->winner == 0);
  REQUIRE(result->records.size() == 2);
  const TuneRecord& r = result->records[1];
  CHECK(r.status == TrialStatus::reference);
  CHECK(r.kernel.starts_with("oneDNN"));
  CHECK(r.median_s > 0);
  CHECK(r.candidate.empty());
  const bool faster = r.median_s < result->records[0].median_s;
  CHECK(r.reason.find(faster ? "faster than the winner" : "slower than the winner") != std::string::npos);
}

TEST_CASE("ceilings are plausible") {
  const Ceilings c = measure_ceilings(best_host_isa(), 2);
  CHECK(c.threads >= 1);
  for (double value : {c.read_gbps, c.peak_gflops_f32, c.peak_gflops_bf16, c.peak_gops_int8}) {
    CHECK(value > 1);
    CHECK(value < 1e6);
  }
  CHECK(c.peak_gflops_f32 > c.peak_gflops_bf16 / 40);  // tiles do 16 times as much; denormals a hundredth
  const Problem p = test::problem_of(Scheme::dense, DType::f32, DType::f32, 0, {1024}, {1024}, DType::f32);
  const double one = roofline_seconds(p, 1, c), many = roofline_seconds(p, 4096, c);
  CHECK(one >= 4e6 / (c.read_gbps * 1e9));
  CHECK(many > one);
}

TEST_CASE("the roofline knows that integers multiply slices of bf16, two for one") {
  Ceilings c;
  c.read_gbps = 1e6;
  c.peak_gflops_f32 = c.peak_gflops_bf16 = 100, c.peak_gops_int8 = 600;
  c.instruction_gflops = {{"fma", 100}, {"vnni", 600}};
  const auto seconds_of = [&](Scheme scheme, DType x, int64_t group) {
    const Problem p = test::problem_of(scheme, x, DType::i8, group, {1024}, {1024}, x);
    return roofline_seconds(p, 1000, c) / (2 * 1.024 * 1.024);  // of 1 GF/s
  };
  CHECK(seconds_of(Scheme::w4, DType::bf16, 128) == doctest::Approx(1 / 300.0));
  CHECK(seconds_of(Scheme::w8, DType::f16, 0) == doctest::Approx(1 / 300.0));
  CHECK(seconds_of(Scheme::w4, DType::bf16, 512) == doctest::Approx(1 / 100.0));  // too long for the sums of slices
  CHECK(seconds_of(Scheme::w4, DType::f32, 128) == doctest::Approx(1 / 100.0));
  CHECK(seconds_of(Scheme::nf4, DType::bf16, 128) == doctest::Approx(1 / 100.0));
}
