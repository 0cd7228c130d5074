// Decisions that need no kernel: the noise rule, buckets, the log, pins.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "codegen/batch.h"
#include "codegen/gemm/gemm_family.h"
#include "codegen/gemm/render.h"
#include "codegen/trial/trial.h"
#include "codegen/tune/merge_trial.h"
#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Timing timing(double median, double spread = 0, int samples = 20) {
  return {median, median - spread / 2, median + spread / 2, samples};
}

int choose(std::vector<Timing> timings) { return choose_winner(timings); }

// Takes so long on each of its runs, the last figure for all that follow.
Contender sleeper(size_t index, std::vector<int> milliseconds) {
  Contender c;
  c.index = index;
  c.run = [milliseconds, run = size_t(0)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds[std::min(run++, milliseconds.size() - 1)]));
  };
  return c;
}

struct TempFile {
  std::string path =
      fmt::format("{}/qcg_tune_{}_{}.jsonl", std::filesystem::temp_directory_path().string(), getpid(), serial++);
  explicit TempFile(const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  ~TempFile() { std::filesystem::remove(path); }
  static inline int serial = 0;
};

TuneRecord some_record() {
  TuneRecord r;
  r.kernel = "qgemm \"quoted\" \n é";
  r.problem = "p", r.nodes = {"a", "b"}, r.target = "avx512", r.candidate = "8x2 kc=512", r.scheme = "w8",
  r.epilogue = "silu(acc0)";
  r.m = 4, r.m_min = 2, r.m_max = INT64_MAX, r.n = 28672, r.k = 4096, r.group = 128, r.segments = 2, r.threads = 3;
  r.median_s = 1.25e-3, r.p10_s = 1e-3, r.p90_s = 2e-3, r.samples = 17, r.gbps = 12.5, r.gflops = 99, r.share = 0.75;
  r.compile_s = 0.5, r.max_error = 1e-3, r.error_bound = 2e-3, r.status = TrialStatus::won, r.reason = "why";
  r.cache_hit = true, r.key = "abc", r.machine = "m", r.date = "2026-01-01T00:00:00Z";
  return r;
}

}  // namespace

TEST_CASE("one disturbed run drops nobody, two slow ones do") {
  volatile int64_t current = -1;
  const int fd = ::open("/dev/null", O_WRONLY);
  ChildReport report(fd, &current);
  std::vector<Contender> contenders = {sleeper(0, {5}), sleeper(1, {5, 60, 5}), sleeper(2, {150})};
  time_in_rounds(contenders, 4, report);
  ::close(fd);
  CHECK_FALSE(contenders[0].dropped);
  CHECK_FALSE(contenders[1].dropped);
  CHECK(contenders[1].samples.size() == contenders[0].samples.size());
  CHECK(contenders[2].dropped);
  CHECK(contenders[2].samples.size() == 1);
}

TEST_CASE("a vendor's kernel that is far behind runs once if a run takes long, a ceiling always to the end") {
  volatile int64_t current = -1;
  const int fd = ::open("/dev/null", O_WRONLY);
  ChildReport report(fd, &current);
  std::vector<Contender> contenders = {sleeper(0, {5}), sleeper(1, {60}), sleeper(2, {14}), sleeper(3, {60})};
  contenders[1].role = contenders[2].role = Role::vendor, contenders[3].role = Role::ceiling;
  time_in_rounds(contenders, 0.5, report);
  ::close(fd);
  CHECK(contenders[1].samples.size() == 1);
  CHECK(contenders[2].samples.size() == contenders[0].samples.size());
  CHECK(contenders[3].samples.size() > 1);
}

