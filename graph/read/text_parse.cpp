// The reading half of the IR text form. The text may be hostile: every size is bounded and nothing recurses but
// Expr::parse, which counts its depth. What is well-formed but wrong (shapes, dtypes, order) is the verifier's
// business.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "graph/ir/graph.h"
#include "graph/ops/op_names.h"
#include "graph/ops/op_table.h"
#include "graph/read/text.h"
#include "graph/read/text_scanner.h"

namespace qcg {
namespace {

class Parser : private TextScanner {
 public:
  explicit Parser(std::string_view text) : TextScanner(text) {}

  Result<Graph> parse() {
    while (true) {
      std::string_view word = take_word();
      if (word == "symbol") {
        QCG_CHECK(parse_symbol());
      } else if (word == "check") {
        QCG_CHECK(parse_condition());
      } else if (word == "param") {
        QCG_CHECK(parse_parameter());
      } else if (word == "state") {
        QCG_CHECK(parse_state());
      } else if (word == "graph") {
        break;
      } else {
        return fail("expected symbol, check, param, state or graph");
      }
    }
    if (peek('"')) {
      QCG_TRY(name, parse_string());
      graph_.name = name;
    }
    QCG_CHECK(parse_inputs());
    QCG_CHECK(expect('{'));
    QCG_CHECK(parse_nodes());
    QCG_CHECK(parse_next());
    QCG_CHECK(expect('}'));
    skip_space();
    if (at_ != text_.size()) return fail("expected the end of the text");
    return std::move(graph_);
  }

 private:
  // symbol s0 in [1, 4096]
  Status parse_symbol() {
    Symbol symbol;
    symbol.name = take_word();
    if (symbol.name.empty()) return fail("expected the name of the symbol");
    if (take_word() != "in") return fail("expected 'in'");
    QCG_CHECK(expect('['));
    QCG_TRY(min, parse_integer());
    QCG_CHECK(expect(','));
    symbol.min = min;
    if (take_word_if("inf")) {
      symbol.max = INT64_MAX;
    } else {
      QCG_TRY(max, parse_integer());
      symbol.max = max;
    }
    graph_.symbols.push_back(std::move(symbol));
    return expect(']');
  }

  // check at_least_0(12-s0-s1) "x.shape[1] + start <= 12"
  Status parse_condition() {
    constexpr SizeCondition::Says kAll[] = {SizeCondition::Says::zero, SizeCondition::Says::not_zero,
                                            SizeCondition::Says::at_least_0};
    const auto says = std::ranges::find(kAll, take_word(), name_of);
    if (says == std::end(kAll)) return fail("expected zero, not_zero or at_least_0");
    QCG_CHECK(expect('('));
    QCG_TRY(difference, parse_dim());
    QCG_CHECK(expect(')'));
    QCG_TRY(text, parse_string());
    graph_.conditions.push_back({*says, std::move(difference), std::move(text)});
    return {};
  }

  // param @q_proj.weight: i8[704, 256] strides [1, 704]
  Status parse_parameter() {
    if (!peek('@')) return fail("expected @ and the name of the parameter");
    QCG_TRY(name, parse_name());
    QCG_CHECK(expect(':'));
    QCG_TRY(type, parse_type());
    Tensor data;
    data.dtype = type.dtype;
    QCG_TRY(sizes, constants(type.shape));
    data.shape = sizes;
    data.strides = Tensor::row_major_strides(data.shape);
    if (take_word_if("strides")) {
      QCG_TRY(dims, parse_dims());
      QCG_TRY(strides, constants(dims));
      if (strides.size() != data.shape.size()) return fail("expected one stride per axis");
      data.strides = strides;
    }
    return define("@" + name, graph_.add_parameter(name, std::move(data)));
  }

  // state %cache as "model.cache": f32[1, 8]; its value is 0 where no weights are given
  Status parse_state() {
    if (!peek('%')) return fail("expected % and the name of the state");
    QCG_TRY(name, parse_name());
    std::string state = name;
    if (take_word_if("as")) {
      QCG_TRY(quoted, parse_string());
      state = quoted;
    }
    QCG_CHECK(expect(':'));
    QCG_TRY(type, parse_type());
    QCG_TRY(sizes, constants(type.shape));
    return define("%" + name, graph_.add_state(std::move(state), name, Tensor::same_zeros(type.dtype, sizes)));
  }

