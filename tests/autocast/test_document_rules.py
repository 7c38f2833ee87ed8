"""Every sentence of the documents' rules, on each device: testing/samples/rules.py is the table.

A device that is not here is looked at through fake tensors, forward only: torch cannot record autograd on them.
"""

from collections.abc import Iterator

import pytest
from polycast import _compiled
from polycast.backends import device_type_of

from testing.probe import is_here, is_reachable, kernels_of, tensors_of
from testing.samples.rules import RULES, Check, Place, Rule
from testing.tally import Tally

CHECKED = [(rule, rule.check, device) for rule in RULES for device in rule.devices]


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The device under test, its kernels installed."""
    name: str = request.param
    if not is_reachable(name):
        pytest.skip(f"not even a fake tensor of {device_type_of(name)} carries its autocast key")
    with kernels_of(name):
        yield name


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest) -> Tally:
    tally = Tally("Sentences of the documents")
    request.config.pluginmanager.register(tally)
    return tally


@pytest.mark.parametrize(
    ("device", "rule", "check"),
    [pytest.param(device, rule, check, id=f"{device}-{check.__name__}") for rule, check, device in CHECKED],
    indirect=["device"],
    scope="module",
)
def test_a_rule_holds(device: str, rule: Rule, check: Check, tally: Tally) -> None:
    if rule.itself and not is_here(device):
        pytest.skip(f"fake tensors will not do, and there is no {device_type_of(device)} here")
    with tally.count(device), tensors_of(device):
        for lower in _compiled.DEVICES[device].lower_precision:
            for found, said in check(Place(device, lower)):
                assert found == said, f"{rule.sentence} ({', '.join(rule.documents)}), in {lower}"
