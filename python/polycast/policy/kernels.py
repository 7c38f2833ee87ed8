"""Policies as kernels look their rules up."""

from collections.abc import Iterator
from hashlib import sha256

import torch

from polycast._compiled import KernelPolicy, find_policy, make_policy
from polycast._grammar.names import join_name, split_overload
from polycast.policy.rules import Rule


def kernel_policy(rules: tuple[Rule, ...]) -> KernelPolicy:
    """Return rules as kernels look them up. Equal rules from the same places give the same object while it is held."""
    digest = digest_of(rules)
    return find_policy(digest) or make_policy(digest, [*map(_plain, rules)])


def digest_of(rules: tuple[Rule, ...]) -> str:
    """Return a digest of rules and their places, in whatever order they stand."""
    return sha256(repr(sorted(rules, key=lambda rule: rule.key)).encode()).hexdigest()


def placed_rules(policy: KernelPolicy) -> Iterator[Rule]:
    """Yield the rules that kernels look up."""
    for full, column, category, dtype, message, source in policy.rules():
        name, overload = split_overload(full)
        kind = None if dtype is None else str(dtype).removeprefix("torch.")
        yield Rule(name, overload, column, category, kind, message, source)


def _plain(rule: Rule) -> tuple[str, str, str, torch.dtype | None, str, str]:
    dtype = None if rule.dtype is None else getattr(torch, rule.dtype)
    return join_name(rule.name, rule.overload), rule.column, rule.category, dtype, rule.message, rule.source
