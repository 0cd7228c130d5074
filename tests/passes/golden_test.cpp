// tests/golden/passes/<pass>/<case>.in, run through <pass>, must print as <case>.out; "all" runs every pass.
//
// Each case is also run a second time (a pass finds nothing left to do in its own result) and through the oracle,
// before and after. Comment lines in the input set options and expectations:
//   # emulate_precision_casts
//   # missing: <text that a skipped reason or a note must contain>
// QCG_UPDATE_GOLDENS=1 rewrites the outputs; read the diff before you commit it.
#include <cstdlib>
#include <filesystem>

#include "tests/passes/passes_test_util.h"
#include "tests/paths.h"

using namespace qcg;
namespace fs = std::filesystem;

namespace {

const fs::path kGoldens = fs::path(qcg::test::source_dir()) / "tests/golden/passes";

PassReport run(const std::string& pass, Graph& graph, const PassOptions& options) {
  if (pass != "all") {
    auto report = run_pass(pass, graph, options);
    REQUIRE_MESSAGE(report.ok(), report.error().to_string());
    return std::move(*report);
  }
  auto reports = run_passes(graph, options);
  REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
  return {};
}

std::string missing_text(const std::string& input) {
  const std::string key = "# missing: ";
  const size_t at = input.find(key);
  return at == std::string::npos ? "" : input.substr(at + key.size(), input.find('\n', at) - at - key.size());
}

void check_case(const std::string& pass, const fs::path& in) {
  INFO("case ", in.string());
  const std::string input = read_text(in);
  PassOptions options;
  options.emulate_precision_casts = input.find("# emulate_precision_casts") != std::string::npos;
  options.verify_after_each = true;
  Graph graph = parse(input);
  const PassReport report = run(pass, graph, options);
  const std::string printed = print_graph(graph);
  fs::path out = in;
  out.replace_extension(".out");
  if (std::getenv("QCG_UPDATE_GOLDENS")) std::ofstream(out) << printed;
  REQUIRE_MESSAGE(fs::exists(out), "no golden; QCG_UPDATE_GOLDENS=1 writes it");
  CHECK(printed == read_text(out));
  if (std::string missing = missing_text(input); !missing.empty()) CHECK_MESSAGE(mentions(report, missing), missing);

  Graph again = parse(printed);
  run(pass, again, options);
  CHECK_MESSAGE(print_graph(again) == printed, "the pass changes its own result");

  if (options.emulate_precision_casts) return;  // rounds where the oracle, by default, does not
  Graph before = parse(input);
  bind_random(before, 7);
  Graph after = before;
  run(pass, after, options);
  check_same_values(before, after, 11);
}

}  // namespace

TEST_CASE("goldens of the passes") {
  REQUIRE(fs::exists(kGoldens));
  int cases = 0;
  for (const auto& folder : fs::directory_iterator(kGoldens)) {
    const std::string pass = folder.path().filename();
    for (const auto& file : fs::directory_iterator(folder.path())) {
      if (file.path().extension() == ".in") {
        SUBCASE((pass + "/" + file.path().stem().string()).c_str()) { check_case(pass, file.path()); }
        ++cases;
        continue;
      }
      fs::path in = file.path();
      in.replace_extension(".in");
      CHECK_MESSAGE((file.path().extension() == ".out" && fs::exists(in)), "orphaned golden " << file.path().string());
    }
  }
  CHECK(cases > 50);
}
