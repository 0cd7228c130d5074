#include "graph/read/torch/mutations.h"

#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"
#include "graph/ops/verify.h"
#include "graph/read/torch/operators.h"

namespace qcg {
namespace {

constexpr const char* kHelp =
    "write to the buffer itself or to a slice of it, or export with .run_decompositions(), which makes new values of "
    "writes";
constexpr size_t kMostEmitted = 65'536, kMostDepth = 64;

// What cuts its tensor into several along an axis.
constexpr Op kParts[] = {"aten.split.Tensor",
                         "aten.split_with_sizes.default",
                         "aten.chunk.default",
                         "aten.unbind.int",
                         "aten.tensor_split.sections",
                         "aten.tensor_split.indices",
                         "aten.hsplit.int",
                         "aten.hsplit.array",
                         "aten.vsplit.int",
                         "aten.vsplit.array",
                         "aten.dsplit.int",
                         "aten.dsplit.array",
                         "aten.unsafe_chunk.default"};
constexpr Op kMovedAxes[] = {"aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int", "aten.moveaxis.intlist"};
// What adds axes of 1, or reads the bytes as another dtype.
constexpr Op kOtherViews[] = {"aten.atleast_1d.default", "aten.atleast_2d.default", "aten.atleast_3d.default",
                              "aten.ravel.default",      "aten.view.dtype",         "aten.contiguous.default",
                              "aten.einsum.default"};
// Each result is a view of the tensor at its place in the list.
constexpr Op kViewsOfLists[] = {"aten.broadcast_tensors.default", "aten.meshgrid.default", "aten.meshgrid.indexing"};

std::string_view target_of(const JsonCursor& node) {
  auto target = node.find("target");
  return target && target->is(JsonKind::string) ? *target->string() : std::string_view();
}

// The name of a tensor argument, {"as_tensor": {"name": "x"}}; empty for anything else.
std::string_view tensor_name(const JsonCursor& argument) {
  auto tensor = argument.is(JsonKind::object) ? argument.find("as_tensor") : std::nullopt;
  auto name = tensor && tensor->is(JsonKind::object) ? tensor->find("name") : std::nullopt;
  return name && name->is(JsonKind::string) ? *name->string() : std::string_view();
}

template <class F>
void for_each_name(const JsonCursor& argument, F&& f) {
  if (const auto name = tensor_name(argument); !name.empty()) f(name);
  if (!argument.is(JsonKind::object)) return;
  auto list = argument.find("as_tensors");
  if (!list) list = argument.find("as_optional_tensors");
  if (!list || !list->is(JsonKind::array)) return;
  for (JsonCursor item : *list) {
    if (!item.is(JsonKind::object)) continue;
    if (auto name = item.find("name"); name && name->is(JsonKind::string)) f(std::string_view(*name->string()));
    if (const auto name = tensor_name(item); !name.empty()) f(name);
  }
}

template <class F>
void for_each_output(const JsonCursor& node, F&& f) {
  auto outputs = node.find("outputs");
  if (!outputs || !outputs->is(JsonKind::array)) return;
  for (JsonCursor output : *outputs) for_each_name(output, f);
}

bool is_one_of(std::string_view target, std::initializer_list<std::string_view> starts) {
  for (std::string_view start : starts)
    if (target.starts_with(start)) return true;
  return false;
}

// What returns its first tensor as it is; the second kind only where there is nothing to convert.
bool returns_itself(std::string_view target) {
  return is_one_of(target, {"torch.ops.aten.alias.", "torch.ops.aten.detach.", "torch.ops.aten.detach_."});
}
bool may_return_itself(std::string_view target) {
  return is_one_of(target, {"torch.ops.aten.to.", "torch.ops.aten.contiguous.", "torch.ops.aten.type_as.",
                            "torch.ops.aten.positive.", "torch.ops.aten.sum_to_size.", "torch.ops.aten.atleast_",
                            "torch.ops.aten.view.dtype", "torch.ops.aten.dropout.", "torch.ops.aten.alpha_dropout.",
                            "torch.ops.aten.feature_dropout.", "torch.ops.aten.feature_alpha_dropout."});
}

bool is_reshape(std::string_view target) {
  return is_one_of(target, {"torch.ops.aten.reshape.", "torch.ops.aten.reshape_as.", "torch.ops.aten.flatten.",
                            "torch.ops.aten.ravel."});
}

// What copies its tensor where that is not row-major, and else gives a view of it.
bool may_copy(std::string_view target) {
  return is_reshape(target) || target.starts_with("torch.ops.aten.contiguous.");
}

// The result of one tensor may be a view that permutes axes; the result of several is memory of its own.
bool is_einsum(std::string_view target) { return target.starts_with("torch.ops.aten.einsum."); }

// to(…, copy = true), dropout(…, train = true).
bool is_asked_to_copy(const JsonCursor& node) {
  auto inputs = node.find("inputs");
  if (!inputs || !inputs->is(JsonKind::array)) return false;
  for (JsonCursor input : *inputs) {
    auto name = input.is(JsonKind::object) ? input.find("name") : std::nullopt;
    if (!name || !name->is(JsonKind::string) || (*name->string() != "copy" && *name->string() != "train")) continue;
    auto argument = input.find("arg");
    auto flag = argument && argument->is(JsonKind::object) ? argument->find("as_bool") : std::nullopt;
    if (flag && flag->boolean().ok() && *flag->boolean()) return true;
  }
  return false;
}

}  // namespace

std::string_view first_tensor(const JsonCursor& node) {
  auto inputs = node.find("inputs");
  if (!inputs || !inputs->is(JsonKind::array)) return {};
  const bool behind_equation = is_einsum(target_of(node));
  std::string_view last;
  size_t tensors = 0;
  for (JsonCursor input : *inputs) {
    auto argument = input.is(JsonKind::object) ? input.find("arg") : std::nullopt;
    if (!behind_equation) return argument ? tensor_name(*argument) : std::string_view();
    if (argument) for_each_name(*argument, [&](std::string_view name) { last = name, ++tensors; });
  }
  return tensors == 1 ? last : std::string_view();
}

namespace {

bool is_view_of_list(std::string_view target) {
  const OpSchema* op = find_torch_op(target);
  return op && std::ranges::find(kViewsOfLists, Op(op)) != std::end(kViewsOfLists);
}

// f(self, output): an output, and the tensor that it may be a view of.
template <class F>
void for_each_view(const JsonCursor& node, F&& f) {
  if (!is_view_of_list(target_of(node))) {
    if (const std::string_view self = first_tensor(node); !self.empty())
      for_each_output(node, [&](std::string_view name) { f(self, name); });
    return;
  }
  std::vector<std::string_view> tensors;
  auto inputs = node.find("inputs");
  if (!inputs || !inputs->is(JsonKind::array)) return;
  for (JsonCursor input : *inputs)
    if (auto argument = input.is(JsonKind::object) ? input.find("arg") : std::nullopt)
      for_each_name(*argument, [&](std::string_view name) { tensors.push_back(name); });
  size_t i = 0;
  for_each_output(node, [&](std::string_view name) {
    if (i < tensors.size()) f(tensors[i], name);
    ++i;
  });
}

}  // namespace

// Complex numbers as pairs of real ones, or their parts.
bool is_complex_view(std::string_view target) {
  return is_one_of(
      target, {"torch.ops.aten.view_as_complex.", "torch.ops.aten.view_as_real.", "torch.ops.aten.real.",
               "torch.ops.aten.imag.", "torch.ops.aten.conj.", "torch.ops.aten._conj.", "torch.ops.aten.resolve_conj.",
               "torch.ops.aten.resolve_neg.", "torch.ops.aten.conj_physical."});
}

bool is_view_of_memory(const OpSchema& op) {
  const auto is_in = [&](const auto& ops) { return std::ranges::find(ops, Op(&op)) != std::end(ops); };
  if (is_in(kParts) || is_in(kMovedAxes) || is_in(kOtherViews) || is_in(kViewsOfLists)) return true;
  constexpr Op kCopies[] = {"aten.flip.default", "aten.repeat.default", "aten.tile.default",
                            "aten.repeat_interleave.self_int"};
  return op.role == OpRole::view && !is_in(kCopies);
}

void Mutations::scan(const JsonCursor& nodes, std::function<MemoryOrder(std::string_view)> order_of) {
  order_of_ = std::move(order_of);
  // What a name may be part of: what it is a view of, and what was copied on the way there.
  std::unordered_map<std::string_view, std::vector<std::string_view>> memory;
  for (JsonCursor node : nodes) {
    const std::string_view target = target_of(node), self = first_tensor(node);
    const auto roots_of = [&](std::string_view name) {
      const auto known = memory.find(name);
      return known == memory.end() ? std::vector{name} : known->second;
    };
    const OpSchema* op = find_torch_op(target);
    const bool writes = writes_first_tensor(target);
    if (writes && !self.empty())
      for (std::string_view root : roots_of(self)) followed_.insert(root);
    const bool views = (op && is_view_of_memory(*op)) || is_complex_view(target);
    if (!writes && !views && !may_return_itself(target)) continue;
    for_each_view(node, [&](std::string_view of, std::string_view name) {
      std::vector<std::string_view> roots = roots_of(of);
      std::vector<std::string_view>& of_output = memory[name] = std::move(roots);
      if (may_copy(target) || may_return_itself(target) || is_einsum(target)) of_output.push_back(name);
    });
  }
}

bool Mutations::copies(std::string_view target, std::string_view self, std::string_view output) const {
  if (order_of_(self) != MemoryOrder::other) return false;
  return may_copy(target) && (!is_reshape(target) || order_of_(output) == MemoryOrder::row_major);
}

// A view of other memory than row-major is no row-major memory, either.
bool Mutations::views(std::string_view self, std::string_view output) const {
  return order_of_(self) == MemoryOrder::row_major || order_of_(output) == MemoryOrder::other;
}

void Mutations::define(std::string_view name) {
  if (!followed_.contains(name) || first_name_.contains(name)) return;
  first_name_[name] = name;
  memories_[name].names = {name};
  memories_[name].value = scope_.tensors.at(name);
  memories_[name].is_input = graph_.nodes.empty();
}

Mutations::Memory* Mutations::memory_of(std::string_view name) {
  const auto first = first_name_.find(name);
  return first == first_name_.end() ? nullptr : &memories_.at(first->second);
}

bool Mutations::follows(const JsonCursor& node) const {
  bool found = false;
  for_each_view(node, [&](std::string_view of, std::string_view) { found = found || first_name_.contains(of); });
  return found || first_name_.contains(first_tensor(node));
}

Status Mutations::refresh(const JsonCursor& node) {
  if (first_name_.empty()) return {};
  auto inputs = node.find("inputs");
  if (!inputs || !inputs->is(JsonKind::array)) return {};
  Status status;
  for (JsonCursor input : *inputs) {
    auto argument = input.is(JsonKind::object) ? input.find("arg") : std::nullopt;
    if (!argument) continue;
    for_each_name(*argument, [&](std::string_view name) {
      if (status.ok()) status = refresh(name);
    });
  }
  return status;
}

Status Mutations::refresh(std::string_view name) { return take_again(name, 0); }

Status Mutations::take_again(std::string_view name, size_t depth) {
  Memory* memory = memory_of(name);
  if (memory && memory->is_lost)
    return Error::unsupported(std::string(name), "it is read after a write to what may be a view or a copy of it",
                              kHelp);
  if (!memory || memory->base.empty()) return {};
  if (depth > kMostDepth) return Error::unsupported(std::string(name), "a view of too many views", kHelp);
  QCG_CHECK(take_again(memory->base, depth + 1));
  const Memory& base = memories_.at(memory->base);
  if (memory->base_version == base.version) return {};
  if (memory->may_be_copy)
    return Error::unsupported(std::string(name), "it may be a view or a copy of what was written since", kHelp);
  Node view = graph_.nodes[memory->view];
  view.args[0] = value_of(base);
  QCG_TRY(value, emit(view.op->name, view.args, view));
  const Node& made = graph_.nodes.back();
  set(*memory, made.outputs.size() > memory->output ? made.outputs[memory->output] : value);
  memory->base_version = base.version;
  return {};
}

void Mutations::set(Memory& memory, ValueId value) {
  for (std::string_view name : memory.names)
    if (const auto at = scope_.tensors.find(name); at != scope_.tensors.end()) at->second = value;
  memory.value = value;
  ++memory.version;
}

ValueId Mutations::value_of(const Memory& memory) const {
  const auto named = scope_.tensors.find(memory.names.front());
  return named == scope_.tensors.end() ? memory.value : named->second;
}

Result<bool> Mutations::read_alias(const JsonCursor& node, bool same_dtype) {
  const std::string_view target = target_of(node), self = first_tensor(node);
  Memory* memory = memory_of(self);
  if (!memory) return false;
  // .contiguous() of a view may be a copy: add_views decides that.
  bool is_copy = false;
  for_each_output(node, [&](std::string_view name) { is_copy = is_copy || copies(target, self, name); });
  const bool may = may_return_itself(target) && same_dtype && !is_asked_to_copy(node) && !is_copy &&
                   (memory->base.empty() || !target.starts_with("torch.ops.aten.contiguous."));
  if (!may && !returns_itself(target)) return false;
  for_each_output(node, [&](std::string_view name) {
    if (!scope_.tensors.emplace(name, scope_.tensors.at(self)).second) return;
    first_name_[name] = first_name_.at(self);
    memory->names.push_back(name);
  });
  return true;
}

void Mutations::add_views(const JsonCursor& node, NodeId view) {
  const std::string_view target = target_of(node);
  const bool of_list = is_view_of_list(target);
  size_t outputs = 0;
  for_each_view(node, [&](std::string_view self, std::string_view name) {
    const size_t output = outputs++;
    if (!first_name_.contains(self) || copies(target, self, name)) return;
    const std::string_view base = first_name_.at(self);
    const Memory& of = memories_.at(base);
    Memory made = {{name}, base, view, output, 0, of.version};
    made.value = scope_.tensors.at(name);
    made.may_be_copy = of_list || is_einsum(target) || (may_copy(target) && !views(self, name));
    first_name_[name] = name;
    memories_[name] = std::move(made);
  });
}

Result<ValueId> Mutations::converted(ValueId value, DType dtype, const Node& like) {
  if (graph_.value(value).dtype == dtype) return value;
  return emit("aten.to.dtype", {value, dtype}, like);
}

Status Mutations::write(const JsonCursor& node, ValueId result) {
  const std::string_view self = first_tensor(node);
  const Value &before = graph_.value(scope_.tensors.at(self)), &after = graph_.value(result);
  if (before.shape != after.shape)
    return Error::bad_input(node.path(),
                            "writes " + to_string(after.shape) + " to a tensor of " + to_string(before.shape), kHelp);
  if (before.dtype != after.dtype) {
    const Node like = graph_.nodes[graph_.value(result).producer];
    QCG_TRY(cast, converted(result, before.dtype, like));
    result = cast;
  }
  QCG_CHECK(write_to(first_name_.at(self), result, 0));
  Memory& memory = memories_.at(first_name_.at(self));
  for_each_output(node, [&](std::string_view name) {
    if (!scope_.tensors.emplace(name, result).second) return;
    first_name_[name] = first_name_.at(self);
    memory.names.push_back(name);
  });
  return {};
}

Status Mutations::write_to(std::string_view name, ValueId result, size_t depth) {
  Memory& memory = memories_.at(name);
  set(memory, result);
  if (memory.base.empty()) return {};
  if (depth > kMostDepth) return Error::unsupported(std::string(name), "a view of too many views", kHelp);
  if (memory.may_be_copy) return leave(memory);
  QCG_TRY(base, write_back(memory, value_of(memories_.at(memory.base)), result));
  QCG_CHECK(write_to(memory.base, base, depth + 1));
  memory.base_version = memories_.at(memory.base).version;
  return {};
}

// From here on the possible copy is memory of its own. What it may be a view of is lost: reading it is refused.
Status Mutations::leave(Memory& memory) {
  for (std::string_view base = memory.base; !base.empty(); base = memories_.at(base).base) {
    Memory& of = memories_.at(base);
    if (of.is_input)
      return Error::unsupported(std::string(memory.names.front()), "something is written through this view", kHelp);
    of.is_lost = true;
  }
  memory.base = {}, memory.may_be_copy = false;
  return {};
}

// `base` with `result` in the place of the view.
Result<ValueId> Mutations::write_back(const Memory& memory, ValueId base, ValueId result) {
  const Node view = graph_.nodes[memory.view];
  const Shape shape = graph_.value(base).shape;
  const std::string& op = view.op->name;
  const auto scatter = [&](ValueId src, const Arg& dim, Arg start, Arg end, Arg step) {
    return emit("aten.slice_scatter.default", {base, src, dim, std::move(start), std::move(end), std::move(step)},
                view);
  };
  if (op == "aten.slice.Tensor")
    return scatter(result, view.arg("dim"), view.arg("start"), view.arg("end"), view.arg("step"));
  if (op == "aten.narrow.default") {
    const Dim start = *view.arg("start").get<Dim>();
    if (!start.is_constant() || start.constant() >= 0)
      return scatter(result, view.arg("dim"), start, start + *view.arg("length").get<Dim>(), Dim(1));
  }
  if (op == "aten.select.int") {
    const Dim index = *view.arg("index").get<Dim>();
    QCG_TRY(row, emit("aten.unsqueeze.default", {result, view.arg("dim")}, view));
    // The last one, -1, ends where the axis does.
    return scatter(row, view.arg("dim"), index, index.is_constant(-1) ? Arg() : Arg(index + Dim(1)), Dim(1));
  }
  const OpArgs arguments{graph_, view};
  const auto number = [](size_t axis) { return Dim(static_cast<int64_t>(axis)); };
  if (is_any_op(view, kParts)) {
    // Their sizes add up; unbind takes the axis away.
    if (view.op->arg_index("dim") >= 0) QCG_CHECK(arguments.axis("dim", shape.size()));
    const size_t axis = axis_of_parts(graph_, view);
    if (axis >= shape.size()) return Error::bad_input(view.where, op + " of too few axes", kHelp);
    const bool unbinds = op == "aten.unbind.int";
    Dim start(0);
    for (size_t i = 0; i < memory.output; ++i)
      start = start + (unbinds ? Dim(1) : graph_.value(view.outputs[i]).shape[axis]);
    if (unbinds) {
      QCG_TRY(row, emit("aten.unsqueeze.default", {result, number(axis)}, view));
      result = row;
    }
    return scatter(result, number(axis), start, start + graph_.value(result).shape[axis], Dim(1));
  }
  if (op == "aten.permute.default") {
    const std::vector<Dim>& dims = *view.arg("dims").get<std::vector<Dim>>();
    std::vector<Dim> back(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      QCG_TRY(axis, arguments.axis("dims", dims[i], dims.size()));
      back[axis] = number(i);
    }
    return emit(op, {result, back}, view);
  }
  if (is_any_op(view, kMovedAxes)) return emit(op, {result, view.arg("destination"), view.arg("source")}, view);
  if (op == "aten.view.dtype") return emit(op, {result, graph_.value(base).dtype}, view);
  if (op == "aten.t.default") return emit(op, {result}, view);
  if (op == "aten.numpy_T.default" || op == "aten.mT.default") return emit(op, {result}, view);
  if (op == "aten.swapaxes.default") return emit(op, {result, view.arg("axis0"), view.arg("axis1")}, view);
  if (op == "aten.transpose.int") return emit(op, {result, view.arg("dim0"), view.arg("dim1")}, view);
  // On dense memory these are views. On a view they may be copies, through which nothing is written.
  const bool dense = memories_.at(memory.base).base.empty() || views(memory.base, memory.names.front());
  const bool reshapes =
      op == "aten.view.default" || op == "aten.view_as.default" || op == "aten.unflatten.int" ||
      op == "aten.unsqueeze.default" || op.starts_with("aten.squeeze.") || op.starts_with("aten.atleast_") ||
      op == "aten.alias.default" ||  // real numbers as complex ones

      (dense && (op == "aten.reshape.default" || op == "aten.reshape_as.default" || op == "aten.flatten.using_ints" ||
                 op == "aten.ravel.default" || op == "aten.contiguous.default"));
  if (reshapes) return emit("aten.reshape.default", {result, std::vector<Dim>(shape.begin(), shape.end())}, view);
  return Error::unsupported(view.where, op + ": something is written through this view", kHelp);
}

Result<ValueId> Mutations::emit(std::string_view name, std::vector<Arg> args, const Node& like) {
  if (++emitted_ > kMostEmitted)
    return Error::unsupported(like.where, "the graph writes to too many views of its tensors", kHelp);
  const OpSchema* op = find_op(name);
  Node node;
  node.op = op;
  for (size_t i = args.size(); i < op->args.size(); ++i)
    args.push_back(op->args[i].has_default ? default_arg(op->args[i]) : Arg());
  node.args = args;
  node.where = like.where;
  QCG_CHECK(check_arguments(graph_, node));
  QCG_TRY(types, infer_types(graph_, node));
  std::vector<Value> outputs(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    outputs[i].name = unique_name_(like.origins.empty() ? "written" : like.origins.front());
    outputs[i].dtype = types[i].dtype;
    outputs[i].shape = std::move(types[i].shape);
  }
  Node& made = graph_.nodes[graph_.add_node(op, std::move(args), std::move(outputs))];
  made.where = like.where;
  made.source = like.source;
  made.origins = like.origins;
  return made.outputs[0];
}

namespace {

constexpr const char* kUseCopies =
    "write the out-of-place operator in the model (x = x - y instead of x -= y) and export again";

bool writes_in_place(const Node& node) {
  return node.op->in_place && node.op->role == OpRole::pointwise && !node.args.empty();
}

// Whether the output may share memory with the first argument.
bool may_alias(const Graph& graph, const Node& node, ValueId self) {
  if (node.op->role == OpRole::view || is_view_of_memory(*node.op)) return true;
  return !node.outputs.empty() && may_return_itself("torch.ops." + node.op->name) &&
         graph.value(self).dtype == graph.value(node.outputs[0]).dtype;
}

ValueId first_tensor(const Node& node) {
  const ValueId* self = node.args.empty() ? nullptr : node.args[0].get<ValueId>();
  return self ? *self : kNoValue;
}

// A name for each group of values that may share memory: the first of them.
std::vector<ValueId> memory_of(const Graph& graph) {
  std::vector<ValueId> memory(graph.values.size());
  for (ValueId id = 0; id < memory.size(); ++id) memory[id] = id;
  for (const Node& node : graph.nodes) {
    ValueId self = first_tensor(node);
    if (self == kNoValue || !(writes_in_place(node) || may_alias(graph, node, self))) continue;
    for (ValueId output : node.outputs) memory[output] = memory[self];
  }
  return memory;
}

}  // namespace

Status check_in_place(const Graph& graph) {
  std::vector<ValueId> memory = memory_of(graph);
  // How often each memory was overwritten so far, and how often it had been when each value was made: a value that is
  // behind its memory no longer holds what its node computed.
  std::vector<uint32_t> writes(graph.values.size()), made_at(graph.values.size());
  auto is_stale = [&](ValueId id) { return made_at[id] < writes[memory[id]]; };
  for (const Node& node : graph.nodes) {
    ValueId stale = kNoValue;
    for_each_input(node, [&](const ValueId& id) { stale = is_stale(id) ? id : stale; });
    if (stale != kNoValue) {
      return Error::unsupported(
          node.where,
          node.op->name + " reads " + quote(graph.value(stale).name) + ", which was overwritten in place before",
          kUseCopies);
    }
    if (ValueId self = first_tensor(node); writes_in_place(node) && self != kNoValue) {
      ValueId root = memory[self];
      if (graph.value(root).kind != ValueKind::node) {
        return Error::unsupported(node.where, node.op->name + " changes " + quote(graph.value(root).name) + " in place",
                                  kUseCopies);
      }
      ++writes[root];
    }
    for (ValueId output : node.outputs) made_at[output] = writes[memory[output]];
  }
  for (ValueId id : graph.outputs) {
    if (is_stale(id))
      return Error::unsupported("the outputs",
                                "the output " + quote(graph.value(id).name) + " was overwritten in place", kUseCopies);
  }
  return {};
}

}  // namespace qcg
