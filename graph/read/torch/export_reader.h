// The reader of one torch.export graph, in parts: what it knows is here, what it does lies in a file per subject.
//
// Why here: a node of a file may be an operator, a size, a region or a complex number, and the parts that read these
// share the names and the metadata of the graph.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/ops/complex_pairs.h"
#include "graph/ops/infer.h"
#include "graph/ops/size_values.h"
#include "graph/read/torch/args.h"
#include "graph/read/torch/export.h"
#include "graph/read/torch/guards.h"
#include "graph/read/torch/mutations.h"

namespace qcg {

constexpr const char *kExportGraphAgain = "export the graph again with torch.export",
                     *kExportWithoutGrad = "export the whole model under torch.no_grad(), without autocast";

class TorchExportReader {
 public:
  TorchExportReader(const JsonDocument& document, KnownConstants constants)
      : root_(document.root()), constants_(std::move(constants)) {}
  Result<TorchExport> read();

 private:
  // ---- export.cpp: metadata and names

  Status read_versions();
  Status index_metadata(const JsonCursor& graph);
  Result<JsonCursor> find_meta(const JsonCursor& place, std::string_view name) const;
  void define(std::string_view name, ValueId id);
  // Value names are unique in a graph, but a file's weight names are a space of their own. Inputs keep their names,
  // because users see them; a weight of the same name gets another one.
  void name_values();
  std::string unique_name(const std::string& base);
  // The name that an {"name": ...} argument introduces. It must be new.
  Result<std::string> new_tensor_name(const JsonCursor& argument) const;
  static std::string_view stored(const JsonCursor& argument, std::string_view field = "name") {
    return *argument.string_at(field);
  }
  Graph& graph() { return out_.graph; }

  // ---- signature.cpp: inputs, outputs, and what the graph changes

  // A signature declares changes where the nodes are functional. In training IR the nodes tell them.
  Status find_mutations(const JsonCursor& signature, const JsonCursor& nodes);
  Status read_inputs(const JsonCursor& graph, const JsonCursor& signature);
  Status read_input(const JsonCursor& input, const JsonCursor& spec_union);
  Status read_user_input(const JsonCursor& argument);
  // An integer that sizes follow from: an input that is the value of a symbol.
  Status read_size_input(const JsonCursor& argument);
  Status read_parameter(const JsonCursor& argument, const JsonCursor& spec, std::string_view name_key);
  Status read_outputs(const JsonCursor& graph, const JsonCursor& signature);
  Status read_output(const JsonCursor& output, const JsonCursor& spec_union);
  // A size becomes a tensor of one i64.
  Status read_size_output(const JsonCursor& output, const JsonCursor& value);
  // A number becomes a tensor of one i64, f64 or bool.
  Status read_number_output(const JsonCursor& output, const JsonCursor& value);
  void output_of_number(const JsonCursor& output, std::string name, Arg number, DType dtype);
  // The value that a state or an input has after the run.
  Result<ValueId> next_value(std::string_view placeholder,
                             const std::map<std::string, JsonCursor, std::less<>>& declared, std::string_view name);
  void graph_output(ValueId id, std::string name);

  // ---- nodes.cpp: operators

