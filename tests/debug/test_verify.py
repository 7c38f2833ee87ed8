"""verify: all checks pass on every device that is here, and it finds what is wrong."""

from types import SimpleNamespace
from typing import Any

import polycast
import pytest
import torch
from polycast import backends, syncfree
from polycast._compiled import without_warnings
from polycast.debug import Check, verify
from polycast.debug.verification import verifying
from polycast.policy.rules import BUILT_IN

pytestmark = pytest.mark.usefixtures("one_thread")


def found(device: str, *parts: str) -> dict[str, Check]:
    """Return the checks of parts by their names."""
    return {check.name: check for check in verify(device, parts).checks}


@pytest.fixture(scope="module")
def checks(real_device: str) -> tuple[Check, ...]:
    """All checks, under a rule of the process. What verify changes is as before."""
    policy, random, installed = polycast.Policy({"matmul": "fp32"}), torch.get_rng_state(), polycast.installed()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with polycast.use(policy):
        found = verify(real_device)
        assert polycast.policy.in_force() == policy
    torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), random)
    assert polycast.installed() == installed
    return tuple(found.checks)


def test_every_rule_passes_or_says_why_it_was_not_checked(checks: tuple[Check, ...], real_device: str) -> None:
    rules = {check.name: check for check in checks if check.part == "rules"}
    assert {*rules} == {rule.name for rule in BUILT_IN if rule.device == backends.device_of(real_device)}
    assert [check for check in rules.values() if check.outcome == "failed"] == []
    assert all(check.found for check in rules.values())
    assert sum(check.outcome == "passed" for check in rules.values()) > 0.8 * len(rules)


def test_steps_pass(checks: tuple[Check, ...]) -> None:
    assert [check.outcome for check in checks if check.part == "steps"] == ["passed"] * 6


def test_a_wrong_rule_is_found(real_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = backends.device_of(real_device)
    rule, other = (one for one in BUILT_IN if one.device == device and one.op in ("linear", "matmul"))
    wrong = polycast.Policy({rule.op: "fp32"})
    monkeypatch.setattr(verifying, "BUILT_IN", [rule, other])
    monkeypatch.setattr(verifying, "process", SimpleNamespace(use=lambda _: polycast.use(wrong)))
    checks = found(real_device, "rules")
    assert [check.outcome for check in checks.values()] == ["failed", "passed"]
    lower = str(polycast.autocast(real_device).fast_dtype).removeprefix("torch.")
    assert (
        f"in {lower}, given float32, other values or dtypes (float32) than cast by hand ({lower})"
        in checks[rule.name].found
    )


def test_a_wrong_step_is_found(real_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = polycast.GradScaler.step

    def wrong(self: Any, optimizer: Any) -> None:
        step(self, optimizer)
        with torch.no_grad():
            for param in optimizer.param_groups[0]["params"]:
                param.mul_(1.01 if isinstance(optimizer, syncfree.AdamW) else 1.0)

    monkeypatch.setattr(polycast.GradScaler, "step", wrong)
    monkeypatch.setattr(verifying, "OPTIMIZERS", {name: verifying.OPTIMIZERS[name] for name in ("SGD", "AdamW")})
    checks = found(real_device, "steps")
    failed = {name for name, check in checks.items() if check.outcome == "failed"}
    assert failed == {"AdamW in float32", "AdamW in bfloat16"}
    assert "a skipped step changed" in checks["AdamW in float32"].found
    assert "the error is more than" in checks["AdamW in float32"].found


def test_an_error_is_a_failure_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any, **kwargs: Any) -> None:  # noqa: ARG001
        raise TypeError("no such\nthing")

    monkeypatch.setattr(syncfree.SGD, "step", failing)
    checks = found("cpu", "steps")
    assert checks["SGD in float32"].found == "it raises TypeError: no such"
    assert checks["Adam in float32"].outcome == "passed"


def test_nothing_of_torchs_warnings_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    torch.set_warn_always(True)
    try:
        torch.ops.aten.cholesky(torch.eye(2))
        assert "deprecated" in capfd.readouterr().err
        without_warnings(lambda: torch.ops.aten.cholesky(torch.eye(2)))
        assert capfd.readouterr().err == ""
    finally:
        torch.set_warn_always(False)
