// qcg_onednn_kernel: oneDNN's matmul as a kernel of a program. An item is a block of columns, computed on the thread it
// is given to: no thread of the vendor's is ever started, so a process may fork, and the result does not depend on
// threads.
//
// It is the one kernel that keeps something between calls: primitives and weights in oneDNN's own order are made at the
// first call of a shape and stay as long as the module is loaded, which is as long as the program is. Every program has
// the module to itself.
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "codegen/vendor/onednn_describe.h"
#include "codegen/vendor/onednn_task.h"

// Of the OpenMP that oneDNN brings, if it does; the settings are the calling thread's own.
extern "C" {
__attribute__((weak)) void omp_set_num_threads(int);
__attribute__((weak)) int omp_get_max_threads();
}

namespace qcg {
namespace {

using dnnl::memory;

constexpr int64_t kMinBlockBytes = 128 << 10;  // of weights: a few microseconds of work, many times what a call costs
constexpr int64_t kColumns = 64, kMaxBlocks = 32;
constexpr size_t kMaxShapes = 64;  // kept per weights; a program that sees more makes the oldest again

class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads ? omp_get_max_threads() : 1) { set(1); }
  ~OneThread() { set(before_); }
  OneThread(const OneThread&) = delete;

 private:
  static void set(int threads) {
    if (omp_set_num_threads) omp_set_num_threads(threads);
  }
  int before_;
};

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

int64_t element_bytes(DType dtype) { return static_cast<int64_t>(dtype_bytes(dtype)); }

// A function of the matrix alone, so that every shape reads the same reordered weights.
int64_t block_columns(int64_t n, int64_t row_bytes) {
  const int64_t worthwhile = (kMinBlockBytes + row_bytes - 1) / row_bytes, few = (n + kMaxBlocks - 1) / kMaxBlocks;
  return (std::max(worthwhile, few) + kColumns - 1) / kColumns * kColumns;
}

// One block of columns of one output, at one shape.
struct Product {
  dnnl::matmul primitive;
  memory::desc x, y, scratch;
  size_t output = 0;
  int64_t first_byte = 0;  // of the block in a row of the output
  int64_t row_bytes = 0, element = 0;
  std::unordered_map<int, memory> constants;  // weights, bias, scales
};

struct Shape {
  int64_t m = 0;
  std::vector<int64_t> strides;  // of x and the outputs
  std::vector<Product> products;
  int64_t scratch_bytes = 0;
};

// All that is made from the weights at one address.
class Weights {
 public:
  explicit Weights(const qcg_call& call) : task_(OneDnnTask::from_params(call.params)) {
    int64_t bytes = 0;
    places_ = task_.places(bytes);
    data_ = static_cast<char*>(call.args[OneDnnTask::weights_argument(call.params)].data);
  }

  std::shared_ptr<const Shape> find(const qcg_call& call) {
    std::vector<int64_t> strides = {call.args[0].stride};
    for (size_t o = 0; o < task_.outputs.size(); ++o)
      strides.push_back(call.args[OneDnnTask::first_output() + static_cast<int64_t>(o)].stride);
    const std::lock_guard lock(mutex_);
    for (const auto& shape : shapes_)
      if (shape->m == call.params[0] && shape->strides == strides) return shape;
    auto made = make(call.params[0], std::move(strides));
    if (shapes_.size() == kMaxShapes) shapes_.erase(shapes_.begin());
    return shapes_.emplace_back(std::move(made));
  }

 private:
  struct Reordered {
    const void* plain;
    memory data;
  };

  std::shared_ptr<const Shape> make(int64_t m, std::vector<int64_t> strides) {
    const OneThread scope;
    auto shape = std::make_shared<Shape>();
    shape->m = m;
    shape->strides = std::move(strides);
    for (size_t o = 0; o < task_.outputs.size(); ++o) {
      const int64_t n = task_.outputs[o].n, width = block_columns(n, task_.k * element_bytes(task_.w));
      for (int64_t column = 0; column < n; column += width) {
        shape->products.push_back(make_product(*shape, o, column, std::min(width, n - column)));
        shape->scratch_bytes =
            std::max(shape->scratch_bytes, static_cast<int64_t>(shape->products.back().scratch.get_size()));
      }
    }
    return shape;
  }

