"""ATen overloads that look like a listed op and are unlisted, each with the reason.

An overload looks like a listed op if it is another functional overload of it, or if its name is the op's with `_`,
`native_` or `_forward` about it.
"""

INNER = "runs below the listed op, where autocasting is off"
CALLS_LISTED = "calls the listed overload, which casts"
EXPLICIT_DTYPE = "takes an explicit dtype, which is respected"

EXCUSED: dict[str, str] = {
    "_adaptive_avg_pool3d": INNER,
    "_cdist_forward": INNER,
    "_ctc_loss": INNER,
    "_ctc_loss.Tensor": INNER,
    "_fused_rms_norm": INNER,
    "_linalg_eigh": INNER,
    "_linalg_eigvals": INNER,
    "_linalg_svd": INNER,
    "_log_softmax": INNER,
    "_pdist_forward": INNER,
    "_scaled_dot_product_flash_attention.quantized": "takes scales of its own for the dtypes that it is given",
    "_stack": INNER,
    "_upsample_bicubic2d_aa.vec": CALLS_LISTED,
    "_upsample_bilinear2d_aa.vec": CALLS_LISTED,
    "_upsample_nearest_exact1d.vec": CALLS_LISTED,
    "_upsample_nearest_exact2d.vec": CALLS_LISTED,
    "_upsample_nearest_exact3d.vec": CALLS_LISTED,
    "addmm.dtype": EXPLICIT_DTYPE,
    "baddbmm.dtype": EXPLICIT_DTYPE,
    "bmm.dtype": EXPLICIT_DTYPE,
    "cat.names": CALLS_LISTED,
    "fake_quantize_per_tensor_affine.tensor_qparams": "torch lists the overload with plain numbers only",
    "logsumexp.names": CALLS_LISTED,
    "mm.dtype": EXPLICIT_DTYPE,
    "native_batch_norm": INNER,
    "native_group_norm": INNER,
    "native_norm": "for sparse tensors, below the listed op",
    "native_norm.ScalarOpt_dim_dtype": "for sparse tensors, below the listed op",
    "nll_loss2d_forward": INNER,
    "nll_loss_forward": INNER,
    "norm.ScalarOpt_dim_dtype": EXPLICIT_DTYPE,
    "norm.ScalarOpt_dtype": EXPLICIT_DTYPE,
    "norm.names_ScalarOpt_dim_dtype": EXPLICIT_DTYPE,
    "scatter_add.dimname": CALLS_LISTED,
    "upsample_bicubic2d.vec": CALLS_LISTED,
    "upsample_bilinear2d.vec": CALLS_LISTED,
    "upsample_linear1d.vec": CALLS_LISTED,
    "upsample_nearest1d.vec": CALLS_LISTED,
    "upsample_nearest2d.vec": CALLS_LISTED,
    "upsample_nearest3d.vec": CALLS_LISTED,
    "upsample_trilinear3d.vec": CALLS_LISTED,
}
