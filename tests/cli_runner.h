// Starts the built qcodegen as a user does and collects exit status, stdout and stderr.
//
// Why here: tests/cli, tests/real_graphs and tests/readme run it; none of them looks inside.
//
//   const Run run = qcodegen({"explain", "graph.pt2", "--json"});
//   CHECK(run.status == 0);
//   CHECK(run.json()["problems"].size() == 2);
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/temp_dir.h"

namespace qcg::test {

struct Run {
  int status = -1;  // 1000 + signal for a process that was killed
  std::string out, err;

  nlohmann::json json() const {
    INFO("stdout: ", out, "\nstderr: ", err);
    auto document = nlohmann::json::parse(out, nullptr, false);
    REQUIRE(!document.is_discarded());
    return document;
  }
};

// The tests' own kernel cache: kept between runs of the same build, so that only the first is slow.
inline void use_test_cache() { ::setenv("QCG_CACHE_DIR", (binary_dir() + "/test-cache").c_str(), 0); }

inline Run run_program(std::vector<std::string> argv) {
  use_test_cache();
  TempDir dir;
  const std::string out = dir / "out", err = dir / "err";
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  ::posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  std::vector<char*> pointers;
  for (std::string& argument : argv) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t pid = 0;
  REQUIRE(::posix_spawn(&pid, pointers[0], &actions, nullptr, pointers.data(), environ) == 0);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), slurp(out), slurp(err)};
}

inline Run qcodegen(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), cli_path());
  return run_program(std::move(arguments));
}

inline std::string source_path(const std::string& relative) { return source_dir() + "/" + relative; }

// A graph beside the checkout; empty, and a line that says so, where it is absent.
inline std::string shared_graph(const std::string& name) {
  const std::string path = source_path("../shared/graphs/" + name);
  if (fs::exists(path)) return path;
  MESSAGE("skipped: ../shared/graphs/" << name << " is absent");
  return "";
}

// The command fails with this exit status, and its message has this text.
inline void check_refused(std::vector<std::string> arguments, int status, const std::string& text) {
  const Run run = qcodegen(std::move(arguments));
  INFO(run.err);
  CHECK(run.status == status);
  CHECK(run.err.find(text) != std::string::npos);
}

}  // namespace qcg::test
