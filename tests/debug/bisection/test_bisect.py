"""bisect of a Python callable: planted culprits in real models, its ends, its log."""

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import polycast
import pytest
import torch
from polycast.debug import Culprit, bisect
from torch import Tensor, nn

LOWER = polycast.policy.category("linear", "cpu")
pytestmark = pytest.mark.usefixtures("one_thread")


def overflow() -> tuple[nn.Module, Callable[[], bool]]:
    """Return a model and a check, which linear in '0' makes bad."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    for weight in model.parameters():
        nn.init.constant_(weight, 1e-3)

    def check() -> bool:
        with polycast.autocast("cpu", torch.float16):
            result = model(torch.full((1, 4), 1e6))
        return bool(result.isfinite().all())

    return model, check


Planted = tuple[nn.Module, Callable[[], bool]]


def near(model: nn.Module, run: Callable[[], Tensor]) -> Planted:
    """Return a model with a check that a run in a region differs by less than a tenth from one in float32."""
    exact = run().detach()

    def check() -> bool:
        with polycast.autocast("cpu"):
            return bool((run().detach() - exact).norm() <= 0.1 * exact.norm())

    return model, check


class Far(nn.Linear):
    """A layer whose results are far from zero, so that bfloat16 cuts off what differs in them."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = super().forward(x)
        return torch.add(result.float(), 1000)


def distances() -> Planted:
    """Distances by the product of all pairs, outside of modules, where large numbers cancel."""
    model, x = nn.Sequential(nn.Linear(16, 16), nn.Tanh()), torch.randn(8, 16)

    def run() -> Tensor:
        y = model(x).float() + 50
        squares = y.square().sum(1)
        return squares[:, None] + squares[None] - 2 * torch.mm(y, y.T).float()  # type: ignore[no-any-return]

    return near(model, run)


def norms() -> Planted:
    """A rule of the user's, which one of many norms does not bear."""
    blocks = ((layer(16, 16), nn.LayerNorm(16), nn.ReLU()) for layer in (nn.Linear, nn.Linear, Far, nn.Linear))
    model, x = nn.Sequential(*chain(*blocks)), torch.randn(8, 16)
    return near(model, lambda: model(x))


def either() -> Planted:
    """Two results that must be right, each of which is wrong by itself."""
    layers = {"left": nn.Linear(16, 16), "right": nn.Linear(16, 16), "body": nn.Linear(16, 16)}
    model, x = nn.ModuleDict(layers), torch.randn(64, 16)
    for name in ("left", "right"):
        nn.init.constant_(model[name].bias, 1000.0)  # type: ignore[arg-type]

    def run() -> Tensor:
        ends = [model[name](x).float() - 1000 for name in ("left", "right")]
        return torch.stack([*ends, model["body"](x).float()])

    exact = run().detach()

    def check() -> bool:
        with polycast.autocast("cpu"):
            errors = (run().detach() - exact).flatten(1).norm(dim=1) / exact.flatten(1).norm(dim=1)
        return bool((errors < 0.1).all())

    return model, check


LOW_NORM = {"layer_norm": "lower_precision_fp"}
FOUND: list[tuple[Callable[[], Planted], dict[str, str], set[tuple[str, str, int]]]] = [
    (distances, {}, {("mm", "", 0)}),
    (norms, LOW_NORM, {("layer_norm", "7", 0)}),
    (either, {}, {("linear", "left", 0), ("linear", "right", 1)}),
]


@pytest.mark.parametrize(("plant", "bad", "culprits"), FOUND)
def test_planted_culprits_are_found(
    plant: Callable[[], Planted], bad: dict[str, str], culprits: set[tuple[str, str, int]]
) -> None:
    """In real models; of other numbers of culprits the fakes of test_switches have more."""
    torch.manual_seed(0)
    model, check = plant()
    found = bisect(check, bad=bad, model=model)
    assert {(one.op, one.module, one.group) for one in found.culprits} == culprits and found.proved, str(found)


def test_the_result_is_a_value_that_prints_as_a_table() -> None:
    lines: list[str] = []
    model, check = overflow()
    found = bisect(check, good={"linear": "fp32", "matmul": "fp32"}, progress=lines.append, model=model)
    assert found.culprits == (Culprit("linear", "0", "fp32", LOWER, 0),)
    assert found.policy == {}
    assert found.modules == {"0": polycast.Policy({"linear": "fp32"})}
    assert (found.runs, found.switches, found.proved) == (len(lines), 8, True)
    assert str(found).splitlines() == [
        "op      module  good  bad",
        f"linear  0       fp32  {LOWER}",
        "",
        f"{found.runs} runs for 8 rules that differ, whose log2 is 3.0.",
        "With these rules as in good, the last run was good.",
    ]
    assert lines[0].startswith("run 1: good: good, ") and lines[-1].startswith(f"run {found.runs}: ")
    with polycast.assign(model, found.modules):
        assert check()
    assert not check()  # nothing is left of the search
    assert not polycast.assigned(model) and not polycast.policy.in_force()


def test_without_a_model_it_finds_ops(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("ops: {relu: fp32, mm: {cpu: fp32}}")
    _, check = overflow()
    found = bisect(check, bad=tmp_path / "bad.yaml")
    assert found.culprits == (Culprit("linear", "", "fp32", LOWER, 0),)
    assert str(found).splitlines()[:2] == ["op      good  bad", f"linear  fp32  {LOWER}"]
    assert found.policy == {"linear": "fp32", "relu": "fp32", "mm": {"cpu": "fp32"}}
    assert found.modules == {}
    assert "bad as lower_precision_fp" in repr(found.policy)
    found.policy.save(tmp_path / "found.yaml")
    assert polycast.Policy.load(tmp_path / "found.yaml") == found.policy
    with polycast.use(tmp_path / "found.yaml"):
        assert check()


def test_an_exception_of_the_check_is_bad() -> None:
    model, passes = overflow()

    def check() -> bool:
        assert passes()
        return True

    assert [one.module for one in bisect(check, model=model).culprits] == ["0"]


def test_a_search_that_is_done_is_in_its_log(tmp_path: Path) -> None:
    (model, check), runs = overflow(), list[bool]()

    def counted() -> bool:
        runs.append(check())
        return runs[-1]

    for _ in range(2):
        found = bisect(counted, log=tmp_path / "log.jsonl", model=model)
        assert [one.module for one in found.culprits] == ["0"] and len(runs) == found.runs
