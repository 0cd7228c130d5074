// Every real export that must work: compiled for each target of this host, run at each M, compared with eager outputs.
// Every one that must not: refused by a typed error that names what is missing. One test case per target.
#include "tests/real_graphs/outputs.h"

using namespace qcg::test;

namespace {

const std::vector<std::string> kExamples = {"llama_mlp_int8", "recsys_cat_linear"};
const std::vector<std::string> kMustWork = {
    "cat_linear_pos_axis_bf16", "int8pack_siblings_bf16", "int8wo_odd_n3073",
    "llama_mlp_da8w8",          "llama_mlp_f32",          "llama_mlp_int4wo_g32",
    "llama_mlp_int8wo",         "llama_qkv_bf16",         "recsys_cat_linear_f32",
    "int4pack_cpu_g32",         "llama_mlp_da8w4_g32",    "pt2e_static_a8w8_mlp",
    "llama_mlp_fp8wo",          "scaled_mm_rowwise",      "llama_tiny_lm_f32",
    "llama_tiny_lm_int8wo"};
const std::vector<std::string> kShapesOnly = {"llama31_8b_linears_bf16",        "llama31_8b_linears_int8wo",
                                              "llama31_8b_linears_int4wo_g128", "llama31_8b_linears_da8w8",
                                              "llama31_8b_linears_da8w4_g128",  "llama31_8b_linears_da8w4_g128_bf16"};
// What must not work, and what the error must name.
const std::vector<std::pair<std::string, std::string>> kRefused = {
    {"llama_mlp_int8wo_subclass", "unwrap_tensor_subclass"}};

std::vector<std::string> folders() {
  std::vector<std::string> out;
  for (const std::string& name : kExamples) out.push_back(source_path("examples/" + name));
  for (const std::string& name : kMustWork)
    if (const std::string path = shared_graph(name); !path.empty()) out.push_back(path);
  return out;
}

// "<folder>/m5" for every m5.inputs.safetensors there is: how many rows an export was tried with is its own affair.
std::vector<std::string> stems_of(const std::string& folder) {
  const std::string tail = ".inputs.safetensors";
  std::vector<std::string> out;
  for (const auto& file : fs::directory_iterator(folder))
    if (const std::string path = file.path(); path.ends_with(tail))
      out.push_back(path.substr(0, path.size() - tail.size()));
  return out;
}

// Row counts of "<folder>/m5" and alike, for --m; empty where a stem counts none.
std::string rows_of(const std::vector<std::string>& stems) {
  std::string out;
  for (const std::string& stem : stems) {
    const std::string name = fs::path(stem).filename();
    if (name[0] != 'm' || name.find_first_not_of("0123456789", 1) != std::string::npos) return "";
    out += (out.empty() ? "" : ",") + name.substr(1);
  }
  return out;
}

// The host's best target gets a kernel for every range of rows, as a user's compile does; the others those that run.
void check_graph(const std::string& folder, const std::string& target, bool as_eager) {
  INFO(folder, " for ", target);
  TempDir dir;
  const std::string program = dir / "graph.qcg";
  std::vector<std::string> compile = {"compile", folder + "/graph.pt2", "-o", program, "--target",
                                      target,    "--tune=off",          "-q"};
  const std::vector<std::string> cases = stems_of(folder);
  if (const std::string rows = rows_of(cases); target != "cpu" && !rows.empty())
    compile.insert(compile.end(), {"--m", rows});
  if (as_eager) compile.push_back("--emulate-precision-casts");
  const Run compiled = qcodegen(compile);
  INFO(compiled.err);
  CHECK(compiled.status == 0);
  if (compiled.status != 0) return;
  CHECK(!cases.empty());
  for (const std::string& stem : cases) {
    INFO(stem);
    const Run ran = qcodegen(
        {"run", program, "--inputs", stem + ".inputs.safetensors", "--outputs", dir / "out.safetensors", "-q"});
    INFO(ran.err);
    CHECK(ran.status == 0);
    if (ran.status != 0) continue;
    compare_files(dir / "out.safetensors", stem + ".expected.safetensors", as_eager ? exact : rounded);
  }
}

void check_target(const std::string& target) {
  if (target != "cpu" && !host_has(target)) {
    MESSAGE("skipped: this CPU lacks " << target);
    return;
  }
  for (const std::string& folder : folders()) check_graph(folder, target, false);
}

}  // namespace

TEST_CASE("real graphs: best of the host") { check_target("cpu"); }
TEST_CASE("real graphs: portable") { check_target("cpu:portable"); }
TEST_CASE("real graphs: avx2") { check_target("cpu:avx2"); }
TEST_CASE("real graphs: avx2vnni") { check_target("cpu:avx2vnni"); }
TEST_CASE("real graphs: avx512") { check_target("cpu:avx512"); }

// Its products are exact and every rounding is the graph's: the bits are eager torch's, through two quantizations.
TEST_CASE("real graphs: int8 activations with bf16 between them equal torch under --emulate-precision-casts") {
  const std::string folder = shared_graph("llama_mlp_da8w8");
  if (folder.empty()) return;
  for (const char* target : {"cpu", "cpu:portable", "cpu:avx2"})
    if (target == std::string("cpu") || host_has(target)) check_graph(folder, target, true);
}

TEST_CASE("real graphs: full-size shapes are planned without weights") {
  for (const std::string& name : kShapesOnly) {
    const std::string folder = shared_graph(name);
    if (folder.empty()) continue;
    INFO(name);
    const Run run = qcodegen({"explain", folder + "/graph.json", "--json"});
    INFO(run.err);
    REQUIRE(run.status == 0);
    // q+k+v and gate+up are merged; o and down are alone.
    CHECK(run.json()["problems"].size() == 4);
  }
}

TEST_CASE("real graphs: what has no kernel is refused by an error that names it") {
  for (const auto& [name, word] : kRefused) {
    const std::string folder = shared_graph(name);
    if (folder.empty()) continue;
    TempDir dir;
    const Run run = qcodegen({"compile", folder + "/graph.pt2", "-o", dir / "out.qcg", "--tune=off"});
    INFO(name, "\n", run.err);
    CHECK(run.status == 1);
    CHECK(run.err.find("error[Unsupported]") != std::string::npos);
    CHECK(run.err.find(word) != std::string::npos);
    CHECK(run.err.find("\nhelp: ") != std::string::npos);
    CHECK(!fs::exists(dir / "out.qcg"));
  }
}
