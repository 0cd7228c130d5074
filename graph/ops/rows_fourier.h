// Rows of the operator table (op_table.h): Fourier transforms and window functions. Complex numbers are pairs along a
// last axis of 2 (complex_pairs.h), which `dim` does not count.
//
// Why here: _fft_r2c, _fft_c2r and _fft_c2c are products with constant matrices (passes/library/fourier.cpp). The rest
// says how a file's arguments are read: complex_fourier.cpp writes them in these three.
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/fourier.cpp
ShapeRule infer_fourier, infer_of_files, infer_window;

namespace rows {

// clang-format off
inline constexpr OpRow kFourier[] = {
    {"aten._fft_r2c.default", "(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
     pointwise, infer_fourier},
    {"aten._fft_c2r.default", "(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
     pointwise, infer_fourier},
    {"aten._fft_c2c.default", "(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
     pointwise, infer_fourier},
    {"aten.fft_fft.default", "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.fft_ifft.default", "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.fft_rfft.default", "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.fft_irfft.default", "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.fft_fft2.default", "(Tensor self, SymInt[]? s=None, int[] dim=[-2, -1], str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.fft_ifft2.default", "(Tensor self, SymInt[]? s=None, int[] dim=[-2, -1], str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.fft_rfft2.default", "(Tensor self, SymInt[]? s=None, int[] dim=[-2, -1], str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.fft_irfft2.default", "(Tensor self, SymInt[]? s=None, int[] dim=[-2, -1], str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.fft_fftn.default", "(Tensor self, SymInt[]? s=None, int[]? dim=None, str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.fft_ifftn.default", "(Tensor self, SymInt[]? s=None, int[]? dim=None, str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.fft_rfftn.default", "(Tensor self, SymInt[]? s=None, int[]? dim=None, str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.fft_irfftn.default", "(Tensor self, SymInt[]? s=None, int[]? dim=None, str? norm=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.stft.default",
     "(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False, "
     "bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
     pointwise, infer_of_files},
    {"aten.istft.default",
     "(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool "
     "normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor",
     pointwise, infer_of_files},
    {"aten.hann_window.default",
     "(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_window},
    {"aten.hann_window.periodic",
     "(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_window},
    {"aten.hamming_window.default",
     "(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_window},
    {"aten.hamming_window.periodic",
     "(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_window},
    {"aten.blackman_window.default",
     "(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_window},
    {"aten.blackman_window.periodic",
     "(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_window},
    {"aten.bartlett_window.default",
     "(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_window},
    {"aten.bartlett_window.periodic",
     "(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_window},
    {"aten.hamming_window.periodic_alpha",
     "(int window_length, bool periodic, float alpha, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_window},
    {"aten.hamming_window.periodic_alpha_beta",
     "(int window_length, bool periodic, float alpha, float beta, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_window},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
