"""What importing polycast changes is documented, and uninstalling undoes all of it."""

import json
import re
from typing import Any

import pytest
import torch
from polycast import installation

from tests.support.probe import HAS_XLA, NO_XLA
from tests.support.process import python

DYNAMO = "torch._dynamo, torch.compiler.config"
MOST = f"torch_xla, torch_xla.utils.checkpoint, {DYNAMO}" if HAS_XLA else DYNAMO
# Torch makes some of its attributes when they are first needed. So it does the same before they are looked at.
BEFORE = """
import json, torch, warnings, {beside}
from tests.support.attributes import Attributes, dump

def work():
    with torch.autocast("cpu"):
        torch.nn.Linear(2, 2)(torch.ones(2, 2)).sum().backward()
work()
before, kernels = Attributes(), dump()

def differ():
    return before.changed() + [op.partition(chr(10))[0] for op in {{*dump()}} ^ {{*kernels}}]
assert differ() == []
import polycast
"""
# What is done between an installation and the last call that uninstalls.
USES = {
    "nothing": "",
    "one device after the other": "[polycast.uninstall(device) for device in polycast.installed()]",
    "rules": """
model = torch.nn.Linear(2, 2)
polycast.assign(model, {"": "fp32"})
polycast.cast_cache.keep(model)
with polycast.autocast("cpu", policy=polycast.Policy({"linear": "fp32", "relu": "fp32"})):
    model(torch.ones(2, 2)).sum().backward()
polycast.use(polycast.Policy({"abs": "fp32"}))
work()
polycast.use(None)
""",
}


@pytest.fixture(scope="module", params=["sys", MOST], ids=["torch", "most"])
def effects(request: pytest.FixtureRequest) -> Any:
    """What the import changes next to these modules, and what stays changed after each use and uninstalling."""
    uses = "polycast.install()\n".join(f"{use}\nleave({name!r})\n" for name, use in USES.items())
    code = """
changed, left = before.changed(), {}
def leave(use):
    assert polycast.installed() or use != "nothing"
    polycast.uninstall()
    left[use] = differ()
"""
    found = python(f"{BEFORE.format(beside=request.param)}{code}{uses}print(json.dumps([changed, left]))")
    return request.param, *json.loads(found)


def test_uninstalling_undoes_all_that_the_import_changed(effects: Any) -> None:
    assert effects[2] == {use: [] for use in USES}


def test_all_that_the_import_changes_is_documented(effects: Any) -> None:
    """The list in the docstring of installation.py is complete, and has nothing else."""
    beside, changed, _ = effects
    places = [place.replace("._config.", ".") for place in changed]  # an option by the name that users write
    listed = (installation.__doc__ or "").partition("Compiled code holds")[0]
    names = re.findall(r"``(torch[\w.]+|sys[\w.]+)``", listed)
    assert [place for place in places if not any(f"{place}.".startswith(f"{name}.") for name in names)] == []
    found = {name for name in names if any(f"{place}.".startswith(f"{name}.") for place in places)}
    assert set(names) - found == {name for name in names if not is_here(name, beside)}


def is_here(name: str, beside: str) -> bool:
    """Whether this torch has the attribute where these modules are imported. The finder waits for the others."""
    if name == "sys.meta_path":
        return "torch_xla.utils" not in beside
    if name.startswith("torch_xla"):
        return "torch_xla" in beside
    if "dynamo" in name:
        return "dynamo" in beside
    if "generator" in name:
        there = vars(torch.utils.checkpoint)
        inner = "_checkpoint_without_reentrant_generator_impl"
        return name.endswith("impl") if inner in there else not name.endswith("impl")
    return True


def test_the_switch_prevents_all_of_it() -> None:
    code = "import sys, torch; finders = [*sys.meta_path]; import polycast"
    code += "; print(polycast.installed(), sys.meta_path == finders)"
    assert python(code, POLYCAST_INSTALL="0") == "() True\n"


@pytest.mark.slow  # late imports are undone by the code of early ones
@pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)
def test_what_is_imported_after_polycast_is_torchs_own_again() -> None:
    """Nothing that torch holds is of polycast, and the dispatcher is that of a process without it.

    One module of torch imports a function that is replaced, and keeps what it imported.
    """
    report = """
from tests.support.attributes import Attributes
def is_ours(value):
    value = value.__func__ if type(value) is staticmethod else value
    return type(value) is type(dump) and value.__globals__.get("__name__", "").startswith("polycast")
def report():
    values = Attributes().values
    ours = [place for place in values if is_ours(values[place])]
    print(dump(), *(place for place in ours if "_overload_registry" not in place and "_composable" not in place))
"""
    imports = "import torch_xla, torch_xla.utils.checkpoint, torch._dynamo\n"
    plain = python(f"{imports}{report}report()")
    lines = python(f"import polycast\n{imports}{report}report()\npolycast.uninstall()\nreport()").splitlines()
    assert "torch_xla.utils.checkpoint.CheckpointFunction.forward" in lines[0]
    assert f"{lines[1]}\n" == plain
    assert python(f"import polycast\npolycast.uninstall()\n{imports}{report}report()") == plain


def test_threads_that_install_and_uninstall_leave_what_the_last_one_did() -> None:
    code = (
        BEFORE.format(beside=DYNAMO)
        + """
import random
from concurrent.futures import ThreadPoolExecutor

def some(seed):
    chosen = random.Random(seed)
    for _ in range(20):
        chosen.choice([polycast.install, polycast.uninstall, lambda: polycast.install("cpu"), work])()
with ThreadPoolExecutor(4) as threads:
    list(threads.map(some, range(4)))
polycast.install()
assert polycast.installed()
polycast.uninstall()
print(*differ())
"""
    )
    assert python(code) == "\n"


def test_a_module_that_another_thread_is_importing_is_changed_when_it_is_there() -> None:
    code = """
import threading, polycast
polycast.uninstall()
thread = threading.Thread(target=__import__, args=("torch._dynamo",))
thread.start()
while "torch._dynamo" not in __import__("sys").modules:
    pass
polycast.install("cpu")
print(__import__("torch")._dynamo.convert_frame.GlobalStateGuard.__module__)
thread.join()
"""
    assert python(code) == "polycast.scope.compiled_code\n"


def test_the_hook_leaves_the_import_as_it_is() -> None:
    """The module's loader and spec are Python's own, and an import that fails can be repeated."""
    code = """
import importlib.util, sys, pathlib, tempfile
from polycast._import_hook import ImportHook

folder = pathlib.Path(tempfile.mkdtemp())
sys.path.insert(0, str(folder))
late_py = folder / "late.py"
late_py.write_text("raise ValueError")
seen = []
hook = ImportHook(seen.append)
hook.wait_for(["late", "never"])
assert importlib.util.find_spec("never") is None and importlib.util.find_spec("late").origin == str(late_py)
try:
    import late
except ValueError:
    assert seen == [] and "late" not in sys.modules
late_py.write_text("value = 'another length'")
importlib.invalidate_caches()
import late
assert seen == [late] and vars(late.__loader__).keys() == {"name", "path"} and late.__spec__.loader is late.__loader__
hook.wait_for(["never"])
importlib.reload(late)
assert seen == [late] and sys.meta_path[0] is hook
hook.wait_for([])
assert hook not in sys.meta_path
print("as it is")
"""
    assert python(code) == "as it is\n"
