"""What an op of the policy means: its rules."""

from pathlib import Path

import pytest
from polycast._grammar.categories import Category
from polycast._grammar.versions import ALL

from codegen.model import Device, Rule
from tests.codegen.sample import EXCEPTIONS, HEAD, POLICY, edited, problems, read


def _lines(rules: tuple[Rule, ...]) -> list[str]:
    return [f"{rule.schema_name} {rule.device} {rule.category.value} {rule.torch}".strip() for rule in rules]


# A cast, the overloads of its op tally, else the op is fold; the rules: overload, device, category, releases.
CASTS = {
    "one category is for every device": ("promote", "", "fold cuda promote, fold xla promote, fold cpu promote"),
    "a device that is not named takes the category of the device it is like": (
        "{cuda: promote}",
        "",
        "fold cuda promote, fold xla promote",
    ),
    "like goes one way": ("{xla: promote}", "", "fold xla promote"),
    "unlisted overrides like": ("{cuda: promote, xla: unlisted}", "", "fold cuda promote"),
    "others are those that neither are named nor are like one that is": (
        "{others: fp32, cuda: promote}",
        "",
        "fold cuda promote, fold xla promote, fold cpu fp32",
    ),
    "unlisted overrides others": ("{cuda: unlisted, others: fp32}", "", "fold cpu fp32"),
    "the first alternative that holds wins": (
        "{cpu: [{torch: '>=2.12', as: fp32}, promote]}",
        "",
        "fold cpu fp32 >=2.12, fold cpu promote <2.12",
    ),
    "an earlier alternative cuts a hole into a later one": (
        "{cpu: [{torch: '>=2.10,<2.12', as: fp32}, promote]}",
        "",
        "fold cpu fp32 >=2.10,<2.12, fold cpu promote <2.10, fold cpu promote >=2.12",
    ),
    "unlisted can be an alternative": ("{cpu: [{torch: '>=2.12', as: fp32}, unlisted]}", "", "fold cpu fp32 >=2.12"),
    "every listed overload has its rules": (
        "{cpu: fp32}",
        "dim, default",
        "tally.dim cpu fp32, tally cpu fp32",
    ),
    "a device can hold some overloads only, and so does one that is like it": (
        "{cuda: {as: fp32, overloads: [dim]}, cpu: fp32}",
        "default, dim",
        "tally cpu fp32, tally.dim cuda fp32, tally.dim xla fp32, tally.dim cpu fp32",
    ),
    "an alternative for one overload in some releases leaves the others alone": (
        "{cpu: [{as: stock, overloads: [dim], torch: '>=2.12'}, fp32]}",
        "default, dim",
        "tally cpu fp32, tally.dim cpu stock >=2.12, tally.dim cpu fp32 <2.12",
    ),
    "the releases of an overload and of an alternative combine": (
        "{cpu: [{torch: '>=2.11', as: fp32}, stock]}",
        "{dim: {torch: '>=2.9,<2.13'}}",
        "tally.dim cpu fp32 >=2.11,<2.13, tally.dim cpu stock >=2.9,<2.11",
    ),
    "an alternative outside the releases of an overload gives no rule": (
        "{cpu: [{torch: '>=2.13', as: fp32}, stock]}",
        "dim: {torch: '<2.13'}",
        "tally.dim cpu stock <2.13",
    ),
}


@pytest.mark.parametrize(("cast", "overloads", "expected"), CASTS.values(), ids=CASTS)
def test_the_rules_of_an_op(tmp_path: Path, cast: str, overloads: str, expected: str) -> None:
    op = f"tally: {{overloads: [{overloads}]," if overloads else "fold: {"
    (found,) = read(tmp_path, f"{HEAD}  {op} cast: {cast}, public: [torch.fold]}}\n").ops
    assert ", ".join(_lines(found.rules)) == expected


def test_the_exceptions_of_a_device(tmp_path: Path) -> None:
    assert [line for line in _lines(tuple(read(tmp_path, EXCEPTIONS).rules())) if " npu " in line] == [
        "fold npu promote",
        "size npu stock",
        "tally npu fp32",
        "tally.dim npu lower_precision_fp <2.13",
    ]


