// The structs of DLPack 1.x that are read here, by the names of its header (https://dmlc.github.io/dlpack).
//
// Why here: a capsule of `__dlpack__` and the C exchange API of a framework's tensor type hold them. A DLTensor has the
// layout of qcg_dltensor (runtime/qcodegen.h).
#pragma once

#include <cstdint>

#include "runtime/qcodegen.h"

namespace qcg::python {

struct DLPackVersion {
  uint32_t major, minor;
};

struct DLManagedTensor {
  qcg_dltensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  qcg_dltensor dl_tensor;
};
inline constexpr uint64_t kReadOnlyFlag = 1;

// The attribute __dlpack_c_exchange_api__ of a tensor type is a capsule of this: tensors without a call of Python.
struct DLPackExchangeAPI {
  DLPackVersion version;
  DLPackExchangeAPI* previous;
  int (*managed_tensor_allocator)(qcg_dltensor*, DLManagedTensorVersioned**, void*,
                                  void (*)(void*, const char*, const char*));
  int (*managed_tensor_from_py_object_no_sync)(void* object, DLManagedTensorVersioned** out);
  int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned*, void** object);
  int (*dltensor_from_py_object_no_sync)(void* object, qcg_dltensor* out);  // may be null
  int (*current_work_stream)(int device_type, int32_t device_id, void** stream);
};

}  // namespace qcg::python
