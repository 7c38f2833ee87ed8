"""The parser: nodes and schemas to a valid policy. An entry with a problem is reported and left out."""

from dataclasses import replace
from pathlib import Path

from codegen.documents import read_documents, read_ops
from codegen.grammar.casts import Cast, CastReader
from codegen.grammar.categories import UNLISTED, Category
from codegen.grammar.errors import PolicyError, Problem, did_you_mean
from codegen.grammar.files import load
from codegen.grammar.nodes import Mapping, Node, Sequence, Text
from codegen.grammar.versions import ALL, subtract
from codegen.model import Device, Op, Overload, Policy, Registration
from codegen.schema_checks import check_overload, check_registration
from codegen.schemas import Schemas

DTYPES = ("float16", "bfloat16")
SWITCH = ("on", "off")


def read_policy(path: Path, name: str, schemas: Schemas) -> Policy:
    """Read the policy at `path`, which problems call `name`; raise PolicyError with every problem of the file."""
    problems: list[Problem] = []
    root = load(path, name, problems)
    policy = _PolicyParser(schemas, problems).policy(root) if root is not None else None
    if problems or policy is None:
        raise PolicyError(problems)
    return policy


class _PolicyParser(CastReader):
    def __init__(self, schemas: Schemas, problems: list[Problem]) -> None:
        super().__init__(problems, like={}, categories=(category.value for category in Category))
        self.schemas = schemas
        self.exceptions: dict[str, dict[str, Cast]] = {}  # of each device, by an op or an overload

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

    def read_devices(self, node: Node) -> list[Device]:
        entries = list(self.entries(node, "devices"))
        devices = [self.read_device(key, value, [other.value for other, _ in entries]) for key, value in entries]
        chains = {device.name: device.like for device in devices if device is not None}
        for key, _ in entries:
            seen = [key.value]
            while (like := chains.get(seen[-1])) is not None and like not in seen:
                seen.append(like)
            if like == key.value:
                self.report(
                    key.location, f"'like' goes in a circle: {' -> '.join([*seen, like])}", "break it somewhere"
                )
        # Every device of the file, with or without a problem.
        self.like = {key.value: chains.get(key.value) for key, _ in entries}
        return [device for device in devices if device is not None]

    def read_device(self, key: Text, node: Node, names: list[str]) -> Device | None:
        what = f"device '{key.value}'"
        required = ("dispatch_key", "lower_precision")
        fields = self.fields(node, what, (*required, "like", "except", "backend", "cache"), required)
        if fields is None:
            return None
        name = self.identifier(key, "device")
        dispatch_key = self.text(fields["dispatch_key"], "dispatch_key")
        if dispatch_key is not None and not (dispatch_key.startswith("Autocast") and dispatch_key.isalnum()):
            self.report(
                fields["dispatch_key"].location,
                f"dispatch_key '{dispatch_key}' is no autocast key",
                "name one of torch's, as in AutocastCUDA",
            )
            dispatch_key = None
        elif dispatch_key is not None and self.schemas.autocast_keys:
            dispatch_key = self.name(fields["dispatch_key"], "dispatch_key", self.schemas.autocast_keys)
        device = (dispatch_key or "").removeprefix("Autocast").lower()
        backend = self.text(fields["backend"], "backend") if "backend" in fields else None
        if name and device and name != device and not name.startswith(f"{device}_") and backend is None:
            what = f"dispatch_key {dispatch_key} is not that of device '{name}'"
            remedy = f"call it '{device}', '{device}_...' where the device has a column, or name its 'backend'"
            self.report(key.location, what, remedy)
            name = None
        dtypes = [
            dtype.value
            for dtype in self.texts(fields["lower_precision"], "lower_precision")
            if self.name(dtype, "dtype", DTYPES)
        ]
        like = self.name(fields["like"], "device", names) if "like" in fields else None
        if "except" in fields:
            self.exceptions[key.value] = self.read_exceptions(key, fields["except"], like)
        cache = self.name(fields["cache"], "cache switch", SWITCH) if "cache" in fields else SWITCH[0]
        if not (name and dispatch_key and dtypes and cache):
            return None
        return Device(name, dispatch_key, tuple(dtypes), like, cache == SWITCH[0], backend)

    def read_exceptions(self, device: Text, node: Node, like: str | None) -> dict[str, Cast]:
        """Return what a device does to the ops and overloads in which it departs from the one that it is like."""
        found: dict[str, Cast] = {}
        if like is None:
            what = f"device '{device.value}' has exceptions and is like no other"
            self.report(node.location, what, "name it under 'like', or in the ops")
        for key, names in self.entries(node, f"except of device '{device.value}'"):
            category = self.category(key)
            for text in self.texts(names, f"{key.value} of device '{device.value}'"):
                if text.value in found:
                    what = f"device '{device.value}' excepts '{text.value}' twice"
                    self.report(text.location, what, "keep one of them")
                elif category is not None:
                    overload = text.value.partition(".")[2]
                    value = None if category == UNLISTED else category
                    found[text.value] = Cast(value, text, overloads=(overload,) if overload else None)
        return found

    def check_exceptions(self, ops: dict[str, Op]) -> None:
        """Report an exception of a device for what the policy does not list."""
        known = {name: {row.overload.name for row in op.registrations} for name, op in ops.items()}
        for device, exceptions in self.exceptions.items():
            for name, cast in exceptions.items():
                op, _, overload = name.partition(".")
                what = f"device '{device}' excepts '{name}', which the policy does not list"
                if op not in known:
                    self.report(cast.node.location, what, did_you_mean(op, known))
                elif overload and overload not in known[op]:
                    self.report(cast.node.location, what, did_you_mean(overload, known[op]))

    def with_exceptions(self, key: Text, node: Node, casts: dict[str, list[Cast]]) -> dict[str, list[Cast]]:
        """Return the casts of an op with the exceptions of devices before them: overloads first, then the whole op."""
        named = {name.value for name, _ in node.items} if isinstance(node, Mapping) else set()
        for device, exceptions in self.exceptions.items():
            mine = [(name, cast) for name, cast in exceptions.items() if name.partition(".")[0] == key.value]
            for name, cast in mine if device in named else ():
                what = f"device '{device}' excepts '{name}', and the op names the device"
                self.report(cast.node.location, what, "take it out here or there")
            first = [cast for _, cast in sorted(mine, key=lambda item: item[1].overloads is None)]
            casts[device] = [*first, *casts.get(device, [])]
        return {device: casts[device] for device in self.like if casts.get(device)}

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
