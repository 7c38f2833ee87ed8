"""Whatever is changed between two steps, the next step is torch.optim's: parameters, groups, state, options."""

import io
from collections import defaultdict
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.optimizers import KINDS, OURS, SHAPES, THEIRS, Change, Run, make, parameters, set_grads, trained

CHANGES: dict[str, Change] = {}


def change(function: Change) -> Change:
    CHANGES[function.__name__] = function
    return function


def group(run: Run) -> dict[str, Any]:
    groups: list[dict[str, Any]] = run.optimizer.param_groups
    return groups[0]


@change
def add_param_group(run: Run) -> None:
    added = parameters((4,), seed=1)
    run.params.extend(added)
    run.optimizer.add_param_group({"params": added, "lr": 0.5})


@change
def replaced_list_of_params(run: Run) -> None:
    run.params[:] = [*run.params[:2], *parameters((4,), seed=1)]
    group(run)["params"] = list(run.params)


@change
def params_changed_in_place(run: Run) -> None:
    (added,) = parameters((4,), seed=1)
    run.params[1] = added
    group(run)["params"][1] = added


@change
def params_removed_in_place(run: Run) -> None:
    del run.params[0], group(run)["params"][0]


@change
def params_swapped_in_place(run: Run) -> None:
    group(run)["params"].reverse()


@change
def group_replaced(run: Run) -> None:
    run.optimizer.param_groups[0] = {**group(run), "lr": 0.03}


@change
def data_replaced(run: Run) -> None:
    for param in run.params:
        param.data = param.data.clone() * 2


@change
def data_replaced_by_another_layout(run: Run) -> None:
    run.params[1].data = run.params[1].data.t().contiguous().t()


@change
def storage_resized_by_set(run: Run) -> None:
    with torch.no_grad():
        run.params[0].set_(torch.linspace(0, 1, 7))  # type: ignore[call-overload]


@change
def frozen_and_thawed(run: Run) -> None:
    for param in run.params[:2]:
        param.requires_grad_(False)
    run.params[0].requires_grad_()


@change
def moved_to_another_group(run: Run) -> None:
    (added,) = parameters((4,), seed=1)
    run.params.append(added)
    run.optimizer.add_param_group({"params": [added], "lr": 0.5})
    run.optimizer.param_groups[1]["params"].insert(0, group(run)["params"].pop())


def earlier_state(run: Run) -> dict[str, Any]:
    """Return a checkpoint of a run that is two steps further."""
    params = parameters(*SHAPES)
    other: Any = make(run.library, run.kind, params)
    for number in range(20, 25):
        set_grads(params, number)
        other.step()
    state: dict[str, Any] = deepcopy(other.state_dict())
    return state


@change
def load_state_dict(run: Run) -> None:
    run.optimizer.load_state_dict(earlier_state(run))


@change
def replaced_tensors_of_the_state(run: Run) -> None:
    for values in run.optimizer.state.values():
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = value * 2


@change
def replaced_dict_of_the_state(run: Run) -> None:
    for param, values in run.optimizer.state.items():
        run.optimizer.state[param] = deepcopy(values)
        for value in run.optimizer.state[param].values():
            if isinstance(value, Tensor):
                value.mul_(2)


@change
def looked_at_the_state(run: Run) -> None:
    """Leaves an empty dict behind, as reading a defaultdict does."""
    for param in run.params:
        assert len(run.optimizer.state[param]) >= 0


@change
def cleared_state(run: Run) -> None:
    run.optimizer.state.clear()


@change
def state_of_one_parameter_removed(run: Run) -> None:
    run.optimizer.state.pop(run.params[1], None)


@change
def replaced_state(run: Run) -> None:
    state: Any = defaultdict(dict)
    for param, values in run.optimizer.state.items():
        state[param] = {name: value * 2 if isinstance(value, Tensor) else value for name, value in values.items()}
    run.optimizer.state = state


