"""``trace``: the rule of each call, the source of the rule, and the casts. Tracing changes no result."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import polycast
import pytest
import torch
from polycast.debug import tracing
from polycast.debug.tracing import trace
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch.nn.functional import linear, mse_loss, relu

from tests.debug.ops_below import calls_of, is_cast
from tests.support.devices import RESIZES, require_lstm, required
from tests.support.models.architectures import bert, recurrent, resnet

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64

pytestmark = [pytest.mark.usefixtures("one_thread"), RESIZES]


def traced(call: Callable[[], object]) -> trace:
    with polycast.debug.trace() as t, polycast.autocast("cpu"):
        call()
    return t


ONES = torch.ones(2, 2)
HALF, WIDE = ONES.to(BF16), ONES.double()
# Each row has a function and its traced call: op, rule, given dtypes, computed dtypes and number of casts.
CALLS: list[tuple[Callable[[], object], tuple[object, ...]]] = [
    (lambda: linear(ONES, ONES), ("linear", "lower_precision_fp", (F32, F32), (BF16, BF16), 2)),
    (lambda: linear(HALF, HALF), ("linear", "lower_precision_fp", (BF16, BF16), (BF16, BF16), 0)),
    (lambda: mse_loss(HALF, HALF), ("mse_loss", "fp32", (BF16, BF16), (F32, F32), 2)),
    (lambda: torch.cat([ONES, HALF]), ("cat", "promote", (F32, BF16), (F32, F32), 1)),
    (lambda: ONES + HALF, ("add.Tensor", "unlisted", (F32, BF16), (F32, BF16), 0)),
    (lambda: ONES * 2.0, ("mul.Tensor", "unlisted", (F32,), (F32,), 0)),  # A number is not a given tensor.
    (lambda: linear(WIDE, WIDE), ("linear", "lower_precision_fp", (F64, F64), (F64, F64), 0)),
]


@pytest.mark.parametrize(("call", "expected"), CALLS)
def test_a_call_has_its_rule_its_dtypes_and_its_casts(call: Callable[[], object], expected: tuple[object, ...]) -> None:
    found = traced(call).calls[-1]
    assert (found.site.op, found.rule, found.given, found.arrived, len(found.casts)) == expected


def test_calls_with_symbolic_sizes_are_ignored(capfd: pytest.CaptureFixture[str]) -> None:
    sizes = ({0: torch.export.Dim("batch")},)
    with torch.autocast("cpu", BF16), polycast.debug.trace():
        torch.export.export(nn.Linear(4, 4), (torch.ones(2, 4),), dynamic_shapes=sizes)
    assert "RecordFunction" not in capfd.readouterr().err


def test_casts_of_stock_kernels_are_recorded() -> None:
    with polycast.uninstall(), polycast.debug.trace() as t, torch.autocast("cpu", BF16):
        linear(ONES, ONES)
    assert [(call.rule, call.origin, call.arrived) for call in t.calls] == [("stock", "torch", (BF16, BF16))]


def test_a_cast_states_whether_it_was_in_the_cache(real_device: str) -> None:
    weight, ones = nn.Linear(2, 2, bias=False).to(real_device), ONES.to(real_device)
    with polycast.debug.trace(weight) as t, polycast.autocast(real_device):
        weight(ones)
        weight(ones)
    assert [[(cast.weight, cast.reused) for cast in call.casts] for call in t.calls] == [
        [(None, False), ("weight", False)],
        [(None, False), ("weight", True)],
    ]
    assert [(call.site.n, call.module, call.op) for call in t.calls] == [(0, "", "linear"), (1, "", "linear")]


@pytest.mark.parametrize("build", [resnet, bert, recurrent])
def test_the_dtypes_of_a_models_calls_match_a_dispatch_mode_below(
    build: Callable[[], tuple[nn.Module, list[Tensor]]], real_device: str
) -> None:
    """A trace lists the dtypes and casts that a dispatch mode below autocast receives."""
    if build is recurrent:
        require_lstm(real_device)
    torch.manual_seed(0)
    model, (batch, *_) = build()
    model, batch = model.to(real_device), batch.to(real_device)
    with required(real_device), torch.no_grad():
        model(batch)

    def run() -> None:
        with polycast.autocast(real_device):
            model(batch)

    step, ops = calls_of(run, model)
    checked = 0
    for index in range(len(step.calls)):
        calls = [call for call in step.intercepted(index) if call.casts]
        inside = [op for op in ops if op.call == index]
        for call in calls:
            arrived = {kind for kind in call.arrived if kind.is_floating_point}
            assert arrived <= set().union(*(op.dtypes for op in inside)), call
        made = [cast for call in calls for cast in call.casts if not cast.reused]
        given = {cast.given for cast in made}
        assert len(made) == sum(is_cast(op) and op.dtypes <= given for op in inside), calls
        checked += len(calls)
    assert checked > 5


def test_sums_equal_the_sums_over_the_calls() -> None:
    torch.manual_seed(0)
    model, (batch, *_) = bert()
    with polycast.debug.trace(model) as t, polycast.autocast("cpu"):
        model(batch)
    totals = t.by_op()
    assert len(t.calls) == sum(row.calls for row in totals) and " kB" in str(totals)
    assert sum(not cast.reused for call in t.calls for cast in call.casts) == sum(row.casts for row in totals) > 0
    assert sum(row.bytes for row in totals) == sum(cast.bytes for call in t.calls for cast in call.casts)
    assert seconds_of_table(t, 10_000) < 40 * seconds_of_table(t, 1_000)  # In quadratic time, the ratio would be 100.


def seconds_of_table(t: polycast.debug.trace, number: int) -> float:
    """Return the shortest of three CPU times for a table of ``number`` calls."""
    t._calls = t.calls[:1] * number
    times = []
    for _ in range(3):
        start = time.process_time()
        assert len(t.table().splitlines()) == number + 1
        times.append(time.process_time() - start)
    return min(times)


def test_a_rule_has_the_source_where_it_was_set(real_device: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to(real_device)
    ones, half = ONES.to(real_device), HALF.to(real_device)
    region = polycast.autocast(real_device, policy=polycast.Policy({"gelu": "bfloat16"}))
    polycast.assign(model, {"1": {"linear": "fp32"}})
    with polycast.use(polycast.Policy({"relu": "fp32"})), polycast.debug.trace(model) as t, region:
        mse_loss(nn.functional.gelu(relu(model(ones))), half)
    assert [(call.site.module, call.site.op, call.rule, call.origin) for call in t.calls] == [
        ("0", "linear", "lower_precision_fp", "policy.yaml"),
        ("1", "linear", "fp32", "module: Policy: linear"),
        ("", "relu", "fp32", "process: Policy: relu"),
        ("", "gelu", "bfloat16", "region: Policy: gelu"),
        ("", "broadcast_tensors", "unlisted", ""),
        ("", "mse_loss", "fp32", "policy.yaml"),
    ]


def test_each_of_many_modules_has_its_own_rule_and_source() -> None:
    """A trace lists the rule that applies in each of 500 modules, and the source of the rule."""
    kinds = ("bfloat16", "float16", "fp32", "lower_precision_fp")
    model = nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(500)))
    for number, layer in enumerate(model):
        ops = enumerate(("linear", "exp", "log", "sin", "cos"))
        polycast.assign(layer, {"": {op: kinds[number // 4**place % 4] for place, op in ops}})
    with polycast.debug.trace(model) as t, torch.no_grad(), polycast.autocast("cpu"):
        model(ONES)
    found = [(call.site.module, call.rule, call.origin) for call in t.calls if call.site.op == "linear"]
    assert found == [(str(number), kinds[number % 4], "module: Policy: linear") for number in range(500)]


def test_a_trace_lists_the_rule_that_the_kernel_followed_while_another_thread_changes_the_process_policy() -> None:
    """A call's traced rule matches its returned dtype, even while another thread changes the process-wide policy."""
    ended = False

    def change() -> None:
        while not ended:
            for kind in ("float16", "fp32", "bfloat16"):
                polycast.use(polycast.Policy({"linear": kind}))

    with polycast.use(None), ThreadPoolExecutor(1) as other, polycast.debug.trace() as t, polycast.autocast("cpu"):
        changed = other.submit(change)
        for _ in range(2000):
            linear(ONES, ONES)
        ended = True
        changed.result()
    types = {"float16": F16, "fp32": F32, "bfloat16": BF16, "lower_precision_fp": BF16}
    assert {call.returned == (types[call.rule],) for call in t.calls} == {True}


