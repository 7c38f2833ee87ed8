// Generated from policy.yaml by `python -m codegen`. Do not edit.
#include "autocast/kernel.h"

#include <torch/version.h>

#include <ATen/ops/_native_multi_head_attention_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/batch_norm_ops.h>
#include <ATen/ops/conv_tbc_ops.h>
#include <ATen/ops/cosine_embedding_loss_ops.h>
#include <ATen/ops/dist_ops.h>
#include <ATen/ops/fft_fftn_ops.h>
#include <ATen/ops/geqrf_ops.h>
#include <ATen/ops/grid_sampler_3d_ops.h>
#include <ATen/ops/gru_cell_ops.h>
#include <ATen/ops/hinge_embedding_loss_ops.h>
#include <ATen/ops/linalg_eigh_ops.h>
#include <ATen/ops/linalg_lstsq_ops.h>
#include <ATen/ops/linalg_svd_ops.h>
#include <ATen/ops/linalg_svdvals_ops.h>
#include <ATen/ops/linalg_vecdot_ops.h>
#include <ATen/ops/log10_ops.h>
#include <ATen/ops/log1p_ops.h>
#include <ATen/ops/max_pool3d_ops.h>
#include <ATen/ops/multi_margin_loss_ops.h>
#include <ATen/ops/multilabel_margin_loss_ops.h>
#include <ATen/ops/nll_loss_ops.h>
#include <ATen/ops/pinverse_ops.h>
#include <ATen/ops/prod_ops.h>
#include <ATen/ops/rnn_tanh_cell_ops.h>
#include <ATen/ops/scatter_add_ops.h>
#include <ATen/ops/tan_ops.h>
#include <ATen/ops/upsample_linear1d_ops.h>
#include <ATen/ops/view_as_complex_ops.h>

