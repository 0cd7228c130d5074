// qcodegen cache: inspects, checks, trims and moves the cache.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "cache/store/store.h"
#include "cache/toolchain/compile.h"
#include "cli/cli.h"
#include "cli/lookups.h"
#include "cli/report.h"

namespace qcg {

namespace {

struct CacheFlags {
  std::string key, file, max_size = "4G";
};

// Parses "500M", "4G", "123456" to bytes; returns 0 if the text is not a size.
uint64_t parse_size(const std::string& text) {
  size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    return 0;
  }
  const std::string unit = text.substr(used);
  const double scale = unit.empty()  ? 1
                       : unit == "K" ? 1024.0
                       : unit == "M" ? 1048576.0
                       : unit == "G" ? 1073741824.0
                                     : 0;
  return value > 0 && scale > 0 && value * scale < 1e18 ? static_cast<uint64_t>(value * scale) : 0;
}

int with_store(const Session& session, const std::function<int(Store&)>& work) {
  auto store = Store::open({.dir = session.cache_dir});
  return store.ok() ? work(*store) : fail(session, store.error());
}

int report(const Session& session, const Status& status, std::string_view done) {
  if (!status.ok()) return fail(session, status.error());
  if (session.json) print_json("done", {{"done", done}});
  else if (session.verbosity >= 0) show("{}\n", done);
  return 0;
}

int show_path(const Session& session, Store& store) {
  if (session.json) print_json("cache_path", {{"path", store.dir()}});
  else show("{}\n", store.dir());
  return 0;
}

std::string_view kind_of(const EntryInfo& entry) { return entry_kind_info(kind_of_title(entry.title)).plural; }

// "3 h ago", for a time in seconds since 1970.
std::string format_age(int64_t time) {
  const int64_t s = std::max<int64_t>(0, std::time(nullptr) - time);
  if (s < 60) return fmt::format("{} s ago", s);
  if (s < 3600) return fmt::format("{} min ago", s / 60);
  return s < 2 * 86400 ? fmt::format("{} h ago", s / 3600) : fmt::format("{} days ago", s / 86400);
}

int show_stats(const Session& session, Store& store) {
  auto stats = store.stats();
  if (!stats.ok()) return fail(session, stats.error());
  auto entries = store.list();
  if (!entries.ok()) return fail(session, entries.error());
  struct Kind {
    uint64_t entries = 0, bytes = 0;
    int64_t oldest = INT64_MAX, newest = 0;  // times of last use
  };
  std::map<std::string, Kind> kinds;
  for (const EntryInfo& entry : *entries) {
    Kind& kind = kinds[std::string(kind_of(entry))];
    ++kind.entries, kind.bytes += entry.bytes;
    kind.oldest = std::min(kind.oldest, entry.last_used), kind.newest = std::max(kind.newest, entry.last_used);
  }
  const uint64_t looked_up = stats->hits + stats->misses, limit = StoreOptions{}.max_bytes;
  const double hit_rate = looked_up ? static_cast<double>(stats->hits) / static_cast<double>(looked_up) : 0;
  if (session.json) {
    nlohmann::json by_kind = nlohmann::json::object();
    for (const auto& [name, kind] : kinds)
      by_kind[name] = {
          {"entries", kind.entries}, {"bytes", kind.bytes}, {"oldest_use", kind.oldest}, {"newest_use", kind.newest}};
    print_json("cache_stats", {{"entries", stats->entries},
                               {"bytes", stats->bytes},
                               {"hits", stats->hits},
                               {"misses", stats->misses},
                               {"hit_rate", hit_rate},
                               {"corrupt", stats->corrupt},
                               {"path", store.dir()},
                               {"limit_bytes", limit},
                               {"kinds", by_kind},
                               {"lookups", lookups_json(store.lookup_log())}});
    return 0;
  }
  const auto size = [](uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  show("{}\n{} entries, {} of at most {}\n", store.dir(), stats->entries, size(stats->bytes), size(limit));
  show("{} hits, {} misses{}; {} corrupt entries removed\n", stats->hits, stats->misses,
       looked_up ? fmt::format(" ({:.0f} % hits)", 100 * hit_rate) : "", stats->corrupt);
  if (kinds.empty()) return 0;
  Table table({"kind", "entries", "size", "last use", "oldest"});
  for (const auto& [name, kind] : kinds)
    table.add(
        {name, fmt::format("{}", kind.entries), size(kind.bytes), format_age(kind.newest), format_age(kind.oldest)});
  put(table.str());
  put(sum_lookups(store.lookup_log()));
  return 0;
}

int list_entries(const Session& session, Store& store) {
  auto entries = store.list();
  if (!entries.ok()) return fail(session, entries.error());
  nlohmann::json out = nlohmann::json::array();
  Table table({"key", "size", "last use", "what"});
  for (const EntryInfo& entry : *entries) {
    out.push_back({{"key", entry.key.hex},
                   {"bytes", entry.bytes},
                   {"title", entry.title},
                   {"kind", kind_of(entry)},
                   {"last_used", entry.last_used}});
    table.add({entry.key.hex.substr(0, 12), format_bytes(static_cast<double>(entry.bytes)), format_age(entry.last_used),
               entry.title});
  }
  if (session.json) print_json("cache_entries", {{"entries", std::move(out)}});
  else put(table.str());
  return 0;
}

int show_entry(const Session& session, Store& store, const std::string& key) {
  std::string dump;
  auto entry = store.show(key, &dump);
  if (!entry.ok()) return fail(session, entry.error());
  nlohmann::json files = nlohmann::json::array();
  std::string lines;
  for (const FileRecord& file : entry->files) {
    files.push_back({{"name", file.name}, {"bytes", file.size}, {"sha256", file.sha256}});
    lines += fmt::format("  {}  {}  {}\n", file.name, format_bytes(static_cast<double>(file.size)),
                         file.sha256.substr(0, 16));
  }
  if (session.json) print_json("cache_entry", {{"key", entry->key.hex}, {"files", files}, {"hashed", dump}});
  else show("{}\n{}hashed:\n{}", entry->key.hex, lines, dump);
  return 0;
}

int verify_entries(const Session& session, Store& store) {
  auto result = store.verify_all();
  if (!result.ok()) return fail(session, result.error());
  if (session.json) print_json("cache_verify", {{"checked", result->checked}, {"corrupt", result->corrupt}});
  else show("{} entries checked, {} corrupt (removed)\n", result->checked, result->corrupt.size());
  return result->corrupt.empty() ? 0 : 1;
}

int collect_garbage(const Session& session, Store& store, const std::string& size) {
  const uint64_t bytes = parse_size(size);
  if (bytes == 0) return fail(session, {ErrorCode::Usage, "--max-size", size + " is not a size", "write 500M or 4G"});
  auto result = store.gc(bytes);
  if (!result.ok()) return fail(session, result.error());
  if (session.json)
    print_json("cache_gc", {{"removed_entries", result->removed_entries},
                            {"removed_bytes", result->removed_bytes},
                            {"kept_entries", result->kept_entries},
                            {"kept_bytes", result->kept_bytes}});
  else
    show("removed {} entries, {}; kept {}, {}\n", result->removed_entries,
         format_bytes(static_cast<double>(result->removed_bytes)), result->kept_entries,
         format_bytes(static_cast<double>(result->kept_bytes)));
  return 0;
}

}  // namespace

void add_cache_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("cache", "inspect, check, trim and move the cache of kernels and programs");
  sub->require_subcommand(1);
  auto flags = std::make_shared<CacheFlags>();
  auto add = [&](const char* name, const char* help, std::function<int(Store&)> work) {
    auto* command = sub->add_subcommand(name, help);
    command->callback([&session, flags, work] { session.status = with_store(session, work); });
    return command;
  };
  add("path", "print the directory of the cache", [&session](Store& s) { return show_path(session, s); });
  add("stats", "print entries by kind, hits and misses, and the size limit",
      [&session](Store& s) { return show_stats(session, s); });
  add("ls", "print the entries, most recently used first", [&session](Store& s) { return list_entries(session, s); });
  add("show", "print the files of an entry and what was hashed into its key",
      [&session, flags](Store& s) { return show_entry(session, s, flags->key); })
      ->add_option("key", flags->key, "the key of the entry, or the beginning of that key")
      ->required();
  add("verify", "check every byte and remove corrupt entries",
      [&session](Store& s) { return verify_entries(session, s); });
  add("gc", "remove the least recently used entries",
      [&session, flags](Store& s) { return collect_garbage(session, s, flags->max_size); })
      ->add_option("--max-size", flags->max_size, "keep at most this much: 500M, 4G")
      ->capture_default_str();
  add("clear", "remove all entries", [&session](Store& s) { return report(session, s.clear(), "cleared"); });
  add("export", "write all entries except precompiled headers to one file",
      [&session, flags](Store& s) { return report(session, s.export_to(flags->file), "exported"); })
      ->add_option("file", flags->file, "the file to write")
      ->required();
  add("import", "add the entries of an exported file",
      [&session, flags](Store& s) {
        auto added = s.import_from(flags->file);
        return added.ok() ? report(session, {}, fmt::format("{} entries added", *added)) : fail(session, added.error());
      })
      ->add_option("file", flags->file, "the file to read")
      ->required();
  sub->footer("Example:\n  qcodegen cache gc --max-size 500M");
}

}  // namespace qcg
