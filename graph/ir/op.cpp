#include "graph/ir/op.h"

#include <charconv>

#include "graph/ir/graph.h"

namespace qcg {
namespace {

Arg default_scalar(std::string_view text) {
  if (text == "True" || text == "False") return text == "True";
  if (text.find_first_of(".e") != std::string_view::npos) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return Dim(value);
}

// "[-2, -1]"; a number stands for as many as there are axes, as does an empty list.
std::vector<Dim> default_list(std::string_view text) {
  std::vector<Dim> list;
  while (text.size() > 2 && (text[0] == '[' || text[0] == ' ')) {
    text.remove_prefix(1);
    const size_t end = text.find_first_of(",]");
    list.push_back(*default_scalar(text.substr(0, end)).get<Dim>());
    text.remove_prefix(end + 1);
  }
  return list;
}

}  // namespace

int OpSchema::arg_index(std::string_view arg) const {
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].name == arg) return static_cast<int>(i);
  return -1;
}

bool may_be_none(ArgKind kind) {
  switch (kind) {
    case ArgKind::optional_tensor:
    case ArgKind::optional_tensors:
    case ArgKind::optional_integer:
    case ArgKind::optional_integers:
    case ArgKind::optional_real:
    case ArgKind::optional_reals:
    case ArgKind::optional_boolean:
    case ArgKind::optional_string:
    case ArgKind::optional_dtype:
    case ArgKind::optional_scalar:
    case ArgKind::ignored: return true;
    default: return false;
  }
}

Arg default_arg(const ArgSpec& spec) {
  std::string_view text = spec.default_text;
  switch (spec.kind) {
    case ArgKind::ignored: return Arg();
    case ArgKind::optional_tensor: return kNoValue;
    case ArgKind::tensors:
    case ArgKind::optional_tensors: return std::vector<ValueId>();
    case ArgKind::exprs: return std::vector<Expr>();
    default: break;
  }
  if (text == "None") return Arg();
  switch (spec.kind) {
    case ArgKind::integers:
    case ArgKind::optional_integers: return default_list(text);
    case ArgKind::string:
    case ArgKind::optional_string: return std::string(text.substr(1, text.size() - 2));
    case ArgKind::dtype:
    case ArgKind::optional_dtype: return *dtype_from_name(text);
    case ArgKind::real:
    case ArgKind::optional_real: {
      Arg number = default_scalar(text);
      const Dim* whole = number.get<Dim>();
      return whole ? Arg(static_cast<double>(whole->constant())) : number;
    }
    default: return default_scalar(text);
  }
}

}  // namespace qcg
