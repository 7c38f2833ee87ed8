"""The distinct calls of a program: those of its processes, in the folder that POLYCAST_CALLS names."""

import subprocess
import sys
from pathlib import Path

import pytest
from polycast.debug.distinct_calls import read

from tests.support.process import python

HEAD = """
import os, sys, torch, polycast
from torch import nn
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Sequential(nn.Linear(8, 8), nn.GELU())

    def forward(self, x):
        return torch.softmax(self.b(self.a(x)), -1)

net = Net()

def step(model=net):
    with polycast.autocast("cpu"):
        loss = nn.MSELoss()(model(torch.ones(2, 8)), torch.ones(2, 8))
    loss.backward()
    return loss.item()
"""
# model, module and op of the calls of a step
STEP = {
    ("Net", "a", "linear"),
    ("Net", "b.0", "linear"),
    ("Net", "b.1", "gelu"),
    ("Net", "", "_softmax"),
    ("MSELoss", "", "mse_loss"),
}
# how a program goes on, and whether the calls of its steps are seen
PROGRAMS = {
    "for _ in range(5): step()": True,
    "step(); raise ValueError": True,
    "step(); sys.exit(3)": True,
    "net = Net(); step(Net()); step(Net())": True,
    "step(nn.parallel.DataParallel(net))": True,
    "step()\nwith polycast.debug.trace() as t: step()\nassert len(t.calls) > 5": True,
    "with polycast.debug.trace() as t: step()\nstep()": False,
    "with polycast.debug.watch(net): step()\nstep()": False,
    "import threading; thread = threading.Thread(target=step); thread.start(); thread.join()": False,
    "if os.fork() == 0:\n    step(); sys.exit()\nos.wait()": True,
    "from torch.utils.data import DataLoader\nstep(); assert len([*DataLoader(range(4), num_workers=1)]) == 4": True,
    "step(); os._exit(0)": False,
}

# Forks for each program once torch is imported, which takes most of the time.
RUNS = """
import os, sys, torch
for number, program in enumerate(programs):
    if os.fork() == 0:
        os.environ["POLYCAST_CALLS"] = f"{folder}/{number}"
        os.mkdir(f"{folder}/{number}")
        exec(program)
        sys.exit()
    os.wait()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the calls of each program."""
    folder = tmp_path_factory.mktemp("calls")
    programs = [HEAD + program for program in PROGRAMS]
    code = f"programs, folder = {programs!r}, {str(folder)!r}" + RUNS
    subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=True)
    return folder


@pytest.mark.parametrize(("number", "program"), [*enumerate(PROGRAMS)])
def test_the_calls_of_a_program_are_seen(number: int, program: str, folder: Path) -> None:
    found = read(folder / str(number))
    assert found is not None and all(call.device == "cpu" for call in found)
    assert len(found) == len({*found})
    assert ({call[:3] for call in found} >= STEP) is PROGRAMS[program]


def test_without_polycast_there_is_no_file(tmp_path: Path) -> None:
    python("import torch; torch.ones(2)", POLYCAST_CALLS=str(tmp_path))
    assert read(tmp_path) is None


def test_results_are_the_same(tmp_path: Path) -> None:
    training = "optimizer = torch.optim.SGD(net.parameters(), 0.1)\nfor _ in range(3): print(step()); optimizer.step()"
    program = HEAD + training
    assert python(program, POLYCAST_CALLS=str(tmp_path)) == python(program)


def test_a_folder_that_cannot_be_written_is_named_at_the_import(tmp_path: Path) -> None:
    path = str(tmp_path / "no")
    found = python("try: import polycast\nexcept ImportError as error: print(error)", POLYCAST_CALLS=path)
    assert found == f"POLYCAST_CALLS names {path}, where nothing can be written: no such file or directory\n"


def test_the_calls_of_a_program_that_a_launcher_runs_are_seen(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(HEAD + "step()")
    launcher = f"import polycast, subprocess, sys; subprocess.run([sys.executable, {str(tmp_path / 'program.py')!r}])"
    python(launcher, POLYCAST_CALLS=str(tmp_path))
    assert {call[:3] for call in read(tmp_path) or ()} >= STEP


def test_memory_does_not_grow_with_the_calls(tmp_path: Path) -> None:
    program = HEAD + (
        "import gc\n"
        "for _ in range(2): step()\n"
        "gc.collect(); before = len(gc.get_objects())\n"
        "for _ in range(50): step()\n"
        "gc.collect(); print(len(gc.get_objects()) - before)\n"
    )
    assert int(python(program, POLYCAST_CALLS=str(tmp_path))) < 50  # a step has about 40 calls
