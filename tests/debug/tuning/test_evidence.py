"""One float32 run of a training tells which ops a lower precision endangers, and how long they take in it."""

import math
import weakref
from collections.abc import Callable, Iterator

import polycast
import pytest
import torch
from polycast.debug.tuning import evidence
from polycast.debug.tuning.choices import Key, category
from polycast.debug.tuning.evidence import FP32, LOWER_PRECISION, Evidence, Gathering, gather, least_of
from polycast.debug.tuning.propose import propose
from polycast.policy.plan import Plan
from polycast.policy.policy import Policy
from polycast.scope import scopes
from torch import Tensor, nn

from tests.support.devices import lower_precision
from tests.support.networks.broken import BROKEN
from tests.support.networks.training import Batch, Training, training

BF16, F16 = torch.bfloat16, torch.float16


@pytest.fixture(autouse=True)
def stubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each op takes a second in float32 and a third in the lower precision; a cast takes a tenth."""

    def stub(calls: dict[str, Callable[[], object]], _: str) -> dict[str, float]:
        return {name: {FP32: 1.0, LOWER_PRECISION: 1 / 3}.get(name, 0.1) for name in calls}

    monkeypatch.setattr(evidence, "least_of", stub)
    torch.manual_seed(0)


def evidence_of(
    model: nn.Module, *batches: Tensor, dtype: torch.dtype = BF16, device: str = "cpu"
) -> dict[tuple[str, str], Evidence]:
    """Return the evidence of a model's forward and backward, by module and op."""

    def step(batch: Tensor) -> None:
        with polycast.autocast(device, dtype):
            loss = model(batch).sum()
        loss.backward()

    return {(one.module, one.op): one for one in gather(step, batches, dtype)}


def two_layers(dtype: torch.dtype | None = BF16) -> Training:
    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        return model(batch).square().mean()  # type: ignore[no-any-return]

    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))

    generator = torch.Generator().manual_seed(0)
    batches: list[Batch] = [(torch.randn(16, 8, generator=generator),) for _ in range(4)]
    return training("two layers", build, loss, batches, "cpu", dtype)


def test_magnitudes_and_shares_are_those_of_the_tensors(real_device: str) -> None:
    torch.manual_seed(0)
    dtype = lower_precision(real_device)[0]
    large = torch.finfo(dtype).max
    model = nn.Linear(4, 3).requires_grad_(False)
    batch = torch.randn(2, 4) * torch.tensor([1, large / 2, large, 0])
    output = model(batch)
    found = evidence_of(model.to(real_device), batch.to(real_device).requires_grad_(), dtype=dtype, device=real_device)
    values = torch.cat([one.cpu().flatten().abs() for one in (batch, model.weight, model.bias, output)])
    linear = found["", "linear"]
    assert linear.largest == pytest.approx(values.max().item())
    assert linear.smallest == pytest.approx(values[values > 0].min().item())
    assert linear.overflow == pytest.approx(values.to(dtype).isinf().float().mean().item())
    assert linear.calls == 1
    assert linear.device == polycast.backends.device_of(real_device)


def test_what_is_flushed_is_the_larger_share_of_forward_and_backward() -> None:
    weights = torch.tensor([[1e-9, 1.0], [2.0, 1e-9], [1e-9, 3.0]])
    model = nn.Linear(2, 3, bias=False)
    model.weight.data.copy_(weights)
    forward = evidence_of(model, torch.ones(1, 2), dtype=F16)["", "linear"]
    assert forward.flushed == pytest.approx(3 / 11)
    backward = evidence_of(nn.Sequential(nn.Linear(2, 3), Scaled(1e-9)), torch.ones(1, 2), dtype=F16)
    assert backward["0", "linear"].flushed == 1  # its gradients, not the numbers of forward


