"""Every promise on a device that is here."""

import os
import platform
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from polycast import backends, policy
from polycast._compiled import without_warnings
from polycast._facts import facts
from polycast._grammar.errors import did_you_mean
from polycast.backends import LATE
from polycast.debug.verification.findings import Check, Verification, first_line, raised
from polycast.debug.verification.iterations import check_graphs, check_reads
from polycast.debug.verification.rules import check_rules
from polycast.debug.verification.steps import check_steps
from polycast.debug.verification.timings import check_timings
from polycast.installation import install
from polycast.scope import process

PARTS: dict[str, Callable[[str], Iterator[Check]]] = {
    "rules": check_rules,
    "steps": check_steps,
    "reads": check_reads,
    "graphs": check_graphs,
    "timings": check_timings,
}


def verify(
    device: str | torch.device | None = None,
    parts: Iterable[str] = tuple(PARTS),
    report: Callable[[Check], object] = lambda _: None,
) -> Verification:
    """Check that polycast keeps its promises on a device, with real tensors beside torch's own kernels.

    - rules: a call of each op that the device's built-in rules name gives what torch's own autocast kernel gives where
      torch has one and the rule has no note, and what the op gives if its inputs are cast by hand. Values and gradients
      are compared by their bits, or by half of their digits if the op does not repeat its bits.
    - steps: SGD, Adam and AdamW through a skipped step, clipping, and a checkpoint into torch.optim and back. A skipped
      step changes nothing. The error against float64 is that of torch's for-loop.
    - reads: iterations of a training read nothing from the device.
    - graphs: a captured iteration does what the iteration does, where the device has graphs.
    - timings: a step, many casts, and kept casts, beside torch's best. They break a promise only if they take three
      times as long.

    All of it takes about two minutes. Meanwhile the policy's kernels of the device are uninstalled and installed again,
    and no policy of the process holds. So nothing else should run in the process. Afterwards all is as before.

    Args:
        device: A device type, such as "cuda". None takes the accelerator that torch finds, or else the CPU.
        parts: What to check.
        report: Is called with each check as it is done.

    Raises:
        ValueError: There is no such device here, or no such part.
        TypeError: The device is neither a str nor a ``torch.device``.

    Example:
        >>> import polycast
        >>> found = polycast.debug.verify("cpu", parts=["steps"])
        >>> found.broken
        []
        >>> [check.name for check in found.checks][:2]
        ['SGD in float32', 'SGD in bfloat16']
    """
    chosen, device_type = chosen_parts(parts), device_here(device)
    found = Verification(device_type, facts_of(device_type))
    for _ in run(found, chosen, report):
        pass
    return found


def run(found: Verification, parts: Iterable[str], report: Callable[[Check], object]) -> Iterator[str]:
    """Add the checks of parts to what was found, and yield the name of each part that is done."""
    device_type = found.device_type
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), install(device_type), process.use(None):
        warnings.simplefilter("ignore")  # torch's own, of deprecated ops, and ours, of steps by torch.optim
        for part in parts:
            found.begun.append(part)
            for check in _checks(part, device_type):
                found.checks.append(check)
                report(check)
            yield part
    found.complete = True


def _checks(part: str, device_type: str) -> Iterator[Check]:
    """Yield the checks of a part, and an error outside of them as a broken one."""
    try:
        checks = PARTS[part](device_type)
        while (check := without_warnings(lambda: next(checks, None))) is not None:
            yield check
    except Exception as error:
        yield raised(part, f"all {part}", error)


def device_here(device: str | torch.device | None) -> str:
    """Return the device type that is meant.

    Raises:
        ValueError: There is no such device here, or it has an index.
        TypeError: The device is neither a str nor a ``torch.device``.
    """
    if device is None:
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        return backends.HOST if accelerator is None else accelerator.type
    device_type = backends.known_device_type(device)
    if str(device) != device_type and ":" in str(device):
        raise ValueError(f"verify checks the current device of a type, so it takes no index; give '{device_type}'")
    backends.device_of(device_type)
    for package, device_types in LATE.items():
        if device_type in device_types and find_spec(package) is not None:
            import_module(package)
    try:
        torch.empty(0, device=device_type)  # XLA must have a tensor before the first backward
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch was built without it
        here = ", ".join(name for name in backends.device_types() if backends.is_here(name))
        raise ValueError(f"there is no {device_type} here; torch finds {here} and says: {first_line(error)}") from None
    return device_type


def facts_of(device_type: str) -> dict[str, str]:
    """Return what a report of a bug needs to know, with what torch says of the device."""
    module: Any = getattr(torch, device_type, None)
    told = {"device": f"{device_type}, which has the rules of {backends.device_of(device_type)}"}
    if hasattr(module, "get_device_properties"):
        told["properties"] = str(module.get_device_properties(0))
    else:
        told["hardware"] = (f"{backends.xla.hardware()}, " if device_type == backends.xla.TYPE else "") + _host()
    driver = getattr(torch._C, f"_{device_type}_getDriverVersion", None)
    told |= {**({"driver": str(driver())} if driver else {}), **facts()}
    if policy.in_force():
        told["policy"] = f"built-in ({process.ENVIRONMENT_POLICY} is set aside here)"
    return told


def _host() -> str:
    """Return the processor of the host, its cores, and how many threads torch runs there."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = [*names, platform.processor() or platform.machine()][0]
    return f"{model}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"


def chosen_parts(names: Iterable[str]) -> list[str]:
    """Return the names of parts, each once.

    Raises:
        ValueError: There is no such part.
    """
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in PARTS:
            device = name in backends.device_types()
            remedy = f"for the device, give --device {name}" if device else did_you_mean(name, PARTS)
            raise ValueError(f"there is no part '{name}'; {remedy}")
    return chosen
