"""The rules of whatever stands for a policy: a dict, a file, a release, or one category for every op."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch

from polycast._compiled import DEVICES
from polycast._grammar.categories import Category, canonical
from polycast._grammar.dtypes import NAMES
from polycast._grammar.errors import PolicyError, Problem
from polycast._grammar.nodes import Node
from polycast._suggest import suggestion
from polycast.policy import operators
from polycast.policy.operators import Target
from polycast.policy.reader import PolicyReader
from polycast.policy.releases import find, is_release, releases, rules_of
from polycast.policy.rules import BUILT_IN, VALUES, Rule, not_a_category
from polycast.policy.values import nodes_of

_UNTOUCHED = (Category.BANNED.value, Category.STOCK.value)


def rules_from(value: object) -> tuple[Rule, ...]:
    """Return the rules of a dict, a file, a release, a category or a dtype.

    Raises:
        PolicyError: The dict or the file has problems.
        ValueError: A text is none of these, or the release is not recorded.
        TypeError: The value is no dict, path, text or dtype.
    """
    if value is None:
        return ()
    if isinstance(value, Mapping):
        problems: list[Problem] = []
        return _read(nodes_of(value, problems), problems)
    if isinstance(value, torch.dtype):
        return rules_for_all(str(value))
    if isinstance(value, str):
        return _named(value)
    if isinstance(value, os.PathLike):
        return rules_of_file(os.fspath(value))
    raise TypeError(
        f"the policy is {value!r:.60}; give a dict of rules, as in {{'softmax': 'fp32'}}, the name of a file or of a "
        "release, or a category or dtype for every op"
    )


def rules_of_file(path: str) -> tuple[Rule, ...]:
    """Return the rules of a YAML file."""
    from polycast._grammar.files import load  # needs PyYAML

    problems: list[Problem] = []
    return _read(load(Path(path), path, problems), problems)


@cache
def rules_for_all(category: str) -> tuple[Rule, ...]:
    """Return a rule with a category for every op that the built-in policy lists on any device, if the op can have it.

    An op that the built-in policy bans on a device, or leaves to torch there, has no rule for the device.

    Raises:
        ValueError: There is no such category.
    """
    value = canonical(category)
    if value not in VALUES:
        raise ValueError("; ".join(not_a_category(category)))
    kept = {rule.key for rule in BUILT_IN if rule.category in _UNTOUCHED}
    found = []
    for op, overload in dict.fromkeys((rule.op, rule.overload) for rule in BUILT_IN):
        signature = operators.signatures(op)[overload]
        if operators.obstacle(Target(op, overload), signature, VALUES[value][0]) is None:
            rules = (Rule(op, overload, device, value, source=f"Policy('{value}')") for device in DEVICES)
            found += [rule for rule in rules if rule.key not in kept]
    return tuple(found)


def _read(root: Node | None, problems: list[Problem]) -> tuple[Rule, ...]:
    found = PolicyReader(problems).policy(root) if root is not None else ()
    if problems:
        raise PolicyError(problems)
    return found


def is_file(value: object) -> bool:
    """Return whether a path or a text names a file of rules, also one that is not there."""
    if isinstance(value, str) and canonical(value) not in VALUES and not is_release(value):
        return _is_path(value)
    return isinstance(value, os.PathLike)


def _is_path(text: str) -> bool:
    return text.endswith((".yaml", ".yml")) or os.sep in text or Path(text[:255]).is_file()


def _named(text: str) -> tuple[Rule, ...]:
    if canonical(text) in VALUES:
        return rules_for_all(canonical(text))
    if is_release(text):
        return tuple(rules_of(find(text)))
    if _is_path(text):
        return rules_of_file(text)
    if text == Category.STOCK.value:
        raise ValueError("; ".join(not_a_category(text)))
    close = suggestion(text, [*VALUES, *NAMES, *releases()])
    remedy = close or "; give a category such as fp32, a release such as torch-2.12, or the name of a file"
    raise ValueError(f"unknown category, release or file '{text:.60}'{remedy}")
