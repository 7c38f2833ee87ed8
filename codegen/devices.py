"""The reader of `devices`: the devices of a policy, and the exceptions of each from the device that it is like."""

from .casts import Alternative, CastReader, Casts
from .categories import UNLISTED, split_name
from .model import Device, Op
from .schemas import Schemas
from .versions import ALL
from .yaml_nodes import Mapping, Node, Text

DTYPES = ("float16", "bfloat16")
SWITCH = ("on", "off")


class DeviceReader(CastReader):
    """A reader of the devices of a policy."""

    def __init__(self, schemas: Schemas) -> None:
        super().__init__()
        self.schemas = schemas
        self.exceptions: dict[str, dict[str, Alternative]] = {}  # by device, then by op or overload
        self.meant: list[str] = []  # the names of misspelled devices

    def read_devices(self, node: Node) -> list[Device]:
        entries = list(self.entries(node, "devices"))
        devices = [self.read_device(key, value, [other.value for other, _ in entries]) for key, value in entries]
        chains = {device.name: device.like for device in devices if device is not None}
        # Devices with a problem are included, under the correct name as well, so that no op is reported for naming one.
        self.like = {**dict.fromkeys(self.meant), **{key.value: chains.get(key.value) for key, _ in entries}}
        for key, _ in entries:
            seen = [key.value]
            while (like := chains.get(seen[-1])) is not None and like not in seen:
                seen.append(like)
            if like is not None and like == key.value:
                self.report(key, f"'like' leads in a circle: {' -> '.join([*seen, like])}", "remove one 'like'")
                self.like[key.value] = None  # so that the chains of devices end
        return [device for device in devices if device is not None]

    def read_device(self, key: Text, node: Node, names: list[str]) -> Device | None:
        what = f"device '{key.value}'"
        required = ("dispatch_key", "lower_precision")
        known = (*required, "like", "except", "backend", "cache")
        fields = self.fields(node, what, known, required)
        if fields is None:
            return None
        name = self.identifier(key, "device")
        dispatch_key = self.name(fields["dispatch_key"], "dispatch_key", self.schemas.autocast_keys)
        device = (dispatch_key or "").removeprefix("Autocast").lower()
        backend = self.text(fields["backend"], "backend") if "backend" in fields else None
        if name and device and name != device and not name.startswith(f"{device}_") and backend is None:
            what = f"device '{name}': dispatch_key {dispatch_key} belongs to device '{device}'"
            remedy = f"rename it to '{device}', or to '{device}_...' if the policy has '{device}'"
            remedy += "; for a backend outside of PyTorch, add the key 'backend' with the source of its rules"
            self.report(key, what, remedy)
            self.meant.append(device)
            name = None
        texts = self.texts(fields["lower_precision"], "lower_precision")
        dtypes = [dtype.value for dtype in texts if self.name(dtype, "dtype", DTYPES)]
        like = self.name(fields["like"], "device", names) if "like" in fields else None
        if "except" in fields:
            self.exceptions[key.value] = self.read_exceptions(key, fields["except"], "like" in fields)
        cache = self.name(fields["cache"], "cache switch", SWITCH) if "cache" in fields else SWITCH[0]
        if not (name and dispatch_key and dtypes and cache):
            return None
        return Device(name, dispatch_key, tuple(dtypes), like, cache == SWITCH[0], backend)

    def read_exceptions(self, device: Text, node: Node, has_like: bool) -> dict[str, Alternative]:
        """Return the casts that a device has instead of those of the device that it is like, by op or overload."""
        found: dict[str, Alternative] = {}
        if not has_like:
            what = f"device '{device.value}' has 'except' and no 'like'"
            self.report(node, what, "add 'like', or name the device in the ops instead")
        for key, names in self.entries(node, f"except of device '{device.value}'"):
            category = self.category(key)
            for text in self.texts(names, f"{key.value} of device '{device.value}'"):
                if text.value in found:
                    what = f"device '{device.value}' excepts '{text.value}' twice"
                    self.report(text, what, "remove one of them")
                elif category is not None:
                    overload = split_name(text.value)[1]
                    value = None if category == UNLISTED else category
                    found[text.value] = Alternative(value, text, overloads=(overload,) if overload else None)
        return found

    def check_exceptions(self, ops: dict[str, Op]) -> None:
        """Report the exceptions for ops and overloads that the policy does not list."""
        known = {name: {rule.overload.name for rule in op.rules} for name, op in ops.items()}
        for device, exceptions in self.exceptions.items():
            for name, cast in exceptions.items():
                op, overload = split_name(name)
                what = f"device '{device}' excepts '{name}', which the policy does not list"
                if op not in known:
                    self.report_unknown(cast.node, what, op, known)
                elif overload and overload not in known[op]:
                    self.report_unknown(cast.node, what, overload, known[op])

    def with_exceptions(self, key: Text, node: Node, casts: Casts) -> Casts:
        """Return the casts of an op by device, with the exceptions of the device and its chain of `like` first."""
        named = {name.value for name, _ in node.value} if isinstance(node, Mapping) else set()
        found = {}
        for device in self.like:
            chain: list[str] = []
            link: str | None = device
            while link is not None and link not in named:
                chain.append(link)
                link = self.like[link]
            found[device] = [cast for link in chain for cast in self.exceptions_for(key, link)]
            own = self.exceptions_for(key, device)
            for cast in own if device in named else ():
                what = f"device '{device}' has an exception for '{key.value}', but the op names the device"
                self.report(cast.node, what, "remove one of them")
            inherited = [*found[device][len(own) :], *casts.get(device, [])]
            for cast in own if self.like[device] and device not in named else ():
                if _same_everywhere(cast, inherited):
                    name = ".".join([key.value, *(cast.overloads or ())])
                    what = f"device '{device}' has an exception for '{name}', but inherits the same category"
                    self.report(cast.node, what, "remove the exception")
        alternatives = {device: [*first, *casts.get(device, [])] for device, first in found.items()}
        return {device: parts for device, parts in alternatives.items() if parts}

    def exceptions_for(self, key: Text, device: str) -> list[Alternative]:
        """Return the exceptions of a device for an op. An exception for an overload precedes one for the whole op."""
        exceptions = self.exceptions.get(device, {})
        mine = [cast for name, cast in exceptions.items() if split_name(name)[0] == key.value]
        return sorted(mine, key=lambda cast: cast.overloads is None)


def _same_everywhere(exception: Alternative, inherited: list[Alternative]) -> bool:
    """Return whether an exception leaves the category of its op, or of its overloads, as it was."""
    mine = set(exception.overloads or ())
    for cast in inherited:
        if cast.overloads is None or mine & {*cast.overloads} or not mine:
            covers = cast.overloads is None or (bool(mine) and mine <= {*cast.overloads})
            return covers and cast.torch == ALL and cast.category == exception.category
    return exception.category is None
