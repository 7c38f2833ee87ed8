"""`python -m polycast`: what it prints, and how it fails."""

import os
import subprocess
import sys

import polycast
import pytest
import torch
from polycast.__main__ import main
from polycast._compiled import DEVICES, ROWS


def table(lines: list[str]) -> dict[str, list[str]]:
    """Return the cells of each line of a table by the first one."""
    return {first: rest for first, *rest in (line.replace(", ", ",").split() for line in lines)}


def test_without_an_op_it_shows_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    versions, empty, _, *rows = capsys.readouterr().out.splitlines()
    assert versions.startswith(f"polycast {polycast.__version__}, torch {torch.__version__}")
    assert empty == ""
    assert [*table(rows)] == [*DEVICES]
    for name, (key, dtypes, count, *kernels) in table(rows).items():
        assert key == DEVICES[name].dispatch_key
        assert [f"torch.{dtype}" for dtype in dtypes.split(",")] == [*map(str, DEVICES[name].lower_precision)]
        assert int(count) == sum(row.device == name for row in ROWS)
        assert (kernels == ["installed"]) == (name in polycast.installed())


@pytest.mark.parametrize(
    ("op", "lines"), [("conv2d", ["conv2d", "conv2d.padding"]), ("pow.Tensor_Scalar", ["pow.Tensor_Scalar"])]
)
def test_with_an_op_it_shows_its_row(op: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([op]) == 0
    rows, _, rest = capsys.readouterr().out.partition("\n\n")
    shown = table(rows.splitlines())
    assert shown.pop("op") == [*DEVICES]
    assert [*shown] == lines
    for name, cells in shown.items():
        assert cells == [polycast.policy.category(name, device).replace("unlisted", "-") for device in DEVICES]
    assert rest.splitlines()[0] == "-: not listed, runs in the type of its inputs."
    notes = {row.note for row in polycast.policy.op_rows(op) if row.note}
    assert len(rest.splitlines()) == 1 + len(notes)
    for note in notes:
        assert note in rest


@pytest.mark.parametrize(
    ("op", "suggested"), [("conv2", "; did you mean 'conv2d'?"), ("conv2dd", "; did you mean 'conv2d'?"), ("", "")]
)
def test_a_mistyped_op_is_one_line_and_exit_status_1(op: str, suggested: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "polycast", op],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        check=False,
    )
    wanted = f"error: no device of the policy lists the op '{op}'{suggested}\n"
    assert (run.returncode, run.stdout, run.stderr) == (1, "", wanted)


def test_an_interrupt_prints_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> tuple[str, ...]:
        raise KeyboardInterrupt

    monkeypatch.setattr(polycast, "installed", interrupt)
    assert main([]) == 130
    assert capsys.readouterr() == ("", "")
