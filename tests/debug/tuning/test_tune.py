"""tune and verify_tuned on tiny networks: results, files, pictures, and what is wrong with arguments."""

import random
import re
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import polycast
import pytest
import torch
from polycast.debug import Tuned, tune, verify_tuned
from polycast.debug.tuning import proof, runs, tuning
from polycast.debug.tuning.evidence import Evidence
from polycast.debug.tuning.runs import Step, Training
from polycast.debug.tuning.tuned import facts_of
from polycast.debug.tuning.verifying import _numbers
from polycast.policy.check import check
from polycast.policy.plan import Plan
from torch import Tensor, nn

from tests.support.devices import lower_precision

LINEAR = "linear"
BATCHES = [torch.linspace(-1, 1, 32).reshape(4, 8) + number for number in range(4)]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        result: Tensor = self.second(self.first(inputs).relu())
        return result


def trained(device: str = "cpu", dtype: str = "bfloat16", build: Callable[[], nn.Module] = Net) -> Step:
    model = build().to(device)
    optimizer = polycast.syncfree.SGD(model.parameters(), lr=0.01)
    scaler = polycast.GradScaler(device, enabled=dtype == "float16")

    def step(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=getattr(torch, dtype)):
            loss: Tensor = model(batch.to(device)).float().square().mean()
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step


class Proposed(NamedTuple):
    plan: Plan
    reason: str


