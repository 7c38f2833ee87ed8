"""Modules that torch never calls, and that are refused.

The rules of a module hold while its ``forward`` runs. Some modules only hold weights: nn.MultiheadAttention passes the
weights of its ``out_proj`` to a function, and a ModuleList has no ``forward``.
"""

from collections.abc import Mapping
from inspect import getattr_static

from torch import nn

# Modules whose weights a forward reads without calling them, by the class that defines the forward.
_READ = {
    "torch.nn.modules.activation.MultiheadAttention": ("out_proj",),
    "torchvision.models.swin_transformer.ShiftedWindowAttention": ("qkv", "proj"),
    "torchvision.models.swin_transformer.ShiftedWindowAttentionV2": ("qkv", "proj"),
    "torchvision.models.video.swin_transformer.ShiftedWindowAttention3d": ("qkv", "proj"),
    "transformers.models.mobilebert.modeling_mobilebert.MobileBertLMPredictionHead": ("dense", "decoder"),
    "transformers.models.wavlm.modeling_wavlm.WavLMAttention": ("k_proj", "out_proj", "q_proj", "v_proj"),
}


def reader_of(name: str, modules: Mapping[str, nn.Module]) -> str | None:
    """Return the name of the module that reads a module's weights without calling it; None if there is none."""
    around, _, last = name.rpartition(".")
    if not name or around not in modules:
        return None
    definer = next(part for part in type(modules[around]).__mro__ if "forward" in vars(part))
    return around if last in _READ.get(f"{definer.__module__}.{definer.__qualname__}", ()) else None


def has_forward(module: nn.Module) -> bool:
    """Return whether a module has a forward. A ModuleList has none."""
    return "forward" in vars(module) or getattr_static(type(module), "forward") is not nn.Module.forward
