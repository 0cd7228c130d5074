// What bash, fish and zsh complete with the scripts that `qcodegen help` prints: each shell itself is asked.
#include "tests/cli_runner.h"

using namespace qcg::test;

TEST_CASE("the completion of bash completes") {
  TempDir dir;
  spit(dir / "completion", qcodegen({"help", "--bash"}).out);
  auto complete = [&](const std::string& words, int at) {
    const std::string script = "source '" + (dir / "completion") + "'; cd '" + dir.path() + "'; COMP_WORDS=(" + words +
                               "); COMP_CWORD=" + std::to_string(at) +
                               "; _qcodegen; printf '%s\\n' \"${COMPREPLY[@]}\"";
    const Run run = run_program({"/bin/bash", "-c", script});
    INFO(run.err);
    CHECK(run.status == 0);
    CHECK(run.err.empty());
    return run.out;
  };
  CHECK(complete("qcodegen com", 1) == "compile\n");
  CHECK(complete("qcodegen compile --tune f", 3) == "fast\nfull\n");
  CHECK(complete("qcodegen compile --tune = f", 4) == "fast\nfull\n");
  CHECK(complete("qcodegen cache st", 2) == "stats\n");
  CHECK(complete("qcodegen list sch", 2) == "schemes\n");
  CHECK(complete("qcodegen run --inp", 2) == "--inputs\n");
  CHECK(complete("qcodegen run compl", 2) == "completion\n");
  CHECK(complete("qcodegen compile --target cp", 3) ==
        "cpu\ncpu:amx\ncpu:avx512bf16\ncpu:avx512\ncpu:avx2vnni\n"
        "cpu:avx2\ncpu:portable\n");
  CHECK(complete("qcodegen compile --target cpu : avx2", 5) == "avx2vnni\navx2\n");
  CHECK(complete("qcodegen compile --target = cpu : a", 6) == "amx\navx512bf16\navx512\navx2vnni\navx2\n");
  CHECK(complete("qcodegen compile --target cuda : ''", 5) == "sm_90a\nsm_80\n");
  CHECK(complete("qcodegen compile --target cuda :", 4) == "sm_90a\nsm_80\n");
  CHECK(complete("qcodegen explain --disable-pass fuse", 3) == "fuse_loops\nfuse_rows\n");
  CHECK(complete("qcodegen explain --print-after dc", 3) == "dce\n");
  CHECK(complete("qcodegen bench --schemes da8w", 3) == "da8w8\nda8w4\n");
  CHECK(complete("qcodegen bench --against one", 3) == "onednn\n");
  CHECK(complete("qcodegen log --status wr", 3) == "wrong\n");
}

TEST_CASE("the completion of fish completes") {
  TempDir dir;
  spit(dir / "completion", qcodegen({"help", "--fish"}).out);
  if (run_program({"/bin/sh", "-c", "command -v fish"}).status != 0) {
    MESSAGE("skipped: fish is missing (scripts/setup test installs it)");
    return;
  }
  const auto complete = [&](const std::string& line) {  // the words, without their descriptions
    const Run run = run_program({"/usr/bin/env", "HOME=" + dir.path(), "fish", "--no-config", "-c",
                                 "source '" + (dir / "completion") + "'; cd '" + dir.path() + "'; complete -C '" +
                                     line + "' | string replace -r '\\t.*' ''; true"});
    INFO(run.err);
    CHECK(run.status == 0);
    CHECK(run.err.empty());
    return run.out;
  };
  CHECK(complete("qcodegen com") == "compile\n");
  CHECK(complete("qcodegen compile --tune f") == "fast\nfull\n");
  CHECK(complete("qcodegen compile --tune=o") == "--tune=off\n");
  CHECK(complete("qcodegen cache st") == "stats\n");
  CHECK(complete("qcodegen cache gc --max") == "--max-size\n");
  CHECK(complete("qcodegen list sch") == "schemes\n");
  CHECK(complete("qcodegen run --inp") == "--inputs\n");
  CHECK(complete("qcodegen run compl") == "completion\n");
  CHECK(complete("qcodegen compile --target cpu:por") == "cpu:portable\n");
}

// What an interactive zsh reads first: a tab prints what the line has become.
constexpr const char* kZshBegins = R"(
autoload -Uz compinit
compinit -u -d $HOME/dump
source $HOME/completion
cd $HOME
show() { zle expand-or-complete; print -r -- "<<$BUFFER>>"; BUFFER=; zle accept-line }
zle -N show
bindkey '^I' show
print ready
)";

// Types a line and a tab into that zsh.
constexpr const char* kTypeIntoZsh = R"(zmodload zsh/zpty
zpty z "TERM=dumb PS1= zsh -f -i"
zpty -w z 'source $HOME/begin.zsh'
zpty -r -m z said '*ready*'
zpty -n -w z "$1"$'\t'
zpty -r -m z said '*<<*>>*'
print -r -- "${${said##*<<}%%>>*}"
zpty -d z)";

TEST_CASE("the completion of zsh completes") {
  TempDir dir;
  spit(dir / "completion", qcodegen({"help", "--zsh"}).out);
  spit(dir / "begin.zsh", kZshBegins);
  spit(dir / "type.zsh", kTypeIntoZsh);
  if (run_program({"/bin/sh", "-c", "command -v zsh"}).status != 0) {
    MESSAGE("skipped: zsh is missing (scripts/setup test installs it)");
    return;
  }
  const auto complete = [&](const std::string& line) {
    const Run run =
        run_program({"/usr/bin/env", "HOME=" + dir.path(), "timeout", "60", "zsh", "-f", dir / "type.zsh", line});
    INFO(run.out, run.err);
    CHECK(run.status == 0);
    return run.out;
  };
  CHECK(complete("qcodegen com") == "qcodegen compile \n");
  CHECK(complete("qcodegen compile --tune o") == "qcodegen compile --tune off \n");
  CHECK(complete("qcodegen compile --tune=o") == "qcodegen compile --tune=off \n");
  CHECK(complete("qcodegen cache st") == "qcodegen cache stats \n");
  CHECK(complete("qcodegen cache gc --max") == "qcodegen cache gc --max-size=\n");
  CHECK(complete("qcodegen list sch") == "qcodegen list schemes \n");
  CHECK(complete("qcodegen run compl") == "qcodegen run completion \n");
  CHECK(complete("qcodegen compile --target cpu:por") == "qcodegen compile --target cpu:portable \n");
}
