"""The random numbers of a program's first run, replayed in its later runs."""

from collections import Counter, defaultdict
from typing import Any

import torch
from torch import Tensor

from polycast._extension import held_count
from polycast.cast_by_hand import flatten
from polycast.debug.tensor_stats import local
from polycast.torch_internals import FakeTensor, OpOverload, TorchDispatchMode, is_only_traced

# These random ops apply random numbers to their inputs. Only `native_dropout` also returns the numbers, as its mask.
_DRAW_WITHIN = ("dropout", "attention", "rnn", "lstm", "gru", "rrelu")


class RandomNumbers(TorchDispatchMode):
    """A dispatch mode that records the random numbers of a program's runs, and replays them in later runs.

    Calls of two runs are paired by op, shape and order.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.supports_higher_order_operators = True  # higher-order ops run unchanged
        self._drawn: dict[tuple[object, ...], list[Tensor]] = {}

    def __enter__(self) -> "RandomNumbers":
        self._counts: Counter[tuple[object, ...]] = Counter()
        self.calls: defaultdict[int, bool] = defaultdict(bool)
        """Whether the numbers of a random call cannot be replayed, by the index of the call."""
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __torch_dispatch__(self, function: OpOverload, types: object, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        tags = getattr(function, "tags", ())  # a higher-order op has no tags
        if torch.Tag.nondeterministic_seeded in tags and not _has_no_values((args, kwargs)):
            names = (argument.name for argument in function._schema.arguments)
            self._visit(function, dict(zip(names, args, strict=False)) | kwargs, result)
        return result

    def _visit(self, function: OpOverload, given: dict[str, Any], result: Any) -> None:
        name = function._schema.name
        is_dropout = name == "aten::native_dropout"
        draws_within = function.namespace != "aten" or any(part in name for part in _DRAW_WITHIN)
        if draws_within and not _draws(function, given):
            return
        numbers = result[1] if is_dropout else None if draws_within else result
        parts = [part for tensor in flatten(numbers) if (part := local(tensor)) is not None]
        self.calls[held_count()] |= numbers is None
        op = (name, *(part.shape for part in parts))
        self._counts[op] += 1
        key = (*op, self._counts[op])
        if key not in self._drawn:
            self._drawn[key] = [part.clone() for part in parts]
            return
        with torch.no_grad():
            if is_dropout:
                _drop(given, *result, *self._drawn[key])
            for part, first in zip(parts, self._drawn[key], strict=True):
                part.copy_(first)


def _draws(function: OpOverload, given: dict[str, Any]) -> bool:
    """Return whether a call draws numbers that its kernel applies, as dropout with p above 0 does in training."""
    drops = [given[name] for name in ("p", "dropout_p", "dropout") if name in given]
    is_on = given.get("train") is not False and given.get("training") is not False
    return is_on and any(drops or ["training" in given or function.namespace != "aten"])


def _drop(given: dict[str, Any], output: Tensor, mask: Tensor, first: Tensor) -> None:
    """Drop the elements of an output that the first run dropped."""
    dropped_first = given["input"] * first / max(1 - given["p"], torch.finfo(output.dtype).tiny)
    # Where the masks of both runs are equal, the kernel's own output has the right rounding.
    output.copy_(torch.where(mask == first, output, dropped_first))


def _has_no_values(arguments: Any) -> bool:
    """Return whether a program is only traced: it has no values, and its graph would include our ops."""
    return is_only_traced() or any(isinstance(tensor, FakeTensor) for tensor in flatten(arguments))
