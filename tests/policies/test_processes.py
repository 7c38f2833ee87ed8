"""Policies in ``POLYCAST_POLICY`` and in child processes, and the modules that policies import."""

import pickle
from pathlib import Path

from polycast import Policy
from polycast._extension import DEVICES, obstacles, overloads_of
from polycast.policy.rules import exact_key

import tests.policies.library  # noqa: F401
from codegen.categories import Category
from codegen.schemas import Schemas
from tests.support.process import python, run_python

ROOT = Path(__file__).parents[2]
IMPORTED = "print(sorted({'torch', 'yaml', 'polycast._extension'} & set(sys.modules)))"


def test_torchgen_and_the_dispatcher_allow_every_overload_the_same_categories() -> None:
    schemas = Schemas.installed()
    known, differing = 0, set()
    for op in schemas.ops:
        names = {f"aten::{op}.{overload}" for overload in schemas.overloads(op)}
        assert names <= {*map(exact_key, overloads_of(f"aten::{op}"))}
        for overload in schemas.overloads(op):
            known += 1
            for category in (one for one in Category if one is not Category.FP32_APPEND_DTYPE):
                refused = all(obstacles(f"aten::{op}.{overload}", [category.value] * len(DEVICES)))
                if refused != (schemas.signature(op, overload).obstacle(category) is not None):
                    differing.add((op, overload, category))
    assert differing == set()
    assert known > 2000


def test_another_process_reads_a_policy_without_its_library_and_imports_yaml_for_files_only(tmp_path: Path) -> None:
    """The policy has the same digest in both processes."""
    mine, pickled = Policy({"softmax": {"cuda": "fp32"}}), pickle.dumps(Policy({"library::attention": "fp32"}))
    mine.save(tmp_path / "mine.yaml")
    made = f"polycast.Policy({mine.rules}).digest", f"pickle.loads({pickled!r}).rules"
    read = f"polycast.Policy.load({str(tmp_path / 'mine.yaml')!r}).digest"
    code = "\n".join([f"import sys, pickle, polycast; {IMPORTED}", *map("print({})".format, (*made, read)), IMPORTED])
    imported = ["polycast._extension", "torch"]
    assert python(code, PYTHONHASHSEED="7").splitlines() == [
        str(imported),
        mine.digest,
        "{'library::attention': 'fp32'}",
        mine.digest,
        str([*imported, "yaml"]),
    ]


FILE = """
import torch
try:
    import polycast
except ImportError as error:
    print(error)
library = torch.library.Library("nobody", "DEF")
library.define("asked(Tensor x) -> Tensor")
import polycast
print(polycast.policy.current().rules)
"""


def test_a_file_can_name_an_operator_after_its_library_is_imported(tmp_path: Path) -> None:
    path = str(tmp_path / "mine.yaml")
    Path(path).write_text("ops: {nobody::asked: fp32}\n", encoding="utf-8")
    assert python(FILE, POLYCAST_POLICY=path).splitlines() == [
        f"POLYCAST_POLICY names {path}, which cannot be used:",
        f"{path}: ops.nobody::asked: no library has registered an operator 'nobody::asked'; "
        "first import the library that registers it",
        "Import it before polycast, or unset POLYCAST_POLICY and call polycast.use after both.",
        "{'nobody::asked': 'fp32'}",
    ]


WORKERS = """
import os, sys, polycast, torch
from torch.utils.data import DataLoader, Dataset

def types():
    return f"{(torch.eye(2) @ torch.eye(2)).dtype} {torch.sort(torch.eye(2)).values.dtype}"

class Types(Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        with polycast.autocast("cpu"):
            return types()

def load(start, workers):
    print(start, *DataLoader(Types(), num_workers=workers, batch_size=None, multiprocessing_context=start))

if __name__ == "__main__":
    polycast.use({"matmul": "fp32"})
    with polycast.autocast("cpu", policy={"sort": "float16"}):
        load("fork", 2)
        os.environ["POLYCAST_POLICY"] = sys.argv[1]
        load("spawn", 1)
        print(types())
"""


def test_a_forked_worker_inherits_its_policies_and_a_spawned_one_has_the_policy_of_the_variable(tmp_path: Path) -> None:
    """A ``DataLoader`` may fork or spawn its workers (specification 5.4)."""
    (tmp_path / "workers.py").write_text(WORKERS, encoding="utf-8")
    Policy({"matmul": "float64"}).save(tmp_path / "mine.yaml")
    run = run_python("-u", "-W", "error", tmp_path / "workers.py", tmp_path / "mine.yaml")
    assert run.returncode == 0, run.stderr
    assert run.stdout.replace("torch.", "").splitlines() == [
        "fork float32 float16 float32 float16",
        "spawn float64 float32 float64 float32",
        "float32 float16",
    ]


FORKED = """
import os, threading, polycast, torch._dynamo
held, done = threading.Event(), threading.Event()
def compiling():
    with torch._dynamo.convert_frame.compile_lock:
        held.set()
        done.wait()
threading.Thread(target=compiling).start()
held.wait()
if (child := os.fork()) == 0:
    polycast.use({"linear": "fp32"})
    polycast.uninstall()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
"""


def test_a_child_that_was_forked_during_a_compilation_can_change_its_policy() -> None:
    assert python(FORKED) == "7\n"
