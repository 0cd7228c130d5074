#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
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

std::string format_share(double share) {
  if (share <= 0) return "-";
  return is_doubtful_share(share) ? ">110 %" : fmt::format("{:.0f} %", share * 100);
}

std::string format_date(std::string_view iso) {
  if (iso.size() < 16) return std::string(iso);
  return fmt::format("{} {} UTC", iso.substr(0, 10), iso.substr(11, 5));
}

std::string count_of(int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

namespace {

const char* mark_of(const TuneRecord& r) { return is_disturbed(r) ? "~" : ""; }

}  // namespace

std::string format_time(const TuneRecord& r) { return r.median_s > 0 ? mark_of(r) + format_time(r.median_s) : "-"; }

std::string format_spread(const TuneRecord& r) {
  if (r.median_s <= 0) return "";
  if (r.samples == 1) return "1 run";
  return fmt::format("±{:.1f} %", (r.p90_s - r.p10_s) / 2 / r.median_s * 100);
}

double ratio_of(const TuneRecord& other, const TuneRecord& ours) {
  const bool timed = other.median_s > 0 && ours.median_s > 0 && other.samples > 1 && ours.samples > 1;
  return timed ? other.median_s / ours.median_s : 0;
}

std::string format_ratio(const TuneRecord& other, const TuneRecord& ours) {
  if (other.median_s <= 0 || ours.median_s <= 0) return "";
  if (ratio_of(other, ours) <= 0) return other.median_s >= ours.median_s ? "slower (1 run)" : "faster (1 run)";
  return (*mark_of(other) ? mark_of(other) : mark_of(ours)) + format_ratio(other.median_s, ours.median_s);
}

void MarkNotes::see(const TuneRecord& r) {
  disturbed_ = disturbed_ || is_disturbed(r);
  doubtful_ = doubtful_ || is_doubtful_share(r.share);
}

std::string MarkNotes::str() const {
  std::string out;
  if (disturbed_) out += "~ other processes used the processors during this timing\n";
  if (doubtful_)
    out += ">110 % the kernel was faster than its measured ceiling: the ceiling's measurement was disturbed\n";
  return out;
}

std::string describe_noise(const TuneNoise& noise) {
  if (noise.disturbed == 0) return "";
  return fmt::format("machine busy: {} of {} disturbed, {} within the noise; `--retune` repeats them\n",
                     noise.disturbed, count_of(noise.timings, "timing"), count_of(noise.close, "decision"));
}

std::string format_range(int64_t m_min, int64_t m_max) {
  if (m_min == m_max) return fmt::format("{}", m_min);
  return m_max == INT64_MAX ? fmt::format("{}+", m_min) : fmt::format("{}-{}", m_min, m_max);
}

std::string_view status_of(const TuneRecord& r) {
  return is_extern(r) && r.status == TrialStatus::won ? "extern" : trial_status_name(r.status);
}

std::string kind_of(const TuneRecord& r) { return r.scheme.empty() ? r.family : r.scheme; }

void Table::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back(std::move(row));
}

namespace {

// fit() narrows the widest columns until a row fits, but none below this. The first column names the row and is
// narrowed last.
constexpr size_t kNarrowest = 14;

void fit(std::vector<size_t>& widths) {
  size_t total = 0;
  for (size_t width : widths) total += width + 2;
  while (total > kTableWidth + 2) {
    auto widest = std::max_element(widths.begin() + (widths.size() > 1), widths.end());
    if (*widest <= kNarrowest) widest = widths.begin();
    if (*widest <= kNarrowest) return;
    --*widest, --total;
  }
}

// Removes the first line from a cell: at most `width` code points, broken after a space or a '+' if possible.
std::string take_line(std::string& cell, size_t width) {
  size_t end = 0, points = 0, good = 0;
  while (end < cell.size() && points < width) {
    do ++end;
    while (end < cell.size() && (cell[end] & 0xc0) == 0x80);
    ++points;
    if (cell[end - 1] == ' ' || cell[end - 1] == '+') good = end;
  }
  if (end < cell.size() && cell[end] != ' ' && good > 0) end = good;
  std::string line = cell.substr(0, end);
  cell.erase(0, end);
  cell.erase(0, cell.find_first_not_of(' ') == std::string::npos ? cell.size() : cell.find_first_not_of(' '));
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

std::string Table::str() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) {
      widths.resize(std::max(widths.size(), c + 1));
      widths[c] = std::max(widths[c], code_points(row[c]));
    }
  fit(widths);
  std::string out;
  for (std::vector<std::string> row : rows_)
    for (bool more = true; more;) {
      more = false;
      std::string line;
      for (size_t c = 0; c < row.size(); ++c) {
        const std::string cell = take_line(row[c], widths[c]);
        line += cell;
        if (c + 1 < row.size()) line.append(widths[c] - code_points(cell) + 2, ' ');
        more = more || !row[c].empty();
      }
      while (!line.empty() && line.back() == ' ') line.pop_back();
      out += line + "\n";
    }
  return out;
}

