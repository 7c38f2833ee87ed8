"""Every rule of every op list in the documents, called by its public names in a region: does it keep its promise?"""

import pytest

from tests.support.samples.documented import RULES, DocumentedRule, check


@pytest.mark.parametrize(
    ("device", "rule"),
    [pytest.param(rule.device, rule, id=str(rule)) for rule in RULES],
    indirect=["device"],
    scope="module",
)
@pytest.mark.usefixtures("device")
@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
def test_a_documented_rule_holds(rule: DocumentedRule) -> None:
    check(rule)
