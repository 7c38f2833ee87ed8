"""`python -m codegen`, as whoever types it sees it."""

import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

import codegen.__main__ as command
from codegen.parse import read_policy
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
        status = command.main(["--policy", str(self.policy), "--output", str(self.generated), *options])
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


# A backend and its device, in a file of its own.
MINE = """\
devices:
  mine: {dispatch_key: AutocastPrivateUse1, lower_precision: [bfloat16], like: cpu, backend: b, except: {fp32: [fold]}}
ops:
  turn: {cast: {mine: fp32}, overloads: [by], public: [torch.count]}
"""


@pytest.fixture
def backend(workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A folder with the file of a backend, and with nothing made of it."""
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(MINE, encoding="utf-8")
    return workplace


STANDALONE = ["--backend", "mine.yaml", "--standalone", "ops.cpp", "test_ops.py", "ops.md"]


def test_the_files_of_a_backend_are_written_and_compared(backend: Workplace) -> None:
    assert backend.run(*STANDALONE) == (0, "ops.cpp, test_ops.py, ops.md written\n", "")
    lines = Path("ops.cpp").read_text(encoding="utf-8").splitlines()
    assert {"  KERNEL_PRIVATEUSEONE(fold, fp32)", "  KERNEL_PRIVATEUSEONE(turn, by, fp32)"} <= {*lines}
    assert backend.run(*STANDALONE) == (0, "up to date\n", "")
    assert backend.run("--check", *STANDALONE) == (0, "", "")
    assert backend.run("--check", *STANDALONE, "new.md")[::2] == (
        1,
        f"new.md does not exist\n\nThe files do not match the policy. Run: {remedy(backend)} new.md\n",
    )
    Path("mine.yaml").write_text(MINE.replace("fp32: [fold]", "unlisted: [fold]"), encoding="utf-8")
    status, printed, error = backend.run("--check", *STANDALONE)
    assert (status, printed) == (1, "")
    assert error.startswith("--- ops.cpp\n+++ ops.cpp\n") and "\n-  KERNEL_PRIVATEUSEONE(fold, fp32)\n" in error
    assert error.endswith(f"\nThe files do not match the policy. Run: {remedy(backend)}\n")


def remedy(backend: Workplace) -> str:
    return f"python -m codegen --policy {backend.policy} {' '.join(STANDALONE)}"


# What is typed, and what is printed last.
MISTAKES = {
    "--backend mine.yaml": "python -m codegen: error: give both --backend DEVICE and --standalone FILE",
    "--backend mine --standalone ops.cpp": "python -m codegen: error: the device 'mine' is unknown; check the spelling",
    "--backend cuda --standalone ops.cpp": (
        "python -m codegen: error: the device 'cuda' is no backend outside of torch; check the spelling"
    ),
    "--backend mine.yaml --standalone ops.cpp ops.txt": (
        "python -m codegen: error: --standalone takes files that end in .cpp, .cc, .cxx, .py, .md; 'ops.txt' does not"
    ),
    "--backend no.yaml --standalone ops.cpp": (
        "no.yaml:1:1: error: cannot be read: no such file or directory; name a readable file\n"
        "1 problem; nothing was written."
    ),
    "--backend mine.yaml --standalone ops.cpp no/ops.md": (
        "error: no/ops.md: its folder does not exist; nothing was written."
    ),
    "--backend mine.yaml --standalone ops.cpp own.md": (
        "error: own.md: is not generated; remove it, or name another file; nothing was written."
    ),
    "--check --backend mine.yaml --standalone own.md": (
        "error: own.md: is not generated; remove it, or name another file; nothing was written."
    ),
}


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_of_a_backends_owner_is_said_in_a_line_and_nothing_is_written(backend: Workplace, typed: str) -> None:
    Path("own.md").write_text("Mine.\n", encoding="utf-8")
    try:
        status, printed, error = backend.run(*typed.split())
    except SystemExit as end:
        assert end.code == 2
        status, printed, error = 1, *backend.capture.readouterr()
    assert (status, printed) == (1, "")
    assert error.endswith(f"{MISTAKES[typed]}\n") and "Traceback" not in error
    assert not Path("ops.cpp").exists() and Path("own.md").read_text(encoding="utf-8") == "Mine.\n"


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


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("npuu", "is unknown; did you mean 'npu'?"),
        ("privateuse1", "stands for every backend without rules of its own; use one of mlu, musa, npu, tpu"),
    ],
)
def test_a_name_close_to_a_backends_is_suggested(wrong: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--backend", wrong, "--standalone", "ops.cpp"])
    assert capsys.readouterr().err.endswith(f"error: the device '{wrong}' {problem}\n")


# What the file of a backend cannot say: a place of it, and what stands there instead. The small policy has the rest.
WRONG = {
    "a dtype": ("[bfloat16]", "[fp8]"),
    "a device of the policy": ("mine: {disp", "cpu: {disp"),
    "an op of the policy": ("  turn: {cast: {mine: fp32}, overloads: [by]", "  bend: {cast: {mine: fp32}"),
    "two devices": ("ops:", "  two: {dispatch_key: AutocastPrivateUse1, lower_precision: [float16], backend: b}\nops:"),
    "no backend": (", backend: b", ""),
    "a dispatch key": ("AutocastPrivateUse1", "AutocastCUDA"),
    "like no device": ("cpu", "cpuu"),
    "empty": (MINE, ""),
    "a key": ("ops:", "rules:"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_problem_of_a_backends_file(backend: Workplace, name: str, recorded_error: RecordedError) -> None:
    assert MINE.count(WRONG[name][0]) == 1
    Path("mine.yaml").write_text(MINE.replace(*WRONG[name]), encoding="utf-8")
    with recorded_error():
        read_policy(backend.policy, "policy.yaml", SCHEMAS, Path("mine.yaml"))


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
