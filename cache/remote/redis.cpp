#include "cache/remote/redis.h"

#include "cache/remote/socket.h"

#ifdef QCG_HIREDIS
#include <hiredis/hiredis.h>
#endif

namespace qcg {

#ifdef QCG_HIREDIS

const bool kHasRedis = true;

namespace {

constexpr uint64_t kMostReplyBytes = kMostRemoteBytes + (1 << 20);  // an entry with its signature and manifest

Error not_redis() { return Error::io("", "the answer is not that of a Redis server", ""); }

struct FreeReply {
  void operator()(redisReply* reply) const { ::freeReplyObject(reply); }
};

Result<std::string> format_command(const std::vector<std::string_view>& words) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (std::string_view word : words) texts.push_back(word.data()), sizes.push_back(word.size());
  char* bytes = nullptr;
  const long long size = ::redisFormatCommandArgv(&bytes, static_cast<int>(words.size()), texts.data(), sizes.data());
  if (size < 0) return Error::io("", "the command is too long", "");
  std::string out(bytes, static_cast<size_t>(size));
  ::redisFreeCommand(bytes);
  return out;
}

}  // namespace

struct RedisConnection::Wire {
  OwnedFd fd;
  std::unique_ptr<redisReader, decltype(&::redisReaderFree)> reader{::redisReaderCreate(), ::redisReaderFree};
  std::vector<char> buffer = std::vector<char>(1 << 18);
  bool answered = false;

  // The next answer. Arrays are refused by their first byte: their length says how much memory to take.
  Result<std::unique_ptr<redisReply, FreeReply>> receive(TimeBudget& budget) {
    uint64_t total = 0;
    for (void* reply = nullptr;;) {
      QCG_TRY(got, receive_in_time(fd.get(), buffer.data(), buffer.size(), budget));
      if (total == 0 && std::string_view("$+-:").find(buffer[0]) == std::string_view::npos) return not_redis();
      answered = true;
      total += got;
      if (total > kMostReplyBytes) return Error::io("", "the answer is longer than any entry", "");
      if (::redisReaderFeed(reader.get(), buffer.data(), got) != REDIS_OK ||
          ::redisReaderGetReply(reader.get(), &reply) != REDIS_OK)
        return not_redis();
      if (reply) return std::unique_ptr<redisReply, FreeReply>(static_cast<redisReply*>(reply));
    }
  }
};

Result<RedisConnection> RedisConnection::open(const RemoteOptions& options, TimeBudget& budget) {
  QCG_TRY(fd, connect_in_time(options.host, options.port, budget));
  RedisConnection out(std::make_unique<Wire>());
  out.wire_->fd = std::move(fd);
  if (!options.password.empty()) {
    std::vector<std::string_view> words = {"AUTH"};
    if (!options.user.empty()) words.push_back(options.user);
    words.push_back(options.password);
    QCG_TRY(ignored, out.command(words, budget));
  }
  if (options.db != 0) {
    const std::string db = std::to_string(options.db);
    QCG_TRY(ignored, out.command({"SELECT", db}, budget));
  }
  return out;
}

Result<std::optional<std::string>> RedisConnection::command(const std::vector<std::string_view>& words,
                                                            TimeBudget& budget) {
  wire_->answered = false;
  QCG_TRY(bytes, format_command(words));
  QCG_CHECK(send_in_time(wire_->fd.get(), bytes, budget));
  QCG_TRY(reply, wire_->receive(budget));
  const auto text = [&] { return std::string(reply->str, reply->len); };
  switch (reply->type) {
    case REDIS_REPLY_NIL: return std::optional<std::string>();
    case REDIS_REPLY_ERROR: return Error::bad_input("", shorten(text(), 200), "");
    case REDIS_REPLY_INTEGER: return std::optional(std::to_string(reply->integer));
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS: return std::optional(text());
    default: return not_redis();
  }
}

#else

const bool kHasRedis = false;

struct RedisConnection::Wire {
  bool answered = false;
};

Result<RedisConnection> RedisConnection::open(const RemoteOptions&, TimeBudget&) {
  return Error::unsupported("", "this qcodegen was built without hiredis", "");
}

Result<std::optional<std::string>> RedisConnection::command(const std::vector<std::string_view>&, TimeBudget&) {
  return Error::unsupported("", "this qcodegen was built without hiredis", "");
}

#endif

bool RedisConnection::answered() const { return wire_->answered; }

RedisConnection::RedisConnection(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}
RedisConnection::RedisConnection(RedisConnection&&) noexcept = default;
RedisConnection& RedisConnection::operator=(RedisConnection&&) noexcept = default;
RedisConnection::~RedisConnection() = default;

}  // namespace qcg
