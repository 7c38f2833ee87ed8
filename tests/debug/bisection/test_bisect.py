"""bisect of a Python callable: planted culprits in real models, its ends, its log."""

from collections.abc import Callable
from pathlib import Path

import polycast
import pytest
import torch
from polycast.debug import Bisection, Culprit, bisect

from tests.support.networks.planted import PLANTED

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


@pytest.mark.parametrize(
    "name", ["mlp", "attention", "either_of_two", "best_of_two", "outliers", "places", "user_rule"]
)
def test_planted_culprits_are_found(name: str) -> None:
    planted = PLANTED[name]
    model, check = planted.make(seed=0)
    found = bisect(check, bad=planted.bad, repeat=1 if planted.fails == 1 else 24, model=model)
    groups: dict[int, set[tuple[str, str]]] = {}
    for one in found.culprits:
        groups.setdefault(one.group, set()).add((one.op, one.module))
    assert sorted(map(sorted, groups.values())) == sorted(map(sorted, planted.culprits))
    assert found.proved


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


def wrong() -> bool:
    raise RuntimeError("no such file")


def asserts() -> None:
    assert overflow()[1]() in (True, False)


ERRORS: dict[str, tuple[Callable[[], object], dict[str, object], str]] = {
    "bad in good": (list, {}, r'"good" is bad: check returned \[\]$'),
    "raises in good": (wrong, {}, r'"good" is bad: check raised RuntimeError: no such file$'),
    "good in bad": (
        lambda: 1,
        {},
        '"bad" is good; it must fail there, and obey .*: repeat=12 or --repeat 12\\): check returned 1$',
    ),
    "good in all of bad": (lambda: 1, {"repeat": 3}, '"bad" is good: check returned 1$'),
    "no answer": (
        asserts,
        {},
        "check returned None; return a true value if the program is good, and else a false one$",
    ),
    "the same ends": (list, {"good": None}, '"good" and "bad" are the same policy; give two that differ$'),
    "no runs": (list, {"repeat": True}, "the program is to run True times; give 1 or more$"),
    "the built-in policy, mistyped": (
        list,
        {"bad": "builtin"},
        "there is no policy 'builtin'; did you mean 'built-in'\\?$",
    ),
    "a file of rules for modules": (
        list,
        {"bad": {"models": {"Net": {"": "fp32"}}}},
        r"Policy: models: error: .*assign",
    ),
    "no policy": (list, {"bad": "softmax"}, "unknown category, release or file 'softmax'; give a category"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_searched_is_an_error(name: str) -> None:
    check, arguments, message = ERRORS[name]
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        bisect(check, **arguments)  # type: ignore[arg-type]


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
