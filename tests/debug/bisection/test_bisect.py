"""bisect of a Python callable: planted culprits in real models, its ends, its log."""

from collections.abc import Callable
from pathlib import Path

import polycast
import pytest
import torch
from polycast.debug import Bisection, Culprit, bisect

from tests.support.networks.planted import PLANTED
from tests.support.properties import TIMES

LOWER = polycast.policy.category("linear", "cpu")
pytestmark = pytest.mark.usefixtures("one_thread")


def overflow() -> tuple[torch.nn.Module, Callable[[], bool]]:
    """Return a model and a check, which linear in '0' makes bad."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    for weight in model.parameters():
        torch.nn.init.constant_(weight, 1e-3)

    def check() -> bool:
        with polycast.autocast("cpu", torch.float16):
            result = model(torch.full((1, 4), 1e6))
        return bool(result.isfinite().all())

    return model, check


FAST = ("attention", "distances", "either_of_two", "best_of_two", "outliers", "places", "user_rule")


@pytest.mark.parametrize("name", PLANTED if TIMES >= 10 else FAST)
def test_planted_culprits_are_found(name: str) -> None:
    """One rule, pairs, and rules that fail one run in three. TIMES=10 searches for the others, too."""
    planted = PLANTED[name]
    model, check = planted.make(seed=0)
    found = bisect(check, bad=planted.bad, repeat=planted.repeat, model=model)
    assert planted.named(found) == len(planted.culprits), str(found)


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


def test_an_interrupted_search_goes_on_with_its_log(tmp_path: Path) -> None:
    (model, passes), runs = overflow(), []

    def check() -> bool:
        runs.append(passes())
        if len(runs) == 4:
            raise KeyboardInterrupt
        return runs[-1]

    with pytest.raises(KeyboardInterrupt):
        bisect(check, log=tmp_path / "log.jsonl", model=model)
    found: Bisection = bisect(check, log=tmp_path / "log.jsonl", model=model)
    assert [one.module for one in found.culprits] == ["0"]
    assert len(runs) == found.runs + 1  # the interrupted one alone ran again
    assert bisect(check, log=tmp_path / "log.jsonl", model=model).culprits == found.culprits
    assert len(runs) == found.runs + 1
    with pytest.raises(ValueError, match=r"is the log of another search: repeat is 1 there and 2 here$"):
        bisect(check, log=tmp_path / "log.jsonl", repeat=2, model=model)
