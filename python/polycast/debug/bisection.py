"""The result of a bisection: the rules that make a program bad, and a fix."""

import json
from dataclasses import dataclass
from typing import NamedTuple

from polycast._text_table import lines_of
from polycast.debug.candidate_policies import Switch
from polycast.policy.policy import Policy

_SHOWN = 8  # the fix refers to a policy with more rules as `found.policy`


class Culprit(NamedTuple):
    """A rule that makes the program bad, alone or together with the other rules of its group."""

    op: str
    module: str
    """The name of the module that calls the op, such as "encoder.0"; "" for the model itself, for calls outside of the
    model, and without a model."""
    good: str
    """The category in "good"; several, with commas, if the overloads or devices differ."""
    bad: str
    """The category in "bad", in the same form; if a region or a module has its own rule for the op, that rule."""
    group: int
    """The number of the rule's group. The rules of a group make the program bad only together."""


@dataclass(frozen=True)
class Bisection:
    """The rules that make a program bad, and a fix, which print as a table."""

    culprits: tuple[Culprit, ...]
    """The rules. Each group by itself makes the program bad. Without any one of its rules, the program is good. If an
    op such as "einsum" is unlisted in "bad", its rule stands for the rules of the ops that it runs, such as "bmm"."""
    policy: Policy
    """The "bad" policy with the rules of the fix that are not for modules, for :func:`polycast.use`."""
    modules: dict[str, Policy]
    """The policies that the fix assigns to modules, for :func:`polycast.assign`."""
    runs: int
    """The number of runs of the program."""
    switches: int
    """The number of ops whose rules differ between "good" and "bad", counted in each module that can have rules."""
    proved: bool
    """Whether the last run under the fix was good."""
    notes: tuple[str, ...]
    """Sentences that qualify the result."""

    @property
    def fix(self) -> str:
        """The code that applies the fix."""
        rules = {module: dict(policy.rules) for module, policy in self.modules.items()}
        policy = json.dumps(self.policy.rules) if len(self.policy) <= _SHOWN else "found.policy"
        calls = [f"polycast.use({policy})"] if self.policy or not rules else []
        return "; ".join([*calls, *([f"polycast.assign(model, {json.dumps(rules)})"] if rules else [])])

    def __str__(self) -> str:
        """Return the table, the fix, the number of runs and the notes."""
        groups: dict[int, list[str]] = {}
        for one in self.culprits:
            groups.setdefault(one.group, []).append(str(Switch(one.op, one.module)))
        rows: list[tuple[str, ...]] = [("op", "module", "good", "bad"), *(one[:4] for one in self.culprits)]
        if not any(one.module for one in self.culprits):
            rows = [(op, *categories) for op, _, *categories in rows]
        together = [" and ".join(names) for names in groups.values() if len(names) > 1]
        return "\n".join(
            [
                *lines_of(rows),
                "",
                *(f"{names} fail only together, so one of their rules is enough for a fix." for names in together),
                f"The fix, under which the last run was {'good' if self.proved else 'not good'}: {self.fix}",
                f"{self.runs} runs for {self.switches} rules that differ.",
                *self.notes,
            ]
        )
