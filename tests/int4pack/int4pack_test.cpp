// qcg_cuda_int4pack_mm: each check of its arguments, and products executed from the kernel's PTX.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <thread>

#include "runtime/cuda.h"
#include "runtime/int4pack/qcg_int4pack.h"
#include "tests/cuda/ptx/executor.h"
#include "tests/cuda_program/fake_driver.h"
#include "tests/paths.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// A device whose modules are PTX.
class PtxDevice : public FakeDriver {
 public:
  int begin(const char* entry_point) override { return fails == entry_point ? 999 : 0; }
  int capability() override { return has; }
  void* load(const void* image) override {
    auto loaded = ptx::load_kernel(static_cast<const char*>(image));
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().to_string());
    kernel.emplace(std::move(*loaded));
    memory = kernel->memory();
    return &*kernel;
  }
  void* function(void* module, const char* name) override { return kernel->name() == name ? module : nullptr; }
  uint64_t allocate(size_t) override { return 0; }
  void free(uint64_t) override {}
  int copy_in(uint64_t, const void*, size_t) override { return 1; }
  int copy_out(void*, uint64_t, size_t) override { return 1; }
  void on_stream(void* stream) override { last_stream = stream; }
  int launch(void*, const uint32_t (&grid)[3], uint32_t threads, uint32_t shared, const void* parameter) override {
    const auto* bytes = static_cast<const uint8_t*>(parameter);
    const ptx::Outcome out =
        kernel->run({.grid = {grid[0], grid[1], grid[2]}, .block = {threads, 1, 1}, .dynamic_shared = shared}, memory,
                    {ptx::Argument(bytes, bytes + kernel->parameter_bytes())});
    fault = out.text();
    ++launches;
    return out.ok() ? 0 : 700;
  }

  std::string fails, fault;
  int has = 80, launches = 0;
  void* last_stream = nullptr;
  std::optional<ptx::LoadedKernel> kernel;
  ptx::GlobalMemory memory;
};

// Never destroyed, as the library keeps the kernel that it loaded.
PtxDevice& device() {
  static PtxDevice& one = *[] {
    void* const library = dlopen((binary_dir() + "/tests/fake/libcuda.so.1").c_str(), RTLD_NOW);
    REQUIRE_MESSAGE(library, dlerror());
    auto* made = new PtxDevice();
    reinterpret_cast<void (*)(FakeDriver*)>(dlsym(library, "qcg_use_fake_driver"))(made);
    return made;
  }();
  return one;
}

