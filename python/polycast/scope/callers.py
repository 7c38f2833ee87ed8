"""Modules that torch never calls.

Note [Modules that are not called]
The rules of a module hold while its ``forward`` runs. Some modules only hold weights: nn.MultiheadAttention passes the
weights of its ``out_proj`` to a function, and a ModuleList has no ``forward``. Such a module is refused. In evaluation
nn.TransformerEncoderLayer passes all its weights to one fused operator, unless a module in it has a hook. So a module
in such a layer gets a hook with its rules.
"""

from collections.abc import Iterable, Mapping
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


def is_in_fused_layer(name: str, modules: Mapping[str, nn.Module]) -> bool:
    """Return whether a module is in a layer that may run a fused operator instead of its modules."""
    return any(isinstance(modules.get(around), nn.TransformerEncoderLayer) for around in _around(name))


def _around(name: str) -> Iterable[str]:
    parts = name.split(".") if name else []
    return (".".join(parts[:count]) for count in range(len(parts)))


def is_had_called(module: nn.Module) -> bool:
    """Return whether a module has the hook of :func:`have_called`."""
    return _called in module._forward_pre_hooks.values()


def have_called(module: nn.Module, is_called: bool) -> None:
    """Give a module a hook, so that the layer around it calls it, or remove the hook."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if hook is _called:
            del module._forward_pre_hooks[key]
    if is_called:
        module.register_forward_pre_hook(_called)


def _called(_module: nn.Module, _args: object) -> None:
    """Do nothing. The layer around only asks whether there is a hook."""
