// ProgramWriter: a program directory in the making (docs/program_format.md), published by one rename.
//
// Why here: the last step of the pipeline and the only writer of manifests. Weights are packed straight into the mapped
// weights.bin, so a compile never holds two copies of them.
//
//   QCG_TRY(writer, ProgramWriter::create("mlp.qcg", plan));
//   QCG_CHECK(writer.pack_constants(plan, threads));
//   writer.add_kernel(problem, bucket.m_max, built);
//   QCG_CHECK(writer.finish(plan, {tune_log, origin}));
//   QCG_CHECK(write_record(writer.directory(), kReportFile, report_text(report)));
//   QCG_CHECK(writer.publish());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/build/build.h"
#include "codegen/plan/plan.h"
#include "codegen/vendor/extern_kernel.h"

namespace qcg {

// Files that the manifest does not list (staging.h). The third, the report, is written once the program was verified.
struct ProgramRecords {
  std::string tune_log, origin;
};

class PackedBefore;

class ProgramWriter {
 public:
  // Makes a private directory beside `path`; it disappears unless publish() succeeds. Error Io: cannot be written.
  static Result<ProgramWriter> create(const std::string& path, const Plan& plan);
  ProgramWriter(ProgramWriter&&) noexcept;
  ~ProgramWriter();

  // How many problems' weights were packed, and how many copied from those that were packed before.
  struct PackCounts {
    int packed = 0, copied = 0;
  };
  // Writes every constant of the plan into weights.bin, on `threads` threads.
  Result<PackCounts> pack_constants(const Plan& plan, int threads, const PackedBefore* before = nullptr);
  std::span<const std::byte> packed(const Plan& plan, size_t constant) const;

  // This kernel serves `problem` for m up to m_max (-1: no limit). Call in ascending order of m_max.
  void add_kernel(int problem, int64_t m_max, const BuiltKernel& kernel);

  // Gives every step of `problem` the copy of its weights that the vendor's kernel reads, after all others. What
  // packed() returned is void then.
  Status add_vendor_weights(const Plan& plan, int problem, const ExternKernel& kernel, int threads);

  // Writes kernels, sources, header, manifest and records, and syncs: directory() is a whole program then.
  Status finish(const Plan& plan, const ProgramRecords& records);
  const std::string& directory() const;
  // Renames it over `path`.
  Status publish();

 private:
  struct State;
  explicit ProgramWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Gives a program that is not published yet one of its records.
Status write_record(const std::string& staging, std::string_view name, const std::string& bytes);
// Gives it a small file in the place of `old`, which may be called so too, and its manifest the checksum.
Status replace_file(const std::string& staging, const std::string& old, const std::string& name,
                    const std::string& bytes);

int64_t bytes_of_program(const std::string& path);  // of all its files

// What a program at `path` is called in C: "mlp" of "out/mlp.qcg".
std::string program_name_of(const std::string& path);
// The C header of a program: names, dtypes and shapes of its inputs and outputs.
std::string render_program_header(const Plan& plan, const std::string& program_name);
// The same header under another name of the program.
std::string rename_program_header(const std::string& header, const std::string& from, const std::string& to);

}  // namespace qcg
