// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/kernel.h"

#include <torch/version.h>

#include <ATen/ops/_lu_with_info_ops.h>
#include <ATen/ops/_thnn_fused_gru_cell_ops.h>
#include <ATen/ops/_upsample_nearest_exact2d_ops.h>
#include <ATen/ops/bilinear_ops.h>
#include <ATen/ops/cholesky_inverse_ops.h>
#include <ATen/ops/conv2d_ops.h>
#include <ATen/ops/cross_ops.h>
#include <ATen/ops/cumsum_ops.h>
#include <ATen/ops/einsum_ops.h>
#include <ATen/ops/fft_irfft2_ops.h>
#include <ATen/ops/fft_rfftn_ops.h>
#include <ATen/ops/huber_loss_ops.h>
#include <ATen/ops/index_copy_ops.h>
#include <ATen/ops/kl_div_ops.h>
#include <ATen/ops/linalg_eig_ops.h>
#include <ATen/ops/nll_loss2d_ops.h>
#include <ATen/ops/nuclear_norm_ops.h>
#include <ATen/ops/pdist_ops.h>
#include <ATen/ops/poisson_nll_loss_ops.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/reflection_pad2d_ops.h>
#include <ATen/ops/trace_ops.h>
#include <ATen/ops/triangular_solve_ops.h>
#include <ATen/ops/upsample_nearest3d_ops.h>

