// Ctrl-C: one error, status 130, nothing published and nothing remembered.
#include <signal.h>

#include <chrono>

#include "tests/cli_runner.h"
#include "tests/paths.h"

using namespace qcg::test;

namespace {

// Starts a program in a group of its own and sends the whole group a signal, as a terminal does; if `again_s` is not 0,
// that much later once more.
Run interrupt_program(std::vector<std::string> arguments, double after_s, int signal, double again_s = 0) {
  use_test_cache();
  TempDir dir;
  const std::string out = dir / "out", err = dir / "err";
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  ::posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t pid = 0;
  REQUIRE(::posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ) == 0);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::usleep(static_cast<useconds_t>(after_s * 1e6));
  ::kill(-pid, signal);
  if (again_s > 0) ::usleep(static_cast<useconds_t>(again_s * 1e6)), ::kill(-pid, signal);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), slurp(out), slurp(err)};
}

Run interrupt(std::vector<std::string> arguments, double after_s, int signal = SIGINT) {
  arguments.insert(arguments.begin(), cli_path());
  return interrupt_program(std::move(arguments), after_s, signal);
}

}  // namespace

TEST_CASE("an interrupted compile publishes nothing, whatever it was doing") {
  // A full tuning times each kernel for seconds: none of these is done by then.
  for (const double after_s : {0.3, 1.5, 4.0}) {
    TempDir dir;
    INFO("after ", after_s, " s");
    const Run run = interrupt(
        {"compile", source_path("examples/llama_mlp_int8/graph.pt2"), "-o", dir / "a.qcg", "--tune=full"}, after_s);
    INFO(run.err);
    CHECK(run.status == 130);
    CHECK(run.err.find("error[Interrupted]: ") != std::string::npos);
    CHECK(run.err.find("crashed") == std::string::npos);
    CHECK(fs::is_empty(dir.path()));
  }
}

TEST_CASE("a second signal ends the process where the first one has not yet") {
  const std::string graph = source_path("examples/llama_mlp_int8/graph.pt2");
  for (const int signal : {SIGINT, SIGTERM}) {
    CAPTURE(signal);
    Run run;
    for (int attempt = 0; attempt < 10 && run.status < 1000; ++attempt) {
      TempDir dir;
      run = interrupt_program({cli_path(), "compile", graph, "-o", dir / "a.qcg", "--tune=full", "--no-cache"}, 0.5,
                              signal, 0.0005);
      CHECK((run.status == 130 || run.status == 1000 + signal));
    }
    CHECK(run.status == 1000 + signal);
  }
}

TEST_CASE("the end of the terminal or of the service is an interruption as well; with nohup it is none") {
  const std::string graph = source_path("examples/llama_mlp_int8/graph.pt2");
  for (const int signal : {SIGHUP, SIGTERM}) {
    CAPTURE(signal);
    TempDir dir;
    const Run run = interrupt({"compile", graph, "-o", dir / "a.qcg", "--tune=full", "--no-cache"}, 1.5, signal);
    INFO(run.err);
    CHECK(run.status == 130);
    CHECK(run.err.find("error[Interrupted]: ") != std::string::npos);
    CHECK(fs::is_empty(dir.path()));
  }
  TempDir dir;
  const Run kept = interrupt_program({"/bin/sh", "-c", "trap '' HUP; exec \"$0\" \"$@\"", cli_path(), "compile", graph,
                                      "-o", dir / "a.qcg", "--tune=off"},
                                     0.3, SIGHUP);
  INFO(kept.err);
  CHECK(kept.status == 0);
  CHECK(fs::exists(dir / "a.qcg"));
}

TEST_CASE("a compiler that is being asked what it is does not hold up the end") {
  TempDir dir;
  spit(dir / "g++", "#!/bin/sh\nexec sleep 60\n");
  fs::permissions(dir / "g++", fs::perms::owner_all);
  const std::string graph = source_path("examples/native/linear_w8.json");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"compile", graph, "-o", dir / "a.qcg"}, {"check", graph}, {"doctor"}}) {
    INFO(arguments[0]);
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--cxx", dir / "g++"});
    const auto begin = std::chrono::steady_clock::now();
    const Run run = interrupt(all, 1);
    CHECK(run.status == 130);
    CHECK(run.err.find("error[Interrupted]: ") != std::string::npos);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  }
}

TEST_CASE("an interrupted run says what it timed and writes no outputs") {
  TempDir dir;
  const std::string program = dir / "p.qcg", outputs = dir / "out.safetensors";
  REQUIRE(qcodegen({"compile", source_path("examples/llama_mlp_int8/graph.pt2"), "-o", program, "--tune=off"}).status ==
          0);
  for (int ms = 0; ms < 60; ms += 3) {
    fs::remove(outputs);
    const Run run = interrupt({"run", program, "--inputs", source_path("examples/llama_mlp_int8/m5.inputs.safetensors"),
                               "--outputs", outputs, "--repeat", "100000000", "--json"},
                              ms / 1e3);
    INFO("after ", ms, " ms: ", run.err);
    // Before it listens it dies of the signal, as anything does.
    CHECK((run.status == 130 || run.status == 1000 + SIGINT));
    CHECK(!fs::exists(outputs));
    if (run.status != 130 || run.json().contains("error")) continue;
    CHECK(run.json()["runs"].get<int64_t>() > 0);
    CHECK(run.json()["outputs"].is_array());
    CHECK(run.json()["interrupted"] == true);
  }
  const Run late = interrupt({"run", program, "--inputs", source_path("examples/llama_mlp_int8/m5.inputs.safetensors"),
                              "--outputs", outputs, "--repeat", "100000000"},
                             3);
  CHECK(late.status == 130);
  CHECK(late.out.find("ran ") != std::string::npos);
  CHECK(!fs::exists(outputs));
}
