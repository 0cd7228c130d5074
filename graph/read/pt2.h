// Reader of .pt2 archives (torch.export.save): the graph, and the weights of torch 2.9 and later, mapped. Weights of
// older archives are pickled, so that they have to be given beside the archive.
//
// Why here: the one file a user gets from PyTorch. Nothing in it is ever unpickled: a pickled payload is refused with
// the way to avoid it.
//
//   QCG_TRY(file, MappedFile::open("mlp.pt2"));
//   QCG_TRY(exported, read_pt2(file->text(), file, file->path()));
//   exported.graph.value(id).data.bound()     // true for every weight the archive holds
//
// A payload is a whole storage; tensors that share one name it together and stay shared here.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "graph/read/torch/export.h"

namespace qcg {

enum class MissingWeights { refuse, allow };

Result<TorchExport> read_pt2(std::string_view bytes, std::shared_ptr<const void> owner, const std::string& name,
                             MissingWeights missing = MissingWeights::refuse);

// The JSON of the graph alone, as torch.export serialized it.
Result<std::string> read_pt2_json(const std::string& path);

}  // namespace qcg
