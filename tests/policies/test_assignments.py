"""``polycast.assign``: the modules that keys select, the rules of modules, and layers with a fused fast path."""

import copy
import pickle
from pathlib import Path
from typing import Any

import polycast
import pytest
import torch
import yaml
from polycast import Policy
from torch import Tensor, nn

F32, F64, HALF, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
X = torch.eye(4)


class Mine(nn.LayerNorm):
    pass


def model() -> nn.Sequential:
    block = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), Mine(4))
    return nn.Sequential(block, copy.deepcopy(block), nn.Linear(4, 4))


class Attends(nn.Module):
    """A module with an attention that reads its submodule's weights, and a ``ModuleList``, which has no ``forward``."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layers = nn.ModuleList([nn.Linear(8, 8)])

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError


BLOCKS, ATTENDS = model(), Attends()
NORM = BLOCKS.get_submodule("0.1")
KEYS: dict[str, tuple[nn.Module, object, list[str]]] = {
    "a name": (BLOCKS, {"0.1": "fp32"}, ["0.1"]),
    "a glob over dots": (BLOCKS, {"0*": "fp32"}, ["0", "0.0", "0.1", "0.2"]),
    "a glob of characters": (BLOCKS, {"[01].[!0]": "fp32"}, ["0.1", "0.2", "1.1", "1.2"]),
    "a pattern": (BLOCKS, {r"re:\d\.0": "fp32"}, ["0.0", "1.0"]),
    "a class, with its subclasses": (BLOCKS, {nn.LayerNorm: "fp32"}, ["0.1", "0.2", "1.1", "1.2"]),
    "a class of all modules": (BLOCKS, {nn.Module: "fp32"}, [name for name, _ in BLOCKS.named_modules()]),
    "a module": (BLOCKS, {NORM: "fp32"}, ["0.1"]),
    "a name that overrides a class": (BLOCKS, {"0.1": None, nn.LayerNorm: "fp32"}, ["0.2", "1.1", "1.2"]),
    "a module that overrides a class": (BLOCKS, {nn.LayerNorm: "fp32", NORM: None}, ["0.2", "1.1", "1.2"]),
    "the model, by a category": (BLOCKS, "fp32", [""]),
    "the model, by a dtype": (BLOCKS, torch.float32, [""]),
    "the model, by a policy": (BLOCKS, Policy({"linear": "fp32"}), [""]),
    "the model, by a release": (BLOCKS, "torch-2.11", [""]),
    "nothing": (BLOCKS, None, []),
    # PyTorch never calls `attention.out_proj` and `layers`, which the next keys match.
    "a reader and the module that it reads": (ATTENDS, {"re:attention.*": "fp32"}, ["attention", "attention.out_proj"]),
    "the modules of a list": (ATTENDS, {"re:layers.*": "fp32"}, ["layers.0"]),
    "all": (ATTENDS, {"re:.*": "fp32"}, ["", "attention", "attention.out_proj", "layers.0"]),
    "removed rules": (ATTENDS, {"layers": None, "attention.out_proj": None}, []),
}


@pytest.mark.parametrize(("model", "rules", "names"), KEYS.values(), ids=KEYS)
def test_a_key_of_an_assignment_selects_modules(model: nn.Module, rules: Any, names: list[str]) -> None:
    with polycast.assign(model, rules):
        assert list(polycast.assigned(model)) == names
        assert all(polycast.assigned(model).values())
    assert len(polycast.assigned(model)) == 0


# Each row has rules and the dtypes of `a`, `b` and `c`. The last matching pattern replaces the rules of earlier ones.
HELD: list[tuple[dict[Any, Any], list[torch.dtype]]] = [
    ({}, [BF16, BF16, BF16]),
    ({"a": torch.float16}, [HALF, BF16, BF16]),
    ({"re:[ab]": {"linear": "float16"}, "re:[bc]": {"matmul": "fp32"}}, [HALF, BF16, BF16]),
    ({"[ab]": {"linear": "float16"}, "[bc]": {"linear": "fp32"}, "a": {"linear": "float64"}}, [F64, F32, F32]),
    ({nn.Linear: {"linear": "float16"}, "[bc]": {"linear": "fp32"}, "b": None, "c": "fp32"}, [HALF, BF16, F32]),
]


@pytest.mark.parametrize(("rules", "types"), HELD)
def test_keys_of_single_modules_override_patterns_and_later_keys_override_earlier_ones(
    rules: dict[Any, Any], types: list[torch.dtype]
) -> None:
    """A region's policy applies only where no key has a rule for the op (specification 3.6)."""
    three = nn.ModuleDict({name: nn.Linear(4, 4) for name in "abc"})
    polycast.assign(three, rules)
    with polycast.autocast("cpu"):
        assert [module(X).dtype for module in three.values()] == types
    with polycast.autocast("cpu", policy=Policy({"linear": "float64"})):
        over = [module(X).dtype for module in three.values()]
    assert over == [F64 if dtype == BF16 else dtype for dtype in types]


