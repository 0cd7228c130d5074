// connect_in_time: a TCP connection to a host, name look-up included, within a budget.
//
// Why here: getaddrinfo() has no timeout: a name server that is away holds it for many seconds. So it runs in a child
// that is killed when the time is up.
//
//   QCG_TRY(fd, connect_in_time("cache.lan", 6379, budget));
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/remote/time_budget.h"
#include "cache/store/file_system.h"

namespace qcg {

// A non-blocking socket. Error Io: there is no such host, nobody listens, or the time is up.
Result<OwnedFd> connect_in_time(const std::string& host, int port, TimeBudget& budget);

// Error Io: the connection is broken, or the time is up. receive() returns at least one byte, at most `size`.
Status send_in_time(int fd, std::string_view bytes, TimeBudget& budget);
Result<size_t> receive_in_time(int fd, char* buffer, size_t size, TimeBudget& budget);

}  // namespace qcg
