#include "runtime/program.h"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include "runtime/piece_digests.h"
#include "runtime/program_cuda.h"

namespace qcg {
namespace {

constexpr int64_t kCopyBlock = int64_t{8} << 20;
constexpr int kAttempts = 100;  // attempts to load a program that other processes keep replacing

// Reads ranges of the file to their places in huge pages, in blocks on all CPUs, because one thread is slower than a fast
// disk. Pages that no range touches take no memory.
Result<AlignedBuffer> copy_to_huge_pages(const OpenedFile& file, const std::vector<WeightRange>& ranges,
                                         const std::string& path) {
  QCG_TRY(copy, AlignedBuffer::allocate(file.bytes));
  posix_fadvise(file.fd.get(), 0, file.bytes, POSIX_FADV_SEQUENTIAL);
  ThreadPool pool;
  std::mutex first_error;
  Status status;
  for (const WeightRange& range : ranges)
    pool.parallel_items((range.bytes + kCopyBlock - 1) / kCopyBlock, [&](int64_t begin, int64_t end, int) {
      const int64_t at = begin * kCopyBlock, length = std::min(end * kCopyBlock, range.bytes) - at;
      const std::span<std::byte> to(copy.data() + range.offset + at, static_cast<size_t>(length));
      Status block = read_file_range(file.fd.get(), range.offset + at, to, path);
      if (block.ok()) return;
      std::lock_guard lock(first_error);
      status = std::move(block);
    });
  if (!status.ok()) return status.error();
  copy.make_read_only();
  return copy;
}

Error wrong_input(const std::string& name, const std::string& message) {
  return Error::bad_input("input '" + name + "'", message,
                          "pass tensors of the shapes and dtypes the program was compiled for");
}

bool is_as_written(std::span<const std::byte> bytes, const ProgramManifest::File& file) {
  return file.pieces.empty() ? digest_hex(bytes) == file.sha256 : piece_digests(bytes) == file.pieces;
}

// Turns an Io error of loading a vendor's kernel into an Unsupported error that names the library. Other errors mean a
// damaged file and stay.
Error missing_library(const ProgramManifest::KernelChoice& choice, Error error) {
  if (error.code != ErrorCode::Io) return error;
  return Error::unsupported(
      error.where, "calls " + choice.library + ", and " + error.message,
      "install " + choice.library +
          " in the version named there (Debian: libdnnl2), or compile the program with --extern=never");
}

}  // namespace

// If the directory was replaced during the load, some of its files may be gone. Then any error is followed by another
// attempt, which loads the program that has the name now.
Result<std::shared_ptr<const Program>> Program::load(const std::string& directory, const LoadOptions& options) {
  try {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      QCG_TRY(opened, ProgramDirectory::open(directory));
      std::shared_ptr<Program> program(new Program());
      const Status status = program->load_directory(opened, options);
      if (status.ok()) return std::shared_ptr<const Program>(std::move(program));
      if (!opened.is_replaced()) return status.error();
    }
    return Error::io(directory, "was replaced each time it was being loaded", "load it when its compiles are done");
  } catch (const std::exception& e) {
    return Error::io(directory, std::string("cannot be loaded: ") + e.what(), "free memory");
  }
}

Status Program::load_directory(const ProgramDirectory& directory, const LoadOptions& options) {
  QCG_TRY(text, directory.read_manifest());
  QCG_TRY(parsed, parse_program_manifest(text));
  const bool has_choice = !parsed.other_targets.empty();
  Host host;
  QCG_TRY(manifest, choose_target(std::move(parsed), directory.path(), options.target,
                                  [&](const ProgramManifest& target) { return host.can_run(target); }));
  manifest_ = std::move(manifest);
  if (has_choice) image_->ranges = weights_read(manifest_);
  if (manifest_.on_device()) return load_on_device(directory, options, host.driver());
  QCG_CHECK(check_files(directory));
  part_methods();
  QCG_CHECK(load_modules(directory));
  for (const auto& other : others_) QCG_CHECK(other->load_modules(directory));
  return load_weights(directory, options);
}

