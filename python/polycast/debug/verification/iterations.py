"""Whole iterations of a training: the reads in them, and their graph, where the device has graphs."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from polycast import backends
from polycast.debug.verification.findings import BROKEN, KEPT, UNCHECKED, Check, attempted, first_line
from polycast.debug.verification.outcomes import same_bits
from polycast.debug.verification.steps import MAX_NORM, OPTIMIZERS, OURS, made, values
from polycast.region import autocast

WARM_UP, ITERATIONS, SKIPPED = 3, 4, 1
_READS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class Training:
    """A small model in training under autocast: forward, scale, backward, clip, step and update."""

    def __init__(self, name: str, device_type: str) -> None:
        generator = torch.Generator().manual_seed(0)
        self.model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
        with torch.no_grad():
            for param in self.model.parameters():
                param.copy_(torch.rand(param.shape, generator=generator) - 0.5)
        self.model.to(device_type)
        self.device_type = device_type
        self.optimizer, self.scaler = made(name, OURS, list(self.model.parameters()), device_type)
        self.inputs = torch.randn(8, 16, generator=generator).to(device_type)
        self.factor = torch.ones((), device=device_type)
        """What the loss is multiplied with: an infinite one has the step skipped."""

    def iterate(self) -> None:
        """Train once, without a sync of its own."""
        self.optimizer.zero_grad()
        with autocast(self.device_type):
            output = self.model(self.inputs)
        self.scaler.scale(output.float().square().mean() * self.factor).backward()
        self.scaler.clip_grad_norm(self.optimizer, MAX_NORM)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def prepare(self, number: int) -> None:
        """Set what the iteration of a number is given."""
        backends.synchronize(self.device_type, wait=False)
        self.factor.fill_(float("inf") if number == SKIPPED else 1.0)
        self.inputs.mul_(0.9)
        backends.synchronize(self.device_type, wait=False)


class Reads(TorchDispatchMode):
    """Counts the calls whose results depend on values that the host must read, and the copies from a device."""

    def __init__(self, device_type: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device_type, self.ops = device_type, list[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = self._device_types((args, kwargs))
        result = func(*args, **(kwargs or {}))
        leaves = self.device_type != backends.HOST and backends.HOST in self._device_types(result)
        if self.device_type in given and (leaves or any(tag in func.tags for tag in _READS)):
            self.ops.append(str(func))
        return result

    @staticmethod
    def _device_types(values: Any) -> set[str]:
        return {leaf.device.type for leaf in tree_leaves(values) if isinstance(leaf, Tensor)}


def check_reads(device_type: str) -> Iterator[Check]:
    """Yield a check of each optimizer: iterations, of which one is skipped, read nothing from the device."""
    for name in OPTIMIZERS:
        yield attempted("reads", name, partial(_check_reads, name, device_type))


def _check_reads(name: str, device_type: str) -> Check:
    reads = _reads(Training(name, device_type))
    figures = {"reads": float(len(reads)), "iterations": float(ITERATIONS)}
    found = f"{len(reads)} reads in {ITERATIONS} iterations"
    ops = f": {', '.join(dict.fromkeys(reads))}" if reads else ""
    return Check("reads", name, BROKEN if reads else KEPT, found + ops, figures)


def _reads(training: Training) -> list[str]:
    """Return the ops that read in a few iterations, and the error of a device that finds a sync."""
    for _ in range(WARM_UP):
        training.iterate()
        backends.synchronize(training.device_type)
    found = list[str]()
    for number in range(ITERATIONS):
        training.prepare(number)
        before = backends.transfers(training.device_type)
        mode = Reads(training.device_type)
        try:
            with _no_syncs(training.device_type), mode:
                training.iterate()
        except RuntimeError as error:
            return [*found, *mode.ops, first_line(error)]
        backends.synchronize(training.device_type, wait=False)
        unseen = backends.transfers(training.device_type) - before - len(mode.ops)
        found += [*mode.ops, *["a transfer"] * unseen]
    return found


@contextmanager
def _no_syncs(device_type: str) -> Iterator[None]:
    """Have the device raise for a sync, where it can."""
    module: Any = getattr(torch, device_type, None)
    if not hasattr(module, "set_sync_debug_mode"):
        yield
        return
    before = module.get_sync_debug_mode()
    module.set_sync_debug_mode("error")
    try:
        yield
    finally:
        module.set_sync_debug_mode(before)


def check_graphs(device_type: str) -> Iterator[Check]:
    """Yield a check of each optimizer: a captured iteration, replayed, does what the iteration does."""
    for name in OPTIMIZERS:
        new = backends.new_graph(device_type)
        if new is None:
            yield Check("graphs", name, UNCHECKED, f"{device_type} has no graphs that can be captured")
            continue
        yield attempted("graphs", name, partial(_check_graph, name, device_type, *new))


def _check_graph(name: str, device_type: str, graph: Any, capture: Any) -> Check:
    module, found = getattr(torch, device_type), list[str]()
    eager, captured = (Training(name, device_type) for _ in range(2))
    stream = module.Stream()  # the first iterations make state, and must not run on the stream of the capture
    stream.wait_stream(module.current_stream())
    with module.stream(stream):
        for _ in range(WARM_UP):
            eager.iterate()
            captured.iterate()
    module.current_stream().wait_stream(stream)
    with capture:
        captured.iterate()
    for number in range(ITERATIONS):
        for training in (eager, captured):
            training.prepare(number)
        before = values(captured.optimizer)
        eager.iterate()
        graph.replay()
        after = values(captured.optimizer)
        if number == SKIPPED and not all(map(same_bits, before, after)):
            found.append("a replay of a skipped step changes tensors")
        pairs = zip(after, values(eager.optimizer), strict=True)
        if not all(torch.allclose(one, other, 1e-3, 1e-5) for one, other in pairs):
            found.append(f"replay {number} steps otherwise")
    text = "; ".join(found) or f"{ITERATIONS} replays do what the iterations do, one of them skipped"
    return Check("graphs", name, BROKEN if found else KEPT, text)
