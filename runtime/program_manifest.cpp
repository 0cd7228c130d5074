#include "runtime/program_manifest.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "runtime/abi.h"
#include "runtime/piece_digests.h"

namespace qcg {
namespace {

using Json = nlohmann::json;

// Limits far above real programs, but small enough that the worst file is refused in well under a second.
constexpr size_t kMaxBytes = size_t{16} << 20;
constexpr int kMaxDepth = 24;
constexpr size_t kMaxBuffers = 1 << 16;
// The memory that the values of a file may take. Empty lists take thirty times the size of their text.
constexpr size_t kMaxParsedBytes = size_t{200} << 20;
constexpr size_t kNodeBytes = 96, kStringBytes = 64,
                 kNumberBytes = 40;  // a list, an object, a member; a list that grows
// The launch limits of all CUDA devices since sm_80; for shared memory, the largest limit of any device.
constexpr int64_t kMaxThreads = 1024, kMaxTileRows = 1 << 16, kMaxColumnTiles = 65535, kMaxSharedBytes = 227 << 10;
constexpr size_t kMaxParameterBytes = 4096;

constexpr int64_t kVersion = 5, kFirstWithState = 2, kFirstWithMethods = 3, kFirstWithTargets = 4, kFirstWithReads = 5;
constexpr size_t kMaxTargets = 16;
constexpr int64_t kMaxGroups = 1 << 20;
constexpr int kMaxBindingRounds = 64;
// Of targets times methods times what each of them has a copy of: files and states.
constexpr size_t kMaxShared = 1 << 16;
constexpr int64_t kStateAlignment = 64;

constexpr std::string_view kHelp = "the program is damaged or of another version: compile it again";

bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// Whether a path is relative, stays inside the directory, and has no parts that a file system would interpret.
bool is_plain_path(std::string_view path) {
  if (path.empty() || path.size() > 512 || path.front() == '/' || path.back() == '/') return false;
  if (path.find('\0') != std::string_view::npos) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

// Counts the memory that the values of a text would take, and stops above the limit. (A callback of Json::parse would
// not do: it cannot stop the parser, and every object that ends costs a walk over its siblings.)
class ValueCounter : public nlohmann::json_sax<Json> {
 public:
  bool too_large() const { return bytes_ > kMaxParsedBytes; }

  bool null() override { return add(kNumberBytes); }
  bool boolean(bool) override { return add(kNumberBytes); }
  bool number_integer(number_integer_t) override { return add(kNumberBytes); }
  bool number_unsigned(number_unsigned_t) override { return add(kNumberBytes); }
  bool number_float(number_float_t, const string_t&) override { return add(kNumberBytes); }
  bool string(string_t& text) override { return add(kStringBytes + text.size()); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return add(kNodeBytes); }
  bool key(string_t& text) override { return add(kNodeBytes + text.size()); }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return add(kNodeBytes); }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  bool add(size_t bytes) {
    bytes_ += bytes;
    return !too_large();
  }
  size_t bytes_ = 0;
};

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

const Json& null_json() {
  static const Json null;
  return null;
}

// Reads fields and keeps the first mistake. After a mistake, reads return defaults, which are not used.
class Reader {
 public:
  explicit Reader(ProgramManifest& out, size_t targets = 1) : out_(out), targets_(targets) {}
  Status read(const Json& root);
  // All of a program but its files: of one target.
  Status read_target(const Json& value, const std::string& path);
  // The part that each method has for itself.
  Status read_method(const Json& value, const std::string& path);

 private:
  void fail(const std::string& path, const std::string& message) {
    if (status_.ok()) status_ = Error::bad_input("manifest.json: " + path, message, std::string(kHelp));
  }
  bool check(bool condition, const std::string& path, const char* message) {
    if (!condition) fail(path, message);
    return condition && status_.ok();
  }

