// Which directories the cache may live in: those that only this user can change.
//
// Why here: what the store loads is run as code. Private to cache/.
//
//   QCG_CHECK(make_private_dir("/home/me/.cache/qcodegen", fs, /*shared=*/false));
#pragma once

#include <string>

#include "base/result.h"
#include "cache/store/file_system.h"

namespace qcg {

// Makes the directory and its missing parents (0700), then checks every component: no symbolic link that others own, no
// folder that others may rename things in, and the directory itself ours and closed to their writes. Io errors.
Status make_private_dir(const std::string& path, FileSystem& fs, bool shared);

// The same checks for a directory inside the store; a symbolic link is refused.
Status check_private_dir(const std::string& path, FileSystem& fs, bool shared);

// A file of an entry: regular, one link, ours unless shared. Returns what is wrong, or an empty string.
std::string refuse_file(const struct stat& info, bool shared);

}  // namespace qcg
