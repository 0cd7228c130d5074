#include "graph/checkpoints/bind.h"

#include <algorithm>
#include <set>

#include "graph/checkpoints/attach.h"
#include "graph/checkpoints/checkpoint.h"
#include "graph/ops/verify.h"
#include "graph/read/files/json.h"
#include "graph/read/weights.h"

namespace qcg {

namespace {

constexpr size_t kListed = 10;
constexpr std::string_view kRandom = "random:";

// The first names of a list, one per line.
std::string listed(const std::vector<std::string>& lines) {
  std::string out;
  for (size_t i = 0; i < std::min(lines.size(), kListed); ++i) out += "\n  " + lines[i];
  if (lines.size() > kListed) out += "\n  and " + std::to_string(lines.size() - kListed) + " more";
  return out;
}

std::string count_text(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// Tensors of a checkpoint by the names that a graph may have for them.
using Names = std::map<std::string, std::string, std::less<>>;

std::string renamed(std::string name, const WeightNaming& naming) {
  for (const auto& [from, to] : naming.renames)
    if (const size_t at = name.find(from); at != name.npos)
      name = name.substr(0, at) + to + name.substr(at + from.size());
  return name;
}

Result<Names> names_of(const Checkpoint& checkpoint, const WeightNaming& naming, const std::string& source) {
  Names out;
  std::optional<Error> collision;
  const auto add = [&](const std::string& stored) {
    const std::string name = renamed(stored, naming);
    if (!name.starts_with(naming.prefix)) return;
    const auto [known, is_new] = out.emplace(name.substr(naming.prefix.size()), stored);
    if (!is_new && known->second != stored && !collision)
      collision = Error::bad_input(
          source, "--rename makes " + quote(name) + " of two tensors:" + listed({quote(known->second), quote(stored)}),
          "give a longer OLD, which only one of them has");
  };
  for (const auto& [name, tensor] : checkpoint.tensors) add(name);
  for (const auto& [name, reader] : checkpoint.weights) add(name);
  for (const auto& [name, tensor] : checkpoint.parts) add(name);
  for (const auto& [name, reader] : checkpoint.joined) add(name);
  if (collision) return *collision;
  return out;
}

// Prefixes of names of one side, behind which there is a name of the other side.
struct Prefixes {
  size_t found = 0;               // names under each of the best ones; 0: there is none
  std::vector<std::string> best;  // those under which most are
};

template <class Map, class Others>
Prefixes find_prefixes(const Map& names, const Others& others) {
  std::map<std::string, size_t> counts;
  for (const auto& [name, value] : names)
    for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
      if (others.contains(std::string_view(name).substr(dot + 1))) ++counts[name.substr(0, dot + 1)];
  Prefixes out;
  for (const auto& [prefix, count] : counts) {
    if (count < out.found) continue;
    if (count > out.found) out.best.clear();
    out.found = count;
    out.best.push_back(prefix);
  }
  return out;
}

// Where no name fits as it is: the names behind the one prefix of graph or checkpoint under which most do.
Result<Names> settle_prefix(Names names, const WeightNames& wanted, const std::string& source, ReadInfo& info) {
  if (std::ranges::any_of(wanted, [&](const auto& want) { return names.contains(want.first); })) return names;
  const Prefixes inner = find_prefixes(names, wanted), outer = find_prefixes(wanted, names);
  const bool of_graph = outer.found > inner.found;
  const std::vector<std::string>& best = of_graph ? outer.best : inner.best;
  if (best.empty()) return names;
  if (best.size() > 1)
    return Error::bad_input(
        source,
        std::string(of_graph ? "the tensors are weights of the graph" : "the weights of the graph are found") +
            " under several prefixes:" + listed(best),
        of_graph ? "choose one with --rename OLD=NEW, so that names begin with it" : "choose one with --prefix");
  Names out;
  if (of_graph) {
    info.notes.push_back("weights of the graph under " + quote(best[0]) + " are those of the checkpoint");
    for (auto& [name, stored] : names) out.emplace(best[0] + name, stored);
    return out;
  }
  info.notes.push_back("weights are those under the prefix " + quote(best[0]) + " of the checkpoint");
  for (auto& [name, stored] : names)
    if (name.starts_with(best[0])) out.emplace(name.substr(best[0].size()), stored);
  return out;
}

bool holds_every_number(const Tensor& tensor, DType to) {
  if (!is_floating(tensor.dtype) || !is_floating(to)) return false;
  const Tensor dense = tensor.contiguous();
  const auto bytes = dense.bytes();
  const size_t width = dtype_bytes(tensor.dtype);
  for (size_t at = 0; at < bytes.size(); at += width) {
    const double value = element_to_double(tensor.dtype, bytes.data() + at);
    if (value == value && round_to_dtype(to, value) != value) return false;
  }
  return true;
}

// Whether numbers of this dtype may be codes, which mean nothing without a scale.
bool may_be_codes(DType dtype) { return !is_floating(dtype) || is_float8(dtype); }

// The tensor that seems to scale this one: its name begins alike, or it is of the same module. Empty: there is none.
std::string scale_beside(const Checkpoint& checkpoint, const std::string& stored) {
  std::string own = stored;
  for (const auto& [part, whole] : checkpoint.part_of)
    if (whole == stored) own = part;
  const std::string module = own.substr(0, own.rfind('.') + 1);
  for (const auto* tensors : {&checkpoint.tensors, &checkpoint.parts})
    for (auto it = tensors->lower_bound(module); it != tensors->end() && it->first.starts_with(module); ++it) {
      const std::string_view rest = std::string_view(it->first).substr(module.size());
      if (it->first == own || rest.find("scale") == rest.npos) continue;
      if (it->first.starts_with(own) || rest.find('.') == rest.npos) return it->first;
    }
  return "";
}

class Binder {
 public:
  Binder(UnboundGraph& source, const ReadOptions& options) : source_(source), options_(options) {}

  Status bind(const std::string& path, const Checkpoint& checkpoint) {
    info().files.insert(info().files.end(), checkpoint.files.begin(), checkpoint.files.end());
    QCG_TRY(stored_names, names_of(checkpoint, options_.naming, path));
    QCG_TRY(names, settle_prefix(std::move(stored_names), source_.weights, path, info()));
    size_t found = 0, quantized = 0;
    std::set<std::string, std::less<>> asked;  // stored names
    for (const auto& [name, id] : source_.weights) {
      const auto stored = names.find(name);
      if (stored == names.end()) {
        if (checkpoint.refused && !source_.graph.value(id).data.bound()) return *checkpoint.refused;
        continue;
      }
      ++found;
      const Tensor* plain = plain_tensor(checkpoint, stored->second, source_.graph.value(id));
      const auto joined = checkpoint.joined.find(stored->second);
      const bool is_joined = !plain && joined != checkpoint.joined.end();
      quantized += !plain && !is_joined;
      asked.insert(stored->second);
      if (!taken_.insert(id).second) continue;
      if (is_joined) {
        QCG_TRY(tensor, joined->second());
        QCG_CHECK(take_plain(name, id, tensor, checkpoint, stored->second, path));
      } else if (plain) {
        QCG_CHECK(take_plain(name, id, *plain, checkpoint, stored->second, path));
      } else {
        QCG_CHECK(take_quantized(name, id, checkpoint.weights.find(stored->second)->second, path));
      }
    }
    std::vector<std::string> unused;
    std::set<std::string, std::less<>> wholes;  // names that are not the checkpoint's own
    for (const auto& [part, whole] : checkpoint.part_of) wholes.insert(whole);
    for (const auto& [name, stored] : names) {
      const auto whole = checkpoint.part_of.find(stored);
      const bool in_whole = whole != checkpoint.part_of.end() && asked.contains(whole->second);
      const bool is_own = !checkpoint.parts.contains(stored) && !wholes.contains(stored);
      if (!source_.weights.contains(name) && is_own && !in_whole) unused.push_back(quote(stored));
    }
    unused_.insert(unused_.end(), unused.begin(), unused.end());
    if (found == 0 && checkpoint.refused) return *checkpoint.refused;
    if (found == 0)
      return Error::bad_input(path,
                              "none of its tensors has the name of a weight of the graph: the graph has " +
                                  quote(source_.weights.empty() ? "" : source_.weights.begin()->first) +
                                  ", the checkpoint" + listed(unused),
                              "give --prefix for a part of a model, or --rename OLD=NEW for names");
    if (!checkpoint.kind.empty())
      info().notes.push_back(checkpoint.kind + ": " + count_text(quantized, "quantized weight") + " and " +
                             count_text(found - quantized, "other tensor") + " of " + path);
    if (quantized > 0) info().notes.insert(info().notes.end(), checkpoint.notes.begin(), checkpoint.notes.end());
    return {};
  }

  // What random fills, where it does, is not missing.
  Status finish(const std::string& sources, bool random) {
    std::vector<std::string> missing;
    for (const auto& [name, id] : source_.weights)
      if (!random && !taken_.contains(id) && !source_.graph.value(id).data.bound()) missing.push_back(quote(name));
    if (missing.empty() && mismatched_.empty()) {
      if (!unused_.empty())
        info().notes.push_back("not in the graph: " + count_text(unused_.size(), "tensor") +
                               " of the checkpoint:" + listed(unused_));
      return {};
    }
    std::string text;
    const auto add = [&](const std::vector<std::string>& lines, const std::string& what) {
      if (!lines.empty())
        text += (text.empty() ? "" : "\n") + count_text(lines.size(), "tensor") + " " + what + listed(lines);
    };
    add(missing, "of the graph missing in the checkpoint:");
    add(mismatched_, "of another shape or dtype:");
    add(unused_, "of the checkpoint not in the graph:");
    return Error::bad_input(
        sources, text,
        "give the checkpoint that belongs to this graph, --prefix for a part of a model, or --rename "
        "OLD=NEW for names");
  }

  const std::set<ValueId>& computed() const { return computed_; }

 private:
  ReadInfo& info() { return source_.info; }

  // What is stored under this name, unless it is a part of the quantized weight that the graph declares.
  static const Tensor* plain_tensor(const Checkpoint& checkpoint, const std::string& stored, const Value& declared) {
    if (const auto found = checkpoint.tensors.find(stored); found != checkpoint.tensors.end()) return &found->second;
    const auto part = checkpoint.parts.find(stored);
    if (part == checkpoint.parts.end()) return nullptr;
    const bool is_declared = part->second.dtype == declared.dtype && part->second.shape == declared.data.shape;
    return is_declared || !checkpoint.weights.contains(stored) ? &part->second : nullptr;
  }

  Status take_plain(const std::string& name, ValueId id, const Tensor& tensor, const Checkpoint& checkpoint,
                    const std::string& stored, const std::string& path) {
    const Value& value = source_.graph.value(id);
    if (tensor.dtype != value.dtype && may_be_codes(tensor.dtype)) {
      if (checkpoint.refused) return *checkpoint.refused;
      if (is_float8(tensor.dtype)) QCG_CHECK(check_unscaled(tensor, checkpoint, stored, path));
    }
    if (tensor.shape != value.data.shape) {
      mismatched_.push_back(quote(name) + " is " + describe(tensor) + ", the graph declares " + describe(value.data));
    } else if (tensor.dtype == value.dtype) {
      source_.graph.value(id).data = tensor;
    } else if (holds_every_number(tensor, value.dtype)) {
      attach_cast(source_.graph, id, tensor);
      computed_.insert(id);
    } else {
      mismatched_.push_back(quote(name) + " is " + describe(tensor) + ", and " + std::string(dtype_name(value.dtype)) +
                            " of the graph does not hold every number of it");
    }
    return {};
  }

  // Before numbers of 8 bits become wider: they are not what the weight means if anything scales them.
  Status check_unscaled(const Tensor& tensor, const Checkpoint& checkpoint, const std::string& stored,
                        const std::string& path) {
    const std::string scale = scale_beside(checkpoint, stored), where = path + ": " + quote(stored);
    if (!scale.empty())
      return Error::unsupported(
          where, "is " + describe(tensor) + ", and how " + quote(scale) + " beside it scales it is not understood",
          "name in config.json the quant_method that wrote it, or store the weight dequantized");
    if (!checkpoint.kind.empty())
      return Error::bad_input(
          where,
          "is " + describe(tensor) + " in a checkpoint of " + checkpoint.kind + ", and no scale is stored for it",
          "the checkpoint is incomplete: download it again, or store the weight dequantized");
    info().notes.push_back(quote(stored) + " of " + path + " is " + describe(tensor) +
                           " without a scale: its numbers are taken as they are");
    return {};
  }

  Status take_quantized(const std::string& name, ValueId id, const WeightReader& reader, const std::string& path) {
    const Value& value = source_.graph.value(id);
    QCG_TRY(weight, reader());
    if (weight.shape() != value.data.shape || !is_floating(value.dtype)) {
      Tensor stored = weight.codes;
      stored.shape = weight.shape();
      mismatched_.push_back(quote(name) + " is a quantized weight " + describe(stored) + ", the graph declares " +
                            describe(value.data));
      return {};
    }
    computed_.insert(id);
    return attach_weight(source_.graph, id, weight, path);
  }

  UnboundGraph& source_;
  const ReadOptions& options_;
  std::set<ValueId> taken_;     // parameters that a source had
  std::set<ValueId> computed_;  // parameters that nodes compute now
  std::vector<std::string> mismatched_, unused_;
};

}  // namespace

Status bind_checkpoints(UnboundGraph& source, const ReadOptions& options) {
  std::vector<std::pair<std::string, Checkpoint>> checkpoints;
  std::string all;
  std::vector<std::string> random;
  for (const std::string& path : options.weights) {
    all += (all.empty() ? "" : ", ") + path;
    if (path.starts_with(kRandom)) {
      random.push_back(path);
      continue;
    }
    QCG_TRY(checkpoint, open_checkpoint(path));
    checkpoints.emplace_back(path, std::move(checkpoint));
  }
  if (checkpoints.empty()) return bind_weights(source.graph, source.weights, random, source.info.files);
  Binder binder(source, options);
  for (auto it = checkpoints.rbegin(); it != checkpoints.rend(); ++it) QCG_CHECK(binder.bind(it->first, it->second));
  QCG_CHECK(binder.finish(all, !random.empty()));
  for (ValueId id : binder.computed())
    std::erase_if(source.weights, [&](const auto& weight) { return weight.second == id; });
  if (!random.empty()) QCG_CHECK(bind_weights(source.graph, source.weights, random, source.info.files));
  return verify_graph(source.graph);
}

}  // namespace qcg
