// The oracle's rules for losses, each from its definition.
#include <algorithm>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

using Sizes = std::vector<int64_t>;
using Doubles = std::vector<double>;

// All of them, their mean, or their sum.
Tensors reduced_losses(const RefContext& c, Doubles each, double weights) {
  const int64_t reduction = c.integer("reduction");
  if (reduction == 0) return {store_results(c.dtype(0), c.sizes(0), std::move(each))};
  const double sum = std::accumulate(each.begin(), each.end(), 0.0);
  return {make_doubles({}, {reduction == 1 ? sum / weights : sum})};
}
Tensors reduced_losses(const RefContext& c, Doubles each) {
  const auto count = static_cast<double>(each.size());
  return reduced_losses(c, std::move(each), count);
}

// One element of every tensor of the op, as they broadcast.
struct LossElement {
  double x, target, weight, of_positive;
};
double element_loss(const RefContext& c, const LossElement& v) {
  const auto named = [&](std::string_view part) { return c.node.op->name.find(part) != std::string::npos; };
  const auto flag = [&](std::string_view name) { return *c.node.arg(name).get<bool>(); };
  const double x = v.x, t = v.target, apart = std::abs(x - t);
  if (named("mse")) return apart * apart;
  if (named("smooth_l1")) {
    const double beta = c.number("beta");
    return apart < beta ? apart * apart / (2 * beta) : apart - beta / 2;
  }
  if (named("l1_loss")) return apart;
  if (named("huber")) {
    const double delta = c.number("delta");
    return apart <= delta ? apart * apart / 2 : delta * (apart - delta / 2);
  }
  if (named("soft_margin")) return std::log(1 + std::exp(-x * t));
  if (named("poisson")) {
    const double loss = flag("log_input") ? std::exp(x) - t * x : x - t * std::log(x + c.number("eps"));
    const double stirling = t > 1 && flag("full") ? t * std::log(t) - t + std::log(2 * M_PI * t) / 2 : 0;
    return loss + stirling;
  }
  if (named("kl_div")) {
    if (flag("log_target")) return std::exp(t) * (t - x);
    return (t == 0 ? 0 : t * std::log(t)) - t * x;
  }
  if (named("with_logits"))
    return v.weight * (std::log1p(std::exp(-x)) * t * v.of_positive + (1 - t) * (x + std::log1p(std::exp(-x))));
  if (named("binary_cross_entropy"))
    return -v.weight * (t * std::max(std::log(x), -100.0) + (1 - t) * std::max(std::log1p(-x), -100.0));
  if (named("hinge")) {
    const double beyond = std::max(0.0, c.number("margin") - x);
    return t == 1 ? x : t == -1 ? beyond : x + beyond;
  }
  return std::max(0.0, c.number("margin") - t * (x - v.of_positive));  // margin_ranking: x against another
}

Result<Tensors> run_loss_of_elements(const RefContext& c) {
  Sizes shape;
  const auto has = [&](std::string_view name) {
    return c.node.op->arg_index(name) >= 0 && c.node.tensor(name) != kNoValue;
  };
  constexpr std::string_view kFirst[] = {"self", "input", "input1"};
  const std::string_view first = *std::ranges::find_if(kFirst, has);
  const std::string_view second = has("input2") ? "input2" : "pos_weight";
  const std::string_view names[] = {first, "target", "weight", second};
  for (std::string_view name : names) {
    if (!has(name)) continue;
    const Sizes& own = c.tensor(name).data.shape;
    if (own.size() > shape.size()) shape.insert(shape.begin(), own.size() - shape.size(), 1);
    for (size_t i = 1; i <= own.size(); ++i)
      if (own[own.size() - i] != 1) shape[shape.size() - i] = own[own.size() - i];
  }
  std::vector<Doubles> values;
  for (std::string_view name : names)
    values.push_back(has(name) ? read_doubles(broadcast_to(c.tensor(name).data, shape))
                               : Doubles(static_cast<size_t>(count_of(shape)), 1.0));
  Doubles out;
  for (size_t i = 0; i < values[0].size(); ++i)
    out.push_back(element_loss(c, {values[0][i], values[1][i], values[2][i], values[3][i]}));
  return reduced_losses(c, std::move(out));
}

