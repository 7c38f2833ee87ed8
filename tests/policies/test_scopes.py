"""Scopes: what holds after any program of regions and modules, what is freed, and what compiled code meets."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any
from weakref import ref

import polycast
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polycast import Policy
from polycast._compiled import find_policy, scope_depth, scope_in_force
from polycast.policy.policy import digest_of
from torch import nn

from tests.support.process import python
from tests.support.properties import examples

F32, F64, HALF, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
X = torch.eye(4)
KINDS = {"fp32": F32, "float16": HALF, "float64": F64}
Rules = dict[str, str]


def both() -> tuple[torch.dtype, torch.dtype]:
    return (X @ X).dtype, torch.sort(X).values.dtype


def region(rules: Rules) -> Any:
    return polycast.autocast("cpu", policy=Policy(rules))


class Body(nn.Module):
    """A module that runs what it is given."""

    def forward(self, body: Callable[[], object]) -> None:
        body()


class Program:
    """Runs nested statements, and says what must hold at each point: the policies by whose they are, innermost last."""

    def __init__(self) -> None:
        self.held: dict[str, list[Rules]] = {"module": [], "region": [], "process": [{}]}
        self.enabled = [False]

    def expected(self, op: str, base: torch.dtype) -> torch.dtype:
        if not self.enabled[-1]:
            return F32
        decides = [rules for layer in self.held.values() for rules in reversed(layer)]
        return next((KINDS[rules[op]] for rules in decides if op in rules), base)

    def run(self, statements: list[Any]) -> None:
        for name, *arguments in statements:
            self.check()
            getattr(self, name)(*arguments)
            self.check()

    def check(self) -> None:
        assert both() == (self.expected("matmul", BF16), self.expected("sort", F32))

    def in_region(self, rules: Rules, body: list[Any]) -> None:
        self.held["region"].append(rules)
        self.enabled.append(True)
        with region(rules):
            self.run(body)
        self.enabled.pop()
        self.held["region"].pop()

    def disabled(self, body: list[Any]) -> None:
        self.enabled.append(False)
        with torch.autocast("cpu", enabled=False):
            self.run(body)
        self.enabled.pop()

    def in_module(self, rules: Rules, body: list[Any]) -> None:
        module = Body()
        polycast.assign(module, {"": Policy(rules)})
        self.held["module"].append(rules)
        module(lambda: self.run(body))
        self.held["module"].pop()

    def failing(self, body: list[Any]) -> None:
        def fail() -> None:
            self.run(body)
            raise ZeroDivisionError

        self.held["region"].append({})
        self.enabled.append(True)
        with pytest.raises(ZeroDivisionError), polycast.autocast("cpu"):
            fail()
        self.enabled.pop()
        self.held["region"].pop()

    def generator_started_in_a_module(self, rules: Rules, inner: Rules) -> None:
        """As with torch's regions, one that a generator has entered holds until the generator leaves it."""

        def items() -> Iterator[None]:
            with region(inner):
                yield
                self.check()

        started = items()
        module = Body()
        polycast.assign(module, {"": Policy(rules)})
        module(lambda: next(started))
        self.held["region"].append(inner)
        self.enabled.append(True)
        self.check()
        next(started, None)
        self.enabled.pop()
        self.held["region"].pop()

    def used(self, rules: Rules) -> None:
        self.held["process"] = [rules]
        polycast.use(Policy(rules))


RULES = st.dictionaries(st.sampled_from(("matmul", "sort")), st.sampled_from(tuple(KINDS)))


def statements(bodies: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[list[Any]]:
    return st.lists(
        st.one_of(
            st.tuples(st.sampled_from(("in_region", "in_module")), RULES, bodies),
            st.tuples(st.sampled_from(("disabled", "failing")), bodies),
            st.tuples(st.just("generator_started_in_a_module"), RULES, RULES),
            st.tuples(st.just("used"), RULES),
        ),
        max_size=3,
    )


@given(st.recursive(st.just([]), statements, max_leaves=8))
@examples(100)
def test_what_holds_in_a_program_is_what_its_text_says(program: list[Any]) -> None:
    try:
        Program().run(program)
    finally:
        polycast.use(None)
    assert (scope_depth(), scope_in_force(), torch.is_autocast_enabled("cpu")) == (0, None, False)


def test_regions_of_two_generators_that_take_turns() -> None:
    def items(rules: Rules) -> Iterator[tuple[torch.dtype, torch.dtype]]:
        with region(rules):
            yield both()

    pairs = zip(items({"matmul": "fp32"}), items({"sort": "float16"}), strict=True)
    assert list(pairs) == [((F32, F32), (F32, HALF))]
    assert (scope_depth(), both()) == (0, (F32, F32))


def test_a_generator_with_a_plain_region_may_be_closed_by_another_thread() -> None:
    def items() -> Iterator[None]:
        with polycast.autocast("cpu"):
            yield

    program = items()
    errors: list[BaseException] = []

    def close() -> None:
        try:
            program.close()  # type: ignore[attr-defined]
        except BaseException as error:
            errors.append(error)

    def run() -> None:
        next(program)
        other = Thread(target=close)
        other.start()
        other.join()

    thread = Thread(target=run)
    thread.start()
    thread.join()
    assert errors == []


@pytest.mark.parametrize("rules", [None, {"matmul": "fp32"}])
def test_an_interrupt_leaves_no_region_open(rules: Rules | None) -> None:
    policy = None if rules is None else Policy(rules)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    open_after = 0
    try:
        for number in range(200):
            opened = polycast.autocast("cpu", policy=policy) if policy else polycast.autocast("cpu")
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + number * 1e-6)
                while True:
                    with opened:
                        pass
            except KeyboardInterrupt:
                open_after += scope_depth() != 0 or torch.is_autocast_enabled("cpu")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert open_after == 0


