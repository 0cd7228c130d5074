// Problem + Candidate -> C++ source. Every number is computed here; templates/cpu/gemm*.cpp.j2 print them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/cuda.h"
#include "codegen/embedded.h"
#include "codegen/gemm_layout.h"
#include "codegen/problem.h"
#include "codegen/rowwise.h"
#include "codegen/template_engine.h"

namespace qcg {
namespace {

using V = TemplateValue;

// Where each kind of argument begins (problem.h states the order).
struct ArgumentOrder {
  int x_scale = -1, x_zero = -1, operands = 0, weights = 0, outputs = 0;
  explicit ArgumentOrder(const Problem& p) {
    int next = int(p.k_segments.size());
    if (scheme_info(p.scheme).quantized_activation) x_scale = next++;
    if (p.x_has_zero) x_zero = next++;
    operands = next;
    weights = operands + int(p.operands.size());
    outputs = weights + 1;
  }
};

class GemmContext {
 public:
  GemmContext(const Problem& problem, const Candidate& candidate)
      : problem_(problem), c_(candidate), p_(panel_layout(problem, candidate.layout)), args_(problem),
        compute_(compute_info(candidate.microkernel->compute)), mr_(candidate.mr),
        vl_(isa_info(candidate.microkernel->isa).vector_bytes / 4), nv_(candidate.layout.nr / vl_),
        grouped_(p_.grouped) {
    panel_ = c_.unpacks_block;
    used_step_ = std::max(p_.kind->k_step, compute_.kd);
    k_iteration_ = !compute_.tiles && mr_ * nv_ > 8 && used_step_ <= 4 ? 4 : 8;
    ordered_ = p_.kind->bits == 4 && compute_.kd < 4;
    x_group_ = pad_activations(p_.group_padded);
    x_k_ = (p_.groups - 1) * x_group_ + pad_activations(p_.group_k(p_.groups - 1));
  }

  V build(std::string_view symbol) {
    v_["symbol"] = symbol;
    v_["name"] = kernel_name(problem_, c_);
    v_["gemm_header"] = fmt::format("gemm_{}.h", isa_info(c_.microkernel->isa).name);
    v_["quant_header"] = p_.kind->header;
    v_["compute"] = compute_.name;
    v_["acc_type"] = compute_.integer ? "vi" : "vf";
    v_["integer"] = compute_.integer;
    v_["whole_integer"] = compute_.integer && !grouped_;
    v_["grouped"] = grouped_;
    v_["channel_scales"] = scheme_info(problem_.scheme).has_scales && !grouped_;
    v_["factor"] = p_.kind->factor == 1 ? "" : fmt::format("{:.1f}f", p_.kind->factor);
    v_["mr"] = mr_, v_["nr"] = p_.nr, v_["nv"] = nv_, v_["kd"] = compute_.kd;
    v_["units_per_row"] = x_k_ / compute_.kd;
    v_["comment"] = comment();
    add_packing();
    v_["tile_registers"] = compute_.tiles;
    v_["unpacked_block"] = panel_;
    v_["group_bytes"] = p_.group_at(1) - p_.group_at(0);
    v_["block_bytes"] = panel_ ? block_units() * p_.nr * 4 : 0;
    v_["block_store"] = compute_.element == "f32" ? "fma_store" : "int_store";
    v_["zeros_per_panel"] = subtracts_zeros() && !grouped_;
    v_["zeros_per_group"] = subtracts_zeros() && grouped_;
    v_["zero_at"] = p_.zero_at;
    v_["zeros_in_header"] = p_.zeros_in_header;
    v_["header_bytes"] = p_.header_bytes;
    v_["group_steps"] = group_steps();
    if (compute_.tiles) add_tile_registers();
    else add_tile();
    add_prefetch();
    add_outputs();
    add_blocks();
    return v_;
  }

