// Times GEMM kernels against the ceiling of the same run: cold rotated weights, candidates interleaved in rounds.
//
//   bench_kernels --scheme w8 --m 1,4,16,64,256 --n 28672 --k 4096 --isa avx512 --candidates 3
//
// Per line: scheme, M, candidate, median (p10, p90) in ms, GB/s of packed weights, GFLOP/s, share of the roofline
// max(bytes / read bandwidth, operations / peak of the first candidate's instruction), all measured in interleaved
// rounds.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <sstream>

#include "bench/team.h"
#include "cache/toolchain/compile.h"
#include "cache/toolchain/toolchain.h"
#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/pack.h"
#include "codegen/gemm/problem.h"
#include "codegen/gemm/render.h"
#include "codegen/gemm/schedules.h"
#include "codegen/gemm/shape.h"
#include "codegen/kernel/support_headers.h"
#include "codegen/kernel/target.h"
#include "codegen/trial/ceilings.h"
#include "runtime/abi.h"

using namespace qcg;
using namespace qcg::bench;

namespace {

struct Options {
  std::vector<std::string> schemes = {"w8"};
  std::vector<int64_t> ms = {1, 4, 16, 64, 256};
  int64_t n = 28672, k = 4096, group = 128;
  std::string isa;
  size_t candidates = 1;
  int threads = 2, rounds = 15;
  std::string only;                    // substring of describe()
  std::string save;                    // directory for sources
  std::map<std::string, int64_t> set;  // overrides of candidate fields: see choose_entries
  std::string lock;                    // file locked while timing, for machines that several benchmarks share
  bool zeros = false;
};

double median(std::vector<double> v, double q = 0.5) {
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, size_t(q * double(v.size())))];
}

