"""What the page of an op says: for each device and range of torch releases its category, and the dtypes that follow.

The rules are those of policy.yaml for every release, not of the torch that runs. What an op returns, and which listed
ops it runs, comes from one call of each overload on the CPU.
"""

import warnings
from collections.abc import Iterator
from functools import cache
from itertools import chain, groupby, product
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from polycast._grammar.categories import UNLISTED, Category
from polycast._grammar.names import join_name
from polycast._grammar.releases import ABSENT
from polycast._grammar.versions import ALL, SUPPORTED, VersionRange, subtract
from polycast.command_line import ops
from polycast.debug.verification import samples
from polycast.debug.verification.outcomes import flatten, region
from polycast.policy.releases import releases
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from codegen.model import Op, Overload
from codegen.render import cited
from tests.support import probe
from tests.support.cases import POLICY as READ

POLICY = cited(READ)
INPUTS = ("float32", "bfloat16", "float16")
REGION = "region"
FLOAT32 = {Category.FP32.value, Category.FP32_SET_OPT_DTYPE.value, Category.FP32_APPEND_DTYPE.value}
_STAYS = {UNLISTED, Category.PROMOTE.value, Category.INPUT_DTYPE.value}


class Cell(NamedTuple):
    """What happens to an input of one dtype: what the op computes in, and what it returns, as in "float32"."""

    computes: str
    returns: str = ""

    def __str__(self) -> str:
        text = f"{self.computes}, returns {'it' if self.returns == self.computes == REGION else self.returns}"
        return (text if self.returns else self.computes).replace(REGION, "the region's dtype")


class Line(NamedTuple):
    """What overloads do on devices that treat them alike."""

    devices: tuple[str, ...]
    torch: VersionRange
    category: str
    cells: tuple[Cell, ...]
    mixes: bool = False
    """Whether it is unlisted, and torch itself promotes its inputs if their dtypes differ."""

    @property
    def since(self) -> str:
        """The releases in words; empty for all."""
        return words(self.torch)


class Section(NamedTuple):
    """The overloads of an op that every device treats alike."""

    overloads: tuple[Overload, ...]
    names: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[tuple[str, tuple[str, ...]], ...]
    """Why it differs from torch, each with the devices."""

    @property
    def since(self) -> str:
        """The releases that have the overloads, in words; empty for all."""
        return words(self.overloads[0].torch)


class Past(NamedTuple):
    """What torch itself does to overloads on devices, release by release."""

    names: tuple[str, ...]
    devices: tuple[str, ...]
    spans: tuple[tuple[str, str], ...]
    """Releases, each with the category: ("2.12 to 2.15", "fp32")."""


def words(torch: VersionRange) -> str:
    """Return a range of releases in words, as in "since 2.12"; empty for all that polycast supports."""
    first = f"since {torch.first[0]}.{torch.first[1]}" if torch.first and torch.first > (2, 9) else ""
    end = f"before {torch.end[0]}.{torch.end[1]}" if torch.end else ""
    return ", ".join(filter(None, (first, end)))


@cache
def sections(op: Op) -> list[Section]:
    """Return the overloads of an op and their lines. Overloads of named dimensions come last."""
    overloads = dict.fromkeys(rule.overload for rule in op.rules)
    found: dict[tuple[VersionRange, tuple[Line, ...], tuple[tuple[str, tuple[str, ...]], ...]], list[Overload]] = {}
    for overload in overloads:
        found.setdefault((overload.torch, _lines(op, overload), _notes(op, overload)), []).append(overload)
    held = [
        Section(tuple(some), tuple(join_name(op.name, part.name) for part in some), lines, notes)
        for (_, lines, notes), some in found.items()
    ]
    return sorted(held, key=lambda section: section.overloads[0].torch != ALL)


def _notes(op: Op, overload: Overload) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, list[str]] = {}
    for rule in op.rules:
        if rule.overload == overload and rule.note:
            found.setdefault(rule.note, []).append(rule.device)
    return tuple((note, tuple(dict.fromkeys(devices))) for note, devices in found.items())


