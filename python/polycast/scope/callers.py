"""Who calls a module: a rule holds where the module's ``forward`` is called, so here is told where torch does not.

Note [Modules that are not called]
Some modules only hold weights. nn.MultiheadAttention hands those of its ``out_proj`` to a function, a ModuleList has no
``forward`` at all, and in evaluation nn.TransformerEncoderLayer hands all its weights to one fused operator, unless a
module in it has a hook. So a rule is refused where it cannot hold, and a module in such a layer gets a hook with it.
"""

from collections.abc import Iterable, Mapping

from torch import nn

# What a forward takes the weights of, without calling it; by the class that defines the forward.
_READ = {
    "torch.nn.modules.activation.MultiheadAttention": ("out_proj",),
    "torchvision.models.swin_transformer.ShiftedWindowAttention": ("qkv", "proj"),
    "torchvision.models.swin_transformer.ShiftedWindowAttentionV2": ("qkv", "proj"),
    "torchvision.models.video.swin_transformer.ShiftedWindowAttention3d": ("qkv", "proj"),
    "transformers.models.mobilebert.modeling_mobilebert.MobileBertLMPredictionHead": ("dense", "decoder"),
    "transformers.models.wavlm.modeling_wavlm.WavLMAttention": ("k_proj", "out_proj", "q_proj", "v_proj"),
}


def reader_of(name: str, modules: Mapping[str, nn.Module]) -> str | None:
    """Return the name of the module that reads a module's weights and does not call it; None where it is called."""
    around, _, last = name.rpartition(".")
    if not name or around not in modules:
        return None
    definer = next(part for part in type(modules[around]).__mro__ if "forward" in vars(part))
    return around if last in _READ.get(f"{definer.__module__}.{definer.__qualname__}", ()) else None


def has_forward(module: nn.Module) -> bool:
    """Return whether a module can be called: a ModuleList cannot."""
    return "forward" in vars(module) or type(module).forward is not nn.Module.forward


def is_in_fused_layer(name: str, modules: Mapping[str, nn.Module]) -> bool:
    """Return whether a module is in one that runs a fused operator in its place, in evaluation."""
    return any(isinstance(modules.get(around), nn.TransformerEncoderLayer) for around in _around(name))


def _around(name: str) -> Iterable[str]:
    parts = name.split(".") if name else []
    return (".".join(parts[:count]) for count in range(len(parts)))


def have_called(module: nn.Module, is_called: bool) -> None:
    """Give a module the hook by which the layer around it sees that it has to be called, or take it away."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if hook is _called:
            del module._forward_pre_hooks[key]
    if is_called:
        module.register_forward_pre_hook(_called)


def _called(_module: nn.Module, _args: object) -> None:
    """Do nothing: what counts is that the module has a hook."""
