"""``bisect``: its search for the ops and modules that make random programs fail, and its result."""

import math
import random
from collections.abc import Callable
from functools import partial

import polycast
import pytest
import torch
from polycast.debug import Culprit, bisect
from polycast.debug.candidate_policies import CandidatePolicies, Switch
from polycast.debug.search import minimal_sets
from torch import Tensor, nn
from torch.nn.functional import linear

from tests.support.properties import TIMES

LOWER = polycast.policy.category("linear", "cpu")
pytestmark = pytest.mark.usefixtures("one_thread")

ONES = torch.ones(1, 2, 2)
OPS: dict[str, Callable[[], Tensor]] = {
    "linear": lambda: linear(ONES, ONES[0]),
    "matmul": lambda: torch.matmul(ONES, ONES),
    "bmm": lambda: torch.bmm(ONES, ONES),
    "addmm": lambda: torch.addmm(ONES[0], ONES[0], ONES[0]),
    "softmax": lambda: torch.softmax(ONES, -1),
}
GOOD = dict.fromkeys(["linear", "matmul", "bmm", "addmm", "conv2d"], "fp32")
BAD = {"softmax": LOWER}  # This rule is added to the built-in ones.


class Node(nn.Module):
    """A module that calls each op, records the ops that return a lower precision, and calls its submodules."""

    lower: list[str]

    def forward(self) -> None:
        self.lower = [op for op, call in OPS.items() if call().dtype is torch.bfloat16]
        for child in self.children():
            child()


def lower(model: nn.Module) -> set[tuple[str, str]]:
    """Run a model, and return the op and module of each call in a lower precision."""
    with polycast.autocast("cpu"):
        model()
    return {(op, name) for name, node in model.named_modules() for op in node.lower}


def is_good(model: nn.Module, culprits: list[set[tuple[str, str]]]) -> bool:
    return not any(culprit <= lower(model) for culprit in culprits)


@pytest.mark.parametrize("sizes", [[1], [2], [3], [1, 1], [2, 1], [2, 2], [1] * 5], ids=str)
def test_hidden_culprits_are_found_with_their_modules_in_few_runs(sizes: list[int]) -> None:
    """``bisect`` finds each set of calls that makes the program bad if all of them are in a lower precision."""
    for seed in range(6 * TIMES):
        draw, model = random.Random(seed), Node()
        for number in range(draw.randrange(1, 12)):
            draw.choice([*model.modules()]).add_module(f"m{number}", Node())
        calls = [(op, name) for op in OPS for name, _ in model.named_modules()]
        chosen = draw.sample(calls, sum(sizes))
        culprits = [{chosen.pop() for _ in range(size)} for size in sizes]
        before = lower(model)
        found = bisect(partial(is_good, model, culprits), GOOD, BAD, model=model)
        groups = [{one[:2] for one in found.culprits if one.group == number} for number in range(len(sizes))]
        assert sorted(map(sorted, groups)) == sorted(map(sorted, culprits))
        assert found.proved
        # The limit is a binary search and five runs per culprit, three runs per set, and eight other runs.
        each = math.ceil(math.log2(found.switches)) + 5
        assert found.runs <= 8 + sum(3 + each * size for size in sizes)
        with polycast.use(found.policy), polycast.assign(model, found.modules):
            fixed = {*calls}.difference(lower(model))
        if not any(not module for _, module in set().union(*culprits)):
            assert [len(fixed & culprit) for culprit in culprits] == [1] * len(sizes) and len(fixed) == len(sizes)
        assert lower(model) == before


def net(**shared: str) -> Node:
    """Return a model with the modules a, a.inner, a.inner.deep and b. Each option adds a module under a second name."""
    model = Node()
    for name in ("a", "a.inner", "a.inner.deep", "b"):
        around, _, last = name.rpartition(".")
        model.get_submodule(around).add_module(last, Node())
    for name, other in shared.items():
        model.add_module(name, model.get_submodule(other))
    return model


MODEL = net()


def failing(*culprits: set[tuple[str, str]], model: nn.Module = MODEL) -> partial[bool]:
    return partial(is_good, model, [*culprits])


A = ("linear", "a.inner.deep")


