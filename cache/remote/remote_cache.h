// RemoteCache: the entries that a team shares, on a Redis server.
//
// Why here: it keeps the promise that a server can only cost time. An entry without the team's signature is a miss. A
// server that is slow, away, full or hostile fails a lookup within 200 ms; after three failures it is left alone. All
// of this ends in one warning.
//
//   QCG_TRY(remote, RemoteCache::open(url, key_file));
//   store.back_with(remote);
//   … for (const std::string& warning : remote->warnings()) …
//
// An entry is the value of `qcg:1:<key>`, sealed (sealed_entry.h).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/remote/redis.h"
#include "cache/store/backing.h"

namespace qcg {

inline constexpr int kMostRemoteFailures = 3;

struct RemoteStats {
  int hits = 0, misses = 0, published = 0;
  int failures = 0;  // lookups and publications that came to nothing, except where the server takes no entries
  uint64_t bytes_got = 0, bytes_put = 0;
  double ms = 0;  // all of them took
};

// Several threads may use it; one at a time talks to the server.
class RemoteCache final : public Backing {
 public:
  // Error Usage or Io: the URL or the key cannot be used (remote_options.h). Error Unsupported: this build has no
  // hiredis. The server is asked only when there is something to look up.
  static Result<std::shared_ptr<RemoteCache>> open(const std::string& url, const std::string& key_file);

  std::optional<BackedEntry> get(const Key& key) override;
  void put(const Key& key, const std::vector<EntryFile>& files, const std::string& key_dump) override;
  bool takes(uint64_t bytes) const override { return bytes <= kMostRemoteBytes; }

  std::string name() const { return options_.name(); }
  RemoteStats stats() const;
  std::vector<std::string> warnings() const;  // none, or one that says all

 private:
  RemoteCache(RemoteOptions options, std::string secret) : options_(std::move(options)), secret_(std::move(secret)) {}

  Result<std::optional<std::string>> ask(const std::vector<std::string_view>& words, TimeBudget& budget);
  void count_failure(const Error& error);

  const RemoteOptions options_;
  const std::string secret_;
  mutable std::mutex mutex_;
  std::optional<RedisConnection> connection_;
  RemoteStats stats_;
  bool left_alone_ = false, full_ = false;
  std::string first_failure_, full_reason_;
};

}  // namespace qcg
