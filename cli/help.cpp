// qcodegen help: prints the help text, or the man page and the bash completion, which are generated from the same
// options.
#include <fmt/format.h>

#include "cli/cli.h"
#include "codegen/build/build.h"
#include "codegen/tune/tune.h"
#include "graph/ir/scheme.h"
#include "graph/passes/pass_list.h"

namespace qcg {

namespace {

using Options = std::vector<const CLI::Option*>;
using Commands = std::vector<const CLI::App*>;

Commands commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
}

Options options_of(const CLI::App& app, bool positional) {
  return app.get_options(
      [&](const CLI::Option* o) { return !o->get_group().empty() && o->get_positional() == positional; });
}

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

std::string option_value(const CLI::Option& option) {
  return option.get_items_expected_max() == 0 ? "" : option.get_type_name();
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
         ".TP\n\\fBQCG_CXX\\fR\nthe C++ compiler for kernels; \\fB\\-\\-cxx\\fR overrides it\n"
         ".TP\n\\fBQCG_DEBUG\\fR\na number: above 0 like \\fB\\-v\\fR, below 0 like \\fB\\-q\\fR\n";
}

template <class Table>
std::string names_of(const Table& table, std::string_view before = "") {
  std::string out;
  for (const auto& row : table) out += fmt::format("{}{}{}", out.empty() ? "" : " ", before, row.name);
  return out;
}

// The words that may follow an option whose value is a name of a table.
std::string table_words(const CLI::Option& option) {
  const std::string name = option.get_lnames().empty() ? "" : option.get_lnames()[0];
  if (name == "target") {
    std::string out = "cpu";
    for (const IsaInfo& isa : isa_table())
      out += fmt::format(" {}:{}", isa.device == Device::cpu ? "cpu" : "cuda", isa.name);
    return out;
  }
  if (name == "disable-pass" || name == "print-after" || name == "pass") return names_of(kPasses);
  if (name == "schemes") return names_of(kSchemes);
  if (name == "against") return "onednn cublas none";
  if (name == "status") {
    std::string out = "extern";
    for (int i = 0; i <= static_cast<int>(TrialStatus::separate); ++i)
      if (const auto word = trial_status_name(static_cast<TrialStatus>(i)); word.find(' ') == word.npos)
        out += " " + std::string(word);
    return out;
  }
  return "";
}

// The words that an option accepts: those of a choice (`off|fast|full`) or of a table; empty for other options.
std::string choices(const CLI::Option& option) {
  std::string words = option_value(option);
  if (words.find('|') == std::string::npos) return table_words(option);
  std::replace(words.begin(), words.end(), '|', ' ');
  return words;
}

struct Completion {
  std::string commands;  // lines of the case that finds the command in the words before the cursor
  std::string values;    // lines of the case with the words that may follow an option
  std::string words;     // lines of the case with a command's subcommands, options and positional words

  void add(const CLI::App& app, const std::string& path) {
    std::string own;
    for (const CLI::App* sub : commands_of(app)) {
      own += sub->get_name() + " ";
      const std::string name = path.empty() ? sub->get_name() : path + " " + sub->get_name();
      commands += fmt::format("      \"{} {}\") command=\"{}\" ;;\n", path, sub->get_name(), name);
      add(*sub, name);
    }
    for (const CLI::Option* o : options_of(app, true)) own += choices(*o) + " ";
    for (const CLI::Option* o : options_of(app, false))
      for (const std::string& name : o->get_lnames()) {
        own += "--" + name + " ";
        if (!choices(*o).empty()) values += fmt::format("    \"{} --{}\") words=\"{}\" ;;\n", path, name, choices(*o));
      }
    words += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, own);
  }
};

std::string bash_completion(const CLI::App& app) {
  Completion completion;
  completion.add(app, "");
  return fmt::format(R"(# bash completion for qcodegen; generated by `qcodegen help --bash`
_qcodegen() {{
  local at=$((COMP_CWORD - 1)) cur=${{COMP_WORDS[COMP_CWORD]}} begin="" command="" word words=""
  # bash splits words at `=` and `:`. The text before a `:` belongs to the completed word and must not be repeated.
  if [[ $cur == ":" ]]; then begin="${{COMP_WORDS[at]}}:" cur="" at=$((at - 1))
  elif [[ ${{COMP_WORDS[at]}} == ":" ]]; then begin="${{COMP_WORDS[at - 1]}}:" at=$((at - 2))
  fi
  [[ ${{COMP_WORDS[at]}} == "=" ]] && at=$((at - 1))
  [[ $cur == "=" ]] && cur=""
  local prev=${{COMP_WORDS[at]}}
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
    case "$command $word" in
{}    esac
  done
  case "$command $prev" in
{}  esac
  [[ -n $words ]] || case "$command" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$begin$cur"))
  COMPREPLY=("${{COMPREPLY[@]#"$begin"}}")
  [[ $cur == -* || ${{#COMPREPLY[@]}} -gt 0 && -n $begin$cur ]] || COMPREPLY+=($(compgen -f -- "$cur"))
}}
complete -o filenames -F _qcodegen qcodegen
)",
                     completion.commands, completion.values, completion.words);
}

struct HelpFlags {
  bool man = false, bash = false;
};

}  // namespace

void add_help_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("help", "print this help, the man page (--man) or the bash completion (--bash)");
  auto flags = std::make_shared<HelpFlags>();
  auto* man = sub->add_flag("--man", flags->man, "print the man page (roff)");
  sub->add_flag("--bash", flags->bash, "print the bash completion")->excludes(man);
  sub->footer("Example:\n  source <(qcodegen help --bash)");
  sub->callback([&app, &session, flags] {
    put(flags->man ? man_page(app) : flags->bash ? bash_completion(app) : app.help("", CLI::AppFormatMode::Normal));
    session.status = 0;
  });
}

}  // namespace qcg
