// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/kernel.h"

#include <torch/version.h>

#include <ATen/ops/_convolution_ops.h>
#include <ATen/ops/_cudnn_rnn_ops.h>
#include <ATen/ops/_grid_sampler_2d_cpu_fallback_ops.h>
#include <ATen/ops/_mps_convolution_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_ops.h>
#include <ATen/ops/_upsample_bicubic2d_aa_ops.h>
#include <ATen/ops/_upsample_bilinear2d_aa_ops.h>
#include <ATen/ops/_upsample_nearest_exact1d_ops.h>
#include <ATen/ops/asin_ops.h>
#include <ATen/ops/avg_pool3d_ops.h>
#include <ATen/ops/cholesky_solve_ops.h>
#include <ATen/ops/conv1d_ops.h>
#include <ATen/ops/conv_transpose3d_ops.h>
#include <ATen/ops/ctc_loss_ops.h>
#include <ATen/ops/cudnn_convolution_ops.h>
#include <ATen/ops/cudnn_convolution_transpose_ops.h>
#include <ATen/ops/fft_ifftn_ops.h>
#include <ATen/ops/fft_irfftn_ops.h>
#include <ATen/ops/fft_rfft_ops.h>
#include <ATen/ops/fft_rfft2_ops.h>
#include <ATen/ops/grid_sampler_2d_ops.h>
#include <ATen/ops/layer_norm_ops.h>
#include <ATen/ops/linalg_cholesky_ex_ops.h>
#include <ATen/ops/linalg_tensorinv_ops.h>
#include <ATen/ops/log2_ops.h>
#include <ATen/ops/lu_solve_ops.h>
#include <ATen/ops/margin_ranking_loss_ops.h>
#include <ATen/ops/matmul_ops.h>
#include <ATen/ops/max_pool2d_ops.h>
#include <ATen/ops/max_unpool2d_ops.h>
#include <ATen/ops/multilabel_margin_loss_forward_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <ATen/ops/ormqr_ops.h>
#include <ATen/ops/prelu_ops.h>
#include <ATen/ops/reflection_pad1d_ops.h>
#include <ATen/ops/replication_pad3d_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sinh_ops.h>
#include <ATen/ops/softmax_ops.h>
#include <ATen/ops/stack_ops.h>
#include <ATen/ops/stft_ops.h>
#include <ATen/ops/svd_ops.h>
#include <ATen/ops/upsample_trilinear3d_ops.h>

