// No space: where compilers work, and in the cache.
#include "tests/files/compile_files.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("a linker without space is an error of the environment that names the place") {
  const Workplace place;
  place.write_weights("a.safetensors", 1);
  spit(place / "g++",
       "#!/bin/sh\ncase \"$*\" in *-shared*) echo '/usr/bin/ld: final link failed: No space left on device' "
       ">&2; exit 1;; esac\nexec /usr/bin/g++ \"$@\"\n");
  fs::permissions(place / "g++", fs::perms::owner_all);
  CompileOptions options = place.options("a.safetensors", "p.qcg");
  options.toolchain.cxx = place / "g++";
  const auto compiled = compile_program(options);
  REQUIRE(!compiled.ok());
  CHECK_MESSAGE(compiled.error().code == ErrorCode::Io, compiled.error().to_string());
  CHECK(compiled.error().message.find("no space left") != std::string::npos);
  CHECK(compiled.error().help.find("TMPDIR") != std::string::npos);
  CHECK(!fs::exists(place / "p.qcg"));
}
