"""``verify``: no check fails on any device of this machine, and injected errors are found."""

from types import SimpleNamespace
from typing import Any

import polycast
import pytest
import torch
from polycast import devices, syncfree
from polycast import verify as verifying
from polycast.debug import Check, verify
from polycast.policy.rules import BUILT_IN

from tests.support.properties import TIMES

pytestmark = pytest.mark.usefixtures("one_thread")


def rules_of(device: str) -> list[Any]:
    """Return a device's rules. For XLA, which compiles each call, return every 25th rule if ``TIMES`` is below 10."""
    rules = [rule for rule in BUILT_IN if rule.device == devices.device_of(device)]
    return rules[::25] if device == "xla" and TIMES < 10 else rules


@pytest.fixture(scope="module")
def checks(real_device: str) -> tuple[Check, ...]:
    """Return the checks under a policy. Assert that ``verify`` restores the policy, random state and installation."""
    policy, random, installed = polycast.Policy({"matmul": "fp32"}), torch.get_rng_state(), polycast.installed()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch, polycast.use(policy):
        patch.setattr(verifying, "BUILT_IN", rules_of(real_device))
        if real_device == "xla":
            patch.setattr(verifying, "OPTIMIZERS", {"AdamW": verifying.OPTIMIZERS["AdamW"]})
        found = verify(real_device)
        assert polycast.policy.current() == policy
    torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), random)
    assert polycast.installed() == installed
    return tuple(found.checks)


def test_every_rule_passes_or_has_a_reason_why_it_was_not_checked(checks: tuple[Check, ...], real_device: str) -> None:
    rules = {check.name: check for check in checks if check.part == "rules"}
    assert [*rules] == [rule.name for rule in rules_of(real_device)]
    assert [check for check in rules.values() if check.outcome == "failed"] == []
    assert all(check.found for check in rules.values())
    assert sum(check.outcome == "passed" for check in rules.values()) > 0.8 * len(rules)


def test_steps_pass(checks: tuple[Check, ...], real_device: str) -> None:
    steps = [check.outcome for check in checks if check.part == "steps"]
    assert steps == ["passed"] * (2 if real_device == "xla" else 6)


def test_a_wrong_rule_is_found(real_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = devices.device_of(real_device)
    rule, other = (one for one in BUILT_IN if one.device == device and one.op in ("linear", "matmul"))
    wrong = polycast.Policy({rule.op: "fp32"})
    monkeypatch.setattr(verifying, "BUILT_IN", [rule, other])
    monkeypatch.setattr(verifying, "process", SimpleNamespace(use=lambda _: polycast.use(wrong)))
    checks = verify(real_device, ["rules"]).checks
    assert [check.outcome for check in checks] == ["failed", "passed"]
    lower = str(polycast.autocast(real_device).fast_dtype).removeprefix("torch.")
    told = f"{lower}, given float32, values or dtypes (float32) differ from a call with inputs cast by hand ({lower})"
    assert told in checks[0].found


def test_a_wrong_step_is_found_and_an_exception_is_a_failure_that_does_not_end_verify(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = polycast.GradScaler.step

    def wrong(self: Any, optimizer: Any) -> None:
        step(self, optimizer)
        if isinstance(optimizer, syncfree.SGD):
            raise TypeError("no such\nthing")
        with torch.no_grad():
            for param in optimizer.param_groups[0]["params"]:
                param.mul_(1.01 if isinstance(optimizer, syncfree.AdamW) else 1.0)

    monkeypatch.setattr(polycast.GradScaler, "step", wrong)
    checks = {check.name: check for check in verify("cpu", ["steps"]).checks}
    passed = {name for name, check in checks.items() if check.outcome == "passed"}
    assert passed == {"Adam in float32", "Adam in bfloat16"}
    assert checks["SGD in float32"].found == "it raises TypeError: no such"
    assert "a skipped step changed" in checks["AdamW in float32"].found
    assert "the error is more than" in checks["AdamW in float32"].found


def test_warnings_of_pytorch_are_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """``verify`` does not print PyTorch's warnings about ops that it calls, such as ``lu_solve``."""
    torch.set_warn_always(True)
    try:
        verify("cpu", ["rules"])
    finally:
        torch.set_warn_always(False)
    assert capfd.readouterr().err == ""
