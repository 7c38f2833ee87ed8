"""The parts that show what a device can do: none stops another, and both files say what came of each."""

import json
import os
import signal
import sys
from pathlib import Path
from threading import Timer
from unittest.mock import patch

import pytest
import torch

from tools import on_device
from tools.on_device import Part

ROW = {
    "polycast": {"seconds": 0.002, "faster": [1.5, 1.4, 1.6], "gigabytes_per_second": 900.0},
    "torch fused": {"seconds": 0.003, "faster": [1.0, 1.0, 1.0], "gigabytes_per_second": 600.0},
    "copy": {"seconds": 0.001, "faster": [3.0, 3.0, 3.0], "gigabytes_per_second": 1000.0},
}
BENCHMARK = json.dumps({"machine": "a machine (too busy)", "rows": {"64 x 1M": ROW}})
CASES = """<testcase classname="tests.a" name="passes"/>
<testcase classname="tests.a" name="fails"><failure/></testcase>
<testcase classname="tests.a" name="other"><skipped message="no float64"/></testcase>"""
TESTS = f"<testsuites><testsuite>{CASES}</testsuite></testsuites>"


def part(name: str, code: str, share: int = 60, file: Path | None = None) -> Part:
    return Part(name, share, [sys.executable, "-c", code], file)


def show(made: list[Part], folder: Path) -> int:
    """Run these parts in the place of the real ones; return the exit status."""
    with (
        patch.object(on_device, "parts", lambda *_: made),
        patch.object(on_device, "look_up", lambda _: ("cpu", "")),
        patch.object(on_device, "GRACE", 1),
        patch.object(sys, "argv", ["on_device", "--device", "cpu", "--out", str(folder)]),
    ):
        return on_device.main()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Markdown of parts that pass, fail, wait too long, and leave files."""
    folder = tmp_path_factory.mktemp("on_device")
    figures, tests = folder / "figures.json", folder / "tests.xml"
    made = [
        part("build", "print('built')"),
        part("tests", f"open({str(tests)!r}, 'w').write({TESTS!r}); raise SystemExit(1)", file=tests),
        part("verify", "print('every promise holds')"),
        part("AdamW", f"open({str(figures)!r}, 'w').write({BENCHMARK!r})", file=figures),
        part("slow", "import time; time.sleep(600)", share=-1000),  # no time is left
        part("after it", "print(*range(100), sep='\\n'); raise SystemExit(3)", share=2000),
    ]
    assert show(made, folder) == 1
    data = json.loads((folder / "cpu.json").read_text(encoding="utf-8"))
    assert data["parts"][3]["found"]["rows"]["64 x 1M"] == ROW
    assert data["parts"][1]["found"] == {"passed": 1, "failed": ["tests.a::fails"], "skipped": {"no float64": 1}}
    return (folder / "cpu.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "line",
    [
        "| build | passed |",
        "| tests | 1 passed, 1 failed, 1 skipped |",
        "- failed: `tests.a::fails`",
        "- 1 skipped: no float64",
        "| AdamW | passed |",
        "a machine (too busy)",
        "| slow | ran out of time |",
        "| after it | failed with status 3 |",
        "... 40 lines before, in after-it.log\n40\n",
        "every promise holds",
        "| 64 x 1M | polycast | 2 | 900 | 1.5 (1.4 to 1.6) |",
        "| 64 x 1M | copy | 1 | 1e+03 |  |",
    ],
)
def test_the_page_says_what_came_of_each_part(page: str, line: str) -> None:
    assert line in page


def test_after_a_build_that_fails_the_other_parts_are_not_run(tmp_path: Path) -> None:
    made = [part("build", "raise SystemExit(2)"), part("tests", "print(1)")]
    assert show(made, tmp_path) == 1
    assert [each.outcome for each in made] == ["failed with status 2", "not run"]


def test_after_ctrl_c_no_part_lives_and_both_files_are_there(tmp_path: Path) -> None:
    started = tmp_path / "started"
    waits = f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    made = [part("build", "print(1)"), part("tests", waits), part("verify", "print(1)")]

    def interrupt() -> None:
        if started.exists() and started.read_text(encoding="utf-8"):
            os.kill(os.getpid(), signal.SIGINT)
        else:
            after(0.1)

    def after(seconds: float) -> None:
        Timer(seconds, interrupt).start()

    after(0.1)
    assert show(made, tmp_path) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text(encoding="utf-8")), 0)
    assert [each.outcome for each in made] == ["passed", "stopped", "not run"]
    assert "| tests | stopped |" in (tmp_path / "cpu.md").read_text(encoding="utf-8")
    assert len(json.loads((tmp_path / "cpu.json").read_text(encoding="utf-8"))["parts"]) == 3


@pytest.mark.parametrize("name", ["cudaa", "npu", "meta", "cpu:x", ""])
def test_a_device_that_is_not_here_is_refused_in_a_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        patch.object(on_device, "look_up", on_device.device_here),
        patch.object(torch.accelerator, "current_accelerator", lambda **_: None),
        patch.object(sys, "argv", ["on_device", "--device", name]),
        pytest.raises(SystemExit),
    ):
        on_device.main()
    (said,) = capsys.readouterr().err.splitlines()
    assert (f"there is no {name} here, torch finds cpu: " if name else "torch finds no accelerator; ") in said


def test_the_device_is_looked_up_in_another_process() -> None:
    assert on_device.look_up("cpu") == ("cpu", "")
    with pytest.raises(ValueError, match="there is no cudaa here"):
        on_device.look_up("cudaa")


def test_the_facts_are_there_without_that_which_linux_alone_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert on_device.compilers() >= 1
    assert "cores of" in on_device.facts("xla", "")["host"]