void Program::part_methods() {
  for (ProgramManifest& other : std::exchange(manifest_.others, {})) {
    others_.emplace_back(new Program())->image_ = image_;
    others_.back()->manifest_ = std::move(other);
  }
}

std::vector<std::shared_ptr<const Program>> Program::methods(const std::shared_ptr<const Program>& program) {
  std::vector<std::shared_ptr<const Program>> out = {program};
  out.insert(out.end(), program->others_.begin(), program->others_.end());
  return out;
}

Result<std::shared_ptr<const Program>> Program::method(const std::shared_ptr<const Program>& program,
                                                       std::string_view name) {
  std::string names;
  for (const auto& one : methods(program)) {
    if (one->manifest_.method == name && !name.empty()) return one;
    names += (names.empty() ? "" : ", ") + one->manifest_.method;
  }
  return Error::bad_input("method", "the program has no method '" + std::string(name) + "'",
                          names.empty() ? "it was compiled without names of methods" : "it has " + names);
}

Status Program::load_on_device(const ProgramDirectory& directory, const LoadOptions& options,
                               std::shared_ptr<CudaDriver> driver) {
  QCG_CHECK(check_files(directory));
  QCG_CHECK(load_weights(directory, options));
  QCG_TRY(image, CudaImage::load(std::move(driver), weights(), image_->ranges));
  image_->device = std::move(image);
  part_methods();
  QCG_TRY(device, CudaProgram::load(image_->device, directory, manifest_));
  device_ = std::move(device);
  for (const auto& other : others_) {
    QCG_TRY(kernels, CudaProgram::load(image_->device, directory, other->manifest_));
    other->device_ = std::move(kernels);
  }
  return {};
}

Status Program::check_files(const ProgramDirectory& directory) const {
  for (const auto& [name, file] : manifest_.files) {
    const auto opened = directory.open_file(name, file.bytes);
    if (!opened.ok()) return opened.error();
  }
  return {};
}

Status Program::load_modules(const ProgramDirectory& directory) {
  auto& modules = image_->modules;
  for (const auto& step : manifest_.steps) {
    LoadedStep& out = steps_.emplace_back();
    for (const auto& choice : step.kernels) {
      auto known = modules.find(choice.module);
      if (known == modules.end()) {
        const auto& file = manifest_.files.at(choice.module);  // parse_program_manifest has checked that it exists
        QCG_TRY(opened, directory.open_file(choice.module, file.bytes));
        auto module = Module::load(opened, directory.path_of(choice.module), file.sha256);
        if (!module.ok()) return choice.library.empty() ? module.error() : missing_library(choice, module.error());
        known = modules.emplace(choice.module, std::move(*module)).first;
      }
      QCG_TRY(kernel, known->second.find_kernel(choice.symbol));
      out.kernels.push_back(kernel);
    }
  }
  return {};
}

Status Program::load_weights(const ProgramDirectory& directory, const LoadOptions& options) {
  const auto file = manifest_.files.find("weights.bin");
  if (file == manifest_.files.end()) return {};
  Image& image = *image_;
  const std::string path = directory.path_of("weights.bin");
  QCG_TRY(opened, directory.open_weights(file->second));
  const bool is_copy = options.weights == WeightsMode::huge_pages, is_part = is_copy && !image.ranges.empty();
  if (image.ranges.empty()) image.ranges = {{0, opened.bytes}};
  if (is_copy) {
    QCG_TRY(copy, copy_to_huge_pages(opened, image.ranges, path));
    image.weights_copy = std::move(copy);
    image.weights = image.weights_copy.data();
  }
  if (!is_copy || (is_part && options.verify_weights)) {
    QCG_TRY(mapped, MappedWeights::map(opened.fd.get(), opened.bytes, path));
    image.weights_file = std::move(mapped);
    if (!is_copy) image.weights = image.weights_file.data();
  }
  image.weights_bytes = opened.bytes;
  const std::byte* const whole = is_part ? image.weights_file.data() : image.weights;
  if (options.verify_weights && !is_as_written({whole, static_cast<size_t>(opened.bytes)}, file->second))
    return Error::bad_input(path, "does not have the checksum in the manifest",
                            "the program is damaged or was changed: copy or compile it again");
  return {};
}

