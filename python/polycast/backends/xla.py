"""XLA: one device type, two columns of the policy, chosen by the hardware that torch_xla runs on."""

import os
import sys

TYPE = "xla"
PACKAGE = "torch_xla"
CHECKPOINT = "torch_xla.utils.checkpoint"
COLUMNS = ("xla", "xla_gpu")
_GPUS = ("CUDA", "ROCM", "GPU")
# Of these, torch_xla 2.9 honours the bfloat16 ones.
_OVERRIDES = ("XLA_USE_BF16", "XLA_DOWNCAST_BF16", "XLA_USE_F16")


def is_loaded() -> bool:
    """Whether torch_xla has been imported in this process."""
    return PACKAGE in sys.modules


def is_in_use() -> bool:
    """Whether the runtime was started, as the first tensor on a device does."""
    import torch_xla

    return bool(torch_xla._XLAC._xla_runtime_is_initialized())


# As torch.compiler.assume_constant_result says it, which imports the compiler: it cannot look into this function.
is_in_use._dynamo_marked_constant = True  # type: ignore[attr-defined]


def random_state() -> int | None:
    """Return the state of XLA's random generator, None where no device is in use."""
    if not (is_loaded() and is_in_use()):
        return None
    from torch_xla.core import xla_model

    return int(xla_model.get_rng_state())


def set_random_state(state: int | None) -> None:
    """Put the state back."""
    if state is not None:
        from torch_xla.core import xla_model

        xla_model.set_rng_state(state)


def column() -> str:
    """Return the column for the hardware: TPU, Neuron and the host take "xla", GPUs take "xla_gpu"."""
    if not is_loaded():
        return COLUMNS[0]
    from torch_xla import runtime

    return COLUMNS[1] if runtime.device_type() in _GPUS else COLUMNS[0]


def overrides() -> list[str]:
    """Return the variables of the environment that override the policy, each in a sentence."""
    set_ = [name for name in _OVERRIDES if os.environ.get(name, "0") not in ("", "0", "false")]
    return [
        f"{name} is set: a torch_xla that honours it runs every floating-point operation in "
        f"{'bfloat16' if name.endswith('BF16') else 'float16'}, whatever the autocast policy says; unset {name} to let "
        "the policy choose"
        for name in set_
    ]
