#include "tests/cuda/ptx/parser.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace qcg::ptx {
namespace {

// Comments become spaces; lines stay lines.
std::string without_comments(std::string_view text) {
  std::string out(text);
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    if (out[i] != '/') continue;
    if (out[i + 1] == '/') {
      while (i < out.size() && out[i] != '\n') out[i++] = ' ';
    } else if (out[i + 1] == '*') {
      const size_t end = std::min(out.find("*/", i + 2), out.size() - 2);
      for (; i < end + 2; ++i)
        if (out[i] != '\n') out[i] = ' ';
    }
  }
  return out;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }

int64_t element_bytes(std::string_view type) {
  if (type == "pred") return 1;
  const size_t digits = type.find_first_of("0123456789");
  const int64_t bits = digits == type.npos ? 0 : std::strtoll(std::string(type.substr(digits)).c_str(), nullptr, 10);
  return bits / 8 * (type.ends_with("x2") ? 2 : 1);
}

struct Scope {
  int id = 0;  // 0: of the kernel
  std::map<std::string, std::string> names;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(without_comments(text)) {}

  Result<Module> run() {
    while (skip_space(), at_ < text_.size() && ok()) module_item();
    if (!ok()) return Error::bad_input(fmt::format("PTX line {}", error_line_), error_, "give PTX of CUDA 11 or later");
    return std::move(module_);
  }

 private:
  // ---- characters and words
  bool ok() const { return error_.empty(); }
  void fail(std::string what) {
    if (!ok()) return;
    error_ = std::move(what);
    error_line_ = line_;
    at_ = text_.size();
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void advance() {
    if (peek() == '\n') ++line_;
    if (at_ < text_.size()) ++at_;
  }
  void skip_space() {
    while (std::isspace(static_cast<unsigned char>(peek()))) advance();
  }
  bool accept(char c) {
    skip_space();
    if (peek() != c) return false;
    advance();
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}' expected before '{}'", c, text_.substr(at_, 20)));
  }
  std::string word() {
    skip_space();
    std::string out;
    while (is_word(peek())) out += peek(), advance();
    return out;
  }
  // ".align" gives "align"; nothing if no directive is next.
  std::string directive() {
    skip_space();
    if (peek() != '.') return {};
    advance();
    return word();
  }
  // An opcode with its modifiers, or a name: dots and double colons belong to it.
  std::string dotted() {
    skip_space();
    std::string out;
    for (;;) {
      if (is_word(peek()) || peek() == '.') out += peek(), advance();
      else if (peek() == ':' && at_ + 1 < text_.size() && text_[at_ + 1] == ':') out += "::", advance(), advance();
      else return out;
    }
  }
  int64_t integer() {
    skip_space();
    const bool negative = accept('-');
    const std::string digits = word();
    if (digits.empty()) fail("a number is expected");
    const int64_t n = static_cast<int64_t>(std::strtoull(digits.c_str(), nullptr, 0));
    return negative ? -n : n;
  }
  void skip_past(char c) {
    while (at_ < text_.size() && peek() != c) advance();
    advance();
  }
  void skip_braces() {
    while (at_ < text_.size() && peek() != '{') advance();
    int depth = 0;
    do {
      if (peek() == '{') ++depth;
      if (peek() == '}') --depth;
      advance();
    } while (depth > 0 && at_ < text_.size());
  }

  // ---- the module
  void module_item() {
    std::string d = directive();
    bool external = false;
    while (d == "visible" || d == "weak" || d == "extern" || d == "common") external |= d == "extern", d = directive();
    if (d == "version") dotted();
    else if (d == "target") target();
    else if (d == "address_size") integer();
    else if (d == "file") file();
    else if (d == "section") skip_braces();
    else if (d == "func") function();
    else if (d == "entry") kernel();
    else if (d == "alias" || d == "pragma") skip_past(';');
    else if (d == "shared" || d == "global" || d == "const") module_.variables.push_back(variable(d, external));
    else fail(fmt::format("'.{}' is not known here", d));
  }
  void target() {
    module_.target = dotted();
    while (accept(',')) dotted();
  }
  void file() {
    const int number = static_cast<int>(integer());
    expect('"');
    std::string name;
    while (peek() != '"' && at_ < text_.size()) name += peek(), advance();
    advance();
    while (accept(',')) integer();
    module_.files[number] = name;
  }
  // A function is no kernel: a call of it is refused by the translation.
  void function() {
    while (peek() != '{' && peek() != ';' && at_ < text_.size()) advance();
    if (peek() == '{') skip_braces();
    else advance();
  }

