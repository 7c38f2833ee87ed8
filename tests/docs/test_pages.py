"""The commands, paths and snippets of the documentation. Only the arguments of slow commands are checked."""

import contextlib
import fnmatch
import io
import re
import shlex
from collections import OrderedDict
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import polycast
import pytest
import torch
from polycast.cli.commands import main as polycast_main
from torch import nn

import codegen.__main__ as generator
from codegen.categories import Category
from codegen.parse import read_policy
from codegen.schemas import Schemas
from tests.support import snippets
from tests.support.process import printed_by, run_python
from tests.support.snippets import PAGES, ROOT, page

# Without NumPy, PyTorch prints a warning that the pages do not show.
OWN = {"PYTHONWARNINGS": "ignore:Failed to initialize NumPy"}
COMMANDS = sorted(set().union(*map(snippets.commands, PAGES)))
QUICK = {"conv2d", "LSTM", "diff"}  # These polycast commands run, because they are fast.


def explained(explain: Callable[[], object]) -> str:
    """Return the help that a command prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        explain()
    return text.getvalue()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_exists(command: str) -> None:
    """A command on a page runs if it is fast. Otherwise, its options, ``make`` targets, packages or modules exist."""
    words = shlex.split(command.removeprefix("uv ").removeprefix("python -m ").partition(" -- ")[0])
    options = [word for word in words if word.startswith("--")]
    if words[0] == "make":
        targets = {*re.findall(r"^([a-z-]+):", page("Makefile"), re.MULTILINE)}
        assert {word for word in words[1:] if "=" not in word} <= targets
    elif words[0] == "pip":
        packages = {re.split("[<>=]", word)[0] for word in words[2:] if word not in options}
        known = {line.partition("==")[0] for line in page("tests/environments/constraints.txt").splitlines()}
        assert packages <= known | {"torch", "polycast", "."}
    elif words[0] == "polycast" and (len(words) == 1 or words[1] in QUICK):
        assert polycast_main(words[1:]) == 0
    elif words[0] == "polycast":
        told = explained(lambda: polycast_main([words[1], "--help"]))
        assert told and [option for option in options if option not in told] == []
    elif words[0] == "codegen":
        told = explained(lambda: generator.main(["--help"]))
        assert [option for option in options if option not in told] == []
    else:
        assert find_spec(words[0])


def test_the_paths_in_the_pages_exist() -> None:
    links = [(name, link) for name in PAGES for link in re.findall(r"\]\(([^)]+)\)", page(name))]
    paths = [
        (name, text)
        for name in PAGES
        for text in snippets.inline(name)
        if re.fullmatch(r"[\w./]+/[\w.]*|\w+\.(py|yaml|md|txt)", text)
    ]
    # This test checks only the files, because `make docs` checks all links and anchors of the site.
    files = [(ROOT / name).parent / link.partition("#")[0] for name, link in links if not link.startswith("http")]
    assert [path for path in files if not path.exists()] == []
    # These paths need not exist: `make` writes some of them, and several folders have an `errors.txt`.
    later = ("build/", ".venv", "errors.txt")
    tops = (ROOT, ROOT / "python" / "polycast")  # A path is relative to the root or to the package's folder.
    own = [(name, path) for name, path in paths if not path.startswith(later)]
    assert [(name, path) for name, path in own if not any((top / path).exists() for top in tops)] == []


def test_the_readme_can_be_read_in_two_minutes() -> None:
    assert len(page("README.md").splitlines()) <= 120


@pytest.mark.slow
def test_every_figure_of_the_pages_is_drawn(tmp_path: Path) -> None:
    if snippets.missing(["import matplotlib"]):
        pytest.skip("the figures need matplotlib")
    drawn = run_python("docs/figures/draw.py", tmp_path, cwd=ROOT, **OWN)
    assert drawn.returncode == 0, drawn.stderr
    shown = {Path(link).name for name in PAGES for link in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page(name))}
    assert shown == {path.name for path in tmp_path.iterdir()}


SESSIONS = [session for name in PAGES for session in snippets.sessions(name)]
WITH_EXAMPLES = [name for name in PAGES if snippets.blocks(name, "python")]


@pytest.fixture(scope="module")
def printed() -> dict[str, list[str] | str]:
    """Return the outputs or the error of each page's code blocks, for pages whose packages are installed."""
    sources = {name: [example.source for example in snippets.examples(name)] for name in WITH_EXAMPLES}
    return printed_by({name: texts for name, texts in sources.items() if not snippets.missing(texts)})


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_page_print_the_output_on_the_page(name: str, printed: dict[str, list[str] | str]) -> None:
    """The code blocks of a page, run in order with shared variables, print the output that the page shows."""
    shown = snippets.examples(name)
    lacking = snippets.missing(example.source for example in shown)
    if lacking:
        pytest.skip(f"{name} needs {', '.join(lacking)}")
    outputs = printed[name]
    assert isinstance(outputs, list), outputs
    differences = [snippets.difference(output, example.output) for output, example in zip(outputs, shown, strict=True)]
    text = "\n".join(filter(None, differences))
    assert not text, text


