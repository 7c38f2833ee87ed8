"""A watch for the first non-finite value, and for a rule that avoids it."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from polycast import _warnings
from polycast._extension import (
    any_non_finite,
    drop_calls,
    held_calls,
    held_count,
    key_of,
    pause_holding,
    set_step,
    start_holding,
)
from polycast.debug.calls import BACKWARD, FORWARD, Call
from polycast.debug.findings import Finding, find
from polycast.debug.first_nonfinite import Flow, NonFinite, is_finite
from polycast.debug.observer import Observer
from polycast.debug.program_calls import StepCalls
from polycast.debug.tensor_stats import read_numbers
from polycast.torch_internals import disabled, without_dispatch_modes

_MOST = 8  # a check of a step reports at most this many findings
_LOST = 0.5  # a gradient is lost in a step if a larger share of its elements underflows
_LOSSY_STEPS = 3  # a parameter is reported after its gradient was lost in this many steps
_PATIENCE = 16  # more skipped steps in a row would halve a scaler's first scale, 2**16, to below 1


class Flushed(NamedTuple):
    """A parameter most of whose gradient underflows to zero in float16, and the share of zeros in the gradient."""

    step: int
    name: str
    share: float

    def __str__(self) -> str:
        lost = f"{self.share:.0%} of the gradient of '{self.name}' underflows to zero"
        return f"step {self.step}: {lost}: use a GradScaler, or raise its init_scale"


class watch:  # noqa: N801 - lower case, like torch.autocast
    """A context manager that finds the ops that make infinities and NaNs in forward, backward or an optimizer's step.

    It also finds rules that avoid them. The watch stores references to the inputs of all calls of a step, which can
    take two to four times the memory of the program. Before a step writes weights, the watch searches for the calls
    that make non-finite values. It runs earlier calls again, to find where the problem begins, and tries rules that may
    avoid it.

    An overflow in backward is not a finding if a scaler skips the step, unless over 16 consecutive steps overflow.
    Intended infinities, such as ``masked_fill(mask, -math.inf)``, are not findings. Infinities that change no result,
    as in a mask that softmax maps to zero, are not findings either. Infinities that also occur in float32, such as
    ``log(0)``, are findings only if a result, a gradient or a weight is non-finite. A watch ignores compiled code.

    Args:
        model: The model whose module names identify the calls.
        optimizer: The optimizer whose step ends a step of the watch. If None, any optimizer's step ends one.
            After a backward, a step also ends when other code writes the model's weights, or when a scaler updates its
            scale after a skipped step. Without gradients, each run of the model is a step.

    Attributes:
        findings: The findings so far. A value that follows from a finding is not another finding, even in a later step.
        steps: The number of steps that have ended.
        ops: The number of checked calls.
        flushed: The parameters most of whose gradient underflows to zero in float16, in three or more steps.

    ``print(w)`` lists ``findings`` and ``flushed``. If the ``with`` block ends with an exception, a warning lists both.

    Raises:
        TypeError: If the model is not a module, or the optimizer not an optimizer.
        RuntimeError: If a debug tool already records calls, such as another watch or a trace.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        >>> _ = torch.nn.init.constant_(model[1].weight, 1e5)
        >>> with polycast.debug.watch(model) as w, polycast.autocast("cpu", torch.float16):
        ...     _ = model(torch.ones(2, 4))
        >>> print(w.findings[0].site.module, w.findings[0].op, w.findings[0].remedy)
        1 linear tried, and finite: polycast.assign(model, {"1": {"linear": "fp32"}})
    """

    @disabled
    def __init__(self, model: nn.Module, optimizer: Optimizer | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}; pass the model first")
        if not (optimizer is None or hasattr(optimizer, "register_step_post_hook")):
            raise TypeError(f"optimizer: expected an Optimizer or None, got {type(optimizer).__name__}; pass one")
        self._model, self._optimizer = model, optimizer
        if optimizer is not None:
            from polycast.scaler.optimizer_state import unwrapped  # this import registers kernels

            self._optimizer = unwrapped(optimizer)
        self.findings: list[Finding] = []
        self.flushed: list[Flushed] = []
        self.steps = 0
        self.ops = 0
        self._optimizers = 0  # this many optimizers are running their steps
        self._checked = 0  # this many calls of the step were checked
        self._intercepted: list[Call] = []
        self._pending: list[Finding] = []  # these findings are of the current step
        self._overflowing: Callable[[], Finding] | None = None  # it returns a finding for a step that a scaler may skip
        self._doubtful: Finding | None = None  # this finding counts unless the scaler skips the next optimizer's step
        self._overflows = 0  # this many consecutive steps had an overflow in backward
        self._is_inference = False  # if true, the last run of the model had no gradients
        self._is_spoiled = False  # if true, values from before a step may be non-finite because of a finding
        self._lost: Counter[str] = Counter()  # the values count the steps in which a gradient was lost

    def __str__(self) -> str:
        """Return the findings, and the number of later findings that are like each one."""
        alike: dict[tuple[object, ...], list[Finding]] = {}
        for finding in self.findings:
            alike.setdefault((finding.site[:3], finding.shows[:3], finding.remedy), []).append(finding)
        lines: list[str] = []
        for first, *others in alike.values():
            lines += [str(first)] + [f"  {len(others)} more, up to step {one.step}" for one in others[-1:]]
        return "\n".join([*lines, *map(str, self.flushed)]) or f"no finding; ops: {self.ops}, steps: {self.steps}"

    def __enter__(self) -> "watch":
        with contextlib.ExitStack() as stack:
            self._observer = stack.enter_context(Observer("polycast.debug.watch", self._model))
            stack.callback(register_optimizer_step_pre_hook(self._enter_optimizer).remove)
            stack.callback(register_optimizer_step_post_hook(self._leave_optimizer).remove)
            stack.callback(register_module_forward_pre_hook(self._enter_module).remove)
            weights = [weight for weight in self._model.parameters() if not is_lazy(weight)]
            start_holding(weights, self._before_write, False)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stack:
            is_step = not self.steps or self._is_inference or any(call.task >= 0 for call in held_calls())
            if held_count():
                self._end_step()
                self.steps -= not is_step  # a scaler's last update belongs to the step before
        if kind is not None and (self.findings or self.flushed):
            _warnings.warn(str(self))

    def _enter_module(self, module: nn.Module, _: object) -> None:
        """End a step before the model runs again without gradients: no backward needs the calls so far."""
        if not torch.compiler.is_compiling() and module is self._model:
            self._set_optimizers(0)  # the post-hook does not run after a step that raised an error
            has_gradients = torch.is_grad_enabled() and any(weight.requires_grad for weight in module.parameters())
            was_inference, self._is_inference = self._is_inference, not has_gradients
            if was_inference and self._is_inference:
                self._end_step()

    def _enter_optimizer(self, _: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._optimizers == 0:
            self._check_before_writes()
        self._set_optimizers(self._optimizers + 1)
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if not callable(closure):
            return None
        run = partial(self._run_closure, closure)
        return ((args[0], run, *args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "closure": run})

    def _run_closure(self, closure: Callable[[], Any]) -> Any:
        """Run the closure of a step as code outside of the step, and check its calls before the step writes weights."""
        optimizers = self._optimizers
        self._set_optimizers(0)
        result = closure()
        self._check_before_writes()
        self._set_optimizers(optimizers)
        return result

    def _set_optimizers(self, count: int) -> None:
        self._optimizers = count
        set_step(count > 0)

    def _leave_optimizer(self, optimizer: Optimizer, *_: object) -> None:
        self._set_optimizers(max(0, self._optimizers - 1))
        if self._optimizer in (None, optimizer):
            self._end_step()

    def _before_write(self, found_inf: Tensor | None) -> None:
        """End a step that had a backward, before a weight is written or when a scaler updates after a skipped step."""
        is_skipped = found_inf is not None and found_inf.item() > 0
        if (found_inf is None or is_skipped) and any(call.task >= 0 for call in held_calls()[self._checked :]):
            self._end_step(is_skipped)

    def _check(self) -> None:
        """Search the calls since the previous check for findings, before the weights are written."""
        first, self._checked = self._checked, held_count()
        if any_non_finite(first):
            with self._step() as values:
                # If a finding made the weights non-finite, all later values follow from it.
                if not self._is_spoiled or all(map(is_finite, self._model.parameters())):
                    self._findings(values, first)

    def _check_before_writes(self) -> None:
        """Search for findings before an optimizer writes weights, and in some steps for gradients that underflow."""
        self._check()
        if self._overflowing is None and (self.steps < _PATIENCE or self.steps % _PATIENCE == 0):
            with self._step() as values, torch.no_grad():
                for name, share in _lost_gradients(values, self._model):
                    self._lost[name] += 1
                    if self._lost[name] == _LOSSY_STEPS:
                        self.flushed.append(Flushed(self.steps, name, share))

    @contextlib.contextmanager
    def _step(self) -> Iterator[NonFinite]:
        """Yield the non-finite values of the current step. The calls of the block are not recorded."""
        self._intercepted += self._observer.take_calls()
        step = StepCalls(held_calls(), self._intercepted, self._observer.modules)
        pause_holding(True)
        try:
            with without_dispatch_modes():
                ends = {key_of(tensor) for tensor in self._weights_and_gradients()}
                yield NonFinite(step, ends, self._is_spoiled)
        finally:
            pause_holding(False)

    def _findings(self, values: NonFinite, first: int) -> None:
        step = values.step
        found: list[Flow] = []
        for index, is_nan_given in values.first():
            if index >= first and len(found) < _MOST:
                flow = values.flow(index, is_nan_given, not is_nan_given and values.is_exact(index) is True)
                if flow.is_exact and flow.ends and (cause := values.cause(flow) or index) != index:
                    flow = values.flow(cause)  # for example, a cast makes more of a mask infinite
                if flow.ends or (not flow.is_exact and values.matters(flow)):
                    found.append(flow)
        if len(found) > 1:  # infinities of a mask may reach a result that is NaN for another reason
            causes = [one for one in found if one.is_nan_given or not one.ends or values.cause(one) is not None]
            found = causes or found
        if any(one.ends and step.phase(one.start) == FORWARD for one in found):
            # The gradients are non-finite because of a finding in forward, so they are not findings.
            found = [one for one in found if step.phase(one.start) != BACKWARD]
        checks = ("non_finite", "unscale", "polycast::norm")  # scalers check gradients with these ops
        has_scaler = any(check in call.name for call in step.calls for check in checks)
        for flow in found:
            make = partial(find, values, flow, self._model, self.steps)
            # A smaller scale avoids an overflow of float32 that is finite in float64.
            is_exact = flow.is_exact and values.is_exact(flow.start, Tensor.double) is not False
            if has_scaler and step.phase(flow.start) == BACKWARD and not (flow.is_nan_given or is_exact):
                self._overflowing = self._overflowing or make
            else:
                finding = make()
                if finding.remedy not in [one.remedy for one in self._pending]:  # One remedy avoids both findings.
                    self._pending.append(finding)

    def _weights_and_gradients(self) -> Iterator[Tensor]:
        for weight in self._model.parameters():
            if not is_lazy(weight):
                yield weight
                if weight.grad is not None:
                    yield weight.grad

    def _end_step(self, is_skipped: bool = False) -> None:
        self._check()
        calls = held_calls() if self._pending or self._overflowing else []
        found = [call.in_step for call in calls if call.found_inf is not None and call.found_inf.item() > 0]
        is_skipped, doubtful, self._doubtful = is_skipped or any(found), self._doubtful, None
        if found or doubtful or self._overflowing:
            # The scaler may skip the step of another optimizer, before or after the step of this optimizer.
            is_intact = is_skipped or all(map(is_finite, self._model.parameters()))
            if doubtful and not is_intact:
                self._pending.append(doubtful)
            if self._overflowing and is_intact and not (is_skipped or found):
                with self._step():
                    self._doubtful = self._overflowing()
            is_skipped = is_intact
        self._overflows = self._overflows + 1 if self._overflowing else 0
        if self._overflowing and (not is_skipped or self._overflows > _PATIENCE):
            with self._step():
                self._pending.append(self._overflowing())
        self.findings += [replace(finding, skipped=is_skipped) for finding in self._pending]
        if self._pending or self._is_spoiled:
            tensors = [*self._weights_and_gradients(), *self._model.buffers()]
            self._is_spoiled = bool(self._pending) or not all(map(is_finite, tensors))
        self.steps, self.ops = self.steps + 1, self.ops + held_count()
        drop_calls()
        self._intercepted, self._pending, self._overflowing, self._checked = [], [], None, 0


def _lost_gradients(values: NonFinite, model: nn.Module) -> Iterator[tuple[str, float]]:
    """Yield the name of each parameter most of whose gradient is zero, but not in float32, and the share of zeros."""
    found = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    grads = {name: grad for name, grad in found.items() if grad.layout is torch.strided and grad.numel() > 0}
    step = values.step
    backward = [index for index in range(len(step.calls)) if step.phase(index) == BACKWARD]
    if not any(one.dtype is torch.float16 for index in backward for one in step.calls[index].outputs):
        return
    alone = [index for index in backward if not step.communicates(index)]
    kept = read_numbers([torch.linalg.vector_norm(grad, 0).float() for grad in grads.values()])
    shares = {name: 1 - count / grads[name].numel() for name, count in zip(grads, kept, strict=True)}
    zero = [name for name, share in shares.items() if share > _LOST]
    wide = (step.again(alone, is_wide=True, falls_back=True) if zero else None) or {}
    right = {name: wide[key] for name in zero if (key := key_of(grads[name])) in wide}
    lost = [name for name, one in right.items() if ((grads[name] == 0) & (one != 0)).sum() > _LOST * (one != 0).sum()]
    # If only the bias of a module loses its gradient, its terms cancel, as for the key bias of attention.
    kept_in = {name.rpartition(".")[0] for name, grad in grads.items() if grad.ndim > 1 and name not in lost}
    for name in lost:
        module, _, own = name.rpartition(".")
        if "bias" not in own or module not in kept_in:
            yield name, shares[name]