  Variable variable(std::string space, bool external) {
    Variable v;
    v.space = std::move(space);
    v.external = external;
    std::string type;
    for (std::string d = directive(); !d.empty(); d = directive()) {
      if (d == "align") v.align = integer();
      else if (d == "attribute") skip_past(')');
      else type = d;
    }
    v.name = word();
    int64_t elements = 1;
    const int64_t each = element_bytes(type);
    if (v.align == 1) v.align = each;
    while (accept('[')) {
      skip_space();
      elements *= peek() == ']' ? 0 : integer();
      expect(']');
    }
    v.bytes = elements * each;
    if (accept('=')) initializer(v, each);
    expect(';');
    return v;
  }
  void initializer(Variable& v, int64_t each) {
    v.initialized = true;
    const bool list = accept('{');
    do {
      const Operand n = operand();
      if (n.kind != Operand::Kind::number) return fail("an initializer that is not a number");
      for (int64_t i = 0; i < each; ++i) v.data.push_back(static_cast<uint8_t>(n.bits >> (8 * i)));
    } while (list && accept(','));
    if (list) expect('}');
    v.data.resize(static_cast<size_t>(v.bytes));
  }

  // ---- a kernel
  void kernel() {
    module_.kernels.emplace_back();
    kernel_ = &module_.kernels.back();
    kernel_->name = word();
    scopes_.assign(1, {});
    source_file_ = source_line_ = 0;
    if (accept('(')) {
      if (!accept(')')) {
        do parameter();
        while (accept(','));
        expect(')');
      }
    }
    for (std::string d = directive(); !d.empty(); d = directive()) {  // .maxntid 256, 1, 1
      skip_space();
      if (!std::isdigit(static_cast<unsigned char>(peek()))) continue;
      integer();
      while (accept(',')) integer();
    }
    expect('{');
    while (!scopes_.empty() && ok()) statement();
  }
  void parameter() {
    Parameter p;
    int64_t align = 0, pointee = 0;
    std::string type;
    bool pointer = false;
    for (std::string d = directive(); !d.empty(); d = directive()) {
      if (d == "align") (pointer ? pointee : align) = integer();
      else if (d == "ptr") pointer = true;
      else if (d != "param" && d != "global" && d != "shared" && d != "const" && d != "local") type = d;
    }
    p.name = word();
    const int64_t each = element_bytes(type);
    int64_t count = 1;
    if (accept('[')) count = integer(), expect(']');
    align = std::max(align, each);
    if (align == 0) return fail(fmt::format("a parameter of type '{}'", type));
    p.bytes = each * count;
    p.offset = (kernel_->parameter_bytes + align - 1) / align * align;
    kernel_->parameter_bytes = p.offset + p.bytes;
    kernel_->parameters.push_back(p);
  }

  void statement() {
    skip_space();
    if (at_ >= text_.size()) return fail("the kernel has no end");
    if (accept('{')) return scopes_.push_back({++scope_count_, {}});
    if (accept('}')) return scopes_.pop_back();
    if (accept(';')) return;
    if (peek() == '.') return declaration();
    Instruction i;
    i.line = line_;
    i.source_file = source_file_, i.source_line = source_line_;
    if (accept('@')) {
      i.guard_negated = accept('!');
      i.guard = resolve(word());
    }
    const std::string opcode = dotted();
    if (opcode.empty()) return fail(fmt::format("'{}' is no instruction", text_.substr(at_, 20)));
    skip_space();
    if (peek() == ':') return label(opcode);
    for (size_t from = 0; from != opcode.npos;) {
      const size_t to = opcode.find('.', from);
      i.opcode.push_back(opcode.substr(from, to == opcode.npos ? to : to - from));
      from = to == opcode.npos ? to : to + 1;
    }
    if (!accept(';')) {
      do {
        i.operands.push_back(operand());
        if (accept('|')) i.operands.push_back(operand());
      } while (accept(','));
      expect(';');
    }
    if (i.opcode[0] == "bra") i.operands.at(0).text = label_name(i.operands.at(0).text);
    if (i.opcode[0] == "brx") {
      i.targets = branch_tables_[i.operands.at(1).text];
      i.operands.pop_back();
    }
    kernel_->code.push_back(std::move(i));
  }
  void label(const std::string& name) {
    advance();
    skip_space();
    if (text_.compare(at_, 14, ".branchtargets") == 0) {
      directive();
      do branch_tables_[name].push_back(label_name(word()));
      while (accept(','));
      return expect(';');
    }
    Instruction i;
    i.line = line_;
    i.label = label_name(name);
    kernel_->code.push_back(std::move(i));
  }
  void declaration() {
    const std::string d = directive();
    if (d == "reg") return registers();
    if (d == "loc") {
      source_file_ = static_cast<int>(integer());
      source_line_ = static_cast<int>(integer());
      while (peek() != '\n' && at_ < text_.size()) advance();
      return;
    }
    if (d == "pragma") return skip_past(';');
    if (d == "shared" || d == "local") return kernel_->variables.push_back(variable(d, false));
    fail(fmt::format("'.{}' is not known in a kernel", d));
  }
  void registers() {
    std::string type = directive();
    do {
      const std::string name = word();
      if (accept('<')) {
        const int64_t count = integer();
        expect('>');
        for (int64_t n = 0; n < count; ++n) declare(type, fmt::format("{}{}", name, n));
      } else {
        declare(type, name);
      }
    } while (accept(','));
    expect(';');
  }