Tensor random_weight(DType dtype, std::vector<int64_t> shape, int low, int high, double step) {
  const int64_t n = shape[0] * shape[1];
  std::vector<std::byte> bytes(size_t(n) * dtype_bytes(dtype));
  std::mt19937 rng(1);
  for (int64_t i = 0; i < n; ++i) {
    const int q = low + int(rng() % unsigned(high - low + 1));
    if (is_floating(dtype)) double_to_element(dtype, q * step, bytes.data() + size_t(i) * dtype_bytes(dtype));
    else bytes[size_t(i)] = std::byte(int8_t(q));
  }
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

struct Setup {
  Problem problem;
  std::vector<SegmentTensors> tensors;
};
Setup make_setup(const std::string& name, const Options& o) {
  Setup s;
  Problem& p = s.problem;
  p.k = o.k, p.k_segments = {o.k};
  p.activation = DType::bf16;
  DType out = DType::bf16;
  if (name == "f32") p.activation = p.weight = out = DType::f32;
  else if (name == "bf16") p.weight = DType::bf16;
  else if (name == "f16") p.activation = p.weight = out = DType::f16;
  else {
    p.weight = DType::i8;
    p.scheme = *scheme_from_name(name);
    const SchemeInfo& info = scheme_info(p.scheme);
    if (info.weight.usual_group > 0) p.group = o.group, p.scale = DType::bf16;
    if (p.scheme == Scheme::f8) p.weight = DType::f8e4m3;
    if (info.quantized_activation || p.scheme == Scheme::s8s8) p.activation = DType::i8;
    if (p.scheme == Scheme::s8s8) out = DType::i32;
  }
  p.segments = {{o.n, o.zeros && may_have_zeros(scheme_info(p.scheme)), false, "w"}};
  p.outputs = {{Expr::acc(0), out, o.n, {0}}};
  SegmentTensors t;
  const WeightInfo& weight = scheme_info(p.scheme).weight;
  const bool twice = weight.numbers != nullptr, whole = !weight.is_float;  // of e2m1: -4 to 4 are among them
  t.weight = random_weight(p.weight, {o.n, o.k},
                           twice   ? -4
                           : whole ? weight.low
                                   : -127,
                           twice   ? 4
                           : whole ? weight.high
                                   : 127,
                           0x1p-10);
  t.scales = random_weight(DType::f32, {o.n, p.groups()}, 1, 100, 0x1p-10);
  t.zeros = random_weight(DType::i8, {o.n, p.groups()}, -8, 7, 1);
  s.tensors.push_back(std::move(t));
  return s;
}

struct Entry {
  GemmSchedule candidate;
  const qcg_kernel* kernel = nullptr;
  std::vector<double> seconds;
};

void build(std::vector<Entry>& entries, const Problem& p, Isa isa, const Options& o) {
  auto cxx = find_cxx({});
  std::vector<CompileJob> jobs;
  for (Entry& e : entries) {
    auto source = render_gemm(p, e.candidate, "kernel");
    if (!source.ok()) fmt::print(stderr, "{}\n", source.error().to_string()), std::exit(1);
    if (!o.save.empty()) std::ofstream(o.save + "/" + kernel_name(p, e.candidate) + ".cpp") << *source;
    CompileJob job;
    job.sources = {{"kernel.cpp", *source}};
    for (const SourceFile& h : support_headers(isa)) job.headers.push_back({h.name, h.text});
    job.flags = kernel_flags(*cxx);
    for (const auto& flag : kernel_flags(isa)) job.flags.push_back(flag);
    jobs.push_back(std::move(job));
  }
  auto results = compile_all(*cxx, jobs);
  if (!results.ok()) std::exit(1);
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& r = (*results)[i];
    if (!r.ok()) fmt::print(stderr, "{}\n", r.log), std::exit(1);
    static int serial = 0;  // the loader takes a path it has seen for the module it knows
    const std::string path = fmt::format("/tmp/qcg_bench_{}_{}.so", getpid(), serial++);
    std::ofstream(path, std::ios::binary) << r.bytes;
    if (!o.save.empty())
      std::ofstream(o.save + "/" + kernel_name(p, entries[i].candidate) + ".so", std::ios::binary) << r.bytes;
    void* module = dlopen(path.c_str(), RTLD_NOW);
    unlink(path.c_str());
    entries[i].kernel = static_cast<const qcg_kernel*>(dlsym(module, "kernel"));
    if (!entries[i].kernel) std::exit(1);
  }
}

// The packed weights of one problem, in more copies than any cache holds.
class Weights {
 public:
  Weights(size_t packed, int threads) : packed_(packed), stride_((packed + 4095) / 4096 * 4096) {
    copies_ = std::max<size_t>(2, ((size_t{5} << 28) + stride_ - 1) / stride_);
    data_ = huge_alloc(stride_ * copies_ + 8192);
    work_ = huge_alloc(size_t(threads + 1) << 26);
  }
  ~Weights() { munmap(data_, stride_ * copies_ + 8192); }
  Weights(const Weights&) = delete;

  std::span<std::byte> first() { return {data_, packed_}; }
  void repeat_first() {
    for (size_t i = 1; i < copies_; ++i) std::memcpy(data_ + i * stride_, data_, packed_);
  }
  std::byte* next() { return data_ + (turn_++ % copies_) * stride_; }
  size_t packed() const { return packed_; }
  std::byte* work() const { return work_; }  // 64 MiB for all threads and for each

 private:
  size_t packed_, stride_, copies_, turn_ = 0;
  std::byte* data_;
  std::byte* work_;
};

std::vector<Entry> choose_entries(const Problem& problem, Isa isa, int64_t m, const Options& o) {
  std::vector<Entry> entries;
  for (const GemmSchedule& c : gemm_schedules(problem, {Device::cpu, isa}, m, m)) {
    if (!o.only.empty() && c.describe().find(o.only) == std::string::npos) continue;
    if (entries.size() < o.candidates) entries.push_back({c, nullptr, {}});
  }
  for (Entry& e : entries)
    for (const auto& [field, value] : o.set) {
      if (field == "mr") e.candidate.mr = int(value);
      if (field == "kc") e.candidate.kc = value;
      if (field == "panels") e.candidate.panels_per_item = int(value);
      if (field == "rows") e.candidate.rows_per_item = int(value);
      if (field == "prefetch") e.candidate.prefetch_bytes = int(value);
      if (field == "ahead") e.candidate.ahead_bytes = int(value);
      if (field == "fetches") e.candidate.fetches_rows = value != 0;
      if (field == "in_place") e.candidate.in_place = value != 0;
      if (field == "unpacked") e.candidate.unpacks_block = value != 0;
    }
  return entries;
}

