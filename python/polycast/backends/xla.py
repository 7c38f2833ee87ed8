"""XLA is one device type and two devices of the policy; the hardware that torch_xla runs on chooses between them."""

import os
import sys

TYPE = "xla"
PACKAGE = "torch_xla"
CHECKPOINT = "torch_xla.utils.checkpoint"
DEVICES = ("xla", "xla_gpu")
_GPUS = ("CUDA", "ROCM", "GPU")
# torch_xla 2.9 obeys the ones for bfloat16.
_OVERRIDES = ("XLA_USE_BF16", "XLA_DOWNCAST_BF16", "XLA_USE_F16")


def is_loaded() -> bool:
    """Whether torch_xla has been imported in this process."""
    return PACKAGE in sys.modules


def is_in_use() -> bool:
    """Whether the runtime was started. The first tensor on an XLA device starts it."""
    import torch_xla

    return bool(torch_xla._XLAC._xla_runtime_is_initialized())


# Dynamo cannot trace this function. torch.compiler.assume_constant_result sets the same attribute, but imports dynamo.
is_in_use._dynamo_marked_constant = True  # type: ignore[attr-defined]


def random_state() -> int | None:
    """Return the state of XLA's random generator, or None if no XLA device is in use."""
    if not (is_loaded() and is_in_use()):
        return None
    from torch_xla.core import xla_model

    return int(xla_model.get_rng_state())


def set_random_state(state: int | None) -> None:
    """Restore a state that :func:`random_state` returned."""
    if state is not None:
        from torch_xla.core import xla_model

        xla_model.set_rng_state(state)


def device() -> str:
    """Return the device of the policy for the hardware: "xla_gpu" for GPUs, "xla" for TPU, Neuron and the host."""
    if not is_loaded():
        return DEVICES[0]
    from torch_xla import runtime

    return DEVICES[1] if runtime.device_type() in _GPUS else DEVICES[0]


def hardware() -> str:
    """Return what torch_xla calls the hardware that it runs on, such as "TPU"."""
    from torch_xla import runtime

    return f"PJRT_DEVICE {runtime.device_type()}"


def synchronize(*, wait: bool) -> None:
    """Run what was traced, and wait for it if asked for."""
    import torch_xla

    torch_xla.sync(wait=wait)


def overrides() -> list[str]:
    """Return a sentence for each environment variable that overrides the policy."""
    set_ = [name for name in _OVERRIDES if os.environ.get(name, "0") not in ("", "0", "false")]
    return [
        f"{name} is set: a torch_xla that obeys it runs every floating-point operation in "
        f"{'bfloat16' if name.endswith('BF16') else 'float16'}, whatever the autocast policy says; unset {name} to let "
        "the policy choose"
        for name in set_
    ]
