// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/kernel.h"

#include <torch/version.h>

#include <ATen/ops/acos_ops.h>
#include <ATen/ops/adaptive_max_pool3d_ops.h>
#include <ATen/ops/addr_ops.h>
#include <ATen/ops/atan2_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/chain_matmul_ops.h>
#include <ATen/ops/erfinv_ops.h>
#include <ATen/ops/fake_quantize_per_tensor_affine_ops.h>
#include <ATen/ops/fft_hfft_ops.h>
#include <ATen/ops/fft_ifft2_ops.h>
#include <ATen/ops/fractional_max_pool3d_ops.h>
#include <ATen/ops/grid_sampler_ops.h>
#include <ATen/ops/linalg_eigvals_ops.h>
#include <ATen/ops/linalg_inv_ex_ops.h>
#include <ATen/ops/linalg_matrix_norm_ops.h>
#include <ATen/ops/linalg_qr_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/log_softmax_ops.h>
#include <ATen/ops/logsumexp_ops.h>
#include <ATen/ops/lstm_cell_ops.h>
#include <ATen/ops/polar_ops.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tensordot_ops.h>
#include <ATen/ops/triplet_margin_loss_ops.h>
#include <ATen/ops/vdot_ops.h>

namespace polycast::autocast {

namespace ops = at::_ops;

void rows_5(std::vector<Row>& rows, std::vector<Names>& names) {
  names.push_back({"acos", "torch.acos torch.Tensor.acos torch.arccos torch.Tensor.arccos"});
  rows.push_back({"acos", "default", "cuda", Category::fp32, kernel<ops::acos, Category::fp32>});
  rows.push_back({"acos", "default", "xla_gpu", Category::fp32, kernel<ops::acos, Category::fp32>});
  rows.push_back({"acos", "default", "xpu", Category::fp32, kernel<ops::acos, Category::fp32>});
  rows.push_back({"acos", "default", "mps", Category::fp32, kernel<ops::acos, Category::fp32>});
  rows.push_back({"acos", "default", "mtia", Category::fp32, kernel<ops::acos, Category::fp32>});
  rows.push_back({"acos", "default", "maia", Category::fp32, kernel<ops::acos, Category::fp32>});
  rows.push_back({"acos", "default", "hpu", Category::fp32, kernel<ops::acos, Category::fp32>});
  rows.push_back({"acos", "default", "privateuse1", Category::fp32, kernel<ops::acos, Category::fp32>});
  names.push_back({"adaptive_max_pool3d", "torch.nn.functional.adaptive_max_pool3d torch.nn.AdaptiveMaxPool3d"});
  rows.push_back({"adaptive_max_pool3d", "default", "cpu", Category::fp32, kernel<ops::adaptive_max_pool3d, Category::fp32>});
  names.push_back({"addr", "torch.addr torch.Tensor.addr"});
  rows.push_back({"addr", "default", "cuda", Category::lower_precision_fp, kernel<ops::addr, Category::lower_precision_fp>});
  rows.push_back({"addr", "default", "xla", Category::lower_precision_fp, kernel<ops::addr, Category::lower_precision_fp>, "Listed in PyTorch/XLA: automatic mixed precision (000_1ddc69e16249b2f9.txt); torch_xla runs it in float32."});
  rows.push_back({"addr", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::addr, Category::lower_precision_fp>});
  rows.push_back({"addr", "default", "xpu", Category::lower_precision_fp, kernel<ops::addr, Category::lower_precision_fp>});
  rows.push_back({"addr", "default", "mps", Category::lower_precision_fp, kernel<ops::addr, Category::lower_precision_fp>});
  rows.push_back({"addr", "default", "mtia", Category::lower_precision_fp, kernel<ops::addr, Category::lower_precision_fp>});
  rows.push_back({"addr", "default", "maia", Category::lower_precision_fp, kernel<ops::addr, Category::lower_precision_fp>});
  rows.push_back({"addr", "default", "hpu", Category::lower_precision_fp, kernel<ops::addr, Category::lower_precision_fp>});
  rows.push_back({"addr", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::addr, Category::lower_precision_fp>});
  names.push_back({"atan2", "torch.atan2 torch.Tensor.atan2 torch.arctan2 torch.Tensor.arctan2"});
  rows.push_back({"atan2", "default", "cuda", Category::promote, kernel<ops::atan2, Category::promote>});
  rows.push_back({"atan2", "default", "xla_gpu", Category::promote, kernel<ops::atan2, Category::promote>});
  rows.push_back({"atan2", "default", "xpu", Category::promote, kernel<ops::atan2, Category::promote>});
  rows.push_back({"atan2", "default", "mps", Category::promote, kernel<ops::atan2, Category::promote>});
  rows.push_back({"atan2", "default", "mtia", Category::promote, kernel<ops::atan2, Category::promote>});
  rows.push_back({"atan2", "default", "maia", Category::promote, kernel<ops::atan2, Category::promote>});
  rows.push_back({"atan2", "default", "hpu", Category::promote, kernel<ops::atan2, Category::promote>});
  rows.push_back({"atan2", "default", "privateuse1", Category::promote, kernel<ops::atan2, Category::promote>});
  names.push_back({"baddbmm", "torch.baddbmm torch.Tensor.baddbmm"});
  rows.push_back({"baddbmm", "default", "cuda", Category::lower_precision_fp, kernel<ops::baddbmm, Category::lower_precision_fp>});
  rows.push_back({"baddbmm", "default", "xla", Category::lower_precision_fp, kernel<ops::baddbmm, Category::lower_precision_fp>});
  rows.push_back({"baddbmm", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::baddbmm, Category::lower_precision_fp>});
  rows.push_back({"baddbmm", "default", "xpu", Category::lower_precision_fp, kernel<ops::baddbmm, Category::lower_precision_fp>});
  rows.push_back({"baddbmm", "default", "cpu", Category::lower_precision_fp, kernel<ops::baddbmm, Category::lower_precision_fp>});
  rows.push_back({"baddbmm", "default", "mps", Category::lower_precision_fp, kernel<ops::baddbmm, Category::lower_precision_fp>});
  rows.push_back({"baddbmm", "default", "mtia", Category::lower_precision_fp, kernel<ops::baddbmm, Category::lower_precision_fp>});
  rows.push_back({"baddbmm", "default", "maia", Category::lower_precision_fp, kernel<ops::baddbmm, Category::lower_precision_fp>});
  rows.push_back({"baddbmm", "default", "hpu", Category::lower_precision_fp, kernel<ops::baddbmm, Category::lower_precision_fp>});
  rows.push_back({"baddbmm", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::baddbmm, Category::lower_precision_fp>});
  names.push_back({"chain_matmul", "torch.chain_matmul"});
  rows.push_back({"chain_matmul", "default", "cuda", Category::lower_precision_fp, kernel<ops::chain_matmul, Category::lower_precision_fp>});
  rows.push_back({"chain_matmul", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::chain_matmul, Category::lower_precision_fp>});
  rows.push_back({"chain_matmul", "default", "xpu", Category::lower_precision_fp, kernel<ops::chain_matmul, Category::lower_precision_fp>});
  rows.push_back({"chain_matmul", "default", "mps", Category::lower_precision_fp, kernel<ops::chain_matmul, Category::lower_precision_fp>});
  rows.push_back({"chain_matmul", "default", "mtia", Category::lower_precision_fp, kernel<ops::chain_matmul, Category::lower_precision_fp>});
  rows.push_back({"chain_matmul", "default", "maia", Category::lower_precision_fp, kernel<ops::chain_matmul, Category::lower_precision_fp>});
  rows.push_back({"chain_matmul", "default", "hpu", Category::lower_precision_fp, kernel<ops::chain_matmul, Category::lower_precision_fp>});
  rows.push_back({"chain_matmul", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::chain_matmul, Category::lower_precision_fp>});
  names.push_back({"erfinv", "torch.erfinv torch.Tensor.erfinv torch.special.erfinv"});
  rows.push_back({"erfinv", "default", "cuda", Category::fp32, kernel<ops::erfinv, Category::fp32>});
  rows.push_back({"erfinv", "default", "xla_gpu", Category::fp32, kernel<ops::erfinv, Category::fp32>});
  rows.push_back({"erfinv", "default", "xpu", Category::fp32, kernel<ops::erfinv, Category::fp32>});
  rows.push_back({"erfinv", "default", "mps", Category::fp32, kernel<ops::erfinv, Category::fp32>});
  rows.push_back({"erfinv", "default", "mtia", Category::fp32, kernel<ops::erfinv, Category::fp32>});
  rows.push_back({"erfinv", "default", "maia", Category::fp32, kernel<ops::erfinv, Category::fp32>});
  rows.push_back({"erfinv", "default", "hpu", Category::fp32, kernel<ops::erfinv, Category::fp32>});
  rows.push_back({"erfinv", "default", "privateuse1", Category::fp32, kernel<ops::erfinv, Category::fp32>});
  names.push_back({"fake_quantize_per_tensor_affine", "torch.fake_quantize_per_tensor_affine"});
  rows.push_back({"fake_quantize_per_tensor_affine", "default", "cpu", Category::fp32, kernel<ops::fake_quantize_per_tensor_affine, Category::fp32>});
  names.push_back({"fft_hfft", "torch.fft.hfft"});
  rows.push_back({"fft_hfft", "default", "xpu", Category::fp32, kernel<ops::fft_hfft, Category::fp32>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_hfft", "default", "cpu", Category::fp32, kernel<ops::fft_hfft, Category::fp32>});
  names.push_back({"fft_ifft2", "torch.fft.ifft2"});
  rows.push_back({"fft_ifft2", "default", "xpu", Category::fp32, kernel<ops::fft_ifft2, Category::fp32>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_ifft2", "default", "cpu", Category::fp32, kernel<ops::fft_ifft2, Category::fp32>});
  names.push_back({"fractional_max_pool3d", "torch.nn.functional.fractional_max_pool3d torch.nn.FractionalMaxPool3d"});
  rows.push_back({"fractional_max_pool3d", "default", "cpu", Category::fp32, kernel<ops::fractional_max_pool3d, Category::fp32>});
  names.push_back({"grid_sampler", "torch.nn.functional.grid_sample torch.grid_sampler"});
  rows.push_back({"grid_sampler", "default", "cuda", Category::promote, kernel<ops::grid_sampler, Category::promote>});
  rows.push_back({"grid_sampler", "default", "xla_gpu", Category::promote, kernel<ops::grid_sampler, Category::promote>});
  rows.push_back({"grid_sampler", "default", "xpu", Category::promote, kernel<ops::grid_sampler, Category::promote>});
  rows.push_back({"grid_sampler", "default", "cpu", Category::fp32, kernel<ops::grid_sampler, Category::fp32>});
  rows.push_back({"grid_sampler", "default", "mps", Category::promote, kernel<ops::grid_sampler, Category::promote>});
  rows.push_back({"grid_sampler", "default", "mtia", Category::promote, kernel<ops::grid_sampler, Category::promote>});
  rows.push_back({"grid_sampler", "default", "maia", Category::promote, kernel<ops::grid_sampler, Category::promote>});
  rows.push_back({"grid_sampler", "default", "hpu", Category::promote, kernel<ops::grid_sampler, Category::promote>});
  rows.push_back({"grid_sampler", "default", "privateuse1", Category::promote, kernel<ops::grid_sampler, Category::promote>});
  names.push_back({"linalg_eigvals", "torch.linalg.eigvals"});
  rows.push_back({"linalg_eigvals", "default", "cpu", Category::fp32, kernel<ops::linalg_eigvals, Category::fp32>});
  names.push_back({"linalg_inv_ex", "torch.linalg.inv_ex torch.linalg.inv"});
  rows.push_back({"linalg_inv_ex", "default", "xla", Category::fp32, kernel<ops::linalg_inv_ex, Category::fp32>});
  rows.push_back({"linalg_inv_ex", "default", "cpu", Category::fp32, kernel<ops::linalg_inv_ex, Category::fp32>});
  names.push_back({"linalg_matrix_norm", "torch.linalg.matrix_norm torch.linalg.norm"});
  rows.push_back({"linalg_matrix_norm", "default", "cuda", Category::fp32, kernel<ops::linalg_matrix_norm, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "xla_gpu", Category::fp32, kernel<ops::linalg_matrix_norm, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "xpu", Category::fp32, kernel<ops::linalg_matrix_norm, Category::fp32>, "Listed as nuclear_norm in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "mps", Category::fp32, kernel<ops::linalg_matrix_norm, Category::fp32>});
  rows.push_back({"linalg_matrix_norm", "default", "mtia", Category::fp32, kernel<ops::linalg_matrix_norm, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "maia", Category::fp32, kernel<ops::linalg_matrix_norm, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "hpu", Category::fp32, kernel<ops::linalg_matrix_norm, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "default", "privateuse1", Category::fp32, kernel<ops::linalg_matrix_norm, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "cuda", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "xla_gpu", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "xpu", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord, Category::fp32>, "Listed as nuclear_norm in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "mps", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord, Category::fp32>});
  rows.push_back({"linalg_matrix_norm", "str_ord", "mtia", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "maia", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "hpu", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  rows.push_back({"linalg_matrix_norm", "str_ord", "privateuse1", Category::fp32, kernel<ops::linalg_matrix_norm_str_ord, Category::fp32>, "torch.norm is listed in PyTorch: torch.cuda.amp (001_74d838cf59340b50.txt); torch sets a dtype and raises for nuc and 2."});
  names.push_back({"linalg_qr", "torch.linalg.qr"});
  rows.push_back({"linalg_qr", "default", "cpu", Category::fp32, kernel<ops::linalg_qr, Category::fp32>});
  names.push_back({"log", "torch.log torch.Tensor.log"});
  rows.push_back({"log", "default", "cuda", Category::fp32, kernel<ops::log, Category::fp32>});
  rows.push_back({"log", "default", "xla_gpu", Category::fp32, kernel<ops::log, Category::fp32>});
  rows.push_back({"log", "default", "xpu", Category::fp32, kernel<ops::log, Category::fp32>});
  rows.push_back({"log", "default", "mps", Category::fp32, kernel<ops::log, Category::fp32>});
  rows.push_back({"log", "default", "mtia", Category::fp32, kernel<ops::log, Category::fp32>});
  rows.push_back({"log", "default", "maia", Category::fp32, kernel<ops::log, Category::fp32>});
  rows.push_back({"log", "default", "hpu", Category::fp32, kernel<ops::log, Category::fp32>});
  rows.push_back({"log", "default", "privateuse1", Category::fp32, kernel<ops::log, Category::fp32>});
  names.push_back({"log_softmax", "torch.log_softmax torch.Tensor.log_softmax torch.nn.functional.log_softmax torch.nn.LogSoftmax torch.special.log_softmax"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "cuda", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "xla", Category::fp32, kernel<ops::log_softmax_Dimname, Category::fp32>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "xpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "mps", Category::fp32, kernel<ops::log_softmax_Dimname, Category::fp32>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "mtia", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "maia", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "hpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"log_softmax", "Dimname", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_Dimname, Category::fp32_set_opt_dtype>});
#endif
  rows.push_back({"log_softmax", "int", "cuda", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"log_softmax", "int", "xla", Category::fp32, kernel<ops::log_softmax_int, Category::fp32>});
  rows.push_back({"log_softmax", "int", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"log_softmax", "int", "xpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"log_softmax", "int", "mps", Category::fp32, kernel<ops::log_softmax_int, Category::fp32>});
  rows.push_back({"log_softmax", "int", "mtia", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"log_softmax", "int", "maia", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"log_softmax", "int", "hpu", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"log_softmax", "int", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::log_softmax_int, Category::fp32_set_opt_dtype>});
  names.push_back({"logsumexp", "torch.logsumexp torch.Tensor.logsumexp torch.special.logsumexp"});
  rows.push_back({"logsumexp", "default", "cuda", Category::fp32, kernel<ops::logsumexp, Category::fp32>});
  rows.push_back({"logsumexp", "default", "xla_gpu", Category::fp32, kernel<ops::logsumexp, Category::fp32>});
  rows.push_back({"logsumexp", "default", "xpu", Category::fp32, kernel<ops::logsumexp, Category::fp32>});
  rows.push_back({"logsumexp", "default", "mps", Category::fp32, kernel<ops::logsumexp, Category::fp32>});
  rows.push_back({"logsumexp", "default", "mtia", Category::fp32, kernel<ops::logsumexp, Category::fp32>});
  rows.push_back({"logsumexp", "default", "maia", Category::fp32, kernel<ops::logsumexp, Category::fp32>});
  rows.push_back({"logsumexp", "default", "hpu", Category::fp32, kernel<ops::logsumexp, Category::fp32>});
  rows.push_back({"logsumexp", "default", "privateuse1", Category::fp32, kernel<ops::logsumexp, Category::fp32>});
  names.push_back({"lstm_cell", "torch.nn.LSTMCell torch.lstm_cell"});
  rows.push_back({"lstm_cell", "default", "cuda", Category::lower_precision_fp, kernel<ops::lstm_cell, Category::lower_precision_fp>});
  rows.push_back({"lstm_cell", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::lstm_cell, Category::lower_precision_fp>});
  rows.push_back({"lstm_cell", "default", "xpu", Category::lower_precision_fp, kernel<ops::lstm_cell, Category::lower_precision_fp>});
  rows.push_back({"lstm_cell", "default", "mps", Category::lower_precision_fp, kernel<ops::lstm_cell, Category::lower_precision_fp>});
  rows.push_back({"lstm_cell", "default", "mtia", Category::lower_precision_fp, kernel<ops::lstm_cell, Category::lower_precision_fp>});
  rows.push_back({"lstm_cell", "default", "maia", Category::lower_precision_fp, kernel<ops::lstm_cell, Category::lower_precision_fp>});
  rows.push_back({"lstm_cell", "default", "hpu", Category::lower_precision_fp, kernel<ops::lstm_cell, Category::lower_precision_fp>});
  rows.push_back({"lstm_cell", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::lstm_cell, Category::lower_precision_fp>});
  names.push_back({"polar", "torch.polar"});
  rows.push_back({"polar", "default", "cpu", Category::fp32, kernel<ops::polar, Category::fp32>});
  names.push_back({"pow", "torch.pow torch.Tensor.pow torch.Tensor.__pow__ torch.Tensor.__rpow__"});
  rows.push_back({"pow", "Scalar", "cuda", Category::fp32, kernel<ops::pow_Scalar, Category::fp32>});
  rows.push_back({"pow", "Scalar", "xla_gpu", Category::fp32, kernel<ops::pow_Scalar, Category::fp32>});
  rows.push_back({"pow", "Scalar", "xpu", Category::fp32, kernel<ops::pow_Scalar, Category::fp32>});
  rows.push_back({"pow", "Scalar", "mps", Category::fp32, kernel<ops::pow_Scalar, Category::fp32>});
  rows.push_back({"pow", "Scalar", "mtia", Category::fp32, kernel<ops::pow_Scalar, Category::fp32>});
  rows.push_back({"pow", "Scalar", "maia", Category::fp32, kernel<ops::pow_Scalar, Category::fp32>});
  rows.push_back({"pow", "Scalar", "hpu", Category::fp32, kernel<ops::pow_Scalar, Category::fp32>});
  rows.push_back({"pow", "Scalar", "privateuse1", Category::fp32, kernel<ops::pow_Scalar, Category::fp32>});
  rows.push_back({"pow", "Tensor_Scalar", "cuda", Category::fp32, kernel<ops::pow_Tensor_Scalar, Category::fp32>});
  rows.push_back({"pow", "Tensor_Scalar", "xla", Category::fp32, kernel<ops::pow_Tensor_Scalar, Category::fp32>});
  rows.push_back({"pow", "Tensor_Scalar", "xla_gpu", Category::fp32, kernel<ops::pow_Tensor_Scalar, Category::fp32>});
  rows.push_back({"pow", "Tensor_Scalar", "xpu", Category::fp32, kernel<ops::pow_Tensor_Scalar, Category::fp32>});
  rows.push_back({"pow", "Tensor_Scalar", "mps", Category::fp32, kernel<ops::pow_Tensor_Scalar, Category::fp32>});
  rows.push_back({"pow", "Tensor_Scalar", "mtia", Category::fp32, kernel<ops::pow_Tensor_Scalar, Category::fp32>});
  rows.push_back({"pow", "Tensor_Scalar", "maia", Category::fp32, kernel<ops::pow_Tensor_Scalar, Category::fp32>});
  rows.push_back({"pow", "Tensor_Scalar", "hpu", Category::fp32, kernel<ops::pow_Tensor_Scalar, Category::fp32>});
  rows.push_back({"pow", "Tensor_Scalar", "privateuse1", Category::fp32, kernel<ops::pow_Tensor_Scalar, Category::fp32>});
  rows.push_back({"pow", "Tensor_Tensor", "cuda", Category::fp32, kernel<ops::pow_Tensor_Tensor, Category::fp32>});
  rows.push_back({"pow", "Tensor_Tensor", "xla_gpu", Category::fp32, kernel<ops::pow_Tensor_Tensor, Category::fp32>});
  rows.push_back({"pow", "Tensor_Tensor", "xpu", Category::fp32, kernel<ops::pow_Tensor_Tensor, Category::fp32>});
  rows.push_back({"pow", "Tensor_Tensor", "mps", Category::fp32, kernel<ops::pow_Tensor_Tensor, Category::fp32>});
  rows.push_back({"pow", "Tensor_Tensor", "mtia", Category::fp32, kernel<ops::pow_Tensor_Tensor, Category::fp32>});
  rows.push_back({"pow", "Tensor_Tensor", "maia", Category::fp32, kernel<ops::pow_Tensor_Tensor, Category::fp32>});
  rows.push_back({"pow", "Tensor_Tensor", "hpu", Category::fp32, kernel<ops::pow_Tensor_Tensor, Category::fp32>});
  rows.push_back({"pow", "Tensor_Tensor", "privateuse1", Category::fp32, kernel<ops::pow_Tensor_Tensor, Category::fp32>});
  names.push_back({"sum", "torch.sum torch.Tensor.sum"});
  rows.push_back({"sum", "default", "cuda", Category::fp32_set_opt_dtype, kernel<ops::sum, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "default", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::sum, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "default", "xpu", Category::fp32_set_opt_dtype, kernel<ops::sum, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "default", "mps", Category::fp32, kernel<ops::sum, Category::fp32>});
  rows.push_back({"sum", "default", "mtia", Category::fp32_set_opt_dtype, kernel<ops::sum, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "default", "maia", Category::fp32_set_opt_dtype, kernel<ops::sum, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "default", "hpu", Category::fp32_set_opt_dtype, kernel<ops::sum, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "default", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::sum, Category::fp32_set_opt_dtype>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "cuda", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "xpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "mps", Category::fp32, kernel<ops::sum_dim_DimnameList, Category::fp32>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "mtia", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "maia", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "hpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"sum", "dim_DimnameList", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_DimnameList, Category::fp32_set_opt_dtype>});
#endif
  rows.push_back({"sum", "dim_IntList", "cuda", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "dim_IntList", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "dim_IntList", "xpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "dim_IntList", "mps", Category::fp32, kernel<ops::sum_dim_IntList, Category::fp32>});
  rows.push_back({"sum", "dim_IntList", "mtia", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "dim_IntList", "maia", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "dim_IntList", "hpu", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList, Category::fp32_set_opt_dtype>});
  rows.push_back({"sum", "dim_IntList", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::sum_dim_IntList, Category::fp32_set_opt_dtype>});
  names.push_back({"tensordot", "torch.tensordot"});
  rows.push_back({"tensordot", "default", "cuda", Category::promote, kernel<ops::tensordot, Category::promote>});
  rows.push_back({"tensordot", "default", "xla_gpu", Category::promote, kernel<ops::tensordot, Category::promote>});
  rows.push_back({"tensordot", "default", "xpu", Category::promote, kernel<ops::tensordot, Category::promote>});
  rows.push_back({"tensordot", "default", "mps", Category::promote, kernel<ops::tensordot, Category::promote>});
  rows.push_back({"tensordot", "default", "mtia", Category::promote, kernel<ops::tensordot, Category::promote>});
  rows.push_back({"tensordot", "default", "maia", Category::promote, kernel<ops::tensordot, Category::promote>});
  rows.push_back({"tensordot", "default", "hpu", Category::promote, kernel<ops::tensordot, Category::promote>});
  rows.push_back({"tensordot", "default", "privateuse1", Category::promote, kernel<ops::tensordot, Category::promote>});
  names.push_back({"triplet_margin_loss", "torch.nn.functional.triplet_margin_loss torch.nn.TripletMarginLoss"});
  rows.push_back({"triplet_margin_loss", "default", "cuda", Category::fp32, kernel<ops::triplet_margin_loss, Category::fp32>});
  rows.push_back({"triplet_margin_loss", "default", "xla", Category::fp32, kernel<ops::triplet_margin_loss, Category::fp32>});
  rows.push_back({"triplet_margin_loss", "default", "xla_gpu", Category::fp32, kernel<ops::triplet_margin_loss, Category::fp32>});
  rows.push_back({"triplet_margin_loss", "default", "xpu", Category::fp32, kernel<ops::triplet_margin_loss, Category::fp32>});
  rows.push_back({"triplet_margin_loss", "default", "cpu", Category::fp32, kernel<ops::triplet_margin_loss, Category::fp32>});
  rows.push_back({"triplet_margin_loss", "default", "mps", Category::fp32, kernel<ops::triplet_margin_loss, Category::fp32>});
  rows.push_back({"triplet_margin_loss", "default", "mtia", Category::fp32, kernel<ops::triplet_margin_loss, Category::fp32>});
  rows.push_back({"triplet_margin_loss", "default", "maia", Category::fp32, kernel<ops::triplet_margin_loss, Category::fp32>});
  rows.push_back({"triplet_margin_loss", "default", "hpu", Category::fp32, kernel<ops::triplet_margin_loss, Category::fp32>});
  rows.push_back({"triplet_margin_loss", "default", "privateuse1", Category::fp32, kernel<ops::triplet_margin_loss, Category::fp32>});
  names.push_back({"vdot", "torch.vdot torch.Tensor.vdot"});
  rows.push_back({"vdot", "default", "cuda", Category::promote, kernel<ops::vdot, Category::promote>});
  rows.push_back({"vdot", "default", "xla_gpu", Category::promote, kernel<ops::vdot, Category::promote>});
  rows.push_back({"vdot", "default", "xpu", Category::promote, kernel<ops::vdot, Category::promote>});
  rows.push_back({"vdot", "default", "mtia", Category::promote, kernel<ops::vdot, Category::promote>});
  rows.push_back({"vdot", "default", "maia", Category::promote, kernel<ops::vdot, Category::promote>});
  rows.push_back({"vdot", "default", "hpu", Category::promote, kernel<ops::vdot, Category::promote>});
  rows.push_back({"vdot", "default", "privateuse1", Category::promote, kernel<ops::vdot, Category::promote>});
}

} // namespace polycast::autocast
