"""Programs of optimizer steps, drawn by hypothesis and run by ours and by torch.optim.

A program makes parameters of any dtypes and layouts in a few groups, and then steps. Between the steps it changes what
a user may: gradients, options, groups, parameters, state. Torch's for-loop does the same in float64, on gradients that
are unscaled and clipped before, and leaves out the steps to skip. After each step every parameter and all of its
state are torch's but for one rounding. Torch's side then goes on from ours, so that no rounding is allowed twice.
"""

import copy
import io
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import torch
from hypothesis import strategies as st
from torch import Tensor

from testing.optimizers import FOR_LOOP, OURS, PATHS, THEIRS, Options, same_bits

F32, F64, BF16, HALF, C64 = torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64
NAN, INF = float("nan"), float("inf")
DTYPES = [F32, F32, F64, BF16, HALF, C64]
# One rounding; that of a value in float32 is of several operations.
TOLERANCES = {F64: 1e-12, F32: 2e-6, BF16: 2.0**-7, HALF: 2.0**-10}
MOST = 7  # changes in a program
AVERAGES = ("momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")

T = TypeVar("T")
# A tensor of random numbers with other strides, from a function that makes numbers of a shape.
Numbers = Callable[..., Tensor]
LAYOUTS: dict[str, Callable[[Numbers], Tensor]] = {
    "contiguous": lambda numbers: numbers(4, 6),
    "transposed": lambda numbers: numbers(6, 4).t(),
    "permuted": lambda numbers: numbers(2, 3, 4).permute(1, 2, 0),
    "channels last": lambda numbers: numbers(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "every second": lambda numbers: numbers(4, 12)[:, ::2],
    "a column": lambda numbers: numbers(40, 3)[:, 1],
    "0-d": lambda numbers: numbers(),
    "0-d of a view": lambda numbers: numbers(4)[2],
    "empty": lambda numbers: numbers(3, 0),
    "one element, odd strides": lambda numbers: numbers(8).as_strided((1, 1), (5, 7)),
    "unaligned": lambda numbers: numbers(1100)[1:],
    "a block and more": lambda numbers: numbers(2050)[1:-1],
    "two threads": lambda numbers: numbers(33_001),
}
# Gradients of a parameter from such of its sizes and strides.
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
    """A parameter of ours, and the one in float64 that torch.optim steps."""

    ours: Tensor
    theirs: Tensor


def usual(tensor: Tensor) -> Tensor:
    """Return the numbers of a tensor on the host in double precision, as memory of their own."""
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    wide = torch.complex128 if tensor.is_complex() else F64
    return dense.cpu().resolve_conj().resolve_neg().to(wide).clone(memory_format=torch.contiguous_format)


class Program:
    """Two optimizers that go through the same. What is drawn shrinks to the first that it is drawn from."""

    def __init__(self, data: st.DataObject, path: str) -> None:
        self.data, self.device = data, "xla" if path == "xla" else "cpu"
        self.scales_grads = (
            path == "composition"
        )  # torch's fused kernels may write the gradients that they have unscaled
        self.generator = torch.Generator().manual_seed(0)
        self.name = self.choose("optimizer", ["SGD", "SGD", "Adam", "AdamW"])
        self.state_dtype = self.choose("state_dtype", [None, None, F32, F64, BF16])
        self.pairs: dict[int, Pair] = {}  # by the id of ours
        options = self.options()
        groups = [self.group() for _ in range(self.choose("groups", [1, 1, 2, 3]))]
        self.ours = OURS[self.name]([ours for ours, _ in groups], **options[0], state_dtype=self.state_dtype)
        self.theirs = THEIRS[self.name]([theirs for _, theirs in groups], **options[1], **FOR_LOOP)
        self.saved: tuple[list[tuple[int, int]], list[Any]] | None = None

    def choose(self, label: str, options: Sequence[T]) -> T:
        return self.data.draw(st.sampled_from(options), label)

    def numbers(self, *shape: int, dtype: torch.dtype = F32) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=dtype)

    def options(self) -> tuple[Options, Options]:
        """Draw options, and return them for ours and for torch's; a learning rate may be a tensor."""
        choose = self.choose
        lr = choose("lr", [0.1, 0.01, 1e-3])
        options: Options = {"weight_decay": choose("weight_decay", [0, 0, 0.1])}
        options["maximize"] = choose("maximize", [False, False, True])
        if self.name == "SGD":
            options |= {"momentum": choose("momentum", [0.9, 0.9, 0]), "dampening": choose("dampening", [0, 0, 0.4])}
            options["nesterov"] = bool(
                options["momentum"] and not options["dampening"] and choose("nesterov", [False, True])
            )
        else:
            options |= {"amsgrad": choose("amsgrad", [False, True]), "eps": choose("eps", [1e-8, 1e-3])}
            options["betas"] = choose("betas", [(0.9, 0.999), (0.3, 0.7), (0.0, 0.5)])
        if choose("tensor lr", [False, False, True]):
            rate = torch.tensor(lr)
            return {**options, "lr": rate.to(choose("lr on", ["cpu", self.device]))}, {**options, "lr": rate.double()}
        return {**options, "lr": lr}, {**options, "lr": lr}

    def pair(self) -> Pair:
        """Make a parameter of some dtype and layout."""
        dtype, layout = self.choose("dtype", DTYPES), self.choose("layout", list(LAYOUTS))
        if dtype is HALF and self.name != "SGD" and self.state_dtype is None:
            dtype = F32  # Adam keeps no state in float16
        if dtype is C64 and self.state_dtype is F64 and self.device == "xla":
            dtype = F32  # torch_xla loses the imaginary part of what is written to a view of complex128
        first = LAYOUTS[layout](lambda *shape: self.numbers(*shape, dtype=C64 if dtype is C64 else F32).to(dtype))
        ours = first.to(self.device).requires_grad_()
        return self.pairs.setdefault(id(ours), Pair(ours, usual(ours).requires_grad_()))

    def group(self) -> tuple[Options, Options]:
        """Make a group of a few parameters, with options of its own or without."""
        pairs = [self.pair() for _ in range(self.choose("parameters", [1, 2, 3]))]
        own = self.options() if self.choose("own options", [False, True]) else ({}, {})
        return {"params": [pair.ours for pair in pairs], **own[0]}, {
            "params": [pair.theirs for pair in pairs],
            **own[1],
        }

    def used(self) -> list[tuple[Pair, Options]]:
        """Return the parameters that are in groups, each with its group of ours."""
        return [(self.pairs[id(param)], group) for group in self.ours.param_groups for param in group["params"]]

    def any_pair(self) -> Pair:
        used = self.used()
        return used[self.choose("parameter", range(len(used)))][0]

    def any_group(self) -> tuple[Options, Options]:
        index = self.choose("group", range(len(self.ours.param_groups)))
        return self.ours.param_groups[index], self.theirs.param_groups[index]

    def set_grad(self, pair: Pair, group: Options) -> None:
        """Remove the gradient, keep it, write to it, or set a new one of any layout or a sparse one."""
        param, old = pair.ours, pair.ours.grad
        takes_sparse = self.device == "cpu" and "dampening" in group and not group["weight_decay"] and bool(param.dim())
        kinds = ["new", "new", "new", "none"]
        if old is not None and (not old.is_sparse or takes_sparse):
            kinds.append("as it was")
        if old is not None and old.layout is torch.strided and param.numel() < 1000 and self.device == "cpu":
            kinds += [] if torch._debug_has_internal_overlap(old) else ["halved in place"]
        kind = self.choose("gradient", [*kinds, "sparse"] if takes_sparse else kinds)
        if kind == "none":
            param.grad = None
        elif kind == "halved in place":
            old.mul_(-0.5)  # type: ignore[union-attr]
        elif kind == "sparse":
            rows = torch.tensor([[0, param.shape[0] - 1, 0]])
            values = self.numbers(3, *param.shape[1:], dtype=param.dtype if param.is_complex() else F32)
            param.grad = torch.sparse_coo_tensor(rows, values.to(param.dtype), param.shape, check_invariants=True)
        elif kind == "new":
            wide = self.numbers(*param.shape, dtype=C64 if param.is_complex() else F32)
            grad = torch.empty_like(param.detach().cpu()).copy_(wide * self.choose("times", [1.0, 1.0, 1e-2, 30.0]))
            layout = self.choose("its layout", list(GRADS)) if self.device == "cpu" else "same"
            param.grad = GRADS[layout](grad).to(self.device)

    def scalars(self) -> dict[str, float]:
        """Draw what a scaler gives to a step."""
        drawn = {
            "found_inf": self.choose("found_inf", [None] * 6 + [0.0, 0.0, 1.0, INF, NAN, -2.0]),
            "grad_scale": self.choose("grad_scale", [None, None, 1024.0, 3.0]),
            "clip_coef": self.choose("clip_coef", [None, None, 0.25, 0.7]),
        }
        return {name: value for name, value in drawn.items() if value is not None}

    def step(self) -> None:
        """Step on both sides, and compare what a step may write."""
        scalars, used = self.scalars(), self.used()
        for pair, group in used:
            self.set_grad(pair, group)
        skips = scalars.get("found_inf", 0.0) != 0.0
        grads = [None if pair.ours.grad is None else usual(pair.ours.grad) for pair, _ in used]
        written = self.written()  # alive until they are compared: no other tensor has the id of one of them
        before = {id(tensor): (usual(tensor), tensor._version) for tensor in written}
        self.ours.step(**{name: torch.tensor(value, device=self.device) for name, value in scalars.items()})
        for (pair, _), grad in zip(used, grads, strict=True):
            if grad is not None:
                self.check_grad(pair.ours.grad, grad, 1.0 if skips else self.factor(scalars))
        for tensor in self.written():
            value, version = before.get(id(tensor), (None, -1))
            assert skips or tensor._version > version, "no version was raised"
            assert not skips or value is None or same_bits(usual(tensor), value), "a skipped step has written"
        if not skips:
            factor = self.factor(scalars)
            for (pair, _), grad in zip(used, grads, strict=True):
                pair.theirs.grad = None if grad is None else grad * factor
            self.give_maxima()
            self.theirs.step()
            self.compare()

    @staticmethod
    def factor(scalars: dict[str, float]) -> float:
        return float(torch.tensor(scalars.get("clip_coef", 1.0))) / scalars.get("grad_scale", 1.0)

    def check_grad(self, found: Tensor | None, before: Tensor, factor: float) -> None:
        """Assert that a step left a gradient as it was, or has scaled it."""
        assert found is not None
        tolerance = 4 * torch.finfo(found.dtype).eps
        scaled = self.scales_grads and torch.allclose(usual(found), before * factor, tolerance, tolerance)
        assert scaled or same_bits(usual(found), before), "a gradient has changed"

    def give_maxima(self) -> None:
        """Give amsgrad a maximum of zeros to start with; torch.optim fails without one."""
        for group in self.theirs.param_groups:
            for param in group["params"] if group.get("amsgrad") else []:
                if param in self.theirs.state:
                    self.theirs.state[param].setdefault("max_exp_avg_sq", torch.zeros_like(param))

    def written(self) -> list[Tensor]:
        """Return our parameters with gradients and their state."""
        params = [pair.ours for pair, _ in self.used() if pair.ours.grad is not None]
        names = {"step", "momentum_started", *AVERAGES}
        if self.name == "SGD":  # what momentum or amsgrad left behind is kept as it is
            names = set() if any(not group["momentum"] for group in self.ours.param_groups) else {"momentum_buffer"}
        elif any(not group["amsgrad"] for group in self.ours.param_groups):
            names -= {"max_exp_avg_sq"}
        state = [self.ours.state[param].get(name) for param in params if param in self.ours.state for name in names]
        return [*params, *(value for value in state if isinstance(value, Tensor))]

    def compare(self) -> None:
        """Compare parameters and their state, and take over ours."""
        for pair, group in self.used():
            assert_close(pair, pair.ours, pair.theirs, "parameter")
            for name, value in self.theirs.state.get(pair.theirs, {}).items():
                option = {"max_exp_avg_sq": "amsgrad", "momentum_buffer": "momentum"}.get(name, "params")
                if isinstance(value, Tensor) and pair.theirs.grad is not None and group[option]:
                    assert_close(pair, self.ours.state[pair.ours][name], value, name)

    def layout(self) -> list[tuple[int, int]]:
        """Return which parameters are in which groups."""
        return [(index, id(param)) for index, group in enumerate(self.ours.param_groups) for param in group["params"]]

    def state_dicts(self) -> list[Any]:
        """Return copies of both sides' state, but for that of parameters which are in no group, where torch fails."""
        for side in (self.ours, self.theirs):
            params = set(chain.from_iterable(group["params"] for group in side.param_groups))
            side.state = defaultdict(dict, {param: values for param, values in side.state.items() if param in params})
        return [copy.deepcopy(side.state_dict()) for side in (self.ours, self.theirs)]

    def follow(self, copied: Any) -> None:
        """Go on with a copy of our optimizer and its parameters."""
        params = chain.from_iterable(group["params"] for group in copied.param_groups)
        for (pair, _), param in zip(self.used(), params, strict=True):
            self.pairs[id(param)] = Pair(param, pair.theirs)
        self.ours = copied