TEST_CASE("an incumbent is only beaten by more than the noise") {
  CHECK(choose({}) == -1);
  CHECK(choose({timing(0)}) == -1);
  CHECK(choose({timing(0), timing(2)}) == 1);
  CHECK(choose({timing(1.0), timing(0.5)}) == 1);
  CHECK(choose({timing(1.0), timing(0.995)}) == 0);  // below 1 %
  CHECK(choose({timing(1.0), timing(0.98)}) == 1);
  CHECK(choose({timing(1.0, 0.8), timing(0.95, 0.8)}) == 0);  // within the spread
  CHECK(choose({timing(1.0, 0.8, 10000), timing(0.95, 0.8, 10000)}) == 1);
  CHECK(choose({{1.0, 0.99, 9.0, 5}, {0.9, 0.89, 5.0, 5}}) == 1);  // a disturbed sample makes nothing uncertain
  CHECK(choose({timing(1.0), timing(1.0), timing(1.0)}) == 0);
  CHECK(choose({timing(1.0), timing(0.9), timing(0.8)}) == 2);
}

TEST_CASE("buckets meet the range of m and the list that was asked for") {
  Problem p = problem_of(Scheme::dense, DType::f32, DType::f32, 0, {8}, {8}, DType::f32);
  CHECK(buckets_of(p.m_min, p.m_max, {}).size() == std::size(kBuckets));
  p.m_min = p.m_max = 7;
  auto one = buckets_of(p.m_min, p.m_max, {});
  REQUIRE(one.size() == 1);
  CHECK(one[0].m_min == 5);
  CHECK(one[0].m_probe == 7);
  p.m_min = 0, p.m_max = 100;
  auto some = buckets_of(p.m_min, p.m_max, {});
  REQUIRE(some.size() == 5);
  CHECK(some[4].m_probe == 100);
  const int64_t list[] = {3, 50};
  auto asked = buckets_of(p.m_min, p.m_max, list);
  REQUIRE(asked.size() == 2);
  CHECK(asked[0].m_probe == 3);
  CHECK(asked[1].m_probe == 50);
  CHECK(asked[1].m_max == 64);
  CHECK((asked[0].asked && asked[1].asked));
  const int64_t outside[] = {5000};
  CHECK_FALSE(buckets_of(p.m_min, p.m_max, outside).empty());
  p.m_min = p.m_max = 0;  // nothing but empty batches: still one kernel
  CHECK(buckets_of(p.m_min, p.m_max, {}).size() == 1);
}

TEST_CASE("a record survives the log") {
  const TuneRecord r = some_record();
  TuneRecord crashed = r;
  crashed.status = TrialStatus::crashed;
  crashed.max_error = std::nan("");
  const TempFile file(to_json_line(r) + "\n\n" + to_json_line(crashed) + "\n");
  auto read = read_tune_log(file.path);
  REQUIRE_MESSAGE(read.ok(), read.error().to_string());
  REQUIRE(read->size() == 2);
  CHECK(to_json_line((*read)[0]) == to_json_line(r));
  CHECK((*read)[0].m_max == INT64_MAX);
  CHECK((*read)[0].kernel == r.kernel);
  CHECK((*read)[1].status == TrialStatus::crashed);
  CHECK((*read)[1].max_error == 0);
  const TempFile before_versions("{\"kernel\":\"k\",\"status\":\"won\"}\n");
  CHECK(read_tune_log(before_versions.path).ok());
  for (TrialStatus s : {TrialStatus::won, TrialStatus::lost, TrialStatus::wrong, TrialStatus::failed_to_build,
                        TrialStatus::too_slow, TrialStatus::crashed, TrialStatus::reference, TrialStatus::untimed})
    CHECK_FALSE(trial_status_name(s).empty());
}