def test_compiled_models_work_inside_a_trace_and_a_watch() -> None:
    counter = CompileCounter()
    inner = nn.Linear(2, 2)
    model: Any = torch.compile(inner, fullgraph=True, backend=counter)
    tools = [partial(tool, named) for named in (model, inner) for tool in (polycast.debug.watch, polycast.debug.trace)]
    counts = []
    for tool in (*tools, nullcontext, nullcontext):
        with tool(), polycast.autocast("cpu"):
            assert model(ONES).dtype is BF16
        counts.append(counter.frame_count)
    assert counts[0] == 1 and counts[-1] == counts[-2]


def test_an_exception_ends_the_trace_and_its_calls_remain() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(3, 3))
    with pytest.raises(RuntimeError, match="shapes"), polycast.debug.trace(model) as t, polycast.autocast("cpu"):
        model(ONES)
    assert [call.site.module for call in t.calls] == ["0", "1"]
    assert [call.site.module for call in traced(lambda: linear(ONES, ONES)).calls] == [""]


def test_a_trace_of_lines_lists_calls_of_threads_without_python(real_device: str) -> None:
    """A trace of lines includes calls without a line, such as calls in the backward of an accelerator.

    PyTorch runs that backward in a thread without Python frames. Calls of the CPU's backward have a line.
    """

    def calls(*, lines: bool) -> list[str]:
        x = torch.ones(2, 2, device=real_device, requires_grad=True)
        with polycast.debug.trace(lines=lines) as t, polycast.autocast(real_device):
            linear(x, x).sum().backward()  # type: ignore[no-untyped-call]
        sources = {bool(call.source) for call in t.calls if call.site.phase == "backward"}
        assert not lines or sources == {real_device == "cpu"}
        return [call.site.op for call in t.calls]

    assert calls(lines=True) == calls(lines=False)


