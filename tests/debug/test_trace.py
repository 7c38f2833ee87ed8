"""A trace says what autocasting did to each call, and changes nothing."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import polycast
import pytest
import torch
from polycast import Policy
from polycast.debug.ops import floating, is_cast
from polycast.debug.tracing import trace
from polycast.debug.values import Op, Values
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch.nn.functional import cross_entropy, linear, mse_loss, relu

from testing.models.architectures import ARCHITECTURES, bert, llama, recurrent, resnet, yolos
from testing.models.runs import Way, different, run
from testing.probe import HAS_XLA, NO_XLA, stock_kernels

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
TRAIN = Way(train=True, one_region=False)

pytestmark = pytest.mark.usefixtures("one_thread")


def traced(call: Callable[[], object], policy: polycast.Policy | None = None) -> trace:
    with polycast.debug.trace() as t, polycast.autocast("cpu", policy=policy):
        call()
    return t


ONES = torch.ones(2, 2)
HALF = torch.ones(2, 2, dtype=BF16)
# A call; of the traced call the op, the rule, what it was given and computed in, the casts, and why.
CALLS: list[tuple[Callable[[], object], str, str, list[torch.dtype], list[torch.dtype], int, str]] = [
    (lambda: linear(ONES, ONES), "linear", "lower_precision_fp", [F32, F32], [BF16, BF16], 2, "its rule is lower"),
    (lambda: linear(HALF, HALF), "linear", "lower_precision_fp", [BF16] * 2, [BF16] * 2, 0, "needs no cast"),
    (lambda: mse_loss(HALF, HALF), "mse_loss", "fp32", [BF16] * 2, [F32] * 2, 2, "its rule is fp32"),
    (lambda: torch.cat([ONES, HALF]), "cat", "promote", [F32, BF16], [F32, F32], 1, "its rule is promote"),
    (lambda: ONES + HALF, "add.Tensor", "unlisted", [F32, BF16], [F32, BF16], 0, "no rule is for it on cpu"),
    (lambda: linear(ONES.double(), ONES.double()), "linear", "lower_precision_fp", [F64] * 2, [F64] * 2, 0, "no cast"),
    (lambda: relu(HALF), "relu", "unlisted", [BF16], [BF16], 0, "no rule is for it on cpu"),
]


@pytest.mark.parametrize(("call", "op", "rule", "given", "computed", "casts", "why"), CALLS)
def test_a_call_has_its_rule_its_types_and_its_casts(
    call: Callable[[], object],
    op: str,
    rule: str,
    given: list[torch.dtype],
    computed: list[torch.dtype],
    casts: int,
    why: str,
) -> None:
    found = traced(call).calls[-1]
    assert (found.site.op, found.rule, list(found.given), list(found.arrived)) == (op, rule, given, computed)
    assert len(found.casts) == casts
    assert why in found.why


def test_rules_come_from_where_they_were_set() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    polycast.assign(model, {"1": {"linear": "fp32"}})
    polycast.use(polycast.Policy({"relu": "fp32"}))
    try:
        with polycast.debug.trace(model) as t, polycast.autocast("cpu", policy=polycast.Policy({"gelu": "bfloat16"})):
            mse_loss(nn.functional.gelu(relu(model(ONES))), HALF)
    finally:
        polycast.use(None)
    assert [(call.site.module, call.site.op, call.rule, call.origin) for call in t.calls] == [
        ("0", "linear", "lower_precision_fp", "policy.yaml"),
        ("1", "linear", "fp32", "module: Policy: linear"),
        ("", "relu", "fp32", "process: Policy: relu"),
        ("", "gelu", "bfloat16", "region: Policy: gelu"),
        ("", "broadcast_tensors", "unlisted", ""),
        ("", "mse_loss", "fp32", "policy.yaml"),
    ]


def test_calls_with_symbolic_sizes_are_ignored(capfd: pytest.CaptureFixture[str]) -> None:
    sizes = ({0: torch.export.Dim("batch")},)
    with torch.autocast("cpu", BF16), polycast.debug.trace():
        torch.export.export(nn.Linear(4, 4), (torch.ones(2, 4),), dynamic_shapes=sizes)
    assert "RecordFunction" not in capfd.readouterr().err


def test_under_stock_kernels_casts_are_seen_too() -> None:
    with stock_kernels(), polycast.debug.trace() as t, torch.autocast("cpu", BF16):
        linear(ONES, ONES)
    assert [(call.rule, call.origin, call.arrived) for call in t.calls] == [("stock", "torch", (BF16, BF16))]


def test_a_cast_says_whether_the_cache_had_it() -> None:
    weight = nn.Linear(2, 2, bias=False)
    with polycast.debug.trace(weight) as t, polycast.autocast("cpu"):
        weight(ONES)
        weight(ONES)
    assert [[(cast.weight, cast.reused) for cast in call.casts] for call in t.calls] == [
        [(None, False), ("weight", False)],
        [(None, False), ("weight", True)],
    ]
    assert [call.site.n for call in t.calls] == [0, 1]


@pytest.mark.parametrize("device", ["cpu", "xla"])
@pytest.mark.parametrize("build", [resnet, bert, llama, yolos, recurrent])
def test_the_types_of_a_models_calls_are_those_below(
    build: Callable[[], tuple[nn.Module, list[Tensor]]], device: str
) -> None:
    """The oracle is a dispatch mode below."""
    if device == "xla" and not HAS_XLA:
        pytest.skip(NO_XLA)
    torch.manual_seed(0)
    model, (batch, *_) = build()
    model.to(device)
    below: list[tuple[int | None, bool, set[torch.dtype]]] = []

    def visit(op: Op) -> None:
        below.append((op.call, is_cast(op.function), {tensor.dtype for tensor in floating((op.args, op.kwargs))}))
        op.run()

    with polycast.debug.trace(model) as t, Values(model, visit), polycast.autocast(device):
        model(batch.to(device))
    taken = [call for call in t.calls if call.casts]
    assert len(taken) > 5
    for call in taken:
        inside = [(cast, kinds) for order, cast, kinds in below if order == call.order]
        assert {kind for kind in call.arrived if kind.is_floating_point} <= set().union(*(kinds for _, kinds in inside))
        made = [cast for cast in call.casts if not cast.reused]
        assert len(made) == len(list(takewhile(lambda one: one[0], inside))), call


def test_sums_are_those_of_the_calls() -> None:
    torch.manual_seed(0)
    model, (batch, *_) = bert()
    with polycast.debug.trace(model) as t, polycast.autocast("cpu"):
        model(batch)
    summary, totals = t.summary(), t.by_op()
    assert summary.calls == len(t.calls) == sum(row.calls for row in totals)
    assert summary.casts == sum(row.casts for row in totals) > 0
    assert summary.bytes == sum(row.bytes for row in totals) == sum(c.bytes for call in t.calls for c in call.casts)
    assert summary.modules == len({call.site.module for call in t.calls})
    assert json.loads(t.to_json())["calls"][0]["module"] == t.calls[0].site.module
    assert len(t.table().splitlines()) == len(t.calls) + 1


@pytest.mark.parametrize("build", ARCHITECTURES)
def test_a_traced_model_gives_the_same_bits(build: Callable[[], tuple[nn.Module, list[Tensor]]]) -> None:
    plain = run(build, "cpu", TRAIN, lambda: polycast.autocast("cpu"))
    watched = run(build, "cpu", TRAIN, traced_region)
    assert different(plain, watched) == []


@contextmanager
def traced_region() -> Iterator[None]:
    with polycast.debug.trace(lines=True), polycast.autocast("cpu"):
        yield


def test_a_rule_saves_the_casts_that_the_summary_says_it_saves() -> None:
    def work() -> None:
        for _ in range(3):
            mse_loss(HALF, HALF)

    t = traced(work)
    (saving,) = t.summary().savings
    assert (saving.by, saving.casts) == ('polycast.Policy({"mse_loss": "fallthrough"})', 6)
    after = traced(work, polycast.Policy({"mse_loss": "fallthrough"}))
    assert t.summary().bytes - after.summary().bytes == saving.bytes > 0


def test_frozen_weights_that_are_cast_again_could_be_kept() -> None:
    model = nn.Linear(4, 4).requires_grad_(False)
    with polycast.debug.trace(model) as t, polycast.autocast("cpu"):
        for _ in range(3):
            model(torch.ones(1, 4))
    (saving,) = t.summary().savings
    assert (saving.by, saving.casts) == ("polycast.cast_cache.keep(model)", 4)


def test_compiled_models_work_inside_of_a_trace() -> None:
    counter = CompileCounter()
    inner = nn.Linear(2, 2)
    model: Any = torch.compile(inner, fullgraph=True, backend=counter)

    @polycast.autocast("cpu")
    def run_model() -> None:
        assert model(ONES).dtype is BF16

    run_model()
    assert counter.frame_count == 1
    for named in (model, inner):
        with polycast.debug.trace(named):
            run_model()
    compiled = counter.frame_count
    run_model()
    assert counter.frame_count == compiled


def test_an_error_ends_the_trace_and_keeps_what_was_seen() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(3, 3))
    with pytest.raises(RuntimeError, match="shapes"), polycast.debug.trace(model) as t, polycast.autocast("cpu"):
        model(ONES)
    assert [call.site.module for call in t.calls] == ["0", "1"]
    assert [call.site.module for call in traced(lambda: linear(ONES, ONES)).calls] == [""]


@pytest.mark.parametrize("inner", ["trace", "watch"])
@pytest.mark.parametrize("outer", ["trace", "watch"])
def test_two_at_once_are_refused_by_their_names(outer: str, inner: str) -> None:
    model = nn.Linear(2, 2)
    first, second = getattr(polycast.debug, outer), getattr(polycast.debug, inner)
    text = (
        f"polycast.debug.{inner} cannot begin while polycast.debug.{outer} runs.*leave the polycast.debug.{outer} first"
    )
    with first(model), pytest.raises(RuntimeError, match=text), second(model):
        pass
    assert traced(lambda: linear(ONES, ONES)).calls


@pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)
def test_lines_lose_no_call_of_a_thread_that_runs_no_python() -> None:
    """Torch runs the backward of a device in such a thread, whose calls have no line."""

    def calls(*, lines: bool) -> list[str]:
        x = torch.ones(2, 2, device="xla", requires_grad=True)
        with polycast.debug.trace(lines=lines) as t, polycast.autocast("xla"):
            linear(x, x).sum().backward()  # type: ignore[no-untyped-call]
        assert not lines or {bool(call.source) for call in t.calls if call.site.phase == "backward"} == {False}
        return [call.site.op for call in t.calls]

    assert calls(lines=True) == calls(lines=False)


def test_lines_are_found_at_any_depth() -> None:
    """Finding a line runs no Python, so that it cannot exceed the limit of recursion nor be interrupted."""

    def dive() -> None:
        try:
            dive()
        except RecursionError:
            linear(ONES, ONES)

    with polycast.debug.trace(lines=True) as t, polycast.autocast("cpu"):
        dive()
    assert {call.site.op for call in t.calls} == {"linear"}
    assert all(call.source.startswith(__file__) for call in t.calls)


def test_a_trace_that_another_thread_ends_records_no_more() -> None:
    t = polycast.debug.trace()
    with ThreadPoolExecutor(1) as other:

        def call() -> None:
            with polycast.autocast("cpu"):
                linear(ONES, ONES)

        other.submit(t.__enter__).result()
        other.submit(call).result()
        t.__exit__(None, None, None)
        with polycast.debug.trace() as own:
            other.submit(call).result()
            call()
        assert (len(t.calls), len(own.calls)) == (1, 1)
        again = other.submit(polycast.debug.trace().__enter__).result()
        other.submit(call).result()
        again.__exit__(None, None, None)
        assert len(again.calls) == 1


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match="the model is 'resnet'; give"):
        polycast.debug.trace("resnet")  # type: ignore[arg-type]


def test_lines_are_those_of_the_program() -> None:
    with polycast.debug.trace(lines=True) as t, polycast.autocast("cpu"):
        cross_entropy(linear(ONES, ONES), torch.tensor([0, 1]))
    assert {call.source.rpartition(":")[0] for call in t.calls} == {__file__}
    assert "line" in t.table().splitlines()[0]


def test_the_table_of_many_calls_takes_time_by_their_number() -> None:
    """It once took time by the square of the number: 72 s for 12,000 calls."""
    (call,) = traced(lambda: linear(ONES, ONES)).calls
    t = trace()

    def seconds(count: int) -> float:
        t._calls = (call,) * count
        start = time.perf_counter()
        assert len(t.table().splitlines()) == count + 1
        return time.perf_counter() - start

    assert min(seconds(10_000) for _ in range(3)) < 30 * min(seconds(1_000) for _ in range(3))


def test_each_of_many_modules_has_its_own_rule_and_origin() -> None:
    """These are more policies than torch.compile can tell apart. The rule is that of the time of the call."""
    kinds = ("bfloat16", "float16", "fp32", "lower_precision_fp")
    model = nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(500)))
    for number, layer in enumerate(model):
        rules = Policy({"linear": kinds[number % 4], "exp": kinds[number // 4 % 4], "log": kinds[number // 16 % 4]})
        polycast.assign(layer, {"": rules | Policy({"sin": kinds[number // 64 % 4], "cos": kinds[number // 256]})})
    with polycast.debug.trace(model) as t, torch.no_grad(), polycast.autocast("cpu"):
        model(ONES)
    found = [(call.site.module, call.rule, call.origin) for call in t.calls if call.site.op == "linear"]
    assert found == [(str(number), kinds[number % 4], "module: Policy: linear") for number in range(500)]


def test_a_policy_that_was_left_within_the_trace_is_named() -> None:
    """No part of the policy is alive when the trace is read."""
    with polycast.debug.trace() as t, polycast.autocast("cpu"):
        for kind in ("float16", "fp32", "bfloat16"):
            with polycast.autocast("cpu", policy=Policy({"linear": kind, "mul": kind})):
                linear(ONES, ONES) * 2
        linear(ONES, ONES) * 2
    found = [(call.site.op.partition(".")[0], call.rule, call.origin) for call in t.calls]
    expected = [
        (op, kind, f"region: Policy: {op}") for kind in ("float16", "fp32", "bfloat16") for op in ("linear", "mul")
    ]
    assert found == [*expected, ("linear", "lower_precision_fp", "policy.yaml"), ("mul", "unlisted", "")]


def test_a_rule_is_that_of_the_kernel_while_another_thread_changes_the_process() -> None:
    """The returned dtype shows which rule the kernel followed."""
    ended = False

    def change() -> None:
        while not ended:
            for kind in ("float16", "fp32", "bfloat16"):
                polycast.use(Policy({"linear": kind}))

    try:
        with ThreadPoolExecutor(1) as other, polycast.debug.trace() as t, polycast.autocast("cpu"):
            changed = other.submit(change)
            for _ in range(2000):
                linear(ONES, ONES)
            ended = True
            changed.result()
    finally:
        polycast.use(None)
    types = {"float16": F16, "fp32": F32, "bfloat16": BF16, "lower_precision_fp": BF16}
    assert {call.returned == (types[call.rule],) for call in t.calls} == {True}


def test_a_trace_of_nothing_says_what_may_be_the_reason() -> None:
    with polycast.debug.trace() as t:
        linear(ONES, ONES)
    assert "autocasting met no call" in str(t.summary())


def test_calls_beyond_the_limit_are_not_recorded_and_that_is_said() -> None:
    with polycast.debug.trace(limit=2) as t, polycast.autocast("cpu"):
        for _ in range(4):
            linear(ONES, ONES)
    assert len(t.calls) == 2
    assert "were not recorded" in str(t.summary())
    with pytest.raises(ValueError, match="the limit is 0; give the number of calls"):
        polycast.debug.trace(limit=0)


def test_a_trace_that_has_not_ended_says_so() -> None:
    with pytest.raises(RuntimeError, match="the trace has not ended"):
        polycast.debug.trace().summary()


def test_calls_of_backward_inside_of_the_region_are_counted() -> None:
    model = nn.Linear(2, 2)
    with polycast.debug.trace(model) as t, polycast.autocast("cpu"):
        model(ONES).sum().backward()
    assert {call.site.phase for call in t.calls} == {"forward", "backward"}
    assert "of the calls are of backward" in str(t)
    ruled = t.table(ruled=True)
    assert "linear" in ruled and "unlisted" not in ruled and "unlisted" in t.table()


def test_a_trace_reads_as_its_calls() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    traced = polycast.debug.trace(model)
    with traced, polycast.autocast("cpu"):
        model(torch.ones(1, 2))
    assert traced and len(traced) == len(traced.calls) and traced[-1] is traced.calls[-1]
    assert ("0", "linear") in [(call.module, call.op) for call in traced]
    with pytest.raises(TypeError, match=r"^a trace decorates nothing; write with polycast\.debug\.trace\(model\) as t"):
        traced(model)