def test_a_device_that_is_like_one_with_exceptions_has_them_where_no_op_names_it(tmp_path: Path) -> None:
    """Like goes from device to device."""
    text = EXCEPTIONS.replace("AutocastCPU,", "AutocastCPU, like: npu,")
    assert [line for line in _lines(tuple(read(tmp_path, text).rules())) if " cpu " in line] == [
        "fold cpu promote",
        "size cpu stock",
        "tally cpu fp32",
        "tally.dim cpu fp32 <2.13",
    ]


def test_an_exception_and_an_op_that_names_the_device(tmp_path: Path) -> None:
    text = EXCEPTIONS.replace("bend: {cast: fp32", "bend: {cast: {cuda: fp32, npu: fp32}")
    place = f"policy.yaml:{text[: text.index('[bend]')].count(chr(10)) + 1}"
    found = problems(tmp_path, text)
    assert found.startswith(f"{place}:")
    assert found.endswith("device 'npu' has an exception for 'bend', and the op names the device; remove one of them")


def test_devices_and_sentences(tmp_path: Path) -> None:
    text = edited("Casts to float32.", ">-\n    Casts\n    to   float32.")
    policy = read(tmp_path, text)
    assert policy.devices == (
        Device("cuda", "AutocastCUDA", ("float16", "bfloat16"), also_called=("gpu",)),
        Device("xla", "AutocastXLA", ("bfloat16",), "cuda"),
        Device("cpu", "AutocastCPU", ("bfloat16",)),
    )
    assert list(policy.sentences) == list(Category)
    assert policy.sentences[Category.FP32] == "Casts to float32."
    assert [op.public for op in policy.ops] == [("torch.bend",), ("torch.fold",), ("torch.size",), ("torch.tally",)]


def test_a_message_goes_to_banned_rules_and_a_cast_s_note_before_an_overload_s(tmp_path: Path) -> None:
    text = f"""{HEAD}\
  tally:
    cast: {{cuda: banned, cpu: {{as: fp32, note: On cpu.}}}}
    overloads: [default, dim: {{note: Along dim.}}]
    public: [torch.tally]
    message: Call fold.
"""
    assert [(rule.schema_name, rule.device, rule.note, rule.message) for rule in read(tmp_path, text).rules()] == [
        ("tally", "cuda", None, "Call fold."),
        ("tally", "xla", None, "Call fold."),
        ("tally", "cpu", "On cpu.", None),
        ("tally.dim", "cuda", "Along dim.", "Call fold."),
        ("tally.dim", "xla", "Along dim.", "Call fold."),
        ("tally.dim", "cpu", "On cpu.", None),
    ]


def test_where_a_call_arrives(tmp_path: Path) -> None:
    text = f"""{HEAD}\
  size:
    cast: {{cuda: {{as: fp32_append_dtype, overloads: [default]}}, xla: unlisted, cpu: fp32}}
    overloads: [default: {{dtype_overload: dtype}}, dim]
    public: [torch.size]
"""
    rules = read(tmp_path, text).rules()
    assert [(rule.schema_name, rule.device, rule.cpp_struct, rule.cpp_target, rule.reaches) for rule in rules] == [
        ("size", "cuda", "size", "size_dtype", "size.dtype"),
        ("size", "cpu", "size", "size_dtype", "size"),
        ("size.dim", "cpu", "size_dim", None, "size.dim"),
    ]


def test_an_overload_of_some_releases_does_not_narrow_the_category_of_its_op(tmp_path: Path) -> None:
    text = edited("[default, dim]", "[default, dim: {torch: '<2.13'}]")
    assert read(tmp_path, text).ops[3].categories("cpu") == [(Category.FP32, ALL)]
    assert read(tmp_path, POLICY).ops[3].categories("cuda") == []


@pytest.mark.parametrize("text", ["on", "1.0", "~"])
def test_a_value_stays_the_text_that_was_typed(tmp_path: Path, text: str) -> None:
    policy = read(tmp_path, edited("{cuda: promote}", f"{{cuda: {{as: promote, note: {text}}}}}"))
    assert policy.ops[1].rules[0].note == text
