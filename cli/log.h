// The other outputs of `log` besides its tables: formats for other programs, and the comparison of two logs.
//
// Why here: log.cpp selects records and prints them as text; each of these outputs has its own file.
//
//   put(log_csv(groups));
//   put(describe_comparison(compare_logs(records, others)));
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codegen/tune/tune.h"

namespace qcg {

// The records of one problem in one range of m.
using Group = std::vector<const TuneRecord*>;

std::string log_csv(const std::vector<Group>& groups);
// The format of TORCHINDUCTOR's max-autotune, for users who compare its results with these.
std::string log_inductor(const std::vector<Group>& groups);

// The winners of two logs, paired by nodes and m.
struct LogComparison {
  struct Pair {
    TuneRecord a, b;
  };
  std::vector<Pair> pairs;
  int only_a = 0, only_b = 0;  // winners without a partner
};
LogComparison compare_logs(const std::vector<TuneRecord>& a, const std::vector<TuneRecord>& b);
std::string describe_comparison(const LogComparison& comparison);
nlohmann::json comparison_json(const LogComparison& comparison);

}  // namespace qcg
