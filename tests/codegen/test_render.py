"""The texts that a policy becomes."""

import json
import re
from difflib import unified_diff
from pathlib import Path

import pytest
from polycast._grammar.errors import Location

from codegen.parse import read_policy
from codegen.render import cpp_string, markdown, render
from codegen.schemas import Schemas
from codegen.write import MARK
from tests.codegen.sample import EXCEPTIONS, HEAD, HOSTILE, POLICY, edited, read

ROOT = Path(__file__).parents[2]
OPS = POLICY.removeprefix(HEAD).splitlines(keepends=True)


def test_a_comment_or_another_layout_of_the_policy_changes_nothing(tmp_path: Path) -> None:
    text = "# A comment.\n\n" + edited("fold: {cast: {cuda: promote},", "\n  fold: {\n    cast: {cuda: 'promote'},")
    assert render(read(tmp_path, text)) == render(read(tmp_path, POLICY))


def test_texts_carry_the_mark_end_in_one_newline_and_hold_no_place_of_this_machine(tmp_path: Path) -> None:
    for name, text in render(read(tmp_path, POLICY)).items():
        assert MARK.decode() in text.splitlines()[0], name
        assert text.endswith("\n") and not text.endswith("\n\n"), name
        assert str(tmp_path) not in text and str(Location("policy.yaml", 1, 1))[:-3] not in text, name


def test_an_added_op_adds_its_own_lines_only(tmp_path: Path) -> None:
    before, after = (render(read(tmp_path, HEAD + "".join(ops))) for ops in ([OPS[0], *OPS[2:]], OPS))
    changed = {name for name in after if after[name] != before[name]}
    shards = {name for name in changed if name.startswith("autocast/rules_")}
    assert len(shards) == 1 and changed == {*shards, "op_reference.md", "policy_cases.jsonl"}
    for name in changed:
        lines = iter(after[name].splitlines())
        assert [line for line in before[name].splitlines() if line not in lines] == [], name


def _cells(row: str) -> list[str]:
    """Split a row of a Markdown table where GitHub does: at a bar that no backslash escapes."""
    return [cell.strip() for cell in re.findall(r"\|((?:[^\\|]|\\.)*)(?=\|)", row)]


def test_a_hostile_note_stays_in_its_cell(tmp_path: Path) -> None:
    note = json.dumps(HOSTILE, ensure_ascii=False)
    files = render(read(tmp_path, edited("{cuda: promote}", f"{{cpu: {{as: fp32, note: {note}}}}}")))
    (row,) = [line for line in files["op_reference.md"].splitlines() if line.startswith("| `fold` | cpu |")]
    assert _cells(row) == ["`fold`", "cpu", "fp32", markdown(HOSTILE)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\n  two\r\n\tthree ", "one two three"),
        (r"a\|b", r"a\\\|b"),
        ("`code`", r"\`code\`"),
        ("<b>&amp;</b>", "&lt;b>&amp;amp;&lt;/b>"),
        ("*a* **b** ~~c~~", r"\*a\* \*\*b\*\* \~\~c\~\~"),
        ("[a](b) ![c](d)", r"\[a](b) !\[c](d)"),
        ("torch_xla runs_it _here_ in __init__", r"torch_xla runs_it \_here\_ in \_\_init\_\_"),
    ],
)
def test_markdown_is_read_as_the_text(text: str, expected: str) -> None:
    assert markdown(text) == expected


GUARDED = f"""{HEAD}\
  bend: {{cast: {{cpu: [{{torch: '>=2.10,<3.0', as: fp32, note: Why?}}, stock]}}, public: [torch.bend]}}
  fold: {{cast: {{cpu: banned}}, public: [torch.fold], message: 'A "b".'}}
"""
GUARDED_LINES = """\
#include <ATen/ops/bend_ops.h>
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 2010 && TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 3000
  add_rules(rules, "cpu", {"bend", "default", Category::fp32, kernel<ops::bend>, "Why\\077"});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR < 2010
  add_rules(rules, "cpu", {"bend", "default", Category::stock, nullptr});
#endif
#if TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR >= 3000
  add_rules(rules, "cpu", {"bend", "default", Category::stock, nullptr});
#endif
"""
BANNED_LINE = (
    '  add_rules(rules, "cpu", {"fold", "default", Category::banned, kernel<ops::fold>, "", "A \\042b\\042."});'
)


def test_a_rule_of_some_releases_is_guarded(tmp_path: Path) -> None:
    texts = render(read(tmp_path, GUARDED)).values()
    (lines,) = [text.splitlines() for text in texts if "bend_ops" in text]
    found = [line for line in lines if re.match("#if|#endif|#include <ATen|  add_rules", line) and "fold" not in line]
    assert found == GUARDED_LINES.splitlines()
    assert any(BANNED_LINE in text.splitlines() for text in texts)


def test_a_hostile_text_stays_in_its_literal_of_cpp() -> None:
    literal = cpp_string(HOSTILE)
    inside = literal[1:-1]
    assert literal == f'"{inside}"' and inside.isascii() and inside.isprintable()
    assert not re.search(r'["?]|\\(?![0-3][0-7]{2})', inside)  # no end, no trigraph, no other escape
    octal = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), inside)
    assert octal.encode("latin-1").decode() == HOSTILE


