// compile_program: the pipeline, from a graph file to a program directory.
//
// Why here: the whole product in one function that reads like a table of contents; cli/ only parses flags and prints.
//
//   CompileOptions options{.input = "mlp.pt2", .output = "mlp.qcg"};
//   QCG_TRY(report, compile_program(options));
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/merge_trial.h"
#include "codegen/plan.h"
#include "codegen/tune.h"
#include "codegen/verify_program.h"
#include "graph/passes/pass_list.h"
#include "graph/read/read_graph.h"

namespace qcg {

// What is run and compared with the oracle before a program is published: each kernel, or the program as a whole too.
enum class Verify : uint8_t { kernels, program };

enum class Emit : uint8_t { none, graph, plan, source, assembly };

struct CompileOptions {
  std::string input;
  std::vector<std::string> weights;    // files, directories or "random:SEED"
  std::string output;                  // name.qcg; empty: beside the input
  std::string target = "cpu";
  TuneMode tune = TuneMode::fast;
  bool extern_auto = false;            // a program may call vendor kernels
  bool rounded = false;                // --dequant=rounded
  int threads = 0;                     // to tune for; 0: all this process may use
  int jobs = 0;                        // compiler processes; 0: cores and memory
  double compiler_s = CompileLimits().timeout_s;  // one of them may take
  Verify verify = Verify::program;
  std::vector<int64_t> m_list;
  std::string pin;                     // a tune log whose winners are replayed
  Int4Packing int4_packing = Int4Packing::automatic;  // byte order of torch's packed CPU weights
  PassOptions passes;
  ToolchainOptions toolchain;
  std::string cache_dir;               // empty: no cache
  uint64_t cache_max_bytes = uint64_t{4} << 30;
  bool reuse_programs = true;          // second-level cache
  bool explain_misses = false;         // report why kernels were not in the cache
  Emit emit = Emit::none;              // print instead of compile
  std::function<void(std::string_view)> on_step;                       // "tune gate_proj+up_proj m=1": progress
  std::function<void(std::string_view)> on_emit;                       // text of --emit and --print-after
  const std::atomic<bool>* cancel = nullptr;  // set by Ctrl-C: error Interrupted, nothing published
};

// One kernel of the program as the report shows it: a plan step in one M bucket.
struct KernelReport {
  std::string step;                    // "gate_proj+up_proj"
  std::string name;                    // kernel_name
  std::vector<std::string> nodes;
  int segments = 1;
  std::string status;                  // "built", "hit", "extern"
  int64_t m_min = 0, m_max = 0, m_probe = 0;
  std::string summary;                 // "w8 704x2 k=256 silu mul"
  TuneRecord record;                   // of the winner; untimed with --tune=off
  std::string best_reference;          // name of the fastest reference, empty if none ran
  double reference_ratio = 0;          // reference median / ours
};

// A fusion of linears against the same work apart.
struct MergeReport {
  struct Timed {
    int64_t m;
    double merged_s, separate_s;
  };
  std::string step;                    // "gate_proj+up_proj"
  Fusion fusion = Fusion::siblings;
  bool kept = true;                    // fused in the program
  std::vector<Timed> timings;
};

// The compile that a report's figures are of, where this one was served by the second-level cache.
struct EarlierCompile {
  int64_t at = 0;                      // seconds since 1970; 0: there was none, all figures are of this compile
  double wall_s = 0, build_s = 0, tune_s = 0;
  int compiler_runs = 0, cache_hits = 0;
};

struct CompileReport {
  std::string program;
  EarlierCompile earlier;              // then kernels, passes, merges, ceilings, candidates and notes are of it
  bool unchanged = false;              // served by the second-level cache
  double wall_s = 0, build_s = 0, tune_s = 0;
  int compiler_runs = 0, cache_hits = 0;
  std::map<std::string, int> misses;   // BuildCounters::misses
  std::string format, torch_version;   // of the input
  int nodes_read = 0, nodes_lowered = 0;
  int64_t weight_bytes = 0, program_bytes = 0;
  std::string target, symbols;         // "m in [1, 4096]"
  int threads = 1;
  Ceilings ceilings;
  std::vector<PassReport> passes;
  std::vector<KernelReport> kernels;
  std::vector<std::vector<std::string>> merged;   // node names of merged siblings
  std::vector<std::string> cat_split;             // node names
  ProgramVerdict verdict;
  std::vector<MergeReport> merges;                // what fusing was measured to be worth
  int candidates = 0, candidates_correct = 0, candidates_failed = 0, candidates_wrong = 0;
  std::vector<std::string> notes, warnings;
};
Result<CompileReport> compile_program(const CompileOptions& options);

// Reads and runs the passes only: what `explain` shows. Weights are optional.
struct Explanation {
  Graph as_read, graph;                // before and after the passes
  SourceGraph source;                  // before them
  Plan plan;
  std::vector<PassReport> passes;
  ReadInfo read;
  int nodes_read = 0;
};
Result<Explanation> explain_graph(const CompileOptions& options);

// --emit: the lowered graph, the plan, the best-guess sources or their assembly, handed to options.on_emit.
Status emit_text(const CompileOptions& options);

}  // namespace qcg
