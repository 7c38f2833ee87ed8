"""Reads files with rules for modules."""

from typing import TypeAlias

from polycast._grammar.categories import canonical
from polycast._grammar.errors import PolicyError, Problem
from polycast._grammar.nodes import Mapping, Node, Text
from polycast.policy.reader import MODELS, PolicyReader
from polycast.policy.releases import is_release, releases, rules_of
from polycast.policy.rules import VALUES, Rule, not_a_category
from polycast.policy.sources import rules_for_all

Models: TypeAlias = dict[str, dict[str, tuple[Rule, ...]]]
_EXAMPLE = "as in {encoder.0: {linear: fp32}, '': {softmax: fp32}}"


def read_plan(root: Node | None, problems: list[Problem]) -> tuple[tuple[Rule, ...], Models]:
    """Return the rules of a file's root node: those for ops, and those for modules.

    Raises:
        PolicyError: There are problems.
    """
    found = PlanReader(problems).plan(root) if root is not None else ((), {})
    if problems:
        raise PolicyError(problems)
    return found


def shown(model: str, name: str) -> str:
    """Return a key of modules as people read it, in the words of a trace: "Net.encoder.0"."""
    return f"{model}.{name}" if name else model


class PlanReader(PolicyReader):
    """Reads rules for ops, and for the modules of models. It reports every problem of both."""

    keys = ("ops", MODELS)

    def plan(self, root: Node) -> tuple[tuple[Rule, ...], Models]:
        """Return the rules that stand under `ops`, or by themselves, and those under `models`."""
        nodes = {key.value: node for key, node in root.items} if isinstance(root, Mapping) else {}
        if MODELS not in nodes:
            return self.policy(root), {}
        assert isinstance(root, Mapping)
        rest = Mapping(tuple(item for item in root.items if item[0].value != MODELS), root.location)
        return self.policy(rest) if rest.items else (), self.models(nodes[MODELS])

    def models(self, node: Node) -> Models:
        """Return the rules of modules, by the class of the model and the key of the modules."""
        found: Models = {}
        for model, value in self._items(node, "models", "the class of a model to its modules and their rules"):
            if not model.value.isidentifier():
                what, (name, dot, inner) = f"'{model.value}' is no name of a class", model.value.partition(".")
                whole = f"write {name.partition('#')[0]}, whose rules hold for each instance"
                inside = f"write {name}: {{{inner}: ...}}" if dot else whole
                self.report(model.location, what, inside)
                continue
            modules = self._items(value, f"model '{model.value}'", f"modules to their rules, {_EXAMPLE}")
            found[model.value] = {name.value: self.module(name, rules) for name, rules in modules}
        return found

    def module(self, name: Text, node: Node) -> tuple[Rule, ...]:
        """Return the rules of a module: those of a mapping, or of a release, or one category for every op."""
        if isinstance(node, Mapping):
            return self.rules(node)
        if isinstance(node, Text) and canonical(node.value) in VALUES:
            return rules_for_all(canonical(node.value))
        if isinstance(node, Text) and node.value in releases():
            return tuple(rules_of(releases()[node.value]))
        if isinstance(node, Text) and is_release(node.value):
            self.report(node.location, f"no release '{node.value}' is recorded", f"use one of {', '.join(releases())}")
        elif isinstance(node, Text) and node.value:
            self.report(node.location, *not_a_category(node.value))
        else:
            what = f"module '{name.value}' has no rules"
            self.report(node.location, what, "give it some, as in {linear: fp32}, or a category for every op")
        return ()

    def _items(self, node: Node, what: str, remedy: str) -> tuple[tuple[Text, Node], ...]:
        if isinstance(node, Mapping):
            return node.items
        self.report(node.location, f"{what} is no mapping", f"give it one from {remedy}")
        return ()
