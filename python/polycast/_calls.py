"""Functions that change what holds in a program: no compiled code contains them, and wrong calls say what to write."""

import errno
import os
from collections.abc import Callable
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import ParamSpec, TypeVar

from polycast._suggest import suggestion

P = ParamSpec("P")
R = TypeVar("R")


def called_as(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function that changes what holds. A call with too few, too many or unknown arguments is told how one
    looks. Dynamo breaks its graph at the call, because compiled code would not see the change.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        expected = signature(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                expected.bind(*args, **kwargs)
            except TypeError as error:
                name = function.__qualname__.removesuffix(".__init__")
                unknown = next((word for word in kwargs if word not in expected.parameters), "")
                raise TypeError(f"{name}: {error}{suggestion(unknown, expected.parameters)}; write {example}") from None
            return function(*args, **kwargs)

        call._torchdynamo_disable = True  # type: ignore[attr-defined]
        call._torchdynamo_disable_msg = f"polycast's {function.__name__} changes what holds"  # type: ignore[attr-defined]
        return call

    return decorate


def one_line(value: object) -> str:
    """Return the beginning of a value's text as an error message shows it, without line breaks."""
    return " ".join(repr(value).split())[:60]


def in_a_folder(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that is to be written.

    Raises:
        FileNotFoundError: Its folder does not exist.
    """
    file = Path(path)
    if not file.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"the folder of the file does not exist; make '{file.parent}'", str(file))
    return file
