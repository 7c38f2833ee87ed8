"""What is wrong with a policy before its content is looked at."""

import os
from pathlib import Path

import pytest
from polycast._grammar.errors import Problem
from polycast._grammar.files import load
from polycast._grammar.nodes import MAX_DEPTH

from tests.codegen.sample import POLICY, problems

# id: a file that bad_policies.txt cannot hold, and what is said of it.
FILES: dict[str, tuple[str | bytes, str]] = {
    "no text": ("", "1:1: error: the file is empty; give it the key ops at least"),
    "a control character after a line of another kind": (
        "devices: é\u2028ops: é\x07\n",
        "2:7: error: broken YAML: control characters are not allowed; remove the character",
    ),
    "not UTF-8": (b"devices:\n  caf\xe9: {}\n", "2:1: error: not UTF-8 text; save it as UTF-8"),
    "too deep": ("[" * 100_000, f"1:18: error: nested deeper than {MAX_DEPTH} levels; flatten it"),
}


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES.keys())
def test_a_file_that_is_no_policy(tmp_path: Path, text: str | bytes, expected: str) -> None:
    assert problems(tmp_path, text) == f"policy.yaml:{expected}"


def _problems_of(path: Path) -> list[str]:
    found: list[Problem] = []
    assert load(path, "policy.yaml", found) is None
    return list(map(str, found))


@pytest.mark.parametrize(("name", "reason"), [("policy.yaml", "no such file or directory"), ("", "is a directory")])
def test_a_file_that_is_none(tmp_path: Path, name: str, reason: str) -> None:
    text = f"policy.yaml:1:1: error: cannot be read: {reason}; name a readable file"
    assert _problems_of(tmp_path / name) == [text]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)  # the mode of a file does not stop root
    assert problems(tmp_path, POLICY) == (
        "policy.yaml:1:1: error: cannot be read: permission denied; name a readable file"
    )


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "policy.yaml"
    path.touch()
    os.truncate(path, 10 << 20)
    monkeypatch.delattr(Path, "read_text")
    assert _problems_of(path) == ["policy.yaml:1:1: error: larger than 4 MiB; make it smaller"]
