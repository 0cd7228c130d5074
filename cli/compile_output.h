// What `compile` says of a finished compile, as text and as JSON.
//
// Why here: one graph and several (compile_several.cpp) say it in the same words.
//
//   print_report(flags, options, report), put(describe_cost(report));
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "codegen/program/compile_options.h"
#include "codegen/program/compile_report.h"

namespace qcg {

nlohmann::json report_json(const CompileReport& report);

// All but where the program went.
void print_report(const CompileFlags& flags, const CompileOptions& options, const CompileReport& report);

// The verb for the kernels in the report. Without tuning they are only verified, and only if the host can run them.
std::string_view verb_of(const CompileReport& report);

// "955.0 kB · 45 compiler runs, 0 from cache, 6.7 s · tuned in 6.0 s · total 13.1 s"
std::string describe_cost(const CompileReport& report);

}  // namespace qcg