 private:
  V comment() const {
    std::vector<V> lines;
    auto add = [&](std::string_view line) { lines.push_back(V(sanitize_comment(line))); };
    add("");
    add(problem_.signature());
    add("candidate: " + c_.describe());
    add(fmt::format("weights: {} packed as {}, panels of {} columns", scheme_name(problem_.scheme), p_.kind->picture, p_.nr));
    add("");
    if (compute_.tiles) add_tile_picture(add);
    else add_vector_picture(add);
    if (!problem_.nodes.empty()) {
      add("");
      add("nodes:");
      for (const std::string& node : problem_.nodes) add("  " + node);
    }
    if (!problem_.graph_fragment.empty()) {
      add("");
      size_t begin = 0;
      while (begin < problem_.graph_fragment.size()) {
        const size_t end = std::min(problem_.graph_fragment.find('\n', begin), problem_.graph_fragment.size());
        add(std::string_view(problem_.graph_fragment).substr(begin, end - begin));
        begin = end + 1;
      }
    }
    return V::from_items(std::move(lines));
  }

  template <class Add>
  void add_vector_picture(Add add) const {
    add(fmt::format("           {} columns = {} vectors", p_.nr, nv_));
    add(fmt::format("         +{0}+{0}+", "--------"));
    add(fmt::format(" {:>2} rows |  acc   |  acc   |  += {} weight units x broadcast activation units of {} k", mr_, compute_.name,
                    compute_.kd));
    add(fmt::format("         +{0}+{0}+", "--------"));
  }
  template <class Add>
  void add_tile_picture(Add add) const {
    add(fmt::format("           {} columns = 2 tiles", p_.nr));
    add(fmt::format("         +{0}+{0}+", "--------"));
    for (int t = 0; t < mr_ / 16; ++t)
      add(fmt::format(" 16 rows |  C {}   |  C {}   |  += A {} x B 6, B 7: {} k a step", 2 * t, 2 * t + 1, 4 + t, 16 * compute_.kd));
    add(fmt::format("         +{0}+{0}+", "--------"));
  }

  void add_packing() {
    v_["element"] = compute_.cpp_element;
    v_["activation"] = dtype_info(problem_.activation).cpp;
    v_["pack_function"] = fmt::format("pack_{}_{}", compute_.element, dtype_name(problem_.activation));
    v_["k_padded"] = x_k_;
    v_["group"] = p_.group, v_["group_padded"] = x_group_;
    v_["group_gaps"] = p_.groups > 1 && p_.group != x_group_;
    v_["pack_has_gaps"] = x_k_ != problem_.k;
    v_["pack_direct"] = mr_ == 1 && !ordered_;
    v_["row_sums"] = compute_.integer && !grouped_;
    add_group_sums();
    std::vector<V> sources;
    int64_t begin = 0;
    for (size_t i = 0; i < problem_.k_segments.size(); ++i) {
      sources.push_back(V::dict({{"arg", i}, {"begin", begin}, {"width", problem_.k_segments[i]}}));
      begin += problem_.k_segments[i];
    }
    v_["sources"] = V::from_items(std::move(sources));
    std::vector<V> order;
    if (ordered_ && compute_.kd == 1)
      for (int u = 0; u < 8; ++u) order.push_back(V(fmt::format("((const qcg_unit*)row)[u + {}]", u / 2 + 4 * (u % 2))));
    if (ordered_ && compute_.kd == 2)
      for (int first : {0, 4, 1, 5}) order.push_back(V(fmt::format("pack_pair(row[u * 2 + {}], row[u * 2 + {}])", first, first + 2)));
    v_["pack_order"] = V::from_items(std::move(order));
  }

  // What a group adds to sums that depends on the row: x_sums[group][word][row], made when activations are packed.
  void add_group_sums() {
    static constexpr std::string_view kNames[] = {"none", "raised", "pairs", "wide"};
    v_["corrections"] = kNames[size_t(p_.corrections)];
    v_["has_offset"] = p_.has_offset;
    v_["groups"] = p_.groups;
    v_["x_words"] = p_.corrections == Corrections::wide ? 2 : p_.corrections != Corrections::none || p_.has_offset ? 1 : 0;
    v_["raised"] = p_.kind->raised;
    v_["x_zero_of_row"] = compute_.integer ? x_zero("i") : "";
    v_["last_group"] = pad_activations(p_.group_k(p_.groups - 1));
    v_["scale_dtype"] = dtype_name(problem_.scale), v_["scale_type"] = dtype_info(problem_.scale).cpp;
    v_["offsets_in_header"] = p_.offsets_in_header;
  }

  std::string zero() const { return fmt::format("{}_zero()", compute_.name); }

