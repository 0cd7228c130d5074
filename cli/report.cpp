#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

namespace qcg {

namespace {

size_t code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

void erase_line() { std::fputs("\r\x1b[K", stderr); }

}  // namespace

std::string format_time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string format_bytes(double bytes) {
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  return bytes < 1e9 ? fmt::format("{:.2f} MB", bytes / 1e6) : fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string format_rate(double gbps) { return fmt::format("{:.1f} GB/s", gbps); }

std::string format_flops(double gflops) {
  return gflops < 1000 ? fmt::format("{:.0f} GF/s", gflops) : fmt::format("{:.2f} TF/s", gflops / 1e3);
}

std::string format_percent(double share) { return fmt::format("{:.0f} %", share * 100); }

std::string format_range(int64_t m_min, int64_t m_max) {
  if (m_min == m_max) return fmt::format("{}", m_min);
  return m_max == INT64_MAX ? fmt::format("{}+", m_min) : fmt::format("{}-{}", m_min, m_max);
}

std::string_view status_of(const TuneRecord& r) {
  return is_extern(r) && r.status == TrialStatus::won ? "extern" : trial_status_name(r.status);
}

void Table::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back(std::move(row));
}

std::string Table::str() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) {
      widths.resize(std::max(widths.size(), c + 1));
      widths[c] = std::max(widths[c], code_points(row[c]));
    }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      line += row[c];
      if (c + 1 < row.size()) line.append(widths[c] - code_points(row[c]) + 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

namespace {

constexpr size_t kWidth = 100;

// Indented, broken between words.
std::string wrap_below(const std::string& text) {
  std::istringstream words(printable(text));
  std::string out, line = "   ";
  for (std::string word; words >> word; line += " " + word)
    if (code_points(line) + 1 + code_points(word) > kWidth && line.size() > 4) out += std::exchange(line, "   ") + "\n";
  return line.size() > 4 ? out + line + "\n" : out;
}

}  // namespace

std::string print_rows(const std::vector<std::vector<std::string>>& rows) {
  const auto lines_of = [&](size_t columns) {
    Table table(std::vector<std::string>(rows[0].begin(), rows[0].begin() + static_cast<ptrdiff_t>(columns)));
    for (size_t r = 1; r < rows.size(); ++r)
      table.add({rows[r].begin(), rows[r].begin() + static_cast<ptrdiff_t>(columns)});
    std::istringstream text(table.str());
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  };
  std::vector<std::string> lines = lines_of(rows[0].size());
  const bool fits = std::ranges::all_of(lines, [](const std::string& line) { return code_points(line) <= kWidth; });
  if (!fits) lines = lines_of(rows[0].size() - 1);
  std::string out;
  for (size_t r = 0; r < lines.size(); ++r) {
    out += lines[r] + "\n";
    if (!fits && r > 0) out += wrap_below(rows[r].back());
  }
  return out;
}

std::string ReferenceNotes::mark(const std::string& name) {
  const auto it = std::find(names_.begin(), names_.end(), name);
  const size_t number = static_cast<size_t>(it - names_.begin()) + 1;
  if (it == names_.end()) names_.push_back(name);
  return fmt::format("{}[{}]", name.substr(0, name.find(' ')), number);
}

std::string ReferenceNotes::str() const {
  std::string out;
  for (size_t i = 0; i < names_.size(); ++i) out += fmt::format("[{}] {}\n", i + 1, names_[i]);
  return out;
}

std::string format_ratio(double other, double ours) {
  return other >= ours ? fmt::format("{:.1f}× slower", other / ours) : fmt::format("{:.1f}× faster", ours / other);
}

std::string labelled(std::string_view label, std::string_view subject, std::string_view detail) {
  std::string line = printable(fmt::format("{:<8} {:<22} {}", label, subject, detail));
  while (line.back() == ' ') line.pop_back();
  return line + "\n";
}

void ProgressLine::show(std::string_view text) {
  if (stays_) {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin_;
    say(fmt::format("{:7.2f} s  {}\n", since.count(), printable(text)));
    return;
  }
  if (!on_) return;
  erase_line();
  say(printable(text.substr(0, 99)));
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_) erase_line();
  shown_ = false;
}

nlohmann::json merges_json(const std::vector<MergeReport>& merges) {
  nlohmann::json out = nlohmann::json::array();
  for (const MergeReport& merge : merges) {
    nlohmann::json timings = nlohmann::json::array();
    for (const MergeReport::Timed& t : merge.timings)
      timings.push_back({{"m", t.m}, {"merged_us", t.merged_s * 1e6}, {"separate_us", t.separate_s * 1e6}});
    out.push_back(
        {{"step", merge.step}, {"fusion", fusion_info(merge.fusion).name}, {"kept", merge.kept}, {"timings", timings}});
  }
  return out;
}

std::string describe_merges(const std::vector<MergeReport>& merges) {
  std::string out;
  for (const MergeReport& merge : merges) {
    std::string times;
    const FusionInfo& fusion = fusion_info(merge.fusion);
    for (const MergeReport::Timed& t : merge.timings)
      times += fmt::format("{}m={} {}, {} {} ({:+.1f} %)", times.empty() ? "" : " · ", t.m, format_time(t.merged_s),
                           fusion.apart_way, format_time(t.separate_s), (t.separate_s / t.merged_s - 1) * 100);
    if (!times.empty()) out += labelled(std::string(merge.kept ? fusion.fused : fusion.apart), merge.step, times);
  }
  return out;
}

}  // namespace qcg
