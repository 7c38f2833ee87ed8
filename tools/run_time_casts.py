"""Operators under policies that are made at run time: the types in which they are called below autocast, on any device.

    python -m tools.run_time_casts [--outside 200] [--device cuda]

Every op of the base, on every device, in every category that it can take; and ops that the base does not list.
"""

import argparse
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby

import polycast
import torch
from tqdm import tqdm

from codegen.schemas import Schemas
from testing.calls import call
from testing.cases import COLUMNS, DEVICES, POLICY, Case, expected
from testing.probe import in_force, is_reachable, kernels_of, probes

F64, F32, INT, HALF, BF16 = torch.float64, torch.float32, torch.int64, torch.float16, torch.bfloat16
EXPLICIT = {"float16": HALF, "bfloat16": BF16, "float64": F64}
CATEGORIES = (
    "lower_precision_fp",
    "fp32",
    "promote",
    "fallthrough",
    "fp32_set_opt_dtype",
    "fp32_append_dtype",
    "banned",
)
GIVEN = ([F32], [HALF], [BF16, F32], [F64, HALF], [INT, F32])


def policy_of(trial: Case) -> polycast.Policy | None:
    """Return the rule that gives an overload a category or a dtype on a device; None where it cannot take that."""
    try:
        return polycast.Policy({f"aten::{trial.op}.{trial.overload}": {trial.device: trial.category}})
    except polycast.policy.policy.PolicyError:
        return None


def _trial(op: str, overload: str, device: str, value: str) -> Case:
    target = _DTYPE_OVERLOADS.get((op, overload)) if value == "fp32_append_dtype" else None
    case = Case(op, overload, device, value, "", "")
    return case._replace(reaches=f"{op}.{target}" if target else case.name)


_DTYPE_OVERLOADS = {(row.op, row.overload.name): row.overload.dtype_overload for row in POLICY.registrations()}


def base_trials(devices: Iterable[str] = COLUMNS) -> list[Case]:
    """Return a trial for each overload of the base on each device in each category, possible or not."""
    overloads = dict.fromkeys((row.op, row.overload) for row in polycast._compiled.ROWS)
    # Torch's own kernel, which no rule changes, and what takes names, which cannot be passed from Python.
    stock = {(row.op, row.overload, row.device) for row in polycast._compiled.ROWS if row.category == "stock"}
    schemas = Schemas.installed()
    return [
        _trial(op, overload, device, value)
        for device in devices
        for op, overload in overloads
        if (op, overload, device) not in stock and "Dimname" not in str(schemas.find(op, overload))
        for value in (*CATEGORIES, *EXPLICIT)
    ]


def outside_trials(count: int, seed: int, devices: Iterable[str] = COLUMNS) -> list[Case]:
    """Return trials of ops that the base does not list, three categories each, one device after the other."""
    listed = {row.op for row in polycast._compiled.ROWS}
    names = {name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    found = []
    for name in sorted(names):
        op, _, overload = name.partition(".")
        if op not in listed and not op.startswith("_") and _can_be_made(op, overload or "default"):
            found.append((op, overload or "default"))
    chosen = random.Random(seed).sample(found, min(count, len(found)))
    kinds = list(devices)
    return [
        _trial(op, overload, kinds[number % len(kinds)], value)
        for number, (op, overload) in enumerate(chosen)
        for value in ("lower_precision_fp", "fp32", "float64")
    ]


def _can_be_made(op: str, overload: str) -> bool:
    """Whether a call can be made from its schema: functional, with a tensor, and without what has no value here."""
    packet = getattr(torch.ops.aten, op, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket) or overload not in packet.overloads():  # type: ignore[no-untyped-call]
        return False
    schema = getattr(packet, overload)._schema
    kinds = [str(argument.type) for argument in schema.arguments]
    strange = (
        "Dimname",
        "Generator",
        "Storage",
        "Device",
        "Layout",
        "Stream",
        "Any",
        "Dict",
        "Future",
        "__torch__",
        "t",
    )
    return (
        not schema.is_mutable
        and all(argument.alias_info is None for argument in schema.arguments)  # rules refuse views
        and any("Tensor" in kind for kind in kinds)
        and not any(kind == "t" or word in kind for kind in kinds for word in strange)
    )


def differences(trials: Iterable[Case]) -> Iterator[str | None]:
    """Yield, for each trial whose op can take the category, what differs; None where nothing does."""
    for device, group in groupby(sorted(trials, key=lambda trial: DEVICES.index(trial.device)), lambda one: one.device):
        here = list(group)
        if not is_reachable(device):
            continue
        with _probed(device, here):
            for trial in here:
                policy = policy_of(trial)
                if policy is not None:
                    with in_force(policy):
                        yield _difference(trial)


@contextmanager
def _probed(device: str, trials: list[Case]) -> Iterator[None]:
    names = {trial.name for trial in trials} | {trial.reaches for trial in trials}
    with kernels_of(device), probes(device, names):
        yield


def _difference(trial: Case) -> str | None:
    for lower in polycast._compiled.DEVICES[trial.device].lower_precision:
        for given in GIVEN:
            try:
                made, reached = call(trial, given, lower)
            except RuntimeError as error:
                if trial.category == "banned" and "is banned on" in str(error):
                    continue
                return f"{trial} as {trial.category}: {error}"
            wanted, dtypes = _expected(trial.category, made, lower)
            if (reached.name, reached.tensors) != (trial.reaches, wanted) or (
                dtypes is not None and reached.dtypes != dtypes
            ):
                found = f"{reached.name} {reached.tensors} {reached.dtypes}"
                return f"{trial} as {trial.category}, given {made} in {lower}: {found}"
    return None


def _expected(
    value: str, made: list[torch.dtype], lower: torch.dtype
) -> tuple[list[torch.dtype], list[torch.dtype] | None]:
    """Return the types of the tensors, and of the dtype arguments where they count."""
    if value in EXPLICIT:
        return expected("lower_precision_fp", made, EXPLICIT[value]), None
    if value in ("fp32_set_opt_dtype", "fp32_append_dtype"):
        eligible = made[0] in (F32, HALF, BF16)
        return made, [F32] if eligible else [made[0]] if value == "fp32_append_dtype" else []
    return expected(value, made, lower), None


def main(arguments: list[str] | None = None) -> int:
    """Run all trials and print how many arrived as their rules say; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outside", type=int, default=200, help="ops that the base does not list (default: 200)")
    parser.add_argument("--device", choices=DEVICES, help="one device only")
    options = parser.parse_args(arguments)
    devices = [options.device] if options.device else COLUMNS
    reachable = [device for device in devices if is_reachable(device)]
    status = 0
    for title, trials in {
        "ops of the base": base_trials(reachable),
        "other ops": outside_trials(options.outside, 0, reachable),
    }.items():
        results = list(tqdm(differences(trials), total=len(trials), desc=title, disable=None))
        wrong = [text for text in results if text is not None]
        print(f"{title}: {len(results)} rules on {', '.join(reachable)}, {len(wrong)} calls differ", *wrong, sep="\n")
        status |= bool(wrong)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
