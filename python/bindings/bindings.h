// The parts of the module qcodegen._core.
//
// Why here: module.cpp names them, one source each defines them.
//
//   bind_program(m);       // Program, Method, Context, State
#pragma once

#include <nanobind/nanobind.h>

namespace qcg::python {

void bind_program(nanobind::module_& m);
void bind_compile(nanobind::module_& m);
void bind_weight_watch(nanobind::module_& m);

}  // namespace qcg::python
