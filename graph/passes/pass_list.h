// The passes, in the order they run, and the one function that runs them all.
//
// Why here: codegen's pipeline calls run_passes(); `qcodegen list passes`, --disable-pass, --print-after,
// --time-passes and `explain` all loop over kPasses and the reports, so a pass gets them for free.
//
//   auto reports = run_passes(graph, {.disabled = {"merge_sibling_linears"}});
//   for (const PassReport& r : *reports) fmt::print("{} fired {}\n", r.name, r.fired);
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/rewrite/pass.h"

namespace qcg {

// One function per pass, each in the file of its name.
using PassFunction = Status (*)(Graph&, PassContext&);
Status unpack_constants(Graph&, PassContext&);
Status fold_noops(Graph&, PassContext&);
Status cse(Graph&, PassContext&);
Status dce(Graph&, PassContext&);
Status expand_layers(Graph&, PassContext&);
Status recognize_linear(Graph&, PassContext&);
Status group_linears(Graph&, PassContext&);
Status fold_constants(Graph&, PassContext&);
Status slice_rows(Graph&, PassContext&);
Status merge_sibling_linears(Graph&, PassContext&);
Status split_cat_linear(Graph&, PassContext&);
Status look_up_rows(Graph&, PassContext&);
Status recognize_attention(Graph&, PassContext&);
Status decompose(Graph&, PassContext&);
Status fold_epilogue(Graph&, PassContext&);
Status lower_loops(Graph&, PassContext&);
Status fuse_loops(Graph&, PassContext&);
Status fold_windows(Graph&, PassContext&);
Status rotate_halves(Graph&, PassContext&);
Status fuse_rows(Graph&, PassContext&);

struct PassInfo {
  std::string_view name;  // also the file, the function and the flag --disable-pass=NAME
  PassFunction run;
  bool required;             // the planner cannot do without: may not be disabled
  std::string_view summary;  // for `qcodegen list passes`
  bool is_judged = false;    // asks PassOptions::keep_apart or keep_cats, which measurements fill
};

inline constexpr PassInfo kPasses[] = {
    {"unpack_constants", unpack_constants, true,
     "evaluate bit operations and look-ups of constants: weights that are packed by hand"},
    {"fold_noops", fold_noops, true,
     "drop casts, views and copies that change nothing; views of weights become weights"},
    {"cse", cse, false, "compute equal things once; siblings share one activation quantization"},
    {"expand_layers", expand_layers, false,
     "convolutions, pools and recurrent layers become linears, reductions and pointwise operations"},
    {"recognize_linear", recognize_linear, false, "find (quantized) linears in every known spelling"},
    {"group_linears", group_linears, false,
     "products of rows sorted by group read packed weights, quantized ones too: mixtures of experts"},
    {"fold_constants", fold_constants, false, "evaluate small values that depend only on weights"},
    {"slice_rows", slice_rows, false, "rows of a linear that nobody reads are not computed"},
    {"merge_sibling_linears", merge_sibling_linears, false, "linears of one input become one kernel with N segments",
     true},
    {"split_cat_linear", split_cat_linear, false, "a linear over a concatenation reads its sources in place", true},
    {"look_up_rows", look_up_rows, false, "rows of a quantized table are looked up before they are dequantized"},
    {"recognize_attention", recognize_attention, false,
     "softmax(query key^T) value becomes one kernel that stores no scores"},
    {"decompose", decompose, true, "operations that were not recognized become reductions and pointwise operations"},
    {"fold_epilogue", fold_epilogue, false, "bias, activation, residual and gate products move into the linear"},
    {"lower_loops", lower_loops, true, "every remaining pointwise operation becomes a loop"},
    {"fuse_loops", fuse_loops, false, "chains of loops become one loop"},
    {"fold_windows", fold_windows, false,
     "bias, normalization and activation move into convolutions of groups and pools"},
    {"rotate_halves", rotate_halves, false, "halves that change places are read where they lie: rotary embeddings"},
    {"fuse_rows", fuse_rows, false,
     "norms, softmax and quantization of rows become one kernel with the loops around them"},
    {"dce", dce, true, "drop values that nothing reads"},
};

// A list of passes holds so many names at most.
inline constexpr size_t kMostPasses = 256;

// Whether the options leave this pass in.
bool runs_pass(const PassOptions& options, std::string_view name);

// Runs options.order, or kPasses. Errors: Usage for an unknown name, and for a required one that is disabled or that
// `order` lacks; Unsupported when what is left cannot be planned, as `order` may cause; Unsupported from recognition
// (for example a da8w4 linear); Internal when the passes broke the graph: with verify_after_each it names the pass.
Result<std::vector<PassReport>> run_passes(Graph& graph, const PassOptions& options = {});

// The graph before the first pass that is_judged, and what was reported until then: no measurement changes either.
struct PassCheckpoint {
  std::optional<Graph> graph;  // empty: no run has come so far
  std::vector<PassReport> reports;
};
// The same, leaving a checkpoint or going on from the one that a run of the same graph has left.
Result<std::vector<PassReport>> run_passes(Graph& graph, const PassOptions& options, PassCheckpoint& checkpoint);

// One pass alone: for tests and for goldens.
Result<PassReport> run_pass(std::string_view name, Graph& graph, const PassOptions& options = {});

}  // namespace qcg
