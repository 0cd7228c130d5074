// What the templates of all kernels but the GEMM's are told alike: symbol, ISA, comment, dtypes.
//
// Why here: loops, reductions, row quantization and matmuls begin with the same head (cpu/kernel_head.j2,
// cuda/step_head.j2).
//
//   TemplateValue v = kernel_context(symbol, isa, "reduction", p.signature(), p.comment);
//   v["x"] = typed(p.input);
//   if (on_device(isa)) add_device_context(v, 2, 3, launch.threads);
//   return render_kernel("reduce", isa, v);
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/render_template.h"
#include "codegen/kernel/target.h"

namespace qcg {

TemplateValue kernel_context(std::string_view symbol, Isa isa, std::string_view what, std::string_view signature,
                             std::string_view comment);
// What kernels of a device are told besides: how many arguments and params there are, and the threads of a block.
void add_device_context(TemplateValue& v, size_t args, size_t params, int threads);
// cpu/<name>.cpp.j2 or cuda/<name>.cu.j2. Error Internal: neither reads a key of the context.
Result<std::string> render_kernel(std::string_view name, Isa isa, const TemplateValue& context);
TemplateValue typed(DType dtype);   // its name, and its type in C++
bool has_number_type(DType dtype);  // whether elements of that type are numbers to C++: not of bf16, f16 and float8
std::string_view stored_as(DType dtype);
std::string_view bytes_type(DType dtype);  // in C++, of an element that is moved as it is: "uint16_t"

// Error Unsupported names the kernel. need_lanes: the ISA headers load and store the dtype as f32 lanes.
Status need_lanes(std::string_view kernel, DType dtype);
Status need_float(std::string_view kernel, DType dtype);

}  // namespace qcg
