"""The operators of polycast, which the optimizers and the scaler call.

Torch has them from the import of this module on. They stay, because compiled code may hold them.
"""

import torch
from torch.library import Library

from polycast._extension import register_operators
from polycast.xla.operators import register

register_operators()
operators = torch.ops.polycast
# Owns the kernels that are written in Python.
library = Library("polycast", "IMPL")  # type: ignore[no-untyped-call]
register(library)
