// qcodegen doctor: prints what works on this machine, and how to fix what does not.
#include <fmt/format.h>

#include <fstream>

#include "base/cpu_quota.h"
#include "cache/store/store.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "codegen/kernel/target.h"
#include "codegen/vendor/cublaslt.h"
#include "codegen/vendor/vendor_module.h"

namespace qcg {

namespace {

struct Check {
  std::string name;
  bool ok;
  std::string detail, remedy;
  bool needed = false;  // `compile` does not work without it
};

Check check_tool(const char* name, const Result<Toolchain>& tool, bool needed) {
  if (!tool.ok()) return {name, false, tool.error().message, tool.error().help, needed};
  return {name, true, fmt::format("{} {} ({})", tool_kind_name(tool->kind), tool->version, tool->path), "", needed};
}

Check check_huge_pages() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string mode;
  std::getline(in, mode);
  const bool ok = mode.find("[never]") == std::string::npos && !mode.empty();
  return {"huge pages", ok, mode.empty() ? "this Linux kernel has none" : mode,
          ok ? "" : "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: 10 to 20 % more read bandwidth"};
}

Check check_cache(const Session& session) {
  auto store = Store::open({.dir = session.cache_dir});
  if (!store.ok())
    return {"cache directory", false, store.error().where + " " + store.error().message, store.error().help};
  return {"cache directory", !store->read_only(), session.cache_dir + (store->read_only() ? " (read-only)" : ""),
          store->read_only() ? "make it writable or set QCG_CACHE_DIR" : ""};
}

std::vector<Check> run_checks(const Session& session) {
  std::vector<Check> out;
  const ToolchainOptions options = toolchain_options(session);
  out.push_back(check_tool("c++ compiler", find_cxx(options), true));
  const Machine& machine = this_machine();
  const int quota = cpu_quota();
  out.push_back({"cpu", true,
                 fmt::format("{}, {} cores{}, L2 {}, L3 {}", machine.cpu, machine.cores,
                             quota > 0 ? fmt::format(" (quota of the control group: {})", quota) : "",
                             format_bytes(static_cast<double>(machine.l2_bytes)),
                             format_bytes(static_cast<double>(machine.l3_bytes))),
                 ""});
  for (const IsaInfo& isa : isa_table()) {
    if (isa.device != Device::cpu) continue;
    const std::string missing = why_isa_unavailable(isa.isa);
    out.push_back({"cpu:" + std::string(isa.name), missing.empty(),
                   missing.empty() ? std::string(isa.summary) : missing,
                   missing.empty() ? "" : "--tune=off can build kernels for it, but this machine cannot run them"});
  }
  out.push_back(check_huge_pages());
  out.push_back(check_cache(session));
  const VendorStatus onednn = onednn_status();
  out.push_back({"oneDNN", onednn.found, onednn.detail, onednn.remedy});
  out.push_back(check_tool("nvcc", find_nvcc(options), false));
  out.push_back(check_tool("nvrtc", find_nvrtc(options), false));
  const VendorStatus cublaslt = cublaslt_status();
  out.push_back({"cublasLt", cublaslt.found, cublaslt.detail, cublaslt.remedy});
  out.push_back(check_tool("hipcc", find_hipcc(options), false));
  if (out.back().ok) out.back().detail += fmt::format("; {}", device_caution(Device::hip));
  return out;
}

int run_doctor(const Session& session) {
  const std::vector<Check> checks = run_checks(session);
  if (interrupted()) return fail(session, Error::interrupted());
  bool usable = true;
  nlohmann::json out = nlohmann::json::array();
  std::string text;
  for (const Check& check : checks) {
    usable = usable && (check.ok || !check.needed);
    out.push_back({{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}, {"remedy", check.remedy}});
    text += fmt::format("{} {:<18} {}\n", check.ok ? "ok  " : check.needed ? "FAIL" : "no  ", check.name, check.detail);
    if (!check.remedy.empty()) text += fmt::format("     {:<18} → {}\n", "", check.remedy);
  }
  if (session.json) print_json("doctor", {{"checks", out}});
  else put(text);
  return usable ? 0 : 3;
}

}  // namespace

void add_doctor_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("doctor", "print what works on this machine, and how to fix what does not");
  sub->footer("Example:\n  qcodegen doctor --json");
  sub->callback([&session] { session.status = run_doctor(session); });
}

}  // namespace qcg
