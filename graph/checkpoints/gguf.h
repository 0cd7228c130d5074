// GGUF: the file of llama.cpp, weights with their names and the model's numbers.
//
// Why here: its tensors are quantized in blocks, one type each (gguf_types.h), have names of their own (gguf_names.h),
// and the rows of Llama's queries and keys in another order.
//
//   QCG_TRY(checkpoint, open_gguf("llama-3-8b-Q4_K_M.gguf"));     // names are those of Hugging Face
#pragma once

#include <string>
#include <string_view>

#include "graph/checkpoints/checkpoint.h"

namespace qcg {

bool is_gguf(std::string_view bytes);

// The files of the model: the given one alone, or all parts where gguf-split cut the model and the given one is a part.
Result<std::vector<std::string>> gguf_files(const std::string& path);

// Reads all of gguf_files(). Error BadInput: a file is damaged or missing. Unsupported: an architecture whose names and
// order of rows are not known. What a tensor's type cannot be is an error only when the tensor is asked for.
Result<Checkpoint> open_gguf(const std::string& path);

}  // namespace qcg
