// EntryKind and Lookup: what kinds of entries there are, and one line of the log of lookups.
//
// Why here: a store logs every lookup, with its source and cost. `compile` prints the log, `cache stats` adds it up.
//
//   for (const Lookup& l : store.take_lookups())
//     use(l.key, entry_kind_info(l.kind).name, lookup_source_name(l.source), l.bytes, l.ms);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qcg {

// The beginning of the dump of a precompiled header's key: exports and servers get no such entries.
inline constexpr std::string_view kPchTitle = "precompiled header";

enum class EntryKind : uint8_t { kernel, program, weights, pch, other };

struct EntryKindInfo {
  EntryKind kind;
  std::string_view name;    // "kernel"
  std::string_view plural;  // "kernels"
  std::string_view title;   // the name of the first ingredient of its key
  bool shared;              // goes to a server, too
};

inline constexpr EntryKindInfo kEntryKinds[] = {
    {EntryKind::kernel, "kernel", "kernels", "kernel", true},
    {EntryKind::program, "program", "programs", "program", true},
    {EntryKind::weights, "weights", "weights", "packed weights", true},
    {EntryKind::pch, "precompiled header", "precompiled headers", kPchTitle, false},
    {EntryKind::other, "other", "other", "", false},
};

constexpr const EntryKindInfo& entry_kind_info(EntryKind kind) { return kEntryKinds[static_cast<size_t>(kind)]; }

// The kind of an entry from the first line of its key's dump, `NAME = value`; `other` if no kind has this name.
constexpr EntryKind kind_of_title(std::string_view title) {
  const std::string_view name = title.substr(0, title.find(" = "));
  for (const EntryKindInfo& info : kEntryKinds)
    if (info.title == name) return info.kind;
  return EntryKind::other;
}

enum class LookupSource : uint8_t { none, local, remote };  // none: a miss

constexpr std::string_view lookup_source_name(LookupSource source) {
  return source == LookupSource::local ? "local" : source == LookupSource::remote ? "remote" : "none";
}

struct Lookup {
  std::string key;  // 64 hex digits
  EntryKind kind = EntryKind::other;
  LookupSource source = LookupSource::none;
  uint64_t bytes = 0;  // of the entry's files
  double ms = 0;       // including the check of every byte
  int64_t time = 0;    // seconds since 1970

  bool hit() const { return source != LookupSource::none; }
};

}  // namespace qcg
