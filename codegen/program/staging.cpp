#include "codegen/program/staging.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/memory.h"

namespace qcg {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRemedy = "choose a writable place with -o";
constexpr int64_t kMaxManifestBytes = int64_t{16} << 20;
constexpr int kAttempts = 16;  // others may publish to the same place

Error cannot(const std::string& path, const char* what) {
  return Error::io(path, fmt::format("cannot {}: {}", what, std::strerror(errno)), kRemedy);
}

bool is_there(const std::string& path) {
  std::error_code failed;
  return fs::exists(fs::symlink_status(path, failed));
}

std::string follow_links(const std::string& path) {
  std::error_code failed;
  if (!fs::is_symlink(fs::symlink_status(path, failed))) return path;
  const fs::path real = fs::weakly_canonical(path, failed);
  return failed ? path : real.string();
}

// The manifest of a program of any version; null where there is none.
nlohmann::json manifest_at(const std::string& path) {
  auto file = open_program_file(path + "/manifest.json");
  if (!file.ok() || file->bytes > kMaxManifestBytes) return {};
  const auto text = read_program_file(*file, path);
  auto manifest = nlohmann::json::parse(text.ok() ? *text : "", nullptr, false);
  const bool ours = manifest.is_object() && manifest.contains("format") && manifest["format"] == "qcodegen-program" &&
                    manifest.contains("files") && manifest["files"].is_object();
  return ours ? manifest : nlohmann::json();
}

// What lies at `path` may go if it is a program in every part; `shown` is what messages call it.
Status check_replaceable(const std::string& path, const std::string& shown) {
  if (!is_there(path)) return {};
  const char* help = "remove it or choose another name with -o";
  std::error_code failed;
  if (!fs::is_directory(fs::symlink_status(path, failed))) return Error::io(shown, "exists and is not a program", help);
  const nlohmann::json manifest = manifest_at(path);
  if (manifest.is_null())
    return Error::io(shown, "exists and is not a program: it has no manifest.json that qcodegen wrote", help);
  for (fs::recursive_directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = fs::path(at->path()).lexically_relative(path).string();
    const fs::file_status status = at->symlink_status(failed);
    if (failed || fs::is_directory(status)) continue;
    const bool unlisted = name == "manifest.json" || name == "manifest.sha256" || name == kTuneLogFile ||
                          name == kOriginFile || name == kReportFile;
    if (!fs::is_regular_file(status) || !(unlisted || manifest["files"].contains(name)))
      return Error::io(shown + "/" + name,
                       "is in the directory but no part of the program: the program is not replaced",
                       "move it away, or choose another name with -o");
  }
  if (failed) return Error::io(shown, "cannot be listed: " + failed.message(), help);
  return {};
}

// File systems that cannot sync a directory say so; there is nothing else to do about it then.
void sync_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)::fsync(fd);
  ::close(fd);
}

fs::path parent_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

bool rename_with(const std::string& from, const std::string& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
}

bool is_unknown_flag(int error) { return error == EINVAL || error == ENOSYS || error == ENOTSUP; }

}  // namespace

bool is_program(const std::string& path) {
  std::error_code failed;
  return fs::exists(path + "/manifest.json", failed);
}

Status check_destination(const std::string& path) {
  const std::string target = follow_links(path);
  QCG_CHECK(check_replaceable(target, path));
  if (::access((parent_of(target) / ".").c_str(), W_OK | X_OK) == 0) return {};
  return cannot(path, "be made");
}

Result<StagingDir> StagingDir::create(const std::string& path) {
  std::string target = follow_links(path);
  const std::string folder = parent_of(target).string();
  remove_stale_scratch(folder);
  QCG_TRY(scratch, ScratchDir::create(folder));
  std::string staging = scratch.path() + "/" + fs::path(target).filename().string();
  if (::mkdir(staging.c_str(), 0755) != 0 || ::chmod(staging.c_str(), 0755) != 0)
    return cannot(path, "create a directory beside it");
  return StagingDir(std::move(target), std::move(staging), std::move(scratch));
}

Status StagingDir::publish() {
  std::error_code failed;
  for (fs::recursive_directory_iterator at(path_, failed), end; !failed && at != end; at.increment(failed))
    if (at->is_directory(failed)) sync_directory(at->path().string());
  sync_directory(path_);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    QCG_CHECK(check_replaceable(target_, target_));
    QCG_TRY(done, exchange());
    if (!done) continue;
    sync_directory(parent_of(target_).string());
    return {};
  }
  return Error::io(target_, "other compiles keep replacing it", "give each compile its own directory with -o");
}

// False: another compile published there, or took away what was there. Afterwards the scratch directory holds what was
// replaced.
Result<bool> StagingDir::exchange() {
  const unsigned flag = is_there(target_) ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (!rename_with(path_, target_, flag)) {
    if (is_unknown_flag(errno)) return flag == RENAME_EXCHANGE ? replace_in_two_steps() : move_in();
    if (errno == EEXIST || errno == ENOENT) return false;
    return cannot(target_, "put the program in place");
  }
  if (flag == RENAME_NOREPLACE) return true;
  // What was looked at is not always what was taken.
  const Status replaced = check_replaceable(path_, target_);
  if (replaced.ok()) return true;
  if (!rename_with(path_, target_, RENAME_EXCHANGE)) (void)::rename(path_.c_str(), target_.c_str());
  return replaced.error();
}

Result<bool> StagingDir::move_in() {
  if (::rename(path_.c_str(), target_.c_str()) == 0) return true;
  if (errno == EEXIST || errno == ENOTEMPTY) return false;
  return cannot(target_, "put the program in place");
}

// Where two directories cannot change places: for an instant there is no program.
Result<bool> StagingDir::replace_in_two_steps() {
  const std::string old = fmt::format("{}/replaced.{}", scratch_.path(), replaced_++);
  if (::rename(target_.c_str(), old.c_str()) != 0) {
    if (errno == ENOENT) return false;
    return cannot(target_, "move the old program away");
  }
  const Status replaced = check_replaceable(old, target_);
  Result<bool> moved = replaced.ok() ? move_in() : Result<bool>(replaced.error());
  if (!moved.ok()) (void)::rename(old.c_str(), target_.c_str());
  return moved;
}

}  // namespace qcg
