// The template engine: a subset of Jinja that prints C++ and CUDA.
//
// Why here: templates/ holds how a kernel looks; C++ computes every number first, so templates only loop, branch and
// substitute. Written for us rather than linked because it has to be strict (an undefined name is an error, not an
// empty string), has to say where, and must not meet C++ or PTX braces: a tag is `<% ... %>`, an expression
// `<$ ... $>`, a comment `<# ... #>`.
//
// Meaning is that of jinja2 with StrictUndefined, trim_blocks, lstrip_blocks and keep_trailing_newline, and is tested
// against it:
//   statements  for/else (unpacking, `if` filter, loop.*), if/elif/else, set (also block and namespace attribute),
//               macro, include, import/from-import, raw; `-` and `+` whitespace control
//   operators   or and not == != < <= > >= in `not in` + - * // % ~ `a if c else b` . [] ()
//   filters     join length default indent: those that templates use
//   functions   range namespace, and on dicts items() keys() values() get()
// Refused on purpose: tests (`x is odd`), `/`, `**` and arithmetic on doubles (compute it in C++), integers beyond 64
// bits, slices, block inheritance, and printing what has no text of its own (a macro, a namespace, a list that holds an
// undefined value).
//
//   TemplateEngine engine([](std::string_view name) { return read_template(name); });
//   QCG_TRY(source, engine.render("cpu/gemm.cpp.j2", TemplateValue::dict({{"mr", 8}, {"nr", 16}})));
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/template_engine/value.h"

namespace qcg {

namespace tpl {
struct Template;
using Words = std::set<std::string, std::less<>>;
}  // namespace tpl

using TemplateLoader = std::function<Result<std::string>(std::string_view name)>;

// Bounds on one render; passing one is an error whose message starts with "limit: ".
struct TemplateLimits {
  std::size_t max_output = 16u << 20;  // bytes of any text made on the way
  std::size_t max_steps = 10'000'000;  // expressions and statements evaluated, plus one per 32 bytes made
  int max_depth = 600;                 // nested evaluations; a macro call or an include costs about four
};

// Errors have code BadInput, `where` = "name:line:column", and a message that starts with its kind (`syntax: `,
// `undefined: `, `type: `, `missing: `, `limit: `), followed by the source line and a caret.
class TemplateEngine {
 public:
  explicit TemplateEngine(TemplateLoader loader, TemplateLimits limits = {});

  // Renders the named template with the entries of the dict `context`. A name is loaded and parsed once. Safe to call
  // from several threads.
  Result<std::string> render(std::string_view name, const TemplateValue& context);

  // Keys of the context, and of dicts in it, that none of the templates names, nor what they include.
  Result<std::set<std::string>> unread_keys(std::span<const std::string_view> names, const TemplateValue& context);

 private:
  std::shared_ptr<const tpl::Template> load(std::string_view name);
  std::shared_ptr<const tpl::Words> words_of(std::string_view name);  // of the template and of what it includes

  TemplateLoader loader_;
  TemplateLimits limits_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const tpl::Template>, std::less<>> parsed_;
  std::map<std::string, std::shared_ptr<const tpl::Words>, std::less<>> words_;
};

// Renders a text that includes nothing.
Result<std::string> render_string(std::string_view text, const TemplateValue& context,
                                  std::string_view name = "<string>", TemplateLimits limits = {});

}  // namespace qcg
