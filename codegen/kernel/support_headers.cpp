#include "codegen/kernel/support_headers.h"

#include <algorithm>

#include "codegen/kernel/embedded.h"

namespace qcg {
namespace {

// `name` and everything it includes, depth first, so that includes come before their users.
void add_header(const std::string& name, std::vector<SourceFile>& out) {
  if (std::any_of(out.begin(), out.end(), [&](const SourceFile& f) { return f.name == name; })) return;
  auto text = embedded_file(name);
  if (!text) text = embedded_file("cpu/" + name);
  if (!text) return;  // a system header
  static constexpr std::string_view kInclude = "#include \"";
  for (size_t at = text->find(kInclude); at != std::string_view::npos; at = text->find(kInclude, at + 1)) {
    const size_t begin = at + kInclude.size(), end = text->find('"', begin);
    if (at == 0 || (*text)[at - 1] == '\n') add_header(std::string(text->substr(begin, end - begin)), out);
  }
  out.push_back({name, std::string(*text)});
}

}  // namespace

std::vector<SourceFile> support_headers(Isa isa) {
  std::vector<SourceFile> out;
  if (on_device(isa)) {
    // Headers of HIP replace those of CUDA with the same name.
    const auto take = [&](std::string_view folder) {
      for (const EmbeddedFile& file : embedded_files()) {
        if (!file.name.starts_with(folder) || !file.name.ends_with(".cuh")) continue;
        const std::string name(file.name.substr(folder.size()));
        if (std::ranges::find(out, name, &SourceFile::name) == out.end()) out.push_back({name, std::string(file.text)});
      }
    };
    if (isa_info(isa).device == Device::hip) take("hip/");
    take("cuda/");
    for (const char* shared : {"special.h", "integers.h", "doubles.h"}) add_header(shared, out);
    return out;
  }
  add_header("abi.h", out);
  add_header(std::string(isa_info(isa).header), out);
  add_header("gemm_" + std::string(isa_info(isa).name) + ".h", out);
  // A kernel of a contained ISA's row includes that ISA's header.
  if (isa == Isa::amx || isa == Isa::avx512bf16) {
    add_header("avx512bf16.h", out);
    add_header("gemm_avx512bf16.h", out);
  }
  for (const EmbeddedFile& file : embedded_files())
    if (file.name.starts_with("quant/")) add_header(std::string(file.name), out);
  return out;
}

std::string include_lines(Isa isa) {
  std::string out = "#include \"abi.h\"\n#include \"gemm_" + std::string(isa_info(isa).name) + ".h\"\n";
  for (const SourceFile& header : support_headers(isa))
    if (header.name.starts_with("quant/")) out += "#include \"" + header.name + "\"\n";
  return out;
}

std::vector<std::string> kernel_flags(Isa isa) {
  std::vector<std::string> flags;
  std::string_view rest = isa_info(isa).flags;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (end > 0) flags.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return flags;
}

}  // namespace qcg
