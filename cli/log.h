// What `log` prints beside its tables: for other programs, and of two logs.
//
// Why here: log.cpp selects and prints for people; each of these is a form of its own.
//
//   put(log_csv(groups));
//   put(describe_comparison(compare_logs(records, others)));
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codegen/tune/tune.h"

namespace qcg {

// Records of one problem in one M range.
using Group = std::vector<const TuneRecord*>;

std::string log_csv(const std::vector<Group>& groups);
// What TORCHINDUCTOR's max-autotune prints, for people who compare the two.
std::string log_inductor(const std::vector<Group>& groups);

// The winners of two logs for the same nodes at the same m.
struct LogComparison {
  struct Pair {
    TuneRecord a, b;
  };
  std::vector<Pair> pairs;
  int only_a = 0, only_b = 0;
};
LogComparison compare_logs(const std::vector<TuneRecord>& a, const std::vector<TuneRecord>& b);
std::string describe_comparison(const LogComparison& comparison);
nlohmann::json comparison_json(const LogComparison& comparison);

}  // namespace qcg