// f of the rows of two tensors.
template <class F>
Doubles of_rows(const RefContext& c, std::string_view a, std::string_view b, F&& f) {
  const Sizes both = c.broadcast_sizes(a, b);
  const Doubles x = read_doubles(broadcast_to(c.tensor(a).data, both)),
                y = read_doubles(broadcast_to(c.tensor(b).data, both));
  const auto size = static_cast<size_t>(both.back());
  Doubles out;
  for (size_t i = 0; i + size <= x.size() && size > 0; i += size)
    out.push_back(f(std::span(x).subspan(i, size), std::span(y).subspan(i, size)));
  return out;
}
using LossRow = std::span<const double>;

Result<Tensors> run_cosine(const RefContext& c) {
  const Doubles angles = of_rows(c, "input1", "input2", [](LossRow a, LossRow b) {
    double product = 0, own = 1e-12, other = 1e-12;
    for (size_t i = 0; i < a.size(); ++i) product += a[i] * b[i], own += a[i] * a[i], other += b[i] * b[i];
    return product / std::sqrt(own * other);
  });
  const Doubles target = read_doubles(c.tensor("target").data);
  Doubles out;
  for (size_t i = 0; i < std::max(angles.size(), target.size()); ++i) {
    const double angle = angles[angles.size() == 1 ? 0 : i], t = target[target.size() == 1 ? 0 : i];
    out.push_back(t == 1 ? 1 - angle : t == -1 ? std::max(0.0, angle - c.number("margin")) : 0);
  }
  return reduced_losses(c, std::move(out));
}

Result<Tensors> run_triplet(const RefContext& c) {
  const double p = c.number("p"), eps = c.number("eps");
  const auto distances = [&](std::string_view a, std::string_view b) {
    return of_rows(c, a, b, [&](LossRow x, LossRow y) {
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double apart = std::abs(x[i] - y[i] + eps);
        sum = std::isinf(p) ? std::max(sum, apart) : sum + std::pow(apart, p);
      }
      return std::isinf(p) ? sum : std::pow(sum, 1 / p);
    });
  };
  const Doubles near = distances("anchor", "positive"), far = distances("anchor", "negative"),
                between = distances("positive", "negative");
  Doubles out;
  for (size_t i = 0; i < std::max({near.size(), far.size(), between.size()}); ++i) {
    const auto at = [&](const Doubles& x) { return x[x.size() == 1 ? 0 : i]; };
    const double other = *c.node.arg("swap").get<bool>() ? std::min(at(far), at(between)) : at(far);
    out.push_back(std::max(0.0, c.number("margin") + at(near) - other));
  }
  return reduced_losses(c, std::move(out));
}

Result<Tensors> run_margins(const RefContext& c) {
  const Doubles x = read_doubles(c.tensor("self").data);
  const std::vector<int64_t> target = read_ints(c.tensor("target").data);
  const int64_t classes = c.tensor("self").data.shape.back();
  const RefValue* given = c.optional_tensor("weight");
  const Doubles weight = given ? read_doubles(given->data) : Doubles(static_cast<size_t>(classes), 1.0);
  Doubles out;
  for (size_t row = 0; row < target.size(); ++row) {
    const double* of_row = x.data() + row * static_cast<size_t>(classes);
    if (target[row] < 0 || target[row] >= classes)
      return Error::bad_input(c.node.where, "a target that is no class", "targets are numbers of classes");
    double sum = 0;
    for (int64_t i = 0; i < classes; ++i)
      if (const double within = c.number("margin") - of_row[target[row]] + of_row[i]; i != target[row] && within > 0)
        sum += std::pow(within, c.number("p")) * weight[static_cast<size_t>(target[row])];
    out.push_back(sum / static_cast<double>(classes));
  }
  return reduced_losses(c, std::move(out));
}

Result<Tensors> run_margins_of_labels(const RefContext& c) {
  const Doubles x = read_doubles(c.tensor("self").data);
  const std::vector<int64_t> target = read_ints(c.tensor("target").data);
  const auto classes = static_cast<size_t>(c.tensor("self").data.shape.back());
  Doubles out;
  for (size_t row = 0; row + classes <= x.size(); row += classes) {
    const auto first = target.begin() + static_cast<std::ptrdiff_t>(row);
    const auto last =
        std::find_if(first, first + static_cast<std::ptrdiff_t>(classes), [](int64_t t) { return t < 0; });
    double sum = 0;
    for (auto label = first; label != last; ++label)
      for (size_t i = 0; i < classes; ++i)
        if (std::find(first, last, static_cast<int64_t>(i)) == last)
          sum += std::max(0.0, 1 - x[row + static_cast<size_t>(*label)] + x[row + i]);
    out.push_back(sum / static_cast<double>(classes));
  }
  return reduced_losses(c, std::move(out));
}

