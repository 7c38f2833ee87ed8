"""Modules with rules, which users copy, wrap and call like other modules. Tracers apply the rules or raise."""

import copy
import types
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from inspect import signature
from typing import Any

import polycast
import pytest
import torch
from polycast.policy.policy import PolicyLike
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import parametrize

from tests.policies.programs import COPIES

HALF, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
X = torch.eye(4)
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.")


def ruled(module: Any = None) -> Any:
    module = nn.Linear(4, 4, bias=False) if module is None else module
    polycast.assign(module, {"": {"linear": "float16"}})
    return module


def kind(call: Callable[[Tensor], Any]) -> torch.dtype:
    with polycast.autocast("cpu"):
        dtype: torch.dtype = call(X).dtype
    return dtype


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_runs_with_its_own_weights_under_the_rules(copied: Callable[[Any], Any]) -> None:
    module = ruled()
    twin = copied(module)
    sevens = torch.full((4, 4), 7.0)
    twin.weight = nn.Parameter(sevens)
    with polycast.autocast("cpu"):
        assert torch.equal(twin(X), sevens.half()) and torch.equal(twin.forward(X), sevens.half())
        assert torch.equal(module(X), module.weight.half().T)
    assert repr(polycast.assigned(twin)) == repr(polycast.assigned(module))
    polycast.assign(twin, None)
    assert (kind(twin), kind(module), type(twin)) == (BF16, HALF, nn.Linear)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_graph_loses_the_rules(copied: Callable[[Any], Any]) -> None:
    twin = copied(nn.Sequential(traced()))
    assert (kind(twin), list(polycast.assigned(twin))) == (BF16, [])
    polycast.assign(twin, {"0": "fp16"})
    assert kind(twin) == HALF


def test_a_bound_forward_is_a_method_that_does_not_keep_its_module_alive() -> None:
    module = ruled()
    forward = module.forward
    assert kind(forward) == HALF and forward.__self__ is module
    assert list(signature(forward).parameters) == ["input"]
    polycast.assign(module, None)
    assert kind(forward) == BF16
    del module
    with pytest.raises(ReferenceError, match="keep a reference to the module"):
        kind(forward)


class Static(nn.Module):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return nn.functional.linear(x, X)


class Listed(nn.Linear):
    """A module whose class raises if it is subclassed."""

    def __init_subclass__(cls, name: str) -> None:
        raise AssertionError(name)


def wrapped(module: Any) -> Any:
    """Wrap the forward of a module, like trainers do."""
    inner = module.forward
    module.forward = wraps(inner)(lambda *args: inner(*args))
    return module


def wrapped_method(module: Any) -> Any:
    inner = module.forward.__func__
    module.forward = types.MethodType(lambda self, *args: inner(self, *args), module)
    return module


def traced() -> Any:
    """Return a ``GraphModule`` with rules. Each ``GraphModule`` has its own class."""
    return ruled(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4))))