def _lines(op: Op, overload: Overload) -> tuple[Line, ...]:
    found: dict[tuple[VersionRange, str, tuple[Cell, ...], bool], list[str]] = {}
    mixes = any(rule.category is Category.PROMOTE for rule in op.rules) and promotes(join_name(op.name, overload.name))
    for device in (device.name for device in POLICY.devices):
        mine = [rule for rule in op.rules if rule.overload == overload and rule.device == device]
        rest = subtract(overload.torch & SUPPORTED, [rule.torch for rule in mine])
        for torch_, category in [
            *((rule.torch, rule.category.value) for rule in mine),
            *((one, UNLISTED) for one in rest),
        ]:
            cells = tuple(_cell(join_name(op.name, overload.name), device, category, dtype) for dtype in INPUTS)
            found.setdefault((torch_, category, cells, mixes and category == UNLISTED), []).append(device)
    return tuple(Line(tuple(devices), *key) for key, devices in found.items())


def _cell(name: str, device: str, category: str, dtype: str) -> Cell:
    if category == Category.BANNED.value:
        return Cell("raises")
    if category == Category.STOCK.value:
        return Cell("left to torch's kernel")
    if category == UNLISTED and (runs := listed_within(name, device)):
        return Cell(f"follows {', '.join(runs)}")
    if category == UNLISTED and dtype != "float32" and computes_in_float32(name):
        return Cell("float32", dtype)
    computes = dtype if category in _STAYS else "float32" if category in FLOAT32 else REGION
    if computes == "bfloat16" and "complex64" in calls()[0].get(name, ()):
        return Cell("raises")  # torch has no complex dtype of bfloat16
    returns = ", ".join(dict.fromkeys(_as_computed(kind, computes) for kind in calls()[0].get(name, ("float32",))))
    return Cell(f"stays {dtype}") if returns == computes == dtype else Cell(computes, returns)


def _as_computed(kind: str, computes: str) -> str:
    """Return the dtype of a result, given what it is for float32."""
    if kind == "complex64":
        return {"float32": "complex64", "float16": "complex32"}[computes]
    return computes if kind == "float32" else kind


def listed_within(name: str, device: str) -> list[str]:
    """Return the ops that an unlisted one runs and that are listed on a device, or those within them."""
    found = []
    for inner in calls()[1].get(name, ()):
        if not (categories := _listed().get((inner, device))):
            found += listed_within(inner, device)
        elif not (categories <= FLOAT32 and inputs_within(name).get(inner) == {torch.float32}):
            found.append(inner.partition(".")[0])
    return [*dict.fromkeys(found)]


def computes_in_float32(name: str) -> bool:
    """Whether an op that is made of others gives them float32, whatever the dtype of its own inputs is."""
    return any(torch.float32 in dtypes for dtypes in inputs_within(name).values())


