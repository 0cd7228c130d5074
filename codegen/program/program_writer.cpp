#include "codegen/program/program_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/parallel.h"
#include "codegen/devices/gemm_device.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/launch.h"
#include "codegen/kernel/target.h"
#include "codegen/plan/reach.h"
#include "codegen/program/origin.h"
#include "codegen/program/packed_before.h"
#include "codegen/program/program_files.h"
#include "codegen/program/staging.h"
#include "runtime/abi.h"
#include "runtime/memory.h"

namespace qcg {

namespace fs = std::filesystem;
using nlohmann::json;

struct LinkedKernel {
  int64_t m_max;
  std::string module;  // path in the program
  std::string symbol;
  CudaLaunch launch;    // threads is 0 on the CPU
  std::string library;  // a vendor's, which the module calls
};

// What the vendor's kernel of a step reads and is told.
struct LinkedVendor {
  int64_t offset = 0, bytes = 0;
  std::vector<int64_t> params;
};

namespace {

// A size as the manifest writes it: an integer, or terms [coefficient, factor…]; a factor is the number of a symbol, or
// {function: [size, size]}.
json size_json(const Dim& dim, const std::vector<Symbol>& symbols) {
  if (dim.is_constant()) return dim.constant();
  json terms = json::array();
  for (const auto& [monomial, coefficient] : dim.terms()) {
    json term = json::array({coefficient});
    for (const std::string& name : monomial) {
      if (const auto call = Dim::as_call(name))
        term.push_back({{call->function, {size_json(call->a, symbols), size_json(call->b, symbols)}}});
      for (size_t i = 0; i < symbols.size(); ++i)
        if (symbols[i].name == name) term.push_back(i);
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

json tensor_json(const std::string& name, const ValueType& type, const std::vector<Symbol>& symbols) {
  json shape = json::array();
  for (const Dim& dim : type.shape) shape.push_back(size_json(dim, symbols));
  return {{"name", name}, {"dtype", dtype_name(type.dtype)}, {"shape", std::move(shape)}};
}

}  // namespace

struct ProgramWriter::State {
  State(std::string where, StagingDir dir, WeightsFile file)
      : path(std::move(where)), directory(std::move(dir)), weights(std::move(file)) {}

  std::string path;
  StagingDir directory;
  const std::string& staging = directory.path();
  WeightsFile weights;
  std::vector<int64_t> offsets;                      // per plan.constants
  std::map<int, std::vector<LinkedKernel>> kernels;  // by problem
  std::map<size_t, LinkedVendor> vendors;      // by plan.constants; their buffers come after the plan's, in this order
  std::map<std::string, std::string> modules;  // path -> bytes
  std::map<std::string, std::string> sources;
};

ProgramWriter::ProgramWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProgramWriter::ProgramWriter(ProgramWriter&&) noexcept = default;
ProgramWriter::~ProgramWriter() = default;

Result<ProgramWriter> ProgramWriter::create(const std::string& path, const Plan& plan) {
  QCG_TRY(staging, StagingDir::create(path));
  QCG_TRY(weights, WeightsFile::create(staging.path()));
  auto state = std::make_unique<State>(path, std::move(staging), std::move(weights));
  int64_t end = 0;
  for (const PlanConstant& constant : plan.constants) {
    state->offsets.push_back(end);
    end += align_section(constant.bytes);
  }
  QCG_CHECK(state->weights.grow(end));
  return ProgramWriter(std::move(state));
}

Result<ProgramWriter::PackCounts> ProgramWriter::pack_constants(const Plan& plan, int threads,
                                                                const PackedBefore* before) {
  std::atomic<int> packed{0}, copied{0};
  const GemmDevice& device = gemm_device(plan.target.device);
  std::vector<Status> results(plan.constants.size());
  in_parallel(plan.constants.size(), static_cast<size_t>(threads), [&](size_t i) {
    const PlanConstant& constant = plan.constants[i];
    const std::span<std::byte> out = state_->weights.at(state_->offsets[i], constant.bytes);
    const auto known = before && constant.problem >= 0 ? before->find(plan, constant) : std::span<const std::byte>();
    if (!known.empty()) {
      std::memcpy(out.data(), known.data(), out.size());
      ++copied;
    } else if (constant.problem >= 0) {
      ++packed;
      results[i] = device.pack(plan.problems[constant.problem].get<Problem>(), plan.layouts[constant.problem],
                               constant.segments, out);
    } else if (!constant.plain.bound()) {
      results[i] = Error::bad_input("weights", "a constant of the graph has no data",
                                    "pass --weights FILE or --weights random:1");
    } else if (!out.empty()) {
      const Tensor dense = constant.plain.contiguous();
      std::memcpy(out.data(), dense.bytes().data(), out.size());
    }
  });
  for (Status& status : results) QCG_CHECK(std::move(status));
  return PackCounts{packed, copied};
}

std::span<const std::byte> ProgramWriter::packed(const Plan& plan, size_t constant) const {
  return state_->weights.at(state_->offsets[constant], plan.constants[constant].bytes);
}

void ProgramWriter::add_kernel(int problem, int64_t m_max, const BuiltKernel& kernel) {
  const bool is_vendor = kernel.vendor.has_value();
  const std::string stem = fmt::format("{}_{}", is_vendor ? "onednn" : kernel.source.name, kernel.key.substr(0, 8));
  const std::string module = "kernels/" + stem + std::string(kernel.source.module_suffix());
  state_->modules[module] = kernel.bytes;
  if (!is_vendor)
    state_->sources["sources/" + stem + std::string(kernel.source.source_suffix())] = kernel.source.source;
  state_->kernels[problem].push_back(
      {m_max, module, kernel.source.symbol, kernel.source.launch, is_vendor ? kExternLibrary : ""});
}

Status ProgramWriter::add_vendor_weights(const Plan& plan, int problem, const ExternKernel& kernel, int threads) {
  for (size_t c = 0; c < plan.constants.size(); ++c) {
    if (plan.constants[c].problem != problem) continue;
    const int64_t at = state_->weights.bytes(), bytes = kernel.weights_bytes();
    QCG_CHECK(state_->weights.grow(at + align_section(bytes)));
    kernel.write_weights(plan.problems[static_cast<size_t>(problem)].get<Problem>(), plan.constants[c].segments,
                         threads, state_->weights.at(at, bytes));
    state_->vendors[c] = {at, bytes, kernel.task.params_after_m()};
  }
  return {};
}

namespace {

json buffer_json(const Plan& plan, const PlanBuffer& buffer, int64_t weights_offset) {
  switch (buffer.kind) {
    case BufferKind::input: return {{"kind", "input"}, {"index", buffer.index}};
    case BufferKind::output: return {{"kind", "output"}, {"index", buffer.index}};
    case BufferKind::state: return {{"kind", "state"}, {"index", buffer.index}};
    case BufferKind::weights:
      return {{"kind", "weights"}, {"offset", weights_offset}, {"bytes", buffer.bytes.constant()}};
    case BufferKind::temp: break;
  }
  const bool used = buffer.first >= 0;
  return {{"kind", "temp"},
          {"bytes", used ? size_json(buffer.bytes, plan.symbols) : json(0)},
          {"first", used ? buffer.first : 0},
          {"last", used ? buffer.last : 0}};
}

json kernel_json(const LinkedKernel& kernel) {
  json out = {{"m_max", kernel.m_max}, {"module", kernel.module}, {"symbol", kernel.symbol}};
  if (!kernel.library.empty()) out["library"] = kernel.library;
  const CudaLaunch& l = kernel.launch;
  if (l.threads == 0) return out;
  json axes = json::array();
  for (const CudaLaunch::Axis& axis : l.axes) axes.push_back({axis.param, axis.piece});
  out["launch"] = {{"threads", l.threads},
                   {"rows", l.rows},
                   {"column_tiles", l.column_tiles},
                   {"shared_bytes", l.shared_bytes},
                   {"axes", std::move(axes)}};
  return out;
}

json reach_json(const Reach& reach) {
  auto number = [](const Reach::Number& n) -> json {
    if (n.kind == Reach::Number::constant) return n.value;
    return n.kind == Reach::Number::stride ? "s" : fmt::format("p{}", n.value);
  };
  json axes = json::array();
  for (const Reach::Axis& axis : reach.axes) {
    json& to = axes.emplace_back(json::array({number(axis.extent)}));
    if (axis.stride) to.push_back(number(*axis.stride));
  }
  json out = {{"item", reach.item}, {"axes", std::move(axes)}};
  if (reach.writes) out["writes"] = true;
  if (const auto& positions = reach.positions) {
    out["positions"] = {{"size", number(positions->size)}};
    if (positions->from_end) out["positions"]["from_end"] = true;
    if (positions->ascending) out["positions"]["ascending"] = true;
  }
  return out;
}

// The buffer and the numbers come after what all kernels of the step read.
void add_vendor_arguments(const Plan& plan, const PlanStep& step, const std::map<size_t, LinkedVendor>& vendors,
                          json& out) {
  size_t buffer = plan.buffers.size();
  for (const auto& [constant, vendor] : vendors) {
    const bool reads =
        std::any_of(step.args.begin(), step.args.end(),
                    [&, at = plan.constants[constant].buffer](const PlanArg& arg) { return arg.buffer == at; });
    if (reads && plan.constants[constant].problem == step.problem) {
      Reach all;
      all.axes.push_back({{Reach::Number::constant, vendor.bytes}, std::nullopt});
      out["args"].push_back({{"buffer", buffer}, {"offset", 0}, {"stride", 0}, {"reach", reach_json(all)}});
      for (int64_t param : vendor.params) out["params"].push_back(param);
    }
    ++buffer;
  }
}

json step_json(const Plan& plan, const PlanStep& step, const std::vector<LinkedKernel>& kernels) {
  json out = {{"name", step.name}, {"args", json::array()}, {"params", json::array()}}, list = json::array();
  for (const LinkedKernel& kernel : kernels) list.push_back(kernel_json(kernel));
  // Loaders that do not know groups find no kernels.
  if (step.groups)
    out["groups"] = {{"count", step.groups->count},
                     {"weights", step.groups->weights},
                     {"bytes", group_bytes(plan, step)},
                     {"kernels", std::move(list)}};
  else out["kernels"] = std::move(list);
  const std::vector<Reach> reaches = reaches_of(plan, step);
  for (size_t i = 0; i < step.args.size(); ++i) {
    const PlanArg& arg = step.args[i];
    out["args"].push_back({{"buffer", arg.buffer},
                           {"offset", size_json(arg.offset_bytes, plan.symbols)},
                           {"stride", arg.stride ? size_json(*arg.stride, plan.symbols) : json(nullptr)},
                           {"reach", reach_json(reaches[i])}});
  }
  for (const Dim& dim : step.params) out["params"].push_back(size_json(dim, plan.symbols));
  return out;
}

// Shapes contain symbol names from the input: nothing that could end a comment may pass.
std::string comment_safe(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("[], *+-_", c)) c = '?';
  return text;
}

std::string c_identifier(std::string_view text) {
  std::string out;
  for (char c : text) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) ? "p_" + out : out;
}

std::string upper_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// Different names of a graph may be one name in C: "a.b" and "a_b".
std::vector<std::string> unique_identifiers(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  std::set<std::string> taken;
  for (const std::string& name : names) taken.insert(c_identifier(name));
  std::map<std::string, int> used;  // the last number given to a name
  for (const std::string& name : names) {
    const std::string plain = c_identifier(name);
    const auto [it, fresh] = used.try_emplace(plain, 0);
    std::string unique = plain;
    while (!fresh && !taken.insert(unique).second) unique = fmt::format("{}_{}", plain, ++it->second);
    out.push_back(std::move(unique));
  }
  return out;
}

// The least version of the manifest that has what the program needs.
int version_of(const Plan& plan) { return !plan.measures.empty() ? 5 : plan.states.empty() ? 1 : 2; }

}  // namespace

Status ProgramWriter::finish(const Plan& plan, const ProgramRecords& records) {
  State& s = *state_;
  json manifest = {{"format", "qcodegen-program"},   {"version", version_of(plan)},
                   {"generator", kGeneratorVersion}, {"kernel_abi", QCG_KERNEL_ABI},
                   {"target", plan.target.str()},    {"isa", isa_info(plan.target.isa).name}};
  for (const char* list : {"symbols", "inputs", "outputs", "buffers", "steps"}) manifest[list] = json::array();
  for (const Symbol& symbol : plan.symbols)
    manifest["symbols"].push_back({{"name", symbol.name}, {"min", symbol.min}, {"max", symbol.max}});
  for (const PlanMeasure& m : plan.measures) {
    const auto symbol = std::ranges::find(plan.symbols, m.symbol, &Symbol::name) - plan.symbols.begin();
    manifest["symbols"][static_cast<size_t>(symbol)]["read"] = {
        {"step", m.step}, {"buffer", m.buffer}, {"most", size_json(m.most, plan.symbols)}};
  }
  for (const SizeCondition& condition : plan.conditions)
    manifest["conditions"].push_back({{"size", size_json(condition.difference, plan.symbols)},
                                      {"is", name_of(condition.says)},
                                      {"text", condition.text}});
  for (size_t i = 0; i < plan.input_names.size(); ++i) {
    json& input = manifest["inputs"].emplace_back(tensor_json(plan.input_names[i], plan.input_types[i], plan.symbols));
    const auto symbol = std::ranges::find(plan.symbols, plan.input_symbols[i], &Symbol::name);
    if (symbol != plan.symbols.end()) input["symbol"] = symbol - plan.symbols.begin();
  }
  for (size_t i = 0; i < plan.output_names.size(); ++i)
    manifest["outputs"].push_back(tensor_json(plan.output_names[i], plan.output_types[i], plan.symbols));
  for (const PlanState& state : plan.states) {
    json& out = manifest["states"].emplace_back(tensor_json(state.name, state.type, plan.symbols));
    out["init"] = "zero";
    if (state.initial >= 0)
      out["init"] = {{"offset", s.offsets[static_cast<size_t>(state.initial)]},
                     {"bytes", plan.constants[static_cast<size_t>(state.initial)].bytes}};
  }
  std::vector<int64_t> weight_offsets(plan.buffers.size(), 0);
  for (size_t c = plan.constants.size(); c-- > 0;) weight_offsets[plan.constants[c].buffer] = s.offsets[c];
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    manifest["buffers"].push_back(buffer_json(plan, plan.buffers[b], weight_offsets[b]));
  for (const auto& [constant, vendor] : s.vendors)
    manifest["buffers"].push_back({{"kind", "weights"}, {"offset", vendor.offset}, {"bytes", vendor.bytes}});
  for (const PlanStep& step : plan.steps) {
    json& out = manifest["steps"].emplace_back(step_json(plan, step, s.kernels[step.problem]));
    add_vendor_arguments(plan, step, s.vendors, out);
  }

  std::map<std::string, std::string> files = s.modules;
  files.insert(s.sources.begin(), s.sources.end());
  const std::string program_name = program_name_of(s.path);
  files[program_name + ".h"] = render_program_header(plan, program_name);
  for (const auto& [name, bytes] : files) QCG_CHECK(add_file(s.staging, name, bytes, manifest));
  QCG_CHECK(write_record(s.staging, kTuneLogFile, records.tune_log));
  QCG_CHECK(write_record(s.staging, kOriginFile, records.origin));
  QCG_TRY(described, s.weights.end());
  manifest["files"]["weights.bin"] = std::move(described);
  return write_manifest(s.staging, manifest);
}

Status write_record(const std::string& staging, std::string_view name, const std::string& bytes) {
  return write_program_file(fmt::format("{}/{}", staging, name), bytes);
}

Status replace_file(const std::string& staging, const std::string& old, const std::string& name,
                    const std::string& bytes) {
  QCG_TRY(text, read_program_file(staging + "/manifest.json"));
  json manifest = json::parse(text, nullptr, false);
  if (!manifest.is_object()) return Error::bad_input(staging, "its manifest is damaged", "compile again");
  std::error_code ignored;
  fs::remove(staging + "/" + old, ignored);
  manifest["files"].erase(old);
  QCG_CHECK(add_file(staging, name, bytes, manifest));
  return write_manifest(staging, manifest);
}

const std::string& ProgramWriter::directory() const { return state_->staging; }

int64_t bytes_of_program(const std::string& path) {
  int64_t bytes = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed))
    if (at->is_regular_file(failed)) bytes += static_cast<int64_t>(at->file_size(failed));
  return bytes;
}