# Each function returns a module with rules.
MADE: dict[str, Callable[[], Any]] = {
    "a static forward": lambda: ruled(Static()),
    "a class that rejects subclasses": lambda: ruled(Listed(4, 4)),
    "a module wrapped before": lambda: ruled(wrapped(nn.Linear(4, 4))),
    "a module wrapped after": lambda: wrapped(ruled()),
    "a wrapped method before": lambda: ruled(wrapped_method(nn.Linear(4, 4))),
    "a wrapped method after": lambda: wrapped_method(ruled()),
    "a module that becomes another class": lambda: ruled(nn.LazyLinear(4)),
    "a graph": traced,
    "a recompiled graph": lambda: (module := traced(), module.recompile())[0],
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_module_of_any_kind_follows_every_change_of_its_rules(made: Callable[[], Any], compiled: bool) -> None:
    module = made()
    run = torch.compile(module, backend="eager") if compiled else module
    assert (kind(run), kind(run)) == (HALF, HALF)
    assert list(polycast.assigned(module)) == [""]
    with polycast.assign(module, {"": {"linear": "fp32"}}):
        assert kind(run) == F32
    assert kind(run) == HALF
    polycast.assign(module, None)
    assert (kind(run), kind(module)) == (BF16, BF16)
    assert type(module) in (nn.Linear, Static, Listed) or isinstance(module, torch.fx.GraphModule)
    if vars(module).pop("forward", None):
        assert kind(module) == BF16


class Named(nn.Linear):
    def forward(self, input: Tensor, **named: int) -> Tensor:  # noqa: A002
        return super().forward(input) if named else input


def test_a_forward_with_rules_may_have_arguments_of_any_name() -> None:
    torch._dynamo.reset()  # Compiled modules with rules share a limit of recompilations.
    module = ruled(Named(4, 4))
    for run in (module, torch.compile(module, backend="eager", fullgraph=True)):
        with polycast.autocast("cpu"):
            assert run(X, module=1, own=2, scope=3, function=4).dtype == HALF


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight * 2


@pytest.mark.parametrize("first", ["rules", "parametrization"])
def test_parametrizations_can_be_added_and_removed_on_a_module_with_rules(first: str) -> None:
    module = ruled(nn.Linear(4, 4)) if first == "rules" else nn.Linear(4, 4)
    parametrize.register_parametrization(module, "weight", Doubled())
    if first != "rules":
        ruled(module)
    parametrize.register_parametrization(module, "bias", Doubled())
    expected = module.weight.half() @ X.half() + module.bias.half()[:, None]
    for one in (module, copy.deepcopy(module)):
        with polycast.autocast("cpu"):
            torch.testing.assert_close(one(X), expected.T)
    for name in ("bias", "weight"):
        parametrize.remove_parametrizations(module, name)
        assert kind(module) == HALF
        polycast.assign(module, None)
        assert kind(module) == BF16
        ruled(module)
    polycast.assign(module, None)
    assert type(module) is nn.Linear


def test_a_rule_does_not_change_the_class_of_a_module() -> None:
    assert type(ruled()) is nn.Linear
    blocks = ruled(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    assert (kind(blocks), kind(blocks[:1])) == (HALF, BF16)


def test_a_replica_of_data_parallel_runs_with_its_own_weights() -> None:
    module = ruled()
    twin = module._replicate_for_data_parallel()
    twin.weight, twin.bias = torch.full((4, 4), 7.0), None
    assert kind(twin) == HALF
    with polycast.autocast("cpu"):
        assert torch.equal(twin(X), twin.weight.half())


def test_a_module_of_torch_jit_raises_with_its_name() -> None:
    model = nn.Sequential(torch.jit.trace(nn.Linear(4, 4), X), nn.Linear(4, 4))  # type: ignore[no-untyped-call]
    told = r"this module would have no effect, because torch\.jit compiled it.*{'0': None}"
    with pytest.raises(polycast.PolicyError, match=told):
        polycast.assign(model, {"*": "fp32"})
    polycast.assign(model, {"*": "float16", "0": None})
    assert (kind(model[0]), kind(model[1])) == (BF16, HALF)


def outer(rules: Any = None) -> nn.Module:
    inner = nn.Sequential(OrderedDict(linear=nn.Linear(4, 4)))
    polycast.assign(inner, rules)
    return nn.Sequential(OrderedDict(linear=nn.Linear(4, 4), inner=inner))


def jit_trace(model: nn.Module) -> Any:
    return torch.jit.trace(model, X)  # type: ignore[no-untyped-call]


LOSING = [
    *(("", trace) for trace in (jit_trace, torch.jit.script)),
    *(("inner", trace) for trace in (jit_trace, torch.jit.script, torch.fx.symbolic_trace, torch.fx.Tracer().trace)),
]


@pytest.mark.parametrize(("name", "trace"), LOSING)
def test_a_tracer_that_would_lose_the_rules_of_a_module_raises(name: str, trace: Callable[[nn.Module], Any]) -> None:
    """``torch.fx`` and ``torch.jit`` raise instead of losing a module's rules (specification 6.4)."""
    model = outer()
    polycast.assign(model, {name: "fp32"})
    lost = "(records no casts|own cast lists), so the rules of this Sequential would be lost; use torch.compile"
    with pytest.raises(RuntimeError, match=lost):
        trace(model)
    polycast.assign(model, {name: None})
    traced = trace(model)
    assert isinstance(traced, torch.fx.Graph) or torch.equal(traced(X), model(X))


@pytest.mark.parametrize("region", [{"policy": {"linear": "fp32"}}, {}])
def test_jit_trace_raises_for_an_active_rule_and_follows_the_built_in_ones(region: Any) -> None:
    """A trace has the casts of built-in rules, and a rule of a policy raises (specification 6.3)."""
    model = outer().requires_grad_(False)
    with polycast.autocast("cpu"):
        assert jit_trace(model)(X).dtype == BF16
    rules = nullcontext() if region else polycast.use({"linear": "fp32"})
    with rules, polycast.autocast("cpu", **region), pytest.raises(RuntimeError, match="a rule for aten::linear"):
        jit_trace(model)


def test_leaf_modules_of_fx_still_have_their_rules() -> None:
    model = outer()
    polycast.assign(model, {"inner.linear": "fp32"})
    traced = torch.fx.symbolic_trace(model)
    with polycast.autocast("cpu"):
        assert (traced(X).dtype, traced.get_submodule("linear")(X).dtype) == (F32, BF16)


def test_make_fx_records_the_casts() -> None:
    model = outer("fp32")
    with polycast.autocast("cpu"):
        graph = make_fx(lambda x: model(x))(X)
    assert graph(X).dtype == F32


@pytest.mark.parametrize("rules", [{"linear": "fp32"}, torch.float32])
def test_a_compiled_function_can_assign(rules: PolicyLike) -> None:
    model = outer()

    def assigned(x: Tensor, rules: PolicyLike) -> Tensor:
        x = x * 2
        polycast.assign(model, {"inner": rules})
        result: Tensor = model(x)
        return result

    compiled = torch.compile(assigned, backend="eager")
    with polycast.autocast("cpu"):
        for value, dtype in ((rules, F32), (None, BF16), (rules, F32)):
            assert compiled(X, value).dtype == model(X).dtype == dtype
    with pytest.raises(torch._dynamo.exc.Unsupported, match="<function assign at"):
        torch.compile(assigned, backend="eager", fullgraph=True)(X, rules)


def test_a_shallow_copy_runs_the_original_until_it_has_its_own_rules() -> None:
    module = ruled()
    twin = copy.copy(module)
    twin._parameters = {"weight": nn.Parameter(torch.full((4, 4), 7.0)), "bias": None}
    polycast.assign(twin, {"": {"linear": "fp32"}})
    with polycast.autocast("cpu"):
        assert torch.equal(twin(X), torch.full((4, 4), 7.0))
    assert kind(module) == HALF
