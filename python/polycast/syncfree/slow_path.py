"""The step of torch.optim, for groups that the fused operators do not serve.

Those are groups that hold sparse or complex tensors, tensor subclasses other than DTensors, DTensors that are placed
unlike their parameters, tensors on several devices, or parameters that share memory or are in the group twice; SGD with
dampening; and all groups on devices whose fused kernels in torch do not skip and unscale. Such a step reads
``found_inf`` first, once, and writes nothing where it is not zero.
"""

import inspect
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from polycast._extension import check_arguments, may_overlap
from polycast.syncfree.sharding import local_of
from polycast.syncfree.tensor_lists import Group

Scalars = dict[str, Tensor | None]


def is_skipped(scalars: Scalars) -> bool:
    """Return whether ``found_inf`` is not zero. This is the one sync of a step by torch.optim.

    Raises:
        ValueError, TypeError: If no step takes a scalar.
    """
    check_arguments("sgd_step_", [], [None, *scalars.values()])  # without lr
    return scalars["found_inf"] is not None and scalars["found_inf"].item() != 0


# State that is made in inference mode could not be written outside of it, which has gradients enabled.
@torch.inference_mode(False)
@torch.no_grad()
def step_by_torch(optimizer: Any, stock: Any, group: Group, params: list[Tensor], scalars: Scalars) -> None:
    """Update parameters of a group by the step of a class of torch.optim.

    The step gets twins: they share the memory of the parameters and have unscaled and clipped gradients of their own.
    If the state has another dtype than the parameter, the twin is a copy in the wider of the two, and so it is, in
    float32, if a gradient of float16 is unscaled: float16 would lose the small ones.
    """
    # Not torch's fused kernels, which would read the attributes of a scaler, and not a tensor, which they round to.
    options = {**group, "fused": None, "capturable": False, "lr": float(group["lr"])}
    lone = list(dict.fromkeys(params))
    # Copies of one memory would overwrite each other's results, so they are stepped one after the other.
    for part in [[param] for param in lone] if may_overlap(list(map(local_of, lone))) else [params]:
        states = {param: optimizer.state.get(param, {}) for param in part}
        for param, state in states.items():
            if state:  # torch makes the first state only: amsgrad may have been turned on since
                optimizer._init_state(param, group)
        twins = {param: _twin(optimizer, param, state, scalars) for param, state in states.items()}
        # Not by its constructor and its outer step, which count optimizers and call hooks of the user.
        stand_in = object.__new__(stock)
        stand_in.param_groups = [{**options, "params": [twins[param] for param in part]}]
        stand_in.state = defaultdict(dict)
        for param, twin in twins.items():
            for name, value in states[param].items():
                is_average = name in optimizer._average_names and isinstance(value, Tensor)
                stand_in.state[twin][name] = value.to(twin.dtype) if is_average else value
        inspect.unwrap(stock.step)(stand_in)
        for param, twin in twins.items():
            if twin.dtype is not param.dtype:
                param.detach().copy_(twin)
            for name, value in stand_in.state[twin].items():
                _keep(optimizer, param, name, value)


def _twin(optimizer: Any, param: Tensor, state: dict[str, Any], scalars: Scalars) -> Tensor:
    grad: Any = param.grad
    grad_scale, clip_coef = scalars["grad_scale"], scalars["clip_coef"]
    dtype = torch.promote_types(param.dtype, optimizer._kept_dtype(param))
    for name in optimizer._average_names:
        if isinstance(state.get(name), Tensor):
            dtype = torch.promote_types(dtype, state[name].dtype)
    if grad_scale is not None or clip_coef is not None:
        wide = torch.promote_types(grad.dtype, torch.float32)
        dtype = torch.promote_types(dtype, wide) if grad.dtype is torch.float16 else dtype
        grad = grad.to(wide)
    if grad_scale is not None:
        grad = grad / grad_scale.to(grad.device).reshape(())
    if clip_coef is not None:
        grad = grad * clip_coef.to(grad.device).reshape(())
    twin = param.detach().to(dtype)
    twin.grad = grad.to(dtype)
    return twin


def _keep(optimizer: Any, param: Tensor, name: str, value: Any) -> None:
    """Keep a value of the state that a step has made or changed."""
    state = optimizer.state[param]
    old = state.get(name)
    if name not in optimizer._average_names or value is None:
        state[name] = value
    elif not isinstance(old, Tensor) or old.is_sparse:  # a copy to a sparse tensor would not replace its indices
        state[name] = value.to(optimizer._kept_dtype(param))
    elif old is not value:
        old.copy_(value)
