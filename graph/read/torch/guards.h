// Guards: what torch found of sizes of inputs when it exported, as Python expressions (guards_code).
//
// Why here: torch keeps two symbols apart even if one is a multiple of the other, and the shapes of views have both.
//
//   "(L['lengths'].size()[0] % 4) == 0", "L['x'].size()[0] == (L['lengths'].size()[0] // 4)"   ->  s2 = 4 * s77
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/symbol.h"
#include "graph/ops/size_values.h"

namespace qcg {

// The size of an axis of an input, by the input's name; nullopt: there is none. Of an input that is an integer the value.
inline constexpr int64_t kValueOfInput = -1;  // in the place of an axis
using SizeOfInput = std::function<std::optional<Dim>(std::string_view input, int64_t axis)>;

// A guard compares two expressions of sizes: sums, products, quotients, remainders and extremes. nullopt: the guard is
// anything else, such as several comparisons.
std::optional<SizeCondition> read_guard(std::string_view guard, const SizeOfInput& size_of);
// The same with quotients by powers of two, which floats hold exactly:
//
//   "((3*L['x'].size()[0]*L['x'].size()[1]) / 16) <= 2.5"   ->  40 - 3 s0 s1 is at least 0
std::optional<SizeCondition> read_guard_of_fractions(std::string_view guard, const SizeOfInput& size_of);

// What a node asserts, as torch up to 2.8 writes all that it found: "Equality(Symbol('s0'), Integer(4))". nullopt: anything
// else. The text of the condition is "s0 == 4".
std::optional<SizeCondition> read_assertion(std::string_view expr);

// symbol = factor * of
struct SizeMultiple {
  std::string symbol, of;
  int64_t factor = 1;
};
// What follows from pairs of such differences that are 0, in which quotients cancel.
std::vector<SizeMultiple> find_multiples(const std::vector<Dim>& differences);

// Where a symbol is a size of an input, and what it was when torch exported.
struct ExportedSize {
  int64_t axis = 0;
  std::optional<int64_t> hint;
};
using ExportedSizes = std::map<std::string, ExportedSize, std::less<>>;

// Symbols that are taken to be equal because two expressions of the same form are: symbols of the same axes, or else of
// the same sizes when torch exported. This is stricter than the guard, because other sizes may have the same product or
// quotient.
//
//   s0 * s1 - s2 * s3, x [s0, s1], y [s2, s3]   ->  s0 = s2, s1 = s3
std::vector<SizeMultiple> find_equal_sizes(const Dim& difference, const ExportedSizes& exported);

// By symbol, the number that it is a multiple of, because one difference is 0 for the multiples alone. If the exported
// size is a multiple, the difference may be 0 for other sizes, too: this is stricter than the guard.
//
//   s0 * s1 - 2 * s0 * (s1 // 2)   ->  s1 is a multiple of 2
//   s0 // 2 - 2 * (s0 // 4)        ->  s0 is a multiple of 4, if it was one
std::map<std::string, int64_t> find_divisors(const std::vector<Dim>& differences, const ExportedSizes& exported);

// Calls that a difference alone makes a number, by their factor: floordiv(s0, s1) - 1.
KnownSizes find_known_calls(const std::vector<Dim>& differences);

// A symbol that is an expression of others, where both are sizes of inputs, so that a run checks the one against the others.
//
//   s0 - (s1 - 1) // 2 - 1   ->  s0 = (s1 - 1) // 2 + 1
std::optional<std::pair<std::string, Dim>> find_definition(const Dim& difference, const ExportedSizes& exported,
                                                           const KnownSizes& known);

// The sizes for which a difference of one symbol is 0, where these are one range; nullopt: the difference has no call
// or another number of symbols, or is 0 for other sizes too. Tries sizes below 4,096.
//
//   (s0 // 8) * (s0 // 8) - 16   ->  s0 in 32 to 39
std::optional<Symbol> find_range(const Dim& difference);
// The same of a guard that no difference of Dims says: it has fractions, powers, roots or bits. Larger sizes are tried by
// doubling, and the largest size is INT64_MAX if it holds for all these. nullopt also: it does not hold for the exported sizes.
//
//   ((2 * L['x'].size()[1]) / 3) == 34.666666666666664   ->  52 alone
std::optional<Symbol> find_range(std::string_view guard, const SizeOfInput& size_of, const ExportedSizes& exported);

}  // namespace qcg
