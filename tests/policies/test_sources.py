"""What stands for a policy: a dict, a file, a release, a category, a dtype."""

from pathlib import Path

import pytest
import torch
from polycast import Policy

MINE = Policy({"softmax": "fp32"})


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "mine.yaml": "ops: {softmax: fp32}",
        "flat.yaml": "softmax: fp32",
        "mine": "softmax: fp32",
    }.items():
        Path(name).write_text(text)


@pytest.mark.parametrize(
    "value",
    [
        MINE,
        {"softmax": "fp32"},
        {"ops": {"softmax": "fp32"}},
        {"torch.softmax": torch.float32},
        "mine.yaml",
        "./mine.yaml",
        "flat.yaml",
        "mine",
        Path("mine.yaml"),
        Path("mine"),
    ],
    ids=str,
)
def test_each_is_the_policy(value: object) -> None:
    assert Policy(value) == MINE  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, {}])
def test_nothing_is_a_policy_without_rules(value: dict[str, str] | None) -> None:
    assert Policy(value) == Policy() and not Policy(value)


@pytest.mark.parametrize("value", ["bfloat16", "bf16", "torch.bfloat16", torch.bfloat16])
def test_a_dtype_is_for_every_op(value: str | torch.dtype) -> None:
    assert {rule.category for rule in Policy(value).by_overload()} == {"bfloat16"} and Policy(value) == Policy(
        "bfloat16"
    )


def test_a_category_is_for_every_op() -> None:
    assert {rule.category for rule in Policy("input_dtype").by_overload()} == {"input_dtype"}
    assert Policy("fp32") == Policy(torch.float32)


# what is no policy, and the error
WRONG: list[tuple[object, str]] = [
    ("fp23", "unknown category, release or file 'fp23'; did you mean 'fp32'?"),
    ("bf61", "unknown category, release or file 'bf61'; did you mean 'bf16'?"),
    ("torch2.1l", "unknown release 'torch2.1l'; did you mean 'torch-2.15', "),
    ("2.1", "unknown release '2.1'; use one of torch-2.10, torch-2.11, "),
    ("no.yaml", "no.yaml:1:1: error: cannot be read: no such file or directory; name a readable file"),
    (Path("no"), "no:1:1: error: cannot be read: no such file or directory; name a readable file"),
    ("softmax", "unknown category, release or file 'softmax'; give a category such as fp32, a release such as "),
    ("stock", "'stock' is for policy.yaml alone, since no rule brings torch's own kernel back; leave it out"),
    ("{softmax: fp32}", "unknown category, release or file '{softmax: fp32}'; give a category such as fp32, "),
    (torch.int8, "unknown category 'torch.int8'; use one of banned, "),
    ([("softmax", "fp32")], "the policy is [('softmax', 'fp32')]; give a dict of rules, as in {'softmax': 'fp32'}, "),
    (3, "the policy is 3; give a dict of rules"),
]


@pytest.mark.parametrize(("value", "text"), WRONG, ids=str)
def test_what_is_no_policy_is_shown_with_what_could_be(value: object, text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        Policy(value)  # type: ignore[arg-type]
    assert text in str(caught.value)
