"""Learning rates that follow the steps that were taken, not the skipped ones, without a read."""

import warnings
from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch.optim import lr_scheduler

from polycast import backends
from polycast.scaler.scaler import GradScaler
from polycast.scaler.wrapping import unwrapped
from polycast.syncfree.arguments import check_mapping

Scheduler = lr_scheduler.LRScheduler


class SkipAwareLR(Scheduler):
    """A scheduler that advances only when the last step was not skipped.

    The host calls a scheduler of torch's, and does not know about skipped steps. If its learning rates are a function
    of the step count, they are a table. This class puts the table on the device, counts the steps taken there, and sets
    each parameter group's ``lr`` to a tensor, of float64 if all such devices have it. It is a
    ``torch.optim.lr_scheduler.LRScheduler``, as trainers expect; ``last_epoch`` counts its calls.

    Args:
        scheduler: One of ``torch.optim.lr_scheduler``, of a sync-free optimizer. The table begins at its present step.
            A copy of its numbers and lists makes the table; functions, such as those of a LambdaLR, are called and not
            copied. The scheduler is not needed afterwards.
        scaler: The scaler that steps the optimizer.
        steps: How many steps the table covers; after them the last learning rate stays.

    Raises:
        TypeError: The scheduler's learning rate is no function of the step count, it changes more than the learning
            rate, the optimizer takes no ``found_inf``, scheduler and scaler are not given in this order, or ``steps``
            is no whole number.
        ValueError: ``steps`` is not positive.

    Example:
        >>> import torch, polycast
        >>> weight = torch.nn.Parameter(torch.ones(1))
        >>> optimizer = polycast.syncfree.SGD([weight], lr=1.0)
        >>> scaler = polycast.GradScaler()
        >>> schedule = polycast.SkipAwareLR(torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5), scaler, steps=100)
        >>> for factor in (1.0, float("inf"), 1.0):
        ...     optimizer.zero_grad()
        ...     scaler.scale(factor * weight.sum()).backward()
        ...     scaler.step(optimizer)
        ...     scaler.update()
        ...     schedule.step()
        >>> schedule.get_last_lr()  # after two steps that were taken
        [0.25]
    """

    _count: Tensor  # of the steps that were taken

    def __init__(self, scheduler: Scheduler, scaler: GradScaler, steps: int) -> None:
        if not isinstance(scheduler, Scheduler) or not isinstance(scaler, GradScaler):
            raise TypeError(
                f"SkipAwareLR was given {torch.typename(scheduler)} and {torch.typename(scaler)}; it takes a scheduler "
                "of torch.optim.lr_scheduler and a polycast.GradScaler, in this order"
            )
        if not hasattr(steps, "__index__"):
            raise TypeError(f"steps is {steps!r}; it takes a whole number of steps")
        if steps < 1:
            raise ValueError(f"steps is {steps}; it takes a positive number of steps")
        reason = _why_no_table(scheduler)
        if reason:
            raise TypeError(f"{type(scheduler).__name__} cannot be made skip-aware without a read: {reason}")
        # Torch's constructor would begin the schedule anew.
        self.optimizer, self._name = scheduler.optimizer, type(scheduler).__name__
        self.base_lrs = [group["initial_lr"] for group in self.optimizer.param_groups]
        self.last_epoch, self._step_count = 0, 1
        inner = unwrapped(self.optimizer)
        if not getattr(inner, "takes_found_inf", False):
            raise TypeError(
                f"{type(inner).__name__} takes its learning rate from the host; use an optimizer of "
                "polycast.syncfree, or step the scheduler yourself"
            )
        self._scaler = scaler
        self._host_table = _table(scheduler, steps)
        self._last = steps
        self._tables: dict[torch.device, Tensor] = {}
        self._set_count(0)

    def step(self) -> None:  # type: ignore[override]  # the host knows no epoch
        """Advance the learning rates, unless the last step of the optimizer was skipped, without a sync.

        Each call counts, as with any scheduler: some trainers call it once for each of their processes.
        """
        self.last_epoch += 1
        self._step_count += 1
        skipped = self._scaler.skipped(self.optimizer)
        self._count = (self._count.to(skipped.device, non_blocking=True) + skipped.logical_not()).clamp(max=self._last)
        self._set_lr()

    def get_last_lr(self) -> list[float]:
        """Return the learning rate of each group. It syncs."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def get_lr(self) -> list[float]:
        """Do what ``get_last_lr`` does: torch's schedulers compute the next rates by a method of this name."""
        return self.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return the count of steps taken and the table, float64 of [steps + 1, groups]. It syncs."""
        return {"steps_taken": int(self._count.item()), "table": self._host_table.clone()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was called, with its table: the order of loading does not matter.

        Raises:
            ValueError: It is not what ``state_dict`` returns, or of another number of parameter groups.
            TypeError: It is no dictionary.
        """
        check_mapping(state_dict, "SkipAwareLR.state_dict()")
        if "last_epoch" in state_dict:
            raise ValueError(
                "the state is that of a scheduler of torch's; load it into such a scheduler, and make the SkipAwareLR "
                "of that scheduler"
            )
        groups = self.optimizer.param_groups
        table, count = state_dict.get("table"), state_dict.get("steps_taken", -1)
        if not isinstance(table, Tensor) or table.shape[1:] != (len(groups),) or count not in range(len(table)):
            raise ValueError(
                f"a state with {sorted(map(str, state_dict))} does not fit {len(groups)} parameter groups; load what "
                "SkipAwareLR.state_dict() returned for the same groups"
            )
        self._host_table, self._last, self._tables = table.cpu().clone().double(), len(table) - 1, {}
        self.last_epoch, self._step_count = count, count + 1
        self._set_count(count)

    def __repr__(self) -> str:
        """Return the scheduler and optimizer that it follows, and the length of its table."""
        return f"{type(self).__name__}({self._name}, {type(unwrapped(self.optimizer)).__name__}, steps={self._last})"

    def _set_count(self, count: int) -> None:
        # The count is on the host until the first step. Checkpoints expect tensors as learning rates from the start.
        self._count = torch.tensor([count])
        self._set_lr()

    def _set_lr(self) -> None:
        device = self._count.device
        table = self._tables.get(device)
        if table is None:
            dtype = torch.float64 if backends.has_float64(device.type) else torch.float32
            # In two steps: few devices take float64.
            table = self._tables[device] = self._host_table.to(dtype).to(device, non_blocking=True)
        rates = table.index_select(0, self._count).squeeze(0).unbind()
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = lr


