#include "cache/store/store_dir.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

namespace qcg {

namespace {

constexpr int kMaxLinks = 40;
const char kHelp[] = "choose a directory that only you can write with QCG_CACHE_DIR, or `chmod go-w` this one";

Error refused(const std::string& path, const std::string& why) {
  return Error::io(path, "is refused as a cache directory: " + why, kHelp);
}

bool others_may_write(const struct stat& info) {
  if (info.st_mode & S_IWOTH) return true;
  // A group that contains only the user counts as the user. Debian gives each user such a group.
  return (info.st_mode & S_IWGRP) && info.st_gid != getegid();
}

bool is_trusted(uid_t owner) { return owner == 0 || owner == geteuid(); }

Status check_folder(const std::string& path, const struct stat& info) {
  if (!S_ISDIR(info.st_mode)) return refused(path, "not a directory");
  if (!is_trusted(info.st_uid))
    return refused(path, "this folder on the way belongs to another user, who may replace what is below it");
  if (others_may_write(info) && !(info.st_mode & S_ISVTX))
    return refused(path, "others may write to this folder on the way, and replace what is below it");
  return {};
}

// The components of a path, last one first.
std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (const auto& part : std::filesystem::path(path)) parts.push_back(part.string());
  std::reverse(parts.begin(), parts.end());
  return parts;
}

// A user who can change a directory between / and `path`, or a link on the way, can replace the cache. So this function
// checks every component of the path, and of the paths to which links lead.
Status check_way(const std::string& path, FileSystem& fs) {
  std::vector<std::string> rest = parts_of(path);
  std::string at = "/";
  for (int links = 0; !rest.empty();) {
    const std::string part = rest.back();
    rest.pop_back();
    const std::string next = part == "/"    ? "/"
                             : part == ".." ? std::filesystem::path(at).parent_path().string()
                                            : (std::filesystem::path(at) / part).string();
    struct stat info;
    if (fs.lstat(next, &info)) return io_error(next, "cannot be examined", errno);
    if (!S_ISLNK(info.st_mode)) {
      QCG_CHECK(check_folder(next, info));
      at = next;
      continue;
    }
    if (!is_trusted(info.st_uid)) return refused(next, "this symbolic link belongs to another user");
    std::error_code failed;
    const auto target = std::filesystem::read_symlink(next, failed);
    if (failed || ++links > kMaxLinks) return refused(next, "this symbolic link leads nowhere");
    for (std::string& more : parts_of(target.string())) rest.insert(rest.end(), std::move(more));
  }
  return {};
}

// Without "//" and ".": each prefix then ends with one component. A ".." stays, because it may follow a link: what is
// checked must be the directory that the system finds.
std::string without_dots(const std::string& path) {
  std::string out;
  for (const auto& part : std::filesystem::path(path))
    if (!part.empty() && part != "." && part != "/") out += "/" + part.string();
  return out.empty() ? "/" : out;
}

Status make_missing(const std::string& path, mode_t mode, FileSystem& fs) {
  struct stat info;
  if (fs.lstat(path, &info) == 0) return {};
  if (errno != ENOENT) return io_error(path, "cannot be examined", errno);
  if (fs.mkdir(path, mode) && errno != EEXIST) return io_error(path, "the cache directory cannot be made", errno);
  return {};
}

}  // namespace

Status check_private_dir(const std::string& path, FileSystem& fs, bool shared) {
  struct stat info;
  if (fs.lstat(path, &info)) return io_error(path, "the cache directory cannot be examined", errno);
  if (S_ISLNK(info.st_mode)) return refused(path, "it is a symbolic link");
  if (!S_ISDIR(info.st_mode)) return refused(path, "not a directory");
  if (shared) return {};
  if (info.st_uid != geteuid()) return refused(path, "it belongs to another user");
  if (info.st_mode & (S_IWGRP | S_IWOTH)) return refused(path, "group or others may write to it");
  return {};
}

Status make_private_dir(const std::string& path, FileSystem& fs, bool shared) {
  if (path.empty() || path[0] != '/')
    return Error::io(path, "a cache directory must be an absolute path",
                     "set QCG_CACHE_DIR or --cache-dir to a path that begins with /");
  const std::string dir = without_dots(path);
  for (size_t end = dir.find('/', 1); end != std::string::npos; end = dir.find('/', end + 1)) {
    std::string parent = dir.substr(0, end);
    QCG_CHECK(make_missing(parent, 0700, fs));
    if (!shared) QCG_CHECK(check_way(parent, fs));
  }
  QCG_CHECK(make_missing(dir, shared ? 0770 : 0700, fs));
  return check_private_dir(dir, fs, shared);
}

std::string refuse_file(const struct stat& info, bool shared) {
  if (!S_ISREG(info.st_mode)) return "is not a regular file";
  if (shared) return {};
  if (info.st_nlink != 1) return "has another hard link";
  if (info.st_uid != geteuid()) return "belongs to another user";
  if (info.st_mode & (S_IWGRP | S_IWOTH)) return "can be written by others";
  return {};
}

}  // namespace qcg
