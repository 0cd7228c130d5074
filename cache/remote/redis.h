// RedisConnection: one connection to a Redis server, on which every call ends in time.
//
// Why here: hiredis writes and parses the protocol; its own timeouts are per read, and its name look-up has none. So
// the socket is ours. An answer is at most as long as an entry, and is a string, a number or nothing: a server that
// sends anything else is not trusted any further.
//
//   QCG_TRY(redis, RedisConnection::open(options, budget));
//   QCG_TRY(reply, redis.command({"GET", "qcg:1:3f…"}, budget));      // nullopt: nil
//
// A build without hiredis has kHasRedis false and no connections.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/remote/remote_options.h"
#include "cache/remote/time_budget.h"

namespace qcg {

extern const bool kHasRedis;

// What a server answers in place of a result, `OOM command not allowed…`, is Error BadInput with the text as message.
// Everything else that goes wrong is Error Io, after which the connection is of no use.
class RedisConnection {
 public:
  // Connects, and sends AUTH and SELECT where the options ask for them.
  static Result<RedisConnection> open(const RemoteOptions& options, TimeBudget& budget);
  RedisConnection(RedisConnection&&) noexcept;
  RedisConnection& operator=(RedisConnection&&) noexcept;
  ~RedisConnection();

  // The answer as text; nullopt: the server has no such value.
  Result<std::optional<std::string>> command(const std::vector<std::string_view>& words, TimeBudget& budget);
  // Whether a byte of the answer to the last command came.
  bool answered() const;

 private:
  struct Wire;
  explicit RedisConnection(std::unique_ptr<Wire> wire);
  std::unique_ptr<Wire> wire_;
};

}  // namespace qcg
