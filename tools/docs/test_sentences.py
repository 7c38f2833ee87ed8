"""The sentences of an op's page say in plain words what the policy does, and its example advises nothing that harms."""

import re
from typing import Any

import polycast
import pytest
import torch
from polycast._grammar.categories import UNLISTED
from polycast.debug.verification import samples
from polycast.debug.verification.outcomes import flatten
from polycast.policy.releases import releases
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support import probe
from tools.docs import facts, pages, sentences
from tools.docs.example import example
from tools.docs.facts import POLICY

OPS = {op.name: op for op in POLICY.ops}
STAYS = "it computes in the dtype of its inputs"
LOWERS = "computes in the region's dtype (float16 or bfloat16)"
WIDENS = "computes in the widest dtype of its inputs"
CATEGORY = re.compile(rf"\b({'|'.join([*polycast.policy.categories(), UNLISTED])})\b")
DEVICES = polycast.policy.devices()


def without_links(text: str) -> str:
    return re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text)


def told_devices(words: str, before: set[str]) -> set[str]:
    """Return the devices that a part of an opening means, of which `before` are those told so far."""
    named = {*re.findall(rf"\b(?:{'|'.join(DEVICES)})\b(?!-)", words)}
    if "every" in words or words == "There":
        return {*DEVICES} - (named if "but" in words else before)
    for family, its in sentences.families().items():
        if family in words:
            absent = {*re.findall(r"\w+", (re.findall(r"\(not (.*?)\)", words) or [""])[0])}
            named = named - absent | {*its} - absent
    return named


# How the page of each opens; the op's name is the first word, or the first after the release.
LEADS = {
    "softmax": f"softmax computes in float32 on every device but cpu and tpu. There {STAYS}.",
    "conv2d": f"conv2d {LOWERS} on every device.",
    "rms_norm": "Since torch 2.12, rms_norm computes in float32 on cuda-like devices (not npu and mlu) and xpu. "
    "Before torch 2.12, and in every release on every other device, it computes in float32 by its own code and returns "
    "the dtype of its inputs.",
    "layer_norm": f"layer_norm computes in float32 on every device but xla, cpu and tpu. There {STAYS}.",
    "bmm": f"bmm {LOWERS} on every device.",
    "cat": f"cat {WIDENS} on xla, xpu and cpu. On every other device {STAYS}, "
    "and torch itself promotes inputs of different dtypes.",
    "binary_cross_entropy": "binary_cross_entropy raises an error on cuda-like devices. "
    f"On xla, xpu, cpu and tpu it computes in float32. On mps {STAYS}.",
    "index_put": f"index_put {WIDENS} on every device but xla, cpu and tpu. There {STAYS}.",
    "pow": f"pow computes in float32 on every device but xla, cpu and tpu. There {STAYS}.",
    "lstm_cell": f"lstm_cell {LOWERS} on every device but xla and cpu. "
    "There it has no rule of its own: linear, which it runs, follows its own.",
    "grid_sampler": f"grid_sampler {WIDENS} on every device but xla, cpu and tpu. "
    f"On cpu and tpu it computes in float32. On xla {STAYS}.",
    "relu": f"relu {LOWERS} on xla. On every other device {STAYS}.",
    "convolution_overrideable": f"convolution_overrideable {LOWERS} on musa. On every other device {STAYS}.",
    "_cudnn_rnn": f"_cudnn_rnn keeps torch's own kernel on cuda and mlu. On every other device {STAYS}.",
    "cudnn_convolution": f"cudnn_convolution {LOWERS} on cuda, npu and mlu. On every other device {STAYS}.",
    "fft_fft": f"fft_fft computes in float32 and returns complex64 on xpu, cpu and tpu. On every other device {STAYS}.",
    "cholesky": f"Before torch 2.14, cholesky computes in float32 on xla, cpu and tpu. On every other device {STAYS}.",
    "einsum": f"einsum {LOWERS} on every device but cpu. "
    "There it has no rule of its own: bmm, which it runs, follows its own.",
}
DIFFERENCES = {
    "softmax": "on npu it computes in the dtype of its inputs",
    "pow": "on xla it computes in float32",
    "conv2d": "",
    "stft": "on xla it has no rule of its own: reflection_pad1d, which it runs, follows its own",
}


@pytest.mark.parametrize("op", LEADS)
def test_a_page_opens_with_what_the_op_does(op: str) -> None:
    opening = pages.op_page(OPS[op]).partition(f"# {op}\n\n")[2].partition("\n")[0]
    assert without_links(opening) == LEADS[op]


@pytest.mark.parametrize("op", DIFFERENCES)
def test_another_overload_is_a_line_of_what_differs(op: str) -> None:
    first, other = facts.sections(OPS[op])
    assert without_links(sentences.difference(other, first)) == DIFFERENCES[op]


@pytest.mark.parametrize("op", OPS)
def test_an_opening_is_sentences_and_names_no_category(op: str) -> None:
    told = sentences.lead(OPS[op], facts.sections(OPS[op])[0])
    assert not CATEGORY.search(told)
    assert told.count("every other device") <= 1 and "  " not in told and told.endswith(".")


