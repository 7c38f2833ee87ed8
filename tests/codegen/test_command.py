"""``python -m codegen``: its exit status, its output and the files that it writes."""

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
    """A policy, and the folder that codegen generates from it."""

    policy: Path
    generated: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *options: str) -> tuple[int, str, str]:
        """Run codegen, and return its status, output and error. For a wrong option, the error is one line."""
        try:
            status = command.main(["--policy", str(self.policy), "--output", str(self.generated), *options])
        except SystemExit as end:  # argparse prints the usage before the error.
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


def test_the_command_lists_the_files_that_it_writes(workplace: Workplace) -> None:
    assert workplace.run() == (0, "generated/: up to date\n", "")
    workplace.policy.write_text(edited("{cuda: promote}", "{cuda: fp32}"), encoding="utf-8")
    status, printed, error = workplace.run()
    assert (status, error) == (0, "")
    assert re.fullmatch(r"generated/: autocast/rules_\d\.cpp, op_reference\.md, policy_cases\.jsonl written\n", printed)


def test_the_command_removes_stale_files_and_stops_at_foreign_ones(workplace: Workplace) -> None:
    table = workplace.generated / "autocast" / "table.cpp"
    table.with_name("rules_99.cpp").write_bytes(table.read_bytes())
    assert workplace.run() == (0, "generated/: autocast/rules_99.cpp removed\n", "")
    notes = workplace.generated / "notes.txt"
    notes.write_text("mine\n", encoding="utf-8")
    before = workplace.content()
    refusal = "this is not a generated file; remove it, or name another file or folder; nothing was written."
    assert workplace.run() == workplace.run("--check") == (1, "", f"error: {notes}: {refusal}\n")
    assert workplace.content() == before


def test_a_check_of_a_stale_folder_prints_the_diff_and_the_command_to_run(workplace: Workplace) -> None:
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
        f"{place}:17: error: device: expected a known name, got 'cudo'; did you mean 'cuda'?\n"
        f"{place}:23: error: category: expected a known name, got 'premote'; did you mean 'promote'?\n"
        "2 problems; nothing was written.\n",
    )
    assert workplace.content() == before


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "error: {}: No space left on device; nothing was written.\n"),
        (PermissionError(13, "Permission denied", "x/y"), "error: x/y: Permission denied; nothing was written.\n"),
    ],
    ids=repr,
)
def test_an_error_is_one_line(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, error: BaseException, message: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(command, "write", fail)
    assert workplace.run() == (1, "", message.format(workplace.generated))


BACKENDS = """\
  mine: {dispatch_key: AutocastPrivateUse1, lower_precision: [bfloat16], like: cpu, backend: b}
  privateuse1: {dispatch_key: AutocastPrivateUse1, lower_precision: [float16]}
"""


@pytest.fixture
def backend(workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """Return a workplace with a backend's device in its policy, and with a file that codegen did not generate."""
    monkeypatch.chdir(tmp_path)
    workplace.policy.write_text(edited("categories:", f"{BACKENDS}categories:"), encoding="utf-8")
    Path("own.cpp").write_text("Mine.\n", encoding="utf-8")
    return workplace


def test_the_file_of_a_backend_is_written_and_compared(backend: Workplace) -> None:
    words = ["--backend", "mine", "--standalone", "ops.cpp"]
    remedy = f"ops.cpp does not match the policy. Run: python -m codegen --policy {backend.policy} {' '.join(words)}\n"
    assert backend.run("--check", *words)[2].endswith(f"\n{remedy}") and not Path("ops.cpp").exists()
    assert backend.run(*words) == (0, "ops.cpp written\n", "")
    assert "\n  KERNEL(c10::DeviceType::PrivateUse1, bend, fp32)\n" in Path("ops.cpp").read_text(encoding="utf-8")
    assert backend.run(*words) == (0, "up to date\n", "") and backend.run("--check", *words) == (0, "", "")
    changed = BACKENDS.replace("b}", "b, except: {unlisted: [bend]}}")
    backend.policy.write_text(edited("categories:", f"{changed}categories:"))
    status, printed, error = backend.run("--check", *words)
    assert (status, printed) == (1, "") and "\n-  KERNEL(c10::DeviceType::PrivateUse1, bend, fp32)\n" in error


# Each command of a backend maintainer has a mistake.
MISTAKES = {
    "no file": "--backend mine",
    "an unknown device": "--backend mime --standalone ops.cpp",
    "a device of PyTorch": "--backend cuda --standalone ops.cpp",
    "the device of all backends": "--backend privateuse1 --standalone ops.cpp",
    "no such folder": "--backend mine --standalone no/ops.cpp",
    "a file that is not generated": "--backend mine --standalone own.cpp",
    "a check of a file that is not generated": "--check --backend mine --standalone own.cpp",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_a_backend_maintainer_is_reported_and_nothing_is_written(
    backend: Workplace, name: str, recorded_error: RecordedError
) -> None:
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    with recorded_error():
        status, printed, error = backend.run(*MISTAKES[name].split())
        assert (status, printed) == (1, "")
        raise ValueError(error.replace(str(Path.cwd()), "FOLDER"))
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


def test_the_generated_files_of_this_repository_are_current_and_need_no_torch(tmp_path: Path) -> None:
    """``codegen --check`` succeeds in any folder, for any order of Python's sets, and without importing torch."""
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


def test_the_schemas_match_the_installed_torch() -> None:
    schemas = Schemas.installed()
    assert ".".join(map(str, schemas.release)) == ".".join(version("torch").split(".")[:2])
    assert len(schemas.ops) > 1000
    assert schemas.overloads("no_such_op") == []
    with pytest.raises(KeyError, match="no_such_op"):
        schemas.find("no_such_op", "default")
