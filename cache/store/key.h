// Key: the name of a cache entry, which is the SHA-256 of everything that determines the entry.
//
// Why here: an entry may be reused only if every ingredient is identical. Ingredients have names and lengths, so "-I
// -O2" and "-I-O2" differ. They can be dumped, and comparing dumps explains a miss.
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
  Status add_file(std::string_view name, const std::string& path);  // adds its contents, never its path or time

  Key finish() const;

  // One line `name = value` per ingredient, in order. A long or unprintable value is shown as its hash and length.
  const std::string& dump() const { return dump_; }

 private:
  void hash(char tag, std::string_view name, std::string_view value);
  std::string hashed_;  // the hashed text: values with tags and lengths; long values are replaced by their hash
  std::string dump_;
};

// The differences between the dump `now` of a missed key and the dump `before` of an entry, one per ingredient, in the
// order of `now`: `flags[2]: -O3 was -O2`. Digests are reported as `is not the same`. Empty if the dumps are equal.
std::vector<std::string> explain_difference(std::string_view now, std::string_view before);

}  // namespace qcg
