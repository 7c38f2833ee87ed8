"""Dtypes, as torch has them or as text."""

import torch

from polycast._grammar.dtypes import NAMES, SPELLINGS, dtype_named, plain
from polycast._grammar.errors import closest


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
    found = getattr(torch, dtype_named(value) or plain(value), None)
    if isinstance(found, torch.dtype):
        return found
    near = closest(plain(value), [*NAMES, *(name for name in dir(torch) if _is_dtype(name))])
    remedy = f"use one of {', '.join(SPELLINGS)}" if near is None else f"did you mean '{NAMES.get(near, near)}'?"
    raise ValueError(f"the {argument} is '{value:.60}', which torch does not have; {remedy}")


def _is_dtype(name: str) -> bool:
    return isinstance(getattr(torch, name, None), torch.dtype)