  // What the sum of vector v in a row begins with: a group of integers with its corrections.
  std::string start_of(int v, std::string_view row) const {
    const std::string x = fmt::format("vi_set1((int32_t)x_sums[{}])", row);
    switch (p_.corrections) {
      case Corrections::none: break;
      case Corrections::raised: return x;
      case Corrections::pairs: return fmt::format("pair_dot(p{}, {})", v, x);
      case Corrections::wide: return fmt::format("vi_add(vi_mul(p{0}, {1}), vi_mul(b{0}, vi_set1((int32_t)x_sums[MR + {2}])))", v, x, row);
    }
    return zero();
  }

  // Independent sums of one accumulator, so that enough multiply chains are in flight to hide their latency.
  int splits() const {
    const int units = k_iteration_ / compute_.kd;
    return std::clamp(8 / (mr_ * nv_), 1, units);
  }
  static std::string acc(int set, int r, int v) { return set == 0 ? fmt::format("a{}_{}", r, v) : fmt::format("a{}_{}_{}", r, v, set); }

  void add_tile() {
    std::vector<V> accs, sums, stores, units;
    for (int set = 0; set < splits(); ++set)
      for (int r = 0; r < mr_; ++r)
        for (int v = 0; v < nv_; ++v) accs.push_back(V::dict({{"name", acc(set, r, v)}, {"start", set == 0 ? start_of(v, std::to_string(r)) : zero()}}));
    for (int width = splits(); width > 1; width /= 2)
      for (int set = 0; set < width / 2; ++set)
        for (int r = 0; r < mr_; ++r)
          for (int v = 0; v < nv_; ++v)
            sums.push_back(V::dict({{"to", acc(set, r, v)}, {"from", acc(set + width / 2, r, v)}}));
    for (int r = 0; r < mr_; ++r)
      for (int v = 0; v < nv_; ++v)
        stores.push_back(V::dict({{"acc", acc(0, r, v)}, {"at", (r * p_.nr + v * vl_) * 4}, {"r", r}, {"v", v}}));
    const int per_step = used_step_ / compute_.kd;
    for (int u = 0; u < k_iteration_ / compute_.kd; ++u) units.push_back(unit(u, u / per_step, u % per_step));
    v_["accs"] = V::from_items(std::move(accs));
    v_["sums"] = V::from_items(std::move(sums));
    v_["tile_stores"] = V::from_items(std::move(stores));
    v_["units"] = V::from_items(std::move(units));
    v_["packed_step_bytes"] = iteration_bytes();
    v_["step_bytes"] = panel_ ? k_iteration_ / compute_.kd * p_.nr * 4 : iteration_bytes();
    v_["step_units"] = k_iteration_ / compute_.kd;
  }

  // Tiles 0 to 3 are results, 4 and 5 activations, 6 and 7 weights. Weights that a tile cannot hold as they are packed
  // (int8 and int4 for a bf16 product) are unpacked to a buffer.
  void add_tile_registers() {
    std::vector<V> c_tiles, a_tiles;
    for (int t = 0; t < mr_ / 16 * 2; ++t)
      c_tiles.push_back(V::dict({{"tile", t}, {"a", 4 + t / 2}, {"b", 6 + t % 2}, {"at", t / 2 * 16 * p_.nr * 4 + t % 2 * 64}}));
    for (int t = 0; t < mr_ / 16; ++t) a_tiles.push_back(V::dict({{"tile", 4 + t}, {"at", t * 16 * 16}}));
    const int step = 16 * compute_.kd;
    const int64_t last = p_.group_k(p_.groups - 1);
    v_["c_tiles"] = V::from_items(std::move(c_tiles));
    std::vector<V> starts;
    for (int v = 0; v < nv_; ++v) starts.push_back(V(start_of(v, "r")));
    v_["group_starts"] = V::from_items(std::move(starts));
    v_["a_tiles"] = V::from_items(std::move(a_tiles));
    v_["tile_dot"] = compute_.integer ? "tile_dp_sud" : "tile_dp_bf16";
    v_["unpack"] = unpacked_rows();
    v_["has_tail"] = p_.group_padded % step != 0 || last % step != 0;
    v_["units_per_count"] = k_iteration_ / compute_.kd;
    v_["packed_unit_bytes"] = p_.k_bytes(step) / 16;
    v_["step_bytes"] = panel_ ? 16 * p_.nr * 4 : p_.k_bytes(step);
    v_["fetches_per_step"] = next_lines() * (step / k_iteration_);
  }

