"""The operators of polycast, which the optimizers and the scaler call.

``csrc/op_library.cpp`` defines the operators. Importing this module registers their kernels for XLA.
"""

import torch
from torch.library import Library

from polycast.xla.operators import register

operators = torch.ops.polycast
# The library is never freed, because compiled code may call its kernels.
library = Library("polycast", "IMPL")  # type: ignore[no-untyped-call]
register(library)
