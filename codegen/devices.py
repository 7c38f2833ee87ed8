"""The reader of `devices`: the devices of a policy, and their exceptions from the device in `like`."""

from itertools import chain

from .casts import Alternative, CastReader
from .categories import UNLISTED, join_name, split_name
from .model import Device, Policy
from .schemas import Schemas
from .yaml_nodes import Node, Text, did_you_mean

DTYPES = ("float16", "bfloat16")


class DeviceReader(CastReader):
    """A reader of the devices of a policy."""

    def __init__(self, schemas: Schemas) -> None:
        super().__init__()
        self.schemas = schemas

    def read_devices(self, node: Node) -> list[Device]:
        entries = list(self.entries(node, "devices"))
        names = [key.value for key, _ in entries]
        devices = [device for key, value in entries if (device := self.read_device(key, value, names)) is not None]
        self.like = {device.name: device.like for device in devices}
        return devices

    def read_device(self, key: Text, node: Node, names: list[str]) -> Device | None:
        what = f"device '{key.value}'"
        required = ("dispatch_key", "lower_precision")
        known = (*required, "like", "except", "backend")
        fields = self.fields(node, what, known, required)
        if fields is None:
            return None
        name = self.identifier(key, "device")
        dispatch_key = self.name(fields["dispatch_key"], "dispatch_key", self.schemas.autocast_keys)
        device = (dispatch_key or "").removeprefix("Autocast").lower()
        backend = self.text(fields.get("backend"), "backend")
        if name and device and name != device and not name.startswith(f"{device}_") and backend is None:
            what = f"device '{name}': dispatch_key {dispatch_key} belongs to device '{device}'"
            remedy = f"rename it to '{device}', or to '{device}_...' if the policy has '{device}'"
            remedy += ", or for a backend outside of PyTorch, add the key 'backend'"
            self.report(key, what, remedy)
        texts = self.texts(fields["lower_precision"], "lower_precision")
        dtypes = [dtype.value for dtype in texts if self.name(dtype, "dtype", DTYPES)]
        like = self.name(fields.get("like"), "device", names)
        if like is not None and like not in names[: names.index(key.value)]:
            what = f"like: expected a device that is listed above '{key.value}', got '{like}'"
            self.report(fields["like"], what, f"move '{like}' up, or name a device above")
        if "except" in fields:
            self.exceptions[key.value] = self.read_exceptions(key, fields["except"], "like" in fields)
        if not (name and dispatch_key and dtypes):
            return None
        return Device(name, dispatch_key, tuple(dtypes), like, backend)

    def read_exceptions(self, device: Text, node: Node, has_like: bool) -> dict[str, Alternative]:
        """Return the casts that override the casts of the device's `like`, by op or overload."""
        found: dict[str, Alternative] = {}
        if not has_like:
            what = f"device '{device.value}' has 'except' but no 'like'"
            self.report(node, what, "add 'like', or name the device in the ops instead")
        for key, names in self.entries(node, f"except of device '{device.value}'"):
            category = self.category(key)
            for text in self.texts(names, f"except.{key.value} of device '{device.value}'"):
                if text.value in found:
                    what = f"except of device '{device.value}' names '{text.value}' twice"
                    self.report(text, what, "remove one of them")
                elif category is not None:
                    overload = split_name(text.value)[1]
                    value = None if category == UNLISTED else category
                    found[text.value] = Alternative(value, text, overloads=(overload,) if overload else None)
        return found

    def check_exceptions(self, policy: Policy) -> None:
        """Report exceptions for ops and overloads that the policy does not list, and exceptions that change nothing."""
        known = {op.name: {rule.overload.name for rule in op.rules} for op in policy.ops}
        changed = {device.name: list(chain(*policy.exceptions(device).values())) for device in policy.devices}
        for device, exceptions in self.exceptions.items():
            for name, cast in exceptions.items():
                op, overload = split_name(name)
                differing = changed[device] if overload else [split_name(other)[0] for other in changed[device]]
                what = f"except of device '{device}': the policy does not list '{name}'"
                if op not in known:
                    self.report(cast.node, what, did_you_mean(op, known))
                elif overload and overload not in known[op]:
                    what = f"except of device '{device}': the policy lists no overload '{overload}' of '{op}'"
                    self.report(cast.node, what, did_you_mean(overload, known[op]))
                elif join_name(op, overload) not in differing:
                    what = f"device '{device}' has an exception for '{name}', but inherits the same category"
                    self.report(cast.node, what, "remove the exception")
