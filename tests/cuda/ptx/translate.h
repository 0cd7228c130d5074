// A kernel of PTX as C++ text: each instruction a call, each register a variable, each thread one run of the function.
//
// Why here: a compiler turns the text into code that runs a hundred times faster than an interpreter, and refuses an
// opcode that the headers lack by its name and its line of PTX (#line).
//
//   add.s32 %r3, %r1, 4;          ->  machine->line = 12;  add<s32>(qRr3, qRr1, 0x4ull);
//   @%p1 bra $L__BB0_2;           ->  if (qRp1) goto L__L__BB0_2;
//   cvt.rn.bf16.f32 %rs1, %f2;    ->  cvt_rn<bf16, f32>(qRrs1, qRf2);
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tests/cuda/ptx/parser.h"

namespace qcg::ptx {

// Instructions that run together; the generated function counts how often each block does.
struct BasicBlock {
  std::vector<std::string> opcodes;
};

// Where variables lie. Shared ones by offset; variables of the module in buffers of their own, after one another.
struct Storage {
  int64_t static_shared = 0;  // bytes; dynamic shared memory begins here, aligned
  int64_t dynamic_offset = 0;
  int64_t local_bytes = 0;
  std::vector<const Variable*> globals;  // the i-th is buffer i
};

struct Translation {
  std::string source;
  std::vector<BasicBlock> blocks;
  Storage storage;
};

// Errors: Unsupported names what cannot be translated at all (a call); everything else is left to the C++ compiler.
Result<Translation> translate(const Module& module, const Kernel& kernel);

}  // namespace qcg::ptx
