#include "cli/signature.h"

#include <fmt/format.h>

#include "cli/report.h"

namespace qcg {

namespace {

nlohmann::json tensors_json(const std::vector<Signature::Tensor>& tensors) {
  nlohmann::json out = nlohmann::json::array();
  for (const auto& tensor : tensors) {
    nlohmann::json shape = nlohmann::json::array();
    for (const Dim& size : tensor.shape)
      shape.push_back(size.is_constant() ? nlohmann::json(size.constant()) : nlohmann::json(size.str()));
    out.push_back({{"name", tensor.name}, {"dtype", dtype_name(tensor.dtype)}, {"shape", std::move(shape)}});
    if (!tensor.symbol.empty()) out.back()["symbol"] = tensor.symbol;
  }
  return out;
}

}  // namespace

Dim size_of(const SizeExpr& size, const std::vector<ProgramManifest::Symbol>& symbols) {
  Dim out = 0;
  for (const SizeExpr::Term& term : size.terms) {
    Dim product = term.coefficient;
    for (int symbol : term.symbols) product = product * Dim::symbol(symbols[static_cast<size_t>(symbol)].name);
    for (const SizeCall& call : term.calls) {
      const Dim a = size_of(call.sizes[0], symbols), b = size_of(call.sizes[1], symbols);
      product = product * (call.divides ? Dim::floor_divide(a, b) : Dim::smaller(a, b));
    }
    out = out + product;
  }
  return out;
}

Signature signature_of(const Graph& graph) {
  Signature out;
  out.symbols = graph.symbols;
  for (std::string& symbol : graph.measured_symbols()) out.computed.insert(std::move(symbol));
  const auto add = [&](std::vector<Signature::Tensor>& list, const std::string& name, ValueId id) {
    list.push_back({name, graph.value(id).dtype, graph.value(id).shape, graph.value(id).symbol});
  };
  for (size_t i = 0; i < graph.user_inputs(); ++i) add(out.inputs, graph.value(graph.inputs[i]).name, graph.inputs[i]);
  for (size_t i = 0; i < graph.user_outputs(); ++i) add(out.outputs, graph.output_names[i], graph.outputs[i]);
  for (size_t i = 0; i < graph.states.size(); ++i) add(out.states, graph.states[i], graph.state_input(i));
  return out;
}

Signature signature_of(const ProgramManifest& manifest) {
  Signature out;
  for (const auto& symbol : manifest.symbols) out.symbols.push_back({symbol.name, symbol.min, symbol.max});
  for (const auto& read : manifest.reads) out.computed.insert(out.symbols[static_cast<size_t>(read.symbol)].name);
  const auto list = [&](const std::vector<ProgramManifest::Tensor>& from, std::vector<Signature::Tensor>& to) {
    for (const auto& tensor : from) {
      to.push_back({tensor.name, tensor.dtype, {}, {}});
      if (tensor.symbol >= 0) to.back().symbol = out.symbols[static_cast<size_t>(tensor.symbol)].name;
      for (const SizeExpr& size : tensor.shape) to.back().shape.push_back(size_of(size, manifest.symbols));
    }
  };
  list(manifest.inputs, out.inputs);
  list(manifest.outputs, out.outputs);
  for (const auto& state : manifest.states)
    out.states.push_back({state.name, state.dtype, Shape(state.shape.begin(), state.shape.end()), {}});
  return out;
}

std::string describe_signature(const Signature& signature) {
  Table table({});
  for (const auto& t : signature.inputs)
    table.add({"input", t.name, std::string(dtype_name(t.dtype)),
               to_string(t.shape) + (t.symbol.empty() ? "" : " = " + t.symbol)});
  for (const auto& t : signature.outputs)
    table.add({"output", t.name, std::string(dtype_name(t.dtype)), to_string(t.shape)});
  for (const auto& t : signature.states)
    table.add({"state", t.name, std::string(dtype_name(t.dtype)), to_string(t.shape)});
  for (const Symbol& s : signature.symbols)
    table.add({"symbol", s.name,
               (s.max == INT64_MAX ? fmt::format("{} or more", s.min) : fmt::format("{} to {}", s.min, s.max)) +
                   (signature.computed.contains(s.name) ? ", computed by each run" : "")});
  return table.str().substr(1);  // without the empty header line
}

void add_signature(const Signature& signature, nlohmann::json& out) {
  out["inputs"] = tensors_json(signature.inputs);
  out["outputs"] = tensors_json(signature.outputs);
  out["states"] = tensors_json(signature.states);
  out["symbols"] = nlohmann::json::array();
  for (const Symbol& s : signature.symbols) {
    out["symbols"].push_back(
        {{"name", s.name}, {"min", s.min}, {"max", s.max == INT64_MAX ? nlohmann::json() : nlohmann::json(s.max)}});
    if (signature.computed.contains(s.name)) out["symbols"].back()["computed"] = true;
  }
}

}  // namespace qcg
