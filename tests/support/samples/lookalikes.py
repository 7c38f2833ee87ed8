"""Unlisted ATen overloads that are similar to a listed op, by the reason for which they are unlisted.

An overload is similar to a listed op if it is another functional overload of the op, or if its name adds ``_``,
``native_`` or ``_forward`` to the op's name.
"""

EXCUSED: dict[str, str] = {
    "runs below the listed op, where autocast is off": """
        _adaptive_avg_pool3d _cdist_forward _ctc_loss _ctc_loss.Tensor _fused_rms_norm _linalg_eigh
        _linalg_eigvals _linalg_svd _log_softmax _pdist_forward _stack native_batch_norm native_group_norm
        nll_loss2d_forward nll_loss_forward
    """,
    "has its own scales for its inputs' dtypes": "_scaled_dot_product_flash_attention.quantized",
    "calls the listed overload, which casts": """
        _upsample_bicubic2d_aa.vec _upsample_bilinear2d_aa.vec _upsample_nearest_exact1d.vec
        _upsample_nearest_exact2d.vec _upsample_nearest_exact3d.vec cat.names logsumexp.names
        scatter_add.dimname upsample_bicubic2d.vec upsample_bilinear2d.vec upsample_linear1d.vec
        upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec upsample_trilinear3d.vec
    """,
    "has an explicit dtype, which autocast does not change": """
        addmm.dtype baddbmm.dtype bmm.dtype mm.dtype norm.ScalarOpt_dim_dtype norm.ScalarOpt_dtype
        norm.names_ScalarOpt_dim_dtype
    """,
    "PyTorch lists only the overload with plain numbers": "fake_quantize_per_tensor_affine.tensor_qparams",
    "for sparse tensors, below the listed op": "native_norm native_norm.ScalarOpt_dim_dtype",
}
