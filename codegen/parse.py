"""The parser: nodes and schemas to a valid policy. An entry with a problem is reported and left out."""

from dataclasses import dataclass, replace
from pathlib import Path

from codegen.documents import read_documents, read_ops
from codegen.errors import PolicyError, Problem
from codegen.fields import Reader
from codegen.load import Mapping, Node, Sequence, Text, load
from codegen.model import Category, Device, Op, Overload, Policy, Registration
from codegen.schema_checks import check_overload, check_registration
from codegen.schemas import Schemas
from codegen.versions import ALL, VersionRange, parse_range, subtract

DTYPES = ("float16", "bfloat16")
SWITCH = ("on", "off")
UNLISTED = "unlisted"


@dataclass(frozen=True)
class Cast:
    """What `cast` says for one device: a category, where it holds, and why. No category means unlisted."""

    category: Category | None
    node: Node
    torch: VersionRange = ALL
    overloads: tuple[str, ...] | None = None
    note: str | None = None


def read_policy(path: Path, name: str, schemas: Schemas) -> Policy:
    """Read the policy at `path`, which problems call `name`; raise PolicyError with every problem of the file."""
    problems: list[Problem] = []
    root = load(path, name, problems)
    policy = _PolicyParser(schemas, problems).policy(root) if root is not None else None
    if problems or policy is None:
        raise PolicyError(problems)
    return policy


class _PolicyParser(Reader):
    def __init__(self, schemas: Schemas, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.schemas = schemas
        self.like: dict[str, str | None] = {}  # every device of the file, with or without a problem

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
        self.like = {key.value: chains.get(key.value) for key, _ in entries}
        return [device for device in devices if device is not None]

    def read_device(self, key: Text, node: Node, names: list[str]) -> Device | None:
        what = f"device '{key.value}'"
        fields = self.fields(
            node, what, ("dispatch_key", "lower_precision", "like", "cache"), ("dispatch_key", "lower_precision")
        )
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
        if name and device and name != device and not name.startswith(f"{device}_"):
            what = f"dispatch_key {dispatch_key} is not that of device '{name}'"
            self.report(key.location, what, f"call it '{device}', or '{device}_...' where the device has a column")
            name = None
        dtypes = [
            dtype.value
            for dtype in self.texts(fields["lower_precision"], "lower_precision")
            if self.name(dtype, "dtype", DTYPES)
        ]
        like = self.name(fields["like"], "device", names) if "like" in fields else None
        cache = self.name(fields["cache"], "cache switch", SWITCH) if "cache" in fields else SWITCH[0]
        if not (name and dispatch_key and dtypes and cache):
            return None
        return Device(name, dispatch_key, tuple(dtypes), like, cache == SWITCH[0])

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
            for torch in subtract(cast.torch & overload.torch, (earlier.torch for earlier in alternatives[:index])):
                row = Registration(key.value, overload, device, cast.category, torch, cast.note or overload.note)
                if cast.category is Category.BANNED:
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

    def read_range(self, node: Node) -> VersionRange | None:
        specifier = self.text(node, "torch")
        torch = parse_range(specifier) if specifier is not None else None
        if specifier is not None and torch is None:
            self.report(
                node.location,
                f"'{specifier}' is no range of torch releases",
                "write it as '>=2.10', '<2.13' or both with ','",
            )
        return torch

    def read_casts(self, key: Text, node: Node, overloads: list[str]) -> dict[str, list[Cast]]:
        """Return what `cast` says for each device that it lists, `like` and `others` resolved."""
        if not isinstance(node, Mapping):
            casts = self.read_alternatives(node, overloads)
            return dict.fromkeys(self.like, casts) if casts else {}
        named: dict[str, list[Cast]] = {}
        for device, value in self.entries(node, f"cast of op '{key.value}'"):
            casts = self.read_alternatives(value, overloads)
            if self.name(device, "device", [*self.like, "others"]):
                named[device.value] = casts
        return {device: casts for device in self.like if (casts := self.resolve(device, named))}

    def resolve(self, device: str, named: dict[str, list[Cast]]) -> list[Cast]:
        others = named.get("others", [])
        if device not in named and others and all(cast.category is None for cast in others):
            return others  # `others: unlisted` keeps an op from the devices that are like a named one
        chain = [device]
        while chain[-1] not in named:
            like = self.like.get(chain[-1])
            if like is None or like in chain:
                return others
            chain.append(like)
        return named[chain[-1]]

    def read_alternatives(self, node: Node, overloads: list[str]) -> list[Cast]:
        nodes = node.items if isinstance(node, Sequence) else (node,)
        if not nodes:
            self.report(node.location, "a cast is an empty list", "name a category")
        casts = [cast for item in nodes if (cast := self.read_cast(item, overloads)) is not None]
        for index, cast in enumerate(casts):
            only = set(cast.overloads or overloads)
            earlier = [other.torch for other in casts[:index] if only <= set(other.overloads or overloads)]
            if not subtract(cast.torch, earlier):
                self.report(cast.node.location, "those before this alternative leave it no release", "remove it")
        return casts

    def read_cast(self, node: Node, overloads: list[str]) -> Cast | None:
        keys = ("as", "torch", "overloads", "note")
        fields = {"as": node} if isinstance(node, Text) else self.fields(node, "a cast", keys, ("as",))
        if fields is None:
            return None
        category = self.name(fields["as"], "category", [*(category.value for category in Category), UNLISTED])
        torch = self.read_range(fields["torch"]) if "torch" in fields else ALL
        note = self.text(fields["note"], "note") if "note" in fields else None
        only: tuple[str, ...] | None = None
        if "overloads" in fields:
            texts = self.texts(fields["overloads"], "overloads")
            only = tuple(text.value for text in texts if self.name(text, "overload", overloads))
        if category is None or torch is None:
            return None
        return Cast(None if category == UNLISTED else Category(category), fields["as"], torch, only, note)