def test_a_policy_file_in_a_page_has_no_problems(tmp_path: Path) -> None:
    for name, text in zip(("ops.yaml", "modules.yaml"), snippets.blocks("docs/rules.md", "yaml"), strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert polycast_main(["check", str(tmp_path / "ops.yaml")]) == 0
    children = {"encoder": nn.Sequential(nn.ReLU()), "layers": nn.Sequential(nn.ReLU()), "norm": nn.ReLU()}
    model = nn.Sequential(OrderedDict(children))
    polycast.assign(model, tmp_path / "modules.yaml")
    assert [*polycast.assigned(model)] == ["", "encoder.0", "layers.0", "norm"]


def test_the_ops_with_different_rules_match_the_table() -> None:
    """``docs/importing.md`` lists each op whose rule differs from PyTorch's, and for PyTorch 2.9 no other op."""
    release = torch.__version__.rpartition(".")[0]
    text = page("docs/importing.md").partition("## Ops whose results differ")[2]
    names = {name for cell in re.findall(r"(?m)^\| (`.*?) \|", text) for name in re.findall("`(.*?)`", cell)}
    rows = polycast.Policy(f"torch-{release}").diff().partition("\n\n")[0].splitlines()[1:]
    ops = {row.split()[0] for row in rows if "absent" not in row}
    assert [op for op in ops if not any(fnmatch.fnmatch(op, name) for name in names)] == []
    assert release != "2.9" or [name for name in names if not fnmatch.filter(ops, name)] == []


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.source)
def test_a_command_prints_the_output_on_its_page(session: snippets.Example) -> None:
    """A command prints the output that its page shows, with stdout before stderr."""
    words = shlex.split(session.source)
    assert words[:2] == ["python", "-m"]
    done = run_python(*words[1:], cwd=ROOT, **OWN)
    text = snippets.difference(done.stdout + done.stderr, session.output)
    assert not text, text


@pytest.fixture
def with_example(tmp_path: Path) -> Path:
    """Return the path of a copy of ``policy.yaml`` with the op that ``CONTRIBUTING.md`` adds."""
    path = tmp_path / "policy.yaml"
    path.write_text(snippets.added_op(page("policy.yaml")), encoding="utf-8")
    return path


def test_the_example_op_of_contributing_is_generated_with_its_notes(with_example: Path) -> None:
    before = {op.name for op in read_policy(ROOT / "policy.yaml", "policy.yaml", Schemas.installed()).ops}
    (op,) = [op for op in read_policy(with_example, "p", Schemas.installed()).ops if op.name not in before]
    assert {rule.category for rule in op.rules} == {Category.FP32}
    assert all(rule.note for rule in op.rules)
    assert generator.main(["--policy", str(with_example), "--output", str(with_example.parent / "generated")]) == 0


def test_the_example_mistake_of_contributing_is_reported_as_shown(
    with_example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = [block.strip() for block in snippets.blocks("CONTRIBUTING.md", "") if block.startswith("policy.yaml:")]
    with_example.write_text(
        with_example.read_text(encoding="utf-8").replace("as: fp32, note: Our", "as: fp23, note: Our")
    )
    output = with_example.parent / "generated"
    assert generator.main(["--policy", str(with_example), "--output", str(output)]) == 1
    reported = capsys.readouterr().err.splitlines()[0].removeprefix(f"{with_example.parent}/")
    assert re.sub(":[0-9]+", ":0", reported) == re.sub(":[0-9]+", ":0", shown)
    assert not output.exists()