uint16_t bf16_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float of_bf16(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<uint8_t> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

// A tensor that owns its shape; `data` is a device address.
struct DeviceTensor {
  DeviceTensor(uint64_t data, qcg_dtype dtype, std::vector<int64_t> extents) : shape(std::move(extents)) {
    tensor = {
        reinterpret_cast<void*>(data), {2, 0}, static_cast<int32_t>(shape.size()), dtype, shape.data(), nullptr, 0};
  }
  DeviceTensor(const DeviceTensor&) = delete;
  std::vector<int64_t> shape, strides;
  qcg_dltensor tensor;
};
constexpr qcg_dtype kBf16{4, 16, 1}, kI32{0, 32, 1};

// The arguments of a call that is right; the addresses need not exist where the call is refused.
struct Call {
  Call(int64_t m, int64_t n, int64_t k, int64_t group, int64_t inner)
      : x(0x10000, kBf16, {m, k}),
        weight(0x20000, kI32, {n / 8, k / (16 * inner), 32, inner / 2}),
        scales(0x30000, kBf16, {k / group, n, 2}),
        out(0x40000, kBf16, {m, n}),
        group(group) {}
  qcg_status run(void* stream = nullptr) const {
    return qcg_cuda_int4pack_mm(no_x ? nullptr : &x.tensor, no_weight ? nullptr : &weight.tensor, group,
                                no_scales ? nullptr : &scales.tensor, no_out ? nullptr : &out.tensor, stream);
  }
  DeviceTensor x, weight, scales, out;
  int64_t group;
  bool no_x = false, no_weight = false, no_scales = false, no_out = false;
};

// tinygemm's layout: the word of lane l holds n = l / 4, and k = 2 (l % 4) + {0, 1, 8, 9} of two k tiles; even k in the
// lower nibbles.
std::vector<int32_t> pack(const std::vector<int>& codes, int64_t n, int64_t k, int64_t inner) {
  constexpr int kNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of {0, 1, 8, 9} of the first tile, then of the second
  constexpr int kOffset[4] = {0, 1, 8, 9};
  std::vector<int32_t> out;
  for (int64_t tile = 0; tile < n / 8; ++tile)
    for (int64_t outer = 0; outer < k / (16 * inner); ++outer)
      for (int lane = 0; lane < 32; ++lane)
        for (int64_t pair = 0; pair < inner / 2; ++pair) {
          uint32_t word = 0;
          for (int v = 0; v < 8; ++v) {
            const int64_t row = tile * 8 + lane / 4;
            const int64_t column = (outer * inner + pair * 2 + v / 4) * 16 + 2 * (lane % 4) + kOffset[v % 4];
            word |= static_cast<uint32_t>(codes[static_cast<size_t>(row * k + column)]) << (4 * kNibble[v]);
          }
          out.push_back(static_cast<int32_t>(word));
        }
  return out;
}

// What a call reads, as bytes.
struct Inputs {
  std::vector<uint8_t> x, weight, scales;
};
// Places the inputs, calls and returns the bytes of the product.
using Multiply = std::function<std::vector<uint8_t>(Call&, const Inputs&, size_t bytes)>;

std::vector<uint8_t> multiply_executed(Call& call, const Inputs& inputs, size_t bytes) {
  PtxDevice& on = device();
  if (!on.kernel) {  // the first call loads it; it is refused where nothing is
    on.fails = "cuLaunchKernel";
    REQUIRE(call.run() == QCG_ERROR_IO);
    on.fails.clear();
  }
  on.memory = on.kernel->memory();
  const auto place = [&](DeviceTensor& tensor, const char* name, std::vector<uint8_t> data, ptx::Access access) {
    const uint64_t address = on.memory.add(name, std::move(data), access).address;
    tensor.tensor.data = reinterpret_cast<void*>(address);
    return address;
  };
  place(call.x, "x", inputs.x, ptx::Access::input);
  place(call.weight, "weight", inputs.weight, ptx::Access::input);
  place(call.scales, "scale_and_zero", inputs.scales, ptx::Access::input);
  const uint64_t out = place(call.out, "out", std::vector<uint8_t>(bytes), ptx::Access::output);
  int stream = 0;
  REQUIRE_MESSAGE(call.run(&stream) == QCG_OK, qcg_cuda_int4pack_error(), on.fault);
  CHECK(on.last_stream == &stream);
  const auto* const product = static_cast<const uint8_t*>(on.memory.read(out, bytes));
  return {product, product + bytes};
}

std::vector<uint8_t> multiply_on(CudaDriver& driver, Call& call, const Inputs& inputs, size_t bytes) {
  std::vector<CudaBuffer> buffers;
  const auto place = [&](DeviceTensor& tensor, const std::vector<uint8_t>& data) {
    auto buffer = driver.allocate(data.size());
    REQUIRE_MESSAGE(buffer.ok(), buffer.error().to_string());
    REQUIRE(driver.copy_in(*buffer, data.data(), data.size()).ok());
    tensor.tensor.data = buffer->data();
    buffers.push_back(std::move(*buffer));
  };
  place(call.x, inputs.x);
  place(call.weight, inputs.weight);
  place(call.scales, inputs.scales);
  std::vector<uint8_t> product(bytes);
  place(call.out, product);
  REQUIRE_MESSAGE(call.run() == QCG_OK, qcg_cuda_int4pack_error());
  REQUIRE(driver.copy_out(product.data(), buffers.back(), bytes).ok());
  return product;
}

void check_product(int64_t m, int64_t n, int64_t k, int64_t group, int64_t inner, const Multiply& multiply) {
  INFO("m ", m, " n ", n, " k ", k, " group ", group, " inner k tiles ", inner);
  std::mt19937_64 rng(static_cast<uint64_t>(m * 1000003 + n * 1009 + k + group + inner));
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(rng() % static_cast<uint64_t>(high - low + 1));
  };
  const auto size = [](int64_t count) { return static_cast<size_t>(count); };
  std::vector<int> codes(size(n * k));
  for (int& code : codes) code = draw(0, 15);
  std::vector<uint16_t> x(size(m * k)), scales(size(k / group * n * 2));
  for (uint16_t& value : x) value = bf16_of(static_cast<float>(draw(-2, 2)));
  // Powers of two and small integers: all sums are exact.
  for (size_t i = 0; i < scales.size(); i += 2)
    scales[i] = bf16_of(std::ldexp(1.0f, draw(-2, 1))), scales[i + 1] = bf16_of(static_cast<float>(draw(-3, 3)) / 4);

  Call call(m, n, k, group, inner);
  const Inputs inputs{bytes_of(x), bytes_of(pack(codes, n, k, inner)), bytes_of(scales)};
  std::vector<uint16_t> got(size(m * n));
  const std::vector<uint8_t> product = multiply(call, inputs, got.size() * 2);
  std::memcpy(got.data(), product.data(), product.size());
  int wrong = 0;
  for (int64_t row = 0; row < m; ++row)
    for (int64_t column = 0; column < n; ++column) {
      double want = 0;
      for (int64_t i = 0; i < k; ++i) {
        const size_t pair = size((i / group * n + column) * 2);
        const double weight =
            (codes[size(column * k + i)] - 8) * double(of_bf16(scales[pair])) + double(of_bf16(scales[pair + 1]));
        want += double(of_bf16(x[size(row * k + i)])) * weight;
      }
      wrong += got[size(row * n + column)] != bf16_of(static_cast<float>(want));
    }
  CHECK(wrong == 0);
}

