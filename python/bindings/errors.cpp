#include "python/bindings/errors.h"

namespace nb = nanobind;

namespace qcg::python {

void raise(const Error& error) {
  const nb::object exception = nb::module_::import_("qcodegen._errors")
                                   .attr("make_error")(error_code_name(error.code), error.where.c_str(),
                                                       error.message.c_str(), error.help.c_str());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

}  // namespace qcg::python
