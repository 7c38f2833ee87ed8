"""The parser: nodes and schemas to a valid policy. An entry with a problem is reported and left out."""

from dataclasses import replace
from pathlib import Path

from codegen.devices import DeviceReader
from codegen.documents import read_documents, read_ops
from codegen.grammar.casts import Cast
from codegen.grammar.categories import Category
from codegen.grammar.errors import PolicyError, Problem
from codegen.grammar.files import load
from codegen.grammar.nodes import Mapping, Node, Sequence, Text
from codegen.grammar.versions import ALL, subtract
from codegen.model import Op, Overload, Policy, Registration
from codegen.schema_checks import check_overload, check_registration
from codegen.schemas import Schemas


def read_policy(path: Path, name: str, schemas: Schemas) -> Policy:
    """Read the policy at `path`, which problems call `name`; raise PolicyError with every problem of the file."""
    problems: list[Problem] = []
    root = load(path, name, problems)
    policy = _PolicyParser(schemas, problems).policy(root) if root is not None else None
    if problems or policy is None:
        raise PolicyError(problems)
    return policy


class _PolicyParser(DeviceReader):
    def policy(self, root: Node) -> Policy | None:
        required = ("devices", "categories", "ops")
        fields = self.fields(root, "the policy", (*required, "documents", "composites"), required)
        if fields is None:
            return None
        devices = self.read_devices(fields["devices"])
        sentences = self.read_categories(fields["categories"])
        ops = self.read_ops(fields["ops"]) if self.like else []
        policy = Policy(tuple(devices), sentences, tuple(ops))
        if self.problems:  # of ops that are left out, all that names them would be a problem
            return policy
        by_name = {op.name: op for op in ops}
        self.check_exceptions(by_name)
        if "documents" in fields:
            lists = read_documents(self, fields["documents"], {device.name: device for device in devices}, by_name)
            policy = replace(policy, documents=tuple(lists))
        if "composites" in fields:
            entries = self.entries(fields["composites"], "composites")
            parts = [
                (name.value, read_ops(self, self.texts(node, f"'{name.value}'"), by_name)) for name, node in entries
            ]
            policy = replace(policy, composites=tuple(parts))
        return policy

    def read_categories(self, node: Node) -> dict[Category, str]:
        known = tuple(category.value for category in Category)
        fields = self.fields(node, "categories", known, known) or {}
        texts = {name: self.text(value, f"category '{name}'") for name, value in fields.items()}
        return {Category(name): " ".join(text.split()) for name, text in texts.items() if text is not None}

    def read_ops(self, node: Node) -> list[Op]:
        ops: list[Op] = []
        previous = ""
        for key, value in self.entries(node, "ops"):
            if key.value < previous:
                self.report(
                    key.location, f"op '{key.value}' stands after '{previous}'", "keep the ops in alphabetical order"
                )
            previous = max(previous, key.value)
            op = self.read_op(key, value)
            if op is not None:
                ops.append(op)
        return ops

    def read_op(self, key: Text, node: Node) -> Op | None:
        what, sound = f"op '{key.value}'", len(self.problems)
        parts = key.value.replace("::", ".").split(".")
        known = [part for part in parts if self.schemas.overloads(part)]
        if len(parts) > 1 and known:
            rest = "" if known[0] == parts[-1] else ", and its overload under 'overloads'"
            self.report(key.location, f"{what} is more than the op's name", f"write '{known[0]}'{rest}")
            return None
        fields = self.fields(node, what, ("cast", "overloads", "public", "message"), ("cast", "public"))
        if fields is None:
            return None
        message = self.text(fields["message"], f"the message of {what}") if "message" in fields else None
        overloads = self.read_overloads(key, fields.get("overloads"))
        casts = self.read_casts(key, fields["cast"], [place.value for place, _ in overloads])
        casts = self.with_exceptions(key, fields["cast"], casts)
        rows = []
        for place, overload in overloads:
            if overload is None or not check_overload(self, self.schemas, key.value, overload, place):
                continue
            for device, alternatives in casts.items():
                rows += self.rows(key, overload, device, alternatives, message)
        public = tuple(name.value for name in self.dotted(fields["public"], f"public of {what}"))
        if len(self.problems) > sound:
            return None
        if not rows:
            self.report(key.location, f"{what} has no category on any device", "give it one, or remove it")
        elif message is not None and all(row.category is not Category.BANNED for row in rows):
            self.report(fields["message"].location, f"{what} has a message and is banned nowhere", "remove the message")
        return Op(key.value, public, tuple(rows)) if rows and public else None

    def rows(
        self, key: Text, overload: Overload, device: str, alternatives: list[Cast], message: str | None
    ) -> list[Registration]:
        """Return the rows of one overload on one device: the first alternative that holds for a release wins."""
        rows = []
        alternatives = [cast for cast in alternatives if cast.overloads is None or overload.name in cast.overloads]
        for index, cast in enumerate(alternatives):
            if cast.category is None:
                continue
            category = Category(cast.category)
            for torch in subtract(cast.torch & overload.torch, (earlier.torch for earlier in alternatives[:index])):
                row = Registration(key.value, overload, device, category, torch, cast.note or overload.note)
                if category is Category.BANNED:
                    row = replace(row, message=message)
                if not torch.empty and check_registration(self, self.schemas, row, cast.node.location):
                    rows.append(row)
        return rows

    def read_overloads(self, key: Text, node: Node | None) -> list[tuple[Text, Overload | None]]:
        if node is None:
            return [(replace(key, value="default"), Overload())]
        if not isinstance(node, Sequence) or not node.items:
            self.report(node.location, f"overloads of op '{key.value}' is no list", "write it as [default, other]")
            return []
        overloads: list[tuple[Text, Overload | None]] = []
        details: Node | None
        for item in node.items:
            if isinstance(item, Text):
                name, details = item, None
            elif isinstance(item, Mapping) and len(item.items) == 1:
                name, details = item.items[0]
            else:
                self.report(item.location, "an overload is no name", "write it as name or {name: {...}}")
                continue
            overload = self.read_overload(name, details)
            if name.value in [other.value for other, _ in overloads]:
                self.report(name.location, f"overload '{name.value}' stands twice", "keep one of them")
            else:
                overloads.append((name, overload))
        return overloads

    def read_overload(self, name: Text, node: Node | None) -> Overload | None:
        if node is None:
            return Overload(name.value)
        fields = self.fields(node, f"overload '{name.value}'", ("torch", "dtype_overload", "note"), ())
        if fields is None:
            return None
        torch = self.read_range(fields["torch"]) if "torch" in fields else ALL
        target = fields.get("dtype_overload")
        dtype_overload = self.identifier(target, "dtype_overload") if target else None
        note = self.text(fields["note"], "note") if "note" in fields else None
        if torch is None or (target and not dtype_overload):
            return None
        return Overload(name.value, torch, dtype_overload, note)
