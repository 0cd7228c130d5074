// compile() and what belongs to it: options, models in memory, explain, the list of operators.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>

#include "codegen/compile.h"
#include "codegen/program/combine.h"
#include "codegen/program/export_model.h"
#include "codegen/program/file_model.h"
#include "graph/read/torch/operators.h"
#include "python/bindings/bindings.h"
#include "python/bindings/borrowed_tensor.h"
#include "python/bindings/compile_task.h"
#include "python/bindings/errors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace qcg::python {

namespace {

// The words of an option and what they mean; both ways, so that Python can read what it wrote.
template <class T>
using Words = std::vector<std::pair<std::string, T>>;

template <class T>
T from_word(const char* option, const Words<T>& words, const std::string& word) {
  std::string known;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    known += (known.empty() ? "" : ", ") + name;
  }
  raise({ErrorCode::Usage, option, "is '" + word + "'", "it is one of: " + known});
}

const Words<TuneMode> kTunes = {{"off", TuneMode::off}, {"fast", TuneMode::fast}, {"full", TuneMode::full}};
const Words<Verify> kVerifies = {{"program", Verify::program}, {"kernels", Verify::kernels}};
const Words<bool> kDequants = {{"exact", false}, {"rounded", true}};
const Words<Int4Packing> kPackings = {
    {"auto", Int4Packing::automatic}, {"avx512", Int4Packing::avx512}, {"avx2", Int4Packing::avx2}};

// A member of CompileOptions that Python sets by a word.
template <class T>
void def_word(nb::class_<CompileOptions>& options, const char* name, T CompileOptions::*member, const Words<T>& words) {
  options.def_prop_rw(
      name,
      [member, &words](const CompileOptions& self) {
        for (const auto& [word, value] : words)
          if (value == self.*member) return word;
        return std::string();
      },
      [name, member, &words](CompileOptions& self, const std::string& word) {
        self.*member = from_word(name, words, word);
      });
}

void bind_options(nb::module_& m) {
  nb::class_<CompileOptions> options(m, "CompileOptions", "What a compile is told; qcodegen.compile() fills it in.");
  options.def(nb::init<>())
      .def_rw("input", &CompileOptions::input)
      .def_rw("weights", &CompileOptions::weights)
      .def_rw("output", &CompileOptions::output)
      .def_rw("target", &CompileOptions::target)
      .def_rw("threads", &CompileOptions::threads)
      .def_rw("jobs", &CompileOptions::jobs)
      .def_rw("m", &CompileOptions::m_list)
      .def_rw("pin", &CompileOptions::pin)
      .def_rw("retune", &CompileOptions::retune)
      .def_rw("cache_dir", &CompileOptions::cache_dir)
      .def_rw("remote_cache", &CompileOptions::remote_cache)
      .def_rw("remote_key_file", &CompileOptions::remote_key_file)
      .def_prop_rw(
          "cxx", [](const CompileOptions& self) { return self.toolchain.cxx; },
          [](CompileOptions& self, const std::string& cxx) { self.toolchain.cxx = cxx; })
      .def_prop_rw(
          "env_cxx", [](const CompileOptions& self) { return self.toolchain.env_cxx; },
          [](CompileOptions& self, const std::string& cxx) { self.toolchain.env_cxx = cxx; })
      .def_prop_rw(
          "disabled_passes", [](const CompileOptions& self) { return self.passes.disabled; },
          [](CompileOptions& self, const std::set<std::string>& names) {
            self.passes.disabled = {names.begin(), names.end()};
          })
      .def_prop_rw(
          "emulate_precision_casts", [](const CompileOptions& self) { return self.passes.emulate_precision_casts; },
          [](CompileOptions& self, bool on) { self.passes.emulate_precision_casts = on; });
  def_word(options, "tune", &CompileOptions::tune, kTunes);
  def_word(options, "verify", &CompileOptions::verify, kVerifies);
  def_word(options, "dequant", &CompileOptions::rounded, kDequants);
  def_word(options, "int4_packing", &CompileOptions::int4_packing, kPackings);
}

// The JSON of an ExportedProgram, and its tensors in the memory where Python has them.
struct Export {
  std::string json;
  std::map<std::string, Tensor> tensors;
};

// What keeps the memory of a tensor; the last one to let go of it may be a thread without the GIL.
std::shared_ptr<const void> keep(std::unique_ptr<BorrowedTensor> tensor, nb::object object) {
  struct Kept {
    std::unique_ptr<BorrowedTensor> tensor;
    nb::object object;
  };
  return std::shared_ptr<const void>(new Kept{std::move(tensor), std::move(object)}, [](const Kept* kept) {
    const nb::gil_scoped_acquire acquired;
    delete kept;
  });
}

