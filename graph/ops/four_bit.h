// Four-bit numbers, two to a byte, and the weight formats made of them.
//
// Why here: exporters store int4, e2m1 (mxfp4, nvfp4) and NormalFloat4 as bytes, each in its own order. Shapes, the
// oracle and recognition take them apart the same way; kernels never see these bytes, they have a packing of their own.
//
//   byte 0xBA, low nibble first: codes 10, 11      high nibble first (bitsandbytes): 11, 10
//
//   qcg.dequantize_4bit(packed, scales, format, shape, global_scale?, group = 0, first_nibble = 'auto', dtype) -> Tensor
//       shape is [N, K]; packed u8 has N * K / 2 elements, scales has N * ceil(K / group), whatever their shapes.
//       value = number of the code * scale (* global_scale)
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "graph/ir/graph.h"
#include "graph/ir/scheme.h"
#include "graph/ir/tensor.h"

namespace qcg {

enum class NibbleOrder : uint8_t { low_first, high_first };

// [..., C] bytes (u8 or i8, bound) as u8 codes 0..15 [..., 2 C].
Tensor unpack_nibbles(const Tensor& bytes, NibbleOrder order);

struct FourBitFormat {
  std::string_view name;
  int64_t group;      // elements along K that share a scale, unless the node says otherwise
  NibbleOrder order;  // of even k, unless the node says otherwise
  Scheme scheme;
  double unit;  // what the value of a weight is multiplied by to give the number: 1/2 for f4
};

inline constexpr std::array<FourBitFormat, 3> kFourBitFormats = {{
    {"mxfp4", 32, NibbleOrder::low_first, Scheme::f4,
     0.5},  // scales e8m0 (or u8): 2^(s - 127)       OCP MX 1.0, gpt-oss
    {"nvfp4", 16, NibbleOrder::low_first, Scheme::f4, 0.5},  // scales e4m3, times one global f32
    {"nf4", 64, NibbleOrder::high_first, Scheme::nf4, 1},  // scales f32 ("absmax")                  QLoRA, bitsandbytes
}};

// The weights that codes 0..15 stand for: those of the scheme's table, or the codes themselves.
std::array<int8_t, 16> weights_by_code(Scheme scheme);

// A qcg.dequantize_4bit node, its defaults filled in.
struct FourBitWeight {
  ValueId packed = kNoValue, scales = kNoValue, global_scale = kNoValue;
  Scheme scheme = Scheme::f4;
  double unit = 1;
  NibbleOrder order = NibbleOrder::low_first;
  int64_t n = 0, k = 0, group = 0;
};
Result<FourBitWeight> read_four_bit(const Graph& graph, const Node& node);

// A scale that is stored as an integer is the exponent of a power of two, as in e8m0; 255 is NaN.
double exponent_scale(int64_t bits);

}  // namespace qcg