def assert_close(pair: Pair, found: Tensor, wanted: Tensor, name: str) -> None:
    """Compare within the rounding of the dtype, and of the parameter's arithmetic; give ours to the other side."""
    arithmetic = 1e-12 if pair.theirs.dtype.to_real() is pair.ours.dtype else TOLERANCES[F32]
    tolerance = max(TOLERANCES[found.dtype.to_real()], arithmetic)
    size = max(1.0, wanted.detach().abs().max().item()) if wanted.numel() else 1.0
    ours = usual(found)
    expected = wanted.detach().to(ours.dtype)
    far = ~((ours - expected).abs() <= tolerance * (expected.abs() + size))
    # Among very many elements are some whose gradient the weight decay nearly cancels: Adam makes them as large as any.
    text = f"{name} of {found.dtype}, {tuple(found.shape)}: {ours[far][:3]} instead of {expected[far][:3]}"
    assert far.sum().item() <= far.numel() // 10_000, text
    wanted.detach().copy_(ours)


CHANGES: dict[str, Callable[[Program], None]] = {}


def change(function: Callable[[Program], None]) -> Callable[[Program], None]:
    CHANGES[function.__name__] = function
    return function


def params_of(program: Program) -> tuple[list[Tensor], list[Tensor]]:
    """Return the lists of parameters of some group."""
    ours, theirs = program.any_group()
    return ours["params"], theirs["params"]


