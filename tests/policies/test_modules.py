"""A module with rules is copied, wrapped, called and made another class as one without."""

import copy
import gc
import pickle
import types
import warnings
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import polycast
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

HALF, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
X = torch.eye(4)


def ruled(module: Any = None) -> Any:
    module = nn.Linear(4, 4, bias=False) if module is None else module
    polycast.assign(module, {"": {"linear": "float16"}})
    return module


def kind(call: Callable[[Tensor], Any]) -> torch.dtype:
    with polycast.autocast("cpu"):
        dtype: torch.dtype = call(X).dtype
    return dtype


def shallow(module: nn.Module) -> nn.Module:
    twin = copy.copy(module)
    twin._parameters = dict(module._parameters)
    return twin


def replica(module: Any) -> Any:
    """Return what nn.DataParallel runs."""
    twin = module._replicate_for_data_parallel()
    for name, weight in module._parameters.items():
        setattr(twin, name, weight)
    return twin


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy.copy": shallow,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "a replica": replica,
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_runs_with_its_own_weights_under_the_rules(copied: Callable[[Any], Any]) -> None:
    module = ruled()
    twin = copied(module)
    twin.weight = nn.Parameter(torch.full((4, 4), 7.0)) if twin._parameters else torch.full((4, 4), 7.0)
    with polycast.autocast("cpu"):
        assert torch.equal(twin(X), torch.full((4, 4), 7.0, dtype=HALF))
        assert torch.equal(twin.forward(X), torch.full((4, 4), 7.0, dtype=HALF))
        assert torch.equal(module(X), module.weight.half().T)
    assert repr(polycast.assigned(twin)) == repr(polycast.assigned(module))
    polycast.assign(twin, None)
    assert (kind(twin), kind(module)) == (BF16, HALF)
    assert type(twin) is nn.Linear


def test_a_bound_forward_holds_its_module_as_long_as_it_lives() -> None:
    forward = ruled().forward
    gc.collect()
    assert kind(forward) == HALF
    assert list(signature(forward).parameters) == ["input"]
    polycast.assign(forward.__self__, None)
    assert kind(forward) == BF16


class Static(nn.Module):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return nn.functional.linear(x, X)


class Property(nn.Module):
    @property
    def forward(self) -> Callable[[Tensor], Tensor]:  # type: ignore[override]
        return lambda x: nn.functional.linear(x, X)


class Listed(nn.Linear):
    """Its subclasses need an argument."""

    def __init_subclass__(cls, name: str) -> None:
        raise AssertionError(name)


@pytest.mark.parametrize("cls", [Static, Property, lambda: Listed(4, 4)])
def test_a_forward_of_any_kind_runs_under_the_rules(cls: Callable[[], nn.Module]) -> None:
    module = ruled(cls())
    assert kind(module) == kind(torch.compile(module, backend="eager")) == HALF
    polycast.assign(module, None)
    assert kind(module) == BF16


def wrap(module: Any) -> None:
    """Wrap the forward of a module as trainers do."""
    inner = module.forward
    module.forward = wraps(inner)(lambda *args: inner(*args))


def wrap_method(module: Any) -> None:
    inner = module.forward.__func__
    module.forward = types.MethodType(lambda self, *args: inner(self, *args), module)


@pytest.mark.parametrize(
    ("wrap", "first", "compiled"),
    [(wrap, "assign", False), (wrap, "wrap", True), (wrap_method, "wrap", False), (wrap_method, "assign", True)],
)
def test_a_wrapped_forward_follows_every_change_of_the_rules(
    wrap: Callable[[Any], None], first: str, compiled: bool
) -> None:
    module = nn.Linear(4, 4)
    for step in ("assign", "wrap") if first == "assign" else ("wrap", "assign"):
        (ruled if step == "assign" else wrap)(module)
    run = torch.compile(module, backend="eager") if compiled else module
    assert kind(run) == HALF
    assert list(polycast.assigned(module)) == [""]
    with polycast.assign(module, {"": {"linear": "fp32"}}):
        assert kind(run) == F32
    assert kind(run) == HALF
    polycast.assign(module, None)
    assert kind(run) == BF16
    del module.forward
    assert (kind(module), vars(module).get("forward")) == (BF16, None)


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight * 2


@pytest.mark.parametrize("first", ["assign", "parametrize"])
def test_parametrizations_come_and_go_beside_rules(first: str) -> None:
    module = nn.Linear(4, 4)
    for step in ("assign", "parametrize") if first == "assign" else ("parametrize", "assign"):
        if step == "assign":
            ruled(module)
        else:
            parametrize.register_parametrization(module, "weight", Doubled())
    parametrize.register_parametrization(module, "bias", Doubled())
    expected = module.weight.half() @ X.half() + module.bias.half()[:, None]
    for one in (module, copy.deepcopy(module)):
        with polycast.autocast("cpu"):
            torch.testing.assert_close(one(X), expected.T)
    parametrize.remove_parametrizations(module, "bias")
    assert kind(module) == HALF
    polycast.assign(module, None)
    assert kind(module) == BF16
    ruled(module)
    parametrize.remove_parametrizations(module, "weight")
    assert kind(module) == HALF
    polycast.assign(module, None)
    assert (kind(module), type(module)) == (BF16, nn.Linear)


def test_a_lazy_module_keeps_its_rules_when_it_becomes_another_class() -> None:
    module = ruled(nn.LazyLinear(4))
    assert (kind(module), kind(module)) == (HALF, HALF)
    polycast.assign(module, None)
    assert type(module) is nn.Linear


def test_the_class_of_a_module_with_rules_is_one_of_its_own_class() -> None:
    modules = [ruled(), ruled()]
    assert type(modules[0]) is type(modules[1]) is modules[0].__class__
    assert isinstance(modules[0], nn.Linear) and issubclass(type(modules[0]), nn.Linear)
    assert (type(modules[0]).__name__, type(modules[0]).__module__) == ("Linear", nn.Linear.__module__)
    blocks = ruled(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    assert (kind(blocks), kind(blocks[:1])) == (HALF, BF16)


GRAPH_MODULES: dict[str, Callable[[Any], Any]] = {
    "itself, compiled anew": lambda module: (module.recompile(), module)[1],
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
}


@pytest.mark.parametrize("made", GRAPH_MODULES.values(), ids=GRAPH_MODULES)
def test_a_graph_module_keeps_its_rules_though_each_has_a_class_of_its_own(made: Callable[[Any], Any]) -> None:
    module = ruled(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4))))
    twin = made(module)
    assert kind(twin) == kind(module) == HALF
    polycast.assign(twin, None)
    assert kind(twin) == BF16
    twin.recompile()
    assert kind(twin) == BF16


def test_a_module_of_torch_jit_is_refused_by_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        traced = torch.jit.trace(nn.Linear(4, 4), X)  # type: ignore[no-untyped-call]
    model = nn.Sequential(traced, nn.Linear(4, 4))
    with pytest.raises(polycast.PolicyError, match=r"module '0' is compiled by torch\.jit.*'0': None"):
        polycast.assign(model, {"*": "fp32"})
    polycast.assign(model, {"*": None})
    polycast.assign(model, {"*": "float16", "0": None})
    assert (kind(model[0]), kind(model[1])) == (BF16, HALF)
