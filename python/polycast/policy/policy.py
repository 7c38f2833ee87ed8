"""Policies as values: rules over the policy that is compiled in."""

import os
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from weakref import WeakValueDictionary

from polycast._compiled import DEVICES, ROWS, KernelPolicy
from polycast._grammar.categories import Category, canonical
from polycast._grammar.errors import PolicyError, Problem
from polycast.policy import operators
from polycast.policy.kernels import kernel_policy, placed_rules
from polycast.policy.operators import ATEN, Target
from polycast.policy.reader import PolicyReader
from polycast.policy.releases import find, is_release, rules_of
from polycast.policy.rules import VALUES, Rule, make_rule, not_a_category
from polycast.policy.sides import differences, side_of
from polycast.policy.values import nodes_of
from polycast.policy.writing import Entry, entries_of, table_of

__all__ = ["Policy", "PolicyError", "Rule"]

# Every policy, equal ones too, by its address.
_made: WeakValueDictionary[int, "Policy"] = WeakValueDictionary()
_UNTOUCHED = (Category.BANNED.value, Category.STOCK.value)


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
        rules: The entries. A ``torch.dtype`` may be a value, and a ``torch.device`` the key of a device.

    Raises:
        PolicyError: A ``ValueError`` with every problem of the rules, each with its place and remedy.
        TypeError: The rules are no mapping.

    Example:
        >>> import polycast
        >>> mine = polycast.Policy({"layer_norm": "fallthrough", "softmax": {"cpu": "fp32", "cuda": "bfloat16"}})
        >>> mine | polycast.Policy({"torch.softmax": {"cpu": "unlisted"}})
        Policy({'layer_norm': 'fallthrough', 'softmax': {'cuda': 'bfloat16', 'cpu': 'unlisted'}})
    """

    __slots__ = ("__weakref__", "_kernels", "_rules", "digest")
    _rules: tuple[Rule, ...]
    _kernels: KernelPolicy | None
    digest: str
    """What the policy does as 16 hexadecimal digits, the same in every process."""

    def __init__(self, rules: Mapping[str, object] | None = None) -> None:
        if not isinstance(rules, Mapping | None):
            raise TypeError(f"the rules are a {type(rules).__name__}; give a mapping, as in {{'softmax': 'fp32'}}")
        problems: list[Problem] = []
        found = PolicyReader(problems).rules(nodes_of(rules or {}, problems))
        if problems:
            raise PolicyError(problems)
        self._set(found)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Policy":
        """Return the policy of a YAML file, which has the entries under the key `ops`, or of a recorded torch release.

        Args:
            path: A file, or the name of a release, as in "torch-2.11". A release's policy casts every op as the release
                does, under any torch. It leaves out ops that the release or the torch that runs does not have.

        Raises:
            PolicyError: The file cannot be read, the release is not recorded, or as for the class.
            TypeError: The path is no path.

        Example:
            >>> import polycast
            >>> polycast.Policy.load("torch-2.11").rules["stack"]  # which policy.yaml has promote on xpu
            {'xpu': 'unlisted'}
        """
        from polycast._grammar.files import load  # needs PyYAML

        if isinstance(path, str) and is_release(path):
            return cls._of(rules_of(find(path)))
        problems: list[Problem] = []
        root = load(Path(path), str(path), problems)
        reader = PolicyReader(problems)
        found = reader.file(root) if root is not None else ()
        if problems:
            raise PolicyError(problems)
        return cls._of(found)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rules to a YAML file, from which :meth:`load` returns an equal policy."""
        import yaml

        text = yaml.safe_dump({"ops": self.rules}, sort_keys=False, allow_unicode=True, width=120)
        Path(path).write_text(text, encoding="utf-8")

    @classmethod
    @cache
    def everywhere(cls, category: str) -> "Policy":
        """Return the policy that gives a category to every op that the base lists on any device, if the op can have it.

        An op that the base bans on a device, or leaves to torch there, has no rule for the device.

        Args:
            category: As a rule writes it, a dtype by its name.

        Raises:
            ValueError: There is no such category.

        Example:
            >>> import polycast
            >>> careful = polycast.Policy.everywhere("fp32")
            >>> careful.rules["linear"], careful.rules["binary_cross_entropy"]
            ('fp32', {'xla': 'fp32', 'xpu': 'fp32', 'cpu': 'fp32', 'mps': 'fp32'})
        """
        category = canonical(category)
        if category not in VALUES:
            raise ValueError("; ".join(not_a_category(category)))
        kept = {(row.op, row.overload, row.device) for row in ROWS if row.category in _UNTOUCHED}
        found = []
        for op, overload in dict.fromkeys((row.op, row.overload) for row in ROWS):
            target = Target(ATEN + op, overload)
            signature = operators.signatures(target.name)[overload]
            if operators.obstacle(target, signature, VALUES[category][0]) is None:
                columns = [column for column in DEVICES if (op, overload, column) not in kept]
                source = f"Policy.everywhere('{category}')"
                found += [make_rule(target.name, overload, column, category, source) for column in columns]
        return cls._of(found)

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
