// Complex tensors of an exported graph as pairs of real numbers along a last axis of 2.
//
// Why here: rotary embeddings are exported as products of complex numbers (DeepSeek, Llama of Meta); the IR and its
// kernels are real. A view as complex numbers is then the tensor as it is, and a product is four of the parts.
//
//   view_as_complex(x [8, 32, 2])  [8, 32]  ->  x                      [8, 32, 2]
//   polar(abs, angle)                       ->  stack([abs * cos(angle), abs * sin(angle)], -1)
//   mul(z, w)                               ->  stack([a * c - b * d, a * d + b * c], -1)
//   unsqueeze(z, -1)                        ->  unsqueeze(z, -2)
//   fft_rfft(x)                             ->  _fft_r2c(x, [-1], 0, true)         complex_fourier.cpp
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/op_table.h"

namespace qcg {

// Whether complex numbers alone have this operator of torch.export: view_as_complex, polar, …
bool is_complex_operator(std::string_view target);
// Whether an operator of the op table transforms real or complex numbers to the others: fft_rfft, stft, …
bool is_fourier(std::string_view op);
// The names of the tensors that such an operator takes.
std::vector<std::string_view> complex_operands(std::string_view target);

class ComplexPairs {
 public:
  struct Operand {
    ValueId id = kNoValue;
    bool is_pair = false;
  };

  ComplexPairs(Graph& graph, std::function<std::string(const std::string&)> unique_name)
      : graph_(graph), unique_name_(std::move(unique_name)) {}

  // What an operator of is_complex_operator computes. New nodes take their place from `like`.
  Result<ValueId> compute(std::string_view target, const std::vector<Operand>& operands, const Node& like);
  // The same for an operator of the op table with a complex operand. is_pair: by value of the graph. Error Unsupported:
  // the operator has no form for pairs.
  Result<std::vector<ValueId>> compute(const OpSchema& op, std::vector<Arg> args,
                                       const std::function<bool(ValueId)>& is_pair, const Node& like);
  Result<ValueId> cast(Operand x, DType part, const Node& like);  // to pairs

 private:
  Result<std::vector<ValueId>> emit(const OpSchema& op, std::vector<Arg> args);
  ValueId op(std::string_view name, std::vector<NamedArg> named);
  ValueId binary(std::string_view name, ValueId a, ValueId b);
  ValueId part(ValueId pair, int64_t which);
  ValueId join(ValueId real, ValueId imaginary);
  Result<ValueId> finish(ValueId value) const;
  ValueId resized(ValueId x, size_t axis, const Dim& size);
  ValueId with_imaginary_part(ValueId x);
  Result<ValueId> fourier(const Node& node, bool is_pair);
  Result<ValueId> windowed_fourier(const Node& node, ValueId x, bool is_pair);
  Result<ValueId> inverse_of_windows(const Node& node, ValueId x, bool is_pair);
  ValueId window_of(const Node& node, DType dtype, int64_t length, int64_t n);
  ValueId overlapped(ValueId frames, int64_t n, int64_t hop);
  ValueId product(ValueId a, ValueId b);  // of two pairs
  ValueId conjugate(ValueId pair);
  ValueId of_angle(ValueId size, ValueId angle);  // the pair of this size and angle
  ValueId squared_size(ValueId pair);
  ValueId angle(ValueId pair);
  // For an operator that multiplies two tensors: matmul, einsum.
  Result<std::vector<ValueId>> products(const OpSchema& op, std::vector<Arg> args, Operand self, Operand other);
  Result<std::vector<ValueId>> shifted(const OpSchema& op, const std::vector<Arg>& args);  // by a number
  Result<std::vector<ValueId>> arithmetic(const OpSchema& op, const std::vector<Arg>& args, Operand self,
                                          Operand other);

  Graph& graph_;
  std::function<std::string(const std::string&)> unique_name_;
  Node like_;
  Status error_;
};

}  // namespace qcg
