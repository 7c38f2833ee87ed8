"""The parser, which turns nodes into a valid policy. It reports and omits each op or device with a problem."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from .casts import Alternative
from .categories import DEFAULT, Category
from .devices import DeviceReader
from .documents import read_documents, read_ops
from .fields import form
from .model import Op, Overload, Policy, Rule
from .schemas import Schemas
from .versions import subtract
from .yaml_nodes import Node, PolicyError, Sequence, Text, did_you_mean, load, renamed


def read_policy(path: Path, name: str, schemas: Schemas) -> Policy:
    """Return the policy of a file.

    Args:
        path: The path of the policy file.
        name: The name of the file in messages.
        schemas: The operator schemas that the rules must fit.

    Raises:
        PolicyError: If the file has problems. The error lists the problems of the first part that has any: the devices
            and categories, the ops, or the other keys.
    """
    parser = _PolicyParser(schemas)
    policy = parser.policy(load(path, name))
    if parser.problems or policy is None:
        raise PolicyError(parser.problems)
    return policy


class _PolicyParser(DeviceReader):
    def policy(self, root: Node) -> Policy | None:
        required = ("devices", "categories", "ops")
        fields = self.fields(root, "the policy", (*required, "documents", "composites"), required)
        if fields is None:
            return None
        devices = self.read_devices(fields["devices"])
        sentences = self.read_categories(fields["categories"])
        # After a problem, each use of an omitted device or op would be reported as well.
        by_name = {} if self.problems else {op.name: op for op in self.read_ops(fields["ops"])}
        if self.problems:
            return None
        policy = Policy(tuple(devices), sentences, tuple(by_name.values()))
        self.check_exceptions(policy)
        if "documents" in fields:
            lists = read_documents(self, fields["documents"], {device.name: device for device in devices}, by_name)
            policy = replace(policy, documents=tuple(lists))
        if "composites" in fields:
            entries = list(self.entries(fields["composites"], "composites"))
            self.check_public([name for name, _ in entries])
            texts = {name.value: self.texts(node, f"'{name.value}'") for name, node in entries}
            ops = [*by_name, *self.schemas.ops]  # a rule at run time may be for an op that the policy does not list
            parts = tuple((name, read_ops(self, names, ops)) for name, names in texts.items())
            policy = replace(policy, composites=parts)
        return policy

    def read_categories(self, node: Node) -> dict[Category, str]:
        known = tuple(category.value for category in Category)
        fields = self.fields(node, "categories", known, known) or {}
        texts = {name: self.text(value, f"category '{name}'") for name, value in fields.items()}
        return {Category(name): " ".join(text.split()) for name, text in texts.items() if text is not None}

    def read_ops(self, node: Node) -> list[Op]:
        """Return the valid ops, and report each op that is not in alphabetical order."""
        entries = list(self.entries(node, "ops"))
        for (before, _), (key, _) in pairwise(entries):
            if key.value < before.value:
                what = f"op '{key.value}' is not in alphabetical order"
                self.report(key, what, f"move it before '{before.value}'")
        return [op for op in (self.read_op(key, value) for key, value in entries) if op is not None]

    def read_op(self, key: Text, node: Node) -> Op | None:
        what, sound = f"op '{key.value}'", len(self.problems)
        fields = self.fields(node, what, ("cast", "overloads", "public", "message"), ("cast", "public"))
        if fields is None:
            return None
        message = self.text(fields.get("message"), f"the message of {what}")
        overloads = self.read_overloads(key, fields.get("overloads"))
        casts = self.read_casts(key, fields["cast"], [place.value for place, _ in overloads])
        rules: list[Rule] = []
        for place, overload in overloads:
            if overload is not None and self.check_overload(key.value, overload, place):
                for device, alternatives in casts.items():
                    rules += self.rules(key, overload, device, alternatives, message)
        public = self.texts(fields["public"], f"public of {what}")
        if any(self.schemas.release in rule.torch for rule in rules):
            self.check_public(public)
        if len(self.problems) > sound:
            return None
        if not rules:
            self.report(key, f"{what} has no category on any device", "add one, or remove the op")
        elif message is not None and all(rule.category is not Category.BANNED for rule in rules):
            self.report(fields["message"], f"{what} has a message, but is banned on no device", "remove the message")
        return Op(key.value, tuple(name.value for name in public), tuple(rules)) if rules and public else None

    def check_public(self, names: list[Text]) -> None:
        """Report the names that PyTorch does not have. If PyTorch is not imported, check nothing."""
        for name in names if self.schemas.torch is not None else ():
            place, what = self.schemas.torch, f"the installed PyTorch has no '{name.value}'"
            first, *parts = name.value.split(".")
            if first != "torch":
                self.report(name, what, "begin the name with 'torch.'")
                continue
            for part in parts:
                if not hasattr(place, part):
                    self.report(name, what, did_you_mean(part, dir(place)))
                    break
                place = getattr(place, part)

    def rules(
        self, key: Text, overload: Overload, device: str, alternatives: list[Alternative], message: str | None
    ) -> Iterator[Rule]:
        """Yield the rules of an overload on a device. In each release, the first matching alternative applies."""
        alternatives = [cast for cast in alternatives if cast.overloads is None or overload.name in cast.overloads]
        for index, cast in enumerate(alternatives):
            if cast.category is None:
                continue
            category = Category(cast.category)
            for torch in subtract(cast.torch & overload.torch, (earlier.torch for earlier in alternatives[:index])):
                rule = Rule(key.value, overload, device, category, torch, cast.note or overload.note)
                if category is Category.BANNED:
                    rule = replace(rule, message=message)
                if not torch.empty:
                    self.check_rule(rule, cast.node)
                    yield rule

    def read_overloads(self, key: Text, node: Node | None) -> list[tuple[Text, Overload | None]]:
        if node is None:
            return [(renamed(key, DEFAULT), Overload())]
        if not isinstance(node, Sequence) or not node.value:
            self.report(node, f"overloads of op '{key.value}': expected a list, got {form(node)}", "write [one, two]")
            return []
        overloads: list[tuple[Text, Overload | None]] = []
        for item in node.value:
            named = self.named(item, "overloads", "write it as name or {name: {...}}")
            if named is None:
                continue
            name, overload = named[0], self.read_overload(*named)
            if name.value in [other.value for other, _ in overloads]:
                self.report(name, f"overload '{name.value}' is listed twice", "remove one of them")
            else:
                overloads.append((name, overload))
        return overloads

    def read_overload(self, name: Text, node: Node | None) -> Overload | None:
        keys = ("torch", "dtype_overload", "note")
        fields = {} if node is None else self.fields(node, f"overload '{name.value}'", keys, ())
        if fields is None:
            return None
        torch = self.read_range(fields.get("torch"))
        target = fields.get("dtype_overload")
        dtype_overload = self.identifier(target, "dtype_overload")
        note = self.text(fields.get("note"), "note")
        if torch is None or (target and not dtype_overload):
            return None
        return Overload(name.value, torch, dtype_overload, note)

    def check_overload(self, op: str, overload: Overload, place: Text) -> bool:
        """Return whether an overload is valid. Report an overload that PyTorch lacks or that cannot be cast."""
        if self.schemas.release not in overload.torch:
            names = {"op": op, "overload": overload.name}
            return all(self.identifier(renamed(place, name), what) for what, name in names.items())
        known = self.schemas.overloads(op)
        if not known:
            self.report(place, f"the installed PyTorch has no op '{op}'", did_you_mean(op, self.schemas.ops))
            return False
        if overload.name not in known:
            self.report(place, f"op '{op}' has no overload '{overload.name}'", did_you_mean(overload.name, known))
            return False
        reason = self.schemas.signature(op, overload.name).obstacle(None)
        if reason is not None:
            what, remedy = reason
            self.report(place, f"overload '{overload.name}' of op '{op}' {what}", remedy)
        return reason is None

    def check_rule(self, rule: Rule, place: Node) -> None:
        """Report a category that the overload cannot have, or a rule without the message or note that it requires."""
        if rule.category is Category.BANNED and rule.message is None:
            remedy = "add a 'message' that names the op to call instead"
            self.report(place, f"op '{rule.op}' is banned without a message", remedy)
        elif rule.category is Category.INPUT_DTYPE and rule.note is None:
            self.report(place, f"op '{rule.op}' is input_dtype without a note", "write {as: input_dtype, note: why}")
        elif self.schemas.release in rule.torch:
            signature, target = self.schemas.signature(rule.op, rule.overload.name), rule.overload.dtype_overload
            obstacle = signature.obstacle(rule.category)
            if rule.category is Category.FP32_APPEND_DTYPE:
                longer = self.schemas.signature(rule.op, target) if target in self.schemas.overloads(rule.op) else None
                if longer is None or not longer.ends_with_dtype or longer.arguments[:-1] != signature.arguments:
                    given = "no dtype_overload" if target is None else f"the dtype_overload '{target}'"
                    obstacle = f"has {given}", "set dtype_overload to an overload with the same arguments plus a dtype"
            if obstacle is not None:
                what, remedy = obstacle
                self.report(place, f"'{rule.schema_name}' cannot be {rule.category.value}: it {what}", remedy)
