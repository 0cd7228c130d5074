// The user's line that made a node, out of the stack traces that torch.export keeps.
//
// Why here: every message about a node names it, those about unsupported operators before any node is read.
//
//   source_from_stack_trace("File \"a/b/model.py\", line 7, in forward")  ->  "model.py:7"
#pragma once

#include <string>
#include <string_view>

namespace qcg {

// The first frame, which is the user's, unless an outer frame belongs to torch itself. Empty where there is none.
std::string source_from_stack_trace(std::string_view trace);

}  // namespace qcg
