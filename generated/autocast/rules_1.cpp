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

void rules_1(std::vector<BuiltInRule>& rules, std::vector<PublicNames>& names) {
  names.push_back({"_lu_with_info", "torch._lu_with_info torch.lu torch.Tensor.lu"});
  add_rules(rules, "cpu", {"_lu_with_info", "default", Category::fp32, kernel<ops::_lu_with_info>});
  names.push_back({"_thnn_fused_gru_cell", "torch.ops.aten._thnn_fused_gru_cell"});
  add_rules(rules, "cuda xpu", {"_thnn_fused_gru_cell", "default", Category::lower_precision_fp, kernel<ops::_thnn_fused_gru_cell>});
  names.push_back({"_upsample_nearest_exact2d", "torch.nn.functional.interpolate torch._C._nn._upsample_nearest_exact2d torch.nn.Upsample"});
  add_rules(rules, "cuda xpu -npu -mlu", {"_upsample_nearest_exact2d", "default", Category::fp32, kernel<ops::_upsample_nearest_exact2d>});
  names.push_back({"acos", "torch.acos torch.Tensor.acos torch.arccos torch.Tensor.arccos"});
  add_rules(rules, "cuda xpu mps", {"acos", "default", Category::fp32, kernel<ops::acos>});
  names.push_back({"adaptive_max_pool3d", "torch.nn.functional.adaptive_max_pool3d torch.nn.AdaptiveMaxPool3d"});
  add_rules(rules, "cpu", {"adaptive_max_pool3d", "default", Category::fp32, kernel<ops::adaptive_max_pool3d>});
  names.push_back({"addr", "torch.addr torch.Tensor.addr"});
  add_rules(rules, "cuda xpu mps tpu", {"addr", "default", Category::lower_precision_fp, kernel<ops::addr>});
  add_rules(rules, "xla", {"addr", "default", Category::lower_precision_fp, kernel<ops::addr>, "PyTorch/XLA: automatic mixed precision lists it; torch_xla runs it in float32."});
  names.push_back({"atan2", "torch.atan2 torch.Tensor.atan2 torch.arctan2 torch.Tensor.arctan2"});
  add_rules(rules, "cuda xpu mps", {"atan2", "default", Category::promote, kernel<ops::atan2>});
  names.push_back({"baddbmm", "torch.baddbmm torch.Tensor.baddbmm"});
  add_rules(rules, "cuda xla xpu cpu mps", {"baddbmm", "default", Category::lower_precision_fp, kernel<ops::baddbmm>});
  names.push_back({"bilinear", "torch.nn.functional.bilinear torch.nn.Bilinear"});
  add_rules(rules, "cuda xpu mps", {"bilinear", "default", Category::promote, kernel<ops::bilinear>});
  names.push_back({"chain_matmul", "torch.chain_matmul"});
  add_rules(rules, "cuda xpu mps tpu", {"chain_matmul", "default", Category::lower_precision_fp, kernel<ops::chain_matmul>});
  names.push_back({"cholesky_inverse", "torch.cholesky_inverse torch.Tensor.cholesky_inverse"});
  add_rules(rules, "xla cpu", {"cholesky_inverse", "default", Category::fp32, kernel<ops::cholesky_inverse>});
  names.push_back({"conv2d", "torch.nn.functional.conv2d torch.nn.Conv2d torch.conv2d"});
  add_rules(rules, "cuda xla xpu cpu mps", {"conv2d", "default", Category::lower_precision_fp, kernel<ops::conv2d>});
  add_rules(rules, "cuda xpu mps", {"conv2d", "padding", Category::lower_precision_fp, kernel<ops::conv2d_padding>, "PyTorch casts the ops of its decomposition instead."});
  add_rules(rules, "xla cpu", {"conv2d", "padding", Category::lower_precision_fp, kernel<ops::conv2d_padding>});
  names.push_back({"cross", "torch.cross torch.Tensor.cross"});
  add_rules(rules, "cuda xpu mps", {"cross", "default", Category::promote, kernel<ops::cross>});
  names.push_back({"cumsum", "torch.cumsum torch.Tensor.cumsum"});
  add_rules(rules, "cuda xpu", {"cumsum", "default", Category::fp32_set_opt_dtype, kernel<ops::cumsum>});
  add_rules(rules, "mps", {"cumsum", "default", Category::fp32, kernel<ops::cumsum>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "cuda xpu -npu", {"cumsum", "dimname", Category::fp32_set_opt_dtype, kernel<ops::cumsum_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "mps", {"cumsum", "dimname", Category::fp32, kernel<ops::cumsum_dimname>});
#endif
  names.push_back({"einsum", "torch.einsum"});
  add_rules(rules, "cuda xla xpu mps tpu", {"einsum", "default", Category::lower_precision_fp, kernel<ops::einsum>});
  names.push_back({"erfinv", "torch.erfinv torch.Tensor.erfinv torch.special.erfinv"});
  add_rules(rules, "cuda xpu mps", {"erfinv", "default", Category::fp32, kernel<ops::erfinv>});
  names.push_back({"fake_quantize_per_tensor_affine", "torch.fake_quantize_per_tensor_affine"});
  add_rules(rules, "cpu", {"fake_quantize_per_tensor_affine", "default", Category::fp32, kernel<ops::fake_quantize_per_tensor_affine>});
  names.push_back({"fft_hfft", "torch.fft.hfft"});
  add_rules(rules, "xpu", {"fft_hfft", "default", Category::fp32, kernel<ops::fft_hfft>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_hfft", "default", Category::fp32, kernel<ops::fft_hfft>});
  names.push_back({"fft_ifft2", "torch.fft.ifft2"});
  add_rules(rules, "xpu", {"fft_ifft2", "default", Category::fp32, kernel<ops::fft_ifft2>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_ifft2", "default", Category::fp32, kernel<ops::fft_ifft2>});
  names.push_back({"fft_irfft2", "torch.fft.irfft2"});
  add_rules(rules, "xpu", {"fft_irfft2", "default", Category::fp32, kernel<ops::fft_irfft2>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_irfft2", "default", Category::fp32, kernel<ops::fft_irfft2>});
  names.push_back({"fft_rfftn", "torch.fft.rfftn"});
  add_rules(rules, "xpu", {"fft_rfftn", "default", Category::fp32, kernel<ops::fft_rfftn>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_rfftn", "default", Category::fp32, kernel<ops::fft_rfftn>});
  names.push_back({"fractional_max_pool3d", "torch.nn.functional.fractional_max_pool3d torch.nn.FractionalMaxPool3d"});
  add_rules(rules, "cpu", {"fractional_max_pool3d", "default", Category::fp32, kernel<ops::fractional_max_pool3d>});
  names.push_back({"grid_sampler", "torch.nn.functional.grid_sample torch.grid_sampler"});
  add_rules(rules, "cuda xpu mps", {"grid_sampler", "default", Category::promote, kernel<ops::grid_sampler>});
  add_rules(rules, "cpu", {"grid_sampler", "default", Category::fp32, kernel<ops::grid_sampler>});
  names.push_back({"huber_loss", "torch.nn.functional.huber_loss torch.nn.HuberLoss"});
  add_rules(rules, "cuda xpu cpu mps", {"huber_loss", "default", Category::fp32, kernel<ops::huber_loss>});
  names.push_back({"index_copy", "torch.index_copy torch.Tensor.index_copy"});
  add_rules(rules, "xla cpu -tpu", {"index_copy", "default", Category::promote, kernel<ops::index_copy>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "xla cpu -tpu", {"index_copy", "dimname", Category::promote, kernel<ops::index_copy_dimname>});
#endif
  names.push_back({"kl_div", "torch.nn.functional.kl_div torch.nn.KLDivLoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"kl_div", "default", Category::fp32, kernel<ops::kl_div>});
  names.push_back({"linalg_eig", "torch.linalg.eig"});
  add_rules(rules, "cpu", {"linalg_eig", "default", Category::fp32, kernel<ops::linalg_eig>});
  names.push_back({"linalg_eigvals", "torch.linalg.eigvals"});
  add_rules(rules, "cpu", {"linalg_eigvals", "default", Category::fp32, kernel<ops::linalg_eigvals>});
  names.push_back({"linalg_inv_ex", "torch.linalg.inv_ex torch.linalg.inv"});
  add_rules(rules, "xla cpu", {"linalg_inv_ex", "default", Category::fp32, kernel<ops::linalg_inv_ex>});
  names.push_back({"linalg_matrix_norm", "torch.linalg.matrix_norm torch.linalg.norm"});
  add_rules(rules, "cuda", {"linalg_matrix_norm", "default", Category::fp32, kernel<ops::linalg_matrix_norm>, "PyTorch: torch.cuda.amp lists torch.norm; PyTorch only sets its dtype argument and raises for the orders nuc and 2."});
  add_rules(rules, "xpu", {"linalg_matrix_norm", "default", Category::fp32, kernel<ops::linalg_matrix_norm>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it as nuclear_norm; PyTorch only sets its dtype argument and raises for the orders nuc and 2."});
  add_rules(rules, "mps", {"linalg_matrix_norm", "default", Category::fp32, kernel<ops::linalg_matrix_norm>});
  add_rules(rules, "cuda", {"linalg_matrix_norm", "str_ord", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord>, "PyTorch: torch.cuda.amp lists torch.norm; PyTorch only sets its dtype argument and raises for the orders nuc and 2."});
  add_rules(rules, "xpu", {"linalg_matrix_norm", "str_ord", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it as nuclear_norm; PyTorch only sets its dtype argument and raises for the orders nuc and 2."});
  add_rules(rules, "mps", {"linalg_matrix_norm", "str_ord", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord>});
  names.push_back({"linalg_qr", "torch.linalg.qr"});
  add_rules(rules, "cpu", {"linalg_qr", "default", Category::fp32, kernel<ops::linalg_qr>});
  names.push_back({"log", "torch.log torch.Tensor.log"});
  add_rules(rules, "cuda xpu mps", {"log", "default", Category::fp32, kernel<ops::log>});
  names.push_back({"log_softmax", "torch.log_softmax torch.Tensor.log_softmax torch.nn.functional.log_softmax torch.nn.LogSoftmax torch.special.log_softmax"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "cuda xpu -npu", {"log_softmax", "Dimname", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "xla mps", {"log_softmax", "Dimname", Category::fp32, kernel<ops::log_softmax_Dimname>});
#endif
  add_rules(rules, "cuda xpu", {"log_softmax", "int", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int>});
  add_rules(rules, "xla mps", {"log_softmax", "int", Category::fp32, kernel<ops::log_softmax_int>});
  names.push_back({"logsumexp", "torch.logsumexp torch.Tensor.logsumexp torch.special.logsumexp"});
  add_rules(rules, "cuda xpu mps", {"logsumexp", "default", Category::fp32, kernel<ops::logsumexp>});
  names.push_back({"lstm_cell", "torch.nn.LSTMCell torch.lstm_cell"});
  add_rules(rules, "cuda xpu mps tpu", {"lstm_cell", "default", Category::lower_precision_fp, kernel<ops::lstm_cell>});
  names.push_back({"nll_loss2d", "torch.nn.functional.nll_loss torch._C._nn.nll_loss2d torch.nn.NLLLoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"nll_loss2d", "default", Category::fp32, kernel<ops::nll_loss2d>});
  names.push_back({"nuclear_norm", "torch.nuclear_norm torch.norm torch.Tensor.norm"});
  add_rules(rules, "cuda xpu mps", {"nuclear_norm", "default", Category::fp32, kernel<ops::nuclear_norm>});
  add_rules(rules, "cuda xpu mps", {"nuclear_norm", "dim", Category::fp32, kernel<ops::nuclear_norm_dim>});
  names.push_back({"pdist", "torch.nn.functional.pdist"});
  add_rules(rules, "cuda xpu mps", {"pdist", "default", Category::fp32, kernel<ops::pdist>});
  names.push_back({"poisson_nll_loss", "torch.nn.functional.poisson_nll_loss torch.nn.PoissonNLLLoss"});
  add_rules(rules, "cuda xpu cpu mps", {"poisson_nll_loss", "default", Category::fp32, kernel<ops::poisson_nll_loss>});
  names.push_back({"polar", "torch.polar"});
  add_rules(rules, "cpu", {"polar", "default", Category::fp32, kernel<ops::polar>});
  names.push_back({"pow", "torch.pow torch.Tensor.pow torch.Tensor.__pow__ torch.Tensor.__rpow__"});
  add_rules(rules, "cuda xpu mps", {"pow", "Scalar", Category::fp32, kernel<ops::pow_Scalar>});
  add_rules(rules, "cuda xla xpu mps", {"pow", "Tensor_Scalar", Category::fp32, kernel<ops::pow_Tensor_Scalar>});
  add_rules(rules, "cuda xpu mps", {"pow", "Tensor_Tensor", Category::fp32, kernel<ops::pow_Tensor_Tensor>});
  names.push_back({"reciprocal", "torch.reciprocal torch.Tensor.reciprocal torch.Tensor.__rdiv__ torch.Tensor.__rtruediv__"});
  add_rules(rules, "cuda xpu mps", {"reciprocal", "default", Category::fp32, kernel<ops::reciprocal>});
  names.push_back({"reflection_pad2d", "torch.nn.functional.pad torch.nn.ReflectionPad2d"});
  add_rules(rules, "xla cpu", {"reflection_pad2d", "default", Category::fp32, kernel<ops::reflection_pad2d>});
  names.push_back({"sum", "torch.sum torch.Tensor.sum"});
  add_rules(rules, "cuda xpu", {"sum", "default", Category::fp32_set_opt_dtype, kernel<ops::sum>});
  add_rules(rules, "mps", {"sum", "default", Category::fp32, kernel<ops::sum>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "cuda xpu -npu", {"sum", "dim_DimnameList", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "mps", {"sum", "dim_DimnameList", Category::fp32, kernel<ops::sum_dim_DimnameList>});
#endif
  add_rules(rules, "cuda xpu", {"sum", "dim_IntList", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList>});
  add_rules(rules, "mps", {"sum", "dim_IntList", Category::fp32, kernel<ops::sum_dim_IntList>});
  names.push_back({"tensordot", "torch.tensordot"});
  add_rules(rules, "cuda xpu mps", {"tensordot", "default", Category::promote, kernel<ops::tensordot>});
  names.push_back({"trace", "torch.trace torch.Tensor.trace"});
  add_rules(rules, "xla cpu", {"trace", "default", Category::fp32, kernel<ops::trace>});
  names.push_back({"triangular_solve", "torch.triangular_solve torch.Tensor.triangular_solve"});
  add_rules(rules, "xla cpu", {"triangular_solve", "default", Category::fp32, kernel<ops::triangular_solve>});
  names.push_back({"triplet_margin_loss", "torch.nn.functional.triplet_margin_loss torch.nn.TripletMarginLoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"triplet_margin_loss", "default", Category::fp32, kernel<ops::triplet_margin_loss>});
  names.push_back({"upsample_nearest3d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  add_rules(rules, "cuda xpu -npu -mlu", {"upsample_nearest3d", "default", Category::fp32, kernel<ops::upsample_nearest3d>});
  names.push_back({"vdot", "torch.vdot torch.Tensor.vdot"});
  add_rules(rules, "cuda xpu -npu -mlu", {"vdot", "default", Category::promote, kernel<ops::vdot>});
}

} // namespace polycast::autocast
