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

void rows_3(std::vector<Row>& rows, std::vector<Names>& names) {
  names.push_back({"_native_multi_head_attention", "torch._native_multi_head_attention"});
  rows.push_back({"_native_multi_head_attention", "default", "cpu", Category::lower_precision_fp, kernel<ops::_native_multi_head_attention>});
  names.push_back({"_softmax", "torch._softmax"});
  rows.push_back({"_softmax", "default", "xla", Category::fp32, kernel<ops::_softmax>});
  names.push_back({"addmm", "torch.addmm torch.Tensor.addmm"});
  rows.push_back({"addmm", "default", "cuda", Category::lower_precision_fp, kernel<ops::addmm>});
  rows.push_back({"addmm", "default", "xla", Category::lower_precision_fp, kernel<ops::addmm>});
  rows.push_back({"addmm", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::addmm>});
  rows.push_back({"addmm", "default", "xpu", Category::lower_precision_fp, kernel<ops::addmm>});
  rows.push_back({"addmm", "default", "cpu", Category::lower_precision_fp, kernel<ops::addmm>});
  rows.push_back({"addmm", "default", "mps", Category::lower_precision_fp, kernel<ops::addmm>});
  rows.push_back({"addmm", "default", "mtia", Category::lower_precision_fp, kernel<ops::addmm>});
  rows.push_back({"addmm", "default", "maia", Category::lower_precision_fp, kernel<ops::addmm>});
  rows.push_back({"addmm", "default", "hpu", Category::lower_precision_fp, kernel<ops::addmm>});
  rows.push_back({"addmm", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::addmm>});
  names.push_back({"addmv", "torch.addmv torch.Tensor.addmv"});
  rows.push_back({"addmv", "default", "cuda", Category::lower_precision_fp, kernel<ops::addmv>});
  rows.push_back({"addmv", "default", "xla", Category::lower_precision_fp, kernel<ops::addmv>, "Listed in PyTorch/XLA: automatic mixed precision (000_1ddc69e16249b2f9.txt); torch_xla runs it in float32."});
  rows.push_back({"addmv", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::addmv>});
  rows.push_back({"addmv", "default", "xpu", Category::lower_precision_fp, kernel<ops::addmv>});
  rows.push_back({"addmv", "default", "mps", Category::lower_precision_fp, kernel<ops::addmv>});
  rows.push_back({"addmv", "default", "mtia", Category::lower_precision_fp, kernel<ops::addmv>});
  rows.push_back({"addmv", "default", "maia", Category::lower_precision_fp, kernel<ops::addmv>});
  rows.push_back({"addmv", "default", "hpu", Category::lower_precision_fp, kernel<ops::addmv>});
  rows.push_back({"addmv", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::addmv>});
  names.push_back({"batch_norm", "torch.nn.functional.batch_norm torch.nn.BatchNorm1d torch.nn.BatchNorm2d torch.nn.BatchNorm3d torch.nn.functional.instance_norm torch.nn.InstanceNorm1d torch.nn.InstanceNorm2d torch.nn.InstanceNorm3d"});
  rows.push_back({"batch_norm", "default", "xla", Category::fp32, kernel<ops::batch_norm>});
  rows.push_back({"batch_norm", "default", "mps", Category::fp32, kernel<ops::batch_norm>});
  names.push_back({"bmm", "torch.bmm torch.Tensor.bmm"});
  rows.push_back({"bmm", "default", "cuda", Category::lower_precision_fp, kernel<ops::bmm>});
  rows.push_back({"bmm", "default", "xla", Category::lower_precision_fp, kernel<ops::bmm>});
  rows.push_back({"bmm", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::bmm>});
  rows.push_back({"bmm", "default", "xpu", Category::lower_precision_fp, kernel<ops::bmm>});
  rows.push_back({"bmm", "default", "cpu", Category::lower_precision_fp, kernel<ops::bmm>});
  rows.push_back({"bmm", "default", "mps", Category::lower_precision_fp, kernel<ops::bmm>});
  rows.push_back({"bmm", "default", "mtia", Category::lower_precision_fp, kernel<ops::bmm>});
  rows.push_back({"bmm", "default", "maia", Category::lower_precision_fp, kernel<ops::bmm>});
  rows.push_back({"bmm", "default", "hpu", Category::lower_precision_fp, kernel<ops::bmm>});
  rows.push_back({"bmm", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::bmm>});
  names.push_back({"cdist", "torch.cdist"});
  rows.push_back({"cdist", "default", "cuda", Category::fp32, kernel<ops::cdist>});
  rows.push_back({"cdist", "default", "xla", Category::fp32, kernel<ops::cdist>});
  rows.push_back({"cdist", "default", "xla_gpu", Category::fp32, kernel<ops::cdist>});
  rows.push_back({"cdist", "default", "xpu", Category::fp32, kernel<ops::cdist>});
  rows.push_back({"cdist", "default", "cpu", Category::fp32, kernel<ops::cdist>});
  rows.push_back({"cdist", "default", "mps", Category::fp32, kernel<ops::cdist>});
  rows.push_back({"cdist", "default", "mtia", Category::fp32, kernel<ops::cdist>});
  rows.push_back({"cdist", "default", "maia", Category::fp32, kernel<ops::cdist>});
  rows.push_back({"cdist", "default", "hpu", Category::fp32, kernel<ops::cdist>});
  rows.push_back({"cdist", "default", "privateuse1", Category::fp32, kernel<ops::cdist>});
  names.push_back({"conv_tbc", "torch.nn.functional.conv_tbc"});
  rows.push_back({"conv_tbc", "default", "cuda", Category::lower_precision_fp, kernel<ops::conv_tbc>});
  rows.push_back({"conv_tbc", "default", "xla", Category::lower_precision_fp, kernel<ops::conv_tbc>});
  rows.push_back({"conv_tbc", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv_tbc>});
  rows.push_back({"conv_tbc", "default", "xpu", Category::lower_precision_fp, kernel<ops::conv_tbc>});
  rows.push_back({"conv_tbc", "default", "cpu", Category::lower_precision_fp, kernel<ops::conv_tbc>});
  rows.push_back({"conv_tbc", "default", "mps", Category::lower_precision_fp, kernel<ops::conv_tbc>});
  rows.push_back({"conv_tbc", "default", "mtia", Category::lower_precision_fp, kernel<ops::conv_tbc>});
  rows.push_back({"conv_tbc", "default", "maia", Category::lower_precision_fp, kernel<ops::conv_tbc>});
  rows.push_back({"conv_tbc", "default", "hpu", Category::lower_precision_fp, kernel<ops::conv_tbc>});
  rows.push_back({"conv_tbc", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::conv_tbc>});
  names.push_back({"conv_transpose2d", "torch.nn.functional.conv_transpose2d torch.nn.ConvTranspose2d torch.conv_transpose2d"});
  rows.push_back({"conv_transpose2d", "input", "cuda", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input>});
  rows.push_back({"conv_transpose2d", "input", "xla", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input>});
  rows.push_back({"conv_transpose2d", "input", "xla_gpu", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input>});
  rows.push_back({"conv_transpose2d", "input", "xpu", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input>});
  rows.push_back({"conv_transpose2d", "input", "cpu", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input>});
  rows.push_back({"conv_transpose2d", "input", "mps", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input>});
  rows.push_back({"conv_transpose2d", "input", "mtia", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input>});
  rows.push_back({"conv_transpose2d", "input", "maia", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input>});
  rows.push_back({"conv_transpose2d", "input", "hpu", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input>});
  rows.push_back({"conv_transpose2d", "input", "privateuse1", Category::lower_precision_fp, kernel<ops::conv_transpose2d_input>});
  names.push_back({"cosh", "torch.cosh torch.Tensor.cosh"});
  rows.push_back({"cosh", "default", "cuda", Category::fp32, kernel<ops::cosh>});
  rows.push_back({"cosh", "default", "xla_gpu", Category::fp32, kernel<ops::cosh>});
  rows.push_back({"cosh", "default", "xpu", Category::fp32, kernel<ops::cosh>});
  rows.push_back({"cosh", "default", "mps", Category::fp32, kernel<ops::cosh>});
  rows.push_back({"cosh", "default", "mtia", Category::fp32, kernel<ops::cosh>});
  rows.push_back({"cosh", "default", "maia", Category::fp32, kernel<ops::cosh>});
  rows.push_back({"cosh", "default", "hpu", Category::fp32, kernel<ops::cosh>});
  rows.push_back({"cosh", "default", "privateuse1", Category::fp32, kernel<ops::cosh>});
  names.push_back({"cosine_embedding_loss", "torch.nn.functional.cosine_embedding_loss torch.nn.CosineEmbeddingLoss"});
  rows.push_back({"cosine_embedding_loss", "default", "cuda", Category::fp32, kernel<ops::cosine_embedding_loss>});
  rows.push_back({"cosine_embedding_loss", "default", "xla", Category::fp32, kernel<ops::cosine_embedding_loss>});
  rows.push_back({"cosine_embedding_loss", "default", "xla_gpu", Category::fp32, kernel<ops::cosine_embedding_loss>});
  rows.push_back({"cosine_embedding_loss", "default", "xpu", Category::fp32, kernel<ops::cosine_embedding_loss>});
  rows.push_back({"cosine_embedding_loss", "default", "cpu", Category::fp32, kernel<ops::cosine_embedding_loss>});
  rows.push_back({"cosine_embedding_loss", "default", "mps", Category::fp32, kernel<ops::cosine_embedding_loss>});
  rows.push_back({"cosine_embedding_loss", "default", "mtia", Category::fp32, kernel<ops::cosine_embedding_loss>});
  rows.push_back({"cosine_embedding_loss", "default", "maia", Category::fp32, kernel<ops::cosine_embedding_loss>});
  rows.push_back({"cosine_embedding_loss", "default", "hpu", Category::fp32, kernel<ops::cosine_embedding_loss>});
  rows.push_back({"cosine_embedding_loss", "default", "privateuse1", Category::fp32, kernel<ops::cosine_embedding_loss>});
  names.push_back({"cumprod", "torch.cumprod torch.Tensor.cumprod"});
  rows.push_back({"cumprod", "default", "cuda", Category::fp32_set_opt_dtype, kernel<ops::cumprod>});
  rows.push_back({"cumprod", "default", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod>});
  rows.push_back({"cumprod", "default", "xpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod>});
  rows.push_back({"cumprod", "default", "mps", Category::fp32, kernel<ops::cumprod>});
  rows.push_back({"cumprod", "default", "mtia", Category::fp32_set_opt_dtype, kernel<ops::cumprod>});
  rows.push_back({"cumprod", "default", "maia", Category::fp32_set_opt_dtype, kernel<ops::cumprod>});
  rows.push_back({"cumprod", "default", "hpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod>});
  rows.push_back({"cumprod", "default", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::cumprod>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "cuda", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "xpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "mps", Category::fp32, kernel<ops::cumprod_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "mtia", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "maia", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "hpu", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"cumprod", "dimname", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::cumprod_dimname>});
#endif
  names.push_back({"dist", "torch.dist torch.Tensor.dist"});
  rows.push_back({"dist", "default", "cuda", Category::fp32, kernel<ops::dist>});
  rows.push_back({"dist", "default", "xla_gpu", Category::fp32, kernel<ops::dist>});
  rows.push_back({"dist", "default", "xpu", Category::fp32, kernel<ops::dist>});
  rows.push_back({"dist", "default", "mps", Category::fp32, kernel<ops::dist>});
  rows.push_back({"dist", "default", "mtia", Category::fp32, kernel<ops::dist>});
  rows.push_back({"dist", "default", "maia", Category::fp32, kernel<ops::dist>});
  rows.push_back({"dist", "default", "hpu", Category::fp32, kernel<ops::dist>});
  rows.push_back({"dist", "default", "privateuse1", Category::fp32, kernel<ops::dist>});
  names.push_back({"dot", "torch.dot torch.Tensor.dot"});
  rows.push_back({"dot", "default", "cuda", Category::promote, kernel<ops::dot>});
  rows.push_back({"dot", "default", "xla_gpu", Category::promote, kernel<ops::dot>});
  rows.push_back({"dot", "default", "xpu", Category::promote, kernel<ops::dot>});
  rows.push_back({"dot", "default", "mps", Category::promote, kernel<ops::dot>});
  rows.push_back({"dot", "default", "mtia", Category::promote, kernel<ops::dot>});
  rows.push_back({"dot", "default", "maia", Category::promote, kernel<ops::dot>});
  rows.push_back({"dot", "default", "hpu", Category::promote, kernel<ops::dot>});
  rows.push_back({"dot", "default", "privateuse1", Category::promote, kernel<ops::dot>});
  names.push_back({"exp", "torch.exp torch.Tensor.exp"});
  rows.push_back({"exp", "default", "cuda", Category::fp32, kernel<ops::exp>});
  rows.push_back({"exp", "default", "xla_gpu", Category::fp32, kernel<ops::exp>});
  rows.push_back({"exp", "default", "xpu", Category::fp32, kernel<ops::exp>});
  rows.push_back({"exp", "default", "mps", Category::fp32, kernel<ops::exp>});
  rows.push_back({"exp", "default", "mtia", Category::fp32, kernel<ops::exp>});
  rows.push_back({"exp", "default", "maia", Category::fp32, kernel<ops::exp>});
  rows.push_back({"exp", "default", "hpu", Category::fp32, kernel<ops::exp>});
  rows.push_back({"exp", "default", "privateuse1", Category::fp32, kernel<ops::exp>});
  names.push_back({"expm1", "torch.expm1 torch.Tensor.expm1 torch.special.expm1"});
  rows.push_back({"expm1", "default", "cuda", Category::fp32, kernel<ops::expm1>});
  rows.push_back({"expm1", "default", "xla_gpu", Category::fp32, kernel<ops::expm1>});
  rows.push_back({"expm1", "default", "xpu", Category::fp32, kernel<ops::expm1>});
  rows.push_back({"expm1", "default", "mps", Category::fp32, kernel<ops::expm1>});
  rows.push_back({"expm1", "default", "mtia", Category::fp32, kernel<ops::expm1>});
  rows.push_back({"expm1", "default", "maia", Category::fp32, kernel<ops::expm1>});
  rows.push_back({"expm1", "default", "hpu", Category::fp32, kernel<ops::expm1>});
  rows.push_back({"expm1", "default", "privateuse1", Category::fp32, kernel<ops::expm1>});
  names.push_back({"fft_fft", "torch.fft.fft"});
  rows.push_back({"fft_fft", "default", "xpu", Category::fp32, kernel<ops::fft_fft>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_fft", "default", "cpu", Category::fp32, kernel<ops::fft_fft>});
  names.push_back({"fft_fftn", "torch.fft.fftn"});
  rows.push_back({"fft_fftn", "default", "xpu", Category::fp32, kernel<ops::fft_fftn>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_fftn", "default", "cpu", Category::fp32, kernel<ops::fft_fftn>});
  names.push_back({"fft_irfft", "torch.fft.irfft"});
  rows.push_back({"fft_irfft", "default", "xpu", Category::fp32, kernel<ops::fft_irfft>, "Listed in Intel: auto mixed precision on GPU, torch.xpu.amp (003_79838daea11dc429.txt); torch does not and raises in half precision."});
  rows.push_back({"fft_irfft", "default", "cpu", Category::fp32, kernel<ops::fft_irfft>});
  names.push_back({"geqrf", "torch.geqrf torch.Tensor.geqrf"});
  rows.push_back({"geqrf", "default", "cpu", Category::fp32, kernel<ops::geqrf>});
  names.push_back({"grid_sampler_3d", "torch.grid_sampler_3d"});
  rows.push_back({"grid_sampler_3d", "default", "cpu", Category::fp32, kernel<ops::grid_sampler_3d>});
  names.push_back({"gru_cell", "torch.nn.GRUCell torch.gru_cell"});
  rows.push_back({"gru_cell", "default", "cuda", Category::lower_precision_fp, kernel<ops::gru_cell>});
  rows.push_back({"gru_cell", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::gru_cell>});
  rows.push_back({"gru_cell", "default", "xpu", Category::lower_precision_fp, kernel<ops::gru_cell>});
  rows.push_back({"gru_cell", "default", "mtia", Category::lower_precision_fp, kernel<ops::gru_cell>});
  rows.push_back({"gru_cell", "default", "maia", Category::lower_precision_fp, kernel<ops::gru_cell>});
  rows.push_back({"gru_cell", "default", "hpu", Category::lower_precision_fp, kernel<ops::gru_cell>});
  rows.push_back({"gru_cell", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::gru_cell>});
  names.push_back({"hinge_embedding_loss", "torch.nn.functional.hinge_embedding_loss torch.nn.HingeEmbeddingLoss"});
  rows.push_back({"hinge_embedding_loss", "default", "cuda", Category::fp32, kernel<ops::hinge_embedding_loss>});
  rows.push_back({"hinge_embedding_loss", "default", "xla", Category::fp32, kernel<ops::hinge_embedding_loss>});
  rows.push_back({"hinge_embedding_loss", "default", "xla_gpu", Category::fp32, kernel<ops::hinge_embedding_loss>});
  rows.push_back({"hinge_embedding_loss", "default", "xpu", Category::fp32, kernel<ops::hinge_embedding_loss>});
  rows.push_back({"hinge_embedding_loss", "default", "cpu", Category::fp32, kernel<ops::hinge_embedding_loss>});
  rows.push_back({"hinge_embedding_loss", "default", "mps", Category::fp32, kernel<ops::hinge_embedding_loss>});
  rows.push_back({"hinge_embedding_loss", "default", "mtia", Category::fp32, kernel<ops::hinge_embedding_loss>});
  rows.push_back({"hinge_embedding_loss", "default", "maia", Category::fp32, kernel<ops::hinge_embedding_loss>});
  rows.push_back({"hinge_embedding_loss", "default", "hpu", Category::fp32, kernel<ops::hinge_embedding_loss>});
  rows.push_back({"hinge_embedding_loss", "default", "privateuse1", Category::fp32, kernel<ops::hinge_embedding_loss>});
  names.push_back({"index_put", "torch.index_put torch.Tensor.index_put"});
  rows.push_back({"index_put", "default", "cuda", Category::promote, kernel<ops::index_put>});
  rows.push_back({"index_put", "default", "xla_gpu", Category::promote, kernel<ops::index_put>});
  rows.push_back({"index_put", "default", "xpu", Category::promote, kernel<ops::index_put>});
  rows.push_back({"index_put", "default", "mps", Category::promote, kernel<ops::index_put>});
  rows.push_back({"index_put", "default", "mtia", Category::promote, kernel<ops::index_put>});
  rows.push_back({"index_put", "default", "maia", Category::promote, kernel<ops::index_put>});
  rows.push_back({"index_put", "default", "hpu", Category::promote, kernel<ops::index_put>});
  rows.push_back({"index_put", "default", "privateuse1", Category::promote, kernel<ops::index_put>});
  names.push_back({"linalg_cond", "torch.linalg.cond"});
  rows.push_back({"linalg_cond", "default", "cpu", Category::fp32, kernel<ops::linalg_cond>});
  rows.push_back({"linalg_cond", "p_str", "cpu", Category::fp32, kernel<ops::linalg_cond_p_str>});
  names.push_back({"linalg_eigh", "torch.linalg.eigh"});
  rows.push_back({"linalg_eigh", "default", "cpu", Category::fp32, kernel<ops::linalg_eigh>});
  names.push_back({"linalg_lstsq", "torch.linalg.lstsq"});
  rows.push_back({"linalg_lstsq", "default", "cpu", Category::fp32, kernel<ops::linalg_lstsq>});
  names.push_back({"linalg_multi_dot", "torch.linalg.multi_dot"});
  rows.push_back({"linalg_multi_dot", "default", "cuda", Category::lower_precision_fp, kernel<ops::linalg_multi_dot>});
  rows.push_back({"linalg_multi_dot", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::linalg_multi_dot>});
  rows.push_back({"linalg_multi_dot", "default", "xpu", Category::lower_precision_fp, kernel<ops::linalg_multi_dot>});
  rows.push_back({"linalg_multi_dot", "default", "mps", Category::lower_precision_fp, kernel<ops::linalg_multi_dot>});
  rows.push_back({"linalg_multi_dot", "default", "mtia", Category::lower_precision_fp, kernel<ops::linalg_multi_dot>});
  rows.push_back({"linalg_multi_dot", "default", "maia", Category::lower_precision_fp, kernel<ops::linalg_multi_dot>});
  rows.push_back({"linalg_multi_dot", "default", "hpu", Category::lower_precision_fp, kernel<ops::linalg_multi_dot>});
  rows.push_back({"linalg_multi_dot", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::linalg_multi_dot>});
  names.push_back({"linalg_solve", "torch.linalg.solve"});
  rows.push_back({"linalg_solve", "default", "cpu", Category::fp32, kernel<ops::linalg_solve>});
  names.push_back({"linalg_svd", "torch.linalg.svd"});
  rows.push_back({"linalg_svd", "default", "xla", Category::fp32, kernel<ops::linalg_svd>});
  rows.push_back({"linalg_svd", "default", "cpu", Category::fp32, kernel<ops::linalg_svd>});
  names.push_back({"linalg_svdvals", "torch.linalg.svdvals"});
  rows.push_back({"linalg_svdvals", "default", "cpu", Category::fp32, kernel<ops::linalg_svdvals>});
  names.push_back({"linalg_tensorsolve", "torch.linalg.tensorsolve"});
  rows.push_back({"linalg_tensorsolve", "default", "cpu", Category::fp32, kernel<ops::linalg_tensorsolve>});
  names.push_back({"linalg_vecdot", "torch.linalg.vecdot"});
  rows.push_back({"linalg_vecdot", "default", "cuda", Category::lower_precision_fp, kernel<ops::linalg_vecdot>});
  rows.push_back({"linalg_vecdot", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::linalg_vecdot>});
  rows.push_back({"linalg_vecdot", "default", "xpu", Category::lower_precision_fp, kernel<ops::linalg_vecdot>});
  rows.push_back({"linalg_vecdot", "default", "cpu", Category::lower_precision_fp, kernel<ops::linalg_vecdot>});
  rows.push_back({"linalg_vecdot", "default", "mtia", Category::lower_precision_fp, kernel<ops::linalg_vecdot>});
  rows.push_back({"linalg_vecdot", "default", "maia", Category::lower_precision_fp, kernel<ops::linalg_vecdot>});
  rows.push_back({"linalg_vecdot", "default", "hpu", Category::lower_precision_fp, kernel<ops::linalg_vecdot>});
  rows.push_back({"linalg_vecdot", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::linalg_vecdot>});
  names.push_back({"linalg_vector_norm", "torch.linalg.vector_norm torch.linalg.norm"});
  rows.push_back({"linalg_vector_norm", "default", "cuda", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm>});
  rows.push_back({"linalg_vector_norm", "default", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm>});
  rows.push_back({"linalg_vector_norm", "default", "xpu", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm>});
  rows.push_back({"linalg_vector_norm", "default", "mps", Category::fp32, kernel<ops::linalg_vector_norm>});
  rows.push_back({"linalg_vector_norm", "default", "mtia", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm>});
  rows.push_back({"linalg_vector_norm", "default", "maia", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm>});
  rows.push_back({"linalg_vector_norm", "default", "hpu", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm>});
  rows.push_back({"linalg_vector_norm", "default", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::linalg_vector_norm>});
  names.push_back({"linear", "torch.nn.functional.linear torch.nn.Linear"});
  rows.push_back({"linear", "default", "cuda", Category::lower_precision_fp, kernel<ops::linear>});
  rows.push_back({"linear", "default", "xla", Category::lower_precision_fp, kernel<ops::linear>});
  rows.push_back({"linear", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::linear>});
  rows.push_back({"linear", "default", "xpu", Category::lower_precision_fp, kernel<ops::linear>});
  rows.push_back({"linear", "default", "cpu", Category::lower_precision_fp, kernel<ops::linear>});
  rows.push_back({"linear", "default", "mps", Category::lower_precision_fp, kernel<ops::linear>});
  rows.push_back({"linear", "default", "mtia", Category::lower_precision_fp, kernel<ops::linear>});
  rows.push_back({"linear", "default", "maia", Category::lower_precision_fp, kernel<ops::linear>});
  rows.push_back({"linear", "default", "hpu", Category::lower_precision_fp, kernel<ops::linear>});
  rows.push_back({"linear", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::linear>});
  names.push_back({"log10", "torch.log10 torch.Tensor.log10"});
  rows.push_back({"log10", "default", "cuda", Category::fp32, kernel<ops::log10>});
  rows.push_back({"log10", "default", "xla_gpu", Category::fp32, kernel<ops::log10>});
  rows.push_back({"log10", "default", "xpu", Category::fp32, kernel<ops::log10>});
  rows.push_back({"log10", "default", "mps", Category::fp32, kernel<ops::log10>});
  rows.push_back({"log10", "default", "mtia", Category::fp32, kernel<ops::log10>});
  rows.push_back({"log10", "default", "maia", Category::fp32, kernel<ops::log10>});
  rows.push_back({"log10", "default", "hpu", Category::fp32, kernel<ops::log10>});
  rows.push_back({"log10", "default", "privateuse1", Category::fp32, kernel<ops::log10>});
  names.push_back({"log1p", "torch.log1p torch.Tensor.log1p torch.special.log1p"});
  rows.push_back({"log1p", "default", "cuda", Category::fp32, kernel<ops::log1p>});
  rows.push_back({"log1p", "default", "xla_gpu", Category::fp32, kernel<ops::log1p>});
  rows.push_back({"log1p", "default", "xpu", Category::fp32, kernel<ops::log1p>});
  rows.push_back({"log1p", "default", "mps", Category::fp32, kernel<ops::log1p>});
  rows.push_back({"log1p", "default", "mtia", Category::fp32, kernel<ops::log1p>});
  rows.push_back({"log1p", "default", "maia", Category::fp32, kernel<ops::log1p>});
  rows.push_back({"log1p", "default", "hpu", Category::fp32, kernel<ops::log1p>});
  rows.push_back({"log1p", "default", "privateuse1", Category::fp32, kernel<ops::log1p>});
  names.push_back({"max_pool3d", "torch.nn.functional.max_pool3d torch.nn.MaxPool3d"});
  rows.push_back({"max_pool3d", "default", "cpu", Category::fp32, kernel<ops::max_pool3d>});
  names.push_back({"max_unpool3d", "torch.nn.functional.max_unpool3d torch.nn.MaxUnpool3d"});
  rows.push_back({"max_unpool3d", "default", "cpu", Category::fp32, kernel<ops::max_unpool3d>});
  names.push_back({"mse_loss", "torch.nn.functional.mse_loss torch.nn.MSELoss"});
  rows.push_back({"mse_loss", "default", "cuda", Category::fp32, kernel<ops::mse_loss>});
  rows.push_back({"mse_loss", "default", "xla", Category::fp32, kernel<ops::mse_loss>});
  rows.push_back({"mse_loss", "default", "xla_gpu", Category::fp32, kernel<ops::mse_loss>});
  rows.push_back({"mse_loss", "default", "xpu", Category::fp32, kernel<ops::mse_loss>});
  rows.push_back({"mse_loss", "default", "cpu", Category::fp32, kernel<ops::mse_loss>});
  rows.push_back({"mse_loss", "default", "mps", Category::fp32, kernel<ops::mse_loss>});
  rows.push_back({"mse_loss", "default", "mtia", Category::fp32, kernel<ops::mse_loss>});
  rows.push_back({"mse_loss", "default", "maia", Category::fp32, kernel<ops::mse_loss>});
  rows.push_back({"mse_loss", "default", "hpu", Category::fp32, kernel<ops::mse_loss>});
  rows.push_back({"mse_loss", "default", "privateuse1", Category::fp32, kernel<ops::mse_loss>});
  names.push_back({"multi_margin_loss", "torch.nn.functional.multi_margin_loss torch.nn.MultiMarginLoss"});
  rows.push_back({"multi_margin_loss", "default", "cuda", Category::fp32, kernel<ops::multi_margin_loss>});
  rows.push_back({"multi_margin_loss", "default", "xla", Category::fp32, kernel<ops::multi_margin_loss>});
  rows.push_back({"multi_margin_loss", "default", "xla_gpu", Category::fp32, kernel<ops::multi_margin_loss>});
  rows.push_back({"multi_margin_loss", "default", "xpu", Category::fp32, kernel<ops::multi_margin_loss>});
  rows.push_back({"multi_margin_loss", "default", "cpu", Category::fp32, kernel<ops::multi_margin_loss>});
  rows.push_back({"multi_margin_loss", "default", "mps", Category::fp32, kernel<ops::multi_margin_loss>});
  rows.push_back({"multi_margin_loss", "default", "mtia", Category::fp32, kernel<ops::multi_margin_loss>});
  rows.push_back({"multi_margin_loss", "default", "maia", Category::fp32, kernel<ops::multi_margin_loss>});
  rows.push_back({"multi_margin_loss", "default", "hpu", Category::fp32, kernel<ops::multi_margin_loss>});
  rows.push_back({"multi_margin_loss", "default", "privateuse1", Category::fp32, kernel<ops::multi_margin_loss>});
  names.push_back({"multilabel_margin_loss", "torch.nn.functional.multilabel_margin_loss torch.nn.MultiLabelMarginLoss"});
  rows.push_back({"multilabel_margin_loss", "default", "cuda", Category::fp32, kernel<ops::multilabel_margin_loss>});
  rows.push_back({"multilabel_margin_loss", "default", "xla", Category::fp32, kernel<ops::multilabel_margin_loss>});
  rows.push_back({"multilabel_margin_loss", "default", "xla_gpu", Category::fp32, kernel<ops::multilabel_margin_loss>});
  rows.push_back({"multilabel_margin_loss", "default", "xpu", Category::fp32, kernel<ops::multilabel_margin_loss>});
  rows.push_back({"multilabel_margin_loss", "default", "cpu", Category::fp32, kernel<ops::multilabel_margin_loss>});
  rows.push_back({"multilabel_margin_loss", "default", "mps", Category::fp32, kernel<ops::multilabel_margin_loss>});
  rows.push_back({"multilabel_margin_loss", "default", "mtia", Category::fp32, kernel<ops::multilabel_margin_loss>});
  rows.push_back({"multilabel_margin_loss", "default", "maia", Category::fp32, kernel<ops::multilabel_margin_loss>});
  rows.push_back({"multilabel_margin_loss", "default", "hpu", Category::fp32, kernel<ops::multilabel_margin_loss>});
  rows.push_back({"multilabel_margin_loss", "default", "privateuse1", Category::fp32, kernel<ops::multilabel_margin_loss>});
  names.push_back({"nanquantile", "torch.nanquantile torch.Tensor.nanquantile"});
  rows.push_back({"nanquantile", "default", "cpu", Category::fp32, kernel<ops::nanquantile>});
  rows.push_back({"nanquantile", "scalar", "cpu", Category::fp32, kernel<ops::nanquantile_scalar>});
  names.push_back({"nll_loss", "torch.nn.functional.nll_loss torch.nn.NLLLoss"});
  rows.push_back({"nll_loss", "default", "cuda", Category::fp32, kernel<ops::nll_loss>});
  rows.push_back({"nll_loss", "default", "xla", Category::fp32, kernel<ops::nll_loss>});
  rows.push_back({"nll_loss", "default", "xla_gpu", Category::fp32, kernel<ops::nll_loss>});
  rows.push_back({"nll_loss", "default", "xpu", Category::fp32, kernel<ops::nll_loss>});
  rows.push_back({"nll_loss", "default", "cpu", Category::fp32, kernel<ops::nll_loss>});
  rows.push_back({"nll_loss", "default", "mps", Category::fp32, kernel<ops::nll_loss>});
  rows.push_back({"nll_loss", "default", "mtia", Category::fp32, kernel<ops::nll_loss>});
  rows.push_back({"nll_loss", "default", "maia", Category::fp32, kernel<ops::nll_loss>});
  rows.push_back({"nll_loss", "default", "hpu", Category::fp32, kernel<ops::nll_loss>});
  rows.push_back({"nll_loss", "default", "privateuse1", Category::fp32, kernel<ops::nll_loss>});
  names.push_back({"pinverse", "torch.pinverse torch.Tensor.pinverse"});
  rows.push_back({"pinverse", "default", "cpu", Category::fp32, kernel<ops::pinverse>});
  names.push_back({"prod", "torch.prod torch.Tensor.prod"});
  rows.push_back({"prod", "default", "cuda", Category::fp32_set_opt_dtype, kernel<ops::prod>});
  rows.push_back({"prod", "default", "xla", Category::fp32, kernel<ops::prod>});
  rows.push_back({"prod", "default", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::prod>});
  rows.push_back({"prod", "default", "xpu", Category::fp32_set_opt_dtype, kernel<ops::prod>});
  rows.push_back({"prod", "default", "cpu", Category::fp32, kernel<ops::prod>});
  rows.push_back({"prod", "default", "mps", Category::fp32, kernel<ops::prod>});
  rows.push_back({"prod", "default", "mtia", Category::fp32_set_opt_dtype, kernel<ops::prod>});
  rows.push_back({"prod", "default", "maia", Category::fp32_set_opt_dtype, kernel<ops::prod>});
  rows.push_back({"prod", "default", "hpu", Category::fp32_set_opt_dtype, kernel<ops::prod>});
  rows.push_back({"prod", "default", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::prod>});
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "cuda", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "xla", Category::fp32, kernel<ops::prod_dim_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "xpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "cpu", Category::fp32, kernel<ops::prod_dim_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "mps", Category::fp32, kernel<ops::prod_dim_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "mtia", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "maia", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "hpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname>});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2013
  rows.push_back({"prod", "dim_Dimname", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_Dimname>});
#endif
  rows.push_back({"prod", "dim_int", "cuda", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int>});
  rows.push_back({"prod", "dim_int", "xla", Category::fp32, kernel<ops::prod_dim_int>});
  rows.push_back({"prod", "dim_int", "xla_gpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int>});
  rows.push_back({"prod", "dim_int", "xpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int>});
  rows.push_back({"prod", "dim_int", "cpu", Category::fp32, kernel<ops::prod_dim_int>});
  rows.push_back({"prod", "dim_int", "mps", Category::fp32, kernel<ops::prod_dim_int>});
  rows.push_back({"prod", "dim_int", "mtia", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int>});
  rows.push_back({"prod", "dim_int", "maia", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int>});
  rows.push_back({"prod", "dim_int", "hpu", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int>});
  rows.push_back({"prod", "dim_int", "privateuse1", Category::fp32_set_opt_dtype, kernel<ops::prod_dim_int>});
  names.push_back({"replication_pad2d", "torch.nn.functional.pad torch.nn.ReplicationPad2d"});
  rows.push_back({"replication_pad2d", "default", "xla", Category::fp32, kernel<ops::replication_pad2d>});
  rows.push_back({"replication_pad2d", "default", "cpu", Category::fp32, kernel<ops::replication_pad2d>});
  names.push_back({"rnn_relu_cell", "torch.rnn_relu_cell torch.nn.RNNCell"});
  rows.push_back({"rnn_relu_cell", "default", "cuda", Category::lower_precision_fp, kernel<ops::rnn_relu_cell>});
  rows.push_back({"rnn_relu_cell", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::rnn_relu_cell>});
  rows.push_back({"rnn_relu_cell", "default", "xpu", Category::lower_precision_fp, kernel<ops::rnn_relu_cell>});
  rows.push_back({"rnn_relu_cell", "default", "mtia", Category::lower_precision_fp, kernel<ops::rnn_relu_cell>});
  rows.push_back({"rnn_relu_cell", "default", "maia", Category::lower_precision_fp, kernel<ops::rnn_relu_cell>});
  rows.push_back({"rnn_relu_cell", "default", "hpu", Category::lower_precision_fp, kernel<ops::rnn_relu_cell>});
  rows.push_back({"rnn_relu_cell", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::rnn_relu_cell>});
  names.push_back({"rnn_tanh_cell", "torch.nn.RNNCell torch.rnn_tanh_cell"});
  rows.push_back({"rnn_tanh_cell", "default", "cuda", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell>});
  rows.push_back({"rnn_tanh_cell", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell>});
  rows.push_back({"rnn_tanh_cell", "default", "xpu", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell>});
  rows.push_back({"rnn_tanh_cell", "default", "mtia", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell>});
  rows.push_back({"rnn_tanh_cell", "default", "maia", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell>});
  rows.push_back({"rnn_tanh_cell", "default", "hpu", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell>});
  rows.push_back({"rnn_tanh_cell", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::rnn_tanh_cell>});
  names.push_back({"scaled_dot_product_attention", "torch.nn.functional.scaled_dot_product_attention"});
  rows.push_back({"scaled_dot_product_attention", "default", "cuda", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention>});
  rows.push_back({"scaled_dot_product_attention", "default", "xla_gpu", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention>});
  rows.push_back({"scaled_dot_product_attention", "default", "xpu", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention>});
  rows.push_back({"scaled_dot_product_attention", "default", "cpu", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention>});
  rows.push_back({"scaled_dot_product_attention", "default", "mps", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention>});
  rows.push_back({"scaled_dot_product_attention", "default", "mtia", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention>});
  rows.push_back({"scaled_dot_product_attention", "default", "maia", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention>});
  rows.push_back({"scaled_dot_product_attention", "default", "hpu", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention>});
  rows.push_back({"scaled_dot_product_attention", "default", "privateuse1", Category::lower_precision_fp, kernel<ops::scaled_dot_product_attention>});
  names.push_back({"scatter_add", "torch.scatter_add torch.Tensor.scatter_add"});
  rows.push_back({"scatter_add", "default", "cuda", Category::promote, kernel<ops::scatter_add>});
  rows.push_back({"scatter_add", "default", "xla_gpu", Category::promote, kernel<ops::scatter_add>});
  rows.push_back({"scatter_add", "default", "xpu", Category::promote, kernel<ops::scatter_add>});
  rows.push_back({"scatter_add", "default", "mps", Category::promote, kernel<ops::scatter_add>});
  rows.push_back({"scatter_add", "default", "mtia", Category::promote, kernel<ops::scatter_add>});
  rows.push_back({"scatter_add", "default", "maia", Category::promote, kernel<ops::scatter_add>});
  rows.push_back({"scatter_add", "default", "hpu", Category::promote, kernel<ops::scatter_add>});
  rows.push_back({"scatter_add", "default", "privateuse1", Category::promote, kernel<ops::scatter_add>});
  names.push_back({"soft_margin_loss", "torch.nn.functional.soft_margin_loss torch.nn.SoftMarginLoss"});
  rows.push_back({"soft_margin_loss", "default", "cuda", Category::fp32, kernel<ops::soft_margin_loss>});
  rows.push_back({"soft_margin_loss", "default", "xla", Category::fp32, kernel<ops::soft_margin_loss>});
  rows.push_back({"soft_margin_loss", "default", "xla_gpu", Category::fp32, kernel<ops::soft_margin_loss>});
  rows.push_back({"soft_margin_loss", "default", "xpu", Category::fp32, kernel<ops::soft_margin_loss>});
  rows.push_back({"soft_margin_loss", "default", "cpu", Category::fp32, kernel<ops::soft_margin_loss>});
  rows.push_back({"soft_margin_loss", "default", "mps", Category::fp32, kernel<ops::soft_margin_loss>});
  rows.push_back({"soft_margin_loss", "default", "mtia", Category::fp32, kernel<ops::soft_margin_loss>});
  rows.push_back({"soft_margin_loss", "default", "maia", Category::fp32, kernel<ops::soft_margin_loss>});
  rows.push_back({"soft_margin_loss", "default", "hpu", Category::fp32, kernel<ops::soft_margin_loss>});
  rows.push_back({"soft_margin_loss", "default", "privateuse1", Category::fp32, kernel<ops::soft_margin_loss>});
  names.push_back({"softplus", "torch.nn.functional.softplus torch.nn.Softplus"});
  rows.push_back({"softplus", "default", "cuda", Category::fp32, kernel<ops::softplus>});
  rows.push_back({"softplus", "default", "xla_gpu", Category::fp32, kernel<ops::softplus>});
  rows.push_back({"softplus", "default", "xpu", Category::fp32, kernel<ops::softplus>});
  rows.push_back({"softplus", "default", "mps", Category::fp32, kernel<ops::softplus>});
  rows.push_back({"softplus", "default", "mtia", Category::fp32, kernel<ops::softplus>});
  rows.push_back({"softplus", "default", "maia", Category::fp32, kernel<ops::softplus>});
  rows.push_back({"softplus", "default", "hpu", Category::fp32, kernel<ops::softplus>});
  rows.push_back({"softplus", "default", "privateuse1", Category::fp32, kernel<ops::softplus>});
  names.push_back({"tan", "torch.tan torch.Tensor.tan"});
  rows.push_back({"tan", "default", "cuda", Category::fp32, kernel<ops::tan>});
  rows.push_back({"tan", "default", "xla_gpu", Category::fp32, kernel<ops::tan>});
  rows.push_back({"tan", "default", "xpu", Category::fp32, kernel<ops::tan>});
  rows.push_back({"tan", "default", "mps", Category::fp32, kernel<ops::tan>});
  rows.push_back({"tan", "default", "mtia", Category::fp32, kernel<ops::tan>});
  rows.push_back({"tan", "default", "maia", Category::fp32, kernel<ops::tan>});
  rows.push_back({"tan", "default", "hpu", Category::fp32, kernel<ops::tan>});
  rows.push_back({"tan", "default", "privateuse1", Category::fp32, kernel<ops::tan>});
  names.push_back({"upsample_linear1d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  rows.push_back({"upsample_linear1d", "default", "cuda", Category::fp32, kernel<ops::upsample_linear1d>});
  rows.push_back({"upsample_linear1d", "default", "xla_gpu", Category::fp32, kernel<ops::upsample_linear1d>});
  rows.push_back({"upsample_linear1d", "default", "xpu", Category::fp32, kernel<ops::upsample_linear1d>});
  rows.push_back({"upsample_linear1d", "default", "mtia", Category::fp32, kernel<ops::upsample_linear1d>});
  rows.push_back({"upsample_linear1d", "default", "maia", Category::fp32, kernel<ops::upsample_linear1d>});
  rows.push_back({"upsample_linear1d", "default", "hpu", Category::fp32, kernel<ops::upsample_linear1d>});
  rows.push_back({"upsample_linear1d", "default", "privateuse1", Category::fp32, kernel<ops::upsample_linear1d>});
  names.push_back({"upsample_nearest1d", "torch.nn.functional.interpolate torch.nn.Upsample"});
  rows.push_back({"upsample_nearest1d", "default", "cuda", Category::fp32, kernel<ops::upsample_nearest1d>});
  rows.push_back({"upsample_nearest1d", "default", "xla_gpu", Category::fp32, kernel<ops::upsample_nearest1d>});
  rows.push_back({"upsample_nearest1d", "default", "xpu", Category::fp32, kernel<ops::upsample_nearest1d>});
  rows.push_back({"upsample_nearest1d", "default", "mtia", Category::fp32, kernel<ops::upsample_nearest1d>});
  rows.push_back({"upsample_nearest1d", "default", "maia", Category::fp32, kernel<ops::upsample_nearest1d>});
  rows.push_back({"upsample_nearest1d", "default", "hpu", Category::fp32, kernel<ops::upsample_nearest1d>});
  rows.push_back({"upsample_nearest1d", "default", "privateuse1", Category::fp32, kernel<ops::upsample_nearest1d>});
  names.push_back({"view_as_complex", "torch.view_as_complex"});
  rows.push_back({"view_as_complex", "default", "cpu", Category::fp32, kernel<ops::view_as_complex>});
}

} // namespace polycast::autocast
