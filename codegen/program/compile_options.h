// CompileOptions: what a compile is told: its input, its target, how it tunes and verifies, where results go.
//
// Why here: the pipeline reads them, origin.json and the key of a whole compile keep what of them leads to the program.
//
//   CompileOptions options{.input = "mlp.pt2", .output = "mlp.qcg"};
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/toolchain/compile.h"
#include "cache/toolchain/toolchain.h"
#include "codegen/tune/tune.h"
#include "graph/passes/pass_list.h"
#include "graph/read/read_graph.h"

namespace qcg {

// What is run and compared with the oracle before a program is published: each kernel, or the program as a whole too.
enum class Verify : uint8_t { kernels, program };

enum class Emit : uint8_t { none, graph, plan, source, assembly };

struct CompileOptions {
  std::string input;
  std::vector<std::string> weights;  // files, directories, checkpoints or "random:SEED"
  WeightNaming naming;               // of the tensors in them
  std::string output;                // name.qcg; empty: beside the input
  std::string target = "cpu";
  TuneMode tune = TuneMode::fast;
  bool extern_auto = false;                       // a program may call vendor kernels
  bool rounded = false;                           // --dequant=rounded
  int threads = 0;                                // to tune for; 0: all this process may use
  int jobs = 0;                                   // compiler processes; 0: cores and memory
  double compiler_s = CompileLimits().timeout_s;  // one of them may take
  Verify verify = Verify::program;
  std::vector<int64_t> m_list;
  std::string pin;                                    // a tune log, or its program, whose winners are replayed
  Int4Packing int4_packing = Int4Packing::automatic;  // byte order of torch's packed CPU weights
  PassOptions passes;
  ToolchainOptions toolchain;
  std::string cache_dir;  // empty: no cache
  uint64_t cache_max_bytes = uint64_t{4} << 30;
  std::string remote_cache;  // redis://…, the cache that a team shares (cache/remote/remote_options.h); empty: none
  std::string remote_key_file;  // the key that its members sign entries with
  bool reuse_programs = true;   // second-level cache
  bool retune = false;          // time everything again, and let that be the second-level cache's result
  bool explain_misses = false;  // report why kernels were not in the cache
  Emit emit = Emit::none;       // print instead of compile
  std::function<void(std::string_view)> on_step;  // "tune gate_proj+up_proj m=1": progress
  std::function<void(std::string_view)> on_emit;  // text of --emit and --print-after
  const std::atomic<bool>* cancel = nullptr;      // set by Ctrl-C: error Interrupted, nothing published
};

inline ReadOptions read_options(const CompileOptions& options) {
  return {.weights = options.weights, .naming = options.naming, .int4_packing = options.int4_packing};
}

}  // namespace qcg
