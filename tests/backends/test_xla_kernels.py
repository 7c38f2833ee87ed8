"""polycast's optimizer operators on XLA: torch.optim's arithmetic, nothing read back, nothing compiled twice."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from polycast.backends.xla_kernels import optim
from torch import Tensor

from tests.probe import HAS_XLA, NO_XLA
from tests.process import python
from tests.xla import DTYPES, Traffic, random, sync, xla

pytestmark = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)

Option = dict[str, Any]
ADAM: list[Option] = [
    {},
    {"weight_decay": 0.1},
    {"weight_decay": 0.1, "decoupled_weight_decay": True},
    {"amsgrad": True},
    {"maximize": True, "amsgrad": True, "weight_decay": 0.01},
    {"betas": (0.3, 0.5), "eps": 1e-3},
    {"betas": (0.0, 0.0)},
    {"lr": 0.0},
]
SGD: list[Option] = [
    {},
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    {"momentum": 0.9, "dampening": 0.4},
    {"maximize": True, "momentum": 0.5},
]
ADAM_ARGUMENTS = ("lr", "beta1", "beta2", "weight_decay", "eps", "decoupled_weight_decay", "maximize")
SGD_ARGUMENTS = ("lr", "weight_decay", "momentum", "dampening", "nesterov", "maximize")


class Stepper:
    """Parameters on XLA and the state of one of our steps."""

    def __init__(self, kind: str, values: Sequence[Tensor], options: Option, state_dtype: torch.dtype | None = None):
        self.kind, self.options = kind, {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8} | options
        self.params = [value.to(xla()) for value in values]
        self.states = [self.zeros(state_dtype) for _ in range(self._states())]
        flags = kind == "adam" or bool(options.get("dampening"))
        self.flags = [torch.zeros((), device=xla()) for _ in self.params if flags]

    def _states(self) -> int:
        return 2 + bool(self.options.get("amsgrad")) if self.kind == "adam" else int("momentum" in self.options)

    def zeros(self, dtype: torch.dtype | None) -> list[Tensor]:
        return [torch.zeros_like(param, dtype=dtype) for param in self.params]

    def step(self, grads: Sequence[Tensor], lr: Tensor | float | None = None, **controls: Tensor) -> None:
        options: Option = {"weight_decay": 0.0, "maximize": False} | self.options
        rate = options["lr"] if lr is None else lr
        options["lr"] = rate if isinstance(rate, Tensor) else torch.tensor(rate, dtype=torch.float64)
        inputs = [grad.to(xla()) for grad in grads]
        if self.kind == "adam":
            options["beta1"], options["beta2"] = options["betas"]
            taken = [options.get(name, False) for name in ADAM_ARGUMENTS]
            first, second, maximum = [*self.states, []][:3]
            arguments = dict(zip(ADAM_ARGUMENTS, taken, strict=True)) | controls
            optim.adam_step_(self.params, inputs, first, second, maximum, self.flags, **arguments)
        else:
            arguments = {name: options.get(name, 0.0) for name in SGD_ARGUMENTS} | controls
            optim.sgd_step_(self.params, inputs, self.states[0] if self.states else [], self.flags, **arguments)

    def everything(self) -> list[Tensor]:
        return [*self.params, *[tensor for state in self.states for tensor in state], *self.flags]


def reference(kind: str, values: Sequence[Tensor], options: Option) -> torch.optim.Optimizer:
    params = [value.double().requires_grad_() for value in values]
    options = {"lr": 0.01} | options
    kinds: dict[str, Callable[..., torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    return kinds[kind](params, foreach=False, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("kind", "options"), [*[("adam", options) for options in ADAM], *[("sgd", options) for options in SGD]]
)
def test_steps_are_those_of_torch_optim(kind: str, options: Option, dtype: torch.dtype) -> None:
    values = random(dtype, 0)
    state_dtype = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    ours, theirs = Stepper(kind, values, options, state_dtype), reference(kind, values, options)
    for count in range(4):
        grads = random(dtype, count + 1)
        ours.step(grads)
        for param, grad in zip(theirs.param_groups[0]["params"], grads, strict=True):
            param.grad = grad.double()
        theirs.step()
    for param, expected in zip(ours.params, theirs.param_groups[0]["params"], strict=True):
        torch.testing.assert_close(param.cpu().double(), expected.detach(), rtol=DTYPES[dtype], atol=DTYPES[dtype])


@pytest.mark.parametrize(
    ("kind", "options"), [("adam", {"amsgrad": True}), ("sgd", {"momentum": 0.9, "dampening": 0.5})]
)
@pytest.mark.parametrize("found_inf", [torch.tensor(1.0), torch.tensor([math.nan]), torch.tensor([[2.0]])])
def test_a_skipped_step_changes_no_bit(kind: str, options: Option, found_inf: Tensor) -> None:
    ours = Stepper(kind, random(torch.bfloat16, 0), options)
    ours.step(random(torch.bfloat16, 1), found_inf=torch.zeros(1).to(xla()))
    before = [tensor.cpu() for tensor in ours.everything()]
    versions = [tensor._version for tensor in ours.everything()]
    ours.step([torch.full_like(grad, math.nan) for grad in random(torch.float32, 2)], found_inf=found_inf.to(xla()))
    assert all(tensor._version > version for tensor, version in zip(ours.everything(), versions, strict=True))
    for tensor, old in zip(ours.everything(), before, strict=True):
        assert torch.equal(tensor.cpu(), old)
    assert all(flag.item() == 1 for flag in ours.flags)


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_scale_and_clip_are_applied_in_registers(kind: str) -> None:
    plain, scaled = [Stepper(kind, random(torch.float32, 0), {"weight_decay": 0.1}) for _ in range(2)]
    grads = random(torch.float32, 1)
    plain.step([grad / 1024 * 0.5 for grad in grads])
    scaled.step(grads, grad_scale=torch.tensor(1024.0, device=xla()), clip_coef=torch.tensor([0.5], device=xla()))
    for left, right in zip(plain.everything(), scaled.everything(), strict=True):
        torch.testing.assert_close(left.cpu(), right.cpu())


def test_aliases_and_views_see_the_update() -> None:
    ours = Stepper("sgd", [torch.zeros(4, 3)], {})
    param = ours.params[0]
    aliases = {
        "detach": param.detach(),
        "data": param.data,
        "row": param[1],
        "turned": param.t(),
        "flat": param.view(-1),
    }
    for count in (1, 2):
        ours.step([torch.ones(4, 3)], lr=1.0)
        seen = {name: sorted({*alias.cpu().flatten().tolist()}) for name, alias in aliases.items()}
        assert seen == {name: [-float(count)] for name in aliases}


def test_a_parameter_that_is_a_view_updates_its_base() -> None:
    base = torch.zeros(2, 3, device=xla())
    ours = Stepper("sgd", [torch.zeros(3)], {})
    ours.params = [base[0]]
    ours.step([torch.ones(3)], lr=1.0)
    assert base.cpu().tolist() == [[-1.0] * 3, [0.0] * 3]


def test_complex_parameters_are_pairs_of_real_ones() -> None:
    values = [torch.randn(3, dtype=torch.complex64)]
    grads = [torch.randn(3, dtype=torch.complex64)]
    ours, theirs = Stepper("adam", values, {}), torch.optim.Adam([values[0].clone().requires_grad_()], lr=0.01)
    theirs.param_groups[0]["params"][0].grad = grads[0]
    ours.step(grads)
    theirs.step()
    torch.testing.assert_close(ours.params[0].cpu(), theirs.param_groups[0]["params"][0].detach())


@pytest.mark.parametrize("as_tensor", [False, True], ids=["host", "device"])
@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_one_compile_and_no_transfer(kind: str, as_tensor: bool) -> None:
    ours = Stepper(kind, random(torch.float32, 0), {"weight_decay": 0.1, "momentum": 0.9})
    grads = [grad.to(xla()) for grad in random(torch.float32, 1)]
    traffic, compiles = Traffic(), []
    for count, lr in enumerate([1e-3, 2e-3, 0.0, 1.0, 1e-8, 0.9, 1 - 0.9, 0.1, -1.0, 0.5]):
        vector = torch.tensor([lr]).to(xla()) if as_tensor else torch.tensor(lr, dtype=torch.float64)
        ours.step(grads, lr=vector, found_inf=torch.tensor([float(count % 3 == 1)]).to(xla()))
        sync()
        compiles.append(traffic.compiles())
    assert compiles[1:] == [compiles[1]] * 9
    assert traffic.reads() == 0


def test_every_result_takes_its_own_old_buffer() -> None:
    """Otherwise XLA copies every tensor twice: the compiled program says whose buffer each of its results takes."""
    code = """if True:
        import torch, torch_xla
        from polycast.backends.xla_kernels import optim, scale
        lists = [[torch.rand(3, 3).to("xla") for _ in range(4)] for _ in range(4)]
        steps = [torch.zeros(()).to("xla") for _ in range(4)]
        options = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}
        torch_xla.sync(wait=True)
        lr = torch.tensor(0.1, dtype=torch.float64)
        optim.adam_step_(*lists, [], steps, lr=lr, decoupled_weight_decay=False, **options)
        torch_xla.sync(wait=True)
    """
    with TemporaryDirectory() as folder:
        python(code, XLA_FLAGS=f"--xla_dump_to={folder} --xla_dump_hlo_as_text")
        texts = [path.read_text() for path in Path(folder).glob("*cpu_after_optimizations.txt")]
    (program,) = [text for text in texts if "f32[3,3]" in text]
    assert program.count("may-alias") == 16
    assert " = f32[3,3]{1,0} copy(" not in program
