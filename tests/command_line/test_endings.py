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
    "verify": ["verify", "graphs", "--device", "cpu"],
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
    (["trace", "--json", "FOLDER", "SCRIPT"], 2),
    (["trace", "--json", "FOLDER/no/calls.json", "SCRIPT"], 2),
    (["trace", "--json", "/dev/full", "SCRIPT"], 1),
    (["trace", "--limit", "0", "SCRIPT"], 2),
    (["trace", "--limit", "many", "SCRIPT"], 2),
    (["trace", "-m", ""], 2),
    (["trace", "-m", "..no"], 2),
    (["trace", "-m", "no.such.module"], 2),
    (["verify", "nonsense"], 2),
    (["verify", "--device", "nowhere"], 2),
    (["verify", "--device", "mps"], 2),
    (["verify", "graphs", "--json", "FOLDER"], 2),
    (["verify", "graphs", "--json", "FOLDER/no/found.json"], 2),
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
sys.argv = ["polycast"]
from polycast.command_line.commands import main

def child(words, output):
    read, write = os.pipe()
    os.close(read)
    if output == "closed":
        os.close(1)
        sys.stdout = None  # as Python begins then
    else:
        os.dup2(write if output == "pipe" else os.open(output, os.O_WRONLY), 1)
    sys.exit(main(words))

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
    assert "took a rule" in traced[1] and not tracebacks([traced[1]])


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


INTERRUPT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, *_):
        if name == os.environ["INTERRUPTED_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize(
    "place", ["torch", "torch.nn", "polycast._C", "polycast.debug", "polycast.command_line", "polycast._grammar.files"]
)
def test_an_interrupt_prints_nothing(place: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    (tmp_path / "rules.yaml").write_text("ops: {softmax: fp32}\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "INTERRUPTED_AT": place}
    command = [sys.executable, "-m", "polycast", "check", "rules.yaml"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")  # a shell shows 130


def test_a_package_that_cannot_be_imported_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['torch.nn'] = None\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "polycast", "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ") and not tracebacks([done.stderr])