def test_lines_are_found_at_any_depth() -> None:
    """A trace finds lines even at the recursion limit, because the recorder runs no Python code for this search."""

    def dive() -> None:
        try:
            dive()
        except RecursionError:
            linear(ONES, ONES)

    with polycast.debug.trace(lines=True) as t, polycast.autocast("cpu"):
        dive()
    assert {call.site.op for call in t.calls} == {"linear"}
    assert {call.source.rpartition(":")[0] for call in t.calls} == {__file__}
    assert "line" in t.table().splitlines()[0]


def test_a_trace_that_another_thread_ends_stops_recording() -> None:
    """Any thread can end a trace. The trace also states the rules of a policy that no longer exists."""

    def call() -> None:
        with polycast.autocast("cpu", policy=polycast.Policy({"linear": "float16"})):
            linear(ONES, ONES)

    t = polycast.debug.trace()
    with ThreadPoolExecutor(1) as other:
        other.submit(t.__enter__).result()
        other.submit(call).result()
        t.__exit__(None, None, None)
        with polycast.debug.trace() as own:
            other.submit(call).result()
            call()
    assert [(call.rule, call.origin) for call in (*t.calls, *own.calls)] == [("float16", "region: Policy: linear")] * 2


def test_the_limits_of_a_trace_are_stated(real_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ones = ONES.to(real_device).requires_grad_()
    with polycast.debug.trace() as t:
        linear(ones, ones)
    assert "autocast intercepted no call" in str(t)
    with polycast.debug.trace() as t, polycast.autocast(real_device):
        linear(ones, ones).sum().backward()  # type: ignore[no-untyped-call]
    assert {call.site.phase for call in t.calls} == {"forward", "backward"}
    assert "calls ran in backward" in str(t)
    monkeypatch.setattr(tracing, "LIMIT", 2)
    for count in (2, 3):
        with polycast.debug.trace() as t, polycast.autocast(real_device):
            for _ in range(count):
                linear(ones, ones)
        assert len(t.calls) == 2 and ("were not recorded" in str(t)) is (count == 3)


def test_without_a_model_calls_have_the_names_of_classes() -> None:
    models = [nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(3)]
    with trace() as traced, polycast.autocast("cpu"):
        for model in (*models, nn.parallel.DataParallel(models[0])):
            model(torch.ones(2, 2))
        for _ in range(3):  # A new module has the name of the module that was freed before it.
            nn.Linear(2, 2)(torch.ones(2, 2))
    names = [*(f"Sequential{number}.0" for number in ("", "#2", "#3")), "Linear"]
    assert [*dict.fromkeys(call.module for call in traced.calls if call.op == "linear")] == names


def test_a_trace_of_lines_can_be_left_in_another_thread_during_calls() -> None:
    def enter(t: polycast.debug.trace, entered: threading.Event, left: threading.Event) -> None:
        t.__enter__()
        entered.set()
        with polycast.autocast("cpu"):
            while not left.is_set():
                torch.mm(torch.eye(4), torch.eye(4))

    for _ in range(20):
        t, entered, left = polycast.debug.trace(lines=True), threading.Event(), threading.Event()
        thread = threading.Thread(target=enter, args=(t, entered, left))
        thread.start()
        entered.wait()
        t.__exit__(None, None, None)
        left.set()
        thread.join()


@torch.library.custom_op("traced::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return 2 * x


@pytest.mark.parametrize("way", [double, torch.ops.traced.double, torch.ops.traced.double.default])
def test_a_custom_op_with_a_rule_is_traced_for_each_way_to_call_it(way: Callable[[Tensor], Tensor]) -> None:
    with polycast.debug.trace() as t, polycast.autocast("cpu", policy={"traced::double": "bf16"}):
        way(ONES)
    assert [(call.op, call.given, call.arrived) for call in t.calls if call.op == "traced::double"] == [
        ("traced::double", (F32,), (BF16,))
    ]
