// The parts of a GEMM kernel's source: each function fills in what its part of templates/cpu/gemm*.j2 prints.
//
// Why here: render.cpp puts the parts together; no part reads what another one has filled in.
//
//   TemplateValue context;
//   add_packing(shape, context);       // context["pack_function"], context["sources"], …
#pragma once

#include <string>
#include <string_view>

#include "codegen/gemm/shape.h"
#include "codegen/template_engine/value.h"

namespace qcg {

// render_packing.cpp: activations
void add_packing(const GemmShape& shape, TemplateValue& out);
// The zero point of a row of activations, as an expression.
std::string x_zero(const GemmShape& shape, std::string_view row);

// render_tile.cpp: the inner loop
void add_vector_tiles(const GemmShape& shape, TemplateValue& out);
void add_tile_registers(const GemmShape& shape, TemplateValue& out);
void add_prefetch(const GemmShape& shape, TemplateValue& out);

// render_multiply.cpp: how blocks call it
void add_multiply(const GemmShape& shape, TemplateValue& out);

// render_outputs.cpp: blocks, items, epilogues
void add_outputs(const GemmShape& shape, TemplateValue& out);

}  // namespace qcg
