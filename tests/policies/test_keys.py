"""The names under which a policy looks up an op, in rules and in questions."""

import pytest
import torch
from polycast import Policy, policy

# an op, and what people call it
NAMES: dict[str, list[object]] = {
    "softmax": [
        *("softmax", "torch.softmax", "F.softmax", "nn.Softmax", "Softmax", "torch.nn.functional.softmax"),
        *("nn.functional.softmax", "torch.Tensor.softmax", "Tensor.softmax", "aten::softmax", "torch.ops.aten.softmax"),
        *(torch.softmax, torch.nn.functional.softmax, torch.nn.Softmax, torch.Tensor.softmax, torch.ops.aten.softmax),
    ],
    "layer_norm": ["layer_norm", "F.layer_norm", "nn.LayerNorm", "LayerNorm", "torch.nn.LayerNorm", torch.nn.LayerNorm],
    "gelu": ["gelu", "F.gelu", "torch.nn.functional.gelu", torch.nn.functional.gelu],
    "mm": ["mm", "aten.mm", "torch.mm", torch.mm, torch.Tensor.mm, torch.ops.aten.mm.default, torch.ops.aten.mm],
    "pow.Scalar": ["pow.Scalar", "aten::pow.Scalar", torch.ops.aten.pow.Scalar],
    "fft_fft": ["fft_fft", "torch.fft.fft", torch.fft.fft],
}
SPELLED = [(key, op) for op, keys in NAMES.items() for key in keys]


@pytest.mark.parametrize(
    ("key", "op"), SPELLED, ids=lambda part: part if isinstance(part, str) else type(part).__name__
)
def test_an_op_is_found_by_each_of_its_names(key: object, op: str) -> None:
    made = Policy({key: "bf16"})
    assert made == Policy({op: "bf16"}) == {key: "bf16"} and made.rules.keys() == {op}
    assert made[key] == made[op] == "bfloat16" and key in made  # type: ignore[index]
    assert made.category(key) == dict.fromkeys(policy.devices(), "bfloat16")  # type: ignore[call-overload]
    assert policy.rules(key) == policy.rules(op)  # type: ignore[arg-type]


def test_a_custom_operator_is_its_own_key() -> None:
    @torch.library.custom_op("keys::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    assert Policy({twice: "fp32"}) == Policy({torch.ops.keys.twice: "fp32"}) == Policy({"keys::twice": "fp32"})