  Status read_nodes(const JsonCursor& nodes);
  Status read_operator(const JsonCursor& node, const OpSchema& written, std::string where);
  // The windows that as_strided reads. kNoValue: its result is its tensor as it is.
  Result<ValueId> read_as_strided(const JsonCursor& node, const std::string& where);
  // Whether the node returns its first tensor as it is, and that is memory that something writes to.
  Result<bool> read_alias(const JsonCursor& node);
  // A node that writes to its first tensor: what `op` computes is the tensor's next value.
  Status read_write(const JsonCursor& node, const OpSchema& op, std::string where);
  // 8-bit floats have no zero point: their dequantization is a product of them and their scales, their quantization a
  // quotient that is clamped.
  Result<bool> read_float8(const JsonCursor& node, const OpSchema& op, const std::string& where);
  // Says of a node where it comes from.
  Status describe(const JsonCursor& node, NodeId id, std::string where, const std::vector<std::string_view>& names);
  void read_module(const JsonCursor& node, const std::string& name);
  static Result<std::string> node_name(const JsonCursor& node, const std::vector<std::string_view>& outputs);
  // `swapped`: self and other changed places.
  Result<std::vector<Arg>> read_arguments(const JsonCursor& node, const OpSchema& op, bool swapped);
  // out_dtype(the op, the dtype of its result, its operands)
  Result<std::vector<Arg>> read_out_dtype(const JsonCursor& inputs) const;
  // Sizes of the parts of an axis of a run-time size that does not divide into equal ones.
  std::optional<std::vector<Dim>> sizes_of_parts(const Node& made, const std::vector<Value>& parts);
  // The values that a node makes. Their names go to result_names_. A list of outputs (split) counts one by one.
  Result<std::vector<Value>> read_results(const JsonCursor& node, const OpSchema& op);
  Status add_result(const JsonCursor& argument, std::vector<Value>& results);

  // ---- regions.cpp: graphs in the place of a node

  // Names in a region are its own. What it takes and gives is matched in order.
  Status read_region(const JsonCursor& node);
  Result<TorchScope> scope_of_region(const JsonCursor& node, const JsonCursor& region);
  // `first`: the first value that the region made.
  Status define_results(const JsonCursor& node, const JsonCursor& region, const TorchScope& inner, ValueId first);

  // ---- sizes.cpp: numbers that nodes compute of sizes

  // The value of such a node is the expression that sym_int_values holds. A comparison (as_sym_bool) only feeds
  // size checks.
  Status read_symbolic(const JsonCursor& node);
  Status read_sym_float(const JsonCursor& node, const JsonCursor& value);  // a constant, or a number of numbers.cpp
  // A number read out of a tensor that holds a size is that size, and one read out of an input of one integer is a
  // symbol whose value that input is. Another one depends on data: it is no size, and assertions about it are left out.
  Status read_item(const JsonCursor& node, const JsonCursor& value);
  // sym_size says which axis it reads, so a file in which the two disagree lies about its shapes.
  Status check_sym_size(const JsonCursor& node, const Dim& size) const;
  // Compares the declared sizes of a node's outputs with its shape rule. An axis may have a symbol of its own, as after a
  // slice by numbers read out of tensors: the rule says what it is. Guards of torch may have left one number of a size,
  // such as 1 of `(s0 + 63)//64`: the range of s0 follows, and a note says so.
  void find_sizes(const Node& made);
  // Torch 2.6 to 2.11 describe the last states of an LSTM with one axis too many, torch 2.6 quotients of integers as
  // integers. They and what is computed of them get the types of the shape rules.
  void correct(const Node& made);
  void narrow_to_broadcast(const Node& made);  // operands have a size of 1 or that of the result
  void narrow_to_valid(const Node& made);      // its shape rule refuses it: sizes that are too small, if that is why
  // Torch keeps symbols of two inputs apart whose sizes it compares only when it runs: rows of key and value, batches of
  // a tensor and of its indices. They become one symbol here, and inputs of other sizes are refused.
  void equate_sizes(const Node& made);
  void equate_indices(const Node& made);
  void equate(const Dim& x, const Dim& y);
  void make_multiple(const SizeMultiple& m, std::string_view reason);
  void replace_symbol(const std::string& symbol, const Dim& size);  // in all sizes that are settled from now on
  void note_range(const Symbol& symbol);
  // Sizes that guards say are no less than others, in a node that cuts one to the other: x[:, :y.shape[1]]. The larger
  // one becomes the sum of the smaller one and a rest. Whether a size changed.
  bool use_inequalities(const Node& made);
  bool split_larger_size(const Dim& room);
  std::vector<Symbol> traced_symbols();
  // The positions of a slice between sizes of which ranges and guards do not say that they lie in its tensor: a table of
  // 64 rows from p to p + q. A run checks positions. kNoValue: the slice is one that stays.
  Result<ValueId> positions_of_slice(Node& slice, Shape& declared);
  Result<ValueId> positions_in_window(const Node& slice, const Dim& size, const Dim& window);
  bool has_declared_sizes(const Node& made, const Result<Types>& types);
  bool settle_part(const Dim& difference);  // a part that guards found is a number where the difference is 0
  void narrow(const Dim& difference);       // the range of its symbol to sizes for which it is 0, where there are any
  Dim settled_size(const Dim& size) const;  // with the symbols and ranges that are known so far
  void settle(Shape& shape);
  void settle(Node& node);
  void settle_sizes();  // of all values and nodes that were read