def test_a_program_that_fails_in_one_run_of_three_is_repeated() -> None:
    draw = random.Random(0)
    found = bisect(lambda: failing({A})() or draw.random() > 1 / 3, GOOD, repeat=24, model=MODEL)
    assert [one[:2] for one in found.culprits] == [A]
    assert "If the program fails at random" in found.notes[-1]


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_modules_that_cannot_have_rules_are_excluded() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.layers = nn.MultiheadAttention(4, 1), nn.ModuleList([nn.Linear(4, 4)])
            self.scripted, self.again = torch.jit.script(nn.Linear(4, 4)), self.layers[0]

    model = Net()
    policies = CandidatePolicies(polycast.Policy(GOOD), polycast.Policy(), model)
    places = {switch.module for switch in policies.switches}
    assert places == {"", "attention", "layers.0"}
    with polycast.assign(model, policies.candidate([Switch("linear", "")]).modules):
        assert {*polycast.assigned(model)} == {"attention", "layers.0", "again"}


def test_every_op_can_be_a_culprit() -> None:
    policies = CandidatePolicies(polycast.Policy("fp32"), polycast.Policy(), None)
    assert {policies.runs_others(op) for op, _ in policies.switches} == {True, False}


def test_the_result_is_an_immutable_value_that_prints_as_a_table() -> None:
    """The text of a result lists the culprits, the fix, the number of runs, and the probability of a wrong result."""
    lines: list[str] = []
    found = bisect(failing({A}), good={"linear": "fp32", "matmul": "fp32"}, progress=lines.append, model=MODEL)
    assert found.culprits == (Culprit(*A, "fp32", LOWER, 0),)
    assert not found.policy and found.modules == {"a.inner.deep": polycast.Policy({"linear": "fp32"})}
    assert (found.runs, found.switches, found.proved) == (len(lines) + 1, 10, True)
    assert str(found).splitlines() == [
        "op      module        good  bad",
        f"linear  a.inner.deep  fp32  {LOWER}",
        "",
        'The fix, under which the last run was good: polycast.assign(model, {"a.inner.deep": {"linear": "fp32"}})',
        f"{found.runs} runs for 10 rules that differ.",
        "Each answer that the result depends on was the same 3 times. If the program fails at random, at "
        "most 1.6% of searches end with a wrong result, and the others end with an error.",
    ]
    assert lines[0].startswith("run 2: good: good, ") and lines[-1].startswith(f"run {found.runs}: the fix")
    assert not polycast.assigned(MODEL) and not polycast.policy.current()


def test_an_exception_of_the_check_is_bad() -> None:
    runs = list[bool]()

    def raises() -> bool:
        runs.append(True)
        assert failing({A})()
        return True

    found = bisect(raises, model=MODEL)
    assert [one[:2] for one in found.culprits] == [A] and len(runs) == found.runs


def test_the_result_is_minimal_even_if_more_switches_make_it_good_again() -> None:
    for seed in range(30 * TIMES):
        draw = random.Random(seed)
        places = draw.sample(range(40), 6)
        culprits = places[:1], places[1:3], places[3:]
        mended = {frozenset(draw.sample(range(40), draw.randrange(1, 40))) for _ in range(200)}
        is_bad = partial(bad_but, mended, culprits)
        for group in searched(40, is_bad):
            assert is_bad(frozenset(group))
            assert not any(is_bad(frozenset(group) - {switch}) for switch in group)


def bad_but(mended: set[frozenset[int]], culprits: tuple[list[int], ...], bad: frozenset[int]) -> bool:
    return len(bad) == 40 or (bad not in mended and any(bad.issuperset(one) for one in culprits))


def test_a_run_that_cannot_be_tested_hides_no_culprit() -> None:
    # A run that cannot be tested does not count as bad.
    assert searched(16, lambda bad: 5 in bad and len(bad & {4, 5, 6}) == 3) == [[4, 5, 6]]
    assert searched(16, lambda bad: 9 in bad and (3 not in bad or len(bad) == 16)) == [[9]]


def searched(count: int, is_bad: Callable[[frozenset[int]], bool]) -> list[list[int]]:
    return [*minimal_sets(range(count), lambda switches, *_: is_bad(frozenset(switches)))]
