"""verify: all promises hold on every device that is here, and it finds those that are broken."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import polycast
import pytest
import torch
from polycast import backends, syncfree
from polycast._compiled import without_warnings
from polycast.debug import Check, verify
from polycast.debug.verification import rules, steps, timings, verifying
from polycast.policy.rules import BUILT_IN
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

pytestmark = pytest.mark.usefixtures("one_thread")


def found(device: str, *parts: str) -> dict[str, Check]:
    """Return the checks of parts by their names."""
    return {check.name: check for check in verify(device, parts).checks}


def test_every_rule_is_kept_or_says_why_it_was_not_called(real_device: str) -> None:
    checks = found(real_device, "rules")
    assert {*checks} == {rule.name for rule in BUILT_IN if rule.device == backends.device_of(real_device)}
    assert [check for check in checks.values() if check.outcome == "broken"] == []
    assert all(check.found for check in checks.values())
    assert sum(check.outcome == "kept" for check in checks.values()) > 0.8 * len(checks)


def test_steps_and_reads_keep_their_promises(real_device: str) -> None:
    checks = found(real_device, "steps", "reads")
    assert {check.outcome for check in checks.values()} == {"kept"}, checks
    assert len(checks) == 9


def test_a_wrong_rule_is_found(real_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = backends.device_of(real_device)
    rule, other = (one for one in BUILT_IN if one.device == device and one.op in ("linear", "matmul"))
    wrong = polycast.Policy({rule.op: "fp32"})
    monkeypatch.setattr(rules, "BUILT_IN", [rule, other])
    monkeypatch.setattr(verifying, "process", SimpleNamespace(use=lambda _: polycast.use(wrong)))
    checks = found(real_device, "rules")
    assert [check.outcome for check in checks.values()] == ["broken", "kept"]
    lower = str(polycast.autocast(real_device).fast_dtype).removeprefix("torch.")
    assert f"in {lower}, given float32, values in float32, not {lower} as" in checks[rule.name].found


def test_a_read_is_found(real_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    update = polycast.GradScaler.update

    def reading(self: Any) -> None:
        self._scale.item()
        update(self)

    monkeypatch.setattr(polycast.GradScaler, "update", reading)
    checks = found(real_device, "reads").values()
    assert {check.outcome for check in checks} == {"broken"}, checks


def test_a_wrong_step_is_found(real_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = polycast.GradScaler.step

    def wrong(self: Any, optimizer: Any) -> None:
        step(self, optimizer)
        with torch.no_grad():
            for param in optimizer.param_groups[0]["params"]:
                param.mul_(1.01 if isinstance(optimizer, syncfree.AdamW) else 1.0)

    monkeypatch.setattr(polycast.GradScaler, "step", wrong)
    monkeypatch.setattr(steps, "OPTIMIZERS", {name: steps.OPTIMIZERS[name] for name in ("SGD", "AdamW")})
    checks = found(real_device, "steps")
    broken = {name for name, check in checks.items() if check.outcome == "broken"}
    assert broken == {"AdamW in float32", "AdamW in bfloat16"}
    assert "a skipped step changed" in checks["AdamW in float32"].found
    assert "the error is more than" in checks["AdamW in float32"].found


def test_an_error_is_a_broken_promise_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any, **kwargs: Any) -> None:  # noqa: ARG001
        raise TypeError("no such\nthing")

    monkeypatch.setattr(syncfree.SGD, "step", failing)
    checks = found("cpu", "steps")
    assert checks["SGD in float32"].found == "it raises TypeError: no such"
    assert checks["Adam in float32"].outcome == "kept"


@pytest.mark.parametrize(("load", "outcome"), [(1e6, "not checked"), (0.0, "broken")])
def test_times_break_no_promise_on_a_busy_machine(load: float, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(calls: dict[str, Any], *_: object) -> dict[str, list[float]]:
        return {name: [4.0, 5.0, 9.0] if name == "polycast" else [1.0] * 3 for name in calls}

    monkeypatch.setattr(timings, "_timed", timed)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    checks = found("cpu", "timings")
    assert {check.outcome for check in checks.values()} == {outcome}
    check = checks["many casts"]
    assert ("the machine is busy" in check.found) == (outcome == "not checked")
    assert "5.00 (4.50 to 7.00) times the time of torch's autocasting; polycast takes 5e+03 ms" in check.found
    assert [check.figures[f"ratio to torch{of}"] for of in ("", ", lower quartile", ", upper quartile")] == [5, 4.5, 7]


def test_nothing_of_torchs_warnings_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    torch.set_warn_always(True)
    try:
        torch.ops.aten.cholesky(torch.eye(2))
        assert "deprecated" in capfd.readouterr().err
        without_warnings(lambda: torch.ops.aten.cholesky(torch.eye(2)))
        assert capfd.readouterr().err == ""
    finally:
        torch.set_warn_always(False)


def test_what_it_changes_is_as_before() -> None:
    policy = polycast.Policy({"matmul": "fp32"})
    random, installed = torch.get_rng_state(), polycast.installed()
    with polycast.use(policy):
        verify("cpu", ["steps", "reads"])
        assert polycast.policy.in_force() == policy
    assert torch.equal(torch.get_rng_state(), random)
    assert polycast.installed() == installed


class Graph(TorchDispatchMode):
    """Stands in for a device's graph: a capture changes nothing, and a replay runs the same ops on the same tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, Any, Any, Any]] = []
        self.before: dict[int, tuple[Tensor, Tensor]] = {}
        self.made: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor) and id(leaf) not in self.made:
                self.before.setdefault(id(leaf), (leaf, leaf.detach().clone()))
        result = func(*args, **(kwargs or {}))
        self.made |= {id(leaf) for leaf in tree_leaves(result)} - self.before.keys()
        self.calls.append((func, args, kwargs or {}, result))
        return result

    def replay(self) -> None:
        with torch.no_grad():
            for func, args, kwargs, result in self.calls:
                for old, new in zip(tree_leaves(result), tree_leaves(func(*args, **kwargs)), strict=True):
                    if isinstance(old, Tensor) and old is not new:
                        old.copy_(new)


@contextmanager
def capture(graph: Graph) -> Iterator[None]:
    with graph:
        yield
    with torch.no_grad():
        for tensor, value in graph.before.values():
            tensor.copy_(value)


@pytest.mark.parametrize("drops", [False, True])
def test_a_captured_iteration_is_replayed_on_a_stand_in(drops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def new_graph(device_type: str) -> tuple[Graph, Any]:  # noqa: ARG001
        graph = Graph()
        return graph, capture(graph)

    def dropping(graph: Graph) -> None:
        graph.calls = [call for call in graph.calls if "polycast" not in str(call[0])]
        replay(graph)

    replay = Graph.replay
    monkeypatch.setattr(backends, "new_graph", new_graph)
    if drops:
        monkeypatch.setattr(Graph, "replay", dropping)
    checks = found("cpu", "graphs")
    assert {check.outcome for check in checks.values()} == {"broken" if drops else "kept"}, checks
    assert len(checks) == len(steps.OPTIMIZERS)