  // ---- guarded_sizes.cpp: what guards and assertions say of sizes

  // Sizes of inputs are multiples of others, or within a range.
  void read_guards(const JsonCursor& nodes);
  // The input that a guard names: torch names it in lower case in the graph, or calls it flat_args[i].
  ValueId guarded_input(std::string_view name) const;
  std::optional<SizeCondition> asserted_by(const JsonCursor& node) const;
  // Replaces symbols by what differences say that are 0, and these symbols in the differences.
  void use_equations(std::vector<Dim>& differences);
  void divide_sizes(const std::vector<Dim>& differences, std::string_view reason);  // into parts of find_divisors
  ExportedSizes exported_sizes();
  void narrow_by_guards(const std::vector<Dim>& differences);
  bool is_integer_input(const std::string& symbol);
  void use_definition(const std::vector<Dim>& differences);
  void narrow(const Symbol& range);
  // The guards that neither ranges of symbols nor positions in range imply, with the sizes that are known.
  std::vector<SizeCondition> open_conditions();
  void note_conditions();

  // ---- numbers.cpp: numbers that are known only at run time, as tensors without axes

  // In scope_.numbers, where number_of knows it. dtype: f64 or i64.
  Status define_number(const JsonCursor& node, std::string_view name, DType dtype);
  Result<ValueId> number_of(const JsonCursor& node);      // kNoValue: the node makes another one
  Result<ValueId> item_of(const JsonCursor& node) const;  // the tensor that a number is read out of
  // A number where `op` takes a tensor, as in torch.div(1, x); kNoValue: the argument is something else.
  Result<ValueId> tensor_of_number(const JsonCursor& argument, const OpSchema& op, const JsonCursor& node);
  // The operator that takes tensors, where the node gives `op` such a number and `op` takes constants; else nullptr.
  const OpSchema* op_of_numbers(const JsonCursor& node, const OpSchema& op) const;
  Result<bool> read_filled(const JsonCursor& node, const OpSchema& op, const std::string& where);
  Status convert_numbers(const OpSchema& op, std::vector<Arg>& args, const std::string& where);

  // ---- measured_sizes.cpp: sizes that the run computes

  struct Places {
    ValueId positions;  // i64 [count], of the true elements of a mask, in the order of its elements
    Dim count;          // a symbol
  };
  Status find_measured(const JsonCursor& nodes);  // fills sizes_of_tensors_
  std::optional<SizeCondition> bound_of(const std::string& symbol) const;
  Status measure(ValueId value, const std::string& symbol, const SizeCondition& bound, const Node& like);
  // `symbol`: what the file calls their number; empty: another name is chosen.
  Result<Places> places_of(ValueId mask, std::string symbol, const Node& like);
  Result<std::vector<ValueId>> coordinates_of(ValueId mask, std::string symbol, const Node& like);  // by axis
  // Of the node's first result, if no other node has defined it; else empty.
  std::string new_symbol_of(const JsonCursor& node) const;
  Status read_nonzero(const JsonCursor& node, std::string where);
  Result<ValueId> read_select(const JsonCursor& node, const OpSchema& op, const std::string& where);
  // index and index_put of a mask. kNoValue: the node is another one, or writes one value to all true elements.
  Result<ValueId> read_masked(const JsonCursor& node, const OpSchema& op, const std::vector<Arg>& args,
                              const std::string& where);

