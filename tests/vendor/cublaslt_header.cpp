// The numbers of codegen/vendor/cublaslt_api.h against NVIDIA's headers. Compiled where these are installed.
#include <cublasLt.h>
#include <doctest/doctest.h>

#include <type_traits>

#include "codegen/vendor/cublaslt_api.h"

using namespace qcg;

TEST_CASE("the interface of cuBLASLt is that of its header") {
  CHECK(lt::kSuccess == CUBLAS_STATUS_SUCCESS);
  CHECK(lt::kNotInitialized == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(lt::kArchMismatch == CUBLAS_STATUS_ARCH_MISMATCH);
  CHECK(lt::kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(lt::kR32F == CUDA_R_32F);
  CHECK(lt::kR16F == CUDA_R_16F);
  CHECK(lt::kR16BF == CUDA_R_16BF);
  CHECK(lt::kR8F_E4M3 == CUDA_R_8F_E4M3);
  CHECK(lt::kR8I == CUDA_R_8I);
  CHECK(lt::kR32I == CUDA_R_32I);
  CHECK(lt::kCompute32F == CUBLAS_COMPUTE_32F);
  CHECK(lt::kCompute32I == CUBLAS_COMPUTE_32I);
  CHECK(lt::kOpN == CUBLAS_OP_N);
  CHECK(lt::kOpT == CUBLAS_OP_T);
  CHECK(lt::kDescTransA == CUBLASLT_MATMUL_DESC_TRANSA);
  CHECK(lt::kDescTransB == CUBLASLT_MATMUL_DESC_TRANSB);
  CHECK(lt::kPreferenceMaxWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);

  CHECK(sizeof(lt::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
  CHECK(sizeof(lt::HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
  CHECK(offsetof(lt::HeuristicResult, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
  CHECK(offsetof(lt::HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

  // Entry points take as many arguments, of the same sizes.
  CHECK(std::is_same_v<lt::GetVersion, decltype(cublasLtGetVersion)>);
  static_assert(requires(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t layout,
                         cublasLtMatmulPreference_t preference, cublasLtMatmulHeuristicResult_t * results,
                         const cublasLtMatmulAlgo_t* algorithm, const void* in, void* out, cudaStream_t stream) {
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, in, sizeof(int32_t));
    cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, uint64_t{1}, uint64_t{1}, int64_t{1});
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, in, sizeof(uint64_t));
    cublasLtMatmulAlgoGetHeuristic(handle, desc, layout, layout, layout, layout, preference, 8, results,
                                   static_cast<int*>(out));
    cublasLtMatmul(handle, desc, in, in, layout, in, layout, in, in, layout, out, layout, algorithm, out, size_t{1},
                   stream);
  });
}
