#include "python/bindings/weight_watch.h"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "python/bindings/bindings.h"
#include "python/bindings/borrowed_tensor.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace qcg::python {

namespace {

// Whoever copies over a weight changes most of its elements; each sample is a miss of the caches.
constexpr int64_t kSamples = 8;

// A torch of before the exchange API exports no tensor that needs gradients.
BorrowedTensor look_at(const nb::object& tensor, bool exports_all) {
  return BorrowedTensor(exports_all ? tensor : tensor.attr("detach")(), "weight", BorrowedTensor::Access::look);
}

int64_t version_of(const nb::object& tensor) {
  static PyObject* const name = PyUnicode_InternFromString("_version");
  const nb::object version = nb::steal(PyObject_GetAttr(tensor.ptr(), name));
  if (!version.is_valid()) throw nb::python_error();
  return PyLong_AsLongLong(version.ptr());
}

// Bytes from the first element to some that are spread evenly.
std::vector<int64_t> sample_offsets(const TensorView& view) {
  int64_t elements = 1;
  for (const int64_t extent : view.shape) elements *= extent;
  std::vector<int64_t> out;
  for (int64_t i = 0; i < std::min(elements, kSamples); ++i) {
    int64_t left =
        elements <= kSamples ? i : static_cast<int64_t>(static_cast<double>(elements - 1) * i / (kSamples - 1));
    int64_t offset = 0;
    for (size_t axis = view.shape.size(); axis-- > 0; left /= view.shape[axis])
      offset += left % view.shape[axis] * view.strides[axis];
    out.push_back(offset * dtype_bytes(view.dtype));
  }
  return out;
}

}  // namespace

WeightWatch::WeightWatch(const std::vector<nb::object>& tensors) {
  for (const nb::object& tensor : tensors) watched_.emplace_back(tensor);
}

WeightWatch::Watched::Watched(nb::object given) : tensor(std::move(given)) {
  exports_all = nb::hasattr(tensor.type(), "__dlpack_c_exchange_api__");
  counts_versions = !nb::cast<bool>(tensor.attr("is_inference")());
  if (counts_versions) version = version_of(tensor);
  try {
    const BorrowedTensor borrowed = look_at(tensor, exports_all);
    const TensorView& view = borrowed.view();
    data = static_cast<const std::byte*>(view.data);
    shape.assign(view.shape.begin(), view.shape.end());
    strides.assign(view.strides.begin(), view.strides.end());
    width = dtype_bytes(view.dtype);
    offsets = sample_offsets(view);
    for (const int64_t offset : offsets) samples.insert(samples.end(), data + offset, data + offset + width);
  } catch (nb::python_error&) {
    data = nullptr;  // a wrapper of other tensors, or on a device
  }
}

bool WeightWatch::Watched::is_unchanged() const {
  if (counts_versions && version_of(tensor) != version) return false;
  if (data == nullptr) return true;
  try {
    const BorrowedTensor borrowed = look_at(tensor, exports_all);
    const TensorView& view = borrowed.view();
    if (view.data != data || !std::ranges::equal(view.shape, shape) || !std::ranges::equal(view.strides, strides) ||
        dtype_bytes(view.dtype) != width)
      return false;
  } catch (nb::python_error&) {
    return false;  // it was moved to a device
  }
  for (size_t i = 0; i < offsets.size(); ++i)
    if (std::memcmp(data + offsets[i], samples.data() + i * width, width) != 0) return false;
  return true;
}

bool WeightWatch::is_unchanged() const {
  for (const Watched& watched : watched_)  // programs do not read these weights, so caches have lost them
    for (const int64_t offset : watched.offsets) __builtin_prefetch(watched.data + offset);
  return std::ranges::all_of(watched_, &Watched::is_unchanged);
}

void bind_weight_watch(nb::module_& m) {
  nb::class_<WeightWatch>(m, "WeightWatch", "Tensors of torch as they were when this was made.")
      .def(nb::init<const std::vector<nb::object>&>(), "tensors"_a)
      .def("is_unchanged", &WeightWatch::is_unchanged,
           "Whether each has its version, place, shape and strides, and eight of its elements.");
}

}  // namespace qcg::python
