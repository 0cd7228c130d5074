// Where a node comes from, out of what torch.export keeps of it: the user's line and the module.
//
// Why here: every message about a node names its line, those about unsupported operators before any node is read.
//
//   source_from_stack_trace("File \"a/b/model.py\", line 7, in forward")  ->  "model.py:7"
//   module_from_stack("L__self__,,my.MLP;L__self___gate,layers.0.gate,torch.nn.modules.linear.Linear")  ->  "layers.0.gate"
#pragma once

#include <string>
#include <string_view>

namespace qcg {

// The first frame, which is the user's, unless an outer frame belongs to torch itself. Empty where there is none.
std::string source_from_stack_trace(std::string_view trace);

// The path of the innermost module of an nn_module_stack. Empty for the outermost module, and where there is none.
std::string module_from_stack(std::string_view stack);

}  // namespace qcg
