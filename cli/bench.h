// What the forms of `bench` share: bench.cpp times a program's kernels, bench_model.cpp a whole program,
// bench_compare.cpp two programs in turn, bench_all.cpp linears without a program: every scheme on Llama's shapes, or
// one of any shape.
//
// Why here: their flags overlap, and so does what they print.
//
//   if (flags->all || flags->n > 0) return run_bench_all(session, *flags);
//   if (flags->compare) return run_bench_compare(session, *flags);
//   return flags->is_whole() ? run_bench_model(session, *flags) : run_bench(session, *flags);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "codegen/kernel/target.h"
#include "codegen/program/program_io.h"
#include "codegen/tune/tune.h"
#include "runtime/state.h"

namespace qcg {

struct BenchFlags {
  std::vector<std::string> programs;
  std::string method, graph, against, kernel;
  std::vector<std::string> weights;
  std::vector<int64_t> m_list;
  std::vector<int> threads;
  double budget_s = 0;
  // Only for a whole program:
  bool whole = false;
  int64_t prompt = 0, decode = 0;  // tokens
  std::map<std::string, int64_t> sizes;
  std::vector<std::string> positions;
  std::string trace;
  bool compare = false;  // two programs
  std::string target;    // empty: of programs the best that runs here, of linears cpu
  bool is_whole() const {
    return whole || prompt > 0 || decode > 0 || !sizes.empty() || !positions.empty() || !trace.empty();
  }
  const std::string& program() const { return programs[0]; }
  // Only for linears without a program:
  bool all = false;
  int64_t n = 0, k = 0;
  std::vector<std::string> schemes, shapes;
  TuneMode tune = TuneMode::fast;
  bool rounded = false;
};

// Whether a vendor's kernels are timed beside ours: oneDNN's on a CPU, cuBLASLt's on a device.
bool is_timed_against_vendor(const BenchFlags& flags, Device device);
// The warning that is printed once, before anything is timed: why the vendor's library cannot be. Empty: it can, or
// need not.
std::string why_no_vendor(const BenchFlags& flags, Device device);

int run_bench_all(const Session& session, const BenchFlags& flags);
int run_bench_model(const Session& session, const BenchFlags& flags);
int run_bench_compare(const Session& session, const BenchFlags& flags);

// A run on the state as the runs before it left it; where the program refuses that (a position in it is at its end), on
// the initial values. Resetting before each run instead would time the first touch of the state's pages.
Status run_on_state(const LoadedProgram& loaded, State& state, ProgramIo& io);

// A form that times whole programs: `Bench` has run(), json() and print().
template <class Bench>
int run_whole_bench(const Session& session, const BenchFlags& flags, Document document) {
  if (flags.threads.size() > 1)
    return fail(session, {ErrorCode::Usage, "--threads", "whole programs are timed with one number of threads",
                          "give one number"});
  Bench bench(session, flags);
  if (const Status status = bench.run(); !status.ok()) return fail(session, status.error());
  if (session.json) print_json(document, bench.json());
  else bench.print();
  return 0;
}

std::string who_of(const TuneRecord& record);  // "qcodegen" or a reference's name
nlohmann::json bench_row_json(const std::string& step, const TuneRecord& record);
nlohmann::json ceilings_json(const Ceilings& ceilings);
std::string describe_ceilings(const Ceilings& ceilings);

}  // namespace qcg
