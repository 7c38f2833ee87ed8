"""A name that a module does not have: the error says what to write."""

from importlib import import_module
from types import ModuleType

import polycast
import pytest
import torch
from polycast import _pointers

# What is typed after polycast, and the error after what is not there.
POINTED = {
    "AdamW": "; write polycast.syncfree.AdamW",
    "adam": "; write polycast.syncfree.Adam",
    "SGD": "; write polycast.syncfree.SGD",
    "trace": "; write polycast.debug.trace",
    "compare": "; write polycast.debug.compare",
    "record": "; write polycast.debug.record",
    "watch": "; write polycast.debug.watch",
    "keep": "; write polycast.cast_cache.keep",
    "category": "; write polycast.policy.category",
    "categories": "; write polycast.policy.categories",
    "CATEGORIES": "; write polycast.policy.categories",
    "devices": "; write polycast.policy.devices",
    "ops": "; write polycast.policy.ops",
    "in_force": "; write polycast.policy.in_force",
    "Call": "; write polycast.debug.Call",
    "gradscaler": "; write polycast.GradScaler",
    "grad_scaler": "; write polycast.autocast and polycast.GradScaler",
    "Autocast": "; write polycast.autocast",
    "custom_Fwd": "; write polycast.custom_fwd",
    "amp": "; write polycast.autocast and polycast.GradScaler",
    "optim": "; write polycast.syncfree",
    "cuda": "; name the device in the call: polycast.autocast('cuda')",
    "gpu": "; name the device in the call: polycast.autocast('cuda')",
    "cpu": "; name the device in the call: polycast.autocast('cpu')",
    "accelerate": "; import polycast.integrations.accelerate",
    "integrations": "; write import polycast.integrations.accelerate, or another",
    "float16": "; torch has it: torch.float16",
    "half": "; torch has it: torch.half",
    "is_autocast_enabled": "; torch has it: torch.is_autocast_enabled",
    "get_autocast_dtype": "; torch has it: torch.get_autocast_dtype",
    "autocst": "; did you mean polycast.autocast?",
    "GradScalar": "; did you mean polycast.GradScaler?",
    "unasign": "; did you mean polycast.assign?",
    "watcher": "; did you mean polycast.debug.watch?",
    "set_policy": "; write polycast.use(policy)",
    "reset": "; write polycast.use(None)",
    "clip_grad_norm_": "; write scaler.clip_grad_norm(optimizer, max_norm), of a polycast.GradScaler",
    "cast_cache.stats": "; use one of ",
    "cast_cache.enable": "; use one of ",
    "cast_cache.Keep": "; write polycast.cast_cache.keep",
    "cast_cache.autocast": "; write polycast.autocast",
    "debug.find_nan": "; write polycast.debug.watch",
    "debug.print_casts": "; write polycast.debug.trace",
    "debug.enable": "; use one of ",
    "debug.Trace": "; write polycast.debug.trace",
    "supercalifragilistic": "; use one of ",
}


@pytest.mark.parametrize("name", POINTED)
def test_a_wrong_name_is_pointed_the_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _, last = f"polycast.{name}".rpartition(".")
    module = import_module(path)
    monkeypatch.delattr(polycast, "integrations", raising=False)  # where another test has imported it
    assert not hasattr(module, last)
    with pytest.raises(AttributeError) as raised:
        getattr(module, last)
    start = f"module '{path}' has no attribute '{last}'"
    assert str(raised.value).startswith(start + POINTED[name])


def test_what_is_no_name_of_a_user_is_not_guessed_at() -> None:
    with pytest.raises(AttributeError, match=r"^module 'polycast' has no attribute '__wrapped__'$"):
        polycast.__wrapped__  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("place", [place for place in _pointers._SYNONYMS if not place.startswith("import ")])
def test_what_a_synonym_points_at_is_there(place: str) -> None:
    for word in place.replace("(", " ").split():
        if word.startswith("polycast."):
            found: object = polycast
            for name in word.strip(",").split(".")[1:]:
                found = getattr(found, name)
    assert not set(_pointers._MEANT) & set(polycast.__all__)


@pytest.mark.parametrize("name", ["amp", "cuda", "cuda.amp"])
def test_an_import_as_of_torch_is_pointed_the_way(name: str) -> None:
    import_module(f"torch.{name}")
    with pytest.raises(ImportError, match=r"there is no polycast.*: from polycast import autocast, GradScaler"):
        import_module(f"polycast.{name}")


def test_every_name_of_torch_amp_has_a_place_here() -> None:
    for name, value in vars(torch.amp).items():
        if not (name.startswith("_") or isinstance(value, ModuleType) or hasattr(polycast, name)):
            with pytest.raises(AttributeError, match=r"; (write|torch has it)"):
                getattr(polycast, name)


def test_an_import_of_a_name_that_is_not_there_points_the_way() -> None:
    with pytest.raises(
        ImportError, match=r"^cannot import name 'AdamW' from 'polycast'; write polycast\.syncfree\.AdamW$"
    ):
        from polycast import AdamW  # type: ignore[attr-defined]  # noqa: F401
    from polycast import integrations  # a module that nobody has imported yet may be

    assert isinstance(integrations, ModuleType)
    assert not hasattr(polycast, "AdamW")
