// Ops of torch's library, compiled: programs give what torch gives.
#include "tests/real_graphs/check_case.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("compiled indices of pools, and what takes them, give what torch gives") {
  constexpr Op kOps[] = {"aten.max_pool1d_with_indices.default",
                         "aten.max_pool2d_with_indices.default",
                         "aten.max_pool3d_with_indices.default",
                         "aten.adaptive_max_pool2d.default",
                         "aten.max_unpool2d.default",
                         "aten.max_unpool3d.default",
                         "aten.conv_transpose3d.input",
                         "aten.adaptive_avg_pool3d.default"};
  const int checked = check_cases(is_one_of(kOps), 2);
  CHECK(checked > 6);
}

TEST_CASE("compiled losses give what torch gives") {
  constexpr Op kOps[] = {"aten.smooth_l1_loss.default",        "aten.huber_loss.default",
                         "aten.poisson_nll_loss.default",      "aten.kl_div.default",
                         "aten.binary_cross_entropy.default",  "aten.binary_cross_entropy_with_logits.default",
                         "aten.cosine_embedding_loss.default", "aten.triplet_margin_loss.default",
                         "aten.multi_margin_loss.default",     "aten.multilabel_margin_loss.default",
                         "aten.nll_loss_nd.default",           "aten.nll_loss2d.default",
                         "aten.cross_entropy_loss.default"};
  const int checked = check_cases(is_one_of(kOps), 3);
  CHECK(checked > 12);
}

TEST_CASE("compiled turns, stacks, choices and writes at positions give what torch gives") {
  constexpr Op kOps[] = {"aten.rot90.default",       "aten.dstack.default",           "aten.movedim.intlist",
                         "aten.block_diag.default",  "aten.cartesian_prod.default",   "aten.combinations.default",
                         "aten.sum_to_size.default", "aten.diagonal_scatter.default", "aten.msort.default",
                         "aten.isin.Tensor_Tensor",  "aten.index_fill.int_Scalar",    "aten.index_fill.int_Tensor",
                         "aten.put.default"};
  const int checked = check_cases(is_one_of(kOps), 3);
  CHECK(checked > 8);
}

TEST_CASE("compiled products in other spellings, and sums that leave elements out, give what torch gives") {
  constexpr Op kOps[] = {"aten.tensordot.default",
                         "aten.inner.default",
                         "aten.addr.default",
                         "aten.addmv.default",
                         "aten.addbmm.default",
                         "aten.linalg_multi_dot.default",
                         "aten.matrix_power.default",
                         "aten.linalg_cross.default",
                         "aten.bilinear.default",
                         "aten._trilinear.default",
                         "aten.vander.default",
                         "aten.trapezoid.x",
                         "aten.cumulative_trapezoid.dx",
                         "aten.nansum.default",
                         "aten.nanmean.default",
                         "aten.pdist.default",
                         "aten.renorm.default",
                         "aten.nanmedian.dim",
                         "aten.mode.default",
                         "aten.linalg_vander.default"};
  const int checked = check_cases(is_one_of(kOps), 4);
  CHECK(checked > 12);
}

TEST_CASE("compiled operations on i16, projected lstms and quantiles of numbers give what torch gives") {
  constexpr Op kOps[] = {"aten.nanquantile.scalar", "aten.nanquantile.default"};
  const auto is_wanted = [&](const TorchCase& test, const Graph& graph) {
    const bool projects = graph.nodes[0].op == Op("aten.lstm.input") && test.text.find("f32[2, 4]") != test.text.npos;
    const bool is_view = graph.nodes[0].op == Op("aten.view.dtype");  // of constants alone
    const bool is_short = test.text.find("i16[") != test.text.npos && !test.is_quantization() && !is_view;
    return projects || is_short || is_one_of(kOps)(test, graph);
  };
  const int checked = check_cases(is_wanted);
  CHECK(checked > 12);
}

TEST_CASE("compiled whole quotients of floats, common divisors and mantissas give what torch gives") {
  constexpr Op kOps[] = {"aten.div.Tensor_mode", "aten.floor_divide.default", "aten.floor_divide.Scalar",
                         "aten.gcd.default",     "aten.lcm.default",          "aten.frexp.Tensor",
                         "aten.mvlgamma.default"};
  const auto is_wanted = [&](const TorchCase& test, const Graph& graph) {
    return is_one_of(kOps)(test, graph) && !test.is_quantization();
  };
  const int checked = check_cases(is_wanted, 2);
  CHECK(checked > 10);
}

TEST_CASE("compiled Bessel, zeta and scaled error functions give what torch gives") {
  constexpr Op kOps[] = {"aten.special_i0.default",       "aten.special_i0e.default",   "aten.special_i1.default",
                         "aten.special_i1e.default",      "aten.special_erfcx.default", "aten.special_log_ndtr.default",
                         "aten.special_zeta.default",     "aten.polygamma.default",     "aten.special_zeta.self_scalar",
                         "aten.special_zeta.other_scalar"};
  const int checked = check_cases(is_one_of(kOps));
  CHECK(checked > 12);
}
