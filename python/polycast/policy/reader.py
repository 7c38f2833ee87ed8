"""Reads nodes as rules, and reports every problem."""

from itertools import product

import torch

from polycast import backends
from polycast._compiled import ALSO_CALLED, DEVICES_LIKE
from polycast._grammar.casts import Alternative, CastReader
from polycast._grammar.categories import UNLISTED, Category, Signature
from polycast._grammar.errors import Problem, closest
from polycast._grammar.nodes import Mapping, Node, Text
from polycast._grammar.versions import Version
from polycast.policy import operators
from polycast.policy.operators import Target
from polycast.policy.rules import VALUES, Rule, not_a_category

_MAJOR, _MINOR = map(int, torch.__version__.split(".")[:2])
RELEASE: Version = (_MAJOR, _MINOR)  # the torch that runs
IMPORT_FIRST = "import the library that registers it first"


class PolicyReader(CastReader):
    """Reads rules. A rule that names an overload decides over one that names its op.

    Args:
        problems: A list to which problems are added.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems, DEVICES_LIKE, VALUES, RELEASE)

    def policy(self, root: Node) -> tuple[Rule, ...]:
        """Return the rules of a dict or a file, which stand under `ops` or by themselves."""
        for key, _ in root.items if isinstance(root, Mapping) else ():
            if key.value == "models":
                remedy = "polycast.assign(model, file) takes a file whose keys are the names of modules"
                self.report(key.location, "'models' is no op, and a policy holds no rules for modules", remedy)
                return ()
        if isinstance(root, Mapping) and all(key.value != "ops" for key, _ in root.items):
            return self.rules(root)
        ops = (self.fields(root, "the policy", ("ops",), ("ops",)) or {}).get("ops")
        if ops is not None and not isinstance(ops, Mapping):
            self.report(ops.location, "ops is no mapping", "give it one, as in {softmax: fp32}")
        return self.rules(ops) if isinstance(ops, Mapping) else ()

    def rules(self, rules: Mapping) -> tuple[Rule, ...]:
        """Return all rules. Where two keys give an overload the same, the rule of the later one is left out."""
        ranks: dict[bool, dict[tuple[str, str, str], tuple[Text, Rule]]] = {False: {}, True: {}}
        for key, node in rules.items:
            targets = self.targets(key) if self.holds_here(node) else ()
            exact = any(target.overload for target in targets)
            rank, remedy = ranks[exact], "keep one of them"
            if not exact:
                remedy += ", or name an overload in the one that is to decide"
            disagreements: dict[str, str] = {}
            for rule in self.rule(key, targets, node):
                other, earlier = rank.setdefault(rule.key, (key, rule))
                if earlier.category != rule.category:
                    what = f"'{key.value}' gives '{rule.name}' {rule.category} on {rule.device}, and '{other.value}'"
                    disagreements.setdefault(other.value, f"{what} ({other.location}) gives it {earlier.category}")
            for what in disagreements.values():
                self.report(key.location, what, remedy)
        chosen = sorted((ranks[False] | ranks[True]).values(), key=lambda pair: pair[0].location)
        return tuple(rule for _, rule in chosen)

    def rule(self, key: Text, targets: tuple[Target, ...], node: Node) -> list[Rule]:
        """Return the rules of a key.

        Overloads that cannot be cast as the value says are left out. It is a problem if no overload can, on any device
        or on one that the value names.
        """
        parts = [(target.op, *item) for target in targets for item in self.overloads(key, target).items()]
        casts = self.read_casts(key, node, sorted({overload for _, overload, _ in parts}))
        rules: dict[Node, list[Rule]] = {}
        obstacles: dict[Node, dict[str, tuple[str, str]]] = {}
        for (op, overload, signature), (device, alternatives) in product(parts, casts.items()):
            cast = self.first(alternatives, overload)
            if cast is None:
                continue
            rule = Rule(op, overload, device, cast.category or UNLISTED, cast.note or "", str(cast.node.location))
            obstacle = operators.obstacle(Target(op, overload), signature, VALUES[rule.category][0], device)
            if obstacle is None:
                rules.setdefault(cast.node, []).append(rule)
            else:
                what, remedy = obstacle
                reason = (f"'{rule.name}' is {rule.category} and {what}", remedy)
                obstacles.setdefault(cast.node, {}).setdefault(device, reason)
        named = {name.value for name, _ in node.items} if isinstance(node, Mapping) else set()
        for place, reasons in obstacles.items():
            reached = {rule.device for rule in rules.get(place, ())}
            missed = [device for device in reasons if not reached or (device in named and device not in reached)]
            if missed:
                self.report(place.location, *reasons[missed[0]])
        return [rule for part in rules.values() for rule in part]

    def device(self, node: Text) -> str | None:
        """Read a device of the policy, or the name that a backend outside of torch has registered."""
        if node.value not in self.like and node.value in backends.device_types():
            return backends.device_of(node.value)
        meant = ALSO_CALLED.get(node.value.lower())
        if meant is not None and node.value not in self.like:
            self.report(node.location, f"unknown device '{node.value}'", f"did you mean '{meant}'?")
            return None
        return super().device(node)

    def category(self, node: Node) -> str | None:
        """Read a category. No rule brings torch's own kernel back."""
        if isinstance(node, Text) and node.value == Category.STOCK.value:
            self.report(node.location, *not_a_category(node.value))
            return None
        return super().category(node)

    def targets(self, key: Text) -> tuple[Target, ...]:
        found, name = operators.targets(key.value), operators.written_out(key.value)
        op = operators.shown(name)
        if not found and "::" in op:
            what = f"no library has registered an operator '{key.value}'"
            others = (other for other in operators.known() if "::" in other)
            close = closest(op, others) if self.may_guess else None
            self.report(key.location, what, IMPORT_FIRST + (f", or did you mean '{close}'?" if close else ""))
        elif not found and operators.is_public(name):
            what = f"'{key.value}' is no op, and the policy does not say which ops it runs"
            self.report(key.location, what, operators.suggest_ops("name those ops", key.value))
        elif not found:
            self.report_unknown(key.location, f"unknown op '{key.value}'", op, operators.known())
        return found

    def overloads(self, key: Text, target: Target) -> dict[str, Signature]:
        """Return the overloads that a key covers."""
        known = operators.signatures(target.op)
        found = operators.castable(known) if target.overload is None else known
        if target.overload is None and not found:
            # The out variant of an op says less than its others do.
            first = min(known.values(), key=lambda part: part.variant == "out")
            reason = first.uncastable()
            assert reason is not None  # none of them can be cast
            self.report(key.location, f"'{target}' {reason[0]}", reason[1])
        elif target.overload is not None and target.overload not in found:
            what = f"'{target.op}' has no overload '{target.overload}'"
            self.report_unknown(key.location, what, target.overload, found)
        return {name: part for name, part in found.items() if target.overload in (None, name)}

    def first(self, alternatives: list[Alternative], overload: str) -> Alternative | None:
        """Return the first alternative for an overload that holds in the torch that runs."""
        for cast in alternatives:
            if RELEASE in cast.torch and (cast.overloads is None or overload in cast.overloads):
                return cast
        return None