// Logarithms of probabilities, [batch, classes, rest] with weights of classes and what is said of every target.
struct Classes {
  Doubles logs, weight;
  size_t count = 1, rest = 1;
  double at(size_t sample, size_t k) const { return logs[(sample / rest * count + k) * rest + sample % rest]; }
};
Classes classes_of(const RefContext& c) {
  const Sizes& shape = c.tensor("self").data.shape;
  Classes out{read_doubles(c.tensor("self").data), {}, 1, 1};
  out.count = static_cast<size_t>(shape[shape.size() > 1 ? 1 : 0]);
  for (size_t i = 2; i < shape.size(); ++i) out.rest *= static_cast<size_t>(shape[i]);
  const RefValue* weight = c.optional_tensor("weight");
  out.weight = weight ? read_doubles(weight->data) : Doubles(out.count, 1.0);
  if (c.node.op->arg_index("label_smoothing") < 0) return out;
  Doubles logs = out.logs;
  for (size_t sample = 0; sample < out.logs.size() / out.count; ++sample) {
    double most = -INFINITY, sum = 0;
    for (size_t k = 0; k < out.count; ++k) most = std::max(most, out.at(sample, k));
    for (size_t k = 0; k < out.count; ++k) sum += std::exp(out.at(sample, k) - most);
    for (size_t k = 0; k < out.count; ++k)
      logs[(sample / out.rest * out.count + k) * out.rest + sample % out.rest] -= most + std::log(sum);
  }
  out.logs = std::move(logs);
  return out;
}

Result<Tensors> run_loss_of_classes(const RefContext& c) {
  const Classes classes = classes_of(c);
  const double smoothing = c.node.op->arg_index("label_smoothing") < 0 ? 0 : c.number("label_smoothing");
  const double share = smoothing / static_cast<double>(classes.count);
  const size_t samples = classes.logs.size() / classes.count;
  Doubles out(samples);
  if (is_floating(c.tensor("target").dtype)) {
    Classes target = classes;
    target.logs = read_doubles(c.tensor("target").data);
    for (size_t i = 0; i < samples; ++i)
      for (size_t k = 0; k < classes.count; ++k)
        out[i] -= classes.at(i, k) * classes.weight[k] * (target.at(i, k) * (1 - smoothing) + share);
    return reduced_losses(c, std::move(out));
  }
  const std::vector<int64_t> target = read_ints(c.tensor("target").data);
  double weights = 0;
  for (size_t i = 0; i < samples; ++i) {
    if (target[i] == c.integer("ignore_index")) continue;
    if (target[i] < 0 || target[i] >= static_cast<int64_t>(classes.count))
      return Error::bad_input(c.node.where, "a target that is no class", "targets are numbers of classes");
    const auto own = static_cast<size_t>(target[i]);
    weights += classes.weight[own];
    out[i] = -classes.at(i, own) * classes.weight[own] * (1 - smoothing);
    for (size_t k = 0; k < classes.count; ++k) out[i] -= share * classes.at(i, k) * classes.weight[k];
  }
  return reduced_losses(c, std::move(out), weights);
}

constexpr RefRow kLossRules[] = {
    {"aten.mse_loss.default", run_loss_of_elements},
    {"aten.l1_loss.default", run_loss_of_elements},
    {"aten.smooth_l1_loss.default", run_loss_of_elements},
    {"aten.huber_loss.default", run_loss_of_elements},
    {"aten.soft_margin_loss.default", run_loss_of_elements},
    {"aten.poisson_nll_loss.default", run_loss_of_elements},
    {"aten.kl_div.default", run_loss_of_elements},
    {"aten.binary_cross_entropy.default", run_loss_of_elements},
    {"aten.binary_cross_entropy_with_logits.default", run_loss_of_elements},
    {"aten.margin_ranking_loss.default", run_loss_of_elements},
    {"aten.hinge_embedding_loss.default", run_loss_of_elements},
    {"aten.cosine_embedding_loss.default", run_cosine},
    {"aten.triplet_margin_loss.default", run_triplet},
    {"aten.multi_margin_loss.default", run_margins},
    {"aten.multilabel_margin_loss.default", run_margins_of_labels},
    {"aten.nll_loss.default", run_loss_of_classes},
    {"aten.nll_loss_nd.default", run_loss_of_classes},
    {"aten.nll_loss2d.default", run_loss_of_classes},
    {"aten.cross_entropy_loss.default", run_loss_of_classes},
};

}  // namespace

std::span<const RefRow> reference_losses() { return kLossRules; }

}  // namespace qcg
