// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/kernel.h"

#include <torch/version.h>

#include <ATen/ops/_convolution_ops.h>
#include <ATen/ops/_upsample_bilinear2d_aa_ops.h>
#include <ATen/ops/avg_pool3d_ops.h>
#include <ATen/ops/cudnn_convolution_ops.h>
#include <ATen/ops/fft_irfftn_ops.h>
#include <ATen/ops/fft_rfft_ops.h>
#include <ATen/ops/fft_rfft2_ops.h>
#include <ATen/ops/grid_sampler_2d_ops.h>
#include <ATen/ops/linalg_cholesky_ex_ops.h>
#include <ATen/ops/linalg_tensorinv_ops.h>
#include <ATen/ops/margin_ranking_loss_ops.h>
#include <ATen/ops/max_pool2d_ops.h>
#include <ATen/ops/multilabel_margin_loss_forward_ops.h>
#include <ATen/ops/prelu_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/stft_ops.h>

namespace polycast::autocast {

namespace ops = at::_ops;

void rows_6(std::vector<Row>& rows, std::vector<Names>& names) {
  names.push_back({"_convolution", "torch._convolution"});
  rows.push_back({"_convolution", "default", "cuda", Category::lower_precision_fp, kernel<ops::_convolution, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::_convolution, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "default", "xpu", Category::lower_precision_fp, kernel<ops::_convolution, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "default", "mps", Category::lower_precision_fp, kernel<ops::_convolution, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "default", "mtia", Category::lower_precision_fp, kernel<ops::_convolution, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "default", "maia", Category::lower_precision_fp, kernel<ops::_convolution, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "default", "hpu", Category::lower_precision_fp, kernel<ops::_convolution, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::_convolution, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "deprecated", "cuda", Category::lower_precision_fp, kernel<ops::_convolution_deprecated, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "deprecated", "xla_gpu", Category::lower_precision_fp, kernel<ops::_convolution_deprecated, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "deprecated", "xpu", Category::lower_precision_fp, kernel<ops::_convolution_deprecated, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "deprecated", "cpu", Category::lower_precision_fp, kernel<ops::_convolution_deprecated, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "deprecated", "mps", Category::lower_precision_fp, kernel<ops::_convolution_deprecated, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "deprecated", "mtia", Category::lower_precision_fp, kernel<ops::_convolution_deprecated, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "deprecated", "maia", Category::lower_precision_fp, kernel<ops::_convolution_deprecated, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "deprecated", "hpu", Category::lower_precision_fp, kernel<ops::_convolution_deprecated, Category::lower_precision_fp>});
  rows.push_back({"_convolution", "deprecated", "privateuse1", Category::lower_precision_fp, kernel<ops::_convolution_deprecated, Category::lower_precision_fp>});
  names.push_back({"_upsample_bilinear2d_aa", "torch.nn.functional.interpolate torch._C._nn._upsample_bilinear2d_aa"});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "cuda", Category::fp32, kernel<ops::_upsample_bilinear2d_aa, Category::fp32>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "xla_gpu", Category::fp32, kernel<ops::_upsample_bilinear2d_aa, Category::fp32>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "xpu", Category::fp32, kernel<ops::_upsample_bilinear2d_aa, Category::fp32>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "mtia", Category::fp32, kernel<ops::_upsample_bilinear2d_aa, Category::fp32>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "maia", Category::fp32, kernel<ops::_upsample_bilinear2d_aa, Category::fp32>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "hpu", Category::fp32, kernel<ops::_upsample_bilinear2d_aa, Category::fp32>});
  rows.push_back({"_upsample_bilinear2d_aa", "default", "privateuse1", Category::fp32, kernel<ops::_upsample_bilinear2d_aa, Category::fp32>});
  names.push_back({"avg_pool3d", "torch.nn.functional.avg_pool3d torch.nn.AvgPool3d"});
  rows.push_back({"avg_pool3d", "default", "cpu", Category::fp32, kernel<ops::avg_pool3d, Category::fp32>});
  names.push_back({"cudnn_convolution", "torch.cudnn_convolution"});
  rows.push_back({"cudnn_convolution", "default", "cuda", Category::lower_precision_fp, kernel<ops::cudnn_convolution, Category::lower_precision_fp>});
  names.push_back({"fft_irfftn", "torch.fft.irfftn"});
  rows.push_back({"fft_irfftn", "default", "xpu", Category::fp32, kernel<ops::fft_irfftn, Category::fp32>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_irfftn", "default", "cpu", Category::fp32, kernel<ops::fft_irfftn, Category::fp32>});
  names.push_back({"fft_rfft", "torch.fft.rfft"});
  rows.push_back({"fft_rfft", "default", "xpu", Category::fp32, kernel<ops::fft_rfft, Category::fp32>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_rfft", "default", "cpu", Category::fp32, kernel<ops::fft_rfft, Category::fp32>});
  names.push_back({"fft_rfft2", "torch.fft.rfft2"});
  rows.push_back({"fft_rfft2", "default", "xpu", Category::fp32, kernel<ops::fft_rfft2, Category::fp32>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_rfft2", "default", "cpu", Category::fp32, kernel<ops::fft_rfft2, Category::fp32>});
  names.push_back({"grid_sampler_2d", "torch.grid_sampler_2d"});
  rows.push_back({"grid_sampler_2d", "default", "cpu", Category::fp32, kernel<ops::grid_sampler_2d, Category::fp32>});
  names.push_back({"linalg_cholesky_ex", "torch.linalg.cholesky_ex"});
  rows.push_back({"linalg_cholesky_ex", "default", "cpu", Category::fp32, kernel<ops::linalg_cholesky_ex, Category::fp32>});
  names.push_back({"linalg_tensorinv", "torch.linalg.tensorinv"});
  rows.push_back({"linalg_tensorinv", "default", "cpu", Category::fp32, kernel<ops::linalg_tensorinv, Category::fp32>});
  names.push_back({"margin_ranking_loss", "torch.nn.functional.margin_ranking_loss torch.nn.MarginRankingLoss"});
  rows.push_back({"margin_ranking_loss", "default", "cuda", Category::fp32, kernel<ops::margin_ranking_loss, Category::fp32>});
  rows.push_back({"margin_ranking_loss", "default", "xla", Category::fp32, kernel<ops::margin_ranking_loss, Category::fp32>});
  rows.push_back({"margin_ranking_loss", "default", "xla_gpu", Category::fp32, kernel<ops::margin_ranking_loss, Category::fp32>});
  rows.push_back({"margin_ranking_loss", "default", "xpu", Category::fp32, kernel<ops::margin_ranking_loss, Category::fp32>});
  rows.push_back({"margin_ranking_loss", "default", "cpu", Category::fp32, kernel<ops::margin_ranking_loss, Category::fp32>});
  rows.push_back({"margin_ranking_loss", "default", "mps", Category::fp32, kernel<ops::margin_ranking_loss, Category::fp32>});
  rows.push_back({"margin_ranking_loss", "default", "mtia", Category::fp32, kernel<ops::margin_ranking_loss, Category::fp32>});
  rows.push_back({"margin_ranking_loss", "default", "maia", Category::fp32, kernel<ops::margin_ranking_loss, Category::fp32>});
  rows.push_back({"margin_ranking_loss", "default", "hpu", Category::fp32, kernel<ops::margin_ranking_loss, Category::fp32>});
  rows.push_back({"margin_ranking_loss", "default", "privateuse1", Category::fp32, kernel<ops::margin_ranking_loss, Category::fp32>});
  names.push_back({"max_pool2d", "torch.nn.functional.max_pool2d torch.nn.MaxPool2d"});
  rows.push_back({"max_pool2d", "default", "xla", Category::lower_precision_fp, kernel<ops::max_pool2d, Category::lower_precision_fp>});
  names.push_back({"multilabel_margin_loss_forward", "torch.ops.aten.multilabel_margin_loss_forward"});
  rows.push_back({"multilabel_margin_loss_forward", "default", "xla", Category::fp32, kernel<ops::multilabel_margin_loss_forward, Category::fp32>});
  rows.push_back({"multilabel_margin_loss_forward", "default", "cpu", Category::fp32, kernel<ops::multilabel_margin_loss_forward, Category::fp32>});
  names.push_back({"prelu", "torch.prelu torch.Tensor.prelu torch.nn.functional.prelu torch.nn.PReLU"});
  rows.push_back({"prelu", "default", "cuda", Category::lower_precision_fp, kernel<ops::prelu, Category::lower_precision_fp>});
  rows.push_back({"prelu", "default", "xla", Category::lower_precision_fp, kernel<ops::prelu, Category::lower_precision_fp>});
  rows.push_back({"prelu", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::prelu, Category::lower_precision_fp>});
  rows.push_back({"prelu", "default", "xpu", Category::lower_precision_fp, kernel<ops::prelu, Category::lower_precision_fp>});
  rows.push_back({"prelu", "default", "cpu", Category::lower_precision_fp, kernel<ops::prelu, Category::lower_precision_fp>});
  rows.push_back({"prelu", "default", "mps", Category::lower_precision_fp, kernel<ops::prelu, Category::lower_precision_fp>});
  rows.push_back({"prelu", "default", "mtia", Category::lower_precision_fp, kernel<ops::prelu, Category::lower_precision_fp>});
  rows.push_back({"prelu", "default", "maia", Category::lower_precision_fp, kernel<ops::prelu, Category::lower_precision_fp>});
  rows.push_back({"prelu", "default", "hpu", Category::lower_precision_fp, kernel<ops::prelu, Category::lower_precision_fp>});
  rows.push_back({"prelu", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::prelu, Category::lower_precision_fp>});
  names.push_back({"rsqrt", "torch.rsqrt torch.Tensor.rsqrt"});
  rows.push_back({"rsqrt", "default", "cuda", Category::fp32, kernel<ops::rsqrt, Category::fp32>});
  rows.push_back({"rsqrt", "default", "xla_gpu", Category::fp32, kernel<ops::rsqrt, Category::fp32>});
  rows.push_back({"rsqrt", "default", "xpu", Category::fp32, kernel<ops::rsqrt, Category::fp32>});
  rows.push_back({"rsqrt", "default", "mps", Category::fp32, kernel<ops::rsqrt, Category::fp32>});
  rows.push_back({"rsqrt", "default", "mtia", Category::fp32, kernel<ops::rsqrt, Category::fp32>});
  rows.push_back({"rsqrt", "default", "maia", Category::fp32, kernel<ops::rsqrt, Category::fp32>});
  rows.push_back({"rsqrt", "default", "hpu", Category::fp32, kernel<ops::rsqrt, Category::fp32>});
  rows.push_back({"rsqrt", "default", "privateuse1", Category::fp32, kernel<ops::rsqrt, Category::fp32>});
  names.push_back({"stft", "torch.stft torch.Tensor.stft"});
  rows.push_back({"stft", "default", "cpu", Category::fp32, kernel<ops::stft, Category::fp32>});
  rows.push_back({"stft", "center", "cpu", Category::fp32, kernel<ops::stft_center, Category::fp32>});
}

} // namespace polycast::autocast
