#include "graph/ops/four_bit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/ops/infer.h"

namespace qcg {

Tensor unpack_nibbles(const Tensor& bytes, NibbleOrder order) {
  const Tensor packed = bytes.contiguous();
  const size_t size = dtype_bytes(packed.dtype), count = packed.bytes().size() / size;
  std::vector<std::byte> codes(count * 2);
  const bool low_first = order == NibbleOrder::low_first;
  for (size_t i = 0; i < count; ++i) {
    const unsigned byte = static_cast<unsigned>(element_to_int(packed.dtype, packed.bytes().data() + i * size)) & 0xFF;
    codes[2 * i] = static_cast<std::byte>(low_first ? byte & 15 : byte >> 4);
    codes[2 * i + 1] = static_cast<std::byte>(low_first ? byte >> 4 : byte & 15);
  }
  std::vector<int64_t> shape = bytes.shape;
  shape.back() *= 2;
  return Tensor::from_bytes(DType::u8, std::move(shape), std::move(codes));
}

std::array<int8_t, 16> weights_by_code(Scheme scheme) {
  const auto* numbers = scheme_info(scheme).weight.numbers;
  std::array<int8_t, 16> codes;
  std::iota(codes.begin(), codes.end(), int8_t{0});
  return numbers ? *numbers : codes;
}

double exponent_scale(int64_t bits) {
  return bits == 255 ? std::nan("") : std::ldexp(1.0, static_cast<int>(bits) - 127);
}

Result<FourBitWeight> read_four_bit(const Graph& graph, const Node& node) {
  const OpArgs a{graph, node};
  const std::string &name = a.string("format"), &first = a.string("first_nibble");
  const auto* format =
      std::find_if(kFourBitFormats.begin(), kFourBitFormats.end(), [&](const auto& f) { return f.name == name; });
  if (format == kFourBitFormats.end())
    return a.fail("format", fmt::format("unknown format '{}'", name.substr(0, 40)), "mxfp4, nvfp4 and nf4 are known");
  if (first != "auto" && first != "low" && first != "high")
    return a.fail("first_nibble", "expected 'auto', 'low' or 'high'");
  FourBitWeight w{node.tensor("packed"), node.tensor("scales"), node.tensor("global_scale"),
                  format->scheme,        format->unit,          format->order};
  if (first != "auto") w.order = first == "low" ? NibbleOrder::low_first : NibbleOrder::high_first;
  const std::vector<Dim> shape = a.dims("shape");
  if (shape.size() != 2 || !shape[0].is_constant() || !shape[1].is_constant() || shape[0].constant() < 0 ||
      shape[1].constant() < 0)
    return a.fail("shape", "expected [N, K], two numbers");
  w.n = shape[0].constant(), w.k = shape[1].constant();
  QCG_TRY(group, a.constant("group"));
  w.group = group == 0 ? format->group : group;
  if (w.group < 1) return a.fail("group", fmt::format("a group of {}", group));
  if (w.k % 2 != 0) return a.unsupported("shape", "rows of an odd number of 4-bit elements", "pad K to an even number");
  if (w.scheme == Scheme::nf4 && w.k % w.group != 0)
    return a.unsupported("shape", fmt::format("nf4 blocks of {} that span two rows of {}", w.group, w.k),
                         "use a block size that divides K");
  const Value &packed = a.tensor("packed"), &scales = a.tensor("scales");
  if (packed.dtype != DType::u8 || !(product(packed.shape) == product({shape[0], Dim(w.k / 2)})))
    return a.fail("packed", fmt::format("{}{} does not hold {} x {} elements of 4 bits", dtype_name(packed.dtype),
                                        to_string(packed.shape), w.n, w.k));
  if (!(product(scales.shape) == product({shape[0], Dim((w.k + w.group - 1) / w.group)})))
    return a.fail("scales", fmt::format("{} for {} rows in groups of {}", to_string(scales.shape), w.n, w.group),
                  "one scale per group");
  if (!is_floating(scales.dtype) && scales.dtype != DType::u8)
    return a.fail("scales", "expected floats, or u8 exponents");
  const Value* global = a.optional_tensor("global_scale");
  if (global && (!is_floating(global->dtype) || !product(global->shape).is_constant(1)))
    return a.fail("global_scale", "expected one float");
  return w;
}

}  // namespace qcg