// What one call reads and writes beside the weights.
struct Rows {
  std::vector<std::byte> x, y;
  std::vector<float> x_scale;
};
Rows make_rows(const Problem& p, int64_t m, const Options& o) {
  Rows out{std::vector<std::byte>(size_t(m * o.k) * 4), std::vector<std::byte>(size_t(m * o.n) * 4),
           std::vector<float>(size_t(m), 0.01f)};
  std::mt19937 rng(2);
  std::normal_distribution<double> normal;  // slices of floats leave rests of some of them
  for (int64_t i = 0; i < m * o.k; ++i) {
    if (is_floating(p.activation))
      double_to_element(p.activation, normal(rng), out.x.data() + size_t(i) * dtype_bytes(p.activation));
    else out.x[size_t(i)] = std::byte(int8_t(int(rng() % 255) - 127));
  }
  return out;
}

// Seconds per byte read and per operation, sampled between the candidates.
struct Ceiling {
  std::vector<double> read_s, peak_s;
  void sample(Team& team, const std::byte* region, size_t bytes, Isa isa, const Microkernel& row) {
    constexpr int kLoops = 4;
    const std::string_view compute = row.compute == "maddubs" ? "madd16" : row.compute;  // whose peak is measured
    const size_t part = bytes / size_t(team.size()) / 256 * 256;
    double t = now();
    team.run([&](int i) { read_alone({region + size_t(i) * part, part}); });
    read_s.push_back((now() - t) / double(part * size_t(team.size())));
    t = now();
    std::vector<double> operations(size_t(team.size()));
    team.run([&](int i) {
      for (int loop = 0; loop < kLoops; ++loop) operations[size_t(i)] += multiply_alone(isa, compute);
    });
    peak_s.push_back((now() - t) * slices_of(row) / (operations[0] * team.size()));
  }
};

void print_entry(const std::string& scheme, int64_t m, const Entry& e, const Ceiling& ceiling, size_t packed,
                 const Options& o) {
  const double read = 1 / median(ceiling.read_s), top = 1 / median(ceiling.peak_s);
  const double operations = 2.0 * double(m) * double(o.n) * double(o.k);
  const double seconds = median(e.seconds);
  const double roof = std::max(double(packed) / read, operations / top);
  fmt::print(
      "{:6} m={:<5} {:44} {:8.3f} ms ({:.3f}-{:.3f}) {:6.1f} GB/s {:8.1f} GF | read {:.1f} GB/s peak {:.0f} GF | "
      "{:4.0f} % best {:4.0f} %\n",
      scheme, m, e.candidate.describe(), seconds * 1e3, median(e.seconds, 0.1) * 1e3, median(e.seconds, 0.9) * 1e3,
      double(packed) / seconds / 1e9, operations / seconds / 1e9, read / 1e9, top / 1e9, 100 * roof / seconds,
      100 * roof / median(e.seconds, 0.1));
  std::fflush(stdout);
}

