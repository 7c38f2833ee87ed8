"""Programs of optimizer steps, drawn by Hypothesis and run by polycast and by ``torch.optim``.

A program creates parameters of any dtypes and layouts in a few groups, and then steps. Between the steps, the program
changes gradients, options, groups, parameters or state. ``torch.optim``'s for-loop runs the same program in float64, on
unscaled and clipped gradients, without the skipped steps. After each step, parameters and state equal ``torch.optim``'s
up to a few roundings. Our values are copied to ``torch.optim``'s side, so that rounding errors do not add up.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

import torch
from hypothesis import strategies as st
from polycast.devices import Fused, facts_of
from polycast.syncfree import step as syncfree_step
from polycast.syncfree import torch_fused
from polycast.syncfree.slow_path import step_by_torch
from torch import Tensor

from tests.support.devices import has_float64, synchronize
from tests.support.optimizers import FOR_LOOP, OURS, THEIRS, Kernels, Options, same_bits, tensors

F32, F64, BF16, HALF, C64 = torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64
NAN, INF = float("nan"), float("inf")
# A tolerance is the relative error of one rounding to the dtype. In float32 and float64, it covers several operations.
TOLERANCES = {F64: 1e-12, F32: 2e-6, BF16: 2.0**-7, HALF: 2.0**-10}

T = TypeVar("T")
# Each function returns a random tensor with the layout. Its argument draws numbers in a shape.
Numbers = Callable[..., Tensor]
LAYOUTS: dict[str, Callable[[Numbers], Tensor]] = {
    "contiguous": lambda numbers: numbers(4, 6),
    "transposed": lambda numbers: numbers(6, 4).t(),
    "permuted": lambda numbers: numbers(2, 3, 4).permute(1, 2, 0),
    "channels last": lambda numbers: numbers(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "every second column": lambda numbers: numbers(4, 12)[:, ::2],
    "a column": lambda numbers: numbers(40, 3)[:, 1],
    "0-d": lambda numbers: numbers(),
    "0-d of a view": lambda numbers: numbers(4)[2],
    "empty": lambda numbers: numbers(3, 0),
    "one element, odd strides": lambda numbers: numbers(8).as_strided((1, 1), (5, 7)),
    "unaligned": lambda numbers: numbers(1100)[1:],
    "a block and more": lambda numbers: numbers(2050)[1:-1],
    "two threads": lambda numbers: numbers(33_001),
}
# Each function changes the layout of a gradient. Its argument has the parameter's layout.
GRADS: dict[str, Callable[[Tensor], Tensor]] = {
    "same": lambda grad: grad,
    "contiguous": lambda grad: grad.contiguous(),
    "transposed": lambda grad: grad.mT.contiguous().mT if grad.dim() > 1 else grad,
    "expanded": lambda grad: grad[:1].expand_as(grad) if grad.dim() else grad,
    "strided": lambda grad: torch.stack([grad, grad], -1)[..., 0],
    "conjugated": lambda grad: grad.conj(),
    "negated": lambda grad: torch._neg_view(grad),
}


class Pair(NamedTuple):
    """A parameter of our optimizer, and the parameter of ``torch.optim`` in double precision."""

    ours: Tensor
    theirs: Tensor


def usual(tensor: Tensor) -> Tensor:
    """Return a copy of a tensor's values on the CPU, in double precision."""
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    wide = torch.complex128 if tensor.is_complex() else F64
    return dense.cpu().resolve_conj().resolve_neg().to(wide).clone(memory_format=torch.contiguous_format)


