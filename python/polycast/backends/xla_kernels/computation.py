"""One XLA computation over whole lists of tensors: built once, called lazily, its results written back in place.

torch_xla traces every operator into a graph whose nodes cost host time, at each step again. A user computation is one
node, however many tensors it takes. This module alone of the operators' on XLA touches torch_xla.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

from polycast._compiled import signature, write_back
from polycast.backends.xla import TYPE
from polycast.backends.xla_kernels.ops import Op

Build: TypeAlias = Callable[[list[Op]], list[Op]]

# More than the groups of parameters of any program: with fewer places than groups, which come in turn, each would be
# built anew at each step. Each takes some kilobytes.
_LIMIT = 4096
_computations: dict[Hashable, Any] = {}
# Without this key torch_xla returns bare tensors, which are what the write-back wants.
_FUNCTIONALIZE = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)


def update(rule: Hashable, build: Build, written: Sequence[Tensor], read: Sequence[Tensor]) -> list[Tensor]:
    """Give the tensors to be written the first values that ``build`` makes of both lists; return the further ones."""
    with torch._C._ExcludeDispatchKeyGuard(_FUNCTIONALIZE):
        results = call(rule, build, [*written, *read])
    further = results[len(written) :]
    write_back(written, results[: len(written)] if further else results)
    return list(map(torch._to_functional_tensor, further)) if torch._is_functional_tensor(written[0]) else further


def call(rule: Hashable, build: Build, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Trace ``build`` over the inputs' shapes, once for each (rule, dtypes, shapes), and apply it lazily.

    Args:
        rule: What distinguishes this computation from others over the same shapes; its text must not depend on values.
        build: From the inputs as ops to at least one result.
        inputs: Tensors on one XLA device; those to be overwritten first, in the order of the results.

    Returns:
        The results, not executed before the next step marker.
    """
    import torch_xla

    # torch_xla numbers a node's inputs from the last to the first, and XLA gives the first result the first buffer that
    # is free and fits. In this order each result gets its own old buffer; in any other, every tensor is copied twice.
    inputs = inputs[::-1]
    computation = _computation(rule, build, inputs)
    results: list[Tensor] = torch_xla._XLAC._xla_user_computation("xla::polycast", inputs, computation)
    return results


def _computation(rule: Hashable, build: Build, inputs: Sequence[Tensor]) -> Any:
    key = (rule, signature(inputs))
    if key not in _computations:
        if len(_computations) >= _LIMIT:
            del _computations[next(iter(_computations))]
        _computations[key] = _built(build, inputs)
    return _computations[key]


def _built(build: Build, inputs: Sequence[Tensor]) -> Any:
    from torch_xla.core import xla_builder

    def root(*ops: Op) -> Op:
        return xla_builder.Op.tuple(build(list(ops[::-1])))

    return xla_builder.create_computation("polycast", root, xla_builder.tensor_shape(list(inputs)))


@lru_cache(maxsize=_LIMIT)
def upload(values: tuple[float, ...], device: torch.device, owner: int = 0) -> Tensor:  # noqa: ARG001
    """Return a vector of the values in float64, resident on the device for as long as the same values are asked for.

    A vector: torch_xla makes constants of the graph out of scalars such as 0 and 1, and compiles for each of them. One
    for each owner: where two sets had the same vector, and then values that differ, the graph would be another one.
    """
    return torch.tensor(values, dtype=torch.float64).to(device)


def on_device(device: torch.device, *given: Tensor | None) -> list[Tensor]:
    """Return those tensors of one element that are given, uploaded as vectors where they are not on the device."""
    tensors = []
    for tensor in given:
        if tensor is not None:
            tensors.append(tensor if tensor.device.type == TYPE else tensor.detach().reshape(1).to(device))
    return tensors


def as_real(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return complex tensors as pairs, which are views if functionalization wraps them; the others as they are."""
    if not any(map(torch.is_complex, tensors)):
        return tensors
    return [_pairs(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor for tensor in tensors]


def _pairs(tensor: Tensor) -> Tensor:
    # Below functionalization XLA has no views.
    return torch.view_as_real(tensor) if torch._is_functional_tensor(tensor) else torch.view_as_real_copy(tensor)