Status ProgramWriter::publish() { return state_->directory.publish(); }

std::string program_name_of(const std::string& path) { return c_identifier(fs::path(path).stem().string()); }

std::string render_program_header(const Plan& plan, const std::string& program_name) {
  std::string out = fmt::format(
      "/* {}: inputs, outputs and states of this program, for use with qcodegen.h. Generated. */\n", program_name);
  const std::string guard = upper_case(program_name);
  out += fmt::format("#ifndef {0}_QCG_H\n#define {0}_QCG_H\n\n", guard);
  auto list = [&](const char* kind, const std::vector<std::string>& names, const std::vector<ValueType>& types) {
    out += fmt::format("#define {}_{}S {}\n", guard, kind, names.size());
    const std::vector<std::string> identifiers = unique_identifiers(names);
    for (size_t i = 0; i < names.size(); ++i)
      out += fmt::format("#define {}_{}_{} {} /* {} {} */\n", guard, kind, identifiers[i], i,
                         dtype_name(types[i].dtype), comment_safe(to_string(types[i].shape)));
  };
  list("INPUT", plan.input_names, plan.input_types);
  list("OUTPUT", plan.output_names, plan.output_types);
  if (!plan.states.empty()) {
    std::vector<std::string> names;
    std::vector<ValueType> types;
    for (const PlanState& state : plan.states) names.push_back(state.name), types.push_back(state.type);
    list("STATE", names, types);
  }
  return out + "\n#endif\n";
}

std::string rename_program_header(const std::string& header, const std::string& from, const std::string& to) {
  std::string out;
  for (size_t at = 0; at < header.size();) {
    const size_t end = std::min(header.find('\n', at), header.size() - 1) + 1;
    std::string line = header.substr(at, end - at);
    for (const auto& [before, after] :
         {std::pair("/* " + from, "/* " + to), std::pair("#ifndef " + upper_case(from), "#ifndef " + upper_case(to)),
          std::pair("#define " + upper_case(from), "#define " + upper_case(to))})
      if (line.starts_with(before)) {
        line.replace(0, before.size(), after);
        break;
      }
    out += line;
    at = end;
  }
  return out;
}

}  // namespace qcg
