#include "graph/read/torch/operators.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/ops/complex_pairs.h"
#include "graph/ops/op_table.h"
#include "graph/read/torch/source.h"

namespace qcg {
namespace {

constexpr size_t kListedOperators = 40;

constexpr std::string_view kSizeChecks[] = {"torch.ops.aten._assert_scalar.default",
                                            "torch.ops.aten.sym_constrain_range.default",
                                            "torch.ops.aten.sym_constrain_range_for_size.default"};
constexpr std::string_view kAutocast = "torch.ops.higher_order.wrap_with_autocast",
                           kGradMode = "torch.ops.higher_order.wrap_with_set_grad_enabled";
constexpr std::string_view kEncoderLayer = "torch.ops.aten._transformer_encoder_layer_fwd.default";
constexpr std::string_view kSymbolicPrefixes[] = {
    "_operator.", "math.", "torch.sym_", "torch._sym_sqrt", "torch.ops.aten.sym_", "torch.ops.aten.size."};

// Other names that torch exports for ops of the same arguments.
struct Synonym {
  std::string_view other, name;  // with a dot at the end: of all overloads
};
constexpr Synonym kSynonyms[] = {
    {"aten.clip.", "aten.clamp."},
    {"aten.multiply.", "aten.mul."},
    {"aten.subtract.", "aten.sub."},
    {"aten.divide.", "aten.div."},
    {"aten.negative.", "aten.neg."},
    {"aten.absolute.", "aten.abs."},
    {"aten.greater.", "aten.gt."},
    {"aten.greater_equal.", "aten.ge."},
    {"aten.less.", "aten.lt."},
    {"aten.less_equal.", "aten.le."},
    {"aten.not_equal.", "aten.ne."},
    {"aten.concatenate.", "aten.cat."},
    {"aten._unsafe_index_put.", "aten.index_put."},
    {"aten.broadcast_to.", "aten.expand."},
    {"aten.as_strided.", "aten.view."},
    {"aten.swapdims.default", "aten.transpose.int"},
    {"aten.ger.", "aten.outer."},
    {"aten.special_logsumexp.", "aten.logsumexp."},
    {"aten._is_all_true.", "aten.all."},
    {"aten._is_any_true.", "aten.any."},
    {"aten.special_gammaln.", "aten.lgamma."},
    {"aten.special_digamma.", "aten.digamma."},
    {"aten.special_psi.", "aten.digamma."},
    {"aten.special_erfinv.", "aten.erfinv."},
    {"aten.special_expit.", "aten.sigmoid."},
    {"aten.special_expm1.", "aten.expm1."},
    {"aten.special_log1p.", "aten.log1p."},
    {"aten.special_exp2.", "aten.exp2."},
    {"aten.special_erf.", "aten.erf."},
    {"aten.special_sinc.", "aten.sinc."},
    {"aten.special_logit.", "aten.logit."},
    {"aten.special_softmax.default", "aten.softmax.int"},
    {"aten.special_log_softmax.default", "aten.log_softmax.int"},
    {"aten.special_multigammaln.", "aten.mvlgamma."},
    {"aten.i0.", "aten.special_i0."},
    {"aten.special_modified_bessel_i0.", "aten.special_i0."},
    {"aten.special_modified_bessel_i1.", "aten.special_i1."},
    {"aten.special_polygamma.", "aten.polygamma."},
    {"aten.trapz.", "aten.trapezoid."},
    {"aten.linalg_matrix_power.", "aten.matrix_power."},
    {"prims.scalar_tensor.", "aten.scalar_tensor."},
    {"quant.", "torchao."},  // up to torchao 0.9
    {"torchao.choose_qparams_affine_float8.", "torchao.choose_scale_float8."},
    {"torchao.quantize_affine_float8.", "torchao.quantize_affine."},  // read_float8 reads their arguments
    {"torchao.dequantize_affine_float8.", "torchao.dequantize_affine."},
    {"aten.remainder.Scalar_Tensor", "aten.remainder.Tensor"},
    {"aten.bitwise_and.Scalar_Tensor", "aten.bitwise_and.Tensor"},
    {"aten.bitwise_or.Scalar_Tensor", "aten.bitwise_or.Tensor"},
    {"aten.bitwise_xor.Scalar_Tensor", "aten.bitwise_xor.Tensor"},
    {"aten.bitwise_left_shift.Scalar_Tensor", "aten.bitwise_left_shift.Tensor"},
    {"aten.bitwise_right_shift.Scalar_Tensor", "aten.bitwise_right_shift.Tensor"},
    {"aten.max.other", "aten.maximum.default"},
    {"aten.min.other", "aten.minimum.default"},
};

// Writing operators whose overload has another name than that of the functional one.
constexpr Synonym kWriting[] = {
    {"aten.transpose_.default", "aten.transpose.int"},
    {"aten.swapdims_.default", "aten.transpose.int"},
    {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
    {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
    {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
};
// x &= y. Their overloads are those of __and__.
constexpr std::string_view kAugmented[] = {"torch.ops.aten.__iand__.", "torch.ops.aten.__ior__.",
                                           "torch.ops.aten.__ixor__.", "torch.ops.aten.__ilshift__.",
                                           "torch.ops.aten.__irshift__."};

struct Remedy {
  std::string_view part_of_target;
  std::string_view help;
};
constexpr Remedy kRemedies[] = {
    {"access_subclass_inner_tensor",
     "the weights are tensor subclasses: call torchao.utils.unwrap_tensor_subclass(model) before torch.export.export"},
    {"aten.bincount.",
     "the length of bincount depends on the data: torch.zeros(n, dtype=x.dtype).scatter_add(0, x, torch.ones_like(x)) "
     "has n"},
    {"aten.nonzero_static.", "torch.export writes combinations so when it decomposes: save the graph before that"},
    {"higher_order.",
     "control flow and other higher-order operators are not supported: export the branch that is taken"},
};
constexpr std::string_view kWhereToLook =
    "`qcodegen list ops` shows the supported operators; exported = exported.run_decompositions() before "
    "torch.export.save may replace these by supported ones; otherwise cut the graph before them, or open an issue with "
    "`qcodegen explain --json`";

struct Missing {
  std::string target;
  size_t count = 0;
  std::string nodes;  // the path of the list that the first one is in
  size_t first = 0;
  std::string name;
  std::string source;

  std::string where() const { return nodes + "[" + std::to_string(first) + "]"; }
};
struct MissingOperators {
  std::vector<Missing> list;
  std::unordered_map<std::string_view, size_t> index;  // by target
};

std::string unquoted(std::string_view text) {
  std::string shown = quote(text);
  return shown.substr(1, shown.size() - 2);
}

std::string text_or_empty(const JsonCursor& node, std::string_view key) {
  auto field = node.find(key);
  if (!field || !field->is(JsonKind::string)) return {};
  return std::string(*field->string());
}

std::string describe(std::vector<Missing> missing) {
  std::stable_sort(missing.begin(), missing.end(),
                   [](const Missing& a, const Missing& b) { return a.count > b.count; });
  std::string text = std::to_string(missing.size()) +
                     (missing.size() == 1 ? " operator of this graph has" : " operators of this graph have") +
                     " no lowering";
  size_t width = 0;
  for (const Missing& m : missing) width = std::max(width, m.target.size());
  for (size_t i = 0; i < std::min(missing.size(), kListedOperators); ++i) {
    const Missing& m = missing[i];
    std::string count = std::to_string(m.count);
    text += "\n  " + m.target + std::string(width - m.target.size() + 2, ' ') +
            std::string(count.size() < 4 ? 4 - count.size() : 0, ' ') + count +
            (m.count == 1 ? " node    " : " nodes   ") + "first: " + m.where();
    if (!m.name.empty()) text += " (" + m.name + ")";
    if (!m.source.empty()) text += ", " + m.source;
  }
  if (missing.size() > kListedOperators)
    text += "\n  and " + std::to_string(missing.size() - kListedOperators) + " more";
  return text;
}

std::string remedies_for(const std::vector<Missing>& missing) {
  std::string help;
  for (const Remedy& remedy : kRemedies) {
    bool applies = std::any_of(missing.begin(), missing.end(), [&](const Missing& m) {
      return m.target.find(remedy.part_of_target) != std::string::npos;
    });
    // The general row about higher-order operators only where no special one spoke.
    if (applies && (remedy.part_of_target != "higher_order." || help.find("export") == std::string::npos)) {
      help += std::string(remedy.help) + "; ";
    }
  }
  return help + std::string(kWhereToLook);
}

// Calls `f` with every name that an argument holds.
template <class F>
void for_each_name_in(const JsonCursor& value, const F& f) {
  for (JsonCursor part : value) {
    if (part.is(JsonKind::array) || part.is(JsonKind::object)) for_each_name_in(part, f);
    else if (part.is(JsonKind::string) && value.is(JsonKind::object) && part.key().ends_with("name")) f(*part.string());
  }
}

Status find_missing(const JsonCursor& nodes, const std::unordered_set<size_t>& unread, MissingOperators& missing) {
  size_t position = 0;
  for (JsonCursor node : nodes) {
    QCG_TRY(target, node.string_at("target"));
    const TorchTarget kind = classify_target(target);
    if (kind == TorchTarget::region) {
      QCG_TRY(graph, graph_of_region(node));
      QCG_TRY(inner, graph.array_at("nodes"));
      QCG_CHECK(find_missing(inner, {}, missing));
    } else if (kind == TorchTarget::unsupported && !unread.contains(position)) {
      auto [it, fresh] = missing.index.try_emplace(target, missing.list.size());
      if (fresh) {
        Missing m{unquoted(target), 0, nodes.path(), position, unquoted(text_or_empty(node, "name")), {}};
        if (auto metadata = node.find("metadata"))
          m.source = source_from_stack_trace(text_or_empty(*metadata, "stack_trace"));
        missing.list.push_back(std::move(m));
      }
      ++missing.list[it->second].count;
    }
    ++position;
  }
  return {};
}

bool is_augmented(std::string_view target) {
  return std::ranges::any_of(kAugmented, [&](std::string_view name) { return target.starts_with(name); });
}

}  // namespace

bool writes_first_tensor(std::string_view target) {
  if (changes_shape_alone(target) || target.starts_with("torch.ops.aten.detach_.")) return false;
  if (is_augmented(target)) return true;
  const size_t dot = target.rfind('.');
  return dot != std::string_view::npos && dot >= 2 && target[dot - 1] == '_' && target[dot - 2] != '_';
}

bool changes_shape_alone(std::string_view target) {
  for (std::string_view name : {"unsqueeze_.", "squeeze_.", "t_.", "transpose_.", "swapdims_."})
    if (target.starts_with("torch.ops.aten." + std::string(name))) return true;
  return false;
}

const OpSchema* find_torch_op(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  if (!target.starts_with(kPrefix)) return nullptr;
  if (target == kOutDtype) return find_op("aten._int_mm.default");
  std::string name(target.substr(kPrefix.size()));
  for (const Synonym& writing : kWriting)
    if (name == writing.other) return find_op(writing.name);
  if (is_augmented(target)) name.erase(name.find("__i") + 2, 1);
  else if (writes_first_tensor(target) || changes_shape_alone(target)) name.erase(name.rfind('.') - 1, 1);
  for (const Synonym& synonym : kSynonyms)
    if (name.starts_with(synonym.other)) name.replace(0, synonym.other.size(), synonym.name);
  const OpSchema* op = find_op(name);
  return op && op->role != OpRole::internal ? op : nullptr;
}

bool is_number(const JsonCursor& argument) {
  if (!argument.is(JsonKind::object)) return false;
  return std::ranges::any_of(std::array{"as_int", "as_float", "as_sym_int", "as_sym_float"},
                             [&](const char* kind) { return argument.find(kind).has_value(); });
}

const OpSchema* reversed_op(const JsonCursor& node, const OpSchema& op) {
  std::string_view name = op.name == "aten.sub.Tensor"   ? "aten.rsub.Scalar"
                          : op.name == "aten.mul.Tensor" ? "aten.mul.Tensor"
                                                         : "";
  auto inputs = node.find("inputs");
  if (name.empty() || !inputs || !inputs->is(JsonKind::array)) return nullptr;
  for (JsonCursor input : *inputs) {
    if (!input.is(JsonKind::object) || text_or_empty(input, "name") != "self") continue;
    auto argument = input.find("arg");
    return argument && is_number(*argument) ? find_op(name) : nullptr;
  }
  return nullptr;
}

TorchTarget classify_target(std::string_view target) {
  for (std::string_view check : kSizeChecks)
    if (target == check) return TorchTarget::size_check;
  for (std::string_view prefix : kSymbolicPrefixes)
    if (target.starts_with(prefix)) return TorchTarget::symbolic;
  if (target == kAutocast || target == kGradMode) return TorchTarget::region;
  if (target == kItem || target == kScalarOf) return TorchTarget::symbolic;
  if (target == kEncoderLayer) return TorchTarget::encoder;
  if (target == kNonzero || target == kNonzeroByAxis || target == kWhere || target == kMaskedSelect)
    return TorchTarget::nonzero;
  if (is_complex_operator(target)) return TorchTarget::complex;
  return find_torch_op(target) ? TorchTarget::op : TorchTarget::unsupported;
}

Result<JsonCursor> graph_of_region(const JsonCursor& node) {
  QCG_TRY(target, node.string_at("target"));
  QCG_TRY(inputs, node.array_at("inputs"));
  size_t flags = 0;
  for (JsonCursor input : inputs) {
    QCG_TRY(argument, input.object_at("arg"));
    // (device, dtype, enabled, cache_enabled, graph, …): what is enabled converts, and no node says so.
    if (auto flag = argument.find("as_bool"); flag && target == kAutocast && flags++ == 0) {
      QCG_TRY(enabled, flag->boolean());
      if (enabled)
        return input.unsupported(
            "a region under torch.autocast",
            "export without autocast: convert the model to its dtype first "
            "(model.to(torch.bfloat16)), or save exported.run_decompositions(), which has the casts");
    }
    if (auto region = argument.find("as_graph")) {
      QCG_CHECK(region->expect(JsonKind::object));
      return region->object_at("graph");
    }
  }
  return inputs.bad("the region has no graph", "export the graph again with torch.export");
}

std::unordered_set<size_t> find_unread(const JsonCursor& nodes, const JsonCursor& outputs) {
  std::vector<std::pair<size_t, JsonCursor>> candidates;
  std::unordered_set<size_t> unread;
  size_t position = 0;
  for (JsonCursor node : nodes) {
    const auto target = node.string_at("target");
    if (target.ok() && target->starts_with("torch.ops.aten.") && !writes_first_tensor(*target) &&
        classify_target(*target) == TorchTarget::unsupported)
      candidates.emplace_back(position, node);
    ++position;
  }
  if (candidates.empty()) return unread;
  std::unordered_set<std::string_view> names;  // that something reads
  const auto add = [&](std::string_view name) { names.insert(name); };
  const auto add_inputs = [&](const JsonCursor& node) {
    if (const auto inputs = node.find("inputs")) for_each_name_in(*inputs, add);
  };
  for_each_name_in(outputs, add);
  auto next = candidates.begin();
  position = 0;
  for (JsonCursor node : nodes) {
    if (next != candidates.end() && next->first == position) ++next;
    else add_inputs(node);
    ++position;
  }
  for (const auto& [at, node] : candidates | std::views::reverse) {
    bool is_read = false, has_results = false;
    const auto look = [&](std::string_view name) { has_results = true, is_read = is_read || names.contains(name); };
    if (const auto results = node.find("outputs")) for_each_name_in(*results, look);
    if (has_results && !is_read) unread.insert(at);
    else add_inputs(node);
  }
  return unread;
}

Status check_operators(const JsonCursor& nodes, const std::unordered_set<size_t>& unread) {
  MissingOperators missing;
  QCG_CHECK(find_missing(nodes, unread, missing));
  if (missing.list.empty()) return {};
  std::string help = remedies_for(missing.list);
  std::string where = missing.list[0].where();
  return Error::unsupported(std::move(where), describe(std::move(missing.list)), std::move(help));
}

}  // namespace qcg
