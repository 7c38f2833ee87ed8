// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/kernel.h"

#include <torch/version.h>

#include <ATen/ops/addmv_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/cdist_ops.h>
#include <ATen/ops/conv_transpose2d_ops.h>
#include <ATen/ops/cosh_ops.h>
#include <ATen/ops/cumprod_ops.h>
#include <ATen/ops/dot_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/expm1_ops.h>
#include <ATen/ops/fft_fft_ops.h>
#include <ATen/ops/fft_irfft_ops.h>
#include <ATen/ops/index_put_ops.h>
#include <ATen/ops/linalg_cond_ops.h>
#include <ATen/ops/linalg_multi_dot_ops.h>
#include <ATen/ops/linalg_solve_ops.h>
#include <ATen/ops/linalg_tensorsolve_ops.h>
#include <ATen/ops/linalg_vector_norm_ops.h>
#include <ATen/ops/linear_ops.h>
#include <ATen/ops/max_unpool3d_ops.h>
#include <ATen/ops/mse_loss_ops.h>
#include <ATen/ops/nanquantile_ops.h>
#include <ATen/ops/replication_pad2d_ops.h>
#include <ATen/ops/rnn_relu_cell_ops.h>
#include <ATen/ops/scaled_dot_product_attention_ops.h>
#include <ATen/ops/soft_margin_loss_ops.h>
#include <ATen/ops/softplus_ops.h>
#include <ATen/ops/upsample_nearest1d_ops.h>

