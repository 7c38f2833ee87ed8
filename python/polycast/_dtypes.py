"""Dtypes as people write them: the one table of their spellings."""

import torch

from polycast._suggest import did_you_mean

# The floating-point dtypes that ops are cast to, each with the other names that torch and trainers' switches have.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "float16": ("fp16", "f16", "half"),
    "bfloat16": ("bf16",),
    "float32": ("fp32", "f32", "float", "single"),
    "float64": ("fp64", "f64", "double"),
}
# From each spelling to torch's name.
NAMES = {spelling: name for name, spellings in SPELLINGS.items() for spelling in (name, *spellings)}


def dtype_named(text: str) -> str | None:
    """Return torch's name of the floating-point dtype that a text spells; None if it spells none of them.

    Example:
        >>> from polycast._dtypes import dtype_named
        >>> dtype_named("bf16"), dtype_named("torch.half"), dtype_named("int8")
        ('bfloat16', 'float16', None)
    """
    return NAMES.get(_plain(text))


def dtype_of(value: torch.dtype | str, argument: str = "dtype") -> torch.dtype:
    """Return the dtype that a value is or spells. It may be a dtype to which nothing is cast, such as torch.int8.

    Args:
        value: A ``torch.dtype``, or text: torch's name, with or without "torch.", or a short form such as "bf16".
        argument: What the value is given for, as the error says it.

    Raises:
        TypeError: The value is neither.
        ValueError: There is no such dtype.

    Example:
        >>> from polycast._dtypes import dtype_of
        >>> dtype_of("bf16"), dtype_of("torch.half"), dtype_of("fp32")
        (torch.bfloat16, torch.float16, torch.float32)
    """
    if isinstance(value, torch.dtype):
        return value
    if not isinstance(value, str):
        raise TypeError(f"the {argument} is {value!r:.60}; give a torch.dtype or its name, such as 'bfloat16'")
    found = getattr(torch, dtype_named(value) or _plain(value), None)
    if isinstance(found, torch.dtype):
        return found
    raise ValueError(
        f"the {argument} is '{value:.60}', which torch does not have; {did_you_mean(_plain(value), NAMES)}"
    )


def _plain(text: str) -> str:
    """Return the name of a dtype in lower case, without its module."""
    return text.strip().lower().removeprefix("torch.")
