// What a compiler needs beside a kernel's source: the headers it includes, and the flags its instruction set wants.
//
// Why here: both are the same for every kernel of an ISA, and their bytes are part of every cache key.
//
//   for (const SourceFile& header : support_headers(Isa::avx512)) job.headers.push_back({header.name, header.text});
#pragma once

#include <string>
#include <vector>

#include "codegen/kernel/target.h"

namespace qcg {

struct SourceFile {
  std::string name;
  std::string text;
};
// Every header that a kernel for `isa` may include, includes before their users.
std::vector<SourceFile> support_headers(Isa isa);
// The #include lines of all that a kernel for `isa` may include, for a precompiled header that serves every such kernel.
std::string include_lines(Isa isa);
// The compiler flags of the ISA's row.
std::vector<std::string> kernel_flags(Isa isa);

}  // namespace qcg
