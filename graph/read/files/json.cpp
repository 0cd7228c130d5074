#include "graph/read/files/json.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace qcg {
namespace {

constexpr const char* kShape = "see the format's description in docs/; the file may come from an incompatible version";

bool is_identifier(std::string_view key) {
  return !key.empty() &&
         std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

}  // namespace

std::string_view json_kind_name(JsonKind kind) {
  static constexpr std::string_view kNames[] = {"null",     "a boolean", "an integer", "a number",
                                                "a string", "a list",    "an object"};
  return kNames[static_cast<size_t>(kind)];
}

std::string quote(std::string_view text) {
  static constexpr size_t kShown = 80;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (unsigned char c : text.substr(0, kShown)) {
    if (c >= 0x20 && c < 0x7F) {
      out += static_cast<char>(c);
    } else {
      out += "\\x";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    }
  }
  return out + (text.size() > kShown ? "...'" : "'");
}

uint32_t JsonDocument::next_sibling(uint32_t index) const {
  const Value& v = values_[index];
  bool container = v.kind == JsonKind::array || v.kind == JsonKind::object;
  return container ? static_cast<uint32_t>(v.end) : index + 1;
}

std::string_view JsonDocument::text_of(const Value& string) const {
  std::string_view source = string.escaped ? std::string_view(unescaped_) : text_;
  return source.substr(string.offset, string.size);
}

// Walks down from the root; only errors ask, so cursors need not carry their path.
std::string JsonDocument::path_of(uint32_t index) const {
  std::string path = where_ + "$";
  uint32_t at = 0;
  while (at < index && index < values_.size()) {
    bool object = values_[at].kind == JsonKind::object;
    uint32_t child = at + 1, position = 0;
    for (;; ++position) {
      uint32_t value = child + object;
      if (value >= values_.size()) return path;
      uint32_t next = next_sibling(value);
      if (index < next) break;
      child = next;
    }
    if (!object) {
      path += "[" + std::to_string(position) + "]";
    } else if (std::string_view key = text_of(values_[child]); is_identifier(key) && key.size() <= 80) {
      path += "." + std::string(key);
    } else {
      path += "[" + quote(key) + "]";
    }
    at = child + object;
  }
  return path;
}

JsonKind JsonCursor::kind() const { return document_->values_[index_].kind; }

size_t JsonCursor::size() const {
  bool container = is(JsonKind::array) || is(JsonKind::object);
  return container ? document_->values_[index_].size : 0;
}

std::string JsonCursor::path() const { return document_->path_of(index_); }

std::string_view JsonCursor::key() const {
  if (index_ == 0 || document_->values_[index_ - 1].kind != JsonKind::string) return {};
  return document_->text_of(document_->values_[index_ - 1]);
}

JsonCursor JsonCursor::Iterator::operator*() const { return JsonCursor(document_, index_ + members_); }

JsonCursor::Iterator& JsonCursor::Iterator::operator++() {
  index_ = document_->next_sibling(index_ + members_);
  return *this;
}

JsonCursor::Iterator JsonCursor::begin() const {
  Iterator it;
  it.document_ = document_;
  it.index_ = index_ + 1;
  it.members_ = is(JsonKind::object);
  if (!is(JsonKind::array) && !is(JsonKind::object)) it.index_ = document_->next_sibling(index_);
  return it;
}

JsonCursor::Iterator JsonCursor::end() const {
  Iterator it = begin();
  it.index_ = document_->next_sibling(index_);
  return it;
}

std::optional<JsonCursor> JsonCursor::find(std::string_view key) const {
  if (!is(JsonKind::object)) return std::nullopt;
  for (JsonCursor member : *this)
    if (member.key() == key) return member;
  return std::nullopt;
}

Error JsonCursor::bad(std::string message, std::string help) const {
  return Error::bad_input(path(), std::move(message), std::move(help));
}

Error JsonCursor::unsupported(std::string message, std::string help) const {
  return Error::unsupported(path(), std::move(message), std::move(help));
}

Status JsonCursor::expect(JsonKind wanted) const {
  if (is(wanted)) return {};
  return bad("expected " + std::string(json_kind_name(wanted)) + ", found " + std::string(json_kind_name(kind())),
             kShape);
}

Result<JsonCursor> JsonCursor::at(std::string_view key) const {
  QCG_CHECK(expect(JsonKind::object));
  if (auto member = find(key)) return *member;
  return bad("the field " + quote(key) + " is missing", kShape);
}

Result<JsonCursor> JsonCursor::array_at(std::string_view key) const {
  QCG_TRY(member, at(key));
  QCG_CHECK(member.expect(JsonKind::array));
  return member;
}

Result<JsonCursor> JsonCursor::object_at(std::string_view key) const {
  QCG_TRY(member, at(key));
  QCG_CHECK(member.expect(JsonKind::object));
  return member;
}

Result<std::string_view> JsonCursor::string_at(std::string_view key) const {
  QCG_TRY(member, at(key));
  return member.string();
}

Result<int64_t> JsonCursor::integer() const {
  QCG_CHECK(expect(JsonKind::integer));
  return document_->values_[index_].integer;
}

Result<double> JsonCursor::real() const {
  const auto& value = document_->values_[index_];
  if (is(JsonKind::integer)) return static_cast<double>(value.integer);
  if (is(JsonKind::real)) return value.real;
  if (is(JsonKind::string)) {
    std::string_view word = document_->text_of(value);
    if (word == "Infinity") return std::numeric_limits<double>::infinity();
    if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  return bad("expected a number, found " + std::string(json_kind_name(kind())), kShape);
}

Result<bool> JsonCursor::boolean() const {
  QCG_CHECK(expect(JsonKind::boolean));
  return document_->values_[index_].integer != 0;
}

Result<std::string_view> JsonCursor::string() const {
  QCG_CHECK(expect(JsonKind::string));
  return document_->text_of(document_->values_[index_]);
}

Result<std::string> JsonCursor::name() const {
  QCG_TRY(text, string());
  if (text.empty() || text.size() > kMaxName) {
    return bad("a name has " + std::to_string(text.size()) + " bytes",
               "names have 1 to " + std::to_string(kMaxName) + " bytes");
  }
  return std::string(text);
}

}  // namespace qcg
