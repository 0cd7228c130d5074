// qcodegen help: prints the help text, or the man page and the completions of shells, which are generated from the same
// options.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/completion.h"
#include "codegen/build/build.h"

namespace qcg {

namespace {

// Escapes text for roff: backslashes, dots at the start of a line, and hyphens, so that searching for options works.
std::string roff(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else out += c;
  }
  return out;
}

std::string man_options(const CLI::App& app) {
  std::string out;
  for (const bool positional : {true, false})
    for (const CLI::Option* o : options_of(app, positional))
      out += fmt::format(".TP\n\\fB{}\\fR \\fI{}\\fR\n{}\n", roff(o->get_name(positional, true)),
                         roff(option_value(*o)), roff(o->get_description()));
  return out;
}

// One section per command, followed by the sections of its subcommands.
std::string man_command(const CLI::App& app, const std::string& path) {
  std::string arguments;
  for (const CLI::Option* o : options_of(app, true)) arguments += " " + o->get_name(true);
  std::string out =
      fmt::format(".SS \"{}{}\"\n{}\n{}", roff(path), roff(arguments), roff(app.get_description()), man_options(app));
  if (!app.get_footer().empty()) out += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(app.get_footer()));
  for (const CLI::App* sub : commands_of(app)) out += man_command(*sub, path + " " + sub->get_name());
  return out;
}

std::string man_page(const CLI::App& app) {
  std::string out = fmt::format(
      ".TH QCODEGEN 1 \"\" \"qcodegen {}\" \"User Commands\"\n.SH NAME\nqcodegen \\- {}\n"
      ".SH SYNOPSIS\n\\fBqcodegen\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH OPTIONS\n{}.SH COMMANDS\n",
      kGeneratorVersion, roff(app.get_description()), man_options(app));
  for (const CLI::App* sub : commands_of(app)) out += man_command(*sub, sub->get_name());
  return out +
         ".SH EXIT STATUS\n0 success; 1 bad input or bad result; 2 usage; 3 environment (no compiler, no space); "
         "130 interrupted\n"
         ".SH ENVIRONMENT\n"
         ".TP\n\\fBQCG_CACHE_DIR\\fR\nthe directory of the cache; default: XDG_CACHE_HOME/qcodegen, then "
         "HOME/.cache/qcodegen\n"
         ".TP\n\\fBQCG_REMOTE_CACHE\\fR\nthe server that keeps the cache of a team; \\fB\\-\\-remote\\-cache\\fR "
         "overrides it\n"
         ".TP\n\\fBQCG_REMOTE_CACHE_KEY_FILE\\fR\nthe file with the key that signs its entries\n"
         ".TP\n\\fBQCG_CXX\\fR\nthe C++ compiler for kernels; \\fB\\-\\-cxx\\fR overrides it\n"
         ".TP\n\\fBQCG_DEBUG\\fR\na number: above 0 like \\fB\\-v\\fR, below 0 like \\fB\\-q\\fR\n";
}

}  // namespace

void add_help_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("help", "print this help, the man page (--man), or the completion of a shell");
  using Print = std::string (*)(const CLI::App&);
  const auto print =
      std::make_shared<Print>([](const CLI::App& all) { return all.help("", CLI::AppFormatMode::Normal); });
  struct Text {
    const char *flag, *help;
    Print print;
  };
  std::vector<CLI::Option*> others;
  for (const Text& text : {Text{"--man", "print the man page (roff)", man_page},
                           Text{"--bash", "print the completion for bash", bash_completion},
                           Text{"--zsh", "print the completion for zsh", zsh_completion},
                           Text{"--fish", "print the completion for fish", fish_completion}}) {
    auto* flag = sub->add_flag_callback(
        text.flag, [print, text] { *print = text.print; }, text.help);
    for (auto* other : others) flag->excludes(other);
    others.push_back(flag);
  }
  sub->footer("Examples:\n  source <(qcodegen help --bash)\n  qcodegen help --fish | source");
  sub->callback([&app, &session, print] {
    put((*print)(app));
    session.status = 0;
  });
}

}  // namespace qcg
