"""`python -m codegen`, as whoever types it sees it."""

import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

import codegen.__main__ as command
from codegen.schemas import Schemas
from tests.codegen.sample import POLICY, SCHEMAS, edited
from tests.support.recorded_errors import RecordedError

ROOT = Path(__file__).parents[2]


@dataclass
class Workplace:
    """A policy and a folder that was generated from it."""

    policy: Path
    generated: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *options: str) -> tuple[int, str, str]:
        """Return the exit status, what was printed, and what was printed as an error."""
        try:
            status = command.main(["--policy", str(self.policy), "--output", str(self.generated), *options])
        except SystemExit as end:  # of argparse, behind its usage
            assert end.code == 2
            return (1, "", self.capture.readouterr().err.splitlines()[-1])
        return (status, *self.capture.readouterr())

    def content(self) -> dict[Path, tuple[bytes, int]]:
        files = [path for path in self.generated.rglob("*") if path.is_file()]
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Workplace:
    monkeypatch.setattr(Schemas, "installed", lambda _: SCHEMAS)
    place = Workplace(tmp_path / "policy.yaml", tmp_path / "generated", capsys)
    place.policy.write_text(POLICY, encoding="utf-8")
    assert place.run()[0] == 0
    return place


def test_what_it_writes_it_names(workplace: Workplace) -> None:
    assert workplace.run() == (0, "generated/: up to date\n", "")
    workplace.policy.write_text(edited("{cuda: promote}", "{cuda: fp32}"), encoding="utf-8")
    status, printed, error = workplace.run()
    assert (status, error) == (0, "")
    assert re.fullmatch(r"generated/: autocast/rules_\d\.cpp, op_reference\.md, policy_cases\.jsonl written\n", printed)


def test_what_is_no_longer_generated_it_removes_and_what_never_was_stops_it(workplace: Workplace) -> None:
    table = workplace.generated / "autocast" / "table.cpp"
    table.with_name("rules_99.cpp").write_bytes(table.read_bytes())
    assert workplace.run() == (0, "generated/: autocast/rules_99.cpp removed\n", "")
    notes = workplace.generated / "notes.txt"
    notes.write_text("mine\n", encoding="utf-8")
    before = workplace.content()
    refusal = "is not generated, and only generated files may lie in this folder; nothing was written."
    assert workplace.run() == workplace.run("--check") == (1, "", f"error: {notes}: {refusal}\n")
    assert workplace.content() == before


def test_a_check_of_a_stale_folder_prints_the_diff_and_what_to_run(workplace: Workplace) -> None:
    workplace.policy.write_text(edited("Casts to float32.", "Casts to single."), encoding="utf-8")
    before = workplace.content()
    status, printed, error = workplace.run("--check")
    assert (status, printed) == (1, "")
    assert error.startswith("--- generated/autocast/table.cpp\n+++ generated/autocast/table.cpp\n@@ ")
    assert '\n+      {Category::fp32, "fp32", "Casts to single."},\n' in error
    assert error.endswith(f"\ngenerated/ does not match {workplace.policy}. Run: python -m codegen\n")
    assert workplace.content() == before
    workplace.generated = workplace.generated.with_name("other")
    assert workplace.run("--check")[0] == 1
    assert not workplace.generated.exists()