DeviceType Program::device_type() const {
  if (!manifest_.on_device()) return kDLCPU;
  return manifest_.on_hip() ? kDLROCM : kDLCUDA;
}

std::vector<int64_t> Program::static_shape(const ProgramManifest::Tensor& tensor) {
  std::vector<int64_t> shape;
  for (const SizeExpr& extent : tensor.shape)
    shape.push_back(extent.is_constant() ? extent.evaluate({}).value_or(-1) : -1);
  return shape;
}

Result<std::vector<int64_t>> Program::bind_symbols(std::span<const TensorView> inputs) const {
  const ProgramManifest& m = manifest_;
  QCG_CHECK(check_count("inputs", std::ssize(inputs), m.inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].shape.size() != m.inputs[i].shape.size())
      return wrong_input(m.inputs[i].name, "has " + std::to_string(inputs[i].shape.size()) +
                                               " axes, the program expects " +
                                               std::to_string(m.inputs[i].shape.size()));

  std::vector<int64_t> values;
  values.reserve(m.symbols.size());
  for (const auto& symbol : m.symbols) values.push_back(symbol.min);
  for (const auto& b : m.bindings) {
    const auto& symbol = m.symbols[static_cast<size_t>(b.symbol)];
    if (b.axis == ProgramManifest::kElement) {
      QCG_TRY(value, symbol_value(static_cast<size_t>(b.input), inputs[static_cast<size_t>(b.input)]));
      values[static_cast<size_t>(b.symbol)] = value;
      continue;
    }
    const int64_t extent = inputs[static_cast<size_t>(b.input)].shape[static_cast<size_t>(b.axis)];
    int64_t scaled = 0;
    values[static_cast<size_t>(b.symbol)] = 0;
    const auto others = m.inputs[static_cast<size_t>(b.input)].shape[static_cast<size_t>(b.axis)].evaluate(values);
    const bool divides = others && !__builtin_sub_overflow(extent, *others, &scaled) &&
                         !(scaled == INT64_MIN && b.coefficient == -1) && scaled % b.coefficient == 0;
    const int64_t value = divides ? scaled / b.coefficient : -1;
    if (!divides || value < symbol.min || value > symbol.max)
      return wrong_input(m.inputs[static_cast<size_t>(b.input)].name,
                         "axis " + std::to_string(b.axis) + " is " + std::to_string(extent) +
                             (divides ? ", so " + symbol.name + " = " + std::to_string(value) + " is outside"
                                      : ", which fits no " + symbol.name + " in") +
                             " [" + std::to_string(symbol.min) + ", " + std::to_string(symbol.max) + "]");
    values[static_cast<size_t>(b.symbol)] = value;
  }
  for (size_t i = 0; i < inputs.size(); ++i) QCG_CHECK(check_input(i, inputs[i], values));
  for (const auto& condition : m.conditions)
    if (!condition.holds(values))
      return Error::bad_input("the inputs' sizes", "do not satisfy " + condition.text,
                              "pass sizes that do; the model was exported for those alone");
  for (const auto& read : m.reads) {
    const auto& symbol = m.symbols[static_cast<size_t>(read.symbol)];
    const auto most = m.most_of(read, values);
    if (!most || *most < symbol.min)
      return Error::bad_input("the inputs' sizes",
                              "leave no value for " + symbol.name + ", which must be at least " +
                                  std::to_string(symbol.min) + " and at most " +
                                  (most ? std::to_string(*most) : "what exceeds 2^63"),
                              "pass sizes that the model was exported for");
    values[static_cast<size_t>(read.symbol)] = *most;
  }
  return values;
}

