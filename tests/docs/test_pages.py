"""Every command and snippet of README.md, CONTRIBUTING.md and docs/, run; what builds or takes minutes is looked at."""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import polycast
import pytest
from polycast._grammar.categories import Category
from polycast.command_line.commands import main as polycast_main
from torch import nn

import codegen.__main__ as generator
from codegen.parse import read_policy
from codegen.schemas import Schemas
from tests.support.process import python
from tests.support.snippets import (
    PAGES,
    ROOT,
    Example,
    added_op,
    blocks,
    commands,
    difference,
    examples,
    inline,
    missing,
    page,
    sessions,
)

# As a user types a command, whatever make runs these tests; torch warns where NumPy is not installed.
MAKES = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "TORCH", "PYTHON")
OWN = {name: value for name, value in os.environ.items() if name not in MAKES}
OWN["PYTHONWARNINGS"] = "ignore:Failed to initialize NumPy"


def run(*command: str, folder: Path = ROOT) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=OWN)
    assert done.returncode == 0, done.stdout + done.stderr


def as_it_stands(command: str) -> None:
    """Run a command of polycast that takes seconds, in this process."""
    words = shlex.split(command.removeprefix("python -m "))
    assert words[0] == "polycast" and polycast_main(words[1:]) == 0


def shown(command: str) -> None:
    """Look for a session that shows what the command prints, which another test runs."""
    assert command in [session.source.strip() for name in PAGES for session in sessions(name)]


def made(command: str) -> None:
    """Have make say what it would do."""
    run("make", "--dry-run", *shlex.split(command)[1:])


def there(command: str) -> None:
    """Look for the module of a command that takes minutes."""
    assert find_spec(shlex.split(command)[2])


def explained(command: str) -> None:
    """Have the generator explain itself, and look there for the options."""
    look_for_options(command, lambda: generator.main(["--help"]))


def offered(command: str) -> None:
    """Have a command of polycast explain itself, and look there for the options."""
    words = shlex.split(command)
    look_for_options(command.partition(" -- ")[0], lambda: polycast_main([words[1], "--help"]))


def look_for_options(command: str, explain: Callable[[], object]) -> None:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        explain()
    assert [word for word in shlex.split(command) if word.startswith("--") and word not in text.getvalue()] == []


def installed(command: str) -> None:
    """Have pip install nothing; what it needs is not asked for, and a package of the source tree is prepared."""
    options = ("--no-build-isolation", "--dry-run", "--no-deps", "--quiet", "--no-index")
    run(sys.executable, "-m", *shlex.split(command.removeprefix("uv ")), *options)


def named(command: str) -> None:
    """Look for what pip is to install in the requirements of the environment."""
    wanted = {re.split("[<>=]", word)[0] for word in shlex.split(command)[3:]} - {"torch", "polycast"}
    assert wanted <= {line.partition("==")[0] for line in page("tests/environments/constraints.txt").splitlines()}


