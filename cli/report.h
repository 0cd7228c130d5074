// Formatting of reports: units, tables, the progress line.
//
// Why here: all subcommands print the same units and the same kind of table.
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
#include "codegen/program/compile_report.h"
#include "codegen/tune/tune.h"

namespace qcg {

std::string format_time(double seconds);                      // "3.1 µs"
std::string format_bytes(double bytes);                       // "0.52 MB" (1e6 bytes)
std::string format_rate(double gbps);                         // "46.0 GB/s"
std::string format_flops(double gflops);                      // "0.96 TF/s"
std::string format_share(double share);                       // "97 %" of a roofline; ">110 %" if it cannot be right
std::string format_date(std::string_view iso);                // "2026-11-24 07:31 UTC"
std::string count_of(int64_t number, std::string_view noun);  // "1 kernel", "2 kernels"
std::string format_range(int64_t m_min, int64_t m_max);       // "5-16", "257+"

// The name of a record's status: "extern" if a vendor's kernel won and the program calls it.
std::string_view status_of(const TuneRecord& record);
// What it computes: the scheme of a linear, the family of any other kernel.
std::string kind_of(const TuneRecord& record);

// Whether a share exceeds 100 % by more than noise explains: then the ceiling was measured too low.
constexpr bool is_doubtful_share(double share) { return share > 1.1; }
// The figures of a record, marked with `~` if other processes disturbed them.
std::string format_time(const TuneRecord& record);    // "26.4 µs", "~26.4 µs", "-"
std::string format_spread(const TuneRecord& record);  // "±1.2 %", "1 run"
// The time of `other` divided by that of `ours`; 0 if one of them was run only once or not at all.
double ratio_of(const TuneRecord& other, const TuneRecord& ours);
std::string format_ratio(const TuneRecord& other, const TuneRecord& ours);  // "~1.4× slower", "slower (1 run)"

// Collects which marks a table contains, and explains only these.
class MarkNotes {
 public:
  void see(const TuneRecord& record);
  std::string str() const;  // one line per mark; empty if the table has none

 private:
  bool disturbed_ = false, doubtful_ = false;
};

// "machine busy: 14 of 60 timings disturbed, 3 decisions within the noise; `--retune` repeats them"; empty without
// disturbed timings.
std::string describe_noise(const TuneNoise& noise);

// A table whose columns, except the last, are padded to their widest cell and separated by two spaces. Widths are in
// UTF-8 code points. A cell that would make its row longer than kTableWidth continues on the next line.
inline constexpr size_t kTableWidth = 100;
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row);
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Prints rows as a table; the first row is the header. If a line would be longer than 100 columns, the last column of
// every row is printed below the row.
std::string print_rows(const std::vector<std::vector<std::string>>& rows);

// References have long names that say what they compute. A table shows short marks; the lines after it explain them.
class ReferenceNotes {
 public:
  std::string mark(const std::string& name);  // "oneDNN 2.6.3 bf16 matmul" -> "oneDNN[1]"
  std::string str() const;                    // "[1] oneDNN 2.6.3 bf16 matmul\n"; empty without marks

 private:
  std::vector<std::string> names_;
};
// "1.4× slower" or "even": `other` relative to `ours`, both in seconds.
std::string format_ratio(double other, double ours);
// The summary of a table of winners: the total time of every scheme at each m, and the winners farthest from their
// roofline.
std::string describe_winners(const std::vector<const TuneRecord*>& winners);
nlohmann::json winners_json(const std::vector<const TuneRecord*>& winners);

// A line of the compile report: label, subject and detail in aligned columns.
std::string labelled(std::string_view label, std::string_view subject, std::string_view detail);

// The measured times of each fusion and the decision: one line per fusion, and the JSON field `merge_trials`.
std::string describe_merges(const std::vector<MergeReport>& merges);
nlohmann::json merges_json(const std::vector<MergeReport>& merges);

// One line on stderr that shows the current step and is erased afterwards; nothing if progress is off. With -v every
// step keeps a line of its own, also if stderr is a file.
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