namespace polycast::autocast {

namespace ops = at::_ops;

void rows_7(std::vector<Row>& rows, std::vector<Names>& names) {
  names.push_back({"_native_multi_head_attention", "torch._native_multi_head_attention"});
  rows.push_back({"_native_multi_head_attention", "default", "cpu", Category::lower_precision_fp, kernel<ops::_native_multi_head_attention, Category::lower_precision_fp>});
  names.push_back({"_softmax", "torch._softmax"});
  rows.push_back({"_softmax", "default", "xla", Category::fp32, kernel<ops::_softmax, Category::fp32>});
  names.push_back({"addmm", "torch.addmm torch.Tensor.addmm"});
  rows.push_back({"addmm", "default", "cuda", Category::lower_precision_fp, kernel<ops::addmm, Category::lower_precision_fp>});
  rows.push_back({"addmm", "default", "xla", Category::lower_precision_fp, kernel<ops::addmm, Category::lower_precision_fp>});
  rows.push_back({"addmm", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::addmm, Category::lower_precision_fp>});
  rows.push_back({"addmm", "default", "xpu", Category::lower_precision_fp, kernel<ops::addmm, Category::lower_precision_fp>});
  rows.push_back({"addmm", "default", "cpu", Category::lower_precision_fp, kernel<ops::addmm, Category::lower_precision_fp>});
  rows.push_back({"addmm", "default", "mps", Category::lower_precision_fp, kernel<ops::addmm, Category::lower_precision_fp>});
  rows.push_back({"addmm", "default", "mtia", Category::lower_precision_fp, kernel<ops::addmm, Category::lower_precision_fp>});
  rows.push_back({"addmm", "default", "maia", Category::lower_precision_fp, kernel<ops::addmm, Category::lower_precision_fp>});
  rows.push_back({"addmm", "default", "hpu", Category::lower_precision_fp, kernel<ops::addmm, Category::lower_precision_fp>});
  rows.push_back({"addmm", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::addmm, Category::lower_precision_fp>});
  names.push_back({"batch_norm", "torch.nn.functional.batch_norm torch.nn.BatchNorm1d torch.nn.BatchNorm2d torch.nn.BatchNorm3d torch.nn.functional.instance_norm torch.nn.InstanceNorm1d torch.nn.InstanceNorm2d torch.nn.InstanceNorm3d"});
  rows.push_back({"batch_norm", "default", "xla", Category::fp32, kernel<ops::batch_norm, Category::fp32>});
  rows.push_back({"batch_norm", "default", "mps", Category::fp32, kernel<ops::batch_norm, Category::fp32>});
  names.push_back({"conv_tbc", "torch.nn.functional.conv_tbc"});
  rows.push_back({"conv_tbc", "default", "cuda", Category::lower_precision_fp, kernel<ops::conv_tbc, Category::lower_precision_fp>});
  rows.push_back({"conv_tbc", "default", "xla", Category::lower_precision_fp, kernel<ops::conv_tbc, Category::lower_precision_fp>});
  rows.push_back({"conv_tbc", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv_tbc, Category::lower_precision_fp>});
  rows.push_back({"conv_tbc", "default", "xpu", Category::lower_precision_fp, kernel<ops::conv_tbc, Category::lower_precision_fp>});
  rows.push_back({"conv_tbc", "default", "cpu", Category::lower_precision_fp, kernel<ops::conv_tbc, Category::lower_precision_fp>});
  rows.push_back({"conv_tbc", "default", "mps", Category::lower_precision_fp, kernel<ops::conv_tbc, Category::lower_precision_fp>});
  rows.push_back({"conv_tbc", "default", "mtia", Category::lower_precision_fp, kernel<ops::conv_tbc, Category::lower_precision_fp>});
  rows.push_back({"conv_tbc", "default", "maia", Category::lower_precision_fp, kernel<ops::conv_tbc, Category::lower_precision_fp>});
  rows.push_back({"conv_tbc", "default", "hpu", Category::lower_precision_fp, kernel<ops::conv_tbc, Category::lower_precision_fp>});
  rows.push_back({"conv_tbc", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::conv_tbc, Category::lower_precision_fp>});
  names.push_back({"cosine_embedding_loss", "torch.nn.functional.cosine_embedding_loss torch.nn.CosineEmbeddingLoss"});
  rows.push_back({"cosine_embedding_loss", "default", "cuda", Category::fp32, kernel<ops::cosine_embedding_loss, Category::fp32>});
  rows.push_back({"cosine_embedding_loss", "default", "xla", Category::fp32, kernel<ops::cosine_embedding_loss, Category::fp32>});
  rows.push_back({"cosine_embedding_loss", "default", "xla_gpu", Category::fp32, kernel<ops::cosine_embedding_loss, Category::fp32>});
  rows.push_back({"cosine_embedding_loss", "default", "xpu", Category::fp32, kernel<ops::cosine_embedding_loss, Category::fp32>});
  rows.push_back({"cosine_embedding_loss", "default", "cpu", Category::fp32, kernel<ops::cosine_embedding_loss, Category::fp32>});
  rows.push_back({"cosine_embedding_loss", "default", "mps", Category::fp32, kernel<ops::cosine_embedding_loss, Category::fp32>});
  rows.push_back({"cosine_embedding_loss", "default", "mtia", Category::fp32, kernel<ops::cosine_embedding_loss, Category::fp32>});
  rows.push_back({"cosine_embedding_loss", "default", "maia", Category::fp32, kernel<ops::cosine_embedding_loss, Category::fp32>});
  rows.push_back({"cosine_embedding_loss", "default", "hpu", Category::fp32, kernel<ops::cosine_embedding_loss, Category::fp32>});
  rows.push_back({"cosine_embedding_loss", "default", "privateuse1", Category::fp32, kernel<ops::cosine_embedding_loss, Category::fp32>});
  names.push_back({"dist", "torch.dist torch.Tensor.dist"});
  rows.push_back({"dist", "default", "cuda", Category::fp32, kernel<ops::dist, Category::fp32>});
  rows.push_back({"dist", "default", "xla_gpu", Category::fp32, kernel<ops::dist, Category::fp32>});
  rows.push_back({"dist", "default", "xpu", Category::fp32, kernel<ops::dist, Category::fp32>});
  rows.push_back({"dist", "default", "mps", Category::fp32, kernel<ops::dist, Category::fp32>});
  rows.push_back({"dist", "default", "mtia", Category::fp32, kernel<ops::dist, Category::fp32>});
  rows.push_back({"dist", "default", "maia", Category::fp32, kernel<ops::dist, Category::fp32>});
  rows.push_back({"dist", "default", "hpu", Category::fp32, kernel<ops::dist, Category::fp32>});
  rows.push_back({"dist", "default", "privateuse1", Category::fp32, kernel<ops::dist, Category::fp32>});
  names.push_back({"fft_fftn", "torch.fft.fftn"});
  rows.push_back({"fft_fftn", "default", "xpu", Category::fp32, kernel<ops::fft_fftn, Category::fp32>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_fftn", "default", "cpu", Category::fp32, kernel<ops::fft_fftn, Category::fp32>});
  names.push_back({"geqrf", "torch.geqrf torch.Tensor.geqrf"});
  rows.push_back({"geqrf", "default", "cpu", Category::fp32, kernel<ops::geqrf, Category::fp32>});
  names.push_back({"grid_sampler_3d", "torch.grid_sampler_3d"});
  rows.push_back({"grid_sampler_3d", "default", "cpu", Category::fp32, kernel<ops::grid_sampler_3d, Category::fp32>});
  names.push_back({"gru_cell", "torch.nn.GRUCell torch.gru_cell"});
  rows.push_back({"gru_cell", "default", "cuda", Category::lower_precision_fp, kernel<ops::gru_cell, Category::lower_precision_fp>});
  rows.push_back({"gru_cell", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::gru_cell, Category::lower_precision_fp>});
  rows.push_back({"gru_cell", "default", "xpu", Category::lower_precision_fp, kernel<ops::gru_cell, Category::lower_precision_fp>});
  rows.push_back({"gru_cell", "default", "mtia", Category::lower_precision_fp, kernel<ops::gru_cell, Category::lower_precision_fp>});
  rows.push_back({"gru_cell", "default", "maia", Category::lower_precision_fp, kernel<ops::gru_cell, Category::lower_precision_fp>});
  rows.push_back({"gru_cell", "default", "hpu", Category::lower_precision_fp, kernel<ops::gru_cell, Category::lower_precision_fp>});
  rows.push_back({"gru_cell", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::gru_cell, Category::lower_precision_fp>});
  names.push_back({"hinge_embedding_loss", "torch.nn.functional.hinge_embedding_loss torch.nn.HingeEmbeddingLoss"});
  rows.push_back({"hinge_embedding_loss", "default", "cuda", Category::fp32, kernel<ops::hinge_embedding_loss, Category::fp32>});
  rows.push_back({"hinge_embedding_loss", "default", "xla", Category::fp32, kernel<ops::hinge_embedding_loss, Category::fp32>});
  rows.push_back({"hinge_embedding_loss", "default", "xla_gpu", Category::fp32, kernel<ops::hinge_embedding_loss, Category::fp32>});
  rows.push_back({"hinge_embedding_loss", "default", "xpu", Category::fp32, kernel<ops::hinge_embedding_loss, Category::fp32>});
  rows.push_back({"hinge_embedding_loss", "default", "cpu", Category::fp32, kernel<ops::hinge_embedding_loss, Category::fp32>});
  rows.push_back({"hinge_embedding_loss", "default", "mps", Category::fp32, kernel<ops::hinge_embedding_loss, Category::fp32>});
  rows.push_back({"hinge_embedding_loss", "default", "mtia", Category::fp32, kernel<ops::hinge_embedding_loss, Category::fp32>});
  rows.push_back({"hinge_embedding_loss", "default", "maia", Category::fp32, kernel<ops::hinge_embedding_loss, Category::fp32>});
  rows.push_back({"hinge_embedding_loss", "default", "hpu", Category::fp32, kernel<ops::hinge_embedding_loss, Category::fp32>});
  rows.push_back({"hinge_embedding_loss", "default", "privateuse1", Category::fp32, kernel<ops::hinge_embedding_loss, Category::fp32>});
  names.push_back({"linalg_eigh", "torch.linalg.eigh"});
  rows.push_back({"linalg_eigh", "default", "cpu", Category::fp32, kernel<ops::linalg_eigh, Category::fp32>});
  names.push_back({"linalg_lstsq", "torch.linalg.lstsq"});
  rows.push_back({"linalg_lstsq", "default", "cpu", Category::fp32, kernel<ops::linalg_lstsq, Category::fp32>});
  names.push_back({"linalg_svd", "torch.linalg.svd"});
  rows.push_back({"linalg_svd", "default", "xla", Category::fp32, kernel<ops::linalg_svd, Category::fp32>});
  rows.push_back({"linalg_svd", "default", "cpu", Category::fp32, kernel<ops::linalg_svd, Category::fp32>});
  names.push_back({"linalg_svdvals", "torch.linalg.svdvals"});
  rows.push_back({"linalg_svdvals", "default", "cpu", Category::fp32, kernel<ops::linalg_svdvals, Category::fp32>});
  names.push_back({"linalg_vecdot", "torch.linalg.vecdot"});
  rows.push_back({"linalg_vecdot", "default", "cuda", Category::lower_precision_fp, kernel<ops::linalg_vecdot, Category::lower_precision_fp>});
  rows.push_back({"linalg_vecdot", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::linalg_vecdot, Category::lower_precision_fp>});
  rows.push_back({"linalg_vecdot", "default", "xpu", Category::lower_precision_fp, kernel<ops::linalg_vecdot, Category::lower_precision_fp>});
  rows.push_back({"linalg_vecdot", "default", "cpu", Category::lower_precision_fp, kernel<ops::linalg_vecdot, Category::lower_precision_fp>});
  rows.push_back({"linalg_vecdot", "default", "mtia", Category::lower_precision_fp, kernel<ops::linalg_vecdot, Category::lower_precision_fp>});
  rows.push_back({"linalg_vecdot", "default", "maia", Category::lower_precision_fp, kernel<ops::linalg_vecdot, Category::lower_precision_fp>});
  rows.push_back({"linalg_vecdot", "default", "hpu", Category::lower_precision_fp, kernel<ops::linalg_vecdot, Category::lower_precision_fp>});
  rows.push_back({"linalg_vecdot", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::linalg_vecdot, Category::lower_precision_fp>});
  names.push_back({"log10", "torch.log10 torch.Tensor.log10"});
  rows.push_back({"log10", "default", "cuda", Category::fp32, kernel<ops::log10, Category::fp32>});
  rows.push_back({"log10", "default", "xla_gpu", Category::fp32, kernel<ops::log10, Category::fp32>});
  rows.push_back({"log10", "default", "xpu", Category::fp32, kernel<ops::log10, Category::fp32>});
  rows.push_back({"log10", "default", "mps", Category::fp32, kernel<ops::log10, Category::fp32>});
  rows.push_back({"log10", "default", "mtia", Category::fp32, kernel<ops::log10, Category::fp32>});
  rows.push_back({"log10", "default", "maia", Category::fp32, kernel<ops::log10, Category::fp32>});
  rows.push_back({"log10", "default", "hpu", Category::fp32, kernel<ops::log10, Category::fp32>});
  rows.push_back({"log10", "default", "privateuse1", Category::fp32, kernel<ops::log10, Category::fp32>});
  names.push_back({"log1p", "torch.log1p torch.Tensor.log1p torch.special.log1p"});
  rows.push_back({"log1p", "default", "cuda", Category::fp32, kernel<ops::log1p, Category::fp32>});
  rows.push_back({"log1p", "default", "xla_gpu", Category::fp32, kernel<ops::log1p, Category::fp32>});
  rows.push_back({"log1p", "default", "xpu", Category::fp32, kernel<ops::log1p, Category::fp32>});
  rows.push_back({"log1p", "default", "mps", Category::fp32, kernel<ops::log1p, Category::fp32>});
  rows.push_back({"log1p", "default", "mtia", Category::fp32, kernel<ops::log1p, Category::fp32>});
  rows.push_back({"log1p", "default", "maia", Category::fp32, kernel<ops::log1p, Category::fp32>});
  rows.push_back({"log1p", "default", "hpu", Category::fp32, kernel<ops::log1p, Category::fp32>});
  rows.push_back({"log1p", "default", "privateuse1", Category::fp32, kernel<ops::log1p, Category::fp32>});
  names.push_back({"max_pool3d", "torch.nn.functional.max_pool3d torch.nn.MaxPool3d"});
  rows.push_back({"max_pool3d", "default", "cpu", Category::fp32, kernel<ops::max_pool3d, Category::fp32>});
  names.push_back({"multi_margin_loss", "torch.nn.functional.multi_margin_loss torch.nn.MultiMarginLoss"});
  rows.push_back({"multi_margin_loss", "default", "cuda", Category::fp32, kernel<ops::multi_margin_loss, Category::fp32>});
  rows.push_back({"multi_margin_loss", "default", "xla", Category::fp32, kernel<ops::multi_margin_loss, Category::fp32>});
  rows.push_back({"multi_margin_loss", "default", "xla_gpu", Category::fp32, kernel<ops::multi_margin_loss, Category::fp32>});
  rows.push_back({"multi_margin_loss", "default", "xpu", Category::fp32, kernel<ops::multi_margin_loss, Category::fp32>});
  rows.push_back({"multi_margin_loss", "default", "cpu", Category::fp32, kernel<ops::multi_margin_loss, Category::fp32>});
  rows.push_back({"multi_margin_loss", "default", "mps", Category::fp32, kernel<ops::multi_margin_loss, Category::fp32>});
  rows.push_back({"multi_margin_loss", "default", "mtia", Category::fp32, kernel<ops::multi_margin_loss, Category::fp32>});
  rows.push_back({"multi_margin_loss", "default", "maia", Category::fp32, kernel<ops::multi_margin_loss, Category::fp32>});
  rows.push_back({"multi_margin_loss", "default", "hpu", Category::fp32, kernel<ops::multi_margin_loss, Category::fp32>});
  rows.push_back({"multi_margin_loss", "default", "privateuse1", Category::fp32, kernel<ops::multi_margin_loss, Category::fp32>});
  names.push_back({"multilabel_margin_loss", "torch.nn.functional.multilabel_margin_loss torch.nn.MultiLabelMarginLoss"});
  rows.push_back({"multilabel_margin_loss", "default", "cuda", Category::fp32, kernel<ops::multilabel_margin_loss, Category::fp32>});
  rows.push_back({"multilabel_margin_loss", "default", "xla", Category::fp32, kernel<ops::multilabel_margin_loss, Category::fp32>});
  rows.push_back({"multilabel_margin_loss", "default", "xla_gpu", Category::fp32, kernel<ops::multilabel_margin_loss, Category::fp32>});
  rows.push_back({"multilabel_margin_loss", "default", "xpu", Category::fp32, kernel<ops::multilabel_margin_loss, Category::fp32>});
  rows.push_back({"multilabel_margin_loss", "default", "cpu", Category::fp32, kernel<ops::multilabel_margin_loss, Category::fp32>});
  rows.push_back({"multilabel_margin_loss", "default", "mps", Category::fp32, kernel<ops::multilabel_margin_loss, Category::fp32>});
  rows.push_back({"multilabel_margin_loss", "default", "mtia", Category::fp32, kernel<ops::multilabel_margin_loss, Category::fp32>});
  rows.push_back({"multilabel_margin_loss", "default", "maia", Category::fp32, kernel<ops::multilabel_margin_loss, Category::fp32>});
  rows.push_back({"multilabel_margin_loss", "default", "hpu", Category::fp32, kernel<ops::multilabel_margin_loss, Category::fp32>});
  rows.push_back({"multilabel_margin_loss", "default", "privateuse1", Category::fp32, kernel<ops::multilabel_margin_loss, Category::fp32>});
  names.push_back({"nll_loss", "torch.nn.functional.nll_loss torch.nn.NLLLoss"});
  rows.push_back({"nll_loss", "default", "cuda", Category::fp32, kernel<ops::nll_loss, Category::fp32>});
  rows.push_back({"nll_loss", "default", "xla", Category::fp32, kernel<ops::nll_loss, Category::fp32>});
  rows.push_back({"nll_loss", "default", "xla_gpu", Category::fp32, kernel<ops::nll_loss, Category::fp32>});
  rows.push_back({"nll_loss", "default", "xpu", Category::fp32, kernel<ops::nll_loss, Category::fp32>});
  rows.push_back({"nll_loss", "default", "cpu", Category::fp32, kernel<ops::nll_loss, Category::fp32>});
  rows.push_back({"nll_loss", "default", "mps", Category::fp32, kernel<ops::nll_loss, Category::fp32>});
  rows.push_back({"nll_loss", "default", "mtia", Category::fp32, kernel<ops::nll_loss, Category::fp32>});
  rows.push_back({"nll_loss", "default", "maia", Category::fp32, kernel<ops::nll_loss, Category::fp32>});
  rows.push_back({"nll_loss", "default", "hpu", Category::fp32, kernel<ops::nll_loss, Category::fp32>});
  rows.push_back({"nll_loss", "default", "privateuse1", Category::fp32, kernel<ops::nll_loss, Category::fp32>});
  names.push_back({"pinverse", "torch.pinverse torch.Tensor.pinverse"});
  rows.push_back({"pinverse", "default", "cpu", Category::fp32, kernel<ops::pinverse, Category::fp32>});
  names.push_back({"prod", "torch.prod torch.Tensor.prod"});
  rows.push_back({"prod", "default", "cuda", Category::fp32_set_opt_dtype, kernel<ops::prod, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "default", "xla", Category::fp32, kernel<ops::prod, Category::fp32>});
  rows.push_back({"prod", "default", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::prod, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "default", "xpu", Category::fp32_set_opt_dtype, kernel<ops::prod, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "default", "cpu", Category::fp32, kernel<ops::prod, Category::fp32>});
  rows.push_back({"prod", "default", "mps", Category::fp32, kernel<ops::prod, Category::fp32>});
  rows.push_back({"prod", "default", "mtia", Category::fp32_set_opt_dtype, kernel<ops::prod, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "default", "maia", Category::fp32_set_opt_dtype, kernel<ops::prod, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "default", "hpu", Category::fp32_set_opt_dtype, kernel<ops::prod, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "default", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::prod, Category::fp32_set_opt_dtype>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "cuda", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "xla", Category::fp32, kernel<ops::prod_dim_Dimname, Category::fp32>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "xpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "cpu", Category::fp32, kernel<ops::prod_dim_Dimname, Category::fp32>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "mps", Category::fp32, kernel<ops::prod_dim_Dimname, Category::fp32>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "mtia", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "maia", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "hpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname, Category::fp32_set_opt_dtype>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname, Category::fp32_set_opt_dtype>});
#endif
  rows.push_back({"prod", "dim_int", "cuda", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "dim_int", "xla", Category::fp32, kernel<ops::prod_dim_int, Category::fp32>});
  rows.push_back({"prod", "dim_int", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "dim_int", "xpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "dim_int", "cpu", Category::fp32, kernel<ops::prod_dim_int, Category::fp32>});
  rows.push_back({"prod", "dim_int", "mps", Category::fp32, kernel<ops::prod_dim_int, Category::fp32>});
  rows.push_back({"prod", "dim_int", "mtia", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "dim_int", "maia", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "dim_int", "hpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int, Category::fp32_set_opt_dtype>});
  rows.push_back({"prod", "dim_int", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int, Category::fp32_set_opt_dtype>});
  names.push_back({"rnn_tanh_cell", "torch.nn.RNNCell torch.rnn_tanh_cell"});
  rows.push_back({"rnn_tanh_cell", "default", "cuda", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_tanh_cell", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_tanh_cell", "default", "xpu", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_tanh_cell", "default", "mtia", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_tanh_cell", "default", "maia", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_tanh_cell", "default", "hpu", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell, Category::lower_precision_fp>});
  rows.push_back({"rnn_tanh_cell", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell, Category::lower_precision_fp>});
  names.push_back({"scatter_add", "torch.scatter_add torch.Tensor.scatter_add"});
  rows.push_back({"scatter_add", "default", "cuda", Category::promote, kernel<ops::scatter_add, Category::promote>});
  rows.push_back({"scatter_add", "default", "xla_gpu", Category::promote, kernel<ops::scatter_add, Category::promote>});
  rows.push_back({"scatter_add", "default", "xpu", Category::promote, kernel<ops::scatter_add, Category::promote>});
  rows.push_back({"scatter_add", "default", "mps", Category::promote, kernel<ops::scatter_add, Category::promote>});
  rows.push_back({"scatter_add", "default", "mtia", Category::promote, kernel<ops::scatter_add, Category::promote>});
  rows.push_back({"scatter_add", "default", "maia", Category::promote, kernel<ops::scatter_add, Category::promote>});
  rows.push_back({"scatter_add", "default", "hpu", Category::promote, kernel<ops::scatter_add, Category::promote>});
  rows.push_back({"scatter_add", "default", "privateuse1", Category::promote, kernel<ops::scatter_add, Category::promote>});
  names.push_back({"tan", "torch.tan torch.Tensor.tan"});
  rows.push_back({"tan", "default", "cuda", Category::fp32, kernel<ops::tan, Category::fp32>});
  rows.push_back({"tan", "default", "xla_gpu", Category::fp32, kernel<ops::tan, Category::fp32>});
  rows.push_back({"tan", "default", "xpu", Category::fp32, kernel<ops::tan, Category::fp32>});
  rows.push_back({"tan", "default", "mps", Category::fp32, kernel<ops::tan, Category::fp32>});
  rows.push_back({"tan", "default", "mtia", Category::fp32, kernel<ops::tan, Category::fp32>});
  rows.push_back({"tan", "default", "maia", Category::fp32, kernel<ops::tan, Category::fp32>});
  rows.push_back({"tan", "default", "hpu", Category::fp32, kernel<ops::tan, Category::fp32>});
  rows.push_back({"tan", "default", "privateuse1", Category::fp32, kernel<ops::tan, Category::fp32>});
  names.push_back({"upsample_linear1d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  rows.push_back({"upsample_linear1d", "default", "cuda", Category::fp32, kernel<ops::upsample_linear1d, Category::fp32>});
  rows.push_back({"upsample_linear1d", "default", "xla_gpu", Category::fp32, kernel<ops::upsample_linear1d, Category::fp32>});
  rows.push_back({"upsample_linear1d", "default", "xpu", Category::fp32, kernel<ops::upsample_linear1d, Category::fp32>});
  rows.push_back({"upsample_linear1d", "default", "mtia", Category::fp32, kernel<ops::upsample_linear1d, Category::fp32>});
  rows.push_back({"upsample_linear1d", "default", "maia", Category::fp32, kernel<ops::upsample_linear1d, Category::fp32>});
  rows.push_back({"upsample_linear1d", "default", "hpu", Category::fp32, kernel<ops::upsample_linear1d, Category::fp32>});
  rows.push_back({"upsample_linear1d", "default", "privateuse1", Category::fp32, kernel<ops::upsample_linear1d, Category::fp32>});
  names.push_back({"view_as_complex", "torch.view_as_complex"});
  rows.push_back({"view_as_complex", "default", "cpu", Category::fp32, kernel<ops::view_as_complex, Category::fp32>});
}

} // namespace polycast::autocast