  // next %cache = %written, once for every state
  Status parse_next() {
    std::unordered_map<ValueId, ValueId> next;
    while (take_word_if("next")) {
      QCG_TRY(before, parse_ref());
      QCG_CHECK(expect('='));
      QCG_TRY(after, parse_ref());
      if (!next.emplace(before, after).second) return fail("the state has a next value already");
    }
    for (size_t i = 0; i < graph_.states.size(); ++i) {
      const auto after = next.find(graph_.state_input(i));
      if (after == next.end())
        return fail(fmt::format("the state '{}' has no next value", graph_.states[i].substr(0, 80)));
      graph_.outputs.push_back(after->second);
      graph_.output_names.push_back(graph_.states[i]);
    }
    if (next.size() != graph_.states.size()) return fail("what has a next value is no state");
    return {};
  }

  Result<std::vector<int64_t>> constants(const Shape& dims) {
    std::vector<int64_t> sizes;
    for (const Dim& d : dims) {
      if (!d.is_constant() || d.constant() < 0) return fail("parameters and states have constant sizes");
      sizes.push_back(d.constant());
    }
    return sizes;
  }

  Status parse_inputs() {
    QCG_CHECK(expect('('));
    if (take(')')) return {};
    do {
      if (!peek('%')) return fail("expected % and the name of an input");
      QCG_TRY(name, parse_name());
      QCG_CHECK(expect(':'));
      QCG_TRY(type, parse_type());
      const ValueId id = graph_.add_input(name, type.dtype, std::move(type.shape));
      QCG_CHECK(define("%" + name, id));
      if (!take('=')) continue;
      graph_.value(id).symbol = take_word();
      if (graph_.value(id).symbol.empty()) return fail("expected the symbol whose value the input is");
    } while (take(','));
    return expect(')');
  }

  Status parse_nodes() {
    while (!take_word_if("return")) QCG_CHECK(parse_node());
    if (!peek('%') && !peek('@')) return {};
    do {
      QCG_TRY(id, parse_ref());
      std::string name = graph_.value(id).name;
      if (take_word_if("as")) {
        QCG_TRY(quoted, parse_string());
        name = quoted;
      }
      graph_.outputs.push_back(id);
      graph_.output_names.push_back(std::move(name));
    } while (take(','));
    return {};
  }

  // %a, %b = op(arguments) : f32[2], i32[2]
  Status parse_node() {
    std::vector<Value> outputs;
    size_t begin = at_;
    if (peek('%')) {
      do {
        if (!peek('%')) return fail("expected % and the name of a value");
        QCG_TRY(name, parse_name());
        outputs.emplace_back().name = name;
      } while (take(','));
      QCG_CHECK(expect('='));
    }
    std::string_view op_name = take_word();
    const OpSchema* op = find_op(op_name);
    if (!op) return fail(fmt::format("unknown op '{}'{}", op_name.substr(0, 80), similar_op(op_name)));
    QCG_TRY(args, parse_args(*op));
    for (size_t i = 0; i < outputs.size(); ++i) {
      QCG_CHECK(expect(i ? ',' : ':'));
      QCG_TRY(type, parse_type());
      outputs[i].dtype = type.dtype;
      outputs[i].shape = std::move(type.shape);
    }
    NodeId id = graph_.add_node(op, std::move(args), std::move(outputs));
    Node& node = graph_.nodes[id];
    node.where = place(skipped(begin));
    for (ValueId output : node.outputs) {
      node.origins.push_back(graph_.value(output).name);
      QCG_CHECK(define("%" + graph_.value(output).name, output));
    }
    return {};
  }

