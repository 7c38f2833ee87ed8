"""The forms of rules: a dict, a file, a release, a category or a dtype becomes rows."""

import os
from collections.abc import Mapping
from pathlib import Path

import torch

from polycast._dtypes import NAMES
from polycast._extension import DEVICES
from polycast._suggest import suggestion
from polycast.policy.categories import STOCK, VALUES, canonical, not_a_category
from polycast.policy.from_dict import rows_of_dict
from polycast.policy.releases import find, is_release, releases, rows_of
from polycast.policy.rows import EVERY, Cell, Rows


def is_file(value: object) -> bool:
    """Return whether a path or a str names a policy file. The file need not exist."""
    if isinstance(value, str) and canonical(value) not in VALUES and not is_release(value):
        return value.endswith((".yaml", ".yml")) or os.sep in value or Path(value[:255]).is_file()
    return isinstance(value, os.PathLike)


def rows_from(value: object) -> Rows:
    """Return the rows of rules in any form except a policy.

    Raises:
        PolicyError: If a dict or a file has problems.
        ValueError: If a str is not a category, a dtype, a release or a file.
        TypeError: If the value has another type.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return rows_of_dict(value)
    if isinstance(value, str | os.PathLike) and is_file(value):
        return rows_of_file(os.fspath(value))
    if not isinstance(value, str | torch.dtype):
        raise TypeError(
            f"rules: expected a mapping, a file, a release, a category or a dtype, got {value!r:.60}; "
            "write rules as in {'softmax': 'fp32'}"
        )
    text = str(value)
    category = canonical(text)
    if category in VALUES:
        return {EVERY: (Cell(category, f"Policy('{category}')"),) * len(DEVICES)}
    if text == STOCK or isinstance(value, torch.dtype):
        raise ValueError("; ".join(not_a_category(text)))
    if is_release(text):
        return rows_of(find(text))
    close = suggestion(text, [*VALUES, *NAMES, *releases()])
    remedy = close or "; write a category such as 'fp32', a release such as 'torch-2.12', or the name of a file"
    raise ValueError(f"rules: expected a category, a dtype, a release or a file, got '{text:.60}'{remedy}")


def rows_of_file(path: str) -> Rows:
    """Return the rows of a policy file.

    Raises:
        PolicyError: If the file cannot be read, or its rules have problems.
    """
    from polycast.policy import files  # imports PyYAML

    return rows_of_dict(files.load(path), path)
