// KernelBuilder: when kernels are compiled with a precompiled header.
#include "codegen/build/build.h"

#include <algorithm>

#include "tests/temp_dir.h"
#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("a precompiled header is made for four kernels, and one that is there serves a single kernel") {
  const auto cxx = find_cxx({.cxx = "g++"});
  if (!cxx.ok()) {
    MESSAGE("skipped: " << cxx.error().message);
    return;
  }
  TempDir dir;
  auto store = Store::open({.dir = dir / "cache"});
  REQUIRE(store.ok());
  KernelBuilder builder(*cxx, *store, {});
  // Builds kernels of these names, and returns how often the compiler was started.
  const auto starts_for = [&](const std::vector<std::string>& names) {
    const int before = builder.counters().compiler_runs;
    std::vector<KernelSource> sources;
    for (const std::string& name : names) sources.push_back(hand_written(name, {}));
    const auto built = builder.build(std::move(sources));
    REQUIRE(built.ok());
    for (const BuiltKernel& kernel : *built) CHECK_MESSAGE(kernel.ok(), kernel.failure);
    return builder.counters().compiler_runs - before;
  };
  const auto header_hits = [&] {
    return std::ranges::count_if(store->lookups(), [](const Lookup& l) { return l.kind == EntryKind::pch && l.hit(); });
  };
  CHECK(starts_for({"a"}) == 1);
  CHECK(header_hits() == 0);
  CHECK(starts_for({"b", "c", "d", "e"}) == 5);
  CHECK(header_hits() == 0);
  CHECK(starts_for({"f"}) == 1);
  CHECK(header_hits() == 1);
}
