"""The bytes that an iteration after backward reads and writes for each parameter, compared with PyTorch's fused AdamW.

    python -m benchmarks.traffic

Not a measurement: the tensors of each operator that an iteration calls are counted by its schema, what it takes as read
and what it returns or writes to as written. An operator that only fills a tensor does not count as reading it, nor
torch's fused step as writing gradients that it was told no scale for, nor polycast's on the CPU, whose schema says that
gradients may be written for the sake of other devices. What lies in a cache between two operators counts too.
"""

from typing import Any

import polycast
import torch
from polycast.scaler import torch_foreach  # noqa: F401 -- it registers the operators of a scaler for other devices
from torch.amp.grad_scaler import GradScaler
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NUMEL, NUMBER = 1 << 20, 4
ELSEWHERE = torch._C.DispatchKeySet(torch._C.DispatchKey.XPU)  # without kernels of ours
WAYS = ("no clipping", "clip in the step", "unscale, clip")
FREE = {"detach", "as_strided", "expand", "unbind", "empty", "empty_like", "new_empty", "view"}
FILLS = {"copy_", "_foreach_copy_", "fill_", "zero_", "ne"}


class Traffic(TorchDispatchMode):
    """Counts the bytes that operators read and write; those of polycast composed of torch's, if asked for."""

    def __init__(self, composes: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moved, self.composes = 0, composes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.composes and func.namespace == "polycast":
            with self:
                return func.redispatch(ELSEWHERE, *args, **kwargs)
        results = func(*args, **kwargs)
        schema, name = func._schema, func._schema.name.split("::")[1]
        if name in FREE:
            return results
        scales = name != "adam_step_" and (not name.startswith("_fused") or kwargs.get("grad_scale") is not None)
        given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)} | kwargs
        for argument in schema.arguments:
            size, writes = sizes(given.get(argument.name)), argument.is_write
            self.moved += size * (not (writes and name in FILLS)) + size * (
                writes and (scales or argument.name != "grads")
            )
        if not schema.is_mutable:  # otherwise it returns what it has written
            self.moved += sizes(results)
        return results


def sizes(values: Any) -> int:
    """Return the bytes of the tensors among values."""
    return sum(leaf.nbytes for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))


def per_parameter(ours: bool, dtype: torch.dtype, way: str, composes: bool) -> float:
    """Return the bytes of the second iteration: clipping in the step, none, or after unscaling in place."""
    params = [torch.zeros(NUMEL, dtype=dtype).requires_grad_() for _ in range(NUMBER)]
    for param in params:
        param.grad = torch.ones_like(param, requires_grad=False)
    scaler: Any = polycast.GradScaler() if ours else GradScaler("cpu")
    optimizer: Any = torch.optim.AdamW(params, fused=True)
    if ours:
        optimizer = polycast.syncfree.AdamW(params, state_dtype=torch.float32)
    scaler.scale(torch.ones(1))

    def iterate() -> None:
        if way == "clip in the step" and ours:
            scaler.clip_grad_norm(optimizer, 1.0)
        elif way != "no clipping":
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(params, 1.0)
        scaler.step(optimizer)
        scaler.update()

    iterate()
    traffic = Traffic(composes)
    with traffic:
        iterate()
    return traffic.moved / (NUMEL * NUMBER)


ROWS = {
    "polycast's kernels (CPU)": (True, torch.float32, False),
    "torch's kernels for lists (CUDA)": (True, torch.float32, True),
    "polycast's kernels (CPU), bfloat16 with states of float32": (True, torch.bfloat16, False),
    "torch's kernels for lists (CUDA), bfloat16 with states of float32": (True, torch.bfloat16, True),
    "torch's fused AdamW": (False, torch.float32, False),
}


def main() -> None:
    """Print the table."""
    print(f"Bytes for each parameter, AdamW  {'  '.join(WAYS)}")
    for name, (ours, dtype, composes) in ROWS.items():
        found = [per_parameter(ours, dtype, way, composes) for way in WAYS]
        print(f"{name:<64}{'  '.join(f'{number:8.1f}' for number in found)}")


if __name__ == "__main__":
    main()
