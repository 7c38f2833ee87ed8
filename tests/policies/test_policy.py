"""Policies: their categories on each device, the spellings of rules, and immutability, merging and printing."""

import json
from pathlib import Path

import pytest
import torch
from polycast import Policy, policy
from polycast._extension import DEVICES
from polycast.policy.rules import BUILT_IN

import tests.policies.library  # noqa: F401

MINE = Policy({"softmax": "fp32", "pow.Scalar": {"cuda": "half"}})
READ = {"softmax": "fp32", "pow.Scalar": {"cuda": "float16"}}

LIKE_CUDA = "cuda xla_gpu mtia maia hpu privateuse1 npu musa mlu"
CPU = "cpu tpu"  # `tpu` inherits from `cpu`.
ALL = " ".join(DEVICES)
CROSS_ENTROPY = "cross_entropy_loss promote, nll_loss promote, nll_loss2d promote"
# Each row has rules, and the resulting categories for each group of devices.
RULES: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "an op": ({"layer_norm": "input_dtype"}, {ALL: "layer_norm input_dtype"}),
    "an overload": ({"pow.Tensor_Scalar": "bfloat16"}, {ALL: "pow.Tensor_Scalar bfloat16"}),
    "the default overload": ({"cat.default": "fp32"}, {ALL: "cat fp32"}),
    "all overloads": ({"pow": "fp32"}, {ALL: "pow.Tensor_Tensor fp32, pow.Scalar fp32, pow.Tensor_Scalar fp32"}),
    "the overloads that can have it": ({"add": "promote"}, {ALL: "add.Tensor promote"}),
    "a composite of several ops": ({"torch.nn.CrossEntropyLoss": {"cpu": "promote"}}, {CPU: CROSS_ENTROPY}),
    "a custom operator": (
        {"library::attention": "lower_precision_fp"},
        {ALL: "library::attention lower_precision_fp, library::attention.fast lower_precision_fp"},
    ),
    "its overload": ({"torch.ops.library.attention.fast": "promote"}, {ALL: "library::attention.fast promote"}),
    "an optional dtype": ({"library::mean": "fp32_set_opt_dtype"}, {ALL: "library::mean fp32_set_opt_dtype"}),
    "a dtype to append": ({"norm.Scalar": "fp32_append_dtype"}, {ALL: "norm.Scalar fp32_append_dtype"}),
    "unlisted": ({"mv": "unlisted"}, {ALL: "mv unlisted"}),
    # These rules name devices.
    "a device": ({"mv": {"xpu": "fp32"}}, {"xpu": "mv fp32"}),
    "a device that others are like": ({"mv": {"cuda": "fp32"}}, {LIKE_CUDA: "mv fp32"}),
    "others unlisted": (
        {"mv": {"cuda": "fp32", "others": "unlisted"}},
        {"cuda": "mv fp32", ALL.removeprefix("cuda "): "mv unlisted"},
    ),
    "a torch.device": ({"mv": {torch.device("cpu", 0): torch.float16}}, {CPU: "mv float16"}),
    # These dicts have several rules for one op.
    "an overload before its op": (
        {"pow.Scalar": {"cpu": "float16"}, "torch.pow": {"cpu": "fp32"}},
        {CPU: "pow.Tensor_Tensor fp32, pow.Scalar float16, pow.Tensor_Scalar fp32"},
    ),
    "rules that agree": ({"softmax.int": {"cpu": "fp32"}, "aten::softmax.int": "fp32"}, {ALL: "softmax.int fp32"}),
}


@pytest.mark.parametrize(("rules", "expected"), RULES.values(), ids=RULES)
def test_rules_resolve_to_a_category_on_each_device(rules: dict[str, object], expected: dict[str, str]) -> None:
    """A rule for an overload overrides its op, and a device overrides ``others`` (specification 3.2, 3.3 and 3.4)."""
    found = {(rule.device, f"{rule.name} {rule.category}") for rule in Policy(rules).by_overload()}
    assert found == {
        (device, rule) for devices, text in expected.items() for device in devices.split() for rule in text.split(", ")
    }