def evidence(module: str, seconds: float = 1e-3) -> Evidence:
    times = {"fp32": seconds, "lower_precision_fp": 2e-3}
    return Evidence("Net", module, LINEAR, "cpu", 3, 8.0, 0.25, 0.0, 0.125, 0.01, 0.0, times, {})


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence and one candidate as they are given, a race of three short rounds, and times that no machine changes."""
    monkeypatch.setattr(Training, "evidence", lambda *_: [evidence("first"), evidence("second")])
    monkeypatch.setattr(tuning, "propose", lambda *_: [Proposed(Plan({LINEAR: {"cpu": "fp32"}}), "linear in float32")])
    monkeypatch.setattr(proof, "ROUNDS", 3)
    monkeypatch.setattr(proof, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(proof, "FEWEST_STEPS", 2)
    run = Training.run
    milliseconds = {Plan(): 3.0, Plan({LINEAR: {"cpu": "fp32"}}): 1.0}  # and 2 in float32

    def timed(self: Any, plan: Plan, *args: Any) -> Any:
        return run(self, plan, *args)._replace(seconds=milliseconds.get(plan, 2.0) / 1e3)

    monkeypatch.setattr(Training, "run", timed)


@pytest.fixture
def tuned(stubbed: None) -> Tuned:  # noqa: ARG001
    return tune(trained, BATCHES, seeds=2, data="a ramp")


def test_the_result_prints_as_what_was_tried(tuned: Tuned) -> None:
    head, table, rules = str(tuned).split("\n\n")
    assert head == "tuned: plan 1"
    peak = r" +\d+ MB"
    table, _, why = table.rpartition("\n")
    assert why == "plan 1: linear in float32"
    lines = [
        r"plan +seeds +final loss +ms a step +times float32's +peak memory",
        rf"float32 +2 +\S+ +2{peak} +keeps the loss",
        rf"built-in +2 +\S+ +3 +1\.5 \(1\.5 to 1\.5\){peak} +keeps the loss",
        rf"plan 1 +2 +\S+ +1 +0\.5 \(0\.5 to 0\.5\){peak} +the result",
    ]
    for line, pattern in zip(table.splitlines(), lines, strict=True):
        assert re.fullmatch(pattern + " *", line), line
    assert "calls=6" in rules and tuned.table() == table


def test_times_that_spread_too_much_are_doubted(tuned: Tuned) -> None:
    tuned.trials[0].rounds[:4], tuned.trials[2].rounds[:4] = [1.0] * 4, [0.5, 0.5, 4.0, 8.0]
    assert tuned.table().endswith(
        "the machine was busy: half of the times of 'plan 1' lie outside of 0.5 to 5 times float32's; "
        "measure again on an idle one"
    )


def test_a_file_holds_rules_numbers_and_facts(tuned: Tuned, tmp_path: Path) -> None:
    path = tmp_path / "tuned.yaml"
    tuned.save(path)
    assert Plan.load(path) == tuned.plan == Plan({LINEAR: {"cpu": "fp32"}})
    assert check([str(path)], []) == []
    facts = facts_of(path)
    assert {name: facts[name] for name in ("result", "dtype", "data", "seeds", "steps", "tolerance")} == {
        "result": "tuned, linear in float32",
        "dtype": "bfloat16",
        "data": "a ramp",
        "seeds": [0, 1],
        "steps": 4,
        "tolerance": 1.0,
    }
    assert facts["torch"].startswith(torch.__version__) and facts["device"].startswith("cpu")
    assert facts["ms a step"] == {
        "float32": 2.0,
        "built-in": 3.0,
        "tuned": 1.0,
        "of": "a call of the step",
    }
    assert facts["times the time of"]["built-in"] == {"low": 0.3333, "median": 0.3333, "high": 0.3333}
    assert [*facts["final losses"]] == ["float32", "built-in", "tuned"]
    note = Plan.load(path).ops.by_overload()[0].note
    assert _numbers(note) == {
        "calls": 6,
        "smallest": 0.25,
        "largest": 8,
        "overflow": 0,
        "flushed": 0.125,
        "error": 0.01,
        "fp32_ms": 2,
        "lower_precision_fp_ms": 4,
    }
    with polycast.use(path), torch.autocast("cpu"):
        assert Net()(BATCHES[0]).dtype is torch.float32


def test_where_nothing_is_faster_the_result_is_an_end(stubbed: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    monkeypatch.setattr(tuning, "propose", lambda *_: [])
    found = tune(trained, BATCHES, seeds=1)
    assert (found.name, str(found).partition("\n")[0]) == ("float32", "float32: nothing else is faster")
    assert found.plan == Plan("fp32")  # also for ops that the evidence did not see
    (linear,) = (rule for rule in found.plan.ops.by_overload() if rule.op == LINEAR and rule.device == "cpu")
    assert "calls=6" in linear.note


def test_a_step_that_changes_its_batch_is_given_the_same_in_each_run(stubbed: None) -> None:  # noqa: ARG001
    seen = []

    def make() -> Step:
        def step(batch: dict[str, Any]) -> Tensor:
            seen.append(float(batch.pop("inputs").add_(1)[0, 0]))
            return torch.ones(())

        return step

    tune(make, [{"inputs": torch.zeros(1, 1)}], seeds=1)
    assert {*seen} == {1.0}


def test_random_state_and_the_policy_of_the_process_are_left_as_they_were(stubbed: None) -> None:  # noqa: ARG001
    torch.manual_seed(7)
    random.seed(7)
    expected = torch.rand(1), random.random()
    torch.manual_seed(7)
    random.seed(7)
    tune(trained, BATCHES, seeds=1)
    assert (torch.rand(1), random.random()) == expected
    assert not polycast.policy.in_force()


def test_each_run_draws_the_same_from_numpy(stubbed: None) -> None:  # noqa: ARG001
    numpy = pytest.importorskip("numpy")
    drawn: list[float] = []

    def make() -> Step:
        drawn.append(numpy.random.rand())
        return lambda _: 1.0

    before = numpy.random.get_state()[1].tolist()
    tune(make, [1], seeds=1)
    assert len({*drawn}) == 1 < len(drawn)
    assert numpy.random.get_state()[1].tolist() == before


class Uncopied(Tensor):
    """A subclass that Python cannot copy."""


def test_a_batch_that_cannot_be_copied_is_given_as_it_is(stubbed: None) -> None:  # noqa: ARG001
    batch = torch.ones(4, 8).as_subclass(Uncopied)
    assert tune(trained, [batch], seeds=1).trials[0].runs


def test_batches_are_read_once_and_begin_anew(stubbed: None) -> None:  # noqa: ARG001
    runs: list[list[float]] = []

    def make() -> Callable[[float], float]:
        runs.append([])
        return lambda batch: runs[-1].append(batch) or 1.0  # type: ignore[func-returns-value]

    tune(make, iter([1.0, 2.0, 3.0]), seeds=1, steps=5)
    assert [1.0, 2.0, 3.0, 1.0, 2.0] in runs


def test_a_picture(tuned: Tuned, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tuned.plot(tmp_path / "tuned.png")
    assert (tmp_path / "tuned.png").stat().st_size > 10_000
    with pytest.raises(FileNotFoundError, match="the folder of the file does not exist"):
        tuned.plot(tmp_path / "absent" / "tuned.png")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_network_is_tuned_on_every_real_device(real_device: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(torch, dtype) not in lower_precision(real_device):
        pytest.skip(f"{real_device} has no {dtype}")
    monkeypatch.setattr(runs, "BATCHES", 1)
    monkeypatch.setattr(proof, "ROUNDS", 3)
    monkeypatch.setattr(proof, "ROUND_SECONDS", 0.0)
    monkeypatch.setattr(proof, "FEWEST_STEPS", 2)
    found = tune(lambda: trained(real_device, dtype, lambda: nn.Linear(8, 1)), BATCHES, dtype=dtype, seeds=1)
    assert [len(trial.runs) for trial in found.trials[:2]] == [1, 1]
    assert not found.best.complaint
    assert found.facts["dtype"] == dtype and found.facts["device"].startswith(real_device)
    ends = [trial for trial in found.trials[:2] if not trial.complaint]
    # The times of the trials are no proof: the choice is by ratios of pairs that ran one after the other.
    assert found.best in ends or any(found.best.ratios(end)[2] < 1 for end in ends)
    if found.name != "built-in":
        assert any(rule.op == LINEAR and "error=" in rule.note for rule in found.plan.ops.by_overload())


def not_made() -> object:
    return nn.Linear(1, 1)


@pytest.mark.parametrize(
    ("make", "arguments", "error"),
    [
        (not_made, {}, "make() returned the module Linear; it makes a model and an optimizer, and returns a function"),
        (lambda: None, {}, "make() returned None; it makes a model"),
        (lambda: lambda _: "0.5 or so", {}, "the step returned '0.5 or so'; let it return the loss, as one number"),
        (lambda: lambda _: torch.ones(2), {}, "the step returned a tensor of shape (2,); let it return the loss"),
        (lambda: lambda _: float("nan"), {}, "the loss of seed 0 is nan at step 0 in float32, so there is no curve"),
        (trained, {"batches": []}, "there are no batches; give those that a run trains on"),
        (trained, {"batches": 3}, "the batches are 3; give a list of what step(batch) takes"),
        (trained, {"batches": repeat(1)}, "the batches have no length; say how many a run takes, as in steps=100"),
        (trained, {"steps": 0}, "steps is 0; give the number of batches of a run, 1 or more"),
        (trained, {"seeds": []}, "there are no seeds; give one for each run, as in seeds=range(5)"),
        (trained, {"seeds": "01"}, "the seeds are '01'; give whole numbers, as in seeds=range(5)"),
        (trained, {"budget": "ten minutes"}, "the budget is 'ten minutes'; give seconds, or text such as '90s'"),
        (trained, {"budget": 0}, "the budget is 0; give seconds"),
        (trained, {"dtype": "bf17"}, "the dtype is 'bf17', which torch does not have; did you mean 'bfloat16'?"),
        (trained, {"dtype": "float64"}, "the dtype is float64; give a lower precision, float16 or bfloat16"),
        (trained, {"steps": 2.5}, "steps is 2.5; give the number of batches of a run, 1 or more"),
        (trained, {"seeds": 2.0}, "the seeds are 2.0; give whole numbers, as in seeds=range(5)"),
        (trained, {"tolerance": float("nan")}, "the tolerance is nan; give how many times the spread"),
        (trained, {"tolerance": -1}, "the tolerance is -1; give how many times the spread"),
        (trained, {"tolerance": "1"}, "the tolerance is '1'; give how many times the spread"),
        (trained, {"check": "low"}, "the check is 'low'; give a function of the losses of a plan and of float32"),
        (trained, {"check": lambda *_: None}, "check returned None; return a true value if the losses are good enough"),
        (trained, {"data": {"digits": 8}}, "data is {'digits': 8}; say in words what the batches are"),
        (5, {}, "make is 5; give a function that makes a model and returns a function step(batch) -> loss"),
    ],
)
def test_what_is_wrong_is_said(make: Any, arguments: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(error)):
        tune(make, **({"batches": BATCHES, "seeds": 1} | arguments))


@pytest.fixture
def file(tuned: Tuned, tmp_path: Path) -> Path:
    tuned.save(tmp_path / "tuned.yaml")
    return tmp_path / "tuned.yaml"


def test_verify_finds_that_all_holds(file: Path) -> None:
    found = verify_tuned(file, trained, BATCHES)
    assert found.holds and found.moved == ()
    assert str(found).startswith("the promise holds\n\nall evidence holds\n\nplan ")


def changed(file: Path, was: str, now: str) -> Path:
    text = file.read_text()
    assert was in text
    file.write_text(text.replace(was, now))
    return file


@pytest.mark.parametrize(
    ("was", "now", "moved"),
    [
        (torch.__version__, "2.8.0", "torch was 2.8.0"),
        ("error=0.01", "error=0.1", "linear, cpu: error was 0.1 and is 0.01"),
        ("fp32_ms=2", "fp32_ms=5", "linear, cpu: fp32_ms was 5 and is 2"),
        ("median: 0.5,", "median: 0.3,", "times the time of: float32 was 0.3 and is 0.5"),
        ("tuned: [", "tuned: [9.5, ", "final losses: tuned was "),
        ("linear:", "bmm:", "bmm, cpu is not called"),
    ],
)
def test_verify_finds_a_planted_change(file: Path, was: str, now: str, moved: str) -> None:
    found = verify_tuned(changed(file, was, now), trained, BATCHES)
    assert any(moved in line for line in found.moved), found.moved


def test_verify_finds_a_broken_promise(file: Path) -> None:
    """The loss is not finite, and a plan is slower that has no rule for the linear."""
    changed(file, "linear:", "bmm:")
    found = verify_tuned(file, trained, BATCHES)
    assert found.broken == ("a step takes 2.00 times the time of float32",) or found.broken == ()
    found = verify_tuned(file, trained, BATCHES, check=lambda losses, reference: losses == [9, *reference])
    assert not found.holds and str(found).startswith("the promise is broken: the check returns false for seed 0")


@pytest.mark.parametrize(
    ("was", "now", "error"),
    [
        ("tolerance: 1.0", "tolerance: abc", "'tolerance' is 'abc'"),
        ("seeds: [0, 1]", "seeds:", "'seeds' is None"),
        ("median: ", "middle: ", "'times the time of' is {"),
        ("median: 0.5", "median: half", "'times the time of' is {"),
        ("tuned: [", "tuned: []  # [", "'final losses' is {"),
        ("dtype: bfloat16", "dtype: float64", "the dtype is float64; give a lower precision"),
    ],
)
def test_verify_names_what_is_edited(was: str, now: str, error: str, file: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        verify_tuned(changed(file, was, now), trained, BATCHES)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ops: {softmax: fp32}\n", "has no line '# tuned:', so tune did not write it"),
        ("# tuned:\n#   [\nops: {}\n", "are no longer as tune wrote them"),
        ("# tuned:\n#   seeds: [0]\nops: {}\n", "are no longer as tune wrote them: there is no 'dtype'"),
    ],
)
def test_verify_takes_no_other_files(text: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(error)):
        verify_tuned(path, trained, BATCHES)
