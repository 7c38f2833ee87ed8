"""``polycast verify``: the table and the exit status."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from polycast import verify as verifying
from polycast.cli.commands import main
from polycast.debug import Check
from polycast.verify import DESCRIPTIONS

PASSED = Check("steps", "a step", "passed", "as it should")
FAILED = Check("steps", "a bad step", "failed", "the skipped step changed 3 tensors")
ABSENT = [Check("rules", name, "not checked", "no kernel here") for name in ("one", "two")]


def having(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> None:
    """Make ``verify`` return these checks instead of its own."""

    def part(name: str, device_type: str) -> Iterator[tuple[str, Callable[[], tuple[str, str]]]]:
        assert device_type == "cpu"
        for check in checks:
            if check.part == name:
                yield check.name, partial(lambda found: (found.outcome, found.found), check)

    for name in ("rules", "steps"):
        monkeypatch.setitem(verifying.PARTS, name, partial(part, name))


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the printed lines after the description of the installation."""
    return capsys.readouterr().out.partition("\n\n")[2].splitlines()


def test_it_prints_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    having(monkeypatch, *ABSENT, PASSED)
    assert main(["verify", "rules", "steps", "steps", "--device", "cpu"]) == 0
    assert shown(capsys) == [
        f"rules: {DESCRIPTIONS['rules']}",
        "  0 passed, 0 failed, 2 not checked",
        "  not checked: no kernel here: one, two",
        "",
        f"steps: {DESCRIPTIONS['steps']}",
        "  1 passed, 0 failed, 0 not checked",
        "",
        "1 passed, 0 failed, 2 not checked",
    ]


def test_a_failed_check_exits_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    having(monkeypatch, PASSED, FAILED)
    assert main(["verify", "steps", "--device", "cpu"]) == 1
    lines = shown(capsys)
    assert lines[-1] == "1 passed, 1 failed, 0 not checked; failed on cpu: a bad step"
    assert "  failed: a bad step: the skipped step changed 3 tensors" in lines


@pytest.mark.parametrize("device", ["mps", "hpu"])
def test_an_absent_device_is_reported_in_one_line(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--device", device]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: device: expected an available device, got '{device}'; use ")
    assert printed.err.count("\n") == 1
