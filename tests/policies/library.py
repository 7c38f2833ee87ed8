"""A library of custom operators. They have no kernels, because rules read only their schemas."""

from torch.library import Library

LIBRARY = Library("library", "DEF")  # type: ignore[no-untyped-call]
for schema in (
    "attention(Tensor query, Tensor[] memory, Tensor? mask=None, *, float scale=1.0) -> Tensor",
    "attention.fast(Tensor query, Tensor[] memory, str kernel) -> Tensor",
    "attention.out(Tensor query, Tensor[] memory, *, Tensor(a!) out) -> Tensor(a!)",
    "fill(Tensor(a!) target, Tensor value) -> ()",
    "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
):
    LIBRARY.define(schema)  # type: ignore[no-untyped-call]
