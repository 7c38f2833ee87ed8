"""Every sentence of the documents' rules, on each device: testing/samples/rules.py is the table.

A device that is not here is looked at through fake tensors, forward only: torch cannot record autograd on them.
"""

from collections.abc import Iterator

import pytest
from polycast import _compiled

from testing.probe import device_type, is_here, is_reachable, kernels_of, tensors_of
from testing.samples.rules import RULES, Check, Place, Rule
from testing.tally import Tally

CHECKED = [(rule, rule.check, column) for rule in RULES for column in rule.devices]


@pytest.fixture(scope="module")
def column(request: pytest.FixtureRequest) -> Iterator[str]:
    """The column under test, its kernels installed."""
    name: str = request.param
    if not is_reachable(name):
        pytest.skip(f"not even a fake tensor of {device_type(name)} carries its autocast key")
    with kernels_of(name):
        yield name


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest) -> Tally:
    tally = Tally("Sentences of the documents")
    request.config.pluginmanager.register(tally)
    return tally


@pytest.mark.parametrize(
    ("column", "rule", "check"),
    [pytest.param(column, rule, check, id=f"{column}-{check.__name__}") for rule, check, column in CHECKED],
    indirect=["column"],
    scope="module",
)
def test_a_rule_holds(column: str, rule: Rule, check: Check, tally: Tally) -> None:
    if rule.itself and not is_here(column):
        pytest.skip(f"fake tensors will not do, and there is no {device_type(column)} here")
    with tally.count(column), tensors_of(column):
        for lower in _compiled.DEVICES[column].lower_precision:
            for found, said in check(Place(column, lower)):
                assert found == said, f"{rule.sentence} ({', '.join(rule.documents)}), in {lower}"
