#include <fcntl.h>

#include <cerrno>

#include "cache/store/scratch.h"
#include "cache/toolchain/compile.h"

namespace qcg {

namespace {

constexpr char kHeaderName[] = "qcg_pch.h";
constexpr char kPchName[] = "qcg_pch.h.gch";

Key pch_key(const Toolchain& toolchain, const CompileJob& job, KeyBuilder& builder) {
  builder.add(kPchTitle, kPchName);
  builder.add("toolchain", toolchain.fingerprint);
  builder.add_list("arguments", compile_arguments(toolchain, job));
  for (const auto* list : {&job.sources, &job.headers})
    for (const auto& source : *list) builder.add("file name", source.name).add("file", source.text);
  return builder.finish();
}

}  // namespace

Result<Pch> ensure_pch(const Toolchain& toolchain, const std::string& header_text, std::span<const SourceText> headers,
                       const std::vector<std::string>& flags, Store& store, const CompileLimits& limits,
                       MissingPch missing) {
  Pch pch;
  // clang ties a precompiled header to the paths and times of its files, so it would refuse a verified copy.
  if (toolchain.kind != ToolKind::gcc) return pch;
  CompileJob job{.sources = {{kHeaderName, header_text}},
                 .headers = {headers.begin(), headers.end()},
                 .flags = flags,
                 .output = OutputKind::precompiled_header};
  KeyBuilder builder;
  const Key key = pch_key(toolchain, job, builder);
  QCG_TRY(entry, store.find(key, EntryKind::pch));
  if (!entry && missing == MissingPch::skip) return pch;

  FileSystem& fs = real_file_system();
  QCG_TRY(made, ScratchDir::create(limits.temp_root.empty() ? default_temp_root() : limits.temp_root));
  auto dir = std::make_shared<ScratchDir>(std::move(made));
  const std::string header = dir->path() + "/" + kHeaderName;
  const std::string compiled = dir->path() + "/" + kPchName;
  // gcc falls back to the text of the header if it cannot use the compiled form, so the text must exist.
  if (int error = fs.create_file(header, header_text, 0600)) return io_error(header, "cannot be written", error);

  if (entry && entry->copy_verified(kPchName, compiled).ok()) {
    pch.hit = true;
  } else if (missing == MissingPch::skip) {
    return pch;
  } else {
    QCG_TRY(results, compile_all(toolchain, {&job, 1}, limits));
    CompileResult& result = results[0];
    pch.seconds = result.seconds;
    if (result.timed_out) return Error::toolchain(toolchain.path, late_message(toolchain, limits), kLateHelp);
    if (!result.ok()) return pch;  // the logs of the kernels will show what is wrong with the header
    EntryFile file{.name = kPchName, .bytes = std::move(result.bytes)};
    if (int error = fs.create_file(compiled, file.bytes, 0600)) return io_error(compiled, "cannot be written", error);
    (void)store.publish(key, {&file, 1}, builder.dump());
  }
  pch.flags = {"-include", header};
  pch.dir = dir;
  return pch;
}

}  // namespace qcg
