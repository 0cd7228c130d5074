#include "cli/lookups.h"

#include <fmt/format.h>

#include <map>

#include "cli/report.h"

namespace qcg {

namespace {

std::string bytes_text(uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

std::string_view source_of(const Lookup& l) { return l.hit() ? lookup_source_name(l.source) : "miss"; }

}  // namespace

nlohmann::json lookups_json(const std::vector<Lookup>& lookups) {
  nlohmann::json out = nlohmann::json::array();
  for (const Lookup& l : lookups)
    out.push_back({{"key", l.key},
                   {"kind", entry_kind_info(l.kind).name},
                   {"hit", l.hit()},
                   {"source", lookup_source_name(l.source)},
                   {"bytes", l.bytes},
                   {"ms", l.ms},
                   {"time", l.time}});
  return out;
}

std::string describe_lookups(const std::vector<Lookup>& lookups) {
  if (lookups.empty()) return "";
  Table table({"cache", "kind", "key", "size", "time"});
  for (const Lookup& l : lookups)
    table.add({std::string(source_of(l)), std::string(entry_kind_info(l.kind).name), l.key.substr(0, 12),
               l.hit() ? bytes_text(l.bytes) : "-", fmt::format("{:.2f} ms", l.ms)});
  return table.str();
}

std::string sum_lookups(const std::vector<Lookup>& lookups) {
  if (lookups.empty()) return "";
  struct Sum {
    uint64_t lookups = 0, bytes = 0;
    double ms = 0;
  };
  std::map<std::pair<std::string_view, std::string_view>, Sum> sums;
  for (const Lookup& l : lookups) {
    Sum& sum = sums[{entry_kind_info(l.kind).plural, source_of(l)}];
    ++sum.lookups, sum.bytes += l.bytes, sum.ms += l.ms;
  }
  Table table({"latest lookups", "found", "number", "size", "time"});
  for (const auto& [names, sum] : sums)
    table.add({std::string(names.first), std::string(names.second), fmt::format("{}", sum.lookups),
               bytes_text(sum.bytes), fmt::format("{:.1f} ms", sum.ms)});
  return table.str();
}

nlohmann::json remote_json(const RemoteReport& remote) {
  const RemoteStats& s = remote.stats;
  return {{"server", remote.server},
          {"hits", s.hits},
          {"misses", s.misses},
          {"published", s.published},
          {"failures", s.failures},
          {"bytes_got", s.bytes_got},
          {"bytes_published", s.bytes_put},
          {"ms", s.ms}};
}

void add_remote(const RemoteReport& compile, RemoteReport& sum) {
  const RemoteStats& from = compile.stats;
  RemoteStats& to = sum.stats;
  sum.server = compile.server;
  to.hits += from.hits, to.misses += from.misses, to.published += from.published, to.failures += from.failures;
  to.bytes_got += from.bytes_got, to.bytes_put += from.bytes_put, to.ms += from.ms;
}

std::string describe_remote(const RemoteReport& remote) {
  if (remote.server.empty()) return "";
  const RemoteStats& s = remote.stats;
  std::string counts = fmt::format("{}, {} · {} published", count_of(s.hits, "hit"),
                                   s.misses == 1 ? "1 miss" : fmt::format("{} misses", s.misses), s.published);
  if (s.failures > 0) counts += " · " + count_of(s.failures, "failure");
  return labelled("shared", remote.server,
                  fmt::format("{} · {} in {:.1f} ms", counts, bytes_text(s.bytes_got + s.bytes_put), s.ms));
}

}  // namespace qcg
