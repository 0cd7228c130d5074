// cuBLASLt as a reference: what it is asked for, in a stand-in and in the library where it is installed, and every error.
#include "codegen/vendor/cublaslt.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "cache/toolchain/toolchain.h"
#include "codegen/gemm/sample_problem.h"
#include "graph/ir/tensor.h"
#include "tests/paths.h"
#include "tests/vendor/fake_cublaslt.h"

using namespace qcg;
using namespace qcg::test;

namespace {

struct alignas(256) Block {
  std::byte bytes[256];
};

// Elements at an address that cuBLASLt takes.
struct Matrix {
  DType dtype;
  std::vector<Block> blocks;
  Matrix(DType d, int64_t count) : dtype(d), blocks(static_cast<size_t>(count) * dtype_bytes(d) / sizeof(Block) + 1) {}
  std::byte* data() { return blocks[0].bytes; }
  std::byte* at(int64_t i) { return data() + static_cast<size_t>(i) * dtype_bytes(dtype); }
  void set(int64_t i, double value) { double_to_element(dtype, value, at(i)); }
  double get(int64_t i) { return element_to_double(dtype, at(i)); }
};

std::string fake_path() { return binary_dir() + "/tests/fake/libcublasLt.so.13"; }

// The stand-in, which the test answers for.
struct Opened {
  FakeCublasLt fake;
  std::shared_ptr<CublasLt> lt;
  Opened() {
    void* const library = dlopen(fake_path().c_str(), RTLD_NOW);
    REQUIRE_MESSAGE(library, dlerror());
    reinterpret_cast<void (*)(FakeCublasLt*)>(dlsym(library, "qcg_use_fake_cublaslt"))(&fake);
    auto opened = CublasLt::open({fake_path()});
    REQUIRE(opened.ok());
    lt = *opened;
  }
};

double x_value(int64_t i) { return static_cast<double>(i * 7 % 5) - 2; }
double w_value(int64_t i) { return static_cast<double>(i * 11 % 13 % 4) - 1; }

DType output_of(DType input) { return input == DType::f8e4m3 ? DType::bf16 : input == DType::i8 ? DType::i32 : input; }

constexpr DType kInputs[] = {DType::bf16, DType::f16, DType::f32, DType::f8e4m3, DType::i8};

}  // namespace

TEST_CASE("y is x times the transposed weight, in every dtype and with each algorithm") {
  const CublasLtProduct shapes[] = {{3, 32, 16}, {1, 16, 48}, {17, 1, 5}, {2, 5, 1}};
  for (const DType input : kInputs)
    for (CublasLtProduct problem : shapes) {
      Opened opened;
      problem.input = input;
      CAPTURE(dtype_name(input));
      CAPTURE(problem.n);
      {
        auto matmul = opened.lt->matmul(problem);
        REQUIRE_MESSAGE(matmul.ok(), matmul.error().to_string());
        CHECK(opened.fake.requested == 8);
        CHECK(opened.fake.workspace == kCublasLtWorkspace);
        REQUIRE(matmul->algorithms() == 2);  // the second of three has failed
        Matrix x(input, problem.m * problem.k), w(input, problem.n * problem.k);
        for (int64_t i = 0; i < problem.m * problem.k; ++i) x.set(i, x_value(i));
        for (int64_t i = 0; i < problem.n * problem.k; ++i) w.set(i, w_value(i));
        Matrix workspace(DType::u8, 1);
        int stream = 0;
        for (size_t algorithm = 0; algorithm < 2; ++algorithm) {
          Matrix y(output_of(input), problem.m * problem.n);
          for (int64_t i = 0; i < problem.m * problem.n; ++i) y.set(i, 99);  // beta is 0
          const Status status = matmul->run(algorithm, &stream, x.data(), w.data(), y.data(), workspace.data());
          REQUIRE_MESSAGE(status.ok(), status.error().to_string());
          CHECK(opened.fake.stream == &stream);
          CHECK(opened.fake.algorithm == (algorithm == 0 ? 100 : 102));
          for (int64_t m = 0; m < problem.m; ++m)
            for (int64_t n = 0; n < problem.n; ++n) {
              double want = 0;
              for (int64_t k = 0; k < problem.k; ++k) want += x_value(m * problem.k + k) * w_value(n * problem.k + k);
              REQUIRE(y.get(m * problem.n + n) == want);
            }
        }
      }
      opened.lt.reset();
      CHECK(opened.fake.alive == 0);
      CHECK(opened.fake.refused.empty());
    }
}

