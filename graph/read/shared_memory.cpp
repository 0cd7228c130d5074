#include "graph/read/shared_memory.h"

#include <algorithm>
#include <tuple>

#include "graph/read/files/json.h"
#include "graph/read/torch/meta.h"

namespace qcg {

namespace {

Error shared_error(const WeightPlace& place, const WeightPlace& other) {
  return Error::unsupported(
      place.where,
      quote(place.name) + " and " + quote(other.name) + " are views of the same memory, and the graph writes to one",
      "register one buffer for both, and take its parts in forward()");
}

bool reaches(const WeightPlace& before, const WeightPlace& place) {
  return before.memory == place.memory && before.end > place.first;
}

const WeightPlace* furthest(const WeightPlace* before, const WeightPlace& place) {
  return before && before->memory == place.memory && before->end > place.end ? before : &place;
}

// By where they begin, those without elements apart.
void sort_places(std::vector<WeightPlace>& places) {
  std::erase_if(places, [](const WeightPlace& place) { return place.first == place.end; });
  std::ranges::stable_sort(places, {}, [](const WeightPlace& place) { return std::tie(place.memory, place.first); });
}

WeightPlace place_of(const Tensor& data, std::string where, std::string memory) {
  const uint64_t start = memory.empty() ? reinterpret_cast<uintptr_t>(data.storage->bytes.data()) : 0;
  const uint64_t first = start + static_cast<uint64_t>(data.offset) * dtype_bytes(data.dtype);
  WeightPlace out;
  out.where = std::move(where), out.memory = std::move(memory);
  out.first = first, out.end = std::max(first, start + storage_extent(data));
  return out;
}

}  // namespace

WeightPlace place_of(const Value& value, std::string where, std::string memory) {
  WeightPlace out = place_of(value.data, std::move(where), std::move(memory));
  out.name = value.name, out.is_written = value.kind == ValueKind::input;
  return out;
}

std::map<std::string, std::string> shared_places(const std::map<std::string, Tensor>& weights) {
  std::vector<WeightPlace> places;
  for (const auto& [name, tensor] : weights) places.push_back(place_of(tensor, name, ""));
  sort_places(places);
  std::map<std::string, std::string> out;
  const WeightPlace *first = nullptr, *last = nullptr;  // of those that share one memory
  for (const WeightPlace& place : places) {
    const bool shares = last && reaches(*last, place);
    if (!shares) first = last = &place;
    else out[place.where] = first->where + " + " + std::to_string(place.first - first->first);
    last = furthest(last, place);
  }
  return out;
}

Status refuse_shared_states(std::vector<WeightPlace> places) {
  sort_places(places);
  // Of the places before: the one that reaches furthest, of all and of those that are written.
  const WeightPlace *any = nullptr, *written = nullptr;
  for (const WeightPlace& place : places) {
    const WeightPlace* before = place.is_written ? any : written;
    if (before && reaches(*before, place)) return shared_error(place, *before);
    any = furthest(any, place);
    if (place.is_written) written = furthest(written, place);
  }
  return {};
}

}  // namespace qcg