namespace polycast::autocast {

namespace ops = at::_ops;

void rows_3(std::vector<Row>& rows, std::vector<Names>& names) {
  names.push_back({"addmv", "torch.addmv torch.Tensor.addmv"});
  rows.push_back({"addmv", "default", "cuda", Category::lower_precision_fp, kernel<ops::addmv, Category::lower_precision_fp>});
  rows.push_back({"addmv", "default", "xla", Category::lower_precision_fp, kernel<ops::addmv, Category::lower_precision_fp>, "Listed in PyTorch/XLA: automatic mixed precision (000_1ddc69e16249b2f9.txt); torch_xla runs it in float32."});
  rows.push_back({"addmv", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::addmv, Category::lower_precision_fp>});
  rows.push_back({"addmv", "default", "xpu", Category::lower_precision_fp, kernel<ops::addmv, Category::lower_precision_fp>});
  rows.push_back({"addmv", "default", "mps", Category::lower_precision_fp, kernel<ops::addmv, Category::lower_precision_fp>});
  rows.push_back({"addmv", "default", "mtia", Category::lower_precision_fp, kernel<ops::addmv, Category::lower_precision_fp>});
  rows.push_back({"addmv", "default", "maia", Category::lower_precision_fp, kernel<ops::addmv, Category::lower_precision_fp>});
  rows.push_back({"addmv", "default", "hpu", Category::lower_precision_fp, kernel<ops::addmv, Category::lower_precision_fp>});
  rows.push_back({"addmv", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::addmv, Category::lower_precision_fp>});
  names.push_back({"bmm", "torch.bmm torch.Tensor.bmm"});
  rows.push_back({"bmm", "default", "cuda", Category::lower_precision_fp, kernel<ops::bmm, Category::lower_precision_fp>});
  rows.push_back({"bmm", "default", "xla", Category::lower_precision_fp, kernel<ops::bmm, Category::lower_precision_fp>});
  rows.push_back({"bmm", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::bmm, Category::lower_precision_fp>});
  rows.push_back({"bmm", "default", "xpu", Category::lower_precision_fp, kernel<ops::bmm, Category::lower_precision_fp>});
  rows.push_back({"bmm", "default", "cpu", Category::lower_precision_fp, kernel<ops::bmm, Category::lower_precision_fp>});
  rows.push_back({"bmm", "default", "mps", Category::lower_precision_fp, kernel<ops::bmm, Category::lower_precision_fp>});
  rows.push_back({"bmm", "default", "mtia", Category::lower_precision_fp, kernel<ops::bmm, Category::lower_precision_fp>});
  rows.push_back({"bmm", "default", "maia", Category::lower_precision_fp, kernel<ops::bmm, Category::lower_precision_fp>});
  rows.push_back({"bmm", "default", "hpu", Category::lower_precision_fp, kernel<ops::bmm, Category::lower_precision_fp>});
  rows.push_back({"bmm", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::bmm, Category::lower_precision_fp>});
  names.push_back({"cdist", "torch.cdist"});
  rows.push_back({"cdist", "default", "cuda", Category::fp32, kernel<ops::cdist, Category::fp32>});
  rows.push_back({"cdist", "default", "xla", Category::fp32, kernel<ops::cdist, Category::fp32>});
  rows.push_back({"cdist", "default", "xla_gpu", Category::fp32, kernel<ops::cdist, Category::fp32>});
  rows.push_back({"cdist", "default", "xpu", Category::fp32, kernel<ops::cdist, Category::fp32>});
  rows.push_back({"cdist", "default", "cpu", Category::fp32, kernel<ops::cdist, Category::fp32>});
  rows.push_back({"cdist", "default", "mps", Category::fp32, kernel<ops::cdist, Category::fp32>});
  rows.push_back({"cdist", "default", "mtia", Category::fp32, kernel<ops::cdist, Category::fp32>});
  rows.push_back({"cdist", "default", "maia", Category::fp32, kernel<ops::cdist, Category::fp32>});
  rows.push_back({"cdist", "default", "hpu", Category::fp32, kernel<ops::cdist, Category::fp32>});
  rows.push_back({"cdist", "default", "privateuse1", Category::fp32, kernel<ops::cdist, Category::fp32>});
  names.push_back({"conv_transpose2d", "torch.nn.functional.conv_transpose2d torch.nn.ConvTranspose2d torch.conv_transpose2d"});
  rows.push_back({"conv_transpose2d", "input", "cuda", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input, Category::lower_precision_fp>});
  rows.push_back({"conv_transpose2d", "input", "xla", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input, Category::lower_precision_fp>});
  rows.push_back({"conv_transpose2d", "input", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input, Category::lower_precision_fp>});
  rows.push_back({"conv_transpose2d", "input", "xpu", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input, Category::lower_precision_fp>});
  rows.push_back({"conv_transpose2d", "input", "cpu", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input, Category::lower_precision_fp>});
  rows.push_back({"conv_transpose2d", "input", "mps", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input, Category::lower_precision_fp>});
  rows.push_back({"conv_transpose2d", "input", "mtia", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input, Category::lower_precision_fp>});
  rows.push_back({"conv_transpose2d", "input", "maia", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input, Category::lower_precision_fp>});
  rows.push_back({"conv_transpose2d", "input", "hpu", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input, Category::lower_precision_fp>});
  rows.push_back({"conv_transpose2d", "input", "privateuse1", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input, Category::lower_precision_fp>});
  names.push_back({"cosh", "torch.cosh torch.Tensor.cosh"});
  rows.push_back({"cosh", "default", "cuda", Category::fp32, kernel<ops::cosh, Category::fp32>});
  rows.push_back({"cosh", "default", "xla_gpu", Category::fp32, kernel<ops::cosh, Category::fp32>});
  rows.push_back({"cosh", "default", "xpu", Category::fp32, kernel<ops::cosh, Category::fp32>});
  rows.push_back({"cosh", "default", "mps", Category::fp32, kernel<ops::cosh, Category::fp32>});
  rows.push_back({"cosh", "default", "mtia", Category::fp32, kernel<ops::cosh, Category::fp32>});
  rows.push_back({"cosh", "default", "maia", Category::fp32, kernel<ops::cosh, Category::fp32>});
  rows.push_back({"cosh", "default", "hpu", Category::fp32, kernel<ops::cosh, Category::fp32>});
  rows.push_back({"cosh", "default", "privateuse1", Category::fp32, kernel<ops::cosh, Category::fp32>});
  names.push_back({"cumprod", "torch.cumprod torch.Tensor.cumprod"});
  rows.push_back({"cumprod", "default", "cuda", Category::fp32_set_opt_dtype, kernel<ops::cumprod, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumprod", "default", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumprod", "default", "xpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumprod", "default", "mps", Category::fp32, kernel<ops::cumprod, Category::fp32>});
  rows.push_back({"cumprod", "default", "mtia", Category::fp32_set_opt_dtype, kernel<ops::cumprod, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumprod", "default", "maia", Category::fp32_set_opt_dtype, kernel<ops::cumprod, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumprod", "default", "hpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod, Category::fp32_set_opt_dtype>});
  rows.push_back({"cumprod", "default", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::cumprod, Category::fp32_set_opt_dtype>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "cuda", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "xpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "mps", Category::fp32, kernel<ops::cumprod_dimname, Category::fp32>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "mtia", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "maia", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "hpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname, Category::fp32_set_opt_dtype>});
#endif
  names.push_back({"dot", "torch.dot torch.Tensor.dot"});
  rows.push_back({"dot", "default", "cuda", Category::promote, kernel<ops::dot, Category::promote>});
  rows.push_back({"dot", "default", "xla_gpu", Category::promote, kernel<ops::dot, Category::promote>});
  rows.push_back({"dot", "default", "xpu", Category::promote, kernel<ops::dot, Category::promote>});
  rows.push_back({"dot", "default", "mps", Category::promote, kernel<ops::dot, Category::promote>});
  rows.push_back({"dot", "default", "mtia", Category::promote, kernel<ops::dot, Category::promote>});
  rows.push_back({"dot", "default", "maia", Category::promote, kernel<ops::dot, Category::promote>});
  rows.push_back({"dot", "default", "hpu", Category::promote, kernel<ops::dot, Category::promote>});
  rows.push_back({"dot", "default", "privateuse1", Category::promote, kernel<ops::dot, Category::promote>});
  names.push_back({"exp", "torch.exp torch.Tensor.exp"});
  rows.push_back({"exp", "default", "cuda", Category::fp32, kernel<ops::exp, Category::fp32>});
  rows.push_back({"exp", "default", "xla_gpu", Category::fp32, kernel<ops::exp, Category::fp32>});
  rows.push_back({"exp", "default", "xpu", Category::fp32, kernel<ops::exp, Category::fp32>});
  rows.push_back({"exp", "default", "mps", Category::fp32, kernel<ops::exp, Category::fp32>});
  rows.push_back({"exp", "default", "mtia", Category::fp32, kernel<ops::exp, Category::fp32>});
  rows.push_back({"exp", "default", "maia", Category::fp32, kernel<ops::exp, Category::fp32>});
  rows.push_back({"exp", "default", "hpu", Category::fp32, kernel<ops::exp, Category::fp32>});
  rows.push_back({"exp", "default", "privateuse1", Category::fp32, kernel<ops::exp, Category::fp32>});
  names.push_back({"expm1", "torch.expm1 torch.Tensor.expm1 torch.special.expm1"});
  rows.push_back({"expm1", "default", "cuda", Category::fp32, kernel<ops::expm1, Category::fp32>});
  rows.push_back({"expm1", "default", "xla_gpu", Category::fp32, kernel<ops::expm1, Category::fp32>});
  rows.push_back({"expm1", "default", "xpu", Category::fp32, kernel<ops::expm1, Category::fp32>});
  rows.push_back({"expm1", "default", "mps", Category::fp32, kernel<ops::expm1, Category::fp32>});
  rows.push_back({"expm1", "default", "mtia", Category::fp32, kernel<ops::expm1, Category::fp32>});
  rows.push_back({"expm1", "default", "maia", Category::fp32, kernel<ops::expm1, Category::fp32>});
  rows.push_back({"expm1", "default", "hpu", Category::fp32, kernel<ops::expm1, Category::fp32>});
  rows.push_back({"expm1", "default", "privateuse1", Category::fp32, kernel<ops::expm1, Category::fp32>});
  names.push_back({"fft_fft", "torch.fft.fft"});
  rows.push_back({"fft_fft", "default", "xpu", Category::fp32, kernel<ops::fft_fft, Category::fp32>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_fft", "default", "cpu", Category::fp32, kernel<ops::fft_fft, Category::fp32>});
  names.push_back({"fft_irfft", "torch.fft.irfft"});
  rows.push_back({"fft_irfft", "default", "xpu", Category::fp32, kernel<ops::fft_irfft, Category::fp32>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_irfft", "default", "cpu", Category::fp32, kernel<ops::fft_irfft, Category::fp32>});
  names.push_back({"index_put", "torch.index_put torch.Tensor.index_put"});
  rows.push_back({"index_put", "default", "cuda", Category::promote, kernel<ops::index_put, Category::promote>});
  rows.push_back({"index_put", "default", "xla_gpu", Category::promote, kernel<ops::index_put, Category::promote>});
  rows.push_back({"index_put", "default", "xpu", Category::promote, kernel<ops::index_put, Category::promote>});
  rows.push_back({"index_put", "default", "mps", Category::promote, kernel<ops::index_put, Category::promote>});
  rows.push_back({"index_put", "default", "mtia", Category::promote, kernel<ops::index_put, Category::promote>});
  rows.push_back({"index_put", "default", "maia", Category::promote, kernel<ops::index_put, Category::promote>});
  rows.push_back({"index_put", "default", "hpu", Category::promote, kernel<ops::index_put, Category::promote>});
  rows.push_back({"index_put", "default", "privateuse1", Category::promote, kernel<ops::index_put, Category::promote>});
  names.push_back({"linalg_cond", "torch.linalg.cond"});
  rows.push_back({"linalg_cond", "default", "cpu", Category::fp32, kernel<ops::linalg_cond, Category::fp32>});
  rows.push_back({"linalg_cond", "p_str", "cpu", Category::fp32, kernel<ops::linalg_cond_p_str, Category::fp32>});
  names.push_back({"linalg_multi_dot", "torch.linalg.multi_dot"});
  rows.push_back({"linalg_multi_dot", "default", "cuda", Category::lower_precision_fp, kernel<ops::linalg_multi_dot, Category::lower_precision_fp>});
  rows.push_back({"linalg_multi_dot", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::linalg_multi_dot, Category::lower_precision_fp>});
  rows.push_back({"linalg_multi_dot", "default", "xpu", Category::lower_precision_fp, kernel<ops::linalg_multi_dot, Category::lower_precision_fp>});
  rows.push_back({"linalg_multi_dot", "default", "mps", Category::lower_precision_fp, kernel<ops::linalg_multi_dot, Category::lower_precision_fp>});
  rows.push_back({"linalg_multi_dot", "default", "mtia", Category::lower_precision_fp, kernel<ops::linalg_multi_dot, Category::lower_precision_fp>});
  rows.push_back({"linalg_multi_dot", "default", "maia", Category::lower_precision_fp, kernel<ops::linalg_multi_dot, Category::lower_precision_fp>});
  rows.push_back({"linalg_multi_dot", "default", "hpu", Category::lower_precision_fp, kernel<ops::linalg_multi_dot, Category::lower_precision_fp>});
  rows.push_back({"linalg_multi_dot", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::linalg_multi_dot, Category::lower_precision_fp>});
  names.push_back({"linalg_solve", "torch.linalg.solve"});
  rows.push_back({"linalg_solve", "default", "cpu", Category::fp32, kernel<ops::linalg_solve, Category::fp32>});
  names.push_back({"linalg_tensorsolve", "torch.linalg.tensorsolve"});
  rows.push_back({"linalg_tensorsolve", "default", "cpu", Category::fp32, kernel<ops::linalg_tensorsolve, Category::fp32>});
  names.push_back({"linalg_vector_norm", "torch.linalg.vector_norm torch.linalg.norm"});
  rows.push_back({"linalg_vector_norm", "default", "cuda", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm, Category::fp32_set_opt_dtype>});
  rows.push_back({"linalg_vector_norm", "default", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm, Category::fp32_set_opt_dtype>});
  rows.push_back({"linalg_vector_norm", "default", "xpu", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm, Category::fp32_set_opt_dtype>});
  rows.push_back({"linalg_vector_norm", "default", "mps", Category::fp32, kernel<ops::linalg_vector_norm, Category::fp32>});
  rows.push_back({"linalg_vector_norm", "default", "mtia", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm, Category::fp32_set_opt_dtype>});
  rows.push_back({"linalg_vector_norm", "default", "maia", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm, Category::fp32_set_opt_dtype>});
  rows.push_back({"linalg_vector_norm", "default", "hpu", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm, Category::fp32_set_opt_dtype>});
  rows.push_back({"linalg_vector_norm", "default", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm, Category::fp32_set_opt_dtype>});
  names.push_back({"linear", "torch.nn.functional.linear torch.nn.Linear"});
  rows.push_back({"linear", "default", "cuda", Category::lower_precision_fp, kernel<ops::linear, Category::lower_precision_fp>});
  rows.push_back({"linear", "default", "xla", Category::lower_precision_fp, kernel<ops::linear, Category::lower_precision_fp>});
  rows.push_back({"linear", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::linear, Category::lower_precision_fp>});
  rows.push_back({"linear", "default", "xpu", Category::lower_precision_fp, kernel<ops::linear, Category::lower_precision_fp>});
  rows.push_back({"linear", "default", "cpu", Category::lower_precision_fp, kernel<ops::linear, Category::lower_precision_fp>});
  rows.push_back({"linear", "default", "mps", Category::lower_precision_fp, kernel<ops::linear, Category::lower_precision_fp>});
  rows.push_back({"linear", "default", "mtia", Category::lower_precision_fp, kernel<ops::linear, Category::lower_precision_fp>});
  rows.push_back({"linear", "default", "maia", Category::lower_precision_fp, kernel<ops::linear, Category::lower_precision_fp>});
  rows.push_back({"linear", "default", "hpu", Category::lower_precision_fp, kernel<ops::linear, Category::lower_precision_fp>});
  rows.push_back({"linear", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::linear, Category::lower_precision_fp>});
  names.push_back({"max_unpool3d", "torch.nn.functional.max_unpool3d torch.nn.MaxUnpool3d"});
  rows.push_back({"max_unpool3d", "default", "cpu", Category::fp32, kernel<ops::max_unpool3d, Category::fp32>});
  names.push_back({"mse_loss", "torch.nn.functional.mse_loss torch.nn.MSELoss"});
  rows.push_back({"mse_loss", "default", "cuda", Category::fp32, kernel<ops::mse_loss, Category::fp32>});
  rows.push_back({"mse_loss", "default", "xla", Category::fp32, kernel<ops::mse_loss, Category::fp32>});
  rows.push_back({"mse_loss", "default", "xla_gpu", Category::fp32, kernel<ops::mse_loss, Category::fp32>});
  rows.push_back({"mse_loss", "default", "xpu", Category::fp32, kernel<ops::mse_loss, Category::fp32>});
  rows.push_back({"mse_loss", "default", "cpu", Category::fp32, kernel<ops::mse_loss, Category::fp32>});
  rows.push_back({"mse_loss", "default", "mps", Category::fp32, kernel<ops::mse_loss, Category::fp32>});
  rows.push_back({"mse_loss", "default", "mtia", Category::fp32, kernel<ops::mse_loss, Category::fp32>});
  rows.push_back({"mse_loss", "default", "maia", Category::fp32, kernel<ops::mse_loss, Category::fp32>});
  rows.push_back({"mse_loss", "default", "hpu", Category::fp32, kernel<ops::mse_loss, Category::fp32>});
  rows.push_back({"mse_loss", "default", "privateuse1", Category::fp32, kernel<ops::mse_loss, Category::fp32>});
  names.push_back({"nanquantile", "torch.nanquantile torch.Tensor.nanquantile"});
  rows.push_back({"nanquantile", "default", "cpu", Category::fp32, kernel<ops::nanquantile, Category::fp32>});
  rows.push_back({"nanquantile", "scalar", "cpu", Category::fp32, kernel<ops::nanquantile_scalar, Category::fp32>});
  names.push_back({"replication_pad2d", "torch.nn.functional.pad torch.nn.ReplicationPad2d"});
  rows.push_back({"replication_pad2d", "default", "xla", Category::fp32, kernel<ops::replication_pad2d, Category::fp32>});
  rows.push_back({"replication_pad2d", "default", "cpu", Category::fp32, kernel<ops::replication_pad2d, Category::fp32>});
  names.push_back({"rnn_relu_cell", "torch.rnn_relu_cell torch.nn.RNNCell"});
  rows.push_back({"rnn_relu_cell", "default", "cuda", Category::lower_precision_fp, kernel<ops::rnn_relu_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_relu_cell", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::rnn_relu_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_relu_cell", "default", "xpu", Category::lower_precision_fp, kernel<ops::rnn_relu_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_relu_cell", "default", "mtia", Category::lower_precision_fp, kernel<ops::rnn_relu_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_relu_cell", "default", "maia", Category::lower_precision_fp, kernel<ops::rnn_relu_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_relu_cell", "default", "hpu", Category::lower_precision_fp, kernel<ops::rnn_relu_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_relu_cell", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::rnn_relu_cell, Category::lower_precision_fp>});
  names.push_back({"scaled_dot_product_attention", "torch.nn.functional.scaled_dot_product_attention"});
  rows.push_back({"scaled_dot_product_attention", "default", "cuda", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention, Category::lower_precision_fp>});
  rows.push_back({"scaled_dot_product_attention", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention, Category::lower_precision_fp>});
  rows.push_back({"scaled_dot_product_attention", "default", "xpu", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention, Category::lower_precision_fp>});
  rows.push_back({"scaled_dot_product_attention", "default", "cpu", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention, Category::lower_precision_fp>});
  rows.push_back({"scaled_dot_product_attention", "default", "mps", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention, Category::lower_precision_fp>});
  rows.push_back({"scaled_dot_product_attention", "default", "mtia", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention, Category::lower_precision_fp>});
  rows.push_back({"scaled_dot_product_attention", "default", "maia", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention, Category::lower_precision_fp>});
  rows.push_back({"scaled_dot_product_attention", "default", "hpu", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention, Category::lower_precision_fp>});
  rows.push_back({"scaled_dot_product_attention", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention, Category::lower_precision_fp>});
  names.push_back({"soft_margin_loss", "torch.nn.functional.soft_margin_loss torch.nn.SoftMarginLoss"});
  rows.push_back({"soft_margin_loss", "default", "cuda", Category::fp32, kernel<ops::soft_margin_loss, Category::fp32>});
  rows.push_back({"soft_margin_loss", "default", "xla", Category::fp32, kernel<ops::soft_margin_loss, Category::fp32>});
  rows.push_back({"soft_margin_loss", "default", "xla_gpu", Category::fp32, kernel<ops::soft_margin_loss, Category::fp32>});
  rows.push_back({"soft_margin_loss", "default", "xpu", Category::fp32, kernel<ops::soft_margin_loss, Category::fp32>});
  rows.push_back({"soft_margin_loss", "default", "cpu", Category::fp32, kernel<ops::soft_margin_loss, Category::fp32>});
  rows.push_back({"soft_margin_loss", "default", "mps", Category::fp32, kernel<ops::soft_margin_loss, Category::fp32>});
  rows.push_back({"soft_margin_loss", "default", "mtia", Category::fp32, kernel<ops::soft_margin_loss, Category::fp32>});
  rows.push_back({"soft_margin_loss", "default", "maia", Category::fp32, kernel<ops::soft_margin_loss, Category::fp32>});
  rows.push_back({"soft_margin_loss", "default", "hpu", Category::fp32, kernel<ops::soft_margin_loss, Category::fp32>});
  rows.push_back({"soft_margin_loss", "default", "privateuse1", Category::fp32, kernel<ops::soft_margin_loss, Category::fp32>});
  names.push_back({"softplus", "torch.nn.functional.softplus torch.nn.Softplus"});
  rows.push_back({"softplus", "default", "cuda", Category::fp32, kernel<ops::softplus, Category::fp32>});
  rows.push_back({"softplus", "default", "xla_gpu", Category::fp32, kernel<ops::softplus, Category::fp32>});
  rows.push_back({"softplus", "default", "xpu", Category::fp32, kernel<ops::softplus, Category::fp32>});
  rows.push_back({"softplus", "default", "mps", Category::fp32, kernel<ops::softplus, Category::fp32>});
  rows.push_back({"softplus", "default", "mtia", Category::fp32, kernel<ops::softplus, Category::fp32>});
  rows.push_back({"softplus", "default", "maia", Category::fp32, kernel<ops::softplus, Category::fp32>});
  rows.push_back({"softplus", "default", "hpu", Category::fp32, kernel<ops::softplus, Category::fp32>});
  rows.push_back({"softplus", "default", "privateuse1", Category::fp32, kernel<ops::softplus, Category::fp32>});
  names.push_back({"upsample_nearest1d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  rows.push_back({"upsample_nearest1d", "default", "cuda", Category::fp32, kernel<ops::upsample_nearest1d, Category::fp32>});
  rows.push_back({"upsample_nearest1d", "default", "xla_gpu", Category::fp32, kernel<ops::upsample_nearest1d, Category::fp32>});
  rows.push_back({"upsample_nearest1d", "default", "xpu", Category::fp32, kernel<ops::upsample_nearest1d, Category::fp32>});
  rows.push_back({"upsample_nearest1d", "default", "mtia", Category::fp32, kernel<ops::upsample_nearest1d, Category::fp32>});
  rows.push_back({"upsample_nearest1d", "default", "maia", Category::fp32, kernel<ops::upsample_nearest1d, Category::fp32>});
  rows.push_back({"upsample_nearest1d", "default", "hpu", Category::fp32, kernel<ops::upsample_nearest1d, Category::fp32>});
  rows.push_back({"upsample_nearest1d", "default", "privateuse1", Category::fp32, kernel<ops::upsample_nearest1d, Category::fp32>});
}

} // namespace polycast::autocast
