// RemoteOptions: which server keeps the team's cache, and the key that its members sign entries with.
//
// Why here: the URL comes from a flag or the environment, the key from a file, and both are refused with a remedy before
// a compile begins. What a server does later is no error (remote_cache.h).
//
//   QCG_TRY(options, parse_remote_url("redis://:password@cache.lan:6379/0?ttl=30d"));
//   QCG_TRY(key, read_remote_key("/home/me/.config/qcodegen.key"));
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace qcg {

inline constexpr uint64_t kMostRemoteBytes = uint64_t{256} << 20;  // of one entry

struct RemoteOptions {
  std::string host;  // a name or an address; an address of IPv6 without its brackets
  int port = 6379;
  int db = 0;
  std::string user, password;  // empty: none
  int64_t ttl_s = 0;           // how long the server keeps an entry; 0: until it needs the room

  std::string name() const;  // "redis://cache.lan:6379/0", without user and password
};

// redis://[[user]:password@]host[:port][/db][?ttl=30d]. User and password may have escapes such as %40. A time is a
// number and s, m, h or d. Error Usage: anything else.
Result<RemoteOptions> parse_remote_url(const std::string& url);

// The bytes of the file without white space at their end. Error Usage: no file is named. Error Io: it cannot be read,
// belongs to another user, others may read or write it, or it has fewer than 16 or more than 4096 bytes.
Result<std::string> read_remote_key(const std::string& path);

}  // namespace qcg