TEST_CASE("hostile logs are typed errors") {
  const std::string good = to_json_line(some_record());
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("null"), std::string("\0\xff", 2),
        std::string("{\"kernel\":\"k\"}"), std::string("{\"kernel\":1,\"status\":\"won\"}"),
        std::string("{\"kernel\":\"k\",\"status\":3}"), std::string("{\"kernel\":\"k\",\"status\":\"best\"}"),
        std::string("{\"kernel\":\"k\",\"status\":\"won\",\"m\":1e300}"),
        std::string("{\"kernel\":\"k\",\"status\":\"won\",\"threads\":99999999999}"),
        std::string("{\"kernel\":\"k\",\"status\":\"won\",\"m\":18446744073709551615}"),
        std::string("{\"kernel\":\"k\",\"status\":\"won\",\"nodes\":[[1]]}"),
        std::string("{\"kernel\":\"k\",\"status\":\"won\",\"version\":2}"), std::string(100'000, '['),
        std::string(3 << 20, 'a')}) {
    const TempFile file(good + "\n" + text + "\n");
    CAPTURE(text.substr(0, 60));
    auto read = read_tune_log(file.path);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().to_string().find(":2") != std::string::npos);
  }
  CHECK_FALSE(read_tune_log("/no/such/log").ok());
  CHECK_FALSE(read_tune_log("/dev/zero").ok());
  CHECK_FALSE(read_tune_log(std::filesystem::temp_directory_path()).ok());
}

TEST_CASE("a fast compile builds candidates of the instructions that are likely to win on this machine") {
  const Problem p = problem_of(Scheme::w8, DType::bf16, DType::i8, 0, {4096}, {4096}, DType::bf16);
  const auto computes = [&](int64_t m, TuneMode mode, double fma, double dot, double vnni, double tiles = 0) {
    const Target target{Device::cpu, tiles > 0 ? Isa::amx : Isa::avx512bf16};
    std::vector<Candidate> some = cpu_candidates(p, target, m, m);
    Ceilings ceilings;
    ceilings.isa = target.isa, ceilings.read_gbps = 30;
    if (fma > 0) ceilings.instruction_gflops = {{"fma", fma}, {"bf16dot", dot}, {"vnni", vnni}};
    if (tiles > 0) ceilings.instruction_gflops["amx_bf16"] = tiles;
    limit_candidates(p, m, some, mode, ceilings);
    std::set<std::string_view> out;
    for (const Candidate& c : some) out.insert(schedule_of(c).microkernel->compute);
    return out;
  };
  using Computes = std::set<std::string_view>;
  CHECK(computes(256, TuneMode::fast, 350, 190, 1400) == Computes{"vnni"});  // slices: half of its rate is above 350
  CHECK(computes(256, TuneMode::fast, 520, 1000, 1300) == Computes{"bf16dot"});
  CHECK(computes(256, TuneMode::fast, 520, 1000, 2000) == Computes{"bf16dot", "vnni"});
  CHECK(computes(256, TuneMode::fast, 350, 330, 500) == Computes{"bf16dot", "fma"});
  CHECK(computes(256, TuneMode::fast, 350, 190, 500) == Computes{"fma"});
  // Reading 17 MB takes longer than multiplying, which counts half.
  CHECK(computes(8, TuneMode::fast, 520, 1000, 2000) == Computes{"bf16dot", "vnni"});
  CHECK(computes(1, TuneMode::fast, 350, 190, 700) == Computes{"bf16dot", "fma", "vnni"});  // memory decides
  CHECK(computes(256, TuneMode::full, 350, 190, 1400) == Computes{"bf16dot", "fma", "vnni"});
  CHECK(computes(256, TuneMode::fast, 0, 0, 0) == Computes{"bf16dot", "fma", "vnni"});
  // A tile of 16 rows is loaded for four.
  CHECK(computes(4, TuneMode::fast, 216, 95, 720, 1500) == Computes{"amx_bf16", "vnni"});
  CHECK(computes(256, TuneMode::fast, 216, 95, 720, 1500) == Computes{"amx_bf16"});
}