  // The layout whose units are what unpacking leaves: 4 bytes a column.
  std::string_view unpacked_kind() const { return compute_.kd == 1 ? "f32" : compute_.integer ? "u8x4" : "bf16x2"; }

  // Units of the longest block, every group padded as activations are.
  int64_t block_units() const {
    const int64_t block = block_k();
    return (grouped_ ? (block + p_.group_padded - 1) / p_.group_padded * x_group_ : pad_activations(block)) / compute_.kd;
  }

  // How weights that a tile cannot hold as they are packed become rows of tiles: one store for each unit and tile.
  V unpacked_rows() const {
    std::vector<V> out;
    if (p_.kind->bits * compute_.kd >= 32) return V::from_items(std::move(out));
    const int units = std::max(1, p_.kind->k_step / compute_.kd), unit_bytes = p_.nr * compute_.kd * p_.kind->bits / 8;
    for (int u = 0; u < units; ++u)
      for (int v = 0; v < nv_; ++v)
        out.push_back(V::dict({{"units", units}, {"to", u * 128 + v * 64},
                               {"code", weight(compute_.integer ? "vnni" : "bf16dot", u,
                                               fmt::format("w + r * {} + {}", unit_bytes, v * vl_ * p_.kind->k_step * p_.kind->bits / 8), v)}}));
    return V::from_items(std::move(out));
  }

  bool subtracts_zeros() const { return p_.has_zero && !compute_.integer; }

  // Unit u of the weight step at `address`, columns of vector v, less their zero points. bf16 has no subtraction: each half
  // of a pair is subtracted as f32 (an integer of at most 8 bits and a sign either way, so exact in both).
  std::string weight(std::string_view compute, int u, std::string_view address, int v) const {
    const auto unpacked = [&](std::string_view as, int unit, int64_t behind = 0) {
      return fmt::format("{}_weight_{}<{}>({}{})", as, p_.kind->kind, unit, address, behind > 0 ? fmt::format(" + {}", behind) : "");
    };
    if (!subtracts_zeros()) return unpacked(compute, u);
    if (compute != "bf16dot") return fmt::format("v_sub({}, z{})", unpacked(compute, u), v);
    const std::string odd = p_.kind->bits == 4 ? unpacked("fma", u + 4) : unpacked("fma", u, p_.nr);
    return fmt::format("bf16dot_pair(v_sub({}, z{}), v_sub({}, z{}))", unpacked("fma", u), v, odd, v);
  }

  // Iterations of group g, as an expression.
  std::string group_steps() const {
    const int64_t full = p_.group_padded / k_iteration_, last = p_.group_k(p_.groups - 1) / k_iteration_;
    return full == last || p_.groups == 1 ? std::to_string(last) : fmt::format("(g + 1 == {} ? {} : {})", p_.groups, last, full);
  }

  V unit(int index, int step, int unit_of_step) const {
    std::vector<V> weights, unpacked, rows;
    for (int v = 0; v < nv_; ++v) {
      const int64_t at = step * (used_step_ / p_.kind->k_step) * p_.step_bytes() + int64_t{v} * vl_ * p_.kind->k_step * p_.kind->bits / 8;
      std::string text = weight(compute_.name, unit_of_step, fmt::format("w + {}", at), v);
      const int buffer_at = (index * nv_ + v) * vl_ * 4;
      if (panel_) unpacked.push_back(V::dict({{"code", std::exchange(text, fmt::format("{}_weight_{}<0>(w + {})", compute_.name, unpacked_kind(), buffer_at))}, {"to", buffer_at}}));
      weights.push_back(V(std::move(text)));
    }
    for (int r = 0; r < mr_; ++r) {
      std::vector<V> accs;
      for (int v = 0; v < nv_; ++v) accs.push_back(V(acc(index % splits(), r, v)));
      rows.push_back(V::dict({{"name", fmt::format("x{}", r)}, {"at", index * mr_ + r}, {"accs", V::from_items(std::move(accs))}}));
    }
    // The lines of an iteration are spread over its units, so that fetches do not come in bursts.
    std::vector<V> prefetch;
    const int64_t units = k_iteration_ / compute_.kd, lines = (iteration_bytes() + 63) / 64;
    for (int64_t line = 0; line < lines; ++line)
      if (line * units / lines == index) add_prefetch_of(line * 64, prefetch);
    const bool fetches_next = c_.prefetch_bytes == 0 && (index + 1) * next_lines() / units != index * next_lines() / units;
    return V::dict({{"fetches_next", fetches_next}, {"prefetch", V::from_items(std::move(prefetch))}, {"weights", V::from_items(std::move(weights))}, {"unpacked", V::from_items(std::move(unpacked))}, {"rows", V::from_items(std::move(rows))}});
  }

