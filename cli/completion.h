// Scripts that complete qcodegen's command line in bash, zsh and fish, made from the same options as --help.
//
// Why here: an option that is added to a command is completed at once, in every shell.
//
//   put(zsh_completion(app));
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace qcg {

// What help prints of an app: its commands, its options, or its positional arguments.
std::vector<const CLI::App*> commands_of(const CLI::App& app);
std::vector<const CLI::Option*> options_of(const CLI::App& app, bool positional);

// The name of the values that an option takes, "off|fast|full" for one of these words; empty for a flag.
std::string option_value(const CLI::Option& option);

std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);
std::string fish_completion(const CLI::App& app);

}  // namespace qcg
