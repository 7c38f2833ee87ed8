"""``python -m polycast diff``: the differences of two policies or releases."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from polycast.cli.commands import main

from tests.support.cases import RELEASE

Shown = Callable[..., tuple[dict[str, list[str]], str]]


@pytest.fixture
def diff(capsys: pytest.CaptureFixture[str]) -> Shown:
    """Return a function that runs diff, and returns its rows by op and the text below the table."""

    def shown(*words: str) -> tuple[dict[str, list[str]], str]:
        assert main(["diff", *words]) == 0
        table, _, below = capsys.readouterr().out.partition("\n\n")
        cells = [[cell.strip() for cell in re.split(r"  +", line)] for line in table.splitlines()]
        return {op: row for op, *row in cells}, " ".join(below.split())

    return shown


def test_diff_of_two_releases_lists_each_changed_op(diff: Shown) -> None:
    rows, below = diff("torch-2.9", "torch-2.15", "--device", "cpu")
    changed = {"cholesky", "index_copy.dimname", "linalg_matrix_sqrth", "prod.dim_Dimname", "qr"}
    assert {*rows} == {"op", *changed}  # Ops that have a CPU rule in neither release are omitted.
    assert rows["qr"][:-1] == ["cpu", "fp32", "absent"] and rows["linalg_matrix_sqrth"][:3] == ["cpu", "absent", "fp32"]
    assert "absent: this PyTorch release has no such op or overload." in below
    assert f"{rows['qr'][-1]} Gone since torch 2.14" in below


def test_diff_names_a_device_without_a_record(diff: Shown) -> None:
    rows, below = diff("torch-2.9", "torch-2.10")
    same = "torch-2.9 and torch-2.10 have the same categories."
    assert [*rows] == [same, "Not compared, because one side has no record: xla."]
    assert below == ""


def test_diff_of_the_built_in_policy_contains_the_ops_of_the_installed_torch(diff: Shown) -> None:
    rows, _ = diff("built-in", "torch-2.15", "--device", "cpu")
    changed = {"linalg_matrix_sqrth": ["cpu", "absent", "fp32"], "qr": ["cpu", "fp32", "absent"]}
    assert {op: rows[op][:3] for op in changed if op in rows} == (changed if RELEASE < (2, 14) else {})


def test_a_policy_file_is_compared_with_the_built_in_policy(
    diff: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("ops: {relu: {cpu: fp32}, linear: lower_precision_fp}\n")
    rows, _ = diff("built-in", "mine.yaml")
    assert rows["op"] == ["device", "built-in", "mine.yaml"]
    assert rows["relu"] == ["cpu, tpu", "unlisted", "fp32"] and [*rows][1] == "relu"
    rows, _ = diff("torch-2.9", "mine.yaml")
    assert rows["relu"][0] == "cpu" and rows["conv1d.padding"][0].startswith("cuda,")