def states(program: Program) -> list[tuple[Options, Options]]:
    """Return the state of each parameter that has some on both sides, and ours need not wait for its first step."""
    both = [(program.ours.state.get(pair.ours), program.theirs.state.get(pair.theirs)) for pair, _ in program.used()]
    return [(ours, theirs) for ours, theirs in both if ours and theirs]


@change
def nothing(_: Program) -> None:
    pass


@change
def add_param_group(program: Program) -> None:
    ours, theirs = program.group()
    program.ours.add_param_group(ours)
    program.theirs.add_param_group(theirs)


@change
def other_options(program: Program) -> None:
    for group, options in zip(program.any_group(), program.options(), strict=True):
        group.update(options)


@change
def replaced_list_of_params(program: Program) -> None:
    for group, added in zip(program.any_group(), program.pair(), strict=True):
        group["params"] = [*group["params"], added]


@change
def replaced_parameter(program: Program) -> None:
    for params, added in zip(params_of(program), program.pair(), strict=True):
        params[-1] = added


@change
def removed_parameter(program: Program) -> None:
    for params in params_of(program):
        del params[1:2]


@change
def reversed_parameters(program: Program) -> None:
    for params in params_of(program):
        params.reverse()


@change
def moved_to_another_group(program: Program) -> None:
    for optimizer in (program.ours, program.theirs):
        first, last = (optimizer.param_groups[index]["params"] for index in (0, -1))
        if first is not last and len(first) > 1:
            last.insert(0, first.pop())


