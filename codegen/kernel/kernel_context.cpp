#include "codegen/kernel/kernel_context.h"

#include <fmt/format.h>

#include "codegen/kernel/render_template.h"

namespace qcg {

namespace {

using V = TemplateValue;

// The dtypes the ISA headers load and store as f32 lanes.
bool has_lanes(DType d) {
  switch (d) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
    case DType::f64:
    case DType::i8:
    case DType::u8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::boolean:
    case DType::f8e4m3:
    case DType::f8e5m2: return true;
    default: return false;
  }
}

}  // namespace

Status need_lanes(std::string_view kernel, DType d) {
  if (has_lanes(d)) return {};
  return Error::unsupported(std::string(kernel), fmt::format("{} cannot compute with {}", kernel, dtype_name(d)),
                            "cast to f32, bf16 or f16 before it");
}

Status need_float(std::string_view kernel, DType d) {
  if (is_compute_float(d)) return {};
  return Error::unsupported(std::string(kernel), fmt::format("{} of {} is not supported", kernel, dtype_name(d)),
                            "cast to f32, bf16 or f16 before it");
}

// `value != 0` is what a bool stores.
std::string_view stored_as(DType d) { return d == DType::boolean ? "u8" : dtype_name(d); }

std::string_view bytes_type(DType d) {
  switch (dtype_bytes(d)) {
    case 1: return "uint8_t";
    case 2: return "uint16_t";
    case 4: return "uint32_t";
    default: return "uint64_t";
  }
}

V kernel_context(std::string_view symbol, Isa isa, std::string_view what, std::string_view signature,
                 std::string_view comment) {
  V v;
  v["symbol"] = symbol;
  v["isa"] = isa_info(isa).name;
  if (!on_device(isa)) v["header"] = isa_info(isa).header;
  v["what"] = what;
  v["signature"] = sanitize_comment(signature);
  v["comment"] = comment_lines(comment);
  return v;
}

void add_device_context(V& v, size_t args, size_t params, int threads) {
  v["arg_count"] = args;
  v["param_count"] = params;
  v["threads"] = threads;
}

Result<std::string> render_kernel(std::string_view name, Isa isa, const V& context) {
  const std::string cpu = fmt::format("cpu/{}.cpp.j2", name), cuda = fmt::format("cuda/{}.cu.j2", name);
  return on_device(isa) ? render_template(cuda, context, {cpu}) : render_template(cpu, context, {cuda});
}

bool has_number_type(DType d) { return !is_floating(d) || d == DType::f32 || d == DType::f64; }

V typed(DType d) {
  V v;
  v["type"] = dtype_info(d).cpp;
  v["dtype"] = dtype_name(d);
  return v;
}

}  // namespace qcg
