// Whole models, from token ids to logits, compiled and compared with eager torch: each call of those that keep state, and
// the state behind the last.
#include <algorithm>

#include "tests/real_graphs/outputs.h"

using namespace qcg::test;

namespace {

// Files <folder>/<letter><number>.inputs.safetensors, by number.
std::vector<std::string> inputs_of(const std::string& folder, char letter) {
  std::vector<std::string> out;
  for (const auto& file : fs::directory_iterator(folder))
    if (const std::string name = file.path().filename(); name[0] == letter && name.ends_with(".inputs.safetensors"))
      out.push_back(file.path());
  std::ranges::sort(out, {}, [](const std::string& path) { return std::make_pair(path.size(), path); });
  return out;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ",") + name;
  return out;
}

std::string expected_of(std::string inputs) { return inputs.replace(inputs.rfind(".inputs."), 8, ".expected."); }

void run_calls(const std::string& program, const std::vector<std::string>& calls, const std::string& state,
               Closeness closeness) {
  TempDir dir;
  std::vector<std::string> outputs;
  for (size_t i = 0; i < calls.size(); ++i) outputs.push_back(dir / ("o" + std::to_string(i)));
  std::vector<std::string> arguments = {"run", program, "--inputs", joined(calls), "--outputs", joined(outputs), "-q"};
  if (!state.empty()) arguments.insert(arguments.end(), {"--state-out", dir / "state"});
  const Run run = qcodegen(arguments);
  INFO(run.err);
  REQUIRE(run.status == 0);
  for (size_t i = 0; i < calls.size(); ++i) {
    INFO(calls[i]);
    compare_files(outputs[i], expected_of(calls[i]), closeness);
  }
  if (!state.empty()) compare_files(dir / "state", state, closeness);
}

void check_model(const std::string& name, const std::string& target, Closeness closeness = deep) {
  const std::string folder = shared_graph("models/" + name);
  if (folder.empty()) return;
  INFO(name, " for ", target);
  TempDir dir;
  const std::string program = dir / "p.qcg", state = folder + "/state.expected.safetensors";
  const Run compiled =
      qcodegen({"compile", folder + "/graph.pt2", "-o", program, "--target", target, "--tune=off", "-q"});
  INFO(compiled.err);
  REQUIRE(compiled.status == 0);
  const std::vector<std::string> calls = inputs_of(folder, 't'), alone = inputs_of(folder, 'm');
  REQUIRE(calls.size() + alone.size() > 0);
  if (!calls.empty()) run_calls(program, calls, fs::exists(state) ? state : "", closeness);
  for (const std::string& one : alone) run_calls(program, {one}, "", closeness);
}

}  // namespace

TEST_CASE("models: decoders that keep a cache give eager torch's logits and cache, call by call") {
  for (const char* name : {"llama_kv.s", "llama_kv_bf16.y", "llama_kv_int4wo.y", "gptfast_kv.yd", "gpt2_kv.y",
                           "mistral_window_kv.y", "whisper_decoder_kv.s"})
    check_model(name, "cpu");
  check_model("llama_kv_da8w4.y", "cpu", quantized);
}

TEST_CASE("models: a cache that is an input, and models without state") {
  for (const char* name : {"llama_cache_inputs.y", "bert.y", "t5_encoder.y", "llama_lm.y"}) check_model(name, "cpu");
}

TEST_CASE("models: on the narrowest and on a wider instruction set") {
  for (const std::string target : {"cpu:portable", "cpu:avx2"})
    for (const char* name : {"llama_kv.y", "bert.y"})
      if (target == "cpu:portable" || host_has(target)) check_model(name, target);
}
