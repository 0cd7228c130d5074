// What all subcommands share: the session (parsed once from flags and environment) and functions that print results.
//
// Why here: each subcommand has one file with one add_… function, which main.cpp calls. Only main.cpp reads argv and
// the environment.
//
//   void add_list_command(CLI::App& app, Session& session) {
//     auto* sub = app.add_subcommand("list", "…");
//     sub->callback([&] { session.status = run_list(session); });
//   }
//
// Exit status: 0 success, 1 bad input or bad result, 2 usage, 3 environment, 130 interrupted.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/closest.h"
#include "base/result.h"
#include "cache/toolchain/toolchain.h"
#include "cli/documents.h"

namespace qcg {

struct Session {
  bool json = false;
  int verbosity = 0;         // -1 with -q, 1 with -v; QCG_DEBUG sets any number
  bool progress = false;     // stderr is a terminal and neither -q nor --json was given
  std::string cache_dir;     // --cache-dir, QCG_CACHE_DIR, XDG_CACHE_HOME/qcodegen, HOME/.cache/qcodegen
  std::string cxx, env_cxx;  // --cxx, QCG_CXX
  std::string remote_cache;  // --remote-cache, QCG_REMOTE_CACHE
  std::string remote_key;    // QCG_REMOTE_CACHE_KEY_FILE
  int status = 0;            // the exit status of the process
};

// The commit that was built, with "-dirty" where files differed from it; empty where neither git nor the source archive
// told it (cmake/commit.cmake).
extern const char* const kCommit;

// Set by SIGINT, SIGTERM and SIGHUP. Long-running work polls it.
const std::atomic<bool>& interrupted();

inline ToolchainOptions toolchain_options(const Session& session) {
  return {session.cxx, session.env_cxx, {}, &interrupted()};
}

// Replaces control characters, except those in `kept`, by text such as `\x1b`: names from files must not control a
// terminal.
std::string printable(std::string_view text, std::string_view kept = "");

// Writes text to stderr; line breaks stay, other control characters are replaced. Ignores write errors.
void say(std::string_view text);

// The same on stdout. main() reports write errors at the end.
void put(std::string_view text);
template <class... T>
void show(fmt::format_string<T...> format, T&&... values) {
  put(fmt::format(format, std::forward<T>(values)...));
}

// Prints a typed error: `error[Code]: where: message` and `help: …` on stderr, and with --json also a document on
// stdout. Returns the exit status for its code.
int fail(const Session& session, const Error& error);

// The same on stderr only, for commands that have already printed their document on stdout.
int complain(const Error& error);

// Error Usage for the first of these options that was given; `why` says why it does not apply to the command's
// argument.
Status refuse_options(const std::vector<const CLI::Option*>& options, const std::string& why);

// One JSON document on stdout: the object `content`, to which name and version are added.
void print_json(Document document, nlohmann::json content);

// Adds an option or positional argument that accepts a few words; help and completion list them: `--tune
// off|fast|full`.
template <class T>
CLI::Option* add_choice(CLI::App& sub, const std::string& flags, T& value,
                        const std::vector<std::pair<std::string, T>>& words, const std::string& help) {
  std::string type;
  for (const auto& word : words) type += (type.empty() ? "" : "|") + word.first;
  const auto table = std::make_shared<const std::map<std::string, T>>(words.begin(), words.end());
  std::vector<std::string> known_words;
  for (const auto& word : words) known_words.push_back(word.first);
  auto known = [known_words, type](const std::string& word) {
    const bool found = std::find(known_words.begin(), known_words.end(), word) != known_words.end();
    return found ? "" : fmt::format("{} is not one of {}{}", word, type, did_you_mean(word, known_words));
  };
  return sub
      .add_option_function<std::string>(
          flags, [&value, table](const std::string& word) { value = table->at(word); }, help)
      ->check(known)
      ->type_name(type);
}

// Checks that an option is a whole number of at least `least`. CLI11's own check would print the largest double in its
// error.
template <class T>
auto whole_number(T least) {
  return [least](const std::string& text) -> std::string {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least) return "";
    return fmt::format("must be a whole number from {}, not '{}'", least, text);
  };
}

void add_compile_command(CLI::App& app, Session& session);
void add_run_command(CLI::App& app, Session& session);
void add_check_command(CLI::App& app, Session& session);
void add_bench_command(CLI::App& app, Session& session);
void add_explain_command(CLI::App& app, Session& session);
void add_inspect_command(CLI::App& app, Session& session);
void add_log_command(CLI::App& app, Session& session);
void add_report_command(CLI::App& app, Session& session);
void add_cache_command(CLI::App& app, Session& session);
void add_list_command(CLI::App& app, Session& session);
void add_doctor_command(CLI::App& app, Session& session);
void add_help_command(CLI::App& app, Session& session);

}  // namespace qcg
