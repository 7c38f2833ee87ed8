"""bisect of a Python callable: planted culprits in real models, its ends, its log."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import polycast
import pytest
import torch
from polycast.debug import Bisection, Culprit, bisect
from polycast.policy.plan import Plan

from tests.support.networks.planted import PLANTED

LOWER = polycast.policy.category("linear", "cpu")
pytestmark = pytest.mark.usefixtures("one_thread")


def overflow() -> Callable[[], bool]:
    """Return a check that linear in '0' makes bad."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    for weight in model.parameters():
        torch.nn.init.constant_(weight, 1e-3)

    def check() -> bool:
        with polycast.autocast("cpu", torch.float16):
            result = model(torch.full((1, 4), 1e6))
        return bool(result.isfinite().all())

    return check


@pytest.mark.parametrize(
    "name", ["mlp", "attention", "either_of_two", "best_of_two", "outliers", "places", "user_rule"]
)
def test_planted_culprits_are_found(name: str) -> None:
    planted = PLANTED[name]
    found = bisect(planted.check(seed=0), bad=planted.bad, repeat=1 if planted.fails == 1 else 24)
    groups: dict[int, set[tuple[str, str]]] = {}
    for one in found.culprits:
        groups.setdefault(one.group, set()).add((one.op, one.module))
    assert sorted(map(sorted, groups.values())) == sorted(map(sorted, planted.culprits))
    assert found.proved


def test_the_result_is_a_value_that_prints_as_a_table(tmp_path: Path) -> None:
    lines: list[str] = []
    check = overflow()
    found = bisect(check, progress=lines.append)
    assert found.culprits == (Culprit("linear", "Sequential.0", "cpu", "fp32", LOWER, 0),)
    assert found.plan == Plan(models={"Sequential": {"0": polycast.Policy({"linear": {"cpu": "fp32"}})}})
    assert (found.runs, found.switches, found.proved) == (len(lines), 3, True)
    assert str(found).splitlines() == [
        "op      module        device  good  bad",
        f"linear  Sequential.0  cpu     fp32  {LOWER}",
        "",
        f"{found.runs} runs for 3 rules that differ, whose log2 is 1.6.",
        "With these rules as in good, the last run was good.",
    ]
    assert lines[0].startswith("run 1: good: good, ") and lines[-1].startswith(f"run {found.runs}: ")
    found.plan.save(tmp_path / "found.yaml")
    assert Plan.load(tmp_path / "found.yaml") == found.plan
    with polycast.use(tmp_path / "found.yaml"):
        assert check()
    assert not check()  # nothing is left of the search


def test_plans_with_modules_can_be_good_and_bad(tmp_path: Path) -> None:
    Plan(models={"Sequential": {"*": polycast.Policy({"linear": "fp32"})}}).save(tmp_path / "good.yaml")
    bad = Plan(polycast.Policy({"relu": "fp32"}), {"Sequential": {"2": polycast.Policy({"linear": "bf16"})}})
    found = bisect(overflow(), good=tmp_path / "good.yaml", bad=bad)
    assert [(one.op, one.module) for one in found.culprits] == [("linear", "Sequential.0")]
    assert found.plan == bad | Plan(models={"Sequential": {"0": polycast.Policy({"linear": {"cpu": "fp32"}})}})


def wrong() -> bool:
    raise RuntimeError("no such file")


def asserts() -> None:
    assert overflow()() in (True, False)


ERRORS: dict[str, tuple[Callable[[], object], dict[str, object], str]] = {
    "bad in good": (list, {}, r'"good" is bad: check returned \[\]$'),
    "raises in good": (wrong, {}, r'"good" is bad: check raised RuntimeError: no such file$'),
    "good in bad": (
        lambda: 1,
        {},
        '"bad" is good; it must fail there .*: repeat=12 or --repeat 12\\): check returned 1$',
    ),
    "good in all of bad": (lambda: 1, {"repeat": 3}, '"bad" is good: check returned 1$'),
    "no answer": (
        asserts,
        {},
        "check returned None; return a true value if the program is good, and else a false one$",
    ),
    "the same ends": (overflow(), {"good": None}, '"good" and "bad" are the same policy; give two that differ$'),
    "no runs": (overflow(), {"repeat": True}, "each plan is to run True times; give 1 or more$"),
    "the built-in policy, mistyped": (
        overflow(),
        {"bad": "builtin"},
        "there is no policy 'builtin'; did you mean 'built-in'\\?$",
    ),
    "no policy": (overflow(), {"bad": "softmax"}, "unknown category, release or file 'softmax'; give a category"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_searched_is_an_error(name: str) -> None:
    check, arguments, message = ERRORS[name]
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        bisect(check, **arguments)  # type: ignore[arg-type]


def test_an_exception_of_the_check_is_bad() -> None:
    passes = overflow()

    def check() -> bool:
        assert passes()
        return True

    assert [one.module for one in bisect(check).culprits] == ["Sequential.0"]


def test_calls_that_are_not_seen_are_searched_by_op() -> None:
    passes, seen = overflow(), []

    def check() -> bool:
        thread = Thread(target=lambda: seen.append(passes()))  # whose calls are not seen
        thread.start()
        thread.join()
        return seen.pop()

    found = bisect(check)
    assert [(one.op, one.module, one.device) for one in found.culprits] == [("linear", "", "all")]
    assert found.proved


def test_an_interrupted_search_goes_on_with_its_log(tmp_path: Path) -> None:
    passes, runs = overflow(), []

    def check() -> bool:
        runs.append(passes())
        if len(runs) == 4:
            raise KeyboardInterrupt
        return runs[-1]

    with pytest.raises(KeyboardInterrupt):
        bisect(check, log=tmp_path / "log.jsonl")
    found: Bisection = bisect(check, log=tmp_path / "log.jsonl")
    assert [one.module for one in found.culprits] == ["Sequential.0"]
    assert len(runs) == found.runs + 1  # the interrupted one alone ran again
    assert bisect(check, log=tmp_path / "log.jsonl").culprits == found.culprits
    assert len(runs) == found.runs + 1
    with pytest.raises(ValueError, match=r"is the log of another search: repeat is 1 there and 2 here$"):
        bisect(check, log=tmp_path / "log.jsonl", repeat=2)
