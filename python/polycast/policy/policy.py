"""Policies as values: rules over the built-in ones."""

import os
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, TypeAlias, overload
from weakref import WeakValueDictionary

import torch

from polycast._compiled import KernelPolicy, find_policy, make_policy
from polycast._grammar.categories import Category
from polycast._grammar.errors import PolicyError
from polycast._grammar.names import split_overload
from polycast.policy.lookups import Op, category_on, targets_of
from polycast.policy.operators import qualified, shown
from polycast.policy.rules import VALUES, Rule
from polycast.policy.sides import BUILT_IN_NAME, differences, side_of
from polycast.policy.sources import rules_from, rules_of_file
from polycast.policy.writing import Casts, Rules, casts_of, write

__all__ = ["Policy", "PolicyError", "Rule"]

PolicyLike: TypeAlias = "Policy | Mapping[Any, object] | str | os.PathLike[str] | torch.dtype | None"

# Every policy, equal ones too, by its address.
_made: WeakValueDictionary[int, "Policy"] = WeakValueDictionary()


class Policy(Mapping[str, Casts]):
    """Rules over the built-in ones, for a process, a region or a module.

    A policy does not change. It equals every policy with the same rules, and reads as a dict: it has the keys and the
    values of :attr:`rules`. ``one | other`` joins two, and the rules of the other decide.

    A key of the rules names an op of any library: an ATen op ("layer_norm"), an overload ("pow.Tensor_Scalar"), what
    people call ("torch.softmax", "F.layer_norm", "torch.nn.CrossEntropyLoss"), or a custom operator
    ("mylib::attention"), whose library must be imported before. It may be the function or class itself:
    ``torch.softmax``, ``torch.nn.LayerNorm``, ``torch.ops.aten.mm.default``. The name of a module or function that runs
    several ops gives the rule to each of these ops, wherever it is called; :func:`polycast.assign` gives rules to
    modules. A key covers the functional overloads that take tensors and can be cast so. A key that names an overload
    decides over one that names its op.

    The value of a key is what `cast` takes in policy.yaml:

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
              torch. It leaves out ops that the release or the torch that runs does not have. It says nothing about a
              device of which the release has no record, where the built-in rules apply: a rule that only keeps one of
              them has a note that says so.
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
        >>> mine = polycast.Policy({"layer_norm": "input_dtype", "softmax": {"cpu": "fp32", "cuda": "bfloat16"}})
        >>> mine | polycast.Policy({"torch.softmax": {"cpu": "unlisted"}})
        Policy({'layer_norm': 'input_dtype', 'softmax': {'cuda': 'bfloat16', 'cpu': 'unlisted'}})
        >>> polycast.Policy("torch-2.11").rules["stack"]  # which policy.yaml has promote on xpu
        {'xpu': 'unlisted'}
        >>> careful = polycast.Policy("fp32")
        >>> careful.rules["linear"], careful.rules["binary_cross_entropy"]
        ('fp32', {'xla': 'fp32', 'xpu': 'fp32', 'cpu': 'fp32', 'mps': 'fp32'})
    """

    __slots__ = ("__weakref__", "_digest", "_kernels", "_rules")
    _rules: tuple[Rule, ...]
    _kernels: KernelPolicy | None
    _digest: str

    def __init__(self, rules: PolicyLike = None) -> None:
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
        write({"ops": self.rules}, path)

    @classmethod
    def _of(cls, rules: Iterable[Rule]) -> "Policy":
        policy = cls.__new__(cls)
        policy._set(tuple(rules))
        return policy

    def _set(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        content = sorted((*rule.key, rule.category) for rule in rules)
        self._digest = sha256(repr(content).encode()).hexdigest()[:16]
        self._kernels = None
        _made[id(self)] = self

    @classmethod
    def of_digest(cls, digest: str) -> "Policy":
        """Return a policy with a digest, which is what torch.compile sees of a policy. Somebody must hold one."""
        return next(policy for made in _made.valuerefs() if (policy := made()) is not None and policy.digest == digest)

    @classmethod
    def of_kernels(cls, policy: KernelPolicy) -> "Policy":
        """Return the policy whose rules kernels look up."""
        return cls._of(map(_from_kernels, policy.rules()))

    @property
    def kernels(self) -> KernelPolicy:
        """The rules as kernels look them up. Policies with the same rules from the same places share one."""
        if self._kernels is None:
            digest = digest_of(self._rules)
            self._kernels = find_policy(digest) or make_policy(digest, [*map(_to_kernels, self._rules)])
        return self._kernels

    @property
    def digest(self) -> str:
        """What the policy does as 16 hexadecimal digits, the same in every process."""
        return self._digest

    @property
    def rules(self) -> dict[str, Casts]:
        """The shortest dict from which an equal policy can be made."""
        return casts_of(self._rules)

    def by_overload(self) -> Rules:
        """Return the rules, one for each overload and device, which print as a table."""
        return Rules(self._rules)

    @overload
    def category(self, op: Op, device: None = None) -> dict[str, str]: ...
    @overload
    def category(self, op: Op, device: str | torch.device) -> str: ...
    def category(self, op: Op, device: str | torch.device | None = None) -> str | dict[str, str]:
        """Return the category of an op by this policy over the built-in one, as :func:`polycast.policy.category` does.

        Example:
            >>> import polycast
            >>> mine = polycast.Policy({"softmax": {"cuda": "bf16"}})
            >>> mine.category("torch.softmax", "cuda"), mine.category("softmax", "cpu"), mine.category("mm", "cuda")
            ('bfloat16', 'unlisted', 'lower_precision_fp')
        """
        return category_on(op, device, self._rules)

    def diff(self, other: PolicyLike = None) -> str:
        """Return a table of what this policy does differently from another, or from the built-in one.

        It is empty if they do the same.

        Example:
            >>> import polycast
            >>> print(polycast.Policy({"layer_norm": {"xla": "fp32", "mps": "input_dtype"}}).diff())
            op          device  built-in  this
            layer_norm  xla     unlisted  fp32
            layer_norm  mps     fp32      input_dtype
            <BLANKLINE>
            unlisted: autocast leaves it alone; the ops that it runs follow their own rules.
            input_dtype: runs in the dtype of its inputs, and so does all that it runs.
        """
        sides = [side_of(BUILT_IN_NAME), side_of("this", self._rules)]
        if other is not None:
            sides.append(side_of(other if isinstance(other, str) else "other", Policy(other)._rules))
        return differences(*sides)

    def __getitem__(self, op: Op) -> Casts:
        rules = self.rules
        if isinstance(op, str) and op in rules:
            return rules[op]
        try:
            found = {str(target) for target in targets_of(op)}
        except (TypeError, ValueError) as error:
            raise KeyError(str(error)) from None
        if len(found) != 1 or not found <= rules.keys():
            raise KeyError(op)
        return rules[found.pop()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __or__(self, other: PolicyLike) -> "Policy":
        """Return both joined. Where both have a rule, the other's decides."""
        return Policy._of({rule.key: rule for rule in (*self._rules, *Policy(other)._rules)}.values())

    def __ror__(self, other: PolicyLike) -> "Policy":
        return Policy(other) | self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Policy):
            return self.digest == other.digest
        if not isinstance(other, Mapping):
            return NotImplemented
        try:
            return self == Policy(other)
        except PolicyError:  # a dict of something else
            return False

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[object, ...]:
        return Policy._of, (self._rules,)

    def __str__(self) -> str:
        """Return a table of the rules, each with the place that it comes from."""
        return str(Rules(rule._replace(note="") for rule in self._rules))

    def __repr__(self) -> str:
        return f"Policy({self.rules!r})"


def digest_of(rules: tuple[Rule, ...]) -> str:
    """Return a digest of rules and their places, in whatever order they stand."""
    return sha256(repr(sorted(rules, key=lambda rule: rule.key)).encode()).hexdigest()


def _to_kernels(rule: Rule) -> tuple[str, str, str, torch.dtype | None, str, str]:
    category, dtype = VALUES[rule.category]
    banned = category is Category.BANNED
    return (
        qualified(rule.name),
        rule.device,
        rule.category if category is None else category.value,
        None if dtype is None else getattr(torch, dtype),
        f"'{rule.name}' is banned on {rule.device} by {rule.source}" if banned else "",
        rule.source,
    )


def _from_kernels(rule: tuple[str, str, str, torch.dtype | None, str, str]) -> Rule:
    name, device, category, dtype, _, source = rule
    op, overload_name = split_overload(shown(name))
    return Rule(op, overload_name, device, category if dtype is None else str(dtype).removeprefix("torch."), "", source)
