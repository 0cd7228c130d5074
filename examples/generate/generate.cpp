// Generates tokens with a decoder that `qcodegen compile` wrote: greedily, or one of the TOP_K likeliest at random.
//
//   c++ -std=c++17 generate.cpp $(pkg-config --cflags --libs qcodegen) -o generate
//   echo -n 'A kernel is ' | ./generate lm.qcg 64            the tokens of lm.pt2 are bytes: text in, text out
//   echo 65 32 107 | ./generate --ids llama.qcg 64 40 1      token ids in, token ids out; TOP_K 40, seed 1
//
// The program takes `input_ids` and `cache_position`, and returns logits in f32 or bf16, as transformers exports decoders with
// a static cache. The cache is the state: the prompt fills it, and each further token adds one row.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <numeric>
#include <qcodegen.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

// Of logits [1, count, vocabulary]. A bf16 is the upper half of an f32.
std::vector<float> last_row(const qcodegen::Tensor& logits) {
  const size_t width = logits.dtype().bits / 8;
  if (logits.dtype() != qcodegen::dtypes::f32 && logits.dtype() != qcodegen::dtypes::bf16)
    throw std::runtime_error("generate: the logits are neither f32 nor bf16");
  std::vector<float> row(static_cast<size_t>(logits.shape().back()));
  const std::byte* from = logits.data() + logits.bytes() - row.size() * width;
  for (float& to : row)
    std::memcpy(reinterpret_cast<std::byte*>(&to) + sizeof to - width, std::exchange(from, from + width), width);
  return row;
}

class Decoder {
 public:
  explicit Decoder(const std::string& path) : program_(path), context_(program_), state_(program_) {
    const qcg_tensor_info ids = program_.input(ids_);
    for (int32_t s = 0; s < program_.n_symbols(); ++s)
      if (program_.symbol(s).input >= 0) most_ = program_.symbol(s).max;  // of others, each run computes the value
    if (program_.n_symbols() == 0) most_ = ids.shape[ids.ndim - 1];
  }

  // The logits of what follows these tokens, the next of the sequence.
  std::vector<float> take(const std::vector<int64_t>& tokens) {
    std::vector<float> logits;
    for (size_t done = 0; done < tokens.size();) {
      const int64_t count = std::min<int64_t>(most_, static_cast<int64_t>(tokens.size() - done));
      std::vector<qcodegen::Tensor> inputs(2, qcodegen::Tensor(qcodegen::dtypes::i64, {count}));
      inputs[static_cast<size_t>(ids_)] = qcodegen::Tensor(qcodegen::dtypes::i64, {1, count});
      inputs[static_cast<size_t>(places_)] = qcodegen::Tensor(qcodegen::dtypes::i64, {count});
      std::copy_n(&tokens[done], count, inputs[static_cast<size_t>(ids_)].data<int64_t>());
      std::iota(inputs[static_cast<size_t>(places_)].data<int64_t>(),
                inputs[static_cast<size_t>(places_)].data<int64_t>() + count, place_);
      const qcodegen::Tensor output = context_.run(state_, inputs)[0];  // [1, count, vocabulary]
      logits = last_row(output);
      done += static_cast<size_t>(count), place_ += count;
    }
    return logits;
  }

 private:
  qcodegen::Program program_;
  qcodegen::Context context_;
  qcodegen::State state_;
  int32_t ids_ = program_.input_index("input_ids"), places_ = program_.input_index("cache_position");
  int64_t most_ = 1, place_ = 0;  // tokens that one run takes at most; tokens in the cache
};

int64_t choose(const std::vector<float>& logits, size_t top_k, std::mt19937_64& random) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  top_k = std::min(std::max<size_t>(1, top_k), order.size());
  const auto likelier = [&](int64_t a, int64_t b) { return logits[size_t(a)] > logits[size_t(b)]; };
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(top_k), order.end(), likelier);
  std::vector<double> weights;
  for (size_t i = 0; i < top_k; ++i) weights.push_back(std::exp(logits[size_t(order[i])] - logits[size_t(order[0])]));
  return order[std::discrete_distribution<size_t>(weights.begin(), weights.end())(random)];
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool ids = !words.empty() && words[0] == "--ids";
  if (ids) words.erase(words.begin());
  if (words.size() < 2) return std::cerr << "usage: generate [--ids] PROGRAM COUNT [TOP_K [SEED]] <PROMPT\n", 2;
  std::vector<int64_t> tokens;
  if (ids) tokens.assign(std::istream_iterator<int64_t>(std::cin), {});
  else
    for (std::istreambuf_iterator<char> c(std::cin), end; c != end; ++c) tokens.push_back(static_cast<uint8_t>(*c));
  if (tokens.empty()) return std::cerr << "generate: the prompt on stdin is empty\n", 2;

  Decoder decoder(words[0]);
  std::mt19937_64 random(words.size() > 3 ? std::strtoull(words[3].c_str(), nullptr, 10) : 0);
  const size_t top_k = words.size() > 2 ? std::strtoull(words[2].c_str(), nullptr, 10) : 1;
  for (long left = std::atol(words[1].c_str()); left > 0; --left) {
    tokens = {choose(decoder.take(tokens), top_k, random)};
    if (ids) std::cout << tokens[0] << ' ' << std::flush;
    else std::cout << static_cast<char>(tokens[0]) << std::flush;
  }
  std::cout << '\n';
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
