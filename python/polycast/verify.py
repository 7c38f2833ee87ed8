"""Checks of built-in rules and sync-free steps on an available device."""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

import polycast
from polycast import devices, syncfree
from polycast._extension import DEVICES, without_warnings
from polycast._text_table import lines_of
from polycast.cast_by_hand import Result, cast_by_hand, first_line, outcome, same, same_bits
from polycast.collect_env import facts
from polycast.installation import install, installed
from polycast.op_samples import WITHOUT_SAME_BITS, WITHOUT_SAMPLE, Make, arguments, find
from polycast.policy.rules import BUILT_IN, Rule
from polycast.scope import process

PASSED, FAILED, UNCHECKED = "passed", "failed", "not checked"
_ALLOWED = 1.05  # our mean error may be this many times the error of `torch.optim`
DESCRIPTIONS = {
    "rules": "each op returns the same bits as a call whose inputs are cast by hand",
    "steps": f"a skipped step changes nothing; the mean absolute error of the parameters against float64 is at most "
    f"{_ALLOWED:g} times the error of torch.optim",
}
# One parameter has many elements, so that rounding changes the mean error only a little.
_SHAPES = ((), (3, 5), (0, 2), (40, 250))
# The steps from `_CLIPPED` on clip the gradients to the norm `_MAX_NORM`.
_STEPS, _CLIPPED, _MAX_NORM = 24, 12, 30.0
# `_SKIPPED` maps each skipped step to the index of a gradient and the value of this gradient's last element.
_SKIPPED = {1: (1, math.nan), 6: (-1, math.inf), 9: (0, -math.inf)}
OPTIMIZERS: dict[str, dict[str, Any]] = {"SGD": {"momentum": 0.9}, "Adam": {}, "AdamW": {}}
Found = tuple[str, str]  # a check returns its outcome and its finding
Checks = Iterator[tuple[str, Callable[[], Found]]]


class Check(NamedTuple):
    """The result of one check on one device."""

    part: str
    """"rules" or "steps"."""
    name: str
    """The subject of the check, such as "softmax.int" or "AdamW in float32"."""
    outcome: str
    """"passed", "failed" or "not checked"."""
    found: str
    """The finding, or the reason why nothing could be checked."""


@dataclass
class Verification:
    """The results of :func:`verify` on a device, which print as a text with a section for each part."""

    device_type: str
    facts: dict[str, str]
    """Versions and other facts for a bug report."""
    checks: list[Check] = field(default_factory=list)

    @property
    def failed(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in self.checks if check.outcome == FAILED]

    def __str__(self) -> str:
        """Return the facts, then the counts and the failed and unchecked checks of each part, then the verdict."""
        paragraphs = [lines_of([*self.facts.items()])]
        for part in dict.fromkeys(check.part for check in self.checks):
            checks = [check for check in self.checks if check.part == part]
            paragraphs.append([f"{part}: {DESCRIPTIONS[part]}", f"  {_counts(checks)}"])
            unchecked: dict[str, list[str]] = {}
            for check in checks:
                if check.outcome == FAILED:
                    paragraphs[-1].append(f"  failed: {check.name}: {check.found}")
                elif check.outcome == UNCHECKED:
                    unchecked.setdefault(check.found, []).append(check.name)
            paragraphs[-1] += [f"  not checked: {reason}: {', '.join(names)}" for reason, names in unchecked.items()]
        return "\n\n".join([*map("\n".join, paragraphs), self.verdict()])

    def verdict(self) -> str:
        """Return the last line: the number of checks with each outcome, and the names of the failed checks."""
        names = ", ".join(check.name for check in self.failed)
        return _counts(self.checks) + (f"; failed on {self.device_type}: {names}" if names else "")


