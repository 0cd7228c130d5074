// BorrowedTensor: a tensor of Python for the time of one call, without a copy.
//
// Why here: programs, state and compiles all take whatever Python calls a tensor.
//
//   BorrowedTensor x(object, "x", BorrowedTensor::Access::read);
//   x.view().data                                       // the memory of the array or tensor itself
//
// It takes the C exchange API of DLPack (torch), the buffer protocol (numpy), arrays of ml_dtypes, whose dtypes that
// protocol cannot name, and the method __dlpack__ (anything else), in this order.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <string>

#include "python/bindings/dlpack.h"
#include "runtime/tensor_view.h"

namespace qcg::python {

class BorrowedTensor {
 public:
  // To look is to see where a tensor is, not what its elements mean: torch's negative bit is ignored.
  enum class Access { read, write, look };

  // Throws qcodegen.Error where the object is no tensor, one that cannot be written to, or one in memory that neither
  // the host nor the kernels of `program` use. `where` names it in errors. Needs the GIL, as the destructor does.
  BorrowedTensor(nanobind::handle object, const std::string& where, Access access, DeviceType program = kDLCPU);
  ~BorrowedTensor();
  BorrowedTensor(const BorrowedTensor&) = delete;
  BorrowedTensor& operator=(const BorrowedTensor&) = delete;

  const TensorView& view() const { return view_; }
  // Of a tensor on a device: the stream behind whose work its elements are there; null: the default stream.
  void* stream() const { return stream_; }
  // Bits of an 8 or 16 bit float in an unsigned dtype of numpy, which has no such float itself.
  void accept_bits(DType wanted);

 private:
  explicit BorrowedTensor(DeviceType program) : program_(program) {}

  // Of torch's tensors: a copy of one with the negative bit, nothing for others. Throws where one cannot be written to.
  static nanobind::object without_torch_bits(nanobind::handle object, const std::string& where, Access access);
  bool borrow_by_exchange(PyObject* object, const std::string& where);
  bool borrow_buffer(PyObject* object, const std::string& where, Access access);
  bool borrow_ml_dtypes(nanobind::handle object, const std::string& where, Access access);
  bool borrow_dlpack(nanobind::handle object, const std::string& where, Access access);
  void describe(const qcg_dltensor& tensor, const std::string& where);
  void set_axes(size_t rank, const std::string& where);

  TensorView view_;
  DeviceType program_;
  void* stream_ = nullptr;
  std::array<int64_t, kMaxAxes> shape_, strides_;
  Py_buffer buffer_ = {};
  nanobind::object owner_;  // what holds the memory, where it is not the object itself
  DLManagedTensor* managed_ = nullptr;
  DLManagedTensorVersioned* versioned_ = nullptr;
};

}  // namespace qcg::python
