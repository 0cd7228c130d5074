// Keys: every ingredient counts, nothing is ambiguous, differences can be explained.
#include "cache/store/key.h"

#include <functional>

#include "cache_test_util.h"

using namespace qcg;
using namespace qcg::testing;

namespace {

struct Ingredients {
  std::string source = "int f();", header = "#define A 1", toolchain = "gcc 12", isa = "avx2", generator = "1";
  std::vector<std::string> flags = {"-I", "-O2"}, environment = {"LANG=C"};
};

Key key_from(const Ingredients& in) {
  KeyBuilder b;
  b.add("source", in.source).add("header", in.header).add("toolchain", in.toolchain).add("isa", in.isa);
  b.add("generator", in.generator).add_list("flags", in.flags).add_list("environment", in.environment);
  return b.finish();
}

}  // namespace

TEST_CASE("SHA-256 of known texts") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  TestDir dir;
  write_text(dir.path() + "/f", std::string(1000000, 'a'));
  auto hash = sha256_file(dir.path() + "/f");
  REQUIRE(hash.ok());
  CHECK(*hash == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK(!sha256_file(dir.path() + "/none").ok());
  REQUIRE(::mkfifo((dir.path() + "/pipe").c_str(), 0600) == 0);
  for (const std::string& endless : {dir.path() + "/pipe", std::string("/dev/zero"), dir.path()})
    CHECK(sha256_file(endless).error().message == "not a regular file");
}

TEST_CASE("each ingredient changes the key") {
  const Key base = key_from({});
  CHECK(key_from({}) == base);
  CHECK(is_sha256_hex(base.hex));
  const std::vector<std::function<void(Ingredients&)>> changes = {
      [](Ingredients& i) { i.source += " "; },        [](Ingredients& i) { i.header = "#define A 2"; },
      [](Ingredients& i) { i.toolchain = "gcc 13"; }, [](Ingredients& i) { i.isa = "avx512"; },
      [](Ingredients& i) { i.generator = "2"; },      [](Ingredients& i) { i.flags[1] = "-O3"; },
      [](Ingredients& i) { i.flags.push_back(""); },  [](Ingredients& i) { std::swap(i.flags[0], i.flags[1]); },
      [](Ingredients& i) { i.environment.clear(); },  [](Ingredients& i) { std::swap(i.source, i.header); },
  };
  for (size_t n = 0; n < changes.size(); ++n) {
    CAPTURE(n);
    Ingredients changed;
    changes[n](changed);
    CHECK(key_from(changed) != base);
  }
}

TEST_CASE("no two lists of ingredients run into each other") {
  auto list = [](std::vector<std::string> flags) { return KeyBuilder().add_list("flags", flags).finish().hex; };
  CHECK(list({"-I", "-O2"}) != list({"-I-O2"}));
  CHECK(list({"-I -O2"}) != list({"-I", "-O2"}));
  CHECK(list({}) != list({""}));
  CHECK(list({"", ""}) != list({""}));
  CHECK(list({"1:a"}) != list({"a"}));
  CHECK(KeyBuilder().add("ab", "c").finish() != KeyBuilder().add("a", "bc").finish());
  CHECK(KeyBuilder().add("a", "").add("b", "").finish() != KeyBuilder().add("b", "").add("a", "").finish());
  CHECK(KeyBuilder().add("a", "x").finish() != KeyBuilder().add_list("a", std::vector<std::string>{"x"}).finish());
  CHECK(KeyBuilder().add("a", std::string_view("\0", 1)).finish() != KeyBuilder().add("a", "").finish());
  CHECK(KeyBuilder().add("a = b", "c").finish() != KeyBuilder().add("a", "b = c").finish());
}

TEST_CASE("a file counts by its contents alone") {
  TestDir dir;
  write_text(dir.path() + "/a", "same");
  write_text(dir.path() + "/b", "same");
  write_text(dir.path() + "/c", "other");
  auto key = [&](const char* name) {
    KeyBuilder b;
    REQUIRE(b.add_file("weights", dir.path() + "/" + name).ok());
    return b.finish().hex;
  };
  CHECK(key("a") == key("b"));
  CHECK(key("a") != key("c"));
  KeyBuilder b;
  CHECK(!b.add_file("weights", dir.path() + "/none").ok());
}

TEST_CASE("the dump is readable and explains a difference") {
  KeyBuilder now, before;
  now.add("kernel", "k1")
      .add("source", std::string(500, 'x'))
      .add_list("flags", std::vector<std::string>{"-O3", "-mavx2"});
  before.add("kernel", "k1")
      .add("source", std::string(500, 'y'))
      .add_list("flags", std::vector<std::string>{"-O2", "-mavx2"});
  before.add("old", "1");
  CHECK(now.dump().starts_with("kernel = k1\nsource = sha256 "));
  CHECK(now.dump().find(", 500 bytes\nflags = list of 2\nflags[0] = -O3\nflags[1] = -mavx2\n") != std::string::npos);
  auto difference = explain_difference(now.dump(), before.dump());
  REQUIRE(difference.size() == 3);
  CHECK(difference[0] == "source is not the same");
  CHECK(difference[1] == "flags[0]: -O3 was -O2");
  CHECK(difference[2] == "old: 1 is gone");
  CHECK(explain_difference(now.dump(), now.dump()).empty());
}

TEST_CASE("a value cannot forge a line of the dump") {
  KeyBuilder b;
  b.add("name", "x\nflags = forged");
  CHECK(b.dump().find("forged") == std::string::npos);
}