@pytest.mark.parametrize(
    ("overloads", "condition"),
    [
        ("[default, dim: {torch: '<2.13'}]", None),
        ("[default: {torch: '>=2.9,<2.12'}, dim: {torch: '>=2.8,<2.13'}]", ">= 2008 < 2013"),
    ],
)
def test_a_header_is_guarded_where_some_release_has_no_overload(
    tmp_path: Path, overloads: str, condition: str | None
) -> None:
    files = render(read(tmp_path, edited("[default, dim]", overloads)))
    (lines,) = [text.splitlines() for text in files.values() if "tally_ops" in text]
    guard = lines[lines.index("#include <ATen/ops/tally_ops.h>") - 1]
    found = " ".join(re.findall(r"(?:>=|<) \d+", guard)) if guard.startswith("#if ") else None
    assert found == condition


def test_the_cases_are_the_rules(tmp_path: Path) -> None:
    files = render(read(tmp_path, edited("[default, dim]", "[default, dim: {torch: '<2.13'}]")))
    keys = ("op", "overload", "devices", "category", "torch", "reaches")
    lines = files["policy_cases.jsonl"].splitlines()[1:]
    cases = [tuple(case.pop(key) for key in keys) for case in map(json.loads, lines)]
    assert cases == [
        ("bend", "default", "cuda cpu", "fp32", "", "bend"),
        ("fold", "default", "cuda", "promote", "", "fold"),
        ("size", "default", "cuda", "stock", "", "size"),
        ("tally", "default", "cpu", "fp32", "", "tally"),
        ("tally", "dim", "cpu", "fp32", "<2.13", "tally.dim"),
    ]


# A device and how many lines it may add next to the op reference: one in the table, one for each op that
# `others: unlisted` keeps from it, and at most two for each exception; a rule also changes its test case.
ADDED = {
    "like: cuda": 10,
    "like: npu, except: {lower_precision_fp: [cosh], fp32: [addcdiv, pow.Scalar], unlisted: [cat, mm]}": 20,
}


@pytest.mark.parametrize(("device", "most"), ADDED.items())
def test_an_added_device_adds_few_lines(tmp_path: Path, device: str, most: int) -> None:
    schemas, path = Schemas.installed(), tmp_path / "policy.yaml"
    added = f"added: {{dispatch_key: AutocastPrivateUse1, lower_precision: [float16], backend: file, {device}}}"
    text = (ROOT / "policy.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("\n# What each category", f"  {added}\n\n# What each category"), encoding="utf-8")
    before, after = (render(read_policy(file, file.name, schemas)) for file in (ROOT / "policy.yaml", path))
    lines = [
        line
        for name in after.keys() - {"op_reference.md"}
        for line in unified_diff(before[name].splitlines(), after[name].splitlines(), n=0)
        if line.startswith("+") and not line.startswith("+++")
    ]
    assert 0 < len(lines) <= most, lines


def test_a_device_that_is_like_another_shows_where_it_differs(tmp_path: Path) -> None:
    text = render(read(tmp_path, EXCEPTIONS))["op_reference.md"]
    _, xla, npu, _ = (part.split("\n## ")[0] for part in re.split("\n## (?:xla|npu|cpu)\n", text))
    assert xla.endswith("It has the categories of `cuda` for every op.\n")
    assert "Its list is that of a/file of its repository." in npu
    assert npu.endswith("""\
It has the categories of `xla`, except for these:

| category | ops |
|---|---|
| fp32 | `tally` |
| lower_precision_fp (torch &lt;2.13) | `tally.dim` |
| unlisted | `bend` |
""")
    assert "| op | cuda | cpu | \n" in text


@pytest.mark.parametrize(("switch", "cache"), [(", cache: on", "true"), (", cache: off", "false")])
def test_the_cache_switch_of_a_device_reaches_the_table(tmp_path: Path, switch: str, cache: str) -> None:
    text = edited("AutocastCPU, lower_precision: [bfloat16]", f"AutocastCPU, lower_precision: [bfloat16]{switch}")
    files = render(read(tmp_path, text))
    assert f'{{"cpu", "AutocastCPU", {{"bfloat16"}}, {cache}, "", {{}}}},' in files["autocast/table.cpp"]
    assert ("Its weights are cast at every use." in files["op_reference.md"]) is (cache == "false")


LISTS = """\
documents:
  a.txt:
    title: A guide
    lists:
      - {devices: [cuda, xla], dtypes: [bfloat16], as: promote, names: [fold, {old_fold: fold}, {both: [fold]}]}
"""


def test_the_lists_of_a_document_are_shown_and_a_note_gives_the_title_of_the_document_that_it_names(
    tmp_path: Path,
) -> None:
    note = edited("{cuda: promote}", "{cuda: {as: promote, note: As a.txt says.}}")
    files = render(read(tmp_path, f"{note}{LISTS}"))
    row = "| A guide (a.txt) | cuda, xla | bfloat16 | promote | `fold`, `old_fold` (fold), `both` (fold) |"
    assert row in files["op_reference.md"]
    assert "| `fold` | cuda, xla | promote | As A guide says. |" in files["op_reference.md"]
    assert any('"As A guide says."' in text for name, text in files.items() if name.endswith(".cpp"))
