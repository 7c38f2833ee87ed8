"""bisect: hidden culprits in drawn programs, its result and its log; and the search, on switches of nothing."""

import math
import multiprocessing
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

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
BAD = {"softmax": LOWER}  # a rule of the user's, beside the built-in ones


class Node(nn.Module):
    """A module that calls each op, notes which of them are in a lower precision, and calls the modules in it."""

    lower: list[str]

    def forward(self) -> None:
        self.lower = [op for op, call in OPS.items() if call().dtype is torch.bfloat16]
        for child in self.children():
            child()


def lower(model: nn.Module) -> set[tuple[str, str]]:
    """Return the calls of a run of a model that are in a lower precision: op and module."""
    with polycast.autocast("cpu"):
        model()
    return {(op, name) for name, node in model.named_modules() for op in node.lower}


def is_good(model: nn.Module, culprits: list[set[tuple[str, str]]]) -> bool:
    return not any(culprit <= lower(model) for culprit in culprits)


@pytest.mark.parametrize("sizes", [[1], [2], [3], [1, 1], [2, 1], [2, 2], [1] * 5], ids=str)
def test_hidden_culprits_are_found_at_their_modules_in_few_runs(sizes: list[int]) -> None:
    """A program is bad if all calls of any culprit, in modules within modules, are in a lower precision."""
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
        # For each culprit a binary search and five runs, for each set two, and the first run, the ends, and a last.
        each = math.ceil(math.log2(found.switches)) + 5
        assert found.runs <= 5 + sum(2 + each * size for size in sizes)
        with polycast.use(found.policy), polycast.assign(model, found.modules):
            fixed = {*calls}.difference(lower(model))
        if not any(not module for _, module in set().union(*culprits)):
            assert [len(fixed & culprit) for culprit in culprits] == [1] * len(sizes) and len(fixed) == len(sizes)
        assert lower(model) == before


def net() -> nn.Module:
    """Return a model of two modules, of which the first has a module in it."""
    model, a = Node(), Node()
    a.add_module("inner", Node())
    model.add_module("a", a)
    model.add_module("b", Node())
    return model


MODEL, WITH_RULES, SHARED = net(), net(), net()
polycast.assign(WITH_RULES, {"a": {"linear": LOWER}})
SHARED.add_module("c", SHARED.b)  # type: ignore[arg-type]
COMPILED = torch.compile(OPS["bmm"], backend="eager")


def is_float(call: Callable[[], Tensor]) -> bool:
    with polycast.autocast("cpu"):
        next(MODEL.children())()  # which has the same ops
        return call().dtype is torch.float32


def in_a_region_with_rules() -> bool:
    with polycast.autocast("cpu", policy={"linear": "bfloat16"}):
        MODEL()
    return "linear" not in MODEL.a.inner.lower  # type: ignore[operator, union-attr]


def in_a_thread(call: Callable[[], bool]) -> bool:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def in_a_worker() -> bool:
    process = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(not is_float(OPS["bmm"])))
    process.start()
    process.join()
    return process.exitcode == 0


def in_a_child_process() -> bool:
    """Return what a process that imports polycast would give, which takes seconds."""
    return polycast.Policy(os.environ["POLYCAST_POLICY"]).category("bmm", "cpu") == "fp32"


def gradient_survives() -> bool:
    """Its only gradient is too small for float16."""
    weight = torch.ones(2, 2, requires_grad=True)
    with polycast.autocast("cpu", torch.float16):
        loss = torch.bmm(ONES, weight[None]).float().sum() * 1e-9
    loss.backward()  # type: ignore[no-untyped-call]
    return bool(weight.grad.any())  # type: ignore[union-attr]


def einsum_is_exact() -> bool:
    with polycast.autocast("cpu"):
        return torch.einsum("bi,bi->b", 257 * ONES[0], ONES[0] / 2)[0].item() == 257


def failing(*culprits: set[tuple[str, str]], model: nn.Module = MODEL) -> partial[bool]:
    return partial(is_good, model, [*culprits])