Result<int64_t> Program::symbol_value(size_t index, const TensorView& view) const {
  const ProgramManifest::Tensor& input = manifest_.inputs[index];
  const auto& symbol = manifest_.symbols[static_cast<size_t>(input.symbol)];
  QCG_CHECK(check_input(index, view, {}));  // its shape is of numbers
  if (view.on_device)
    return Error::bad_input("input '" + input.name + "'",
                            "is on a device, but sizes follow from its value " + symbol.name,
                            "pass it in host memory: it is read before anything is launched");
  if (view.data == nullptr)
    return wrong_input(input.name, "has no data, but sizes follow from its value " + symbol.name);
  int64_t value = 0;
  int32_t narrow = 0;
  if (view.dtype == DType::i64) std::memcpy(&value, view.data, sizeof value);
  else std::memcpy(&narrow, view.data, sizeof narrow), value = narrow;
  if (value < symbol.min || value > symbol.max)
    return Error::bad_input("input '" + input.name + "'",
                            "is " + std::to_string(value) + ", but " + symbol.name + " is from " +
                                std::to_string(symbol.min) + " to " + std::to_string(symbol.max),
                            "pass a number that the model was exported for; sizes are not negative");
  return value;
}

Status Program::check_input(size_t index, const TensorView& view, std::span<const int64_t> symbol_values) const {
  const auto& expected = manifest_.inputs[index];
  if (view.dtype != expected.dtype)
    return wrong_input(expected.name, "has dtype " + std::string(dtype_name(view.dtype)) + ", the program expects " +
                                          std::string(dtype_name(expected.dtype)));
  for (size_t axis = 0; axis < view.shape.size(); ++axis) {
    const auto extent = expected.shape[axis].evaluate(symbol_values);
    if (!extent || *extent != view.shape[axis])
      return wrong_input(expected.name, "axis " + std::to_string(axis) + " is " + std::to_string(view.shape[axis]) +
                                            ", the program expects " +
                                            (extent ? std::to_string(*extent) : "more than 2^63"));
  }
  if (expected.symbol >= 0 && !symbol_values.empty()) {
    const auto symbol = static_cast<size_t>(expected.symbol);
    QCG_TRY(value, symbol_value(index, view));
    if (value != symbol_values[symbol])
      return wrong_input(expected.name, "is " + std::to_string(value) + ", but " + manifest_.symbols[symbol].name +
                                            " is " + std::to_string(symbol_values[symbol]));
  }
  if (!byte_count(view.shape, view.dtype))
    return wrong_input(expected.name, "has an impossible shape " + shape_text(view.shape));
  if (!view.strides.empty() && view.strides.size() != view.shape.size())
    return wrong_input(expected.name, "has " + std::to_string(view.strides.size()) + " strides for " +
                                          std::to_string(view.shape.size()) + " axes");
  return {};
}

Result<std::vector<std::vector<int64_t>>> Program::output_shapes(std::span<const TensorView> inputs) const {
  QCG_TRY(values, bind_symbols(inputs));
  std::vector<std::vector<int64_t>> shapes;
  for (const auto& output : manifest_.outputs) {
    std::vector<int64_t>& shape = shapes.emplace_back();
    for (const SizeExpr& extent : output.shape) {
      const auto value = extent.evaluate(values);
      if (!value || *value < 0)
        return Error::bad_input("output '" + output.name + "'", "would have an impossible extent",
                                "use smaller inputs");
      shape.push_back(*value);
    }
    if (!byte_count(shape, output.dtype))
      return Error::bad_input("output '" + output.name + "'", "would have an impossible shape " + shape_text(shape),
                              "use smaller inputs");
  }
  return shapes;
}

}  // namespace qcg
