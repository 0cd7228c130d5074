// OneDnnTask: what the kernel qcg_onednn_kernel multiplies, as numbers a manifest can hold, and where its weights lie.
//
// Why here: the compiler writes both, the module libqcodegen_onednn.so reads them; one file says how. All outputs are
// products of the same x, each with its own weights.
//
//   args:   x, the packed weights (not read), output 0, …, output O-1, these weights
//   params: m, O, k, x_dtype, w_dtype, y_dtype, scales, then per output n, eltwise, bias
//   weights, each part at a multiple of 64 bytes:   [n, k] of w_dtype, bias f32 [n], scales f32 [n];   the next output …
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace qcg {

struct OneDnnTask {
  struct Output {
    int64_t n = 0;
    int32_t eltwise = 0;  // QcgOneDnnEltwise
    bool bias = false;
  };
  // Offsets in bytes; those of parts that are not there mean nothing.
  struct Place {
    int64_t weights = 0, bias = 0, scales = 0;
  };
  int64_t k = 0;
  DType x = DType::f32, w = DType::f32, y = DType::f32;
  bool scales = false;
  std::vector<Output> outputs;

  std::vector<int64_t> params_after_m() const {
    std::vector<int64_t> out = {static_cast<int64_t>(outputs.size()),
                                k,
                                static_cast<int64_t>(x),
                                static_cast<int64_t>(w),
                                static_cast<int64_t>(y),
                                scales};
    for (const Output& o : outputs) out.insert(out.end(), {o.n, o.eltwise, o.bias});
    return out;
  }

  static OneDnnTask from_params(const int64_t* params) {
    OneDnnTask out{params[2],
                   static_cast<DType>(params[3]),
                   static_cast<DType>(params[4]),
                   static_cast<DType>(params[5]),
                   params[6] != 0,
                   {}};
    for (int64_t o = 0; o < params[1]; ++o) {
      const int64_t* p = params + 7 + 3 * o;
      out.outputs.push_back({p[0], static_cast<int32_t>(p[1]), p[2] != 0});
    }
    return out;
  }
  // Of qcg_call::args, from the same params.
  static int64_t first_output() { return 2; }
  static int64_t weights_argument(const int64_t* params) { return first_output() + params[1]; }

  // Where each output's parts lie; `bytes` is what all of them take.
  std::vector<Place> places(int64_t& bytes) const {
    std::vector<Place> out;
    bytes = 0;
    auto take = [&](int64_t size) {
      const int64_t at = bytes;
      bytes += (size + 63) / 64 * 64;
      return at;
    };
    for (const Output& o : outputs) {
      Place p;
      p.weights = take(o.n * k * static_cast<int64_t>(dtype_bytes(w)));
      if (o.bias) p.bias = take(o.n * 4);
      if (scales) p.scales = take(o.n * 4);
      out.push_back(p);
    }
    return out;
  }
};

}  // namespace qcg
