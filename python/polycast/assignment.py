"""Rules for modules by their names: what runs in such a module follows them, whatever region it is called in."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn

from polycast import scopes
from polycast._compiled import leave_rules
from polycast._suggest import suggestion
from polycast.patch import PatchRow, Policy

Rules: TypeAlias = str | torch.dtype | Mapping[str, object] | Policy | None

PATTERN = "re:"


class Assigned(partial[Any]):
    """The forward of a module under rules. A copy of the module has one of its own."""

    @property
    def module(self) -> nn.Module:
        """The module."""
        module: nn.Module = self.args[0]
        return module

    @property
    def policy(self) -> Policy:
        """Its rules."""
        policy: Policy = self.args[1]
        return policy

    @property
    def __wrapped__(self) -> Any:  # where inspect finds the signature
        module, _, _, forward = self.args
        return forward or type(module).forward.__get__(module)


@scopes.inlined
def _run(module: nn.Module, policy: Policy, digest: str, forward: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG001
    scopes.enter(digest)
    try:
        return forward(*args, **kwargs) if forward else type(module).forward(module, *args, **kwargs)
    finally:
        leave_rules()


def assign(model: nn.Module, rules: Mapping[str, Rules]) -> list[str]:
    """Give modules of a model rules of their own, over those of the region and the process that they are called in.

    Rules are entered inside ``forward``, so that they hold again where activation checkpointing runs it again. A module
    inside follows those of the modules around it, and its own before them. What was assigned to a module before is
    replaced. ``nn.DataParallel``, which calls copies that share one forward, and ``torch.jit.script`` are not served.

    Args:
        model: The model.
        rules: By the name of a module as ``named_modules`` has it ("" is the model itself), or a pattern that whole
            names match, as in "re:.*\\.norm\\d"; a name decides over patterns. The value is a policy, what
            :class:`polycast.Policy` takes, or one category or dtype for every op that the base lists; None takes back
            what was assigned.

    Returns:
        The names of the modules that have rules now, of those that were named.

    Raises:
        ValueError: A name or pattern matches no module, or two patterns that match one module disagree on an op; or as
            for :class:`polycast.Policy`.
        TypeError: The model is no module, or a value none of these.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        >>> polycast.assign(model, {"1": "fp32"})
        ['1']
        >>> with polycast.autocast("cpu"):
        ...     model[0](torch.ones(2)).dtype, model(torch.ones(2)).dtype
        (torch.bfloat16, torch.float32)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"{type(model).__name__} is no module; give the model, and its modules' names in the rules")
    if not isinstance(rules, Mapping):
        raise TypeError(f"the rules are {rules!r:.60}; give a mapping, as in {{'lm_head': 'fp32'}}")
    policies = {key: _policy(key, value) for key, value in rules.items()}
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen: dict[nn.Module, tuple[str, Policy | None]] = {}
    # Names come last, and so decide.
    for key, policy in sorted(policies.items(), key=lambda item: not item[0].startswith(PATTERN)):
        for name in _matches(key, modules):
            module = modules[name]
            if module in chosen and key.startswith(PATTERN) is chosen[module][0].startswith(PATTERN):
                _check_agreement(name, chosen[module], (key, policy))
            chosen[module] = (key, policy)
    for module, (_, policy) in chosen.items():
        _assign(module, policy)
    return [name for name, module in modules.items() if chosen.get(module, ("", None))[1] is not None]


def _policy(key: object, value: object) -> Policy | None:
    if not isinstance(key, str):
        raise TypeError(f"the rules name {key!r}; give the name of a module, or '{PATTERN}' and a pattern")
    try:
        return _policy_of(value)
    except ValueError as error:
        raise ValueError(f"the rules of '{key}': {error}") from None
    except TypeError:
        raise TypeError(
            f"the rules of '{key}' are {value!r:.60}; give a policy, a mapping of ops, a category, or None"
        ) from None


def _policy_of(value: object) -> Policy | None:
    if isinstance(value, torch.dtype):
        value = str(value).removeprefix("torch.")
    if isinstance(value, str):
        return Policy.everywhere(value)
    if value is None or isinstance(value, Policy):
        return value
    if isinstance(value, Mapping):
        return Policy(value)
    raise TypeError


def _matches(key: str, names: Iterable[str]) -> Iterator[str]:
    if not key.startswith(PATTERN):
        if key not in names:
            raise ValueError(
                f"the model has no module '{key}'{suggestion(key, names)}; a pattern begins with '{PATTERN}'"
            )
        yield key
        return
    try:
        pattern = re.compile(key.removeprefix(PATTERN))
    except re.error as error:
        raise ValueError(f"'{key}' is no pattern: {error}") from None
    found = [name for name in names if pattern.fullmatch(name)]
    if not found:
        raise ValueError(f"'{key}' matches no module of the model; a pattern has to match a whole name")
    yield from found


def _check_agreement(name: str, one: tuple[str, Policy | None], other: tuple[str, Policy | None]) -> None:
    (first, ours), (second, theirs) = one, other
    mine, its = ({row.key: row for row in policy.rows()} if policy else {} for policy in (ours, theirs))
    for key in (key for key in mine if key in its):
        if mine[key].value != its[key].value:
            raise ValueError(
                f"module '{name}' is matched by '{first}', which gives {_shown(mine[key])}, and by '{second}', which "
                f"gives {_shown(its[key])}; name the module itself, or make the patterns narrower"
            )


def _shown(row: PatchRow) -> str:
    return f"{row.op} {row.value} on {row.column}"


def _assign(module: nn.Module, policy: Policy | None) -> None:
    own = module.__dict__.get("forward")
    if isinstance(own, Assigned):
        own = own.args[-1]
    if policy is not None:
        own = Assigned(_run, module, policy, policy.digest, own)
    if own is None:
        module.__dict__.pop("forward", None)
    else:
        module.__dict__["forward"] = own