@pytest.mark.parametrize(
    "op", [op for op in OPS if len({line.since for line in facts.sections(OPS[op])[0].lines}) == 1]
)
def test_an_opening_has_what_the_op_does_on_each_device(op: str) -> None:
    """Read back, sentence by sentence, it is the table."""
    told: dict[str, str] = {}
    for sentence in without_links(sentences.lead(OPS[op], facts.sections(OPS[op])[0])).removesuffix(".").split(". "):
        where, does = sentence.removeprefix("On ").split(" it ", 1) if told else sentence.rsplit(" on ", 1)[::-1]
        does = does.removeprefix(f"{op} ").rpartition(f", {op} ")[2]
        told |= dict.fromkeys(told_devices(where, {*told}) - {*told}, does)
    assert told == {
        device: without_links(sentences.clause(line))
        for line in facts.sections(OPS[op])[0].lines
        for device in line.devices
    }


class Inputs(TorchDispatchMode):
    """Collects the dtypes that the ops within a call are given."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.dtypes |= {tensor.dtype for tensor in flatten((args, kwargs)) if tensor.is_floating_point()}
        return func(*args, **(kwargs or {}))


def test_an_unlisted_op_computes_in_what_its_page_says() -> None:
    """Of composite ops, as seen on the CPU in float16, except those that have no kernel for it."""
    tried, widened = 0, set()
    for op in OPS.values():
        for section in facts.sections(op):
            told = {sentences.clause(line) for line in section.lines if line.category == UNLISTED}
            for name in section.names if told else ():
                if name not in facts.calls()[1]:
                    continue
                sample = samples.arguments(name, samples.Make("cpu", torch.float16))
                try:
                    with probe.stock_kernels(), Inputs() as seen:
                        (samples.find(name) or pytest.fail(name))(*sample.args, **sample.kwargs)
                except RuntimeError:
                    continue
                is_wider = seen.dtypes != {torch.float16}
                widened |= {name} if is_wider else set()
                assert any("float32 by its own code" in one for one in told) == is_wider, name
                tried += 1
    assert tried > 20 and "rms_norm" in widened  # 29 where torch has no named tensors


@pytest.mark.parametrize(("op", "does"), [("cat", True), ("stack", True), ("index_put", False), ("relu", False)])
def test_a_page_says_where_torch_itself_promotes(op: str, does: bool) -> None:
    assert ("torch itself promotes" in sentences.lead(OPS[op], facts.sections(OPS[op])[0])) == does


def test_a_list_of_a_document_names_no_device_that_only_follows() -> None:
    text = pages.op_page(OPS["binary_cross_entropy"])
    assert "lists it as `banned` for cuda (xla_gpu follows cuda)." in text
    assert pages.documented(("xpu",)) == "xpu"


@pytest.mark.parametrize("op", OPS)
def test_float32_is_explained_where_most_devices_list_it(op: str) -> None:
    """The CPU's own list has ops that only lack a kernel, such as view_as_complex."""
    first = facts.sections(OPS[op])[0]
    listed = {device for line in first.lines if line.category in facts.FLOAT32 for device in line.devices}
    assert ("the range or the digits" in sentences.why(first)) == (len(listed) > len(DEVICES) / 2)


def test_the_reason_of_a_change_stands_beside_the_opening() -> None:
    text = pages.op_page(OPS["rms_norm"]).partition("## On each device")[0]
    assert releases()["torch-2.12"].reasons["rms_norm"].partition("(")[0] in text and text.count("**Why:**") == 1
    assert "their gradient may not be representable" in pages.op_page(OPS["binary_cross_entropy"]).partition("## ")[0]


@pytest.mark.parametrize("op", OPS)
def test_no_page_advises_to_lower_an_op_that_needs_float32(op: str) -> None:
    """A rule that lowers follows a warning, and is not shown for an op that any device refuses or that then raises."""
    shown, text = example(OPS[op]), pages.op_page(OPS[op])
    is_lowered = shown.category == "lower_precision_fp"
    warns = text.find("Keep it in float32 unless you have compared the losses")
    assert (warns > 0) == is_lowered and warns < text.find("```python")
    assert not (is_lowered and any(rule.message for rule in OPS[op].rules))


def test_most_pages_show_the_dtype_with_the_rule_and_without() -> None:
    dtypes = [op for op in OPS if "torch.float32" in pages.op_page(OPS[op])]
    assert len(dtypes) > 120


def test_torchs_documentation_is_linked_by_a_public_name() -> None:
    linked = {op: pages.manual(OPS[op]) for op in OPS}
    assert linked["softmax"] == "torch.nn.functional.softmax" and linked["norm"] == "torch.norm"
    assert linked["conv_tbc"] == linked["_cudnn_rnn"] == ""  # which torch documents nowhere
    assert all(name in OPS[op].public for op, name in linked.items() if name)
