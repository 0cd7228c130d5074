// splitmix(x): 64 well mixed bits of a counter or a hash (https://prng.di.unimi.it/splitmix64.c).
//
// Why here: random weights (graph/read/) and the disturbances of the oracle (graph/oracle/) draw billions of numbers, on
// several threads, and element i has the same one whichever thread draws it.
//
//   splitmix(seed + i)
#pragma once

#include <cstdint>

namespace qcg {

constexpr uint64_t splitmix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace qcg
