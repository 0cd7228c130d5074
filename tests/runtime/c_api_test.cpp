#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "base/dtype.h"
#include "runtime/qcodegen.h"
#include "runtime/qcodegen.hpp"
#include "tests/runtime/sample_program.h"

using qcg::SampleProgram;
using qcg::SampleRun;

// DLPack 1.0's DLTensor on a 64-bit machine.
static_assert(sizeof(qcg_dltensor) == 48 && offsetof(qcg_dltensor, device) == 8 && offsetof(qcg_dltensor, ndim) == 16);
static_assert(offsetof(qcg_dltensor, dtype) == 20 && offsetof(qcg_dltensor, shape) == 24);
static_assert(offsetof(qcg_dltensor, strides) == 32 && offsetof(qcg_dltensor, byte_offset) == 40);

namespace {

constexpr qcg_dtype kF32 = {2, 32, 1};

qcg_dltensor tensor(std::vector<float>& data, std::vector<int64_t>& shape) {
  return {data.data(), {1, 0}, static_cast<int32_t>(shape.size()), kF32, shape.data(), nullptr, 0};
}

struct Loaded {
  explicit Loaded(const SampleProgram& sample) {
    REQUIRE(qcg_program_load(sample.dir().c_str(), nullptr, &program) == QCG_OK);
    const qcg_context_options options = {2, 0, 0, 0, {}};
    REQUIRE(qcg_context_create(program, &options, &context) == QCG_OK);
  }
  ~Loaded() {
    qcg_program_free(program);  // before the context, which keeps what it needs
    qcg_context_free(context);
  }
  qcg_program* program = nullptr;
  qcg_context* context = nullptr;
};

bool says(const char* text) { return std::strstr(qcg_last_error(), text) != nullptr; }

}  // namespace

TEST_CASE("C: load, look, run") {
  const SampleProgram sample;
  Loaded loaded(sample);
  CHECK(qcg_abi_version() == QCG_API_VERSION);
  CHECK(std::strlen(qcg_version()) > 0);
  CHECK(qcg_n_inputs(loaded.program) == 1);
  CHECK(qcg_n_outputs(loaded.program) == 3);
  qcg_tensor_info info;
  REQUIRE(qcg_input_info(loaded.program, 0, &info) == QCG_OK);
  CHECK(std::string(info.name) == "x");
  CHECK(info.ndim == 2);
  CHECK(info.shape[0] == -1);
  CHECK(info.shape[1] == 8);
  CHECK(info.dtype.code == 2);
  CHECK(info.dtype.bits == 32);

  SampleRun run(6);
  qcg_dltensor inputs[] = {tensor(run.x, run.rows)};
  int64_t shape[2];
  int32_t ndim = 2;
  REQUIRE(qcg_output_shape(loaded.program, inputs, 1, 1, shape, &ndim) == QCG_OK);
  CHECK(ndim == 1);
  CHECK(shape[0] == 48);
  ndim = 1;
  CHECK(qcg_output_shape(loaded.program, inputs, 1, 0, shape, &ndim) == QCG_ERROR_BAD_INPUT);
  CHECK(ndim == 2);
  qcg_dltensor outputs[] = {tensor(run.y, run.rows), tensor(run.z, run.flat), tensor(run.v, run.eight)};
  REQUIRE(qcg_run(loaded.context, inputs, 1, outputs, 3, nullptr) == QCG_OK);
  CHECK(run.is_right());

  std::vector<float> shifted(run.x.size() + 4, 1e9f);
  std::copy(run.x.begin(), run.x.end(), shifted.begin() + 4);
  inputs[0].data = shifted.data();
  inputs[0].byte_offset = 16;
  std::fill(run.y.begin(), run.y.end(), 0.0f);
  REQUIRE(qcg_run(loaded.context, inputs, 1, outputs, 3, nullptr) == QCG_OK);
  CHECK(run.is_right());
}

TEST_CASE("C: options are honoured") {
  const SampleProgram sample;
  const qcg_load_options options = {1, 1, {}};
  qcg_program* program = nullptr;
  REQUIRE(qcg_program_load(sample.dir().c_str(), &options, &program) == QCG_OK);
  qcg_program_free(program);
  std::string weights = qcg::read_file(sample.dir() + "/weights.bin");
  weights[4000] ^= 1;
  qcg::write_file(sample.dir() + "/weights.bin", weights);
  CHECK(qcg_program_load(sample.dir().c_str(), &options, &program) == QCG_ERROR_BAD_INPUT);
  CHECK(program == nullptr);
}

