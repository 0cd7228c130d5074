// SHA-256 of bytes and files, streaming: the only hash the cache trusts.
//
// Why here: keys, manifests, toolchain fingerprints and exports all need the same digest; OpenSSL stays behind this
// file.
//
//   sha256_hex("abc") == "ba7816bf…"
//   Sha256 h; h.update(part1); h.update(part2); std::string hex = h.finish();
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace qcg {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::string_view bytes);
  std::string so_far() const;  // 64 lower-case hex digits of what there is by now
  std::string finish();        // the same; the object is spent afterwards

 private:
  void* context_;  // EVP_MD_CTX
};

std::string sha256_hex(std::string_view bytes);

// Reads the file in pieces, so that its size does not matter. Io error if it cannot be read, BadInput if it is
// no regular file: a pipe or a device may have no end.
Result<std::string> sha256_file(const std::string& path);

bool is_sha256_hex(std::string_view text);

}  // namespace qcg
