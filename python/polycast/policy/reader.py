"""Reads nodes as rules, and reports every problem."""

from itertools import product

import torch

from polycast import backends
from polycast._compiled import ALSO_CALLED, DEVICES_LIKE
from polycast._grammar.casts import Alternative, CastReader
from polycast._grammar.categories import UNLISTED, Category, Signature, canonical
from polycast._grammar.errors import Problem, closest
from polycast._grammar.nodes import Mapping, Node, Text
from polycast._grammar.versions import Version
from polycast.policy import operators
from polycast.policy.operators import Target
from polycast.policy.rules import VALUES, Rule, not_a_category

_MAJOR, _MINOR = map(int, torch.__version__.split(".")[:2])
RELEASE: Version = (_MAJOR, _MINOR)  # the torch that runs
# What files and arguments of other packages have beside rules.
NOT_RULES = {
    "base": "join two policies, as in Policy('torch-2.11') | Policy({'softmax': 'fp32'})",
    "modules": "polycast.assign gives rules to modules; a file has them under 'models'",
    "models": "polycast.use and polycast.assign take them",
}
MODELS = "models"  # what a file has beside `ops`, for polycast.use and polycast.assign
IMPORT_FIRST = "import the library that registers it first"
# What policy.yaml has beside its ops.
_OF_BUILT_IN = ("devices", "categories", "documents", "composites")


class PolicyReader(CastReader):
    """Reads rules. A rule that names an overload decides over one that names its op.

    Args:
        problems: A list to which problems are added.
    """

    keys: tuple[str, ...] = ("ops",)
    """What a file may have."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems, DEVICES_LIKE, VALUES, RELEASE)

    def policy(self, root: Node) -> tuple[Rule, ...]:
        """Return the rules of a dict or a file, which stand under `ops` or by themselves."""
        if self.is_built_in(root):
            return ()
        if isinstance(root, Mapping) and all(key.value != "ops" for key, _ in root.items):
            return self.rules(root)
        if isinstance(root, Mapping):
            kept = (item for item in root.items if item[0].value not in NOT_RULES or not self.report_misplaced(*item))
            root = Mapping(tuple(kept), root.location)
        ops = (self.fields(root, "the policy", self.keys, ("ops",)) or {}).get("ops")
        if ops is not None and not isinstance(ops, Mapping):
            self.report(ops.location, "ops is no mapping", "give it one, as in {softmax: fp32}")
        return self.rules(ops) if isinstance(ops, Mapping) else ()

    def rules(self, rules: Mapping) -> tuple[Rule, ...]:
        """Return all rules. Where two keys give an overload the same, the rule of the later one is left out."""
        if self.is_built_in(rules):
            return ()
        ranks: dict[bool, dict[tuple[str, str, str], tuple[Text, Rule]]] = {False: {}, True: {}}
        for key, node in rules.items:
            if self.report_misplaced(key, node):
                continue
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

    def report_misplaced(self, key: Text, node: Node) -> bool:
        """Report a device, a category, a pattern or a title where an op must stand; return whether it is one."""
        if operators.targets(key.value):
            return False
        device = ALSO_CALLED.get(key.value.lower(), key.value)
        inner = [name.value for name, _ in node.items] if isinstance(node, Mapping) else []
        if key.value in NOT_RULES:
            what = "has rules for modules, which a policy cannot hold" if key.value == MODELS else "is no op"
            remedy = NOT_RULES[key.value]
        elif "*" in key.value:
            what, remedy = (
                "is a pattern, which ops do not have",
                "name each op",
            )
        elif device in self.like or device in backends.device_types():
            what, remedy = "is a device", f"write the op first, as in softmax: {{{device}: fp32}}"
        elif canonical(key.value) in self.categories:
            what, remedy = "is a category", f"write the op first, as in softmax: {canonical(key.value)}"
        elif any(operators.targets(name) for name in inner):
            what, remedy = "is no op, and has rules for ops", "put these under 'ops', or give them alone"
        else:
            return False
        self.report(key.location, f"'{key.value}' {what}", remedy)
        return True

    def is_built_in(self, node: Node) -> bool:
        """Report once that a mapping has the form of policy.yaml, which only the build reads, or of a record."""
        items = node.items if isinstance(node, Mapping) else ()
        if any(key.value == "recorded" for key, _ in items):
            what = "this is the record of a torch release, and no rules"
            self.report(node.location, what, "use the release by its name, as in polycast.Policy('torch-2.12')")
            return True
        for key, value in items:
            inner = {name.value for name, _ in value.items} if isinstance(value, Mapping) else set()
            if "cast" in inner or (isinstance(value, Mapping) and key.value in _OF_BUILT_IN):
                what = f"'{key.value}' is as the built-in policy has it, which the build reads, and no rule over that"
                self.report(key.location, what, "give what its `cast` says of the ops that differ, as in softmax: fp32")
                return True
        return False

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
        elif not found and any(map(str.isdigit, key.value.split("."))):
            remedy = f"polycast.assign(model, {{'{key.value}': ...}}) gives rules to modules"
            self.report(key.location, f"'{key.value}' names a module, and no op", remedy)
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