TEST_CASE("every call that fails is an error that says which, and leaves nothing behind") {
  for (const char* entry :
       {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate",
        "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulAlgoGetHeuristic"}) {
    CAPTURE(entry);
    for (const int code : {14, 1, 15}) {
      Opened opened;
      opened.fake.fail = entry;
      opened.fake.fail_code = code;
      const auto matmul = opened.lt->matmul({4, 16, 16, DType::bf16});
      REQUIRE(!matmul.ok());
      CHECK(matmul.error().code == (code == 14 ? ErrorCode::Io : ErrorCode::Unsupported));
      CHECK(matmul.error().where == "cublasLt");
      const bool is_search = std::string(entry) == "cublasLtMatmulAlgoGetHeuristic";
      const std::string what = is_search ? "algorithms for bf16 [4, 16] x [16, 16]" : entry;
      CHECK(matmul.error().message.find(what) == 0);
      CHECK(matmul.error().message.find("(" + std::to_string(code) + ")") != std::string::npos);
      CHECK(!matmul.error().help.empty());
      opened.lt.reset();
      CHECK(opened.fake.alive == 0);
    }
  }
  Opened opened;
  auto matmul = opened.lt->matmul({4, 16, 16, DType::bf16});
  REQUIRE(matmul.ok());
  opened.fake.fail = "cublasLtMatmul";
  Matrix m(DType::bf16, 256);
  const Status status = matmul->run(0, nullptr, m.data(), m.data(), m.data(), m.data());
  REQUIRE(!status.ok());
  CHECK(status.error().message == "cublasLtMatmul: an internal error (14)");
}

TEST_CASE("a problem that no algorithm serves is unsupported") {
  Opened opened;
  opened.fake.offered = 0;
  const auto matmul = opened.lt->matmul({4, 16, 16, DType::i8});
  REQUIRE(!matmul.ok());
  CHECK(matmul.error().code == ErrorCode::Unsupported);
  CHECK(matmul.error().help == "cuBLASLt 13.2.5 does not multiply this on this device");
}

TEST_CASE("what the caller may not ask for is an error") {
  Opened opened;
  CHECK(!opened.lt->matmul({4, 16, 16, DType::f64}).ok());
  CHECK(!opened.lt->matmul({0, 16, 16, DType::bf16}).ok());
  CHECK(!opened.lt->matmul({4, 16, 16, DType::bf16}, 0).ok());
  CHECK(!opened.lt->matmul({4, 16, 16, DType::u8}).ok());
  auto matmul = opened.lt->matmul({4, 16, 16, DType::bf16}, 1);
  REQUIRE(matmul.ok());
  REQUIRE(matmul->algorithms() == 1);
  Matrix m(DType::bf16, 256);
  std::byte* const p = m.data();
  CHECK(matmul->run(0, nullptr, p, p, p, p).ok());
  CHECK(!matmul->run(1, nullptr, p, p, p, p).ok());
  CHECK(!matmul->run(0, nullptr, p + 64, p, p, p).ok());
  CHECK(!matmul->run(0, nullptr, p, p + 128, p, p).ok());
  CHECK(!matmul->run(0, nullptr, p, p, p + 32, p).ok());
  CHECK(!matmul->run(0, nullptr, p, p, p, nullptr).ok());
}

TEST_CASE("without the library, the error quotes the dynamic linker; the first that can be used is taken") {
  const auto none = CublasLt::open({"/nowhere/libcublasLt.so.13", "/nowhere/libcublasLt.so.12"});
  REQUIRE(!none.ok());
  CHECK(none.error().code == ErrorCode::Unsupported);
  CHECK(none.error().message.find("there is no cuBLASLt here: /nowhere/libcublasLt.so.13: cannot open") == 0);
  CHECK(none.error().help.find("LD_LIBRARY_PATH") != std::string::npos);
  const auto other = CublasLt::open({"/nowhere/libcublasLt.so.13", "libm.so.6"});
  REQUIRE(!other.ok());
  CHECK(other.error().message.find("has no cublasLtCreate") != std::string::npos);
  const auto found = CublasLt::open({"/nowhere/libcublasLt.so.13", "libm.so.6", fake_path()});
  REQUIRE(found.ok());
  CHECK((*found)->version() == "13.2.5");
  CHECK((*found)->path().find("/tests/fake/libcublasLt.so.13") != std::string::npos);
  const auto loaded = CublasLt::load();  // dlopen finds it by name, because a library of that name is open
  REQUIRE(loaded.ok());
  CHECK((*loaded)->path() == (*found)->path());
}

