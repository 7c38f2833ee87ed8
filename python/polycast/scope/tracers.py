"""Errors of tracers that would lose the rules of a module.

torch.fx records no casts, so it raises at a module that it traces into. A leaf module keeps its rules. torch.jit.trace
records the casts, but TorchScript casts again by its own lists where the traced code runs.
"""

import torch
from torch import nn

from polycast.torch_internals import is_fx_tracing, is_jit_tracing, tree_leaves


def check_call(module: nn.Module | None, *args: object) -> None:
    """Raise where a tracer records the call of a module with rules, and would lose the rules."""
    if is_jit_tracing():
        raise lost("torch.jit.trace makes code that casts by TorchScript's own lists", module)
    if is_fx_tracing() and any(isinstance(leaf, torch.fx.Proxy) for leaf in tree_leaves(args)):
        raise lost("torch.fx records no casts", module)


def lost(what: str, module: nn.Module | None) -> RuntimeError:
    """Return the error of a tracer that would lose the rules of a module."""
    return RuntimeError(
        f"{what}, so the rules of this {type(module).__name__} would be lost; use torch.compile, which keeps them, or "
        "take them back first: polycast.assign(model, {name: None})"
    )
