// What the templates of all kernels but the GEMM's are told alike: symbol, ISA, comment, dtypes.
//
// Why here: loops, reductions, row quantization and matmuls begin with the same head (cpu/kernel_head.j2).
//
//   TemplateValue v = kernel_context(symbol, isa, "reduction", p.signature(), p.comment);
//   v["x"] = typed(p.input);
#pragma once

#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/render_template.h"
#include "codegen/kernel/target.h"

namespace qcg {

TemplateValue kernel_context(std::string_view symbol, Isa isa, std::string_view what, std::string_view signature,
                             std::string_view comment);
TemplateValue typed(DType dtype);  // its name, and its type in C++
std::string_view stored_as(DType dtype);
std::string_view bytes_type(DType dtype);  // in C++, of an element that is moved as it is: "uint16_t"

// Error Unsupported names the kernel. need_lanes: the ISA headers load and store the dtype as f32 lanes.
Status need_lanes(std::string_view kernel, DType dtype);
Status need_float(std::string_view kernel, DType dtype);

}  // namespace qcg
