#include "runtime/piece_digests.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "base/affinity.h"
#include "runtime/memory.h"
#include "runtime/threads.h"

namespace qcg {

namespace {

constexpr size_t kBlock = size_t{1} << 20;

// The digest of `bytes` bytes from `offset` on. If the library fails, it is empty, which equals no digest.
Result<std::string> digest_of_range(int fd, int64_t offset, int64_t bytes, const std::string& path) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!hash || EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) != 1) return std::string();
  std::vector<std::byte> block(std::min(kBlock, static_cast<size_t>(bytes)));
  for (int64_t done = 0; done < bytes;) {
    const std::span<std::byte> part(block.data(), std::min(block.size(), static_cast<size_t>(bytes - done)));
    QCG_CHECK(read_file_range(fd, offset + done, part, path));
    if (EVP_DigestUpdate(hash.get(), part.data(), part.size()) != 1) return std::string();
    done += static_cast<int64_t>(part.size());
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_DigestFinal_ex(hash.get(), digest, &length) != 1) return std::string();
  return hex_digits({digest, length});
}

}  // namespace

std::vector<std::string> piece_digests(std::span<const std::byte> bytes) {
  constexpr size_t kPiece = static_cast<size_t>(kDigestPiece);
  std::vector<std::string> out((bytes.size() + kPiece - 1) / kPiece);
  ThreadPool pool;
  pool.parallel_items(static_cast<int64_t>(out.size()), [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      out[i] = digest_hex(bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece)));
  });
  return out;
}

Result<std::vector<std::string>> piece_digests(int fd, int64_t bytes, const std::string& path) {
  std::vector<std::string> out(static_cast<size_t>((bytes + kDigestPiece - 1) / kDigestPiece));
  std::mutex first_error;
  Status status;
  ThreadPool pool({.threads = static_cast<int>(std::clamp<int64_t>(std::ssize(out), 1, usable_cpus()))});
  pool.parallel_items(static_cast<int64_t>(out.size()), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t offset = i * kDigestPiece;
      auto digest = digest_of_range(fd, offset, std::min(kDigestPiece, bytes - offset), path);
      if (digest.ok()) {
        out[static_cast<size_t>(i)] = std::move(*digest);
        continue;
      }
      std::lock_guard lock(first_error);
      if (status.ok()) status = digest.error();
    }
  });
  QCG_CHECK(status);
  return out;
}

}  // namespace qcg
