// Where the module lies, its entry points, and what doctor says about it.
#include "codegen/vendor/vendor_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "codegen/trial/trial.h"

namespace qcg {

namespace {

constexpr char kModule[] = "libqcodegen_onednn.so";
// Where the module lies, from the executable's directory: beside it, installed, in the build tree.
#ifndef QCG_MODULE_DIR
#define QCG_MODULE_DIR "../lib/qcodegen"
#endif
constexpr const char* kModuleDirs[] = {".", QCG_MODULE_DIR, "../lib/qcodegen", "../codegen"};
constexpr char kRemedy[] = "apt-get install libdnnl-dev, then build qcodegen again";
constexpr double kStatusTimeout_s = 20;

template <class F>
void find_entry(OneDnn& lib, F& entry, const char* name) {
  entry = reinterpret_cast<F>(::dlsym(lib.handle, name));
  if (!entry) lib.missing = fmt::format("{} has no {}", kModule, name);
}

}  // namespace

std::string find_onednn_module() {
  std::error_code ec;
  const auto directory = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path();
  for (const char* candidate : kModuleDirs)
    if (const auto path = directory / candidate / kModule; std::filesystem::is_regular_file(path, ec))
      return path.string();
  return {};
}

OneDnn load_onednn() {
  OneDnn out;
  const std::string path = find_onednn_module();
  if (path.empty()) return out.missing = "qcodegen was built without it", out;
  out.handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* error = out.handle ? nullptr : ::dlerror();
  if (!out.handle) return out.missing = error ? error : "it does not load", out;
  find_entry(out, out.version, "qcg_onednn_version");
  find_entry(out, out.check, "qcg_onednn_check");
  find_entry(out, out.create, "qcg_onednn_create");
  find_entry(out, out.run, "qcg_onednn_run");
  find_entry(out, out.read, "qcg_onednn_read");
  find_entry(out, out.destroy, "qcg_onednn_destroy");
  return out;
}

VendorStatus onednn_status() {
  auto child = run_in_child(kStatusTimeout_s, [](ChildReport& report) {
    const OneDnn lib = load_onednn();
    report.send(lib.missing.empty() ? "+" + std::string(lib.version()) : "-" + lib.missing);
  });
  if (!child.ok()) return {false, child.error().message, ""};
  if (child->messages.empty()) return {false, "its library cannot be used: " + child->failure, kRemedy};
  const std::string& message = child->messages[0];
  if (message[0] == '+') return {true, "oneDNN " + message.substr(1), ""};
  return {false, message.substr(1), kRemedy};
}

}  // namespace qcg
