"""`polycast trace` runs a script as it is, and prints at its end what autocasting did."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.command_line.forks import ran

SCRIPT = """
import sys
import torch
if __name__ == "__main__":
    layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with torch.autocast("cpu", torch.bfloat16):
        layer(x)
    print(sys.argv[1:], sys.path[0] == sys.argv[0].rpartition("/")[0])
    sys.exit(3)
"""
RAISES = "def fail():\n    raise ValueError('mine')\ntry:\n    fail()\nexcept ValueError:\n    1 / 0\n"
INTERRUPTED = SCRIPT.replace("sys.exit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGINT)")


class Case(NamedTuple):
    """A script, the words of the command before and after it, and how it ends."""

    source: str
    before: str
    after: str
    status: int
    printed: str
    said: str


CASES = {
    "with arguments": Case(SCRIPT, "", "--lr 3", 3, "['--lr', '3'] True\n", "linear  lower_precision_fp  1      3"),
    "a table": Case(SCRIPT, "--table", "", 3, "[] True\n", "Linear  linear  0  lower_precision_fp"),
    "lines": Case(SCRIPT, "--lines", "", 3, "[] True\n", "SCRIPT:7\n"),
    "an interrupt": Case(INTERRUPTED, "", "", 130, "[] True\n", "interrupted; until then:\n\nop "),
    "no Python": Case("def", "", "", 1, "", "SyntaxError: "),
    "null bytes": Case("\0", "", "", 1, "", "null bytes"),
    "a text as status": Case("raise SystemExit('no')", "", "", 1, "", "\nno\n"),
    "no status": Case("import sys; sys.exit()", "", "", 0, "", ""),
    # What would fail at the end fails before.
    "no limit": Case(SCRIPT, "--limit 0", "", 2, "", "the limit is 0"),
    "a script for a module": Case(SCRIPT, "-m", "", 2, "", "' is a script; leave -m out"),
    "no module": Case("", "-m no_such_module", "", 2, "", "there is no module 'no_such_module'"),
    "no script": Case("", "--table", "", 2, "", "the following arguments are required: script\n"),
    "a mistyped script": Case("", "scirpt.py", "", 2, "", "there is no script 'scirpt.py'; with -m it "),
    "an error": Case(RAISES, "", "", 1, "", ""),
}


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    """How each case ended: its status, and what it wrote."""
    folder = tmp_path_factory.mktemp("scripts")
    commands = []
    for place, case in enumerate(CASES.values()):
        script = folder / f"{place}.py"
        script.write_text(case.source)
        words = [*case.before.split(), *([str(script)] if case.source else []), *case.after.split()]
        commands.append((["trace", *words], f"{place}.out"))
    found = ran(commands, folder)
    return {
        name: (status, (folder / f"{place}.out").read_text(), said.replace(str(folder / f"{place}.py"), "SCRIPT"))
        for place, (name, (status, said)) in enumerate(zip(CASES, found, strict=True))
    }


@pytest.mark.parametrize("name", [name for name in CASES if name != "an error"])
def test_a_script_runs_as_it_is_and_is_summed_up(name: str, ends: dict[str, tuple[int, str, str]]) -> None:
    status, printed, said = ends[name]
    assert (status, printed) == (CASES[name].status, CASES[name].printed)
    assert CASES[name].said in said and "Traceback" not in said


def test_an_error_of_the_script_is_all_that_is_shown(tmp_path: Path, ends: dict[str, tuple[int, str, str]]) -> None:
    (tmp_path / "script.py").write_text(RAISES)
    alone = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert ends["an error"] == (1, "", alone.stderr.replace(str(tmp_path / "script.py"), "SCRIPT"))
