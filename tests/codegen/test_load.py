"""What is wrong with a policy before its content is looked at."""

import os
from pathlib import Path

import pytest

from polycast_grammar.errors import Problem
from polycast_grammar.files import load
from polycast_grammar.nodes import MAX_DEPTH
from tests.codegen.sample import HEAD, POLICY, edited, problems

_KEYS = "give it a mapping with the keys devices, categories, ops, documents, composites"

# id: the file, and what is said of it. The words after 'broken YAML' are those of the parser.
FILES: dict[str, tuple[str | bytes, str]] = {
    "no text": ("", "1:1: error: the file is empty; give it the key ops at least"),
    "only a comment": (
        "# nothing yet\n",
        "2:1: error: the file is empty; give it the key ops at least",
    ),
    "an empty document": ("---\n", f"2:1: error: the policy is empty; {_KEYS}"),
    "a list": ("- devices\n", f"1:1: error: the policy is a list; {_KEYS}"),
    "a text": ("devices\n", f"1:1: error: the policy is the text 'devices'; {_KEYS}"),
    "a tab": (
        "devices:\n\tcuda: {}\n",
        "2:1: error: broken YAML: found character that cannot start any token; mend the syntax here",
    ),
    "two colons": (
        "devices: cuda: cpu\n",
        "1:14: error: broken YAML: mapping values are not allowed in this context; mend the syntax here",
    ),
    "a control character": (
        "devices: é\nops: éé \x07\n",
        "2:9: error: broken YAML: control characters are not allowed; remove the character",
    ),
    "a control character after a line of another kind": (
        "devices: é\u2028ops: é\x07\n",
        "2:7: error: broken YAML: control characters are not allowed; remove the character",
    ),
    "half a character": (
        r'ops: "\ud800"',
        "1:9: error: broken YAML: found invalid Unicode character escape code; mend the syntax here",
    ),
    "not UTF-8": (b"devices:\n  caf\xe9: {}\n", "2:1: error: not UTF-8 text; save it as UTF-8"),
    "UTF-16": ("devices:\n".encode("utf-16"), "1:1: error: not UTF-8 text; save it as UTF-8"),
    "an anchor": ("ops: &all [bend]\n", "1:6: error: an anchor, &all; remove it"),
    "an alias": ("ops: *all\n", "1:6: error: an alias, *all; write the value out"),
    "a merge": ("ops: {<<: *all}\n", "1:11: error: an alias, *all; write the value out"),
    "a tag": ("ops: !secret bend\n", "1:6: error: a tag, !secret; remove it; every value is text"),
    "a Python object": (
        "ops: !!python/object/apply:os.system [exit]\n",
        "1:6: error: a tag, tag:yaml.org,2002:python/object/apply:os.system; remove it; every value is text",
    ),
    "a second document": (
        f"{POLICY}---\nops: {{}}\n",
        "19:1: error: a second YAML document; remove it, and the '---' before it",
    ),
    "too deep": ("[" * 100_000, f"1:18: error: nested deeper than {MAX_DEPTH} levels; flatten it"),
    "a key that is a list": (
        f"{HEAD}  ? [bend]\n  : {{cast: fp32, public: [torch.bend]}}\n  fold: {{cast: fp32, public: [torch.fold]}}\n",
        "15:5: error: a key that is not text; use a plain word as key",
    ),
    "a key of the policy twice": (
        edited("categories:\n", "devices:\ncategories:\n"),
        "5:1: error: duplicate key 'devices', first on line 1; keep one of them",
    ),
    "an op twice": (
        edited("  size: {", "  fold: {cast: fp32, public: [torch.fold]}\n  size: {"),
        "17:3: error: duplicate key 'fold', first on line 16; keep one of them",
    ),
    "a device twice in a cast": (
        edited("{cuda: promote}", "{cuda: promote, cpu: fp32, cuda: fp32}"),
        "16:43: error: duplicate key 'cuda', first on line 16; keep one of them",
    ),
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
