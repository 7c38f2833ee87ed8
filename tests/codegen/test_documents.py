"""The lists of documents: what they may say. bad_policies.txt has what they may not."""

from pathlib import Path

from polycast._grammar.categories import Category

from codegen.render import render
from tests.codegen.sample import POLICY, read


def _policy(item: str) -> str:
    document = f"documents:\n  a.txt:\n    title: A guide\n    lists:\n      - {item}\n"
    return POLICY.replace("categories:\n", f"{document}categories:\n")


LIST = "{devices: [cuda, xla], dtypes: [bfloat16], as: promote, names: [fold, {old_fold: fold}, {both: [fold]}]}"


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


def test_a_note_gives_the_title_of_the_document_that_it_names(tmp_path: Path) -> None:
    text = _policy(LIST).replace("{cuda: promote}", "{cuda: {as: promote, note: As a.txt says.}}")
    files = render(read(tmp_path, text))
    assert "| `fold` | cuda, xla | promote | As A guide says. |" in files["op_reference.md"]
    assert any('"As A guide says."' in text for text in files.values())


def test_composites_are_names_with_ops(tmp_path: Path) -> None:
    text = POLICY + "composites:\n  torch.count: [fold, bend]\n"
    assert read(tmp_path, text).composites == (("torch.count", ("fold", "bend")),)
