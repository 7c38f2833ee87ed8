"""The lists of documents: what they may say, and that a policy that breaks one is refused."""

from pathlib import Path

import pytest

from codegen.model import Category
from codegen.render import render
from tests.codegen.sample import POLICY, problems, read


def _policy(item: str) -> str:
    return POLICY.replace("categories:\n", f"documents:\n  a.txt:\n    - {item}\ncategories:\n")


LIST = "{devices: [cuda, xla], dtypes: [bfloat16], as: promote, names: [fold, {old_fold: fold}, {both: [fold]}]}"

# An edit of the list above, and the problems, all on its line.
BAD = {
    "a device without the category": (
        "[cuda, xla]",
        "[cpu]",
        ["65: error: 'fold' is documented as promote on cpu, and the cast of 'fold' is unlisted there"],
    ),
    "another category": (
        "as: promote",
        "as: fp32",
        ["68: error: 'fold' is documented as fp32 on cuda, and the cast of 'fold' is promote there"],
    ),
    "an unknown device": ("[cuda, xla]", "[cuda, xl]", ["24: error: unknown device 'xl'; did you mean 'xla'?"]),
    "a dtype that no device lists": (
        "[bfloat16]",
        "[float8]",
        ["39: error: unknown dtype 'float8'; did you mean 'float16'?"],
    ),
    "an unknown category": (
        "as: promote",
        "as: promot",
        ["54: error: unknown category 'promot'; did you mean 'promote'?"],
    ),
    "an unknown op": ("[fold, ", "[fild, ", ["71: error: the policy has no op 'fild'; did you mean 'fold'?"]),
    "an unknown op behind a name": ("old_fold: fold", "old_fold: fild", ["error: the policy has no op 'fild'"]),
    "a name that is a list": ("{both: [fold]}", "[both]", ["error: a documented name is no name"]),
    "a missing key": ("as: promote, ", "", ["7: error: a list of document 'a.txt' has no 'as'; add it"]),
}


def test_lists_are_read_in_order_and_shown_in_the_op_reference(tmp_path: Path) -> None:
    policy = read(tmp_path, _policy(LIST))
    (found,) = policy.documents
    assert (found.document, found.devices, found.dtypes) == ("a.txt", ("cuda", "xla"), ("bfloat16",))
    assert found.category is Category.PROMOTE
    assert found.names == (("fold", ("fold",)), ("old_fold", ("fold",)), ("both", ("fold",)))
    assert (
        "| a.txt | cuda, xla | bfloat16 | promote | `fold`, `old_fold` (fold), `both` (fold) |"
        in (render(policy)["op_reference.md"])
    )


@pytest.mark.parametrize("case", BAD)
def test_a_list_that_does_not_hold_is_a_problem(tmp_path: Path, case: str) -> None:
    old, new, wanted = BAD[case]
    assert LIST.count(old) == 1
    found = problems(tmp_path, _policy(LIST.replace(old, new))).splitlines()
    assert found, "no problem was found"
    for text in wanted:
        assert any(line.startswith("policy.yaml:7:") and text in line for line in found), found
