"""A module's rule holds where the module is called, by whatever way; one that is never called is refused."""

import copy
import pickle
from collections.abc import Mapping

import polycast
import pytest
import torch
from polycast import PolicyError
from torch import Tensor, nn

F32, BF16 = torch.float32, torch.bfloat16


class Attends(nn.Module):
    """nn.MultiheadAttention beside a list of layers that is called one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

    def forward(self, x: Tensor) -> Tensor:
        x, _ = self.attention(x, x, x)
        for layer in self.layers:
            x = layer(x)
        return x


REFUSED: dict[str, tuple[Mapping[str, object], str]] = {
    "weights that another module reads": (
        {"attention.out_proj": "fp32"},
        "assign: attention.out_proj: error: module 'attention.out_proj' is never called, as 'attention' reads its "
        "weights, so no rule can hold in it; give the rules to 'attention'",
    ),
    "weights that a module with other rules reads": (
        {"re:.*proj": "fp32", "attention": "bfloat16"},
        "assign: re:.*proj: error: module 'attention.out_proj' is never called, as 'attention' reads its weights, so "
        "no rule can hold in it; give the rules to 'attention', or leave it out: 'attention.out_proj': None",
    ),
    "a list": (
        {"layers": "fp32"},
        "assign: layers: error: module 'layers' is never called, as a ModuleList has no forward, so no rule can hold "
        "in it; give the rules to what is in it: 'layers.*'",
    ),
    "a list by a pattern": (
        {"re:layers|attention": "fp32"},
        "assign: re:layers|attention: error: module 'layers' is never called, as a ModuleList has no forward, so no "
        "rule can hold in it; give the rules to what is in it: 'layers.*'",
    ),
}
HELD: dict[str, tuple[Mapping[str, object], list[str]]] = {
    "the reader itself": ({"attention": "fp32"}, ["attention"]),
    "both": ({"re:attention.*": "fp32"}, ["attention", "attention.out_proj"]),
    "what a list holds": ({"re:layers.*": "fp32"}, ["layers.0", "layers.1"]),
    "all": ({"re:.*": "fp32"}, ["", "attention", "attention.out_proj", "layers.0", "layers.1"]),
    "all but one": ({"re:.*": "fp32", "layers.0": None}, ["", "attention", "attention.out_proj", "layers.1"]),
    "taken back": ({"layers": None, "attention.out_proj": None}, []),
}


@pytest.mark.parametrize(("rules", "text"), REFUSED.values(), ids=REFUSED)
def test_a_module_that_is_never_called_is_refused(
    rules: dict[str, polycast.policy.policy.PolicyLike], text: str
) -> None:
    model = Attends()
    with pytest.raises(PolicyError) as error:
        polycast.assign(model, rules)
    assert str(error.value) == text
    assert len(polycast.assigned(model)) == 0


@pytest.mark.parametrize(("rules", "names"), HELD.values(), ids=HELD)
def test_rules_that_hold(rules: dict[str, polycast.policy.policy.PolicyLike], names: list[str]) -> None:
    assert list(polycast.assign(Attends(), rules)) == names


def test_what_a_class_calls_of_its_own_is_not_refused() -> None:
    class Calls(nn.MultiheadAttention):
        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            projected: Tensor = self.out_proj(x)
            return projected

    model = Calls(4, 2)
    assert list(polycast.assign(model, {"out_proj": "fp32"})) == ["out_proj"]
    with polycast.autocast("cpu"):
        assert model(torch.ones(2, 4)).dtype == F32


def test_torchvisions_windows_are_refused() -> None:
    swin = pytest.importorskip("torchvision.models.swin_transformer", reason="torchvision is not installed")
    for kind in (swin.ShiftedWindowAttention, swin.ShiftedWindowAttentionV2):
        with pytest.raises(PolicyError, match="module 'qkv' is never called, as '' reads its weights"):
            polycast.assign(kind(4, [2, 2], [0, 0], 2), {"qkv": "fp32"})


def layer() -> nn.TransformerEncoderLayer:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


@pytest.mark.parametrize("name", ["linear1", "linear2", "self_attn"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage:UserWarning")
def test_evaluation_runs_in_the_types_of_training(name: str, masked: bool) -> None:
    """In evaluation torch's layer hands its weights to a fused operator, and calls no module in it."""
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(layer(), 2)
    x, mask = torch.randn(2, 3, 8), torch.tensor([[False] * 3, [False, False, True]]) if masked else None
    assigned = polycast.assign(encoder, {f"layers.*{name}": "fp32"})
    assert list(assigned) == [f"layers.{index}.{name}" for index in range(2)]
    kinds: dict[str, set[torch.dtype]] = {}
    for training in (True, False):
        with (
            torch.set_grad_enabled(training),
            polycast.autocast("cpu"),
            polycast.debug.trace(encoder.train(training)) as trace,
        ):
            encoder(x, src_key_padding_mask=mask)
        for call in trace.calls:
            if call.site.module.endswith(name) and call.is_ruled:
                assert set(call.arrived) <= {F32, torch.bool}, call
                kinds.setdefault(str(training), set()).update(call.arrived)
    assert set(kinds) == {"True", "False"}


def test_a_layer_whose_rules_are_taken_back_takes_torchs_fast_path_again() -> None:
    model = layer().eval()
    x = torch.randn(2, 3, 8)

    def ops() -> set[str]:
        with torch.no_grad(), polycast.autocast("cpu"), polycast.debug.trace() as trace:
            model(x)
        return {call.site.op for call in trace.calls}

    assert "_transformer_encoder_layer_fwd" in ops()
    polycast.assign(model, {"linear1": "fp32"})
    polycast.assign(model, {"linear1": "bfloat16"})
    assert "_transformer_encoder_layer_fwd" not in ops()
    copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for module in (model, *copies):
        polycast.assign(module, {"linear1": None})
        assert not any(part._forward_pre_hooks for part in module.modules())
    assert "_transformer_encoder_layer_fwd" in ops()


def test_rules_of_a_layer_and_of_what_is_around_it_hold_in_the_fused_operator() -> None:
    x = torch.randn(2, 3, 8)
    for name in ("", "self_attn"):
        model = layer().eval()
        polycast.assign(model, {name: "fp32"})
        with torch.no_grad(), polycast.autocast("cpu"), polycast.debug.trace() as trace:
            model(x)
        below = [
            call
            for call in trace.calls
            if call.site.op in ("_native_multi_head_attention", "linear", "_addmm_activation")
        ]
        assert below
        assert any(call.rule == "fp32" for call in below)


def test_parametrizations_and_lazy_modules_are_called() -> None:
    class Doubles(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x @ torch.eye(4)

    model = nn.Sequential(nn.Linear(4, 4), nn.LazyLinear(4))
    nn.utils.parametrize.register_parametrization(model[0], "weight", Doubles())
    polycast.assign(model, {"0.parametrizations.weight.0": {"matmul": "float16"}, "1": "fp32"})
    with polycast.autocast("cpu"), polycast.debug.trace(model) as trace:
        assert model(torch.ones(2, 4)).dtype == F32
    assert [call.returned for call in trace.calls if call.site.op == "matmul"] == [(torch.float16,)]