  const Json& field(const Json& object, const char* key) {
    if (!object.is_object()) return null_json();
    const auto it = object.find(key);
    return it == object.end() ? null_json() : *it;
  }
  std::string text(const Json& value, const std::string& path) {
    const auto* s = value.get_ptr<const Json::string_t*>();
    check(s != nullptr, path, "is not a string");
    return s != nullptr ? *s : std::string();
  }
  int64_t integer(const Json& value, const std::string& path, int64_t min, int64_t max) {
    const auto* n = value.get_ptr<const Json::number_integer_t*>();
    const auto* u = value.get_ptr<const Json::number_unsigned_t*>();
    const bool in_range =
        n != nullptr && (u == nullptr || *u <= static_cast<uint64_t>(INT64_MAX)) && *n >= min && *n <= max;
    if (!in_range) fail(path, "is not an integer from " + std::to_string(min) + " to " + std::to_string(max));
    return in_range ? *n : min;
  }
  int index(const Json& value, const std::string& path, size_t count) {
    if (!check(count > 0, path, "refers to an empty table")) return 0;
    return static_cast<int>(integer(value, path, 0, static_cast<int64_t>(count) - 1));
  }
  template <class Fn>
  void each(const Json& array, const std::string& path, Fn fn) {
    if (!check(array.is_array(), path, "is not a list")) return;
    for (size_t i = 0; i < array.size() && status_.ok(); ++i) fn(array[i], path + "[" + std::to_string(i) + "]");
  }

  SizeExpr size(const Json& value, const std::string& path);
  SizeCall size_call(const Json& value, const std::string& path);
  ProgramManifest::Condition condition(const Json& value, const std::string& path);
  void header(const Json& root);
  void read_files(const Json& files);
  void read_pieces(const Json& pieces, const std::string& at, ProgramManifest::File& file);
  ProgramManifest::Tensor tensor(const Json& value, const std::string& path);
  ProgramManifest::Tensor input(const Json& value, const std::string& path);
  void read_state(const Json& value, const std::string& path);
  int64_t weights_bytes() const;
  ProgramManifest::Buffer buffer(const Json& value, const std::string& path, size_t steps);
  Reach reach(const Json& value, const std::string& path);
  Reach::Number reach_number(const Json& value, const std::string& path);
  ProgramManifest::Arg arg(const Json& value, const std::string& path);
  ProgramManifest::Launch launch(const Json& value, const std::string& path);
  ProgramManifest::Step step(const Json& value, const std::string& path);
  void read_reads(const Json& symbols, const std::string& path);
  void need_dense(int buffer_index);
  void check_groups(const ProgramManifest::Step& step, const std::string& path);
  void check_step(const ProgramManifest::Step& step, int number, const std::string& path);
  std::optional<ProgramManifest::Binding> binding_of(int input, int axis, const std::vector<bool>& bound) const;
  void derive_bindings(const std::string& path);
  void read_methods(const Json& methods, const std::string& path);
  void read_targets(const Json& targets);

