"""What a call gives in a region: its values, its gradients, or its error; and what it gives if it is cast by hand."""

import functools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from polycast._grammar.categories import Category
from polycast.backends import device_type_of
from polycast.debug.verification.findings import first_line
from polycast.debug.verification.samples import Arguments

# Floating-point dtypes of less than 16 bits hold a payload, whose values need a scale that they do not carry.
NARROW = [
    dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point and dtype.itemsize < 2
]
SETS_DTYPE = (Category.FP32_SET_OPT_DTYPE.value, Category.FP32_APPEND_DTYPE.value)
Result = list[torch.Tensor] | str


@contextmanager
def region(device: str, dtype: torch.dtype) -> Iterator[None]:
    """Autocast on a device of the policy without torch's question whether the device is there."""
    device_type = device_type_of(device)
    enabled, previous = torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type)
    torch.set_autocast_enabled(device_type, True)
    torch.set_autocast_dtype(device_type, dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device_type, enabled)
        torch.set_autocast_dtype(device_type, previous)
        torch.clear_autocast_cache()


def autocast(operator: Callable[..., Any], device: str, lower: torch.dtype) -> Callable[..., Any]:
    """Return the operator as it is in a region."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with region(device, lower):
            return operator(*args, **kwargs)

    return call


def outcome(operator: Callable[..., Any], sample: Arguments) -> Result:
    """Return the tensors that a call gives, on the host and without names, or the text of the error that it raises."""
    try:
        with torch.no_grad():
            tensors = [tensor.cpu() for tensor in flatten(operator(*sample.args, **sample.kwargs))]
            return [nameless(tensor) for tensor in tensors]
    except RuntimeError as error:
        return first_line(error)


def gradients(operator: Callable[..., Any], sample: Arguments, only: Collection[int] | None = None) -> Result:
    """Return the gradients of the floating inputs, or of those numbered, on the host, or the text of the error.

    The outputs are weighted unevenly, so that no gradient cancels. An input that no output depends on has none.
    """
    inputs = [tensor.detach() for tensor in tensors(sample)]
    leaves = [
        tensor.requires_grad_()
        for index, tensor in enumerate(inputs)
        if tensor.is_floating_point() and (only is None or index in only)
    ]
    fresh = iter(inputs)
    call = replaced(sample, lambda _: next(fresh))
    try:
        with torch.enable_grad():  # type: ignore[no-untyped-call]
            outputs = [nameless(output) for output in flatten(operator(*call.args, **call.kwargs))]
        smooth = [output for output in outputs if output.requires_grad]
        torch.autograd.backward(smooth, [_uneven(output) for output in smooth])
    except RuntimeError as error:
        return first_line(error)
    return [nameless(leaf.grad.cpu()) for leaf in leaves if leaf.grad is not None]


def _uneven(output: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(0.5, 1.5, output.numel()).reshape(output.shape)
    return weights.to(output.dtype).to(output.device)


def results(operator: Callable[..., Any], sample: Arguments) -> list[Result]:
    """Return the values of a call, and its gradients; those of each input alone if an input has no derivative."""
    values, together = outcome(operator, sample), gradients(operator, sample)
    if not isinstance(together, str):
        return [values, together]
    return [values, *(gradients(operator, sample, [index]) for index, _ in enumerate(tensors(sample)))]


def same(ours: Result, theirs: Result) -> bool:
    """Return whether two results have the same dtypes, shapes and bits, or the same error."""
    if isinstance(ours, str) or isinstance(theirs, str) or len(ours) != len(theirs):
        return ours == theirs
    return all(map(same_bits, ours, theirs))


def close(ours: Result, theirs: Result) -> bool:
    """Return whether two results have the same dtypes and shapes, and values with half of the digits in common."""
    if isinstance(ours, str) or isinstance(theirs, str) or len(ours) != len(theirs):
        return ours == theirs
    return all(map(_close, ours, theirs))


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    is_inexact = one.is_floating_point() or one.is_complex()
    tolerance = torch.finfo(one.dtype).eps ** 0.5 if is_inexact else 0.0
    return torch.allclose(one, other, tolerance, tolerance, equal_nan=True)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether two tensors have the same dtype, shape and bits: NaNs and the signs of zeros count."""
    return left.dtype == right.dtype and left.shape == right.shape and _bits(left).equal(_bits(right))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)


def nameless(tensor: Any) -> torch.Tensor:
    """Return a tensor without names, which newer releases of torch do not have."""
    return tensor.rename(None) if getattr(tensor, "has_names", bool)() else tensor  # type: ignore[no-any-return]


def cast_by_hand(category: str, sample: Arguments, lower: torch.dtype) -> Arguments:
    """Return the arguments as the sentence of the category says that the op gets them."""
    if category in SETS_DTYPE:
        return Arguments(sample.args, {**sample.kwargs, "dtype": torch.float32})
    dtypes = iter(expected(category, [tensor.dtype for tensor in tensors(sample)], lower))
    return replaced(sample, lambda tensor: tensor.to(next(dtypes)))


def expected(category: str, given: list[torch.dtype], lower: torch.dtype) -> list[torch.dtype]:
    """Return the dtypes that inputs of the given dtypes arrive in."""
    eligible = [dtype for dtype in given if dtype.is_floating_point and dtype not in (torch.float64, *NARROW)]
    if category == Category.INPUT_DTYPE.value or not eligible:
        return given
    widest = functools.reduce(torch.promote_types, eligible)
    targets = {Category.LOWER_PRECISION_FP: lower, Category.FP32: torch.float32, Category.PROMOTE: widest}
    to = targets[Category(category)]
    return [to if dtype in eligible else dtype for dtype in given]


def flatten(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples and lists."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from flatten(item)


def tensors(sample: Arguments) -> Iterator[torch.Tensor]:
    """Yield the tensors among the arguments of a call."""
    yield from flatten((tuple(sample.args), tuple(sample.kwargs.values())))


def replaced(sample: Arguments, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
    """Return the arguments with each tensor changed, in the order of `tensors`."""

    def walk(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return change(value)
        return type(value)(map(walk, value)) if isinstance(value, (list, tuple)) else value

    args = [walk(value) for value in sample.args]
    return Arguments(args, {name: walk(value) for name, value in sample.kwargs.items()})
