"""The changes of groups, parameters and state that a random program makes between optimizer steps."""

import copy
from collections import defaultdict
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from tests.optim.programs import Program, usual


class Changes:
    """The changes of a program. Each method changes our optimizer and ``torch.optim``'s optimizer in the same way."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.sides = program.ours, program.theirs

    def nothing(self) -> None:
        pass

    def add_param_group(self) -> None:
        for optimizer, group in zip(self.sides, self.program.group(), strict=True):
            optimizer.add_param_group(group)

    def other_options(self) -> None:
        for group, options in zip(self.program.any_group(), self.program.options(), strict=True):
            group.update(options)

    def replaced_list_of_params(self) -> None:
        for group, added in zip(self.program.any_group(), self.program.pair(), strict=True):
            group["params"] = [*group["params"], added]

    def removed_parameter(self) -> None:
        for group in self.program.any_group():
            del group["params"][1:2]

    def moved_to_another_group(self) -> None:
        for optimizer in self.sides:
            first, last = (optimizer.param_groups[index]["params"] for index in (0, -1))
            if first is not last and len(first) > 1:
                last.insert(0, first.pop())

    def replaced_data(self) -> None:
        for pair, _ in self.program.used():
            pair.ours.data = torch.stack([pair.ours.data * 2], -1)[..., 0]
            pair.theirs.data.mul_(2)

    def double_precision(self) -> None:
        """Convert the parameter but not its state, like ``Module.double``."""
        pair = self.program.any_pair()
        if not pair.ours.is_complex():
            pair.ours.grad = None
            pair.ours.data = pair.ours.data.double()

    def frozen(self) -> None:
        for pair, _ in self.program.used():
            pair.ours.requires_grad_(self.program.choose("is trained", [True, False]))

    def replaced_state(self) -> None:
        for optimizer in self.sides:
            copies = {param: copy.deepcopy(values) for param, values in reversed(optimizer.state.items())}
            optimizer.state = defaultdict(dict, copies)

    def looked_at_state(self) -> None:
        """Read the state of each parameter. The read creates an empty dict if the parameter has no state."""
        for pair, _ in self.program.used():
            _ = self.program.ours.state[pair.ours]

    def state_of_one_parameter_removed(self) -> None:
        for optimizer, param in zip(self.sides, self.program.any_pair(), strict=True):
            optimizer.state.pop(param, None)

    def loaded(self) -> None:
        for optimizer, state in zip(self.sides, state_dicts(*self.sides), strict=True):
            optimizer.load_state_dict(state)

    def exchanged_state(self) -> None:
        """Load the state of each optimizer into the other one."""
        ours, theirs = self.sides
        for optimizer, state in zip((theirs, ours), state_dicts(ours, theirs), strict=True):
            optimizer.load_state_dict(state)
        for values in (*theirs.state.values(), *theirs.param_groups):
            values.update({name: usual(value) for name, value in values.items() if isinstance(value, Tensor)})

    def copied(self) -> None:
        """Continue with a deep copy of our optimizer. ``pickle`` uses the same methods as ``copy``."""
        self.program.follow(copy.deepcopy(self.program.ours))


CHANGES = [name for name in vars(Changes) if not name.startswith("_")]


def state_dicts(*sides: Any) -> list[Any]:
    """Remove the state of parameters in no group, for which ``torch.optim`` fails, and return copies of the states."""
    for side in sides:
        params = set(chain.from_iterable(group["params"] for group in side.param_groups))
        side.state = defaultdict(dict, {param: values for param, values in side.state.items() if param in params})
    return [copy.deepcopy(side.state_dict()) for side in sides]
