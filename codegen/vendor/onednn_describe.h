// What the files of libqcodegen_onednn.so share: oneDNN's matmul for a QcgOneDnnMatmul, in the API of 2.x and of 3.x.
//
// Why here: the two APIs differ in how scales are said and how a primitive is made; onednn_adapter.cpp alone knows.
//
//   matmul primitive(describe_matmul(spec, engine, dnnl::scratchpad_mode::user));
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "codegen/vendor/onednn_adapter.h"

namespace qcg {

dnnl::memory::data_type onednn_data_type(int32_t dtype);  // throws where oneDNN has none
dnnl::matmul::primitive_desc describe_matmul(const QcgOneDnnMatmul& spec, const dnnl::engine& engine,
                                             dnnl::scratchpad_mode scratchpad);

// Where a call of the primitive takes the scales of weights; 2.x has them in the primitive.
#if DNNL_VERSION_MAJOR >= 3
inline constexpr int kOneDnnScales = DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS;
#else
inline constexpr int kOneDnnScales = 0;
#endif

}  // namespace qcg
