// Times GEMM kernels against the ceilings of the same run: cold rotated weights, candidates interleaved in rounds.
//
//   bench_kernels --scheme w8 --m 1,4,16,64,256 --n 28672 --k 4096 --isa avx512 --candidates 3
//
// Per line: scheme, M, candidate, median (p10, p90) in ms, GB/s of packed weights, GFLOP/s, share of the roofline
// max(bytes / read bandwidth, operations / peak of that candidate's instruction), all measured in interleaved rounds.
#include <dlfcn.h>
#include <fmt/format.h>
#include <immintrin.h>
#include <pthread.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "cache/compile.h"
#include "cache/toolchain.h"
#include "codegen/gemm_layout.h"
#include "codegen/problem.h"
#include "runtime/abi.h"

using namespace qcg;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Options {
  std::vector<std::string> schemes = {"w8"};
  std::vector<int64_t> ms = {1, 4, 16, 64, 256};
  int64_t n = 28672, k = 4096, group = 128;
  std::string isa;
  size_t candidates = 1;
  int threads = 2, rounds = 15;
  std::string only;  // substring of describe()
  std::string save;  // directory for sources
  std::map<std::string, int64_t> set;  // overrides of candidate fields: mr, kc, panels, rows, prefetch
  std::string lock;  // file locked while timing, for machines that several benchmarks share
  bool zeros = false;
};

std::byte* huge_alloc(size_t bytes) {
  const size_t page = size_t{2} << 20, size = (bytes + page - 1) / page * page + page;
  auto* p = static_cast<std::byte*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (p == MAP_FAILED) std::abort();
  p = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(p) + page - 1) / page * page);
  madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

// Threads that spin between jobs: wake-up time is the runtime's affair, not the kernel's. Real-time priority where the
// system allows it, so that what is measured is this machine and not its other users.
class Team {
 public:
  explicit Team(int threads) {
    pthread_getaffinity_np(pthread_self(), sizeof everywhere_, &everywhere_);
    for (int i = 0; i < threads; ++i) pin(i, i > 0);
  }
  ~Team() {
    job_ = nullptr;
    generation_.fetch_add(1);
    for (auto& w : workers_) w.join();
    const sched_param normal{};
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &normal);
    pthread_setaffinity_np(pthread_self(), sizeof everywhere_, &everywhere_);
  }
  void run(const std::function<void(int)>& f) {
    job_ = &f;
    done_.store(0);
    generation_.fetch_add(1);
    f(0);
    while (done_.load() != int(workers_.size())) _mm_pause();
  }
  int size() const { return int(workers_.size()) + 1; }

 private:
  void pin(int cpu, bool worker) {
    auto set = [cpu](pthread_t t) {
      cpu_set_t s;
      CPU_ZERO(&s);
      CPU_SET(cpu, &s);
      pthread_setaffinity_np(t, sizeof s, &s);
      const sched_param param{.sched_priority = 1};
      pthread_setschedparam(t, SCHED_FIFO, &param);
    };
    if (!worker) return set(pthread_self());
    workers_.emplace_back([this, cpu] {
      for (int seen = 0;;) {
        while (generation_.load() == seen) _mm_pause();
        seen = generation_.load();
        if (!job_) return;
        (*job_)(cpu);
        done_.fetch_add(1);
      }
    });
    set(workers_.back().native_handle());
  }
  cpu_set_t everywhere_;
  std::vector<std::thread> workers_;
  std::atomic<int> generation_{0}, done_{0};
  const std::function<void(int)>* job_ = nullptr;
};

// Ceilings.
__attribute__((target("avx512f"))) uint64_t read_all(const std::byte* p, size_t bytes) {
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (size_t i = 0; i + 256 <= bytes; i += 256) {
    for (int line = 0; line < 4; ++line) _mm_prefetch(reinterpret_cast<const char*>(p + i + 2048 + line * 64), _MM_HINT_T0);
    a = _mm512_add_epi64(a, _mm512_loadu_si512(p + i)), b = _mm512_add_epi64(b, _mm512_loadu_si512(p + i + 64));
    c = _mm512_add_epi64(c, _mm512_loadu_si512(p + i + 128)), d = _mm512_add_epi64(d, _mm512_loadu_si512(p + i + 192));
  }
  return uint64_t(_mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d))));
}
#define PEAK(name, features, type, init, op)                                                                        \
  __attribute__((target(features))) double name(int64_t n) {                                                        \
    type a0 = init, a1 = init, a2 = init, a3 = init, a4 = init, a5 = init, a6 = init, a7 = init, a8 = init, a9 = init, \
         a10 = init, a11 = init, x = init, y = init;                                                                \
    for (int64_t i = 0; i < n; ++i)                                                                                 \
      asm volatile(op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)                        \
                   : "+v"(a0), "+v"(a1), "+v"(a2), "+v"(a3), "+v"(a4), "+v"(a5), "+v"(a6), "+v"(a7), "+v"(a8),      \
                     "+v"(a9), "+v"(a10), "+v"(a11)                                                                 \
                   : "v"(x), "v"(y));                                                                               \
    return double(n) * 12;                                                                                          \
  }
