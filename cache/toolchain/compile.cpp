#include "cache/toolchain/compile.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>

#include "base/affinity.h"
#include "base/cancel.h"
#include "base/parallel.h"
#include "cache/store/scratch.h"
#include "cache/toolchain/nvrtc.h"
#include "cache/toolchain/process.h"

namespace qcg {

namespace {

constexpr size_t kMaxOutputBytes = size_t{1} << 30;

// Refused flags. They would change results after the oracle has checked them, or the key would not determine the code.
Status check_flag(const std::string& flag, ToolKind kind) {
  static const char* const kRefused[] = {"-ffast-math",
                                         "-Ofast",
                                         "-funsafe-math-optimizations",
                                         "-fassociative-math",
                                         "-freciprocal-math",
                                         "-ffinite-math-only",
                                         "-march=native",
                                         "-mtune=native",
                                         "-mcpu=native",
                                         "--use_fast_math",
                                         "-use_fast_math",
                                         "-o",
                                         "--output-file"};
  for (const char* refused : kRefused)
    if (flag == refused || flag.starts_with(std::string(refused) + "="))
      return Error::toolchain(
          flag, "this compiler flag is refused: it may change results, or code that the cache key does not identify",
          "name instruction sets in the flags, and write fast operations in the kernel");
  if (flag.empty() || flag[0] == '@' || flag.find('\0') != std::string::npos)
    return Error::toolchain(flag, "not a compiler flag", "flags come from the target's table");
  // nvcc passes its arguments to a shell.
  if (kind == ToolKind::nvcc && flag.find_first_of(";&|`$<>()\"'\\\n*?~#! ") != std::string::npos)
    return Error::toolchain(flag, "nvcc would pass this flag to a shell", "use NVRTC, or plain flags");
  return {};
}

bool is_source_name(const std::string& name, ToolKind kind) {
  if (!is_plain_path(name) || name.size() > 200 || name.find('\0') != std::string::npos) return false;
  if (kind != ToolKind::nvcc) return true;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '/' || c == '-';
  });
}

Language language_of(ToolKind kind) {
  switch (kind) {
    case ToolKind::nvcc:
    case ToolKind::nvrtc: return Language::cuda;
    case ToolKind::hipcc: return Language::hip;
    case ToolKind::gcc:
    case ToolKind::clang: break;
  }
  return Language::cpp;
}

Status check_job(const Toolchain& toolchain, const CompileJob& job) {
  if (language_of(toolchain.kind) != job.language)
    return Error::internal(toolchain.path, "was given a source of another language");
  if ((job.language != Language::cpp) != (job.output == OutputKind::cubin) && job.output != OutputKind::assembly)
    return Error::internal(toolchain.path, "cannot make this kind of output");
  if (job.sources.empty() || (job.sources.size() > 1 && job.output != OutputKind::shared_object))
    return Error::internal(toolchain.path, "this kind of output is made from exactly one source");
  for (const auto& flag : job.flags) QCG_CHECK(check_flag(flag, toolchain.kind));
  for (const auto* list : {&job.sources, &job.headers})
    for (const auto& source : *list)
      if (!is_source_name(source.name, toolchain.kind))
        return Error::internal(toolchain.path, "not a name for a source: '" + source.name + "'");
  return {};
}

Status write_sources(const std::string& folder, const CompileJob& job) {
  FileSystem& fs = real_file_system();
  if (fs.mkdir(folder, 0700)) return io_error(folder, "cannot be made", errno);
  for (const auto* list : {&job.headers, &job.sources}) {
    for (const auto& source : *list) {
      for (size_t slash = source.name.find('/'); slash != std::string::npos; slash = source.name.find('/', slash + 1)) {
        std::string sub = folder + "/" + source.name.substr(0, slash);
        if (fs.mkdir(sub, 0700) && errno != EEXIST) return io_error(sub, "cannot be made", errno);
      }
      const std::string path = folder + "/" + source.name;
      // Not synced, because these files are useless after a crash.
      OwnedFd fd(fs.open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!fd) return io_error(path, "cannot be made", errno);
      if (int error = fs.write_all(fd.get(), source.text)) return io_error(path, "cannot be written", error);
    }
  }
  return {};
}

long address_space_mb() {
  long pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return (pages >> 8) + 1;  // 4 KiB pages
}