Tensor to_tensor(nb::object object, const std::string& name) {
  auto borrowed = std::make_unique<BorrowedTensor>(object, name, BorrowedTensor::Access::read);
  const TensorView view = borrowed->view();
  Tensor out;
  out.dtype = view.dtype;
  out.shape.assign(view.shape.begin(), view.shape.end());
  out.strides.assign(view.strides.begin(), view.strides.end());
  int64_t last = out.numel() == 0 ? -1 : 0;
  for (size_t i = 0; i < out.shape.size() && last >= 0; ++i) {
    if (out.strides[i] < 0) raise(Error::unsupported(name, "has a negative stride", "give a contiguous copy"));
    last += (out.shape[i] - 1) * out.strides[i];
  }
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(view.data),
                                         static_cast<size_t>(last + 1) * dtype_bytes(out.dtype));
  out.storage = std::make_shared<const Storage>(Storage{bytes, keep(std::move(borrowed), std::move(object))});
  return out;
}

std::unique_ptr<ModelSource> source_of(const CompileOptions& options, const Export* exported) {
  if (exported == nullptr) return std::make_unique<FileModel>(options);
  return std::make_unique<ExportModel>(exported->json, exported->tensors, options.int4_packing);
}

std::string compile(CompileOptions options, const Export* exported, nb::object progress) {
  CompileTask task;
  options.on_step = task.on_step();
  options.cancel = options.toolchain.cancel = task.cancel();
  const auto source = source_of(options, exported);
  const CompileReport report = value_of(task.run([&] { return compile_model(*source, options); }, progress));
  return report_text(report);
}

void combine(const std::vector<std::pair<std::string, std::string>>& methods, const std::string& output) {
  std::vector<MethodProgram> programs;
  for (const auto& [name, directory] : methods) programs.push_back({name, directory});
  value_of(combine_methods(programs, output));
}

std::string describe_pass(const PassReport& pass) {
  std::string out = pass.name + ": fired " + std::to_string(pass.fired) + "\n";
  for (const auto& group : pass.groups) {
    out += "  ";
    for (size_t i = 0; i < group.size(); ++i) out += (i == 0 ? "" : " + ") + group[i];
    out += "\n";
  }
  for (const std::string& note : pass.notes) out += "  " + note + "\n";
  for (const Skipped& skipped : pass.skipped) out += "  not " + skipped.node + ": " + skipped.reason + "\n";
  return out;
}

std::string explain(const CompileOptions& options, const Export* exported) {
  const auto explanation = [&]() -> Result<Explanation> {
    const nb::gil_scoped_release released;
    QCG_TRY(model, source_of(options, exported)->read());
    PassCheckpoint none;
    return explain_model(model, options, none);
  };
  const Explanation found = value_of(explanation());
  std::string out;
  for (const PassReport& pass : found.passes) out += describe_pass(pass);
  return out + print_plan(found.plan);
}

}  // namespace

void bind_compile(nb::module_& m) {
  bind_options(m);
  nb::class_<Export>(m, "Export", "A graph of torch.export in memory, with its tensors by fully qualified names.")
      .def(
          "__init__",
          [](Export* self, nb::bytes json, const std::map<std::string, nb::object>& tensors) {
            new (self) Export{std::string(json.c_str(), json.size()), {}};
            for (const auto& [name, tensor] : tensors) self->tensors.emplace(name, to_tensor(tensor, name));
          },
          "json"_a, "tensors"_a)
      .def_prop_ro("json", [](const Export& self) { return nb::bytes(self.json.data(), self.json.size()); });
  m.def("compile", &compile, "options"_a, "exported"_a = nb::none(), "progress"_a = nb::none(),
        "Writes the program and returns the text of report.json. `progress` is called with the text of each step.");
  m.def("combine", &combine, "methods"_a, "output"_a, "Makes one program of several, given as (name, directory).");
  m.def("explain", &explain, "options"_a, "exported"_a = nb::none(),
        "Which passes fire and which steps the program has, without compiling. Errors are those of a compile.");
  m.def(
      "supports", [](const std::string& target) { return classify_target(target) != TorchTarget::unsupported; },
      "target"_a, "Whether graphs may hold this operator, such as 'torch.ops.aten.mm.default'.");
}

}  // namespace qcg::python
