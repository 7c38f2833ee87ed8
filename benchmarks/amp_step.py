"""The time of the whole optimizer step in mixed precision training, compared with PyTorch's best.

    python -m benchmarks.amp_step                 # AdamW in float32 on the CPU
    python -m benchmarks.amp_step --workload 64x1M 4000x64 --rounds 12
    python -m benchmarks.amp_step --route composition    # by torch's own kernels for lists, as on cuda
    python -m benchmarks.amp_step --device cuda

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

from collections.abc import Callable
from functools import partial
from typing import Any

import polycast
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler

from benchmarks.side_by_side import Contestants, Spread, Workload, compare, machine, measure, new_parser, parse
from tests.support.optimizers import PATHS

TARGETS = {"64 x 1M": 1.35, "GPT-2 small": 1.35, "4000 x 64": 20.0}
ELEMENTS_MOVED = 8
IMPLEMENTATIONS: dict[str, dict[str, Any]] = {"torch fused": {"fused": True}, "torch for-loop": {"foreach": False}}
SCALER: dict[str, Any] = {"init_scale": 1.0, "growth_interval": 2**31 - 1}


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


def torch_step(params: list[nn.Parameter], max_norm: float, **implementation: Any) -> Callable[[], None]:
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


def report(workload: Workload, rounds: int, device: str) -> dict[str, Spread]:
    """Measure polycast's iteration and torch's, and print the table of one workload."""
    grads = workload.random(device)
    max_norm = 0.999 * torch.nn.utils.get_total_norm(grads).item()

    def make(step: Callable[..., Callable[[], None]], **implementation: Any) -> Callable[[], None]:
        params = [nn.Parameter(tensor) for tensor in workload.random(device)]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad.clone()
        return step(params, max_norm, **implementation)

    contestants: Contestants = {"polycast": partial(make, polycast_step)}
    contestants |= {name: partial(make, torch_step, **choice) for name, choice in IMPLEMENTATIONS.items()}
    return measure(workload, contestants, ELEMENTS_MOVED, rounds, device)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--route", choices=PATHS, default="fused", help="the kernels that polycast runs")
    options, workloads = parse(parser)
    if options.device == "xla":
        parser.error("--device xla: torch has no scaler to compare with there")
    print(machine(options.device), flush=True)
    rest = (options.rounds, options.device)
    reports = {workload.title: partial(report, workload, *rest) for workload in workloads}
    with PATHS[options.route]():
        compare("Unscale, clip, AdamW, update", TARGETS if options.device == "cpu" else {}, reports)


if __name__ == "__main__":
    main()
