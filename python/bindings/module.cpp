// qcodegen._core: the compiler and the runtime as a module of Python. qcodegen/__init__.py is what users import.
#include "python/bindings/bindings.h"
#include "runtime/qcodegen.h"

namespace nb = nanobind;

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // torch keeps compiled graphs until the process ends
  m.doc() = "qcodegen's compiler and runtime; import qcodegen instead.";
  m.attr("__version__") = qcg_version();
  qcg::python::bind_program(m);
  qcg::python::bind_compile(m);
  qcg::python::bind_weight_watch(m);
}