  Result<std::vector<Arg>> parse_args(const OpSchema& op) {
    QCG_CHECK(expect('('));
    std::vector<Arg> args(op.args.size());
    std::vector<bool> given(op.args.size());
    bool positional = true;
    size_t next = 0;
    while (!take(')')) {
      if (next > 0 || !positional) QCG_CHECK(expect(','));
      size_t index = next;
      size_t word_at = at_;
      std::string_view word = take_word();
      if (!word.empty() && take('=')) {
        positional = false;
        int found = op.arg_index(word);
        if (found < 0) return fail(fmt::format("{} has no argument '{}'", op.name, word.substr(0, 40)));
        index = static_cast<size_t>(found);
      } else {
        at_ = word_at;
        if (!positional) return fail("arguments without a name come first");
        if (index >= op.args.size() || op.args[index].keyword_only)
          return fail(fmt::format("too many arguments for {}", op.name));
        ++next;
      }
      if (given[index]) return fail(fmt::format("argument '{}' is given twice", op.args[index].name));
      given[index] = true;
      QCG_TRY(arg, parse_arg(op.args[index]));
      args[index] = std::move(arg);
    }
    for (size_t i = 0; i < args.size(); ++i) {
      if (given[i]) continue;
      const ArgSpec& spec = op.args[i];
      if (spec.has_default) args[i] = default_arg(spec);
      else if (!may_be_none(spec.kind)) return fail(fmt::format("{} needs argument '{}'", op.name, spec.name));
    }
    return args;
  }

  Result<Arg> parse_arg(const ArgSpec& spec) {
    if (take_word_if("none")) {
      if (!may_be_none(spec.kind)) return fail(fmt::format("argument '{}' may not be none", spec.name));
      return Arg();
    }
    switch (spec.kind) {
      case ArgKind::tensor:
      case ArgKind::optional_tensor: return parse_ref();
      case ArgKind::tensors:
      case ArgKind::optional_tensors: return parse_refs(spec.kind == ArgKind::optional_tensors);
      case ArgKind::tensor_or_scalar: return peek('%') || peek('@') ? parse_ref() : parse_scalar();
      case ArgKind::integer:
      case ArgKind::optional_integer: return parse_dim();
      case ArgKind::integers:
      case ArgKind::optional_integers: return parse_dims();
      case ArgKind::real:
      case ArgKind::optional_real: return parse_double(take_word());
      case ArgKind::reals:
      case ArgKind::optional_reals: return parse_doubles();
      case ArgKind::boolean:
      case ArgKind::optional_boolean: return parse_bool();
      case ArgKind::string:
      case ArgKind::optional_string: return parse_string();
      case ArgKind::dtype:
      case ArgKind::optional_dtype: return parse_dtype();
      case ArgKind::scalar:
      case ArgKind::optional_scalar: return parse_scalar();
      case ArgKind::exprs: return parse_exprs();
      case ArgKind::ignored: break;
    }
    return fail(fmt::format("argument '{}' has no meaning here; leave it out", spec.name));
  }

  Result<Arg> parse_scalar() {
    size_t begin = at_;
    std::string_view word = take_word();
    if (word == "true" || word == "false") return Arg(word == "true");
    bool number = !word.empty() && (word[0] == '-' || (word[0] >= '0' && word[0] <= '9'));
    bool named = word == "inf" || word == "-inf" || word == "nan" || word == "-nan";
    if (named || (number && word.find_first_of(".e") != std::string_view::npos)) return parse_double(word);
    at_ = begin;
    return parse_dim();
  }

  Result<ValueId> parse_ref() {
    if (!peek('%') && !peek('@')) return fail("expected %name or @name");
    std::string sigil(1, text_[at_]);
    size_t begin = at_;
    QCG_TRY(name, parse_name());
    auto it = values_.find(sigil + name);
    if (it == values_.end()) {
      at_ = begin;
      return fail(fmt::format("{}{} is not defined above", sigil, name.substr(0, 80)));
    }
    return it->second;
  }

  Result<std::vector<ValueId>> parse_refs(bool optional) {
    std::vector<ValueId> ids;
    QCG_CHECK(expect('['));
    if (take(']')) return ids;
    do {
      if (optional && take_word_if("none")) {
        ids.push_back(kNoValue);
        continue;
      }
      QCG_TRY(id, parse_ref());
      ids.push_back(id);
    } while (take(','));
    QCG_CHECK(expect(']'));
    return ids;
  }

  Status define(const std::string& key, ValueId id) {
    // %x and @x print differently but share one name space: names of values are unique.
    std::string other = (key[0] == '%' ? "@" : "%") + key.substr(1);
    if (values_.contains(other) || !values_.emplace(key, id).second)
      return fail(fmt::format("{} is defined twice", key.substr(0, 80)));
    return {};
  }

  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text) { return Parser(text).parse(); }

}  // namespace qcg