  Product make_product(const Shape& shape, size_t output, int64_t column, int64_t columns) {
    const OneDnnTask::Output& o = task_.outputs[output];
    const OneDnnTask::Place& place = places_[output];
    char* const plain = data_ + place.weights + column * task_.k * element_bytes(task_.w);
    auto* const bias = reinterpret_cast<float*>(data_ + place.bias) + column;
    auto* const scales = reinterpret_cast<float*>(data_ + place.scales) + column;
    const bool one_row = shape.m == 1;  // its stride is anything
    const QcgOneDnnMatmul spec{shape.m,
                               columns,
                               task_.k,
                               static_cast<int32_t>(task_.x),
                               static_cast<int32_t>(task_.w),
                               static_cast<int32_t>(task_.y),
                               o.eltwise,
                               nullptr,
                               plain,
                               o.bias ? bias : nullptr,
                               task_.scales ? scales : nullptr,
                               0,
                               one_row ? 0 : shape.strides[0],
                               one_row ? 0 : shape.strides[1 + output]};
    const auto described = describe_matmul(spec, cpu_engine(), dnnl::scratchpad_mode::user);
    Product out{dnnl::matmul(described),
                described.src_desc(),
                described.dst_desc(),
                described.scratchpad_desc(),
                output,
                column * element_bytes(task_.y),
                columns * element_bytes(task_.y),
                element_bytes(task_.y),
                {}};
    out.constants.insert({DNNL_ARG_WEIGHTS, reorder(plain, columns, described.weights_desc())});
    if (o.bias)
      out.constants.insert(
          {DNNL_ARG_BIAS, memory({{1, columns}, memory::data_type::f32, memory::format_tag::ab}, cpu_engine(), bias)});
    if (task_.scales)
      out.constants.insert(
          {kOneDnnScales, memory({{columns}, memory::data_type::f32, memory::format_tag::a}, cpu_engine(), scales)});
    return out;
  }

  memory reorder(char* plain, int64_t columns, const memory::desc& wanted) {
    for (const Reordered& r : reordered_)
      if (r.plain == plain && r.data.get_desc() == wanted) return r.data;
    memory from({{task_.k, columns}, onednn_data_type(static_cast<int32_t>(task_.w)), memory::format_tag::ba},
                cpu_engine(), plain);
    if (wanted == from.get_desc()) return from;
    memory to(wanted, cpu_engine());
    dnnl::stream stream(cpu_engine());
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    return reordered_.emplace_back(plain, to).data;
  }

  OneDnnTask task_;
  std::vector<OneDnnTask::Place> places_;
  char* data_ = nullptr;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Shape>> shapes_;
  std::vector<Reordered> reordered_;
};

std::shared_ptr<const Shape> shape_of(const qcg_call& call) {
  cpu_engine();  // made first, so that it goes last
  static std::mutex mutex;
  static std::map<const void*, Weights> weights;
  const void* at = call.args[OneDnnTask::weights_argument(call.params)].data;
  Weights* found = nullptr;
  {
    const std::lock_guard lock(mutex);
    found = &weights.try_emplace(at, call).first->second;
  }
  return found->find(call);
}

void execute(const Product& product, const qcg_call& call, void* y, void* scratch) {
  dnnl::stream stream(cpu_engine());
  std::unordered_map<int, memory> args = product.constants;
  args.insert({DNNL_ARG_SRC, memory(product.x, cpu_engine(), call.args[0].data)});
  args.insert({DNNL_ARG_DST, memory(product.y, cpu_engine(), y)});
  args.insert({DNNL_ARG_SCRATCHPAD, memory(product.scratch, cpu_engine(), scratch)});
  product.primitive.execute(stream, args);
  stream.wait();
}

int64_t items(const qcg_call* call, uint32_t) {
  return call->params[0] > 0 ? static_cast<int64_t>(shape_of(*call)->products.size()) : 0;
}

// The first that the runtime asks, and the only one that can say that oneDNN refuses: less than no memory.
int64_t shared_bytes(const qcg_call* call) {
  if (call->params[0] <= 0) return 0;
  try {
    return shape_of(*call), 0;
  } catch (const std::exception&) {
    return -1;
  }
}

int64_t scratch_bytes(const qcg_call* call) { return call->params[0] > 0 ? shape_of(*call)->scratch_bytes : 0; }

// A kernel cannot say that it failed: what oneDNN does not write is NaN, never a plausible number.
void run(const qcg_call* call, uint32_t, int64_t begin, int64_t end, void* scratch) {
  const OneThread scope;
  const std::shared_ptr<const Shape> shape = shape_of(*call);
  for (int64_t i = begin; i < end; ++i) {
    const Product& product = shape->products[static_cast<size_t>(i)];
    const qcg_arg& arg = call->args[OneDnnTask::first_output() + static_cast<int64_t>(product.output)];
    char* const y = static_cast<char*>(arg.data) + product.first_byte;
    try {
      execute(product, *call, y, scratch);
    } catch (const std::exception&) {
      for (int64_t row = 0; row < shape->m; ++row)
        std::memset(y + row * arg.stride * product.element, 0xff, static_cast<size_t>(product.row_bytes));
    }
  }
}

}  // namespace
}  // namespace qcg

const qcg_kernel qcg_onednn_kernel = {QCG_KERNEL_ABI, 1, qcg::items, qcg::shared_bytes, qcg::scratch_bytes, qcg::run};