CHECKS: dict[str, Callable[[str], None]] = {
    "make demo": made,
    "make dist": made,
    "make test": made,
    "make test-all": made,
    "make test TORCH=2.13.0": made,
    "make test TORCH=installed": made,
    "make gpu": made,
    "make docs": made,
    "make build": made,
    "make lint": made,
    "make format": made,
    "make syntax": made,
    "make sanitize": made,
    "make ecosystem": made,
    "make clean": made,
    "make distclean": made,
    "uv pip install jinja2 pyyaml ninja 'setuptools>=77'": named,
    "uv pip install --no-build-isolation .": installed,
    "pip install .": installed,
    "pip install polycast 'torch==2.9.*'": named,
    "python -m polycast": as_it_stands,
    "python -m polycast conv2d": as_it_stands,
    "python -m polycast LSTM": as_it_stands,
    "python -m polycast diff cuda xpu": as_it_stands,
    "python -m polycast diff torch-2.11 torch-2.12": as_it_stands,
    "python -m codegen --backend npu --standalone AutoCastOps.cpp test_autocast.py autocast.md": explained,
    "python -m polycast trace examples/inference.py": shown,
    "polycast trace train.py": offered,
    "polycast bisect": offered,
    "polycast bisect -- python train.py": offered,
    "polycast bisect --good fp32 --bad built-in -- python train.py --steps 100": offered,
    "polycast check": offered,
    "polycast check mine.yaml": offered,
    "polycast diff built-in torch-2.12": as_it_stands,
    "polycast diff cpu cuda": as_it_stands,
    "polycast diff torch-2.11 torch-2.12": as_it_stands,
    "polycast diff torch-2.9 built-in": as_it_stands,
    "polycast help": as_it_stands,
    "polycast verify": offered,
    "polycast verify --device NAME": offered,
    "polycast verify --device cuda": offered,
    "polycast verify --device cuda --json found.json": offered,
    "python -m benchmarks.cast_cache": there,
    "python -m tests.faults": there,
    "python -m tests.support.backend -m pytest --real-devices mimic": there,
}


def test_every_command_has_a_check_and_every_check_a_command() -> None:
    assert set().union(*map(commands, PAGES)) == CHECKS.keys()


@pytest.mark.parametrize("command", CHECKS)
def test_a_command(command: str) -> None:
    CHECKS[command](command)


def place_of(path: str) -> Path:
    """Return the place of a path that a page names from the root, or from the folder of the package."""
    inside = ROOT / "python" / "polycast" / path
    return inside if inside.exists() else ROOT / path


def test_the_paths_that_are_named_exist() -> None:
    links = [(name, link) for name in PAGES for link in re.findall(r"\]\(([^)]+)\)", page(name))]
    paths = [
        (name, text)
        for name in PAGES
        for text in inline(name)
        if re.fullmatch(r"[\w./]+/[\w.]*|\w+\.(py|yaml|md|txt)", text)
    ]
    # The pages of ops are generated by `make docs`, which checks every link of the site and every place in a page.
    files = [(ROOT / name).parent / link.partition("#")[0] for name, link in links if not link.startswith("http")]
    assert [path for path in files if not path.exists()] == []
    # What make writes need not be there yet, and each folder of tests has an errors.txt.
    later = ("build/", ".venv", "errors.txt")
    assert [place for place in paths if not place[1].startswith(later) and not place_of(place[1]).exists()] == []


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len(page("README.md").splitlines()) <= 110


def test_pages_begin_with_what_their_reader_can_do_after_them() -> None:
    begins = re.compile("# .*\n\nAfter this page")
    named = [name for name in PAGES if name.startswith(("docs/", "CHANGE")) and name != "docs/index.md"]
    assert [name for name in named if not begins.match(page(name))] == []


def test_every_picture_of_the_pages_is_drawn(tmp_path: Path) -> None:
    if missing(["import matplotlib"]):
        pytest.skip("the pictures need matplotlib")
    run(sys.executable, "docs/figures/draw.py", str(tmp_path))
    shown = {Path(link).name for name in PAGES for link in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page(name))}
    assert shown == {path.name for path in tmp_path.iterdir()}


# Runs the blocks of each page one after the other, in a fork, since importing torch takes longer than most pages. It
# prints what the blocks of each page printed, or the error. A warning fails, but one that the block prints as well.
RUN = """
import contextlib, io, json, os, sys, traceback, warnings
import polycast, torch

def run(blocks):
    names, printed = {"__name__": "__main__"}, []
    for block in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as stdout, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            exec(compile(block, "block", "exec"), names)
        printed.append(stdout.getvalue())
        assert all(str(warning.message) in printed[-1] for warning in caught), caught[0].message
    return printed

found = {}
for name, blocks in PAGES.items():
    end, start = os.pipe()
    if os.fork() == 0:
        try:
            result = run(blocks)
        except BaseException:
            result = traceback.format_exc()
        with os.fdopen(start, "w") as file:
            json.dump(result, file)
        os._exit(0)
    os.close(start)
    with os.fdopen(end) as file:
        found[name] = file.read()
    os.wait()
print(json.dumps({name: json.loads(text or '"the process died"') for name, text in found.items()}))
"""
WITH_EXAMPLES = [name for name in PAGES if blocks(name, "python")]


