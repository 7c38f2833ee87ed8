"""Torchtitan: an optimizer with its scaler as one object to step, clip and save, sharded or not."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.checkpoint.stateful import Stateful

from polycast.scaler.grad_scaler import GradScaler

_OPTIONS = StateDictOptions(flatten_optimizer_state_dict=True)


class ScaledOptimizer(Stateful):
    """An optimizer and its scaler, as torchtitan's ``OptimizersContainer`` holds optimizers; it needs torch alone.

    What is saved names each parameter by its path in the model, so a checkpoint is loaded into a world of another size,
    too: ``torch.distributed.checkpoint.save({"optimizer": scaled}, checkpoint_id=folder)``, and ``load``.

    Args:
        model: What has all of the optimizer's parameters, whole or sharded.
        optimizer: Any; one of :mod:`polycast.syncfree` reads nothing back.
        scaler: Scales the loss, and steps.

    Example:
        >>> import torch, polycast
        >>> from polycast.integrations.torchtitan import ScaledOptimizer
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = polycast.syncfree.SGD(model.parameters(), lr=0.1)
        >>> scaled = ScaledOptimizer(model, optimizer, polycast.GradScaler("cpu", init_scale=2.0**10))
        >>> scaled.scale(model(torch.ones(8, 4)).mean()).backward()
        >>> norm = scaled.clip_grad_norm(1.0)
        >>> scaled.step()
        >>> scaled.zero_grad()
        >>> sorted(scaled.state_dict())
        ['optimizer', 'scaler']

    Source: torchtitan's ``components/optimizer``, and the documents of ``torch.distributed.checkpoint``.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, scaler: GradScaler) -> None:
        self.model, self.optimizer, self.scaler = model, optimizer, scaler

    def scale(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale."""
        return self.scaler.scale(loss)

    def clip_grad_norm(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Have the next step clip the gradients; return their norm, of which the stages of a pipeline have one each."""
        return self.scaler.clip_grad_norm(self.optimizer, max_norm, norm_type)

    def step(self) -> None:
        """Step, or skip where a gradient is not finite, and set the scale for the next step."""
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def zero_grad(self) -> None:
        """Drop the gradients."""
        self.optimizer.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's state by the names of the parameters, and the scaler's; reads the scale.

        A learning rate is a number in it: a schedule may make a tensor of it, and a checkpoint is loaded before that.
        """
        state = get_optimizer_state_dict(self.model, self.optimizer, options=_OPTIONS)
        for name, value in state.items():
            if name.endswith(".lr") and isinstance(value, Tensor):
                state[name] = value.item()
        return {"optimizer": state, "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was called."""
        set_optimizer_state_dict(self.model, self.optimizer, state_dict["optimizer"], options=_OPTIONS)
        self.scaler.load_state_dict(state_dict["scaler"])
