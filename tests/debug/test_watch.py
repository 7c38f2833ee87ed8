"""``watch``: the op that produces an infinity or a NaN, and a rule that prevents it."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import polycast
import pytest
import torch
from polycast.debug.watching import watch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.backend import NAME
from tests.support.devices import lower_precision, no_syncs

F16 = torch.float16


class Function(nn.Module):
    """A module that calls a function, and has weak references to the inputs of its calls."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.held: list[StorageWeakRef] = []

    def forward(self, x: Tensor) -> Tensor:
        self.held.append(StorageWeakRef(x.untyped_storage()))  # type: ignore[no-untyped-call]
        return self.function(x)


def run_on_fakes(model: nn.Module) -> str:
    with FakeTensorMode(allow_non_fake_inputs=True):
        return str(model(torch.ones(3, 4)).shape)


# These functions only trace a model, so `watch` must ignore them.
REHEARSALS: list[Callable[[nn.Module], str]] = [
    run_on_fakes,
    lambda model: str(torch.export.export(model, (torch.ones(2, 4),)).graph),
    lambda model: str(make_fx(lambda x: model(x))(torch.ones(2, 4)).graph),
]


@pytest.fixture
def device(real_device: str) -> Iterator[str]:
    """Return a device with float16, and make it the default device."""
    if F16 not in lower_precision(real_device):
        pytest.skip(f"autocast on {real_device} has no float16")
    with torch.device(real_device):
        yield real_device


