"""The time of a step of polycast's AdamW, compared with `torch.optim` and `torch_xla`.

    python -m benchmarks.optimizers                 # on the CPU
    python -m benchmarks.optimizers --whole         # everything after backward in mixed precision training
    python -m benchmarks.optimizers --whole --route composition    # with PyTorch's fused kernels, as on CUDA
    python -m benchmarks.optimizers --device cuda   # or another device type of PyTorch
    python -m benchmarks.optimizers --device xla    # on the CPU, unless PJRT_DEVICE names another device

By default, the benchmark measures only `optimizer.step()`, with preset gradients and without `found_inf`. On XLA, the
steps of polycast and `torch_xla` have a `found_inf`, because otherwise `torch_xla` runs the step of `torch.optim`. A
measurement repeats short steps. Small tensors are therefore in the CPU's cache, for every implementation.

With `--whole`, polycast runs `clip_grad_norm`, `step` and `update` of its `GradScaler`. PyTorch runs `unscale_` of
`torch.amp.GradScaler`, `torch.nn.utils.clip_grad_norm_` with `foreach=True`, and `step` and `update` of the scaler.
PyTorch changes the gradients, so each implementation has its own gradients. The scale is 1 and never grows, so no
gradient leaves the range of its dtype. `max_norm` is 0.999 times the norm of the first gradients. All implementations
clip in the first iteration. Later, PyTorch multiplies clipped gradients by about 1. The time does not depend on values.
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from math import prod
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import polycast
import torch
from polycast import syncfree
from polycast.syncfree.step import SyncFreeOptimizer
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from benchmarks.side_by_side import finish, interleave, machine, new_parser, parse, print_table, ratio, timed
from tests.support.optimizers import PATHS, clip

Shapes: TypeAlias = tuple[tuple[int, ...], ...]


class Workload(NamedTuple):
    """The shapes and the dtype of parameters: of a published model, or of a number of equal tensors."""

    title: str
    shapes: Shapes
    dtype: torch.dtype = torch.float32

    @property
    def elements(self) -> int:
        return sum(map(prod, self.shapes))

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.title}, {dtype}: {len(self.shapes)} tensors, {self.elements / 1e6:.1f}M elements"

    def random(self, device: str) -> list[Tensor]:
        """Return normally distributed tensors.

        For XLA, the CPU draws the numbers, because XLA would compile a program for each shape.
        """
        drawn = "cpu" if device == "xla" else device
        return [torch.randn(shape, device=drawn).to(device, self.dtype) for shape in self.shapes]


def resnet_50() -> Shapes:
    """Return the shapes of ResNet-50, in torchvision's order. Source: Kaiming He and others: Deep residual learning for
    image recognition, 2015, table 1."""

    def convolution(before: int, after: int, kernel: int) -> Shapes:
        return (after, before, kernel, kernel), (after,), (after,)  # The last two are of a batch norm.

    shapes, channels = [*convolution(3, 64, 7)], 64
    for stage, count in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(count):
            shapes += (*convolution(channels, width, 1), *convolution(width, width, 3))
            shapes += convolution(width, 4 * width, 1)
            if block == 0:
                shapes += convolution(channels, 4 * width, 1)
            channels = 4 * width
    return (*shapes, (1000, channels), (1000,))


def gpt(vocabulary: int = 50257, context: int = 1024, width: int = 768, layers: int = 12) -> Shapes:
    """Return the shapes of a GPT-2, by default the smallest. The output layer shares the weight of the embedding.

    Source: Alec Radford and others: Language models are unsupervised multitask learners, 2019, table 2, and the code
    released with it, whose linear layers store transposed weights.
    """
    norm: Shapes = ((width,), (width,))
    attention: Shapes = ((width, 3 * width), (3 * width,), (width, width), (width,))
    perceptron: Shapes = ((width, 4 * width), (4 * width,), (4 * width, width), (width,))
    return ((vocabulary, width), (context, width), *(norm + attention + norm + perceptron) * layers, *norm)


MEBI = 2**20
WORKLOADS = {
    "64x1M": Workload("64 x 1M", ((MEBI,),) * 64),
    "resnet50": Workload("ResNet-50", resnet_50()),
    "gpt2": Workload("GPT-2 small", gpt()),
    "4000x64": Workload("4000 x 64", ((64,),) * 4000),
    "1x8": Workload("1 x 8", ((8,),)),
    "64x1M-bf16": Workload("64 x 1M bf16", ((MEBI,),) * 64, torch.bfloat16),
}
# XLA compiles and runs these workloads on the CPU in seconds.
XLA_WORKLOADS = {
    "20x256x256": Workload("20 x 256x256", ((256, 256),) * 20),
    "100x256x256": Workload("100 x 256x256", ((256, 256),) * 100),
    "transformer": Workload("transformer", gpt(vocabulary=1000, context=128, width=128, layers=4)),
}
assert (WORKLOADS["resnet50"].elements, WORKLOADS["gpt2"].elements) == (25_557_032, 124_439_808)  # These are published.


def iteration(optimizer: torch.optim.Optimizer, params: list[nn.Parameter], max_norm: float) -> Callable[[], None]:
    """Return a function that runs the calls after backward, with polycast's scaler for polycast's optimizers only."""
    is_ours, device = isinstance(optimizer, SyncFreeOptimizer), params[0].device
    scaler: Any = (polycast.GradScaler if is_ours else GradScaler)(
        device.type, init_scale=1.0, growth_interval=2**31 - 1
    )
    scaler.scale(torch.ones(1, device=device))

    def iterate() -> None:
        clip(scaler, optimizer, max_norm, foreach=True)
        scaler.step(optimizer)
        scaler.update()

    return iterate


def report(workload: Workload, options: Namespace) -> None:
    """Measure all implementations, and print a table with the time of the second one divided by each time."""
    device = options.device
    grads = workload.random(device)  # Steps do not write gradients, so all optimizers share them.
    max_norm = 0.999 * torch.nn.utils.get_total_norm(grads).item() if options.whole else 0.0

    def make(package: Any, signal: dict[str, Any], **implementation: bool) -> Callable[[], object]:
        params = [nn.Parameter(tensor) for tensor in workload.random(device)]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad.clone() if options.whole else grad
        optimizer = package.AdamW(params, lr=1e-3, **implementation)
        finish(device)
        return iteration(optimizer, params, max_norm) if options.whole else partial(optimizer.step, **signal)

    # Each function creates an implementation, and returns a function for one run.
    contestants = {"polycast": partial(make, syncfree, {})}
    contestants |= {f"torch {name}": partial(make, torch.optim, {}, **{name: True}) for name in ("fused", "foreach")}
    if device == "xla":
        from torch_xla.amp import syncfree as xla_syncfree

        signal = {"found_inf": torch.zeros((), device=device)}
        contestants = {"polycast": partial(make, syncfree, signal), "torch_xla": partial(make, xla_syncfree, signal)}
        contestants |= {"torch.optim": partial(make, torch.optim, {})}
    records = interleave({name: timed(create(), device) for name, create in contestants.items()}, options.rounds)
    peer = list(contestants)[1]
    print(f"\n{workload}; {options.rounds} rounds")
    rows = [
        [name, f"{median(record) * 1e3:.3f}", str(ratio(records[peer], record))] for name, record in records.items()
    ]
    print_table(["", "median ms", f"{peer} / this (middle half)"], rows)


def main() -> None:
    parser = new_parser(__doc__, rounds=30)
    parser.add_argument("--device", default="cpu", help="run on this device type of PyTorch (default: cpu)")
    names = f"measure these: on xla {', '.join(XLA_WORKLOADS)}; otherwise {', '.join(WORKLOADS)} (default: all)"
    parser.add_argument("--workload", nargs="+", metavar="NAME", help=names)
    parser.add_argument("--whole", action="store_true", help="measure all after backward (default: only the step)")
    parser.add_argument("--route", choices=PATHS, default="fused", help="run these CPU kernels (default: fused)")
    options = parse(parser)
    known = XLA_WORKLOADS if options.device == "xla" else WORKLOADS
    for name in options.workload or ():
        if name not in known:
            parser.error(f"--workload: expected one of {', '.join(known)}, got '{name}'; pass one of these")
    if options.device == "xla" and options.whole:
        parser.error("--device xla: PyTorch has no scaler on XLA for --whole; omit --whole")
    print(machine(options.device), flush=True)
    torch.manual_seed(0)
    with PATHS[options.route]():
        for name in options.workload or known:
            report(known[name], options)


if __name__ == "__main__":
    main()
