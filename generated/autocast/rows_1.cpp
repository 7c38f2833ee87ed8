// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/kernel.h"

#include <torch/version.h>

#include <ATen/ops/_lu_with_info_ops.h>
#include <ATen/ops/_thnn_fused_gru_cell_ops.h>
#include <ATen/ops/_upsample_nearest_exact2d_ops.h>
#include <ATen/ops/acos_ops.h>
#include <ATen/ops/adaptive_max_pool3d_ops.h>
#include <ATen/ops/addr_ops.h>
#include <ATen/ops/atan2_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bilinear_ops.h>
#include <ATen/ops/chain_matmul_ops.h>
#include <ATen/ops/cholesky_inverse_ops.h>
#include <ATen/ops/conv2d_ops.h>
#include <ATen/ops/cross_ops.h>
#include <ATen/ops/cumsum_ops.h>
#include <ATen/ops/einsum_ops.h>
#include <ATen/ops/erfinv_ops.h>
#include <ATen/ops/fake_quantize_per_tensor_affine_ops.h>
#include <ATen/ops/fft_hfft_ops.h>
#include <ATen/ops/fft_ifft2_ops.h>
#include <ATen/ops/fft_irfft2_ops.h>
#include <ATen/ops/fft_rfftn_ops.h>
#include <ATen/ops/fractional_max_pool3d_ops.h>
#include <ATen/ops/grid_sampler_ops.h>
#include <ATen/ops/huber_loss_ops.h>
#include <ATen/ops/index_copy_ops.h>
#include <ATen/ops/kl_div_ops.h>
#include <ATen/ops/linalg_eig_ops.h>
#include <ATen/ops/linalg_eigvals_ops.h>
#include <ATen/ops/linalg_inv_ex_ops.h>
#include <ATen/ops/linalg_matrix_norm_ops.h>
#include <ATen/ops/linalg_qr_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/log_softmax_ops.h>
#include <ATen/ops/logsumexp_ops.h>
#include <ATen/ops/lstm_cell_ops.h>
#include <ATen/ops/nll_loss2d_ops.h>
#include <ATen/ops/nuclear_norm_ops.h>
#include <ATen/ops/pdist_ops.h>
#include <ATen/ops/poisson_nll_loss_ops.h>
#include <ATen/ops/polar_ops.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/reflection_pad2d_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tensordot_ops.h>
#include <ATen/ops/trace_ops.h>
#include <ATen/ops/triangular_solve_ops.h>
#include <ATen/ops/triplet_margin_loss_ops.h>
#include <ATen/ops/upsample_nearest3d_ops.h>
#include <ATen/ops/vdot_ops.h>

