// CompileReport: what a compile did, found and measured; kept in the program as report.json (staging.h).
//
// Why here: a compile that was done before says what the first one said, and a program says when it was tuned, and
// whether the machine was busy then.
//
//   QCG_TRY(report, compile_program(options));
//   const std::string text = report_text(report);        // report.json
//   if (restore_report(text, again)) …                   // false: not as report_text() writes it
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cache/remote/remote_cache.h"
#include "cache/store/lookup.h"
#include "codegen/program/verify_program.h"
#include "codegen/trial/ceilings.h"
#include "codegen/tune/merge_trial.h"
#include "codegen/tune/tune.h"
#include "graph/passes/pass_list.h"

namespace qcg {

// One kernel of the program as the report shows it: a plan step in one M bucket.
struct KernelReport {
  std::string step;  // "gate_proj+up_proj"
  std::string name;  // kernel_name
  std::vector<std::string> nodes;
  int segments = 1;
  std::string status;  // "built", "hit", "extern"
  int64_t m_min = 0, m_max = 0, m_probe = 0;
  std::string summary;   // "w8 704x2 k=256 silu mul"
  TuneRecord record;     // of the winner; untimed with --tune=off
  TuneRecord reference;  // the fastest, timed in the same rounds; not timed if none ran
};

// A fusion of linears against the same work apart.
struct MergeReport {
  struct Timed {
    int64_t m;
    double merged_s, separate_s;
    bool disturbed;
  };
  std::string step;  // "gate_proj+up_proj"
  Fusion fusion = Fusion::siblings;
  bool kept = true;  // fused in the program
  std::vector<Timed> timings;
};

// How much of a compile's tuning other processes disturbed.
struct TuneNoise {
  int timings = 0, disturbed = 0;  // is_disturbed()
  int close = 0;                   // decisions that the order of preference made: is_close()
};

// What --pin found in its log.
struct PinReport {
  int pinned = 0, kernels = 0;  // of the program's; 0 kernels: nothing to pin, or no log
  std::string log, machine;     // the machine is that of the log
};

// The compile that a report's figures are of, where this one was served by the second-level cache.
struct EarlierCompile {
  int64_t at = 0;  // seconds since 1970; 0: there was none, all figures are of this compile
  double wall_s = 0, build_s = 0, tune_s = 0;
  int compiler_runs = 0, cache_hits = 0;
};

// What the cache that a team shares did for this compile.
struct RemoteReport {
  std::string server;  // "redis://cache.lan:6379/0"; empty: there is none
  RemoteStats stats;
};

struct CompileReport {
  std::string program;
  EarlierCompile earlier;  // then kernels, passes, merges, ceilings, candidates and notes are of it
  double wall_s = 0, build_s = 0, tune_s = 0;
  int compiler_runs = 0, cache_hits = 0;
  std::map<std::string, int> misses;  // BuildCounters::misses
  int packed = 0, kept = 0;  // weights of problems that were packed, and that a second plan took from the first
  std::string key;           // of the whole compile; empty: it cannot be told
  std::string tuned;         // when the figures were measured: ISO 8601, UTC, milliseconds
  bool unchanged = false;    // the program was there already
  std::string format, torch_version;  // of the input
  int nodes_read = 0, nodes_lowered = 0;
  int64_t weight_bytes = 0, program_bytes = 0;
  std::string target, symbols;  // "m in [1, 4096]"
  int threads = 1;
  Ceilings ceilings;
  std::vector<PassReport> passes;
  std::vector<KernelReport> kernels;
  std::vector<std::vector<std::string>> merged;  // node names of merged siblings
  std::vector<std::string> cat_split;            // node names
  std::vector<MergeReport> merges;               // what fusing was measured to be worth
  int candidates = 0, candidates_correct = 0, candidates_failed = 0, candidates_wrong = 0;
  ProgramVerdict verdict;
  TuneNoise noise;
  PinReport pins;
  std::vector<std::string> notes, warnings;
  std::vector<Lookup> lookups;  // of this compile in the cache, in order
  RemoteReport remote;

  bool is_tuned() const { return noise.timings > 0; }
  bool is_final() const { return noise.disturbed == 0; }  // else the next compile tunes again
};

std::string report_text(const CompileReport& report);  // one JSON document
// Fills everything but what this compile cost and where it wrote. False: not as report_text() writes it.
bool restore_report(const std::string& text, CompileReport& report);

}  // namespace qcg
