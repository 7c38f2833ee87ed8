"""What policies, rules of modules and comparisons refuse: errors.txt has the text of each."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polycast
import pytest
import torch
from polycast import Policy
from polycast._dtypes import dtype_of
from polycast._grammar.releases import read_releases
from polycast.policy import sides
from torch import nn

import tests.policies.library  # noqa: F401
from tests.support.recorded_errors import RecordedError

# Rules as Python writes them.
RULES: dict[str, dict[Any, object]] = {
    # Names
    "an unknown op": {"sofmax": "fp32"},
    "a misspelt op with its namespace": {"aten::sofmax": "fp32"},
    "a device instead of an op": {"xpuu": {"cpu": "bf16"}},
    "the beginning of several names": {"conv": "fp32", "conv_trans": "fp32"},
    "several similar names": {"gleu": "fp32", "aten::gelo": "fp32"},
    "public names that are no op": {"torch.nn.GELU": "fp32", "gumbel_softmax": "fp32"},
    "operators that no library registered": {"nobody::asked": "fp32", "torch.ops.nobody.else": "fp32"},
    "a misspelt custom operator": {"library::atention": "fp32"},
    "an unknown overload": {"pow.Tensor_Scaler": "fp32"},
    "objects that are no op": {torch.nn.GELU: "fp32", len: "fp32"},
    "a function and its name": {torch.softmax: "fp32", "torch.softmax": "fp32"},
    "three problems of a value": {
        "softmax": {"cuda": "fp23", "cudo": "fp32", "cpu": {"as": "fp32", "overloads": ["itn"]}}
    },
    "other words for devices": {"softmax": {"gpu": "fp32", "ROCm": "fp32", "xpuu": "fp32", "CUDA": "fp32"}},
    # Values
    "torch's own kernel": {"softmax": "stock"},
    "a dtype that nothing is cast to": {"softmax": torch.int8},
    "an unknown key of a cast": {"softmax": {"as": "fp32", "not": "why"}},
    "no range of releases": {"softmax": {"as": "fp32", "torch": "soon"}},
    "an alternative that nothing reaches": {"softmax": ["fp32", "input_dtype"]},
    "values that say nothing": {"softmax": None, "relu": 3, "gelu": {"cuda": [b"fp32"]}, "exp": {1, 2}},
    "keys that name nothing": {3: "fp32", None: "fp32", "softmax": {torch.float16: "fp32", (): "fp32"}},
    "empty values": {"softmax": "", "relu": {}, "gelu": [], "exp": {"cuda": " "}},
    "half a character": {"softmax": {"as": "fp32", "note": "\ud800"}},
    "a key of several lines": {"soft\nmax": "fp32"},
    # What an op can take
    "promotion of one tensor": {"relu": "promote"},
    "no argument for a dtype": {"torch.nn.ReLU": {"cpu": "fp32_set_opt_dtype"}},
    "no overload for a dtype": {"library::attention": "fp32_append_dtype"},
    "overloads that write": {"relu_": "fp32", "add_.Tensor": "fp32", "add.out": "fp32", "library::fill": "fp32"},
    "a kernel written by hand": {"_cudnn_rnn": {"cuda": "fp32", "cpu": "fp32"}, "torch.nn.LSTM": {"cuda": "fp32"}},
    "ops without a tensor": {"ones": "fp32", "arange.start": {"cuda": "fp32"}},
    "ops that return views": {"squeeze": "fp32", "reshape": "float16", "chunk": {"cuda": "promote"}},
    # Rules that disagree
    "an op and its public name": {"softmax": "fp32", "torch.softmax": {"cpu": "bfloat16"}},
    "an op and what runs it": {
        "torch.nn.CrossEntropyLoss": "fp32",
        "log_softmax": {"mps": "input_dtype", "others": "fp32"},
    },
    "two spellings of an overload": {"pow.Tensor_Scalar": "fp32", "aten::pow.Tensor_Scalar": "input_dtype"},
    "rules for modules": {"models": {"Net": {"norm": "fp32"}}},
}
RULES["a value in itself"] = {"softmax": RULES["an unknown op"]}
RULES["a value in itself"]["softmax"] = RULES["a value in itself"]
# What is no policy.
VALUES: dict[str, object] = {
    "an unknown category": "fp23",
    "an unknown dtype": "bf61",
    "a misspelt release": "torch2.1l",
    "a release that begins several": "2.1",
    "a release that is not recorded": "torch-2.16",
    "a release before the first": "torch-2.8",
    "a bugfix release": "torch-2.12.1",
    "a missing file": "no.yaml",
    "a missing path": Path("no"),
    "an op": "softmax",
    "torch's own kernel": "stock",
    "a dtype that nothing is cast to": torch.int8,
    "pairs": [("softmax", "fp32")],
    "a number": 3,
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.encoder, self.attention = nn.Sequential(nn.Linear(4, 4), nn.GELU()), nn.MultiheadAttention(8, 2)
        self.layers = nn.ModuleList([nn.Linear(8, 8)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


# Rules of modules, and files of them.
ASSIGNED: dict[str, Any] = {
    "an unknown module": {"d": "fp32"},
    "a misspelt module": {"encodr": {"gelu": "fp32"}},
    "an op": {"linear": "fp32"},
    "a pattern of nothing": {"re:x.*": "fp32"},
    "a glob of nothing": {"x.*": "fp32"},
    "a broken pattern": {"re:(": "fp32"},
    "a class of nothing": {nn.Conv2d: "fp32"},
    "a tuple": {(nn.GELU,): "fp32"},
    "a module of another model": {nn.Linear(2, 2): "fp32"},
    "unknown categories": {"a": "fp23", "b": "stock"},
    "an unknown category for the model": "disabled",
    "an unknown op": {"a": {"linera": "fp32"}},
    "patterns that disagree": {"re:[ab]": {"linear": "fp32"}, "re:[bc]": {"linear": "float16"}},
    "several": {"d": {"linera": "fp32", "relu": "fp23"}, "a": 3, 3: "fp32", "re:[ab]": None},
    "a sequence": ["a"],
    "weights that another module reads": {"attention.out_proj": "fp32"},
    "a module whose reader has other rules": {"re:.*proj": "fp32", "attention": "bfloat16"},
    "a list": {"layers": "fp32"},
    "a list by a pattern": {"re:layers|attention": "fp32"},
    "a missing file": "no.yaml",
}


def assigned(path: Path) -> None:
    polycast.assign(Net(), path)


RELEASE = "torch-2.9: {recorded: {torch: 2.9.0}, devices: [cpu, cuda], ops: {mm: {cpu: fp32}}}\n"
# What reads a file, and the file.
FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "rules: unknown names": (
        Policy.load,
        "ops:\n  sofmax: fp32\n  softmax: {cuda: fp23, cpu: {as: fp32, overloads: [itn]}}",
    ),
    "rules: rules that disagree": (Policy.load, "ops:\n  softmax: fp32\n  torch.softmax: input_dtype"),
    "rules: more than rules": (Policy.load, "ops: {softmax: fp32}\nmodules: {encoder: {linear: fp32}}"),
    "rules: rules for modules": (Policy.load, "ops: {softmax: fp32}\nmodels: {Net: {encoder: {linear: fp32}}}"),
    "rules: a list of rules": (Policy.load, "ops: [softmax]"),
    "rules: nothing": (Policy.load, ""),
    "rules: a key twice": (Policy.load, "ops: {softmax: fp32, softmax: input_dtype}"),
    "rules: an alias": (Policy.load, "ops: {softmax: &all fp32, relu: *all}"),
    "rules: broken YAML": (Policy.load, "ops: {softmax: fp32\n"),
    "modules: problems": (assigned, "encoder.1: {gelu: fp23, sofmax: fp32}\nencodr: {gelu: fp32}\nnorm: [fp32]"),
    "modules: a key twice": (assigned, "norm: {gelu: fp32}\nnorm: {gelu: bf16}"),
    "modules: no value": (assigned, "norm:"),
    "modules: broken YAML": (assigned, "*: fp32"),
    "modules: a text": (assigned, "fp32"),
    "modules: nothing": (assigned, ""),
    "modules: an op": (assigned, "linear: fp32"),
    "modules: rules for modules": (assigned, "models: {Net: {norm: {layer_norm: fp32}}}"),
    "modules: rules for ops": (assigned, "ops: {layer_norm: fp32}"),
    "releases: no devices": (read_releases, RELEASE + "torch-2.10: {recorded: {torch: 2.10.0}}"),
    "releases: an unknown category": (
        read_releases,
        RELEASE + "torch-2.10:\n  recorded: {torch: 2.10.0}\n  devices: [cuda]\n  ops: {mm: {cuda: fp23}}",
    ),
    "releases: an unknown device": (
        read_releases,
        RELEASE + "torch-2.10:\n  recorded: {torch: 2.10.0}\n  devices: [cuda]\n  ops: {mm: {cuba: fp32}}",
    ),
    "releases: no name of a release": (read_releases, RELEASE + "2.10: {recorded: {torch: 2.10.0}, devices: [cuda]}"),
    "a file in an assignment": (lambda path: polycast.assign(Net(), {"a": path}), "ops:\n  softmaxx: fp32"),
}
CALLS: dict[str, Callable[[], object]] = {
    "a number is used": lambda: polycast.use(3),  # type: ignore[arg-type]
    "an unknown op is asked of a policy": lambda: Policy({"softmax": "fp32"})["gleu"],
    "an op without a rule is asked of a policy": lambda: Policy({"softmax": "fp32"})["gelu"],
    "another word for a device": lambda: Policy().category("softmax", "gpu"),
    "the arguments of assign swapped": lambda: polycast.assign({"linear": "fp32"}, Net()),  # type: ignore[arg-type]
    "a class is assigned rules": lambda: polycast.assign(nn.Linear, "fp32"),  # type: ignore[arg-type]
    "a class is asked for rules": lambda: polycast.assigned(nn.Linear),  # type: ignore[arg-type]
    "a misspelt dtype": lambda: dtype_of("bflot16"),
    "another width of a dtype": lambda: dtype_of("fp23"),
    "no dtype at all": lambda: dtype_of("mm"),
    "a type of Python's": lambda: dtype_of(float),  # type: ignore[arg-type]
    "diff: half a name": lambda: sides.diff("built", "torch-2.11"),
    "diff: no name": lambda: sides.diff("built-in", "zzz"),
    "diff: a device and a policy": lambda: sides.diff("cuda", "built-in"),
    "diff: another word for a device": lambda: sides.diff("gpu", "cpu"),
    "diff: a third device": lambda: sides.diff("cuda", "xpu", "mps"),
    "diff: a misspelt device": lambda: sides.diff("built-in", "torch-2.11", "cudda"),
    "diff: a device without a record": lambda: sides.diff("built-in", "torch-2.11", "xla"),
    "diff: a missing file": lambda: sides.diff("built-in", "no.yaml"),
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = polycast.policy.in_force()
    yield
    assert polycast.policy.in_force() == before


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str, recorded_error: RecordedError) -> None:
    with recorded_error():
        Policy(RULES[name])


@pytest.mark.parametrize("name", FILES)
def test_a_file(name: str, recorded_error: RecordedError) -> None:
    read, text = FILES[name]
    Path("mine.yaml").write_text(text, encoding="utf-8")
    with recorded_error():
        read(Path("mine.yaml"))


@pytest.mark.parametrize("name", VALUES)
def test_what_is_no_policy(name: str, recorded_error: RecordedError) -> None:
    with recorded_error():
        Policy(VALUES[name])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ASSIGNED)
def test_rules_of_modules(name: str, recorded_error: RecordedError) -> None:
    net = Net()
    with recorded_error():
        polycast.assign(net, ASSIGNED[name])
    assert not polycast.assigned(net)


@pytest.mark.parametrize("name", CALLS)
def test_a_call(name: str, recorded_error: RecordedError) -> None:
    with recorded_error():
        CALLS[name]()
