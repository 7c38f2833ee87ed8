"""The rules that codegen derives from an op's ``cast`` in ``policy.yaml``."""

from pathlib import Path

import pytest

from codegen.categories import Category
from codegen.model import Rule
from codegen.versions import ALL
from tests.codegen.sample import EXCEPTIONS, HEAD, POLICY, edited, read


def _lines(rules: tuple[Rule, ...]) -> list[str]:
    return [f"{rule.schema_name} {rule.device} {rule.category.value} {rule.torch}".strip() for rule in rules]


# Each case has a cast, the overloads of `tally` ("" selects `fold`), and the expected rules.
CASTS = {
    "one category applies on every device": ("promote", "", "fold cuda promote, fold xla promote, fold cpu promote"),
    "a device inherits from its like": ("{cuda: promote}", "", "fold cuda promote, fold xla promote"),
    "a device does not inherit from a device that is like it": ("{xla: promote}", "", "fold xla promote"),
    "unlisted overrides like": ("{cuda: promote, xla: unlisted}", "", "fold cuda promote"),
    "others excludes named devices and devices like them": (
        "{others: fp32, cuda: promote}",
        "",
        "fold cuda promote, fold xla promote, fold cpu fp32",
    ),
    "the first alternative that matches applies": (
        "{cpu: [{torch: '>=2.12', as: fp32}, promote]}",
        "",
        "fold cpu fp32 >=2.12, fold cpu promote <2.12",
    ),
    "an earlier alternative splits a later one": (
        "{cpu: [{torch: '>=2.10,<2.12', as: fp32}, promote]}",
        "",
        "fold cpu fp32 >=2.10,<2.12, fold cpu promote <2.10, fold cpu promote >=2.12",
    ),
    "a device with some overloads only, and a device like it": (
        "{cuda: {as: fp32, overloads: [dim]}, cpu: fp32}",
        "default, dim",
        "tally cpu fp32, tally.dim cuda fp32, tally.dim xla fp32, tally.dim cpu fp32",
    ),
    "an alternative for one overload in some releases only": (
        "{cpu: [{as: stock, overloads: [dim], torch: '>=2.12'}, fp32]}",
        "default, dim",
        "tally cpu fp32, tally.dim cpu stock >=2.12, tally.dim cpu fp32 <2.12",
    ),
    "the releases of an overload and of an alternative combine": (
        "{cpu: [{torch: '>=2.13', as: banned}, {torch: '>=2.11', as: fp32}, stock]}",
        "{dim: {torch: '>=2.9,<2.13'}}",
        "tally.dim cpu fp32 >=2.11,<2.13, tally.dim cpu stock >=2.9,<2.11",
    ),
}


@pytest.mark.parametrize(("cast", "overloads", "expected"), CASTS.values(), ids=CASTS)
def test_the_rules_of_an_op(tmp_path: Path, cast: str, overloads: str, expected: str) -> None:
    op = f"tally: {{overloads: [{overloads}]," if overloads else "fold: {"
    (found,) = read(tmp_path, f"{HEAD}  {op} cast: {cast}, public: [torch.fold]}}\n").ops
    assert ", ".join(_lines(found.rules)) == expected


EXCEPTED = ["fold {} promote", "size {} stock", "tally {} fp32"]


@pytest.mark.parametrize(
    ("text", "device", "last"),
    [
        (EXCEPTIONS, "npu", "tally.dim npu lower_precision_fp <2.13"),
        (EXCEPTIONS.replace("[tally]", "[tally.default]"), "npu", "tally.dim npu lower_precision_fp <2.13"),
        (EXCEPTIONS.replace("AutocastCPU,", "AutocastCPU, like: npu,"), "cpu", "tally.dim cpu fp32 <2.13"),
    ],
    ids=["its own", "its own by overload", "exceptions of the device in its like, for ops that do not name the device"],
)
def test_the_exceptions_of_a_device(tmp_path: Path, text: str, device: str, last: str) -> None:
    found = [line for line in _lines(tuple(read(tmp_path, text).rules())) if f" {device} " in line]
    assert found == [*(line.format(device) for line in EXCEPTED), last]


def test_a_message_belongs_to_banned_rules_and_the_note_of_a_cast_overrides_an_overloads(tmp_path: Path) -> None:
    text = f"""{HEAD}\
  tally:
    cast: {{cuda: banned, xla: unlisted, cpu: {{as: fp32, note: On cpu.}}}}
    overloads: [default, dim: {{note: Along dim.}}]
    public: [torch.tally]
    message: Call fold.
"""
    assert [(rule.schema_name, rule.device, rule.note, rule.message) for rule in read(tmp_path, text).rules()] == [
        ("tally", "cuda", None, "Call fold."),
        ("tally", "cpu", "On cpu.", None),
        ("tally.dim", "cuda", "Along dim.", "Call fold."),
        ("tally.dim", "cpu", "On cpu.", None),
    ]


def test_an_overload_of_some_releases_does_not_limit_the_category_of_its_op(tmp_path: Path) -> None:
    text = edited("[default, dim]", "[default, dim: {torch: '<2.13'}]")
    assert read(tmp_path, text).ops[3].categories("cpu") == [(Category.FP32, ALL)]
    assert read(tmp_path, POLICY).ops[3].categories("cuda") == []


@pytest.mark.parametrize("text", ["on", "1.0", "~"])
def test_a_value_is_the_text_of_the_file(tmp_path: Path, text: str) -> None:
    policy = read(tmp_path, edited("{cuda: promote}", f"{{cuda: {{as: promote, note: {text}}}}}"))
    assert policy.ops[1].rules[0].note == text
