"""Arguments of a call, created from its schema. This module needs only torch, so it runs with any release."""

import itertools
from typing import Any

import torch


class Maker:
    """A factory of the arguments of a call: tensors of the given dtypes in rotation, and other arbitrary values."""

    def __init__(self, device: str, dtypes: list[torch.dtype]) -> None:
        self.device = device
        self.dtypes = itertools.cycle(dtypes)
        self.made: list[torch.dtype] = []

    def arguments(self, schema: Any) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in schema.arguments:
            kind = str(argument.type)
            if argument.has_default_value() and "Tensor" not in kind:
                continue
            if argument.kwarg_only or argument.has_default_value():
                kwargs[argument.name] = self.value(kind)
            else:
                args.append(self.value(kind))
        return args, kwargs

    def value(self, kind: str) -> Any:
        if kind == "List[Optional[Tensor]]":  # These are indices of an indexing op.
            return [self.tensor(torch.int64), self.tensor(torch.int64)]
        if kind.startswith("Optional["):
            return self.value(kind.removeprefix("Optional[").removesuffix("]"))
        if kind.startswith("List["):
            item = kind.removeprefix("List[").removesuffix("]")
            return [self.value(item), self.value(item)]
        if kind == "Tensor":
            return self.tensor(next(self.dtypes))
        # A dimension name is also a "str", and requires this form.
        return {"int": 1, "SymInt": 1, "number": 1, "float": 1.0, "bool": False, "str": "dimname::same"}[kind]

    def tensor(self, dtype: torch.dtype) -> torch.Tensor:
        self.made.append(dtype)
        return torch.empty(2, 2, dtype=dtype, device=self.device)
