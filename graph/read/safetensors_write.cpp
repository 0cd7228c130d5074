#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/output_file.h"
#include "graph/read/files/json.h"
#include "graph/read/safetensors.h"

namespace qcg {
namespace {

Result<std::string> make_header(const std::vector<std::pair<std::string, Tensor>>& tensors) {
  // ordered: the data follows in the caller's order, and so should the names in the file.
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    if (header.contains(name))
      return Error::bad_input(name, "two tensors to be written share this name", "rename one of them");
    if (!tensor.bound())
      return Error::bad_input(name, "the tensor to be written has no data", "bind its weights first");
    uint64_t end = at + static_cast<uint64_t>(tensor.numel()) * dtype_bytes(tensor.dtype);
    header[name] = {{"dtype", std::string(dtype_info(tensor.dtype).safetensors)},
                    {"shape", tensor.shape},
                    {"data_offsets", {at, end}}};
    at = end;
  }
  // replace: names come from graphs and are UTF-8, but a caller's mistake must not throw.
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that data starts aligned
  return text;
}

}  // namespace

Status write_safetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors) {
  QCG_TRY(header, make_header(tensors));
  const uint64_t length = header.size();
  return write_output(path, [&](std::FILE* file) {
    bool good = std::fwrite(&length, sizeof length, 1, file) == 1 &&
                std::fwrite(header.data(), 1, header.size(), file) == header.size();
    for (size_t i = 0; good && i < tensors.size(); ++i) {
      const Tensor dense = tensors[i].second.contiguous();
      const auto bytes = dense.bytes();
      good = bytes.empty() || std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    }
    return good;
  });
}

}  // namespace qcg
