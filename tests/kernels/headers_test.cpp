// The precompiled header of an ISA holds more than each of its kernels includes, and changes no code.
#include <string>
#include <utility>
#include <vector>

#include "tests/isa_job.h"
#include "tests/paths.h"
#include "tests/temp_dir.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("a kernel is the same code with and without the precompiled header of its ISA") {
  const auto cxx = find_cxx();
  REQUIRE_MESSAGE(cxx.ok(), "no compiler");
  const std::vector<std::pair<std::string, Isa>> kernels = {{"portable_fma_dense_f32", Isa::portable},
                                                            {"avx2_fma_w8_i8", Isa::avx2},
                                                            {"avx512_fma_w4_i8", Isa::avx512},
                                                            {"avx512_fma_w4_i8", Isa::avx512bf16},
                                                            {"loop_avx2", Isa::avx2vnni},
                                                            {"avx512bf16_dot_dense_bf16", Isa::avx512bf16},
                                                            {"reduce_avx2", Isa::avx2},
                                                            {"amx_int8_da8w8_i8", Isa::amx}};
  std::vector<CompileJob> jobs;
  for (const auto& [name, isa] : kernels) {
    CompileJob job = new_job(*cxx, isa);
    job.sources[0].text = slurp(source_dir() + "/tests/golden/source/" + name + ".cpp");
    job.flags.push_back("-Winvalid-pch");
    jobs.push_back(job);
    job.pch = nullptr;
    jobs.push_back(std::move(job));
  }
  const auto results = compile_all(*cxx, jobs);
  REQUIRE(results.ok());
  for (size_t i = 0; i < kernels.size(); ++i) {
    INFO(kernels[i].first, " for ", isa_info(kernels[i].second).name);
    const CompileResult &with = (*results)[2 * i], &without = (*results)[2 * i + 1];
    REQUIRE_MESSAGE(with.ok(), with.log);
    REQUIRE_MESSAGE(without.ok(), without.log);
    CHECK(with.log.empty());
    CHECK((with.bytes == without.bytes));
  }
}