  ProgramManifest& out_;
  size_t targets_;  // of the program
  std::set<std::string, std::less<>> state_names_;
  Status status_;
};

SizeExpr Reader::size(const Json& value, const std::string& path) {
  SizeExpr expr;
  if (value.is_number_integer()) {
    expr.terms.push_back({integer(value, path, INT64_MIN, INT64_MAX), {}, {}});
    return expr;
  }
  each(value, path, [&](const Json& term, const std::string& at) {
    if (!check(term.is_array() && !term.empty(), at, "is not a list [coefficient, symbol, …]")) return;
    SizeExpr::Term t;
    t.coefficient = integer(term[0], at + "[0]", INT64_MIN, INT64_MAX);
    for (size_t i = 1; i < term.size() && status_.ok(); ++i) {
      const std::string factor = at + "[" + std::to_string(i) + "]";
      if (term[i].is_object()) t.calls.push_back(size_call(term[i], factor));
      else t.symbols.push_back(index(term[i], factor, out_.symbols.size()));
    }
    expr.terms.push_back(std::move(t));
  });
  return expr;
}

// The text's depth is limited (is_too_deep), and so is that of calls within calls.
SizeCall Reader::size_call(const Json& value, const std::string& path) {
  SizeCall call;
  call.divides = value.contains("floordiv");
  const Json& sizes = field(value, call.divides ? "floordiv" : "min");
  if (!check(value.size() == 1 && sizes.is_array() && sizes.size() == 2, path,
             "is not {floordiv or min: [size, size]}"))
    return call;
  for (const Json& one : sizes) call.sizes.push_back(size(one, path));
  return call;
}

void Reader::header(const Json& root) {
  check(root.is_object(), "$", "is not an object");
  check(text(field(root, "format"), "$.format") == "qcodegen-program", "$.format", "is not \"qcodegen-program\"");
  const int64_t version = integer(field(root, "version"), "$.version", 0, INT32_MAX);
  check(version >= 1 && version <= kVersion, "$.version", "is none of 1 to 5, the versions this runtime reads");
  const int64_t abi = integer(field(root, "kernel_abi"), "$.kernel_abi", 0, INT32_MAX);
  check(abi >= QCG_OLDEST_KERNEL_ABI && abi <= QCG_KERNEL_ABI, "$.kernel_abi", "is no kernel ABI of this runtime");
  out_.version = static_cast<int>(version), out_.kernel_abi = static_cast<int>(abi);
  out_.generator = text(field(root, "generator"), "$.generator");
}

void Reader::read_files(const Json& files) {
  if (!check(files.is_object(), "$.files", "is not an object")) return;
  for (const auto& item : files.items()) {
    const std::string at = "$.files['" + item.key() + "']";
    check(is_plain_path(item.key()), at, "is not a path inside the program directory");
    ProgramManifest::File file;
    file.bytes = integer(field(item.value(), "bytes"), at + ".bytes", 0, INT64_MAX);
    file.sha256 = text(field(item.value(), "sha256"), at + ".sha256");
    check(is_sha256(file.sha256), at + ".sha256", "is not 64 lower-case hex digits");
    if (item.value().contains("content")) {
      file.content = text(item.value()["content"], at + ".content");
      check(is_sha256(file.content), at + ".content", "is not 64 lower-case hex digits");
    }
    if (item.value().contains("pieces")) read_pieces(item.value()["pieces"], at + ".pieces", file);
    out_.files.emplace(item.key(), std::move(file));
  }
}

void Reader::read_pieces(const Json& pieces, const std::string& at, ProgramManifest::File& file) {
  const int64_t count = file.bytes / kDigestPiece + (file.bytes % kDigestPiece != 0);
  if (!check(pieces.is_array() && static_cast<int64_t>(pieces.size()) == count, at, "is not one digest per 16 MiB"))
    return;
  for (const Json& piece : pieces) {
    file.pieces.push_back(text(piece, at));
    check(is_sha256(file.pieces.back()), at, "is not 64 lower-case hex digits");
  }
}

ProgramManifest::Tensor Reader::tensor(const Json& value, const std::string& path) {
  ProgramManifest::Tensor t;
  t.name = text(field(value, "name"), path + ".name");
  const auto dtype = dtype_from_name(text(field(value, "dtype"), path + ".dtype"));
  check(dtype.has_value(), path + ".dtype", "is not a dtype this runtime knows");
  t.dtype = dtype.value_or(DType::f32);
  const Json& shape = field(value, "shape");
  check(shape.size() <= kMaxAxes, path + ".shape", "has more than 16 axes");
  each(shape, path + ".shape", [&](const Json& d, const std::string& at) { t.shape.push_back(size(d, at)); });
  return t;
}

// {"size": [[1, 0], [-4]], "is": "at_least_0", "text": "x.size()[0] >= 4"}
ProgramManifest::Condition Reader::condition(const Json& value, const std::string& path) {
  using Is = ProgramManifest::Condition::Is;
  constexpr std::pair<std::string_view, Is> kAll[] = {
      {"zero", Is::zero}, {"not_zero", Is::not_zero}, {"at_least_0", Is::at_least_0}};
  ProgramManifest::Condition out;
  out.size = size(field(value, "size"), path + ".size");
  out.text = text(field(value, "text"), path + ".text");
  const std::string is = text(field(value, "is"), path + ".is");
  const auto row = std::ranges::find(kAll, is, [](const auto& each) { return each.first; });
  if (check(row != std::end(kAll), path + ".is", "is none of zero, not_zero and at_least_0")) out.is = row->second;
  return out;
}

// The same, or {"name": "n", "dtype": "i64", "shape": [], "symbol": 0}
ProgramManifest::Tensor Reader::input(const Json& value, const std::string& path) {
  ProgramManifest::Tensor t = tensor(value, path);
  const Json& symbol = field(value, "symbol");
  if (symbol.is_null()) return t;
  t.symbol = index(symbol, path + ".symbol", out_.symbols.size());
  check((t.dtype == DType::i64 || t.dtype == DType::i32) && t.has_one_element(), path + ".symbol",
        "is not of an input of one i64 or i32");
  return t;
}

int64_t Reader::weights_bytes() const {
  const auto file = out_.files.find("weights.bin");
  return file == out_.files.end() ? 0 : file->second.bytes;
}

// {"name": "k_cache", "dtype": "f32", "shape": [1, 8, 64], "init": "zero" or {"offset": 4096, "bytes": 2048}}
void Reader::read_state(const Json& value, const std::string& path) {
  ProgramManifest::State& s = out_.states.emplace_back();
  const ProgramManifest::Tensor t = tensor(value, path);
  s.name = t.name;
  s.dtype = t.dtype;
  s.bytes = static_cast<int64_t>(dtype_bytes(t.dtype));
  for (size_t axis = 0; axis < t.shape.size(); ++axis) {
    const std::string at = path + ".shape[" + std::to_string(axis) + "]";
    const int64_t extent = t.shape[axis].is_constant() ? t.shape[axis].evaluate({}).value_or(-1) : -1;
    if (!check(extent >= 0, at, "is not a number from 0 to 2^63 - 1: the size of a state is constant")) return;
    s.shape.push_back(extent);
    if (__builtin_mul_overflow(s.bytes, extent, &s.bytes)) return fail(path + ".shape", "is too large");
  }
  check(state_names_.insert(s.name).second, path + ".name", "is the name of another state");
  s.place = out_.state_bytes;
  int64_t rounded = 0;
  if (__builtin_add_overflow(s.bytes, kStateAlignment - 1, &rounded) ||
      __builtin_add_overflow(out_.state_bytes, rounded & -kStateAlignment, &out_.state_bytes))
    return fail(path + ".shape", "makes the states too large together");
  const Json& init = field(value, "init");
  if (init == Json("zero")) return;
  if (!check(init.is_object(), path + ".init", "is neither \"zero\" nor a range of weights.bin")) return;
  s.initial = integer(field(init, "offset"), path + ".init.offset", 0, weights_bytes());
  const int64_t bytes = integer(field(init, "bytes"), path + ".init.bytes", 0, weights_bytes() - *s.initial);
  check(bytes == s.bytes, path + ".init.bytes", "is not the size of the state");
}

ProgramManifest::Buffer Reader::buffer(const Json& value, const std::string& path, size_t steps) {
  using Kind = ProgramManifest::BufferKind;
  ProgramManifest::Buffer b;
  const std::string kind = text(field(value, "kind"), path + ".kind");
  if (kind == "input" || kind == "output") {
    b.kind = kind == "input" ? Kind::input : Kind::output;
    b.index = index(field(value, "index"), path + ".index", (kind == "input" ? out_.inputs : out_.outputs).size());
  } else if (kind == "state") {
    b.kind = Kind::state;
    b.index = index(field(value, "index"), path + ".index", out_.states.size());
  } else if (kind == "weights") {
    b.kind = Kind::weights;
    const int64_t bytes = weights_bytes();
    b.offset = integer(field(value, "offset"), path + ".offset", 0, bytes);
    b.bytes = integer(field(value, "bytes"), path + ".bytes", 0, bytes - b.offset);
    check(b.offset % 64 == 0, path + ".offset", "is not a multiple of 64");
  } else if (kind == "temp") {
    const int64_t last_step = static_cast<int64_t>(steps) - 1;
    b.size = size(field(value, "bytes"), path + ".bytes");
    b.first = static_cast<int>(integer(field(value, "first"), path + ".first", 0, std::max<int64_t>(0, last_step)));
    b.last =
        static_cast<int>(integer(field(value, "last"), path + ".last", b.first, std::max<int64_t>(b.first, last_step)));
  } else {
    fail(path + ".kind", "is not input, output, weights, temp or state");
  }
  return b;
}

Reach::Number Reader::reach_number(const Json& value, const std::string& path) {
  if (value.is_number_integer()) return {Reach::Number::constant, integer(value, path, 0, INT64_MAX)};
  const std::string name = text(value, path);
  if (name == "s") return {Reach::Number::stride, 0};
  int64_t index = -1;
  const char* end = name.data() + name.size();
  const bool good = name.starts_with("p") && std::from_chars(name.data() + 1, end, index).ptr == end && index >= 0;
  check(good, path, "is not a size, \"s\" or \"p\" and the number of a param");
  return {Reach::Number::param, index};  // check_step checks the index against the number of params
}

Reach Reader::reach(const Json& value, const std::string& path) {
  Reach out;
  out.item = integer(field(value, "item"), path + ".item", 1, 16);
  out.writes = field(value, "writes") == Json(true);
  const Json& axes = field(value, "axes");
  check(axes.size() <= kMaxAxes, path + ".axes", "has more than 16 axes");
  each(axes, path + ".axes", [&](const Json& axis, const std::string& at) {
    if (!check(axis.is_array() && (axis.size() == 1 || axis.size() == 2), at, "is not [extent] or [extent, stride]"))
      return;
    Reach::Axis& to = out.axes.emplace_back();
    to.extent = reach_number(axis[0], at + "[0]");
    if (axis.size() == 2) to.stride = reach_number(axis[1], at + "[1]");
  });
  if (const Json& positions = field(value, "positions"); !positions.is_null()) {
    check(out.item == 4 || out.item == 8, path + ".item", "is not that of i32 or i64, yet there are positions");
    out.positions = {reach_number(field(positions, "size"), path + ".positions.size"),
                     field(positions, "from_end") == Json(true), field(positions, "ascending") == Json(true)};
  }
  return out;
}

ProgramManifest::Arg Reader::arg(const Json& value, const std::string& path) {
  ProgramManifest::Arg a;
  a.buffer = index(field(value, "buffer"), path + ".buffer", out_.buffers.size());
  a.offset = size(field(value, "offset"), path + ".offset");
  const Json& stride = field(value, "stride");
  if (!stride.is_null()) a.stride = size(stride, path + ".stride");
  if (const Json& r = field(value, "reach"); !r.is_null()) a.reach = reach(r, path + ".reach");
  return a;
}

ProgramManifest::Launch Reader::launch(const Json& value, const std::string& path) {
  check(value.is_object(), path, "is not an object, yet a kernel of a device needs it");
  auto number = [&](const char* key, int64_t min, int64_t max) {
    return static_cast<int>(integer(field(value, key), path + "." + key, min, max));
  };
  ProgramManifest::Launch out{number("threads", 1, kMaxThreads), number("rows", 1, kMaxTileRows),
                              number("column_tiles", 1, kMaxColumnTiles), number("shared_bytes", 0, kMaxSharedBytes)};
  const Json& axes = field(value, "axes");
  if (axes.is_null()) return out;
  out.axes.clear();
  each(axes, path + ".axes", [&](const Json& axis, const std::string& at) {
    if (!check(axis.is_array() && axis.size() == 2, at, "is not [param, piece]")) return;
    out.axes.push_back({static_cast<int>(integer(axis[0], at + "[0]", 0, kMaxParameterBytes / 8)),
                        static_cast<int>(integer(axis[1], at + "[1]", 1, kMaxTileRows))});
  });
  return out;
}

ProgramManifest::Step Reader::step(const Json& value, const std::string& path) {
  ProgramManifest::Step s;
  s.name = text(field(value, "name"), path + ".name");
  const Json& groups = field(value, "groups");
  const bool grouped = !groups.is_null();
  each(field(grouped ? groups : value, "kernels"), path + (grouped ? ".groups.kernels" : ".kernels"),
       [&](const Json& k, const std::string& at) {
         ProgramManifest::KernelChoice choice;
         choice.m_max = integer(field(k, "m_max"), at + ".m_max", -1, INT64_MAX);
         choice.module = text(field(k, "module"), at + ".module");
         choice.symbol = text(field(k, "symbol"), at + ".symbol");
         check(out_.files.contains(choice.module), at + ".module", "is not in $.files");
         if (const Json& library = field(k, "library"); !library.is_null())
           choice.library = text(library, at + ".library");
         if (out_.on_device()) choice.launch = launch(field(k, "launch"), at + ".launch");
         const bool ascends = s.kernels.empty() || (s.kernels.back().m_max >= 0 &&
                                                    (choice.m_max < 0 || choice.m_max > s.kernels.back().m_max));
         check(ascends, at + ".m_max", "does not ascend");
         s.kernels.push_back(std::move(choice));
       });
  each(field(value, "args"), path + ".args",
       [&](const Json& a, const std::string& at) { s.args.push_back(arg(a, at)); });
  each(field(value, "params"), path + ".params",
       [&](const Json& p, const std::string& at) { s.params.push_back(size(p, at)); });
  if (grouped)
    s.groups = {integer(field(groups, "count"), path + ".groups.count", 1, kMaxGroups),
                index(field(groups, "weights"), path + ".groups.weights", s.args.size()),
                integer(field(groups, "bytes"), path + ".groups.bytes", 0, weights_bytes())};
  return s;
}

// Of symbols that have {"step": 3, "buffer": 5, "most": size} as `read`.
void Reader::read_reads(const Json& symbols, const std::string& path) {
  for (size_t i = 0; i < symbols.size() && status_.ok(); ++i) {
    const Json& value = field(symbols[i], "read");
    if (value.is_null()) continue;
    const std::string at = path + "[" + std::to_string(i) + "].read";
    check(out_.version >= kFirstWithReads, at, "is not in programs of a version before 5");
    ProgramManifest::Read& read = out_.reads.emplace_back();
    read.symbol = static_cast<int>(i);
    read.step = index(field(value, "step"), at + ".step", out_.steps.size());
    read.buffer = index(field(value, "buffer"), at + ".buffer", out_.buffers.size());
    read.most = size(field(value, "most"), at + ".most");
  }
  std::ranges::stable_sort(out_.reads, {}, &ProgramManifest::Read::step);
}

void Reader::need_dense(int buffer_index) {
  const auto& b = out_.buffers[static_cast<size_t>(buffer_index)];
  if (b.kind == ProgramManifest::BufferKind::input) out_.input_needs_dense[static_cast<size_t>(b.index)] = true;
  if (b.kind == ProgramManifest::BufferKind::output) out_.output_needs_dense[static_cast<size_t>(b.index)] = true;
}

// Whether the runtime can tell what a group's call gets: rows lie one stride of the argument apart.
void Reader::check_groups(const ProgramManifest::Step& step, const std::string& path) {
  check(!out_.on_device(), path, "is for kernels of the CPU alone");
  check(!step.params.empty(), path, "has no number of rows to divide: params is empty");
  for (const auto& arg : step.args)
    if (!check(arg.reach && !arg.reach->positions, path, "needs a plain reach of every argument")) return;
  const Reach& ends = *step.args.back().reach;
  const bool one_each = ends.axes.size() == 1 && ends.axes[0].extent.kind == Reach::Number::constant &&
                        ends.axes[0].extent.value == step.groups->count;
  check(one_each && (ends.item == 4 || ends.item == 8) && !ends.writes, path,
        "has no i32 or i64 per group as the last argument");
  for (const auto& arg : step.args) {
    const std::vector<Reach::Axis>& axes = arg.reach->axes;
    if (is_by_row(*arg.reach))
      check(axes[0].stride && axes[0].stride->kind == Reach::Number::stride, path,
            "has rows that are not strides apart");
    check(!arg.reach->writes ||
              (is_by_row(*arg.reach) && axes.size() == 2 && axes[1].extent.kind == Reach::Number::constant),
          path, "writes something else than rows");
  }
  const auto& weights = step.args[static_cast<size_t>(step.groups->weights)];
  check(!is_by_row(*weights.reach) && step.groups->weights + 1 < std::ssize(step.args), path + ".weights",
        "is an argument of rows or ends");
}

// The checks that need several tables.
void Reader::check_step(const ProgramManifest::Step& step, int number, const std::string& path) {
  using Kind = ProgramManifest::BufferKind;
  if (!check(!step.kernels.empty(), path + ".kernels", "is empty")) return;
  check(step.kernels.size() == 1 || !step.params.empty(), path + ".params",
        "is empty, yet params[0] chooses the kernel");
  if (out_.on_device()) {
    check(step.args.size() <= kMaxParameterBytes / 16 && step.params.size() <= kMaxParameterBytes / 8 &&
              step.args.size() * 16 + step.params.size() * 8 + 8 <= kMaxParameterBytes,
          path + ".args", "is more than the 4096 bytes a device kernel may get");
    for (const auto& kernel : step.kernels)
      for (const auto& axis : kernel.launch.axes)
        check(axis.param < std::ssize(step.params), path + ".params", "has fewer than a launch of the step names");
  }
  if (step.groups) check_groups(step, path + ".groups");
  for (size_t i = 0; i < step.args.size(); ++i) {
    const std::string at = path + ".args[" + std::to_string(i) + "]";
    const auto& b = out_.buffers[static_cast<size_t>(step.args[i].buffer)];
    auto there = [&](const Reach::Number& n) {
      return n.kind != Reach::Number::param || n.value < std::ssize(step.params);
    };
    if (step.args[i].reach)
      for (const Reach::Axis& axis : step.args[i].reach->axes)
        check(there(axis.extent) && (!axis.stride || there(*axis.stride)), at + ".reach", "names no param of the step");
    if (step.args[i].reach && step.args[i].reach->positions)
      check(there(step.args[i].reach->positions->size), at + ".reach.positions", "names no param of the step");
    if (step.args[i].reach && step.args[i].reach->writes)
      check(b.kind != Kind::input && b.kind != Kind::weights, at, "is written to, and is an input or weights");
    if (b.kind == Kind::temp)
      check(b.first <= number && number <= b.last, at, "is a temporary that is not alive in this step");
    if (step.args[i].stride) {
      need_dense(step.args[i].buffer);
      continue;
    }
    const bool caller = b.kind == Kind::input || b.kind == Kind::output;
    const auto& tensors = b.kind == Kind::input ? out_.inputs : out_.outputs;
    check(caller && tensors[static_cast<size_t>(b.index)].shape.size() == 2, at + ".stride",
          "is null, but not for a rank-2 input or output");
  }
}

// Of an extent that is linear in the one symbol that is not bound; nullopt: it is not.
std::optional<ProgramManifest::Binding> Reader::binding_of(int input, int axis, const std::vector<bool>& bound) const {
  ProgramManifest::Binding b{-1, input, axis, 0, 0};
  const SizeExpr& extent = out_.inputs[static_cast<size_t>(input)].shape[static_cast<size_t>(axis)];
  for (const auto& term : extent.terms) {
    if (!term.calls.empty()) return std::nullopt;
    if (term.symbols.empty()) {
      if (__builtin_add_overflow(b.constant, term.coefficient, &b.constant)) return std::nullopt;
      continue;
    }
    if (std::ranges::all_of(term.symbols, [&](int symbol) { return bound[static_cast<size_t>(symbol)]; })) continue;
    if (term.symbols.size() > 1 || b.symbol >= 0 || term.coefficient == 0) return std::nullopt;
    b.symbol = term.symbols[0];
    b.coefficient = term.coefficient;
  }
  return b.symbol < 0 ? std::nullopt : std::optional(b);
}

// Finds for every symbol the input that is its value, or an extent of an input that is coefficient * symbol + constant:
// first those of one symbol alone, then those in which all other symbols are known. A round follows a chain of extents in
// the order of the inputs to its end, so a few rounds suffice for what a graph has; their bound keeps the time linear.
void Reader::derive_bindings(const std::string& path) {
  std::vector<bool> bound(out_.symbols.size(), false);
  for (size_t i = 0; i < out_.inputs.size(); ++i) {
    const int symbol = out_.inputs[i].symbol;
    if (symbol < 0 || bound[static_cast<size_t>(symbol)]) continue;
    bound[static_cast<size_t>(symbol)] = true;
    out_.bindings.push_back({symbol, static_cast<int>(i), ProgramManifest::kElement});
  }
  bool found = true;
  for (int round = 0; found && round < kMaxBindingRounds; ++round) {
    found = false;
    for (size_t i = 0; i < out_.inputs.size(); ++i)
      for (size_t axis = 0; axis < out_.inputs[i].shape.size(); ++axis) {
        const auto b = binding_of(static_cast<int>(i), static_cast<int>(axis), bound);
        if (!b) continue;
        bound[static_cast<size_t>(b->symbol)] = true, found = true;
        out_.bindings.push_back(*b);
      }
  }
  for (const auto& read : out_.reads) bound[static_cast<size_t>(read.symbol)] = true;
  for (size_t s = 0; s < bound.size(); ++s)
    check(bound[s] || out_.symbols[s].min == out_.symbols[s].max, path + ".symbols[" + std::to_string(s) + "]",
          "is not determined by the shape or value of any input");
}

Status Reader::read(const Json& root) {
  header(root);
  if (!status_.ok()) return status_;
  read_files(field(root, "files"));
  if (!status_.ok()) return status_;
  const Json& targets = field(root, "targets");
  if (out_.version < kFirstWithTargets || (out_.version > kFirstWithTargets && targets.is_null()))
    return read_target(root, "$");
  read_targets(targets);
  return status_;
}

void Reader::read_targets(const Json& targets) {
  if (!check(targets.is_array() && !targets.empty() && targets.size() <= kMaxTargets, "$.targets",
             "is not a list of 1 to 16 targets"))
    return;
  check(targets.size() * (1 + out_.files.size()) <= kMaxShared, "$.targets", "has more files than any program");
  std::set<std::string, std::less<>> names;
  const ProgramManifest shared = out_;
  each(targets, "$.targets", [&](const Json& value, const std::string& at) {
    ProgramManifest one = shared;
    status_ = Reader(one, targets.size()).read_target(value, at);
    check(names.insert(one.target).second, at + ".target", "is the name of another target");
    if (names.size() == 1) out_ = std::move(one);
    else out_.other_targets.push_back(std::move(one));
  });
}

Status Reader::read_target(const Json& value, const std::string& path) {
  out_.target = text(field(value, "target"), path + ".target");
  out_.isa = text(field(value, "isa"), path + ".isa");
  const Json &states = field(value, "states"), &methods = field(value, "methods");
  const bool is_optional = out_.version >= kFirstWithTargets;
  if (is_optional ? !states.is_null() : out_.version >= kFirstWithState)
    each(states, path + ".states", [&](const Json& v, const std::string& at) { read_state(v, at); });
  if (!status_.ok()) return status_;
  if (is_optional ? methods.is_null() : out_.version < kFirstWithMethods) return read_method(value, path);
  read_methods(methods, path + ".methods");
  return status_;
}

void Reader::read_methods(const Json& methods, const std::string& path) {
  if (!check(methods.is_array() && !methods.empty(), path, "is not a list of one or more methods")) return;
  check(methods.size() <= kMaxShared / targets_ / (1 + out_.files.size() + out_.states.size()), path,
        "has more methods than any program with so many files and states");
  std::set<std::string, std::less<>> names;
  const ProgramManifest shared = out_;
  each(methods, path, [&](const Json& value, const std::string& at) {
    ProgramManifest one = shared;
    one.method = text(field(value, "name"), at + ".name");
    check(is_method_name(one.method), at + ".name", "is not 1 to 64 letters, digits and underscores");
    check(names.insert(one.method).second, at + ".name", "is the name of another method");
    if (Status status = Reader(one).read_method(value, at); status_.ok()) status_ = std::move(status);
    if (names.size() == 1) out_ = std::move(one);
    else out_.others.push_back(std::move(one));
  });
}

Status Reader::read_method(const Json& root, const std::string& path) {
  const Json& symbols = field(root, "symbols");
  each(symbols, path + ".symbols", [&](const Json& v, const std::string& at) {
    ProgramManifest::Symbol s;
    s.name = text(field(v, "name"), at + ".name");
    s.min = integer(field(v, "min"), at + ".min", 0, INT64_MAX);
    s.max = integer(field(v, "max"), at + ".max", s.min, INT64_MAX);
    out_.symbols.push_back(std::move(s));
  });
  if (const Json& conditions = field(root, "conditions"); !conditions.is_null())
    each(conditions, path + ".conditions",
         [&](const Json& v, const std::string& at) { out_.conditions.push_back(condition(v, at)); });
  each(field(root, "inputs"), path + ".inputs",
       [&](const Json& v, const std::string& at) { out_.inputs.push_back(input(v, at)); });
  each(field(root, "outputs"), path + ".outputs",
       [&](const Json& v, const std::string& at) { out_.outputs.push_back(tensor(v, at)); });
  const Json& steps = field(root, "steps");
  const Json& buffers = field(root, "buffers");
  check(buffers.size() <= kMaxBuffers && steps.size() <= kMaxBuffers, path + ".buffers", "has more than 65536 rows");
  each(buffers, path + ".buffers",
       [&](const Json& v, const std::string& at) { out_.buffers.push_back(buffer(v, at, steps.size())); });
  each(steps, path + ".steps", [&](const Json& v, const std::string& at) { out_.steps.push_back(step(v, at)); });
  if (!status_.ok()) return status_;

  out_.input_needs_dense.assign(out_.inputs.size(), false);
  out_.output_needs_dense.assign(out_.outputs.size(), false);
  for (size_t i = 0; i < out_.steps.size(); ++i)
    check_step(out_.steps[i], static_cast<int>(i), path + ".steps[" + std::to_string(i) + "]");
  read_reads(symbols, path + ".symbols");
  if (!status_.ok()) return status_;
  if (const auto wrong = settle_reads(out_, path)) fail(wrong->path, wrong->message);
  if (status_.ok()) derive_bindings(path);
  return status_;
}

}  // namespace

bool is_method_name(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !name.empty() && name.size() <= 64 && name.find_first_not_of(kAllowed) == std::string_view::npos;
}

Result<ProgramManifest> parse_program_manifest(std::string_view text) {
  if (text.size() > kMaxBytes) return Error::bad_input("manifest.json", "is larger than 16 MiB", std::string(kHelp));
  if (is_too_deep(text))
    return Error::bad_input("manifest.json", "is nested deeper than 24 levels", std::string(kHelp));
  ValueCounter counter;
  const bool is_json = Json::sax_parse(text, &counter);
  if (counter.too_large())
    return Error::bad_input("manifest.json", "holds more values than any program has", std::string(kHelp));
  const Json root = Json::parse(is_json ? text : std::string_view(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return Error::bad_input("manifest.json", "is not JSON", std::string(kHelp));
  ProgramManifest manifest;
  QCG_CHECK(Reader(manifest).read(root));
  return manifest;
}

}  // namespace qcg
