"""How commands end: with their output, with a script's status, in a closed pipe, on a full disk, by an interrupt."""

import signal
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
VERIFIED = """
import os, signal, sys
from polycast.command_line.commands import main
from polycast.debug.verification import verifying

def part(device_type):
    yield "a step", lambda: ("passed", "as it should")
    os.kill(os.getpid(), signal.SIGINT)

verifying.PARTS["steps"] = part
sys.exit(main(["verify", "steps", "--device", "cpu"]))
"""
IMPORTED = """
import os, signal
import polycast
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""
VERDICT = "interrupted in steps; until then: 1 passed, 0 failed, 0 not checked\n"


class Case(NamedTuple):
    """A script under `polycast trace`, the words before and after it, and how it ends."""

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
    "a text as status": Case("raise SystemExit('no')", "", "", 1, "", "\nno\n"),
    "no status": Case("import sys; sys.exit()", "", "", 0, "", ""),
    "an interrupt of verify": Case(VERIFIED, "", "", 130, VERDICT, ""),
    "an import that leaves an interrupt to the program": Case(IMPORTED, "", "", 0, "interrupted\n", ""),
    "an error": Case(RAISES, "", "", 1, "", ""),
}
COMMANDS = {
    "report": [],
    "op": ["op", "softmax", "LSTM"],
    "trace": ["trace", "0.py"],
    "check": ["check", "RULES"],
    "diff --help": ["diff", "--help"],
    "--version": ["--version"],
}
OUTPUTS = ("pipe", "/dev/full", "/dev/full unbuffered", "closed")
Ends = dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script for each case, and with rules."""
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "RULES").write_text("ops: {softmax: fp32}\n")
    for place, case in enumerate(CASES.values()):
        (folder / f"{place}.py").write_text(case.source)
    return folder


@pytest.fixture(scope="module")
def ends(folder: Path) -> Ends:
    """The status and the standard error of each case, and of each command by "its name > its output"."""
    commands = {}
    for place, (name, case) in enumerate(CASES.items()):
        words = ["trace", *case.before.split(), str(folder / f"{place}.py"), *case.after.split()]
        commands[name] = (words, f"{place}.out")
    commands |= {f"{name} > {output}": (words, output) for output in OUTPUTS for name, words in COMMANDS.items()}
    return dict(zip(commands, ran([*commands.values()], folder), strict=True))


@pytest.mark.parametrize("name", [name for name in CASES if name != "an error"])
def test_a_script_runs_as_it_is_and_is_summed_up(name: str, folder: Path, ends: Ends) -> None:
    case, place = CASES[name], [*CASES].index(name)
    status, said = ends[name]
    printed = (folder / f"{place}.out").read_text().rpartition("\n\n")[2]  # behind the facts of verify
    assert (status, printed) == (case.status, case.printed)
    assert case.said in said.replace(str(folder / f"{place}.py"), "SCRIPT") and "Traceback" not in said


def test_an_error_of_the_script_is_all_that_is_shown(folder: Path, ends: Ends) -> None:
    path = folder / f"{[*CASES].index('an error')}.py"
    alone = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert ends["an error"] == (1, alone.stderr)


FULL = "no space left on device"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "trace"])
def test_output_that_cannot_be_written_is_one_line_or_nothing_where_a_reader_has_enough(name: str, ends: Ends) -> None:
    full, closed = ((1, f"error: the output cannot be written: {why}\n") for why in (FULL, "it is closed"))
    expected = [(-signal.SIGPIPE, ""), full, full, closed]  # a closed pipe ends it as it ends a program in C
    assert [ends[f"{name} > {output}"] for output in OUTPUTS] == expected


def test_the_output_of_a_script_is_its_own(ends: Ends) -> None:
    piped, full, unbuffered, closed = (ends[f"trace > {output}"] for output in OUTPUTS)
    assert all("lower_precision_fp" in said and "Traceback" not in said for _, said in (piped, full, closed))
    assert [status for status, _ in (piped, full, closed)] == [3, 3, 3]
    assert unbuffered[0] == 1 and 'File "0.py", line 8, in <module>\n    print' in unbuffered[1]
