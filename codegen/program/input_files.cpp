#include "codegen/program/input_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>

#include "base/cancel.h"
#include "cache/store/file_system.h"
#include "cache/store/sha256.h"
#include "codegen/tune/tune.h"
#include "graph/checkpoints/checkpoint.h"
#include "graph/read/read_graph.h"
#include "runtime/piece_digests.h"

namespace qcg {

namespace {

constexpr const char* kAgain = "compile again when nobody writes to it";

Error changed(const std::string& path) {
  return Error::io(path, "was changed while it was compiled: nothing is written", kAgain);
}

// Compares the numbers that a write or a replacement changes, not the contents. A write sets the time of change, which
// no program can set back.
bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
         a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

Result<InputFile> read_file(const std::string& role, const std::string& path) {
  QCG_TRY(opened, open_regular_file(path));
  InputFile file{role, path, {}, {}};
  if (::fstat(opened.get(), &file.status) != 0) return io_error(path, "cannot be examined", errno);
  QCG_TRY(pieces, piece_digests(opened.get(), file.status.st_size, path));
  file.identity = sha256_hex(fmt::format("{} {}", file.status.st_size, fmt::join(pieces, " ")));
  return file;
}

}  // namespace

Result<InputFiles> InputFiles::read(const CompileOptions& options) {
  InputFiles out;
  QCG_CHECK(refuse_folder(options.input));
  QCG_TRY(graph, read_file("graph", options.input));
  out.files_.push_back(std::move(graph));
  for (const std::string& weights : options.weights) {
    if (weights.starts_with("random:")) {
      out.files_.push_back({"weights", {}, weights, {}});
      continue;
    }
    // An index says nothing of what its shards hold: each file counts.
    QCG_TRY(paths, checkpoint_files(weights));
    for (const std::string& path : paths) {
      if (is_cancelled(options.cancel)) return Error::interrupted();
      QCG_TRY(file, read_file("weights", path));
      out.files_.push_back(std::move(file));
    }
  }
  if (options.pin.empty()) return out;
  QCG_TRY(pin, read_file("pin", tune_log_of(options.pin)));
  out.files_.push_back(std::move(pin));
  return out;
}

Status InputFiles::check_unchanged(const std::vector<std::string>& used) const {
  for (const std::string& path : used)
    if (std::none_of(files_.begin(), files_.end(), [&](const InputFile& file) { return file.path == path; }))
      return changed(path);
  for (const InputFile& file : files_) {
    if (file.path.empty()) continue;
    const auto now = read_file(file.role, file.path);
    if (!now.ok() || !is_same_file(file.status, now->status) || file.identity != now->identity)
      return changed(file.path);
  }
  return {};
}

}  // namespace qcg