def verify(
    device: str | torch.device | None = None,
    parts: Iterable[str] = tuple(DESCRIPTIONS),
    progress: Callable[[str, str], object] = lambda _, __: None,
) -> Verification:
    """Check polycast on a device, with real tensors, and return the results.

    - rules: each op with a built-in rule for the device returns the same bits as a call whose inputs are cast by hand.
      Ops whose bits differ between equal calls, for example, are not checked.
    - steps: SGD, Adam and AdamW run steps; some are skipped and some are clipped. A skipped step changes nothing.
      The mean absolute error of the parameters against float64 is at most 1.05 times the error of ``torch.optim``.

    During the checks, the process-wide policy does not apply, and polycast's kernels are installed, unless an unlisted
    backend has kernels of its own. Both changes are undone afterwards. Run nothing else in the process meanwhile.

    Args:
        device: A device type, such as "cuda"; an index is ignored. The default is as for :func:`polycast.autocast`.
        parts: The parts to check: "rules", "steps", or both.
        progress: A function that is called with the part and the name of each check before the check runs.

    Returns:
        The results, and the facts for a bug report.

    Raises:
        ValueError: If the device is not available, or a part is unknown.
        TypeError: If the device is neither a str nor a ``torch.device``.
        RuntimeError: If no device is given, no accelerator is found, and ``torch_xla`` is imported but not in use.

    Example:
        >>> import polycast
        >>> found = polycast.debug.verify("cpu", parts=["steps"])
        >>> print(found.verdict())
        6 passed, 0 failed, 0 not checked
    """
    chosen = list(dict.fromkeys(parts))
    for part in chosen:
        if part not in DESCRIPTIONS:
            raise ValueError(f"parts: expected {' or '.join(DESCRIPTIONS)}, got '{part}'; pass one of these")
    device_type = _device_here(device)
    device = devices.device_of(device_type)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), process.use(None):
        # PyTorch warns of deprecated ops, and polycast warns of backends with kernels of their own.
        warnings.simplefilter("ignore")
        with nullcontext() if device in installed() else install(device_type):
            rules = f"the rules of {device}" if device in installed() else "rules of its own"
            found = Verification(device_type, {"device": f"{device_type}, which has {rules}", **facts()})
            for part in chosen:
                for name, check in PARTS[part](device_type):
                    progress(part, name)
                    found.checks.append(Check(part, name, *without_warnings(partial(_attempt, check))))
    return found


def _attempt(check: Callable[[], Found]) -> Found:
    """Run a check, and report an error as a failure."""
    try:
        return check()
    except Exception as error:
        return FAILED, f"it raises {type(error).__name__}: {first_line(error)}".rstrip(": ")


def _counts(checks: Sequence[Check]) -> str:
    count = Counter(check.outcome for check in checks)
    return ", ".join(f"{count[outcome]} {outcome}" for outcome in (PASSED, FAILED, UNCHECKED))


def _device_here(device: str | torch.device | None) -> str:
    """Return the type of the device to check. Raise a ``ValueError`` if the device is not available."""
    device_type = devices.current() if device is None else devices.known_device_type(device)
    for package, late in devices.LATE.items():
        if device_type == late and find_spec(package) is not None:
            import_module(package)
    try:
        torch.empty(0, device=device_type)
    except (RuntimeError, AssertionError, ImportError) as error:  # PyTorch raises these for a missing device
        here = " or ".join(name for name in devices.device_types() if devices.facts_of(name).is_here)
        text = f"device: expected an available device, got '{device_type}'; use {here}"
        raise ValueError(f"{text}. PyTorch raises: {first_line(error)}") from None
    return device_type


def _check_rules(device_type: str) -> Checks:
    device = devices.device_of(device_type)
    for rule in BUILT_IN:
        if rule.device == device:
            yield rule.name, partial(_check_rule, rule, device_type)


def _check_rule(rule: Rule, device_type: str) -> Found:
    operator = None if rule.name in WITHOUT_SAMPLE else find(rule.name)
    if rule.device not in installed():
        return UNCHECKED, "the backend's own kernels are used"
    if operator is None:
        return UNCHECKED, f"it {WITHOUT_SAMPLE.get(rule.name, 'is not in the installed PyTorch')}"
    if rule.category == "stock":
        return UNCHECKED, "PyTorch's own kernel is used"
    # The category `fp32_append_dtype` calls another overload of the op.
    below = getattr(torch.ops.aten, rule.op) if rule.category == "fp32_append_dtype" else operator
    is_banned, f32 = rule.category == "banned", torch.float32
    problems, reasons, has_equal = list[str](), list[str](), False
    for lower in DEVICES[rule.device].lower_precision:
        for given in ((f32,), (lower,), (f32, lower)):
            hand = partial(_result, below, rule, device_type, given, lower)
            with polycast.autocast(device_type, lower):
                ours = _result(operator, rule, device_type, given)
            theirs = "it is banned" if is_banned else hand()
            if isinstance(ours, str) and isinstance(theirs, str):
                reasons.append(f"it raises: {ours}")
            elif same(ours, theirs):
                has_equal = True
            elif rule.name in WITHOUT_SAME_BITS or not all(same(theirs, hand()) for _ in range(4)):
                reasons.append("its bits differ from call to call")
            else:
                what = f"values or dtypes ({_told(ours)}) differ from a call with inputs cast by hand ({_told(theirs)})"
                problems.append(f"in {_names([lower])}, given {_names(given)}, {what}")
    if problems:
        return FAILED, f"{rule.category}: {'; '.join(problems[:2])}"
    return (PASSED, rule.category) if has_equal or is_banned else (UNCHECKED, reasons[0])