  // Lines of the next block that one iteration fetches: its share when rows_per_item rows are present.
  int64_t next_lines() const {
    const int64_t tiles = std::max(1, c_.rows_per_item / mr_);
    return std::clamp<int64_t>((iteration_bytes() + 64 * tiles - 1) / (64 * tiles), 1, k_iteration_ / compute_.kd);
  }
  int64_t iteration_bytes() const { return p_.k_bytes(k_iteration_); }

  // Far ahead into L2, then just ahead into L1: unpacking is long enough to stall on what one level alone leaves late.
  void add_prefetch_of(int64_t at, std::vector<V>& out) const {
    constexpr int kNear = 1024, kL1 = 3, kL2 = 2;
    if (c_.prefetch_bytes <= 0) return;
    const bool two_levels = c_.prefetch_bytes >= 4 * kNear;
    out.push_back(V::dict({{"at", c_.prefetch_bytes + at}, {"locality", two_levels ? kL2 : kL1}}));
    if (two_levels) out.push_back(V::dict({{"at", kNear + at}, {"locality", kL1}}));
  }

  void add_prefetch() {
    v_["prefetch"] = c_.prefetch_bytes;
    std::vector<V> header;
    for (int64_t at = 0; at < p_.header_bytes; at += 64) add_prefetch_of(at, header);
    v_["header_lines"] = V::from_items(std::move(header));
  }

  void add_outputs() {
    v_["x_scale_arg"] = args_.x_scale;
    v_["has_x_zero"] = !grouped_ && compute_.integer && (problem_.x_has_zero || problem_.activation == DType::u8);
    v_["x_zero"] = x_zero("row0 + r");
    v_["weights_arg"] = args_.weights;
    v_["segment_bytes"] = p_.segment_bytes;
    std::vector<V> outputs;
    int64_t chunk = 0, most_segments = 1;
    for (size_t o = 0; o < problem_.outputs.size(); ++o) {
      const int64_t chunks = (p_.panels[o] + c_.panels_per_item - 1) / c_.panels_per_item;
      V output = describe_output(problem_.outputs[o], int(o));
      output["weights_at"] = p_.output_at[o];
      output["panels"] = p_.panels[o];
      output["chunk_begin"] = chunk;
      output["chunk_end"] = chunk += chunks;
      most_segments = std::max(most_segments, int64_t(problem_.outputs[o].segments.size()));
      outputs.push_back(std::move(output));
    }
    v_["outputs"] = V::from_items(std::move(outputs));
    v_["chunks"] = chunk;
    v_["panels_per_item"] = c_.panels_per_item;
    v_["tiles_per_item"] = (c_.rows_per_item + mr_ - 1) / mr_;
    v_["scratch_tiles"] = most_segments * (block_k() < p_.k_padded ? c_.panels_per_item : 1);
  }

  // Activations are packed signed: u8 values and their zero points move down by 128 together.
  std::string x_zero(std::string_view row) const {
    const std::string given = args_.x_zero < 0 ? "" : fmt::format("((const int32_t*)call->args[{0}].data)[({1}) * call->args[{0}].stride]", args_.x_zero, row);
    if (problem_.activation != DType::u8) return given.empty() ? "0" : given;
    return given.empty() ? "-128" : given + " - 128";
  }

