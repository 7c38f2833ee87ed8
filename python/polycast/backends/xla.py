"""XLA: one device type, two columns of the policy, chosen by the hardware that torch_xla runs on."""

import os
import sys
import warnings
from functools import cache

TYPE = "xla"
PACKAGE = "torch_xla"
COLUMNS = ("xla", "xla_gpu")
_GPUS = ("CUDA", "ROCM", "GPU")
# Of these, torch_xla 2.9 honours the bfloat16 ones.
_OVERRIDES = ("XLA_USE_BF16", "XLA_DOWNCAST_BF16", "XLA_USE_F16")


def is_loaded() -> bool:
    """Whether torch_xla has been imported in this process."""
    return PACKAGE in sys.modules


def column() -> str:
    """Return the column for the hardware: TPU, Neuron and the host take "xla", GPUs take "xla_gpu"."""
    if not is_loaded():
        return COLUMNS[0]
    from torch_xla import runtime

    return COLUMNS[1] if runtime.device_type() in _GPUS else COLUMNS[0]


def check_region() -> None:
    """Refuse a region without torch_xla, and warn once where an environment variable overrides the policy."""
    if not is_loaded():
        raise RuntimeError("an autocast region on xla needs torch_xla; import torch_xla first")
    for name in _OVERRIDES:
        if os.environ.get(name, "0") not in ("", "0", "false"):
            _warn_of_override(name)


@cache
def _warn_of_override(name: str) -> None:
    dtype = "bfloat16" if name.endswith("BF16") else "float16"
    warnings.warn(
        f"{name} is set: a torch_xla that honours it runs every floating-point operation in {dtype}, whatever the "
        f"autocast policy says; unset {name} to let the policy choose",
        stacklevel=5,  # the caller of polycast.autocast
    )