  // ---- names
  static std::string plain(const std::string& name) {
    std::string out;
    for (const char c : name) out += c == '%' ? 'R' : c == '$' ? '_' : c;
    return out;
  }
  void declare(const std::string& type, const std::string& name) {
    std::string unique = "q" + plain(name);
    if (scopes_.back().id) unique += fmt::format("_s{}", scopes_.back().id);
    scopes_.back().names[name] = unique;
    kernel_->registers.push_back({type, unique});
  }
  // Labels that compilers write are the kernel's; those of inline assembly are their block's.
  std::string label_name(const std::string& name) const {
    std::string out = "L" + plain(name);
    if (!scopes_.empty() && scopes_.back().id && name[0] != '$') out += fmt::format("_s{}", scopes_.back().id);
    return out;
  }
  std::string resolve(const std::string& name) const {
    for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s)
      if (auto found = s->names.find(name); found != s->names.end()) return found->second;
    return name;
  }

  // ---- operands
  std::optional<Operand> number() {
    skip_space();
    const bool negative = peek() == '-';
    const size_t first = at_ + negative;
    if (first >= text_.size() || !std::isdigit(static_cast<unsigned char>(text_[first]))) return std::nullopt;
    Operand o;
    o.kind = Operand::Kind::number;
    if (negative) advance();
    const std::string digits = word();
    if (digits.size() > 2 && std::strchr("fFdD", digits[1]) && digits[0] == '0')
      o.bits = std::strtoull(digits.c_str() + 2, nullptr, 16);
    else o.bits = std::strtoull(digits.c_str(), nullptr, 0);
    if (negative) o.bits = -o.bits;
    return o;
  }
  Operand operand() {
    Operand o;
    if (auto n = number()) return *n;
    if (accept('!')) {
      o = operand();
      o.negated = true;
    } else if (accept('{')) {
      o.kind = Operand::Kind::vector;
      do o.parts.push_back(operand());
      while (accept(','));
      expect('}');
    } else if (accept('[')) {
      o = operand();
      if (o.kind == Operand::Kind::number) o.offset = static_cast<int64_t>(o.bits);
      o.kind = Operand::Kind::address;
      if (accept('+')) o.offset = integer();
      else if (peek() == '-') o.offset = integer();
      while (accept(',')) o.parts.push_back(operand());
      expect(']');
    } else {
      const std::string name = dotted();
      if (name.empty()) fail(fmt::format("'{}' is no operand", text_.substr(at_, 20)));
      o.text = resolve(name);
      if (accept('+')) o.offset = integer();  // symbol+4
    }
    return o;
  }

  std::string text_;
  size_t at_ = 0;
  int line_ = 1, error_line_ = 0, source_file_ = 0, source_line_ = 0, scope_count_ = 0;
  std::string error_;
  Module module_;
  Kernel* kernel_ = nullptr;
  std::vector<Scope> scopes_;
  std::map<std::string, std::vector<std::string>> branch_tables_;
};

}  // namespace

std::string Instruction::name() const {
  std::string out;
  for (const std::string& part : opcode) out += (out.empty() ? "" : ".") + part;
  return out;
}

Result<Module> parse_ptx(std::string_view text) { return Parser(text).run(); }

}  // namespace qcg::ptx
