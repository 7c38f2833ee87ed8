"""SGD."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from torch.optim.sgd import sgd

from polycast._operators import operators
from polycast.syncfree import torch_fused  # noqa: F401 -- it registers the operators for other devices
from polycast.syncfree.arguments import numbers
from polycast.syncfree.batches import Group
from polycast.syncfree.step import Arguments, SyncFreeOptimizer

# By a name of our own: users who cannot edit a library put ours in the place of torch's.
Stock = torch.optim.SGD


class SGD(SyncFreeOptimizer, Stock):
    """SGD with momentum, as ``torch.optim.SGD`` documents it, with a sync-free step.

    Args:
        params: Parameters, groups of them, or named ones.
        lr: The learning rate: a float, or a one-element tensor on the host or on the device of the parameters.
        momentum: Factor of the momentum buffer, which starts as zeros: a first gradient of -0 enters it as +0.
        dampening: Dampens the gradients that enter the buffer, but for the first one. With it ``torch.optim`` takes the
            step, after one read.
        weight_decay: Coefficient of the parameters that are added to the gradients.
        nesterov: Look ahead by the momentum.
        maximize: Maximize the objective.
        state_dtype: The dtype of the momentum buffers; None takes that of each parameter, as torch.optim does.
        foreach, fused: Accepted, as torch.optim takes them, and kept in the groups. They change nothing: there is one
            implementation, which is fused and does not read the device.
        differentiable: Only False: autograd does not record the step.

    Raises:
        TypeError: ``differentiable`` is true, or a group has a ``state_dtype`` of its own.
        ValueError: As torch.optim raises it.

    Example:
        >>> import torch
        >>> from polycast import syncfree
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = syncfree.SGD(model.parameters(), lr=0.1, momentum=0.9)
        >>> model(torch.ones(1, 4)).sum().backward()
        >>> optimizer.step()

    Source: Ilya Sutskever and others: On the importance of initialization and momentum in deep learning, 2013, in the
    form that ``torch.optim.SGD`` gives it.
    """

    _average_names = ("momentum_buffer",)
    _operator = operators.sgd_step_.default

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
        state_dtype: torch.dtype | str | None = None,
    ) -> None:
        self._start(
            Stock,
            params,
            state_dtype,
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            dampening=dampening,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )

    def _state_names(self, group: Group) -> tuple[str | None, ...]:
        return (None if group["momentum"] == 0 else "momentum_buffer",)

    def _init_state(self, param: Tensor, group: Group) -> None:
        state = self.state[param]
        if group["momentum"] != 0 and state.get("momentum_buffer") is None:
            state["momentum_buffer"] = self._new_state(param)

    def _options(self, group: Group) -> Arguments:
        names = ("weight_decay", "momentum")
        return {
            **dict(zip(names, numbers(*((name, group[name]) for name in names)), strict=True)),
            "nesterov": bool(group["nesterov"]),
            "maximize": bool(group["maximize"]),
        }

    def _needs_torch(self, group: Group) -> bool:
        # Torch's first step takes the gradient whole, which a buffer of zeros cannot tell.
        return bool(group["momentum"] != 0 and group["dampening"] != 0)

    def _prepare_for_torch(self, group: Group, params: list[Tensor]) -> None:
        numbers(("lr", group["lr"]), ("dampening", group["dampening"]))
        self._options(group)
        for param in params:
            self._convert_state(param)

    def _step_by_torch(self, group: Group, lists: list[list[Any]]) -> None:
        params, grads, buffers = lists
        lr, dampening = numbers(("lr", group["lr"]), ("dampening", group["dampening"]))
        if group["nesterov"]:  # torch's multi-tensor step adds the momentum to the gradients in place
            grads = [grad.clone() for grad in grads]
        sgd(
            params,
            grads,
            buffers or [None] * len(params),
            has_sparse_grad=any(grad.is_sparse for grad in grads),
            foreach=group["foreach"],
            lr=lr,
            dampening=dampening,
            **self._options(group),
        )
