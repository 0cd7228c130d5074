// The tables of the CPU kernels: which template, instruction and packed bytes serve which weight and M. Read top to
// bottom.
//
//   kForms      how weights may be packed, and for which instructions a form can be unpacked
//   kComputes   the instructions
//   kKernels    an instruction on an ISA, with its template
//   kWeights    every scheme and weight dtype: its form on each kind of vectors
//
// A kernel multiplies a weight if it takes the scheme's activations and the weight's form can be unpacked for its
// instruction, as it is or (--dequant=rounded) rounded: that is microkernel_table(). All that serve one problem on one
// target read the same packed bytes. A kernel of an ISA also serves the ISAs that contain it, so fma and bf16dot
// compete on avx512bf16: which is faster is a fact about the machine (bf16dot is twice fma on Zen 5 and half of it on
// Sapphire Rapids), so the tuner decides.
//
// A template prints one register tile: mr rows x nr columns, nr = two vectors (of AMX: 16 or 32 rows, two tiles).
//
//            nr = 2 vectors
//          +-------+-------+
//     mr   | acc   | acc   |   += weight unit (one vector each, unpacked in registers) x broadcast activation unit
//          +-------+-------+
#include "codegen/gemm/microkernels.h"

#include <algorithm>

namespace qcg {
namespace {

constexpr std::string_view kGemm = "cpu/gemm.cpp.j2", kTiles = "cpu/gemm_amx.cpp.j2";
using enum DType;
using enum Isa;

// The columns of these tables are kept in line by hand.
// clang-format off
constexpr LayoutKind kForms[] = {
    // kind  k bits  unpacked for                   bytes, header of templates/quant, raised by, factor, columns side by side, bytes of each, multiplied rounded by, times powers of two
    {"f32",    1, 32, "fma",                         "[K][nr] f32"},
    {"f16",    1, 16, "fma",                         "[K][nr] f16"},
    {"bf16x2", 2, 16, "fma bf16dot amx_bf16",        "[K/2][nr][2] bf16"},
    {"i8",     1, 8,  "fma",                         "[K][nr] s8"},
    {"i8x4r",  4, 8,  "fma bf16dot amx_bf16 vnni",   "[K/4][nr/16][4][16] s8", "", 0, 1, 16},
    {"i8x2",   2, 8,  "madd16",                      "[K/2][nr][2] s8"},
    {"u8x4",   4, 8,  "fma vnni amx_int8",           "[K/4][nr][4] u8 = s8 xor 0x80", "", 128},
    {"e4m3",   1, 8,  "fma",                         "[K][nr] e4m3", "fp8.h", 0, 256},
    {"e4m3x4r", 4, 8, "fma bf16dot amx_bf16",        "[K/4][nr/4][2][4][2] e4m3", "fp8.h", 0, 256, 4, 2},
    {"e5m2",   1, 8,  "fma",                         "[K][nr] e5m2", "fp8.h"},
    {"e5m2x4r", 4, 8, "fma bf16dot amx_bf16",        "[K/4][nr/4][2][4][2] e5m2", "fp8.h", 0, 1, 4, 2},
    {"i4x8",   8, 4,  "fma madd16",                  "[K/8][nr][8] s4: byte j of a dword has k = j (low nibble) and 4 + j (high)", "int4.h"},
    {"i4x8u",  8, 4,  "fma bf16dot amx_bf16 maddubs vnni amx_int8", "[K/8][nr][8] u4 = s4 + 8: byte j of a dword has k = j (low nibble) and 4 + j (high)", "int4.h", 8},
    {"i4x8r",  8, 4,  "fma maddubs vnni",            "[K/8][nr/4][4][4][2] u4 = s4 + 8: byte j of 4 columns, k = j (low nibble) and 4 + j (high)", "int4.h", 8, 1, 4},
    {"f4x8",   8, 4,  "fma madd16",                  "[K/8][nr][8] e2m1: byte j of a dword has k = j (low nibble) and 4 + j (high)", "e2m1.h"},
    {"f4x8u",  8, 4,  "fma bf16dot amx_bf16 maddubs vnni amx_int8", "[K/8][nr][8] e2m1: byte j of a dword has k = j (low nibble) and 4 + j (high)", "e2m1.h", 12, 1, 1, 1, "", true},
    {"f4x8r",  8, 4,  "fma maddubs vnni",            "[K/8][nr/4][4][4][2] e2m1: byte j of 4 columns, k = j (low nibble) and 4 + j (high)", "e2m1.h", 12, 1, 4},
    {"n4x8",   8, 4,  "fma",                         "[K/8][nr][8] nf4: byte j of a dword has k = j (low nibble) and 4 + j (high)", "nf4.h", 0, 1, 1, 1, "bf16dot amx_bf16"},
    {"n4x8r",  8, 4,  "fma",                         "[K/8][nr/4][4][4][2] nf4: byte j of 4 columns, k = j (low nibble) and 4 + j (high)", "nf4.h", 0, 1, 4},
};

constexpr Compute kComputes[] = {
    // name      k  activations are packed to   integer  tiles  units of a dot
    {"fma",      1, "f32",  "float",            false},
    {"bf16dot",  2, "bf16", "qcg_bf16",         false},
    {"madd16",   2, "s16",  "int16_t",          true},
    {"maddubs",  4, "s8",   "int8_t",           true,    false, 4},
    {"vnni",     4, "s8",   "int8_t",           true},
    {"amx_bf16", 2, "bf16", "qcg_bf16",         false,   true},
    {"amx_int8", 4, "s8",   "int8_t",           true,    true},
};

// Packing converts activations, so f32 stands for every float, bf16 also for fp8, i8 also for u8. Where an instruction of
// integers serves bf16, it multiplies slices of it (quant/slices.h), and serves f16 too.
struct Kernel {
  std::string_view name;
  Isa isa;
  std::string_view source;
  DType activation;
  std::string_view compute;
};
constexpr Kernel kKernels[] = {
    // name             isa         template activation  instruction
    // Tiles waste most of their 16 rows on few, but unpacking is all that each weight costs, and for bf16 that is half of
    // what it is for f32: they compete with the vector rows below at every M.
    {"amx_bf16",        amx,        kTiles,  bf16,       "amx_bf16"},
    {"amx_int8",        amx,        kTiles,  i8,         "amx_int8"},
    {"avx512bf16_dot",  avx512bf16, kGemm,   bf16,       "bf16dot"},
    {"avx512_vnni",     avx512,     kGemm,   i8,         "vnni"},
    {"avx512_sliced",   avx512,     kGemm,   bf16,       "vnni"},
    {"avx512_fma",      avx512,     kGemm,   f32,        "fma"},
    {"avx2vnni_vnni",   avx2vnni,   kGemm,   i8,         "vnni"},
    {"avx2vnni_sliced", avx2vnni,   kGemm,   bf16,       "vnni"},
    {"avx2_madd16",     avx2,       kGemm,   i8,         "madd16"},
    {"avx2_maddubs",    avx2,       kGemm,   i8,         "maddubs"},
    {"avx2_sliced",     avx2,       kGemm,   bf16,       "maddubs"},
    {"avx2_fma",        avx2,       kGemm,   f32,        "fma"},
    {"portable_madd16", portable,   kGemm,   i8,         "madd16"},
    {"portable_fma",    portable,   kGemm,   f32,        "fma"},
};

struct Weight {
  Scheme scheme;
  DType dtype;
  std::string_view portable, avx2, avx2vnni, wide;  // forms
};
constexpr Weight kWeights[] = {
    // scheme         dtype   portable  avx2       avx2vnni   avx512 and up
    {Scheme::dense,   f32,    "f32",     "f32",     "f32",     "f32"},
    {Scheme::dense,   bf16,   "bf16x2",  "bf16x2",  "bf16x2",  "bf16x2"},
    {Scheme::dense,   f16,    "f16",     "f16",     "f16",     "f16"},
    {Scheme::w8,      i8,     "i8",      "i8",      "u8x4",    "i8x4r"},
    {Scheme::w4,      i8,     "i4x8",    "i4x8r",   "i4x8r",   "i4x8u"},
    {Scheme::f8,      f8e4m3, "e4m3",    "e4m3x4r", "e4m3x4r", "e4m3x4r"},
    {Scheme::f8,      f8e5m2, "e5m2",    "e5m2x4r", "e5m2x4r", "e5m2x4r"},
    {Scheme::f4,      i8,     "f4x8",    "f4x8r",   "f4x8r",   "f4x8u"},
    {Scheme::nf4,     i8,     "n4x8",    "n4x8r",   "n4x8r",   "n4x8"},
    {Scheme::da8w8,   i8,     "i8x2",    "i8x2",    "u8x4",    "u8x4"},
    {Scheme::da8w4,   i8,     "i4x8",    "i4x8u",   "i4x8u",   "i4x8u"},
    {Scheme::da8f4,   i8,     "f4x8",    "f4x8u",   "f4x8u",   "f4x8u"},
    {Scheme::s8s8,    i8,     "i8x2",    "i8x2",    "u8x4",    "u8x4"},
};
// clang-format on

std::string_view form_on(const Weight& weight, Isa isa) {
  return isa == portable   ? weight.portable
         : isa == avx2     ? weight.avx2
         : isa == avx2vnni ? weight.avx2vnni
                           : weight.wide;
}

bool has_word(std::string_view words, std::string_view word) {
  const size_t at = words.find(word), end = at + word.size();
  return at != words.npos && (at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ');
}

std::vector<Microkernel> make_table() {
  std::vector<Microkernel> out;
  for (const Kernel& k : kKernels)
    for (const Weight& weight : kWeights) {
      const bool integer = scheme_info(weight.scheme).quantized_activation || weight.scheme == Scheme::s8s8;
      if (is_floating(k.activation) == integer) continue;
      const LayoutKind& form = layout_kind(form_on(weight, k.isa));
      const bool exact = has_word(form.computes, k.compute);
      if (exact || has_word(form.rounded_computes, k.compute))
        out.push_back({k.name, k.isa, k.source, weight.scheme, k.activation, weight.dtype, k.compute, !exact});
    }
  return out;
}

}  // namespace

bool unpacks_for(const LayoutKind& form, const Microkernel& row) {
  return has_word(row.rounds ? form.rounded_computes : form.computes, row.compute);
}

const LayoutKind& layout_kind(std::string_view kind) {
  return *std::find_if(std::begin(kForms), std::end(kForms), [&](const LayoutKind& row) { return row.kind == kind; });
}

const Compute& compute_info(std::string_view name) {
  return *std::find_if(std::begin(kComputes), std::end(kComputes),
                       [&](const Compute& row) { return row.name == name; });
}

std::span<const Microkernel> microkernel_table() {
  static const std::vector<Microkernel> table = make_table();
  return table;
}

bool runs_on(Isa isa, Isa target) {
  while (target != isa && isa_info(target).base != target) target = isa_info(target).base;
  return target == isa;
}

int slices_of(const Microkernel& row) {
  return compute_info(row.compute).integer && is_floating(row.activation) ? 2 : 1;
}

namespace {

// Whether groups are short enough for the sums of slices.
bool can_slice(const Problem& problem) {
  return problem.group > 0 ? problem.group <= kLongestSliced : scheme_info(problem.scheme).weight.bits == 8;
}

}  // namespace

bool serves(const Microkernel& row, const Problem& problem) {
  const DType x = problem.activation;
  if (row.scheme != problem.scheme || row.weight != problem.weight || (row.rounds && !problem.may_round)) return false;
  if (slices_of(row) > 1) return can_slice(problem) && is_half(x);
  const bool any_float = row.activation == DType::f32 && is_floating(x);
  const bool any_fp8 = row.activation == DType::bf16 && (x == DType::f8e4m3 || x == DType::f8e5m2);
  const bool any_int8 = row.activation == DType::i8 && (x == DType::i8 || x == DType::u8);
  return any_float || any_fp8 || any_int8 || row.activation == x;
}

PackedLayout layout_for(const Problem& problem, const Target& target) {
  const auto* weight = std::find_if(std::begin(kWeights), std::end(kWeights), [&](const Weight& row) {
    return row.scheme == problem.scheme && row.dtype == problem.weight;
  });
  if (weight == std::end(kWeights)) weight = kWeights;  // no candidate either
  // Slices of bytes are what int8 weights are unsigned for; f32 activations are multiplied as they are.
  const bool sliced = target.isa != avx2vnni || problem.activation != f32;
  const std::string kind(form_on(*weight, sliced ? target.isa : avx2));
  return {isa_info(target.isa).vector_bytes / 2, layout_kind(kind).k_step, kind};
}

}  // namespace qcg
