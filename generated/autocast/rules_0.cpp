// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/kernel.h"

#include <torch/version.h>

#include <ATen/ops/_addmm_activation_ops.h>
#include <ATen/ops/_thnn_fused_lstm_cell_ops.h>
#include <ATen/ops/_upsample_nearest_exact3d_ops.h>
#include <ATen/ops/adaptive_avg_pool3d_ops.h>
#include <ATen/ops/addbmm_ops.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/binary_cross_entropy_ops.h>
#include <ATen/ops/binary_cross_entropy_with_logits_ops.h>
#include <ATen/ops/cat_ops.h>
#if __has_include(<ATen/ops/cholesky_ops.h>)
#include <ATen/ops/cholesky_ops.h>
#endif
#include <ATen/ops/conv3d_ops.h>
#include <ATen/ops/conv_transpose1d_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/cosine_similarity_ops.h>
#include <ATen/ops/cross_entropy_loss_ops.h>
#include <ATen/ops/fft_fft2_ops.h>
#include <ATen/ops/fft_ifft_ops.h>
#include <ATen/ops/fft_ihfft_ops.h>
#include <ATen/ops/fractional_max_pool2d_ops.h>
#include <ATen/ops/frobenius_norm_ops.h>
#include <ATen/ops/group_norm_ops.h>
#include <ATen/ops/inverse_ops.h>
#include <ATen/ops/l1_loss_ops.h>
#include <ATen/ops/linalg_cholesky_ops.h>
#include <ATen/ops/linalg_eigvalsh_ops.h>
#include <ATen/ops/linalg_householder_product_ops.h>
#include <ATen/ops/linalg_inv_ops.h>
#include <ATen/ops/linalg_matrix_rank_ops.h>
#if __has_include(<ATen/ops/linalg_matrix_sqrth_ops.h>)
#include <ATen/ops/linalg_matrix_sqrth_ops.h>
#endif
#include <ATen/ops/mkldnn_rnn_layer_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mv_ops.h>
#include <ATen/ops/nll_loss_nd_ops.h>
#include <ATen/ops/norm_ops.h>
#include <ATen/ops/orgqr_ops.h>
#if __has_include(<ATen/ops/qr_ops.h>)
#include <ATen/ops/qr_ops.h>
#endif
#include <ATen/ops/quantile_ops.h>
#include <ATen/ops/reflection_pad3d_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/renorm_ops.h>
#include <ATen/ops/replication_pad1d_ops.h>
#include <ATen/ops/rms_norm_ops.h>
#include <ATen/ops/smooth_l1_loss_ops.h>
#include <ATen/ops/upsample_bicubic2d_ops.h>
#include <ATen/ops/upsample_bilinear2d_ops.h>
#include <ATen/ops/upsample_nearest2d_ops.h>

