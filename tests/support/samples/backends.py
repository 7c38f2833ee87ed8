"""The autocast registrations of backends outside of PyTorch: overloads by category, from the backends' sources.

The sources are the files that ``policy.yaml`` names as each device's ``backend``.
"""

NPU = {
    "lower_precision_fp": """
        _convolution _convolution.deprecated _scaled_dot_product_flash_attention _thnn_fused_gru_cell
        _thnn_fused_lstm_cell addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc
        conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution cudnn_convolution
        cudnn_convolution_transpose einsum gru_cell linalg_multi_dot linear lstm_cell matmul mm mv prelu
        rnn_relu_cell rnn_tanh_cell scaled_dot_product_attention
    """,
    "fp32": """
        acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity dist erfinv
        exp expm1 frobenius_norm.dim group_norm hinge_embedding_loss huber_loss kl_div l1_loss layer_norm log log10
        log1p log2 logsumexp margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss native_layer_norm
        nll_loss nll_loss2d nuclear_norm nuclear_norm.dim pdist poisson_nll_loss pow.Scalar pow.Tensor_Scalar
        pow.Tensor_Tensor reciprocal renorm rsqrt sinh smooth_l1_loss soft_margin_loss softplus tan
        triplet_margin_loss
    """,
    "fp32_set_opt_dtype": """
        cumprod cumsum linalg_matrix_norm linalg_matrix_norm.str_ord linalg_vector_norm log_softmax.int prod
        prod.dim_int softmax.int sum sum.dim_IntList
    """,
    "fp32_append_dtype": "norm.Scalar norm.ScalarOpt_dim",
    "promote": "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot",
    "banned": "binary_cross_entropy",
}

# `torch_mlu` also registers overloads with dimension names, and one kernel of its own.
MLU = NPU | {
    category: f"{NPU.get(category, '')} {more}"
    for category, more in {
        "fp32_set_opt_dtype": """
            cumprod.dimname cumsum.dimname log_softmax.Dimname prod.dim_Dimname softmax.Dimname sum.dim_DimnameList
        """,
        "fp32_append_dtype": "norm.names_ScalarOpt_dim",
        "stock": "_cudnn_rnn",
    }.items()
}

TPU = {
    "lower_precision_fp": """
        _addmm_activation _convolution _convolution.deprecated _native_multi_head_attention
        _scaled_dot_product_flash_attention _thnn_fused_lstm_cell addbmm addmm addmv addr baddbmm bmm chain_matmul
        conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding conv_tbc conv_transpose1d
        conv_transpose2d.input conv_transpose3d.input convolution einsum gru_cell linalg_multi_dot linalg_vecdot
        linear lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell scaled_dot_product_attention
    """,
    "fp32": """
        _grid_sampler_2d_cpu_fallback _lu_with_info adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d
        binary_cross_entropy binary_cross_entropy_with_logits cdist cholesky cholesky_inverse cholesky_solve
        cosine_embedding_loss cross_entropy_loss ctc_loss.IntList ctc_loss.Tensor fake_quantize_per_tensor_affine
        fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn
        fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d fractional_max_pool3d geqrf grid_sampler grid_sampler_2d
        grid_sampler_3d hinge_embedding_loss huber_loss inverse kl_div l1_loss linalg_cholesky linalg_cholesky_ex
        linalg_cond linalg_cond.p_str linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
        linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank
        linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor linalg_matrix_rank.tol_tensor
        linalg_qr linalg_solve linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve lu_solve
        margin_ranking_loss max_pool3d max_unpool2d max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss
        multilabel_margin_loss_forward nanquantile nanquantile.scalar nll_loss nll_loss2d orgqr ormqr pinverse
        poisson_nll_loss polar qr quantile quantile.scalar reflection_pad1d reflection_pad2d replication_pad1d
        replication_pad2d replication_pad3d smooth_l1_loss soft_margin_loss stft stft.center svd trace
        triangular_solve triplet_margin_loss view_as_complex
    """,
    "fp32_set_opt_dtype": "prod prod.dim_int",
}

# These are in addition to PyTorch's macros, which expand to the lists of the release that builds the backend. Only the
# backend's own PyTorch has the two ops whose names end in `_musa`.
MUSA = {
    "lower_precision_fp": """
        convolution_overrideable _scaled_dot_product_attention_flash_musa _scaled_dot_product_attention_math_musa
    """,
    "banned": "binary_cross_entropy",
}

LISTS = {"npu": NPU, "mlu": MLU, "tpu": TPU, "musa": MUSA}