#define FMA_OP(i) "vfmadd231ps %12, %13, %" #i "\n"
#define VNNI_OP(i) "vpdpbusd %12, %13, %" #i "\n"
#define BF16_OP(i) "vdpbf16ps %12, %13, %" #i "\n"
#define MADD_OP(i) "vpmaddwd %12, %13, %" #i "\n"
PEAK(peak_fma512, "avx512f", __m512, _mm512_setzero_ps(), FMA_OP)
PEAK(peak_vnni, "avx512vnni", __m512i, _mm512_setzero_si512(), VNNI_OP)
PEAK(peak_bf16, "avx512f", __m512, _mm512_setzero_ps(), BF16_OP)
PEAK(peak_fma256, "avx2,fma", __m256, _mm256_setzero_ps(), FMA_OP)

// One row of the peak table: operations (2 per multiply-add) of one instruction.
struct Peak {
  double (*loop)(int64_t);
  double operations;
};
Peak peak_of(const Microkernel& m) {
  if (m.compute == "vnni") return {peak_vnni, 128};
  if (m.compute == "bf16dot") return {peak_bf16, 64};
  if (isa_info(m.isa).vector_bytes == 64) return {peak_fma512, 32};
  return {peak_fma256, 16};  // madd16 does 32 operations but needs an add: the same rate
}

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
    if (info.weight_bits == 4) p.group = o.group, p.scale = DType::bf16;
    if (p.scheme == Scheme::f8) p.weight = DType::f8e4m3;
    if (info.quantized_activation || p.scheme == Scheme::s8s8) p.activation = DType::i8;
    if (p.scheme == Scheme::s8s8) out = DType::i32;
  }
  p.segments = {{o.n, o.zeros && (p.scheme == Scheme::w8 || p.scheme == Scheme::w4), false, "w"}};
  p.outputs = {{Expr::acc(0), out, o.n, {0}}};
  SegmentTensors t;
  const bool four = scheme_info(p.scheme).weight_bits == 4, table = p.scheme == Scheme::nf4;
  const bool twice = p.scheme == Scheme::f4 || p.scheme == Scheme::da8f4;  // of e2m1: -4 to 4 are among them
  t.weight = random_weight(p.weight, {o.n, o.k}, table ? 0 : twice ? -4 : four ? -8 : -127, table ? 15 : twice ? 4 : four ? 7 : 127, 0x1p-10);
  t.scales = random_weight(DType::f32, {o.n, p.groups()}, 1, 100, 0x1p-10);
  t.zeros = random_weight(DType::i8, {o.n, p.groups()}, -8, 7, 1);
  s.tensors.push_back(std::move(t));
  return s;
}

struct Entry {
  Candidate candidate;
  const qcg_kernel* kernel = nullptr;
  std::vector<double> seconds;
};

// Held while timing.
class TimingLock {
 public:
  explicit TimingLock(const std::string& path) {
    if (path.empty()) return;
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ >= 0) flock(fd_, LOCK_EX);
  }
  ~TimingLock() {
    if (fd_ >= 0) close(fd_);
  }

 private:
  int fd_ = -1;
};

struct Launcher {
  Team& team;
  std::vector<std::byte*> scratch;
  std::byte* shared;
  void run(const qcg_kernel& kernel, qcg_call& call) {
    call.shared = shared;
    for (uint32_t phase = 0; phase < kernel.phases; ++phase) {
      const int64_t items = kernel.items(&call, phase);
      std::atomic<int64_t> next{0};
      const auto work = [&](int t) {
        for (int64_t i; (i = next.fetch_add(1)) < items;) kernel.run(&call, phase, i, i + 1, scratch[size_t(t)]);
      };
      if (items == 1) work(0);
      else team.run(work);
    }
  }
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
    if (!o.save.empty()) std::ofstream(o.save + "/" + kernel_name(p, entries[i].candidate) + ".so", std::ios::binary) << r.bytes;
    void* module = dlopen(path.c_str(), RTLD_NOW);
    unlink(path.c_str());
    entries[i].kernel = static_cast<const qcg_kernel*>(dlsym(module, "kernel"));
    if (!entries[i].kernel) std::exit(1);
  }
}

