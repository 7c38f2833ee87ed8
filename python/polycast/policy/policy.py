"""Policies: immutable sets of rules that override the built-in rules."""

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias, overload
from weakref import WeakValueDictionary

import torch

from polycast._extension import DEVICES, KernelPolicy, kernel_policy
from polycast.policy import op_names
from polycast.policy.categories import UNLISTED
from polycast.policy.errors import PolicyError
from polycast.policy.from_dict import rows_from
from polycast.policy.op_names import Op
from polycast.policy.rules import (
    ATEN,
    BY_OVERLOAD,
    EVERY,
    Casts,
    Cell,
    Row,
    Rows,
    Rule,
    Rules,
    castable,
    exact_key,
    overlaid,
    shortened,
    shown,
    split_overload,
    table_of,
    value_of,
)

__all__ = ["Policy", "PolicyError", "Rule"]

PolicyLike: TypeAlias = "Policy | Mapping[Any, object] | str | os.PathLike[str] | torch.dtype | None"

# `_made` maps ids to all policies. Equal policies are separate, because one of them may be freed first.
_made: WeakValueDictionary[int, "Policy"] = WeakValueDictionary()


class Policy(Mapping[str, Casts]):
    """An immutable set of rules that override the built-in ones, for a process, a region or a module.

    Policies with the same rules are equal. A policy is a mapping with the keys and the values of :attr:`rules`.
    ``one | other`` merges two policies. The rules of ``other`` override the rules of ``one``.

    The key of a rule is the name of an ATen op ("layer_norm"), of an overload ("pow.Tensor_Scalar"), or of a custom
    operator ("mylib::attention"). Import the operator's library first. The key may also be a public name
    ("torch.softmax", "F.layer_norm", "torch.nn.CrossEntropyLoss"), or the function or class itself: ``torch.softmax``,
    ``torch.nn.LayerNorm``, ``torch.ops.aten.mm.default``. If a module or function runs several ops, its rule applies to
    each of these ops, wherever the op is called. Use :func:`polycast.assign` for rules of modules.

    A rule covers each functional overload of its op that accepts tensors and that the category can cast. A rule for an
    overload overrides a rule for the op. The key "*" is for every op that the built-in policy lists on any device. It
    does not apply where the built-in policy bans the op or runs PyTorch's own kernel. Every other key overrides "*".

    The value of a rule is one of these:

    - "unlisted", a category of :func:`polycast.policy.categories` except "stock", or a dtype such as "bfloat16",
    - a mapping from devices to such values. A device without a key has the value of the device in its ``like`` in
      ``policy.yaml``, otherwise the value of ``others``. With ``others: unlisted``, such a device is always unlisted.

    Args:
        rules: The rules, in one of these forms:

            - A dict of rules, or ``{"ops": rules}``. A value may be a ``torch.dtype``, and the key of a device may be a
              ``torch.device``.
            - The name of a YAML file with such a dict, or its ``Path``.
            - A recorded PyTorch release, as in "torch-2.11". Its policy casts ops as the release does, under any
              PyTorch. The built-in rules apply to ops that the release lacks, to ops with the category "stock", and to
              devices without a record.
            - A category or a dtype, as in "fp32" or ``torch.float32``, which is short for ``{"*": "fp32"}``.
            - A policy, or None for no rules.

    Raises:
        PolicyError: If the rules have problems. It is a ``ValueError`` that lists each problem with its remedy.
        ValueError: If a str is not a category, a dtype, a release or a file, or no rule casts to the given dtype.
        TypeError: If the rules have the wrong type.

    Example:
        >>> import polycast
        >>> mine = polycast.Policy({"layer_norm": "input_dtype", "softmax": {"cpu": "fp32", "cuda": "bfloat16"}})
        >>> mine | polycast.Policy({"torch.softmax": {"cpu": "unlisted"}})
        Policy({'layer_norm': 'input_dtype', 'softmax': {'cuda': 'bfloat16', 'cpu': 'unlisted'}})
        >>> polycast.Policy("torch-2.11").rules["stack"]  # policy.yaml has promote on xpu
        {'xpu': 'unlisted'}
        >>> careful = polycast.Policy("fp32") | {"softmax": "input_dtype"}
        >>> careful
        Policy({'*': 'fp32', 'softmax': 'input_dtype'})
        >>> careful.category("linear", "cuda"), careful.category("binary_cross_entropy", "cuda")
        ('fp32', 'banned')
    """

    __slots__ = ("__weakref__", "_digest", "_kernels", "_rows")
    _rows: Rows
    _kernels: KernelPolicy | None
    _digest: str

    def __init__(self, rules: PolicyLike = None) -> None:
        self._set(rules._rows if isinstance(rules, Policy) else rows_from(rules))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Policy":
        """Return the policy of a YAML file.

        Args:
            path: The path of the file, whose rules are under the key ``ops`` or at the top level.

        Raises:
            PolicyError: If the file cannot be read, or its rules have problems.
            TypeError: If ``path`` is neither a str nor a path.

        Example:
            >>> import pathlib, polycast, tempfile
            >>> path = pathlib.Path(tempfile.mkdtemp(), "mine.yaml")
            >>> polycast.Policy({"softmax": "fp32"}).save(path)
            >>> polycast.Policy.load(path)
            Policy({'softmax': 'fp32'})
        """
        return cls(Path(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rules to a YAML file, from which :meth:`load` returns an equal policy.

        Args:
            path: The path of the file to write. An existing file is overwritten.
        """
        import yaml

        text = yaml.safe_dump({"ops": self.rules}, sort_keys=False, allow_unicode=True, width=120)
        Path(path).write_text(text, encoding="utf-8")

    @classmethod
    def _with(cls, rows: Rows) -> "Policy":
        policy = cls.__new__(cls)
        policy._set(rows)
        return policy

    def _set(self, rows: Rows) -> None:
        # Rows that differ only in their sources count as equal.
        self._rows = rows = shortened(rows, lambda row: [cell and cell._replace(source="") for cell in row])
        content = {key: [cell and cell.category for cell in row] for key, row in rows.items()}
        self._digest = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        self._kernels = None
        _made[id(self)] = self

    @classmethod
    def of_digest(cls, digest: str) -> "Policy":
        """Return an existing policy by its digest, by which compiled code identifies policies."""
        return next(policy for made in _made.valuerefs() if (policy := made()) is not None and policy.digest == digest)

    @classmethod
    def of_kernels(cls, policy: KernelPolicy) -> "Policy":
        """Return the policy that has the rows of a ``KernelPolicy``."""
        return cls._with({key: tuple(cell and Cell(*cell) for cell in row) for key, row in policy.rows.items()})

    @property
    def kernels(self) -> KernelPolicy:
        """The rows in the form in which kernels look them up. Policies with equal rows share this object."""
        if self._kernels is None:
            self._kernels = kernel_policy(key_of(self), self._rows)
        return self._kernels

    @property
    def digest(self) -> str:
        """A digest of the rules: 16 hexadecimal digits that are the same in every process."""
        return self._digest

    @property
    def rules(self) -> dict[str, Casts]:
        """A short dict of the rules, from which an equal policy can be made."""
        names = {key: key.removeprefix(ATEN) for key in self._rows}
        return {
            name if name == EVERY or op_names.keys_of(name) == (key,) else key: value_of(self._rows[key])
            for key, name in names.items()
        }

    def by_overload(self) -> Rules:
        """Return the rules of each overload on each device, which print as a table."""
        names = dict.fromkeys(name for key in self._rows for name in castable(key))
        return Rules(rule for name in names for rule in self._on(name))

    def _row_on(self, overload: str) -> Row:
        """Return the cells that apply to an overload. The argument is its name in the dispatcher."""
        keys = [self.kernels.deciding_key(overload, place) for place in range(len(DEVICES))]
        return tuple(None if key is None else self._rows[key][place] for place, key in enumerate(keys))

    def rules_on(self, op: Op) -> Iterator[Rule]:
        """Yield the rules of an op, or of the ops that a name runs, including built-in rules that are not overridden.

        The overloads that the built-in policy lists come first.
        """
        for key in op_names.asked_keys(op):
            listed = [name for name in BY_OVERLOAD if key in (name.partition(".")[0], exact_key(name))]
            for name in dict.fromkeys([*listed, *castable(key)]):
                yield from {**BY_OVERLOAD.get(name, {}), **{rule.device: rule for rule in self._on(name)}}.values()

    def _on(self, overload: str) -> Iterator[Rule]:
        """Yield the rules of an overload."""
        op, name = split_overload(shown(overload))
        for device, cell in zip(DEVICES, self._row_on(overload), strict=True):
            if cell is not None:
                yield Rule(op, name, device, cell.category, cell.note, cell.source)

    @overload
    def category(self, op: Op, device: None = None) -> dict[str, str]: ...
    @overload
    def category(self, op: Op, device: str | torch.device) -> str: ...
    def category(self, op: Op, device: str | torch.device | None = None) -> str | dict[str, str]:
        """Return the category of an op under this policy and the built-in one.

        Args:
            op: The op, as for :func:`polycast.policy.category`.
            device: The device, as for :func:`polycast.policy.category`; None for all devices.

        Returns:
            The category, as for :func:`polycast.policy.category`. It may also be a dtype.

        Raises:
            ValueError: If the op or the device is unknown, or the name runs ops of several categories.
            TypeError: If the op or the device has the wrong type.

        Example:
            >>> import polycast
            >>> mine = polycast.Policy({"softmax": {"cuda": "bf16"}})
            >>> mine.category("torch.softmax", "cuda"), mine.category("softmax", "cpu"), mine.category("mm", "cuda")
            ('bfloat16', 'unlisted', 'lower_precision_fp')
        """
        names = [*DEVICES] if device is None else [op_names.device_named(device)]
        rules = list(self.rules_on(op))
        found = {name: _one_category(op, name, rules) for name in names}
        return found if device is None else found[names[0]]

    def diff(self, other: PolicyLike = None) -> str:
        """Return a table of the categories in which this policy differs from another, or from the built-in policy.

        Args:
            other: The other policy, in any form that :class:`Policy` accepts; None for the built-in policy.

        Returns:
            A table with the known reasons, or "" if both policies have the same categories.

        Raises:
            ValueError: If :class:`Policy` raises it.
            TypeError: If :class:`Policy` raises it.

        Example:
            >>> import polycast
            >>> print(polycast.Policy({"layer_norm": {"xla": "fp32", "mps": "input_dtype"}}).diff())
            op          device  built-in  this
            layer_norm  xla     unlisted  fp32
            layer_norm  mps     fp32      input_dtype
            <BLANKLINE>
            unlisted: autocast leaves the op alone; the ops that it runs follow their own rules.
            input_dtype: the op and all ops that it runs use the dtypes of their inputs.
        """
        from polycast.policy.diff import BUILT_IN_NAME, differences, side_of

        this = side_of("this", self.by_overload())
        if other is None:
            return differences(side_of(BUILT_IN_NAME), this)
        title = other if isinstance(other, str) else "other"
        return differences(this, side_of(title, Policy(other).by_overload()))

    def __getitem__(self, key: str) -> Casts:
        return self.rules[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __bool__(self) -> bool:
        # Compiled code calls this method, and cannot trace the property `rules`.
        return bool(self._rows)

    def __or__(self, other: PolicyLike) -> "Policy":
        """Merge two policies. Rules of the other policy override rules of this policy."""
        over = Policy(other)
        rows = {**self._rows, **{key: overlaid(self._rows.get(key), row) for key, row in over._rows.items()}}
        laid = Policy._with(rows)
        for key in (key for key in self._rows if not over._rows.keys().isdisjoint((EVERY, key.partition(".")[0], key))):
            # A rule of the other policy for a whole op overrides rules of this policy for overloads that it can cast.
            names = castable(key)
            for name in names:
                row = overlaid(self._row_on(name), over._row_on(name))
                if row != laid._row_on(name):
                    rows[exact_key(name)] = row
            exact = [rows.get(exact_key(name), ()) for name in names]
            if names and "." not in key and all(len(row) > 0 and overlaid(rows[key], row) == row for row in exact):
                del rows[key]  # the rows of all overloads override it on each device
        return Policy._with(rows)

    def __ror__(self, other: PolicyLike) -> "Policy":
        return Policy(other) | self

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Policy) else super().__eq__(other)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[object, ...]:
        return Policy._with, (self._rows,)

    def __str__(self) -> str:
        """Return a table of the rules, each with its source."""
        cells = {
            shown(key): {device: cell[:2] for device, cell in zip(DEVICES, row, strict=True) if cell is not None}
            for key, row in self._rows.items()
        }
        return table_of(cells, "category", "from")

    def __repr__(self) -> str:
        return f"Policy({self.rules!r})"


def key_of(policy: Policy) -> str:
    """Return a digest of the rows of a policy with their sources and notes."""
    return sha256(json.dumps(policy._rows, sort_keys=True).encode()).hexdigest()


def _one_category(op: Op, device: str, rules: list[Rule]) -> str:
    """Return the category of an op on a device by its rules: the category of its first overload."""
    first: dict[str, str] = {}
    for rule in rules:
        if rule.device == device:
            first.setdefault(rule.op, rule.category)
    if len(set(first.values())) > 1:
        parts = ", ".join(f"{name} ({category})" for name, category in first.items())
        name = op if isinstance(op, str) else op_names.name_of(op)
        raise ValueError(f"op: '{name}' runs several ops on {device}: {parts}; pass one of these ops")
    return next(iter(first.values()), UNLISTED)
