"""Dtypes in every spelling, in arguments and in rules."""

from pathlib import Path

import pytest
import torch
from polycast import Policy
from polycast._dtypes import dtype_of

# spellings of a dtype, and how rules print it
SPELLINGS: dict[torch.dtype, tuple[str, tuple[str, ...]]] = {
    torch.float16: ("float16", ("float16", "fp16", "f16", "half", "FP16", "torch.float16", "torch.half")),
    torch.bfloat16: ("bfloat16", ("bfloat16", "bf16", "BF16", "torch.bfloat16", " bf16 ")),
    torch.float32: ("fp32", ("float32", "fp32", "f32", "float", "FP32", "torch.float32", "torch.float")),
    torch.float64: ("float64", ("float64", "fp64", "f64", "double", "torch.double")),
}
EVERY = [(text, dtype, shown) for dtype, (shown, texts) in SPELLINGS.items() for text in texts]


@pytest.mark.parametrize(("text", "dtype"), [(text, dtype) for text, dtype, _ in EVERY])
def test_a_dtype_is_taken_in_every_spelling(text: str, dtype: torch.dtype) -> None:
    assert dtype_of(text) is dtype is dtype_of(dtype)


@pytest.mark.parametrize(("text", "dtype", "shown"), EVERY)
def test_a_rule_takes_every_spelling_and_prints_one(text: str, dtype: torch.dtype, shown: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"ops: {{mv: '{text}', mm: {{cpu: {{as: '{text}'}}}}}}")
    rules = {"mv": text, "mm": {"cpu": text}}
    for made in (Policy(rules), Policy({"mv": dtype, "mm": {"cpu": [dtype]}}), Policy.load(tmp_path / "mine.yaml")):
        assert made.rules == {"mv": shown, "mm": {"cpu": shown}}


def test_a_dtype_that_nothing_is_cast_to_is_one() -> None:
    assert dtype_of("int8") is torch.int8 and dtype_of("torch.long") is torch.int64


# what is no dtype, and the error
WRONG: dict[object, str] = {
    "bflot16": "ValueError: the dtype is 'bflot16', which torch does not have; did you mean 'bfloat16'?",
    "fp23": "ValueError: the dtype is 'fp23', which torch does not have; did you mean 'float32'?",
    "mm": "ValueError: the dtype is 'mm', which torch does not have; use one of float16, bfloat16, float32, float64",
    3: "TypeError: the dtype is 3; give a torch.dtype or its name, such as 'bfloat16'",
    None: "TypeError: the dtype is None; give a torch.dtype or its name, such as 'bfloat16'",
    float: "TypeError: the dtype is <class 'float'>; give a torch.dtype or its name, such as 'bfloat16'",
}


@pytest.mark.parametrize(("value", "error"), WRONG.items())
def test_what_is_no_dtype_is_shown_with_what_is_near(value: object, error: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        dtype_of(value)  # type: ignore[arg-type]
    assert f"{caught.type.__name__}: {caught.value}" == error
