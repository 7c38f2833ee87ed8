"""No command ends with a traceback: in a closed pipe, on a full disk, by wrong arguments, by an interrupt."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from polycast.command_line.commands import main

from tests.command_line.forks import ran

SCRIPT = """
import torch
with torch.autocast('cpu', torch.bfloat16):
    print(torch.nn.Linear(2, 2)(torch.ones(1, 2)).dtype)
"""
COMMANDS = {
    "report": [],
    "op": ["op", "softmax", "LSTM"],
    "trace": ["trace", "SCRIPT"],
    "check": ["check", "RULES"],
    "diff --help": ["diff", "--help"],
    "--version": ["--version"],
}
# Wrong words end with status 2, except for problems that were found.
WRONG = [
    ([*command, *words], 2)
    for command in (["op"], ["diff"], ["trace"], ["verify"], ["bisect"], ["help"], [])
    for words in (["--nonsense"], [""], ["\udcff"], ["a", "b", "c"])
]
WRONG += [
    (words.split(), 2)
    for words in """\
op / diff / trace / check / bisect / check --nonsense / diff FOLDER torch-2.11 / diff BINARY torch-2.11
diff built-in built-in --device nowhere / softmax --device nowhere / softmax --device
trace FOLDER / trace --limit many SCRIPT / trace -m ..no / trace -m no.such.module
verify --device nowhere / verify --device mps / verify steps --json FOLDER / verify steps --json FOLDER/no/found.json
bisect --good nonsense -- true / bisect --good BINARY -- true / bisect --resume BINARY / bisect --output FOLDER -- true
bisect --log FOLDER/no/log.jsonl -- true / bisect -- FOLDER / help nonsense""".replace("\n", " / ").split(" / ")
]
WRONG += [(["check", word], 1) for word in ("", "\udcff", "FOLDER", "BINARY")]
WRONG += [(["bisect", "--log", "/dev/full", "--", "true"], 1)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what the commands name."""
    (tmp_path / "SCRIPT").write_text(SCRIPT)
    (tmp_path / "RULES").write_text("ops: {softmax: fp32}\n")
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "BINARY").write_bytes(bytes(range(256)))
    return tmp_path


def tracebacks(said: list[str]) -> int:
    return sum("Traceback" in text or "Exception ignored" in text for text in said)


def test_a_reader_that_has_read_enough_ends_a_command_in_silence(folder: Path) -> None:
    found = dict(zip(COMMANDS, ran([(words, "pipe") for words in COMMANDS.values()], folder), strict=True))
    traced = found.pop("trace")
    assert found == dict.fromkeys(found, (-signal.SIGPIPE, ""))  # as it ends a program in C
    assert traced[0] == 0  # its pipe is the script's
    assert "lower_precision_fp" in traced[1] and not tracebacks([traced[1]])


@pytest.mark.parametrize(
    ("output", "unbuffered", "error"),
    [
        ("/dev/full", "", "no space left on device"),
        ("/dev/full", "1", "no space left on device"),
        ("closed", "", "it is closed"),
    ],
)
def test_output_that_cannot_be_written_is_one_line(output: str, unbuffered: str, error: str, folder: Path) -> None:
    cases = [(words, output) for words in COMMANDS.values()]
    found = dict(zip(COMMANDS, ran(cases, folder, unbuffered), strict=True))
    line = f"error: the output cannot be written: {error}\n"
    status, traced = found.pop("trace")
    assert status == 1
    if unbuffered:  # a print of the script itself fails
        assert re.search(r'^Traceback.*:\n  File ".*SCRIPT", line 4, in <module>\n    print', traced)
    else:
        assert (traced.count(line), tracebacks([traced])) == (1, 0)
    assert found == dict.fromkeys(found, (1, line))


@pytest.mark.parametrize(("words", "status"), WRONG, ids=lambda value: ascii(value))
def test_wrong_arguments_say_so_in_their_status(
    words: list[str],
    status: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """No exception leaves main, so that there is no traceback."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(words) == status
    said = capfd.readouterr().err
    assert "error: " in said or said.startswith("usage: ")


# A program of another name, as a trainer's console script or a file without suffix may have.
NAMED_LIKE_THE_PACKAGE = """
import os, signal
import polycast
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("name", ["polycast", "train.py"])
def test_importing_the_package_leaves_an_interrupt_to_the_program(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(NAMED_LIKE_THE_PACKAGE)
    done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
