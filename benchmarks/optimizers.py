"""The time of a step of polycast's optimizers, compared with torch.optim and torch_xla.

    python -m benchmarks.optimizers                 # AdamW on the CPU
    python -m benchmarks.optimizers --workload 64x1M 4000x64 --rounds 12
    python -m benchmarks.optimizers --device cuda   # or another device type of PyTorch
    python -m benchmarks.optimizers --device xla    # on the CPU, unless PJRT_DEVICE names another device

Only `optimizer.step()` is measured, with preset gradients. Steps have no found_inf, except for polycast's and
torch_xla's steps on XLA, because torch_xla's step without it is torch.optim's. Short steps are repeated within a
measurement, so tensors that fit into the cache are in the cache, for every implementation.

GB/s counts the bytes that a step has to move, not the bytes that it does move: each element of the parameter and of the
state is read and written once, and each element of the gradient is read once, which is 28 bytes for AdamW in float32.
Copy counts 8 bytes (a read and a write), and triad, a = b + 3 c, counts 12. The count omits that a cache reads a line
before it is overwritten. A step writes only elements that it has read, so it can exceed both.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from polycast import syncfree
from torch import nn

from benchmarks.side_by_side import Contestants, Spread, Workload, compare, finish, machine, measure, new_parser, parse

TARGETS = {"64 x 1M": 1.0, "ResNet-50": 1.0, "GPT-2 small": 1.0, "4000 x 64": 20.0}
XLA_TARGET = 1.0
IMPLEMENTATIONS = {
    "torch fused": {"fused": True},
    "torch foreach": {"foreach": True},
    "torch for-loop": {"foreach": False},
}
# The name in each package, how many elements a step moves for each of the parameters', and options.
ALGORITHMS: dict[str, tuple[str, int, dict[str, float]]] = {
    "adamw": ("AdamW", 7, {}),
    "adam": ("Adam", 7, {}),
    "sgd": ("SGD", 5, {"momentum": 0.9}),
}


def report(workload: Workload, algorithm: str, rounds: int, device: str) -> dict[str, Spread]:
    """Measure the steps of polycast and the others, and print the table of one workload."""
    grads = workload.random(device)  # which all contestants share and only read
    name, moved, settings = ALGORITHMS[algorithm]

    def make(package: Any, signal: dict[str, Any], **implementation: bool) -> Callable[[], object]:
        params = [nn.Parameter(tensor) for tensor in workload.random(device)]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        step: Callable[..., object] = getattr(package, name)(params, lr=1e-3, **settings, **implementation).step
        finish(device)
        return partial(step, **signal)

    contestants: Contestants = {"polycast": partial(make, syncfree, {})}
    contestants |= {title: partial(make, torch.optim, {}, **choice) for title, choice in IMPLEMENTATIONS.items()}
    if device == "xla":
        from torch_xla.amp import syncfree as xla_syncfree

        signal = {"found_inf": torch.zeros((), device=device)}
        contestants = {"polycast": partial(make, syncfree, signal), "torch_xla": partial(make, xla_syncfree, signal)}
        contestants |= {"torch.optim": partial(make, torch.optim, {})}
    return measure(workload, contestants, moved, rounds, device)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--optimizer", choices=ALGORITHMS, default="adamw", help="(default: adamw)")
    options, workloads = parse(parser)
    print(machine(options.device), flush=True)
    of_xla = {workload.title: XLA_TARGET for workload in workloads}
    targets = {"cpu": TARGETS, "xla": of_xla}.get(options.device, {})
    rest = (options.optimizer, options.rounds, options.device)
    reports = {workload.title: partial(report, workload, *rest) for workload in workloads}
    compare(f"A step of {ALGORITHMS[options.optimizer][0]}", targets, reports)


if __name__ == "__main__":
    main()
