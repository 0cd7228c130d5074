// qcodegen: flags and environment in, one subcommand, an exit status out.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "cli/cli.h"
#include "codegen/build/build.h"
#include "graph/read/files/mapped_file.h"

namespace qcg {

namespace {

std::atomic<bool> g_interrupted{false};

// The second signal ends the process at once: what the first one asks for may take long.
void on_signal(int) {
  g_interrupted = true;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

Error short_memory() {
  return Error::io("memory", "this needs more than there is", "choose smaller sizes, or free some memory");
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string default_cache_dir() {
  if (const std::string dir = environment("QCG_CACHE_DIR"); !dir.empty()) return dir;
  if (const std::string dir = environment("XDG_CACHE_HOME"); dir.starts_with("/")) return dir + "/qcodegen";
  const std::string home = environment("HOME");
  return (home.empty() ? "$HOME" : home) + "/.cache/qcodegen";  // refused where it does not begin with /
}

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::Usage: return 2;
    case ErrorCode::Toolchain:
    case ErrorCode::Io: return 3;
    case ErrorCode::Interrupted: return 130;
    default: return 1;
  }
}

// Adds the default to the description of every option that takes a value: help and man page print it.
void name_default(CLI::Option& option) {
  const std::string text = option.get_description(), value = option.get_default_str();
  if (option.get_items_expected_max() == 0 || option.get_required() || text.find("default") != text.npos) return;
  option.description(fmt::format("{} (default{})", text,
                                 !value.empty()             ? " " + value
                                 : text.starts_with("only") ? ": all"
                                                            : ": none"));
  option.default_str("");  // CLI11 would print it a second time
}

// The rules for the options of every command.
void set_rules(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    name_default(*option);
    // `--weights a.safetensors graph.json`: an option takes one word; commas or repeating the option make a list.
    if (option->get_items_expected_max() > 1 && !option->get_positional()) option->allow_extra_args(false);
    if (option->get_items_expected_max() > 0)
      option->check([](const std::string& value) { return value.empty() ? "must not be empty" : ""; });
  }
  for (CLI::App* sub : app.get_subcommands({})) set_rules(*sub);
}

// "0.1.0 (1a2b3c4d5e6f)": version and commit, or the version alone where the build knew no commit.
std::string full_version() {
  const std::string commit = kCommit;
  return std::string(kGeneratorVersion) + (commit.empty() ? "" : " (" + commit + ")");
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  return out;
}

// The app itself and the commands on the command line, outermost first.
std::vector<const CLI::App*> named_commands(const CLI::App& app, int argc, char** argv) {
  std::vector<const CLI::App*> out = {&app};
  for (int i = 1; i < argc; ++i)
    for (const CLI::App* sub : out.back()->get_subcommands({}))
      if (sub->get_name() == argv[i]) {
        out.push_back(sub);
        break;
      }
  return out;
}

// The parser stops at the first mistake, so it may not have reached --json: this function looks for it.
int fail_usage(const CLI::App& app, Session& session, int argc, char** argv, std::string message) {
  for (int i = 1; i < argc; ++i) session.json = session.json || std::string_view(argv[i]) == "--json";
  const std::vector<const CLI::App*> commands = named_commands(app, argc, argv);
  std::string path;
  std::vector<std::string> options, subcommands;
  for (const CLI::App* command : commands) {
    if (command != &app) path += " " + command->get_name();
    for (std::string& name : option_names(*command)) options.push_back(std::move(name));
  }
  for (const CLI::App* sub : commands.back()->get_subcommands({})) subcommands.push_back(sub->get_name());
  const std::vector<std::string> unknown = app.remaining(true);
  const auto option = std::find_if(unknown.begin(), unknown.end(),
                                   [](const std::string& word) { return word.starts_with("-") && word.size() > 1; });
  const bool is_command = !subcommands.empty() && !unknown.empty() && option != unknown.begin();
  if (option != unknown.end() && !is_command) {
    const std::string name = option->substr(0, option->find('='));
    message = fmt::format("there is no option '{}'{}", name, did_you_mean(name, options));
  } else if (is_command) {
    message = fmt::format("there is no command '{}'{}", unknown[0], did_you_mean(unknown[0], subcommands));
  }
  return fail(session, {ErrorCode::Usage, "", message, fmt::format("see `qcodegen{} --help`", path)});
}

// A result that did not reach stdout is an error.
int finish(int status) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !std::ferror(stdout)) return status;
  return complain(Error::io("stdout",
                            fmt::format("cannot be written{}{}", errno ? ": " : "", errno ? std::strerror(errno) : ""),
                            "check the free space at its destination"));
}

