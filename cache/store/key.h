// Key: the name under which the cache keeps something, the SHA-256 of everything that influenced it.
//
// Why here: an entry may be reused only if every ingredient is identical, so ingredients are named, carry their lengths
// (thus "-I -O2" and "-I-O2" differ) and can be dumped, which is how a miss is explained.
//
//   KeyBuilder b;
//   b.add("source", text);
//   b.add_list("flags", flags);
//   store.publish(b.finish(), files, b.dump());
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/store/sha256.h"

namespace qcg {

struct Key {
  std::string hex;  // 64 lower-case hex digits
  friend bool operator==(const Key&, const Key&) = default;
};

class KeyBuilder {
 public:
  KeyBuilder& add(std::string_view name, std::string_view bytes);
  KeyBuilder& add_list(std::string_view name, std::span<const std::string> items);
  Status add_file(std::string_view name, const std::string& path);  // its contents, never its path or time

  Key finish() const;

  // One line per ingredient, in order: `name = value`; a long or unprintable value is shown as its hash and length.
  const std::string& dump() const { return dump_; }

 private:
  void hash(char tag, std::string_view name, std::string_view value);
  std::string hashed_;  // what is hashed: tagged, with lengths; long values are replaced by their own hash
  std::string dump_;
};

// What differs between two dumps, one sentence per ingredient, in the order of the first: `flags[2]: -O3 was -O2`.
// `now` was looked for, `before` is the entry that was there. Empty if they are equal; a digest `is not the same`.
std::vector<std::string> explain_difference(std::string_view now, std::string_view before);

}  // namespace qcg
