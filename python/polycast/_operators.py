"""The operators of polycast, which the optimizers and the scaler call.

Importing this module registers them with PyTorch. They stay registered, because compiled code may call them.
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
