"""Each example of examples/ runs, with few steps. Those in other packages' trainers have a file of their own."""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from time import sleep

import pytest
import torch

from tests.support.snippets import ROOT, page

FOLDER = ROOT / "examples"
NAMES = sorted(path.name for path in FOLDER.glob("*.py"))
# digits.py is what `make demo` runs; it takes longer.
RUN = [name for name in NAMES if name not in ("custom_op.py", "digits.py", "resume.py")]
OPTIONS = {
    "language_model.py": ["--steps", "3", "--output", "{picture}"],
    "lora.py": ["--steps", "3", "--width", "64", "--output", "{picture}"],
    "resnet.py": ["--steps", "2", "--dtype", "float16", "--output", "{picture}"],
}
PACKAGES = {
    "language_model.py": ["matplotlib", "tqdm"],
    "lora.py": ["matplotlib", "tqdm"],
    "resnet.py": ["matplotlib", "sklearn", "torchvision", "tqdm"],
    "resume.py": ["matplotlib", "tqdm"],
}
# One thread, since the tests run beside each other. A warning is an error, but torch's own where NumPy is missing.
PLAIN = {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1", "PYTHONWARNINGS": "error,ignore:Failed to initialize NumPy"}


def start(name: str, *options: str) -> "subprocess.Popen[str]":
    for package in PACKAGES.get(name, []):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    command = [sys.executable, name, *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=FOLDER, env={**os.environ, **PLAIN}, stdout=pipe, stderr=pipe, text=True)


def run(name: str, *options: str) -> str:
    process = start(name, *options)
    printed, errors = process.communicate()
    assert (process.returncode, errors) == (0, ""), errors
    return printed


@pytest.mark.parametrize("name", RUN)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    assert run(name, *(option.format(picture=picture) for option in OPTIONS.get(name, [])))
    if "{picture}" in OPTIONS.get(name, []):
        assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits.py"])
def test_an_example_is_short_and_in_the_index(name: str) -> None:
    assert len(page(f"examples/{name}").splitlines()) <= 75
    assert f"]({name})" in page("examples/README.md")


def test_a_custom_op_runs_in_what_its_rule_says() -> None:
    unlisted, lower, wide = run("custom_op.py", "--steps", "2").splitlines()
    assert unlisted == "unlisted: swiglu: x is torch.float32 and gate is torch.bfloat16"
    assert lower.startswith("lower_precision_fp: ") and "computed in torch.bfloat16" in lower
    assert wide.startswith("fp32: ") and "computed in torch.float32" in wide


def test_a_training_that_is_killed_ends_bit_for_bit_as_one_that_is_not(tmp_path: Path) -> None:
    def options(name: str) -> list[str]:
        place = tmp_path / name
        return ["--steps", "400", "--every", "20", "--checkpoint", f"{place}.pt", "--output", f"{place}.png"]

    whole = run("resume.py", *options("whole"))
    killed = start("resume.py", *options("killed"))
    while not (tmp_path / "killed.pt").exists() and killed.poll() is None:
        sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    done, again = len(torch.load(tmp_path / "killed.pt")["losses"]), run("resume.py", *options("killed"))
    assert 0 < done < 400
    assert again == f"goes on after step {done}\n{whole}"
    first, second = (torch.load(tmp_path / f"{name}.pt") for name in ("whole", "killed"))
    assert (first.pop("starts"), second.pop("starts")) == ([], [done])
    torch.testing.assert_close(second, first, rtol=0, atol=0)
