#include "cache/remote/remote_options.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "cache/store/file_system.h"

namespace qcg {

namespace {

constexpr std::string_view kScheme = "redis://";
constexpr size_t kLeastKeyBytes = 16, kMostKeyBytes = 4096;
constexpr int64_t kMostTtl = int64_t{10} * 365 * 86400;

// Never quotes the URL: it may hold a password.
Error bad_url(const std::string& what) {
  return {ErrorCode::Usage, "the shared cache", what,
          "write redis://HOST:PORT/DB?ttl=30d, or redis://:PASSWORD@HOST:PORT/DB"};
}

template <class T>
bool parse_number(std::string_view text, T least, T most, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= least && out <= most;
}

std::optional<std::string> unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned byte = 0;
    const auto [end, error] =
        std::from_chars(text.data() + i + 1, text.data() + std::min(i + 3, text.size()), byte, 16);
    if (error != std::errc() || end != text.data() + i + 3) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

// "90s", "15m", "12h", "30d" in seconds.
bool parse_time(std::string_view text, int64_t& out) {
  constexpr std::pair<char, int64_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  for (const auto& [unit, seconds] : kUnits)
    if (text.ends_with(unit) && parse_number<int64_t>(text.substr(0, text.size() - 1), 1, kMostTtl / seconds, out))
      return out *= seconds, true;
  return false;
}

// Removes the text after the first `mark` from the end of `rest` and returns it.
std::string_view take_after(std::string_view& rest, char mark) {
  const size_t at = rest.find(mark);
  if (at == rest.npos) return {};
  const std::string_view tail = rest.substr(at + 1);
  rest = rest.substr(0, at);
  return tail;
}

Status parse_user(std::string_view text, RemoteOptions& out) {
  const std::string_view password = take_after(text, ':');
  const auto user = unescape(text), secret = unescape(password);
  if (!user || !secret) return bad_url("the user or the password has a '%' that is no escape; write %25");
  if (secret->empty()) return bad_url("there is an '@' but no password before it");
  out.user = *user, out.password = *secret;
  return {};
}

Status parse_host(std::string_view text, RemoteOptions& out) {
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == text.npos) return bad_url("the address has a '[' but no ']'");
    out.host = text.substr(1, close - 1);
    text.remove_prefix(close + 1);
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    out.host = text.substr(0, colon);
    text.remove_prefix(colon);
  }
  if (out.host.empty()) return bad_url("there is no host");
  if (std::ranges::any_of(out.host, [](char c) { return c <= ' ' || c == 0x7f; }))
    return bad_url("the host has a blank or a control character");
  if (!text.empty() && (text[0] != ':' || !parse_number(text.substr(1), 1, 65535, out.port)))
    return bad_url("the port is not a number from 1 to 65535");
  return {};
}

}  // namespace

std::string RemoteOptions::name() const {
  const bool brackets = host.find(':') != host.npos;
  return fmt::format("redis://{}{}{}:{}/{}", brackets ? "[" : "", host, brackets ? "]" : "", port, db);
}

Result<RemoteOptions> parse_remote_url(const std::string& url) {
  if (!url.starts_with(kScheme)) return bad_url("its URL does not begin with redis://");
  RemoteOptions out;
  std::string_view rest = std::string_view(url).substr(kScheme.size());
  if (const size_t at = rest.rfind('@'); at != rest.npos) {  // a password may have an unescaped '/', '?' or '@'
    QCG_CHECK(parse_user(rest.substr(0, at), out));
    rest.remove_prefix(at + 1);
  }
  const std::string_view query = take_after(rest, '?'), db = take_after(rest, '/');
  QCG_CHECK(parse_host(rest, out));
  if (!db.empty() && !parse_number(db, 0, 1 << 20, out.db)) return bad_url("the database is not a number");
  if (!query.empty() && (!query.starts_with("ttl=") || !parse_time(query.substr(4), out.ttl_s)))
    return bad_url("what follows '?' is not ttl=TIME, such as ttl=30d, ttl=12h or ttl=90s");
  return out;
}

Result<std::string> read_remote_key(const std::string& path) {
  const std::string make =
      "make a key with `(umask 077; openssl rand -hex 32 > FILE)`, give each member of the team a "
      "copy, and set QCG_REMOTE_CACHE_KEY_FILE=FILE";
  if (path.empty())
    return Error{ErrorCode::Usage, "the shared cache",
                 "entries are code, and there is no key to sign them with: QCG_REMOTE_CACHE_KEY_FILE is not set", make};
  QCG_TRY(fd, open_regular_file(path));
  FileSystem fs;
  struct stat info;
  if (fs.fstat(fd.get(), &info)) return io_error(path, "cannot be looked at", errno);
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return Error::io(path, "the key of the shared cache belongs to another user", make);
  if (info.st_mode & 077)
    return Error::io(path, "others may read or write the key of the shared cache", fmt::format("chmod 600 '{}'", path));
  std::string key;
  if (const int error = fs.read_all(fd.get(), key, kMostKeyBytes); error == EFBIG)
    return Error::io(path, fmt::format("the key of the shared cache has more than {} bytes", kMostKeyBytes), make);
  else if (error) return io_error(path, "cannot be read", error);
  while (!key.empty() && std::string_view(" \t\r\n").find(key.back()) != std::string_view::npos) key.pop_back();
  if (key.size() < kLeastKeyBytes)
    return Error::io(path, fmt::format("the key of the shared cache has fewer than {} bytes", kLeastKeyBytes), make);
  return key;
}

}  // namespace qcg
