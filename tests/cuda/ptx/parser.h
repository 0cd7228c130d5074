// PTX text as data: kernels, their parameters, registers and instructions; variables of the module.
//
// Why here: what NVRTC writes is executed by tests (executor.h), so somebody has to read it. Scopes are resolved
// here: a register or label of a nested block gets a name of its own, so that a kernel is one flat list of
// instructions. Source: PTX ISA 9.0, chapters 4, 5, 11.
//
//   QCG_TRY(module, parse_ptx(text));
//   module.kernels[0].code[3].opcode   // {"ld", "global", "nc", "v4", "u32"}
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace qcg::ptx {

struct Operand {
  enum class Kind { name, number, vector, address };
  Kind kind = Kind::name;
  std::string text;            // a register, symbol, label or special register; of an address: its base
  uint64_t bits = 0;           // of a number: integers in two's complement, floats as their bits
  int64_t offset = 0;          // of an address
  bool negated = false;        // !%p
  std::vector<Operand> parts;  // of a vector; of an address: what follows its base ([map, {x, y}])
};

struct Instruction {
  int line = 0;         // of the PTX text
  int source_file = 0;  // .loc; 0: unknown
  int source_line = 0;
  std::string label;  // a label, and then nothing else is set
  std::string guard;  // a predicate register, or nothing
  bool guard_negated = false;
  std::vector<std::string> opcode;
  std::vector<Operand> operands;     // d|p is two operands
  std::vector<std::string> targets;  // of brx.idx

  std::string name() const;  // "ld.global.nc.v4.u32"
};

struct Register {
  std::string type;  // "pred", "b32"
  std::string name;  // of a C++ variable
};

struct Variable {
  std::string space;  // "shared", "global", "const", "local"
  std::string name;
  int64_t align = 1, bytes = 0;
  bool external = false;  // dynamic shared memory
  bool initialized = false;
  std::vector<uint8_t> data;
};

struct Parameter {
  std::string name;
  int64_t offset = 0, bytes = 0;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  int64_t parameter_bytes = 0;
  std::vector<Register> registers;
  std::vector<Variable> variables;  // shared and local ones of the kernel
  std::vector<Instruction> code;
};

struct Module {
  std::string target;
  std::map<int, std::string> files;  // .file
  std::vector<Variable> variables;
  std::vector<Kernel> kernels;
};

// Errors: BadInput with the line that cannot be read.
Result<Module> parse_ptx(std::string_view text);

}  // namespace qcg::ptx