// If the caller has closed stdout or stderr, the next opened file would get its descriptor: /dev/null takes it instead.
void fill_standard_descriptors() {
  int fd;
  do fd = ::open("/dev/null", O_RDONLY);
  while (fd >= 0 && fd <= STDERR_FILENO);
  ::close(fd);
}

}  // namespace

const std::atomic<bool>& interrupted() { return g_interrupted; }

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    // UTF-8 has a second set of control characters: 0xc2 and a byte from 0x80 to 0x9f.
    const bool second = text.substr(i, 1) == "\xc2" && i + 1 < text.size() && (text[i + 1] & 0xe0) == 0x80;
    if (second) ++i;
    const bool control = second || (text[i] & 0xe0) == 0 || text[i] == 0x7f;
    if (control && kept.find(text[i]) == kept.npos)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    else out += text[i];
  }
  return out;
}

namespace {

void write_lines(std::FILE* file, std::string_view text) {
  const std::string safe = printable(text, "\n\t");
  std::fwrite(safe.data(), 1, safe.size(), file);
}

}  // namespace

void say(std::string_view text) { write_lines(stderr, text); }

void put(std::string_view text) { write_lines(stdout, text); }

void print_json(Document document, nlohmann::json content) {
  content["document"] = document.info().name;
  content["version"] = document.info().version;
  const std::string text = content.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);  // with JSON's own escapes
}

int fail(const Session& session, const Error& error) {
  if (session.json)
    print_json("error", {{"error",
                          {{"code", error_code_name(error.code)},
                           {"where", error.where},
                           {"message", error.message},
                           {"help", error.help}}}});
  return complain(error);
}

Status refuse_options(const std::vector<const CLI::Option*>& options, const std::string& why) {
  for (const CLI::Option* option : options)
    if (option->count() > 0) return Error{ErrorCode::Usage, option->get_name(), why, "leave this option out"};
  return {};
}

int complain(const Error& error) {
  Error shown = error;
  shown.where = printable(error.where);
  say(shown.to_string() + "\n");
  return exit_status(error.code);
}

}  // namespace qcg

int main(int argc, char** argv) {
  using namespace qcg;
  fill_standard_descriptors();
  Session session;
  session.cache_dir = default_cache_dir();
  session.env_cxx = environment("QCG_CXX");
  session.remote_cache = environment("QCG_REMOTE_CACHE");
  session.remote_key = environment("QCG_REMOTE_CACHE_KEY_FILE");
  if (const std::string debug = environment("QCG_DEBUG"); !debug.empty()) session.verbosity = std::atoi(debug.c_str());

  CLI::App app{"Compiles graphs of quantized linear layers to tuned native kernels, without Python and Triton",
               "qcodegen"};
  app.set_version_flag("--version", full_version());
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", session.json, "print one JSON document on stdout instead of text");
  app.add_flag_callback(
      "-q,--quiet", [&] { session.verbosity = -1; }, "print only errors and requested output");
  app.add_flag_callback(
      "-v,--verbose", [&] { session.verbosity = 1; }, "print each step on stderr, with its time");
  app.add_option("--cache-dir", session.cache_dir,
                 "the directory of the cache (default: QCG_CACHE_DIR, or ~/.cache/qcodegen)");
  app.add_option("--cxx", session.cxx, "the C++ compiler for kernels (default: QCG_CXX, or g++ or clang++ on PATH)");
  app.parse_complete_callback(
      [&] { session.progress = ::isatty(STDERR_FILENO) && session.verbosity >= 0 && !session.json; });
  for (auto* add : {add_compile_command, add_run_command, add_check_command, add_bench_command, add_explain_command,
                    add_inspect_command, add_log_command, add_report_command, add_cache_command, add_list_command,
                    add_doctor_command, add_help_command})
    add(app, session);

  set_rules(app);

  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  if (std::signal(SIGHUP, on_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // as nohup wants it
  guard_mapped_files();
  std::signal(SIGXFSZ, SIG_IGN);  // write() then reports that a file may not grow
  if (argc < 2) {
    say(app.help());
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return finish(app.exit(error));  // --help, --version
    return finish(fail_usage(app, session, argc, argv, error.what()));
  } catch (const std::filesystem::filesystem_error& error) {
    session.status =
        fail(session, Error::io(error.path1().string(), error.code().message(), "check this path and its permissions"));
  } catch (const std::bad_alloc&) {
    session.status = fail(session, short_memory());
  } catch (const std::length_error&) {  // a vector of more elements than memory can have
    session.status = fail(session, short_memory());
  } catch (const std::exception& error) {  // print an error instead of aborting
    if (!std::ferror(stdout)) session.status = fail(session, Error::internal("qcodegen", error.what()));
  }
  if (const Status mapped = check_mapped_files(); !mapped.ok() && session.status == 0)
    session.status = complain(mapped.error());
  return finish(session.status);
}
