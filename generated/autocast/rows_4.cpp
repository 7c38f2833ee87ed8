// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/kernel.h"

#include <torch/version.h>

#include <ATen/ops/adaptive_avg_pool3d_ops.h>
#include <ATen/ops/addbmm_ops.h>
#include <ATen/ops/binary_cross_entropy_ops.h>
#include <ATen/ops/binary_cross_entropy_with_logits_ops.h>
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2014
#include <ATen/ops/cholesky_ops.h>
#endif
#include <ATen/ops/cosine_similarity_ops.h>
#include <ATen/ops/cross_entropy_loss_ops.h>
#include <ATen/ops/fractional_max_pool2d_ops.h>
#include <ATen/ops/linalg_cholesky_ops.h>
#include <ATen/ops/mv_ops.h>
#include <ATen/ops/orgqr_ops.h>
#include <ATen/ops/smooth_l1_loss_ops.h>
#include <ATen/ops/upsample_bicubic2d_ops.h>

namespace polycast::autocast {

namespace ops = at::_ops;

void rows_4(std::vector<Row>& rows, std::vector<Names>& names) {
  names.push_back({"adaptive_avg_pool3d", "torch.nn.functional.adaptive_avg_pool3d torch.nn.AdaptiveAvgPool3d"});
  rows.push_back({"adaptive_avg_pool3d", "default", "cpu", Category::fp32, kernel<ops::adaptive_avg_pool3d, Category::fp32>});
  names.push_back({"addbmm", "torch.addbmm torch.Tensor.addbmm"});
  rows.push_back({"addbmm", "default", "cuda", Category::lower_precision_fp, kernel<ops::addbmm, Category::lower_precision_fp>});
  rows.push_back({"addbmm", "default", "xla", Category::lower_precision_fp, kernel<ops::addbmm, Category::lower_precision_fp>});
  rows.push_back({"addbmm", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::addbmm, Category::lower_precision_fp>});
  rows.push_back({"addbmm", "default", "xpu", Category::lower_precision_fp, kernel<ops::addbmm, Category::lower_precision_fp>});
  rows.push_back({"addbmm", "default", "cpu", Category::lower_precision_fp, kernel<ops::addbmm, Category::lower_precision_fp>});
  rows.push_back({"addbmm", "default", "mps", Category::lower_precision_fp, kernel<ops::addbmm, Category::lower_precision_fp>});
  rows.push_back({"addbmm", "default", "mtia", Category::lower_precision_fp, kernel<ops::addbmm, Category::lower_precision_fp>});
  rows.push_back({"addbmm", "default", "maia", Category::lower_precision_fp, kernel<ops::addbmm, Category::lower_precision_fp>});
  rows.push_back({"addbmm", "default", "hpu", Category::lower_precision_fp, kernel<ops::addbmm, Category::lower_precision_fp>});
  rows.push_back({"addbmm", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::addbmm, Category::lower_precision_fp>});
  names.push_back({"binary_cross_entropy", "torch.nn.functional.binary_cross_entropy torch.nn.BCELoss"});
  rows.push_back({"binary_cross_entropy", "default", "cuda", Category::banned, nullptr, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  rows.push_back({"binary_cross_entropy", "default", "xla", Category::fp32, kernel<ops::binary_cross_entropy, Category::fp32>});
  rows.push_back({"binary_cross_entropy", "default", "xla_gpu", Category::banned, nullptr, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  rows.push_back({"binary_cross_entropy", "default", "xpu", Category::fp32, kernel<ops::binary_cross_entropy, Category::fp32>, "Listed as float32 in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch bans it there."});
  rows.push_back({"binary_cross_entropy", "default", "cpu", Category::fp32, kernel<ops::binary_cross_entropy, Category::fp32>});
  rows.push_back({"binary_cross_entropy", "default", "mtia", Category::banned, nullptr, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  rows.push_back({"binary_cross_entropy", "default", "maia", Category::banned, nullptr, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  rows.push_back({"binary_cross_entropy", "default", "hpu", Category::banned, nullptr, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  rows.push_back({"binary_cross_entropy", "default", "privateuse1", Category::banned, nullptr, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  names.push_back({"binary_cross_entropy_with_logits", "torch.nn.functional.binary_cross_entropy_with_logits torch.nn.BCEWithLogitsLoss"});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "cuda", Category::fp32, kernel<ops::binary_cross_entropy_with_logits, Category::fp32>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "xla", Category::fp32, kernel<ops::binary_cross_entropy_with_logits, Category::fp32>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "xla_gpu", Category::fp32, kernel<ops::binary_cross_entropy_with_logits, Category::fp32>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "xpu", Category::fp32, kernel<ops::binary_cross_entropy_with_logits, Category::fp32>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "cpu", Category::fp32, kernel<ops::binary_cross_entropy_with_logits, Category::fp32>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "mps", Category::fp32, kernel<ops::binary_cross_entropy_with_logits, Category::fp32>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "mtia", Category::fp32, kernel<ops::binary_cross_entropy_with_logits, Category::fp32>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "maia", Category::fp32, kernel<ops::binary_cross_entropy_with_logits, Category::fp32>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "hpu", Category::fp32, kernel<ops::binary_cross_entropy_with_logits, Category::fp32>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "privateuse1", Category::fp32, kernel<ops::binary_cross_entropy_with_logits, Category::fp32>});
  names.push_back({"cholesky", "torch.cholesky torch.Tensor.cholesky"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2014
  rows.push_back({"cholesky", "default", "xla", Category::fp32, kernel<ops::cholesky, Category::fp32>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2014
  rows.push_back({"cholesky", "default", "cpu", Category::fp32, kernel<ops::cholesky, Category::fp32>});
#endif
  names.push_back({"cosine_similarity", "torch.nn.functional.cosine_similarity torch.nn.CosineSimilarity"});
  rows.push_back({"cosine_similarity", "default", "cuda", Category::fp32, kernel<ops::cosine_similarity, Category::fp32>});
  rows.push_back({"cosine_similarity", "default", "xla_gpu", Category::fp32, kernel<ops::cosine_similarity, Category::fp32>});
  rows.push_back({"cosine_similarity", "default", "xpu", Category::fp32, kernel<ops::cosine_similarity, Category::fp32>});
  rows.push_back({"cosine_similarity", "default", "mps", Category::fp32, kernel<ops::cosine_similarity, Category::fp32>});
  rows.push_back({"cosine_similarity", "default", "mtia", Category::fp32, kernel<ops::cosine_similarity, Category::fp32>});
  rows.push_back({"cosine_similarity", "default", "maia", Category::fp32, kernel<ops::cosine_similarity, Category::fp32>});
  rows.push_back({"cosine_similarity", "default", "hpu", Category::fp32, kernel<ops::cosine_similarity, Category::fp32>});
  rows.push_back({"cosine_similarity", "default", "privateuse1", Category::fp32, kernel<ops::cosine_similarity, Category::fp32>});
  names.push_back({"cross_entropy_loss", "torch.nn.functional.cross_entropy torch.nn.CrossEntropyLoss"});
  rows.push_back({"cross_entropy_loss", "default", "xla", Category::fp32, kernel<ops::cross_entropy_loss, Category::fp32>});
  rows.push_back({"cross_entropy_loss", "default", "xpu", Category::fp32, kernel<ops::cross_entropy_loss, Category::fp32>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch casts only the ops inside its decomposition."});
  rows.push_back({"cross_entropy_loss", "default", "cpu", Category::fp32, kernel<ops::cross_entropy_loss, Category::fp32>});
  names.push_back({"fractional_max_pool2d", "torch.nn.functional.fractional_max_pool2d torch.nn.FractionalMaxPool2d"});
  rows.push_back({"fractional_max_pool2d", "default", "cpu", Category::fp32, kernel<ops::fractional_max_pool2d, Category::fp32>});
  names.push_back({"linalg_cholesky", "torch.linalg.cholesky"});
  rows.push_back({"linalg_cholesky", "default", "cpu", Category::fp32, kernel<ops::linalg_cholesky, Category::fp32>});
  names.push_back({"mv", "torch.mv torch.Tensor.mv"});
  rows.push_back({"mv", "default", "cuda", Category::lower_precision_fp, kernel<ops::mv, Category::lower_precision_fp>});
  rows.push_back({"mv", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::mv, Category::lower_precision_fp>});
  rows.push_back({"mv", "default", "xpu", Category::lower_precision_fp, kernel<ops::mv, Category::lower_precision_fp>});
  rows.push_back({"mv", "default", "mps", Category::lower_precision_fp, kernel<ops::mv, Category::lower_precision_fp>});
  rows.push_back({"mv", "default", "mtia", Category::lower_precision_fp, kernel<ops::mv, Category::lower_precision_fp>});
  rows.push_back({"mv", "default", "maia", Category::lower_precision_fp, kernel<ops::mv, Category::lower_precision_fp>});
  rows.push_back({"mv", "default", "hpu", Category::lower_precision_fp, kernel<ops::mv, Category::lower_precision_fp>});
  rows.push_back({"mv", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::mv, Category::lower_precision_fp>});
  names.push_back({"orgqr", "torch.orgqr torch.Tensor.orgqr"});
  rows.push_back({"orgqr", "default", "cpu", Category::fp32, kernel<ops::orgqr, Category::fp32>});
  names.push_back({"smooth_l1_loss", "torch.nn.functional.smooth_l1_loss torch.nn.SmoothL1Loss"});
  rows.push_back({"smooth_l1_loss", "default", "cuda", Category::fp32, kernel<ops::smooth_l1_loss, Category::fp32>});
  rows.push_back({"smooth_l1_loss", "default", "xla", Category::fp32, kernel<ops::smooth_l1_loss, Category::fp32>});
  rows.push_back({"smooth_l1_loss", "default", "xla_gpu", Category::fp32, kernel<ops::smooth_l1_loss, Category::fp32>});
  rows.push_back({"smooth_l1_loss", "default", "xpu", Category::fp32, kernel<ops::smooth_l1_loss, Category::fp32>});
  rows.push_back({"smooth_l1_loss", "default", "cpu", Category::fp32, kernel<ops::smooth_l1_loss, Category::fp32>});
  rows.push_back({"smooth_l1_loss", "default", "mps", Category::fp32, kernel<ops::smooth_l1_loss, Category::fp32>});
  rows.push_back({"smooth_l1_loss", "default", "mtia", Category::fp32, kernel<ops::smooth_l1_loss, Category::fp32>});
  rows.push_back({"smooth_l1_loss", "default", "maia", Category::fp32, kernel<ops::smooth_l1_loss, Category::fp32>});
  rows.push_back({"smooth_l1_loss", "default", "hpu", Category::fp32, kernel<ops::smooth_l1_loss, Category::fp32>});
  rows.push_back({"smooth_l1_loss", "default", "privateuse1", Category::fp32, kernel<ops::smooth_l1_loss, Category::fp32>});
  names.push_back({"upsample_bicubic2d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  rows.push_back({"upsample_bicubic2d", "default", "cuda", Category::fp32, kernel<ops::upsample_bicubic2d, Category::fp32>});
  rows.push_back({"upsample_bicubic2d", "default", "xla_gpu", Category::fp32, kernel<ops::upsample_bicubic2d, Category::fp32>});
  rows.push_back({"upsample_bicubic2d", "default", "xpu", Category::fp32, kernel<ops::upsample_bicubic2d, Category::fp32>});
  rows.push_back({"upsample_bicubic2d", "default", "mtia", Category::fp32, kernel<ops::upsample_bicubic2d, Category::fp32>});
  rows.push_back({"upsample_bicubic2d", "default", "maia", Category::fp32, kernel<ops::upsample_bicubic2d, Category::fp32>});
  rows.push_back({"upsample_bicubic2d", "default", "hpu", Category::fp32, kernel<ops::upsample_bicubic2d, Category::fp32>});
  rows.push_back({"upsample_bicubic2d", "default", "privateuse1", Category::fp32, kernel<ops::upsample_bicubic2d, Category::fp32>});
}

} // namespace polycast::autocast
