"""The reader of `documents`: the op lists to which the rules of the policy must conform."""

from collections.abc import Collection

from .categories import Category
from .fields import Reader, form
from .model import Device, Document, DocumentList, Op
from .yaml_nodes import Node, Sequence, Text, did_you_mean

# Documents call all of these categories `fp32`.
_FP32 = (Category.FP32, Category.FP32_SET_OPT_DTYPE, Category.FP32_APPEND_DTYPE)


def read_documents(reader: Reader, node: Node, devices: dict[str, Device], ops: dict[str, Op]) -> list[DocumentList]:
    """Return the lists of all documents, in the order of the file."""
    lists: list[DocumentList] = []
    for key, value in reader.entries(node, "documents"):
        fields = reader.fields(value, f"document '{key.value}'", ("title", "lists"), ("title", "lists"))
        if fields is None:
            continue
        title = reader.text(fields["title"], f"the title of document '{key.value}'")
        if not isinstance(fields["lists"], Sequence):
            what = f"lists of document '{key.value}': expected a list, got {form(fields['lists'])}"
            reader.report(fields["lists"], what, "write it as - devices: ...")
        elif title is not None:
            document = Document(key.value, title)
            found = [_read_list(reader, document, item, devices, ops) for item in fields["lists"].value]
            lists += [list_ for list_ in found if list_ is not None]
    return lists


def _read_list(
    reader: Reader, document: Document, node: Node, devices: dict[str, Device], ops: dict[str, Op]
) -> DocumentList | None:
    keys = ("devices", "dtypes", "as", "names")
    fields = reader.fields(node, f"a list of document '{document.name}'", keys, keys)
    if fields is None:
        return None
    on = [text.value for text in reader.texts(fields["devices"], "devices") if reader.name(text, "device", devices)]
    known = {dtype for name in on for dtype in devices[name].lower_precision}
    dtypes = [text.value for text in reader.texts(fields["dtypes"], "dtypes") if reader.name(text, "dtype", known)]
    category = reader.name(fields["as"], "category", [category.value for category in Category])
    if not (on and dtypes and category):
        return None
    names = _read_names(reader, fields["names"], ops)
    for text, decided_by in names:
        for op in decided_by:
            _check(reader, text, ops[op], Category(category), on)
    pairs = tuple((text.value, decided_by) for text, decided_by in names)
    return DocumentList(document, tuple(on), tuple(dtypes), Category(category), pairs)


def _read_names(reader: Reader, node: Node, ops: dict[str, Op]) -> list[tuple[Text, tuple[str, ...]]]:
    """Return the names of a list, each with its ops. An item is the name of an op, {name: op} or {name: [op, op]}."""
    names: list[tuple[Text, tuple[str, ...]]] = []
    for item in node.value if isinstance(node, Sequence) else (node,):
        named = reader.named(item, "names", "write it as op, {name: op} or {name: [op, op]}")
        if named is None:
            continue
        key, value = named[0], named[1] or named[0]
        texts = [value] if isinstance(value, Text) else reader.texts(value, f"the ops of '{key.value}'")
        if known := read_ops(reader, texts, ops):
            names.append((key, known))
    return names


def read_ops(reader: Reader, names: list[Text], ops: Collection[str]) -> tuple[str, ...]:
    """Return the names of the ops. If any op is not in `ops`, report all unknown ops and return ()."""
    unknown = [text for text in names if text.value not in ops]
    for text in unknown:
        reader.report(text, f"op: expected a known name, got '{text.value}'", did_you_mean(text.value, ops))
    return () if unknown else tuple(text.value for text in names)


def _check(reader: Reader, name: Text, op: Op, documented: Category, devices: list[str]) -> None:
    family = _FP32 if documented in _FP32 else (documented,)
    for device in devices:
        found = [category for category, _ in op.categories(device)]
        if not found or any(category not in family for category in found):
            given = " and ".join(category.value for category in found) or "unlisted"
            what = f"'{name.value}' is documented as {documented.value} on {device}"
            what += f", but '{op.name}' is {given} there"
            remedy = f"set the category of '{op.name}' to {documented.value}, or remove the name from this list"
            reader.report(name, what, remedy)