def _result(
    operator: Any, rule: Rule, device_type: str, given: Sequence[torch.dtype], lower: torch.dtype | None = None
) -> Result:
    """Return the result of a call. If ``lower`` is given, the inputs are cast by hand as the rule states."""

    def call() -> Any:  # the call raises if the device does not support the tensors
        sample = arguments(rule.name, Make(device_type, *given))
        args, kwargs = sample if lower is None else cast_by_hand(rule.category, sample, lower)
        return operator(*args, **kwargs)

    return outcome(call)


def _told(result: Result) -> str:
    return f"an error ({result})" if isinstance(result, str) else _names([tensor.dtype for tensor in result])


def _names(dtypes: Sequence[torch.dtype]) -> str:
    return " and ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)


def _check_steps(device_type: str) -> Checks:
    """Yield a check of each optimizer, in float32 and in bfloat16."""
    for name in OPTIMIZERS:
        for dtype in (torch.float32, torch.bfloat16):
            yield f"{name} in {_names([dtype])}", partial(_check_step, name, device_type, dtype)


def _check_step(name: str, device_type: str, dtype: torch.dtype) -> Found:
    exact, _ = _train(name, torch.optim, devices.HOST, dtype, torch.float64)
    # Foreach steps and the for-loop of the CPU round differently. So the reference runs on the device if polycast runs
    # the steps of `torch.optim` on this device.
    place = devices.HOST if devices.facts_of(device_type).skips_by_itself else device_type
    stock, _ = _train(name, torch.optim, place, dtype, dtype)
    ours, changed = _train(name, syncfree, device_type, dtype, dtype)
    allowed, error = ((params - exact).abs().mean().item() for params in (stock, ours))
    problems = [f"a skipped step changed {changed} tensors"] if changed else []
    if not error <= _ALLOWED * allowed:
        problems.append(f"the error is more than {_ALLOWED} times the error of torch.optim on {place}")
    errors = f"mean absolute error of the parameters: torch.optim {allowed:.3g}, polycast {error:.3g}"
    return FAILED if problems else PASSED, "; ".join([*problems, errors])


def _train(name: str, module: Any, device_type: str, given: torch.dtype, dtype: torch.dtype) -> tuple[Tensor, int]:
    """Train in ``dtype`` from values that were rounded to ``given``. Only polycast's optimizers use a scaler.

    Returns:
        The parameters, and the number of tensors that skipped steps changed.
    """
    generator, changed = torch.Generator().manual_seed(0), 0
    params, *steps = (
        [torch.randn(shape, generator=generator).to(given).to(device_type, dtype) for shape in _SHAPES]
        for _ in range(1 + _STEPS)
    )
    optimizer = getattr(module, name)(params, lr=0.01, weight_decay=0.1, **OPTIMIZERS[name])
    scaler = polycast.GradScaler(device_type, init_scale=1024.0)
    for number, grads in enumerate(steps):
        is_skipped, is_clipped, is_ours = number in _SKIPPED, number >= _CLIPPED, module is syncfree
        if is_skipped:
            index, value = _SKIPPED[number]
            grads[index].view(-1)[-1] = value
        for param, grad in zip(params, grads, strict=True):
            param.grad = scaler.scale(grad).to(dtype) if is_ours else grad
        before = _values(optimizer) if is_skipped else []
        if is_ours:
            if is_clipped:
                scaler.clip_grad_norm(optimizer, _MAX_NORM)
            scaler.step(optimizer)
            scaler.update()
        elif not is_skipped:
            torch.nn.utils.clip_grad_norm_(params, _MAX_NORM if is_clipped else math.inf)
            optimizer.step()
        devices.facts_of(device_type).end_step()
        if is_skipped:
            changed += sum(not same_bits(*pair) for pair in zip(before, _values(optimizer), strict=True))
    return torch.cat([param.detach().cpu().double().view(-1) for param in params]), changed


def _values(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return copies on the CPU of the tensors that a step may write: the parameters and their state."""
    state = [value for values in optimizer.state.values() for value in values.values() if isinstance(value, Tensor)]
    written = [param for group in optimizer.param_groups for param in group["params"]] + state
    return [tensor.detach().to(devices.HOST, copy=True) for tensor in written]


PARTS: dict[str, Callable[[str], Checks]] = {"rules": _check_rules, "steps": _check_steps}
