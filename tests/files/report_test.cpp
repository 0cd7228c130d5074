// What a compile reports when the cache had the program: all that the first one did, and when that was.
#include <ctime>

#include "tests/files/compile_files.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("a compile that the cache served reports what the first one did") {
  const Workplace place;
  place.write_weights("a.safetensors", 1);
  CompileOptions options = place.options("a.safetensors", "p.qcg");
  options.tune = TuneMode::fast;
  options.explain_misses = true;
  const auto first = compile_program(options);
  REQUIRE_MESSAGE(first.ok(), first.error().to_string());
  CHECK(first->earlier.at == 0);
  if (!first->is_final()) {
    MESSAGE("the machine was busy: nothing was kept");
    return;
  }
  for (const char* output : {"p.qcg", "q.qcg"}) {
    options.output = place / output;
    const auto again = compile_program(options);
    REQUIRE(again.ok());
    CHECK(again->compiler_runs == 0);
    CHECK(again->earlier.at > 0);
    CHECK(again->earlier.at <= std::time(nullptr));
    CHECK(again->earlier.compiler_runs == first->compiler_runs);
    CHECK(again->earlier.cache_hits == first->cache_hits);
    CHECK(again->earlier.tune_s == first->tune_s);
    CHECK(again->earlier.build_s == first->build_s);
    CHECK(again->earlier.wall_s > 0);
    CHECK(again->misses == first->misses);
    CHECK(again->candidates == first->candidates);
    CHECK(again->candidates_correct == first->candidates_correct);
    CHECK(again->ceilings.read_gbps == first->ceilings.read_gbps);
    CHECK(again->ceilings.peak_gflops_f32 == first->ceilings.peak_gflops_f32);
    CHECK(again->ceilings.isa == first->ceilings.isa);
    REQUIRE(!first->passes.empty());
    REQUIRE(again->passes.size() == first->passes.size());
    for (size_t i = 0; i < first->passes.size(); ++i) {
      const PassReport &a = first->passes[i], &b = again->passes[i];
      CHECK(a.name == b.name);
      CHECK(a.fired == b.fired);
      CHECK(a.counters == b.counters);
      CHECK(a.notes == b.notes);
      CHECK(a.groups == b.groups);
      CHECK(a.ms == b.ms);
      REQUIRE(a.skipped.size() == b.skipped.size());
      for (size_t s = 0; s < a.skipped.size(); ++s) CHECK(a.skipped[s].reason == b.skipped[s].reason);
    }
    REQUIRE(!first->kernels.empty());
    REQUIRE(again->kernels.size() == first->kernels.size());
    for (size_t i = 0; i < first->kernels.size(); ++i)
      CHECK(to_json_line(again->kernels[i].record) == to_json_line(first->kernels[i].record));
  }
}
