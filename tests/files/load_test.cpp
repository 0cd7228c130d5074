// Programs that are loaded while they are replaced, and files of one program in another.
#include <fcntl.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "cache/store/sha256.h"
#include "tests/files/compile_files.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// Two programs of one graph change places all the time, as `compile -o` does it, the old one's files going one by one.
pid_t keep_replacing(const Workplace& place) {
  return in_child([&]() -> int {
    for (int i = 0;; ++i) {
      const std::string next = place / "next", from = place / (i % 2 ? "a.qcg" : "b.qcg"), to = place / "p.qcg";
      fs::copy(from, next, fs::copy_options::recursive);
      if (::renameat2(AT_FDCWD, next.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) return 1;
      fs::remove_all(next);
    }
  });
}

void load_while_replaced(int rounds) {
  const Workplace place;
  for (const auto& [name, value] : {std::pair("a", 1.0f), std::pair("b", 2.0f)}) {
    place.write_weights(name + std::string(".safetensors"), value);
    REQUIRE(place.compile(name + std::string(".safetensors"), name + std::string(".qcg")).ok());
  }
  fs::copy(place / "a.qcg", place / "p.qcg", fs::copy_options::recursive);
  const pid_t replacer = keep_replacing(place);
  int of_a = 0, of_b = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    try {
      const float value = value_of(place / "p.qcg", round % 2 == 0);
      ++(value == 1 ? of_a : of_b);
      CHECK((value == 1 || value == 2));
    } catch (const std::exception& error) {
      FAIL_CHECK(error.what());
    }
  }
  ::kill(replacer, SIGKILL);
  CHECK(status_of(replacer) == 1000 + SIGKILL);
  CHECK(of_a > 0);
  CHECK(of_b > 0);
}

}  // namespace

TEST_CASE("a program that is replaced while it is loaded is the old one or the new one") { load_while_replaced(400); }

TEST_CASE("stress: 20000 loads of a program that is replaced all the time" * doctest::skip()) {
  load_while_replaced(20000);
}

TEST_CASE("weights of another program are refused by name, though they have the size") {
  const Workplace place;
  for (const auto& [name, value] : {std::pair("a", 1.0f), std::pair("b", 2.0f)}) {
    place.write_weights(name + std::string(".safetensors"), value);
    REQUIRE(place.compile(name + std::string(".safetensors"), name + std::string(".qcg")).ok());
  }
  fs::copy_file(place / "b.qcg/weights.bin", place / "a.qcg/weights.bin", fs::copy_options::overwrite_existing);
  for (const auto mode : {WeightsMode::map, WeightsMode::huge_pages}) {
    const auto loaded = Program::load(place / "a.qcg", {.weights = mode});
    REQUIRE(!loaded.ok());
    CHECK(loaded.error().code == ErrorCode::BadInput);
    CHECK(loaded.error().where == place / "a.qcg/weights.bin");
    CHECK(loaded.error().message.find("another program") != std::string::npos);
  }
}

TEST_CASE("a program whose manifest names no content of its weights loads, as those made before do") {
  const Workplace place;
  place.write_weights("a.safetensors", 1);
  REQUIRE(place.compile("a.safetensors", "a.qcg").ok());
  auto manifest = nlohmann::json::parse(slurp(place / "a.qcg/manifest.json"));
  REQUIRE(manifest["files"]["weights.bin"].erase("content") == 1);
  const std::string text = manifest.dump();
  spit(place / "a.qcg/manifest.json", text);
  spit(place / "a.qcg/manifest.sha256", sha256_hex(text) + "\n");
  CHECK(value_of(place / "a.qcg") == 1);
}
