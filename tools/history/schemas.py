"""The overloads of ATen in each release, as the file that `polycast check` reads."""

import re
from collections.abc import Iterator, Mapping

from polycast._grammar.categories import FUNCTIONAL, VIEW
from polycast._grammar.names import DEFAULT, split_overload
from polycast._grammar.versions import Version, VersionRange
from polycast.policy.schemas import LETTERS
from torchgen.model import BaseTy, BaseType, FunctionSchema, OptionalType, SchemaKind

HEAD = """\
# Recorded by `python -m tools.history schemas`: what a category must know of each overload of ATen, and the releases of
# torch that have it. f: functional, v: can return a view, o: out, i: inplace, m: mutable; how many tensors, where 2 is
# more than one; d: takes an optional dtype.
"""
_OPERATOR = re.compile(r"^(?=- func: )", re.MULTILINE)
_SCHEMA = re.compile(r"- func: (.*)")
_GENERATED = re.compile(r"^  autogen: (.*)$", re.MULTILINE)
_DTYPE = OptionalType(BaseType(BaseTy.ScalarType))

Facts = dict[tuple[str, str], str]


def facts_of(text: str) -> Facts:
    """Return the facts of each overload of torch's native_functions.yaml."""
    found: Facts = {}
    for block in _OPERATOR.split(text)[1:]:
        match = _SCHEMA.match(block)
        assert match is not None  # the blocks are split there
        schema = FunctionSchema.parse(match[1])
        found[str(schema.name.name), schema.name.overload_name or DEFAULT] = _facts(schema, _variant(schema))
        generated = _GENERATED.search(block)
        for name in generated[1].split(", ") if generated else ():
            op, overload = split_overload(name.strip())
            found[op, overload] = _facts(schema, "out" if "out" in overload else FUNCTIONAL)
    return found


def text_of(releases: Mapping[Version, Facts]) -> str:
    """Return the file of all releases, a line for each op."""
    names = sorted({name for facts in releases.values() for name in facts})
    lines: dict[str, list[str]] = {}
    for op, overload in names:
        held = {release: releases[release].get((op, overload)) for release in sorted(releases)}
        lines.setdefault(op, []).extend(f"{overload}:{facts}{torch}" for facts, torch in _runs(held))
    return HEAD + "".join(f"{op} {' '.join(overloads)}\n" for op, overloads in lines.items())


def _runs(held: Mapping[Version, str | None]) -> Iterator[tuple[str, VersionRange]]:
    """Yield the facts of an overload, each with the releases from its first one to the next change."""
    releases = [*held]
    starts = [
        index for index in range(len(releases)) if not index or held[releases[index]] != held[releases[index - 1]]
    ]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        facts = held[releases[start]]
        if facts is not None:
            yield facts, VersionRange(releases[start] if start else None, None if end is None else releases[end])


def _variant(schema: FunctionSchema) -> str:
    kind = schema.kind()
    aliases = [part.annotation for part in schema.arguments.flat_all if part.annotation is not None]
    if kind is not SchemaKind.functional or not aliases:
        return "mutable" if kind is SchemaKind.scratch else kind.name
    return "mutable" if any(annotation.is_write for annotation in aliases) else VIEW


def _facts(schema: FunctionSchema, variant: str) -> str:
    if variant not in (FUNCTIONAL, VIEW):
        return LETTERS[variant]
    arguments = schema.arguments.flat_all
    tensors = sum(2 if part.type.is_list_like() else 1 for part in arguments if part.type.is_tensor_like())
    return f"{LETTERS[variant]}{min(tensors, 2)}{'d' * any(part.type == _DTYPE for part in arguments)}"
