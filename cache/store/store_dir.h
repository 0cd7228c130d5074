// Checks that only this user can change a directory; the cache refuses others.
//
// Why here: qcodegen runs code from the store. Private to cache/.
//
//   QCG_CHECK(make_private_dir("/home/me/.cache/qcodegen", fs, /*shared=*/false));
#pragma once

#include <string>

#include "base/result.h"
#include "cache/store/file_system.h"

namespace qcg {

// Creates the directory and its missing parents (0700), then checks every component of the path. Error Io: a symbolic
// link belongs to another user, other users may rename entries of a parent, or may write to the directory, or own it.
Status make_private_dir(const std::string& path, FileSystem& fs, bool shared);

// The same checks for a directory inside the store; a symbolic link is refused.
Status check_private_dir(const std::string& path, FileSystem& fs, bool shared);

// Returns what is wrong with a file of an entry, or "". It must be regular, with one link, and ours unless `shared`.
std::string refuse_file(const struct stat& info, bool shared);

}  // namespace qcg