FILE = """\
'': {matmul: fp32}
'0.0':
  linear: {cpu: fp32, others: bf16}
  torch.softmax: fp32
0*: bf16
re:1\\.[01]: {layer_norm: float16}
'2': torch-2.11
'1.2': rules.yaml
'1': %s
models: {linear: fp32}
"""


@pytest.mark.parametrize(("kind", "null"), [(str, "null"), (Path, "~")])
def test_a_file_is_equivalent_to_the_same_dict(
    kind: type, null: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.yaml").write_text("gelu: fp32", encoding="utf-8")
    Path("modules.yaml").write_text(FILE % null, encoding="utf-8")
    one, other = model(), model()
    for made in (one, other):
        made.add_module("models", nn.Linear(2, 2))
        polycast.assign(made, {"1": "fp32"})
    assignment = polycast.assign(one, kind("modules.yaml"))
    polycast.assign(other, yaml.safe_load(FILE % null))
    assert repr(polycast.assigned(one)) == repr(polycast.assigned(other))
    assert [*polycast.assigned(one)] == ["", "0", "0.0", "0.1", "0.2", "1.0", "1.1", "1.2", "2", "models"]
    assert polycast.assigned(one)["0.0"].rules["softmax"] == "fp32"
    assignment.remove()
    assert [*polycast.assigned(one)] == ["1"]


def test_removed_rules_leave_nothing() -> None:
    blocks = model()
    before = [vars(module).keys() for module in blocks.modules()]
    state, hooks = list(blocks.state_dict()), [len(module._forward_pre_hooks) for module in blocks.modules()]
    polycast.assign(blocks, {"0.0": {"linear": "fp32"}, "1": "fp32"})
    assert list(blocks.state_dict()) == state
    polycast.assign(blocks, {"*": None})
    assert [vars(module).keys() for module in blocks.modules()] == before
    assert [len(module._forward_pre_hooks) for module in blocks.modules()] == hooks


def test_a_module_with_two_names_has_the_rules_of_both() -> None:
    """If both names have rules, the later key applies (specification 3.6)."""
    shared = nn.Linear(4, 4)
    pair = nn.ModuleDict({"one": shared, "two": shared})
    with polycast.assign(pair, {"two": {"linear": "fp32"}}):
        assert [*polycast.assigned(pair)] == ["one", "two"]
    assert not polycast.assigned(shared)
    polycast.assign(pair, {"one": {"linear": "fp32"}, "two": {"linear": "float16"}})
    assert polycast.assigned(shared)[""].rules == {"linear": "float16"}


def test_a_module_that_its_class_calls_itself_does_not_raise() -> None:
    class Calls(nn.MultiheadAttention):
        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            projected: Tensor = self.out_proj(x)
            return projected

    calls = Calls(4, 2)
    polycast.assign(calls, {"out_proj": "fp32"})
    with polycast.autocast("cpu"):
        assert calls(torch.ones(2, 4)).dtype == F32


def layer() -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


@pytest.mark.parametrize(("name", "masked"), [("linear1", False), ("linear2", False), ("self_attn", True)])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage:UserWarning")
def test_evaluation_runs_in_the_dtypes_of_training(name: str, masked: bool) -> None:
    """In evaluation, a layer without rules passes its weights to a fused operator instead of calling submodules."""
    encoder = nn.TransformerEncoder(layer(), 2)
    x, mask = torch.randn(2, 3, 8), torch.tensor([[False] * 3, [False, False, True]]) if masked else None
    polycast.assign(encoder, {f"layers.*{name}": "fp32"})
    assert [*polycast.assigned(encoder)] == [f"layers.{index}.{name}" for index in (0, 1)]
    for training in (True, False):
        encoder.train(training)
        with torch.set_grad_enabled(training), polycast.autocast("cpu"), polycast.debug.trace(encoder) as trace:
            encoder(x, src_key_padding_mask=mask)
        ruled = [call for call in trace.calls if call.site.module.endswith(name) and call.is_ruled]
        assert ruled
        assert {dtype for call in ruled for dtype in call.arrived} <= {F32, torch.bool}


def is_fused(module: nn.Module) -> bool:
    """Return whether a layer calls its fused operator."""
    with torch.no_grad(), polycast.autocast("cpu"), polycast.debug.trace() as trace:
        module(torch.randn(2, 3, 8))
    return "_transformer_encoder_layer_fwd" in [call.site.op for call in trace.calls]


def test_a_layer_without_its_rules_uses_pytorchs_fast_path_again() -> None:
    one = layer().eval()
    assert is_fused(one)
    for rule in ("fp32", "bfloat16"):
        polycast.assign(one, {"linear1": rule})
        assert not is_fused(one)
    for module in (one, copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        polycast.assign(module, {"linear1": None})
        assert is_fused(module) and not any(part._forward_pre_hooks for part in module.modules())
