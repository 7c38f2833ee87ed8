"""How long the whole optimizer step of mixed precision training takes, beside torch's best.

    python benchmarks/amp_step.py                 # AdamW in float32 on the CPU
    python benchmarks/amp_step.py --workload 64x1M 4000x64 --rounds 12
    python benchmarks/amp_step.py --route composition    # by torch's own kernels for lists, as on cuda
    python benchmarks/amp_step.py --device cuda

What comes after backward: unscale, look for infinities and NaNs, clip the norm, step, update the scale. Forward and
backward are left out; gradients are preset. polycast: clip_grad_norm, step and update of its GradScaler with
syncfree.AdamW. torch's best: unscale_, clip_grad_norm_, step and update of torch.amp.GradScaler with a fused AdamW, the
clipping by its foreach implementation. torch for-loop is the same with an AdamW that is neither fused nor foreach.

torch's unscale_ and clip_grad_norm_ write the gradients, so each contestant has its own, and each starts where the last
iteration of it left off. The scale is 1 and grows never, so no gradient leaves the range of its dtype; the largest norm
is a thousandth below that of the first gradients, so that all clip in the first iteration, and after it torch
multiplies by 1 or just about, as it does whenever there is nothing to clip. Its work does not depend on the values.

GB/s counts the bytes that the least work moves: gradients read once for the norm, 4 bytes in float32, and 28 bytes for
the step, which unscales and clips in registers: 32 for each element. What else is counted: benchmarks/optimizers.py.
Another route than that of the CPU is put in its place by Python, which hands each list over once more.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import polycast
import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from benchmarks import side_by_side
from benchmarks.side_by_side import WORKLOADS, Results, Workload, new_parser, parse
from tests.support.optimizers import PATHS

TARGETS = {"64 x 1M": 1.35, "GPT-2 small": 1.35, "4000 x 64": 20.0}
BOUNDED, BOUND_TARGET = WORKLOADS["64x1M"], 1.2
ELEMENTS_MOVED = 8
IMPLEMENTATIONS: dict[str, dict[str, Any]] = {"torch fused": {"fused": True}, "torch for-loop": {"foreach": False}}
SCALER: dict[str, Any] = {"init_scale": 1.0, "growth_interval": 2**31 - 1}


def parameters(workload: Workload, grads: list[Tensor]) -> list[nn.Parameter]:
    """Return new parameters, with gradients of their own that equal the ones given."""
    params = [nn.Parameter(tensor) for tensor in workload.random(grads[0].device)]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad.clone()
    return params


def polycast_step(params: list[nn.Parameter], max_norm: float) -> Callable[[], None]:
    """Return polycast's iteration."""
    scaler = polycast.GradScaler(**SCALER)
    optimizer = polycast.syncfree.AdamW(params, lr=1e-3)
    scaler.scale(torch.ones(1, device=params[0].device))

    def iterate() -> None:
        scaler.clip_grad_norm(optimizer, max_norm)
        scaler.step(optimizer)
        scaler.update()

    return iterate


def torch_step(params: list[nn.Parameter], max_norm: float, implementation: dict[str, Any]) -> Callable[[], None]:
    """Return the iteration of the documents."""
    scaler = GradScaler(params[0].device.type, **SCALER)
    optimizer = torch.optim.AdamW(params, lr=1e-3, **implementation)
    scaler.scale(torch.ones(1, device=params[0].device))

    def iterate() -> None:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(params, max_norm, foreach=True)
        scaler.step(optimizer)
        scaler.update()

    return iterate


def report(workload: Workload, rounds: int, device: str) -> Results:
    """Measure polycast's iteration and torch's, and print the table of one workload."""
    grads = workload.random(device)
    max_norm = 0.999 * torch.nn.utils.get_total_norm(grads).item()

    def ours() -> Callable[[], None]:
        return polycast_step(parameters(workload, grads), max_norm)

    def theirs(implementation: dict[str, Any]) -> Callable[[], None]:
        return torch_step(parameters(workload, grads), max_norm, implementation)

    contestants: dict[str, Callable[[], Callable[[], None]]] = {"polycast": ours}
    contestants |= {name: partial(theirs, choice) for name, choice in IMPLEMENTATIONS.items()}
    target = BOUND_TARGET if workload is BOUNDED and device == "cpu" else None
    return side_by_side.report(workload, contestants, ELEMENTS_MOVED, rounds, device, target)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--route", choices=PATHS, default="fused", help="the kernels that polycast runs")
    options, workloads = parse(parser)
    if options.device == "xla":
        parser.error("--device xla: torch has no scaler to compare with there")
    reports = [partial(report, workload, options.rounds, options.device) for workload in workloads]
    targets = TARGETS if options.device == "cpu" else {}
    with PATHS[options.route]():
        side_by_side.compare("Unscale, clip, AdamW, update", targets, reports, options.device)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
