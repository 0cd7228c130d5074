#include "tests/cuda/ptx/executor.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "cache/store/store.h"
#include "cache/toolchain/compile.h"
#include "tests/paths.h"
#include "tests/temp_dir.h"

namespace qcg::ptx {
namespace {

// What a translation includes, beside it. Optimizing it would take three times as long as what that saves in its run.
CompileJob job_of(const Translation& translation) {
  CompileJob job;
  job.sources = {{"kernel.cpp", translation.source}};
  for (const char* header : {"machine.h", "floats.h", "arithmetic.h", "float_ops.h", "memory_ops.h"})
    job.headers.push_back({header, test::slurp(test::source_dir() + "/tests/cuda/ptx/" + header)});
  job.flags = {"-std=c++20", "-O0", "-w", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing"};
  return job;
}

// What all translations include takes longer to compile than most of them: it is compiled once in a process.
Result<const Pch*> headers_of(const Toolchain& cxx, const CompileJob& job) {
  static const Result<Pch> made = [&] {
    Store none = Store::none();
    return ensure_pch(cxx, "#include \"memory_ops.h\"\n", job.headers, job.flags, none);
  }();
  if (!made.ok()) return made.error();
  return &*made;
}

Result<std::shared_ptr<void>> open_library(const std::string& bytes) {
  test::TempDir dir;
  const std::string path = dir / "kernel.so";
  test::spit(path, bytes);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return Error::internal("dlopen", dlerror());
  return std::shared_ptr<void>(handle, [](void* h) { dlclose(h); });
}

// The lines of a compiler's log that say what is wrong.
std::string errors_of(const std::string& log) {
  std::istringstream in(log);
  std::string out, line;
  while (std::getline(in, line) && out.size() < 2000)
    if (line.find("error:") != line.npos) out += line + "\n";
  return out.empty() ? log : out;
}

}  // namespace

Result<std::vector<LoadedKernel>> load_kernels(std::span<const std::string> texts) {
  QCG_TRY(cxx, find_cxx());
  std::vector<LoadedKernel> kernels;
  std::vector<CompileJob> jobs;
  for (const std::string& text : texts) {
    LoadedKernel k;
    QCG_TRY(module, parse_ptx(text));
    if (module.kernels.size() != 1)
      return Error::bad_input("PTX", fmt::format("{} kernels", module.kernels.size()), "give one kernel per text");
    k.module_ = std::make_shared<Module>(std::move(module));
    QCG_TRY(translation, translate(*k.module_, k.kernel()));
    k.translation_ = std::move(translation);
    jobs.push_back(job_of(k.translation_));
    QCG_TRY(headers, headers_of(cxx, jobs.back()));
    jobs.back().pch = headers;
    kernels.push_back(std::move(k));
  }
  QCG_TRY(results, compile_all(cxx, jobs, {.timeout_s = 300}));
  for (size_t i = 0; i < kernels.size(); ++i) {
    LoadedKernel& k = kernels[i];
    if (!results[i].ok())
      return Error::unsupported(k.name(), errors_of(results[i].log), "add the opcode to tests/cuda/ptx/*_ops.h");
    QCG_TRY(library, open_library(results[i].bytes));
    k.library_ = library;
    k.thread_ = reinterpret_cast<void (*)()>(dlsym(library.get(), "ptx_thread"));
    k.bind_ = reinterpret_cast<void (*)(Machine*)>(dlsym(library.get(), "ptx_bind"));
    k.counts_ = static_cast<uint64_t*>(dlsym(library.get(), "ptx_counts"));
    if (!k.thread_ || !k.bind_ || !k.counts_) return Error::internal(k.name(), "the translation lacks a symbol");
  }
  return kernels;
}

Result<LoadedKernel> load_kernel(const std::string& text) {
  QCG_TRY(all, load_kernels({&text, 1}));
  return std::move(all[0]);
}

GlobalMemory LoadedKernel::memory() const {
  GlobalMemory memory;
  for (const Variable* v : translation_.storage.globals) {
    std::vector<uint8_t> bytes = v->data;
    bytes.resize(static_cast<size_t>(v->bytes));  // without an initializer: zeros
    memory.add(v->name, std::move(bytes), v->space == "const" ? Access::input : Access::in_out);
  }
  return memory;
}

std::string LoadedKernel::describe(int line) const {
  for (const Instruction& i : kernel().code) {
    if (i.line != line || !i.label.empty()) continue;
    std::string text = fmt::format("PTX line {}, {}", line, i.name());
    auto file = module_->files.find(i.source_file);
    if (file != module_->files.end()) text += fmt::format(" ({}:{})", file->second, i.source_line);
    return text;
  }
  return fmt::format("PTX line {}", line);
}

std::optional<Fault> LoadedKernel::run_once(const Launch& launch, GlobalMemory& memory, const CtaOptions& options,
                                            Counters& counters) const {
  const uint32_t shared = static_cast<uint32_t>(translation_.storage.dynamic_offset) + launch.dynamic_shared;
  Cta cta(memory, options, counters);
  bind_(&cta);
  try {
    for (uint32_t z = 0; z < launch.grid.z; ++z)
      for (uint32_t y = 0; y < launch.grid.y; ++y)
        for (uint32_t x = 0; x < launch.grid.x; ++x)
          cta.run({x, y, z}, launch.grid, launch.block, shared, launch.dynamic_shared, thread_);
  } catch (Fault& fault) {
    fault.where = fmt::format("kernel {}, {}, {}", name(),
                              options.timing == Timing::early ? "copies early" : "copies late", fault.where);
    return fault;
  }
  return std::nullopt;
}

void LoadedKernel::count_instructions(Counters& counters) const {
  for (size_t b = 0; b < translation_.blocks.size(); ++b)
    for (const std::string& opcode : translation_.blocks[b].opcodes) counters.instructions[opcode] += counts_[b];
  for (auto& [opcode, n] : counters.instructions) n = (n + 31) / 32;
}

Outcome LoadedKernel::run(const Launch& launch, GlobalMemory& memory, const std::vector<Argument>& arguments) const {
  Outcome out;
  CtaOptions options;
  options.local_bytes = translation_.storage.local_bytes;
  options.describe_line = [this](int line) { return describe(line); };
  options.parameters.assign(static_cast<size_t>(kernel().parameter_bytes), 0);
  if (arguments.size() != kernel().parameters.size()) {
    out.fault = Fault{FaultKind::protocol,
                      fmt::format("{} arguments for {} parameters", arguments.size(), kernel().parameters.size())};
    return out;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Parameter& p = kernel().parameters[i];
    if (static_cast<int64_t>(arguments[i].size()) != p.bytes) {
      out.fault = Fault{FaultKind::protocol,
                        fmt::format("argument {} has {} bytes, its parameter {}", i, arguments[i].size(), p.bytes)};
      return out;
    }
    std::memcpy(options.parameters.data() + p.offset, arguments[i].data(), arguments[i].size());
  }
  const std::deque<Buffer> before = memory.buffers();
  std::fill_n(counts_, translation_.blocks.size(), 0);
  options.count = true;
  out.fault = run_once(launch, memory, options, out.counters);
  if (out.fault) return out;
  count_instructions(out.counters);
  for (const Buffer& b : memory.buffers())
    out.counters.bytes_read += b.bytes_read, out.counters.bytes_written += b.bytes_written;
  const std::deque<Buffer> early = std::exchange(memory.buffers(), before);
  options.count = false;
  options.timing = Timing::late;
  options.order = Order::descending;
  Counters unused;
  out.fault = run_once(launch, memory, options, unused);
  for (size_t i = 0; i < early.size() && !out.fault; ++i) {
    const auto& a = early[i].bytes;
    const auto& b = memory.buffers()[i].bytes;
    for (size_t at = 0; at < a.size() && !out.fault; ++at)
      if (a[at] != b[at] || early[i].written[at] != memory.buffers()[i].written[at])
        out.fault = Fault{FaultKind::timing,
                          fmt::format("byte {} of '{}' depends on when copies and products take effect, or on "
                                      "the order of threads",
                                      at, early[i].name),
                          0, "kernel " + name()};
  }
  return out;
}

}  // namespace qcg::ptx
