"""Every command and snippet of README.md and CONTRIBUTING.md, run; what builds or takes minutes is looked at."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import pytest
import torch
from polycast._grammar.categories import Category

import codegen.__main__ as generator
from codegen.parse import read_policy
from codegen.schemas import Schemas
from testing.process import python
from testing.snippets import (
    PAGES,
    ROOT,
    Example,
    added_op,
    blocks,
    commands,
    difference,
    examples,
    inline,
    page,
    sessions,
)


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def as_it_stands(command: str) -> None:
    """Run `python -m` of something that takes seconds."""
    run(sys.executable, *shlex.split(command)[1:])


def made(command: str) -> None:
    """Have make say what it would do."""
    run("make", "--dry-run", *shlex.split(command)[1:])


def explained(command: str) -> None:
    """Have a command that measures for minutes explain itself."""
    run(sys.executable, *shlex.split(command)[1:], "--help")


def installed(command: str) -> None:
    """Have pip install nothing; what it needs is not asked for, and a package of the source tree is prepared."""
    options = ("--no-build-isolation", "--dry-run", "--no-deps", "--quiet", "--no-index")
    run(sys.executable, "-m", *shlex.split(command.removeprefix("uv ")), *options)


def indexed(command: str) -> None:
    """Have pip choose from an index of newer wheels for this torch and for another one; it leaves torch as it is."""
    release = ".".join(torch.__version__.split(".")[:2])
    with TemporaryDirectory() as folder:
        for needed in (release, "99.0"):
            wheel = f"polycast-99.0+torch{needed}"
            with ZipFile(f"{folder}/{wheel}-py3-none-any.whl", "w") as file:
                head = f"Metadata-Version: 2.1\nName: polycast\nVersion: 99.0+torch{needed}\n"
                file.writestr(f"{wheel}.dist-info/METADATA", f"{head}Requires-Dist: torch=={needed}.*\n")
                file.writestr(f"{wheel}.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        words = shlex.split(command.replace("2.9", release).replace("polycast", "'polycast>=99'"))
        options = ("--dry-run", "--quiet", "--no-index", "--find-links", folder, "--report", "-")
        done = subprocess.run([sys.executable, "-m", *words, *options], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found = [item["metadata"]["version"] for item in json.loads(done.stdout)["install"]]
        assert found == [f"99.0+torch{release}"]


def named(command: str) -> None:
    """Look for what pip is to install in the requirements of the environment."""
    wanted = {re.split("[<>=]", word)[0] for word in shlex.split(command)[3:]} - {"torch"}
    assert wanted <= {line.partition("==")[0] for line in page("requirements/common.txt").splitlines()}


CHECKS: dict[str, Callable[[str], None]] = {
    "make demo": made,
    "make test": made,
    "make test TORCH=2.13.0": made,
    "make build": made,
    "make lint": made,
    "make format": made,
    "make syntax": made,
    "make sanitize": made,
    "make ecosystem": made,
    'make ecosystem CELLS="lightning skip"': made,
    "make clean": made,
    "make distclean": made,
    "uv pip install jinja2 pyyaml ninja 'setuptools>=77'": named,
    "uv pip install --no-build-isolation .": installed,
    "pip install .": installed,
    "pip install polycast 'torch==2.9.*'": indexed,
    "python -m polycast": as_it_stands,
    "python -m polycast conv2d": as_it_stands,
    "python -m polycast LSTM": as_it_stands,
    "python -m polycast diff cuda xpu": as_it_stands,
    "python -m polycast diff torch-2.11 torch-2.12": as_it_stands,
    "python -m codegen --check": as_it_stands,
    "python -m polycast trace examples/inference.py": as_it_stands,
    "python -m tools.newcomer": explained,
    "python -m tools.installs .venv/bin/python .venv-2.13.0/bin/python": explained,
    "python -m tools.history check 2.12.1": explained,
    "python -m tools.history record 2.16.0": explained,
    "python -m benchmarks.cast_cache": explained,
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


@pytest.mark.parametrize("name", PAGES)
def test_a_path_that_is_named_exists(name: str) -> None:
    links = re.findall(r"\]\(([^)]+)\)", page(name))
    paths = [text for text in inline(name) if re.fullmatch(r"[\w./]+/[\w.]*|\w+\.(py|yaml|md|txt)", text)]
    headings = [f"#{title.lower().replace(' ', '-')}" for title in re.findall(r"(?m)^#+ ([\w ]+)$", page(name))]
    assert [link for link in links if link not in headings and not (ROOT / link).exists()] == []
    assert [path for path in paths if not place_of(path).exists()] == []


def test_the_names_in_a_walk_are_defined_in_their_files() -> None:
    """The walks of CONTRIBUTING.md write them as `path` (`name`, `name`)."""
    walked = re.findall(r"`([\w/]+\.\w+)`\s\(((?:`\w+`(?:, )?)+)\)", page("CONTRIBUTING.md"))
    named = [(path, name) for path, names in walked for name in re.findall(r"\w+", names)]
    assert len(named) > 10
    defined = r"(\bdef |\bclass |\bstruct |^[\w:&<> ]+[ :]){}\b"
    missing = [
        (path, name)
        for path, name in named
        if not re.search(defined.format(name), place_of(path).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []


# Runs blocks one after the other and prints what each printed. A warning fails, but one that the block prints as well.
RUN = """
import contextlib, io, json, sys, warnings
names, printed = {"__name__": "__main__"}, []
for block in BLOCKS:
    with contextlib.redirect_stdout(io.StringIO()) as stdout, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(block, "block", "exec"), names)
    printed.append(stdout.getvalue())
    assert all(str(warning.message) in printed[-1] for warning in caught), caught[0].message
