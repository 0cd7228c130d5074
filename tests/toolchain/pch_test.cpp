// Precompiled headers: made once, then from the store; same code with and without; damage only costs time.
#include "../cache/cache_test_util.h"
#include "cache/toolchain/compile.h"

using namespace qcg;
using namespace qcg::testing;

namespace {

const char kHeader[] = "#pragma once\n#include <immintrin.h>\n#include \"ours.h\"\n";
const char kKernel[] =
    "#include <immintrin.h>\n#include \"ours.h\"\n"
    "extern \"C\" __attribute__((visibility(\"default\"))) void f(const float* a, float* c) {\n"
    "  _mm256_storeu_ps(c, ours(_mm256_loadu_ps(a)));\n}\n";
const std::vector<SourceText> kOurs = {
    {"ours.h",
     "#pragma once\n#include <immintrin.h>\nstatic inline __m256 ours(__m256 x) { return _mm256_add_ps(x, x); }\n"}};

}  // namespace

TEST_CASE("a precompiled header is made once, kept in the store, and changes no code") {
  auto cxx = find_cxx({.cxx = "g++"});
  if (!cxx.ok()) {
    MESSAGE("skipped: " << cxx.error().message);
    return;
  }
  TestDir dir;
  auto opened = Store::open({.dir = dir.path() + "/cache"});
  REQUIRE(opened.ok());
  Store& store = *opened;
  const std::string temp = dir.path() + "/temp";
  files::create_directory(temp);
  const CompileLimits limits{.temp_root = temp};
  auto flags = kernel_flags(*cxx);
  flags.push_back("-mavx2");
  CompileJob job{.sources = {{"k.cpp", kKernel}}, .headers = kOurs, .flags = flags};
  auto plain = compile_all(*cxx, {&job, 1}, limits);
  REQUIRE((plain.ok() && plain->at(0).ok()));
  for (bool expect_hit : {false, true, false}) {
    auto pch = ensure_pch(*cxx, kHeader, kOurs, flags, store, limits);
    REQUIRE(pch.ok());
    CHECK(pch->hit == expect_hit);
    REQUIRE(pch->flags.size() == 2);
    job.pch = &*pch;
    job.flags.push_back("-Winvalid-pch");
    auto built = compile_all(*cxx, {&job, 1}, limits);
    job.flags.pop_back();
    REQUIRE(built.ok());
    REQUIRE_MESSAGE(built->at(0).ok(), built->at(0).log);
    CHECK(built->at(0).log.empty());
    CHECK(built->at(0).bytes == plain->at(0).bytes);
    MESSAGE(std::string(expect_hit ? "from the store" : "made")
            << ": kernel " << built->at(0).seconds << " s, without " << plain->at(0).seconds << " s");
    if (expect_hit)  // damage it: the next round makes it anew
      for (const auto& item : files::recursive_directory_iterator(dir.path() + "/cache"))
        if (item.path().filename() == "qcg_pch.h.gch") files::resize_file(item.path(), 1000);
  }
  CHECK(count_files(temp) == 0);

  flags.push_back("-mfma");
  auto skipped = ensure_pch(*cxx, kHeader, kOurs, flags, store, limits, MissingPch::skip);
  REQUIRE(skipped.ok());
  CHECK(skipped->flags.empty());
  auto other = ensure_pch(*cxx, kHeader, kOurs, flags, store, limits);
  CHECK(!other->hit);
  auto found = ensure_pch(*cxx, kHeader, kOurs, flags, store, limits, MissingPch::skip);
  REQUIRE(found.ok());
  CHECK(found->hit);
  CHECK(found->flags.size() == 2);
  Store none = Store::none();
  auto uncached = ensure_pch(*cxx, kHeader, kOurs, flags, none, limits);
  REQUIRE(uncached.ok());
  CHECK(!uncached->flags.empty());
}

TEST_CASE("a header that does not compile gives no precompiled header, and the kernel's log tells why") {
  auto cxx = find_cxx();
  REQUIRE(cxx.ok());
  Store none = Store::none();
  auto pch = ensure_pch(*cxx, "#include \"nowhere.h\"\n", {}, kernel_flags(*cxx), none);
  REQUIRE(pch.ok());
  CHECK(pch->flags.empty());
}