@cache
def inputs_within(name: str) -> dict[str, set[torch.dtype]]:
    """Return the overloads that a composite op runs, with the dtypes that they are given when it is given bfloat16.

    It is one call on the CPU without autocast; empty for an op of one kernel, or one that the CPU lacks in bfloat16.
    """
    found: dict[str, set[torch.dtype]] = {}

    class Inputs(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            dtypes = {tensor.dtype for tensor in flatten((args, kwargs)) if tensor.is_floating_point()}
            found.setdefault(
                func._schema.name.removeprefix("aten::") + ("." + func._overloadname).removesuffix(".default"), set()
            ).update(dtypes)
            return func(*args, **(kwargs or {}))

    if name not in calls()[1]:
        return {}
    try:
        sample = samples.arguments(name, samples.Make("cpu", torch.bfloat16))
        with probe.stock_kernels(), warnings.catch_warnings(), Inputs():  # type: ignore[no-untyped-call]
            warnings.simplefilter("ignore")
            (samples.find(name) or flatten)(*sample.args, **sample.kwargs)
    except RuntimeError:
        return {}
    return found


@cache
def promotes(name: str) -> bool:
    """Whether torch itself, without autocast, returns float32 when one input is bfloat16 and the others are float32."""
    call = samples.find(name)
    if call is None or name not in calls()[0]:
        return False
    sample = samples.arguments(name, samples.Make("cpu", torch.float32))
    count = sum(tensor.is_floating_point() for tensor in flatten((sample.args, sample.kwargs)))
    for lowered in range(count):
        places = iter(range(count))

        def cast(tensor: torch.Tensor, places: Iterator[int] = places, lowered: int = lowered) -> torch.Tensor:
            return tensor.bfloat16() if tensor.is_floating_point() and next(places) == lowered else tensor

        args, kwargs = tree_map_only(torch.Tensor, cast, (sample.args, sample.kwargs))
        try:
            with probe.stock_kernels():
                results = flatten(call(*args, **kwargs))
        except RuntimeError:
            return False
        if {result.dtype for result in results} != {torch.float32}:
            return False
    return count > 1


def timeline(op: Op) -> list[Past]:
    """Return what torch's releases do to an op on the devices that are recorded, and to overloads that differ."""
    found: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], list[str]] = {}
    first = sections(op)[0]
    for section, device in product(sections(op), dict.fromkeys(chain(*(one.devices for one in releases().values())))):
        recorded = [release for release in releases().values() if device in release.devices]
        its, held = (
            [
                (one.name.removeprefix("torch-"), one.category(op.name, some.overloads[0].name, device))
                for one in recorded
            ]
            for some in (first, section)
        )
        if section == first or any(
            mine not in (other, (mine[0], ABSENT)) for mine, other in zip(held, its, strict=True)
        ):
            groups = [([number for number, _ in some], category) for category, some in groupby(held, itemgetter(1))]
            spans = tuple((" to ".join(dict.fromkeys((some[0], some[-1]))), category) for some, category in groups)
            found.setdefault((section.names, spans), []).append(device)
    return [Past(names, tuple(devices), spans) for (names, spans), devices in found.items()]


def reasons(section: Section) -> dict[str, str]:
    """Return why torch changed overloads, by the release that did."""
    told = ops.reasons({section.names[0].partition(".")[0]})
    return {number: reason for number, name, reason in told if name in section.names}


@cache
def _listed() -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for rule in POLICY.rules():
        found.setdefault((rule.schema_name, rule.device), set()).add(rule.category.value)
    return found


def composites(op: Op) -> list[str]:
    """Return the public names that are no op and run an op."""
    return [name for name, ops in POLICY.composites if op.name in ops]


@cache
def calls() -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return what each overload returns for float32, and which other overloads of the policy it runs, on the CPU."""
    names = {rule.schema_name: op.name for op in POLICY.ops for rule in op.rules}
    returns: dict[str, tuple[str, ...]] = {}
    runs: dict[str, tuple[str, ...]] = {}
    with probe.stock_kernels(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, op in names.items():
            call = samples.find(name)
            if call is None or name not in samples.SAMPLES or name in samples.WITHOUT_CPU_KERNEL:
                continue
            sample = samples.arguments(name, samples.Make("cpu", torch.float32))
            # Bytes are the workspace of a kernel.
            results = flatten(call(*sample.args, **sample.kwargs))
            returns[name] = tuple(
                str(result.dtype).removeprefix("torch.") for result in results if result.dtype != torch.uint8
            )
            if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CompositeImplicitAutograd"):
                others = [other for other, its in names.items() if its != op and samples.find(other)]
                with (
                    probe.recorded("cpu", others) as found,
                    probe.transparent("cpu", name),
                    region("cpu", torch.bfloat16),
                ):
                    call(*sample.args, **sample.kwargs)
                runs[name] = tuple(sorted(found))
    return returns, runs
