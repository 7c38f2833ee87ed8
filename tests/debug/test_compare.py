"""``compare``: the errors of each op, relative to a reference run with the same random numbers."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import polycast
import pytest
import torch
from polycast.debug.tensor_stats import relative_errors
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.devices import seed
from tests.support.models.architectures import bert, resnet
from tests.support.models.runs import loss, named_tensors
from tests.support.properties import TIMES

pytestmark = pytest.mark.usefixtures("one_thread")

F32 = torch.float32
Built = tuple[nn.Module, list[Tensor]]


class Counting(nn.Module):
    """A module that counts its calls, and assigns a new tensor to its buffer in each call."""

    count: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        return x * self.count


def before_a_normalization() -> Built:
    counting = Counting()
    counting.register_buffer("count", torch.zeros(1))
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.SiLU()]
    return nn.Sequential(*layers, counting), [torch.rand(4, 3, 12, 12)]


def large_mean() -> Built:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3))
    nn.init.constant_(model[0].bias, 3e3)  # type: ignore[arg-type]
    return model, [torch.randn(8, 3, 12, 12)]


def program(build: Callable[[], Built], device: str = "cpu") -> tuple[nn.Module, Any]:
    """Return a model and a function that runs the model in bfloat16."""
    if device == "xla" and TIMES < 10:
        pytest.skip("XLA takes minutes to compile the checks of all ops; TIMES=10 runs the test")
    seed(device)
    model, (batch, *_) = build()
    model, batch = model.to(device), batch.to(device)

    def run() -> None:
        with polycast.autocast(device, torch.bfloat16):
            total = loss(dict(named_tensors("output", model(batch))))
        total.backward()  # type: ignore[no-untyped-call]

    return model, run


def test_bfloat16_has_rounding_errors_and_float32_has_none(real_device: str) -> None:
    model, run = program(resnet, real_device)
    errors = polycast.debug.compare(run, model)
    lower = [row for row in errors if row.dtypes == (torch.bfloat16,)]
    assert len(lower) > 40
    assert all(row.local is not None and row.local < 4e-3 for row in lower)
    assert max(row.so_far or 0 for row in lower) > 1e-2
    assert {row.site.phase for row in errors} == {"forward", "backward"}
    assert {row.site.module for row in errors} >= {"conv1", "layer1.0.bn1", "fc"}
    shares = [row.share for row in errors.worst()]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(1)
    assert len(errors.table(count=7).splitlines()) == 8


def test_a_program_compared_with_itself_has_no_errors(real_device: str) -> None:
    model, run = program(bert, real_device)
    errors = polycast.debug.compare(run, model.train(), reference=polycast.Policy())
    assert errors.missing == 0
    assert {row.so_far for row in errors if row.site.op not in ("to", "_to_copy")} == {0.0} == {errors.error}


def test_the_program_is_unchanged_as_after_one_run(real_device: str) -> None:
    build = before_a_normalization
    model, run = program(build, real_device)
    alone, run_alone = program(build, real_device)
    run_alone()
    after = torch.rand(1), torch.rand(1, device=real_device)
    program(build, real_device)
    polycast.debug.compare(run, model)
    assert (torch.rand(1), torch.rand(1, device=real_device)) == after
    for mine, other in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(mine.grad, other.grad)  # type: ignore[arg-type]
    assert all(torch.equal(*pair) for pair in zip(model.buffers(), alone.buffers(), strict=True))


def test_an_op_with_byte_inputs_is_not_run_again() -> None:
    """A byte tensor can be a forward kernel's workspace, so ``compare`` does not rerun its op in another dtype."""

    def run() -> None:
        with polycast.autocast("cpu"):
            torch.ones(2, 2) @ torch.ones(2, 2) * torch.ones(2, 2, dtype=torch.uint8)

    local = {row.site.op: row.local for row in polycast.debug.compare(run)}
    assert (local["matmul"], local["mul"]) == (0, None)


def test_the_conjugate_of_a_tensor_is_a_different_tensor() -> None:
    def run() -> None:
        wave = torch.fft.fft(torch.rand(2, 8))
        (wave * wave.conj()) @ torch.ones(8, 2, dtype=wave.dtype)

    assert {row.local for row in polycast.debug.compare(run)} <= {0.0, None}


def test_only_tensors_that_no_op_reads_are_results() -> None:
    """Neither the output of a layer that another op reads nor the scale of a new scaler is a result of the program."""
    layer, scaler = nn.Linear(8, 8), polycast.GradScaler("cpu")

    def run() -> None:
        with polycast.autocast("cpu", torch.float16):
            loss = layer(torch.ones(2, 8)).float().square().mean() * 0
        scaler.scale(loss).backward()

    errors = polycast.debug.compare(run, layer)
    assert max(row.so_far or 0 for row in errors) > 0
    assert errors.error == 0


def test_the_error_of_a_result_without_a_counterpart_is_not_measured() -> None:
    ops = iter([torch.exp, torch.tanh])
    errors = polycast.debug.compare(lambda: next(ops)(torch.ones(2)))
    first, *_, lost = str(errors).partition("\n\n")[0].splitlines()
    assert first.startswith("error of the results: not measured") and lost.startswith("1 of 2 calls have no")


def test_a_comparison_without_a_region_states_it() -> None:
    model = nn.Linear(2, 2)
    assert "needs a region, enter the region in run" in str(polycast.debug.compare(lambda: model(torch.ones(1, 2))))


def test_masks_of_two_dtypes_are_equal() -> None:
    scores = torch.tensor([1.0, -torch.inf])
    half, single = (scores.clamp(min=torch.finfo(dtype).min) for dtype in (torch.bfloat16, F32))
    errors = relative_errors([half], [single])
    assert not torch.equal(half, single) and errors is not None and errors.tolist() == [[0.0], [1.0]]


