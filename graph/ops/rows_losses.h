// Rows of the operator table (op_table.h): losses. A pass writes them as sums of pointwise operations
// (passes/library/losses.cpp).
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/losses.cpp
ShapeRule infer_loss_of_elements, infer_loss_of_rows, infer_loss_of_margins, infer_loss_of_classes;

namespace rows {

// clang-format off
inline constexpr OpRow kLosses[] = {
    {"aten.mse_loss.default", "(Tensor self, Tensor target, int reduction=1) -> Tensor",
     pointwise, infer_loss_of_elements},
    {"aten.l1_loss.default", "(Tensor self, Tensor target, int reduction=1) -> Tensor",
     pointwise, infer_loss_of_elements},
    {"aten.smooth_l1_loss.default", "(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor",
     pointwise, infer_loss_of_elements},
    {"aten.huber_loss.default", "(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor",
     pointwise, infer_loss_of_elements},
    {"aten.soft_margin_loss.default", "(Tensor self, Tensor target, int reduction=1) -> Tensor",
     pointwise, infer_loss_of_elements},
    {"aten.poisson_nll_loss.default",
     "(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor",
     pointwise, infer_loss_of_elements},
    {"aten.kl_div.default", "(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
     pointwise, infer_loss_of_elements},
    {"aten.binary_cross_entropy.default",
     "(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
     pointwise, infer_loss_of_elements},
    {"aten.binary_cross_entropy_with_logits.default",
     "(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor",
     pointwise, infer_loss_of_elements},
    {"aten.margin_ranking_loss.default",
     "(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) -> Tensor",
     pointwise, infer_loss_of_elements},
    {"aten.hinge_embedding_loss.default", "(Tensor self, Tensor target, float margin=1.0, int reduction=1) -> Tensor",
     pointwise, infer_loss_of_elements},
    {"aten.cosine_embedding_loss.default",
     "(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) -> Tensor",
     pointwise, infer_loss_of_rows},
    {"aten.triplet_margin_loss.default",
     "(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, float eps=1e-06, bool "
     "swap=False, int reduction=1) -> Tensor", pointwise, infer_loss_of_rows},
    {"aten.multi_margin_loss.default",
     "(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) -> Tensor",
     pointwise, infer_loss_of_margins},
    {"aten.multilabel_margin_loss.default", "(Tensor self, Tensor target, int reduction=1) -> Tensor",
     pointwise, infer_loss_of_margins},
    {"aten.nll_loss.default",
     "(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
     pointwise, infer_loss_of_classes},
    {"aten.nll_loss_nd.default",
     "(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
     pointwise, infer_loss_of_classes},
    {"aten.nll_loss2d.default",
     "(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
     pointwise, infer_loss_of_classes},
    {"aten.cross_entropy_loss.default",
     "(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float "
     "label_smoothing=0.0) -> Tensor", pointwise, infer_loss_of_classes},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
