// The log of lookups in the cache, as JSON and as lines: what `compile` prints of its own, and `cache stats` of all.
//
// Why here: both commands print lookups in the same form.
//
//   out["lookups"] = lookups_json(report.lookups);
//   say(describe_lookups(report.lookups));
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cache/store/lookup.h"
#include "codegen/program/compile_report.h"

namespace qcg {

// One object per lookup, in order: key, kind, hit, source ("local", "remote", "none"), bytes, ms and time.
nlohmann::json lookups_json(const std::vector<Lookup>& lookups);
// One line per lookup: `remote  kernel   3f9a01c2b7de   20.5 kB  0.41 ms`.
std::string describe_lookups(const std::vector<Lookup>& lookups);
// A table with one row for each kind and source: number, bytes and milliseconds.
std::string sum_lookups(const std::vector<Lookup>& lookups);

nlohmann::json remote_json(const RemoteReport& remote);
// The sums of several compiles on one server.
void add_remote(const RemoteReport& compile, RemoteReport& sum);
// "redis://cache.lan:6379/0  2 hits, 0 misses · 0 published · 31.2 kB in 1.4 ms"
std::string describe_remote(const RemoteReport& remote);

}  // namespace qcg
