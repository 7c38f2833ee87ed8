"""The exits of commands: after a script, after an interrupt, and with a closed pipe or a full disk as the output."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import run_python

# Each command runs in a fork after the imports, which take longer than most commands.
FORKS = """
import gc, io, json, os, sys
from polycast.__main__ import main

gc.freeze()  # Otherwise each child visits all imported objects at its end.

def child(words, output):
    if output == "pipe":
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 1)
    elif output == "closed":
        os.close(1)
        sys.stdout = None  # Python starts in this state if stdout is closed.
    else:
        os.dup2(os.open(output.removesuffix(" unbuffered"), os.O_WRONLY | os.O_CREAT), 1)
    if output.endswith(" unbuffered"):
        sys.stdout = io.TextIOWrapper(open(1, "wb", 0), write_through=True)
    sys.argv = ["polycast", *words]
    sys.exit(main())

for place, (words, output) in enumerate(json.load(sys.stdin)):
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(f"{place}.txt", os.O_WRONLY | os.O_CREAT), 2)
        child(words, output)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps([status, open(f"{place}.txt").read()]), flush=True)
"""
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
TABLE = SCRIPT.replace("layer(x)", "layer(x.view(1, 2)), layer(x)")
RAISES = "def fail():\n    raise ValueError('mine')\ntry:\n    fail()\nexcept ValueError:\n    1 / 0\n"
INTERRUPTED = SCRIPT.replace("sys.exit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGINT)")
IMPORTED = """
import os, signal
import polycast
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""
# Each case has a script for `polycast trace`, the words before and after it, its status, its stdout, and some stderr.
CASES = {
    "with arguments": (SCRIPT, "", "--lr 3", 3, "['--lr', '3'] True\n", "linear  lower_precision_fp  1      3"),
    "a table": (
        TABLE,
        "--table",
        "",
        3,
        "[] True\n",
        "module  op      calls  rule                given      computed  returned  cast  from\nLinear  linear  2",
    ),
    "all calls": (TABLE, "--table --all", "", 3, "[] True\n", "from\n        view    0  unlisted"),
    "lines": (SCRIPT, "--lines", "", 3, "[] True\n", "SCRIPT:7\n"),
    "an interrupt": (INTERRUPTED, "", "", 130, "[] True\n", "\nop "),
    "no Python": ("def", "", "", 1, "", "SyntaxError: "),
    "a string as status": ("raise SystemExit('no')", "", "", 1, "", "\nno\n"),
    "no status": ("import sys; sys.exit()", "", "", 0, "", ""),
    "an interrupt after an import": (IMPORTED, "", "", 0, "interrupted\n", ""),
    "an error": (RAISES, "", "", 1, "", ""),
}
COMMANDS = {"report": [], "trace": ["trace", "0.py"], "diff --help": ["diff", "--help"]}
OUTPUTS = ("pipe", "/dev/full", "/dev/full unbuffered", "closed")
Ends = dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a script for each case."""
    folder = tmp_path_factory.mktemp("scripts")
    for place, (source, *_) in enumerate(CASES.values()):
        (folder / f"{place}.py").write_text(source)
    return folder


@pytest.fixture(scope="module")
def ends(folder: Path) -> Ends:
    """Return the status and the standard error of each case and each command. The key of a command is "name > output".

    The output is a file, "FILE unbuffered", "closed", or "pipe", which is a pipe without a reader.
    """
    commands = {}
    for place, (name, (_, before, after, *_)) in enumerate(CASES.items()):
        words = ["trace", *before.split(), str(folder / f"{place}.py"), *after.split()]
        commands[name] = (words, f"{place}.out")
    commands |= {f"{name} > {output}": (words, output) for output in OUTPUTS for name, words in COMMANDS.items()}
    command, texts = [sys.executable, "-c", FORKS], json.dumps([*commands.values()])
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, input=texts, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    printed = map(json.loads, done.stdout.splitlines())
    return {name: (status, said) for name, (status, said) in zip(commands, printed, strict=True)}


@pytest.mark.parametrize("name", [name for name in CASES if name != "an error"])
def test_a_script_runs_unchanged_before_its_summary(name: str, folder: Path, ends: Ends) -> None:
    *_, expected, printed, told = CASES[name]
    place, (status, said) = [*CASES].index(name), ends[name]
    assert (status, (folder / f"{place}.out").read_text()) == (expected, printed)
    assert told in said.replace(str(folder / f"{place}.py"), "SCRIPT") and "Traceback" not in said


def test_only_the_error_of_the_script_is_printed(folder: Path, ends: Ends) -> None:
    path = folder / f"{[*CASES].index('an error')}.py"
    assert ends["an error"] == (1, run_python(path).stderr)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "trace"])
def test_an_output_that_cannot_be_written_is_an_error_unless_the_reader_closed_the_pipe(name: str, ends: Ends) -> None:
    piped, full, *_ = (ends[f"{name} > {output}"] for output in OUTPUTS)
    assert piped == (-signal.SIGPIPE, "")  # `SIGPIPE` ends the command without a traceback.
    assert full[0] != 0 and "No space left on device" in full[1]


def test_the_output_of_a_script_is_unchanged(ends: Ends) -> None:
    piped, full, unbuffered, closed = (ends[f"trace > {output}"] for output in OUTPUTS)
    assert all("lower_precision_fp" in said and "Traceback" not in said for _, said in (piped, full, closed))
    assert [status for status, _ in (piped, full, closed)] == [120, 120, 3]  # `python SCRIPT` ends with these statuses.
    assert unbuffered[0] == 1 and 'File "0.py", line 8, in <module>\n    print' in unbuffered[1]
