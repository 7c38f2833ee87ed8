"""Files of rules for the modules of a model, which assign takes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import polycast
import pytest
import torch
from torch import nn

FILE = """\
'': {matmul: fp32}
encoder.0:
  linear: {cpu: fp32, others: bf16}
  torch.softmax: {as: fp32, note: its sum overflows in float16}
encoder.*: bf16
re:.*norm: {layer_norm: float16}
head: torch-2.11
outer: rules.yaml
old: null
older: ~
"""
RULES = {
    "": {"matmul": "fp32"},
    "encoder.0": {
        "linear": {"cpu": "fp32", "others": "bf16"},
        "torch.softmax": {"as": "fp32", "note": "its sum overflows in float16"},
    },
    "encoder.*": "bf16",
    "re:.*norm": {"layer_norm": "float16"},
    "head": "torch-2.11",
    "outer": "rules.yaml",
    "old": None,
    "older": None,
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.yaml").write_text("ops: {gelu: fp32}", encoding="utf-8")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.norm = nn.Sequential(nn.Linear(4, 4), nn.GELU()), nn.LayerNorm(4)
        self.head, self.outer, self.old, self.older = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.children():
            x = layer(x)
        return x @ x.mT


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_does_what_the_same_dict_does(kind: type) -> None:
    Path("modules.yaml").write_text(FILE, encoding="utf-8")
    net, other = Net(), Net()
    for one in (net, other):
        polycast.assign(one, {"old": "fp32", "older": "fp32"})
    assignment = polycast.assign(net, kind("modules.yaml"))
    expected = polycast.assign(other, RULES)
    assert dict(assignment) == dict(expected)
    assert [*assignment] == [
        "",
        "encoder.0",
        "encoder.1",
        "norm",
        "head",
        "outer",
    ]
    assert repr(polycast.assigned(net)) == repr(polycast.assigned(other))
    assert assignment["encoder.0"].rules["softmax"] == RULES["encoder.0"]["torch.softmax"]  # type: ignore[index]
    other.load_state_dict(net.state_dict())
    with polycast.autocast("cpu"):
        assert torch.equal(net(torch.ones(2, 4)), other(torch.ones(2, 4)))
    assignment.remove()
    assert [*polycast.assigned(net)] == ["old", "older"]


IN_MODULES = "polycast.assign(model, file) takes a file whose keys are the names of modules"
MODELS = f"error: 'models' is no op, and a policy holds no rules for modules; {IN_MODULES}"
# a file, and its problems
BAD = {
    "encoder.1: {gelu: fp23, sofmax: fp32}\nencodr: {gelu: fp32}\nnorm: [fp32]": (
        "bad.yaml: encoder.1.gelu: error: unknown category 'fp23'; did you mean 'fp32'?\n"
        "bad.yaml: encoder.1.sofmax: error: unknown op 'sofmax'; did you mean 'softmax'?\n"
        "bad.yaml: encodr: error: the model has no module 'encodr'; did you mean 'encoder'?\n"
        "bad.yaml: norm: error: the policy is ['fp32']; give a dict of rules, as in "
    ),
    "norm: {gelu: fp32}\nnorm: {gelu: bf16}": "bad.yaml:2:1: error: duplicate key 'norm', first on line 1; keep one of",
    "norm:": "bad.yaml: norm: error: unknown category, release or file ''",
    "*: fp32": "bad.yaml:1:2: error: broken YAML",
    "fp32": "bad.yaml:1:1: error: the file is no mapping; give it one from modules to their rules, as in encoder.0: {",
    "": "bad.yaml:1:1: error: the file is empty; give it the key of a module at least",
    "linear: fp32": "bad.yaml: linear: error: the model has no module 'linear'; it is an op: for the whole model write",
    "models: {Net: {norm: {layer_norm: fp32}}}": (
        "bad.yaml:1:1: error: the model has no module 'models'; the keys of the file are those of "
        "polycast.assign(model, file): the names of modules in this model"
    ),
    "ops: {layer_norm: fp32}": (
        "bad.yaml:1:1: error: the model has no module 'ops'; give a file of rules for ops to the whole model: "
        "polycast.assign(model, {'': file})"
    ),
}


@pytest.mark.parametrize("text", BAD)
def test_every_problem_of_a_file_has_its_place(text: str) -> None:
    Path("bad.yaml").write_text(text, encoding="utf-8")
    net = Net()
    with pytest.raises(polycast.PolicyError, match=f"^{re.escape(BAD[text])}"):
        polycast.assign(net, "bad.yaml")
    assert not polycast.assigned(net)


def test_a_missing_file_is_a_problem() -> None:
    text = r"^no\.yaml:1:1: error: cannot be read: no such file or directory; name a readable file$"
    with pytest.raises(polycast.PolicyError, match=text):
        polycast.assign(Net(), "no.yaml")


def test_a_module_may_be_called_models() -> None:
    Path("modules.yaml").write_text("models: {linear: fp32}", encoding="utf-8")
    net = nn.Sequential()
    net.models = nn.Linear(2, 2)
    assert [*polycast.assign(net, "modules.yaml")] == ["models"]


@pytest.mark.parametrize("text", ["models: {Net: {norm: fp32}}", "ops: {mm: fp32}\nmodels: {}"])
def test_a_policy_takes_no_rules_for_modules(text: str) -> None:
    Path("models.yaml").write_text(text, encoding="utf-8")
    before = polycast.policy.in_force()
    for take in (
        polycast.use,
        polycast.Policy,
        polycast.Policy.load,
        lambda path: polycast.autocast("cpu", policy=path),
    ):
        with pytest.raises(polycast.PolicyError, match=re.escape(MODELS)):
            take("models.yaml")
    with pytest.raises(polycast.PolicyError, match=re.escape(f"Policy: models: {MODELS}")):
        polycast.use({"models": {"Net": {"norm": "fp32"}}})
    assert polycast.policy.in_force() == before
    words = [sys.executable, "-c", "import polycast"]
    environment = os.environ | {"POLYCAST_POLICY": "models.yaml"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and MODELS in done.stderr