@change
def replaced_group(program: Program) -> None:
    for optimizer in (program.ours, program.theirs):
        optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.03}


@change
def replaced_data(program: Program) -> None:
    for pair, _ in program.used():
        pair.ours.data = torch.stack([pair.ours.data * 2], -1)[..., 0]
        pair.theirs.data.mul_(2)


@change
def double_precision(program: Program) -> None:
    """Do what Module.double does: the parameter changes its dtype and its state does not."""
    pair = program.any_pair()
    if not pair.ours.is_complex():
        pair.ours.grad = None
        pair.ours.data = pair.ours.data.double()


@change
def frozen(program: Program) -> None:
    for pair, _ in program.used():
        pair.ours.requires_grad_(program.choose("is trained", [True, False]))


@change
def replaced_tensors_of_the_state(program: Program) -> None:
    for both in states(program):
        for state in both:
            state.update({name: state[name] * 2 for name in AVERAGES if isinstance(state.get(name), Tensor)})


@change
def replaced_dicts_of_the_state(program: Program) -> None:
    for optimizer in (program.ours, program.theirs):
        for param, values in optimizer.state.items():
            optimizer.state[param] = copy.deepcopy(values)


@change
def replaced_state(program: Program) -> None:
    for optimizer in (program.ours, program.theirs):
        state: Any = defaultdict(dict)
        state.update({param: copy.copy(values) for param, values in reversed(optimizer.state.items())})
        optimizer.state = state