void check_refused(const char* text, const std::function<void(Call&)>& change) {
  CAPTURE(text);
  Call call(3, 16, 256, 64, 4);
  change(call);
  const int launches = device().launches;
  CHECK(call.run() == QCG_ERROR_BAD_INPUT);
  const std::string message = qcg_cuda_int4pack_error();
  INFO(message);
  CHECK(message.find(text) != std::string::npos);
  CHECK(device().launches == launches);
}

}  // namespace

TEST_CASE("every mistake in the arguments has a code and a message") {
  check_refused("x: is NULL", [](Call& c) { c.no_x = true; });
  check_refused("weight: is NULL", [](Call& c) { c.no_weight = true; });
  check_refused("scale_and_zero: is NULL", [](Call& c) { c.no_scales = true; });
  check_refused("out: is NULL", [](Call& c) { c.no_out = true; });
  check_refused("x: has no data", [](Call& c) { c.x.tensor.data = nullptr; });
  check_refused("out: has no data", [](Call& c) { c.out.tensor.data = nullptr; });
  check_refused("x: has no shape", [](Call& c) { c.x.tensor.shape = nullptr; });
  check_refused("x: is not bf16", [](Call& c) { c.x.tensor.dtype = {2, 16, 1}; });
  check_refused("weight: is not i32", [](Call& c) { c.weight.tensor.dtype = {1, 8, 1}; });
  check_refused("scale_and_zero: is not bf16", [](Call& c) { c.scales.tensor.dtype = {2, 32, 1}; });
  check_refused("out: is not bf16", [](Call& c) { c.out.tensor.dtype = {4, 16, 2}; });
  check_refused("x: is not on a CUDA device", [](Call& c) { c.x.tensor.device.device_type = 1; });
  check_refused("out: is on CUDA device 1", [](Call& c) { c.out.tensor.device.device_id = 1; });
  check_refused("x: has 1 axes, not 2", [](Call& c) { c.x.tensor.ndim = 1; });
  check_refused("weight: has 3 axes, not 4", [](Call& c) { c.weight.tensor.ndim = 3; });
  check_refused("scale_and_zero: has 2 axes, not 3", [](Call& c) { c.scales.tensor.ndim = 2; });
  check_refused("out: has 3 axes, not 2", [](Call& c) { c.out.tensor.ndim = 3; });
  check_refused("impossible shape", [](Call& c) { c.x.shape[0] = -1; });
  check_refused("impossible shape", [](Call& c) { c.x.shape[0] = INT64_MAX; });
  for (const auto tensor : {&Call::x, &Call::weight, &Call::scales, &Call::out})
    check_refused("is not dense and row-major", [&](Call& c) {
      DeviceTensor& t = c.*tensor;
      t.strides.assign(t.shape.size(), 1);
      t.tensor.strides = t.strides.data();
    });
  check_refused("x: does not lie at a multiple of 4 bytes", [](Call& c) { c.x.tensor.byte_offset = 2; });
  check_refused("weight: does not lie at a multiple of 16 bytes", [](Call& c) { c.weight.tensor.byte_offset = 4; });
  for (const int64_t group : {0, -32, 16, 48, 512})
    check_refused("is none of 32, 64, 128 and 256", [&](Call& c) { c.group = group; });
  check_refused("last extent is none of 1, 2 and 4", [](Call& c) { c.weight.shape[3] = 3; });
  check_refused("third extent is not 32", [](Call& c) { c.weight.shape[2] = 16; });
  check_refused("weight: has 0 columns", [](Call& c) { c.weight.shape[0] = 0; });
  check_refused("the second extent is not k / 64", [](Call& c) { c.weight.shape[1] = 5; });
  check_refused("the second extent is not k / 64", [](Call& c) { c.x.shape[1] = 260; });
  check_refused("group: 256 does not divide k, which is 128",
                [](Call& c) { c.x.shape[1] = 128, c.weight.shape[1] = 2, c.group = 256; });
  check_refused("scale_and_zero: has the shape [4, 16, 2], not [8, 16, 2]", [](Call& c) { c.group = 32; });
  check_refused("not [4, 16, 2]", [](Call& c) { c.scales.shape[1] = 8; });
  check_refused("not [4, 16, 2]", [](Call& c) { c.scales.shape[2] = 1; });
  check_refused("out: has the shape [3, 8], not [3, 16]", [](Call& c) { c.out.shape[1] = 8; });
  check_refused("out: has the shape [2, 16], not [3, 16]", [](Call& c) { c.out.shape[0] = 2; });
  check_refused("rows, more than", [](Call& c) { c.x.shape[0] = c.out.shape[0] = int64_t{1} << 20; });
  // Errors of another thread stay there.
  std::string of_other = "none";
  std::thread([&] { of_other = qcg_cuda_int4pack_error(); }).join();
  CHECK(of_other.empty());
}