namespace polycast::autocast {

namespace ops = at::_ops;

void rows_1(std::vector<Row>& rows, std::vector<Names>& names) {
  names.push_back({"_lu_with_info", "torch._lu_with_info torch.lu torch.Tensor.lu"});
  rows.push_back({"_lu_with_info", "default", "cpu", Category::fp32, kernel<ops::_lu_with_info, Category::fp32>});
  names.push_back({"_thnn_fused_gru_cell", "torch.ops.aten._thnn_fused_gru_cell"});
  rows.push_back({"_thnn_fused_gru_cell", "default", "cuda", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell, Category::lower_precision_fp>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell, Category::lower_precision_fp>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "xpu", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell, Category::lower_precision_fp>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "mtia", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell, Category::lower_precision_fp>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "maia", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell, Category::lower_precision_fp>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "hpu", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell, Category::lower_precision_fp>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell, Category::lower_precision_fp>});
  names.push_back({"_upsample_nearest_exact2d", "torch.nn.functional.interpolate torch._C._nn._upsample_nearest_exact2d torch.nn.Upsample"});
  rows.push_back({"_upsample_nearest_exact2d", "default", "cuda", Category::fp32, kernel<ops::_upsample_nearest_exact2d, Category::fp32>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "xla_gpu", Category::fp32, kernel<ops::_upsample_nearest_exact2d, Category::fp32>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "xpu", Category::fp32, kernel<ops::_upsample_nearest_exact2d, Category::fp32>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "mtia", Category::fp32, kernel<ops::_upsample_nearest_exact2d, Category::fp32>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "maia", Category::fp32, kernel<ops::_upsample_nearest_exact2d, Category::fp32>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "hpu", Category::fp32, kernel<ops::_upsample_nearest_exact2d, Category::fp32>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "privateuse1", Category::fp32, kernel<ops::_upsample_nearest_exact2d, Category::fp32>});
  names.push_back({"bilinear", "torch.nn.functional.bilinear torch.nn.Bilinear"});
  rows.push_back({"bilinear", "default", "cuda", Category::promote, kernel<ops::bilinear, Category::promote>});
  rows.push_back({"bilinear", "default", "xla_gpu", Category::promote, kernel<ops::bilinear, Category::promote>});
  rows.push_back({"bilinear", "default", "xpu", Category::promote, kernel<ops::bilinear, Category::promote>});
  rows.push_back({"bilinear", "default", "mps", Category::promote, kernel<ops::bilinear, Category::promote>});
  rows.push_back({"bilinear", "default", "mtia", Category::promote, kernel<ops::bilinear, Category::promote>});
  rows.push_back({"bilinear", "default", "maia", Category::promote, kernel<ops::bilinear, Category::promote>});
  rows.push_back({"bilinear", "default", "hpu", Category::promote, kernel<ops::bilinear, Category::promote>});
  rows.push_back({"bilinear", "default", "privateuse1", Category::promote, kernel<ops::bilinear, Category::promote>});
  names.push_back({"cholesky_inverse", "torch.cholesky_inverse torch.Tensor.cholesky_inverse"});
  rows.push_back({"cholesky_inverse", "default", "xla", Category::fp32, kernel<ops::cholesky_inverse, Category::fp32>});
  rows.push_back({"cholesky_inverse", "default", "cpu", Category::fp32, kernel<ops::cholesky_inverse, Category::fp32>});
  names.push_back({"conv2d", "torch.nn.functional.conv2d torch.nn.Conv2d torch.conv2d"});
  rows.push_back({"conv2d", "default", "cuda", Category::lower_precision_fp, kernel<ops::conv2d, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "default", "xla", Category::lower_precision_fp, kernel<ops::conv2d, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv2d, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "default", "xpu", Category::lower_precision_fp, kernel<ops::conv2d, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "default", "cpu", Category::lower_precision_fp, kernel<ops::conv2d, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "default", "mps", Category::lower_precision_fp, kernel<ops::conv2d, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "default", "mtia", Category::lower_precision_fp, kernel<ops::conv2d, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "default", "maia", Category::lower_precision_fp, kernel<ops::conv2d, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "default", "hpu", Category::lower_precision_fp, kernel<ops::conv2d, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::conv2d, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "padding", "cuda", Category::lower_precision_fp, kernel<ops::conv2d_padding, Category::lower_precision_fp>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "xla", Category::lower_precision_fp, kernel<ops::conv2d_padding, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "padding", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv2d_padding, Category::lower_precision_fp>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "xpu", Category::lower_precision_fp, kernel<ops::conv2d_padding, Category::lower_precision_fp>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "cpu", Category::lower_precision_fp, kernel<ops::conv2d_padding, Category::lower_precision_fp>});
  rows.push_back({"conv2d", "padding", "mps", Category::lower_precision_fp, kernel<ops::conv2d_padding, Category::lower_precision_fp>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "mtia", Category::lower_precision_fp, kernel<ops::conv2d_padding, Category::lower_precision_fp>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "maia", Category::lower_precision_fp, kernel<ops::conv2d_padding, Category::lower_precision_fp>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "hpu", Category::lower_precision_fp, kernel<ops::conv2d_padding, Category::lower_precision_fp>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "privateuse1", Category::lower_precision_fp, kernel<ops::conv2d_padding, Category::lower_precision_fp>, "Torch casts inside the decomposition instead."});
  names.push_back({"cross", "torch.cross torch.Tensor.cross"});
  rows.push_back({"cross", "default", "cuda", Category::promote, kernel<ops::cross, Category::promote>});
  rows.push_back({"cross", "default", "xla_gpu", Category::promote, kernel<ops::cross, Category::promote>});
  rows.push_back({"cross", "default", "xpu", Category::promote, kernel<ops::cross, Category::promote>});
  rows.push_back({"cross", "default", "mps", Category::promote, kernel<ops::cross, Category::promote>});
  rows.push_back({"cross", "default", "mtia", Category::promote, kernel<ops::cross, Category::promote>});
  rows.push_back({"cross", "default", "maia", Category::promote, kernel<ops::cross, Category::promote>});
  rows.push_back({"cross", "default", "hpu", Category::promote, kernel<ops::cross, Category::promote>});
  rows.push_back({"cross", "default", "privateuse1", Category::promote, kernel<ops::cross, Category::promote>});
  names.push_back({"cumsum", "torch.cumsum torch.Tensor.cumsum"});
  rows.push_back({"cumsum", "default", "cuda", Category::fp32_set_opt_dtype, kernel<ops::cumsum, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumsum", "default", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumsum", "default", "xpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumsum", "default", "mps", Category::fp32, kernel<ops::cumsum, Category::fp32>});
  rows.push_back({"cumsum", "default", "mtia", Category::fp32_set_opt_dtype, kernel<ops::cumsum, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumsum", "default", "maia", Category::fp32_set_opt_dtype, kernel<ops::cumsum, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumsum", "default", "hpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumsum", "default", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::cumsum, Category::fp32_set_opt_dtype>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "cuda", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "xpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "mps", Category::fp32, kernel<ops::cumsum_dimname, Category::fp32>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "mtia", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "maia", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "hpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname, Category::fp32_set_opt_dtype>});
#endif
  names.push_back({"einsum", "torch.einsum"});
  rows.push_back({"einsum", "default", "cuda", Category::lower_precision_fp, kernel<ops::einsum, Category::lower_precision_fp>});
  rows.push_back({"einsum", "default", "xla", Category::lower_precision_fp, kernel<ops::einsum, Category::lower_precision_fp>});
  rows.push_back({"einsum", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::einsum, Category::lower_precision_fp>});
  rows.push_back({"einsum", "default", "xpu", Category::lower_precision_fp, kernel<ops::einsum, Category::lower_precision_fp>});
  rows.push_back({"einsum", "default", "mps", Category::lower_precision_fp, kernel<ops::einsum, Category::lower_precision_fp>});
  rows.push_back({"einsum", "default", "mtia", Category::lower_precision_fp, kernel<ops::einsum, Category::lower_precision_fp>});
  rows.push_back({"einsum", "default", "maia", Category::lower_precision_fp, kernel<ops::einsum, Category::lower_precision_fp>});
  rows.push_back({"einsum", "default", "hpu", Category::lower_precision_fp, kernel<ops::einsum, Category::lower_precision_fp>});
  rows.push_back({"einsum", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::einsum, Category::lower_precision_fp>});
  names.push_back({"fft_irfft2", "torch.fft.irfft2"});
  rows.push_back({"fft_irfft2", "default", "xpu", Category::fp32, kernel<ops::fft_irfft2, Category::fp32>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_irfft2", "default", "cpu", Category::fp32, kernel<ops::fft_irfft2, Category::fp32>});
  names.push_back({"fft_rfftn", "torch.fft.rfftn"});
  rows.push_back({"fft_rfftn", "default", "xpu", Category::fp32, kernel<ops::fft_rfftn, Category::fp32>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_rfftn", "default", "cpu", Category::fp32, kernel<ops::fft_rfftn, Category::fp32>});
  names.push_back({"huber_loss", "torch.nn.functional.huber_loss torch.nn.HuberLoss"});
  rows.push_back({"huber_loss", "default", "cuda", Category::fp32, kernel<ops::huber_loss, Category::fp32>});
  rows.push_back({"huber_loss", "default", "xla_gpu", Category::fp32, kernel<ops::huber_loss, Category::fp32>});
  rows.push_back({"huber_loss", "default", "xpu", Category::fp32, kernel<ops::huber_loss, Category::fp32>});
  rows.push_back({"huber_loss", "default", "cpu", Category::fp32, kernel<ops::huber_loss, Category::fp32>});
  rows.push_back({"huber_loss", "default", "mps", Category::fp32, kernel<ops::huber_loss, Category::fp32>});
  rows.push_back({"huber_loss", "default", "mtia", Category::fp32, kernel<ops::huber_loss, Category::fp32>});
  rows.push_back({"huber_loss", "default", "maia", Category::fp32, kernel<ops::huber_loss, Category::fp32>});
  rows.push_back({"huber_loss", "default", "hpu", Category::fp32, kernel<ops::huber_loss, Category::fp32>});
  rows.push_back({"huber_loss", "default", "privateuse1", Category::fp32, kernel<ops::huber_loss, Category::fp32>});
  names.push_back({"index_copy", "torch.index_copy torch.Tensor.index_copy"});
  rows.push_back({"index_copy", "default", "xla", Category::promote, kernel<ops::index_copy, Category::promote>});
  rows.push_back({"index_copy", "default", "cpu", Category::promote, kernel<ops::index_copy, Category::promote>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"index_copy", "dimname", "xla", Category::promote, kernel<ops::index_copy_dimname, Category::promote>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"index_copy", "dimname", "cpu", Category::promote, kernel<ops::index_copy_dimname, Category::promote>});
#endif
  names.push_back({"kl_div", "torch.nn.functional.kl_div torch.nn.KLDivLoss"});
  rows.push_back({"kl_div", "default", "cuda", Category::fp32, kernel<ops::kl_div, Category::fp32>});
  rows.push_back({"kl_div", "default", "xla", Category::fp32, kernel<ops::kl_div, Category::fp32>});
  rows.push_back({"kl_div", "default", "xla_gpu", Category::fp32, kernel<ops::kl_div, Category::fp32>});
  rows.push_back({"kl_div", "default", "xpu", Category::fp32, kernel<ops::kl_div, Category::fp32>});
  rows.push_back({"kl_div", "default", "cpu", Category::fp32, kernel<ops::kl_div, Category::fp32>});
  rows.push_back({"kl_div", "default", "mps", Category::fp32, kernel<ops::kl_div, Category::fp32>});
  rows.push_back({"kl_div", "default", "mtia", Category::fp32, kernel<ops::kl_div, Category::fp32>});
  rows.push_back({"kl_div", "default", "maia", Category::fp32, kernel<ops::kl_div, Category::fp32>});
  rows.push_back({"kl_div", "default", "hpu", Category::fp32, kernel<ops::kl_div, Category::fp32>});
  rows.push_back({"kl_div", "default", "privateuse1", Category::fp32, kernel<ops::kl_div, Category::fp32>});
  names.push_back({"linalg_eig", "torch.linalg.eig"});
  rows.push_back({"linalg_eig", "default", "cpu", Category::fp32, kernel<ops::linalg_eig, Category::fp32>});
  names.push_back({"nll_loss2d", "torch.nn.functional.nll_loss torch._C._nn.nll_loss2d torch.nn.NLLLoss"});
  rows.push_back({"nll_loss2d", "default", "cuda", Category::fp32, kernel<ops::nll_loss2d, Category::fp32>});
  rows.push_back({"nll_loss2d", "default", "xla", Category::fp32, kernel<ops::nll_loss2d, Category::fp32>});
  rows.push_back({"nll_loss2d", "default", "xla_gpu", Category::fp32, kernel<ops::nll_loss2d, Category::fp32>});
  rows.push_back({"nll_loss2d", "default", "xpu", Category::fp32, kernel<ops::nll_loss2d, Category::fp32>});
  rows.push_back({"nll_loss2d", "default", "cpu", Category::fp32, kernel<ops::nll_loss2d, Category::fp32>});
  rows.push_back({"nll_loss2d", "default", "mps", Category::fp32, kernel<ops::nll_loss2d, Category::fp32>});
  rows.push_back({"nll_loss2d", "default", "mtia", Category::fp32, kernel<ops::nll_loss2d, Category::fp32>});
  rows.push_back({"nll_loss2d", "default", "maia", Category::fp32, kernel<ops::nll_loss2d, Category::fp32>});
  rows.push_back({"nll_loss2d", "default", "hpu", Category::fp32, kernel<ops::nll_loss2d, Category::fp32>});
  rows.push_back({"nll_loss2d", "default", "privateuse1", Category::fp32, kernel<ops::nll_loss2d, Category::fp32>});
  names.push_back({"nuclear_norm", "torch.nuclear_norm torch.norm torch.Tensor.norm"});
  rows.push_back({"nuclear_norm", "default", "cuda", Category::fp32, kernel<ops::nuclear_norm, Category::fp32>});
  rows.push_back({"nuclear_norm", "default", "xla_gpu", Category::fp32, kernel<ops::nuclear_norm, Category::fp32>});
  rows.push_back({"nuclear_norm", "default", "xpu", Category::fp32, kernel<ops::nuclear_norm, Category::fp32>});
  rows.push_back({"nuclear_norm", "default", "mps", Category::fp32, kernel<ops::nuclear_norm, Category::fp32>});
  rows.push_back({"nuclear_norm", "default", "mtia", Category::fp32, kernel<ops::nuclear_norm, Category::fp32>});
  rows.push_back({"nuclear_norm", "default", "maia", Category::fp32, kernel<ops::nuclear_norm, Category::fp32>});
  rows.push_back({"nuclear_norm", "default", "hpu", Category::fp32, kernel<ops::nuclear_norm, Category::fp32>});
  rows.push_back({"nuclear_norm", "default", "privateuse1", Category::fp32, kernel<ops::nuclear_norm, Category::fp32>});
  rows.push_back({"nuclear_norm", "dim", "cuda", Category::fp32, kernel<ops::nuclear_norm_dim, Category::fp32>});
  rows.push_back({"nuclear_norm", "dim", "xla_gpu", Category::fp32, kernel<ops::nuclear_norm_dim, Category::fp32>});
  rows.push_back({"nuclear_norm", "dim", "xpu", Category::fp32, kernel<ops::nuclear_norm_dim, Category::fp32>});
  rows.push_back({"nuclear_norm", "dim", "mps", Category::fp32, kernel<ops::nuclear_norm_dim, Category::fp32>});
  rows.push_back({"nuclear_norm", "dim", "mtia", Category::fp32, kernel<ops::nuclear_norm_dim, Category::fp32>});
  rows.push_back({"nuclear_norm", "dim", "maia", Category::fp32, kernel<ops::nuclear_norm_dim, Category::fp32>});
  rows.push_back({"nuclear_norm", "dim", "hpu", Category::fp32, kernel<ops::nuclear_norm_dim, Category::fp32>});
  rows.push_back({"nuclear_norm", "dim", "privateuse1", Category::fp32, kernel<ops::nuclear_norm_dim, Category::fp32>});
  names.push_back({"pdist", "torch.nn.functional.pdist"});
  rows.push_back({"pdist", "default", "cuda", Category::fp32, kernel<ops::pdist, Category::fp32>});
  rows.push_back({"pdist", "default", "xla_gpu", Category::fp32, kernel<ops::pdist, Category::fp32>});
  rows.push_back({"pdist", "default", "xpu", Category::fp32, kernel<ops::pdist, Category::fp32>});
  rows.push_back({"pdist", "default", "mps", Category::fp32, kernel<ops::pdist, Category::fp32>});
  rows.push_back({"pdist", "default", "mtia", Category::fp32, kernel<ops::pdist, Category::fp32>});
  rows.push_back({"pdist", "default", "maia", Category::fp32, kernel<ops::pdist, Category::fp32>});
  rows.push_back({"pdist", "default", "hpu", Category::fp32, kernel<ops::pdist, Category::fp32>});
  rows.push_back({"pdist", "default", "privateuse1", Category::fp32, kernel<ops::pdist, Category::fp32>});
  names.push_back({"poisson_nll_loss", "torch.nn.functional.poisson_nll_loss torch.nn.PoissonNLLLoss"});
  rows.push_back({"poisson_nll_loss", "default", "cuda", Category::fp32, kernel<ops::poisson_nll_loss, Category::fp32>});
  rows.push_back({"poisson_nll_loss", "default", "xla_gpu", Category::fp32, kernel<ops::poisson_nll_loss, Category::fp32>});
  rows.push_back({"poisson_nll_loss", "default", "xpu", Category::fp32, kernel<ops::poisson_nll_loss, Category::fp32>});
  rows.push_back({"poisson_nll_loss", "default", "cpu", Category::fp32, kernel<ops::poisson_nll_loss, Category::fp32>});
  rows.push_back({"poisson_nll_loss", "default", "mps", Category::fp32, kernel<ops::poisson_nll_loss, Category::fp32>});
  rows.push_back({"poisson_nll_loss", "default", "mtia", Category::fp32, kernel<ops::poisson_nll_loss, Category::fp32>});
  rows.push_back({"poisson_nll_loss", "default", "maia", Category::fp32, kernel<ops::poisson_nll_loss, Category::fp32>});
  rows.push_back({"poisson_nll_loss", "default", "hpu", Category::fp32, kernel<ops::poisson_nll_loss, Category::fp32>});
  rows.push_back({"poisson_nll_loss", "default", "privateuse1", Category::fp32, kernel<ops::poisson_nll_loss, Category::fp32>});
  names.push_back({"reciprocal", "torch.reciprocal torch.Tensor.reciprocal torch.Tensor.__rdiv__ torch.Tensor.__rtruediv__"});
  rows.push_back({"reciprocal", "default", "cuda", Category::fp32, kernel<ops::reciprocal, Category::fp32>});
  rows.push_back({"reciprocal", "default", "xla_gpu", Category::fp32, kernel<ops::reciprocal, Category::fp32>});
  rows.push_back({"reciprocal", "default", "xpu", Category::fp32, kernel<ops::reciprocal, Category::fp32>});
  rows.push_back({"reciprocal", "default", "mps", Category::fp32, kernel<ops::reciprocal, Category::fp32>});
  rows.push_back({"reciprocal", "default", "mtia", Category::fp32, kernel<ops::reciprocal, Category::fp32>});
  rows.push_back({"reciprocal", "default", "maia", Category::fp32, kernel<ops::reciprocal, Category::fp32>});
  rows.push_back({"reciprocal", "default", "hpu", Category::fp32, kernel<ops::reciprocal, Category::fp32>});
  rows.push_back({"reciprocal", "default", "privateuse1", Category::fp32, kernel<ops::reciprocal, Category::fp32>});
  names.push_back({"reflection_pad2d", "torch.nn.functional.pad torch.nn.ReflectionPad2d"});
  rows.push_back({"reflection_pad2d", "default", "xla", Category::fp32, kernel<ops::reflection_pad2d, Category::fp32>});
  rows.push_back({"reflection_pad2d", "default", "cpu", Category::fp32, kernel<ops::reflection_pad2d, Category::fp32>});
  names.push_back({"trace", "torch.trace torch.Tensor.trace"});
  rows.push_back({"trace", "default", "xla", Category::fp32, kernel<ops::trace, Category::fp32>});
  rows.push_back({"trace", "default", "cpu", Category::fp32, kernel<ops::trace, Category::fp32>});
  names.push_back({"triangular_solve", "torch.triangular_solve torch.Tensor.triangular_solve"});
  rows.push_back({"triangular_solve", "default", "xla", Category::fp32, kernel<ops::triangular_solve, Category::fp32>});
  rows.push_back({"triangular_solve", "default", "cpu", Category::fp32, kernel<ops::triangular_solve, Category::fp32>});
  names.push_back({"upsample_nearest3d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  rows.push_back({"upsample_nearest3d", "default", "cuda", Category::fp32, kernel<ops::upsample_nearest3d, Category::fp32>});
  rows.push_back({"upsample_nearest3d", "default", "xla_gpu", Category::fp32, kernel<ops::upsample_nearest3d, Category::fp32>});
  rows.push_back({"upsample_nearest3d", "default", "xpu", Category::fp32, kernel<ops::upsample_nearest3d, Category::fp32>});
  rows.push_back({"upsample_nearest3d", "default", "mtia", Category::fp32, kernel<ops::upsample_nearest3d, Category::fp32>});
  rows.push_back({"upsample_nearest3d", "default", "maia", Category::fp32, kernel<ops::upsample_nearest3d, Category::fp32>});
  rows.push_back({"upsample_nearest3d", "default", "hpu", Category::fp32, kernel<ops::upsample_nearest3d, Category::fp32>});
  rows.push_back({"upsample_nearest3d", "default", "privateuse1", Category::fp32, kernel<ops::upsample_nearest3d, Category::fp32>});
}

} // namespace polycast::autocast