  // ---- complex.cpp: complex numbers, as pairs

  // Also notes which values are pairs: those of complex names.
  Result<bool> takes_complex(const JsonCursor& node);
  // A complex number of Python, as a pair; kNoValue: the argument is something else.
  Result<ValueId> complex_number(const JsonCursor& argument, const OpSchema& op, const JsonCursor& node);
  Result<ValueId> pair_of(double real, double imag, const Node& like);  // f64
  bool gives_complex(const JsonCursor& node) const;
  bool is_complex_name(std::string_view name) const;
  // `op`: of the op table; nullptr: an operator that complex numbers alone have.
  Status read_encoder_layer(const JsonCursor& node, std::string where);
  Status read_complex(const JsonCursor& node, const OpSchema* op, std::string where);
  // A cast to complex numbers. Their dtype is that of the result.
  Result<ValueId> read_complex_cast(const JsonCursor& node, const Node& like);
  // convert_numbers; what it converts of pairs is a pair still.
  Status convert_pairs(const OpSchema& op, std::vector<Arg>& args, const std::string& where);
  // The next value of complex memory that a node writes to.
  Result<ValueId> complex_written(const JsonCursor& node, const OpSchema& op, std::vector<Arg> args, const Node& like);
  // After a view of memory that is followed was read, one of the two being complex.
  Status add_complex_view(const JsonCursor& node, const std::vector<ValueId>& made);
  // zeros, ones and full of complex numbers.
  Result<ValueId> read_complex_fill(const JsonCursor& node, const OpSchema& op, const Node& like);
  Result<std::vector<ComplexPairs::Operand>> complex_operands_of(const JsonCursor& node) const;
  // Results that are not those of one operator: they must be as the file describes them.
  Status define_checked(const JsonCursor& node, const std::vector<ValueId>& made);

  JsonCursor root_;
  const KnownConstants constants_;
  TorchExport out_;
  TorchScope scope_;
  Mutations mutations_{out_.graph, scope_, [this](const std::string& base) { return unique_name(base); }};
  std::map<std::string, JsonCursor, std::less<>> next_of_buffer_, next_of_input_;  // the names that the signature gives
  std::vector<std::string_view> state_placeholders_, changed_inputs_;  // in the order of states and of inputs
  std::unordered_map<std::string_view, JsonCursor> metas_, sizes_, reals_, truths_;
  std::vector<Dim> checked_rooms_;  // sizes that are at least 0 where positions are in range
  std::vector<ValueId> arguments_;  // of the model, in order; kNoValue: a constant
  std::vector<SizeCondition> guards_;
  std::vector<std::string> unread_guards_;
  ExportedSizes exported_;
  KnownSizes known_sizes_;                        // of symbols that sizes of inputs determine
  std::unordered_set<std::string> data_symbols_;  // of numbers that data determines
  std::set<std::string, std::less<>>
      sizes_of_tensors_;  // symbols that torch does not know, of tensors and size arguments
  std::unordered_set<std::string> measured_;
  std::vector<std::pair<ValueId, Places>> places_;  // by mask
  std::vector<SizeCondition> asserted_of_data_;     // about such symbols
  std::unordered_set<ValueId> numbers_;             // tensors that stand for numbers
  std::unordered_set<ValueId> corrected_;           // whose types are not those that the file says
  std::unordered_set<std::string> names_;
  std::vector<std::string_view> result_names_;  // of the node at hand
  std::unordered_set<std::string_view> own_names_;
  ComplexPairs pairs_{out_.graph, [this](const std::string& base) { return unique_name(base); }};
  std::unordered_set<ValueId> complex_values_;  // pairs that stand for complex numbers
  bool has_complex_ = false;                    // whether the graph has any
  size_t regions_ = 0;                          // how many regions the node at hand lies in
};

// A cast of torch whose dtype is an argument (aten.to, aten._to_copy).
bool is_torch_cast(const OpSchema& op);
bool is_torch_fill(const OpSchema& op);  // zeros, ones, full

}  // namespace qcg