namespace {

constexpr size_t kWidth = 100;

// The text indented and broken between words.
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
  if (std::max(other / ours, ours / other) < 1.05) return "even";
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
      timings.push_back({{"m", t.m},
                         {"merged_us", t.merged_s * 1e6},
                         {"separate_us", t.separate_s * 1e6},
                         {"disturbed", t.disturbed}});
    out.push_back(
        {{"step", merge.step}, {"fusion", fusion_info(merge.fusion).name}, {"kept", merge.kept}, {"timings", timings}});
  }
  return out;
}

namespace {

// The total time of a scheme's kernels by m: what the linears of the model take at one m.
using SchemeTimes = std::map<std::string, std::map<int64_t, double>>;

SchemeTimes times_of(const std::vector<const TuneRecord*>& winners) {
  SchemeTimes out;
  for (const TuneRecord* r : winners)
    if (r->median_s > 0) out[fmt::format("{} on {}", kind_of(*r), count_of(r->threads, "thread"))][r->m] += r->median_s;
  return out;
}

double missed_s(const TuneRecord& r) { return r.median_s * (1 - r.share); }

// Up to three winners that lose the most time to the roofline.
std::vector<const TuneRecord*> worst_of(std::vector<const TuneRecord*> winners) {
  std::erase_if(winners, [](const TuneRecord* r) { return r->share <= 0 || r->share >= 1; });
  std::stable_sort(winners.begin(), winners.end(),
                   [](const TuneRecord* a, const TuneRecord* b) { return missed_s(*a) > missed_s(*b); });
  winners.resize(std::min<size_t>(winners.size(), 3));
  return winners;
}

}  // namespace

std::string describe_winners(const std::vector<const TuneRecord*>& winners) {
  std::set<int64_t> ms;
  for (const TuneRecord* r : winners) ms.insert(r->m);
  if (ms.empty()) return "";
  std::vector<std::string> header = {"all kernels of"};
  for (int64_t m : ms) header.push_back(fmt::format("m={}", m));
  Table table(header);
  for (const auto& [scheme, times] : times_of(winners)) {
    std::vector<std::string> row = {scheme};
    for (int64_t m : ms) row.push_back(times.contains(m) ? format_time(times.at(m)) : "-");
    table.add(std::move(row));
  }
  std::string out = table.str();
  for (const TuneRecord* r : worst_of(winners))
    out += printable(fmt::format("{} of the roofline, {} slower than it: {} m={}", format_share(r->share),
                                 format_time(missed_s(*r)), r->step, r->m)) +
           "\n";
  return out;
}

nlohmann::json winners_json(const std::vector<const TuneRecord*>& winners) {
  nlohmann::json schemes = nlohmann::json::array(), worst = nlohmann::json::array();
  for (const auto& [scheme, times] : times_of(winners))
    for (const auto& [m, seconds] : times) schemes.push_back({{"scheme", scheme}, {"m", m}, {"sum_us", seconds * 1e6}});
  for (const TuneRecord* r : worst_of(winners))
    worst.push_back({{"step", r->step}, {"m", r->m}, {"share", r->share}, {"missed_us", missed_s(*r) * 1e6}});
  return {{"schemes", schemes}, {"farthest_from_roofline", worst}};
}

std::string describe_merges(const std::vector<MergeReport>& merges) {
  std::string out;
  for (const MergeReport& merge : merges) {
    std::string times;
    const FusionInfo& fusion = fusion_info(merge.fusion);
    for (const MergeReport::Timed& t : merge.timings)
      times += fmt::format("{}m={} {}{}, {} {} ({:+.1f} %)", times.empty() ? "" : " · ", t.m, t.disturbed ? "~" : "",
                           format_time(t.merged_s), fusion.apart_way, format_time(t.separate_s),
                           (t.separate_s / t.merged_s - 1) * 100);
    if (!times.empty()) out += labelled(std::string(merge.kept ? fusion.fused : fusion.apart), merge.step, times);
  }
  return out;
}

}  // namespace qcg