namespace polycast::autocast {

namespace ops = at::_ops;

void rules_0(std::vector<BuiltInRule>& rules, std::vector<PublicNames>& names) {
  names.push_back({"_addmm_activation", "torch._addmm_activation"});
  add_rules(rules, "cpu", {"_addmm_activation", "default", Category::lower_precision_fp, kernel<ops::_addmm_activation>});
  names.push_back({"_thnn_fused_lstm_cell", "torch.ops.aten._thnn_fused_lstm_cell"});
  add_rules(rules, "cuda xpu tpu", {"_thnn_fused_lstm_cell", "default", Category::lower_precision_fp, kernel<ops::_thnn_fused_lstm_cell>});
  names.push_back({"_upsample_nearest_exact3d", "torch.nn.functional.interpolate torch._C._nn._upsample_nearest_exact3d torch.nn.Upsample"});
  add_rules(rules, "cuda xpu -npu -mlu", {"_upsample_nearest_exact3d", "default", Category::fp32, kernel<ops::_upsample_nearest_exact3d>});
  names.push_back({"adaptive_avg_pool3d", "torch.nn.functional.adaptive_avg_pool3d torch.nn.AdaptiveAvgPool3d"});
  add_rules(rules, "cpu", {"adaptive_avg_pool3d", "default", Category::fp32, kernel<ops::adaptive_avg_pool3d>});
  names.push_back({"addbmm", "torch.addbmm torch.Tensor.addbmm"});
  add_rules(rules, "cuda xla xpu cpu mps", {"addbmm", "default", Category::lower_precision_fp, kernel<ops::addbmm>});
  names.push_back({"addcdiv", "torch.addcdiv torch.Tensor.addcdiv"});
  add_rules(rules, "cuda xpu mps", {"addcdiv", "default", Category::promote, kernel<ops::addcdiv>});
  names.push_back({"addcmul", "torch.addcmul torch.Tensor.addcmul"});
  add_rules(rules, "cuda xpu mps", {"addcmul", "default", Category::promote, kernel<ops::addcmul>});
  names.push_back({"binary_cross_entropy", "torch.nn.functional.binary_cross_entropy torch.nn.BCELoss"});
  add_rules(rules, "cuda", {"binary_cross_entropy", "default", Category::banned, kernel<ops::binary_cross_entropy>, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  add_rules(rules, "xla cpu", {"binary_cross_entropy", "default", Category::fp32, kernel<ops::binary_cross_entropy>});
  add_rules(rules, "xpu", {"binary_cross_entropy", "default", Category::fp32, kernel<ops::binary_cross_entropy>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it as float32; PyTorch bans it."});
  names.push_back({"binary_cross_entropy_with_logits", "torch.nn.functional.binary_cross_entropy_with_logits torch.nn.BCEWithLogitsLoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"binary_cross_entropy_with_logits", "default", Category::fp32, kernel<ops::binary_cross_entropy_with_logits>});
  names.push_back({"cat", "torch.cat torch.concat torch.concatenate torch.hstack torch.vstack torch.row_stack torch.dstack torch.column_stack"});
  add_rules(rules, "xla cpu -tpu", {"cat", "default", Category::promote, kernel<ops::cat>});
  add_rules(rules, "xpu", {"cat", "default", Category::promote, kernel<ops::cat>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; in PyTorch the op itself promotes."});
  names.push_back({"cholesky", "torch.cholesky torch.Tensor.cholesky"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2014
  add_rules(rules, "xla cpu", {"cholesky", "default", Category::fp32, kernel<ops::cholesky>});
#endif
  names.push_back({"conv3d", "torch.nn.functional.conv3d torch.nn.Conv3d torch.conv3d"});
  add_rules(rules, "cuda xla xpu cpu mps", {"conv3d", "default", Category::lower_precision_fp, kernel<ops::conv3d>});
  add_rules(rules, "cuda xpu mps", {"conv3d", "padding", Category::lower_precision_fp, kernel<ops::conv3d_padding>, "PyTorch casts the ops of its decomposition instead."});
  add_rules(rules, "xla cpu", {"conv3d", "padding", Category::lower_precision_fp, kernel<ops::conv3d_padding>});
  names.push_back({"conv_transpose1d", "torch.nn.functional.conv_transpose1d torch.nn.ConvTranspose1d torch.conv_transpose1d"});
  add_rules(rules, "cuda xla xpu cpu mps", {"conv_transpose1d", "default", Category::lower_precision_fp, kernel<ops::conv_transpose1d>});
  names.push_back({"convolution", "torch.convolution"});
  add_rules(rules, "cuda xpu mps tpu", {"convolution", "default", Category::lower_precision_fp, kernel<ops::convolution>});
  names.push_back({"cosine_similarity", "torch.nn.functional.cosine_similarity torch.nn.CosineSimilarity"});
  add_rules(rules, "cuda xpu mps", {"cosine_similarity", "default", Category::fp32, kernel<ops::cosine_similarity>});
  names.push_back({"cross_entropy_loss", "torch.nn.functional.cross_entropy torch.nn.CrossEntropyLoss"});
  add_rules(rules, "xla cpu", {"cross_entropy_loss", "default", Category::fp32, kernel<ops::cross_entropy_loss>});
  add_rules(rules, "xpu", {"cross_entropy_loss", "default", Category::fp32, kernel<ops::cross_entropy_loss>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch casts only the ops of its decomposition."});
  names.push_back({"fft_fft2", "torch.fft.fft2"});
  add_rules(rules, "xpu", {"fft_fft2", "default", Category::fp32, kernel<ops::fft_fft2>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_fft2", "default", Category::fp32, kernel<ops::fft_fft2>});
  names.push_back({"fft_ifft", "torch.fft.ifft"});
  add_rules(rules, "xpu", {"fft_ifft", "default", Category::fp32, kernel<ops::fft_ifft>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_ifft", "default", Category::fp32, kernel<ops::fft_ifft>});
  names.push_back({"fft_ihfft", "torch.fft.ihfft"});
  add_rules(rules, "xpu", {"fft_ihfft", "default", Category::fp32, kernel<ops::fft_ihfft>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_ihfft", "default", Category::fp32, kernel<ops::fft_ihfft>});
  names.push_back({"fractional_max_pool2d", "torch.nn.functional.fractional_max_pool2d torch.nn.FractionalMaxPool2d"});
  add_rules(rules, "cpu", {"fractional_max_pool2d", "default", Category::fp32, kernel<ops::fractional_max_pool2d>});
  names.push_back({"frobenius_norm", "torch.frobenius_norm torch.norm torch.Tensor.norm"});
  add_rules(rules, "cuda xpu mps", {"frobenius_norm", "dim", Category::fp32, kernel<ops::frobenius_norm_dim>});
  names.push_back({"group_norm", "torch.nn.functional.group_norm torch.nn.GroupNorm"});
  add_rules(rules, "cuda xpu mps", {"group_norm", "default", Category::fp32, kernel<ops::group_norm>});
  names.push_back({"inverse", "torch.inverse torch.Tensor.inverse"});
  add_rules(rules, "xla cpu", {"inverse", "default", Category::fp32, kernel<ops::inverse>});
  names.push_back({"l1_loss", "torch.nn.functional.l1_loss torch.nn.L1Loss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"l1_loss", "default", Category::fp32, kernel<ops::l1_loss>});
  names.push_back({"linalg_cholesky", "torch.linalg.cholesky"});
  add_rules(rules, "cpu", {"linalg_cholesky", "default", Category::fp32, kernel<ops::linalg_cholesky>});
  names.push_back({"linalg_eigvalsh", "torch.linalg.eigvalsh"});
  add_rules(rules, "cpu", {"linalg_eigvalsh", "default", Category::fp32, kernel<ops::linalg_eigvalsh>});
  names.push_back({"linalg_householder_product", "torch.linalg.householder_product"});
  add_rules(rules, "cpu", {"linalg_householder_product", "default", Category::fp32, kernel<ops::linalg_householder_product>});
  names.push_back({"linalg_inv", "torch.linalg.inv"});
  add_rules(rules, "cpu", {"linalg_inv", "default", Category::fp32, kernel<ops::linalg_inv>});
  names.push_back({"linalg_matrix_rank", "torch.linalg.matrix_rank"});
  add_rules(rules, "cpu", {"linalg_matrix_rank", "default", Category::fp32, kernel<ops::linalg_matrix_rank>});
  add_rules(rules, "cpu", {"linalg_matrix_rank", "atol_rtol_float", Category::fp32, kernel<ops::linalg_matrix_rank_atol_rtol_float>});
  add_rules(rules, "cpu", {"linalg_matrix_rank", "atol_rtol_tensor", Category::fp32, kernel<ops::linalg_matrix_rank_atol_rtol_tensor>});
  add_rules(rules, "cpu", {"linalg_matrix_rank", "tol_tensor", Category::fp32, kernel<ops::linalg_matrix_rank_tol_tensor>});
  names.push_back({"linalg_matrix_sqrth", "torch.linalg.matrix_sqrth"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2014
  add_rules(rules, "cuda -xla_gpu cpu -mtia -maia -hpu -privateuse1 -tpu", {"linalg_matrix_sqrth", "default", Category::fp32, kernel<ops::linalg_matrix_sqrth>});
#endif
  names.push_back({"mkldnn_rnn_layer", "torch.mkldnn_rnn_layer"});
  add_rules(rules, "cpu -tpu", {"mkldnn_rnn_layer", "default", Category::lower_precision_fp, kernel<ops::mkldnn_rnn_layer>});
  names.push_back({"mm", "torch.mm torch.Tensor.mm"});
  add_rules(rules, "cuda xla xpu cpu mps", {"mm", "default", Category::lower_precision_fp, kernel<ops::mm>});
  names.push_back({"mv", "torch.mv torch.Tensor.mv"});
  add_rules(rules, "cuda xpu mps tpu", {"mv", "default", Category::lower_precision_fp, kernel<ops::mv>});
  names.push_back({"nll_loss_nd", "torch.nn.functional.nll_loss torch._C._nn.nll_loss_nd torch.nn.NLLLoss"});
  add_rules(rules, "xpu", {"nll_loss_nd", "default", Category::fp32, kernel<ops::nll_loss_nd>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch casts only the ops of its decomposition."});
  names.push_back({"norm", "torch.norm torch.Tensor.norm torch.nn.functional.normalize torch.nn.functional.pairwise_distance torch.nn.PairwiseDistance"});
  add_rules(rules, "cuda xpu", {"norm", "Scalar", Category::fp32_append_dtype, kernel<ops::norm_Scalar, ops::norm_ScalarOpt_dtype>});
  add_rules(rules, "cuda xpu", {"norm", "ScalarOpt_dim", Category::fp32_append_dtype, kernel<ops::norm_ScalarOpt_dim, ops::norm_ScalarOpt_dim_dtype>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "cuda xpu -npu", {"norm", "names_ScalarOpt_dim", Category::fp32_append_dtype, kernel<ops::norm_names_ScalarOpt_dim, ops::norm_names_ScalarOpt_dim_dtype>});
#endif
  names.push_back({"orgqr", "torch.orgqr torch.Tensor.orgqr"});
  add_rules(rules, "cpu", {"orgqr", "default", Category::fp32, kernel<ops::orgqr>});
  names.push_back({"qr", "torch.qr torch.Tensor.qr"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2014
  add_rules(rules, "xla cpu", {"qr", "default", Category::fp32, kernel<ops::qr>});
#endif
  names.push_back({"quantile", "torch.quantile torch.Tensor.quantile"});
  add_rules(rules, "cpu", {"quantile", "default", Category::fp32, kernel<ops::quantile>});
  add_rules(rules, "cpu", {"quantile", "scalar", Category::fp32, kernel<ops::quantile_scalar>});
  names.push_back({"reflection_pad3d", "torch.nn.functional.pad torch.nn.ReflectionPad3d"});
  add_rules(rules, "xla", {"reflection_pad3d", "default", Category::fp32, kernel<ops::reflection_pad3d>, "PyTorch/XLA: automatic mixed precision lists reflection_pad; torch_xla casts the 1d and 2d forms only."});
  names.push_back({"relu", "torch.relu torch.Tensor.relu torch.nn.functional.relu torch.nn.ReLU"});
  add_rules(rules, "xla", {"relu", "default", Category::lower_precision_fp, kernel<ops::relu>});
  names.push_back({"renorm", "torch.renorm torch.Tensor.renorm"});
  add_rules(rules, "cuda xpu mps", {"renorm", "default", Category::fp32, kernel<ops::renorm>});
  names.push_back({"replication_pad1d", "torch.nn.functional.pad torch.nn.ReplicationPad1d"});
  add_rules(rules, "xla cpu", {"replication_pad1d", "default", Category::fp32, kernel<ops::replication_pad1d>});
  names.push_back({"rms_norm", "torch.nn.functional.rms_norm torch.nn.RMSNorm"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2012
  add_rules(rules, "cuda xpu -npu -mlu", {"rms_norm", "default", Category::fp32, kernel<ops::rms_norm>});
#endif
  names.push_back({"smooth_l1_loss", "torch.nn.functional.smooth_l1_loss torch.nn.SmoothL1Loss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"smooth_l1_loss", "default", Category::fp32, kernel<ops::smooth_l1_loss>});
  names.push_back({"upsample_bicubic2d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  add_rules(rules, "cuda xpu -npu -mlu", {"upsample_bicubic2d", "default", Category::fp32, kernel<ops::upsample_bicubic2d>});
  names.push_back({"upsample_bilinear2d", "torch.nn.functional.interpolate torch.nn.Upsample torch.nn.UpsamplingBilinear2d"});
  add_rules(rules, "cuda xpu -npu -mlu", {"upsample_bilinear2d", "default", Category::fp32, kernel<ops::upsample_bilinear2d>});
  names.push_back({"upsample_nearest2d", "torch.nn.functional.interpolate torch.nn.Upsample torch.nn.UpsamplingNearest2d"});
  add_rules(rules, "cuda xpu -npu -mlu", {"upsample_nearest2d", "default", Category::fp32, kernel<ops::upsample_nearest2d>});
}

} // namespace polycast::autocast
