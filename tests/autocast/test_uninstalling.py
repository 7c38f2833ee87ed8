"""The changes that ``import polycast`` makes in the process: they are documented, and ``uninstall`` reverts them."""

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module, invalidate_caches, reload
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import pytest
import torch
from polycast import installation
from polycast._import_hook import ImportHook

from tests.support.devices import NEEDS_XLA
from tests.support.probe import HAS_XLA
from tests.support.process import python

DYNAMO = "torch._dynamo, torch.compiler.config"
MOST = f"torch_xla, torch_xla.utils.checkpoint, {DYNAMO}" if HAS_XLA else DYNAMO
# PyTorch creates some attributes on first use, so `work` runs once before the test records the attributes.
BEFORE = """
import json, torch, warnings, {modules}
from tests.support.attributes import Attributes, dump

def work():
    with torch.autocast("cpu"):
        torch.nn.Linear(2, 2)(torch.ones(2, 2)).sum().backward()
work()
before, kernels = Attributes(), dump()

def differ():
    ops = [op.partition(chr(10))[0] for op in {{*dump()}} ^ {{*kernels}}]
    return before.changed() + [op for op in ops if not op.startswith("polycast::")]  # polycast's own operators remain.
import polycast
"""
# Each program uses the package before the test calls `polycast.uninstall()`.
USES = {
    "nothing": "",
    "rules, and one device after the other": """
model = torch.nn.Linear(2, 2)
polycast.assign(model, {"": "fp32"})
polycast.cast_cache.keep(model)
with polycast.autocast("cpu", policy=polycast.Policy({"linear": "fp32", "relu": "fp32"})):
    model(torch.ones(2, 2)).sum().backward()
polycast.use(polycast.Policy({"abs": "fp32"}))
work()
polycast.use(None)
[polycast.uninstall(device) for device in polycast.installed()]
""",
    "threads that install and uninstall": """
import random
from concurrent.futures import ThreadPoolExecutor
def some(seed):
    chosen = random.Random(seed)
    for _ in range(20):
        chosen.choice([polycast.install, polycast.uninstall, lambda: polycast.install("cpu"), work])()
with ThreadPoolExecutor(4) as threads:
    list(threads.map(some, range(4)))
polycast.install()
""",
}


IMPORTED = {"torch": "sys", "most": MOST}


@pytest.fixture(scope="module")
def effects() -> dict[str, Any]:
    """Return the changes by the import, and the changes that remain after each use and ``polycast.uninstall()``."""
    uses = "polycast.install()\n".join(f"{use}\nleave({name!r})\n" for name, use in USES.items())
    code = """
changed, left = before.changed(), {}
def leave(use):
    assert polycast.installed() or use.startswith("rules")
    polycast.uninstall()
    left[use] = differ()
"""
    code += f"{uses}print(json.dumps([changed, left]))"
    with ThreadPoolExecutor() as pool:
        printed = pool.map(python, (BEFORE.format(modules=modules) + code for modules in IMPORTED.values()))
        return dict(zip(IMPORTED, map(json.loads, printed), strict=True))


@pytest.mark.parametrize("imported", IMPORTED)
def test_uninstalling_reverts_all_changes_of_the_import(effects: Any, imported: str) -> None:
    assert effects[imported][1] == {use: [] for use in USES}


def test_all_changes_of_the_import_are_documented(effects: Any) -> None:
    """The docstring of ``installation.py`` lists exactly the changes that the import makes."""
    changed = effects["torch"][0] + effects["most"][0]
    places = [place.replace("._config.", ".") for place in changed]  # Users write options without "._config".
    listed = (installation.__doc__ or "").partition("Compiled code contains")[0]
    names = re.findall(r"``(torch[\w.]+|sys[\w.]+)``", listed)
    assert [place for place in places if not any(f"{place}.".startswith(f"{name}.") for name in names)] == []
    found = {name for name in names if any(f"{place}.".startswith(f"{name}.") for place in places)}
    assert found == {name for name in names if exists(name) and not exists(f"{name}_impl")}


def exists(name: str) -> bool:
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_a_dtype_that_was_set_before_the_import_is_the_default_of_regions() -> None:
    """A region's default dtype is the dtype that a program set before it imported polycast (specification 4.2)."""
    code = "import torch; torch.set_autocast_dtype('cpu', torch.float16); import polycast"
    assert python(code + "; print(polycast.autocast('cpu').fast_dtype)") == "torch.float16\n"


def test_polycast_install_0_prevents_every_change_of_the_import() -> None:
    code = "import sys, torch; finders = [*sys.meta_path]; import polycast"
    code += "; print(polycast.installed(), sys.meta_path == finders)"
    assert python(code, POLYCAST_INSTALL="0") == "() True\n"


def test_a_module_whose_import_the_program_blocks_is_changed_once_it_is_imported() -> None:
    code = "import sys, torch; sys.modules.update({'torch_xla': None, 'torch._dynamo': None}); import polycast"
    code += "; print('xla' in polycast.installed()); del sys.modules['torch._dynamo']; from torch._dynamo import guards"
    code += "; print(guards.CheckFunctionManager.compile_check_fn.__module__)"
    assert python(code) == "False\npolycast.scope.compiled_code\n"


@NEEDS_XLA
@pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has an accelerator")
def test_both_import_orders_leave_the_same_dispatcher_and_defer_the_device_until_xla_is_used() -> None:
    code = """
import torch
print(polycast.installed(), dump())
try:
    polycast.autocast()
except RuntimeError as error:
    print(error)
torch.empty(1, device="xla")
print(polycast.autocast().device)
"""
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(
            python, [f"import {each}{code}" for each in ("polycast, torch_xla", "torch_xla, polycast")]
        )
    assert first == second
    installed, *region = first.splitlines()
    assert "'xla'" in installed
    assert region == [
        "torch_xla is imported, but no XLA device is in use yet; pass the device type of the region, as in "
        "polycast.autocast('cpu')",
        "xla",
    ]


def test_a_module_that_another_thread_is_importing_is_changed_once_it_is_imported() -> None:
    code = """
import threading, sys, polycast
polycast.uninstall()
thread = threading.Thread(target=__import__, args=("torch._dynamo",))
thread.start()
while "torch._dynamo" not in sys.modules:
    pass
polycast.install("cpu")
thread.join()
manager = sys.modules["torch._dynamo.guards"].CheckFunctionManager
print(manager.compile_check_fn.__module__)
polycast.uninstall()
print(manager.compile_check_fn.__module__)
"""
    assert python(code) == "polycast.scope.compiled_code\ntorch._dynamo.guards\n"


def test_the_hook_does_not_change_the_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With polycast's import hook, a module has Python's own loader and spec, and a failed import can be repeated."""
    monkeypatch.syspath_prepend(tmp_path)
    path, seen = tmp_path / "late.py", list[ModuleType]()
    path.write_text("raise ValueError")
    hook = ImportHook(seen.append)
    hook.wait_for(["late", "never"])
    assert find_spec("never") is None
    with pytest.raises(ValueError, match=r"^$"):
        import_module("late")
    assert seen == []
    path.write_text("value = 'another length'")
    invalidate_caches()
    late = import_module("late")
    assert late.__spec__ is not None
    assert late.__spec__.loader is late.__loader__
    assert vars(late.__loader__).keys() == {"name", "path"}
    hook.wait_for(["never"])
    reload(late)
    assert seen == [late]
    assert sys.meta_path[0] is hook
    hook.wait_for([])
    assert hook not in sys.meta_path
