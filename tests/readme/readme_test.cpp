// The commands of README.md work as written: every ```sh fence is run by bash, in order, in a fresh directory that has
// examples/ and the build tree as build/release, with the built qcodegen on PATH. A fence whose first line is `# not run` is left out.
#include "tests/cli_runner.h"
#include "tests/paths.h"

using namespace qcg::test;

namespace {

struct Fence {
  int line = 0;
  std::string text;
};

std::vector<Fence> shell_fences(const std::string& markdown) {
  std::vector<Fence> out;
  std::istringstream in(markdown);
  std::string line;
  bool inside = false;
  for (int number = 1; std::getline(in, line); ++number) {
    if (!inside && line == "```sh") {
      inside = true;
      out.push_back({number, ""});
    } else if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      out.back().text += line + "\n";
    }
  }
  return out;
}

}  // namespace

TEST_CASE("fences are found") {
  const auto fences = shell_fences("a\n```sh\nls\n```\n```cpp\nint x;\n```\n```sh\n# not run\nrm x\n```\n");
  REQUIRE(fences.size() == 2);
  CHECK(fences[0].text == "ls\n");
  CHECK(fences[1].line == 8);
}

TEST_CASE("the commands of README.md work") {
  const std::string readme = source_path("README.md");
  REQUIRE(fs::exists(readme));
  TempDir dir;
  fs::create_directory(dir / "build");
  fs::create_directory_symlink(source_path("examples"), dir / "examples");
  fs::create_directory_symlink(binary_dir(), dir / "build/release");
  ::setenv("PATH", (fs::path(cli_path()).parent_path().string() + ":" + ::getenv("PATH")).c_str(), 1);
  int run_count = 0;
  for (const Fence& fence : shell_fences(slurp(readme))) {
    if (fence.text.starts_with("# not run")) continue;
    INFO("README.md:", fence.line, "\n", fence.text);
    const Run run = run_program({"/bin/bash", "-c", "set -eu; cd \"$0\"\n" + fence.text, dir.path()});
    INFO(run.out, run.err);
    CHECK(run.status == 0);
    ++run_count;
  }
  CHECK(run_count > 0);
}
