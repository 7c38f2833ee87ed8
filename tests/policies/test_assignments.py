"""The modules that keys of an assignment stand for, the rules that they get, and how torch is made to call them."""

import copy
import pickle
from pathlib import Path
from typing import Any

import polycast
import pytest
import torch
from polycast import Policy, PolicyError
from torch import Tensor, nn

F32, F64, HALF, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
X = torch.eye(4)


class Mine(nn.LayerNorm):
    pass


def model() -> nn.Sequential:
    block = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), Mine(4))
    return nn.Sequential(block, copy.deepcopy(block), nn.Linear(4, 4))


BLOCKS = model()
NORM = BLOCKS.get_submodule("0.1")
KEYS: dict[str, tuple[object, list[str]]] = {
    "a name": ({"0.1": "fp32"}, ["0.1"]),
    "a glob over dots": ({"0*": "fp32"}, ["0", "0.0", "0.1", "0.2"]),
    "a glob of characters": ({"[01].[!0]": "fp32"}, ["0.1", "0.2", "1.1", "1.2"]),
    "a pattern": ({r"re:\d\.0": "fp32"}, ["0.0", "1.0"]),
    "a class, with its subclasses": ({nn.LayerNorm: "fp32"}, ["0.1", "0.2", "1.1", "1.2"]),
    "a class of all": ({nn.Module: "fp32"}, [name for name, _ in BLOCKS.named_modules()]),
    "a module": ({NORM: "fp32"}, ["0.1"]),
    "a class and a name that decides": ({"0.1": None, nn.LayerNorm: "fp32"}, ["0.2", "1.1", "1.2"]),
    "a class and a module that decides": ({nn.LayerNorm: "fp32", NORM: None}, ["0.2", "1.1", "1.2"]),
    "the model, by a category": ("fp32", [""]),
    "the model, by a dtype": (torch.float32, [""]),
    "the model, by a policy": (Policy({"linear": "fp32"}), [""]),
    "the model, by a release": ("torch-2.11", [""]),
    "nothing": (None, []),
}


@pytest.mark.parametrize(("rules", "names"), KEYS.values(), ids=KEYS)
def test_keys_of_an_assignment(rules: Any, names: list[str]) -> None:
    with polycast.assign(BLOCKS, rules) as assignment:
        assert list(assignment) == list(polycast.assigned(BLOCKS)) == names
        assert all(name in assignment and assignment[name] for name in names)
    assert len(polycast.assigned(BLOCKS)) == 0


class Three(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.a(x), self.b(x), self.c(x)]


# Rules, and what a, b and c then return in a region without rules.
HELD: list[tuple[dict[Any, Any], list[torch.dtype]]] = [
    ({}, [BF16, BF16, BF16]),
    ({"a": torch.float16}, [HALF, BF16, BF16]),
    ({"re:[ab]": {"linear": "float16"}, "re:[bc]": {"matmul": "fp32"}}, [HALF, BF16, BF16]),  # the last says matmul
    ({"[ab]": {"linear": "float16"}, "[bc]": {"linear": "fp32"}, "b": {"linear": "float64"}}, [HALF, F64, F32]),
    ({nn.Linear: {"linear": "float16"}, "[bc]": {"linear": "fp32"}, "b": None, "c": "fp32"}, [HALF, BF16, F32]),
    ({"": {"linear": "fp32"}, "c": {"linear": "float16"}}, [F32, F32, HALF]),
]


@pytest.mark.parametrize(("rules", "types"), HELD)
def test_rules_of_modules(rules: dict[Any, Any], types: list[torch.dtype]) -> None:
    three = Three()
    polycast.assign(three, rules)
    with polycast.autocast("cpu"):
        assert [tensor.dtype for tensor in three(X)] == types
    with polycast.autocast("cpu", policy=Policy({"linear": "float64"})):
        over = [tensor.dtype for tensor in three(X)]
    assert over == [F64 if dtype == BF16 else dtype for dtype in types]


