"""Tracers that would lose the rules of a module: they raise.

torch.fx records no casts, so it raises at a module that it traces into. A leaf module keeps its rules. torch.jit.trace
and an export to ONNX record the casts inside a region, and raise outside of one. Only torch.jit.trace warns, because
ONNX has no regions in which its graph could run.
"""

import warnings

import torch
from torch import nn
from torch.utils import _pytree

from polycast import backends


def check_call(module: nn.Module | None, *args: object) -> None:
    """Raise where a tracer records the call of a module with rules, and would lose the rules."""
    if torch._C._get_tracing_state() is not None:
        _check_trace(module)
    if torch.fx._symbolic_trace.is_fx_symbolic_tracing() and any(  # type: ignore[no-untyped-call]
        isinstance(leaf, torch.fx.Proxy) for leaf in _pytree.tree_leaves(args)
    ):
        raise lost("torch.fx records no casts", module)


def _check_trace(module: nn.Module | None) -> None:
    if not any(torch.is_autocast_enabled(known) for known in backends.device_types()):
        raise lost("torch.jit.trace records no casts outside of a region", module)
    if not torch.onnx.is_in_onnx_export():
        warnings.warn(
            f"torch.jit.trace records the casts of this {type(module).__name__} by its rules, which holds where the "
            "trace runs outside of regions; in a region, TorchScript casts anew by lists of its own",
            stacklevel=4,
        )


def lost(what: str, module: nn.Module | None) -> RuntimeError:
    """Return the error of a tracer that would lose the rules of a module."""
    return RuntimeError(
        f"{what}, so the rules of this {type(module).__name__} would be lost; use torch.compile, which keeps them, or "
        "take them back first: polycast.assign(model, {name: None})"
    )
