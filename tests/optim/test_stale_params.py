"""Every way to make the prepared lists stale by parameters and groups: the next step is torch.optim's."""

from typing import Any

import pytest
import torch

from tests.optimizers import KINDS, OURS, THEIRS, Change, Run, parameters, trained

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


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_between_steps(kind: str, name: str) -> None:
    wanted = trained(THEIRS, kind, CHANGES[name])
    found = trained(OURS, kind, CHANGES[name])
    assert len(found) == len(wanted)
    for left, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(left, right, rtol=3e-6, atol=3e-6)
