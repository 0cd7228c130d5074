// JsonDocument: JSON parsed into 16 bytes per value, with limits on everything a hostile file can make large.
//
// Why here: graph files, payload configs and safetensors headers are JSON from strangers. A general DOM keeps the last
// of two equal keys silently, recurses on depth and takes hundreds of bytes per value; this one refuses duplicates and
// bad UTF-8, parses with an explicit stack, and its strings are views into the text.
//
//   QCG_TRY(doc, JsonDocument::parse(text, ""));
//   QCG_TRY(nodes, doc.root().at("nodes"));
//   for (JsonCursor node : nodes) { QCG_TRY(target, node.string_at("target")); ... }
//   return nodes.bad("there are no nodes", "...");   // error[BadInput]: $.nodes: there are no nodes
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace qcg {

struct JsonLimits {
  size_t text_bytes = size_t{64} << 20;
  size_t values = 4'000'000;  // object keys count too
  size_t depth = 200;
};

enum class JsonKind : uint8_t { null, boolean, integer, real, string, array, object };

class JsonDocument;

// A position in a document. Cheap to copy; valid while the document lives and is not moved.
class JsonCursor {
 public:
  JsonKind kind() const;
  size_t size() const;           // elements of an array, members of an object, 0 otherwise
  std::string_view key() const;  // precondition: a member of an object
  std::string path() const;      // "$.config[\"fc.weight\"].sizes[0]", after the document's prefix

  bool is(JsonKind k) const { return kind() == k; }
  std::optional<JsonCursor> find(std::string_view key) const;  // nullopt: no such member, or not an object
  Result<JsonCursor> at(std::string_view key) const;           // the member must exist
  Result<JsonCursor> array_at(std::string_view key) const;
  Result<JsonCursor> object_at(std::string_view key) const;
  Result<std::string_view> string_at(std::string_view key) const;

  Result<int64_t> integer() const;
  Result<double> real() const;  // also an integer, and torch's "Infinity", "-Infinity", "NaN"
  Result<bool> boolean() const;
  Result<std::string_view> string() const;  // a view into the document
  Result<std::string> name() const;         // a string of 1 to kMaxName bytes
  Status expect(JsonKind kind) const;

  Error bad(std::string message, std::string help) const;
  Error unsupported(std::string message, std::string help) const;

  // Children in order; for an object, the values (each with its key()).
  class Iterator {
   public:
    JsonCursor operator*() const;
    Iterator& operator++();
    bool operator==(const Iterator&) const = default;

   private:
    friend class JsonCursor;
    const JsonDocument* document_ = nullptr;
    uint32_t index_ = 0;
    bool members_ = false;
  };
  Iterator begin() const;
  Iterator end() const;

  static constexpr size_t kMaxName = 1024;

 private:
  friend class JsonDocument;
  JsonCursor(const JsonDocument* document, uint32_t index) : document_(document), index_(index) {}
  const JsonDocument* document_;
  uint32_t index_;
};

class JsonDocument {
 public:
  // text must outlive the document. where names the file in errors ("weights_config.json: $.config"); may be empty.
  static Result<JsonDocument> parse(std::string_view text, std::string where, const JsonLimits& limits = {});

  JsonCursor root() const { return JsonCursor(this, 0); }
  size_t value_count() const { return values_.size(); }

 private:
  friend class JsonCursor;
  friend class JsonParser;

  // Values lie in document order; an object's children alternate key, value. A container knows where it ends, so the
  // next sibling is one step away.
  struct Value {
    JsonKind kind;
    bool escaped = false;  // string: lies in unescaped_, not in text_
    uint32_t size = 0;     // string: bytes; array: elements; object: members
    union {
      int64_t integer = 0;
      double real;
      uint64_t offset;  // string
      uint64_t end;     // array, object: index after the last descendant
    };
  };

  uint32_t next_sibling(uint32_t index) const;
  std::string_view text_of(const Value& string) const;
  std::string path_of(uint32_t index) const;

  std::string_view text_;
  std::string unescaped_;
  std::string where_;
  std::vector<Value> values_;
};

std::string_view json_kind_name(JsonKind kind);

// A string from a file, safe to show: quoted, control characters and non-ASCII escaped, cut at 80 bytes.
std::string quote(std::string_view text);

}  // namespace qcg