def test_problems_of_the_policy_are_all_printed_and_nothing_is_written(workplace: Workplace) -> None:
    workplace.policy.write_text(edited("{cuda: promote}", "{cudo: premote}"), encoding="utf-8")
    before, place = workplace.content(), f"{workplace.policy}:16"
    assert workplace.run() == (
        1,
        "",
        f"{place}:17: error: unknown device 'cudo'; did you mean 'cuda'?\n"
        f"{place}:23: error: unknown category 'premote'; did you mean 'promote'?\n"
        "2 problems; nothing was written.\n",
    )
    assert workplace.content() == before


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (OSError(28, "No space left on device"), 1, "error: {}: No space left on device; nothing was written.\n"),
        (PermissionError(13, "Permission denied", "x/y"), 1, "error: x/y: Permission denied; nothing was written.\n"),
        (KeyboardInterrupt(), 130, "Interrupted; the files are either all old or all new.\n"),
    ],
    ids=repr,
)
def test_an_error_is_one_line(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, message: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    before = workplace.content()
    monkeypatch.setattr(command, "write", fail)
    assert workplace.run() == (status, "", message.format(workplace.generated))
    assert workplace.content() == before


# A backend and its device, in a file of its own. The policy has one that stands for all backends.
MINE = """\
devices:
  mine: {dispatch_key: AutocastPrivateUse1, lower_precision: [bfloat16], like: cpu, backend: b, except: {fp32: [fold]}}
ops:
  turn: {cast: {mine: fp32}, overloads: [by], public: [torch.count]}
"""
ANY = "  privateuse1: {dispatch_key: AutocastPrivateUse1, lower_precision: [float16]}\n"


@pytest.fixture
def backend(workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A folder with the file of a backend, and with nothing made of it."""
    monkeypatch.chdir(tmp_path)
    workplace.policy.write_text(edited("categories:", f"{ANY}categories:"), encoding="utf-8")
    Path("mine.yaml").write_text(MINE, encoding="utf-8")
    Path("own.md").write_text("Mine.\n", encoding="utf-8")
    return workplace


FILES = "ops.cpp test_ops.py ops.md"
STANDALONE = f"--backend mine.yaml --standalone {FILES}"


def test_the_files_of_a_backend_are_written_and_compared(backend: Workplace) -> None:
    assert backend.run(*STANDALONE.split()) == (0, "ops.cpp, test_ops.py, ops.md written\n", "")
    lines = Path("ops.cpp").read_text(encoding="utf-8").splitlines()
    assert {"  KERNEL_PRIVATEUSEONE(fold, fp32)", "  KERNEL_PRIVATEUSEONE(turn, by, fp32)"} <= {*lines}
    assert backend.run(*STANDALONE.split()) == (0, "up to date\n", "")
    assert backend.run("--check", *STANDALONE.split()) == (0, "", "")
    remedy = f"The files do not match the policy. Run: python -m codegen --policy {backend.policy} {STANDALONE}"
    assert backend.run("--check", *STANDALONE.split(), "new.md") == (
        1,
        "",
        f"new.md does not exist\n\n{remedy} new.md\n",
    )
    Path("mine.yaml").write_text(MINE.replace("fp32: [fold]", "unlisted: [fold]"), encoding="utf-8")
    status, printed, error = backend.run("--check", *STANDALONE.split())
    assert (status, printed) == (1, "")
    assert error.startswith("--- ops.cpp\n+++ ops.cpp\n") and "\n-  KERNEL_PRIVATEUSEONE(fold, fp32)\n" in error
    assert error.endswith(f"\n{remedy}\n")


TWO = "  two: {dispatch_key: AutocastPrivateUse1, lower_precision: [float16], backend: b}\nops:"
# What the owner of a backend types; a place of the file that describes it, and what is there instead.
MISTAKES = {
    "no files": ("--backend mine.yaml", "", ""),
    "an unknown device": ("--backend mine --standalone ops.cpp", "", ""),
    "a device of torch": ("--backend cuda --standalone ops.cpp", "", ""),
    "the device of all backends": ("--backend privateuse1 --standalone ops.cpp", "", ""),
    "an unknown suffix": (f"{STANDALONE} ops.txt", "", ""),
    "no such file": (f"--backend no.yaml --standalone {FILES}", "", ""),
    "no such folder": (f"{STANDALONE} no/ops.md", "", ""),
    "a file of the owner's": (f"{STANDALONE} own.md", "", ""),
    "a check of a file of the owner's": (f"--check {STANDALONE} own.md", "", ""),
    "a dtype": (STANDALONE, "[bfloat16]", "[fp8]"),
    "a device of the policy": (STANDALONE, "mine: {disp", "cpu: {disp"),
    "an op of the policy": (STANDALONE, "turn: {cast: {mine: fp32}, overloads: [by]", "bend: {cast: {mine: fp32}"),
    "two devices": (STANDALONE, "ops:", TWO),
    "no backend": (STANDALONE, ", backend: b", ""),
    "a dispatch key": (STANDALONE, "AutocastPrivateUse1", "AutocastCUDA"),
    "like no device": (STANDALONE, "cpu", "cpuu"),
    "an empty file": (STANDALONE, MINE, ""),
    "a key": (STANDALONE, "ops:", "rules:"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_a_backends_owner_is_said_and_nothing_is_written(
    backend: Workplace, name: str, recorded_error: RecordedError
) -> None:
    words, old, new = MISTAKES[name]
    Path("mine.yaml").write_text(MINE.replace(old, new) if old else MINE, encoding="utf-8")
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    with recorded_error():
        status, printed, error = backend.run(*words.split())
        assert (status, printed) == (1, "")
        raise ValueError(error)
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """The file of a backend that the command's help shows."""
    path = tmp_path / "mine.yaml"
    path.write_text(command.EPILOG.split("\n\n", 1)[1].rpartition("\n\n")[0], encoding="utf-8")
    return path


def test_the_backend_that_help_describes_is_sound_and_its_public_names_are_looked_up(
    described: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command.EPILOG.rpartition("\n\n")[2].split()[3:]
    words = [str(described.with_name(word)) if "." in word else word for word in words]
    assert command.main(words) == 0
    assert {path.name for path in described.parent.iterdir()} == {Path(word).name for word in words if "." in word}
    described.write_text(described.read_text(encoding="utf-8").replace("torch.erf]", "torch.erff]"), encoding="utf-8")
    assert command.main(words) == 1
    problem = "torch has no 'torch.erff'; did you mean 'erf'?\n1 problem; nothing was written.\n"
    assert capsys.readouterr().err.endswith(problem)


def test_the_generated_files_of_this_repository_are_current_and_come_without_torch(tmp_path: Path) -> None:
    """From any folder, whatever the order of Python's sets, and without the seconds that torch takes to import."""
    program = "import runpy, sys; sys.argv = ['codegen', '--check']; sys.modules['torch'] = None; "
    program += "runpy.run_module('codegen', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_schemas_are_those_of_the_installed_torch() -> None:
    schemas = Schemas.installed()
    assert ".".join(map(str, schemas.release)) == ".".join(version("torch").split(".")[:2])
    assert len(schemas.ops) > 1000
    assert schemas.overloads("no_such_op") == []
    with pytest.raises(KeyError, match="no_such_op"):
        schemas.find("no_such_op", "default")
