"""Our kernels under the pin of a recorded release, told by the probe that recorded the release."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import polycast
import torch
from polycast._compiled import DEVICES, ROWS
from polycast.policy.records import find

from polycast_grammar.history import ABSENT, Record, name_of, overload_of
from testing.probe import in_force, kernels_of
from testing.release_probe import STOCK, probe


class Compared(NamedTuple):
    """A row: what is recorded, and what the pin comes to; None, with the reason, where that cannot be seen."""

    name: str
    device: str
    wanted: str
    found: str | None
    why: str = ""


def compared(name: str) -> Iterator[Compared]:
    """Yield every overload that the base or a release lists, on every device that the release is recorded for."""
    record, policy = find(name), polycast.Policy.load(name)
    here = {text.removeprefix("aten::") for text in torch._C._dispatch_get_all_op_names()}
    for column in record.devices:
        wanted = {name_of(*key): record.category(*key, column) for key in _listed(record)}
        ours = [name for name, category in wanted.items() if name in here and category not in (ABSENT, STOCK)]
        key = DEVICES[column].dispatch_key.removeprefix("Autocast")
        with kernels_of(column), in_force(policy):
            found = dict(probe(key, ours))
        for name, category in wanted.items():
            if category in (ABSENT, STOCK) or name not in here:
                if category == STOCK or column in _columns(record, name):
                    yield Compared(name, column, category, None, _why(category))
            else:
                yield Compared(name, column, category, found[name])


def told(rows: Iterable[Compared]) -> list[str]:
    """Return a line for each thing that there is to say, with the overloads that it is said of, and the devices."""
    lines: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        what = row.why or f"recorded {row.wanted}, ours {row.found}"
        lines.setdefault(what, {}).setdefault(row.name, []).append(row.device)
    return [
        f"{what}: " + "; ".join(f"{name} on {', '.join(devices)}" for name, devices in names.items())
        for what, names in lines.items()
    ]


def _listed(record: Record) -> list[tuple[str, str]]:
    return sorted({(row.op, row.overload) for row in ROWS} | record.overloads())


def _columns(record: Record, name: str) -> set[str]:
    """Return the devices that list an overload, in the release or here."""
    rows = {*record.rows, *((row.op, row.overload, row.device) for row in ROWS)}
    return {device for op, overload, device in rows if (op, overload) == overload_of(name)}


def _why(category: str) -> str:
    if category == STOCK:
        return "keeps torch's own kernel"
    return f"{'that release' if category == ABSENT else 'this torch'} has no such overload"
