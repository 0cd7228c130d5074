// What the three forms of `bench` share: bench.cpp times a program's kernels, bench_model.cpp a whole program,
// bench_all.cpp every scheme on Llama's shapes.
//
// Why here: their flags overlap, and so does what they print.
//
//   if (flags->all) return run_bench_all(session, *flags);
//   return flags->is_whole() ? run_bench_model(session, *flags) : run_bench(session, *flags);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "codegen/tune/tune.h"

namespace qcg {

struct BenchFlags {
  std::string program, graph, against, kernel;
  std::vector<std::string> weights;
  std::vector<int64_t> m_list;
  std::vector<int> threads;
  double budget_s = 0;
  // Only for a whole program:
  bool whole = false;
  int64_t prompt = 0, decode = 0;  // tokens
  std::map<std::string, int64_t> sizes;
  std::vector<std::string> positions;
  bool is_whole() const { return whole || prompt > 0 || decode > 0 || !sizes.empty() || !positions.empty(); }
  // Only for --all:
  bool all = false;
  std::vector<std::string> schemes, shapes;
  std::string target = "cpu";
  TuneMode tune = TuneMode::fast;
  bool rounded = false;
};

int run_bench_all(const Session& session, const BenchFlags& flags);
int run_bench_model(const Session& session, const BenchFlags& flags);

std::string who_of(const TuneRecord& record);  // "qcodegen" or a reference's name
nlohmann::json bench_row_json(const std::string& step, const TuneRecord& record);
nlohmann::json ceilings_json(const Ceilings& ceilings);
std::string describe_ceilings(const Ceilings& ceilings);

}  // namespace qcg