def _why_no_table(scheduler: Scheduler) -> str | None:
    if isinstance(scheduler, SkipAwareLR):
        return "it already is"
    if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
        return "it follows a metric that the host hands to it"
    if getattr(scheduler, "cycle_momentum", False):
        return "it changes the momentum too, which a step takes as a number; pass cycle_momentum=False"
    for part in getattr(scheduler, "_schedulers", ()):
        reason = _why_no_table(part)
        if reason:
            return f"its {type(part).__name__} cannot, because {reason}"
    return None


def _table(scheduler: Scheduler, steps: int) -> Tensor:
    """Return the learning rates of [steps + 1, groups], of a copy: the scheduler and its optimizer stay as they are."""
    optimizer = torch.optim.SGD([torch.zeros(())])
    optimizer.param_groups = [
        {name: _copied(value, optimizer) for name, value in group.items() if name != "params"}
        for group in scheduler.optimizer.param_groups
    ]
    ahead = _copied(scheduler, optimizer)
    rows = [[float(group["lr"]) for group in optimizer.param_groups]]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the optimizer was not stepped
            for _ in range(steps):
                ahead.step()
                rows.append([float(group["lr"]) for group in optimizer.param_groups])
    except ValueError as error:
        raise ValueError(f"the scheduler gives no table of steps={steps}: {error}; choose fewer") from error
    return torch.tensor(rows, dtype=torch.float64)


def _copied(value: Any, optimizer: torch.optim.Optimizer) -> Any:
    """Return a copy of a scheduler of that optimizer instead of its own, or of what one holds.

    Schedulers, containers and tensors are copied. All else is shared: a function may refer to a whole training.
    """
    twin = value
    if isinstance(value, torch.optim.Optimizer):
        twin = optimizer
    elif isinstance(value, Scheduler):
        twin = object.__new__(type(value))
        vars(twin).update({name: _copied(item, optimizer) for name, item in vars(value).items()})
    elif isinstance(value, Tensor):
        twin = value.detach().clone()
    elif isinstance(value, (dict, list)):
        twin = copy(value)
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            twin[key] = _copied(item, optimizer)
    elif isinstance(value, set):
        twin = set(value)
    return twin