TEST_CASE("C: a context that profiles says what each step of its last run took") {
  const SampleProgram sample;
  Loaded plain(sample);
  SampleRun run(6);
  qcg_dltensor inputs[] = {tensor(run.x, run.rows)};
  qcg_dltensor outputs[] = {tensor(run.y, run.rows), tensor(run.z, run.flat), tensor(run.v, run.eight)};
  REQUIRE(qcg_run(plain.context, inputs, 1, outputs, 3, nullptr) == QCG_OK);
  CHECK(qcg_n_profiled_steps(plain.context) == 0);
  CHECK(qcg_n_profiled_steps(nullptr) == 0);

  qcg_context_options options = {};
  options.threads = 2;
  options.profile = 1;
  qcg_context* context = nullptr;
  REQUIRE(qcg_context_create(plain.program, &options, &context) == QCG_OK);
  CHECK(qcg_n_profiled_steps(context) == 0);
  REQUIRE(qcg_run(context, inputs, 1, outputs, 3, nullptr) == QCG_OK);
  REQUIRE(qcg_n_profiled_steps(context) == 4);
  qcg_step_profile step;
  CHECK(qcg_profiled_step(context, 4, &step) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_profiled_step(context, 0, nullptr) == QCG_ERROR_BAD_INPUT);
  REQUIRE(qcg_profiled_step(context, 1, &step) == QCG_OK);
  CHECK(std::string(step.name) == "sums");
  CHECK(std::string(step.kernel) == "kernels/k.so");
  CHECK(step.begin_us > 0);
  CHECK(step.us > 0);
  CHECK(step.n_threads == 2);
  CHECK(step.thread_us[0] + step.thread_us[1] > 0);
  CHECK(step.thread_us[0] + step.thread_us[1] <= 2 * step.us);
  outputs[0].data = nullptr;  // a run that is refused has no profile
  CHECK(qcg_run(context, inputs, 1, outputs, 3, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_n_profiled_steps(context) == 0);
  qcg_context_free(context);

  const qcodegen::Program program(sample.dir());
  qcodegen::Context profiled(program, options);
  profiled.run({qcodegen::Tensor(qcodegen::dtypes::f32, {3, 8})});
  const std::vector<qcg_step_profile> steps = profiled.profile();
  REQUIRE(steps.size() == 4);
  CHECK(std::string(steps[3].name) == "copy w");
}

TEST_CASE("C: mistakes are codes with a message") {
  const SampleProgram sample;
  Loaded loaded(sample);
  qcg_program* program = nullptr;
  qcg_context* context = nullptr;
  qcg_tensor_info info;
  CHECK(qcg_program_load(nullptr, nullptr, &program) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_program_load(sample.dir().c_str(), nullptr, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_program_load("/nowhere", nullptr, &program) == QCG_ERROR_IO);
  CHECK(says("/nowhere"));
  // A handle that is not made is NULL, whichever argument is wrong.
  program = reinterpret_cast<qcg_program*>(&info), context = reinterpret_cast<qcg_context*>(&info);
  auto* state = reinterpret_cast<qcg_state*>(&info);
  const qcg_program* method = program;
  CHECK(qcg_program_load(nullptr, nullptr, &program) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_context_create(nullptr, nullptr, &context) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_state_create(nullptr, &state) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_method(loaded.program, nullptr, &method) == QCG_ERROR_BAD_INPUT);
  CHECK((program == nullptr && context == nullptr && state == nullptr && method == nullptr));
  const qcg_context_options negative = {-1, 0, 0, 0, {}};
  CHECK(qcg_context_create(loaded.program, &negative, &context) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_input_info(loaded.program, 1, &info) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_input_info(loaded.program, -1, &info) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_output_info(loaded.program, 3, &info) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_output_info(loaded.program, 0, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_n_inputs(nullptr) == 0);
  qcg_program_free(nullptr);
  qcg_context_free(nullptr);

  SampleRun run(6);
  qcg_dltensor inputs[] = {tensor(run.x, run.rows)};
  qcg_dltensor outputs[] = {tensor(run.y, run.rows), tensor(run.z, run.flat), tensor(run.v, run.eight)};
  int stream = 0;
  CHECK(qcg_run(nullptr, inputs, 1, outputs, 3, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_run(loaded.context, inputs, 1, outputs, 3, &stream) == QCG_ERROR_UNSUPPORTED);
  CHECK(says("stream: is not NULL, but the program runs on the CPU"));
  CHECK(qcg_wait(nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_wait(loaded.context) == QCG_OK);
  CHECK(qcg_run(loaded.context, nullptr, 1, outputs, 3, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_run(loaded.context, inputs, -1, outputs, 3, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_run(loaded.context, inputs, 1, outputs, 2, nullptr) == QCG_ERROR_BAD_INPUT);
  inputs[0].device.device_type = 2;
  CHECK(qcg_run(loaded.context, inputs, 1, outputs, 3, nullptr) == QCG_ERROR_UNSUPPORTED);
  CHECK(says("inputs[0]"));
  inputs[0].device.device_type = 1;
  inputs[0].dtype.lanes = 4;
  CHECK(qcg_run(loaded.context, inputs, 1, outputs, 3, nullptr) == QCG_ERROR_UNSUPPORTED);
  inputs[0].dtype = {4, 16, 1};
  CHECK(qcg_run(loaded.context, inputs, 1, outputs, 3, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(says("has dtype bf16, the program expects f32"));
  inputs[0].dtype = kF32;
  inputs[0].ndim = -1;
  CHECK(qcg_run(loaded.context, inputs, 1, outputs, 3, nullptr) == QCG_ERROR_BAD_INPUT);

  std::thread([] { CHECK(std::string(qcg_last_error()).empty()); }).join();  // errors belong to their thread
}

TEST_CASE("C: as many tensors as the program has, or none is read") {
  const SampleProgram sample;
  Loaded loaded(sample);
  SampleRun run(6);
  // The only tensor ends where memory ends: to look at a second one is a crash.
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* pages =
      static_cast<std::byte*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  REQUIRE(mprotect(pages + page, page, PROT_NONE) == 0);
  auto* last = reinterpret_cast<qcg_dltensor*>(pages + page) - 1;
  *last = tensor(run.x, run.rows);
  qcg_dltensor outputs[] = {tensor(run.y, run.rows), tensor(run.z, run.flat), tensor(run.v, run.eight)};
  int64_t shape[2], bytes;
  int32_t ndim = 2;
  CHECK(qcg_run(loaded.context, last, 1, outputs, 3, nullptr) == QCG_OK);
  CHECK(qcg_run(loaded.context, last, 1000, outputs, 3, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(says("1000 tensors given, the program has 1 inputs"));
  CHECK(qcg_run(loaded.context, last, 1, last, 1000, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(says("1000 tensors given, the program has 3 outputs"));
  CHECK(qcg_output_shape(loaded.program, last, 1000, 0, shape, &ndim) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_arena_bytes(loaded.program, last, 1000, &bytes) == QCG_ERROR_BAD_INPUT);
  munmap(pages, 2 * page);
}

TEST_CASE("C: symbols with their ranges, and the memory of temporaries") {
  const SampleProgram sample;
  Loaded loaded(sample);
  REQUIRE(qcg_n_symbols(loaded.program) == 1);
  qcg_symbol symbol;
  REQUIRE(qcg_symbol_info(loaded.program, 0, &symbol) == QCG_OK);
  CHECK(std::string(symbol.name) == "s0");
  CHECK(symbol.min == 0);
  CHECK(symbol.max == 1000);
  CHECK(symbol.input == 0);
  CHECK(symbol.axis == 0);
  CHECK(symbol.coefficient == 1);
  CHECK(symbol.constant == 0);
  CHECK(qcg_symbol_info(loaded.program, 1, &symbol) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_symbol_info(loaded.program, 0, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_n_symbols(nullptr) == 0);

  for (const int64_t rows : {0, 6, 1000}) {
    SampleRun run(rows);
    qcg_dltensor input = tensor(run.x, run.rows);
    int64_t bytes = -1;
    REQUIRE(qcg_arena_bytes(loaded.program, &input, 1, &bytes) == QCG_OK);
    CHECK(bytes == (32 * rows + 63) / 64 * 64);  // the only temporary: 2x
  }
  SampleRun run(1001);
  qcg_dltensor input = tensor(run.x, run.rows);
  int64_t bytes;
  CHECK(qcg_arena_bytes(loaded.program, &input, 1, &bytes) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_arena_bytes(loaded.program, &input, 1, nullptr) == QCG_ERROR_BAD_INPUT);
  CHECK(qcg_arena_bytes(nullptr, &input, 1, &bytes) == QCG_ERROR_BAD_INPUT);
}

// AddressSanitizer does not see that a cancellation leaves frames, and would take the end of the thread for misuse of
// them.
extern "C" __attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* address, size_t bytes);

namespace {

struct ForgetFrames {
  ~ForgetFrames() {
    constexpr size_t kFrames = 1 << 16;
    const char* const here = static_cast<const char*>(__builtin_frame_address(0));
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(here - kFrames, kFrames);
  }
};

// A thread of a host that is cancelled while it loads and runs a program.
struct CancelledHost {
  const SampleProgram& sample;
  bool at_once;  // asynchronously, as soon as it may be
  SampleRun run{6};
  qcg_program* program = nullptr;
  qcg_context* context = nullptr;
  qcg_status loaded = QCG_ERROR_INTERNAL, created = QCG_ERROR_INTERNAL, ran = QCG_ERROR_INTERNAL;
  bool freed = false;

  void use() {
    // From here on a cancellation waits, and loading has many points where it would happen.
    if (!at_once) pthread_cancel(pthread_self());
    loaded = qcg_program_load(sample.dir().c_str(), nullptr, &program);
    const qcg_context_options options = {1, 0, 0, 0, {}};
    if (loaded == QCG_OK) created = qcg_context_create(program, &options, &context);
    qcg_dltensor input = tensor(run.x, run.rows);
    qcg_dltensor outputs[] = {tensor(run.y, run.rows), tensor(run.z, run.flat), tensor(run.v, run.eight)};
    if (at_once) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    if (created == QCG_OK) ran = qcg_run(context, &input, 1, outputs, 3, nullptr);
    free();
    pthread_testcancel();
  }
  void free() {
    qcg_context_free(context);
    qcg_program_free(program);
    freed = true;
  }
  // Whether the thread ended by being cancelled.
  bool end() {
    pthread_t thread;
    const auto start = [](void* host) -> void* {
      const ForgetFrames at_the_end;
      static_cast<CancelledHost*>(host)->use();
      return nullptr;
    };
    REQUIRE(pthread_create(&thread, nullptr, start, this) == 0);
    void* result = nullptr;
    REQUIRE(pthread_join(thread, &result) == 0);
    return result == PTHREAD_CANCELED;
  }
};

}  // namespace

#if !defined(QCG_SANITIZED)  // AddressSanitizer has operators of its own
namespace {

thread_local int allocations_left = -1;  // the one after these fails; negative: none does

}  // namespace

// Inlined they are, to the compiler, calls of malloc and free that do not match.
[[gnu::noinline]] void* operator new(size_t size) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(std::max<size_t>(size, 1))) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

TEST_CASE("C: a method whose first run finds no memory is an error, and no run of it is waited for") {
  SampleProgram sample;
  SampleProgram::split_into_methods(sample.manifest, {"a", "b"});
  sample.sign();
  Loaded loaded(sample);
  const qcg_program* method = nullptr;
  REQUIRE(qcg_method(loaded.program, "b", &method) == QCG_OK);
  SampleRun run(6);
  qcg_dltensor inputs[] = {tensor(run.x, run.rows)};
  qcg_dltensor outputs[] = {tensor(run.y, run.rows), tensor(run.z, run.flat), tensor(run.v, run.eight)};
  int failures = 0;
  for (qcg_status status = QCG_ERROR_IO; status != QCG_OK; ++failures) {
    allocations_left = failures;
    status = qcg_run_method(loaded.context, method, nullptr, inputs, 1, outputs, 3, nullptr);
    allocations_left = -1;
    REQUIRE((status == QCG_OK || status == QCG_ERROR_IO));
    REQUIRE(qcg_wait(loaded.context) == QCG_OK);
  }
  CHECK(failures > 3);
  CHECK(run.is_right());
}
#endif

TEST_CASE("C: a thread that is cancelled ends after the call, not in it") {
  SampleProgram sample;
  sample.manifest["steps"][2]["kernels"][0]["symbol"] = "test_cancel";  // z = x
  sample.sign();
  CancelledHost patient{sample, false};
  CHECK(patient.end());
  CHECK(patient.loaded == QCG_OK);
  CHECK(patient.created == QCG_OK);
  CHECK(patient.ran == QCG_OK);
  CHECK(patient.run.is_right());
  CHECK(patient.freed);

  CancelledHost hasty{sample, true};
  CHECK(hasty.end());
  CHECK(hasty.created == QCG_OK);
  CHECK(hasty.ran == QCG_ERROR_INTERNAL);  // the call did its work, but it never got to say so
  CHECK(hasty.run.is_right());
  CHECK(!hasty.freed);
  hasty.free();
}

TEST_CASE("C++: dtype constants are the dtypes of programs") {
  namespace dtypes = qcodegen::dtypes;
  const std::pair<qcg::DType, qcg_dtype> all[] = {
      {qcg::DType::f32, dtypes::f32},       {qcg::DType::f16, dtypes::f16},
      {qcg::DType::bf16, dtypes::bf16},     {qcg::DType::f64, dtypes::f64},
      {qcg::DType::u8, dtypes::u8},         {qcg::DType::i8, dtypes::i8},
      {qcg::DType::i16, dtypes::i16},       {qcg::DType::i32, dtypes::i32},
      {qcg::DType::i64, dtypes::i64},       {qcg::DType::boolean, dtypes::boolean},
      {qcg::DType::u16, dtypes::u16},       {qcg::DType::u32, dtypes::u32},
      {qcg::DType::u64, dtypes::u64},       {qcg::DType::f8e4m3, dtypes::f8e4m3},
      {qcg::DType::f8e5m2, dtypes::f8e5m2}, {qcg::DType::f8e8m0, dtypes::f8e8m0}};
  REQUIRE(std::size(all) == qcg::kDTypes.size());
  for (size_t i = 0; i < std::size(all); ++i) {
    const qcg::DTypeInfo& row = qcg::kDTypes[i];
    CAPTURE(row.name);
    CHECK(row.dtype == all[i].first);
    CHECK(all[i].second == qcg_dtype{row.dlpack_code, static_cast<uint8_t>(row.bytes * 8), 1});
  }
  CHECK(qcodegen::dtype_of<float>() == dtypes::f32);
  CHECK(qcodegen::dtype_of<bool>() == dtypes::boolean);
  CHECK(qcodegen::dtype_of<int8_t>() != dtypes::u8);
}

TEST_CASE("C++: inputs, outputs and symbols by name; outputs made by the run") {
  const SampleProgram sample;
  qcodegen::Program program(sample.dir());
  CHECK(program.input_index("x") == 0);
  CHECK(program.output_index("v") == 2);
  CHECK(program.output("z").ndim == 1);
  CHECK(program.input("x").dtype == qcodegen::dtypes::f32);
  CHECK(program.n_symbols() == 1);
  CHECK(program.symbol("s0").max == 1000);
  try {
    program.output_index("w");
    FAIL("found what is not there");
  } catch (const qcodegen::Error& e) {
    CHECK(e.status() == QCG_ERROR_BAD_INPUT);
    CHECK(std::string(e.what()) == "the program has no output 'w', it has y, z, v");
  }
  qcodegen::Context context(program, 2);
  for (const int64_t rows : {5, 0, 3}) {
    qcodegen::Tensor x(qcodegen::dtypes::f32, {rows, 8});
    const std::vector<float> ramp = SampleProgram::ramp(rows), expected = SampleProgram::expected(ramp);
    std::copy(ramp.begin(), ramp.end(), x.data<float>());
    const std::vector<qcodegen::Tensor> outputs = context.run({x});
    REQUIRE(outputs.size() == 3);
    CHECK(outputs[0].shape() == std::vector<int64_t>{rows, 8});
    CHECK(outputs[1].shape() == std::vector<int64_t>{rows * 8});
    CHECK(std::equal(expected.begin(), expected.end(), outputs[0].data<float>()));
    CHECK(program.arena_bytes({x}) == (32 * rows + 63) / 64 * 64);
  }
  CHECK_THROWS_AS(context.run(std::vector<qcodegen::Tensor>{}), qcodegen::Error);
}

TEST_CASE("C++: handles and exceptions") {
  const SampleProgram sample;
  qcodegen::Program program(sample.dir());
  qcodegen::Context context(program, 2);
  qcodegen::Tensor x(qcodegen::dtype_of<float>(), {5, 8});
  std::copy_n(SampleProgram::ramp(5).begin(), 40, x.data<float>());
  std::vector<qcodegen::Tensor> outputs;
  for (int32_t i = 0; i < program.n_outputs(); ++i)
    outputs.emplace_back(program.output(i).dtype, program.output_shape({x}, i));
  context.run({x}, outputs);
  const auto expected = SampleProgram::expected(SampleProgram::ramp(5));
  CHECK(std::equal(expected.begin(), expected.end(), outputs[0].data<float>()));
  try {
    qcodegen::Program missing("/nowhere");
    FAIL("loaded nothing");
  } catch (const qcodegen::Error& e) {
    CHECK(e.status() == QCG_ERROR_IO);
    CHECK(std::string(e.what()).find("/nowhere") != std::string::npos);
  }
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, -1}, {0, INT64_MAX, INT64_MAX}, {4, INT64_MAX}}) {
    const bool fits = shape[0] == 0;
    try {
      qcodegen::Tensor tensor(qcodegen::dtype_of<float>(), shape);
      CHECK(fits);
    } catch (const qcodegen::Error& e) {
      CHECK(!fits);
      CHECK(e.status() == QCG_ERROR_BAD_INPUT);
      CHECK(std::string(e.what()).find("axis 1 ") != std::string::npos);
    }
  }
}
