"""No command ends with a traceback: in a closed pipe, on a full disk, by wrong arguments, by an interrupt."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import torch
with torch.autocast('cpu', torch.bfloat16):
    print(torch.nn.Linear(2, 2)(torch.ones(1, 2)).dtype)
"""
COMMANDS = {
    "report": [],
    "op": ["op", "softmax", "LSTM"],
    "an op": ["softmax"],
    "rules": ["op", "--device", "cuda"],
    "diff": ["diff", "torch-2.10", "torch-2.12"],
    "trace": ["trace", "SCRIPT"],
    "check": ["check", "RULES"],
    "verify": ["verify", "steps", "--device", "cpu"],
    "help": ["help"],
    "help diff": ["help", "diff"],
    "--help": ["--help"],
    "diff --help": ["diff", "--help"],
    "--version": ["--version"],
}
# Words after each command that nobody should type, with the status.
WRONG = [
    (words, 2)
    for command in (["op"], ["diff"], ["trace"], ["check"], ["verify"], ["bisect"], ["help"], [])
    for words in ([*command, "--nonsense"], [*command, ""], [*command, "\udcff"], [*command, "a", "b", "c"])
    if words not in (["check", ""], ["check", "\udcff"], ["check", "a", "b", "c"])
]
WRONG += [
    (["op"], 2),
    (["diff"], 2),
    (["trace"], 2),
    (["check"], 2),
    (["check", ""], 1),
    (["check", "a", "b", "c"], 1),
    (["check", "FOLDER"], 1),
    (["check", "BINARY"], 1),
    (["diff", "FOLDER", "torch-2.11"], 2),
    (["diff", "BINARY", "torch-2.11"], 2),
    (["diff", "built-in", "built-in", "--device", "nowhere"], 2),
    (["softmax", "--device", "nowhere"], 2),
    (["softmax", "--device"], 2),
    (["trace", "FOLDER"], 2),
    (["trace", "--limit", "0", "SCRIPT"], 2),
    (["trace", "--limit", "many", "SCRIPT"], 2),
    (["trace", "-m", ""], 2),
    (["trace", "-m", "..no"], 2),
    (["trace", "-m", "no.such.module"], 2),
    (["verify", "nonsense"], 2),
    (["verify", "--device", "nowhere"], 2),
    (["verify", "--device", "mps"], 2),
    (["verify", "steps", "--json", "FOLDER"], 2),
    (["verify", "steps", "--json", "FOLDER/no/found.json"], 2),
    (["bisect"], 2),
    (["bisect", "--good", "nonsense", "--", "true"], 2),
    (["bisect", "--good", "BINARY", "--", "true"], 2),
    (["bisect", "--resume", "BINARY"], 2),
    (["bisect", "--output", "FOLDER", "--", "true"], 2),
    (["bisect", "--log", "FOLDER/no/log.jsonl", "--", "true"], 2),
    (["bisect", "--log", "/dev/full", "--", "true"], 1),
    (["bisect", "--", "FOLDER"], 2),
    (["help", "nonsense"], 2),
]
# Each runs in a process of its own, which is forked after the imports.
FORKS = """
import json, os, sys
from polycast.__main__ import main

def child(words, output):
    read, write = os.pipe()
    os.close(read)
    if output == "closed":
        os.close(1)
        sys.stdout = None  # as Python begins then
    else:
        os.dup2(write if output == "pipe" else os.open(output, os.O_WRONLY), 1)
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


def ran(cases: list[tuple[list[str], str]], folder: Path, buffered: str = "buffered") -> list[tuple[int, str]]:
    """Run commands with their standard output as it is named; return each one's status and standard error."""
    places = {name: folder / name for name in ("SCRIPT", "RULES", "FOLDER", "BINARY")}
    places["SCRIPT"].write_text(SCRIPT)
    places["RULES"].write_text("ops: {softmax: fp32}\n")
    places["FOLDER"].mkdir()
    places["BINARY"].write_bytes(bytes(range(256)))

    def in_place(word: str) -> str:
        first, *rest = word.split("/")
        return "/".join([str(places.get(first, first)), *rest])

    texts = json.dumps([([in_place(word) for word in words], output) for words, output in cases])
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered == "buffered" else "1"}
    command = [sys.executable, "-c", FORKS]
    done = subprocess.run(command, input=texts, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [(status, said) for status, said in map(json.loads, done.stdout.splitlines())]


def tracebacks(said: list[str]) -> int:
    return sum("Traceback" in text or "Exception ignored" in text for text in said)


def test_a_reader_that_has_read_enough_ends_a_command_in_silence(tmp_path: Path) -> None:
    found = dict(zip(COMMANDS, ran([(words, "pipe") for words in COMMANDS.values()], tmp_path), strict=True))
    traced = found.pop("trace")
    assert found == dict.fromkeys(found, (-signal.SIGPIPE, ""))  # as it ends a program in C
    assert traced[0] == 0  # its pipe is the script's
    assert "lower_precision_fp" in traced[1] and not tracebacks([traced[1]])


@pytest.mark.parametrize("buffered", ["buffered", "unbuffered"])
@pytest.mark.parametrize(("output", "error"), [("/dev/full", "no space left on device"), ("closed", "it is closed")])
def test_output_that_cannot_be_written_is_one_line(output: str, error: str, buffered: str, tmp_path: Path) -> None:
    cases = [(words, output) for words in COMMANDS.values()]
    found = dict(zip(COMMANDS, ran(cases, tmp_path, buffered), strict=True))
    line = f"error: the output cannot be written: {error}\n"
    status, traced = found.pop("trace")
    assert status == 1
    if output == "/dev/full" and buffered == "unbuffered":  # a print of the script itself fails
        assert re.search(r'^Traceback.*:\n  File ".*/SCRIPT", line 4, in <module>\n    print', traced)
    else:
        assert (traced.count(line), tracebacks([traced])) == (1, 0)
    assert found == dict.fromkeys(found, (1, line))


def test_wrong_arguments_say_so_and_end_with_status_2(tmp_path: Path) -> None:
    found = ran([(words, "/dev/null") for words, _ in WRONG], tmp_path)
    assert [(words, status) for (words, _), (status, _) in zip(WRONG, found, strict=True)] == WRONG
    assert tracebacks([said for _, said in found]) == 0
    assert all("error: " in said or said.startswith("usage: ") for _, said in found)


# A program of another name, as a trainer's console script or a file without suffix may have.
NAMED_LIKE_THE_PACKAGE = """
import os, signal
import polycast
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("name", ["polycast", "polycast.train", "train.py"])
def test_importing_the_package_leaves_an_interrupt_to_the_program(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(NAMED_LIKE_THE_PACKAGE)
    done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
