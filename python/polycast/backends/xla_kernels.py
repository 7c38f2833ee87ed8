"""Where torch's dispatcher finds the operators on XLA."""

from functools import cache
from types import ModuleType

from torch.library import Library

from polycast.backends import once_imported
from polycast.backends.xla import PACKAGE


def register_on_import() -> None:
    """Register the operators' kernels once torch_xla is loaded, which may be now."""
    once_imported(PACKAGE, _register_late)


def _register_late(_: ModuleType) -> None:
    register()


@cache
def register() -> Library:
    """Register the operators with torch's dispatcher, for as long as the returned library lives.

    Tensors on XLA are wrapped for functionalization, which refuses an operator that writes and is not ATen's. So these
    are registered in its place: above it, autograd's key would do as well, which is missing in inference mode.
    """
    from polycast.backends import xla_optim, xla_scale

    library = Library("polycast", "IMPL")  # type: ignore[no-untyped-call]
    pure = (xla_scale.find_non_finite, xla_scale.norm)
    writing = (xla_optim.adam_step_, xla_optim.sgd_step_, xla_scale.unscale_, xla_scale.update_scale_)
    for key, functions in (("XLA", pure), ("Functionalize", writing)):
        for function in functions:
            library.impl(function.__name__, function, key)  # type: ignore[no-untyped-call]
    return library
