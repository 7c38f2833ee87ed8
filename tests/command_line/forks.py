"""Commands of polycast, each in a process that is forked after the imports, which take longer than most commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

FORKS = """
import io, json, os, sys
from polycast.__main__ import main

def child(words, output):
    if output == "pipe":
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 1)
    elif output == "closed":
        os.close(1)
        sys.stdout = None  # as Python begins then
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


def ran(cases: list[tuple[list[str], str]], folder: Path) -> list[tuple[int, str]]:
    """Run commands in a folder; return the status and the standard error of each.

    Each has a word for its standard output: a file, a file "unbuffered", "closed", or "pipe", which has no reader.
    """
    command = [sys.executable, "-c", FORKS]
    texts = json.dumps(cases)
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, input=texts, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [(status, said) for status, said in map(json.loads, done.stdout.splitlines())]
