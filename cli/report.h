// Text for people: units, tables, the progress line.
//
// Why here: every subcommand prints the same units and the same kind of table.
//
//   Table table({"kernel", "m", "time"});
//   table.add({"gate_proj", "1", format_time(3.1e-6)});
//   put(table.str());
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cli.h"
#include "codegen/compile.h"
#include "codegen/tune.h"

namespace qcg {

std::string format_time(double seconds);      // "3.1 µs"
std::string format_bytes(double bytes);       // "0.52 MB" (1e6 bytes)
std::string format_rate(double gbps);         // "46.0 GB/s"
std::string format_flops(double gflops);      // "0.96 TF/s"
std::string format_percent(double share);     // "97 %"
std::string format_range(int64_t m_min, int64_t m_max);  // "5-16", "257+"

// How a record's status is called: "extern" where a vendor's kernel won and the program calls it.
std::string_view status_of(const TuneRecord& record);

// Columns padded to their widest cell, two spaces between; the last column is not padded. Width counts UTF-8 code points.
// A cell stays on its line.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row);
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// A table, the first row its header. What would make lines longer than 100 columns comes below them: the last column.
std::string print_rows(const std::vector<std::vector<std::string>>& rows);

// References have long names that say what they compute: a table shows a mark, the lines after it say what the mark stands for.
class ReferenceNotes {
 public:
  std::string mark(const std::string& name);  // "oneDNN 2.6.3 bf16 matmul" -> "oneDNN[1]"
  std::string str() const;                    // "[1] oneDNN 2.6.3 bf16 matmul\n"; empty where nothing was marked

 private:
  std::vector<std::string> names_;
};
// "1.4× slower": how `other` stands beside `ours`, both in seconds.
std::string format_ratio(double other, double ours);

// "label    value" lines as ux.md draws them.
std::string labelled(std::string_view label, std::string_view subject, std::string_view detail);

// What was measured of fusions and decided: a line each, and as `merge_trials`.
std::string describe_merges(const std::vector<MergeReport>& merges);
nlohmann::json merges_json(const std::vector<MergeReport>& merges);

// One line on stderr that says what a long step is doing; gone when done. Silent where progress is off. With -v every step
// has a line that stays, also where stderr is a file.
class ProgressLine {
 public:
  explicit ProgressLine(const Session& session)
      : on_(session.progress), stays_(session.verbosity > 0), begin_(std::chrono::steady_clock::now()) {}
  ~ProgressLine() { clear(); }
  void show(std::string_view text);
  void clear();

 private:
  bool on_, stays_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace qcg
