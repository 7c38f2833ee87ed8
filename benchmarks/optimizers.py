"""How long polycast's optimizers take for a step, beside torch.optim's and torch_xla's.

    python benchmarks/optimizers.py                 # AdamW on the CPU
    python benchmarks/optimizers.py --workload 64x1M 4000x64 --rounds 12
    python benchmarks/optimizers.py --device cuda   # or another device type of torch
    python benchmarks/optimizers.py --device xla    # on the host, unless PJRT_DEVICE says otherwise

`optimizer.step()` alone, with gradients that stand ready. No step is told of found_inf, but on XLA polycast's and
torch_xla's are, because torch_xla's step without it is torch.optim's. Short steps are repeated within a measurement, so
what fits into the cache is found there, by everyone. A workload that exceeds the device's memory is made smaller, and
its title says so.

GB/s counts the bytes that a step has to move, whatever it does move: each element of the parameter and of the state is
read and written once, and that of the gradient is read once: 28 bytes for AdamW in float32. Copy counts 8 bytes (a read
and a write), triad, a = b + 3 c, counts 12; that a cache reads a line before it is written over is not counted. A step
writes only what it has read, so it may exceed both.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.optim import Optimizer

from benchmarks import side_by_side
from benchmarks.side_by_side import WORKLOADS, Measure, Results, Seconds, Workload, interleave, ratio, repeated

TARGETS = {"64 x 1M": 1.0, "ResNet-50": 1.0, "GPT-2 small": 1.0, "4000 x 64": 20.0}
XLA_TARGET = 1.0
BOUNDED, BOUNDED_ELEMENTS, BOUND_TARGET = WORKLOADS["64x1M"], 7, 1.2
XLA_PEER = "torch_xla"
IMPLEMENTATIONS: dict[str, dict[str, bool]] = {
    "torch fused": {"fused": True},
    "torch foreach": {"foreach": True},
    "torch for-loop": {"foreach": False},
}


@dataclass(frozen=True)
class Algorithm:
    """One of the optimizers, by the name that it has in each package, and how many elements its step moves for each."""

    name: str
    elements_moved: int
    momentum: float | None = None

    def build(self, package: Any, params: list[nn.Parameter], **implementation: bool) -> Optimizer:
        """Return the package's optimizer over the parameters."""
        momentum = {} if self.momentum is None else {"momentum": self.momentum}
        optimizer: Optimizer = getattr(package, self.name)(params, lr=1e-3, **momentum, **implementation)
        return optimizer


ALGORITHMS = {
    "adamw": Algorithm("AdamW", elements_moved=7),
    "adam": Algorithm("Adam", elements_moved=7),
    "sgd": Algorithm("SGD", elements_moved=5, momentum=0.9),
}


def parameters(workload: Workload, grads: list[Tensor]) -> list[nn.Parameter]:
    """Return new parameters on the device of the gradients, which all contestants share and only read."""
    params = [nn.Parameter(tensor) for tensor in workload.random(grads[0].device)]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad
    return params


def report(workload: Workload, algorithm: Algorithm, rounds: int, device: str) -> Results:
    """Measure polycast's step and torch's implementations, and print the table of one workload."""
    grads = workload.random(device)

    def make(package: Any, **implementation: bool) -> Callable[[], object]:
        step: Callable[[], object] = algorithm.build(package, parameters(workload, grads), **implementation).step
        return step

    contestants = {"polycast": partial(make, syncfree)}
    contestants |= {name: partial(make, torch.optim, **choice) for name, choice in IMPLEMENTATIONS.items()}
    bounded = workload is BOUNDED and device == "cpu" and algorithm.elements_moved == BOUNDED_ELEMENTS
    target = BOUND_TARGET if bounded else None
    return side_by_side.report(workload, contestants, algorithm.elements_moved, rounds, device, target)


def xla_measures(algorithm: Algorithm, workload: Workload) -> dict[str, Measure]:
    """Return measurements of two figures: seconds until step() returns, and until the device has taken the step."""
    import torch_xla
    from torch_xla.amp import syncfree as xla_syncfree

    grads = workload.random(torch_xla.device())
    found_inf = torch.zeros((), device=torch_xla.device())

    def measure(package: Any, **signal: Tensor) -> Measure:
        step: Callable[..., object] = algorithm.build(package, parameters(workload, grads)).step
        torch_xla.sync(wait=True)

        def once() -> Seconds:
            start = perf_counter()
            step(**signal)
            returned = perf_counter()
            torch_xla.sync(wait=True)
            return returned - start, perf_counter() - start

        return repeated(once)

    return {
        "polycast": measure(syncfree, found_inf=found_inf),
        XLA_PEER: measure(xla_syncfree, found_inf=found_inf),
        "torch.optim": measure(torch.optim),
    }


def report_xla(workload: Workload, algorithm: Algorithm, rounds: int) -> Results:
    """Measure one workload and print its table; return the ratios to torch_xla's optimizer."""
    from torch_xla.debug import metrics

    measures = xla_measures(algorithm, workload)
    before = metrics.metric_data("CompileTime")[0]
    records = interleave(measures, rounds, workload.title)
    compiles = metrics.metric_data("CompileTime")[0] - before

    rows, results = [], Results()
    for name, record in records.items():
        row = [name]
        for figure, kind in enumerate(("host", "total")):
            faster = ratio(records[XLA_PEER], record, figure)
            results.setdefault(f"{workload.title}, {kind}", {})[name] = faster
            row += [f"{record.median(figure) * 1e3:.3f}", str(faster)]
        rows.append(row)
    print(f"\n{workload}; {rounds} rounds, in which {compiles} graphs were compiled")
    side_by_side.print_table(["", "host ms", f"{XLA_PEER} / this", "total ms", f"{XLA_PEER} / this"], rows)
    return results


def main() -> None:
    parser = side_by_side.new_parser(__doc__)
    parser.add_argument("--optimizer", choices=ALGORITHMS, default="adamw", help="(default: adamw)")
    options, workloads = side_by_side.parse(parser)
    algorithm = ALGORITHMS[options.optimizer]
    on_device: Callable[..., Results] = partial(report, device=options.device)
    targets = TARGETS if options.device == "cpu" else {}
    if options.device == "xla":
        on_device = report_xla
        targets = {f"{workload.title}, {kind}": XLA_TARGET for workload in workloads for kind in ("host", "total")}
    reports = [partial(on_device, workload, algorithm, options.rounds) for workload in workloads]
    side_by_side.compare(f"A step of {algorithm.name}", targets, reports, options.device)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
