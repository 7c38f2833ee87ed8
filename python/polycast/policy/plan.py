"""Plans as values: the rules of the process, and those of the modules of models."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from polycast._grammar.errors import Location, PolicyError, Problem
from polycast._grammar.nodes import Node
from polycast.policy.plan_reader import read_plan
from polycast.policy.plan_reader import shown as shown  # for others
from polycast.policy.policy import Policy, PolicyLike
from polycast.policy.sources import is_file
from polycast.policy.values import nodes_of
from polycast.policy.writing import TITLES, table_of_modules, write


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Plan:
    """The rules of a file: those of the process, and those of modules, by the class of the model that they are in.

    A model is an outermost module: one that is called while no other module's forward runs. Its rules hold for each
    instance of the class. A plan does not change, and equals every plan with the same rules. ``one | other`` joins two,
    and the rules of the other decide.

    Args:
        ops: The rules of the process, or what :class:`polycast.Policy` takes.
        models: The rules of modules, by the name of the model's class and the key that :func:`polycast.assign` takes
            for modules: a name, "" for the model itself, a glob, or "re:" and a regular expression. The rules are what
            :class:`polycast.Policy` takes.

    Raises:
        PolicyError: A ``ValueError`` with every problem of the rules.
        TypeError: The models are no mapping of mappings.

    Example:
        >>> import polycast
        >>> plan = Plan(polycast.Policy({"softmax": "fp32"}), {"Net": {"encoder.0": {"linear": "fp32"}}})
        >>> plan.models["Net"]["encoder.0"]
        Policy({'linear': 'fp32'})
        >>> print(plan)
        module         op       device  category  from
                       softmax  all     fp32      Policy: softmax
        Net.encoder.0  linear   all     fp32      Policy: linear
    """

    ops: Policy
    """The rules of the process."""
    models: Mapping[str, Mapping[str, Policy]]
    """The rules of modules, by the class of the model and the key of the modules in it."""

    def __init__(self, ops: PolicyLike = None, models: Mapping[str, Mapping[str, PolicyLike]] | None = None) -> None:
        given = {} if models is None else models
        if not isinstance(given, Mapping) or not all(isinstance(one, Mapping) for one in given.values()):
            example = "give a mapping of mappings, as in {'Net': {'lm_head': 'fp32'}}"
            raise TypeError(f"the models are {given!r:.60}; {example}")
        problems: list[Problem] = []
        held: dict[str, Mapping[str, Policy]] = {}
        for model, keys in given.items():
            made = {name: _policy(rules, f"models.{model}.{name}", problems) for name, rules in keys.items()}
            if any(made.values()):
                held[model] = {name: policy for name, policy in made.items() if policy}
        object.__setattr__(self, "ops", _policy(ops, "ops", problems))
        object.__setattr__(self, "models", held)
        if problems:
            raise PolicyError(problems)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Plan":
        """Return the plan of a YAML file, which has rules under the key `ops`, and those of modules under `models`.

        Raises:
            PolicyError: The file cannot be read, or has problems: all of them, each with its place and remedy.
        """
        from polycast._grammar.files import load  # needs PyYAML

        problems: list[Problem] = []
        return cls._read(load(Path(path), os.fspath(path), problems), problems)

    @classmethod
    def of(cls, value: "PlanLike") -> "Plan":
        """Return the plan that a value stands for: a plan, a file, a dict in the form of a file, or a policy's."""
        if isinstance(value, Plan):
            return value
        if isinstance(value, str | os.PathLike) and is_file(value):
            return cls.load(value)
        if isinstance(value, Mapping) and not isinstance(value, Policy) and "models" in value:
            problems: list[Problem] = []
            return cls._read(nodes_of(value, problems), problems)
        return cls(Policy(value))

    @classmethod
    def _read(cls, root: Node | None, problems: list[Problem]) -> "Plan":
        ops, models = read_plan(root, problems)
        found = {model: {name: Policy._of(held) for name, held in rules.items()} for model, rules in models.items()}
        return cls(Policy._of(ops), found)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rules and their notes to a YAML file, from which :meth:`load` returns an equal plan."""
        models = {model: {name: policy.rules for name, policy in held.items()} for model, held in self.models.items()}
        write({"ops": self.ops.rules} | ({"models": models} if models else {}), path)

    @property
    def digest(self) -> str:
        """What the plan does as 16 hexadecimal digits, the same in every process."""
        content = sorted((model, name, policy.digest) for model, name, policy in self.by_module() if policy)
        return sha256(repr((self.ops.digest, content)).encode()).hexdigest()[:16]

    def by_module(self) -> Iterator[tuple[str, str, Policy]]:
        """Yield the rules of modules, each with the class of the model and the key of the modules."""
        for model, held in self.models.items():
            for name, policy in held.items():
                yield model, name, policy

    def __or__(self, other: "PlanLike") -> "Plan":
        """Return both joined. Where both have a rule, the other's decides."""
        joined = {model: dict(held) for model, held in self.models.items()}
        plan = Plan.of(other)
        for model, name, policy in plan.by_module():
            held = joined.setdefault(model, {})
            held[name] = held.get(name, Policy()) | policy
        return Plan(self.ops | plan.ops, joined)

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __bool__(self) -> bool:
        return bool(self.ops or self.models)

    def __repr__(self) -> str:
        return f"Plan({self.ops!r}, {self.models!r})"

    def __str__(self) -> str:
        """Return a table of the rules, each with the place that it comes from."""
        modules = {"": self.ops} | {shown(model, name): policy for model, name, policy in self.by_module()}
        return table_of_modules({name: policy.by_overload().cells() for name, policy in modules.items()}, *TITLES)


PlanLike: TypeAlias = "Plan | PolicyLike"


def _policy(rules: Any, path: str, problems: list[Problem]) -> Policy:
    try:
        return Policy(rules)
    except PolicyError as error:
        for problem in error.problems:
            inside = f"{path}.{problem.location.path}"
            location = replace(problem.location, path=inside) if problem.location.path else problem.location
            problems.append(replace(problem, location=location))
    except (ValueError, TypeError) as error:
        what, _, remedy = str(error).partition("; ")
        problems.append(Problem(Location("Plan", len(problems), 0, path), what, remedy))
    return Policy()
