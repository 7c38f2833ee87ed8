"""The plain sentences of an op's page: what the op does on which devices, why, and how its other overloads differ."""

import re
from collections import Counter

from polycast._grammar.categories import UNLISTED, Category

from codegen.model import Op
from tools.docs.facts import FLOAT32, POLICY, Line, Section

NAMES = tuple(device.name for device in POLICY.devices)
_DOES = {
    **dict.fromkeys(FLOAT32, "computes in float32"),
    Category.LOWER_PRECISION_FP.value: "computes in the region's dtype (float16 or bfloat16)",
    Category.PROMOTE.value: "computes in the widest dtype of its inputs",
    Category.BANNED.value: "raises an error",
    Category.STOCK.value: "keeps torch's own kernel",
    UNLISTED: "computes in the dtype of its inputs",
}


def _head(name: str) -> str:
    like = next(device.like for device in POLICY.devices if device.name == name)
    return _head(like) if like else name


def families() -> dict[str, tuple[str, ...]]:
    """Return the devices that are like another, by words for them all: "cuda-like" for cuda and those like it."""
    heads = {head: tuple(name for name in NAMES if _head(name) == head) for head in map(_head, NAMES)}
    return {f"{head}-like": family for head, family in heads.items() if len(family) > 2}


def join(words: list[str]) -> str:
    """Return words as in "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def few(devices: tuple[str, ...]) -> list[str]:
    """Return devices in few words, as in ["cuda-like (not npu)", "xpu"]: a family stands for most of its devices."""
    shown = {name: name for name in NAMES if name in devices}
    for word, family in families().items():
        absent = [name for name in family if name not in devices]
        if family[0] in devices and len(absent) < 3:
            word += f" (not {join(absent)})" if absent else ""
            shown = {name: word if name in family else text for name, text in shown.items()}
    return [*dict.fromkeys(shown.values())]


def spelled(devices: tuple[str, ...]) -> str:
    """Return devices as a sentence in Markdown has them, as in "every device but cpu and tpu"."""
    absent = [name for name in NAMES if name not in devices]
    if len(absent) < 4:
        return f"every device but {join(absent)}" if absent else "every device"
    return join([re.sub(r"([\w-]+-like)", r"[\1](index.md#devices) devices", word) for word in few(devices)])


def clause(line: Line) -> str:
    """Return what an op does by a line of its table, as in "computes in float32"."""
    cell = line.cells[0]
    if cell.computes.startswith("follows"):
        ops = [f"[{op}]({op}.md)" for op in cell.computes.removeprefix("follows ").split(", ")]
        follow = "follow theirs" if ops[1:] else "follows its own"
        return f"has no rule of its own: {join(ops)}, which it runs, {follow}"
    if line.category == UNLISTED and line.cells[1].computes == "float32":
        return "computes in float32 by its own code and returns the dtype of its inputs"
    if line.mixes:
        return f"{_DOES[UNLISTED]}, and torch itself promotes inputs of different dtypes"
    returns = f" and returns {cell.returns}" if line.category in FLOAT32 and "float32" not in cell.returns else ""
    return _DOES[line.category] + (returns if cell.returns else "")


def lead(op: Op, section: Section) -> str:
    """Return what an op does, the devices that list it first."""
    groups: dict[tuple[str, str], list[str]] = {}
    # What releases changed, then what is listed, then the rest, with most devices last.
    for line in sorted(
        section.lines, key=lambda line: (not line.since, len(line.devices) if line.category == UNLISTED else 0)
    ):
        groups.setdefault((line.since, clause(line)), []).extend(line.devices)
    told: list[str] = []
    before: list[str] = []
    for place, ((since, does), devices) in enumerate(groups.items()):
        on, when = spelled(tuple(devices)), since.replace(" ", " torch ", 1).capitalize()
        always = groups.get(("", does), [])
        there = "every other device" if always and {*always, *devices} == {*NAMES} else spelled(tuple(always))
        if not place:
            told.append(f"{when}{', ' if when else ''}{op.name} {does} on {on}.")
        elif devices == before:
            told.append(f"{when}{f', and in every release on {there},' if always else ''} it {does}.")
        elif any(f" it {does}." in one for one in told):
            continue
        elif len(groups) == 2 and " but " in told[0]:
            told.append(f"There it {does}.")
        elif place == len(groups) - 1 and len(devices) > 3:
            told.append(f"On every other device it {does}.")
        else:
            told.append(f"On {on} it {does}.")
        before = devices
    return " ".join(told)


def why(section: Section) -> str:
    """Return why most devices list an op, by its category; empty if that is not known of each such op."""
    on = {device: line.category for line in reversed(section.lines) for device in line.devices}
    common, count = Counter(category for category in on.values() if category != UNLISTED).most_common(1)[0]
    if common == Category.PROMOTE.value:
        return "no input loses digits or range in the widest dtype among them."
    if common == Category.LOWER_PRECISION_FP.value:
        gains = "what gains most from it in time and memory, above all products of matrices and convolutions"
        return f"autocast lowers {gains}."
    if common in FLOAT32 and count > len(NAMES) / 2:
        needs = "torch counts it among the ops that need the range or the digits of float32"
        return f"{needs}. float16 overflows above 65504, and bfloat16 keeps two to three decimal digits."
    return ""


def difference(section: Section, first: Section) -> str:
    """Return how overloads differ from the first ones, in a sentence; empty if only their releases do."""
    held = {device: clause(line) for line in first.lines for device in line.devices}
    groups: dict[str, list[str]] = {}
    for line in section.lines:
        for device in line.devices:
            if held.get(device) != clause(line):
                groups.setdefault(clause(line), []).append(device)
    return join([f"on {spelled(tuple(devices))} it {does}" for does, devices in groups.items()])