@change
def looked_at_state(program: Program) -> None:
    """Read the state, which leaves an empty dict behind."""
    for pair, _ in program.used():
        assert len(program.ours.state[pair.ours]) >= 0


@change
def cleared_state(program: Program) -> None:
    program.ours.state.clear()
    program.theirs.state.clear()


@change
def state_of_one_parameter_removed(program: Program) -> None:
    pair = program.any_pair()
    program.ours.state.pop(pair.ours, None)
    program.theirs.state.pop(pair.theirs, None)


@change
def saved(program: Program) -> None:
    program.saved = program.layout(), program.state_dicts()


@change
def loaded(program: Program) -> None:
    """Load what was saved earlier, or just now."""
    if program.saved is None or program.saved[0] != program.layout():
        saved(program)
    assert program.saved is not None
    for side, state in zip((program.ours, program.theirs), program.saved[1], strict=True):
        side.load_state_dict(copy.deepcopy(state))


@change
def exchanged_state(program: Program) -> None:
    """Each side loads the state of the other."""
    ours, theirs = program.state_dicts()
    program.ours.load_state_dict(theirs)
    program.theirs.load_state_dict(ours)
    for values in program.theirs.state.values():
        values.update({name: usual(value) for name, value in values.items() if isinstance(value, Tensor)})
        # A buffer that no step has written, which torch does not know.
        if values.get("momentum_buffer") is not None and not values["momentum_buffer"].any():
            del values["momentum_buffer"]
    for group in program.theirs.param_groups:
        group["lr"] = usual(group["lr"]) if isinstance(group["lr"], Tensor) else group["lr"]


@change
def pickled(program: Program) -> None:
    """Save and load the optimizer; it has other parameters then."""
    if program.device == "xla":
        return  # torch fails to load leaves of other dtypes than float32 there
    file = io.BytesIO()
    torch.save(program.ours, file)
    file.seek(0)
    program.follow(torch.load(file, weights_only=False))


@change
def copied(program: Program) -> None:
    program.follow(copy.deepcopy(program.ours))


@change
def gradients_gone(program: Program) -> None:
    program.ours.zero_grad(set_to_none=True)


def compare(data: st.DataObject, path: str) -> None:
    """Run a program whose steps and changes take turns.

    Raises:
        AssertionError: The sides differ.
    """
    program = Program(data, path)
    kernels: AbstractContextManager[None] = nullcontext() if path == "xla" else PATHS[path]()
    with kernels, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loaded state of .* is converted")
        program.step()
        for _ in range(MOST):
            change = program.choose("then", ["end", *CHANGES])
            if change == "end":
                break
            CHANGES[change](program)
            program.step()
