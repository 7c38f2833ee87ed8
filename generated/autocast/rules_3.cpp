// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/kernel.h"

#include <torch/version.h>

#include <ATen/ops/_native_multi_head_attention_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/addmv_ops.h>
#include <ATen/ops/batch_norm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/cdist_ops.h>
#include <ATen/ops/conv_tbc_ops.h>
#include <ATen/ops/conv_transpose2d_ops.h>
#include <ATen/ops/cosh_ops.h>
#include <ATen/ops/cosine_embedding_loss_ops.h>
#include <ATen/ops/cumprod_ops.h>
#include <ATen/ops/dist_ops.h>
#include <ATen/ops/dot_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/expm1_ops.h>
#include <ATen/ops/fft_fft_ops.h>
#include <ATen/ops/fft_fftn_ops.h>
#include <ATen/ops/fft_irfft_ops.h>
#include <ATen/ops/geqrf_ops.h>
#include <ATen/ops/grid_sampler_3d_ops.h>
#include <ATen/ops/gru_cell_ops.h>
#include <ATen/ops/hinge_embedding_loss_ops.h>
#include <ATen/ops/index_put_ops.h>
#include <ATen/ops/linalg_cond_ops.h>
#include <ATen/ops/linalg_eigh_ops.h>
#include <ATen/ops/linalg_lstsq_ops.h>
#include <ATen/ops/linalg_multi_dot_ops.h>
#include <ATen/ops/linalg_solve_ops.h>
#include <ATen/ops/linalg_svd_ops.h>
#include <ATen/ops/linalg_svdvals_ops.h>
#include <ATen/ops/linalg_tensorsolve_ops.h>
#include <ATen/ops/linalg_vecdot_ops.h>
#include <ATen/ops/linalg_vector_norm_ops.h>
#include <ATen/ops/linear_ops.h>
#include <ATen/ops/log10_ops.h>
#include <ATen/ops/log1p_ops.h>
#include <ATen/ops/max_pool3d_ops.h>
#include <ATen/ops/max_unpool3d_ops.h>
#include <ATen/ops/mse_loss_ops.h>
#include <ATen/ops/multi_margin_loss_ops.h>
#include <ATen/ops/multilabel_margin_loss_ops.h>
#include <ATen/ops/nanquantile_ops.h>
#include <ATen/ops/nll_loss_ops.h>
#include <ATen/ops/pinverse_ops.h>
#include <ATen/ops/prod_ops.h>
#include <ATen/ops/replication_pad2d_ops.h>
#include <ATen/ops/rnn_relu_cell_ops.h>
#include <ATen/ops/rnn_tanh_cell_ops.h>
#include <ATen/ops/scaled_dot_product_attention_ops.h>
#include <ATen/ops/scatter_add_ops.h>
#include <ATen/ops/soft_margin_loss_ops.h>
#include <ATen/ops/softplus_ops.h>
#include <ATen/ops/tan_ops.h>
#include <ATen/ops/upsample_linear1d_ops.h>
#include <ATen/ops/upsample_nearest1d_ops.h>
#include <ATen/ops/view_as_complex_ops.h>

