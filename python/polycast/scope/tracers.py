"""Tracers that record what modules do without their rules: they raise where the rules would be lost.

torch.fx records no casts, so it raises at modules that it takes apart; those that it leaves whole keep their rules.
torch.jit.trace records the casts of a region, and where there is none, it raises. An export to ONNX does likewise, and
is not warned of: ONNX has no regions that its graph could be run in.
"""

import warnings
from functools import cache, wraps
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree

from polycast import backends


def check_call(module: nn.Module | None, *args: object) -> None:
    """Raise where a tracer records the call of a module that has rules without them."""
    if torch._C._get_tracing_state() is not None:
        _check_trace(module)
    if torch.fx._symbolic_trace.is_fx_symbolic_tracing() and any(  # type: ignore[no-untyped-call]
        isinstance(leaf, torch.fx.Proxy) for leaf in _pytree.tree_leaves(args)
    ):
        raise _lost("torch.fx records no casts", module)


@cache
def check_roots(has_rules: type) -> None:
    """Have torch.fx raise for a model whose own forward is one of a class; it would trace that of the model's class."""
    trace = torch.fx.Tracer.trace

    @wraps(trace)
    def checked(self: torch.fx.Tracer, root: Any, *args: Any, **kwargs: Any) -> torch.fx.Graph:
        if isinstance(root, nn.Module) and isinstance(vars(root).get("forward"), has_rules):
            raise _lost("torch.fx records no casts", root)
        return trace(self, root, *args, **kwargs)

    torch.fx.Tracer.trace = checked  # type: ignore[method-assign]


def _check_trace(module: nn.Module | None) -> None:
    if not any(torch.is_autocast_enabled(kind) for kind in backends.types() if kind != backends.CARRIER):
        raise _lost("torch.jit.trace records no casts outside of a region", module)
    if not torch.onnx.is_in_onnx_export():
        warnings.warn(
            f"torch.jit.trace records the casts of this {type(module).__name__} by its rules, which holds where the "
            "trace runs outside of regions; in a region, TorchScript casts anew by lists of its own",
            stacklevel=4,
        )


def _lost(what: str, module: nn.Module | None) -> RuntimeError:
    return RuntimeError(
        f"{what}, so the rules of this {type(module).__name__} would be lost; use torch.compile, which keeps them, or "
        "take them back first: polycast.assign(model, {name: None})"
    )
