"""PrivateUse1: the key of backends outside of torch, each of which registers under its own name."""

import torch

COLUMN = "privateuse1"


def type_of_backend() -> str:
    """Return the name of the backend registered in this process, torch's own name for it where there is none."""
    return torch._C._get_privateuse1_backend_name()
