"""How many bytes an iteration after backward reads and writes for each parameter, by route, beside torch's fused AdamW.

    python benchmarks/traffic.py

Not a measurement: each operator that an iteration calls is recorded, and its tensors are counted by its schema, what
it takes as read and what it returns or writes to as written. An operator that only fills a tensor does not count as
reading it, nor torch's fused step as writing gradients that it was told no scale for, nor polycast's on the CPU, whose
schema says that gradients may be written for the sake of other devices. What lies in a cache between two
operators counts too.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import polycast
import torch
from torch.amp.grad_scaler import GradScaler
from torch.profiler import ExecutionTraceObserver

from tests.support.optimizers import PATHS

NUMEL, NUMBER = 1 << 20, 4
ROUTES = {
    "fused": "polycast's kernels (CPU)",
    "composition": "torch's kernels for lists (CUDA)",
}
SIZES = {"float": 4, "double": 8, "c10::BFloat16": 2, "c10::Half": 2, "long int": 8, "int": 4, "bool": 1}
VIEWS = {"detach", "reshape", "as_strided", "expand", "unbind", "empty", "empty_like", "new_empty", "to", "view"}
FILLS = {"copy_", "_foreach_copy_", "fill_", "zero_", "ne_out"}
Node = dict[str, Any]
Iteration = Callable[[], None]


def parameters(dtype: torch.dtype) -> list[torch.Tensor]:
    params = [torch.zeros(NUMEL, dtype=dtype).requires_grad_() for _ in range(NUMBER)]
    for param in params:
        param.grad = torch.ones_like(param, requires_grad=False)
    return params


def ours(dtype: torch.dtype, way: str) -> Iteration:
    """Return polycast's iteration: clipping in the step, none, or after unscaling in place, as torch's users do."""
    params = parameters(dtype)
    scaler, optimizer = polycast.GradScaler(), polycast.syncfree.AdamW(params, state_dtype=torch.float32)
    scaler.scale(torch.ones(1))

    def iterate() -> None:
        if way == "clip in the step":
            scaler.clip_grad_norm(optimizer, 1.0)
        elif way == "unscale, clip":
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(params, 1.0)
        scaler.step(optimizer)
        scaler.update()

    return iterate


def torchs(dtype: torch.dtype, way: str) -> Iteration:
    params = parameters(dtype)
    scaler, optimizer = GradScaler("cpu"), torch.optim.AdamW(params, fused=True)
    scaler.scale(torch.ones(1))

    def iterate() -> None:
        if way != "no clipping":
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(params, 1.0)
        scaler.step(optimizer)
        scaler.update()

    return iterate


def recorded(iterate: Iteration) -> list[Node]:
    """Return the calls of an iteration whose state is there."""
    iterate()
    observer = ExecutionTraceObserver()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        observer.register_callback(str(path))
        observer.start()
        iterate()
        observer.stop()
        observer.unregister_callback()
        nodes: list[Node] = json.loads(path.read_text())["nodes"]
    return nodes


def tensors(shapes: Any, types: str) -> Iterator[int]:
    """Yield the bytes of each tensor of one argument."""
    names = re.findall(r"Tensor\(([^)]*)\)", types)
    for shape, name in zip(shapes if types.startswith("GenericList") else [shapes], names, strict=False):
        yield torch.Size(shape).numel() * SIZES[name]


def moved(node: Node) -> int:
    """Return the bytes that one call reads and writes."""
    schema = next(attr["value"] for attr in node["attrs"] if attr["name"] == "op_schema")
    name = node["name"].split("::")[1]
    if name in VIEWS or not schema:
        return 0
    arguments = torch._C.parse_schema(schema).arguments
    inputs = node["inputs"]
    total, scaled = 0, node["name"] != "polycast::adam_step_"
    if name.startswith("_fused"):
        scaled = inputs["types"][[argument.name for argument in arguments].index("grad_scale")].startswith("Tensor")
    for argument, shapes, types in zip(arguments, inputs["shapes"], inputs["types"], strict=False):
        size = sum(tensors(shapes, types)) if "Tensor(" in types else 0
        writes = argument.alias_info is not None and argument.alias_info.is_write
        total += size * (not (writes and name in FILLS)) + size * (writes and (scaled or argument.name != "grads"))
    if "!" not in schema:  # otherwise it returns what it has written
        outputs = node["outputs"]
        total += sum(sum(tensors(*output)) for output in zip(outputs["shapes"], outputs["types"], strict=True))
    return total


def per_parameter(iterate: Iteration, prefix: str) -> float:
    """Return the bytes for each parameter; only the outermost calls of one kind count."""
    nodes = recorded(iterate)
    parents = {node["id"]: node for node in nodes}

    def is_inner(node: Node) -> bool:
        parent = parents.get(node["ctrl_deps"])
        return parent is not None and parent is not node and (parent["name"].startswith(prefix) or is_inner(parent))

    calls = [node for node in nodes if node["name"].startswith(prefix) and not is_inner(node)]
    return sum(map(moved, calls)) / (NUMEL * NUMBER)


def main() -> None:
    """Print the table."""
    ways = ("no clipping", "clip in the step", "unscale, clip")
    rows: list[tuple[str, list[float]]] = []
    for dtype in (torch.float32, torch.bfloat16):
        title = "" if dtype is torch.float32 else ", bfloat16 with states of float32"
        for path, route in ROUTES.items():
            with PATHS[path]():
                prefixes = ("aten::", "polycast::") if path == "fused" else ("aten::",)
                found = [sum(per_parameter(ours(dtype, way), prefix) for prefix in prefixes) for way in ways]
            rows.append((route + title, found))
    rows.append(("torch's fused AdamW", [per_parameter(torchs(torch.float32, way), "aten::") for way in ways]))
    print(f"Bytes for each parameter, AdamW  {'  '.join(ways)}")
    for name, found in rows:
        print(f"{name:<64}{'  '.join(f'{number:8.1f}' for number in found)}")


if __name__ == "__main__":
    main()
