"""The site: the page of an op lists what the policy says, and the site builds without a warning."""

import subprocess
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest
from polycast._grammar.categories import UNLISTED

from docs import op_pages
from tests.support.cases import DEVICES
from tests.support.snippets import ROOT

MISSING = [name for name in ("sphinx", "furo", "myst_parser") if find_spec(name) is None]


def test_the_pages_of_ops_have_a_line_for_each_rule_and_device() -> None:
    ops = op_pages.POLICY.ops
    told = [
        (name, device, line.category, line.torch)
        for op in ops
        for line in op_pages.lines(op)
        for name, device in product(line.names, line.devices)
    ]
    rules = [rule for op in ops for rule in op.rules]
    listed = {(rule.schema_name, rule.device, rule.category.value, str(rule.torch)) for rule in rules}
    assert {line for line in told if line[2] != UNLISTED} == listed
    assert {line[:2] for line in told} == {*product((rule.schema_name for rule in rules), DEVICES)}


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """A reference or an anchor that does not exist is a warning."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(tmp_path / "doctrees")]
    done = subprocess.run([*command, "docs", str(tmp_path / "html")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built = {path.stem for path in (tmp_path / "html" / "ops").glob("*.html")}
    assert built == {"index", *(op.name for op in op_pages.POLICY.ops)}