// Descriptors are made without a device. So the library itself says whether it takes these types and attributes.
TEST_CASE("the installed library takes what it is given, up to the handle that wants a device") {
  std::vector<std::string> files;  // with folders: a name alone may be the stand-in, which is already loaded
  for (const std::string& folder : cuda_library_folders())
    if (!folder.empty()) files.push_back(folder + "libcublasLt.so.13");
  REQUIRE(!files.empty());
  const auto lt = CublasLt::open(files);
  if (!lt.ok()) {
    CHECK(lt.error().code == ErrorCode::Unsupported);
    MESSAGE("skipped: " << lt.error().message);
    return;
  }
  MESSAGE((*lt)->version() << " of " << (*lt)->path());
  for (const DType input : kInputs) {
    const auto matmul = (*lt)->matmul({.m = 16, .n = 64, .k = 128, .input = input});
    CAPTURE(dtype_name(input));
    if (matmul.ok()) {
      CHECK(matmul->algorithms() > 0);
      continue;
    }
    CAPTURE(matmul.error().to_string());
    CHECK(matmul.error().code == ErrorCode::Unsupported);
    const std::string& message = matmul.error().message;
    CHECK((message.find("cublasLtCreate: ") == 0 || message.find("algorithms for ") == 0));
  }
}

TEST_CASE("a problem stands beside the product of its shape that says what differs") {
  const std::pair<SampleScheme, const char*> rows[] = {
      {{Scheme::dense, DType::bf16, DType::bf16}, "bf16"},
      {{Scheme::dense, DType::f16, DType::f16}, "f16"},
      {{Scheme::dense, DType::f32, DType::f32}, "f32"},
      {{Scheme::dense, DType::f32, DType::bf16}, "f32 (dense)"},
      {{Scheme::w8, DType::bf16, DType::i8}, "bf16 (dense)"},
      {{Scheme::w4, DType::bf16, DType::i8, 128}, "bf16 (dense)"},
      {{Scheme::f8, DType::f16, DType::f8e4m3}, "f16 (dense)"},
      {{Scheme::f8, DType::f8e4m3, DType::f8e4m3}, "e4m3 (unscaled)"},
      {{Scheme::f8, DType::f8e5m2, DType::f8e4m3}, "e4m3 (unscaled)"},
      {{Scheme::nf4, DType::bf16, DType::i8, 64}, "bf16 (dense)"},
      {{Scheme::da8w8, DType::i8, DType::i8}, "s8 x s8 to s32 (unscaled)"},
      {{Scheme::da8w4, DType::i8, DType::i8, 128}, "s8 x s8 to s32 (unscaled)"},
      {{Scheme::s8s8, DType::i8, DType::i8}, "s8 x s8 to s32"},
  };
  LayerShape plain = kLlamaShapes[0];
  plain.plain = true;
  for (const auto& [scheme, name] : rows) {
    CAPTURE(scheme.label());
    const auto way = cublaslt_way(sample_problem(scheme, plain));
    REQUIRE(way);
    CHECK(way->name == name);
    CHECK(way->output == output_of(way->weight));
    CHECK(way->dequantize == (std::string(name).find("(dense)") != std::string::npos));
    const auto whole = cublaslt_way(sample_problem(scheme, kLlamaShapes[2]));
    REQUIRE(whole);
    const bool has_epilogue = scheme.scheme != Scheme::s8s8;  // of silu(gate) * up
    CHECK(whole->name == std::string(name) + (has_epilogue ? " without epilogue" : ""));
  }
  Problem problem = sample_problem(rows[0].first, plain);
  problem.segments[1].has_bias = true;
  CHECK(cublaslt_way(problem)->name == "bf16 without epilogue");
  problem.outputs.clear();
  CHECK(!cublaslt_way(problem));
}
