"""The time of a step of polycast's AdamW, compared with `torch.optim` and `torch_xla`.

    python -m benchmarks.optimizers                 # on the CPU
    python -m benchmarks.optimizers --whole         # everything after backward in mixed precision training
    python -m benchmarks.optimizers --whole --route composition    # with PyTorch's own kernels for lists, like CUDA
    python -m benchmarks.optimizers --device cuda   # or another device type of PyTorch
    python -m benchmarks.optimizers --device xla    # on the CPU, unless PJRT_DEVICE names another device

By default, the benchmark measures only `optimizer.step()`, with preset gradients. Steps have no `found_inf`, except for
polycast's and `torch_xla`'s steps on XLA, because `torch_xla`'s step without `found_inf` is `torch.optim`'s. A
measurement repeats short steps, so tensors that fit into the cache are in the cache, for every implementation.

With `--whole`, polycast runs `clip_grad_norm`, `step` and `update` of its `GradScaler`. PyTorch runs `unscale_` of
`torch.amp.GradScaler`, `torch.nn.utils.clip_grad_norm_` with `foreach=True`, and `step` and `update` of the scaler.
PyTorch writes the gradients, so each implementation has its own. The scale is 1 and never grows, so no gradient leaves
the range of its dtype. The largest norm is a thousandth below the norm of the first gradients: all implementations clip
in the first iteration, and later PyTorch multiplies by about 1. The work does not depend on the values.
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any

import polycast
import torch
from polycast import syncfree
from polycast.syncfree.step import SyncFreeOptimizer
from torch import nn
from torch.amp.grad_scaler import GradScaler

from benchmarks.side_by_side import Contestants, Workload, finish, machine, measure, new_parser, parse
from tests.support.optimizers import PATHS

IMPLEMENTATIONS: dict[str, dict[str, Any]] = {
    "torch fused": {"fused": True},
    "torch foreach": {"foreach": True},
}


def iteration(optimizer: torch.optim.Optimizer, params: list[nn.Parameter], max_norm: float) -> Callable[[], None]:
    """Return a function that runs the calls after backward, with polycast's scaler for polycast's optimizers only."""
    is_ours, device = isinstance(optimizer, SyncFreeOptimizer), params[0].device
    scaler: Any = (polycast.GradScaler if is_ours else GradScaler)(
        device.type, init_scale=1.0, growth_interval=2**31 - 1
    )
    scaler.scale(torch.ones(1, device=device))

    def iterate() -> None:
        if is_ours:
            scaler.clip_grad_norm(optimizer, max_norm)
        else:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(params, max_norm, foreach=True)
        scaler.step(optimizer)
        scaler.update()

    return iterate


def report(workload: Workload, options: Namespace) -> None:
    """Measure the steps or whole iterations of all implementations, and print a table."""
    device = options.device
    grads = workload.random(device)  # Steps do not write gradients, so all share these.
    max_norm = 0.999 * torch.nn.utils.get_total_norm(grads).item() if options.whole else 0.0

    def make(package: Any, signal: dict[str, Any], **implementation: bool) -> Callable[[], object]:
        params = [nn.Parameter(tensor) for tensor in workload.random(device)]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad.clone() if options.whole else grad
        optimizer = package.AdamW(params, lr=1e-3, **implementation)
        finish(device)
        return iteration(optimizer, params, max_norm) if options.whole else partial(optimizer.step, **signal)

    contestants: Contestants = {"polycast": partial(make, syncfree, {})}
    contestants |= {title: partial(make, torch.optim, {}, **choice) for title, choice in IMPLEMENTATIONS.items()}
    if device == "xla":
        from torch_xla.amp import syncfree as xla_syncfree

        signal = {"found_inf": torch.zeros((), device=device)}
        contestants = {"polycast": partial(make, syncfree, signal), "torch_xla": partial(make, xla_syncfree, signal)}
        contestants |= {"torch.optim": partial(make, torch.optim, {})}
    measure(workload, contestants, options.rounds, device)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--whole", action="store_true", help="measure all after backward (default: only the step)")
    parser.add_argument("--route", choices=PATHS, default="fused", help="run these CPU kernels (default: fused)")
    options, workloads = parse(parser)
    if options.device == "xla" and options.whole:
        parser.error("--device xla: PyTorch has no scaler on XLA for --whole; omit --whole")
    print(machine(options.device), flush=True)
    torch.manual_seed(0)
    with PATHS[options.route]():
        for workload in workloads:
            report(workload, options)


if __name__ == "__main__":
    main()