FILE = """\
'': {matmul: fp32}
'0.0':
  linear: {cpu: fp32, others: bf16}
  torch.softmax: {as: fp32, note: its sum overflows in float16}
0*: bf16
re:1\\.[01]: {layer_norm: float16}
'2': torch-2.11
'1.2': rules.yaml
'1': %s
"""
RULES = {
    "": {"matmul": "fp32"},
    "0.0": {
        "linear": {"cpu": "fp32", "others": "bf16"},
        "torch.softmax": {"as": "fp32", "note": "its sum overflows in float16"},
    },
    "0*": "bf16",
    r"re:1\.[01]": {"layer_norm": "float16"},
    "2": "torch-2.11",
    "1.2": {"gelu": "fp32"},
    "1": None,
}


@pytest.mark.parametrize(("kind", "null"), [(str, "null"), (Path, "~")])
def test_a_file_does_what_the_same_dict_does(
    kind: type, null: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.yaml").write_text("ops: {gelu: fp32}", encoding="utf-8")
    Path("modules.yaml").write_text(FILE % null, encoding="utf-8")
    one, other = model(), model()
    polycast.assign(one, {"1": "fp32"}), polycast.assign(other, {"1": "fp32"})
    assignment, expected = polycast.assign(one, kind("modules.yaml")), polycast.assign(other, RULES)
    assert dict(assignment) == dict(expected) and repr(polycast.assigned(one)) == repr(polycast.assigned(other))
    assert [*assignment] == ["", "0", "0.0", "0.1", "0.2", "1.0", "1.1", "1.2", "2"]
    assert assignment["0.0"].rules["softmax"] == RULES["0.0"]["torch.softmax"]  # type: ignore[index]
    assignment.remove()
    assert [*polycast.assigned(one)] == ["1"]


def test_a_module_may_be_called_models(tmp_path: Path) -> None:
    (tmp_path / "modules.yaml").write_text("models: {linear: fp32}", encoding="utf-8")
    net = nn.Sequential()
    net.models = nn.Linear(2, 2)
    assert [*polycast.assign(net, tmp_path / "modules.yaml")] == ["models"]


def test_a_module_shows_its_rules_and_is_otherwise_as_before() -> None:
    blocks = model()
    before, state = repr(blocks), list(blocks.state_dict())
    polycast.assign(blocks, {"0.0": {"linear": "fp32"}, "1": "fp32"})
    assert "(0): Linear(in_features=4, out_features=4, bias=True, rules: linear fp32)" in repr(blocks)
    assert "(1): Sequential(\n    rules: fp32 for " in repr(blocks)
    assert list(blocks.state_dict()) == state
    polycast.assign(blocks, {"*": None})
    assert repr(blocks) == before
    assert {type(module) for module in blocks.modules()} == {nn.Sequential, nn.Linear, nn.LayerNorm, Mine}
    assert vars(blocks[1]).keys() == vars(nn.Sequential()).keys()
    layer = nn.Linear(2, 2)
    layer.extra_repr = lambda: "mine"  # type: ignore[method-assign]
    with polycast.assign(layer, "fp32"):
        assert repr(layer) == "Linear(mine)"
    assert repr(layer) == "Linear(mine)"


def test_a_module_with_two_names_has_both() -> None:
    shared = nn.Linear(4, 4)
    pair = nn.ModuleDict({"one": shared, "two": shared})
    with polycast.assign(pair, {"two": {"linear": "fp32"}}) as assignment:
        assert list(assignment) == ["one", "two"]
    assert not polycast.assigned(shared)
    with pytest.raises(ValueError, match="module 'two' is matched by 'one'"):
        polycast.assign(pair, {"one": {"linear": "fp32"}, "two": {"linear": "float16"}})


def test_apply_assigns() -> None:
    blocks = model()
    blocks.apply(lambda module: polycast.assign(module, "fp32") if isinstance(module, nn.LayerNorm) else None)  # type: ignore[arg-type]
    assert list(polycast.assigned(blocks)) == ["0.1", "0.2", "1.1", "1.2"]


class Attends(nn.Module):
    """nn.MultiheadAttention next to a list of layers that is called one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError


# Keys with modules that torch never calls, and the modules that then have rules.
CALLED: dict[str, tuple[dict[Any, Any], list[str]]] = {
    "a reader and what it reads": ({"re:attention.*": "fp32"}, ["attention", "attention.out_proj"]),
    "what a list holds": ({"re:layers.*": "fp32"}, ["layers.0", "layers.1"]),
    "all but one": ({"re:.*": "fp32", "layers.0": None}, ["", "attention", "attention.out_proj", "layers.1"]),
    "taken back": ({"layers": None, "attention.out_proj": None}, []),
}


@pytest.mark.parametrize(("rules", "names"), CALLED.values(), ids=CALLED)
def test_keys_of_modules_that_are_never_called(rules: dict[Any, Any], names: list[str]) -> None:
    assert list(polycast.assign(Attends(), rules)) == names


def test_what_a_class_calls_of_its_own_is_not_refused() -> None:
    class Calls(nn.MultiheadAttention):
        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            projected: Tensor = self.out_proj(x)
            return projected

    calls = Calls(4, 2)
    assert list(polycast.assign(calls, {"out_proj": "fp32"})) == ["out_proj"]
    with polycast.autocast("cpu"):
        assert calls(torch.ones(2, 4)).dtype == F32


def test_torchvisions_windows_are_refused() -> None:
    swin = pytest.importorskip("torchvision.models.swin_transformer", reason="torchvision is not installed")
    for kind in (swin.ShiftedWindowAttention, swin.ShiftedWindowAttentionV2):
        with pytest.raises(PolicyError, match="module 'qkv' is never called, as '' reads its weights"):
            polycast.assign(kind(4, [2, 2], [0, 0], 2), {"qkv": "fp32"})


def layer() -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


@pytest.mark.parametrize(("name", "masked"), [("linear1", False), ("linear2", False), ("self_attn", True)])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage:UserWarning")
def test_evaluation_runs_in_the_types_of_training(name: str, masked: bool) -> None:
    """In evaluation torch's layer hands its weights to a fused operator, and calls no module in it."""
    encoder = nn.TransformerEncoder(layer(), 2)
    x, mask = torch.randn(2, 3, 8), torch.tensor([[False] * 3, [False, False, True]]) if masked else None
    assert list(polycast.assign(encoder, {f"layers.*{name}": "fp32"})) == [f"layers.{index}.{name}" for index in (0, 1)]
    for training in (True, False):
        encoder.train(training)
        with torch.set_grad_enabled(training), polycast.autocast("cpu"), polycast.debug.trace(encoder) as trace:
            encoder(x, src_key_padding_mask=mask)
        ruled = [call for call in trace.calls if call.site.module.endswith(name) and call.is_ruled]
        assert ruled
        assert {dtype for call in ruled for dtype in call.arrived} <= {F32, torch.bool}


def called(module: nn.Module) -> dict[str, list[str]]:
    """Return the ops that a layer calls in evaluation, each with its rules."""
    with torch.no_grad(), polycast.autocast("cpu"), polycast.debug.trace() as trace:
        module(torch.randn(2, 3, 8))
    found: dict[str, list[str]] = {}
    for call in trace.calls:
        found.setdefault(call.site.op, []).append(str(call.rule))
    return found


def test_a_layer_whose_rules_are_taken_back_takes_torchs_fast_path_again() -> None:
    fused = "_transformer_encoder_layer_fwd"
    one = layer().eval()
    assert fused in called(one)
    polycast.assign(one, {"linear1": "fp32"})
    polycast.assign(one, {"linear1": "bfloat16"})
    assert fused not in called(one)
    for module in (one, copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        polycast.assign(module, {"linear1": None})
        assert not any(part._forward_pre_hooks for part in module.modules())
    assert fused in called(one)


@pytest.mark.parametrize("name", ["", "self_attn"])
def test_rules_of_a_layer_and_of_its_attention_hold_in_the_fused_operator(name: str) -> None:
    one = layer().eval()
    polycast.assign(one, {name: "fp32"})
    found = called(one)
    assert any("fp32" in found.get(op, ()) for op in ("_native_multi_head_attention", "linear", "_addmm_activation"))


def test_a_parametrization_is_a_module_of_the_model() -> None:
    class Doubles(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x @ torch.eye(4)

    linear = nn.Linear(4, 4)
    nn.utils.parametrize.register_parametrization(linear, "weight", Doubles())
    polycast.assign(linear, {"parametrizations.weight.0": {"matmul": "float16"}})
    with polycast.autocast("cpu"), polycast.debug.trace(linear) as trace:
        linear(torch.ones(2, 4))
    assert [call.returned for call in trace.calls if call.site.op == "matmul"] == [(torch.float16,)]
