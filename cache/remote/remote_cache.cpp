#include "cache/remote/remote_cache.h"

#include <fmt/format.h>

#include <filesystem>

#include "cache/remote/sealed_entry.h"

namespace qcg {

namespace {

std::string name_on_server(const Key& key) { return "qcg:1:" + key.hex; }

// What will be the same at the next try: who may not ask, may not ask again.
bool is_lasting(const Error& error) {
  for (const char* word :
       {"WRONGPASS", "NOAUTH", "NOPERM", "ERR invalid password", "ERR AUTH", "ERR DB index", "ERR Client sent AUTH"})
    if (error.code == ErrorCode::BadInput && error.message.starts_with(word)) return true;
  return false;
}

bool says_full(const Error& error) {
  return error.code == ErrorCode::BadInput &&
         (error.message.starts_with("OOM") || error.message.starts_with("MISCONF") ||
          error.message.starts_with("READONLY"));
}

std::string describe(const Error& error) {
  return error.where.empty() ? error.message : error.where + " " + error.message;
}

uint64_t size_of(const EntryFile& file) {
  std::error_code failed;
  return file.source_path.empty() ? file.bytes.size() : std::filesystem::file_size(file.source_path, failed);
}

// Adds the time of a scope.
class Clock {
 public:
  Clock(double& total, const TimeBudget& budget) : total_(total), budget_(budget) {}
  ~Clock() { total_ += budget_.spent_ms(); }

 private:
  double& total_;
  const TimeBudget& budget_;
};

}  // namespace

Result<std::shared_ptr<RemoteCache>> RemoteCache::open(const std::string& url, const std::string& key_file) {
  if (!kHasRedis)
    return Error::unsupported("the shared cache", "this qcodegen was built without hiredis",
                              "install libhiredis-dev and build again, or leave out --remote-cache and "
                              "QCG_REMOTE_CACHE");
  QCG_TRY(options, parse_remote_url(url));
  QCG_TRY(secret, read_remote_key(key_file));
  return std::shared_ptr<RemoteCache>(new RemoteCache(std::move(options), std::move(secret)));
}

// A connection that failed is not used again: what it sends next could be the answer to an earlier question. Servers close
// those that were idle for long: then the question goes to a new one, once. SET twice is as good as once.
Result<std::optional<std::string>> RemoteCache::ask(const std::vector<std::string_view>& words, TimeBudget& budget) {
  const bool is_new = !connection_;
  if (is_new) {
    QCG_TRY(connection, RedisConnection::open(options_, budget));
    connection_ = std::move(connection);
  }
  auto reply = connection_->command(words, budget);
  if (reply.ok() || reply.error().code == ErrorCode::BadInput) return reply;
  const bool was_closed = !is_new && !connection_->answered() && budget.left_ms() > 0;
  connection_.reset();
  return was_closed ? ask(words, budget) : std::move(reply);
}

void RemoteCache::count_failure(const Error& error) {
  if (stats_.failures++ == 0) first_failure_ = describe(error);
  left_alone_ = left_alone_ || stats_.failures >= kMostRemoteFailures || is_lasting(error);
  if (left_alone_) connection_.reset();
}

std::optional<BackedEntry> RemoteCache::get(const Key& key) {
  std::lock_guard lock(mutex_);
  if (left_alone_) return std::nullopt;
  TimeBudget budget;
  Clock clock(stats_.ms, budget);
  auto value = ask({"GET", name_on_server(key)}, budget);
  if (!value.ok()) return count_failure(value.error()), std::nullopt;
  if (!*value) return ++stats_.misses, std::nullopt;
  auto entry = open_entry(key, **value, secret_);
  if (!entry.ok()) return count_failure(entry.error()), std::nullopt;
  ++stats_.hits, stats_.bytes_got += (*value)->size();
  return std::move(*entry);
}

void RemoteCache::put(const Key& key, const std::vector<EntryFile>& files, const std::string& key_dump) {
  uint64_t bytes = key_dump.size();
  for (const EntryFile& file : files) bytes += size_of(file);
  std::lock_guard lock(mutex_);
  if (left_alone_ || full_ || !takes(bytes)) return;
  const auto sealed = seal_entry(key, files, key_dump, secret_);
  if (!sealed.ok()) return;  // the store says what is wrong with the file
  TimeBudget budget;
  Clock clock(stats_.ms, budget);
  const std::string name = name_on_server(key), ttl = std::to_string(options_.ttl_s);
  std::vector<std::string_view> words = {"SET", name, *sealed};
  if (options_.ttl_s > 0) words.insert(words.end(), {"EX", ttl});
  const auto reply = ask(words, budget);
  if (reply.ok()) {
    ++stats_.published, stats_.bytes_put += sealed->size();
  } else if (says_full(reply.error())) {
    full_ = true, full_reason_ = reply.error().message;
  } else {
    count_failure(reply.error());
  }
}

RemoteStats RemoteCache::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

std::vector<std::string> RemoteCache::warnings() const {
  std::lock_guard lock(mutex_);
  std::string text;
  if (!first_failure_.empty())
    text += fmt::format("failed {}: {}; {}", stats_.failures == 1 ? "once" : fmt::format("{} times", stats_.failures),
                        first_failure_,
                        left_alone_ ? "it was left alone for the rest of this compile" : "nothing of it was used");
  if (full_) text += fmt::format("{}accepts no new entries: {}", text.empty() ? "" : "; it ", full_reason_);
  if (text.empty()) return {};
  return {fmt::format("the shared cache {} {}", name(), text)};
}

}  // namespace qcg
