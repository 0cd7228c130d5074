#include "cache/remote/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "cache/toolchain/process.h"

namespace qcg {

namespace {

Error late() { return Error::io("", fmt::format("no answer within {:.0f} ms", kRemoteTimeoutMs), ""); }

Error broken(const std::string& what, int error) {
  return Error::io("", fmt::format("{}: {}", what, std::strerror(error)), "");
}

bool is_address(const std::string& host) {
  in6_addr ignored;
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1 || ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

// Prints one address per line.
int print_addresses(const std::string& host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found)) {
    std::puts(::gai_strerror(error));
    return 1;
  }
  for (const addrinfo* a = found; a; a = a->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) std::puts(text);
  }
  std::fflush(stdout);
  return 0;
}

Result<std::vector<std::string>> addresses_of(const std::string& host, const TimeBudget& budget) {
  if (is_address(host)) return std::vector<std::string>{host};
  QCG_TRY(child, run_process({.timeout_s = budget.left_ms() / 1e3, .body = [&] { return print_addresses(host); }}));
  if (child.timed_out) return late();
  std::istringstream lines(child.output);
  std::vector<std::string> out;
  for (std::string line; std::getline(lines, line);) out.push_back(line);
  if (child.exit_status != 0 || out.empty())
    return Error::io("", fmt::format("'{}' has no address: {}", host, out.empty() ? "" : out[0]), "");
  return out;
}

// Ok once the socket is ready for `events`, or has failed, which the next call on it reports.
Status wait_for(int fd, short events, const TimeBudget& budget) {
  for (;;) {
    const int left = budget.left_ms();
    if (left <= 0) return late();
    pollfd poll_fd{fd, events, 0};
    const int ready = ::poll(&poll_fd, 1, left);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return broken("poll", errno);
  }
}

Result<OwnedFd> connect_to(const std::string& address, int port, const TimeBudget& budget) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  if (const int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found))
    return Error::io("", fmt::format("'{}' is no address: {}", address, ::gai_strerror(error)), "");
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  OwnedFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return broken("no socket", errno);
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return broken("cannot connect", errno);
  QCG_CHECK(wait_for(fd.get(), POLLOUT, budget));
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) || error) return broken("cannot connect", error);
  return fd;
}

bool is_to_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Result<OwnedFd> connect_in_time(const std::string& host, int port, TimeBudget& budget) {
  QCG_TRY(addresses, addresses_of(host, budget));
  Error last = late();
  for (const std::string& address : addresses) {
    auto fd = connect_to(address, port, budget);
    if (fd.ok()) return fd;
    last = fd.error();
  }
  return last;
}

Status send_in_time(int fd, std::string_view bytes, TimeBudget& budget) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      budget.add(static_cast<uint64_t>(n));
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && !is_to_wait()) {
      return broken("the connection broke", errno);
    } else {
      QCG_CHECK(wait_for(fd, POLLOUT, budget));
    }
  }
  return {};
}

Result<size_t> receive_in_time(int fd, char* buffer, size_t size, TimeBudget& budget) {
  for (;;) {
    const ssize_t n = ::recv(fd, buffer, size, 0);
    if (n == 0) return Error::io("", "the server closed the connection", "");
    if (n > 0) {
      budget.add(static_cast<uint64_t>(n));
      return static_cast<size_t>(n);
    }
    if (!is_to_wait()) return broken("the connection broke", errno);
    QCG_CHECK(wait_for(fd, POLLIN, budget));
  }
}

}  // namespace qcg