# `Policy` accepts these values, which all mean `softmax` in float32.
POLICIES: list[object] = [
    {"ops": {"softmax": "fp32"}},
    {"torch.softmax": torch.float32},
    *("mine.yaml", "./mine.yaml", "flat.yaml", "mine", "2.5b", Path("mine.yaml"), Path("mine"), Path("torch-2.11")),
]


@pytest.mark.parametrize("value", POLICIES, ids=str)
def test_a_dict_or_a_file_is_accepted_as_a_policy(
    value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("ops: {softmax: fp32}")
    for name in ("flat.yaml", "mine", "2.5b", "torch-2.11"):  # `Path("torch-2.11")` is a file, not a release.
        Path(name).write_text("softmax: fp32")
    assert Policy(value) == Policy({"softmax": "fp32"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "category"),
    [("bf16", "bfloat16"), (torch.bfloat16, "bfloat16"), ("torch.float", "fp32"), ("input_dtype", "input_dtype")],
)
def test_a_category_or_a_dtype_applies_to_every_op(value: str, category: str) -> None:
    assert {rule.category for rule in Policy(value).by_overload()} == {category}


# Each row has an op, and the names that mean the op.
NAMES: dict[str, list[object]] = {
    "softmax": [
        *("torch.softmax", "F.softmax", "nn.Softmax", "Softmax", "nn.functional.softmax", "torch.Tensor.softmax"),
        *("Tensor.softmax", "aten::softmax", "torch.ops.aten.softmax", torch.softmax, torch.nn.Softmax),
        *(torch.nn.functional.softmax, torch.Tensor.softmax, torch.ops.aten.softmax),
    ],
    "gelu": ["F.gelu", "torch.nn.functional.gelu", torch.nn.functional.gelu],  # `policy.yaml` does not list `gelu`.
    "mm": ["aten.mm", "torch.mm", torch.mm, torch.Tensor.mm],
    "sum.default": ["aten::sum.default", torch.ops.aten.sum.default],  # These names do not mean `sum.dim_IntList`.
    "silu": ["nn.SiLU", "SiLU", torch.nn.SiLU, "F.silu"],
    "log_sigmoid": ["F.logsigmoid", torch.nn.functional.logsigmoid, torch.nn.LogSigmoid],
    "im2col": ["F.unfold", torch.nn.functional.unfold, torch.nn.Unfold],
    "leaky_relu": ["nn.LeakyReLU", torch.nn.LeakyReLU],
    "pow.Scalar": ["aten::pow.Scalar", torch.ops.aten.pow.Scalar],
    "hardtanh": ["nn.ReLU6", torch.nn.ReLU6],  # PyTorch also has an op `relu6`.
    "linear": ["nn.LazyLinear"],
    "linalg_cross": ["torch.linalg.cross", torch.linalg.cross],  # "cross" is another op.
    "fft_fft": ["torch.fft.fft", torch.fft.fft],
}


@pytest.mark.parametrize(
    ("key", "op"),
    [(key, op) for op, keys in NAMES.items() for key in keys],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
def test_an_op_is_found_by_each_of_its_names(key: object, op: str) -> None:
    made = Policy({key: "bf16"})
    assert made == Policy({op: "bf16"}) and made.rules.keys() == {op}
    assert made[op] == "bfloat16"
    assert made.category(key) == dict.fromkeys(policy.devices(), "bfloat16")  # type: ignore[call-overload]
    assert policy.rules(key) == policy.rules(op)  # type: ignore[arg-type]


def test_a_custom_operator_is_listed_under_its_own_name() -> None:
    @torch.library.custom_op("keys::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    assert Policy({twice: "fp32"}) == Policy({torch.ops.keys.twice: "fp32"}) == Policy({"keys::twice": "fp32"})


# Each row has a dtype, its name in printed rules, and its spellings.
DTYPES: list[tuple[torch.dtype, str, str]] = [
    (torch.float16, "float16", "float16 fp16 f16 half FP16 torch.float16 torch.half"),
    (torch.bfloat16, "bfloat16", "bfloat16 bf16 BF16 torch.bfloat16"),
    (torch.float32, "fp32", "float32 fp32 f32 float FP32 torch.float32 torch.float"),
    (torch.float64, "float64", "float64 fp64 f64 double torch.double"),
]


@pytest.mark.parametrize(("dtype", "shown", "texts"), DTYPES, ids=[shown for _, shown, _ in DTYPES])
def test_a_dtype_is_accepted_in_every_spelling(dtype: torch.dtype, shown: str, texts: str, tmp_path: Path) -> None:
    spelled = [f" {texts.split()[0]} ", *texts.split()]
    cast = {"mv": shown, "mm": {"cpu": shown}}
    for text in (*spelled, dtype):
        assert Policy({"mv": text, "mm": {"cpu": text}}).rules == cast
        (tmp_path / "mine.yaml").write_text(f"ops: {{mv: '{text}', mm: {{cpu: '{text}'}}}}")
        assert Policy.load(tmp_path / "mine.yaml").rules == cast


def test_a_policy_converts_to_a_dict() -> None:
    assert len(MINE) == 2 and [*MINE] == [*READ] and [*MINE.items()] == [*READ.items()]
    assert {**MINE} == READ == MINE.rules == json.loads(json.dumps(MINE.rules))
    assert MINE["softmax"] == MINE.get("softmax") == "fp32" and "torch.softmax" not in MINE
    assert "pow.Scalar" in MINE and "pow" not in MINE and "nonsense" not in MINE
    assert MINE.get("nonsense") is None and MINE.get("gelu", "none") == "none"


def test_a_policy_equals_an_equivalent_one() -> None:
    assert MINE == READ == MINE == Policy(MINE) == Policy({"torch.softmax": "float32", "pow.Scalar": {"cuda": "fp16"}})
    assert Policy({"pow.Scalar": {"cuda": "fp16"}, "torch.softmax": torch.float32}) == MINE  # The order is irrelevant.
    assert MINE != {"softmax": "fp32"} and MINE != {"sofmax": "fp32"} and MINE != {} and MINE != "fp32"
    assert {MINE: 1}[Policy(READ)] == 1 and len({MINE, Policy(READ), Policy()}) == 2
    assert bool(MINE) and not Policy() and Policy(None) == Policy({}) == Policy()
    part = Policy({"norm": {"cuda": "fp32", "hpu": "fp32_append_dtype"}})  # Only `norm` can append a dtype.
    assert Policy(part.rules) == part and part.category("linalg_vector_norm", "hpu") == "fp32"


def test_the_category_of_an_op_under_a_policy_and_the_built_in_one() -> None:
    assert MINE.category("pow.Scalar", "cuda") == "float16"
    assert MINE.category("softmax")["xla"] == "fp32" and MINE.category("mm", "cpu") == "lower_precision_fp"
    assert Policy({"mm": "unlisted"}).category("mm", "cpu") == "unlisted" == MINE.category("add", "cpu")


def test_sources_do_not_affect_equality(tmp_path: Path) -> None:
    made = Policy({"mv": "fp32"})
    made.save(tmp_path / "mine.yaml")
    read = Policy.load(tmp_path / "mine.yaml")
    assert {rule.source for rule in read.by_overload()} == {f"{tmp_path / 'mine.yaml'}: ops.mv"}
    assert read == made


# Each row has two policies, and the rules of the merged policy.
JOINED: dict[str, tuple[dict[str, object], dict[str, object], dict[str, object]]] = {
    "other ops": ({"mv": "fp32"}, {"mm": "fp32"}, {"mv": "fp32", "mm": "fp32"}),
    "the later policy overrides": ({"mv": "fp32"}, {"torch.mv": "float16"}, {"mv": "float16"}),
    "on its device": ({"mv": "fp32"}, {"mv": {"xpu": "promote"}}, {"mv": {"xpu": "promote", "others": "fp32"}}),
    "an op over an overload": ({"pow.Scalar": "fp16"}, {"pow": "fp32"}, {"pow": "fp32"}),
    "an op with an exception": (
        {"gelu": "fp32", "gelu.default": {"cuda": "bf16"}},
        {"gelu": {"xpu": "fp16"}},
        {"gelu": {"xpu": "fp16", "others": "fp32"}, "gelu.default": {"cuda": "bf16"}},
    ),
    "an overload over an op": ({"pow": "fp32"}, {"pow.Scalar": "fp16"}, {"pow.Scalar": "fp16", "pow": "fp32"}),
}


@pytest.mark.parametrize(("one", "two", "both"), JOINED.values(), ids=JOINED)
def test_merged_policies_have_the_rules_of_both(
    one: dict[str, object], two: dict[str, object], both: dict[str, object]
) -> None:
    """In ``a | b``, the rules of ``b`` override the rules of ``a`` (specification 3.5)."""
    assert Policy(one) | Policy(two) == Policy(one) | two == one | Policy(two) == Policy(both)
    assert Policy(one) | None == Policy(one)


def test_a_merged_policy_has_the_rules_of_operators_of_libraries_that_are_not_imported() -> None:
    missing = Policy._with({"unknown::op": Policy("fp16")._rows["*"]})
    assert {*(missing | "fp32")._rows} == {"unknown::op", "*"}


def test_a_policy_is_immutable() -> None:
    made = Policy({"mv": "fp32"})
    for name in ("digest", "rules", "note"):
        with pytest.raises(AttributeError):
            setattr(made, name, "")
    made.rules.clear()
    assert made.rules == {"mv": "fp32"}


TABLE = """\
op             device    category     from
mv             xla       fp32         Policy: mv.xla
mv             cpu, tpu  fp32         Policy: mv.cpu
mv             mps       input_dtype  Policy: mv.mps
library::mean  all       bfloat16     Policy: library::mean
add            mps       promote      Policy: torch.add.mps"""
DIFF = """\
op    device    this      other
dist  xla       unlisted  fp32
mv    cpu, tpu  fp32      float16

unlisted: autocast leaves the op alone; the ops that it runs follow their own rules."""


def test_a_policy_and_a_difference_print_as_tables() -> None:
    mv = {"mps": "input_dtype", "xla": "fp32", "cpu": "fp32"}
    assert str(Policy({"mv": mv, "library::mean": "bfloat16", "torch.add": {"mps": "promote"}})) == TABLE
    made = Policy({"mv": {"cpu": "fp32"}, "dot": {"cpu": "fp32"}})
    assert made.diff(Policy({"dot": {"cpu": "fp32"}, "dist": {"xla": "fp32"}, "mv": {"cpu": "float16"}})) == DIFF
    assert made.diff(made) == Policy().diff() == "" and "stack" in MINE.diff("torch-2.11")


def test_a_policy_for_every_op_that_the_built_in_policy_lists() -> None:
    """A category is a policy of one rule, ``"*"``, for all ops that it fits (specification 3.2 and 3.4)."""
    made = {rule.key: rule.category for rule in Policy("fp32").by_overload()}
    assert set(made.values()) == {"fp32"}
    listed = {rule.name for rule in BUILT_IN}
    assert {name for name, _ in made} == listed
    kept = {rule.key for rule in BUILT_IN if rule.category in ("banned", "stock")}
    assert {(name, device) for name in listed for device in DEVICES} - made.keys() == kept
    assert {rule.op for rule in Policy("fp32_append_dtype").by_overload()} == {"norm"}
    assert Policy(Policy("promote").rules) == Policy("promote") == {"*": "promote"}


def test_a_listing_names_the_source_of_each_category() -> None:
    rows = policy.resolved(Policy({"mv": "fp32", "library::mean": "fp32"}), device="xla")
    said = {row.op: f"{row.category} {row.source}" for row in rows}
    assert said["mv"] == "fp32 Policy: mv"
    assert said["library::mean"] == "fp32 Policy: library::mean"
    assert said["mm"] == "lower_precision_fp policy.yaml"
    assert next(rule.note for rule in rows if rule.op == "addr").startswith("PyTorch/XLA: ")
    assert ["mv", "xla", "fp32", "Policy:", "mv"] in [line.split() for line in str(rows).splitlines()]
    for device in DEVICES:
        assert [*policy.resolved(device=device)] == sorted(rule for rule in BUILT_IN if rule.device == device)
