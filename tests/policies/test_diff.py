"""`python -m polycast diff`: what two policies, releases or devices do differently."""

from pathlib import Path

import pytest
from polycast.command_line.commands import main

from tests.support.cases import RELEASE

REASON = "On the float32 list since torch 2.12 (pytorch#174824), as a bfloat16 activation"


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["diff", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_two_releases(capsys: pytest.CaptureFixture[str]) -> None:
    head, row, empty, footnote, *reason = shown(capsys, "torch-2.11", "torch-2.12")
    assert head.split() == ["op", "device", "torch-2.11", "torch-2.12", "why"]
    assert row == "rms_norm  cuda, xpu, mtia, maia  unlisted    fp32        [1]"
    assert (empty, footnote) == (
        "",
        "unlisted: autocast leaves it alone; the ops that it runs follow their own rules.",
    )
    assert " ".join(reason).startswith("[1] " + REASON)


def test_over_several_releases(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "torch-2.9", "torch-2.15", "--device", "cpu")
    rows = {line.split()[0]: line for line in lines[: lines.index("")]}
    *cells, why = rows["qr"].split()[1:]
    assert cells == ["cpu", "fp32", "absent"]
    assert any(line.startswith(f"{why} Gone since torch 2.14") for line in lines)
    assert rows["linalg_matrix_sqrth"].split()[1:4] == ["cpu", "absent", "fp32"]
    assert "absent: that torch has no such op or overload." in lines
    changed = {"cholesky", "index_copy.dimname", "linalg_matrix_sqrth", "prod.dim_Dimname", "qr"}
    assert {*rows} == {"op", *changed}  # and nothing that the cpu lists in neither, as softmax.Dimname


def test_a_device_that_one_side_has_no_record_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "torch-2.9", "torch-2.10") == [
        "torch-2.9 and torch-2.10 do the same.",
        "Not compared, as one has no record of it: xla.",
    ]


def test_the_base_has_the_ops_of_the_torch_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {
        line.split()[0]: line.split()[1:] for line in shown(capsys, "built-in", "torch-2.15", "--device", "cpu") if line
    }
    changed = {"linalg_matrix_sqrth": ["cpu", "absent", "fp32"], "qr": ["cpu", "fp32", "absent"]}
    assert {op: rows[op][:3] for op in changed if op in rows} == (changed if RELEASE < (2, 14) else {})


def test_two_devices(capsys: pytest.CaptureFixture[str]) -> None:
    head, *rows = shown(capsys, "cuda", "xpu")
    assert head.split() == ["op", "cuda", "xpu", "why"]
    cells = {row.split()[0]: row for row in rows if row}
    assert cells["binary_cross_entropy"].split()[1:3] == ["banned", "fp32"]
    assert any(row.startswith("[1] Intel: auto mixed precision on GPU, torch.xpu.amp") for row in rows)
    assert "mm" not in cells


def test_a_file_over_the_base_beside_the_base_and_a_release(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("ops: {relu: {cpu: {as: fp32, note: Mine.}}, linear: lower_precision_fp}\n")
    head, row, *_ = shown(capsys, "built-in", "mine.yaml")
    assert head.split() == ["op", "device", "built-in", "mine.yaml", "why"]
    assert " ".join(row.split()) == "relu cpu, tpu unlisted fp32 [1]"
    rows = {line.split()[0]: line.split()[1:4] for line in shown(capsys, "torch-2.9", "mine.yaml") if line}
    assert rows["relu"][0] == "cpu" and rows["conv1d.padding"][0] == "cuda,"