// Runs one job in its own `folder`: src/ is the compiler's working directory, `out` is the output file.
ProcessSpec process_for(const Toolchain& toolchain, const CompileJob& job, const std::string& folder,
                        const CompileLimits& limits) {
  ProcessSpec spec;
  spec.directory = folder + "/src";
  spec.timeout_s = limits.timeout_s;
  spec.memory_mb = limits.memory_mb;
  spec.cancel = limits.cancel;
  spec.environment = tool_environment(folder);
  if (toolchain.kind == ToolKind::nvrtc) {
    spec.body = [&toolchain, &job, folder] { return run_nvrtc(toolchain, job, folder + "/out"); };
    if (spec.memory_mb) spec.memory_mb += address_space_mb();  // a forked child starts with our address space
    return spec;
  }
  spec.argv = {toolchain.path};
  if (job.pch) spec.argv.insert(spec.argv.end(), job.pch->flags.begin(), job.pch->flags.end());
  for (auto& argument : compile_arguments(toolchain, job)) spec.argv.push_back(std::move(argument));
  return spec;
}

Result<CompileResult> compile_one(const Toolchain& toolchain, const CompileJob& job, const std::string& folder,
                                  const CompileLimits& limits) {
  FileSystem& fs = real_file_system();
  if (fs.mkdir(folder, 0700)) return io_error(folder, "cannot be made", errno);
  QCG_CHECK(write_sources(folder + "/src", job));
  auto process = run_process(process_for(toolchain, job, folder, limits));
  if (!process.ok())
    return Error::toolchain(toolchain.path, process.error().message,
                            "check that the compiler is installed and executable");
  CompileResult result;
  result.log = std::move(process->output);
  result.seconds = process->seconds;
  result.exit_status = process->exit_status;
  result.timed_out = process->timed_out;
  result.cancelled = process->cancelled;
  result.max_rss_kb = process->max_rss_kb;
  if (result.exit_status == 0 && !result.timed_out && !result.cancelled) {
    // With O_NONBLOCK, opening a FIFO does not wait for a writer. A file that is not regular is no output.
    OwnedFd fd(fs.open_at(AT_FDCWD, folder + "/out", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    struct stat info {};
    int error = !fd || fs.fstat(fd.get(), &info) ? errno : 0;
    if (!error && S_ISREG(info.st_mode)) error = fs.read_all(fd.get(), result.bytes, kMaxOutputBytes);
    if (error && error != ENOENT) return io_error(folder + "/out", "cannot be read", error);
    if (job.language == Language::cuda) result.cuda = parse_cuda_usage(result.log);
    if (job.language == Language::hip) result.cuda = parse_hip_usage(result.log);
  }
  (void)fs.remove_tree(folder);
  if (result.exit_status != 0 && result.log.find(std::strerror(ENOSPC)) != std::string::npos)
    return Error::io(folder, "the compiler or its linker has no space left here",
                     "free some space, or set TMPDIR to a folder that has more");
  return result;
}

// The number in a file such as /sys/fs/cgroup/memory.max; -1 if it has none ("max").
long long number_in(const char* path) {
  long long value = -1;
  if (FILE* file = std::fopen(path, "r")) {
    if (std::fscanf(file, "%lld", &value) != 1) value = -1;
    std::fclose(file);
  }
  return value;
}

// The free memory of the machine or of the container, whichever is less, in MB; -1 if unknown.
long available_memory_mb() {
  long available_kb = -1;
  if (FILE* file = std::fopen("/proc/meminfo", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, file))
      if (std::sscanf(line, "MemAvailable: %ld kB", &available_kb) == 1) break;
    std::fclose(file);
  }
  long mb = available_kb < 0 ? -1 : available_kb / 1024;
  const long long most = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  if (most >= 0 && used >= 0) {
    const long left_mb = static_cast<long>(std::max(most - used, 0ll) >> 20);
    mb = mb < 0 ? left_mb : std::min(mb, left_mb);
  }
  return mb;
}

// The jobs of one call. A job may time out because other processes, including our other compilers, took the CPUs. So it
// is started once more when none of our compilers runs.
class Batch {
 public:
  Batch(const Toolchain& toolchain, std::span<const CompileJob> jobs, const CompileLimits& limits, std::string folder)
      : toolchain_(toolchain), jobs_(jobs), limits_(limits), folder_(std::move(folder)), results_(jobs.size()) {}

  void run_together(size_t most) {
    const size_t count = std::min(most, jobs_.size());
    in_parallel(jobs_.size(), count, [&](size_t i) {
      if (stop_) return;
      run(i, "");
      std::lock_guard lock(mutex_);
      results_[i].timed_out ? ++late_ : ++in_time_;
      // If the first `count` jobs all time out, the other jobs are not started beside others: they would time out, too.
      if (in_time_ == 0 && late_ >= count) stop_ = true;
    });
  }

  // Runs alone, one after the other, the jobs that were not started and then the jobs that timed out. If no job has
  // finished and two jobs have timed out alone, the compiler hangs, and the rest is given up. If jobs have finished but
  // a job times out alone, other jobs that timed out are given up, too: running fewer compilers at a time did not help.
  void run_late_ones_alone() {
    std::vector<size_t> order, late;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (results_[i].starts == 0) order.push_back(i);
      else if (results_[i].timed_out) late.push_back(i);
    }
    order.insert(order.end(), late.begin(), late.end());
    int late_alone = 0;
    for (const size_t i : order) {
      if (first_error_ || is_cancelled(limits_.cancel)) return;
      const bool hopeless = in_time_ == 0 ? late_alone >= 2 : results_[i].starts > 0 && late_alone >= 1;
      if (!hopeless) run(i, ".again");
      results_[i].timed_out = results_[i].timed_out || hopeless;
      results_[i].timed_out ? ++late_alone : ++in_time_;
    }
  }

  Result<std::vector<CompileResult>> take_results() {
    if (first_error_) return *first_error_;
    if (is_cancelled(limits_.cancel))
      for (auto& result : results_)
        if (result.bytes.empty()) result.cancelled = true;
    return std::move(results_);
  }

 private:
  void run(size_t i, const char* attempt) {
    auto result = compile_one(toolchain_, jobs_[i], folder_ + "/" + std::to_string(i) + attempt, limits_);
    std::lock_guard lock(mutex_);
    if (!result.ok()) {
      if (!first_error_) first_error_ = result.error();
      stop_ = true;
      return;
    }
    const int starts = results_[i].starts + 1;
    results_[i] = std::move(result).value();
    results_[i].starts = starts;
    if (results_[i].cancelled) stop_ = true;
    else if (!results_[i].timed_out && limits_.on_done) limits_.on_done(++done_, jobs_.size());
  }

  const Toolchain& toolchain_;
  std::span<const CompileJob> jobs_;
  const CompileLimits& limits_;
  const std::string folder_;
  std::vector<CompileResult> results_;
  std::mutex mutex_;
  std::atomic<bool> stop_{false};
  size_t late_ = 0, in_time_ = 0, done_ = 0;  // jobs
  std::optional<Error> first_error_;
};

