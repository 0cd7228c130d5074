#include "codegen/template_engine/template_engine.h"

#include <algorithm>

#include "codegen/template_engine/ast.h"
#include "codegen/template_engine/render.h"

namespace qcg {

namespace tpl {
namespace {

constexpr int kMaxContextNesting = 64;
constexpr std::size_t kExcerptWidth = 110;

struct Position {
  std::size_t line = 1, column = 1, begin = 0, end = 0;  // begin and end of the line, in bytes
};

Position locate(const Source& source, std::size_t pos) {
  const std::string& text = source.text;
  pos = std::min(pos, text.size());
  Position at;
  at.line += static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(pos), '\n'));
  if (auto newline = pos == 0 ? text.npos : text.rfind('\n', pos - 1); newline != text.npos) at.begin = newline + 1;
  at.end = std::min(text.find('\n', pos), text.size());
  at.column += split_characters(std::string_view(text).substr(at.begin, pos - at.begin)).size();
  return at;
}

// The line with a caret under the place; of a long line the part around it.
std::string excerpt(const Source& source, std::size_t pos) {
  Position at = locate(source, pos);
  auto line = split_characters(std::string_view(source.text).substr(at.begin, at.end - at.begin));
  std::size_t caret = at.column - 1;
  std::size_t from = caret > kExcerptWidth / 2 && line.size() > kExcerptWidth ? caret - kExcerptWidth / 2 : 0;
  std::size_t to = std::min(line.size(), from + kExcerptWidth);
  std::string shown = "\n  | ", below = "\n  | ";
  for (std::size_t i = from; i < to; ++i) {
    bool control = line[i].size() == 1 && static_cast<unsigned char>(line[i][0]) < 32;  // a template may hold anything
    shown += control ? std::string_view(" ") : line[i];
    if (i < caret) below += ' ';
  }
  return shown + below + '^';
}

}  // namespace

std::string describe_position(const Source& source, std::size_t pos) {
  Position at = locate(source, pos);
  return source.name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
}

Failure::Failure(const char* kind, const Source& source, std::size_t pos, std::string text, std::string remedy)
    : where(describe_position(source, pos)),
      message(std::string(kind) + ": " + std::move(text) + excerpt(source, pos)),
      help(std::move(remedy)) {
  if (help.empty()) help = "correct the template at the place marked with ^";
}

Error Failure::to_error() const {
  std::string text = message;
  for (const auto& line : trace) text += "\n  " + line;
  return Error::bad_input(where, std::move(text), help);
}

}  // namespace tpl

namespace {

// The one place where the engine's exceptions end.
template <class Work>
Result<std::string> guard(std::string_view name, const TemplateValue& context, Work&& work) {
  if (context.kind() != TemplateValue::Kind::Dict && !context.is_none())
    return Error::bad_input(std::string(name), "type: the context of a template is a dict",
                            "pass TemplateValue::dict({...})");
  if (context.nesting() > tpl::kMaxContextNesting)
    return Error::bad_input(std::string(name), "limit: the context is nested too deep", "flatten it");
  try {
    return work();
  } catch (const tpl::Failure& failure) {
    return failure.to_error();
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error::bad_input(std::string(name), "limit: out of memory while rendering", "render less at once");
  }
}

}  // namespace

TemplateEngine::TemplateEngine(TemplateLoader loader, TemplateLimits limits)
    : loader_(std::move(loader)), limits_(limits) {}

// Throws the loader's Error, or a Failure of the parser.
std::shared_ptr<const tpl::Template> TemplateEngine::load(std::string_view name) {
  std::lock_guard lock(mutex_);
  if (auto found = parsed_.find(name); found != parsed_.end()) return found->second;
  Result<std::string> text = loader_(name);
  if (!text.ok()) throw text.error();
  auto parsed = std::make_shared<const tpl::Template>(tpl::parse_template(name, *text));
  parsed_.emplace(name, parsed);
  return parsed;
}

Result<std::string> TemplateEngine::render(std::string_view name, const TemplateValue& context) {
  return guard(name, context, [&] {
    auto root = load(name);
    tpl::Renderer renderer([this](std::string_view included) { return load(included); }, limits_);
    return renderer.render(*root, context);
  });
}

namespace {

// The words of a template and of what it includes.
void add_words(const tpl::Template& root, const tpl::Renderer::Load& load, tpl::Words& words, tpl::Words& seen) {
  if (!seen.insert(root.source.name).second) return;
  words.insert(root.words.begin(), root.words.end());
  for (const std::string& word : root.words)
    if (word.ends_with(".j2")) add_words(*load(word), load, words, seen);
}

using ManyWords = std::vector<std::shared_ptr<const tpl::Words>>;

void add_unread(const TemplateValue& value, const ManyWords& words, std::set<std::string>& out) {
  if (value.kind() == TemplateValue::Kind::List)
    for (const TemplateValue& item : value.items()) add_unread(item, words, out);
  if (value.kind() != TemplateValue::Kind::Dict) return;
  for (const TemplateValue::Entry& entry : value.entries()) {
    const auto has_key = [&entry](const auto& set) { return set->contains(entry.first); };
    if (std::none_of(words.begin(), words.end(), has_key)) out.insert(entry.first);
    add_unread(entry.second, words, out);
  }
}

}  // namespace

// Throws as load() does.
std::shared_ptr<const tpl::Words> TemplateEngine::words_of(std::string_view name) {
  {
    std::lock_guard lock(mutex_);
    if (auto found = words_.find(name); found != words_.end()) return found->second;
  }
  auto words = std::make_shared<tpl::Words>();
  tpl::Words seen;
  add_words(
      *load(name), [this](std::string_view included) { return load(included); }, *words, seen);
  std::lock_guard lock(mutex_);
  return words_.emplace(name, std::move(words)).first->second;
}

Result<std::set<std::string>> TemplateEngine::unread_keys(std::span<const std::string_view> names,
                                                          const TemplateValue& context) {
  std::set<std::string> out;
  const auto checked = guard(names.front(), context, [&]() -> Result<std::string> {
    ManyWords words;
    for (const std::string_view name : names) words.push_back(words_of(name));
    add_unread(context, words, out);
    return std::string();
  });
  if (!checked.ok()) return checked.error();
  return out;
}

Result<std::string> render_string(std::string_view text, const TemplateValue& context, std::string_view name,
                                  TemplateLimits limits) {
  TemplateEngine engine(
      [&](std::string_view asked) -> Result<std::string> {
        if (asked == name) return std::string(text);
        return Error::bad_input(std::string(asked), "a text rendered on its own has no other templates",
                                "render it through a TemplateEngine with a loader");
      },
      limits);
  return engine.render(name, context);
}

}  // namespace qcg
