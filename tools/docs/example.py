"""The example of a rule on an op's page: a call whose result has another dtype with the rule."""

import warnings
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import polycast
import torch
from polycast._grammar.categories import UNLISTED, Category
from polycast._grammar.names import split_name
from polycast.backends import HOST
from polycast.debug.verification import samples
from polycast.debug.verification.outcomes import flatten

from codegen.model import Op
from tests.support import probe
from tools.docs import facts
from tools.docs.facts import FLOAT32, POLICY


class Example(NamedTuple):
    """A rule, and what it changes: the dtype of a call's result, or the category on a device if there is no call."""

    category: str
    before: str
    after: str
    device: str = HOST
    call: str = ""
    inputs: tuple[str, ...] = ()  # a line each
    fails: bool = False  # on the CPU, in a lower precision


@cache
def example(op: Op) -> Example:
    """Return a rule that is worth a try: float32 for what is not, else the region's dtype if the CPU has it."""
    first = facts.sections(op)[0]
    on = {device: line.category for line in reversed(first.lines) for device in line.devices}
    is_float32 = on[HOST] in FLOAT32
    if Category.BANNED.value in on.values():
        return Example(Category.BANNED.value, on[HOST], Category.BANNED.value)
    category = Category.LOWER_PRECISION_FP.value if is_float32 else Category.FP32.value
    dtypes: list[str] = []
    for name in first.names if samples.find(first.names[0]) and not first.since else ():
        if name in samples.SAMPLES and name not in samples.WITHOUT_CPU_KERNEL:
            is_cast = is_float32 or on[HOST] == Category.LOWER_PRECISION_FP.value
            call, inputs = _call(op, name, "" if is_cast else ", dtype=torch.bfloat16")
            dtypes = _dtypes(call, inputs, [None, {op.name: category}])
            if len({*dtypes}) == 2:
                lines = tuple(f"{word} = {source}" for word, source in inputs.items())
                return Example(category, dtypes[0], dtypes[1], HOST, call, lines)
    fixed = {*FLOAT32, Category.STOCK.value}
    others = [device.name for device in POLICY.devices if on[device.name] not in fixed]
    device = next((name for name in others if on[name] != UNLISTED), (*others, HOST)[0])
    fails = is_float32 and len(dtypes) == 1
    return Example(Category.FP32.value, on[device], Category.FP32.value, device, fails=fails)


def _call(op: Op, name: str, dtype: str) -> tuple[str, dict[str, str]]:
    """Return the call of an overload, by the first public name that takes its arguments, and the code of its inputs."""
    sample = samples.arguments(name, samples.Make("cpu"))
    schemas = {one.overload_name: one for one in torch._C._jit_get_schemas_for_operator(f"aten::{op.name}")}
    names = ["x" if one.name in ("self", "input") else one.name for one in schemas[split_name(name)[1] or ""].arguments]
    values = {**dict(zip(names, sample.args, strict=False)), **sample.kwargs}
    inputs = {word: value for word, value in values.items() if [*flatten(value)]}
    words = [word if word in inputs else repr(value) for word, value in values.items()]
    words = [f"{key}={word}" if key in sample.kwargs else word for key, word in zip(values, words, strict=True)]
    functions = [*op.public, f"torch.ops.aten.{name}"]
    results: dict[str, str] = {}
    with probe.stock_kernels(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in functions[::-1]:
            with suppress(Exception):
                result = eval(f"{function}({', '.join(words)})", {"torch": torch}, {**inputs})
                results[function] = str([*flatten(result)]) + ("" if isinstance(result, torch.Tensor) else "[0]")
    call = [function for function, result in results.items() if result == results[functions[-1]]][-1]
    call += f"({', '.join(words)}){'[0]' if results[functions[-1]].endswith('[0]') else ''}"
    return call, {word: _source(value, dtype) for word, value in inputs.items()}


def _dtypes(call: str, inputs: dict[str, str], policies: list[Any]) -> list[str]:
    """Return the dtype of a call's result in a region of each policy, until one raises."""
    found = []
    with suppress(RuntimeError):
        for policy in policies:
            with polycast.autocast(HOST, policy=policy):
                held = {word: eval(source, {"torch": torch}) for word, source in inputs.items()}
                found.append(str(eval(call, {"torch": torch}, held).dtype))
    return found


def _source(value: Any, dtype: str) -> str:
    """Return code for tensors like these. A square matrix is the identity, which every decomposition takes."""
    if not isinstance(value, torch.Tensor):
        return f"[{', '.join(_source(one, dtype) for one in value)}]"
    if not value.is_floating_point():
        return f"torch.tensor({value.tolist()}{'' if value.dtype == torch.int64 else f', dtype={value.dtype}'})"
    if value.dim() == 2 and value.shape[0] == value.shape[1]:
        return f"torch.eye({value.shape[0]}{dtype})"
    return f"torch.rand({', '.join(map(str, value.shape)) or '()'}{dtype})"
