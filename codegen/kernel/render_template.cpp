#include "codegen/kernel/render_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "codegen/kernel/embedded.h"
#include "codegen/template_engine/template_engine.h"

namespace qcg {

Result<std::string> render_template(std::string_view name, const TemplateValue& context,
                                    std::initializer_list<std::string_view> shares) {
  static TemplateEngine engine([](std::string_view file) -> Result<std::string> {
    if (auto text = embedded_file(file)) return std::string(*text);
    return Error::internal(std::string(file), "no such template");
  });
  std::vector<std::string_view> readers{name};
  readers.insert(readers.end(), shares.begin(), shares.end());
  QCG_TRY(unread, engine.unread_keys(readers, context));
  if (!unread.empty())
    return Error::internal(std::string(name), fmt::format("no template reads {}", fmt::join(unread, ", ")));
  return engine.render(name, context);
}

std::string sanitize_comment(std::string_view text) {
  std::string out;
  for (const char c : text) out += c < ' ' || c > '~' || (c == '/' && out.ends_with('*')) ? '?' : c;
  // A backslash before the newline would pull the next line of code into the comment.
  while (!out.empty() && (out.back() == '\\' || out.back() == ' ')) out.pop_back();
  return out;
}

TemplateValue comment_lines(std::string_view text) {
  std::vector<TemplateValue> lines;
  if (!text.empty()) lines.emplace_back("");
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(sanitize_comment(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return TemplateValue::from_items(std::move(lines));
}

std::string float_literal(double value) {
  const float x = static_cast<float>(value);
  if (std::isnan(x)) return "__builtin_nanf(\"\")";
  if (std::isinf(x)) return x > 0 ? "__builtin_inff()" : "-__builtin_inff()";
  std::string text = fmt::format("{}", x);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

}  // namespace qcg
