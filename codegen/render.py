"""The generated files, rendered from a policy. The same policy always produces the same files.

The rules are split into shards, which compile in parallel. The hash of an op's name selects its shard, so an added op
changes one shard.
"""

import re
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .categories import Category
from .model import Policy, Rule
from .versions import ALL, VersionRange

SHARDS = 4

# Markdown reads these characters as markup. An underscore between letters or digits is not markup.
_MARKUP = re.compile(r"[\\`*~|\[]|(?<![^\W_])_|_(?![^\W_])")


def render(policy: Policy) -> dict[str, str]:
    """Return the text of each generated file, by its path below `generated/`."""
    texts, policy = environment(), cited(policy)

    def text(template: str, **values: object) -> str:
        return texts.get_template(template).render(policy=policy, **values)

    files = {
        "autocast/table.cpp": text("autocast/table.cpp.j2", shards=range(SHARDS)),
        "op_reference.md": text("op_reference.md.j2", deviations=_deviations(policy)),
        "policy_cases.jsonl": text(
            "policy_cases.jsonl.j2", cases=[_case(policy, *group) for op in policy.ops for group in op.groups()]
        ),
    }
    for shard in range(SHARDS):
        ops = [op for op in policy.ops if crc32(op.name.encode()) % SHARDS == shard]
        files[f"autocast/rules_{shard}.cpp"] = text("autocast/rules.cpp.j2", shard=shard, ops=ops)
    return files


def environment() -> Environment:
    """Return the Jinja environment of the templates."""
    texts = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    texts.filters.update(cpp_string=cpp_string, cpp_condition=cpp_condition, cpp_rule=cpp_rule)
    texts.filters.update(markdown=markdown)
    texts.globals.update(ALL=ALL, Category=Category)
    return texts


def cited(policy: Policy) -> Policy:
    """Return the policy with the titles of documents instead of their keys in its notes."""
    documents = dict.fromkeys(list_.document for list_ in policy.documents)

    def cite(rule: Rule) -> Rule:
        note = rule.note
        for document in documents:
            note = note and note.replace(document.name, document.title)
        return replace(rule, note=note)

    return replace(policy, ops=tuple(replace(op, rules=tuple(map(cite, op.rules))) for op in policy.ops))


def cpp_string(text: str | None) -> str:
    """Return the text as a C++ string literal in UTF-8."""
    plain = set(range(0x20, 0x7F)) - set(b'"\\?')
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in (text or "").encode()) + '"'


def cpp_condition(torch: VersionRange) -> str:
    """Return the preprocessor condition for the releases of a range."""
    number = "TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR"
    first = f"{number} >= {torch.first[0] * 1000 + torch.first[1]}" if torch.first else ""
    end = f"{number} < {torch.end[0] * 1000 + torch.end[1]}" if torch.end else ""
    return " && ".join(filter(None, (first, end)))


def cpp_rule(rule: Rule) -> str:
    """Return the C++ initializer of a rule, without its device."""
    structs = [rule.cpp_struct] if rule.cpp_target is None else [rule.cpp_struct, rule.cpp_target]
    kernel = f"kernel<{', '.join(f'ops::{struct}' for struct in structs)}>"
    if rule.category is Category.STOCK:
        kernel = "nullptr"
    names = [cpp_string(name) for name in (rule.op, rule.overload.name)]
    texts = [cpp_string(text) for text in (rule.note, rule.message)]
    while texts and texts[-1] == '""':
        texts.pop()
    return "{" + ", ".join([*names, f"Category::{rule.category.value}", kernel, *texts]) + "}"


def markdown(text: str) -> str:
    """Return the text escaped for a cell of a Markdown table."""
    text = " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split())
    return _MARKUP.sub(r"\\\g<0>", text)


def _case(policy: Policy, rule: Rule, devices: tuple[str, ...]) -> dict[str, str]:
    return {
        "op": rule.op,
        "overload": rule.overload.name,
        "devices": policy.spell(devices),
        "category": rule.category.value,
        "torch": str(rule.torch),
        "reaches": rule.reaches,
    }


def _deviations(policy: Policy) -> list[tuple[str, str, str, str]]:
    """Return (overload, devices, category, note) for each rule with a note. Devices with equal rules share a row."""
    joined: dict[tuple[str, str, str], list[str]] = {}
    for rule in policy.rules():
        if rule.note is not None:
            joined.setdefault((rule.schema_name, str(rule), rule.note), []).append(rule.device)
    return [(op, ", ".join(devices), category, note) for (op, category, note), devices in joined.items()]
