"""SGD."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from polycast._compiled import check_sgd_step
from polycast._operators import operators
from polycast.syncfree import elsewhere
from polycast.syncfree.arguments import numbers
from polycast.syncfree.batches import Group
from polycast.syncfree.momentum import has_started, negated, torchs_state
from polycast.syncfree.sparse import step_with_momentum, step_without_momentum
from polycast.syncfree.step import Arguments, SyncFreeOptimizer

# By a name of our own: users who cannot edit a library put ours in the place of torch's.
Stock = torch.optim.SGD


class SGD(SyncFreeOptimizer, Stock):
    """SGD with momentum, as ``torch.optim.SGD`` documents it, with a sync-free step.

    Args:
        params: Parameters, groups of them, or named ones, float32, float64, bfloat16, float16 or complex. Their
            gradients may be sparse, on the host without weight decay.
        lr: The learning rate: a float, or a one-element tensor on the host or on the device of the parameters.
        momentum: Factor of the momentum buffer.
        dampening: Dampens the gradients that enter the buffer, but for the first one.
        weight_decay: Coefficient of the parameters that are added to the gradients.
        nesterov: Look ahead by the momentum.
        maximize: Maximize the objective.
        state_dtype: The dtype of the momentum buffers; None takes that of each parameter, as torch.optim does.
        foreach, fused: Accepted, as torch.optim takes them, and kept in the groups. They change nothing: there is one
            implementation, which is fused and does not read the device.
        differentiable: Only False: autograd does not record the step.

    Raises:
        TypeError: An argument, in a group too, is of a wrong type, or ``differentiable`` is true.
        ValueError: As torch.optim raises it; a number is NaN.

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
    _has_flags = True  # whether momentum_started may be in the state
    _operator = operators.sgd_step_.default
    _check = staticmethod(check_sgd_step)
    _elsewhere = staticmethod(elsewhere.sgd_step_)

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
        self._has_flags = False

    def state_dict(self) -> dict[str, Any]:
        """Return the state as ``torch.optim.SGD`` keeps it.

        If steps were given ``found_inf``, this syncs to learn which momentum buffers have started.
        """
        # Ahead of the users' hooks, which see what torch.optim would show them.
        hook = self.register_state_dict_post_hook(torchs_state, prepend=True)
        try:
            return super().state_dict()
        finally:
            hook.remove()

    def _state_names(self, group: Group) -> tuple[str | None, ...]:
        if group["momentum"] == 0:
            return None, None
        if group["dampening"] != 0:
            return "momentum_buffer", "momentum_started"
        if self._has_flags:
            for param in group["params"]:
                self.state.get(param, {}).pop("momentum_started", None)
        return "momentum_buffer", None

    def _init_state(self, param: Tensor, group: Group) -> None:
        state = self.state[param]
        buffer = state.get("momentum_buffer")
        if buffer is None:
            state["momentum_buffer"] = negated(self._new_state(param))
        elif buffer.layout != torch.strided:  # sparse gradients came before
            state["momentum_buffer"] = buffer.to_dense()
        if group["dampening"] != 0 and (buffer is None or "momentum_started" not in state):
            self._has_flags = True
            state["momentum_started"] = has_started(buffer, param.device)

    def _options(self, group: Group) -> Arguments:
        names = ("weight_decay", "momentum", "dampening")
        taken = numbers(*zip(names, map(group.__getitem__, names), strict=True))
        return {
            **dict(zip(names, taken, strict=True)),
            "nesterov": bool(group["nesterov"]),
            "maximize": bool(group["maximize"]),
        }

    def _check_sparse(self, param: Tensor, group: Group) -> None:
        if group["weight_decay"] != 0:
            raise RuntimeError(
                f"weight_decay is {group['weight_decay']} and the gradient of a parameter of {tuple(param.shape)} is "
                "sparse; put such parameters into a group with weight_decay=0"
            )
        self._options(group)
        buffer = self.state[param].get("momentum_buffer") if group["momentum"] != 0 and param in self.state else None
        if buffer is not None and (buffer.shape, buffer.device) != (param.shape, param.device):
            raise ValueError(
                f"the momentum_buffer of a parameter of {tuple(param.shape)} on {param.device} is of "
                f"{tuple(buffer.shape)} on {buffer.device}; load the state that belongs to it"
            )

    def _step_sparse(self, param: Tensor, group: Group, arguments: Arguments) -> None:
        assert param.grad is not None
        found_inf = arguments["found_inf"]
        if param.is_cpu and found_inf is not None:  # which the host need not wait for
            if found_inf.item() != 0:
                return
            arguments = {**arguments, "found_inf": None}
        if group["momentum"] != 0:
            state = self.state[param]
            buffer = state.get("momentum_buffer")
            if param.is_cpu and (buffer is None or buffer.is_sparse):
                kept = self._kept_dtype(param)
                state["momentum_buffer"] = step_with_momentum(param, param.grad, buffer, kept, **arguments)
                return
            # The momentum of rows without a gradient goes on.
            self._init_state(param, group)
            self._convert_state(param)
            started = [state["momentum_started"]] if group["dampening"] != 0 else []
            self._operator([param], [param.grad.to_dense()], [state["momentum_buffer"]], started, **arguments)
            return
        if param.is_cpu and param.element_size() > 2:
            step_without_momentum(param, param.grad, **arguments)
            return
        grad = param.grad.coalesce()
        where = tuple(grad.indices())
        rows = param[where]
        self._operator([rows], [grad.values()], [], [], **arguments)
        param[where] = rows