BMM = ("bmm", "")
# The check; the model, and the culprits: op and module.
PLANTED: dict[str, tuple[Callable[[], bool], nn.Module | None, list[tuple[str, str]]]] = {
    "an op in a module": (failing({A := ("linear", "a.inner")}), MODEL, [A]),
    "two together": (failing({A, B := ("bmm", "b")}), MODEL, [A, B]),
    "either of two": (failing({A}, {B}), MODEL, [A, B]),
    "backward": (gradient_survives, MODEL, [BMM]),
    "the loss": (partial(is_float, OPS["bmm"]), MODEL, [BMM]),
    "a shared module": (failing({B}, model=SHARED), SHARED, [B]),
    "a compiled part": (partial(is_float, COMPILED), MODEL, [BMM]),
    "a thread": (lambda: in_a_thread(partial(is_float, OPS["bmm"])), MODEL, [BMM]),
    "a module in a thread": (lambda: in_a_thread(failing({A})), MODEL, [A]),
    "a worker": (in_a_worker, MODEL, [BMM]),
    "a child process": (in_a_child_process, MODEL, [BMM]),
    "a region with rules": (in_a_region_with_rules, MODEL, [A]),
    "a module with rules": (failing({A}, model=WITH_RULES), WITH_RULES, [A]),
    "an op and the op that it runs": (einsum_is_exact, None, [("einsum", "")]),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_culprits_are_found_with_the_smallest_fix(name: str) -> None:
    check, model, culprits = PLANTED[name]
    found = bisect(check, {**GOOD, "einsum": "fp32"}, model=model)
    print(found)
    assert sorted(one[:2] for one in found.culprits) == sorted(culprits)
    fix = [(op, module) for module, rules in {"": found.policy, **found.modules}.items() for op in rules]
    assert found.proved and sorted(fix) == (sorted(culprits) if name != "two together" else [A])
    assert found.runs <= 24
    is_unseen = name in ("a thread", "a module in a thread", "a worker", "a child process")
    assert ("was not recorded: a compiled part, another thread" in str(found)) is is_unseen
    assert ("fail only together: one of their rules is enough." in str(found)) is (name == "two together")


def test_a_program_that_fails_at_random_accuses_nobody_wrongly() -> None:
    answers = Counter[str]()
    for seed in range(20 * TIMES):
        draw = random.Random(seed)
        try:
            found = bisect(lambda d=draw: failing({A})() and d.random() > 0.1, GOOD, model=MODEL)  # type: ignore[misc]
            answers[str([one[:2] for one in found.culprits])] += 1
        except ValueError as error:
            answers[str(error)[:47]] += 1
    assert {*answers} == {str([A]), "the program was good and bad under the same rul"}


def test_a_program_that_fails_one_run_in_three_is_run_again() -> None:
    draw = random.Random(0)
    found = bisect(lambda: failing({A})() or draw.random() > 1 / 3, GOOD, repeat=24, model=MODEL)
    assert [one[:2] for one in found.culprits] == [A]
    assert "runs under bad rules failed. At this rate the chance of a wrong answer is 1.1%" in found.notes[-1]


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_modules_that_take_no_rules_are_left_out() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.layers = nn.MultiheadAttention(4, 1), nn.ModuleList([nn.Linear(4, 4)])
            self.scripted, self.again = torch.jit.script(nn.Linear(4, 4)), self.layers[0]

    model = Net()
    policies = CandidatePolicies(polycast.Policy(GOOD), polycast.Policy(), model)
    places = {switch.module for switch in policies.switches}
    assert places == {"", "attention", "layers.0"}
    with polycast.assign(model, policies.candidate([Switch("linear", "")]).modules) as given:
        assert {*given} == {"attention", "layers.0", "again"}


def test_the_result_is_a_value_that_prints_as_a_table() -> None:
    """Without a model it is that of `polycast bisect`."""
    lines: list[str] = []
    found = bisect(failing({A}), good={"linear": "fp32", "matmul": "fp32"}, progress=lines.append, model=MODEL)
    assert found.culprits == (Culprit(*A, "fp32", LOWER, 0),)
    assert not found.policy and found.modules == {"a.inner": polycast.Policy({"linear": "fp32"})}
    assert (found.runs, found.switches, found.proved) == (len(lines) + 1, 8, True)
    assert str(found).splitlines() == [
        "op      module   good  bad",
        f"linear  a.inner  fp32  {LOWER}",
        "",
        'The fix, under which the last run was good: polycast.assign(model, {"a.inner": {"linear": "fp32"}})',
        f"{found.runs} runs for 8 rules that differ.",
        "6 of 6 runs under bad rules failed. At this rate the chance of a wrong answer is 0.0%.",
    ]
    assert lines[0].startswith("run 2: good: good, ") and lines[-1].startswith(f"run {found.runs}: the fix")
    assert not polycast.assigned(MODEL) and not polycast.policy.current()


def test_a_search_that_is_done_is_in_its_log_and_an_exception_of_the_check_is_bad(tmp_path: Path) -> None:
    runs = list[bool]()

    def raises() -> bool:
        runs.append(True)
        assert failing({A})()
        return True

    for recorded in (0, 1):  # the second search runs only what is not in the log: the run that is recorded
        found = bisect(raises, log=tmp_path / "log.jsonl", model=MODEL)
        assert [one[:2] for one in found.culprits] == [A] and len(runs) == found.runs + recorded


def test_what_is_found_is_minimal_also_where_more_switches_make_it_good_again() -> None:
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


def test_a_run_that_cannot_be_tested_hides_nothing() -> None:
    # Such a run is not seen to be bad.
    assert searched(16, lambda bad: 5 in bad and len(bad & {4, 5, 6}) == 3) == [[4, 5, 6]]
    assert searched(16, lambda bad: 9 in bad and (3 not in bad or len(bad) == 16)) == [[9]]


def searched(count: int, is_bad: Callable[[frozenset[int]], bool]) -> list[list[int]]:
    return [*minimal_sets(range(count), lambda switches, *_: is_bad(frozenset(switches)))]
