"""Where to find what a module does not have: the errors of wrong names."""

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, ModuleType
from typing import NoReturn

import torch

from polycast._compiled import ALSO_CALLED, DEVICES
from polycast._grammar.errors import closest, did_you_mean

_PACKAGE = __name__.partition(".")[0]

# What others call what polycast has under another name, by what to write. All else is found by its name.
_SYNONYMS = {
    "polycast.autocast and polycast.GradScaler": "amp autocast_mode grad_scaler initialize scale_loss",
    "polycast.autocast(enabled=False)": "disable no_cast",
    "polycast.syncfree": "optim",
    "scaler.clip_grad_norm(optimizer, max_norm), of a polycast.GradScaler": "clip_grad_norm clip_grad_norm_",
    "import polycast.integrations.accelerate, or another module of integrations": "integrations",
    "import polycast.integrations.transformers": "huggingface hf trainer",
    "polycast.assign(model, rules)": "wrap prepare convert",
    "polycast.assigned(model)": "assignments",
    "polycast.install()": "patch",
    "polycast.installed()": "is_installed",
    "polycast.__version__": "version",
    "polycast.use(policy)": "set_policy set_default_policy apply_policy use_policy",
    "polycast.use(None)": "reset",
    "polycast.policy.in_force()": "get_policy current_policy default_policy",
    "polycast.policy.rules(op)": "rule lookup show query",
    "polycast.policy.ops()": "list_ops",
    "polycast.Policy, as in polycast.Policy('torch-2.11') or polycast.Policy({'mm': 'fp32'})": (
        "load release register register_op"
    ),
    "python -m polycast help, which names the releases": "releases list_releases",
    "python -m polycast diff, in a shell": "diff",
    "python -m polycast verify, in a shell": "verify",
    "polycast.debug.trace": "explain print_casts profile",
    "polycast.debug.watch": "find_nan detect_anomaly",
}
_INTEGRATIONS = {file.stem for file in (Path(__file__).parent / "integrations").glob("[!_]*.py")}
_MEANT = {word: place for place, words in _SYNONYMS.items() for word in words.split()}


def getattr_of(module: str) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module, which raises an AttributeError that says where the name is.

    In ``from polycast import name`` Python would replace that error by one of its own, so there it is an ImportError.
    """

    def absent(name: str) -> NoReturn:
        pointer = _pointer(module, name)
        if pointer and _is_imported_from() and find_spec(f"{module}.{name}") is None:
            raise ImportError(f"cannot import name '{name}' from '{module}'{pointer}")
        # With an object Python would suggest a name a second time.
        raise AttributeError(f"module '{module}' has no attribute '{name}'{pointer}", name=name, obj=None)

    return absent


def _is_imported_from() -> bool:
    """Return whether a from-import asks a module of ours for a name."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "_handle_fromlist"


def absent_from(value: object, name: str) -> AttributeError:
    """Return the error of an object that does not have a name."""
    names = (
        [] if name.startswith("_") else [one for one in (*vars(value), *dir(type(value))) if not one.startswith("_")]
    )
    remedy = f"; {did_you_mean(name, names)}" if names else ""
    return AttributeError(f"'{type(value).__name__}' has no attribute '{name}'{remedy}")


def _pointer(module: str, name: str) -> str:
    """Return the end of the error: what to write instead."""
    if name.startswith("_"):
        return ""
    if name in DEVICES or name in ALSO_CALLED:
        return f"; name the device in the call: polycast.autocast('{ALSO_CALLED.get(name, name)}')"
    own, *others = _public(module)
    exact = [place for names in (own, *others) for word, place in names.items() if _folded(word) == _folded(name)]
    if name in _MEANT or exact:
        return f"; write {_MEANT.get(name) or exact[0]}"
    if name in _INTEGRATIONS:
        return f"; import polycast.integrations.{name}"
    for library in (torch, torch.amp) if module == _PACKAGE else ():
        if not isinstance(vars(library).get(name, library), ModuleType):
            return f"; torch has it: {library.__name__}.{name}"
    near = own if module != _PACKAGE else {word: place for names in (*others, own) for word, place in names.items()}
    close = closest(name, near)
    if close is not None:
        return f"; did you mean {near[close]}?"
    # Where there are many names, most are the classes of what functions return.
    return f"; {did_you_mean(name, own if len(own) <= 20 else filter(str.islower, own))}"


def _public(module: str) -> Iterator[dict[str, str]]:
    """Yield the public names of a module with their places, then those of the package and of its other modules."""
    package = sys.modules[_PACKAGE]
    names = [name for name in package.__all__ if isinstance(getattr(package, name), ModuleType)]
    for place in dict.fromkeys((module, _PACKAGE, *(f"{_PACKAGE}.{name}" for name in names))):
        yield {name: f"{place}.{name}" for name in sys.modules[place].__all__}


def _folded(name: str) -> str:
    return name.lower().replace("_", "")