// Removes what killed processes left, once per process and directory.
void clean_up_once(const std::string& root) {
  static std::mutex mutex;
  static std::set<std::string> cleaned;
  std::lock_guard lock(mutex);
  if (cleaned.insert(root).second) remove_stale_scratch(root);
}

}  // namespace

std::vector<std::string> compile_arguments(const Toolchain& toolchain, const CompileJob& job) {
  std::vector<std::string> arguments = job.flags;
  auto add = [&](std::initializer_list<const char*> more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  };
  if (toolchain.kind == ToolKind::nvrtc) {
    if (!toolchain.include_dir.empty()) arguments.push_back("--include-path=" + toolchain.include_dir);
    if (job.output == OutputKind::cubin) add({"--ptxas-options=-v"});
    // For a real architecture NVRTC makes a cubin, too, which takes two fifths of the time.
    constexpr std::string_view kReal = "--gpu-architecture=sm_";
    if (job.output == OutputKind::assembly)
      for (std::string& argument : arguments)
        if (argument.starts_with(kReal)) argument.replace(0, kReal.size(), "--gpu-architecture=compute_");
    return arguments;
  }
  if (toolchain.kind == ToolKind::nvcc) {
    add({"-I.", job.output == OutputKind::cubin ? "-cubin" : "-ptx", "-Xptxas", "-v", "-o", "../out"});
    arguments.push_back("./" + job.sources.at(0).name);
    return arguments;
  }
  if (toolchain.kind == ToolKind::hipcc) {
    add({"-I.", "-Rpass-analysis=kernel-resource-usage"});
    if (job.output == OutputKind::cubin) add({"--genco"});
    else add({"--cuda-device-only", "-S"});
    add({"-o", "../out"});
    arguments.push_back("./" + job.sources.at(0).name);
    return arguments;
  }
  add({"-I."});
  if (job.output == OutputKind::assembly) add({"-S"});
  // Undefined symbols fail at link time, not at load time; unused libraries are not linked; equal inputs give equal
  // bytes.
  if (job.output == OutputKind::shared_object)
    add({"-shared", "-Wl,--as-needed", "-Wl,-z,defs", "-Wl,-z,noexecstack", "-Wl,--build-id=none"});
  // The language is given and names begin with "./", so that the compiler takes no name for an option or a library.
  add({"-o", "../out", "-x", job.output == OutputKind::precompiled_header ? "c++-header" : "c++"});
  for (const auto& source : job.sources) arguments.push_back("./" + source.name);
  return arguments;
}

