#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <thread>

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
    const qcg_context_options options = {2, 0, {}};
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
  CHECK(qcg_context_create(nullptr, nullptr, &context) == QCG_ERROR_BAD_INPUT);
  const qcg_context_options negative = {-1, 0, {}};
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
  CHECK(says("stream"));
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
