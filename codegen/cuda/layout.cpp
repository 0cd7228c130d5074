#include "codegen/cuda/layout.h"

#include <algorithm>

namespace qcg {
namespace {

using enum DType;

constexpr CudaForm kForms[] = {
    {Scheme::dense, f32, "f32", 32},
    {Scheme::nf4, i8, "nf4", 4, 16, 0, false, 3},
    {Scheme::dense, bf16, "whole", 16},
    {Scheme::dense, f16, "whole", 16},
    {Scheme::w8, i8, "i8", 8},
    {Scheme::w4, i8, "i4", 4},
    {Scheme::f8, f8e4m3, "e4m3", 8},
    {Scheme::f8, f8e5m2, "e5m2", 8},
    {Scheme::f4, i8, "e2m1", 4},
    {Scheme::da8w8, i8, "whole", 8, 32},
    {Scheme::da8w4, i8, "s4", 4, 32, 4},
    {Scheme::s8s8, i8, "whole", 8, 32},
    {Scheme::da8f4, i8, "e2m1_bytes", 4, 32},
    {Scheme::f8, f8e4m3, "whole", 8, 32, 0, true},
    {Scheme::f8, f8e5m2, "whole", 8, 32, 0, true},
};
constexpr int64_t kColumns = 128;  // of the widest tile
constexpr int64_t kAlign = 256;

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

int64_t padded_group(int64_t group, int64_t mma_k) {
  return group <= mma_k ? mma_k : group <= 2 * mma_k ? 2 * mma_k : round_up(group, 4 * mma_k);
}

}  // namespace

const CudaForm* cuda_form(const Problem& p) {
  const auto* form = std::find_if(std::begin(kForms), std::end(kForms), [&](const CudaForm& row) {
    return row.scheme == p.scheme && row.weight == p.weight && row.float8 == is_float8(p.activation);
  });
  return form == std::end(kForms) ? nullptr : form;
}

DType unpacked_dtype(const Problem& p) { return p.activation == f16 ? f16 : bf16; }

int64_t padded_columns(int64_t n) { return round_up(n, kColumns); }
int64_t decode_depth(const CudaForm& form) { return form.bits == 4 ? 128 : form.stage_k(); }

CudaLayout cuda_layout(const Problem& p) {
  CudaLayout out;
  out.form = cuda_form(p);
  const bool has_offset =
      std::any_of(p.segments.begin(), p.segments.end(), [](const Segment& s) { return s.has_offset; });
  out.group = p.group > 0 ? p.group : has_offset ? std::max<int64_t>(p.k, 1) : 0;
  const bool grouped = out.group > 0;
  out.in_rows = out.form->name == "whole" && (!grouped || out.form->float8);
  if (grouped) out.group_padded = padded_group(out.group, out.form->mma_k);
  out.k_padded = round_up(p.k > 0 ? out.packed_k(p.k - 1) + 1 : 0, decode_depth(*out.form));
  if (grouped) out.groups = round_up(out.k_padded, out.group_padded) / out.group_padded;
  // Powers of two and e4m3 are bf16 numbers.
  out.scale = grouped && p.scale != f32 ? bf16 : f32;
  out.by_column = zeros_by_column(p);
  auto place = [&](int64_t& at, bool present, int64_t bytes) {
    at = out.bytes;
    if (present) out.bytes += round_up(bytes, kAlign);
  };
  for (const Segment& s : p.segments) {
    CudaSegment& at = out.segments.emplace_back();
    const int64_t n = padded_columns(s.n), parameters = n * out.groups;
    place(at.weight, true, n / 16 * out.tile_bytes());
    place(at.scale, scheme_info(p.scheme).has_scales, parameters * static_cast<int64_t>(dtype_bytes(out.scale)));
    place(at.offset, s.has_offset, parameters * static_cast<int64_t>(dtype_bytes(out.scale)));
    place(at.zero, s.has_zero, parameters * (out.form->is_integer() ? 4 : 2));
    place(at.correction, p.x_has_zero, (out.by_column ? n : parameters) * 4);
    place(at.bias, s.has_bias, n * 4);
  }
  return out;
}

}  // namespace qcg
