// What the steps of a program took: the tables of `run --profile`, and the Chrome trace of `bench --trace`.
//
// Why here: both read the profiles of a Context (runtime/profile/run_profile.h), and add what the program's tune log
// and the machine's ceilings say about a kernel.
//
//   StepTable table("mlp.qcg", loaded.program, symbols, loaded.context->threads());
//   table.add(loaded.context->last_profile());          // after each run
//   put(table.text(false));
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/trial/ceilings.h"
#include "codegen/tune/tune.h"
#include "runtime/program.h"

namespace qcg {

double median(std::vector<double> values);  // 0 of no values

// The name, without folder and ending, of the module that a record's kernel has in a program.
std::string module_stem(const TuneRecord& record);

// A tune log by the kernels of a program.
class KernelLog {
 public:
  explicit KernelLog(const std::vector<TuneRecord>& log);
  // The record of the kernel in this module at m rows; null: there is none.
  const TuneRecord* find(const std::string& module, int64_t m) const;
  // "gemm", "rows"; the first word of the module's name where there is no record.
  std::string family(const std::string& module) const;
  std::string kind(const std::string& module) const;  // "w4 g128", "rows"; likewise

 private:
  std::map<std::string, std::vector<TuneRecord>> records_;  // by stem of the module
};

// The median times of a program's steps over its last runs, all of which have the same sizes.
class StepTable {
 public:
  // `symbols`: the values of the manifest's symbols in these runs. Measures the ceilings of this machine.
  StepTable(const std::string& directory, std::shared_ptr<const Program> program, std::vector<int64_t> symbols,
            int threads);

  void add(const RunProfile& run);
  // One row per kernel, the one that takes longest first; with `all`, one row per step instead.
  std::string text(bool all) const;
  nlohmann::json json() const;

 private:
  struct Samples {
    std::vector<double> us;
    std::vector<std::vector<double>> thread_us;  // by thread
    double begin_us = 0, bytes = 0;
    size_t kernel = 0;
  };
  // Medians of one step, or the sums of those of all steps that run one kernel.
  struct Line {
    std::string step, kind, module;
    double begin_us = 0, us = 0, bytes = 0, floor_us = 0;  // bytes, floor_us: 0: unknown
    std::vector<double> thread_us;
    int steps = 1;
  };
  double floor_us(const std::string& module, int64_t m, double bytes) const;
  std::vector<Line> lines() const;
  static std::vector<Line> by_kernel(std::vector<Line> lines);

  std::shared_ptr<const Program> program_;
  KernelLog log_;
  std::vector<int64_t> symbols_;
  int threads_;
  Ceilings ceilings_;
  std::vector<Samples> steps_;
  std::vector<double> run_us_;
};

// Events of runs in the format that Perfetto and chrome://tracing open: one track for the steps, one per thread for its
// work in them.
class ChromeTrace {
 public:
  static constexpr size_t kMostEvents = 200'000;  // about 30 MB

  ChromeTrace(const ProgramManifest& manifest, int threads);
  // `begin_us`: when the run began. Later runs are left out once there are kMostEvents.
  void add(const std::string& name, double begin_us, const RunProfile& run);
  std::string text() const;

 private:
  const ProgramManifest* manifest_;
  nlohmann::json events_ = nlohmann::json::array();
};

}  // namespace qcg
