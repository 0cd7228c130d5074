// closest: the word of a list that is most similar to a mistyped word.
//
// Why here: the readers suggest operators, and the command line suggests flags and words, with the same messages.
//
//   closest("--tun", {"--tune", "--target"})     ->  "--tune"
//   did_you_mean("relo", names)                  ->  " (did you mean relu?)"; empty if no word is similar
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace qcg {

// The least number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

// The word with the least edit distance to `given`; empty if that distance exceeds a third of `given`'s length. A word
// that begins with `given` has distance 0.
inline std::string closest(std::string_view given, const std::vector<std::string>& words) {
  constexpr size_t kLongest = 64;
  const size_t limit = given.size() > kLongest ? 0 : (given.size() + 1) / 3;
  std::string best;
  size_t least = limit + 1;
  for (const std::string& word : words) {
    const bool begins = given.size() > 2 && word.starts_with(given);
    if (!begins && word.size() > given.size() + limit) continue;
    const size_t distance = begins ? 0 : given.size() > word.size() + limit ? least : edit_distance(given, word);
    if (distance < least) best = word, least = distance;
  }
  return best;
}

// A suggestion to append to a message.
inline std::string did_you_mean(std::string_view given, const std::vector<std::string>& words) {
  const std::string word = closest(given, words);
  return word.empty() ? "" : " (did you mean " + word + "?)";
}

}  // namespace qcg