def watched(function: Callable[[Tensor], Tensor]) -> watch:
    """Run a training step of a model that calls a function, and return its ``watch``."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), Function(function), nn.Linear(4, 4))
    with polycast.debug.watch(model) as found:
        with polycast.autocast("cpu", F16):
            output = model(torch.ones(2, 4))
        output.float().sum().backward()
    return found


@pytest.mark.parametrize("rehearse", REHEARSALS)
def test_a_traced_program_is_ignored(rehearse: Callable[[nn.Module], str]) -> None:
    model = nn.Linear(4, 4)
    expected = rehearse(model)
    with polycast.debug.watch(model) as found:
        model(torch.ones(2, 4))
        assert rehearse(model) == expected
    assert str(found).startswith("no finding; ops: ")


@pytest.mark.parametrize("enter", [polycast.debug.trace, polycast.debug.watch])
def test_an_interrupt_during_entry_leaves_nothing_installed(enter: Callable[[nn.Module], Any]) -> None:
    class Interrupted(nn.Linear):
        def named_modules(self, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), enter(Interrupted(2, 2)):
        pass
    with polycast.debug.trace():
        pass


def test_repeated_findings_are_printed_once() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with polycast.debug.watch(model, optimizer) as found, polycast.autocast("cpu", F16):
        for _ in range(3):
            model(torch.full((1, 2), 1e6))
            optimizer.step()
    assert len(found.findings) == 3
    assert str(found).endswith("\n  2 more, up to step 2")


LONG = nn.Sequential(*[nn.Tanh()] * 6)
LOW_MASK = torch.tensor([[0.0, torch.finfo(torch.float32).min], [0.0, 0.0]])
SIGNS = torch.tensor([1, -1, 1, -1], dtype=F16)
# Each row has a function, the op of its finding, the op with the first non-finite result, and a part of the remedy.
FINDINGS: list[tuple[Callable[[Tensor], Tensor], str, str, str]] = [
    (lambda x: (x + 300) * torch.tensor(3e2), "mul", "mul", '(model, {"1": {"mul": "fp32"}, "2": {"linear": "fp32"}})'),
    (lambda x: (x + 300).mul_(300) / 1e4, "add", "mul_", '(model, {"1": {"add": "fp32"}})'),
    (lambda x: (x.float() * 1e6).half(), "to", "to", "the program itself casts it: remove the cast to float16"),
    (lambda x: (x[None] + (LOW_MASK.repeat(1, 2) - 3.4e38).half()).softmax(-1), "to", "to", "itself casts it: remove"),
    (lambda x: softmax_in_half(x), "to", "log", "the program itself casts it: remove the cast to float16"),
    (lambda x: Saving.apply(x + 500), "Saving", "Saving", "after the gradient and each saved tensor in the backward"),  # type: ignore[no-untyped-call]
    (lambda x: (x * 0 + torch.tensor(1e-8).to(x.dtype)).log(), "log", "log", "tried log, add, to, mul, linear in fp32"),
    (lambda x: torch.unique(x.detach() / 1e4 + SIGNS).mul(3e4).mul(3).amax() * x, "add", "mul", "tried, and finite"),
    (lambda x: x / (x * 0), "div", "div", "non-finite even with"),
    (lambda x: (x * 0 + torch.tensor([0, 1e-8, 0, 1]).to(x.dtype)).log(), "log", "log", "non-finite even with"),
    (lambda x: torch.softmax(x * 0 + torch.full((4,), -math.inf), -1), "softmax", "softmax", "all masked"),
    (lambda x: x / (LONG(x) - LONG(x)).abs().sum(), "div", "div", "non-finite even with"),  # Both are equal.
    (lambda x: x * (LONG(x) - LONG(x)).square().sum().sqrt(), "sqrt", "sqrt", "non-finite even with"),
    (lambda x: torch.where(x > 9, (x * 0).sqrt(), 1.0), "sqrt", "sqrt", "non-finite even with"),
    (lambda x: torch.where(x > 9, -math.inf, (-x).sqrt()).softmax(-1), "sqrt", "sqrt", "non-finite even with"),
    (lambda x: Scaled.apply(x + 2), "Scaled", "Scaled", "write .float() after the gradient and each saved tensor"),  # type: ignore[no-untyped-call]
]


def softmax_in_half(x: Tensor) -> Tensor:
    p = torch.softmax(x + torch.tensor([20.0, 0, 0, 0]), -1).half()  # Some probabilities underflow to zero.
    return p * p.log()


class Saving(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * (x * x)  # type: ignore[no-any-return]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return (gradient.abs() + 300) * 300


@pytest.mark.parametrize(("function", "op", "shows", "remedy"), FINDINGS)
def test_a_finding_has_its_op_and_a_fix(function: Callable[[Tensor], Tensor], op: str, shows: str, remedy: str) -> None:
    (finding,) = watched(function).findings
    assert (finding.op, finding.site.module, finding.shows.op, finding.shows.module) == (op, "1", shows, "1")
    assert remedy in finding.remedy
    assert len(str(finding).splitlines()) == 3


TOKENS = (torch.tensor([[1, 2]]), torch.tensor([2]), torch.tensor([2]))
LOWEST = torch.finfo(F16).min
# Each row has a function and the ops of its findings.
FOUND: list[tuple[Callable[[Tensor], Tensor], list[str]]] = [
    # These infinities, if any, are intended or do not change the result.
    (lambda x: torch.softmax(x.masked_fill(torch.eye(4, dtype=torch.bool)[:2], -math.inf), -1), []),
    (lambda x: torch.softmax(x + torch.full((4, 4), -math.inf).triu(1)[:2], -1), []),
    (lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)[0], []),
    (lambda x: torch.where(x > 0, x, -math.inf).amax() * torch.ones(2, 4), []),
    (lambda x: x.new_empty(2, 4).normal_(), []),
    (lambda x: torch.abs(x.detach(), out=torch.empty_like(x)), []),
    (lambda x: torch.where(x > 0, torch.log(x.clamp(min=0)), 0.0), []),
    (lambda x: x * (torch.log(x.detach().clamp(min=0)) > -1).long(), []),
    (lambda x: x * torch.log(x.detach().clamp(min=0)).clamp(min=-9).long(), []),
    (lambda x: nn.functional.normalize(x * torch.tensor([[1.0], [0.0]])), []),
    (lambda x: torch.softmax(x + (1 - torch.eye(4)[:2].half()) * -1e9, -1), []),
    (lambda x: torch.softmax(x + (torch.full((4,), LOWEST).half() * (x > 0) + LOWEST * (x < 9)).sub(9), -1), []),
    (lambda x: torch.softmax(4 * x + (LOWEST + LOWEST * torch.eye(4)[:2].half()), -1), []),  # All elements are masked.
    (lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], LOW_MASK)[0], []),
    (lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], LOW_MASK - 3.4e38)[0], []),
    (lambda x: torch.softmax(x + LOW_MASK.repeat(1, 2).to(x.dtype), -1), []),
    (lambda x: x * x.detach().to(torch.float8_e4m3fn).to(x.dtype), []),  # Few ops support float8.
    (lambda x: nn.functional.ctc_loss(x[:, None].float().log_softmax(-1), *TOKENS) * torch.ones(2, 4), []),
    # Consequences of a finding are not findings.
    (lambda x: torch.exp(x + 20).square() * 0, ["exp"]),  # Backward reads the saved infinities.
    (lambda x: (torch.exp(x + 20).view(4, 2).t() * 0).reshape(2, 4), ["exp"]),
    (lambda x: torch.softmax((x + 300).mul(300).narrow(0, 0, 2), -1), ["mul"]),
    (lambda x: torch.softmax(x + [m := x * 0, m[0].fill_(-math.inf)][0], -1), ["softmax"]),  # A view writes the mask.
    # Infinities that only a mask reads do not hide other findings, and are not the cause of other NaNs.
    (lambda x: torch.where(x > 9, torch.log(x * 0), 0.0) + torch.softmax(x * 0 - math.inf, -1), ["softmax"]),
    (lambda x: torch.softmax(torch.exp(x + 20) * 0 + torch.eye(4)[:2].log(), -1), ["exp"]),
]


@pytest.mark.parametrize(("function", "ops"), FOUND)
def test_intended_infinities_and_consequences_of_other_findings_are_not_findings(
    function: Callable[[Tensor], Tensor], ops: list[str]
) -> None:
    assert [finding.shows.op for finding in watched(function).findings] == ops


@pytest.mark.parametrize(
    ("scalers", "optimizers", "makes_steps"),
    [
        (torch.amp.grad_scaler, torch.optim, True),
        (polycast, polycast.syncfree, True),
        (polycast, torch.optim, True),
        (torch.amp.grad_scaler, polycast.syncfree, False),
    ],
)
def test_overflow_under_a_scaler_is_a_finding_if_too_many_steps_are_skipped(
    scalers: Any, optimizers: Any, makes_steps: bool, device: str
) -> None:
    """After 16 skipped steps, each further overflow is a finding, even if ``watch`` does not receive the optimizer."""
    if device == NAME and makes_steps and (scalers, optimizers) == (polycast, polycast.syncfree):
        pytest.skip("its steps read found_inf in Python, which watch does not see")
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = optimizers.SGD(model.parameters(), lr=0.1)
    for scale, steps in ((2.0**16, 3), (2.0**40, 18)):
        scaler = scalers.GradScaler(device, init_scale=scale)
        with polycast.debug.watch(model, optimizer if makes_steps else None) as found:
            for _ in range(steps):
                with polycast.autocast(device, F16):
                    loss = (model(torch.ones(2, 4)) * 100).float().sum()
                scaler.scale(loss).backward()
                if scalers is polycast and found.steps % 2:
                    scaler.clip_grad_norm(optimizer, 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        assert found.steps == steps and scaler.get_scale() < scale
        assert [(one.step, one.shows.phase, one.skipped) for one in found.findings] == [
            (step, "backward", True) for step in range(16, steps)
        ]


def test_findings_before_an_exception_are_issued_as_a_warning() -> None:
    model = nn.Linear(2, 2)
    with (
        pytest.raises(KeyError),
        pytest.warns(UserWarning, match=r"step 0: NaN .*\n.*\n  its inputs had NaNs") as warned,
        polycast.debug.watch(model),
    ):
        model(torch.full((1, 2), math.nan))
        raise KeyError
    assert [one.filename for one in warned] == [__file__]


@pytest.mark.parametrize(
    ("data", "gradient", "first"),
    [([1.0, math.nan, 1.0], 0.0, (1, "linear", "")), ([1.0], math.nan, (0, "add_", "weight"))],
    ids=["in an earlier step", "in an earlier gradient"],
)
def test_nans_from_outside_are_found_where_they_enter(
    data: list[float], gradient: float, first: tuple[int, str, str]
) -> None:
    """A NaN in the data or in an old gradient is a finding only where it enters, not in later calls or steps."""
    model = nn.Linear(2, 2)
    model.weight.grad = torch.full((2, 2), gradient)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with polycast.debug.watch(model, optimizer) as found:
        for number in data:
            with polycast.autocast("cpu"):
                loss = model(torch.full((1, 2), number)).float().mean()
            loss.backward()
            optimizer.step()
    (finding,) = found.findings
    assert (finding.step, finding.op, finding.site.module) == first
    assert "NaNs that no watched op made" in finding.remedy and str(found) == str(finding)


@torch.library.custom_op("polycast_tests::half_only", mutates_args=())
def half_only(x: Tensor) -> Tensor:
    assert x.dtype is F16  # as in the backward of attention on some devices
    return x.clone()


def test_a_lost_gradient_is_found_although_a_kernel_in_backward_rejects_float32() -> None:
    model = nn.Linear(4, 4, bias=False)
    with polycast.debug.watch(model) as found:
        for _ in range(3):
            model.weight.grad, x = None, torch.ones(1, 4, requires_grad=True)
            with polycast.autocast("cpu", F16):
                y = x * 1
                y.register_hook(lambda grad: half_only(grad.half()).float())  # type: ignore[no-untyped-call]
                loss = model(y).float().sum() * 1e-9
            loss.backward()
            torch.optim.SGD([model.weight], lr=0.0).step()
    assert [one.name for one in found.flushed] == ["weight"]


def test_parameters_whose_gradients_underflow_in_several_steps_are_counted(device: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for scale, lost in ((1e-9, ["0.weight", "0.bias", "1.weight"]), (1.0, [])):
        with polycast.debug.watch(model, optimizer) as found:
            for _ in range(4):
                with polycast.autocast(device, F16):
                    loss = model(torch.ones(1, 4)).float().sum() * scale
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        assert [one.name for one in found.flushed] == lost
        assert str(found).count("raise its init_scale") == len(lost)


class Passing(TorchDispatchMode):
    """A dispatch mode that only runs each op. It receives the 300 of ``x * 300`` as a number, not as a tensor."""

    def __torch_dispatch__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


def test_under_a_dispatch_mode_of_the_program_the_advice_is_the_same() -> None:
    def overflow(x: Tensor) -> Tensor:
        return (x.abs() + 300) * 300

    with Passing():  # type: ignore[no-untyped-call]
        found = watched(overflow)
    assert str(found) == str(watched(overflow)) and "tried, and finite" in str(found)


@pytest.mark.parametrize(
    ("inside", "outside", "where", "remedy"),
    [
        (abs, lambda h: nn.Linear(4, 4).half()(h).float() * 1e7, "to, in backward", "in float32 it is finite, so call"),
        (abs, lambda h: (h - 1000).pow(2), "pow, in forward", "in float32 it is finite, so call"),
        # The sum is inexact, so the next ops are wrong in float32 as well.
        (lambda h: h * 0 + 17 + 60000, lambda h: (h - 60000) * 4000, "add, in forward", '({"add": "fp32"})'),
    ],
)
def test_a_call_outside_of_regions_has_advice_for_such_calls(
    inside: Any, outside: Any, where: str, remedy: str
) -> None:
    model = nn.Linear(4, 4)
    with polycast.debug.watch(model) as found:
        with polycast.autocast("cpu", F16):
            h = inside(model(torch.ones(2, 4)))
        outside(h).sum().backward()
    (finding,) = found.findings
    assert f"{finding.op}, in {finding.shows.phase}" == where and remedy in finding.remedy


def test_a_remedy_keeps_the_other_rules_of_its_module() -> None:
    model = nn.Linear(64, 2)
    polycast.assign(model, {"": {"linear": "float16", "stack": {"xpu": "unlisted"}}})
    with polycast.debug.watch(model) as found, polycast.autocast("cpu", F16):
        model(6e4 * model.weight.detach().sign())
    assert found.findings[0].remedy.endswith('{"": {"linear": "fp32", "stack": {"xpu": "unlisted"}}})')


def test_inputs_stay_alive_until_the_step_ends() -> None:
    double = Function(lambda x: x * 2)
    model, held = nn.Sequential(nn.Linear(4, 4), double), double.held
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with polycast.debug.watch(model):
        model(torch.ones(2, 4)).sum().backward()
        assert not held[0].expired()  # type: ignore[no-untyped-call]
        optimizer.step()
        assert held[0].expired()  # type: ignore[no-untyped-call]


def test_without_gradients_each_run_of_the_model_is_a_step() -> None:
    scaled = Function(lambda x: x * 300 * 300)
    model = nn.Sequential(nn.Linear(4, 4), scaled)
    with polycast.debug.watch(model) as found, torch.no_grad(), polycast.autocast("cpu", F16):
        for scale in (0.0, 0.0, 1e4):
            model(scale * torch.ones(2, 4))
        assert [one.expired() for one in scaled.held] == [True, True, False]  # type: ignore[no-untyped-call]
    assert ([one.step for one in found.findings], found.steps) == ([2], 3)


def test_no_device_sync_before_the_step_ends(real_device: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), Function(lambda x: x * 3e38 * 3e38), nn.Linear(4, 4)).to(real_device)
    optimizer = polycast.syncfree.SGD(model.parameters(), lr=0.1)
    x = torch.ones(2, 4).to(real_device)
    with polycast.debug.watch(model, optimizer) as found:
        with no_syncs(real_device):
            with polycast.autocast(real_device, torch.bfloat16):
                loss = model(x).float().sum()
            loss.backward()
        optimizer.step()
    assert (found.findings[0].op, found.findings[0].site.module) == ("mul", "1")
