#include "codegen/build/build.h"

#include <fmt/format.h>

#include "base/cancel.h"
#include "cache/store/key.h"
#include "codegen/kernel/support_headers.h"

namespace qcg {

namespace {

constexpr const char* kResourcesName = "resources.txt";
// Making a precompiled header costs about what it saves three kernels (cache/toolchain/compile.h has the figures). Using
// one that the store has costs a fifth of what it saves one kernel.
constexpr size_t kKernelsPerPch = 4;

std::string module_name(const KernelSource& kernel) { return "kernel" + std::string(kernel.module_suffix()); }
std::string source_name(const KernelSource& kernel) { return "kernel" + std::string(kernel.source_suffix()); }

// The source without the comment at its head, where names from the graph stand: other names make no other kernel.
std::string_view code_of(std::string_view source) {
  while (source.starts_with("//")) source.remove_prefix(std::min(source.find('\n'), source.size() - 1) + 1);
  return source;
}

KeyBuilder key_of(const KernelSource& kernel, const Toolchain& cxx) {
  KeyBuilder key;
  key.add("kernel", kernel.name);
  key.add("generator", kGeneratorVersion);
  key.add("isa", isa_info(kernel.isa).name);
  key.add("toolchain", cxx.fingerprint);
  key.add_list("flags", compiler_flags(cxx, kernel.isa));
  for (const SourceFile& header : support_headers(kernel.isa)) key.add("header " + header.name, header.text);
  key.add("source", code_of(kernel.source));
  return key;
}

CompileJob job_of(const KernelSource& kernel, const Toolchain& cxx) {
  CompileJob job;
  job.language = language_of(kernel.isa);
  if (kernel.on_device()) job.output = OutputKind::cubin;
  job.sources = {{source_name(kernel), kernel.source}};
  for (const SourceFile& header : support_headers(kernel.isa)) job.headers.push_back({header.name, header.text});
  job.flags = compiler_flags(cxx, kernel.isa);
  return job;
}

std::string resources_text(const KernelSource& kernel, const CompileResult& result) {
  if (result.cuda.empty()) return "";
  const CudaUsage& usage = result.cuda[0];
  const int spilled = usage.spilled_bytes();
  return fmt::format("{} registers, {} {}, {} KiB shared", usage.registers, spilled,
                     spilled == 0 ? "spills" : "bytes of spills",
                     (usage.shared_bytes + kernel.launch.shared_bytes + 1023) / 1024);
}

// The first line of a compiler log that says what is wrong.
std::string first_error(const CompileResult& result, const Toolchain& cxx, const CompileLimits& limits) {
  if (result.timed_out) return late_message(cxx, limits);
  if (result.cancelled) return "cancelled";
  size_t at = result.log.find("error:");
  if (at == std::string::npos) at = 0;
  const size_t begin = result.log.rfind('\n', at);
  const size_t from = begin == std::string::npos ? 0 : begin + 1;
  std::string line = result.log.substr(from, result.log.find('\n', at) - from);
  return line.empty() ? fmt::format("the compiler exited with status {}", result.exit_status) : line;
}

}  // namespace

Result<Toolchain> find_compiler(const Target& target, const ToolchainOptions& options) {
  switch (target.device) {
    case Device::cuda: return find_cuda(options);
    case Device::hip: return find_hipcc(options);
    case Device::cpu: break;
  }
  return find_cxx(options);
}

Language language_of(Isa isa) {
  switch (isa_info(isa).device) {
    case Device::cuda: return Language::cuda;
    case Device::hip: return Language::hip;
    case Device::cpu: break;
  }
  return Language::cpp;
}

std::vector<std::string> compiler_flags(const Toolchain& cxx, Isa isa) {
  if (isa_info(isa).device == Device::cuda) {
    const std::string name(isa_info(isa).name);
    if (cxx.kind == ToolKind::nvrtc) return {"--gpu-architecture=" + name, "--std=c++17", "--fmad=false"};
    return {"-arch=" + name, "-std=c++17", "-fmad=false"};
  }
  // As there: no product and sum become one where the source does not say so.
  if (isa_info(isa).device == Device::hip)
    return {"--offload-arch=" + std::string(isa_info(isa).name), "-std=c++17", "-O3", "-ffp-contract=off"};
  std::vector<std::string> flags = kernel_flags(cxx);
  const std::vector<std::string> isa_flags = kernel_flags(isa);
  flags.insert(flags.end(), isa_flags.begin(), isa_flags.end());
  return flags;
}

Result<std::vector<BuiltKernel>> KernelBuilder::build(std::vector<KernelSource> sources) {
  std::vector<BuiltKernel> kernels;
  std::vector<size_t> missing;
  std::vector<std::string> dumps;
  for (KernelSource& source : sources) {
    BuiltKernel kernel;
    const KeyBuilder key = key_of(source, cxx_);
    kernel.source = std::move(source);
    kernel.key = key.finish().hex;
    QCG_TRY(entry, store_.find({kernel.key}, EntryKind::kernel));
    if (entry) {
      if (auto bytes = entry->read(module_name(kernel.source))) kernel.bytes = std::move(*bytes), kernel.hit = true;
      if (kernel.hit && kernel.source.on_device())
        if (auto text = entry->read(kResourcesName)) kernel.resources = std::move(*text);
    }
    if (kernel.hit) ++counters_.cache_hits;
    else missing.push_back(kernels.size());
    dumps.push_back(key.dump());
    kernels.push_back(std::move(kernel));
  }
  Status compiled;
  if (!missing.empty()) compiled = compile_missing(kernels, missing, dumps);
  if (is_cancelled(limits_.cancel)) return Error::interrupted();  // whatever else it says
  QCG_CHECK(compiled);
  return kernels;
}

Status KernelBuilder::prepare_pch(const CompileJob& job, Isa isa, size_t kernels, Pch& out) {
  CompileLimits limits = limits_;
  limits.on_done = nullptr;  // it counts kernels
  const MissingPch missing = kernels >= kKernelsPerPch ? MissingPch::make : MissingPch::skip;
  QCG_TRY(pch, ensure_pch(cxx_, include_lines(isa), job.headers, job.flags, store_, limits, missing));
  if (!pch.hit && !pch.flags.empty()) ++counters_.compiler_runs, counters_.compiler_s += pch.seconds;
  out = std::move(pch);
  return {};
}

Status KernelBuilder::compile_missing(std::vector<BuiltKernel>& kernels, const std::vector<size_t>& missing,
                                      const std::vector<std::string>& dumps) {
  std::vector<CompileJob> jobs;
  std::map<Isa, size_t> counts;  // of the kernels that would share one precompiled header
  for (size_t i : missing) ++counts[kernels[i].source.isa];
  std::map<Isa, Pch> headers;
  for (size_t i : missing) {
    CompileJob job = job_of(kernels[i].source, cxx_);
    if (const Isa isa = kernels[i].source.isa; !kernels[i].source.on_device()) {
      auto [it, is_new] = headers.try_emplace(isa);
      if (is_new) QCG_CHECK(prepare_pch(job, isa, counts[isa], it->second));
      job.pch = &it->second;
    }
    jobs.push_back(std::move(job));
    if (explain_misses_)
      if (const auto reasons = store_.explain_miss(dumps[i]); !reasons.empty()) ++counters_.misses[reasons[0]];
  }
  QCG_TRY(results, compile_all(cxx_, jobs, limits_));
  for (size_t r = 0; r < results.size(); ++r) {
    BuiltKernel& kernel = kernels[missing[r]];
    counters_.compiler_runs += results[r].starts;
    counters_.compiler_s += results[r].seconds;
    kernel.compile_s = results[r].seconds;
    if (!results[r].ok()) {
      kernel.failure = first_error(results[r], cxx_, limits_);
      kernel.late = results[r].timed_out;
      if (kernel.late) ++counters_.late, counters_.late_why = kernel.failure;
      continue;
    }
    kernel.bytes = std::move(results[r].bytes);
    kernel.resources = resources_text(kernel.source, results[r]);
    std::vector<EntryFile> files = {{module_name(kernel.source), kernel.bytes, 0700, {}},
                                    {source_name(kernel.source), kernel.source.source, 0600, {}}};
    if (kernel.source.on_device()) files.push_back({kResourcesName, kernel.resources, 0600, {}});
    (void)store_.publish({kernel.key}, files, dumps[missing[r]]);  // a full or read-only cache only costs a recompile
  }
  return {};
}

Error build_error(const BuiltKernel& kernel) {
  return Error::toolchain(kernel.source.name, kernel.failure,
                          kernel.late ? kLateHelp : "this is a bug in qcodegen: please report it");
}

Result<std::vector<std::string>> assemble(const Toolchain& cxx, const std::vector<KernelSource>& sources,
                                          const CompileLimits& limits) {
  std::vector<CompileJob> jobs;
  for (const KernelSource& source : sources) {
    jobs.push_back(job_of(source, cxx));
    jobs.back().output = OutputKind::assembly;
  }
  auto compiled = compile_all(cxx, jobs, limits);
  if (is_cancelled(limits.cancel)) return Error::interrupted();
  QCG_TRY(results, std::move(compiled));
  std::vector<std::string> listings;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].ok())
      return Error::toolchain(sources[i].name, first_error(results[i], cxx, limits),
                              results[i].timed_out ? kLateHelp : "`qcodegen doctor` shows the compiler that was used");
    listings.push_back(std::move(results[i].bytes));
  }
  return listings;
}

}  // namespace qcg
