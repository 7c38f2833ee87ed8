"""Policies from outside of a process, and in those that it starts."""

import subprocess
import sys
from pathlib import Path

from polycast import Policy

from tests.support.process import python


def test_a_file_that_names_an_operator_which_is_registered_later(tmp_path: Path) -> None:
    path = str(tmp_path / "mine.yaml")
    Path(path).write_text("ops: {nobody::asked: fp32}\n", encoding="utf-8")
    program = "try: import polycast\nexcept ImportError as error: print(error)"
    assert python(program, POLYCAST_POLICY=path) == (
        f"POLYCAST_POLICY names {path}, which cannot be used:\n"
        f"{path}:1:7: error: no library has registered an operator 'nobody::asked'; "
        "import the library that registers it first\n"
        "(before polycast, or unset POLYCAST_POLICY and call polycast.use after both)\n"
    )
    library = (
        "import torch\nlibrary = torch.library.Library('nobody', 'DEF')\nlibrary.define('asked(Tensor x) -> Tensor')"
    )
    assert "fp32" in python(f"{library}\nimport polycast\nprint(polycast.policy.in_force())", POLYCAST_POLICY=path)


WORKERS = """
import os, sys, polycast, torch
from torch.utils.data import DataLoader, Dataset

class Types(Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        with polycast.autocast("cpu"):
            outer = torch.eye(2) @ torch.eye(2)
        with polycast.autocast("cpu", policy=polycast.Policy({"matmul": "float16"})):
            inner = torch.eye(2) @ torch.eye(2)
        return f"{outer.dtype} {inner.dtype}"

def types(start, workers):
    print(start, *DataLoader(Types(), num_workers=workers, batch_size=None, multiprocessing_context=start))

if __name__ == "__main__":
    polycast.use(polycast.Policy({"matmul": "fp32"}))
    with polycast.autocast("cpu", policy=polycast.Policy({"sort": "float16"})):
        types("fork", 2)
        types("spawn", 1)
        os.environ["POLYCAST_POLICY"] = sys.argv[1]
        types("spawn", 1)
        print((torch.eye(2) @ torch.eye(2)).dtype, torch.sort(torch.eye(2)).values.dtype)
        if os.fork() == 0:  # which inherits the region, too
            print((torch.eye(2) @ torch.eye(2)).dtype, torch.sort(torch.eye(2)).values.dtype, flush=True)
            os._exit(0)
        os.wait()
"""


def test_workers_of_a_data_loader_and_a_forked_child(tmp_path: Path) -> None:
    (tmp_path / "workers.py").write_text(WORKERS, encoding="utf-8")
    Policy({"matmul": "float64"}).save(tmp_path / "mine.yaml")
    command = [sys.executable, "-u", "-W", "error", str(tmp_path / "workers.py"), str(tmp_path / "mine.yaml")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.replace("torch.", "").splitlines() == [
        "fork float32 float16 float32 float16",
        "spawn bfloat16 float16 bfloat16 float16",
        "spawn float64 float16 float64 float16",
        "float32 float16",
        "float32 float16",
    ]