  V describe_output(const Output& output, int index) {
    V o = V::dict({{"arg", args_.outputs + index}, {"n", output.n}, {"expr", sanitize_comment(output.expr.str())},
                   {"dtype", dtype_name(output.dtype)}, {"type", dtype_info(output.dtype).cpp}});
    std::vector<V> segments, row_operands, operands;
    bool biased = false;
    for (size_t slot = 0; slot < output.segments.size(); ++slot) {
      const int s = output.segments[slot];
      const Segment& segment = problem_.segments[size_t(s)];
      const int64_t at = int64_t(slot) * p_.segment_bytes;
      biased |= segment.has_bias;
      segments.push_back(V::dict({{"index", s}, {"slot", slot}, {"name", sanitize_comment(segment.name)}, {"bias", segment.has_bias},
                                  {"scale_at", at + p_.scale_at}, {"offset_at", at + p_.offset_at},
                                  {"column_sum_at", at + p_.column_sum_at}, {"bias_at", at + p_.bias_at}}));
    }
    std::set<int> used;
    collect_operands(output.expr, used);
    for (int i : used) {
      const Operand& operand = problem_.operands[size_t(i)];
      const bool splat = operand.broadcast == Broadcast::column || operand.broadcast == Broadcast::scalar;
      V v = V::dict({{"name", fmt::format("in{}", i)}, {"arg", args_.operands + i}, {"dtype", dtype_name(operand.dtype)},
                     {"type", dtype_info(operand.dtype).cpp},
                     {"by_row", operand.broadcast == Broadcast::full || operand.broadcast == Broadcast::column}});
      (splat ? row_operands : operands).push_back(std::move(v));
    }
    o["segments"] = V::from_items(std::move(segments));
    o["row_operands"] = V::from_items(std::move(row_operands));
    o["operands"] = V::from_items(std::move(operands));
    o["store_sum"] = problem_.scheme == Scheme::s8s8 && output.dtype == DType::i32 && output.expr.kind == ExprKind::acc && !biased;
    std::vector<std::string> acc_names, in_names;
    for (size_t i = 0; i < problem_.segments.size(); ++i) acc_names.push_back(fmt::format("acc{}", i));
    for (size_t i = 0; i < problem_.operands.size(); ++i) in_names.push_back(fmt::format("in{}", i));
    o["code"] = print_expr(output.expr, acc_names, in_names);
    return o;
  }

  static void collect_operands(const Expr& expr, std::set<int>& used) {
    if (expr.kind == ExprKind::in) used.insert(expr.index);
    for (const Expr& arg : expr.args) collect_operands(arg, used);
  }

  // Tiles multiply 16 units at a time: activations of a group are padded to that with zeros, weights are not.
  int64_t pad_activations(int64_t k) const {
    const int64_t step = compute_.tiles ? 16 * compute_.kd : 1;
    return (k + step - 1) / step * step;
  }

  // K of one block: whole groups, whole iterations.
  int64_t block_k() const {
    if (c_.kc <= 0 || c_.kc >= p_.k_padded) return p_.k_padded;
    const int64_t unit = grouped_ ? p_.group_padded : pad_activations(kPadK);
    return std::min(p_.k_padded, std::max(unit, c_.kc / unit * unit));
  }

  void add_blocks() {
    std::vector<V> weights, units, counts;
    const int64_t block = block_k(), groups_per_block = block == p_.k_padded ? p_.groups : block / p_.group_padded;
    for (int64_t k = 0; k < p_.k_padded; k += block) {
      const int64_t g = grouped_ ? k / p_.group_padded : 0;
      weights.push_back(V(grouped_ ? p_.group_at(g) : p_.k_bytes(k)));
      units.push_back(V((grouped_ ? g * x_group_ : k) / compute_.kd));
      counts.push_back(V(grouped_ ? std::min(groups_per_block, p_.groups - g) : std::min(block, p_.k_padded - k) / k_iteration_));
      if (grouped_ && g + groups_per_block >= p_.groups) break;
    }
    v_["k_blocks"] = V::from_items(std::move(weights));
    v_["k_units"] = V::from_items(std::move(units));
    v_["k_counts"] = V::from_items(std::move(counts));
    v_["groups_per_block"] = groups_per_block;
    v_["fetches_per_count"] = next_lines() * (grouped_ ? p_.group_padded / k_iteration_ : 1);
    v_["bytes_per_count"] = grouped_ ? p_.header_bytes + p_.k_bytes(p_.group_padded) : iteration_bytes();
  }

