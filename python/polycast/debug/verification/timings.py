"""Times beside torch's best, in interleaved rounds: a step, a model of many casts, and casts that are kept."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from functools import partial
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import torch
from torch import nn

from polycast import backends, cast_cache
from polycast._compiled import DEVICES
from polycast.debug.timing import seconds_of
from polycast.debug.verification.findings import BOUND, BROKEN, KEPT, UNCHECKED, Check, attempted
from polycast.debug.verification.rules import has_own_kernels
from polycast.debug.verification.steps import FUSED, OURS, Kind, has_fused, made
from polycast.installation import uninstall
from polycast.region import autocast

ROUNDS, SECONDS, LIMIT = 9, 0.15, 15.0
"""How many rounds, how long each contestant runs in one, and after how many seconds no further round begins."""
DEFAULT = Kind(torch.optim, torch.amp.grad_scaler.GradScaler, {})
Call = Callable[[], object]


def check_timings(device_type: str) -> Iterator[Check]:
    """Yield a check of each of the three. On a busy machine times say little, so they break no promise there."""
    busy = _busy()
    for name, check in {"a step of AdamW": _step, "many casts": _casts, "kept casts": _kept}.items():
        found = attempted("timings", name, partial(check, name, device_type))
        yield found._replace(outcome=UNCHECKED, found=f"{busy}: {found.found}") if busy and found.figures else found


def _busy() -> str:
    """Return that the machine does other work, as far as it tells, or an empty text."""
    load, cores = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0, os.cpu_count() or 1
    return f"the machine is busy (a load of {load:.1f} on {cores} cores)" if load > cores else ""


def _step(title: str, device_type: str) -> Check:
    best = FUSED if has_fused("AdamW", device_type) else DEFAULT
    calls = {"polycast": _stepping(OURS, device_type), "torch": _stepping(best, device_type)}
    name = "AdamW(fused=True)" if best is FUSED else "AdamW"
    return _compared(title, {"torch": f"torch.optim.{name} and torch.amp.GradScaler"}, _timed(calls, device_type))


def _stepping(kind: Kind, device_type: str) -> Call:
    """Return a step, with its scaler, of 3 million parameters."""
    params = [torch.full((131072,), 0.5, device=device_type, requires_grad=True) for _ in range(24)]
    optimizer, scaler = made("AdamW", kind, params, device_type, scale=1.0)
    loss = torch.ones((), device=device_type)
    for param in params:
        param.grad = torch.full_like(param, 0.1)

    def call() -> None:
        scaler.scale(loss)
        scaler.step(optimizer)
        scaler.update()

    return call


def _casts(name: str, device_type: str) -> Check:
    layers = [nn.Linear(64, 64) for _ in range(32)]
    model, inputs = nn.Sequential(*layers).to(device_type), torch.ones(8, 64, device=device_type)

    def call() -> None:
        with torch.autocast(device_type):
            loss = model(inputs).float().sum()
        loss.backward()

    with uninstall(device_type):
        if not has_own_kernels(device_type):
            return Check("timings", name, UNCHECKED, f"torch has no autocasting of its own on {device_type}")
    return _compared(
        name,
        {"torch": "torch's autocasting"},
        _timed({"polycast": call, "torch": call}, device_type, {"torch": lambda: uninstall(device_type)}),
    )


def _kept(name: str, device_type: str) -> Check:
    lower = DEVICES[backends.device_of(device_type)].lower_precision[0]
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4))).to(device_type).requires_grad_(False)
    pure, plain = deepcopy(model).to(lower), deepcopy(model)
    inputs = torch.ones(1, 1024, device=device_type)
    halves = inputs.to(lower)

    def in_region(model: nn.Module) -> Call:
        def call() -> None:
            with torch.no_grad(), autocast(device_type, dtype=lower):
                model(inputs)

        return call

    def alone() -> None:
        with torch.no_grad():
            pure(halves)

    with cast_cache.keep(model):
        times = _timed({"polycast": in_region(model), "pure": alone, "fresh": in_region(plain)}, device_type)
    return _compared(name, {"fresh": "casts that are not kept", "pure": f"the pure model in {lower}"}, times)


def _compared(name: str, others: dict[str, str], times: dict[str, list[float]]) -> Check:
    """Return the check of times: the ratio to the first of the others decides."""
    figures = {f"{whose}, seconds": median(seconds) for whose, seconds in times.items()}
    found = list[str]()
    for other, whose in others.items():
        low, middle, high = _quartiles([one / two for one, two in zip(times["polycast"], times[other], strict=True)])
        figures |= {f"ratio to {other}": middle, f"ratio to {other}, lower quartile": low}
        figures[f"ratio to {other}, upper quartile"] = high
        found.append(f"{middle:.2f} ({low:.2f} to {high:.2f}) times the time of {whose}")
    text = f"{'; '.join(found)}; polycast takes {figures['polycast, seconds'] * 1e3:.3g} ms"
    return Check("timings", name, KEPT if figures[f"ratio to {next(iter(others))}"] <= BOUND else BROKEN, text, figures)


def _quartiles(ratios: list[float]) -> list[float]:
    """Return the lower quartile, the median and the upper quartile."""
    return quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3


def _timed(
    calls: dict[str, Call],
    device_type: str,
    contexts: dict[str, Callable[[], AbstractContextManager[Any]]] | None = None,
) -> dict[str, list[float]]:
    """Return the seconds of a call in each round. All run in each, in an order that turns."""
    numbers, times = dict[str, int](), {name: list[float]() for name in calls}
    start = perf_counter()
    for number in range(ROUNDS + 1):
        if number > 1 and perf_counter() - start > LIMIT:
            break
        for place in range(len(calls)):
            name = [*calls][(place + number) % len(calls)]
            with (contexts or {}).get(name, nullcontext)():
                seconds = _seconds(calls[name], numbers.get(name, 1), device_type)
            if number == 0:  # a warm-up, which says how many calls fill a round
                with (contexts or {}).get(name, nullcontext)():
                    seconds = _seconds(calls[name], 1, device_type)
                numbers[name] = max(1, round(SECONDS / seconds))
            else:
                times[name].append(seconds)
    return times


def _seconds(call: Call, number: int, device_type: str) -> float:
    call()  # the first one after another contestant fills caches
    return seconds_of(call, number, device_type)
