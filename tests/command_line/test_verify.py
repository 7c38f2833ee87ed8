"""`polycast verify`: its table, its file, its status, and how it ends early."""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import polycast
import pytest
from polycast.command_line.commands import main
from polycast.debug import Check
from polycast.debug.verification import verifying
from polycast.debug.verification.findings import PROMISES
from polycast.scope import process

KEPT = Check("steps", "a step", "kept", "as it should", {"error": 1e-7})
BROKEN = Check("steps", "a bad step", "broken", "the skipped step changed 3 tensors")
ABSENT = [Check("rules", name, "not checked", "no kernel here") for name in ("one", "two")]


def having(monkeypatch: pytest.MonkeyPatch, *checks: Check | type[BaseException]) -> None:
    """Have verify find these checks in their parts, or end with an error in the part "steps"."""

    def part(name: str, device_type: str) -> Iterator[Check]:
        assert device_type == "cpu"
        for check in checks:
            if isinstance(check, Check) and check.part == name:
                yield check
            elif not isinstance(check, Check) and name == "steps":
                raise check

    for name in ("rules", "steps"):
        monkeypatch.setitem(verifying.PARTS, name, partial(part, name))


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what was printed after the facts."""
    return capsys.readouterr().out.partition("\n\n")[2].splitlines()


def test_it_prints_a_table_and_writes_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    having(monkeypatch, *ABSENT, KEPT)
    path = tmp_path / "found.json"
    assert main(["verify", "rules", "steps", "steps", "--device", "cpu", "--json", str(path)]) == 0
    assert shown(capsys) == [
        f"rules: {PROMISES['rules']}",
        "  0 kept, 0 broken, 2 not checked",
        "  not checked: no kernel here",
        "    one, two",
        "",
        f"steps: {PROMISES['steps']}",
        "  a step  kept  as it should",
        "",
        "1 kept, 0 broken, 2 not checked; not run: reads, graphs, timings",
    ]
    written = json.loads(path.read_text())
    assert (written["device_type"], written["complete"]) == ("cpu", True)
    assert written["facts"]["polycast"].startswith(polycast.__version__)
    assert written["facts"]["policy"] == "built-in"
    assert "cores" in written["facts"]["hardware"]
    assert written["not_run"] == ["reads", "graphs", "timings"]
    assert [Check(**check) for check in written["checks"]] == [*ABSENT, KEPT]
    assert [*tmp_path.iterdir()] == [path]


def test_a_broken_promise_is_status_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    having(monkeypatch, KEPT, BROKEN)
    assert main(["verify", "steps", "--device", "cpu"]) == 1
    assert shown(capsys)[-1] == (
        "1 kept, 1 broken, 0 not checked; broken on cpu: a bad step; not run: rules, reads, graphs, timings"
    )


def test_an_error_outside_of_a_check_is_broken_and_ends_its_part_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    having(monkeypatch, ABSENT[0], KEPT, TypeError)
    assert main(["verify", "steps", "rules", "--device", "cpu"]) == 1
    lines = [line.split(maxsplit=3) for line in shown(capsys)]
    assert ["all", "steps", "broken", "it raises TypeError"] in lines


class Killed(BaseException):
    """Stands in for the end of the process."""


def test_a_death_leaves_the_parts_before_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    having(monkeypatch, *ABSENT, Killed)
    path = tmp_path / "found.json"
    with pytest.raises(Killed):
        main(["verify", "rules", "steps", "--device", "cpu", "--json", str(path)])
    assert "    one, two" in shown(capsys)
    written = json.loads(path.read_text())
    assert (written["begun"], written["complete"], len(written["checks"])) == (["rules"], False, 2)


def test_the_policy_of_the_environment_is_said_to_be_set_aside() -> None:
    with process.use({"matmul": "fp32"}):
        assert verifying.facts_of("cpu")["policy"] == "built-in (POLYCAST_POLICY is set aside here)"


def test_an_interrupt_leaves_what_was_found_until_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    having(monkeypatch, KEPT, KeyboardInterrupt)
    path, installed = tmp_path / "found.json", polycast.installed()
    assert main(["verify", "steps", "--device", "cpu", "--json", str(path)]) == 130
    assert shown(capsys)[-1].startswith(
        "interrupted in steps; until then: 1 kept, 0 broken, 0 not checked; not run: rules,"
    )
    assert json.loads(path.read_text())["complete"] is False
    assert polycast.installed() == installed


INTERRUPTED = """
import os, signal, sys
sys.argv = ["polycast"]
from polycast.command_line.commands import main
from polycast.debug.verification import verifying

def part(device_type):
    yield verifying.Check("steps", "a step", "kept", "as it should")
    os.kill(os.getpid(), signal.SIGINT)

verifying.PARTS["steps"] = part
sys.exit(main(["verify", "steps", "--device", "cpu"]))
"""


def test_ctrl_c_ends_the_command_with_its_table() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    assert "\ninterrupted in steps; until then: 1 kept, 0 broken, 0 not checked; not run: rules, " in done.stdout


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["rulez"], "error: there is no part 'rulez'; did you mean 'rules'?"),
        (["--device", "mps"], "error: there is no mps here; torch finds "),
        (["--device", "cpu:0"], "error: verify checks the current device of a type, so it takes no index; give 'cpu'"),
        (["cpu"], "error: there is no part 'cpu'; for the device, give --device cpu"),
        (["--device", "gpu"], "error: polycast has no device 'gpu' in its policy"),
        (["--json", "no/such/file.json"], "error: there is no folder for no/such/file.json"),
    ],
)
def test_wrong_words_are_one_line_before_anything_runs(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(error) and printed.err.count("\n") == 1
