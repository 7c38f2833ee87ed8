"""The step of torch.optim, for groups whose step no operator of ours can take.

Those are groups that hold sparse or complex tensors, tensor subclasses other than DTensors, tensors on several devices,
or parameters that share memory or are there twice; SGD with dampening; and all groups on devices whose fused kernels in
torch do not skip and unscale. Such a step reads ``found_inf`` first, once, and writes nothing where it is set.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from polycast._compiled import check_arguments, may_overlap
from polycast.syncfree.batches import Group
from polycast.syncfree.gather import Collected, align
from polycast.syncfree.sharding import is_sharded, local_of, sharded_like

Scalars = dict[str, Tensor | None]


def is_skipped(scalars: Scalars) -> bool:
    """Return whether ``found_inf`` is not zero. This is the one sync of a step by torch.optim.

    Raises:
        ValueError, TypeError: A scalar is none that a step takes.
    """
    check_arguments("sgd_step_", [], [None, *scalars.values()])  # without lr
    return scalars["found_inf"] is not None and scalars["found_inf"].item() != 0


def step_by_torch(optimizer: Any, groups: list[Collected], scalars: Scalars) -> None:
    """Update the parameters of groups that have gradients, by a function of torch.optim's.

    The gradients keep their values: scaled ones are copies. Where a parameter and its state differ in dtype, and for
    float16 and bfloat16, the function takes copies of at least float32, whose values are then rounded once.
    """
    for group, params, _ in groups:
        optimizer._prepare_for_torch(group, params)
    for group, params, _ in groups:
        _step_group(optimizer, group, params, scalars)


def _step_group(optimizer: Any, group: Group, params: list[Tensor], scalars: Scalars) -> None:
    names = optimizer._state_names(group)
    for part in _parts(optimizer, params):
        rows = [_row(optimizer, param, names, scalars) for param in part]
        columns = [list(column) for column in zip(*rows, strict=True)]
        optimizer._step_by_torch(group, columns[:2] + [columns[2 + n] if name else [] for n, name in enumerate(names)])
        for number, param in enumerate(part):
            _write(param, columns[0][number])
            for name, column in zip(names, columns[2:], strict=True):
                if name in optimizer._average_names:
                    _write_state(optimizer, param, name, column[number])


def _parts(optimizer: Any, params: list[Tensor]) -> Iterator[list[Tensor]]:
    """Yield the parameters of each device, or one after the other if they share memory, as the for-loop steps them."""
    by_device: dict[torch.device, list[Tensor]] = {}
    for param in params:
        align(param, optimizer.param_groups)
        by_device.setdefault(param.device, []).append(param)
    for part in by_device.values():
        yield from [[param] for param in part] if may_overlap(list(map(local_of, part))) else [part]


def _row(optimizer: Any, param: Tensor, names: tuple[str | None, ...], scalars: Scalars) -> list[Any]:
    """Return a parameter, its gradient and its state as the function takes them."""
    state, averages = optimizer.state[param], optimizer._average_names
    local, grad = local_of(param), local_of(param.grad)
    dtype = torch.float32 if local.dtype in (torch.float16, torch.bfloat16) else local.dtype
    for name in averages:
        dtype = torch.promote_types(dtype, state[name].dtype) if isinstance(state.get(name), Tensor) else dtype
    row: list[Any] = [local.detach().to(dtype), _scaled(grad, scalars).to(dtype)]
    for name in names:
        value = state.get(name)
        row.append(local_of(value).to(local.device, dtype) if name in averages and value is not None else value)
    return row


def _scaled(grad: Tensor, scalars: Scalars) -> Tensor:
    """Return a gradient unscaled and clipped, in the dtype that this is computed in."""
    grad_scale, clip_coef = scalars["grad_scale"], scalars["clip_coef"]
    if grad_scale is None and clip_coef is None:
        return grad
    values = grad._values() if grad.is_sparse else grad
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    if grad_scale is not None:
        values = values / grad_scale.to(values.device).reshape(())
    if clip_coef is not None:
        values = values * clip_coef.to(values.device).reshape(())
    if grad.is_sparse:
        return torch.sparse_coo_tensor(
            grad._indices(), values, grad.shape, check_invariants=False, is_coalesced=grad.is_coalesced()
        )
    return values


def _write(whole: Tensor, value: Tensor) -> None:
    """Write a value back where it is a copy, and raise the version of a DTensor whose shard was written."""
    local = local_of(whole)
    if value.dtype is not local.dtype or value.device != local.device:
        local.detach().copy_(value)
    if is_sharded(whole):
        torch.autograd.graph.increment_version([whole])


def _write_state(optimizer: Any, param: Tensor, name: str, value: Tensor) -> None:
    state = optimizer.state[param]
    if state.get(name) is not None and not state[name].is_sparse:  # copying to a sparse tensor leaves its values apart
        _write(state[name], value)
        return
    # What is made in inference mode could not be written outside of it.
    with torch.inference_mode(False), torch.no_grad():
        state[name] = sharded_like(value.to(optimizer._kept_dtype(param), copy=True), param)