void bench_m(const std::string& scheme, const Problem& problem, Isa isa, int64_t m, const Options& o,
             Weights& weights) {
  std::vector<Entry> entries = choose_entries(problem, isa, m, o);
  if (entries.empty()) return;
  build(entries, problem, isa, o);
  Rows rows = make_rows(problem, m, o);
  Ceiling ceiling;
  {
    TimingLock lock(o.lock);
    Team team(o.threads);
    Launcher launcher{team, {}, weights.work()};
    for (int i = 0; i < o.threads; ++i) launcher.scratch.push_back(weights.work() + (size_t(i + 1) << 26));
    for (int round = 0; round < o.rounds; ++round) {
      ceiling.sample(team, weights.next(), weights.packed(), isa, *entries[0].candidate.microkernel);
      for (Entry& e : entries) {
        std::vector<qcg_arg> args = {{rows.x.data(), o.k}};
        if (scheme_info(problem.scheme).quantized_activation) args.push_back({rows.x_scale.data(), 1});
        args.push_back({weights.next(), 0});
        args.push_back({rows.y.data(), o.n});
        qcg_call call{args.data(), &m, nullptr};
        const double t = now();
        launcher.run(*e.kernel, call);
        e.seconds.push_back(now() - t);
      }
    }
  }
  for (const Entry& e : entries) print_entry(scheme, m, e, ceiling, weights.packed(), o);
}

bool bench_scheme(const std::string& scheme, const Target& target, const Options& o) {
  Setup s = make_setup(scheme, o);
  const PackedLayout layout = layout_for(s.problem, target);
  Weights weights(size_t(packed_bytes(s.problem, layout)), o.threads);
  const double t = now();
  if (auto status = pack_weights(s.problem, layout, s.tensors, weights.first()); !status.ok()) {
    fmt::print(stderr, "{}\n", status.error().to_string());
    return false;
  }
  fmt::print("# {}: {:.1f} MB packed in {:.2f} s\n", scheme, double(weights.packed()) / 1e6, now() - t);
  weights.repeat_first();
  for (int64_t m : o.ms) bench_m(scheme, s.problem, target.isa, m, o, weights);
  return true;
}

std::vector<std::string> split(const std::string& s) {
  std::vector<std::string> out;
  std::stringstream in(s);
  for (std::string part; std::getline(in, part, ',');) out.push_back(part);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  const std::map<std::string, std::function<void(const std::string&)>> flags = {
      {"--scheme", [&](const std::string& v) { o.schemes = split(v); }},
      {"--m",
       [&](const std::string& v) {
         o.ms.clear();
         for (const auto& m : split(v)) o.ms.push_back(std::stoll(m));
       }},
      {"--n", [&](const std::string& v) { o.n = std::stoll(v); }},
      {"--k", [&](const std::string& v) { o.k = std::stoll(v); }},
      {"--group", [&](const std::string& v) { o.group = std::stoll(v); }},
      {"--isa", [&](const std::string& v) { o.isa = v; }},
      {"--candidates", [&](const std::string& v) { o.candidates = std::stoul(v); }},
      {"--only", [&](const std::string& v) { o.only = v; }},
      {"--set",
       [&](const std::string& v) {
         for (const auto& f : split(v)) o.set[f.substr(0, f.find('='))] = std::stoll(f.substr(f.find('=') + 1));
       }},
      {"--lock", [&](const std::string& v) { o.lock = v; }},
      {"--save", [&](const std::string& v) { o.save = v; }},
      {"--threads", [&](const std::string& v) { o.threads = std::stoi(v); }},
      {"--rounds", [&](const std::string& v) { o.rounds = std::stoi(v); }},
      {"--zeros", [&](const std::string& v) { o.zeros = v == "1"; }},
  };
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto flag = flags.find(argv[i]);
    if (flag == flags.end()) {
      fmt::print(stderr, "unknown flag {}\n", argv[i]);
      return 2;
    }
    flag->second(argv[i + 1]);
  }
  auto target = parse_target(o.isa.empty() ? "cpu" : "cpu:" + o.isa);
  if (!target.ok()) {
    fmt::print(stderr, "{}\n", target.error().to_string());
    return 2;
  }
  fmt::print("# {}, {} threads, N={} K={} group={}\n", this_machine().cpu, o.threads, o.n, o.k, o.group);
  for (const std::string& scheme : o.schemes)
    if (!bench_scheme(scheme, *target, o)) return 1;
}
