"""Every sentence of the documents that promises something, on each device; samples/sentences.py has the table.

A device that is not here is looked at through fake tensors, forward only: torch cannot record autograd on them.
"""

from collections.abc import Iterator

import pytest
from polycast import _compiled
from polycast.backends import device_type_of

from tests.support.probe import is_here, is_reachable, kernels_of, tensors_of
from tests.support.samples.sentences import SENTENCES, Check, Place, Sentence
from tests.support.tally import Tally

CHECKED = [(sentence, sentence.check, device) for sentence in SENTENCES for device in sentence.devices]


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
    ("device", "sentence", "check"),
    [pytest.param(device, sentence, check, id=f"{device}-{check.__name__}") for sentence, check, device in CHECKED],
    indirect=["device"],
    scope="module",
)
def test_a_sentence_holds(device: str, sentence: Sentence, check: Check, tally: Tally) -> None:
    if sentence.itself and not is_here(device):
        pytest.skip(f"fake tensors will not do, and there is no {device_type_of(device)} here")
    with tally.count(device), tensors_of(device):
        for lower in _compiled.DEVICES[device].lower_precision:
            for found, said in check(Place(device, lower)):
                assert found == said, f"{sentence.sentence} ({', '.join(sentence.documents)}), in {lower}"
