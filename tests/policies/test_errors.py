"""The errors of policies, and of assignments to modules; ``errors.txt`` has their texts."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polycast
import pytest
import torch
from polycast.policy.diff import diff
from torch import nn

import tests.policies.library  # noqa: F401
from tests.support.recorded_errors import RecordedError

# These names are of type `Any`, because most arguments below have wrong types.
Policy: Any = polycast.Policy
use: Any = polycast.use


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.encoder, self.attention = nn.Sequential(nn.Linear(4, 4), nn.GELU()), nn.MultiheadAttention(8, 2)
        self.layers = nn.ModuleList([nn.Linear(8, 8)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


NET = Net()


def assign(rules: Any, model: Any = NET) -> None:
    polycast.assign(model, rules)


def file(text: str) -> Path:
    path = Path("mine.yaml")
    path.write_text(text, encoding="utf-8")
    return path


def load(text: str) -> None:
    Policy.load(file(text))


ITSELF: dict[str, object] = {"sofmax": "fp32"}
ITSELF["softmax"] = ITSELF
BOTH = {"cuda": "fp32", "cpu": "fp32"}
WRONG_VALUES = {"cuda": "fp23", "cudo": "fp32", "cpu": {"as": "fp32"}}
ERRORS: dict[str, Callable[[], object]] = {
    # These keys do not name an op.
    "an unknown op": lambda: Policy({"sofmax": "fp32"}),
    "a device instead of an op": lambda: Policy({"xpuu": {"cpu": "bf16"}}),
    "the beginning of several names": lambda: Policy({"conv": "fp32", "conv_trans": "fp32"}),
    "several similar names": lambda: Policy({"gleu": "fp32", "aten::gelo": "fp32"}),
    "public names that are not ops": lambda: Policy(
        dict.fromkeys(("torch.nn.Transformer", "nn.Parameter", "gumbel_softmax"), "fp32")
    ),
    "operators that no library registers": lambda: Policy({"nobody::asked": "fp32", "torch.ops.nobody.else": "fp32"}),
    "a misspelled custom operator": lambda: Policy({"library::atention": "fp32"}),
    "an unknown overload": lambda: Policy({"pow.Tensor_Scaler": "fp32"}),
    "objects that are not ops": lambda: Policy({torch.nn.Transformer: "fp32", len: "fp32"}),
    "keys that name no op": lambda: Policy({3: "fp32", None: "fp32", "softmax": {torch.half: "fp32", (): "fp32"}}),
    "a key of several lines": lambda: Policy({"soft\nmax": "fp32"}),
    # These rules are invalid.
    "three problems of a value": lambda: Policy({"softmax": WRONG_VALUES}),
    "unknown devices": lambda: Policy({"softmax": dict.fromkeys(("gpu", "ROCm", "xpuu", "CUDA"), "fp32")}),
    "PyTorch's own kernel": lambda: Policy({"softmax": "stock"}),
    "a rule of a dtype that no rule casts to": lambda: Policy({"softmax": torch.int8}),
    "values of other types": lambda: Policy({"softmax": None, "relu": 3, "gelu": {"cuda": [b"fp32"]}, "exp": {1}}),
    "a value in itself": lambda: Policy(ITSELF),
    # These categories do not fit their ops.
    "promotion of one tensor": lambda: Policy({"relu": "promote"}),
    "no argument for a dtype": lambda: Policy({"torch.nn.ReLU": {"cpu": "fp32_set_opt_dtype"}}),
    "no overload for a dtype": lambda: Policy({"library::attention": "fp32_append_dtype"}),
    "overloads that write": lambda: Policy(dict.fromkeys(("relu_", "add_.Tensor", "add.out", "library::fill"), "fp32")),
    "a kernel written by hand": lambda: Policy({"_cudnn_rnn": BOTH, "torch.nn.LSTM": {"cuda": "fp32"}}),
    "ops without a tensor": lambda: Policy({"ones": "fp32", "arange.start": {"cuda": "fp32"}}),
    "ops that return views": lambda: Policy({"squeeze": "fp32", "reshape": "fp16", "chunk": {"cuda": "promote"}}),
    # These rules contradict each other.
    "an op and its public name": lambda: Policy({"softmax": "fp32", "torch.softmax": {"cpu": "bfloat16"}}),
    "an op and its composite": lambda: Policy({"nn.CrossEntropyLoss": "fp32", "log_softmax": {"mps": "input_dtype"}}),
    "two spellings of an overload": lambda: Policy({"pow.Scalar": "fp32", "aten::pow.Scalar": "input_dtype"}),
    # These arguments are not policies.
    "an unknown category": lambda: Policy("fp23"),
    "an unknown dtype": lambda: Policy("bf61"),
    "a misspelled release": lambda: Policy("torch2.1l"),
    "the beginning of several releases": lambda: Policy("2.1"),
    "a release that is not recorded": lambda: Policy("torch-2.16"),
    "a release before the first": lambda: Policy("torch-2.8"),
    "a bugfix release": lambda: Policy("torch-2.12.1"),
    "a missing file": lambda: Policy("no.yaml"),
    "a missing file whose name begins with a digit": lambda: Policy("7b.rules"),
    "an op": lambda: Policy("softmax"),
    "a dtype that no rule casts to": lambda: Policy(torch.int8),
    "pairs": lambda: Policy([("softmax", "fp32")]),
    "a number": lambda: Policy(3),
    # These policy files are invalid.
    "file: unknown names": lambda: load("ops:\n  sofmax: fp32\n  softmax: {cuda: fp23, cpu: {as: fp32}}"),
    "file: more than rules": lambda: load("ops: {softmax: fp32}\nmodules: {encoder: {linear: fp32}}"),
    "file: a list of rules": lambda: load("ops: [softmax]"),
    "file: an empty file": lambda: load(""),
    "file: broken YAML": lambda: load("ops: {softmax: fp32\n"),
    "file: a wrong indentation": lambda: load("ops:\n  softmax: fp32\n   linear: fp32"),
    "file: ops that are not indented": lambda: load("ops:\nsoftmax: fp32"),
    "file: an op twice": lambda: load("ops:\n  softmax: fp32\n  softmax: {cuda: bf16}"),
    "file: a device twice": lambda: load("softmax: {cuda: fp32, cuda: bf16}"),
    "file: a key that is a list": lambda: load("softmax: {[cuda, cpu]: fp32}"),
    "file: no space after a colon": lambda: load("ops:\n  softmax:fp32"),
    "file: a date": lambda: load("softmax: 2026-99-99"),
    "file: lists in lists": lambda: load("softmax: " + "[" * 2000),
    "file: two documents": lambda: load("softmax: fp32\n---\nlinear: fp32"),
    # These assignments to modules are invalid.
    "assign: an unknown module": lambda: assign({"d": "fp32"}),
    "assign: a misspelled module": lambda: assign({"encodr": {"gelu": "fp32"}}),
    "assign: an op": lambda: assign({"linear": "fp32"}),
    "assign: a pattern that matches nothing": lambda: assign({"re:x.*": "fp32"}),
    "assign: a glob that matches nothing": lambda: assign({"x.*": "fp32"}),
    "assign: a broken pattern": lambda: assign({"re:(": "fp32"}),
    "assign: a class that the model lacks": lambda: assign({nn.Conv2d: "fp32"}),
    "assign: a tuple": lambda: assign({(nn.GELU,): "fp32"}),
    "assign: a module of another model": lambda: assign({nn.Linear(2, 2): "fp32"}),
    "assign: unknown categories": lambda: assign({"a": "fp23", "b": "stock"}),
    "assign: an unknown category for the model": lambda: assign("disabled"),
    "assign: an unknown op": lambda: assign({"a": {"linera": "fp32"}}),
    "assign: problems": lambda: assign({"d": {"linera": "fp32", "relu": "fp23"}, "a": 3, 3: "fp32", "re:[ab]": None}),
    "assign: a sequence": lambda: assign(["a"]),
    "assign: weights that another module reads": lambda: assign({"attention.out_proj": "fp32"}),
    "assign: a module whose reader has other rules": lambda: assign({"re:.*proj": "fp32", "attention": "bfloat16"}),
    "assign: a list": lambda: assign({"layers": "fp32"}),
    "assign: a list by a pattern": lambda: assign({"re:layers|attention": "fp32"}),
    "assign: a missing file": lambda: assign("no.yaml"),
    "assign: a wrong file for a module": lambda: assign({"a": file("ops:\n  softmaxx: fp32")}),
    "assign: the arguments swapped": lambda: assign(NET, {"linear": "fp32"}),
    "assign: a class": lambda: assign("fp32", nn.Linear),
    # These assignment files are invalid.
    "assign: problems in a file": lambda: assign(file("a: {gelu: fp23, sofmax: fp32}\nd: {gelu: fp32}\nb: [fp32]")),
    "assign: a number in a file": lambda: assign(file("norm: 1")),
    "assign: a text": lambda: assign(file("fp32")),
    "assign: an empty file": lambda: assign(file("")),
    "assign: an op in a file": lambda: assign(file("linear: fp32")),
    "assign: a file of models": lambda: assign(file("models: {Net: {norm: {layer_norm: fp32}}}")),
    "assign: a file of rules for ops": lambda: assign(file("ops: {layer_norm: fp32}")),
    # These other calls have wrong arguments.
    "a number for use": lambda: use(3),
    "a policy's rule of another op": lambda: Policy({"softmax": "fp32"})["gelu"],
    "a number for a release": lambda: polycast.policy.category("mm", "cpu", torch=2.11),  # type: ignore
    "an unknown release": lambda: polycast.policy.category("mm", "cpu", torch="2.99"),
    "the rules of an unknown overload": lambda: polycast.policy.category("softmax.intt", "cpu"),
    "the category of several ops": lambda: polycast.policy.category("torch.nn.LSTM", "cuda"),
    "an unknown device": lambda: Policy().category("softmax", "gpu"),
    "the rules of a class": lambda: polycast.assigned(nn.Linear),  # type: ignore[arg-type]
    "diff: the beginning of a name": lambda: diff("built", "torch-2.11"),
    "diff: an unknown name": lambda: diff("built-in", "zzz"),
    "diff: a misspelled device": lambda: diff("built-in", "torch-2.11", "cudda"),
    "diff: a device without a record": lambda: diff("built-in", "torch-2.11", "xla"),
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = polycast.policy.current()
    yield
    assert polycast.policy.current() == before and not polycast.assigned(NET)


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_names_the_location_and_the_fix(case: str, recorded_error: RecordedError) -> None:
    with recorded_error():
        ERRORS[case]()