TEST_CASE("no rows are no work, and a device that is too old or a driver that fails is an error") {
  Call none(0, 16, 256, 64, 4);
  none.x.tensor.data = none.out.tensor.data = nullptr;
  CHECK(none.run() == QCG_OK);
  PtxDevice& on = device();
  if (on.kernel) return;  // it is loaded once
  const Call call(1, 16, 256, 64, 4);
  on.has = 75;
  CHECK(call.run() == QCG_ERROR_UNSUPPORTED);
  CHECK(std::string(qcg_cuda_int4pack_error()).find("older than compute capability 8.0") != std::string::npos);
  on.has = 80;
  on.fails = "cuInit";
  CHECK(call.run() == QCG_ERROR_UNSUPPORTED);
  on.fails.clear();
}

namespace {

void check_products(const Multiply& multiply) {
  for (const int64_t group : {32, 64, 128, 256})
    for (const int64_t inner : {2, 4, 8}) check_product(3, 40, 512, group, inner, multiply);
  check_product(1, 8, 256, 256, 8, multiply);
  check_product(8, 32, 2560, 128, 8, multiply);  // more groups than warps
  check_product(17, 64, 256, 32, 2, multiply);
}

}  // namespace

TEST_CASE("products are exact for all groups, inner k tiles, odd m and a last tile of 8 columns") {
  check_products(multiply_executed);
}

// By itself: other cases open the stand-in for the driver.
TEST_CASE("device: products are exact on the GPU" * doctest::skip()) {
  auto driver = CudaDriver::load();
  if (!driver.ok()) {
    MESSAGE("skipped: ", driver.error().message);
    return;
  }
  check_products(
      [&](Call& call, const Inputs& inputs, size_t bytes) { return multiply_on(**driver, call, inputs, bytes); });
}
