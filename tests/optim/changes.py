"""What a user may change between the steps of a program."""

import copy
import io
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.optim.programs import AVERAGES, Program, usual
from tests.support.optimizers import Kernels, Options

MOST = 7  # changes in a program
CHANGES: dict[str, Callable[[Program], None]] = {}


def change(function: Callable[[Program], None]) -> Callable[[Program], None]:
    CHANGES[function.__name__] = function
    return function


def params_of(program: Program) -> tuple[list[Tensor], list[Tensor]]:
    """Return the lists of parameters of some group."""
    ours, theirs = program.any_group()
    return ours["params"], theirs["params"]


def states(program: Program) -> list[tuple[Options, Options]]:
    """Return the state of each parameter that has some on both sides, and ours need not wait for its first step."""
    both = [(program.ours.state.get(pair.ours), program.theirs.state.get(pair.theirs)) for pair, _ in program.used()]
    return [(ours, theirs) for ours, theirs in both if ours and theirs]


@change
def nothing(_: Program) -> None:
    pass


@change
def add_param_group(program: Program) -> None:
    ours, theirs = program.group()
    program.ours.add_param_group(ours)
    program.theirs.add_param_group(theirs)


@change
def other_options(program: Program) -> None:
    for group, options in zip(program.any_group(), program.options(), strict=True):
        group.update(options)


@change
def replaced_list_of_params(program: Program) -> None:
    for group, added in zip(program.any_group(), program.pair(), strict=True):
        group["params"] = [*group["params"], added]


@change
def replaced_parameter(program: Program) -> None:
    for params, added in zip(params_of(program), program.pair(), strict=True):
        params[-1] = added


@change
def removed_parameter(program: Program) -> None:
    for params in params_of(program):
        del params[1:2]


@change
def reversed_parameters(program: Program) -> None:
    for params in params_of(program):
        params.reverse()


@change
def moved_to_another_group(program: Program) -> None:
    for optimizer in (program.ours, program.theirs):
        first, last = (optimizer.param_groups[index]["params"] for index in (0, -1))
        if first is not last and len(first) > 1:
            last.insert(0, first.pop())


@change
def replaced_group(program: Program) -> None:
    for optimizer in (program.ours, program.theirs):
        optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.03}


@change
def replaced_data(program: Program) -> None:
    for pair, _ in program.used():
        pair.ours.data = torch.stack([pair.ours.data * 2], -1)[..., 0]
        pair.theirs.data.mul_(2)


@change
def double_precision(program: Program) -> None:
    """Do what Module.double does: the parameter changes its dtype and its state does not."""
    pair = program.any_pair()
    if not pair.ours.is_complex():
        pair.ours.grad = None
        pair.ours.data = pair.ours.data.double()


@change
def frozen(program: Program) -> None:
    for pair, _ in program.used():
        pair.ours.requires_grad_(program.choose("is trained", [True, False]))


@change
def replaced_tensors_of_the_state(program: Program) -> None:
    for both in states(program):
        for state in both:
            state.update({name: state[name] * 2 for name in AVERAGES if isinstance(state.get(name), Tensor)})


@change
def replaced_dicts_of_the_state(program: Program) -> None:
    for optimizer in (program.ours, program.theirs):
        for param, values in optimizer.state.items():
            optimizer.state[param] = copy.deepcopy(values)


@change
def replaced_state(program: Program) -> None:
    for optimizer in (program.ours, program.theirs):
        state: Any = defaultdict(dict)
        state.update({param: copy.copy(values) for param, values in reversed(optimizer.state.items())})
        optimizer.state = state


@change
def looked_at_state(program: Program) -> None:
    """Read the state, which leaves an empty dict behind."""
    for pair, _ in program.used():
        assert len(program.ours.state[pair.ours]) >= 0


@change
def cleared_state(program: Program) -> None:
    program.ours.state.clear()
    program.theirs.state.clear()


@change
def state_of_one_parameter_removed(program: Program) -> None:
    pair = program.any_pair()
    program.ours.state.pop(pair.ours, None)
    program.theirs.state.pop(pair.theirs, None)


@change
def saved(program: Program) -> None:
    program.saved = program.layout(), program.state_dicts()


@change
def loaded(program: Program) -> None:
    """Load what was saved earlier, or just now."""
    if program.saved is None or program.saved[0] != program.layout():
        saved(program)
    assert program.saved is not None
    for side, state in zip((program.ours, program.theirs), program.saved[1], strict=True):
        side.load_state_dict(copy.deepcopy(state))


@change
def exchanged_state(program: Program) -> None:
    """Each side loads the state of the other."""
    ours, theirs = program.state_dicts()
    program.ours.load_state_dict(theirs)
    program.theirs.load_state_dict(ours)
    for values in program.theirs.state.values():
        values.update({name: usual(value) for name, value in values.items() if isinstance(value, Tensor)})
    for group in program.theirs.param_groups:
        group["lr"] = usual(group["lr"]) if isinstance(group["lr"], Tensor) else group["lr"]


@change
def pickled(program: Program) -> None:
    """Save and load the optimizer; it has other parameters then."""
    if program.device == "xla":
        return  # torch fails to load leaves of other dtypes than float32 there
    file = io.BytesIO()
    torch.save(program.ours, file)
    file.seek(0)
    program.follow(torch.load(file, weights_only=False))


@change
def copied(program: Program) -> None:
    program.follow(copy.deepcopy(program.ours))


@change
def gradients_gone(program: Program) -> None:
    program.ours.zero_grad(set_to_none=True)


def compare(data: st.DataObject, kernels: Kernels) -> None:
    """Run a program whose steps and changes take turns.

    Raises:
        AssertionError: The sides differ.
    """
    program = Program(data, kernels)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loaded state of .* is converted")
        program.step()
        for _ in range(MOST):
            change = program.choose("then", ["end", *CHANGES])
            if change == "end":
                break
            CHANGES[change](program)
            program.step()
