// The log of lookups, dir/v1/lookups: what the latest processes asked for, where it was found and what that took.
//
//   1790000000 3f… kernel remote 20480 412      seconds since 1970, key, kind, source, bytes, microseconds
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cache/store/store_state.h"

namespace qcg {

namespace {

constexpr size_t kMostLogBytes = 1 << 20;  // then the older half goes

// The name of a kind as one word.
std::string word_of(EntryKind kind) {
  std::string word(entry_kind_info(kind).name);
  std::replace(word.begin(), word.end(), ' ', '_');
  return word;
}

std::string print_lookup(const Lookup& l) {
  std::ostringstream line;
  line << l.time << ' ' << l.key << ' ' << word_of(l.kind) << ' ' << lookup_source_name(l.source) << ' ' << l.bytes
       << ' ' << std::llround(l.ms * 1e3) << '\n';
  return line.str();
}

// nullopt: not a line of print_lookup.
std::optional<Lookup> parse_lookup(const std::string& line) {
  Lookup l;
  std::istringstream words(line);
  std::string kind, source;
  int64_t us = 0;
  if (!(words >> l.time >> l.key >> kind >> source >> l.bytes >> us) || us < 0) return std::nullopt;
  for (const EntryKindInfo& info : kEntryKinds)
    if (word_of(info.kind) == kind) l.kind = info.kind;
  for (LookupSource s : {LookupSource::local, LookupSource::remote})
    if (lookup_source_name(s) == source) l.source = s;
  l.ms = static_cast<double>(us) / 1e3;
  if (!is_sha256_hex(l.key) || print_lookup(l) != line + "\n") return std::nullopt;
  return l;
}

}  // namespace

// Lookups are lost if another process holds the lock or the disk fails, because no compile should wait for a log.
void Store::State::flush_lookups() {
  if (!usable || read_only || lookups.empty()) return;
  OwnedFd fd(fs->open_at(AT_FDCWD, root + "/lookups", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!fd || fs->try_lock(fd.get())) return;
  std::string added;
  for (const Lookup& lookup : std::exchange(lookups, {})) added += print_lookup(lookup);
  const off_t end = ::lseek(fd.get(), 0, SEEK_END);
  if (end < 0) return;
  if (static_cast<size_t>(end) + added.size() <= kMostLogBytes) {
    (void)fs->write_all(fd.get(), added);
    return;
  }
  std::string text;
  if (::lseek(fd.get(), 0, SEEK_SET) != 0 || fs->read_all(fd.get(), text, kMostLogBytes)) text.clear();
  text += added;
  const size_t cut = text.find('\n', text.size() - std::min(text.size(), kMostLogBytes / 2));
  text.erase(0, cut == text.npos ? text.size() : cut + 1);
  if (::ftruncate(fd.get(), 0) != 0 || ::lseek(fd.get(), 0, SEEK_SET) != 0) return;
  (void)fs->write_all(fd.get(), text);
}

std::vector<Lookup> Store::lookup_log() {
  std::vector<Lookup> out;
  OwnedFd fd(state_->fs->open_at(AT_FDCWD, state_->root + "/lookups", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string text;
  if (!fd || state_->fs->read_all(fd.get(), text, kMostLogBytes)) return out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (auto lookup = parse_lookup(line)) out.push_back(std::move(*lookup));
  return out;
}

}  // namespace qcg
