"""The file that codegen generates for a backend: it compiles with only PyTorch, and runs without polycast."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from codegen.__main__ import main
from tests.support.backend import NAME
from tests.support.backend.__main__ import installed

ROOT = Path(__file__).parents[2]
DEVICE = f"""\
  {NAME}:
    dispatch_key: AutocastPrivateUse1
    lower_precision: [bfloat16, float16]
    like: privateuse1
    backend: tests/support/backend
    except: {{promote: [stack], unlisted: [cosh]}}
categories:"""
COMPILE = """
from torch.utils.cpp_extension import load
load("ops", ["ops.cpp"], extra_cflags=["-O0", "-Wall", "-Werror"], build_directory=".", is_python_module=False)
"""
CALL = """
import sys, torch
torch.ops.load_library("ops.so")
x = torch.ones(2, 2, device="NAME")
with torch.autocast("NAME", dtype=torch.bfloat16):
    half = x.mm(x)
    print(half.dtype, half.exp().dtype, half.cosh().dtype, torch.stack([half, x]).dtype, half.sum().dtype)
print({"polycast", "codegen"} & {*sys.modules})
""".replace("NAME", NAME)


def run(folder: Path, *command: str) -> str:
    """Run Python with the backend, and return the output and the exit status."""
    environment = {**os.environ, "PYTHONPATH": f"{installed()}{os.pathsep}{folder}", "USE_TORCH_XLA": "0"}
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1"
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)
    return f"{done.stdout}{done.stderr}status {done.returncode}"


def test_the_registration_compiles_and_casts() -> None:
    """The generated file compiles, and its kernels cast. The test compiles the file only after a change."""
    folder = ROOT / "build" / f"standalone-{version('torch')}-{sys.implementation.cache_tag}"
    folder.mkdir(parents=True, exist_ok=True)
    policy = (ROOT / "policy.yaml").read_text(encoding="utf-8").replace("\ncategories:", f"\n{DEVICE}", 1)
    (folder / "policy.yaml").write_text(policy, encoding="utf-8")
    words = ["--policy", str(folder / "policy.yaml"), "--backend", NAME, "--standalone", str(folder / "ops.cpp")]
    assert main(words) == 0
    (folder / "lock").unlink(missing_ok=True)  # The build would wait for the lock of a killed build.
    compiled = run(folder, "-c", COMPILE)
    assert compiled.endswith("status 0"), compiled
    called = run(folder, "-c", CALL)
    assert called == ("torch.bfloat16 torch.float32 torch.bfloat16 torch.float32 torch.float32\nset()\nstatus 0"), (
        called
    )
