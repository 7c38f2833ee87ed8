"""The time of the whole optimizer step in mixed precision training, compared with PyTorch's best.

    python -m benchmarks.amp_step                 # AdamW in float32 on the CPU
    python -m benchmarks.amp_step --workload 64x1M 4000x64 --rounds 12
    python -m benchmarks.amp_step --route composition    # by PyTorch's own kernels for lists, as on cuda
    python -m benchmarks.amp_step --device cuda

Measured is the part after backward: unscale, check for non-finite values, clip the norm, step, update the scale. The
gradients are preset. polycast: clip_grad_norm, step and update of its GradScaler with syncfree.AdamW. PyTorch's best:
unscale_, clip_grad_norm_, step and update of torch.amp.GradScaler with a fused AdamW, clipping by its foreach
implementation. The for-loop of torch.optim is the same with an AdamW that is neither fused nor foreach.

PyTorch's unscale_ and clip_grad_norm_ write the gradients, so each implementation has its own, and each iteration
starts with the gradients of the previous one. The scale is 1 and never grows, so no gradient overflows. The largest
norm is a thousandth below the norm of the first gradients, so all implementations clip in the first iteration.
Afterwards PyTorch multiplies by about 1, as it does whenever there is nothing to clip. Its work does not depend on the
values.

GB/s counts the bytes of the least possible work: gradients are read once for the norm (4 bytes in float32), and the
step moves 28 bytes, because it unscales and clips in registers. The sum is 32 bytes for each element. See
benchmarks/optimizers.py for the rest of the counting rules. A route other than the CPU's runs through Python, which
passes each list once more.
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
    """Measure the iterations of polycast and PyTorch, and print the table of one workload."""
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