  const Problem& problem_;
  const Candidate& c_;
  PanelLayout p_;
  ArgumentOrder args_;
  const Compute& compute_;
  int mr_, vl_, nv_;
  bool grouped_, ordered_ = false, panel_ = false;
  int used_step_ = 1, k_iteration_ = 8;
  int64_t x_group_ = 0, x_k_ = 0;  // padded k of the packed activations: of a group, of a row
  V v_;
};

// The functions of an epilogue in evaluation order: "silu_mul"; empty for a plain result.
void collect_functions(const Expr& expr, std::string& out) {
  for (const Expr& arg : expr.args) collect_functions(arg, out);
  if (expr.kind == ExprKind::call) out += "_" + std::string(expr.function);
}

Result<std::string> load_template(std::string_view name) {
  if (auto text = embedded_file(name)) return std::string(*text);
  return Error::internal(std::string(name), "no such template");
}

TemplateEngine& engine() {
  static TemplateEngine engine(load_template);
  return engine;
}

bool printable_dtype(DType d, bool output) {
  switch (d) {
    case DType::f32: case DType::bf16: case DType::f16: case DType::f64:
    case DType::i8: case DType::u8: case DType::i32: case DType::i64: case DType::f8e4m3: case DType::f8e5m2: return true;
    case DType::boolean: case DType::f8e8m0: return !output;
    default: return false;
  }
}

Status check_renderable(const Problem& problem) {
  QCG_CHECK(check_integer_range(problem));
  for (const Output& o : problem.outputs)
    if (!printable_dtype(o.dtype, true))
      return Error::unsupported("output", "a GEMM cannot store " + std::string(dtype_name(o.dtype)), "cast to a float dtype first");
  for (const Operand& o : problem.operands)
    if (!printable_dtype(o.dtype, false))
      return Error::unsupported("operand", "an epilogue cannot read " + std::string(dtype_name(o.dtype)), "cast to a float dtype first");
  return {};
}

// `name` and everything it includes, depth first, so that includes come before their users.
void add_header(const std::string& name, std::vector<SourceFile>& out) {
  if (std::any_of(out.begin(), out.end(), [&](const SourceFile& f) { return f.name == name; })) return;
  auto text = embedded_file(name);
  if (!text) text = embedded_file("cpu/" + name);
  if (!text) return;  // a system header
  static constexpr std::string_view kInclude = "#include \"";
  for (size_t at = text->find(kInclude); at != std::string_view::npos; at = text->find(kInclude, at + 1)) {
    const size_t begin = at + kInclude.size(), end = text->find('"', begin);
    if (at == 0 || (*text)[at - 1] == '\n') add_header(std::string(text->substr(begin, end - begin)), out);
  }
  out.push_back({name, std::string(*text)});
}

}  // namespace

std::string kernel_name(const Problem& problem, const Candidate& candidate) {
  const Output& first = problem.outputs.front();
  std::string epilogue;
  collect_functions(first.expr, epilogue);
  return fmt::format("qgemm_{}_{}{}_{}_n{}_k{}_{}x{}x{}_{}{}", dtype_name(problem.activation),
                     scheme_info(problem.scheme).float_weight ? dtype_name(problem.weight) : scheme_name(problem.scheme),
                     problem.group > 0 ? fmt::format("_g{}", problem.group) : "", dtype_name(first.dtype), problem.n_total(),
                     problem.k, candidate.mr, candidate.layout.nr, candidate.layout.kr, candidate.microkernel->name,
                     epilogue.substr(0, 60));
}

Result<std::string> render_gemm(const Problem& problem, const Candidate& candidate, std::string_view symbol) {
  if (isa_info(candidate.microkernel->isa).device == Device::cuda) return render_gemm_cuda(problem, candidate, symbol);
  QCG_CHECK(check_renderable(problem));
  const TemplateValue context = GemmContext(problem, candidate).build(symbol);
  return engine().render(candidate.microkernel->source, context);
}

std::vector<SourceFile> support_headers(Isa isa) {
  std::vector<SourceFile> out;
  if (isa_info(isa).device == Device::cuda) return cuda_headers();
  add_header("abi.h", out);
  add_header(std::string(isa_info(isa).header), out);
  add_header("gemm_" + std::string(isa_info(isa).name) + ".h", out);
  // A kernel of a contained ISA's row includes that ISA's header.
  if (isa == Isa::amx || isa == Isa::avx512bf16) {
    add_header("avx512bf16.h", out);
    add_header("gemm_avx512bf16.h", out);
  }
  for (const EmbeddedFile& file : embedded_files())
    if (file.name.starts_with("quant/")) add_header(std::string(file.name), out);
  return out;
}

std::vector<std::string> kernel_flags(Isa isa) {
  std::vector<std::string> flags;
  std::string_view rest = isa_info(isa).flags;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (end > 0) flags.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return flags;
}

}  // namespace qcg