namespace polycast::autocast {

namespace ops = at::_ops;

void rules_3(std::vector<BuiltInRule>& rules, std::vector<PublicNames>& names) {
  names.push_back({"_native_multi_head_attention", "torch._native_multi_head_attention"});
  add_rules(rules, "cpu", {"_native_multi_head_attention", "default", Category::lower_precision_fp, kernel<ops::_native_multi_head_attention>});
  names.push_back({"_softmax", "torch._softmax"});
  add_rules(rules, "xla", {"_softmax", "default", Category::fp32, kernel<ops::_softmax>});
  names.push_back({"addmm", "torch.addmm torch.Tensor.addmm"});
  add_rules(rules, "cuda xla xpu cpu mps", {"addmm", "default", Category::lower_precision_fp, kernel<ops::addmm>});
  names.push_back({"addmv", "torch.addmv torch.Tensor.addmv"});
  add_rules(rules, "cuda xpu mps tpu", {"addmv", "default", Category::lower_precision_fp, kernel<ops::addmv>});
  add_rules(rules, "xla", {"addmv", "default", Category::lower_precision_fp, kernel<ops::addmv>, "PyTorch/XLA: automatic mixed precision lists it; torch_xla runs it in float32."});
  names.push_back({"batch_norm", "torch.nn.functional.batch_norm torch.nn.BatchNorm1d torch.nn.BatchNorm2d torch.nn.BatchNorm3d torch.nn.functional.instance_norm torch.nn.InstanceNorm1d torch.nn.InstanceNorm2d torch.nn.InstanceNorm3d"});
  add_rules(rules, "xla mps", {"batch_norm", "default", Category::fp32, kernel<ops::batch_norm>});
  names.push_back({"bmm", "torch.bmm torch.Tensor.bmm"});
  add_rules(rules, "cuda xla xpu cpu mps", {"bmm", "default", Category::lower_precision_fp, kernel<ops::bmm>});
  names.push_back({"cdist", "torch.cdist"});
  add_rules(rules, "cuda xla xpu cpu mps", {"cdist", "default", Category::fp32, kernel<ops::cdist>});
  names.push_back({"conv_tbc", "torch.nn.functional.conv_tbc"});
  add_rules(rules, "cuda xla xpu cpu mps", {"conv_tbc", "default", Category::lower_precision_fp, kernel<ops::conv_tbc>});
  names.push_back({"conv_transpose2d", "torch.nn.functional.conv_transpose2d torch.nn.ConvTranspose2d torch.conv_transpose2d"});
  add_rules(rules, "cuda xla xpu cpu mps", {"conv_transpose2d", "input", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input>});
  names.push_back({"cosh", "torch.cosh torch.Tensor.cosh"});
  add_rules(rules, "cuda xpu mps", {"cosh", "default", Category::fp32, kernel<ops::cosh>});
  names.push_back({"cosine_embedding_loss", "torch.nn.functional.cosine_embedding_loss torch.nn.CosineEmbeddingLoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"cosine_embedding_loss", "default", Category::fp32, kernel<ops::cosine_embedding_loss>});
  names.push_back({"cumprod", "torch.cumprod torch.Tensor.cumprod"});
  add_rules(rules, "cuda xpu", {"cumprod", "default", Category::fp32_set_opt_dtype, kernel<ops::cumprod>});
  add_rules(rules, "mps", {"cumprod", "default", Category::fp32, kernel<ops::cumprod>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "cuda xpu -npu", {"cumprod", "dimname", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "mps", {"cumprod", "dimname", Category::fp32, kernel<ops::cumprod_dimname>});
#endif
  names.push_back({"dist", "torch.dist torch.Tensor.dist"});
  add_rules(rules, "cuda xpu mps", {"dist", "default", Category::fp32, kernel<ops::dist>});
  names.push_back({"dot", "torch.dot torch.Tensor.dot"});
  add_rules(rules, "cuda xpu mps", {"dot", "default", Category::promote, kernel<ops::dot>});
  names.push_back({"exp", "torch.exp torch.Tensor.exp"});
  add_rules(rules, "cuda xpu mps", {"exp", "default", Category::fp32, kernel<ops::exp>});
  names.push_back({"expm1", "torch.expm1 torch.Tensor.expm1 torch.special.expm1"});
  add_rules(rules, "cuda xpu mps", {"expm1", "default", Category::fp32, kernel<ops::expm1>});
  names.push_back({"fft_fft", "torch.fft.fft"});
  add_rules(rules, "xpu", {"fft_fft", "default", Category::fp32, kernel<ops::fft_fft>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_fft", "default", Category::fp32, kernel<ops::fft_fft>});
  names.push_back({"fft_fftn", "torch.fft.fftn"});
  add_rules(rules, "xpu", {"fft_fftn", "default", Category::fp32, kernel<ops::fft_fftn>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_fftn", "default", Category::fp32, kernel<ops::fft_fftn>});
  names.push_back({"fft_irfft", "torch.fft.irfft"});
  add_rules(rules, "xpu", {"fft_irfft", "default", Category::fp32, kernel<ops::fft_irfft>, "Intel: auto mixed precision on GPU, torch.xpu.amp lists it; PyTorch does not cast it and raises in a lower precision."});
  add_rules(rules, "cpu", {"fft_irfft", "default", Category::fp32, kernel<ops::fft_irfft>});
  names.push_back({"geqrf", "torch.geqrf torch.Tensor.geqrf"});
  add_rules(rules, "cpu", {"geqrf", "default", Category::fp32, kernel<ops::geqrf>});
  names.push_back({"grid_sampler_3d", "torch.grid_sampler_3d"});
  add_rules(rules, "cpu", {"grid_sampler_3d", "default", Category::fp32, kernel<ops::grid_sampler_3d>});
  names.push_back({"gru_cell", "torch.nn.GRUCell torch.gru_cell"});
  add_rules(rules, "cuda xpu tpu", {"gru_cell", "default", Category::lower_precision_fp, kernel<ops::gru_cell>});
  names.push_back({"hinge_embedding_loss", "torch.nn.functional.hinge_embedding_loss torch.nn.HingeEmbeddingLoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"hinge_embedding_loss", "default", Category::fp32, kernel<ops::hinge_embedding_loss>});
  names.push_back({"index_put", "torch.index_put torch.Tensor.index_put"});
  add_rules(rules, "cuda xpu mps", {"index_put", "default", Category::promote, kernel<ops::index_put>});
  names.push_back({"linalg_cond", "torch.linalg.cond"});
  add_rules(rules, "cpu", {"linalg_cond", "default", Category::fp32, kernel<ops::linalg_cond>});
  add_rules(rules, "cpu", {"linalg_cond", "p_str", Category::fp32, kernel<ops::linalg_cond_p_str>});
  names.push_back({"linalg_eigh", "torch.linalg.eigh"});
  add_rules(rules, "cpu", {"linalg_eigh", "default", Category::fp32, kernel<ops::linalg_eigh>});
  names.push_back({"linalg_lstsq", "torch.linalg.lstsq"});
  add_rules(rules, "cpu", {"linalg_lstsq", "default", Category::fp32, kernel<ops::linalg_lstsq>});
  names.push_back({"linalg_multi_dot", "torch.linalg.multi_dot"});
  add_rules(rules, "cuda xpu mps tpu", {"linalg_multi_dot", "default", Category::lower_precision_fp, kernel<ops::linalg_multi_dot>});
  names.push_back({"linalg_solve", "torch.linalg.solve"});
  add_rules(rules, "cpu", {"linalg_solve", "default", Category::fp32, kernel<ops::linalg_solve>});
  names.push_back({"linalg_svd", "torch.linalg.svd"});
  add_rules(rules, "xla cpu", {"linalg_svd", "default", Category::fp32, kernel<ops::linalg_svd>});
  names.push_back({"linalg_svdvals", "torch.linalg.svdvals"});
  add_rules(rules, "cpu", {"linalg_svdvals", "default", Category::fp32, kernel<ops::linalg_svdvals>});
  names.push_back({"linalg_tensorsolve", "torch.linalg.tensorsolve"});
  add_rules(rules, "cpu", {"linalg_tensorsolve", "default", Category::fp32, kernel<ops::linalg_tensorsolve>});
  names.push_back({"linalg_vecdot", "torch.linalg.vecdot"});
  add_rules(rules, "cuda xpu cpu -npu -mlu", {"linalg_vecdot", "default", Category::lower_precision_fp, kernel<ops::linalg_vecdot>});
  names.push_back({"linalg_vector_norm", "torch.linalg.vector_norm torch.linalg.norm"});
  add_rules(rules, "cuda xpu", {"linalg_vector_norm", "default", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm>});
  add_rules(rules, "mps", {"linalg_vector_norm", "default", Category::fp32, kernel<ops::linalg_vector_norm>});
  names.push_back({"linear", "torch.nn.functional.linear torch.nn.Linear"});
  add_rules(rules, "cuda xla xpu cpu mps", {"linear", "default", Category::lower_precision_fp, kernel<ops::linear>});
  names.push_back({"log10", "torch.log10 torch.Tensor.log10"});
  add_rules(rules, "cuda xpu mps", {"log10", "default", Category::fp32, kernel<ops::log10>});
  names.push_back({"log1p", "torch.log1p torch.Tensor.log1p torch.special.log1p"});
  add_rules(rules, "cuda xpu mps", {"log1p", "default", Category::fp32, kernel<ops::log1p>});
  names.push_back({"max_pool3d", "torch.nn.functional.max_pool3d torch.nn.MaxPool3d"});
  add_rules(rules, "cpu", {"max_pool3d", "default", Category::fp32, kernel<ops::max_pool3d>});
  names.push_back({"max_unpool3d", "torch.nn.functional.max_unpool3d torch.nn.MaxUnpool3d"});
  add_rules(rules, "cpu", {"max_unpool3d", "default", Category::fp32, kernel<ops::max_unpool3d>});
  names.push_back({"mse_loss", "torch.nn.functional.mse_loss torch.nn.MSELoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"mse_loss", "default", Category::fp32, kernel<ops::mse_loss>});
  names.push_back({"multi_margin_loss", "torch.nn.functional.multi_margin_loss torch.nn.MultiMarginLoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"multi_margin_loss", "default", Category::fp32, kernel<ops::multi_margin_loss>});
  names.push_back({"multilabel_margin_loss", "torch.nn.functional.multilabel_margin_loss torch.nn.MultiLabelMarginLoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"multilabel_margin_loss", "default", Category::fp32, kernel<ops::multilabel_margin_loss>});
  names.push_back({"nanquantile", "torch.nanquantile torch.Tensor.nanquantile"});
  add_rules(rules, "cpu", {"nanquantile", "default", Category::fp32, kernel<ops::nanquantile>});
  add_rules(rules, "cpu", {"nanquantile", "scalar", Category::fp32, kernel<ops::nanquantile_scalar>});
  names.push_back({"nll_loss", "torch.nn.functional.nll_loss torch.nn.NLLLoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"nll_loss", "default", Category::fp32, kernel<ops::nll_loss>});
  names.push_back({"pinverse", "torch.pinverse torch.Tensor.pinverse"});
  add_rules(rules, "cpu", {"pinverse", "default", Category::fp32, kernel<ops::pinverse>});
  names.push_back({"prod", "torch.prod torch.Tensor.prod"});
  add_rules(rules, "cuda xpu tpu", {"prod", "default", Category::fp32_set_opt_dtype, kernel<ops::prod>});
  add_rules(rules, "xla cpu mps -tpu", {"prod", "default", Category::fp32, kernel<ops::prod>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "cuda xpu -npu", {"prod", "dim_Dimname", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  add_rules(rules, "xla cpu mps -tpu", {"prod", "dim_Dimname", Category::fp32, kernel<ops::prod_dim_Dimname>});
#endif
  add_rules(rules, "cuda xpu tpu", {"prod", "dim_int", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int>});
  add_rules(rules, "xla cpu mps -tpu", {"prod", "dim_int", Category::fp32, kernel<ops::prod_dim_int>});
  names.push_back({"replication_pad2d", "torch.nn.functional.pad torch.nn.ReplicationPad2d"});
  add_rules(rules, "xla cpu", {"replication_pad2d", "default", Category::fp32, kernel<ops::replication_pad2d>});
  names.push_back({"rnn_relu_cell", "torch.rnn_relu_cell torch.nn.RNNCell"});
  add_rules(rules, "cuda xpu tpu", {"rnn_relu_cell", "default", Category::lower_precision_fp, kernel<ops::rnn_relu_cell>});
  names.push_back({"rnn_tanh_cell", "torch.nn.RNNCell torch.rnn_tanh_cell"});
  add_rules(rules, "cuda xpu tpu", {"rnn_tanh_cell", "default", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell>});
  names.push_back({"scaled_dot_product_attention", "torch.nn.functional.scaled_dot_product_attention"});
  add_rules(rules, "cuda xpu cpu mps", {"scaled_dot_product_attention", "default", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention>});
  names.push_back({"scatter_add", "torch.scatter_add torch.Tensor.scatter_add"});
  add_rules(rules, "cuda xpu mps", {"scatter_add", "default", Category::promote, kernel<ops::scatter_add>});
  names.push_back({"soft_margin_loss", "torch.nn.functional.soft_margin_loss torch.nn.SoftMarginLoss"});
  add_rules(rules, "cuda xla xpu cpu mps", {"soft_margin_loss", "default", Category::fp32, kernel<ops::soft_margin_loss>});
  names.push_back({"softplus", "torch.nn.functional.softplus torch.nn.Softplus"});
  add_rules(rules, "cuda xpu mps", {"softplus", "default", Category::fp32, kernel<ops::softplus>});
  names.push_back({"tan", "torch.tan torch.Tensor.tan"});
  add_rules(rules, "cuda xpu mps", {"tan", "default", Category::fp32, kernel<ops::tan>});
  names.push_back({"upsample_linear1d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  add_rules(rules, "cuda xpu -npu -mlu", {"upsample_linear1d", "default", Category::fp32, kernel<ops::upsample_linear1d>});
  names.push_back({"upsample_nearest1d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  add_rules(rules, "cuda xpu -npu -mlu", {"upsample_nearest1d", "default", Category::fp32, kernel<ops::upsample_nearest1d>});
  names.push_back({"view_as_complex", "torch.view_as_complex"});
  add_rules(rules, "cpu", {"view_as_complex", "default", Category::fp32, kernel<ops::view_as_complex>});
}

} // namespace polycast::autocast
