"""Policies as values: rules over the built-in ones."""

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias, overload
from weakref import WeakValueDictionary

import torch

from polycast._dtypes import NAMES
from polycast._extension import DEVICES, KernelPolicy, kernel_policy
from polycast._suggest import suggestion
from polycast.policy import op_names
from polycast.policy.categories import UNLISTED, VALUES, Category, canonical, not_a_category
from polycast.policy.errors import PolicyError
from polycast.policy.from_dict import rows_of_dict
from polycast.policy.op_names import Op
from polycast.policy.releases import find, is_release, releases, rules_of
from polycast.policy.rows import EVERY, Casts, Cell, Row, Rows, overlaid, overloads_under, rows_of, shortened, written
from polycast.policy.rules import BY_OVERLOAD, Rule, Rules, exact_key, shown, split_overload, table_of

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
    decides over one that names its op. The key "*" is for every op that the built-in policy lists on any device, except
    where it bans the op or keeps PyTorch's own kernel. Every other key decides over it.

    The value of a key is one of these:

    - a category of :func:`polycast.policy.categories` except "stock", "unlisted", or a dtype, or
    - a mapping of devices to these, with `others` for the rest.

    Args:
        rules: One of

            - a dict of rules, also in the form of a file, ``{"ops": {...}}``. A ``torch.dtype`` may be a value, and a
              ``torch.device`` the key of a device.
            - the name of a YAML file, or its ``Path``.
            - a recorded torch release, as in "torch-2.11". Its policy casts every op as the release does, under any
              torch. It leaves out ops that the release or the torch that runs does not have. It says nothing about a
              device of which the release has no record, where the built-in rules apply: a rule that only keeps one of
              them has a note that says so.
            - a category or dtype, as in "fp32" or ``torch.float32``, which is ``{"*": "fp32"}``.
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
        self._set(rules._rows if isinstance(rules, Policy) else _rows_from(rules))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Policy":
        """Return the policy of a YAML file, which has the rules under the key `ops`.

        Raises:
            PolicyError: The file cannot be read, or as for the class.
            TypeError: The path is no path.
        """
        return cls._with(_rows_of_file(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rules to a YAML file, from which :meth:`load` returns an equal policy."""
        from polycast.policy import files  # needs PyYAML

        files.save({"ops": self.rules}, path)

    @classmethod
    def _with(cls, rows: Rows) -> "Policy":
        policy = cls.__new__(cls)
        policy._set(rows)
        return policy

    def _set(self, rows: Rows) -> None:
        self._rows = rows
        content = {key: [cell and cell.category for cell in row] for key, row in rows.items()}
        self._digest = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        self._kernels = None
        _made[id(self)] = self

    @classmethod
    def of_digest(cls, digest: str) -> "Policy":
        """Return a policy with a digest, which is what torch.compile sees of a policy. Somebody must hold one."""
        return next(policy for made in _made.valuerefs() if (policy := made()) is not None and policy.digest == digest)

    @classmethod
    def of_kernels(cls, policy: KernelPolicy) -> "Policy":
        """Return the policy whose rows kernels look up."""
        return cls._with({key: tuple(cell and Cell(*cell) for cell in row) for key, row in policy.rows.items()})

    @property
    def kernels(self) -> KernelPolicy:
        """The rows as kernels look them up. Policies with the same rules from the same places share one."""
        if self._kernels is None:
            self._kernels = kernel_policy(key_of(self), self._rows)
        return self._kernels

    @property
    def digest(self) -> str:
        """The rules as 16 hexadecimal digits, the same in every process."""
        return self._digest

    @property
    def rules(self) -> dict[str, Casts]:
        """The shortest dict from which an equal policy can be made."""
        return written(self._rows)

    def by_overload(self) -> Rules:
        """Return the rules, one for each overload and device, which print as a table."""
        names = dict.fromkeys(name for key in self._rows for name in overloads_under(key))
        return Rules(rule for name in names for rule in self._on(name))

    def _row_on(self, overload: str) -> Row:
        """Return the cells that decide about an overload, by its name in the dispatcher."""
        keys = self.kernels.deciding_keys(overload)
        return tuple(None if key is None else self._rows[key][place] for place, key in enumerate(keys))

    def rules_on(self, op: Op) -> Iterator[Rule]:
        """Yield the rules of an op, or of the ops that a name runs, by this policy over the built-in one.

        The overloads that the built-in policy lists come first.
        """
        for key in op_names.asked_keys(op):
            listed = [name for name in BY_OVERLOAD if key in (name.partition(".")[0], exact_key(name))]
            for name in dict.fromkeys([*listed, *overloads_under(key)]):
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
        """Return the category of an op by this policy over the built-in one, as :func:`polycast.policy.category` does.

        Example:
            >>> import polycast
            >>> mine = polycast.Policy({"softmax": {"cuda": "bf16"}})
            >>> mine.category("torch.softmax", "cuda"), mine.category("softmax", "cpu"), mine.category("mm", "cuda")
            ('bfloat16', 'unlisted', 'lower_precision_fp')
        """
        names = [*DEVICES] if device is None else [op_names.device_named(device)]
        rules = list(self.rules_on(op))
        found = {name: one_category(op, name, rules) for name in names}
        return found if device is None else found[names[0]]

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
        from polycast.policy.diff import BUILT_IN_NAME, differences, side_of

        this = side_of("this", self.by_overload())
        if other is None:
            return differences(side_of(BUILT_IN_NAME), this)
        title = other if isinstance(other, str) else "other"
        return differences(this, side_of(title, Policy(other).by_overload()))

    def __getitem__(self, op: Op) -> Casts:
        rules = self.rules
        if isinstance(op, str) and op in rules:
            return rules[op]
        try:
            key, *others = op_names.asked_keys(op)
        except (TypeError, ValueError) as error:
            raise KeyError(str(error)) from None
        if others or key not in self._rows:
            raise KeyError(op)
        return rules[[*rules][[*self._rows].index(key)]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __or__(self, other: PolicyLike) -> "Policy":
        """Return both joined. Where both have a rule, the other's decides."""
        over = Policy(other)
        joined = {**self._rows, **{key: overlaid(self._rows.get(key), row) for key, row in over._rows.items()}}
        rows, laid = dict(joined), Policy._with(joined)
        for key in (key for key in self._rows if not over._rows.keys().isdisjoint((EVERY, key.partition(".")[0], key))):
            # A wide rule of the other decides over a narrow one of this policy, for the overloads that it can cast.
            names = overloads_under(key)
            for name in names:
                row = overlaid(self._row_on(name), over._row_on(name))
                if row != laid._row_on(name):
                    rows[exact_key(name)] = row
            if all(exact_key(name) in rows for name in names) and "." not in key:
                del rows[key]
        return Policy._with(shortened(rows))

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
        return Policy._with, (self._rows,)

    def __str__(self) -> str:
        """Return a table of the rules, each with the place that it comes from."""
        cells = {
            shown(key): {device: cell[:2] for device, cell in zip(DEVICES, row, strict=True) if cell is not None}
            for key, row in self._rows.items()
        }
        return table_of(cells, "category", "from")

    def __repr__(self) -> str:
        return f"Policy({self.rules!r})"


def key_of(policy: Policy) -> str:
    """Return a digest of the rows of a policy, their places and notes included."""
    return sha256(json.dumps(policy._rows, sort_keys=True).encode()).hexdigest()


def one_category(op: Op, device: str, rules: list[Rule]) -> str:
    """Return the category of an op on a device by some rules; the first overload decides."""
    first: dict[str, str] = {}
    for rule in rules:
        if rule.device == device:
            first.setdefault(rule.op, rule.category)
    if len(set(first.values())) > 1:
        parts = ", ".join(f"{name} ({category})" for name, category in first.items())
        name = op if isinstance(op, str) else op_names.name_of(op)
        raise ValueError(f"'{name}' runs several ops on {device}: {parts}; ask for one of them")
    return next(iter(first.values()), UNLISTED)


def is_file(value: object) -> bool:
    """Return whether a path or a text names a file of rules, also one that is not there."""
    if isinstance(value, str) and canonical(value) not in VALUES and not is_release(value):
        return value.endswith((".yaml", ".yml")) or os.sep in value or Path(value[:255]).is_file()
    return isinstance(value, os.PathLike)


def _rows_from(value: object) -> Rows:
    """Return the rows of a dict, a file, a release, a category or a dtype.

    Raises:
        PolicyError: The dict or the file has problems.
        ValueError: A text is none of these, or the release is not recorded.
        TypeError: The value is no dict, path, text or dtype.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return rows_of_dict(value)
    if isinstance(value, str | os.PathLike) and is_file(value):
        return _rows_of_file(os.fspath(value))
    if not isinstance(value, str | torch.dtype):
        raise TypeError(
            f"the policy is {value!r:.60}; give a dict of rules, as in {{'softmax': 'fp32'}}, the name of a file or of "
            "a release, or a category or dtype for every op"
        )
    text = str(value)
    category = canonical(text)
    if category in VALUES:
        return {EVERY: (Cell(category, f"Policy('{category}')"),) * len(DEVICES)}
    if text == Category.STOCK.value or isinstance(value, torch.dtype):
        raise ValueError("; ".join(not_a_category(text)))
    if is_release(text):
        return rows_of(rules_of(find(text)))
    close = suggestion(text, [*VALUES, *NAMES, *releases()])
    remedy = close or "; give a category such as fp32, a release such as torch-2.12, or the name of a file"
    raise ValueError(f"unknown category, release or file '{text:.60}'{remedy}")


def _rows_of_file(path: str) -> Rows:
    from polycast.policy import files  # needs PyYAML

    return rows_of_dict(files.load(path), path)
