"""Checkpoints of optimizers: entries and dtypes like ``torch.optim``'s, load hooks, and distributed checkpoints."""

from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

from tests.support.optimizers import OURS, SHAPES, THEIRS, make, parameters, same_bits, set_grads

F32, BF16 = torch.float32, torch.bfloat16


def train(optimizer: Any, params: list[Tensor], *numbers: int) -> None:
    for number in numbers:
        set_grads(params, number)
        optimizer.step()


@pytest.mark.parametrize("kind", ["SGD momentum", "SGD dampening", "Adam amsgrad", "AdamW"])
def test_a_state_dict_matches_torch_optim(kind: str, real_device: str) -> None:
    """All entries match, but our step count may be on the parameter's device, as in PyTorch's fused optimizers."""

    def place(name: str, value: Tensor) -> Any:
        return "the count's" if name == "step" and real_device != "cpu" else value.device

    def description(library: dict[str, Any]) -> Any:
        params = parameters(*SHAPES, device=real_device)
        optimizer = make(library, kind, params)
        train(optimizer, params[:2], 0)
        state_dict = optimizer.state_dict()
        state = {
            key: {name: (value.shape, value.dtype, place(name, value)) for name, value in values.items()}
            for key, values in state_dict["state"].items()
        }
        groups = [{**group, "foreach": None, "fused": None} for group in state_dict["param_groups"]]
        return state_dict.keys(), state, groups

    assert description(OURS) == description(THEIRS)


@pytest.mark.parametrize("kind", ["SGD nesterov", "SGD dampening"])
def test_a_momentum_buffer_of_none_loads_as_one_that_was_never_written(kind: str, real_device: str) -> None:
    (weight,), (other,) = parameters((3,), device=real_device), parameters((3,))
    optimizer, theirs = make(OURS, kind, [weight]), make(THEIRS, kind, [other])
    optimizer.load_state_dict({**optimizer.state_dict(), "state": {0: {"momentum_buffer": None}}})
    train(optimizer, [weight], 0)
    train(theirs, [other], 0)
    torch.testing.assert_close(weight.detach().cpu(), other.detach())


def moments(optimizer: Any) -> list[Tensor]:
    return [value for values in optimizer.state.values() for name, value in values.items() if name != "step"]


@pytest.mark.parametrize("kind", ["SGD momentum", "Adam amsgrad"])
def test_loaded_state_is_converted(kind: str) -> None:
    """A load converts state to ``state_dtype``. Between two of our optimizers, a load changes no value."""
    params = parameters((3,), (2, 2), dtype=BF16)
    saved = make(THEIRS, kind, params)
    train(saved, params, 0, 1)
    ours, other = (make(OURS, kind, params, state_dtype=dtype) for dtype in ("fp32", F32))
    seen: list[torch.dtype] = []
    ours.register_load_state_dict_post_hook(lambda it: seen.extend(tensor.dtype for tensor in moments(it)))
    ours.load_state_dict(saved.state_dict())
    assert {*seen} == {F32}  # A hook after the load reads the converted state.
    train(ours, params, 2, 3)
    assert {tensor.dtype for tensor in moments(ours)} == {F32}
    other.load_state_dict(ours.state_dict())
    for left, right in zip(moments(ours), moments(other), strict=True):
        assert same_bits(left, right)
        assert left.data_ptr() != right.data_ptr()


@pytest.mark.parametrize("state_dtype", [None, F32])
def test_load_hooks_can_change_the_state(state_dtype: torch.dtype | None) -> None:
    """One hook removes a parameter from the loaded state, and the other replaces an average."""

    def first(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"state": {0: state["state"][0]}, "param_groups": [{**state["param_groups"][0], "params": [0]}]}

    def sevens(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "state": {0: {**state["state"][0], "exp_avg": torch.full((3,), 7.0)}}}

    params = parameters((3,), (3,))
    saved = make(THEIRS, "AdamW", params)
    train(saved, params, 0)
    optimizer = make(OURS, "AdamW", params[:1], state_dtype=state_dtype)
    optimizer.register_load_state_dict_pre_hook(first)
    optimizer.register_load_state_dict_pre_hook(sevens)
    optimizer.load_state_dict(saved.state_dict())
    assert len(optimizer.state) == 1
    assert optimizer.state[params[0]]["exp_avg"].tolist() == [7.0] * 3


def test_state_without_a_parameter_is_preserved() -> None:
    """A checkpoint contains an entry whose key is not a parameter. Steps ignore the entry."""
    params = parameters((3,))
    optimizer: Any = make(OURS, "AdamW", params)
    optimizer.register_state_dict_pre_hook(lambda it: it.state.update(test=1))
    train(optimizer, params, 0)
    optimizer.load_state_dict(optimizer.state_dict())
    train(optimizer, params, 1)
    assert optimizer.state_dict()["state"]["test"] == optimizer.state["test"] == 1


@pytest.mark.parametrize("kind", ["SGD momentum", "SGD dampening", "AdamW"])
@pytest.mark.parametrize(
    ("taken", "skipped"), [(0, 0), (2, 1)], ids=["saved before any step", "loaded after a skipped first step"]
)
def test_averages_are_saved_and_loaded_by_torch_distributed_checkpoint(kind: str, taken: int, skipped: int) -> None:
    weights = []
    for library in (OURS, THEIRS):
        models = [nn.ParameterList(parameters(*SHAPES, seed=seed)) for seed in (0, 1)]
        saved, loaded = (make(library, kind, model.parameters()) for model in models)
        skip: Any = loaded.step
        train(saved, [*models[0]], *range(taken))
        for number in range(skipped if library is OURS else 0):
            set_grads(models[1], number)
            skip(found_inf=torch.ones(()))
        set_optimizer_state_dict(models[1], loaded, get_optimizer_state_dict(models[0], saved))
        train(loaded, [*models[1]], 5, 6)
        weights.append([*models[1]])
    torch.testing.assert_close(*weights)


@pytest.mark.parametrize(("first", "maximize"), [(0.0, True), (-0.0, False)])
def test_a_checkpoint_records_that_dampened_momentum_has_started(first: float, maximize: bool) -> None:
    """A state dict shows the start even after a first gradient of zero, which makes a buffer of zeros."""
    weights = []
    for library in (OURS, THEIRS):
        params = parameters((3,))
        saved, loaded = (make(library, "SGD dampening", params, maximize=maximize) for _ in range(2))
        for optimizer, gradient in ((saved, first), (loaded, 1.0)):
            loaded.load_state_dict(saved.state_dict())
            params[0].grad = torch.full((3,), gradient)
            optimizer.step()
        weights.append(params)
    torch.testing.assert_close(*weights)


def test_a_step_without_memory_for_its_state_can_be_repeated() -> None:
    """After the error, the state of a parameter is complete or absent, so that ``torch.optim`` can load it."""
    params, others = parameters((3,)), parameters((3,))
    optimizer, peer = make(OURS, "Adam amsgrad", params), make(THEIRS, "Adam amsgrad", others)
    set_grads(params, 0)
    results = [torch.zeros(3), torch.OutOfMemoryError("injected")]
    with (
        patch.object(torch, "zeros_like", side_effect=results),
        pytest.raises(torch.OutOfMemoryError, match="injected"),
    ):
        optimizer.step()
    peer.load_state_dict(optimizer.state_dict())
    train(optimizer, params, 0, 1)
    train(peer, others, 0, 1)
    torch.testing.assert_close(params, others)