@change
def copied(run: Run) -> Run:
    optimizer = deepcopy(run.optimizer)
    return run._replace(optimizer=optimizer, params=list(optimizer.param_groups[0]["params"]))


@change
def saved_and_loaded(run: Run) -> Run:
    file = io.BytesIO()
    torch.save(run.optimizer, file)
    file.seek(0)
    optimizer = torch.load(file, weights_only=False)
    return run._replace(optimizer=optimizer, params=list(optimizer.param_groups[0]["params"]))


@change
def momentum_toggled(run: Run) -> None:
    if "momentum" in group(run):
        group(run).update(momentum=0 if group(run)["momentum"] else 0.9, nesterov=False)
    else:
        group(run)["amsgrad"] = False


@change
def other_hyperparameters(run: Run) -> None:
    group(run).update(lr=0.003, weight_decay=0.05, maximize=not group(run)["maximize"])


@change
def dampening_begins(run: Run) -> None:
    if "dampening" in group(run):
        group(run).update(dampening=0.3, nesterov=False)


@change
def gradients_gone(run: Run) -> None:
    run.optimizer.zero_grad(set_to_none=True)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_between_steps(kind: str, name: str) -> None:
    wanted = trained(THEIRS, kind, CHANGES[name])
    found = trained(OURS, kind, CHANGES[name])
    assert len(found) == len(wanted)
    for left, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(left, right, rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_that_changes_its_type(kind: str) -> None:
    """As torch.optim, which keeps the state as it is: float32 beside a float64 parameter."""

    def weights(library: dict[str, Any]) -> list[Tensor]:
        torch.manual_seed(0)
        module = torch.nn.Linear(3, 2)
        optimizer: Any = make(library, kind, module.parameters())
        for number in range(6):
            if number == 3:
                module.to(torch.float64)
                optimizer.load_state_dict(deepcopy(optimizer.state_dict()))
            set_grads(list(module.parameters()), number)
            optimizer.step()
        return list(module.parameters())

    torch.testing.assert_close(weights(OURS), weights(THEIRS), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_amsgrad_begins_with_no_maximum(kind: str) -> None:
    """As torch.optim with a maximum of zeros; without one it fails."""

    def weights(library: dict[str, Any]) -> list[Tensor]:
        params = parameters(*SHAPES)
        optimizer: Any = make(library, kind, params)
        for number in range(8):
            set_grads(params, number, factor=1 if number == 4 else 0.1)
            if number == 3:
                optimizer.param_groups[0]["amsgrad"] = True
                if library is THEIRS:
                    for param in params:
                        optimizer.state[param]["max_exp_avg_sq"] = torch.zeros_like(param)
            optimizer.step()
        return params

    torch.testing.assert_close(weights(OURS), weights(THEIRS), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("kind", ["SGD momentum", "Adam"])
def test_state_stays_with_its_parameter(kind: str) -> None:
    """One parameter has a dict without tensors, and others sit a step out."""

    def weights(library: dict[str, Any]) -> list[Tensor]:
        params = parameters((2,), (2,), (2,))
        optimizer: Any = make(library, kind, params)
        assert optimizer.state[params[0]] == {}
        for number in range(4):
            set_grads(params, number)
            params[0].grad = None
            if number % 2:
                params[2].grad = None
            optimizer.step()
        return params

    torch.testing.assert_close(weights(OURS), weights(THEIRS), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_can_be_swapped_between_steps(kind: str) -> None:
    """Torch refuses to swap a tensor that anything else refers to."""
    param, other = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(2))
    optimizer = make(OURS, kind, [param])
    set_grads([param], 0)
    optimizer.step()
    torch.utils.swap_tensors(param, other)  # type: ignore[no-untyped-call]
    set_grads([param], 1)
    before = other.detach().clone()
    optimizer.step()
    assert torch.equal(other, before)
    assert (param != 1).all()
