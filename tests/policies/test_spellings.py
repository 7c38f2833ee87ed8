"""What stands for a policy, an op, a dtype: each spelling comes to the same."""

from pathlib import Path

import pytest
import torch
from polycast import Policy, policy
from polycast._dtypes import dtype_of

# What stands for a policy that gives softmax fp32.
POLICIES: list[object] = [
    Policy({"softmax": "fp32"}),
    {"softmax": "fp32"},
    {"ops": {"softmax": "fp32"}},
    {"torch.softmax": torch.float32},
    *("mine.yaml", "./mine.yaml", "flat.yaml", "mine", Path("mine.yaml"), Path("mine"), Path("torch-2.11")),
]
# An op, and what people call it.
NAMES: dict[str, list[object]] = {
    "softmax": [
        *("torch.softmax", "F.softmax", "nn.Softmax", "Softmax", "nn.functional.softmax", "torch.Tensor.softmax"),
        *("Tensor.softmax", "aten::softmax", "torch.ops.aten.softmax", torch.softmax, torch.nn.Softmax),
        *(torch.nn.functional.softmax, torch.Tensor.softmax, torch.ops.aten.softmax),
    ],
    "gelu": ["F.gelu", "torch.nn.functional.gelu", torch.nn.functional.gelu],  # which no row of policy.yaml names
    "mm": ["aten.mm", "torch.mm", torch.mm, torch.Tensor.mm, torch.ops.aten.mm.default],
    "pow.Scalar": ["aten::pow.Scalar", torch.ops.aten.pow.Scalar],
    "fft_fft": ["torch.fft.fft", torch.fft.fft],
}
# A dtype, how rules print it, and its spellings.
DTYPES: list[tuple[torch.dtype, str, str]] = [
    (torch.float16, "float16", "float16 fp16 f16 half FP16 torch.float16 torch.half"),
    (torch.bfloat16, "bfloat16", "bfloat16 bf16 BF16 torch.bfloat16"),
    (torch.float32, "fp32", "float32 fp32 f32 float FP32 torch.float32 torch.float"),
    (torch.float64, "float64", "float64 fp64 f64 double torch.double"),
]


@pytest.mark.parametrize("value", POLICIES, ids=str)
def test_what_stands_for_a_policy(value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("ops: {softmax: fp32}")
    for name in ("flat.yaml", "mine", "torch-2.11"):  # a Path is a file, whatever its name says
        Path(name).write_text("softmax: fp32")
    assert Policy(value) == POLICIES[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "category"),
    [
        (["bfloat16", "bf16", "torch.bfloat16", torch.bfloat16], "bfloat16"),
        (["fp32", torch.float32], "fp32"),
        (["input_dtype"], "input_dtype"),
    ],
)
def test_a_category_or_a_dtype_is_for_every_op(values: list[str], category: str) -> None:
    (made,) = {Policy(value) for value in values}
    assert {rule.category for rule in made.by_overload()} == {category}


def test_nothing_is_a_policy_without_rules() -> None:
    assert Policy(None) == Policy({}) == Policy() and not Policy(None)


@pytest.mark.parametrize(
    ("key", "op"),
    [(key, op) for op, keys in NAMES.items() for key in keys],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
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


@pytest.mark.parametrize(("dtype", "shown", "texts"), DTYPES, ids=[shown for _, shown, _ in DTYPES])
def test_a_dtype_is_taken_in_every_spelling(dtype: torch.dtype, shown: str, texts: str, tmp_path: Path) -> None:
    spelled = [f" {texts.split()[0]} ", *texts.split()]
    assert {dtype_of(text) for text in spelled} == {dtype} == {dtype_of(dtype)}
    cast = {"mv": shown, "mm": {"cpu": shown}}
    for text in (*spelled, dtype):
        assert Policy({"mv": text, "mm": {"cpu": [text]}}).rules == cast
        (tmp_path / "mine.yaml").write_text(f"ops: {{mv: '{text}', mm: {{cpu: {{as: '{text}'}}}}}}")
        assert Policy.load(tmp_path / "mine.yaml").rules == cast


def test_a_dtype_that_nothing_is_cast_to_is_one() -> None:
    assert dtype_of("int8") is torch.int8 and dtype_of("torch.long") is torch.int64
