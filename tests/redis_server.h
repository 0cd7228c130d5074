// A real redis-server on a free port of 127.0.0.1, which goes away with its test, and a client of a few lines.
//
// Why here: tests/cache and tests/cli share it. The client speaks inline commands, so that it needs no library and no
// code that is tested.
//
//   RedisServer server;
//   if (!server.runs()) return;                 // it has printed why
//   server.ask("SET a 1");
//   ::kill(server.pid(), SIGSTOP);
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/temp_dir.h"

namespace qcg::test {

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A socket that listens on a free port of 127.0.0.1; the caller closes it.
inline int listen_on_loopback(int& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(fd, 16) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port = ntohs(address.sin_port);
  return fd;
}

class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> options = {}) {
    const char* program = "/usr/bin/redis-server";
    if (::access(program, X_OK) != 0) {
      MESSAGE("skipped: " << program << " is absent; scripts/setup test installs it");
      return;
    }
    ::close(listen_on_loopback(port_));
    std::vector<std::string> words = {
        program, "--port", std::to_string(port_), "--bind",     "127.0.0.1", "--save", "", "--appendonly",
        "no",    "--dir",  dir_.path(),           "--loglevel", "warning"};
    for (size_t i = 0; i + 1 < options.size(); ++i)
      if (options[i] == "--requirepass") password_ = options[i + 1];
    words.insert(words.end(), options.begin(), options.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const std::string log = dir_ / "log";
    ::posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    REQUIRE(::posix_spawn(&pid_, program, &actions, nullptr, argv.data(), environ) == 0);
    ::posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < 200 && ask("PING") != "PONG"; ++i) ::usleep(50'000);
    REQUIRE_MESSAGE(ask("PING") == "PONG", slurp(dir_ / "log"));
  }
  ~RedisServer() { stop(); }
  RedisServer(const RedisServer&) = delete;

  bool runs() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  int port() const { return port_; }
  std::string url() const {
    return "redis://" + (password_.empty() ? "" : ":" + password_ + "@") + "127.0.0.1:" + std::to_string(port_) + "/0";
  }

  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

  // The answer to an inline command: a text, a number, the text of an error after '-', or "(nil)".
  std::string ask(const std::string& command) const { return talk(command)[0]; }
  // The answer of a command that gives a list.
  std::vector<std::string> list(const std::string& command) const { return talk(command); }
  std::vector<std::string> keys() const { return list("KEYS *"); }

  // Changes one byte of a value.
  void flip(const std::string& key, size_t at) const {
    const std::string where = " " + key + " " + std::to_string(at) + " ";
    const std::string now = ask("GETRANGE" + where + std::to_string(at));
    ask("SETRANGE" + where + (now == "X" ? "Y" : "X"));
  }

 private:
  std::vector<std::string> talk(const std::string& command) const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(port_);
    std::vector<std::string> out;
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      const std::string login = password_.empty() ? "" : "AUTH " + password_ + "\r\n";
      const std::string text = login + command + "\r\n";
      if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size())) {
        if (!login.empty()) (void)line(fd);
        const std::string head = line(fd);
        const bool is_list = head.starts_with("*");
        for (int i = is_list ? std::stoi(head.substr(1)) : 1; i > 0; --i)
          out.push_back(value(fd, is_list ? line(fd) : head));
      }
    }
    ::close(fd);
    if (out.empty()) out.emplace_back();
    return out;
  }

  static std::string line(int fd) {
    std::string out;
    for (char c; ::recv(fd, &c, 1, 0) == 1 && c != '\n';)
      if (c != '\r') out += c;
    return out;
  }

  static std::string value(int fd, const std::string& head) {
    if (head.empty() || head[0] == '-') return head;
    if (head[0] != '$') return head.substr(1);
    if (head == "$-1") return "(nil)";
    std::string out(static_cast<size_t>(std::stoll(head.substr(1))) + 2, '\0');
    for (size_t at = 0; at < out.size();) {
      const ssize_t n = ::recv(fd, out.data() + at, out.size() - at, 0);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    out.resize(out.size() - 2);
    return out;
  }

  TempDir dir_;
  std::string password_;
  int port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace qcg::test