class Scaled(nn.Module):
    """A module whose backward multiplies the gradient by a number."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: Tensor) -> Tensor:
        return x.detach() + (x - x.detach()) * self.number


@pytest.mark.parametrize(("scales", "overflow"), [(True, 0.0), (False, 1.0)], ids=["scaler", "no scaler"])
def test_a_scaler_avoids_that_gradients_overflow(scales: bool, overflow: float) -> None:
    model = nn.Sequential(nn.Linear(2, 3), Scaled(1e9))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    scaler = polycast.GradScaler("cpu", enabled=scales)

    def step(batch: Tensor) -> None:
        with polycast.autocast("cpu", F16):
            loss = model(batch).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    found = {one.op: one for one in gather(step, [torch.ones(1, 2)] * 3, F16)}["linear"]
    assert (found.overflow, found.flushed) == (overflow, 0.0)
    assert found.error < 0.01  # of the op itself: both precisions are given the same gradient


def test_a_scaler_is_known_before_its_update() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer, scaler = torch.optim.SGD([weight], lr=0.0), polycast.GradScaler("cpu")
    met: list[bool] = []
    optimizer.register_step_post_hook(lambda *_: met.append(gathering.has_scaler))
    gathering = Gathering(F16)
    with gathering.values:
        scaler.scale(weight.sum()).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        assert met == [True]


def test_nothing_gathered_is_nothing_to_choose() -> None:
    assert gather(lambda _: None, [], BF16) == []
    assert [one.reason for one in propose([], BF16)] == ["the built-in policy"]


def test_a_batch_norm_of_large_mean_moves_far_where_its_input_is_rounded() -> None:
    torch.manual_seed(0)
    found = evidence_of(nn.BatchNorm1d(4), torch.randn(64, 4) + 1000, torch.randn(64, 4) + 1000)
    assert found["", "batch_norm"].rounding > 0.5
    near = evidence_of(nn.BatchNorm1d(4), torch.randn(64, 4))["", "batch_norm"]
    assert near.rounding < 0.01
    assert near.error < 0.01


def test_an_overflow_within_a_norm_is_an_infinite_error() -> None:
    class Norm(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * x.pow(2).mean(-1, keepdim=True).rsqrt()

    found = evidence_of(Norm(), torch.full((2, 4), 300.0, requires_grad=True), dtype=F16)
    assert found["", "pow"].error == math.inf
    assert found["", "mul"].error < 0.01


def test_the_training_is_that_of_a_float32_run_and_random_state_stays() -> None:
    task = two_layers()

    def losses(gathers: bool) -> list[float]:
        found: list[float] = []
        torch.manual_seed(0)
        step = task.make()
        if gathers:
            state = torch.get_rng_state()
            gather(lambda batch: found.append(step(batch).item()), task.batches, BF16)
            assert torch.equal(torch.get_rng_state(), state)
        else:
            with scopes.over(Policy(FP32)):
                for batch in task.batches:
                    found.append(step(batch).item())
        return found

    assert losses(gathers=True) == losses(gathers=False)


def test_memory_does_not_grow_with_the_batches() -> None:
    alive: list[weakref.ref[Tensor]] = []

    def batches() -> Iterator[Tensor]:
        for _ in range(20):
            assert sum(one() is not None for one in alive) <= 1  # the loop holds the last one
            batch = torch.randn(4, 8)
            alive.append(weakref.ref(batch))
            yield batch

    model = nn.Linear(8, 8)
    kept: list[weakref.ref[Tensor]] = []

    def step(batch: Tensor) -> None:
        with polycast.autocast("cpu", BF16):
            hidden = model(batch)
        assert sum(one() is not None for one in kept) == 0
        kept.append(weakref.ref(hidden))
        hidden.sum().backward()

    (linear, *_) = gather(step, batches(), BF16)
    assert linear.calls == 20


def test_times_are_those_of_the_ops_and_their_casts() -> None:
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU(), nn.Linear(3, 2, bias=False))
    found = evidence_of(model, torch.ones(1, 2), torch.ones(1, 2))
    first, relu, last = found["0", "linear"], found["1", "relu"], found["2", "linear"]
    # A product and the gradient of its weight; relu and its gradient; of the last linear two gradients.
    assert [one.seconds[FP32] for one in (first, relu, last)] == [2, 2, 3]
    assert first.casts == {}
    assert [round(sum(one.casts.values()), 6) for one in (relu, last)] == [0.2, 0.2]
    assert first.seconds[LOWER_PRECISION] == pytest.approx(2 / 3 + 0.1 + 0.2)  # data, which has no gradient, and weight
    assert relu.seconds[LOWER_PRECISION] == pytest.approx(2 / 3 + 0.2)
    assert last.seconds[LOWER_PRECISION] == pytest.approx(1 + 0.2 + 0.2)  # the weight and what relu returned


def test_an_op_that_refuses_the_lower_precision_takes_for_ever_in_it() -> None:
    class Inverse(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            inverse: Tensor = torch.linalg.inv_ex(x)[0]
            return inverse

    found = evidence_of(Inverse(), torch.eye(3, requires_grad=True), dtype=F16)
    (inverse,) = (one for one in found.values() if one.seconds[LOWER_PRECISION] == math.inf)
    assert inverse.seconds[FP32] > 0


def test_real_times(real_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    dtype = lower_precision(real_device)[0]
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).to(real_device)
    found = evidence_of(model, *[torch.ones(2, 8, device=real_device)] * 2, dtype=dtype, device=real_device)
    for one in found.values():
        if polycast.backends.compiles_graphs(torch.device(real_device).type):
            assert one.seconds == {} and set(one.casts.values()) <= {0.0}
        else:
            assert 0 < one.seconds[FP32] < 1 and 0 < one.seconds[LOWER_PRECISION] < 1


def boldest(task: Training, dtype: torch.dtype) -> Plan:
    return propose(gather(task.make(), task.batches, dtype), dtype)[0].plan


def test_the_boldest_plan_mends_a_norm_that_overflows() -> None:
    task = BROKEN["overflow"]("cpu", F16, steps=2)
    plan = boldest(task, F16)

    def loss(plan: Plan) -> float:
        torch.manual_seed(0)
        with polycast.use(plan):
            return task.make()(task.batches[0]).item()

    assert plan not in (Plan(), Plan(FP32))
    assert abs(loss(plan) - loss(Plan(FP32))) < 0.2 * abs(loss(Plan()) - loss(Plan(FP32)))


def test_the_boldest_plan_rounds_nothing_before_a_batch_norm_of_large_mean() -> None:
    plan = boldest(BROKEN["large mean"]("cpu", BF16, steps=2), BF16)
    found = {name: category(plan, Key("LargeMean", name, "conv2d", "cpu")) for name in ("0", "3")}
    assert found == {"0": FP32, "3": LOWER_PRECISION}


def jagged(batch: Tensor) -> Tensor:
    return torch.nested.nested_tensor([batch[:3], batch[3:]], layout=torch.jagged)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda model, batch: model(batch).squeeze_(1), id="a view in place"),
        pytest.param(lambda model, batch: torch.vmap(model)(batch), id="vmap"),
        pytest.param(lambda model, batch: model(jagged(batch)).values(), id="jagged"),
    ],
)
def test_what_is_timed_runs_as_often_as_it_is_called(
    run: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "least_of", least_of)
    model = nn.Linear(8, 1)

    def step(batch: Tensor) -> None:
        with polycast.autocast("cpu", BF16):
            result = run(model, batch)
        torch.autograd.backward(result.sum())

    found = gather(step, [torch.ones(8, 8)], BF16)
    assert any(one.seconds[FP32] > 0 for one in found)
