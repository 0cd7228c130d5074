#include "tests/cuda/ptx/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tests/cuda/ptx/machine.h"

namespace qcg::ptx {
namespace {

constexpr std::string_view kTypes[] = {
    "pred", "b1",  "b8",   "u8",   "s8",  "b16", "u16",  "s16",  "b32",   "u32",    "s32", "b64", "u64",    "s64",
    "b128", "f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2", "f16x2", "bf16x2", "s4",  "u4",  "e4m3x2", "e5m2x2"};
bool is_type(std::string_view part) { return std::ranges::find(kTypes, part) != std::end(kTypes); }

// Modifiers that change speed, visibility beyond a CTA or what ptxas may assume, but no result here.
const std::set<std::string, std::less<>> kSilent = {"aligned",
                                                    "uni",
                                                    "weak",
                                                    "volatile",
                                                    "relaxed",
                                                    "acquire",
                                                    "release",
                                                    "acq_rel",
                                                    "cta",
                                                    "cluster",
                                                    "gpu",
                                                    "sys",
                                                    "nc",
                                                    "ca",
                                                    "cg",
                                                    "cs",
                                                    "lu",
                                                    "cv",
                                                    "wb",
                                                    "wt",
                                                    "noftz",
                                                    "unified",
                                                    "tile",
                                                    "bulk_group",
                                                    "mbarrier::complete_tx::bytes",
                                                    "evict_last",
                                                    "evict_first",
                                                    "L1::no_allocate",
                                                    "L1::evict_first",
                                                    "L1::evict_last",
                                                    "L1::evict_normal",
                                                    "L1::evict_unchanged",
                                                    "L2::64B",
                                                    "L2::128B",
                                                    "L2::256B",
                                                    "L2::cache_hint",
                                                    "L2::evict_first",
                                                    "L2::evict_last",
                                                    "L2::evict_normal"};

const std::map<std::string, std::string, std::less<>> kSpecial = {
    {"%tid.x", "machine->thread->tid.x"},
    {"%tid.y", "machine->thread->tid.y"},
    {"%tid.z", "machine->thread->tid.z"},
    {"%ntid.x", "machine->ntid.x"},
    {"%ntid.y", "machine->ntid.y"},
    {"%ntid.z", "machine->ntid.z"},
    {"%ctaid.x", "machine->ctaid.x"},
    {"%ctaid.y", "machine->ctaid.y"},
    {"%ctaid.z", "machine->ctaid.z"},
    {"%nctaid.x", "machine->nctaid.x"},
    {"%nctaid.y", "machine->nctaid.y"},
    {"%nctaid.z", "machine->nctaid.z"},
    {"%laneid", "machine->thread->lane"},
    {"%warpid", "machine->thread->warp"},
    {"%nwarpid", "((machine->ntid.x * machine->ntid.y * machine->ntid.z + 31) / 32)"},
    {"%lanemask_eq", "(1u << machine->thread->lane)"},
    {"%lanemask_lt", "((1u << machine->thread->lane) - 1)"},
    {"%lanemask_le", "((2u << machine->thread->lane) - 1)"},
    {"%lanemask_ge", "~((1u << machine->thread->lane) - 1)"},
    {"%lanemask_gt", "~((2u << machine->thread->lane) - 1)"},
    {"%dynamic_smem_size", "machine->dynamic_shared"},
    {"%total_smem_size", "machine->total_shared"},
    {"%smid", "0u"},
    {"%nsmid", "1u"},
    {"%gridid", "0u"},
    {"%clock", "0u"},
    {"%clock64", "0ull"},
    {"%globaltimer", "0ull"},
    {"%cluster_ctarank", "0u"},
    {"%cluster_nctarank", "1u"},
    {"%clusterid.x", "machine->ctaid.x"},
    {"%cluster_ctaid.x", "0u"},
    {"%cluster_nctaid.x", "1u"}};

std::string_view register_type(std::string_view type) {
  if (type == "pred") return "bool";
  if (type.ends_with("128")) return "unsigned __int128";
  if (type.ends_with("64")) return "uint64_t";
  if (type.ends_with("32") || type.ends_with("x2")) return "uint32_t";
  return type.ends_with("16") ? "uint16_t" : "uint8_t";
}
// Registers of one C++ type: "r_uint32_t[7]".
std::string array_name(std::string_view type) {
  return type.ends_with("128") ? "r_uint128_t" : fmt::format("r_{}", type);
}
// What a register holds before it is written: nobody's zero.
std::string_view poison(std::string_view type) {
  return type == "bool" ? "false" : "static_cast<uint32_t>(0xbadc0de5)";
}

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

bool is_any(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

class Translator {
 public:
  Translator(const Module& module, const Kernel& kernel) : module_(module), kernel_(kernel) {}

  Result<Translation> run() {
    place_variables();
    place_registers();
    std::string body;
    bool fresh = true;  // a block begins
    std::set<std::string> seen;
    for (const Instruction& i : kernel_.code) {
      if (!i.label.empty()) {
        body += fmt::format("{}:;\n", i.label);
        seen.insert(i.label);
        fresh = true;
        continue;
      }
      if (i.opcode[0] == "call")
        return Error::unsupported(fmt::format("PTX line {}", i.line), "a call is not executed",
                                  "inline the function, or compile with optimization");
      if (fresh) {
        body += fmt::format("++counts[{}];\n", out_.blocks.size());
        out_.blocks.emplace_back();
      }
      out_.blocks.back().opcodes.push_back(i.name());
      body += fmt::format("#line {} \"{}.ptx\"\n", i.line, kernel_.name);
      const bool jump = is_any(i.opcode[0], {"bra", "brx", "ret", "exit"});
      fresh = jump;
      if (jump && i.opcode[0] == "bra" && seen.contains(i.operands[0].text))
        body += fmt::format("if (--machine->branches_left < 0) machine->line = {}, machine->endless();\n", i.line);
      if (!jump) body += fmt::format("line = {}; ", i.line);
      if (!i.guard.empty()) body += fmt::format("if ({}{}) ", i.guard_negated ? "!" : "", base_of(i.guard, i));
      body += jump ? jump_text(i) : call_text(i);
      body += "\n";
    }
    out_.source = head() + body + "}\n";
    return std::move(out_);
  }

 private:
  // Registers of a type are an array: g++ compiles thousands of named variables for 1.7 times as long.
  void place_registers() {
    for (const Register& r : kernel_.registers) {
      const std::string_view type = register_type(r.type);
      size_t& count = register_counts_[type];
      registers_[r.name] = fmt::format("{}[{}]", array_name(type), count++);
    }
  }
  void place_variables() {
    auto place_shared = [&](const std::vector<Variable>& variables) {
      for (const Variable& v : variables) {
        if (v.space != "shared" || v.external || v.bytes == 0) continue;
        out_.storage.static_shared = round_up(out_.storage.static_shared, v.align);
        addresses_[v.name] = static_cast<uint64_t>(out_.storage.static_shared);
        out_.storage.static_shared += v.bytes;
      }
    };
    place_shared(module_.variables);
    place_shared(kernel_.variables);
    out_.storage.dynamic_offset = round_up(out_.storage.static_shared, 1024);
    for (const Variable& v : module_.variables) {
      if (v.space == "shared" && (v.external || v.bytes == 0))
        addresses_[v.name] = static_cast<uint64_t>(out_.storage.dynamic_offset);
      if (v.space == "shared") continue;
      out_.storage.globals.push_back(&v);
      addresses_[v.name] = static_cast<uint64_t>(out_.storage.globals.size()) << kBufferShift;
    }
    for (const Variable& v : kernel_.variables) {
      if (v.space != "local") continue;
      out_.storage.local_bytes = round_up(out_.storage.local_bytes, v.align);
      addresses_[v.name] = static_cast<uint64_t>(out_.storage.local_bytes);
      out_.storage.local_bytes += v.bytes;
    }
    for (const Parameter& p : kernel_.parameters) addresses_[p.name] = static_cast<uint64_t>(p.offset);
  }

  std::string head() const {
    std::string text = "#include \"memory_ops.h\"\nusing namespace qcg::ptx;\n";
    text += fmt::format("extern \"C\" uint64_t ptx_counts[{0}];\nuint64_t ptx_counts[{0}];\n",
                        std::max<size_t>(1, out_.blocks.size()));
    text += "extern \"C\" void ptx_bind(Machine* m) { machine = m; }\n";
    text += "extern \"C\" void ptx_thread() {\n[[maybe_unused]] uint64_t* const counts = ptx_counts;\n";
    text += "int& line = machine->line;\n";
    text +=
        "[[maybe_unused]] uint64_t sink_64; [[maybe_unused]] uint32_t sink_32; [[maybe_unused]] uint16_t sink_16; "
        "[[maybe_unused]] bool sink_p;\n";
    for (const auto& [type, count] : register_counts_)
      text += fmt::format("{0} {1}[{2}]; for ({0}& r : {1}) r = {3};\n", type, array_name(type), count, poison(type));
    return text;
  }

  std::string jump_text(const Instruction& i) const {
    if (i.opcode[0] == "bra") return fmt::format("goto {};", i.operands[0].text);
    if (i.opcode[0] != "brx") return "return;";
    std::string text = fmt::format("switch ({}) {{", expression(i.operands[0], i));
    for (size_t t = 0; t < i.targets.size(); ++t) text += fmt::format(" case {}: goto {};", t, i.targets[t]);
    return text + " }";
  }

  // The function's name: the opcode without types and silent modifiers.
  struct Name {
    std::string function, types;
    bool polls = false, cache_policy = false;
  };
  static Name name_of(const Instruction& i) {
    Name n;
    n.function = i.opcode[0];
    const std::string& op = i.opcode[0];
    const bool memory = is_any(op, {"ld", "st", "atom", "red"});
    const bool spaceless =
        is_any(op, {"mbarrier", "fence"}) || (op == "cp" && (i.opcode.size() < 3 || i.opcode[2] != "bulk"));
    if (op == "barrier" && i.opcode[1] != "cluster") n.function = "bar";
    if (is_any(op, {"and", "or", "xor", "not"})) n.function += "_";
    for (size_t p = 1; p < i.opcode.size(); ++p) {
      std::string part = i.opcode[p];
      if (memory && is_any(part, {"volatile", "relaxed", "acquire"})) n.polls = op == "ld";
      if (part == "L2::cache_hint") n.cache_policy = true;
      if (is_type(part)) {
        n.types += (n.types.empty() ? "" : ", ") + part;
        continue;
      }
      const bool is_scope = op == "barrier" && part == "cluster";  // the one place where it is the opcode's own word
      if (kSilent.contains(part) && !is_scope && !(op == "membar" && p == 1)) continue;
      if (part.starts_with("shared::")) part = "shared";
      if (part.starts_with("param::")) part = "param";
      if (spaceless && is_any(part, {"shared", "global"})) continue;
      for (size_t at = part.find("::"); at != part.npos; at = part.find("::")) part.replace(at, 2, "_");
      n.function += "_" + part;
    }
    return n;
  }

  std::string call_text(const Instruction& i) const {
    if (i.opcode[0] == "wgmma" && i.opcode[1] == "mma_async") return wgmma_text(i);
    const Name n = name_of(i);
    std::vector<std::string> arguments;
    for (size_t o = 0; o + n.cache_policy < i.operands.size(); ++o) flatten(i.operands[o], i, o, arguments);
    return fmt::format("{}{}{}({});", n.polls ? "machine->poll(); " : "", n.function,
                       n.types.empty() ? "<>" : "<" + n.types + ">", fmt::join(arguments, ", "));
  }

  // wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {d…}, a-desc or {a…}, b-desc, scale-d, …
  std::string wgmma_text(const Instruction& i) const {
    const std::string& shape = i.opcode.at(4);
    const size_t n = shape.find('n'), k = shape.find('k');
    auto addresses = [&](const Operand& vector) {
      std::string text;
      for (const Operand& p : vector.parts) text += (text.empty() ? "&" : ", &") + expression(p, i);
      return text;
    };
    const bool in_registers = i.operands.at(1).kind == Operand::Kind::vector;
    std::string types;
    for (const std::string& part : i.opcode)
      if (is_type(part)) types += ", " + part;
    std::vector<std::string> rest;
    for (size_t o = in_registers ? 2 : 1; o < i.operands.size(); ++o) rest.push_back(expression(i.operands[o], i));
    return fmt::format("{{ uint32_t* d[] = {{{}}}; {} wgmma_any<{}, {}{}>(d, {}, {}, {}{}{}); }}",
                       addresses(i.operands[0]),
                       in_registers ? fmt::format("uint32_t* a[] = {{{}}};", addresses(i.operands[1])) : "",
                       shape.substr(n + 1, k - n - 1), shape.substr(k + 1), types, i.operands[0].parts.size(),
                       in_registers ? "a" : "nullptr", in_registers ? "0, " : "", fmt::join(rest, ", "),
                       rest.size() < (in_registers ? 2u : 3u) ? ", true" : "");
  }

  void flatten(const Operand& o, const Instruction& i, size_t index, std::vector<std::string>& out) const {
    if (o.kind == Operand::Kind::vector) {
      for (const Operand& p : o.parts) flatten(p, i, index, out);
    } else if (o.kind == Operand::Kind::name && o.text == "_") {
      out.push_back(sink(i, index));
    } else {
      out.push_back(expression(o, i));
      for (const Operand& p : o.parts) flatten(p, i, index, out);
    }
  }
  static std::string sink(const Instruction& i, size_t index) {
    if (is_any(i.opcode[0], {"setp"}) || (is_any(i.opcode[0], {"shfl", "elect"}) && index == 1)) return "sink_p";
    if (i.opcode[0] == "mov") return i.opcode.back() == "b64" ? "sink_32" : "sink_16";
    return is_any(i.opcode.back(), {"b64", "u64", "s64"}) ? "sink_64" : "sink_32";
  }

  std::string expression(const Operand& o, const Instruction& i) const {
    if (o.kind == Operand::Kind::number) return fmt::format("0x{:x}ull", o.bits);
    std::string text = base_of(o.text, i);
    if (o.kind == Operand::Kind::address && o.text.empty()) return fmt::format("{}ull", o.offset);
    if (o.offset) text = fmt::format("({} + {})", text, o.offset);
    return (o.negated ? "!" : "") + text;
  }
  std::string base_of(const std::string& name, const Instruction& i) const {
    if (auto found = registers_.find(name); found != registers_.end()) return found->second;
    if (auto special = kSpecial.find(name); special != kSpecial.end()) return special->second;
    auto found = addresses_.find(name);
    if (found == addresses_.end())
      return fmt::format("unknown_name_{}", name.empty() ? "" : name.substr(name[0] == '%'));
    // A parameter named outside of an address is a generic address: of a tensor map, say.
    const bool parameter = std::ranges::any_of(kernel_.parameters, [&](const Parameter& p) { return p.name == name; });
    const bool value = parameter && i.opcode[0] == "mov";
    return fmt::format("0x{:x}ull", found->second + (value ? kParamWindow : 0));
  }

  const Module& module_;
  const Kernel& kernel_;
  Translation out_;
  std::map<std::string, std::string> registers_;        // a PTX register, its element
  std::map<std::string_view, size_t> register_counts_;  // a C++ type, how many
  std::map<std::string, uint64_t> addresses_;
};

}  // namespace

Result<Translation> translate(const Module& module, const Kernel& kernel) { return Translator(module, kernel).run(); }

}  // namespace qcg::ptx
