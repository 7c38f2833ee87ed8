"""The generated pages of ops, which list the rules of ``policy.yaml``. ``make docs`` builds and checks the site."""

from itertools import product

from polycast.policy.categories import UNLISTED

from docs import op_pages
from tests.support.cases import DEVICES


def test_the_pages_of_ops_have_a_line_for_each_rule_and_device() -> None:
    ops = op_pages.POLICY.ops
    told = [
        (name, device, line.category, line.torch)
        for op in ops
        for line in op_pages.lines(op)
        for name, device in product(line.names, line.devices)
    ]
    rules = [rule for op in ops for rule in op.rules]
    listed = {(rule.schema_name, rule.device, rule.category.value, str(rule.torch)) for rule in rules}
    assert {line for line in told if line[2] != UNLISTED} == listed
    assert {line[:2] for line in told} == {*product((rule.schema_name for rule in rules), DEVICES)}