print(json.dumps(printed))
"""


@pytest.mark.parametrize("name", [name for name in PAGES if blocks(name, "python")])
def test_the_examples_of_a_page_print_what_it_shows(name: str) -> None:
    """The later ones use what the first ones define."""
    shown = examples(name)
    printed = json.loads(python(f"BLOCKS = {[example.source for example in shown]!r}\n{RUN}"))
    differences = [difference(output, example.output) for output, example in zip(printed, shown, strict=True)]
    text = "\n".join(filter(None, differences))
    assert not text, text


@pytest.mark.parametrize("session", [session for name in PAGES for session in sessions(name)], ids=lambda s: s.source)
def test_a_command_prints_what_its_page_shows(session: Example) -> None:
    """What it prints on stderr is read after stdout."""
    words = shlex.split(session.source)
    assert words[:2] == ["python", "-m"]
    done = subprocess.run([sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True)
    text = difference(done.stdout + done.stderr, session.output)
    assert not text, text


@pytest.mark.parametrize(
    ("output", "agrees"),
    [
        ("2 casts, 0.012 s", True),
        ("2  casts,\n0.02 s\n", True),
        ("3 casts, 0.012 s", False),
        ("2 casts, 0.2 s", False),
        ("2 copies, 0.012 s", False),
        ("2 casts, 0.012 s, and more", False),
    ],
)
def test_an_output_is_compared_with_what_is_shown(output: str, agrees: bool) -> None:
    assert (difference(output, "2 casts, 0.01 s") == "") is agrees
    assert difference(f"begin {output} end", "begin ... end") == ""


def test_an_environment_that_is_not_there_is_answered_with_those_that_are() -> None:
    # As a user types it, whatever make runs these tests.
    own = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(["make", "test", "TORCH=2.10.0"], cwd=ROOT, capture_output=True, text=True, env=own)
    assert done.returncode == 2 and done.stdout == ""
    assert "There is no requirements/torch-2.10.0.txt; TORCH is one of 2.13.0 2.15.0 2.9.0." in done.stderr


@pytest.fixture
def with_example(tmp_path: Path) -> Path:
    """A copy of the policy with the op that the README adds."""
    path = tmp_path / "policy.yaml"
    path.write_text(added_op(page("policy.yaml")), encoding="utf-8")
    return path


def test_the_op_that_the_readme_adds_is_generated_with_its_notes(with_example: Path) -> None:
    """That its build passes the tests: `python -m tools.newcomer`."""
    before = {op.name for op in read_policy(ROOT / "policy.yaml", "policy.yaml", Schemas.installed()).ops}
    (op,) = [op for op in read_policy(with_example, "p", Schemas.installed()).ops if op.name not in before]
    assert {rule.category for rule in op.rules} == {Category.FP32}
    assert all(rule.note for rule in op.rules)
    assert generator.main(["--policy", str(with_example), "--output", str(with_example.parent / "generated")]) == 0


def test_the_mistake_that_the_readme_shows_is_reported_as_it_shows_it(
    with_example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = [block.strip() for block in blocks("README.md", "") if block.startswith("policy.yaml:")]
    with_example.write_text(
        with_example.read_text(encoding="utf-8").replace("as: fp32, note: Our", "as: fp23, note: Our")
    )
    output = with_example.parent / "generated"
    assert generator.main(["--policy", str(with_example), "--output", str(output)]) == 1
    reported = capsys.readouterr().err.splitlines()[0].removeprefix(f"{with_example.parent}/")
    assert re.sub(":[0-9]+", ":0", reported) == re.sub(":[0-9]+", ":0", shown)
    assert not output.exists()