@pytest.fixture(scope="module")
def printed() -> dict[str, list[str] | str]:
    """What the blocks of each page print, or their error; of the pages whose packages are here."""
    sources = {name: [example.source for example in examples(name)] for name in WITH_EXAMPLES}
    found: dict[str, list[str] | str] = json.loads(
        python(f"PAGES = { {name: texts for name, texts in sources.items() if not missing(texts)}!r}\n{RUN}")
    )
    return found


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_page_print_what_it_shows(name: str, printed: dict[str, list[str] | str]) -> None:
    """The later ones use what the first ones define."""
    shown = examples(name)
    lacking = missing(example.source for example in shown)
    if lacking:
        pytest.skip(f"{name} needs {', '.join(lacking)}")
    outputs = printed[name]
    assert isinstance(outputs, list), outputs
    differences = [difference(output, example.output) for output, example in zip(outputs, shown, strict=True)]
    text = "\n".join(filter(None, differences))
    assert not text, text


def test_a_file_of_rules_that_a_page_shows_has_no_problem(tmp_path: Path) -> None:
    for name, text in zip(("ops.yaml", "modules.yaml"), blocks("docs/policies.md", "yaml"), strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert polycast_main(["check", str(tmp_path / "ops.yaml")]) == 0
    children = {"encoder": nn.Sequential(nn.ReLU()), "layers": nn.Sequential(nn.ReLU()), "norm": nn.ReLU()}
    model = nn.Sequential(OrderedDict(children))
    assert [*polycast.assign(model, tmp_path / "modules.yaml")] == ["", "encoder.0", "layers.0", "norm"]


@pytest.mark.parametrize("session", [session for name in PAGES for session in sessions(name)], ids=lambda s: s.source)
def test_a_command_prints_what_its_page_shows(session: Example) -> None:
    """What it prints on stderr is read after stdout."""
    words = shlex.split(session.source)
    assert words[:2] == ["python", "-m"]
    done = subprocess.run([sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True, env=OWN)
    text = difference(done.stdout + done.stderr, session.output)
    assert not text, text


@pytest.fixture
def with_example(tmp_path: Path) -> Path:
    """A copy of the policy with the op that CONTRIBUTING.md adds."""
    path = tmp_path / "policy.yaml"
    path.write_text(added_op(page("policy.yaml")), encoding="utf-8")
    return path


def test_the_op_that_contributing_adds_is_generated_with_its_notes(with_example: Path) -> None:
    before = {op.name for op in read_policy(ROOT / "policy.yaml", "policy.yaml", Schemas.installed()).ops}
    (op,) = [op for op in read_policy(with_example, "p", Schemas.installed()).ops if op.name not in before]
    assert {rule.category for rule in op.rules} == {Category.FP32}
    assert all(rule.note for rule in op.rules)
    assert generator.main(["--policy", str(with_example), "--output", str(with_example.parent / "generated")]) == 0


def test_the_mistake_that_contributing_shows_is_reported_as_it_shows_it(
    with_example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = [block.strip() for block in blocks("CONTRIBUTING.md", "") if block.startswith("policy.yaml:")]
    with_example.write_text(
        with_example.read_text(encoding="utf-8").replace("as: fp32, note: Our", "as: fp23, note: Our")
    )
    output = with_example.parent / "generated"
    assert generator.main(["--policy", str(with_example), "--output", str(output)]) == 1
    reported = capsys.readouterr().err.splitlines()[0].removeprefix(f"{with_example.parent}/")
    assert re.sub(":[0-9]+", ":0", reported) == re.sub(":[0-9]+", ":0", shown)
    assert not output.exists()