TEST_CASE("pins replay the winner of a log") {
  Plan plan;
  plan.target = {Device::cpu, Isa::avx2};
  Problem p = problem_of(Scheme::w8, DType::bf16, DType::i8, 0, {64}, {48}, DType::bf16);
  plan.problems = {{kGemmFamily, p}};
  CompileOptions options;
  auto all = render_all(plan, options, Pins(), {});
  REQUIRE(all.ok());
  std::string log;
  size_t several = 0;
  for (const Choice& choice : all->choices) {
    const Candidate& last = choice.candidates.back();
    several += choice.candidates.size() > 1;
    TuneRecord r = some_record();
    r.problem = p.signature(), r.kernel = last.kernel(), r.candidate = last.describe();
    r.m_min = choice.bucket.m_min, r.m_max = choice.bucket.m_max;
    log += to_json_line(r) + "\n";
    r.status = TrialStatus::lost, r.candidate = choice.candidates[0].describe();
    log += to_json_line(r) + "\n";
  }
  CHECK(several > 0);
  const TempFile file(log);
  auto pins = Pins::read(file.path);
  REQUIRE(pins.ok());
  auto pinned = render_all(plan, options, *pins, {});
  REQUIRE(pinned.ok());
  REQUIRE(pinned->choices.size() == all->choices.size());
  for (size_t c = 0; c < pinned->choices.size(); ++c) {
    REQUIRE(pinned->choices[c].candidates.size() == 1);
    CHECK(pinned->choices[c].candidates[0].describe() == all->choices[c].candidates.back().describe());
  }
  CHECK_FALSE(Pins::read("/no/such/log").ok());
}

TEST_CASE("pins decide a merge as the compile that wrote the log did, with the noise of both ways") {
  TuneRecord r = some_record();
  r.status = TrialStatus::separate, r.candidate = fusion_info(Fusion::siblings).apart_way;
  r.m_min = 1, r.m_max = 8;
  r.median_s = 1.0, r.p10_s = 0.99, r.p90_s = 1.01, r.samples = 25, r.disturbed = 0;
  r.merged_s = 1.1, r.merged_p90_s = 1.2;
  const auto replayed = [&](double merged_p10) {
    r.merged_p10_s = merged_p10;
    TuneRecord won = r;
    won.status = TrialStatus::won;
    const TempFile file(to_json_line(won) + "\n" + to_json_line(r) + "\n");
    const auto pins = Pins::read(file.path);
    REQUIRE(pins.ok());
    auto timing = pins->find_merge(r.problem, {1, 8, 8}, Fusion::siblings);
    REQUIRE(timing.has_value());
    return *timing;
  };
  CHECK(separate_is_faster(std::array{replayed(1.09)}));
  const MergeTiming noisy = replayed(0.2);
  CHECK_FALSE(separate_is_faster(std::array{noisy}));
  CHECK((noisy.merged.p10_s == 0.2 && noisy.merged.p90_s == 1.2 && noisy.separate.p10_s == 0.99));
}

TEST_CASE("level 3 caches of all CPUs are added, one that several share once") {
  namespace fs = std::filesystem;
  const fs::path cpus = fs::temp_directory_path() / fmt::format("qcg_cpus_{}", getpid());
  const auto add = [&](int cpu, const std::string& level, const std::string& size, const std::string& sharers) {
    const fs::path cache = cpus / fmt::format("cpu{}", cpu) / "cache" / "index3";
    fs::create_directories(cache);
    std::ofstream(cache / "level") << level << '\n';
    std::ofstream(cache / "size") << size << '\n';
    std::ofstream(cache / "shared_cpu_list") << sharers << '\n';
  };
  CHECK(l3_bytes_of(cpus.string()) == 0);  // no such directory
  add(0, "3", "32768K", "0-1");
  add(1, "3", "32768K", "0-1");
  add(2, "3", "16384K", "2");
  add(3, "4", "65536K", "0-3");
  fs::create_directories(cpus / "cpufreq");
  CHECK(l3_bytes_of(cpus.string()) == int64_t{48} << 20);
  fs::remove_all(cpus);
}
