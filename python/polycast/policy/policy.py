"""Policies as values: rules over the policy that is compiled in."""

import os
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary

import torch

from polycast._compiled import DEVICES, ROWS, KernelPolicy, find_policy, make_policy
from polycast.policy import operators
from polycast.policy.operators import ATEN, Target
from polycast.policy.reader import PolicyReader
from polycast.policy.releases import find, is_release, rules_of
from polycast.policy.rules import VALUES, Rule, make_rule, misnamed
from polycast.policy.sides import differences, side_of
from polycast.policy.values import nodes_of
from polycast.policy.writing import Entry, entries_of, table_of
from polycast_grammar.categories import Category
from polycast_grammar.errors import PolicyError, Problem, did_you_mean
from polycast_grammar.names import join_name, split_overload

__all__ = ["Policy", "PolicyError", "Rule"]

# The first policy of each digest, which equal ones hold.
_made: WeakValueDictionary[str, "Policy"] = WeakValueDictionary()
_lock = Lock()
_UNTOUCHED = (Category.BANNED.value, Category.STOCK.value)


class Policy:
    """Rules over the base policy, the one that was compiled: an immutable value, equal to every one that does the same.

    A rule names an operator of any library: an ATen op ("layer_norm"), an overload ("pow.Tensor_Scalar"), what people
    call ("torch.nn.functional.layer_norm", "torch.nn.CrossEntropyLoss" for all that it runs), or a custom one
    ("mylib::attention"), which has to be registered before. It covers the functional overloads that take tensors and
    can be cast so; a rule that names an overload decides over one that names its op.

    Its value is what `cast` takes in policy.yaml: a category of :func:`polycast.policy.categories` but "stock",
    "unlisted" for no rule of its own, or a dtype; a mapping of devices to these, with `others` for the rest; a
    mapping with `as`, and `overloads`, `torch` or `note`; or a list of such alternatives, the first that holds.

    Args:
        rules: The values by the names; a ``torch.dtype`` may be a value, a ``torch.device`` the key of a device.

    Raises:
        PolicyError: A ``ValueError`` with every problem of the rules, each with its place and remedy.
        TypeError: The rules are no mapping.

    Example:
        >>> import polycast
        >>> mine = polycast.Policy({"layer_norm": "fallthrough", "softmax": {"cpu": "fp32", "cuda": "bfloat16"}})
        >>> mine | polycast.Policy({"torch.softmax": {"cpu": "unlisted"}})
        Policy({'layer_norm': 'fallthrough', 'softmax': {'cuda': 'bfloat16', 'cpu': 'unlisted'}})
    """

    __slots__ = ("__weakref__", "_first", "_kernels", "_rows", "digest")
    _rows: tuple[Rule, ...]
    _kernels: KernelPolicy | None
    digest: str
    """What the policy does as 16 hexadecimal digits, the same in every process."""

    def __init__(self, rules: Mapping[str, object] | None = None) -> None:
        if not isinstance(rules, Mapping | None):
            raise TypeError(f"the rules are a {type(rules).__name__}; give a mapping, as in {{'softmax': 'fp32'}}")
        problems: list[Problem] = []
        rows = PolicyReader(problems).rows(nodes_of(rules or {}, problems))
        if problems:
            raise PolicyError(problems)
        self._set(rows)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Policy":
        """Return the policy of a YAML file, whose key `ops` holds the rules, or the pin of a recorded torch release.

        Args:
            path: A file; or the name of a release, as in "torch-2.11". Its policy has every op cast as that release
                casts it, under any torch: ops that one of the two does not have stay as they are.

        Raises:
            PolicyError: The file cannot be read, the release is not recorded, or as for the class.
            TypeError: The path is no path.

        Example:
            >>> import polycast
            >>> polycast.Policy.load("torch-2.11").rules["stack"]  # which policy.yaml has promote on xpu
            {'xpu': 'unlisted'}
        """
        from polycast_grammar.files import load  # needs PyYAML

        if isinstance(path, str) and is_release(path):
            return cls._of(rules_of(find(path)))
        problems: list[Problem] = []
        root = load(Path(path), str(path), problems)
        reader = PolicyReader(problems)
        rows = reader.file(root) if root is not None else ()
        if problems:
            raise PolicyError(problems)
        return cls._of(rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rules to a YAML file, from which :meth:`load` returns an equal policy."""
        import yaml

        text = yaml.safe_dump({"ops": self.rules}, sort_keys=False, allow_unicode=True, width=120)
        Path(path).write_text(text, encoding="utf-8")

    @classmethod
    @cache
    def everywhere(cls, category: str) -> "Policy":
        """Return the policy that gives a category to every op that the base lists on any device, where it can.

        What the base bans on a device, or leaves to torch there, stays.

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
        if category not in VALUES:
            known = f"no category {category!r:.60}", did_you_mean(str(category), VALUES)
            raise ValueError("; ".join(misnamed(str(category)) or known))
        kept = {(row.op, row.overload, row.device) for row in ROWS if row.category in _UNTOUCHED}
        rows = []
        for op, overload in dict.fromkeys((row.op, row.overload) for row in ROWS):
            target = Target(ATEN + op, overload)
            signature = operators.signatures(target.name)[overload]
            if operators.obstacle(target, signature, VALUES[category][0]) is None:
                columns = [column for column in DEVICES if (op, overload, column) not in kept]
                source = f"Policy.everywhere('{category}')"
                rows += [make_rule(target.name, overload, column, category, source) for column in columns]
        return cls._of(rows)

    @classmethod
    def _of(cls, rows: Iterable[Rule]) -> "Policy":
        policy = cls.__new__(cls)
        policy._set(tuple(rows))
        return policy

    def _set(self, rows: tuple[Rule, ...]) -> None:
        object.__setattr__(self, "_rows", rows)
        content = sorted((*row.key, row.value) for row in rows)
        object.__setattr__(self, "digest", sha256(repr(content).encode()).hexdigest()[:16])
        object.__setattr__(self, "_kernels", None)
        with _lock:
            first = _made.setdefault(self.digest, self)
        object.__setattr__(self, "_first", None if first is self else first)

    @classmethod
    def of_digest(cls, digest: str) -> "Policy":
        """Return a policy that somebody holds by its digest, which torch.compile sees of it."""
        return _made[digest]

    @classmethod
    def of_kernels(cls, policy: KernelPolicy) -> "Policy":
        """Return the policy whose rules kernels look up."""
        rows = []
        for full, column, category, dtype, message, source in policy.rules():
            name, overload = split_overload(full)
            kind = None if dtype is None else str(dtype).removeprefix("torch.")
            rows.append(Rule(name, overload, column, category, kind, message, source))
        return cls._of(rows)

    @property
    def kernels(self) -> KernelPolicy:
        """The rules as kernels look them up. Policies with the same rules from the same places share one."""
        if self._kernels is None:
            digest = self.placed_digest()
            object.__setattr__(
                self, "_kernels", find_policy(digest) or make_policy(digest, list(map(_plain, self._rows)))
            )
        return self._kernels  # type: ignore[return-value]

    def placed_digest(self) -> str:
        """Return what the rules and their places are known by, where :attr:`digest` is of the rules alone."""
        return sha256(repr(sorted(self._rows, key=lambda row: row.key)).encode()).hexdigest()

    @property
    def rules(self) -> dict[str, Entry]:
        """The rules in as few words as say the same, from which an equal policy can be made."""
        return entries_of(self._rows)

    def rows(self, columns: tuple[str, ...] = tuple(DEVICES)) -> tuple[Rule, ...]:
        """Return the rows of these columns of the policy."""
        return tuple(row for row in self._rows if row.column in columns)

    def diff(self, other: "Policy | None" = None) -> str:
        """Return a table of what this policy and another do differently, or this one and the base, empty if nothing.

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
        sides = [side_of("base"), side_of("this", self._rows)]
        return differences(*sides, *(() if other is None else (side_of("other", other._rows),)))

    def __or__(self, other: "Policy") -> "Policy":
        """Return both, the other's rules before this one's."""
        if not isinstance(other, Policy):
            return NotImplemented
        return Policy._of({row.key: row for row in (*self._rows, *other._rows)}.values())

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Policy) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a policy cannot change, and '{name}' of it cannot be set; make another, or join two")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a policy cannot change, and '{name}' of it cannot be deleted")

    def __reduce__(self) -> tuple[object, ...]:
        return Policy._of, (self._rows,)

    def __str__(self) -> str:
        """Return a table of the rules, each with the place that it comes from."""
        return table_of({row.key: (row.value, row.source) for row in self._rows}, "category", "from")

    def __repr__(self) -> str:
        return f"Policy({self.rules!r})"


def _plain(row: Rule) -> tuple[str, str, str, torch.dtype | None, str, str]:
    name = join_name(row.name, row.overload)
    dtype = None if row.dtype is None else getattr(torch, row.dtype)
    return name, row.column, row.category, dtype, row.message, row.source
