"""XLA computations over whole lists of tensors, built once and called lazily. ``update`` writes results in place.

``torch_xla`` traces every operator into nodes of a graph, which costs host time in each step. A user computation is a
single node for any number of tensors.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from polycast.torch_internals import (
    DispatchKey,
    DispatchKeySet,
    exclude_keys,
    from_functional_tensor,
    functional_commit,
    functional_replace,
    functional_sync,
    is_functional_base,
    is_functional_tensor,
    propagate_xla_data,
    to_functional_tensor,
)
from polycast.xla.ops import Op

Build: TypeAlias = Callable[[list[Op]], list[Op]]

# This cache has no limit, because a program has few computations, of a few kilobytes each.
_computations: dict[Hashable, Any] = {}
_KIND_OF_INPUT = attrgetter("dtype", "shape")
# If this key is excluded, `torch_xla` returns tensors without functionalization's wrapper, as `update` requires.
_FUNCTIONALIZE = DispatchKeySet(DispatchKey.Functionalize)


def update(kind: Hashable, build: Build, written: Sequence[Tensor], read: Sequence[Tensor]) -> list[Tensor]:
    """Compute ``build`` over both lists, store the first results in the written tensors, and return the others."""
    with exclude_keys(_FUNCTIONALIZE):
        results = call(kind, build, [*written, *read])
    # Versions are incremented first, so that they are right even if an interrupt stops the writes.
    increment_version(list(filter(is_functional_tensor, written)))
    for target, value in zip(written, results, strict=False):
        if is_functional_tensor(target):
            # These are the steps of PyTorch's in-place operators, so that aliases and views change as well.
            propagate_xla_data(target, value)
            functional_replace(target, value)
            functional_commit(target)
            functional_sync(target)
        else:
            target.detach().copy_(value)
    further = results[len(written) :]
    return list(map(to_functional_tensor, further)) if is_functional_tensor(written[0]) else further


def own_memory(tensors: Sequence[Tensor]) -> None:
    """Move expanded tensors to separate memory if functionalization wraps them.

    Autograd can create expanded gradients, but the strides of a wrapped gradient do not show the expansion. Writes to
    elements that share memory would add up.
    """
    for tensor in tensors:
        if not is_functional_tensor(tensor) or is_functional_base(tensor):
            continue
        # Sizes are compared in bytes, because complex memory may be viewed as real.
        if tensor.untyped_storage().nbytes() < max(tensor.numel(), 2) * tensor.element_size():
            functional_sync(tensor)
            tensor.data = to_functional_tensor(from_functional_tensor(tensor))


def call(kind: Hashable, build: Build, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Trace ``build``, once for each (kind, dtypes, shapes), and apply it lazily.

    Args:
        kind: A key that no other computation over the same shapes has. It must not depend on the inputs' values.
        build: A function that accepts the inputs as ops and returns one or more results.
        inputs: Tensors on one XLA device. Tensors to be overwritten come first, in the order of the results.

    Returns:
        The results, which the device computes at the next step marker.
    """
    import torch_xla
    from torch_xla.core import xla_builder

    # `torch_xla` numbers a node's inputs from the last to the first, and XLA writes each result to the first free
    # buffer of its size. So a result gets the buffer of its old value, without a copy, only if the inputs are reversed.
    inputs = inputs[::-1]
    key = (kind, *map(_KIND_OF_INPUT, inputs))
    if key not in _computations:

        def root(*ops: Op) -> Op:
            return xla_builder.Op.tuple(build(list(ops[::-1])))

        shapes = xla_builder.tensor_shape(list(inputs))
        _computations[key] = xla_builder.create_computation("polycast", root, shapes)
    results: list[Tensor] = torch_xla._XLAC._xla_user_computation("xla::polycast", inputs, _computations[key])
    return results


@lru_cache(maxsize=4096)
def upload(values: tuple[float, ...], device: torch.device, owner: int = 0) -> Tensor:  # noqa: ARG001
    """Return a float64 vector of the values on the device. It is cached, so an owner uploads equal values once.

    The result is a vector, because ``torch_xla`` compiles scalars such as 0 and 1 into the graph, and recompiles for
    each value. Each owner has its own vector, because a graph would change when two owners stop sharing a vector.
    """
    return torch.tensor(values, dtype=torch.float64).to(device)
