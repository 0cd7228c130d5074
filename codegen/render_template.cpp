#include "codegen/render_template.h"

#include <fmt/format.h>

#include <cmath>

#include "codegen/embedded.h"
#include "codegen/template_engine.h"

namespace qcg {

Result<std::string> render_template(std::string_view name, const TemplateValue& context) {
  static TemplateEngine engine([](std::string_view file) -> Result<std::string> {
    if (auto text = embedded_file(file)) return std::string(*text);
    return Error::internal(std::string(file), "no such template");
  });
  return engine.render(name, context);
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
