#include "graph/read/weights.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "graph/read/files/json.h"
#include "graph/read/safetensors.h"

namespace qcg {
namespace {

constexpr std::string_view kRandom = "random:";
constexpr size_t kListed = 10;

// Levenshtein distance, given up beyond limit: what is further from the diagonal is not computed.
size_t distance(std::string_view a, std::string_view b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return limit + 1;
  std::vector<size_t> row(b.size() + 1, limit + 1);
  for (size_t j = 0; j <= std::min(b.size(), limit); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    const size_t first = i > limit ? i - limit : 0, last = std::min(b.size(), i + limit);
    size_t diagonal = first > 0 ? row[first - 1] : 0, left = limit + 1, best = limit + 1;
    for (size_t j = first; j <= last; ++j) {
      const size_t up = row[j], changed = j == 0 ? i : diagonal + (a[i - 1] != b[j - 1]);
      diagonal = up;
      row[j] = left = std::min({left + 1, up + 1, changed, limit + 1});
      best = std::min(best, left);
    }
    if (best > limit) return limit + 1;
  }
  return row[b.size()];
}

// The name a user may have meant: one with the same end ("model." in front is the usual difference), or a typo away.
std::optional<std::string> nearest(const std::string& wanted, const Safetensors& file) {
  constexpr size_t kCandidates = 5000;
  for (const auto& [name, tensor] : file.tensors) {
    if (name.ends_with("." + wanted) || wanted.ends_with("." + name)) return name;
  }
  std::optional<std::string> best;
  size_t limit = std::min<size_t>(6, wanted.size() / 3), seen = 0;
  for (const auto& [name, tensor] : file.tensors) {
    if (++seen > kCandidates || wanted.size() > 256) break;
    size_t d = distance(wanted, name, limit);
    if (d > limit) continue;
    best = name;
    limit = d;
  }
  return best;
}

// How many weights of the graph the file holds; they are the graph's afterwards.
Result<size_t> bind_from(Graph& graph, const WeightNames& names, const Safetensors& file, const std::string& source) {
  size_t bound = 0;
  for (const auto& [name, id] : names) {
    auto found = file.tensors.find(name);
    if (found == file.tensors.end()) continue;
    Value& value = graph.value(id);
    const Tensor& tensor = found->second;
    if (tensor.dtype != value.dtype || tensor.shape != value.data.shape) {
      return Error::bad_input(source + ": " + quote(name),
                              "the file holds " + describe(tensor) + ", the graph declares " + describe(value.data),
                              "give the checkpoint that belongs to this graph; quantize before exporting, not after");
    }
    value.data = tensor;
    ++bound;
  }
  return bound;
}

Error missing_error(const std::vector<std::string>& missing, const Safetensors& last, const std::string& sources) {
  std::string text = std::to_string(missing.size()) + " weights of the graph are missing:";
  if (missing.size() == 1) text = "a weight of the graph is missing:";
  for (size_t i = 0; i < std::min(missing.size(), kListed); ++i) {
    text += "\n  " + quote(missing[i]);
    if (auto near = nearest(missing[i], last)) text += "   (the file has " + quote(*near) + ")";
  }
  if (missing.size() > kListed) text += "\n  and " + std::to_string(missing.size() - kListed) + " more";
  return Error::bad_input(sources, text,
                          "give all files with --weights, or `--weights random:1` if only shapes matter");
}

}  // namespace

std::string describe(const Tensor& tensor) {
  return std::string(dtype_name(tensor.dtype)) + to_string(Shape(tensor.shape.begin(), tensor.shape.end()));
}

WeightNames weight_names(const Graph& graph) {
  WeightNames names;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (graph.value(id).kind == ValueKind::parameter) names.emplace(graph.value(id).name, id);
  }
  for (size_t i = 0; i < graph.states.size(); ++i) names.emplace(graph.states[i], graph.state_input(i));
  return names;
}

Status bind_weights(Graph& graph, const WeightNames& names, const std::vector<std::string>& sources,
                    std::vector<std::string>& files) {
  std::optional<uint64_t> seed;
  Safetensors last;
  std::string all, useless;
  for (const std::string& source : sources) {
    all += (all.empty() ? "" : ", ") + source;
    if (source.starts_with(kRandom)) {
      uint64_t value = 0;
      auto [end, error] = std::from_chars(source.data() + kRandom.size(), source.data() + source.size(), value);
      if (error != std::errc() || end != source.data() + source.size()) {
        return Error{ErrorCode::Usage, source, "the seed of random weights is not a number",
                     "write random:SEED, as in random:1"};
      }
      seed = value;
      continue;
    }
    QCG_TRY(file, read_safetensors(source));
    QCG_TRY(bound, bind_from(graph, names, file, source));
    if (bound == 0) useless = source;
    files.insert(files.end(), file.files.begin(), file.files.end());
    last = std::move(file);
  }
  if (seed) return bind_random_weights(graph, names, *seed);
  std::vector<std::string> missing;
  for (const auto& [name, id] : names) {
    if (!graph.value(id).data.bound()) missing.push_back(name);
  }
  if (!missing.empty()) return missing_error(missing, last, all);
  if (!useless.empty() && !names.empty())
    return Error::bad_input(useless, "none of its tensors has the name of a weight of the graph",
                            "rename the tensors (the graph has " + quote(names.begin()->first) +
                                "), or leave the file out: the graph has all its weights");
  return {};
}

}  // namespace qcg
