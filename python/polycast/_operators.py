"""The operators of polycast, which the optimizers and the scaler call.

``csrc/op_library.cpp`` defines the operators. Importing this module registers their kernels for XLA.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from operator import or_

import torch
from torch.library import Library

from polycast._extension import DEVICES
from polycast.torch_internals import DispatchKeySet, below_autograd, exclude_keys, key_named
from polycast.xla.operators import register

operators = torch.ops.polycast
# The library is never freed, because compiled code may call its kernels.
library = Library("polycast", "IMPL")  # type: ignore[no-untyped-call]
register(library)
# Without these keys, no rule of a region applies to the arithmetic of a scaler or a step.
AUTOCAST_KEYS = reduce(or_, (DispatchKeySet(key_named(device.dispatch_key)) for device in DEVICES.values()))


@contextmanager
def in_kernel() -> Iterator[None]:
    """Return a context manager for kernels in Python, in which autograd records nothing and no rule applies."""
    with below_autograd(), exclude_keys(AUTOCAST_KEYS):
        yield
