// safetensors: every tensor of a file that is read lies inside it.
#include "graph/read/safetensors.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto file = qcg::parse_safetensors(qcg::fuzz::text(data, size), nullptr, "fuzz");
  if (!file.ok()) return 0;
  for (const auto& [name, tensor] : file->tensors) {
    if (!tensor.in_bounds()) std::abort();
    volatile unsigned sum = 0;
    for (std::byte b : tensor.contiguous().bytes()) sum = sum + static_cast<unsigned>(b);
  }
  return 0;
}
