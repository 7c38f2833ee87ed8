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
#include <ATen/ops/convolution_overrideable_ops.h>
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

void rules_2(std::vector<BuiltInRule>& rules, std::vector<PublicNames>& names) {
  names.push_back({"_convolution", "torch._convolution"});
  add_rules(rules, "cuda xpu mps tpu", {"_convolution", "default", Category::lower_precision_fp, kernel<ops::_convolution>});
  add_rules(rules, "cuda xpu cpu mps", {"_convolution", "deprecated", Category::lower_precision_fp, kernel<ops::_convolution_deprecated>});
  names.push_back({"_cudnn_rnn", "torch._cudnn_rnn"});
  add_rules(rules, "cuda -xla_gpu -mtia -maia -hpu -privateuse1", {"_cudnn_rnn", "default", Category::stock, nullptr});
  add_rules(rules, "mlu", {"_cudnn_rnn", "default", Category::stock, nullptr, "torch_mlu has its own kernel; this kernel casts to float16 even if the dtype of the region is bfloat16."});
  names.push_back({"_grid_sampler_2d_cpu_fallback", "torch._grid_sampler_2d_cpu_fallback"});
  add_rules(rules, "cpu", {"_grid_sampler_2d_cpu_fallback", "default", Category::fp32, kernel<ops::_grid_sampler_2d_cpu_fallback>});
  names.push_back({"_mps_convolution", "torch.ops.aten._mps_convolution"});
  add_rules(rules, "mps", {"_mps_convolution", "default", Category::lower_precision_fp, kernel<ops::_mps_convolution>});
  names.push_back({"_scaled_dot_product_flash_attention", "torch._scaled_dot_product_flash_attention"});
  add_rules(rules, "cuda xpu tpu", {"_scaled_dot_product_flash_attention", "default", Category::lower_precision_fp, kernel<ops::_scaled_dot_product_flash_attention>});
  names.push_back({"_upsample_bicubic2d_aa", "torch.nn.functional.interpolate torch._C._nn._upsample_bicubic2d_aa"});
  add_rules(rules, "cuda xpu -npu -mlu", {"_upsample_bicubic2d_aa", "default", Category::fp32, kernel<ops::_upsample_bicubic2d_aa>});
  names.push_back({"_upsample_bilinear2d_aa", "torch.nn.functional.interpolate torch._C._nn._upsample_bilinear2d_aa"});
  add_rules(rules, "cuda xpu -npu -mlu", {"_upsample_bilinear2d_aa", "default", Category::fp32, kernel<ops::_upsample_bilinear2d_aa>});
  names.push_back({"_upsample_nearest_exact1d", "torch.nn.functional.interpolate torch._C._nn._upsample_nearest_exact1d torch.nn.Upsample"});
  add_rules(rules, "cuda xpu -npu -mlu", {"_upsample_nearest_exact1d", "default", Category::fp32, kernel<ops::_upsample_nearest_exact1d>});
  names.push_back({"asin", "torch.asin torch.Tensor.asin torch.arcsin torch.Tensor.arcsin"});
  add_rules(rules, "cuda xpu mps", {"asin", "default", Category::fp32, kernel<ops::asin>});
  names.push_back({"avg_pool3d", "torch.nn.functional.avg_pool3d torch.nn.AvgPool3d"});
  add_rules(rules, "cpu", {"avg_pool3d", "default", Category::fp32, kernel<ops::avg_pool3d>});
  names.push_back({"cholesky_solve", "torch.cholesky_solve torch.Tensor.cholesky_solve"});
  add_rules(rules, "xla cpu", {"cholesky_solve", "default", Category::fp32, kernel<ops::cholesky_solve>});
  names.push_back({"conv1d", "torch.nn.functional.conv1d torch.nn.Conv1d torch.conv1d"});
  add_rules(rules, "cuda xla xpu cpu mps", {"conv1d", "default", Category::lower_precision_fp, kernel<ops::conv1d>});
  add_rules(rules, "cuda xpu mps", {"conv1d", "padding", Category::lower_precision_fp, kernel<ops::conv1d_padding>, "PyTorch casts the ops of its decomposition instead."});
  add_rules(rules, "xla cpu", {"conv1d", "padding", Category::lower_precision_fp, kernel<ops::conv1d_padding>});
  names.push_back({"conv_transpose3d", "torch.nn.functional.conv_transpose3d torch.nn.ConvTranspose3d torch.conv_transpose3d"});
  add_rules(rules, "cuda xla xpu cpu", {"conv_transpose3d", "input", Category::lower_precision_fp, kernel<ops::conv_transpose3d_input>});
  add_rules(rules, "mps", {"conv_transpose3d", "input", Category::fp32, kernel<ops::conv_transpose3d_input>});
  names.push_back({"convolution_overrideable", "torch.ops.aten.convolution_overrideable"});
  add_rules(rules, "musa", {"convolution_overrideable", "default", Category::lower_precision_fp, kernel<ops::convolution_overrideable>});
  names.push_back({"ctc_loss", "torch.nn.functional.ctc_loss torch.nn.CTCLoss"});
  add_rules(rules, "xla cpu", {"ctc_loss", "IntList", Category::fp32, kernel<ops::ctc_loss_IntList>});
  add_rules(rules, "xla cpu", {"ctc_loss", "Tensor", Category::fp32, kernel<ops::ctc_loss_Tensor>});
  names.push_back({"cudnn_convolution", "torch.cudnn_convolution"});
  add_rules(rules, "cuda -xla_gpu -mtia -maia -hpu -privateuse1 npu mlu", {"cudnn_convolution", "default", Category::lower_precision_fp, kernel<ops::cudnn_convolution>});
  names.push_back({"cudnn_convolution_transpose", "torch.cudnn_convolution_transpose"});
  add_rules(rules, "cuda -xla_gpu -mtia -maia -hpu -privateuse1 npu mlu", {"cudnn_convolution_transpose", "default", Category::lower_precision_fp, kernel<ops::cudnn_convolution_transpose>});
  names.push_back({"fft_ifftn", "torch.fft.ifftn"});
  add_rules(rules, "xpu", {"fft_ifftn", "default", Category::fp32, kernel<ops::fft_ifftn>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_ifftn", "default", Category::fp32, kernel<ops::fft_ifftn>});
  names.push_back({"fft_irfftn", "torch.fft.irfftn"});
  add_rules(rules, "xpu", {"fft_irfftn", "default", Category::fp32, kernel<ops::fft_irfftn>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_irfftn", "default", Category::fp32, kernel<ops::fft_irfftn>});
  names.push_back({"fft_rfft", "torch.fft.rfft"});
  add_rules(rules, "xpu", {"fft_rfft", "default", Category::fp32, kernel<ops::fft_rfft>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_rfft", "default", Category::fp32, kernel<ops::fft_rfft>});
  names.push_back({"fft_rfft2", "torch.fft.rfft2"});
  add_rules(rules, "xpu", {"fft_rfft2", "default", Category::fp32, kernel<ops::fft_rfft2>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_rfft2", "default", Category::fp32, kernel<ops::fft_rfft2>});
  names.push_back({"grid_sampler_2d", "torch.grid_sampler_2d"});
  add_rules(rules, "cpu", {"grid_sampler_2d", "default", Category::fp32, kernel<ops::grid_sampler_2d>});
  names.push_back({"layer_norm", "torch.nn.functional.layer_norm torch.nn.LayerNorm"});
  add_rules(rules, "cuda xpu mps", {"layer_norm", "default", Category::fp32, kernel<ops::layer_norm>});
  names.push_back({"linalg_cholesky_ex", "torch.linalg.cholesky_ex"});
  add_rules(rules, "cpu", {"linalg_cholesky_ex", "default", Category::fp32, kernel<ops::linalg_cholesky_ex>});
  names.push_back({"linalg_tensorinv", "torch.linalg.tensorinv"});
  add_rules(rules, "cpu", {"linalg_tensorinv", "default", Category::fp32, kernel<ops::linalg_tensorinv>});
  names.push_back({"log2", "torch.log2 torch.Tensor.log2"});
  add_rules(rules, "cuda xpu mps", {"log2", "default", Category::fp32, kernel<ops::log2>});
  names.push_back({"lu_solve", "torch.lu_solve torch.Tensor.lu_solve"});
  add_rules(rules, "cpu", {"lu_solve", "default", Category::fp32, kernel<ops::lu_solve>});
  names.push_back({"margin_ranking_loss", "torch.nn.functional.margin_ranking_loss torch.nn.MarginRankingLoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"margin_ranking_loss", "default", Category::fp32, kernel<ops::margin_ranking_loss>});
  names.push_back({"matmul", "torch.matmul torch.Tensor.matmul torch.Tensor.__matmul__ torch.linalg.matmul torch.Tensor.__rmatmul__"});
  add_rules(rules, "cuda xla xpu cpu mps", {"matmul", "default", Category::lower_precision_fp, kernel<ops::matmul>});
  names.push_back({"max_pool2d", "torch.nn.functional.max_pool2d torch.nn.MaxPool2d"});
  add_rules(rules, "xla", {"max_pool2d", "default", Category::lower_precision_fp, kernel<ops::max_pool2d>});
  names.push_back({"max_unpool2d", "torch.nn.functional.max_unpool2d torch.nn.MaxUnpool2d"});
  add_rules(rules, "cpu", {"max_unpool2d", "default", Category::fp32, kernel<ops::max_unpool2d>});
  names.push_back({"multilabel_margin_loss_forward", "torch.ops.aten.multilabel_margin_loss_forward"});
  add_rules(rules, "xla cpu", {"multilabel_margin_loss_forward", "default", Category::fp32, kernel<ops::multilabel_margin_loss_forward>});
  names.push_back({"native_layer_norm", "torch.native_layer_norm"});
  add_rules(rules, "cuda xpu mps", {"native_layer_norm", "default", Category::fp32, kernel<ops::native_layer_norm>});
  names.push_back({"ormqr", "torch.ormqr torch.Tensor.ormqr"});
  add_rules(rules, "cpu", {"ormqr", "default", Category::fp32, kernel<ops::ormqr>});
  names.push_back({"prelu", "torch.prelu torch.Tensor.prelu torch.nn.functional.prelu torch.nn.PReLU"});
  add_rules(rules, "cuda xla xpu cpu mps", {"prelu", "default", Category::lower_precision_fp, kernel<ops::prelu>});
  names.push_back({"reflection_pad1d", "torch.nn.functional.pad torch.nn.ReflectionPad1d"});
  add_rules(rules, "xla cpu", {"reflection_pad1d", "default", Category::fp32, kernel<ops::reflection_pad1d>});
  names.push_back({"replication_pad3d", "torch.nn.functional.pad torch.nn.ReplicationPad3d"});
  add_rules(rules, "xla cpu", {"replication_pad3d", "default", Category::fp32, kernel<ops::replication_pad3d>});
  names.push_back({"rsqrt", "torch.rsqrt torch.Tensor.rsqrt"});
  add_rules(rules, "cuda xpu mps", {"rsqrt", "default", Category::fp32, kernel<ops::rsqrt>});
  names.push_back({"sinh", "torch.sinh torch.Tensor.sinh"});
  add_rules(rules, "cuda xpu mps", {"sinh", "default", Category::fp32, kernel<ops::sinh>});
  names.push_back({"softmax", "torch.softmax torch.Tensor.softmax torch.nn.functional.softmax torch.nn.functional.softmin torch.nn.Softmax torch.nn.Softmin torch.special.softmax torch.nn.Softmax2d"});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "cuda xpu -npu", {"softmax", "Dimname", Category::fp32_set_opt_dtype, kernel<ops::softmax_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "xla mps", {"softmax", "Dimname", Category::fp32, kernel<ops::softmax_Dimname>});
#endif
  add_rules(rules, "cuda xpu", {"softmax", "int", Category::fp32_set_opt_dtype, kernel<ops::softmax_int>});
  add_rules(rules, "xla mps", {"softmax", "int", Category::fp32, kernel<ops::softmax_int>});
  names.push_back({"stack", "torch.stack"});
  add_rules(rules, "xla cpu -tpu", {"stack", "default", Category::promote, kernel<ops::stack>});
  add_rules(rules, "xpu", {"stack", "default", Category::promote, kernel<ops::stack>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; in PyTorch the op itself promotes."});
  names.push_back({"stft", "torch.stft torch.Tensor.stft"});
  add_rules(rules, "cpu", {"stft", "default", Category::fp32, kernel<ops::stft>});
  add_rules(rules, "cpu", {"stft", "center", Category::fp32, kernel<ops::stft_center>});
  names.push_back({"svd", "torch.svd torch.Tensor.svd"});
  add_rules(rules, "xla cpu", {"svd", "default", Category::fp32, kernel<ops::svd>});
  names.push_back({"upsample_trilinear3d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  add_rules(rules, "cuda xpu -npu -mlu", {"upsample_trilinear3d", "default", Category::fp32, kernel<ops::upsample_trilinear3d>});
}

} // namespace polycast::autocast