class Program:
    """Two optimizers that run the same program. Choices begin with the simplest value, to which Hypothesis shrinks."""

    def __init__(self, data: st.DataObject, kernels: Kernels) -> None:
        self.data, self.device = data, kernels.device
        # Our fused CPU kernels and `torch.optim`'s step read `found_inf` first, so a skipped step changes no version.
        self.knows_skips = kernels.device == "cpu" and kernels.path != "composition"
        # PyTorch's fused kernels may write unscaled gradients.
        self.scales_grads = kernels.path == "composition" or (
            self.device != "cpu" and isinstance(facts_of(self.device), Fused)
        )
        self.dtypes = [F32, F32, BF16, HALF, *([F64] if has_float64(self.device) else [])]
        if self.device != "xla":  # On XLA, a write to a view loses the imaginary part.
            self.dtypes.append(C64)
        self.generator = torch.Generator().manual_seed(0)
        self.name = self.choose("optimizer", ["SGD", "SGD", "Adam", "AdamW"])
        kept = [dtype for dtype in (F32, F64, BF16) if dtype in self.dtypes]
        self.state_dtype = self.choose("state_dtype", [None, None, *kept])
        self.pairs: dict[int, Pair] = {}  # The keys are the ids of our parameters.
        options = self.options()
        groups = [self.group() for _ in range(self.choose("groups", [1, 1, 2, 3]))]
        self.ours = OURS[self.name]([ours for ours, _ in groups], **options[0], state_dtype=self.state_dtype)
        self.theirs = THEIRS[self.name]([theirs for _, theirs in groups], **options[1], **FOR_LOOP)
        self.by_torch: set[int] = set()  # `torch.optim` ran the last step of these groups.

    def choose(self, label: str, options: Sequence[T]) -> T:
        return self.data.draw(st.sampled_from(options), label)

    def numbers(self, *shape: int, dtype: torch.dtype = F32) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=dtype)

    def options(self) -> tuple[Options, Options]:
        """Draw options, and return them for our optimizer and for ``torch.optim``."""
        choose = self.choose
        lr = choose("lr", [0.1, 0.01, 1e-3])
        options: Options = {"weight_decay": choose("weight_decay", [0, 0, 0.1])}
        options["maximize"] = choose("maximize", [False, False, True])
        if self.name == "SGD":
            kinds = [(0.9, 0, False), (0.9, 0, True), (0.9, 0.4, False), (0, 0, False), (0, 0.4, False)]
            options |= zip(("momentum", "dampening", "nesterov"), choose("momentum", kinds), strict=True)
        else:
            options |= {"amsgrad": choose("amsgrad", [False, True]), "eps": choose("eps", [1e-8, 1e-3])}
            options["betas"] = choose("betas", [(0.9, 0.999), (0.3, 0.7), (0.0, 0.5)])
        if choose("tensor lr", [False, False, True]):
            rate = torch.tensor(lr)
            return {**options, "lr": rate.to(choose("lr on", ["cpu", self.device]))}, {**options, "lr": rate.double()}
        return {**options, "lr": lr}, {**options, "lr": lr}

    def pair(self) -> Pair:
        """Create a parameter, and return it with the parameter of ``torch.optim``."""
        dtype, layout = self.choose("dtype", self.dtypes), self.choose("layout", list(LAYOUTS))
        if dtype is HALF and self.name != "SGD" and self.state_dtype is None:
            dtype = F32  # Adam rejects state in float16.
        wide = C64 if dtype is C64 else F32
        ours = LAYOUTS[layout](lambda *shape: self.numbers(*shape, dtype=wide).to(self.device, dtype)).requires_grad_()
        return self.pairs.setdefault(id(ours), Pair(ours, usual(ours).requires_grad_()))

    def group(self) -> tuple[Options, Options]:
        """Create a parameter group for each side, with or without its own options."""
        pairs = [self.pair() for _ in range(self.choose("parameters", [1, 2, 3]))]
        ours, theirs = self.options() if self.choose("own options", [False, True]) else ({}, {})
        return {"params": [each.ours for each in pairs], **ours}, {"params": [each.theirs for each in pairs], **theirs}

    def used(self) -> list[tuple[Pair, Options]]:
        """Return each pair of parameters with its group in our optimizer."""
        return [(self.pairs[id(param)], group) for group in self.ours.param_groups for param in group["params"]]

    def any_pair(self) -> Pair:
        used = self.used()
        return used[self.choose("parameter", range(len(used)))][0]

    def any_group(self) -> tuple[Options, Options]:
        index = self.choose("group", range(len(self.ours.param_groups)))
        return self.ours.param_groups[index], self.theirs.param_groups[index]

    def set_grad(self, pair: Pair, group: Options) -> None:
        """Remove the gradient, leave it unchanged, or set a new one that is sparse or has any layout."""
        param, old = pair.ours, pair.ours.grad
        # A sparse momentum buffer does not accept a dense gradient.
        takes_sparse = self.device == "cpu" and self.name == "SGD" and bool(param.dim())
        takes_sparse = takes_sparse and not group["weight_decay"] and not group["momentum"]
        kinds = ["new", "new", "new", "none"]
        if old is not None and (not old.is_sparse or takes_sparse):
            kinds.append("as it was")
        kind = self.choose("gradient", [*kinds, "sparse"] if takes_sparse else kinds)
        if kind == "none":
            param.grad = None
        elif kind == "sparse":
            rows = torch.tensor([[0, param.shape[0] - 1, 0]])
            values = self.numbers(3, *param.shape[1:], dtype=param.dtype if param.is_complex() else F32)
            param.grad = torch.sparse_coo_tensor(rows, values.to(param.dtype), param.shape, check_invariants=True)
        elif kind == "new":
            wide = self.numbers(*param.shape, dtype=C64 if param.is_complex() else F32)
            grad = torch.empty_like(param.detach()).copy_(wide * self.choose("times", [1.0, 1.0, 1e-2, 30.0]))
            # `torch.optim`'s Adam raises for a gradient that is a conjugate view.
            plain = self.device == "xla" or (param.is_complex() and self.name != "SGD")
            param.grad = grad if plain else GRADS[self.choose("its layout", list(GRADS))](grad)

    def scalars(self) -> dict[str, float]:
        """Draw the values of the tensors that a scaler passes to a step."""
        drawn = {
            "found_inf": self.choose("found_inf", [None] * 6 + [0.0, 0.0, 1.0, INF, NAN, -2.0]),
            "grad_scale": self.choose("grad_scale", [None, None, 1024.0, 3.0]),
            "clip_coef": self.choose("clip_coef", [None, None, 0.25, 0.7]),
        }
        return {name: value for name, value in drawn.items() if value is not None}

    def step(self) -> None:
        """Step on both sides, and compare all tensors that a step can write."""
        scalars, used = self.scalars(), self.used()
        for pair, group in used:
            self.set_grad(pair, group)
        skips = scalars.get("found_inf", 0.0) != 0.0
        factor = float(torch.tensor(scalars.get("clip_coef", 1.0))) / scalars.get("grad_scale", 1.0)
        grads = [None if pair.ours.grad is None else usual(pair.ours.grad) for pair, _ in used]
        synchronize(self.device)  # XLA may recompute a pending value with other roundings.
        before = [(tensor, usual(tensor), tensor._version) for tensor in tensors(self.ours)]
        self.give_zeros()
        self.take_step({name: torch.tensor(value, device=self.device) for name, value in scalars.items()})
        stepped = {id(pair.ours) for pair, _ in used if pair.ours.grad is not None}
        for tensor, value, version in before:
            assert not skips or same_bits(usual(tensor), value), f"a skipped step has written {tensor}, once {value}"
            # Backward detects a write to a saved weight by the weight's version.
            assert skips or id(tensor) not in stepped or tensor._version > version, "no version was raised"
            assert not (skips and self.knows_skips) or tensor._version == version, "a skipped step has raised a version"
        for (pair, _), grad in zip(used, grads, strict=True):
            if grad is not None:
                self.check_grad(pair.ours.grad, grad, 1.0 if skips else factor)
            pair.theirs.grad = None if grad is None else grad * factor
        if not skips:
            self.theirs.step()
            self.compare()

    def take_step(self, scalars: dict[str, Tensor]) -> None:
        """Step our optimizer with the scalars as arguments, which must override attributes with the same names."""
        vars(self.ours).update(dict.fromkeys(scalars, torch.full((), 7.0)))
        with (
            patch.object(syncfree_step, "step_by_torch", wraps=step_by_torch) as by_torch,
            patch.object(torch_fused, "LIMIT", self.choose("elements that are copied at once", [torch_fused.LIMIT, 4])),
            torch.inference_mode(self.device != "xla" and self.choose("inference mode", [False, False, True])),
        ):
            self.ours.step(**scalars)
        for name in scalars:
            delattr(self.ours, name)
        self.by_torch = {id(call.args[2]) for call in by_torch.call_args_list}

    def check_grad(self, found: Tensor | None, before: Tensor, factor: float) -> None:
        """Assert that a step did not change a gradient, or only scaled the gradient."""
        assert found is not None
        tolerance = 4 * torch.finfo(found.dtype).eps
        scaled = self.scales_grads and torch.allclose(usual(found), before * factor, tolerance, tolerance)
        assert scaled or same_bits(usual(found), before), "a gradient has changed"

    def give_zeros(self) -> None:
        """Add the zeros that ``torch.optim``'s state lacks.

        ``torch.optim``'s ``amsgrad`` fails without an initial maximum. A skipped step creates a momentum buffer in our
        state only.
        """
        for pair, _ in self.used():
            if self.ours.state.get(pair.ours, {}).get("momentum_buffer") is not None:
                state = self.theirs.state[pair.theirs]
                state["momentum_buffer"] = state.get("momentum_buffer", torch.zeros_like(pair.theirs))
        for group in self.theirs.param_groups:
            for param in group["params"] if group.get("amsgrad") else []:
                if param in self.theirs.state:
                    self.theirs.state[param].setdefault("max_exp_avg_sq", torch.zeros_like(param))

    def compare(self) -> None:
        """Compare parameters and their state, and copy our values to ``torch.optim``'s side."""
        for pair, group in self.used():
            # If `torch.optim` runs our step, it rounds to our dtype several times.
            times = 4 if id(group) in self.by_torch else 1
            assert_close(pair, pair.ours, pair.theirs, "parameter", times)
            for name, value in self.theirs.state.get(pair.theirs, {}).items():
                option = {"max_exp_avg_sq": "amsgrad", "momentum_buffer": "momentum"}.get(name, "params")
                if isinstance(value, Tensor) and pair.theirs.grad is not None and group[option]:
                    assert_close(pair, self.ours.state[pair.ours][name], value, name, times)

    def follow(self, copied: Any) -> None:
        """Continue with a copy of our optimizer and its parameters."""
        params = chain.from_iterable(group["params"] for group in copied.param_groups)
        for (pair, _), param in zip(self.used(), params, strict=True):
            self.pairs[id(param)] = Pair(param, pair.theirs)
        assert repr(copied) == repr(self.ours)
        self.ours = copied


def assert_close(pair: Pair, found: Tensor, wanted: Tensor, name: str, times: int) -> None:
    """Assert equality within ``times`` roundings of the dtype or arithmetic, and copy our values to the other side."""
    arithmetic = 1e-12 if pair.theirs.dtype.to_real() is pair.ours.dtype else TOLERANCES[F32]
    tolerance = times * max(TOLERANCES[found.dtype.to_real()], arithmetic)
    size = max(1.0, wanted.detach().abs().max().item()) if wanted.numel() else 1.0
    ours = usual(found)
    expected = wanted.detach().to(ours.dtype)
    far = ~((ours - expected).abs() <= tolerance * (expected.abs() + size))
    # In a large tensor, weight decay nearly cancels a few gradients, and Adam scales up their errors.
    text = f"{name} of {found.dtype}, {tuple(found.shape)}: {ours[far][:3]} instead of {expected[far][:3]}"
    assert far.sum().item() <= far.numel() // 10_000, text
    wanted.detach().copy_(ours)