def test_a_policy_is_freed_with_whoever_holds_it() -> None:
    policy = Policy({"matmul": "fp32", "tril": "float64"})
    with polycast.autocast("cpu", policy=policy):
        assert both() == (F32, F32)
    digest, alive = digest_of(policy.by_overload()), ref(policy)
    assert find_policy(digest) is not None
    del policy
    gc.collect()
    assert (alive(), find_policy(digest)) == (None, None)


def test_a_deleted_model_with_rules_is_gone_at_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    polycast.assign(model, {"": "fp32", "0": "float16"})
    model(X)
    alive = ref(model), ref(model[0])
    gc.disable()
    try:
        del model
        assert [one() for one in alive] == [None, None]
    finally:
        gc.enable()


def test_hundreds_of_scopes_cost_what_ten_do() -> None:
    names = polycast.policy.ops("cpu", "fp32")
    kinds = ("fp32", "float64", "float16", "bfloat16")
    policies = [Policy({f"aten::{name}": kind, "matmul": "float16"}) for kind in kinds for name in names]
    regions = [polycast.autocast("cpu", policy=policy) for policy in policies]
    assert len(regions) >= 100

    def seconds(number: int) -> float:
        start = time.perf_counter()
        for _ in range(20):
            with regions[number]:
                assert (X @ X).dtype == HALF
        return time.perf_counter() - start

    for number in range(len(regions)):
        seconds(number)
    times = [(seconds(10), seconds(len(regions) - 1)) for _ in range(50)]
    early, late = map(min, zip(*times, strict=True))
    assert late < 1.5 * early


def test_compiled_code_is_found_again_in_its_scope() -> None:
    torch._dynamo.reset()
    compiled: list[object] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:  # noqa: ARG001
        compiled.append(graph)
        return graph.forward

    square = torch.compile(lambda x: x @ x, backend=backend)
    regions = {name: region({"matmul": kind}) for name, kind in zip("ABC", KINDS, strict=True)}
    kinds = dict(zip("ABC", KINDS.values(), strict=True)) | {"-": F32}
    for name in "-AABAB-CACB":
        if name == "-":
            assert square(X).dtype == F32
        else:
            with regions[name]:
                assert square(X).dtype == kinds[name]
    assert len(compiled) == 4


MORE_THAN_NUMBERS = """
import polycast, torch
from polycast import Policy
torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1000
kinds = {"fp32": torch.float32, "float64": torch.float64}
names = [name for name in polycast.policy.ops("cpu", "fp32") if name != "matmul"]
policies = [(Policy({f"aten::{name}": "fp32", "matmul": kind}), kinds[kind]) for kind in kinds for name in names]
square = torch.compile(lambda x: x @ x, backend="eager")
whole = torch.compile(lambda x: x @ x + 1, backend="eager", fullgraph=True)
print(len(policies) > 60)
for policy, kind in policies[:60] * 2:
    with polycast.autocast("cpu", policy=policy):
        assert square(torch.eye(2)).dtype == kind
with polycast.autocast("cpu", policy=policies[0][0]):
    print(whole(torch.eye(2)).dtype)
try:
    with polycast.autocast("cpu", policy=policies[59][0]):
        whole(torch.eye(2))
except RuntimeError as error:
    print(str(error).splitlines()[0])
with polycast.autocast("cpu", policy=policies[0][0]):
    print(whole(torch.eye(2)).dtype)
"""


def test_scopes_beyond_those_that_torch_compile_can_tell_apart_run_uncompiled() -> None:
    lines = python(MORE_THAN_NUMBERS, TORCH_LOGS="-all").splitlines()
    assert lines[:2] + lines[3:] == ["True", "torch.float32", "torch.float32"]
    assert lines[2].startswith("torch.compile has met as many scopes of policies in this process as it can tell apart")


USED_BESIDE_THREADS = """
import polycast, torch, threading
from polycast import Policy
square = torch.compile(lambda x: x @ x, backend="eager")
done = threading.Event()
other = threading.Thread(target=done.wait)
other.start()  # so that nothing may be dropped
found = []
for kind in ("fp32", "float16", None, "fp32"):
    polycast.use(Policy({"matmul": kind}) if kind else None)
    with polycast.autocast("cpu"):
        found += [str(square(torch.eye(2)).dtype), str(square(torch.eye(2)).dtype)]
done.set()
print(*found)
"""


def test_compiled_code_follows_the_process_beside_other_threads() -> None:
    types = [f"torch.{kind}" for kind in ("float32", "float16", "bfloat16", "float32") for _ in range(2)]
    assert python(USED_BESIDE_THREADS, TORCH_LOGS="-all").split() == types


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_threads_that_compile_enter_fork_and_use_at_once() -> None:
    seconds = os.environ.get("STRESS", "5")
    run = subprocess.run(
        [sys.executable, "-m", "tests.policies.stress", seconds], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]


def test_policies_change_while_another_thread_imports_the_compiler() -> None:
    python("""
import threading, polycast, torch
policy = polycast.Policy({"linear": "fp32"})
layer, x = torch.nn.Linear(2, 2), torch.ones(2, 2)
thread = threading.Thread(target=lambda: torch.compile(layer, backend="eager")(x))
thread.start()
while thread.is_alive():
    polycast.use(policy)
    polycast.use(None)
""")