namespace polycast::autocast {

namespace ops = at::_ops;

void rows_2(std::vector<Row>& rows, std::vector<Names>& names) {
  names.push_back({"_convolution", "torch._convolution"});
  rows.push_back({"_convolution", "default", "cuda", Category::lower_precision_fp, kernel<ops::_convolution>});
  rows.push_back({"_convolution", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::_convolution>});
  rows.push_back({"_convolution", "default", "xpu", Category::lower_precision_fp, kernel<ops::_convolution>});
  rows.push_back({"_convolution", "default", "mps", Category::lower_precision_fp, kernel<ops::_convolution>});
  rows.push_back({"_convolution", "default", "mtia", Category::lower_precision_fp, kernel<ops::_convolution>});
  rows.push_back({"_convolution", "default", "maia", Category::lower_precision_fp, kernel<ops::_convolution>});
  rows.push_back({"_convolution", "default", "hpu", Category::lower_precision_fp, kernel<ops::_convolution>});
  rows.push_back({"_convolution", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::_convolution>});
  rows.push_back({"_convolution", "deprecated", "cuda", Category::lower_precision_fp, kernel<ops::_convolution_deprecated>});
  rows.push_back({"_convolution", "deprecated", "xla_gpu", Category::lower_precision_fp, kernel<ops::_convolution_deprecated>});
  rows.push_back({"_convolution", "deprecated", "xpu", Category::lower_precision_fp, kernel<ops::_convolution_deprecated>});
  rows.push_back({"_convolution", "deprecated", "cpu", Category::lower_precision_fp, kernel<ops::_convolution_deprecated>});
  rows.push_back({"_convolution", "deprecated", "mps", Category::lower_precision_fp, kernel<ops::_convolution_deprecated>});
  rows.push_back({"_convolution", "deprecated", "mtia", Category::lower_precision_fp, kernel<ops::_convolution_deprecated>});
  rows.push_back({"_convolution", "deprecated", "maia", Category::lower_precision_fp, kernel<ops::_convolution_deprecated>});
  rows.push_back({"_convolution", "deprecated", "hpu", Category::lower_precision_fp, kernel<ops::_convolution_deprecated>});
  rows.push_back({"_convolution", "deprecated", "privateuse1", Category::lower_precision_fp, kernel<ops::_convolution_deprecated>});
  names.push_back({"_cudnn_rnn", "torch._cudnn_rnn"});
  rows.push_back({"_cudnn_rnn", "default", "cuda", Category::stock, nullptr});
  names.push_back({"_grid_sampler_2d_cpu_fallback", "torch._grid_sampler_2d_cpu_fallback"});
  rows.push_back({"_grid_sampler_2d_cpu_fallback", "default", "cpu", Category::fp32, kernel<ops::_grid_sampler_2d_cpu_fallback>});
  names.push_back({"_mps_convolution", "torch.ops.aten._mps_convolution"});
  rows.push_back({"_mps_convolution", "default", "mps", Category::lower_precision_fp, kernel<ops::_mps_convolution>});
  names.push_back({"_scaled_dot_product_flash_attention", "torch._scaled_dot_product_flash_attention"});
  rows.push_back({"_scaled_dot_product_flash_attention", "default", "cuda", Category::lower_precision_fp, kernel<ops::_scaled_dot_product_flash_attention>});
  rows.push_back({"_scaled_dot_product_flash_attention", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::_scaled_dot_product_flash_attention>});
  rows.push_back({"_scaled_dot_product_flash_attention", "default", "xpu", Category::lower_precision_fp, kernel<ops::_scaled_dot_product_flash_attention>});
  rows.push_back({"_scaled_dot_product_flash_attention", "default", "mtia", Category::lower_precision_fp, kernel<ops::_scaled_dot_product_flash_attention>});
  rows.push_back({"_scaled_dot_product_flash_attention", "default", "maia", Category::lower_precision_fp, kernel<ops::_scaled_dot_product_flash_attention>});
  rows.push_back({"_scaled_dot_product_flash_attention", "default", "hpu", Category::lower_precision_fp, kernel<ops::_scaled_dot_product_flash_attention>});
  rows.push_back({"_scaled_dot_product_flash_attention", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::_scaled_dot_product_flash_attention>});
  names.push_back({"_upsample_bicubic2d_aa", "torch.nn.functional.interpolate torch._C._nn._upsample_bicubic2d_aa"});
  rows.push_back({"_upsample_bicubic2d_aa", "default", "cuda", Category::fp32, kernel<ops::_upsample_bicubic2d_aa>});
  rows.push_back({"_upsample_bicubic2d_aa", "default", "xla_gpu", Category::fp32, kernel<ops::_upsample_bicubic2d_aa>});
  rows.push_back({"_upsample_bicubic2d_aa", "default", "xpu", Category::fp32, kernel<ops::_upsample_bicubic2d_aa>});
  rows.push_back({"_upsample_bicubic2d_aa", "default", "mtia", Category::fp32, kernel<ops::_upsample_bicubic2d_aa>});
  rows.push_back({"_upsample_bicubic2d_aa", "default", "maia", Category::fp32, kernel<ops::_upsample_bicubic2d_aa>});
  rows.push_back({"_upsample_bicubic2d_aa", "default", "hpu", Category::fp32, kernel<ops::_upsample_bicubic2d_aa>});
  rows.push_back({"_upsample_bicubic2d_aa", "default", "privateuse1", Category::fp32, kernel<ops::_upsample_bicubic2d_aa>});
  names.push_back({"_upsample_bilinear2d_aa", "torch.nn.functional.interpolate torch._C._nn._upsample_bilinear2d_aa"});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "cuda", Category::fp32, kernel<ops::_upsample_bilinear2d_aa>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "xla_gpu", Category::fp32, kernel<ops::_upsample_bilinear2d_aa>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "xpu", Category::fp32, kernel<ops::_upsample_bilinear2d_aa>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "mtia", Category::fp32, kernel<ops::_upsample_bilinear2d_aa>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "maia", Category::fp32, kernel<ops::_upsample_bilinear2d_aa>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "hpu", Category::fp32, kernel<ops::_upsample_bilinear2d_aa>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "privateuse1", Category::fp32, kernel<ops::_upsample_bilinear2d_aa>});
  names.push_back({"_upsample_nearest_exact1d", "torch.nn.functional.interpolate torch._C._nn._upsample_nearest_exact1d torch.nn.Upsample"});
  rows.push_back({"_upsample_nearest_exact1d", "default", "cuda", Category::fp32, kernel<ops::_upsample_nearest_exact1d>});
  rows.push_back({"_upsample_nearest_exact1d", "default", "xla_gpu", Category::fp32, kernel<ops::_upsample_nearest_exact1d>});
  rows.push_back({"_upsample_nearest_exact1d", "default", "xpu", Category::fp32, kernel<ops::_upsample_nearest_exact1d>});
  rows.push_back({"_upsample_nearest_exact1d", "default", "mtia", Category::fp32, kernel<ops::_upsample_nearest_exact1d>});
  rows.push_back({"_upsample_nearest_exact1d", "default", "maia", Category::fp32, kernel<ops::_upsample_nearest_exact1d>});
  rows.push_back({"_upsample_nearest_exact1d", "default", "hpu", Category::fp32, kernel<ops::_upsample_nearest_exact1d>});
  rows.push_back({"_upsample_nearest_exact1d", "default", "privateuse1", Category::fp32, kernel<ops::_upsample_nearest_exact1d>});
  names.push_back({"asin", "torch.asin torch.Tensor.asin torch.arcsin torch.Tensor.arcsin"});
  rows.push_back({"asin", "default", "cuda", Category::fp32, kernel<ops::asin>});
  rows.push_back({"asin", "default", "xla_gpu", Category::fp32, kernel<ops::asin>});
  rows.push_back({"asin", "default", "xpu", Category::fp32, kernel<ops::asin>});
  rows.push_back({"asin", "default", "mps", Category::fp32, kernel<ops::asin>});
  rows.push_back({"asin", "default", "mtia", Category::fp32, kernel<ops::asin>});
  rows.push_back({"asin", "default", "maia", Category::fp32, kernel<ops::asin>});
  rows.push_back({"asin", "default", "hpu", Category::fp32, kernel<ops::asin>});
  rows.push_back({"asin", "default", "privateuse1", Category::fp32, kernel<ops::asin>});
  names.push_back({"avg_pool3d", "torch.nn.functional.avg_pool3d torch.nn.AvgPool3d"});
  rows.push_back({"avg_pool3d", "default", "cpu", Category::fp32, kernel<ops::avg_pool3d>});
  names.push_back({"cholesky_solve", "torch.cholesky_solve torch.Tensor.cholesky_solve"});
  rows.push_back({"cholesky_solve", "default", "xla", Category::fp32, kernel<ops::cholesky_solve>});
  rows.push_back({"cholesky_solve", "default", "cpu", Category::fp32, kernel<ops::cholesky_solve>});
  names.push_back({"conv1d", "torch.nn.functional.conv1d torch.nn.Conv1d torch.conv1d"});
  rows.push_back({"conv1d", "default", "cuda", Category::lower_precision_fp, kernel<ops::conv1d>});
  rows.push_back({"conv1d", "default", "xla", Category::lower_precision_fp, kernel<ops::conv1d>});
  rows.push_back({"conv1d", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv1d>});
  rows.push_back({"conv1d", "default", "xpu", Category::lower_precision_fp, kernel<ops::conv1d>});
  rows.push_back({"conv1d", "default", "cpu", Category::lower_precision_fp, kernel<ops::conv1d>});
  rows.push_back({"conv1d", "default", "mps", Category::lower_precision_fp, kernel<ops::conv1d>});
  rows.push_back({"conv1d", "default", "mtia", Category::lower_precision_fp, kernel<ops::conv1d>});
  rows.push_back({"conv1d", "default", "maia", Category::lower_precision_fp, kernel<ops::conv1d>});
  rows.push_back({"conv1d", "default", "hpu", Category::lower_precision_fp, kernel<ops::conv1d>});
  rows.push_back({"conv1d", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::conv1d>});
  rows.push_back({"conv1d", "padding", "cuda", Category::lower_precision_fp, kernel<ops::conv1d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv1d", "padding", "xla", Category::lower_precision_fp, kernel<ops::conv1d_padding>});
  rows.push_back({"conv1d", "padding", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv1d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv1d", "padding", "xpu", Category::lower_precision_fp, kernel<ops::conv1d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv1d", "padding", "cpu", Category::lower_precision_fp, kernel<ops::conv1d_padding>});
  rows.push_back({"conv1d", "padding", "mps", Category::lower_precision_fp, kernel<ops::conv1d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv1d", "padding", "mtia", Category::lower_precision_fp, kernel<ops::conv1d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv1d", "padding", "maia", Category::lower_precision_fp, kernel<ops::conv1d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv1d", "padding", "hpu", Category::lower_precision_fp, kernel<ops::conv1d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv1d", "padding", "privateuse1", Category::lower_precision_fp, kernel<ops::conv1d_padding>, "Torch casts inside the decomposition instead."});
  names.push_back({"conv_transpose3d", "torch.nn.functional.conv_transpose3d torch.nn.ConvTranspose3d torch.conv_transpose3d"});
  rows.push_back({"conv_transpose3d", "input", "cuda", Category::lower_precision_fp, kernel<ops::conv_transpose3d_input>});
  rows.push_back({"conv_transpose3d", "input", "xla", Category::lower_precision_fp, kernel<ops::conv_transpose3d_input>});
  rows.push_back({"conv_transpose3d", "input", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv_transpose3d_input>});
  rows.push_back({"conv_transpose3d", "input", "xpu", Category::lower_precision_fp, kernel<ops::conv_transpose3d_input>});
  rows.push_back({"conv_transpose3d", "input", "cpu", Category::lower_precision_fp, kernel<ops::conv_transpose3d_input>});
  rows.push_back({"conv_transpose3d", "input", "mps", Category::fp32, kernel<ops::conv_transpose3d_input>});
  rows.push_back({"conv_transpose3d", "input", "mtia", Category::lower_precision_fp, kernel<ops::conv_transpose3d_input>});
  rows.push_back({"conv_transpose3d", "input", "maia", Category::lower_precision_fp, kernel<ops::conv_transpose3d_input>});
  rows.push_back({"conv_transpose3d", "input", "hpu", Category::lower_precision_fp, kernel<ops::conv_transpose3d_input>});
  rows.push_back({"conv_transpose3d", "input", "privateuse1", Category::lower_precision_fp, kernel<ops::conv_transpose3d_input>});
  names.push_back({"ctc_loss", "torch.nn.functional.ctc_loss torch.nn.CTCLoss"});
  rows.push_back({"ctc_loss", "IntList", "xla", Category::fp32, kernel<ops::ctc_loss_IntList>});
  rows.push_back({"ctc_loss", "IntList", "cpu", Category::fp32, kernel<ops::ctc_loss_IntList>});
  rows.push_back({"ctc_loss", "Tensor", "xla", Category::fp32, kernel<ops::ctc_loss_Tensor>});
  rows.push_back({"ctc_loss", "Tensor", "cpu", Category::fp32, kernel<ops::ctc_loss_Tensor>});
  names.push_back({"cudnn_convolution", "torch.cudnn_convolution"});
  rows.push_back({"cudnn_convolution", "default", "cuda", Category::lower_precision_fp, kernel<ops::cudnn_convolution>});
  names.push_back({"cudnn_convolution_transpose", "torch.cudnn_convolution_transpose"});
  rows.push_back({"cudnn_convolution_transpose", "default", "cuda", Category::lower_precision_fp, kernel<ops::cudnn_convolution_transpose>});
  names.push_back({"fft_ifftn", "torch.fft.ifftn"});
  rows.push_back({"fft_ifftn", "default", "xpu", Category::fp32, kernel<ops::fft_ifftn>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_ifftn", "default", "cpu", Category::fp32, kernel<ops::fft_ifftn>});
  names.push_back({"fft_irfftn", "torch.fft.irfftn"});
  rows.push_back({"fft_irfftn", "default", "xpu", Category::fp32, kernel<ops::fft_irfftn>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_irfftn", "default", "cpu", Category::fp32, kernel<ops::fft_irfftn>});
  names.push_back({"fft_rfft", "torch.fft.rfft"});
  rows.push_back({"fft_rfft", "default", "xpu", Category::fp32, kernel<ops::fft_rfft>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_rfft", "default", "cpu", Category::fp32, kernel<ops::fft_rfft>});
  names.push_back({"fft_rfft2", "torch.fft.rfft2"});
  rows.push_back({"fft_rfft2", "default", "xpu", Category::fp32, kernel<ops::fft_rfft2>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_rfft2", "default", "cpu", Category::fp32, kernel<ops::fft_rfft2>});
  names.push_back({"grid_sampler_2d", "torch.grid_sampler_2d"});
  rows.push_back({"grid_sampler_2d", "default", "cpu", Category::fp32, kernel<ops::grid_sampler_2d>});
  names.push_back({"layer_norm", "torch.nn.functional.layer_norm torch.nn.LayerNorm"});
  rows.push_back({"layer_norm", "default", "cuda", Category::fp32, kernel<ops::layer_norm>});
  rows.push_back({"layer_norm", "default", "xla_gpu", Category::fp32, kernel<ops::layer_norm>});
  rows.push_back({"layer_norm", "default", "xpu", Category::fp32, kernel<ops::layer_norm>});
  rows.push_back({"layer_norm", "default", "mps", Category::fp32, kernel<ops::layer_norm>});
  rows.push_back({"layer_norm", "default", "mtia", Category::fp32, kernel<ops::layer_norm>});
  rows.push_back({"layer_norm", "default", "maia", Category::fp32, kernel<ops::layer_norm>});
  rows.push_back({"layer_norm", "default", "hpu", Category::fp32, kernel<ops::layer_norm>});
  rows.push_back({"layer_norm", "default", "privateuse1", Category::fp32, kernel<ops::layer_norm>});
  names.push_back({"linalg_cholesky_ex", "torch.linalg.cholesky_ex"});
  rows.push_back({"linalg_cholesky_ex", "default", "cpu", Category::fp32, kernel<ops::linalg_cholesky_ex>});
  names.push_back({"linalg_tensorinv", "torch.linalg.tensorinv"});
  rows.push_back({"linalg_tensorinv", "default", "cpu", Category::fp32, kernel<ops::linalg_tensorinv>});
  names.push_back({"log2", "torch.log2 torch.Tensor.log2"});
  rows.push_back({"log2", "default", "cuda", Category::fp32, kernel<ops::log2>});
  rows.push_back({"log2", "default", "xla_gpu", Category::fp32, kernel<ops::log2>});
  rows.push_back({"log2", "default", "xpu", Category::fp32, kernel<ops::log2>});
  rows.push_back({"log2", "default", "mps", Category::fp32, kernel<ops::log2>});
  rows.push_back({"log2", "default", "mtia", Category::fp32, kernel<ops::log2>});
  rows.push_back({"log2", "default", "maia", Category::fp32, kernel<ops::log2>});
  rows.push_back({"log2", "default", "hpu", Category::fp32, kernel<ops::log2>});
  rows.push_back({"log2", "default", "privateuse1", Category::fp32, kernel<ops::log2>});
  names.push_back({"lu_solve", "torch.lu_solve torch.Tensor.lu_solve"});
  rows.push_back({"lu_solve", "default", "cpu", Category::fp32, kernel<ops::lu_solve>});
  names.push_back({"margin_ranking_loss", "torch.nn.functional.margin_ranking_loss torch.nn.MarginRankingLoss"});
  rows.push_back({"margin_ranking_loss", "default", "cuda", Category::fp32, kernel<ops::margin_ranking_loss>});
  rows.push_back({"margin_ranking_loss", "default", "xla", Category::fp32, kernel<ops::margin_ranking_loss>});
  rows.push_back({"margin_ranking_loss", "default", "xla_gpu", Category::fp32, kernel<ops::margin_ranking_loss>});
  rows.push_back({"margin_ranking_loss", "default", "xpu", Category::fp32, kernel<ops::margin_ranking_loss>});
  rows.push_back({"margin_ranking_loss", "default", "cpu", Category::fp32, kernel<ops::margin_ranking_loss>});
  rows.push_back({"margin_ranking_loss", "default", "mps", Category::fp32, kernel<ops::margin_ranking_loss>});
  rows.push_back({"margin_ranking_loss", "default", "mtia", Category::fp32, kernel<ops::margin_ranking_loss>});
  rows.push_back({"margin_ranking_loss", "default", "maia", Category::fp32, kernel<ops::margin_ranking_loss>});
  rows.push_back({"margin_ranking_loss", "default", "hpu", Category::fp32, kernel<ops::margin_ranking_loss>});
  rows.push_back({"margin_ranking_loss", "default", "privateuse1", Category::fp32, kernel<ops::margin_ranking_loss>});
  names.push_back({"matmul", "torch.matmul torch.Tensor.matmul torch.Tensor.__matmul__ torch.linalg.matmul torch.Tensor.__rmatmul__"});
  rows.push_back({"matmul", "default", "cuda", Category::lower_precision_fp, kernel<ops::matmul>});
  rows.push_back({"matmul", "default", "xla", Category::lower_precision_fp, kernel<ops::matmul>});
  rows.push_back({"matmul", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::matmul>});
  rows.push_back({"matmul", "default", "xpu", Category::lower_precision_fp, kernel<ops::matmul>});
  rows.push_back({"matmul", "default", "cpu", Category::lower_precision_fp, kernel<ops::matmul>});
  rows.push_back({"matmul", "default", "mps", Category::lower_precision_fp, kernel<ops::matmul>});
  rows.push_back({"matmul", "default", "mtia", Category::lower_precision_fp, kernel<ops::matmul>});
  rows.push_back({"matmul", "default", "maia", Category::lower_precision_fp, kernel<ops::matmul>});
  rows.push_back({"matmul", "default", "hpu", Category::lower_precision_fp, kernel<ops::matmul>});
  rows.push_back({"matmul", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::matmul>});
  names.push_back({"max_pool2d", "torch.nn.functional.max_pool2d torch.nn.MaxPool2d"});
  rows.push_back({"max_pool2d", "default", "xla", Category::lower_precision_fp, kernel<ops::max_pool2d>});
  names.push_back({"max_unpool2d", "torch.nn.functional.max_unpool2d torch.nn.MaxUnpool2d"});
  rows.push_back({"max_unpool2d", "default", "cpu", Category::fp32, kernel<ops::max_unpool2d>});
  names.push_back({"multilabel_margin_loss_forward", "torch.ops.aten.multilabel_margin_loss_forward"});
  rows.push_back({"multilabel_margin_loss_forward", "default", "xla", Category::fp32, kernel<ops::multilabel_margin_loss_forward>});
  rows.push_back({"multilabel_margin_loss_forward", "default", "cpu", Category::fp32, kernel<ops::multilabel_margin_loss_forward>});
  names.push_back({"native_layer_norm", "torch.native_layer_norm"});
  rows.push_back({"native_layer_norm", "default", "cuda", Category::fp32, kernel<ops::native_layer_norm>});
  rows.push_back({"native_layer_norm", "default", "xla_gpu", Category::fp32, kernel<ops::native_layer_norm>});
  rows.push_back({"native_layer_norm", "default", "xpu", Category::fp32, kernel<ops::native_layer_norm>});
  rows.push_back({"native_layer_norm", "default", "mps", Category::fp32, kernel<ops::native_layer_norm>});
  rows.push_back({"native_layer_norm", "default", "mtia", Category::fp32, kernel<ops::native_layer_norm>});
  rows.push_back({"native_layer_norm", "default", "maia", Category::fp32, kernel<ops::native_layer_norm>});
  rows.push_back({"native_layer_norm", "default", "hpu", Category::fp32, kernel<ops::native_layer_norm>});
  rows.push_back({"native_layer_norm", "default", "privateuse1", Category::fp32, kernel<ops::native_layer_norm>});
  names.push_back({"ormqr", "torch.ormqr torch.Tensor.ormqr"});
  rows.push_back({"ormqr", "default", "cpu", Category::fp32, kernel<ops::ormqr>});
  names.push_back({"prelu", "torch.prelu torch.Tensor.prelu torch.nn.functional.prelu torch.nn.PReLU"});
  rows.push_back({"prelu", "default", "cuda", Category::lower_precision_fp, kernel<ops::prelu>});
  rows.push_back({"prelu", "default", "xla", Category::lower_precision_fp, kernel<ops::prelu>});
  rows.push_back({"prelu", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::prelu>});
  rows.push_back({"prelu", "default", "xpu", Category::lower_precision_fp, kernel<ops::prelu>});
  rows.push_back({"prelu", "default", "cpu", Category::lower_precision_fp, kernel<ops::prelu>});
  rows.push_back({"prelu", "default", "mps", Category::lower_precision_fp, kernel<ops::prelu>});
  rows.push_back({"prelu", "default", "mtia", Category::lower_precision_fp, kernel<ops::prelu>});
  rows.push_back({"prelu", "default", "maia", Category::lower_precision_fp, kernel<ops::prelu>});
  rows.push_back({"prelu", "default", "hpu", Category::lower_precision_fp, kernel<ops::prelu>});
  rows.push_back({"prelu", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::prelu>});
  names.push_back({"reflection_pad1d", "torch.nn.functional.pad torch.nn.ReflectionPad1d"});
  rows.push_back({"reflection_pad1d", "default", "xla", Category::fp32, kernel<ops::reflection_pad1d>});
  rows.push_back({"reflection_pad1d", "default", "cpu", Category::fp32, kernel<ops::reflection_pad1d>});
  names.push_back({"replication_pad3d", "torch.nn.functional.pad torch.nn.ReplicationPad3d"});
  rows.push_back({"replication_pad3d", "default", "xla", Category::fp32, kernel<ops::replication_pad3d>});
  rows.push_back({"replication_pad3d", "default", "cpu", Category::fp32, kernel<ops::replication_pad3d>});
  names.push_back({"rsqrt", "torch.rsqrt torch.Tensor.rsqrt"});
  rows.push_back({"rsqrt", "default", "cuda", Category::fp32, kernel<ops::rsqrt>});
  rows.push_back({"rsqrt", "default", "xla_gpu", Category::fp32, kernel<ops::rsqrt>});
  rows.push_back({"rsqrt", "default", "xpu", Category::fp32, kernel<ops::rsqrt>});
  rows.push_back({"rsqrt", "default", "mps", Category::fp32, kernel<ops::rsqrt>});
  rows.push_back({"rsqrt", "default", "mtia", Category::fp32, kernel<ops::rsqrt>});
  rows.push_back({"rsqrt", "default", "maia", Category::fp32, kernel<ops::rsqrt>});
  rows.push_back({"rsqrt", "default", "hpu", Category::fp32, kernel<ops::rsqrt>});
  rows.push_back({"rsqrt", "default", "privateuse1", Category::fp32, kernel<ops::rsqrt>});
  names.push_back({"sinh", "torch.sinh torch.Tensor.sinh"});
  rows.push_back({"sinh", "default", "cuda", Category::fp32, kernel<ops::sinh>});
  rows.push_back({"sinh", "default", "xla_gpu", Category::fp32, kernel<ops::sinh>});
  rows.push_back({"sinh", "default", "xpu", Category::fp32, kernel<ops::sinh>});
  rows.push_back({"sinh", "default", "mps", Category::fp32, kernel<ops::sinh>});
  rows.push_back({"sinh", "default", "mtia", Category::fp32, kernel<ops::sinh>});
  rows.push_back({"sinh", "default", "maia", Category::fp32, kernel<ops::sinh>});
  rows.push_back({"sinh", "default", "hpu", Category::fp32, kernel<ops::sinh>});
  rows.push_back({"sinh", "default", "privateuse1", Category::fp32, kernel<ops::sinh>});
  names.push_back({"softmax", "torch.softmax torch.Tensor.softmax torch.nn.functional.softmax torch.nn.functional.softmin torch.nn.Softmax torch.nn.Softmin torch.special.softmax torch.nn.Softmax2d"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"softmax", "Dimname", "cuda", Category::fp32_set_opt_dtype, kernel<ops::softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"softmax", "Dimname", "xla", Category::fp32, kernel<ops::softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"softmax", "Dimname", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"softmax", "Dimname", "xpu", Category::fp32_set_opt_dtype, kernel<ops::softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"softmax", "Dimname", "mps", Category::fp32, kernel<ops::softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"softmax", "Dimname", "mtia", Category::fp32_set_opt_dtype, kernel<ops::softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"softmax", "Dimname", "maia", Category::fp32_set_opt_dtype, kernel<ops::softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"softmax", "Dimname", "hpu", Category::fp32_set_opt_dtype, kernel<ops::softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"softmax", "Dimname", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::softmax_Dimname>});
#endif
  rows.push_back({"softmax", "int", "cuda", Category::fp32_set_opt_dtype, kernel<ops::softmax_int>});
  rows.push_back({"softmax", "int", "xla", Category::fp32, kernel<ops::softmax_int>});
  rows.push_back({"softmax", "int", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::softmax_int>});
  rows.push_back({"softmax", "int", "xpu", Category::fp32_set_opt_dtype, kernel<ops::softmax_int>});
  rows.push_back({"softmax", "int", "mps", Category::fp32, kernel<ops::softmax_int>});
  rows.push_back({"softmax", "int", "mtia", Category::fp32_set_opt_dtype, kernel<ops::softmax_int>});
  rows.push_back({"softmax", "int", "maia", Category::fp32_set_opt_dtype, kernel<ops::softmax_int>});
  rows.push_back({"softmax", "int", "hpu", Category::fp32_set_opt_dtype, kernel<ops::softmax_int>});
  rows.push_back({"softmax", "int", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::softmax_int>});
  names.push_back({"stack", "torch.stack"});
  rows.push_back({"stack", "default", "xla", Category::promote, kernel<ops::stack>});
  rows.push_back({"stack", "default", "xpu", Category::promote, kernel<ops::stack>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch leaves it to the op's own promotion."});
  rows.push_back({"stack", "default", "cpu", Category::promote, kernel<ops::stack>});
  names.push_back({"stft", "torch.stft torch.Tensor.stft"});
  rows.push_back({"stft", "default", "cpu", Category::fp32, kernel<ops::stft>});
  rows.push_back({"stft", "center", "cpu", Category::fp32, kernel<ops::stft_center>});
  names.push_back({"svd", "torch.svd torch.Tensor.svd"});
  rows.push_back({"svd", "default", "xla", Category::fp32, kernel<ops::svd>});
  rows.push_back({"svd", "default", "cpu", Category::fp32, kernel<ops::svd>});
  names.push_back({"upsample_trilinear3d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  rows.push_back({"upsample_trilinear3d", "default", "cuda", Category::fp32, kernel<ops::upsample_trilinear3d>});
  rows.push_back({"upsample_trilinear3d", "default", "xla_gpu", Category::fp32, kernel<ops::upsample_trilinear3d>});
  rows.push_back({"upsample_trilinear3d", "default", "xpu", Category::fp32, kernel<ops::upsample_trilinear3d>});
  rows.push_back({"upsample_trilinear3d", "default", "mtia", Category::fp32, kernel<ops::upsample_trilinear3d>});
  rows.push_back({"upsample_trilinear3d", "default", "maia", Category::fp32, kernel<ops::upsample_trilinear3d>});
  rows.push_back({"upsample_trilinear3d", "default", "hpu", Category::fp32, kernel<ops::upsample_trilinear3d>});
  rows.push_back({"upsample_trilinear3d", "default", "privateuse1", Category::fp32, kernel<ops::upsample_trilinear3d>});
}

} // namespace polycast::autocast
