"""Policies as values: rules over the policy that is compiled in."""

import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch

from polycast._compiled import DEVICES, KernelPolicy
from polycast._grammar.errors import PolicyError
from polycast.policy.kernels import kernel_policy, placed_rules
from polycast.policy.rules import Rule
from polycast.policy.sides import differences, side_of
from polycast.policy.sources import rules_from, rules_of_file
from polycast.policy.writing import Entry, entries_of, table_of

__all__ = ["Policy", "PolicyError", "Rule"]

# Every policy, equal ones too, by its address.
_made: WeakValueDictionary[int, "Policy"] = WeakValueDictionary()
# What is meant by an argument that a policy does not have.
_AS_DICT = "give them as a dict, as in Policy({'softmax': 'fp32'})"
_DEVICE = "name the device in a rule, as in Policy({'softmax': {'cuda': 'fp32'}})"
_INSTEAD = {
    "device": _DEVICE,
    "device_type": _DEVICE,
    "base": "join two policies, as in Policy('torch-2.11') | Policy({'softmax': 'fp32'})",
    "modules": "polycast.assign gives rules to modules",
}


class Policy:
    """Rules over the base, which is the policy that is compiled in.

    A policy does not change. It equals every policy with the same rules.

    An entry names an operator of any library: an ATen op ("layer_norm"), an overload ("pow.Tensor_Scalar"), a public
    name ("torch.nn.functional.layer_norm", "torch.nn.CrossEntropyLoss" for all that it runs), or a custom operator
    ("mylib::attention"), whose library must be imported before. The entry covers the functional overloads that take
    tensors and can be cast so. One that names an overload decides over one that names its op.

    The value of an entry is what `cast` takes in policy.yaml:

    - a category of :func:`polycast.policy.categories` except "stock", "unlisted", or a dtype,
    - a mapping of devices to these, with `others` for the rest,
    - a mapping with `as`, and with `overloads`, `torch` or `note`,
    - a list of such alternatives, of which the first that holds decides.

    Args:
        rules: One of

            - a dict of rules, also in the form of a file, ``{"ops": {...}}``. A ``torch.dtype`` may be a value, and a
              ``torch.device`` the key of a device.
            - the name of a YAML file, or its ``Path``.
            - a recorded torch release, as in "torch-2.11". Its policy casts every op as the release does, under any
              torch. It leaves out ops that the release or the torch that runs does not have.
            - a category or dtype, as in "fp32" or ``torch.float32``: every op that the built-in policy lists on any
              device has it, if the op can. An op that the built-in policy bans on a device, or leaves to torch there,
              has no rule for the device.
            - a policy; None for no rules.

    Raises:
        PolicyError: A ``ValueError`` with every problem of the rules, each with its place and remedy.
        ValueError: A text is no category, dtype, release or file.
        TypeError: The rules are none of these.

    Example:
        >>> import polycast
        >>> mine = polycast.Policy({"layer_norm": "fallthrough", "softmax": {"cpu": "fp32", "cuda": "bfloat16"}})
        >>> mine | polycast.Policy({"torch.softmax": {"cpu": "unlisted"}})
        Policy({'layer_norm': 'fallthrough', 'softmax': {'cuda': 'bfloat16', 'cpu': 'unlisted'}})
        >>> polycast.Policy("torch-2.11").rules["stack"]  # which policy.yaml has promote on xpu
        {'xpu': 'unlisted'}
        >>> careful = polycast.Policy("fp32")
        >>> careful.rules["linear"], careful.rules["binary_cross_entropy"]
        ('fp32', {'xla': 'fp32', 'xpu': 'fp32', 'cpu': 'fp32', 'mps': 'fp32'})
    """

    __slots__ = ("__weakref__", "_kernels", "_rules", "digest")
    _rules: tuple[Rule, ...]
    _kernels: KernelPolicy | None
    digest: str
    """What the policy does as 16 hexadecimal digits, the same in every process."""

    def __init__(
        self,
        rules: "Policy | Mapping[Any, object] | str | os.PathLike[str] | torch.dtype | None" = None,
        **others: object,
    ) -> None:
        for name in others:
            raise TypeError(f"Policy takes rules alone, and no '{name}'; {_INSTEAD.get(name, _AS_DICT)}")
        self._set(rules._rules if isinstance(rules, Policy) else rules_from(rules))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Policy":
        """Return the policy of a YAML file, which has the rules under the key `ops`.

        Raises:
            PolicyError: The file cannot be read, or as for the class.
            TypeError: The path is no path.
        """
        return cls._of(rules_of_file(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rules to a YAML file, from which :meth:`load` returns an equal policy."""
        import yaml

        text = yaml.safe_dump({"ops": self.rules}, sort_keys=False, allow_unicode=True, width=120)
        Path(path).write_text(text, encoding="utf-8")

    @classmethod
    def _of(cls, rules: Iterable[Rule]) -> "Policy":
        policy = cls.__new__(cls)
        policy._set(tuple(rules))
        return policy

    def _set(self, rules: tuple[Rule, ...]) -> None:
        object.__setattr__(self, "_rules", rules)
        content = sorted((*rule.key, rule.value) for rule in rules)
        object.__setattr__(self, "digest", sha256(repr(content).encode()).hexdigest()[:16])
        object.__setattr__(self, "_kernels", None)
        _made[id(self)] = self

    @classmethod
    def of_digest(cls, digest: str) -> "Policy":
        """Return a policy with a digest, which is what torch.compile sees of a policy. Somebody must hold one."""
        return next(policy for made in _made.valuerefs() if (policy := made()) is not None and policy.digest == digest)

    @classmethod
    def of_kernels(cls, policy: KernelPolicy) -> "Policy":
        """Return the policy whose rules kernels look up."""
        return cls._of(placed_rules(policy))

    @property
    def kernels(self) -> KernelPolicy:
        """The rules as kernels look them up. Policies with the same rules from the same places share one."""
        if self._kernels is None:
            object.__setattr__(self, "_kernels", kernel_policy(self._rules))
        return self._kernels  # type: ignore[return-value]

    @property
    def rules(self) -> dict[str, Entry]:
        """The fewest entries from which an equal policy can be made."""
        return entries_of(self._rules)

    def rows(self, columns: tuple[str, ...] = tuple(DEVICES)) -> tuple[Rule, ...]:
        """Return the rules for these devices, one for each overload that they cover."""
        return tuple(rule for rule in self._rules if rule.column in columns)

    def diff(self, other: "Policy | None" = None) -> str:
        """Return a table of what this policy does differently from another, or from the base; empty if nothing.

        Example:
            >>> import polycast
            >>> print(polycast.Policy({"layer_norm": {"xla": "fp32", "mps": "fallthrough"}}).diff())
            op          device  base      this
            layer_norm  xla     unlisted  fp32
            layer_norm  mps     fp32      fallthrough
            <BLANKLINE>
            unlisted: runs in the type of its inputs; ops that it runs follow their own rules.
            fallthrough: runs in the type of its inputs, and so does all that it runs.
        """
        sides = [side_of("base"), side_of("this", self._rules)]
        return differences(*sides, *(() if other is None else (side_of("other", other._rules),)))

    def __or__(self, other: "Policy") -> "Policy":
        """Return both joined. Where both have a rule, the other's decides."""
        if not isinstance(other, Policy):
            return NotImplemented
        return Policy._of({rule.key: rule for rule in (*self._rules, *other._rules)}.values())

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Policy) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a policy cannot change, and '{name}' of it cannot be set; make another, or join two")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a policy cannot change, and '{name}' of it cannot be deleted")

    def __reduce__(self) -> tuple[object, ...]:
        return Policy._of, (self._rules,)

    def __str__(self) -> str:
        """Return a table of the rules, each with the place that it comes from."""
        return table_of({row.key: (row.value, row.source) for row in self._rules}, "category", "from")

    def __repr__(self) -> str:
        return f"Policy({self.rules!r})"