void bench_m(const std::string& scheme, const Setup& s, Isa isa, int64_t m, const Options& o, const std::byte* weights,
             size_t packed, size_t stride, size_t copies, std::byte* work) {
  std::vector<Entry> entries;
  for (const Candidate& c : candidates(s.problem, {Device::cpu, isa}, m, m)) {
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
    }
  build(entries, s.problem, isa, o);
  std::vector<std::byte> x(size_t(m * o.k) * 4), y(size_t(m * o.n) * 4);
  std::mt19937 rng(2);
  for (int64_t i = 0; i < m * o.k; ++i) {
    const int q = int(rng() % 255) - 127;
    if (is_floating(s.problem.activation)) double_to_element(s.problem.activation, q * 0x1p-6, x.data() + size_t(i) * dtype_bytes(s.problem.activation));
    else x[size_t(i)] = std::byte(int8_t(q));
  }
  std::vector<float> x_scale(size_t(m), 0.01f);
  std::vector<double> read_s, peak_s;
  if (entries.empty()) return;
  TimingLock lock(o.lock);
  Team team(o.threads);
  Launcher launcher{team, {}, work};
  for (int i = 0; i < o.threads; ++i) launcher.scratch.push_back(work + (size_t(i + 1) << 26));
  const Peak peak = peak_of(*entries[0].candidate.microkernel);
  constexpr int64_t kPeakLoops = 100000;
  static volatile uint64_t sink;
  size_t copy = 0;
  for (int round = 0; round < o.rounds; ++round) {
    const std::byte* region = weights + (copy++ % copies) * stride;
    double t = now();
    const size_t part = packed / size_t(team.size()) / 256 * 256;
    team.run([&](int i) { sink = sink + read_all(region + size_t(i) * part, part); });
    read_s.push_back((now() - t) / double(part * size_t(team.size())));
    t = now();
    team.run([&](int) { peak.loop(kPeakLoops); });
    peak_s.push_back((now() - t) / (double(kPeakLoops) * 12 * peak.operations * team.size()));
    for (Entry& e : entries) {
      std::vector<qcg_arg> args = {{x.data(), o.k}};
      if (scheme_info(s.problem.scheme).quantized_activation) args.push_back({x_scale.data(), 1});
      args.push_back({const_cast<std::byte*>(weights + (copy++ % copies) * stride), 0});
      args.push_back({y.data(), o.n});
      qcg_call call{args.data(), &m, nullptr};
      t = now();
      launcher.run(*e.kernel, call);
      e.seconds.push_back(now() - t);
    }
  }
  const double read = 1 / median(read_s), top = 1 / median(peak_s);
  const double operations = 2.0 * double(m) * double(o.n) * double(o.k);
  for (Entry& e : entries) {
    const double seconds = median(e.seconds);
    const double roof = std::max(double(packed) / read, operations / top);
    fmt::print("{:6} m={:<5} {:44} {:8.3f} ms ({:.3f}-{:.3f}) {:6.1f} GB/s {:8.1f} GF | read {:.1f} GB/s peak {:.0f} GF | {:4.0f} % best {:4.0f} %\n",
               scheme, m, e.candidate.describe(), seconds * 1e3, median(e.seconds, 0.1) * 1e3, median(e.seconds, 0.9) * 1e3,
               double(packed) / seconds / 1e9, operations / seconds / 1e9, read / 1e9, top / 1e9, 100 * roof / seconds,
               100 * roof / median(e.seconds, 0.1));
    std::fflush(stdout);
  }
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
      {"--m", [&](const std::string& v) { o.ms.clear(); for (const auto& m : split(v)) o.ms.push_back(std::stoll(m)); }},
      {"--n", [&](const std::string& v) { o.n = std::stoll(v); }},
      {"--k", [&](const std::string& v) { o.k = std::stoll(v); }},
      {"--group", [&](const std::string& v) { o.group = std::stoll(v); }},
      {"--isa", [&](const std::string& v) { o.isa = v; }},
      {"--candidates", [&](const std::string& v) { o.candidates = std::stoul(v); }},
      {"--only", [&](const std::string& v) { o.only = v; }},
      {"--set", [&](const std::string& v) { for (const auto& f : split(v)) o.set[f.substr(0, f.find('='))] = std::stoll(f.substr(f.find('=') + 1)); }},
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
  for (const std::string& scheme : o.schemes) {
    Setup s = make_setup(scheme, o);
    const PackedLayout layout = layout_for(s.problem, *target);
    const auto packed = size_t(packed_bytes(s.problem, layout));
    const size_t stride = (packed + 4095) / 4096 * 4096, copies = std::max<size_t>(2, ((size_t{5} << 28) + stride - 1) / stride);
    std::byte* weights = huge_alloc(stride * copies + 8192);
    const double t = now();
    if (auto status = pack_weights(s.problem, layout, s.tensors, {weights, packed}); !status.ok()) {
      fmt::print(stderr, "{}\n", status.error().to_string());
      return 1;
    }
    fmt::print("# {}: {:.1f} MB packed in {:.2f} s\n", scheme, double(packed) / 1e6, now() - t);
    for (size_t i = 1; i < copies; ++i) std::memcpy(weights + i * stride, weights, packed);
    std::byte* work = huge_alloc(size_t(o.threads + 1) << 26);
    for (int64_t m : o.ms) bench_m(scheme, s, target->isa, m, o, weights, packed, stride, copies, work);
    munmap(weights, stride * copies + 8192);
  }
}
