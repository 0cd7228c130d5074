// Mutations: tensors that an exported graph writes to (cache.index_copy_(…), cache[:, 2:4] = k, n.add_(1)) as new
// values.
//
// Why here: the training IR of torch.export writes in place; the IR is functional. Each write makes a value, and the
// names that denote the memory stand for it from there on: the tensor itself, what it is a view of, and its other
// views.
//
//   %s = slice(b_cache, 2, 0, 1)        ->  %s = slice(%cache, 2, 0, 1)
//   copy_(%s, %k)                           %w = copy(%s, %k)
//                                           %cache_1 = slice_scatter(%cache, %w, 2, 0, 1)
//   %t = transpose(%s, 1, 2)                %s_1 = slice(%cache_1, 2, 0, 1);  %t = transpose(%s_1, 1, 2)
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/read/files/json.h"
#include "graph/read/torch/args.h"
#include "graph/read/torch/meta.h"

namespace qcg {

// Whether torch gives a view, or may: flip and repeats are views here alone, and do not see what is written later.
bool is_view_of_memory(const OpSchema& op);

// Complex numbers as pairs of real ones, the other way round, or their parts.
bool is_complex_view(std::string_view target);

// The name of the tensor that a node takes first, of an einsum its only one; empty if its first argument is none.
std::string_view first_tensor(const JsonCursor& node);

class Mutations {
 public:
  Mutations(Graph& graph, TorchScope& scope, std::function<std::string(const std::string&)> unique_name)
      : graph_(graph), scope_(scope), unique_name_(std::move(unique_name)) {}

  // Finds what the nodes write to. `order_of`: of a tensor of the file, by its name.
  void scan(const JsonCursor& nodes, std::function<MemoryOrder(std::string_view)> order_of);
  bool changes(std::string_view placeholder) const { return followed_.contains(placeholder); }

  // A name that got its value: followed if something is written to it.
  void define(std::string_view name);
  // Before a node is read: views that it names, of memory that was written since, are taken again.
  Status refresh(const JsonCursor& node);
  Status refresh(std::string_view name);

  // Whether the first tensor of a node is memory that is followed.
  bool follows(const JsonCursor& node) const;
  // A node that returns its first tensor as it is (.to(its own dtype), detach); true if it was one.
  Result<bool> read_alias(const JsonCursor& node, bool same_dtype);
  // After a view was read, or what copies some tensors and views others.
  void add_views(const JsonCursor& node, NodeId view);
  // A new node and its first output; arguments that are not given have their defaults. It takes its place from `like`.
  Result<ValueId> emit(std::string_view op, std::vector<Arg> args, const Node& like);
  // A value as another dtype.
  Result<ValueId> converted(ValueId value, DType dtype, const Node& like);
  // After the value was computed that a node writes to its first tensor.
  Status write(const JsonCursor& node, ValueId result);

 private:
  // A tensor of the file, by the first name it had.
  struct Memory {
    std::vector<std::string_view> names;
    std::string_view base;  // of what it is a view; empty: of nothing
    NodeId view = 0;        // the node that takes the view, and which of its outputs it is
    size_t output = 0;
    uint64_t version = 0, base_version = 0;  // how often it was written; as of which version of its base it is
    bool may_be_copy = false;                // the strides of its base do not say
    bool is_input = false;
    bool is_lost = false;      // what may be a view of it was written, so that its value is unknown
    ValueId value = kNoValue;  // as last defined or written
  };

  // Whether contiguous() and reshapes of a tensor certainly are copies, or certainly are views.
  bool copies(std::string_view target, std::string_view self, std::string_view output) const;
  bool views(std::string_view self, std::string_view output) const;
  Memory* memory_of(std::string_view name);
  Status take_again(std::string_view name, size_t depth);
  Status write_to(std::string_view name, ValueId result, size_t depth);
  Status leave(Memory& memory);
  Result<ValueId> write_back(const Memory& view, ValueId base, ValueId result);
  void set(Memory& memory, ValueId value);
  ValueId value_of(const Memory& memory) const;  // also where t_ took the name away

  Graph& graph_;
  TorchScope& scope_;
  std::function<std::string(const std::string&)> unique_name_;
  std::function<MemoryOrder(std::string_view)> order_of_;
  std::unordered_set<std::string_view> followed_;                      // names that are written to
  std::unordered_map<std::string_view, std::string_view> first_name_;  // of every name of followed memory
  std::unordered_map<std::string_view, Memory> memories_;              // by first name
  size_t emitted_ = 0;
};

// In-place operators of the project's own JSON stay as they are where nobody can tell the difference: the IR reads sub_
// as sub. That is wrong if the overwritten tensor, or a view of it, is used again: such graphs are refused.
//
//   %y = sub_(%acc, %b);  relu(%y)      fine
//   %y = sub_(%acc, %b);  relu(%acc)    refused: relu would read the old value
Status check_in_place(const Graph& graph);  // precondition: verified

}  // namespace qcg
