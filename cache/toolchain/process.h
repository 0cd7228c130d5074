// run_process: starts a program by argv, never through a shell, with limits for time and memory.
//
// Why here: compilers hang, take too much memory and get killed, so every compiler is started with these limits. The
// child leads its own process group, which is killed as a whole, also when this process is killed (group_watch.h). It
// reads /dev/null, writes to one log of limited size, and sees only the environment given here.
//
//   QCG_TRY(r, run_process({.argv = {"/usr/bin/g++", "--version"}, .timeout_s = 5}));
//   if (r.exit_status == 0) use(r.output);
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace qcg {

struct ProcessSpec {
  std::vector<std::string> argv;         // argv[0] is a path
  std::vector<std::string> environment;  // "NAME=value"; the child sees no other variables
  std::string directory;                 // working directory; empty: the caller's
  double timeout_s = 60;
  long memory_mb = 0;                         // address space of each process; 0 = no limit
  size_t output_limit = size_t{1} << 20;      // output beyond it is dropped
  const std::atomic<bool>* cancel = nullptr;  // once another thread or a signal handler sets it, the child is killed
  // A function to run in a forked child instead of argv. It returns the exit status; its stdout and stderr are the log.
  std::function<int()> body;
};

struct ProcessResult {
  int exit_status = 0;  // 128 + signal if a signal ended the process
  int signal = 0;
  bool timed_out = false;
  bool cancelled = false;
  double seconds = 0;
  long max_rss_kb = 0;
  std::string output;  // stdout and stderr, interleaved as they were written
};

// Error Io: the program cannot be started. Everything that happens after the start is a result.
Result<ProcessResult> run_process(const ProcessSpec& spec);

// The PATH in which programs are looked up, and which children get.
std::string search_path();

// The environment for tools: PATH, LANG=C, LC_ALL=C, CCACHE_DISABLE=1 and, if given, TMPDIR.
std::vector<std::string> tool_environment(const std::string& temp_dir = {});

// The first executable `name` in a colon-separated path; empty if there is none.
std::string find_program(const std::string& name, const std::string& path);

}  // namespace qcg