namespace polycast::autocast {

namespace ops = at::_ops;

void rows_1(std::vector<Row>& rows, std::vector<Names>& names) {
  names.push_back({"_lu_with_info", "torch._lu_with_info torch.lu torch.Tensor.lu"});
  rows.push_back({"_lu_with_info", "default", "cpu", Category::fp32, kernel<ops::_lu_with_info>});
  names.push_back({"_thnn_fused_gru_cell", "torch.ops.aten._thnn_fused_gru_cell"});
  rows.push_back({"_thnn_fused_gru_cell", "default", "cuda", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "xpu", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "mtia", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "maia", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "hpu", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell>});
  rows.push_back({"_thnn_fused_gru_cell", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell>});
  names.push_back({"_upsample_nearest_exact2d", "torch.nn.functional.interpolate torch._C._nn._upsample_nearest_exact2d torch.nn.Upsample"});
  rows.push_back({"_upsample_nearest_exact2d", "default", "cuda", Category::fp32, kernel<ops::_upsample_nearest_exact2d>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "xla_gpu", Category::fp32, kernel<ops::_upsample_nearest_exact2d>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "xpu", Category::fp32, kernel<ops::_upsample_nearest_exact2d>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "mtia", Category::fp32, kernel<ops::_upsample_nearest_exact2d>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "maia", Category::fp32, kernel<ops::_upsample_nearest_exact2d>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "hpu", Category::fp32, kernel<ops::_upsample_nearest_exact2d>});
  rows.push_back({"_upsample_nearest_exact2d", "default", "privateuse1", Category::fp32, kernel<ops::_upsample_nearest_exact2d>});
  names.push_back({"acos", "torch.acos torch.Tensor.acos torch.arccos torch.Tensor.arccos"});
  rows.push_back({"acos", "default", "cuda", Category::fp32, kernel<ops::acos>});
  rows.push_back({"acos", "default", "xla_gpu", Category::fp32, kernel<ops::acos>});
  rows.push_back({"acos", "default", "xpu", Category::fp32, kernel<ops::acos>});
  rows.push_back({"acos", "default", "mps", Category::fp32, kernel<ops::acos>});
  rows.push_back({"acos", "default", "mtia", Category::fp32, kernel<ops::acos>});
  rows.push_back({"acos", "default", "maia", Category::fp32, kernel<ops::acos>});
  rows.push_back({"acos", "default", "hpu", Category::fp32, kernel<ops::acos>});
  rows.push_back({"acos", "default", "privateuse1", Category::fp32, kernel<ops::acos>});
  names.push_back({"adaptive_max_pool3d", "torch.nn.functional.adaptive_max_pool3d torch.nn.AdaptiveMaxPool3d"});
  rows.push_back({"adaptive_max_pool3d", "default", "cpu", Category::fp32, kernel<ops::adaptive_max_pool3d>});
  names.push_back({"addr", "torch.addr torch.Tensor.addr"});
  rows.push_back({"addr", "default", "cuda", Category::lower_precision_fp, kernel<ops::addr>});
  rows.push_back({"addr", "default", "xla", Category::lower_precision_fp, kernel<ops::addr>, "Listed in PyTorch/XLA: automatic mixed precision (000_1ddc69e16249b2f9.txt); torch_xla runs it in float32."});
  rows.push_back({"addr", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::addr>});
  rows.push_back({"addr", "default", "xpu", Category::lower_precision_fp, kernel<ops::addr>});
  rows.push_back({"addr", "default", "mps", Category::lower_precision_fp, kernel<ops::addr>});
  rows.push_back({"addr", "default", "mtia", Category::lower_precision_fp, kernel<ops::addr>});
  rows.push_back({"addr", "default", "maia", Category::lower_precision_fp, kernel<ops::addr>});
  rows.push_back({"addr", "default", "hpu", Category::lower_precision_fp, kernel<ops::addr>});
  rows.push_back({"addr", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::addr>});
  names.push_back({"atan2", "torch.atan2 torch.Tensor.atan2 torch.arctan2 torch.Tensor.arctan2"});
  rows.push_back({"atan2", "default", "cuda", Category::promote, kernel<ops::atan2>});
  rows.push_back({"atan2", "default", "xla_gpu", Category::promote, kernel<ops::atan2>});
  rows.push_back({"atan2", "default", "xpu", Category::promote, kernel<ops::atan2>});
  rows.push_back({"atan2", "default", "mps", Category::promote, kernel<ops::atan2>});
  rows.push_back({"atan2", "default", "mtia", Category::promote, kernel<ops::atan2>});
  rows.push_back({"atan2", "default", "maia", Category::promote, kernel<ops::atan2>});
  rows.push_back({"atan2", "default", "hpu", Category::promote, kernel<ops::atan2>});
  rows.push_back({"atan2", "default", "privateuse1", Category::promote, kernel<ops::atan2>});
  names.push_back({"baddbmm", "torch.baddbmm torch.Tensor.baddbmm"});
  rows.push_back({"baddbmm", "default", "cuda", Category::lower_precision_fp, kernel<ops::baddbmm>});
  rows.push_back({"baddbmm", "default", "xla", Category::lower_precision_fp, kernel<ops::baddbmm>});
  rows.push_back({"baddbmm", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::baddbmm>});
  rows.push_back({"baddbmm", "default", "xpu", Category::lower_precision_fp, kernel<ops::baddbmm>});
  rows.push_back({"baddbmm", "default", "cpu", Category::lower_precision_fp, kernel<ops::baddbmm>});
  rows.push_back({"baddbmm", "default", "mps", Category::lower_precision_fp, kernel<ops::baddbmm>});
  rows.push_back({"baddbmm", "default", "mtia", Category::lower_precision_fp, kernel<ops::baddbmm>});
  rows.push_back({"baddbmm", "default", "maia", Category::lower_precision_fp, kernel<ops::baddbmm>});
  rows.push_back({"baddbmm", "default", "hpu", Category::lower_precision_fp, kernel<ops::baddbmm>});
  rows.push_back({"baddbmm", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::baddbmm>});
  names.push_back({"bilinear", "torch.nn.functional.bilinear torch.nn.Bilinear"});
  rows.push_back({"bilinear", "default", "cuda", Category::promote, kernel<ops::bilinear>});
  rows.push_back({"bilinear", "default", "xla_gpu", Category::promote, kernel<ops::bilinear>});
  rows.push_back({"bilinear", "default", "xpu", Category::promote, kernel<ops::bilinear>});
  rows.push_back({"bilinear", "default", "mps", Category::promote, kernel<ops::bilinear>});
  rows.push_back({"bilinear", "default", "mtia", Category::promote, kernel<ops::bilinear>});
  rows.push_back({"bilinear", "default", "maia", Category::promote, kernel<ops::bilinear>});
  rows.push_back({"bilinear", "default", "hpu", Category::promote, kernel<ops::bilinear>});
  rows.push_back({"bilinear", "default", "privateuse1", Category::promote, kernel<ops::bilinear>});
  names.push_back({"chain_matmul", "torch.chain_matmul"});
  rows.push_back({"chain_matmul", "default", "cuda", Category::lower_precision_fp, kernel<ops::chain_matmul>});
  rows.push_back({"chain_matmul", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::chain_matmul>});
  rows.push_back({"chain_matmul", "default", "xpu", Category::lower_precision_fp, kernel<ops::chain_matmul>});
  rows.push_back({"chain_matmul", "default", "mps", Category::lower_precision_fp, kernel<ops::chain_matmul>});
  rows.push_back({"chain_matmul", "default", "mtia", Category::lower_precision_fp, kernel<ops::chain_matmul>});
  rows.push_back({"chain_matmul", "default", "maia", Category::lower_precision_fp, kernel<ops::chain_matmul>});
  rows.push_back({"chain_matmul", "default", "hpu", Category::lower_precision_fp, kernel<ops::chain_matmul>});
  rows.push_back({"chain_matmul", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::chain_matmul>});
  names.push_back({"cholesky_inverse", "torch.cholesky_inverse torch.Tensor.cholesky_inverse"});
  rows.push_back({"cholesky_inverse", "default", "xla", Category::fp32, kernel<ops::cholesky_inverse>});
  rows.push_back({"cholesky_inverse", "default", "cpu", Category::fp32, kernel<ops::cholesky_inverse>});
  names.push_back({"conv2d", "torch.nn.functional.conv2d torch.nn.Conv2d torch.conv2d"});
  rows.push_back({"conv2d", "default", "cuda", Category::lower_precision_fp, kernel<ops::conv2d>});
  rows.push_back({"conv2d", "default", "xla", Category::lower_precision_fp, kernel<ops::conv2d>});
  rows.push_back({"conv2d", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv2d>});
  rows.push_back({"conv2d", "default", "xpu", Category::lower_precision_fp, kernel<ops::conv2d>});
  rows.push_back({"conv2d", "default", "cpu", Category::lower_precision_fp, kernel<ops::conv2d>});
  rows.push_back({"conv2d", "default", "mps", Category::lower_precision_fp, kernel<ops::conv2d>});
  rows.push_back({"conv2d", "default", "mtia", Category::lower_precision_fp, kernel<ops::conv2d>});
  rows.push_back({"conv2d", "default", "maia", Category::lower_precision_fp, kernel<ops::conv2d>});
  rows.push_back({"conv2d", "default", "hpu", Category::lower_precision_fp, kernel<ops::conv2d>});
  rows.push_back({"conv2d", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::conv2d>});
  rows.push_back({"conv2d", "padding", "cuda", Category::lower_precision_fp, kernel<ops::conv2d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "xla", Category::lower_precision_fp, kernel<ops::conv2d_padding>});
  rows.push_back({"conv2d", "padding", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv2d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "xpu", Category::lower_precision_fp, kernel<ops::conv2d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "cpu", Category::lower_precision_fp, kernel<ops::conv2d_padding>});
  rows.push_back({"conv2d", "padding", "mps", Category::lower_precision_fp, kernel<ops::conv2d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "mtia", Category::lower_precision_fp, kernel<ops::conv2d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "maia", Category::lower_precision_fp, kernel<ops::conv2d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "hpu", Category::lower_precision_fp, kernel<ops::conv2d_padding>, "Torch casts inside the decomposition instead."});
  rows.push_back({"conv2d", "padding", "privateuse1", Category::lower_precision_fp, kernel<ops::conv2d_padding>, "Torch casts inside the decomposition instead."});
  names.push_back({"cross", "torch.cross torch.Tensor.cross"});
  rows.push_back({"cross", "default", "cuda", Category::promote, kernel<ops::cross>});
  rows.push_back({"cross", "default", "xla_gpu", Category::promote, kernel<ops::cross>});
  rows.push_back({"cross", "default", "xpu", Category::promote, kernel<ops::cross>});
  rows.push_back({"cross", "default", "mps", Category::promote, kernel<ops::cross>});
  rows.push_back({"cross", "default", "mtia", Category::promote, kernel<ops::cross>});
  rows.push_back({"cross", "default", "maia", Category::promote, kernel<ops::cross>});
  rows.push_back({"cross", "default", "hpu", Category::promote, kernel<ops::cross>});
  rows.push_back({"cross", "default", "privateuse1", Category::promote, kernel<ops::cross>});
  names.push_back({"cumsum", "torch.cumsum torch.Tensor.cumsum"});
  rows.push_back({"cumsum", "default", "cuda", Category::fp32_set_opt_dtype, kernel<ops::cumsum>});
  rows.push_back({"cumsum", "default", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum>});
  rows.push_back({"cumsum", "default", "xpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum>});
  rows.push_back({"cumsum", "default", "mps", Category::fp32, kernel<ops::cumsum>});
  rows.push_back({"cumsum", "default", "mtia", Category::fp32_set_opt_dtype, kernel<ops::cumsum>});
  rows.push_back({"cumsum", "default", "maia", Category::fp32_set_opt_dtype, kernel<ops::cumsum>});
  rows.push_back({"cumsum", "default", "hpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum>});
  rows.push_back({"cumsum", "default", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::cumsum>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "cuda", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "xpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "mps", Category::fp32, kernel<ops::cumsum_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "mtia", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "maia", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "hpu", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumsum", "dimname", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname>});
#endif
  names.push_back({"einsum", "torch.einsum"});
  rows.push_back({"einsum", "default", "cuda", Category::lower_precision_fp, kernel<ops::einsum>});
  rows.push_back({"einsum", "default", "xla", Category::lower_precision_fp, kernel<ops::einsum>});
  rows.push_back({"einsum", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::einsum>});
  rows.push_back({"einsum", "default", "xpu", Category::lower_precision_fp, kernel<ops::einsum>});
  rows.push_back({"einsum", "default", "mps", Category::lower_precision_fp, kernel<ops::einsum>});
  rows.push_back({"einsum", "default", "mtia", Category::lower_precision_fp, kernel<ops::einsum>});
  rows.push_back({"einsum", "default", "maia", Category::lower_precision_fp, kernel<ops::einsum>});
  rows.push_back({"einsum", "default", "hpu", Category::lower_precision_fp, kernel<ops::einsum>});
  rows.push_back({"einsum", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::einsum>});
  names.push_back({"erfinv", "torch.erfinv torch.Tensor.erfinv torch.special.erfinv"});
  rows.push_back({"erfinv", "default", "cuda", Category::fp32, kernel<ops::erfinv>});
  rows.push_back({"erfinv", "default", "xla_gpu", Category::fp32, kernel<ops::erfinv>});
  rows.push_back({"erfinv", "default", "xpu", Category::fp32, kernel<ops::erfinv>});
  rows.push_back({"erfinv", "default", "mps", Category::fp32, kernel<ops::erfinv>});
  rows.push_back({"erfinv", "default", "mtia", Category::fp32, kernel<ops::erfinv>});
  rows.push_back({"erfinv", "default", "maia", Category::fp32, kernel<ops::erfinv>});
  rows.push_back({"erfinv", "default", "hpu", Category::fp32, kernel<ops::erfinv>});
  rows.push_back({"erfinv", "default", "privateuse1", Category::fp32, kernel<ops::erfinv>});
  names.push_back({"fake_quantize_per_tensor_affine", "torch.fake_quantize_per_tensor_affine"});
  rows.push_back({"fake_quantize_per_tensor_affine", "default", "cpu", Category::fp32, kernel<ops::fake_quantize_per_tensor_affine>});
  names.push_back({"fft_hfft", "torch.fft.hfft"});
  rows.push_back({"fft_hfft", "default", "xpu", Category::fp32, kernel<ops::fft_hfft>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_hfft", "default", "cpu", Category::fp32, kernel<ops::fft_hfft>});
  names.push_back({"fft_ifft2", "torch.fft.ifft2"});
  rows.push_back({"fft_ifft2", "default", "xpu", Category::fp32, kernel<ops::fft_ifft2>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_ifft2", "default", "cpu", Category::fp32, kernel<ops::fft_ifft2>});
  names.push_back({"fft_irfft2", "torch.fft.irfft2"});
  rows.push_back({"fft_irfft2", "default", "xpu", Category::fp32, kernel<ops::fft_irfft2>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_irfft2", "default", "cpu", Category::fp32, kernel<ops::fft_irfft2>});
  names.push_back({"fft_rfftn", "torch.fft.rfftn"});
  rows.push_back({"fft_rfftn", "default", "xpu", Category::fp32, kernel<ops::fft_rfftn>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_rfftn", "default", "cpu", Category::fp32, kernel<ops::fft_rfftn>});
  names.push_back({"fractional_max_pool3d", "torch.nn.functional.fractional_max_pool3d torch.nn.FractionalMaxPool3d"});
  rows.push_back({"fractional_max_pool3d", "default", "cpu", Category::fp32, kernel<ops::fractional_max_pool3d>});
  names.push_back({"grid_sampler", "torch.nn.functional.grid_sample torch.grid_sampler"});
  rows.push_back({"grid_sampler", "default", "cuda", Category::promote, kernel<ops::grid_sampler>});
  rows.push_back({"grid_sampler", "default", "xla_gpu", Category::promote, kernel<ops::grid_sampler>});
  rows.push_back({"grid_sampler", "default", "xpu", Category::promote, kernel<ops::grid_sampler>});
  rows.push_back({"grid_sampler", "default", "cpu", Category::fp32, kernel<ops::grid_sampler>});
  rows.push_back({"grid_sampler", "default", "mps", Category::promote, kernel<ops::grid_sampler>});
  rows.push_back({"grid_sampler", "default", "mtia", Category::promote, kernel<ops::grid_sampler>});
  rows.push_back({"grid_sampler", "default", "maia", Category::promote, kernel<ops::grid_sampler>});
  rows.push_back({"grid_sampler", "default", "hpu", Category::promote, kernel<ops::grid_sampler>});
  rows.push_back({"grid_sampler", "default", "privateuse1", Category::promote, kernel<ops::grid_sampler>});
  names.push_back({"huber_loss", "torch.nn.functional.huber_loss torch.nn.HuberLoss"});
  rows.push_back({"huber_loss", "default", "cuda", Category::fp32, kernel<ops::huber_loss>});
  rows.push_back({"huber_loss", "default", "xla_gpu", Category::fp32, kernel<ops::huber_loss>});
  rows.push_back({"huber_loss", "default", "xpu", Category::fp32, kernel<ops::huber_loss>});
  rows.push_back({"huber_loss", "default", "cpu", Category::fp32, kernel<ops::huber_loss>});
  rows.push_back({"huber_loss", "default", "mps", Category::fp32, kernel<ops::huber_loss>});
  rows.push_back({"huber_loss", "default", "mtia", Category::fp32, kernel<ops::huber_loss>});
  rows.push_back({"huber_loss", "default", "maia", Category::fp32, kernel<ops::huber_loss>});
  rows.push_back({"huber_loss", "default", "hpu", Category::fp32, kernel<ops::huber_loss>});
  rows.push_back({"huber_loss", "default", "privateuse1", Category::fp32, kernel<ops::huber_loss>});
  names.push_back({"index_copy", "torch.index_copy torch.Tensor.index_copy"});
  rows.push_back({"index_copy", "default", "xla", Category::promote, kernel<ops::index_copy>});
  rows.push_back({"index_copy", "default", "cpu", Category::promote, kernel<ops::index_copy>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"index_copy", "dimname", "xla", Category::promote, kernel<ops::index_copy_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"index_copy", "dimname", "cpu", Category::promote, kernel<ops::index_copy_dimname>});
#endif
  names.push_back({"kl_div", "torch.nn.functional.kl_div torch.nn.KLDivLoss"});
  rows.push_back({"kl_div", "default", "cuda", Category::fp32, kernel<ops::kl_div>});
  rows.push_back({"kl_div", "default", "xla", Category::fp32, kernel<ops::kl_div>});
  rows.push_back({"kl_div", "default", "xla_gpu", Category::fp32, kernel<ops::kl_div>});
  rows.push_back({"kl_div", "default", "xpu", Category::fp32, kernel<ops::kl_div>});
  rows.push_back({"kl_div", "default", "cpu", Category::fp32, kernel<ops::kl_div>});
  rows.push_back({"kl_div", "default", "mps", Category::fp32, kernel<ops::kl_div>});
  rows.push_back({"kl_div", "default", "mtia", Category::fp32, kernel<ops::kl_div>});
  rows.push_back({"kl_div", "default", "maia", Category::fp32, kernel<ops::kl_div>});
  rows.push_back({"kl_div", "default", "hpu", Category::fp32, kernel<ops::kl_div>});
  rows.push_back({"kl_div", "default", "privateuse1", Category::fp32, kernel<ops::kl_div>});
  names.push_back({"linalg_eig", "torch.linalg.eig"});
  rows.push_back({"linalg_eig", "default", "cpu", Category::fp32, kernel<ops::linalg_eig>});
  names.push_back({"linalg_eigvals", "torch.linalg.eigvals"});
  rows.push_back({"linalg_eigvals", "default", "cpu", Category::fp32, kernel<ops::linalg_eigvals>});
  names.push_back({"linalg_inv_ex", "torch.linalg.inv_ex torch.linalg.inv"});
  rows.push_back({"linalg_inv_ex", "default", "xla", Category::fp32, kernel<ops::linalg_inv_ex>});
  rows.push_back({"linalg_inv_ex", "default", "cpu", Category::fp32, kernel<ops::linalg_inv_ex>});
  names.push_back({"linalg_matrix_norm", "torch.linalg.matrix_norm torch.linalg.norm"});
  rows.push_back({"linalg_matrix_norm", "default", "cuda", Category::fp32, kernel<ops::linalg_matrix_norm>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "xla_gpu", Category::fp32, kernel<ops::linalg_matrix_norm>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "xpu", Category::fp32, kernel<ops::linalg_matrix_norm>, "Listed as nuclear_norm in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "mps", Category::fp32, kernel<ops::linalg_matrix_norm>});
  rows.push_back({"linalg_matrix_norm", "default", "mtia", Category::fp32, kernel<ops::linalg_matrix_norm>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "maia", Category::fp32, kernel<ops::linalg_matrix_norm>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "hpu", Category::fp32, kernel<ops::linalg_matrix_norm>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "privateuse1", Category::fp32, kernel<ops::linalg_matrix_norm>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "cuda", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "xla_gpu", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "xpu", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord>, "Listed as nuclear_norm in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "mps", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord>});
  rows.push_back({"linalg_matrix_norm", "str_ord", "mtia", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "maia", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "hpu", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "privateuse1", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  names.push_back({"linalg_qr", "torch.linalg.qr"});
  rows.push_back({"linalg_qr", "default", "cpu", Category::fp32, kernel<ops::linalg_qr>});
  names.push_back({"log", "torch.log torch.Tensor.log"});
  rows.push_back({"log", "default", "cuda", Category::fp32, kernel<ops::log>});
  rows.push_back({"log", "default", "xla_gpu", Category::fp32, kernel<ops::log>});
  rows.push_back({"log", "default", "xpu", Category::fp32, kernel<ops::log>});
  rows.push_back({"log", "default", "mps", Category::fp32, kernel<ops::log>});
  rows.push_back({"log", "default", "mtia", Category::fp32, kernel<ops::log>});
  rows.push_back({"log", "default", "maia", Category::fp32, kernel<ops::log>});
  rows.push_back({"log", "default", "hpu", Category::fp32, kernel<ops::log>});
  rows.push_back({"log", "default", "privateuse1", Category::fp32, kernel<ops::log>});
  names.push_back({"log_softmax", "torch.log_softmax torch.Tensor.log_softmax torch.nn.functional.log_softmax torch.nn.LogSoftmax torch.special.log_softmax"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "cuda", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "xla", Category::fp32, kernel<ops::log_softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "xpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "mps", Category::fp32, kernel<ops::log_softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "mtia", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "maia", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "hpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname>});
#endif
  rows.push_back({"log_softmax", "int", "cuda", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int>});
  rows.push_back({"log_softmax", "int", "xla", Category::fp32, kernel<ops::log_softmax_int>});
  rows.push_back({"log_softmax", "int", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int>});
  rows.push_back({"log_softmax", "int", "xpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int>});
  rows.push_back({"log_softmax", "int", "mps", Category::fp32, kernel<ops::log_softmax_int>});
  rows.push_back({"log_softmax", "int", "mtia", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int>});
  rows.push_back({"log_softmax", "int", "maia", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int>});
  rows.push_back({"log_softmax", "int", "hpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int>});
  rows.push_back({"log_softmax", "int", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int>});
  names.push_back({"logsumexp", "torch.logsumexp torch.Tensor.logsumexp torch.special.logsumexp"});
  rows.push_back({"logsumexp", "default", "cuda", Category::fp32, kernel<ops::logsumexp>});
  rows.push_back({"logsumexp", "default", "xla_gpu", Category::fp32, kernel<ops::logsumexp>});
  rows.push_back({"logsumexp", "default", "xpu", Category::fp32, kernel<ops::logsumexp>});
  rows.push_back({"logsumexp", "default", "mps", Category::fp32, kernel<ops::logsumexp>});
  rows.push_back({"logsumexp", "default", "mtia", Category::fp32, kernel<ops::logsumexp>});
  rows.push_back({"logsumexp", "default", "maia", Category::fp32, kernel<ops::logsumexp>});
  rows.push_back({"logsumexp", "default", "hpu", Category::fp32, kernel<ops::logsumexp>});
  rows.push_back({"logsumexp", "default", "privateuse1", Category::fp32, kernel<ops::logsumexp>});
  names.push_back({"lstm_cell", "torch.nn.LSTMCell torch.lstm_cell"});
  rows.push_back({"lstm_cell", "default", "cuda", Category::lower_precision_fp, kernel<ops::lstm_cell>});
  rows.push_back({"lstm_cell", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::lstm_cell>});
  rows.push_back({"lstm_cell", "default", "xpu", Category::lower_precision_fp, kernel<ops::lstm_cell>});
  rows.push_back({"lstm_cell", "default", "mps", Category::lower_precision_fp, kernel<ops::lstm_cell>});
  rows.push_back({"lstm_cell", "default", "mtia", Category::lower_precision_fp, kernel<ops::lstm_cell>});
  rows.push_back({"lstm_cell", "default", "maia", Category::lower_precision_fp, kernel<ops::lstm_cell>});
  rows.push_back({"lstm_cell", "default", "hpu", Category::lower_precision_fp, kernel<ops::lstm_cell>});
  rows.push_back({"lstm_cell", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::lstm_cell>});
  names.push_back({"nll_loss2d", "torch.nn.functional.nll_loss torch._C._nn.nll_loss2d torch.nn.NLLLoss"});
  rows.push_back({"nll_loss2d", "default", "cuda", Category::fp32, kernel<ops::nll_loss2d>});
  rows.push_back({"nll_loss2d", "default", "xla", Category::fp32, kernel<ops::nll_loss2d>});
  rows.push_back({"nll_loss2d", "default", "xla_gpu", Category::fp32, kernel<ops::nll_loss2d>});
  rows.push_back({"nll_loss2d", "default", "xpu", Category::fp32, kernel<ops::nll_loss2d>});
  rows.push_back({"nll_loss2d", "default", "cpu", Category::fp32, kernel<ops::nll_loss2d>});
  rows.push_back({"nll_loss2d", "default", "mps", Category::fp32, kernel<ops::nll_loss2d>});
  rows.push_back({"nll_loss2d", "default", "mtia", Category::fp32, kernel<ops::nll_loss2d>});
  rows.push_back({"nll_loss2d", "default", "maia", Category::fp32, kernel<ops::nll_loss2d>});
  rows.push_back({"nll_loss2d", "default", "hpu", Category::fp32, kernel<ops::nll_loss2d>});
  rows.push_back({"nll_loss2d", "default", "privateuse1", Category::fp32, kernel<ops::nll_loss2d>});
  names.push_back({"nuclear_norm", "torch.nuclear_norm torch.norm torch.Tensor.norm"});
  rows.push_back({"nuclear_norm", "default", "cuda", Category::fp32, kernel<ops::nuclear_norm>});
  rows.push_back({"nuclear_norm", "default", "xla_gpu", Category::fp32, kernel<ops::nuclear_norm>});
  rows.push_back({"nuclear_norm", "default", "xpu", Category::fp32, kernel<ops::nuclear_norm>});
  rows.push_back({"nuclear_norm", "default", "mps", Category::fp32, kernel<ops::nuclear_norm>});
  rows.push_back({"nuclear_norm", "default", "mtia", Category::fp32, kernel<ops::nuclear_norm>});
  rows.push_back({"nuclear_norm", "default", "maia", Category::fp32, kernel<ops::nuclear_norm>});
  rows.push_back({"nuclear_norm", "default", "hpu", Category::fp32, kernel<ops::nuclear_norm>});
  rows.push_back({"nuclear_norm", "default", "privateuse1", Category::fp32, kernel<ops::nuclear_norm>});
  rows.push_back({"nuclear_norm", "dim", "cuda", Category::fp32, kernel<ops::nuclear_norm_dim>});
  rows.push_back({"nuclear_norm", "dim", "xla_gpu", Category::fp32, kernel<ops::nuclear_norm_dim>});
  rows.push_back({"nuclear_norm", "dim", "xpu", Category::fp32, kernel<ops::nuclear_norm_dim>});
  rows.push_back({"nuclear_norm", "dim", "mps", Category::fp32, kernel<ops::nuclear_norm_dim>});
  rows.push_back({"nuclear_norm", "dim", "mtia", Category::fp32, kernel<ops::nuclear_norm_dim>});
  rows.push_back({"nuclear_norm", "dim", "maia", Category::fp32, kernel<ops::nuclear_norm_dim>});
  rows.push_back({"nuclear_norm", "dim", "hpu", Category::fp32, kernel<ops::nuclear_norm_dim>});
  rows.push_back({"nuclear_norm", "dim", "privateuse1", Category::fp32, kernel<ops::nuclear_norm_dim>});
  names.push_back({"pdist", "torch.nn.functional.pdist"});
  rows.push_back({"pdist", "default", "cuda", Category::fp32, kernel<ops::pdist>});
  rows.push_back({"pdist", "default", "xla_gpu", Category::fp32, kernel<ops::pdist>});
  rows.push_back({"pdist", "default", "xpu", Category::fp32, kernel<ops::pdist>});
  rows.push_back({"pdist", "default", "mps", Category::fp32, kernel<ops::pdist>});
  rows.push_back({"pdist", "default", "mtia", Category::fp32, kernel<ops::pdist>});
  rows.push_back({"pdist", "default", "maia", Category::fp32, kernel<ops::pdist>});
  rows.push_back({"pdist", "default", "hpu", Category::fp32, kernel<ops::pdist>});
  rows.push_back({"pdist", "default", "privateuse1", Category::fp32, kernel<ops::pdist>});
  names.push_back({"poisson_nll_loss", "torch.nn.functional.poisson_nll_loss torch.nn.PoissonNLLLoss"});
  rows.push_back({"poisson_nll_loss", "default", "cuda", Category::fp32, kernel<ops::poisson_nll_loss>});
  rows.push_back({"poisson_nll_loss", "default", "xla_gpu", Category::fp32, kernel<ops::poisson_nll_loss>});
  rows.push_back({"poisson_nll_loss", "default", "xpu", Category::fp32, kernel<ops::poisson_nll_loss>});
  rows.push_back({"poisson_nll_loss", "default", "cpu", Category::fp32, kernel<ops::poisson_nll_loss>});
  rows.push_back({"poisson_nll_loss", "default", "mps", Category::fp32, kernel<ops::poisson_nll_loss>});
  rows.push_back({"poisson_nll_loss", "default", "mtia", Category::fp32, kernel<ops::poisson_nll_loss>});
  rows.push_back({"poisson_nll_loss", "default", "maia", Category::fp32, kernel<ops::poisson_nll_loss>});
  rows.push_back({"poisson_nll_loss", "default", "hpu", Category::fp32, kernel<ops::poisson_nll_loss>});
  rows.push_back({"poisson_nll_loss", "default", "privateuse1", Category::fp32, kernel<ops::poisson_nll_loss>});
  names.push_back({"polar", "torch.polar"});
  rows.push_back({"polar", "default", "cpu", Category::fp32, kernel<ops::polar>});
  names.push_back({"pow", "torch.pow torch.Tensor.pow torch.Tensor.__pow__ torch.Tensor.__rpow__"});
  rows.push_back({"pow", "Scalar", "cuda", Category::fp32, kernel<ops::pow_Scalar>});
  rows.push_back({"pow", "Scalar", "xla_gpu", Category::fp32, kernel<ops::pow_Scalar>});
  rows.push_back({"pow", "Scalar", "xpu", Category::fp32, kernel<ops::pow_Scalar>});
  rows.push_back({"pow", "Scalar", "mps", Category::fp32, kernel<ops::pow_Scalar>});
  rows.push_back({"pow", "Scalar", "mtia", Category::fp32, kernel<ops::pow_Scalar>});
  rows.push_back({"pow", "Scalar", "maia", Category::fp32, kernel<ops::pow_Scalar>});
  rows.push_back({"pow", "Scalar", "hpu", Category::fp32, kernel<ops::pow_Scalar>});
  rows.push_back({"pow", "Scalar", "privateuse1", Category::fp32, kernel<ops::pow_Scalar>});
  rows.push_back({"pow", "Tensor_Scalar", "cuda", Category::fp32, kernel<ops::pow_Tensor_Scalar>});
  rows.push_back({"pow", "Tensor_Scalar", "xla", Category::fp32, kernel<ops::pow_Tensor_Scalar>});
  rows.push_back({"pow", "Tensor_Scalar", "xla_gpu", Category::fp32, kernel<ops::pow_Tensor_Scalar>});
  rows.push_back({"pow", "Tensor_Scalar", "xpu", Category::fp32, kernel<ops::pow_Tensor_Scalar>});
  rows.push_back({"pow", "Tensor_Scalar", "mps", Category::fp32, kernel<ops::pow_Tensor_Scalar>});
  rows.push_back({"pow", "Tensor_Scalar", "mtia", Category::fp32, kernel<ops::pow_Tensor_Scalar>});
  rows.push_back({"pow", "Tensor_Scalar", "maia", Category::fp32, kernel<ops::pow_Tensor_Scalar>});
  rows.push_back({"pow", "Tensor_Scalar", "hpu", Category::fp32, kernel<ops::pow_Tensor_Scalar>});
  rows.push_back({"pow", "Tensor_Scalar", "privateuse1", Category::fp32, kernel<ops::pow_Tensor_Scalar>});
  rows.push_back({"pow", "Tensor_Tensor", "cuda", Category::fp32, kernel<ops::pow_Tensor_Tensor>});
  rows.push_back({"pow", "Tensor_Tensor", "xla_gpu", Category::fp32, kernel<ops::pow_Tensor_Tensor>});
  rows.push_back({"pow", "Tensor_Tensor", "xpu", Category::fp32, kernel<ops::pow_Tensor_Tensor>});
  rows.push_back({"pow", "Tensor_Tensor", "mps", Category::fp32, kernel<ops::pow_Tensor_Tensor>});
  rows.push_back({"pow", "Tensor_Tensor", "mtia", Category::fp32, kernel<ops::pow_Tensor_Tensor>});
  rows.push_back({"pow", "Tensor_Tensor", "maia", Category::fp32, kernel<ops::pow_Tensor_Tensor>});
  rows.push_back({"pow", "Tensor_Tensor", "hpu", Category::fp32, kernel<ops::pow_Tensor_Tensor>});
  rows.push_back({"pow", "Tensor_Tensor", "privateuse1", Category::fp32, kernel<ops::pow_Tensor_Tensor>});
  names.push_back({"reciprocal", "torch.reciprocal torch.Tensor.reciprocal torch.Tensor.__rdiv__ torch.Tensor.__rtruediv__"});
  rows.push_back({"reciprocal", "default", "cuda", Category::fp32, kernel<ops::reciprocal>});
  rows.push_back({"reciprocal", "default", "xla_gpu", Category::fp32, kernel<ops::reciprocal>});
  rows.push_back({"reciprocal", "default", "xpu", Category::fp32, kernel<ops::reciprocal>});
  rows.push_back({"reciprocal", "default", "mps", Category::fp32, kernel<ops::reciprocal>});
  rows.push_back({"reciprocal", "default", "mtia", Category::fp32, kernel<ops::reciprocal>});
  rows.push_back({"reciprocal", "default", "maia", Category::fp32, kernel<ops::reciprocal>});
  rows.push_back({"reciprocal", "default", "hpu", Category::fp32, kernel<ops::reciprocal>});
  rows.push_back({"reciprocal", "default", "privateuse1", Category::fp32, kernel<ops::reciprocal>});
  names.push_back({"reflection_pad2d", "torch.nn.functional.pad torch.nn.ReflectionPad2d"});
  rows.push_back({"reflection_pad2d", "default", "xla", Category::fp32, kernel<ops::reflection_pad2d>});
  rows.push_back({"reflection_pad2d", "default", "cpu", Category::fp32, kernel<ops::reflection_pad2d>});
  names.push_back({"sum", "torch.sum torch.Tensor.sum"});
  rows.push_back({"sum", "default", "cuda", Category::fp32_set_opt_dtype, kernel<ops::sum>});
  rows.push_back({"sum", "default", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::sum>});
  rows.push_back({"sum", "default", "xpu", Category::fp32_set_opt_dtype, kernel<ops::sum>});
  rows.push_back({"sum", "default", "mps", Category::fp32, kernel<ops::sum>});
  rows.push_back({"sum", "default", "mtia", Category::fp32_set_opt_dtype, kernel<ops::sum>});
  rows.push_back({"sum", "default", "maia", Category::fp32_set_opt_dtype, kernel<ops::sum>});
  rows.push_back({"sum", "default", "hpu", Category::fp32_set_opt_dtype, kernel<ops::sum>});
  rows.push_back({"sum", "default", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::sum>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "cuda", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "xpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "mps", Category::fp32, kernel<ops::sum_dim_DimnameList>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "mtia", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "maia", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "hpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList>});
#endif
  rows.push_back({"sum", "dim_IntList", "cuda", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList>});
  rows.push_back({"sum", "dim_IntList", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList>});
  rows.push_back({"sum", "dim_IntList", "xpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList>});
  rows.push_back({"sum", "dim_IntList", "mps", Category::fp32, kernel<ops::sum_dim_IntList>});
  rows.push_back({"sum", "dim_IntList", "mtia", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList>});
  rows.push_back({"sum", "dim_IntList", "maia", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList>});
  rows.push_back({"sum", "dim_IntList", "hpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList>});
  rows.push_back({"sum", "dim_IntList", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList>});
  names.push_back({"tensordot", "torch.tensordot"});
  rows.push_back({"tensordot", "default", "cuda", Category::promote, kernel<ops::tensordot>});
  rows.push_back({"tensordot", "default", "xla_gpu", Category::promote, kernel<ops::tensordot>});
  rows.push_back({"tensordot", "default", "xpu", Category::promote, kernel<ops::tensordot>});
  rows.push_back({"tensordot", "default", "mps", Category::promote, kernel<ops::tensordot>});
  rows.push_back({"tensordot", "default", "mtia", Category::promote, kernel<ops::tensordot>});
  rows.push_back({"tensordot", "default", "maia", Category::promote, kernel<ops::tensordot>});
  rows.push_back({"tensordot", "default", "hpu", Category::promote, kernel<ops::tensordot>});
  rows.push_back({"tensordot", "default", "privateuse1", Category::promote, kernel<ops::tensordot>});
  names.push_back({"trace", "torch.trace torch.Tensor.trace"});
  rows.push_back({"trace", "default", "xla", Category::fp32, kernel<ops::trace>});
  rows.push_back({"trace", "default", "cpu", Category::fp32, kernel<ops::trace>});
  names.push_back({"triangular_solve", "torch.triangular_solve torch.Tensor.triangular_solve"});
  rows.push_back({"triangular_solve", "default", "xla", Category::fp32, kernel<ops::triangular_solve>});
  rows.push_back({"triangular_solve", "default", "cpu", Category::fp32, kernel<ops::triangular_solve>});
  names.push_back({"triplet_margin_loss", "torch.nn.functional.triplet_margin_loss torch.nn.TripletMarginLoss"});
  rows.push_back({"triplet_margin_loss", "default", "cuda", Category::fp32, kernel<ops::triplet_margin_loss>});
  rows.push_back({"triplet_margin_loss", "default", "xla", Category::fp32, kernel<ops::triplet_margin_loss>});
  rows.push_back({"triplet_margin_loss", "default", "xla_gpu", Category::fp32, kernel<ops::triplet_margin_loss>});
  rows.push_back({"triplet_margin_loss", "default", "xpu", Category::fp32, kernel<ops::triplet_margin_loss>});
  rows.push_back({"triplet_margin_loss", "default", "cpu", Category::fp32, kernel<ops::triplet_margin_loss>});
  rows.push_back({"triplet_margin_loss", "default", "mps", Category::fp32, kernel<ops::triplet_margin_loss>});
  rows.push_back({"triplet_margin_loss", "default", "mtia", Category::fp32, kernel<ops::triplet_margin_loss>});
  rows.push_back({"triplet_margin_loss", "default", "maia", Category::fp32, kernel<ops::triplet_margin_loss>});
  rows.push_back({"triplet_margin_loss", "default", "hpu", Category::fp32, kernel<ops::triplet_margin_loss>});
  rows.push_back({"triplet_margin_loss", "default", "privateuse1", Category::fp32, kernel<ops::triplet_margin_loss>});
  names.push_back({"upsample_nearest3d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  rows.push_back({"upsample_nearest3d", "default", "cuda", Category::fp32, kernel<ops::upsample_nearest3d>});
  rows.push_back({"upsample_nearest3d", "default", "xla_gpu", Category::fp32, kernel<ops::upsample_nearest3d>});
  rows.push_back({"upsample_nearest3d", "default", "xpu", Category::fp32, kernel<ops::upsample_nearest3d>});
  rows.push_back({"upsample_nearest3d", "default", "mtia", Category::fp32, kernel<ops::upsample_nearest3d>});
  rows.push_back({"upsample_nearest3d", "default", "maia", Category::fp32, kernel<ops::upsample_nearest3d>});
  rows.push_back({"upsample_nearest3d", "default", "hpu", Category::fp32, kernel<ops::upsample_nearest3d>});
  rows.push_back({"upsample_nearest3d", "default", "privateuse1", Category::fp32, kernel<ops::upsample_nearest3d>});
  names.push_back({"vdot", "torch.vdot torch.Tensor.vdot"});
  rows.push_back({"vdot", "default", "cuda", Category::promote, kernel<ops::vdot>});
  rows.push_back({"vdot", "default", "xla_gpu", Category::promote, kernel<ops::vdot>});
  rows.push_back({"vdot", "default", "xpu", Category::promote, kernel<ops::vdot>});
  rows.push_back({"vdot", "default", "mtia", Category::promote, kernel<ops::vdot>});
  rows.push_back({"vdot", "default", "maia", Category::promote, kernel<ops::vdot>});
  rows.push_back({"vdot", "default", "hpu", Category::promote, kernel<ops::vdot>});
  rows.push_back({"vdot", "default", "privateuse1", Category::promote, kernel<ops::vdot>});
}

} // namespace polycast::autocast
