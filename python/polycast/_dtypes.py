"""The names of dtypes, and the spellings that arguments and rules accept."""

import torch

from polycast._suggest import did_you_mean

# Rules can cast to these dtypes. Each has other names in PyTorch and in the options of trainers.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "float16": ("fp16", "f16", "half"),
    "bfloat16": ("bf16",),
    "float32": ("fp32", "f32", "float", "single"),
    "float64": ("fp64", "f64", "double"),
}
# `NAMES` maps each spelling to PyTorch's name of the dtype.
NAMES = {spelling: name for name, spellings in SPELLINGS.items() for spelling in (name, *spellings)}


def dtype_named(text: str) -> str | None:
    """Return PyTorch's name of a dtype for any of its ``SPELLINGS``, or None for another string.

    Example:
        >>> from polycast._dtypes import dtype_named
        >>> dtype_named("bf16"), dtype_named("torch.half"), dtype_named("int8")
        ('bfloat16', 'float16', None)
    """
    return NAMES.get(_plain(text))


def dtype_of(value: torch.dtype | str, argument: str = "dtype") -> torch.dtype:
    """Convert a dtype or its name to a ``torch.dtype``. Any dtype of PyTorch is accepted, such as ``torch.int8``.

    Args:
        value: A ``torch.dtype``, or a string: PyTorch's name, with or without "torch.", or a short form such as "bf16".
        argument: The name of the argument in error messages.

    Raises:
        TypeError: If the value is neither a dtype nor a string.
        ValueError: If PyTorch has no dtype of this name.

    Example:
        >>> from polycast._dtypes import dtype_of
        >>> dtype_of("bf16"), dtype_of("torch.half"), dtype_of("fp32")
        (torch.bfloat16, torch.float16, torch.float32)
    """
    if isinstance(value, torch.dtype):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{argument}: expected a torch.dtype or its name, got {value!r:.60}; pass one, such as 'bf16'")
    found = getattr(torch, dtype_named(value) or _plain(value), None)
    if isinstance(found, torch.dtype):
        return found
    raise ValueError(f"{argument}: expected a dtype name, got '{value:.60}'; {did_you_mean(_plain(value), NAMES)}")


def _plain(text: str) -> str:
    """Return the name of a dtype in lower case, without "torch."."""
    return text.strip().lower().removeprefix("torch.")
