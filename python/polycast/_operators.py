"""The operators of polycast, which the optimizers and the scaler call.

csrc/op_library.cpp defines them. Importing this module registers the kernels that are written in Python.
"""

import torch
from torch.library import Library

from polycast.xla.operators import register

operators = torch.ops.polycast
# The library is never freed, because compiled code may call its kernels.
library = Library("polycast", "IMPL")  # type: ignore[no-untyped-call]
register(library)
