// Sha256: streaming SHA-256 of bytes and files, the only hash of the cache.
//
// Why here: keys, manifests, toolchain fingerprints and exports need the same digest. No other file of cache/ uses
// OpenSSL.
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
  std::string so_far() const;  // the digest of the bytes so far, as 64 lower-case hex digits
  std::string finish();        // the same; the object must not be used afterwards

 private:
  void* context_;  // EVP_MD_CTX
};

std::string sha256_hex(std::string_view bytes);

// The digest of a file of any size, which is read in pieces. Error Io: it cannot be read. BadInput: it is not a regular
// file (a pipe or a device may have no end).
Result<std::string> sha256_file(const std::string& path);

bool is_sha256_hex(std::string_view text);

// HMAC-SHA-256 (RFC 2104) of the bytes under the key, as 64 lower-case hex digits.
std::string hmac_sha256_hex(std::string_view key, std::string_view bytes);

// Whether two digests are equal, in a time that does not depend on where they differ.
bool same_digest(std::string_view a, std::string_view b);

}  // namespace qcg
