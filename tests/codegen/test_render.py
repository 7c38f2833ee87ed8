"""The rendered texts of a policy, for cases that the generated files of this repository do not cover."""

import json
import re
from difflib import unified_diff
from pathlib import Path

import pytest

from codegen.parse import read_policy
from codegen.render import cpp_string, markdown, render
from codegen.schemas import Schemas
from tests.codegen.sample import HEAD, edited, read

ROOT = Path(__file__).parents[2]
# This text has special characters of C++, JSON, Jinja2, YAML and Markdown.
HOSTILE = (
    '"; \\ \\\\ \n1 \n \r\n \t \a */ /* // ??/ ??) R"( %s {{ policy }} {% raw %} {# | \\| ` `` <b> &amp; *a* _a_ ~~a~~ '
    "[a](b) é 中 🙂"
)


def test_a_hostile_note_stays_in_its_table_cell(tmp_path: Path) -> None:
    note = json.dumps(HOSTILE, ensure_ascii=False)
    files = render(read(tmp_path, edited("{cuda: promote}", f"{{cpu: {{as: fp32, note: {note}}}}}")))
    (row,) = [line for line in files["op_reference.md"].splitlines() if line.startswith("| `fold` | cpu |")]
    cells = [cell.strip() for cell in re.findall(r"\|((?:[^\\|]|\\.)*)(?=\|)", row)]
    assert cells == ["`fold`", "cpu", "fp32", markdown(HOSTILE)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\n  two\r\n\tthree ", "one two three"),
        (r"a\|b", r"a\\\|b"),
        ("<b>&amp;</b>", "&lt;b>&amp;amp;&lt;/b>"),
        ("`a` *b* **c** ~~d~~", r"\`a\` \*b\* \*\*c\*\* \~\~d\~\~"),
        ("[a](b) ![c](d)", r"\[a](b) !\[c](d)"),
        ("torch_xla runs_it _here_ in __init__", r"torch_xla runs_it \_here\_ in \_\_init\_\_"),
    ],
)
def test_escaped_markdown_reads_as_the_original_text(text: str, expected: str) -> None:
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


def test_a_rule_for_some_releases_has_a_preprocessor_guard(tmp_path: Path) -> None:
    texts = render(read(tmp_path, GUARDED)).values()
    (lines,) = [text.splitlines() for text in texts if "bend_ops" in text]
    found = [line for line in lines if re.match("#if|#endif|#include <ATen|  add_rules", line) and "fold" not in line]
    assert found == GUARDED_LINES.splitlines()
    assert any(BANNED_LINE in text.splitlines() for text in texts)


def test_a_hostile_text_stays_in_its_cpp_literal() -> None:
    literal = cpp_string(HOSTILE)
    inside = literal[1:-1]
    assert literal == f'"{inside}"' and inside.isascii() and inside.isprintable()
    assert not re.search(r'["?]|\\(?![0-3][0-7]{2})', inside)  # The text contains octal escapes only.
    octal = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), inside)
    assert octal.encode("latin-1").decode() == HOSTILE


@pytest.mark.parametrize(
    ("overloads", "is_guarded"),
    [
        ("[default, dim: {torch: '<2.13'}]", False),
        ("[default: {torch: '>=2.9,<2.12'}, dim: {torch: '>=2.8,<2.13'}]", True),
    ],
)
def test_a_header_is_guarded_if_a_release_lacks_the_overload(tmp_path: Path, overloads: str, is_guarded: bool) -> None:
    files = render(read(tmp_path, edited("[default, dim]", overloads)))
    (lines,) = [text.splitlines() for text in files.values() if "tally_ops" in text]
    before = lines[lines.index("#include <ATen/ops/tally_ops.h>") - 1]
    assert (before == "#if __has_include(<ATen/ops/tally_ops.h>)") == is_guarded


def test_an_added_device_adds_few_lines(tmp_path: Path) -> None:
    """A device with exceptions for five ops adds at most 20 lines to the generated files, except the op reference."""
    schemas, path = Schemas.installed(), tmp_path / "policy.yaml"
    added = "added: {dispatch_key: AutocastPrivateUse1, lower_precision: [float16], backend: file, like: npu, "
    added += "except: {lower_precision_fp: [cosh], fp32: [addcdiv, addcmul], unlisted: [addbmm, mm]}}"
    text = (ROOT / "policy.yaml").read_text(encoding="utf-8")
    place = "\n# A sentence about each category"
    path.write_text(text.replace(place, f"  {added}\n{place}"), encoding="utf-8")
    before, after = (render(read_policy(file, file.name, schemas)) for file in (ROOT / "policy.yaml", path))
    names = after.keys() - {"op_reference.md"}
    lines = [line for name in names for line in unified_diff(before[name].split("\n"), after[name].split("\n"), n=0)]
    assert 0 < sum(line.startswith("+") and not line.startswith("+++") for line in lines) <= 20, lines
