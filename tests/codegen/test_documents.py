"""The lists of documents: what they may say, and that a policy that breaks one is refused."""

from pathlib import Path

import pytest

from codegen.render import render
from polycast_grammar.categories import Category
from tests.codegen.sample import POLICY, problems, read


def _policy(item: str) -> str:
    document = f"documents:\n  a.txt:\n    title: A guide\n    lists:\n      - {item}\n"
    return POLICY.replace("categories:\n", f"{document}categories:\n")


LIST = "{devices: [cuda, xla], dtypes: [bfloat16], as: promote, names: [fold, {old_fold: fold}, {both: [fold]}]}"

# An edit of the list above, and the problems, all on its line.
BAD = {
    "a device without the category": (
        "[cuda, xla]",
        "[cpu]",
        ["67: error: 'fold' is documented as promote on cpu, and the cast of 'fold' is unlisted there"],
    ),
    "another category": (
        "as: promote",
        "as: fp32",
        ["70: error: 'fold' is documented as fp32 on cuda, and the cast of 'fold' is promote there"],
    ),
    "an unknown device": ("[cuda, xla]", "[cuda, xl]", ["26: error: unknown device 'xl'; did you mean 'xla'?"]),
    "a dtype that no device lists": (
        "[bfloat16]",
        "[float8]",
        ["41: error: unknown dtype 'float8'; did you mean 'float16'?"],
    ),
    "an unknown category": (
        "as: promote",
        "as: promot",
        ["56: error: unknown category 'promot'; did you mean 'promote'?"],
    ),
    "an unknown op": ("[fold, ", "[fild, ", ["73: error: the policy has no op 'fild'; did you mean 'fold'?"]),
    "an unknown op behind a name": ("old_fold: fold", "old_fold: fild", ["error: the policy has no op 'fild'"]),
    "a name that is a list": ("{both: [fold]}", "[both]", ["error: a documented name is no name"]),
    "a missing key": ("as: promote, ", "", ["9: error: a list of document 'a.txt' has no 'as'; add it"]),
}


def test_lists_are_read_in_order_and_shown_in_the_op_reference(tmp_path: Path) -> None:
    policy = read(tmp_path, _policy(LIST))
    (found,) = policy.documents
    assert (str(found.document), found.devices, found.dtypes) == ("A guide (a.txt)", ("cuda", "xla"), ("bfloat16",))
    assert found.category is Category.PROMOTE
    assert found.names == (("fold", ("fold",)), ("old_fold", ("fold",)), ("both", ("fold",)))
    assert (
        "| A guide (a.txt) | cuda, xla | bfloat16 | promote | `fold`, `old_fold` (fold), `both` (fold) |"
        in (render(policy)["op_reference.md"])
    )


@pytest.mark.parametrize("case", BAD)
def test_a_list_that_does_not_hold_is_a_problem(tmp_path: Path, case: str) -> None:
    old, new, wanted = BAD[case]
    assert LIST.count(old) == 1
    found = problems(tmp_path, _policy(LIST.replace(old, new))).splitlines()
    assert found, "no problem was found"
    for text in wanted:
        assert any(line.startswith("policy.yaml:9:") and text in line for line in found), found


def test_a_note_gives_the_title_of_the_document_that_it_names(tmp_path: Path) -> None:
    text = _policy(LIST).replace("{cuda: promote}", "{cuda: {as: promote, note: As a.txt says.}}")
    files = render(read(tmp_path, text))
    assert "| `fold` | cuda, xla | promote | As A guide (a.txt) says. |" in files["op_reference.md"]
    assert any('"As A guide (a.txt) says."' in text for text in files.values())


def test_composites_are_names_with_ops(tmp_path: Path) -> None:
    text = POLICY + "composites:\n  torch.count: [fold, bend]\n"
    assert read(tmp_path, text).composites == (("torch.count", ("fold", "bend")),)
    assert problems(tmp_path, text.replace("bend]\n", "bent]\n")) == (
        "policy.yaml:20:23: error: the policy has no op 'bent'; did you mean 'bend'?"
    )