def test_errors_concern_results_and_not_statistics(real_device: str) -> None:
    model, run = program(large_mean, real_device)
    rows = [row for row in polycast.debug.compare(run, model) if row.site.op == "batch_norm"]
    assert max(row.so_far or 0 for row in rows) > 0.3


def test_a_gradient_that_is_zero_up_to_rounding_is_not_an_error_of_the_program() -> None:
    """The gradient of a bias before BatchNorm cancels to zero, so ``compare`` ignores its large relative error."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 16))
    x = torch.randn(64, 16)

    @polycast.autocast("cpu")
    def run() -> None:
        model(x).float().square().sum().backward()

    errors = polycast.debug.compare(run, model)
    assert max(row.so_far or 0 for row in errors if row.site.phase == "backward") > 100
    assert errors.error < 0.02 and errors.worst()[0].site.phase == "forward"


def test_reads_through_another_view_get_its_errors(real_device: str) -> None:
    """An op that reads a view has the errors of an earlier write through another view of the same tensor."""
    if real_device == "xla":
        pytest.skip("on XLA, a view below a dispatch mode does not share its base's memory")
    x = torch.rand(4, 8, device=real_device)

    def run() -> None:
        with polycast.autocast(real_device, torch.bfloat16):
            whole = torch.zeros(4, 16, device=real_device)
            whole[:, :8] = x @ x.T @ x
            whole[:, 8:] = 0.0  # This exact write must not hide the error of the other.
            whole[:, :4].exp()

    (row,) = [row for row in polycast.debug.compare(run) if row.site.op == "exp"]
    assert row.before > 1e-3


@pytest.mark.parametrize(("reference", "errs"), [({"linear": "fp32"}, True), ("torch-2.11", False), (F32, True)])
def test_a_reference_overrides_the_rules_of_modules_and_regions(reference: Any, errs: bool) -> None:
    model = nn.Linear(4, 4)
    polycast.assign(model, {"": "bfloat16"})

    @polycast.autocast("cpu", policy=polycast.Policy({"linear": "float16"}))
    def run() -> None:
        model(torch.linspace(0, 1, 8).reshape(2, 4))

    (row,) = [row for row in polycast.debug.compare(run, model, reference=reference) if row.site.op == "linear"]
    assert row.so_far is not None and (row.so_far > 0) is errs


class DrawsByType(TorchDispatchMode):
    """A dispatch mode that draws different random numbers in bfloat16, like some devices."""

    def __torch_dispatch__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in function.tags and getattr(args[0], "dtype", None) is torch.bfloat16:
            torch.rand(3), torch.rand(3, device=args[0].device)
        return function(*args, **(kwargs or {}))


def noise(x: Tensor) -> Tensor:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    noise = torch.randn_like(x) + torch.empty_like(x).exponential_() + torch.rand_like(x)
    return (x + x.exp() * noise) * (random.random() + float(numpy.random.rand()))


# Each function may draw random numbers. The flag states whether both runs use the same numbers.
DROPS: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "noise": (noise, True),
    "dropout": (lambda x: functional.dropout(x, 0.3), True),
    "native dropout": (lambda x: torch.native_dropout(x, 0.3, True)[0], True),
    "native dropout of all elements": (lambda x: torch.native_dropout(x, 1.0, True)[0], True),
    "native dropout in evaluation": (lambda x: torch.native_dropout(x, 0.3, False)[0], True),
    "bernoulli": (lambda x: x * torch.bernoulli(torch.sigmoid(x)), True),
    "attention": (lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]), True),
    "rrelu": (lambda x: functional.rrelu(x, training=True), False),
}


@pytest.mark.parametrize("name", DROPS)
def test_random_numbers_are_drawn_once_or_named(name: str, real_device: str) -> None:
    if real_device == "xla" and name != "dropout":
        pytest.skip("XLA takes seconds to compile each op; dropout shows that the device gets the numbers")
    drop, is_drawn_once = DROPS[name]
    seed(real_device)
    random.seed(0)
    model, x = nn.Linear(8, 8).to(real_device), torch.linspace(-1, 1, 128, device=real_device).reshape(16, 8)

    def run() -> None:
        with polycast.autocast(real_device, torch.bfloat16):
            drop(model(x)).float().square().sum().backward()  # type: ignore[no-untyped-call]

    with DrawsByType():  # type: ignore[no-untyped-call]
        errors = polycast.debug.compare(run, model)
    assert (max(row.so_far or 0 for row in errors) < 0.05) is is_drawn_once
    if is_drawn_once:
        assert (errors.redrawn, errors.missing) == ([], 0)
    else:
        (site,) = errors.redrawn
        assert site.op == "rrelu"
        assert f"other random numbers, which adds to the errors below: {site}\n" in str(errors)


@pytest.mark.parametrize("has_state", [False, True])
def test_the_random_state_of_an_accelerator_is_restored_if_possible(
    has_state: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``compare`` restores each device's random state, even on MPS, which has no function for all states at once."""
    states, seen = [3, 4], list[list[int]]()
    functions = {"get_rng_state": states.__getitem__, "set_rng_state": lambda state, n: states.__setitem__(n, state)}
    monkeypatch.setattr(torch, "mps", SimpleNamespace(**functions if has_state else {}))
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("mps"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)

    def run() -> None:
        seen.append([*states])
        states[1] += 1

    polycast.debug.compare(run)
    assert [*seen, states] == ([[3, 4], [3, 4], [3, 5]] if has_state else [[3, 4], [3, 5], [3, 6]])
