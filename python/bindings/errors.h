// raise: an Error of the library as an exception of Python.
//
// Why here: every binding turns a Result or Status into a value or an exception; the classes are Python's own
// (qcodegen/_errors.py), so that users can read and derive them.
//
//   auto program = value_of(Program::load(path));        // throws qcodegen.BadInputError, with code, place and help
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "base/result.h"

namespace qcg::python {

// Throws. Needs the GIL.
[[noreturn]] void raise(const Error& error);

template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) raise(result.error());
  return std::move(result).value();
}

inline void check(const Status& status) {
  if (!status.ok()) raise(status.error());
}

}  // namespace qcg::python