std::string late_message(const Toolchain& toolchain, const CompileLimits& limits) {
  char limit[32];
  std::snprintf(limit, sizeof limit, "%g", limits.timeout_s);
  return toolchain.path.substr(toolchain.path.rfind('/') + 1) + " did not finish within " + limit + " s";
}

int parallel_jobs(const CompileLimits& limits) {
  int jobs = limits.jobs > 0 ? limits.jobs : usable_cpus();
  long memory_mb = available_memory_mb();
  if (memory_mb >= 0 && limits.need_mb > 0) jobs = static_cast<int>(std::min<long>(jobs, memory_mb / limits.need_mb));
  return std::max(jobs, 1);
}

Result<std::vector<CompileResult>> compile_all(const Toolchain& toolchain, std::span<const CompileJob> jobs,
                                               const CompileLimits& limits) {
  for (const auto& job : jobs) QCG_CHECK(check_job(toolchain, job));
  const std::string root = limits.temp_root.empty() ? default_temp_root() : limits.temp_root;
  clean_up_once(root);
  QCG_TRY(scratch, ScratchDir::create(root));

  Batch batch(toolchain, jobs, limits, scratch.path());
  batch.run_together(static_cast<size_t>(parallel_jobs(limits)));
  batch.run_late_ones_alone();
  return batch.take_results();
}

std::vector<CudaUsage> parse_cuda_usage(const std::string& log) {
  std::vector<CudaUsage> kernels;
  for (size_t begin = 0; begin < log.size();) {
    size_t end = std::min(log.find('\n', begin), log.size());
    const std::string line = log.substr(begin, end - begin);
    begin = end + 1;
    char name[512];
    if (size_t at = line.find("Compiling entry function '"); at != std::string::npos) {
      if (std::sscanf(line.c_str() + at, "Compiling entry function '%511[^']'", name) == 1)
        kernels.push_back({.kernel = name});
    }
    if (kernels.empty()) continue;
    CudaUsage& kernel = kernels.back();
    int stack;
    std::sscanf(line.c_str(), " %d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stack,
                &kernel.spill_store_bytes, &kernel.spill_load_bytes);
    if (size_t at = line.find("Used "); at != std::string::npos)
      std::sscanf(line.c_str() + at, "Used %d registers", &kernel.registers);
    if (size_t at = line.find(" bytes smem"); at != std::string::npos) {
      size_t digits = line.find_last_not_of("0123456789", at - 1) + 1;
      kernel.shared_bytes = std::atoi(line.substr(digits, at - digits).c_str());
    }
  }
  return kernels;
}

std::vector<CudaUsage> parse_hip_usage(const std::string& log) {
  constexpr struct {
    const char* text;
    int CudaUsage::*field;
  } kFields[] = {{" VGPRs: ", &CudaUsage::registers},
                 {" AGPRs: ", &CudaUsage::registers},
                 {" ScratchSize [bytes/lane]: ", &CudaUsage::scratch_bytes},
                 {" LDS Size [bytes/block]: ", &CudaUsage::shared_bytes}};
  constexpr std::string_view kName = "remark: Function Name: ";
  std::vector<CudaUsage> kernels;
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    const std::string line = log.substr(begin, end - begin);
    begin = end + 1;
    if (const size_t at = line.find(kName); at != std::string::npos) {
      const size_t from = at + kName.size();
      kernels.push_back({.kernel = line.substr(from, line.find(' ', from) - from)});
    }
    if (kernels.empty()) continue;
    for (const auto& [text, field] : kFields)
      if (const size_t at = line.find(text); at != std::string::npos)
        kernels.back().*field += std::atoi(line.c_str() + at + std::strlen(text));
  }
  return kernels;
}

}  // namespace qcg
