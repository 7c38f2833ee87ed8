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
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2014
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
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2014
#include <ATen/ops/linalg_matrix_sqrth_ops.h>
#endif
#include <ATen/ops/mkldnn_rnn_layer_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mv_ops.h>
#include <ATen/ops/nll_loss_nd_ops.h>
#include <ATen/ops/norm_ops.h>
#include <ATen/ops/orgqr_ops.h>
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2014
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

void rows_0(std::vector<Row>& rows, std::vector<Names>& names) {
  names.push_back({"_addmm_activation", "torch._addmm_activation"});
  rows.push_back({"_addmm_activation", "default", "cpu", Category::lower_precision_fp, kernel<ops::_addmm_activation>});
  names.push_back({"_thnn_fused_lstm_cell", "torch.ops.aten._thnn_fused_lstm_cell"});
  rows.push_back({"_thnn_fused_lstm_cell", "default", "cuda", Category::lower_precision_fp, kernel<ops::_thnn_fused_lstm_cell>});
  rows.push_back({"_thnn_fused_lstm_cell", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::_thnn_fused_lstm_cell>});
  rows.push_back({"_thnn_fused_lstm_cell", "default", "xpu", Category::lower_precision_fp, kernel<ops::_thnn_fused_lstm_cell>});
  rows.push_back({"_thnn_fused_lstm_cell", "default", "mtia", Category::lower_precision_fp, kernel<ops::_thnn_fused_lstm_cell>});
  rows.push_back({"_thnn_fused_lstm_cell", "default", "maia", Category::lower_precision_fp, kernel<ops::_thnn_fused_lstm_cell>});
  rows.push_back({"_thnn_fused_lstm_cell", "default", "hpu", Category::lower_precision_fp, kernel<ops::_thnn_fused_lstm_cell>});
  rows.push_back({"_thnn_fused_lstm_cell", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::_thnn_fused_lstm_cell>});
  names.push_back({"_upsample_nearest_exact3d", "torch.nn.functional.interpolate torch._C._nn._upsample_nearest_exact3d torch.nn.Upsample"});
  rows.push_back({"_upsample_nearest_exact3d", "default", "cuda", Category::fp32, kernel<ops::_upsample_nearest_exact3d>});
  rows.push_back({"_upsample_nearest_exact3d", "default", "xla_gpu", Category::fp32, kernel<ops::_upsample_nearest_exact3d>});
  rows.push_back({"_upsample_nearest_exact3d", "default", "xpu", Category::fp32, kernel<ops::_upsample_nearest_exact3d>});
  rows.push_back({"_upsample_nearest_exact3d", "default", "mtia", Category::fp32, kernel<ops::_upsample_nearest_exact3d>});
  rows.push_back({"_upsample_nearest_exact3d", "default", "maia", Category::fp32, kernel<ops::_upsample_nearest_exact3d>});
  rows.push_back({"_upsample_nearest_exact3d", "default", "hpu", Category::fp32, kernel<ops::_upsample_nearest_exact3d>});
  rows.push_back({"_upsample_nearest_exact3d", "default", "privateuse1", Category::fp32, kernel<ops::_upsample_nearest_exact3d>});
  names.push_back({"adaptive_avg_pool3d", "torch.nn.functional.adaptive_avg_pool3d torch.nn.AdaptiveAvgPool3d"});
  rows.push_back({"adaptive_avg_pool3d", "default", "cpu", Category::fp32, kernel<ops::adaptive_avg_pool3d>});
  names.push_back({"addbmm", "torch.addbmm torch.Tensor.addbmm"});
  rows.push_back({"addbmm", "default", "cuda", Category::lower_precision_fp, kernel<ops::addbmm>});
  rows.push_back({"addbmm", "default", "xla", Category::lower_precision_fp, kernel<ops::addbmm>});
  rows.push_back({"addbmm", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::addbmm>});
  rows.push_back({"addbmm", "default", "xpu", Category::lower_precision_fp, kernel<ops::addbmm>});
  rows.push_back({"addbmm", "default", "cpu", Category::lower_precision_fp, kernel<ops::addbmm>});
  rows.push_back({"addbmm", "default", "mps", Category::lower_precision_fp, kernel<ops::addbmm>});
  rows.push_back({"addbmm", "default", "mtia", Category::lower_precision_fp, kernel<ops::addbmm>});
  rows.push_back({"addbmm", "default", "maia", Category::lower_precision_fp, kernel<ops::addbmm>});
  rows.push_back({"addbmm", "default", "hpu", Category::lower_precision_fp, kernel<ops::addbmm>});
  rows.push_back({"addbmm", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::addbmm>});
  names.push_back({"addcdiv", "torch.addcdiv torch.Tensor.addcdiv"});
  rows.push_back({"addcdiv", "default", "cuda", Category::promote, kernel<ops::addcdiv>});
  rows.push_back({"addcdiv", "default", "xla_gpu", Category::promote, kernel<ops::addcdiv>});
  rows.push_back({"addcdiv", "default", "xpu", Category::promote, kernel<ops::addcdiv>});
  rows.push_back({"addcdiv", "default", "mps", Category::promote, kernel<ops::addcdiv>});
  rows.push_back({"addcdiv", "default", "mtia", Category::promote, kernel<ops::addcdiv>});
  rows.push_back({"addcdiv", "default", "maia", Category::promote, kernel<ops::addcdiv>});
  rows.push_back({"addcdiv", "default", "hpu", Category::promote, kernel<ops::addcdiv>});
  rows.push_back({"addcdiv", "default", "privateuse1", Category::promote, kernel<ops::addcdiv>});
  names.push_back({"addcmul", "torch.addcmul torch.Tensor.addcmul"});
  rows.push_back({"addcmul", "default", "cuda", Category::promote, kernel<ops::addcmul>});
  rows.push_back({"addcmul", "default", "xla_gpu", Category::promote, kernel<ops::addcmul>});
  rows.push_back({"addcmul", "default", "xpu", Category::promote, kernel<ops::addcmul>});
  rows.push_back({"addcmul", "default", "mps", Category::promote, kernel<ops::addcmul>});
  rows.push_back({"addcmul", "default", "mtia", Category::promote, kernel<ops::addcmul>});
  rows.push_back({"addcmul", "default", "maia", Category::promote, kernel<ops::addcmul>});
  rows.push_back({"addcmul", "default", "hpu", Category::promote, kernel<ops::addcmul>});
  rows.push_back({"addcmul", "default", "privateuse1", Category::promote, kernel<ops::addcmul>});
  names.push_back({"binary_cross_entropy", "torch.nn.functional.binary_cross_entropy torch.nn.BCELoss"});
  rows.push_back({"binary_cross_entropy", "default", "cuda", Category::banned, kernel<ops::binary_cross_entropy>, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  rows.push_back({"binary_cross_entropy", "default", "xla", Category::fp32, kernel<ops::binary_cross_entropy>});
  rows.push_back({"binary_cross_entropy", "default", "xla_gpu", Category::banned, kernel<ops::binary_cross_entropy>, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  rows.push_back({"binary_cross_entropy", "default", "xpu", Category::fp32, kernel<ops::binary_cross_entropy>, "Listed as float32 in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch bans it there."});
  rows.push_back({"binary_cross_entropy", "default", "cpu", Category::fp32, kernel<ops::binary_cross_entropy>});
  rows.push_back({"binary_cross_entropy", "default", "mtia", Category::banned, kernel<ops::binary_cross_entropy>, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  rows.push_back({"binary_cross_entropy", "default", "maia", Category::banned, kernel<ops::binary_cross_entropy>, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  rows.push_back({"binary_cross_entropy", "default", "hpu", Category::banned, kernel<ops::binary_cross_entropy>, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  rows.push_back({"binary_cross_entropy", "default", "privateuse1", Category::banned, kernel<ops::binary_cross_entropy>, "", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient may not be representable in float16. Use binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe."});
  names.push_back({"binary_cross_entropy_with_logits", "torch.nn.functional.binary_cross_entropy_with_logits torch.nn.BCEWithLogitsLoss"});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "cuda", Category::fp32, kernel<ops::binary_cross_entropy_with_logits>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "xla", Category::fp32, kernel<ops::binary_cross_entropy_with_logits>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "xla_gpu", Category::fp32, kernel<ops::binary_cross_entropy_with_logits>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "xpu", Category::fp32, kernel<ops::binary_cross_entropy_with_logits>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "cpu", Category::fp32, kernel<ops::binary_cross_entropy_with_logits>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "mps", Category::fp32, kernel<ops::binary_cross_entropy_with_logits>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "mtia", Category::fp32, kernel<ops::binary_cross_entropy_with_logits>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "maia", Category::fp32, kernel<ops::binary_cross_entropy_with_logits>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "hpu", Category::fp32, kernel<ops::binary_cross_entropy_with_logits>});
  rows.push_back({"binary_cross_entropy_with_logits", "default", "privateuse1", Category::fp32, kernel<ops::binary_cross_entropy_with_logits>});
  names.push_back({"cat", "torch.cat torch.concat torch.concatenate torch.hstack torch.vstack torch.row_stack torch.dstack torch.column_stack"});
  rows.push_back({"cat", "default", "xla", Category::promote, kernel<ops::cat>});
  rows.push_back({"cat", "default", "xpu", Category::promote, kernel<ops::cat>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch leaves it to the op's own promotion."});
  rows.push_back({"cat", "default", "cpu", Category::promote, kernel<ops::cat>});
  names.push_back({"cholesky", "torch.cholesky torch.Tensor.cholesky"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2014
  rows.push_back({"cholesky", "default", "xla", Category::fp32, kernel<ops::cholesky>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2014
  rows.push_back({"cholesky", "default", "cpu", Category::fp32, kernel<ops::cholesky>});
#endif
  names.push_back({"conv3d", "torch.nn.functional.conv3d torch.nn.Conv3d torch.conv3d"});
  rows.push_back({"conv3d", "default", "cuda", Category::lower_precision_fp, kernel<ops::conv3d>});
  rows.push_back({"conv3d", "default", "xla", Category::lower_precision_fp, kernel<ops::conv3d>});
  rows.push_back({"conv3d", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv3d>});
  rows.push_back({"conv3d", "default", "xpu", Category::lower_precision_fp, kernel<ops::conv3d>});
  rows.push_back({"conv3d", "default", "cpu", Category::lower_precision_fp, kernel<ops::conv3d>});
  rows.push_back({"conv3d", "default", "mps", Category::lower_precision_fp, kernel<ops::conv3d>});
  rows.push_back({"conv3d", "default", "mtia", Category::lower_precision_fp, kernel<ops::conv3d>});
  rows.push_back({"conv3d", "default", "maia", Category::lower_precision_fp, kernel<ops::conv3d>});
  rows.push_back({"conv3d", "default", "hpu", Category::lower_precision_fp, kernel<ops::conv3d>});
  rows.push_back({"conv3d", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::conv3d>});
  rows.push_back({"conv3d", "padding", "cuda", Category::lower_precision_fp, kernel<ops::conv3d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv3d", "padding", "xla", Category::lower_precision_fp, kernel<ops::conv3d_padding>});
  rows.push_back({"conv3d", "padding", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv3d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv3d", "padding", "xpu", Category::lower_precision_fp, kernel<ops::conv3d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv3d", "padding", "cpu", Category::lower_precision_fp, kernel<ops::conv3d_padding>});
  rows.push_back({"conv3d", "padding", "mps", Category::lower_precision_fp, kernel<ops::conv3d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv3d", "padding", "mtia", Category::lower_precision_fp, kernel<ops::conv3d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv3d", "padding", "maia", Category::lower_precision_fp, kernel<ops::conv3d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv3d", "padding", "hpu", Category::lower_precision_fp, kernel<ops::conv3d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv3d", "padding", "privateuse1", Category::lower_precision_fp, kernel<ops::conv3d_padding>, "Torch casts inside the decomposition instead."});
  names.push_back({"conv_transpose1d", "torch.nn.functional.conv_transpose1d torch.nn.ConvTranspose1d torch.conv_transpose1d"});
  rows.push_back({"conv_transpose1d", "default", "cuda", Category::lower_precision_fp, kernel<ops::conv_transpose1d>});
  rows.push_back({"conv_transpose1d", "default", "xla", Category::lower_precision_fp, kernel<ops::conv_transpose1d>});
  rows.push_back({"conv_transpose1d", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv_transpose1d>});
  rows.push_back({"conv_transpose1d", "default", "xpu", Category::lower_precision_fp, kernel<ops::conv_transpose1d>});
  rows.push_back({"conv_transpose1d", "default", "cpu", Category::lower_precision_fp, kernel<ops::conv_transpose1d>});
  rows.push_back({"conv_transpose1d", "default", "mps", Category::lower_precision_fp, kernel<ops::conv_transpose1d>});
  rows.push_back({"conv_transpose1d", "default", "mtia", Category::lower_precision_fp, kernel<ops::conv_transpose1d>});
  rows.push_back({"conv_transpose1d", "default", "maia", Category::lower_precision_fp, kernel<ops::conv_transpose1d>});
  rows.push_back({"conv_transpose1d", "default", "hpu", Category::lower_precision_fp, kernel<ops::conv_transpose1d>});
  rows.push_back({"conv_transpose1d", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::conv_transpose1d>});
  names.push_back({"convolution", "torch.convolution"});
  rows.push_back({"convolution", "default", "cuda", Category::lower_precision_fp, kernel<ops::convolution>});
  rows.push_back({"convolution", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::convolution>});
  rows.push_back({"convolution", "default", "xpu", Category::lower_precision_fp, kernel<ops::convolution>});
  rows.push_back({"convolution", "default", "mps", Category::lower_precision_fp, kernel<ops::convolution>});
  rows.push_back({"convolution", "default", "mtia", Category::lower_precision_fp, kernel<ops::convolution>});
  rows.push_back({"convolution", "default", "maia", Category::lower_precision_fp, kernel<ops::convolution>});
  rows.push_back({"convolution", "default", "hpu", Category::lower_precision_fp, kernel<ops::convolution>});
  rows.push_back({"convolution", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::convolution>});
  names.push_back({"cosine_similarity", "torch.nn.functional.cosine_similarity torch.nn.CosineSimilarity"});
  rows.push_back({"cosine_similarity", "default", "cuda", Category::fp32, kernel<ops::cosine_similarity>});
  rows.push_back({"cosine_similarity", "default", "xla_gpu", Category::fp32, kernel<ops::cosine_similarity>});
  rows.push_back({"cosine_similarity", "default", "xpu", Category::fp32, kernel<ops::cosine_similarity>});
  rows.push_back({"cosine_similarity", "default", "mps", Category::fp32, kernel<ops::cosine_similarity>});
  rows.push_back({"cosine_similarity", "default", "mtia", Category::fp32, kernel<ops::cosine_similarity>});
  rows.push_back({"cosine_similarity", "default", "maia", Category::fp32, kernel<ops::cosine_similarity>});
  rows.push_back({"cosine_similarity", "default", "hpu", Category::fp32, kernel<ops::cosine_similarity>});
  rows.push_back({"cosine_similarity", "default", "privateuse1", Category::fp32, kernel<ops::cosine_similarity>});
  names.push_back({"cross_entropy_loss", "torch.nn.functional.cross_entropy torch.nn.CrossEntropyLoss"});
  rows.push_back({"cross_entropy_loss", "default", "xla", Category::fp32, kernel<ops::cross_entropy_loss>});
  rows.push_back({"cross_entropy_loss", "default", "xpu", Category::fp32, kernel<ops::cross_entropy_loss>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch casts only the ops inside its decomposition."});
  rows.push_back({"cross_entropy_loss", "default", "cpu", Category::fp32, kernel<ops::cross_entropy_loss>});
  names.push_back({"fft_fft2", "torch.fft.fft2"});
  rows.push_back({"fft_fft2", "default", "xpu", Category::fp32, kernel<ops::fft_fft2>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_fft2", "default", "cpu", Category::fp32, kernel<ops::fft_fft2>});
  names.push_back({"fft_ifft", "torch.fft.ifft"});
  rows.push_back({"fft_ifft", "default", "xpu", Category::fp32, kernel<ops::fft_ifft>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_ifft", "default", "cpu", Category::fp32, kernel<ops::fft_ifft>});
  names.push_back({"fft_ihfft", "torch.fft.ihfft"});
  rows.push_back({"fft_ihfft", "default", "xpu", Category::fp32, kernel<ops::fft_ihfft>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_ihfft", "default", "cpu", Category::fp32, kernel<ops::fft_ihfft>});
  names.push_back({"fractional_max_pool2d", "torch.nn.functional.fractional_max_pool2d torch.nn.FractionalMaxPool2d"});
  rows.push_back({"fractional_max_pool2d", "default", "cpu", Category::fp32, kernel<ops::fractional_max_pool2d>});
  names.push_back({"frobenius_norm", "torch.frobenius_norm torch.norm torch.Tensor.norm"});
  rows.push_back({"frobenius_norm", "dim", "cuda", Category::fp32, kernel<ops::frobenius_norm_dim>});
  rows.push_back({"frobenius_norm", "dim", "xla_gpu", Category::fp32, kernel<ops::frobenius_norm_dim>});
  rows.push_back({"frobenius_norm", "dim", "xpu", Category::fp32, kernel<ops::frobenius_norm_dim>});
  rows.push_back({"frobenius_norm", "dim", "mps", Category::fp32, kernel<ops::frobenius_norm_dim>});
  rows.push_back({"frobenius_norm", "dim", "mtia", Category::fp32, kernel<ops::frobenius_norm_dim>});
  rows.push_back({"frobenius_norm", "dim", "maia", Category::fp32, kernel<ops::frobenius_norm_dim>});
  rows.push_back({"frobenius_norm", "dim", "hpu", Category::fp32, kernel<ops::frobenius_norm_dim>});
  rows.push_back({"frobenius_norm", "dim", "privateuse1", Category::fp32, kernel<ops::frobenius_norm_dim>});
  names.push_back({"group_norm", "torch.nn.functional.group_norm torch.nn.GroupNorm"});
  rows.push_back({"group_norm", "default", "cuda", Category::fp32, kernel<ops::group_norm>});
  rows.push_back({"group_norm", "default", "xla_gpu", Category::fp32, kernel<ops::group_norm>});
  rows.push_back({"group_norm", "default", "xpu", Category::fp32, kernel<ops::group_norm>});
  rows.push_back({"group_norm", "default", "mps", Category::fp32, kernel<ops::group_norm>});
  rows.push_back({"group_norm", "default", "mtia", Category::fp32, kernel<ops::group_norm>});
  rows.push_back({"group_norm", "default", "maia", Category::fp32, kernel<ops::group_norm>});
  rows.push_back({"group_norm", "default", "hpu", Category::fp32, kernel<ops::group_norm>});
  rows.push_back({"group_norm", "default", "privateuse1", Category::fp32, kernel<ops::group_norm>});
  names.push_back({"inverse", "torch.inverse torch.Tensor.inverse"});
  rows.push_back({"inverse", "default", "xla", Category::fp32, kernel<ops::inverse>});
  rows.push_back({"inverse", "default", "cpu", Category::fp32, kernel<ops::inverse>});
  names.push_back({"l1_loss", "torch.nn.functional.l1_loss torch.nn.L1Loss"});
  rows.push_back({"l1_loss", "default", "cuda", Category::fp32, kernel<ops::l1_loss>});
  rows.push_back({"l1_loss", "default", "xla", Category::fp32, kernel<ops::l1_loss>});
  rows.push_back({"l1_loss", "default", "xla_gpu", Category::fp32, kernel<ops::l1_loss>});
  rows.push_back({"l1_loss", "default", "xpu", Category::fp32, kernel<ops::l1_loss>});
  rows.push_back({"l1_loss", "default", "cpu", Category::fp32, kernel<ops::l1_loss>});
  rows.push_back({"l1_loss", "default", "mps", Category::fp32, kernel<ops::l1_loss>});
  rows.push_back({"l1_loss", "default", "mtia", Category::fp32, kernel<ops::l1_loss>});
  rows.push_back({"l1_loss", "default", "maia", Category::fp32, kernel<ops::l1_loss>});
  rows.push_back({"l1_loss", "default", "hpu", Category::fp32, kernel<ops::l1_loss>});
  rows.push_back({"l1_loss", "default", "privateuse1", Category::fp32, kernel<ops::l1_loss>});
  names.push_back({"linalg_cholesky", "torch.linalg.cholesky"});
  rows.push_back({"linalg_cholesky", "default", "cpu", Category::fp32, kernel<ops::linalg_cholesky>});
  names.push_back({"linalg_eigvalsh", "torch.linalg.eigvalsh"});
  rows.push_back({"linalg_eigvalsh", "default", "cpu", Category::fp32, kernel<ops::linalg_eigvalsh>});
  names.push_back({"linalg_householder_product", "torch.linalg.householder_product"});
  rows.push_back({"linalg_householder_product", "default", "cpu", Category::fp32, kernel<ops::linalg_householder_product>});
  names.push_back({"linalg_inv", "torch.linalg.inv"});
  rows.push_back({"linalg_inv", "default", "cpu", Category::fp32, kernel<ops::linalg_inv>});
  names.push_back({"linalg_matrix_rank", "torch.linalg.matrix_rank"});
  rows.push_back({"linalg_matrix_rank", "default", "cpu", Category::fp32, kernel<ops::linalg_matrix_rank>});
  rows.push_back({"linalg_matrix_rank", "atol_rtol_float", "cpu", Category::fp32, kernel<ops::linalg_matrix_rank_atol_rtol_float>});
  rows.push_back({"linalg_matrix_rank", "atol_rtol_tensor", "cpu", Category::fp32, kernel<ops::linalg_matrix_rank_atol_rtol_tensor>});
  rows.push_back({"linalg_matrix_rank", "tol_tensor", "cpu", Category::fp32, kernel<ops::linalg_matrix_rank_tol_tensor>});
  names.push_back({"linalg_matrix_sqrth", "torch.linalg.matrix_sqrth"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2014
  rows.push_back({"linalg_matrix_sqrth", "default", "cuda", Category::fp32, kernel<ops::linalg_matrix_sqrth>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2014
  rows.push_back({"linalg_matrix_sqrth", "default", "cpu", Category::fp32, kernel<ops::linalg_matrix_sqrth>});
#endif
  names.push_back({"mkldnn_rnn_layer", "torch.mkldnn_rnn_layer"});
  rows.push_back({"mkldnn_rnn_layer", "default", "cpu", Category::lower_precision_fp, kernel<ops::mkldnn_rnn_layer>});
  names.push_back({"mm", "torch.mm torch.Tensor.mm"});
  rows.push_back({"mm", "default", "cuda", Category::lower_precision_fp, kernel<ops::mm>});
  rows.push_back({"mm", "default", "xla", Category::lower_precision_fp, kernel<ops::mm>});
  rows.push_back({"mm", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::mm>});
  rows.push_back({"mm", "default", "xpu", Category::lower_precision_fp, kernel<ops::mm>});
  rows.push_back({"mm", "default", "cpu", Category::lower_precision_fp, kernel<ops::mm>});
  rows.push_back({"mm", "default", "mps", Category::lower_precision_fp, kernel<ops::mm>});
  rows.push_back({"mm", "default", "mtia", Category::lower_precision_fp, kernel<ops::mm>});
  rows.push_back({"mm", "default", "maia", Category::lower_precision_fp, kernel<ops::mm>});
  rows.push_back({"mm", "default", "hpu", Category::lower_precision_fp, kernel<ops::mm>});
  rows.push_back({"mm", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::mm>});
  names.push_back({"mv", "torch.mv torch.Tensor.mv"});
  rows.push_back({"mv", "default", "cuda", Category::lower_precision_fp, kernel<ops::mv>});
  rows.push_back({"mv", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::mv>});
  rows.push_back({"mv", "default", "xpu", Category::lower_precision_fp, kernel<ops::mv>});
  rows.push_back({"mv", "default", "mps", Category::lower_precision_fp, kernel<ops::mv>});
  rows.push_back({"mv", "default", "mtia", Category::lower_precision_fp, kernel<ops::mv>});
  rows.push_back({"mv", "default", "maia", Category::lower_precision_fp, kernel<ops::mv>});
  rows.push_back({"mv", "default", "hpu", Category::lower_precision_fp, kernel<ops::mv>});
  rows.push_back({"mv", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::mv>});
  names.push_back({"nll_loss_nd", "torch.nn.functional.nll_loss torch._C._nn.nll_loss_nd torch.nn.NLLLoss"});
  rows.push_back({"nll_loss_nd", "default", "xpu", Category::fp32, kernel<ops::nll_loss_nd>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch casts only the ops inside its decomposition."});
  names.push_back({"norm", "torch.norm torch.Tensor.norm torch.nn.functional.normalize torch.nn.functional.pairwise_distance torch.nn.PairwiseDistance"});
  rows.push_back({"norm", "Scalar", "cuda", Category::fp32_append_dtype, kernel<ops::norm_Scalar, ops::norm_ScalarOpt_dtype>});
  rows.push_back({"norm", "Scalar", "xla_gpu", Category::fp32_append_dtype, kernel<ops::norm_Scalar, ops::norm_ScalarOpt_dtype>});
  rows.push_back({"norm", "Scalar", "xpu", Category::fp32_append_dtype, kernel<ops::norm_Scalar, ops::norm_ScalarOpt_dtype>});
  rows.push_back({"norm", "Scalar", "mtia", Category::fp32_append_dtype, kernel<ops::norm_Scalar, ops::norm_ScalarOpt_dtype>});
  rows.push_back({"norm", "Scalar", "maia", Category::fp32_append_dtype, kernel<ops::norm_Scalar, ops::norm_ScalarOpt_dtype>});
  rows.push_back({"norm", "Scalar", "hpu", Category::fp32_append_dtype, kernel<ops::norm_Scalar, ops::norm_ScalarOpt_dtype>});
  rows.push_back({"norm", "Scalar", "privateuse1", Category::fp32_append_dtype, kernel<ops::norm_Scalar, ops::norm_ScalarOpt_dtype>});
  rows.push_back({"norm", "ScalarOpt_dim", "cuda", Category::fp32_append_dtype, kernel<ops::norm_ScalarOpt_dim, ops::norm_ScalarOpt_dim_dtype>});
  rows.push_back({"norm", "ScalarOpt_dim", "xla_gpu", Category::fp32_append_dtype, kernel<ops::norm_ScalarOpt_dim, ops::norm_ScalarOpt_dim_dtype>});
  rows.push_back({"norm", "ScalarOpt_dim", "xpu", Category::fp32_append_dtype, kernel<ops::norm_ScalarOpt_dim, ops::norm_ScalarOpt_dim_dtype>});
  rows.push_back({"norm", "ScalarOpt_dim", "mtia", Category::fp32_append_dtype, kernel<ops::norm_ScalarOpt_dim, ops::norm_ScalarOpt_dim_dtype>});
  rows.push_back({"norm", "ScalarOpt_dim", "maia", Category::fp32_append_dtype, kernel<ops::norm_ScalarOpt_dim, ops::norm_ScalarOpt_dim_dtype>});
  rows.push_back({"norm", "ScalarOpt_dim", "hpu", Category::fp32_append_dtype, kernel<ops::norm_ScalarOpt_dim, ops::norm_ScalarOpt_dim_dtype>});
  rows.push_back({"norm", "ScalarOpt_dim", "privateuse1", Category::fp32_append_dtype, kernel<ops::norm_ScalarOpt_dim, ops::norm_ScalarOpt_dim_dtype>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"norm", "names_ScalarOpt_dim", "cuda", Category::fp32_append_dtype, kernel<ops::norm_names_ScalarOpt_dim, ops::norm_names_ScalarOpt_dim_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"norm", "names_ScalarOpt_dim", "xla_gpu", Category::fp32_append_dtype, kernel<ops::norm_names_ScalarOpt_dim, ops::norm_names_ScalarOpt_dim_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"norm", "names_ScalarOpt_dim", "xpu", Category::fp32_append_dtype, kernel<ops::norm_names_ScalarOpt_dim, ops::norm_names_ScalarOpt_dim_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"norm", "names_ScalarOpt_dim", "mtia", Category::fp32_append_dtype, kernel<ops::norm_names_ScalarOpt_dim, ops::norm_names_ScalarOpt_dim_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"norm", "names_ScalarOpt_dim", "maia", Category::fp32_append_dtype, kernel<ops::norm_names_ScalarOpt_dim, ops::norm_names_ScalarOpt_dim_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"norm", "names_ScalarOpt_dim", "hpu", Category::fp32_append_dtype, kernel<ops::norm_names_ScalarOpt_dim, ops::norm_names_ScalarOpt_dim_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"norm", "names_ScalarOpt_dim", "privateuse1", Category::fp32_append_dtype, kernel<ops::norm_names_ScalarOpt_dim, ops::norm_names_ScalarOpt_dim_dtype>});
#endif
  names.push_back({"orgqr", "torch.orgqr torch.Tensor.orgqr"});
  rows.push_back({"orgqr", "default", "cpu", Category::fp32, kernel<ops::orgqr>});
  names.push_back({"qr", "torch.qr torch.Tensor.qr"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2014
  rows.push_back({"qr", "default", "xla", Category::fp32, kernel<ops::qr>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2014
  rows.push_back({"qr", "default", "cpu", Category::fp32, kernel<ops::qr>});
#endif
  names.push_back({"quantile", "torch.quantile torch.Tensor.quantile"});
  rows.push_back({"quantile", "default", "cpu", Category::fp32, kernel<ops::quantile>});
  rows.push_back({"quantile", "scalar", "cpu", Category::fp32, kernel<ops::quantile_scalar>});
  names.push_back({"reflection_pad3d", "torch.nn.functional.pad torch.nn.ReflectionPad3d"});
  rows.push_back({"reflection_pad3d", "default", "xla", Category::fp32, kernel<ops::reflection_pad3d>, "PyTorch/XLA: automatic mixed precision (000_1ddc69e16249b2f9.txt) lists reflection_pad; torch_xla registers the 1d and 2d forms only."});
  names.push_back({"relu", "torch.relu torch.Tensor.relu torch.nn.functional.relu torch.nn.ReLU"});
  rows.push_back({"relu", "default", "xla", Category::lower_precision_fp, kernel<ops::relu>});
  names.push_back({"renorm", "torch.renorm torch.Tensor.renorm"});
  rows.push_back({"renorm", "default", "cuda", Category::fp32, kernel<ops::renorm>});
  rows.push_back({"renorm", "default", "xla_gpu", Category::fp32, kernel<ops::renorm>});
  rows.push_back({"renorm", "default", "xpu", Category::fp32, kernel<ops::renorm>});
  rows.push_back({"renorm", "default", "mps", Category::fp32, kernel<ops::renorm>});
  rows.push_back({"renorm", "default", "mtia", Category::fp32, kernel<ops::renorm>});
  rows.push_back({"renorm", "default", "maia", Category::fp32, kernel<ops::renorm>});
  rows.push_back({"renorm", "default", "hpu", Category::fp32, kernel<ops::renorm>});
  rows.push_back({"renorm", "default", "privateuse1", Category::fp32, kernel<ops::renorm>});
  names.push_back({"replication_pad1d", "torch.nn.functional.pad torch.nn.ReplicationPad1d"});
  rows.push_back({"replication_pad1d", "default", "xla", Category::fp32, kernel<ops::replication_pad1d>});
  rows.push_back({"replication_pad1d", "default", "cpu", Category::fp32, kernel<ops::replication_pad1d>});
  names.push_back({"rms_norm", "torch.nn.functional.rms_norm torch.nn.RMSNorm"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2012
  rows.push_back({"rms_norm", "default", "cuda", Category::fp32, kernel<ops::rms_norm>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2012
  rows.push_back({"rms_norm", "default", "cuda", Category::fallthrough, kernel<ops::rms_norm>, "Torch casts it from 2.12 on."});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2012
  rows.push_back({"rms_norm", "default", "xla_gpu", Category::fp32, kernel<ops::rms_norm>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2012
  rows.push_back({"rms_norm", "default", "xla_gpu", Category::fallthrough, kernel<ops::rms_norm>, "Torch casts it from 2.12 on."});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2012
  rows.push_back({"rms_norm", "default", "xpu", Category::fp32, kernel<ops::rms_norm>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2012
  rows.push_back({"rms_norm", "default", "xpu", Category::fallthrough, kernel<ops::rms_norm>, "Torch casts it from 2.12 on."});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2012
  rows.push_back({"rms_norm", "default", "mtia", Category::fp32, kernel<ops::rms_norm>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2012
  rows.push_back({"rms_norm", "default", "mtia", Category::fallthrough, kernel<ops::rms_norm>, "Torch casts it from 2.12 on."});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2012
  rows.push_back({"rms_norm", "default", "maia", Category::fp32, kernel<ops::rms_norm>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2012
  rows.push_back({"rms_norm", "default", "maia", Category::fallthrough, kernel<ops::rms_norm>, "Torch casts it from 2.12 on."});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2012
  rows.push_back({"rms_norm", "default", "hpu", Category::fp32, kernel<ops::rms_norm>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2012
  rows.push_back({"rms_norm", "default", "hpu", Category::fallthrough, kernel<ops::rms_norm>, "Torch casts it from 2.12 on."});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2012
  rows.push_back({"rms_norm", "default", "privateuse1", Category::fp32, kernel<ops::rms_norm>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2012
  rows.push_back({"rms_norm", "default", "privateuse1", Category::fallthrough, kernel<ops::rms_norm>, "Torch casts it from 2.12 on."});
#endif
  names.push_back({"smooth_l1_loss", "torch.nn.functional.smooth_l1_loss torch.nn.SmoothL1Loss"});
  rows.push_back({"smooth_l1_loss", "default", "cuda", Category::fp32, kernel<ops::smooth_l1_loss>});
  rows.push_back({"smooth_l1_loss", "default", "xla", Category::fp32, kernel<ops::smooth_l1_loss>});
  rows.push_back({"smooth_l1_loss", "default", "xla_gpu", Category::fp32, kernel<ops::smooth_l1_loss>});
  rows.push_back({"smooth_l1_loss", "default", "xpu", Category::fp32, kernel<ops::smooth_l1_loss>});
  rows.push_back({"smooth_l1_loss", "default", "cpu", Category::fp32, kernel<ops::smooth_l1_loss>});
  rows.push_back({"smooth_l1_loss", "default", "mps", Category::fp32, kernel<ops::smooth_l1_loss>});
  rows.push_back({"smooth_l1_loss", "default", "mtia", Category::fp32, kernel<ops::smooth_l1_loss>});
  rows.push_back({"smooth_l1_loss", "default", "maia", Category::fp32, kernel<ops::smooth_l1_loss>});
  rows.push_back({"smooth_l1_loss", "default", "hpu", Category::fp32, kernel<ops::smooth_l1_loss>});
  rows.push_back({"smooth_l1_loss", "default", "privateuse1", Category::fp32, kernel<ops::smooth_l1_loss>});
  names.push_back({"upsample_bicubic2d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  rows.push_back({"upsample_bicubic2d", "default", "cuda", Category::fp32, kernel<ops::upsample_bicubic2d>});
  rows.push_back({"upsample_bicubic2d", "default", "xla_gpu", Category::fp32, kernel<ops::upsample_bicubic2d>});
  rows.push_back({"upsample_bicubic2d", "default", "xpu", Category::fp32, kernel<ops::upsample_bicubic2d>});
  rows.push_back({"upsample_bicubic2d", "default", "mtia", Category::fp32, kernel<ops::upsample_bicubic2d>});
  rows.push_back({"upsample_bicubic2d", "default", "maia", Category::fp32, kernel<ops::upsample_bicubic2d>});
  rows.push_back({"upsample_bicubic2d", "default", "hpu", Category::fp32, kernel<ops::upsample_bicubic2d>});
  rows.push_back({"upsample_bicubic2d", "default", "privateuse1", Category::fp32, kernel<ops::upsample_bicubic2d>});
  names.push_back({"upsample_bilinear2d", "torch.nn.functional.interpolate torch.nn.Upsample torch.nn.UpsamplingBilinear2d"});
  rows.push_back({"upsample_bilinear2d", "default", "cuda", Category::fp32, kernel<ops::upsample_bilinear2d>});
  rows.push_back({"upsample_bilinear2d", "default", "xla_gpu", Category::fp32, kernel<ops::upsample_bilinear2d>});
  rows.push_back({"upsample_bilinear2d", "default", "xpu", Category::fp32, kernel<ops::upsample_bilinear2d>});
  rows.push_back({"upsample_bilinear2d", "default", "mtia", Category::fp32, kernel<ops::upsample_bilinear2d>});
  rows.push_back({"upsample_bilinear2d", "default", "maia", Category::fp32, kernel<ops::upsample_bilinear2d>});
  rows.push_back({"upsample_bilinear2d", "default", "hpu", Category::fp32, kernel<ops::upsample_bilinear2d>});
  rows.push_back({"upsample_bilinear2d", "default", "privateuse1", Category::fp32, kernel<ops::upsample_bilinear2d>});
  names.push_back({"upsample_nearest2d", "torch.nn.functional.interpolate torch.nn.Upsample torch.nn.UpsamplingNearest2d"});
  rows.push_back({"upsample_nearest2d", "default", "cuda", Category::fp32, kernel<ops::upsample_nearest2d>});
  rows.push_back({"upsample_nearest2d", "default", "xla_gpu", Category::fp32, kernel<ops::upsample_nearest2d>});
  rows.push_back({"upsample_nearest2d", "default", "xpu", Category::fp32, kernel<ops::upsample_nearest2d>});
  rows.push_back({"upsample_nearest2d", "default", "mtia", Category::fp32, kernel<ops::upsample_nearest2d>});
  rows.push_back({"upsample_nearest2d", "default", "maia", Category::fp32, kernel<ops::upsample_nearest2d>});
  rows.push_back({"upsample_nearest2d", "default", "hpu", Category::fp32, kernel<ops::upsample_nearest2d>});
  rows.push_back({"upsample_nearest2d", "default", "privateuse1", Category::fp32, kernel<ops::upsample_nearest2d>});
}

} // namespace polycast::autocast
