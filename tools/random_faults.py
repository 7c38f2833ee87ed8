"""Faults at random places of real models' training: `python -m tools.random_faults 20 50 20 [--device xla]`.

A dispatch mode below everything makes one op's result 1 % wrong, which polycast.compare has to name as the worst, or
puts an infinity or a NaN into it, which polycast.watch has to name as the first. Networks of random branches beside a
residual have their float16 gradients scaled too far: following what polycast.watch advises has to avoid its findings.

On XLA ask for one kind at a time (20 0, then 0 50): together they compile more programs than a process may map.
"""

import argparse
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, NamedTuple

import polycast
import torch
from polycast.debug.calls import Site
from polycast.debug.measure import read_numbers
from polycast.debug.ops import floating, is_cast, is_view, unique, written
from polycast.debug.values import Op, Values
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from tqdm import tqdm

from testing.models.architectures import bert, llama, resnet
from testing.probe import HAS_XLA


def attention() -> tuple[nn.Module, list[Tensor]]:
    """A layer of a transformer."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu")
    return nn.Sequential(layer, nn.Linear(8, 4)), [torch.rand(2, 3, 8)]


ARCHITECTURES: dict[str, tuple[Callable[[], tuple[nn.Module, Any]], ...]] = {
    "cpu": (resnet, bert, llama),
    "xla": (attention,),  # each op's check is compiled, which takes minutes for more
}
Spoil = Callable[[Tensor], object]
WIDTH = 8  # of the networks of branches
ROUNDS = 12  # in which their advice is followed


class Plant(TorchDispatchMode):
    """Spoils the result of one call of the program: of those that compute, the one with this number."""

    def __init__(self, number: int, spoil: Spoil) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = number
        self._spoil = spoil

    def __torch_dispatch__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        outputs = unique([*floating(result), *written(function, args, kwargs or {})])
        if outputs and _computes(function) and _is_of_program():
            if self._left == 0:
                self._spoil(outputs[0])
            self._left -= 1
        return result


def _computes(function: Any) -> bool:
    return not (is_view(function) or is_cast(function))


def _is_of_program() -> bool:
    """Return whether the observer above runs the program's own call, rather than makes one to measure it."""
    frame = sys._getframe(2)
    while frame.f_code.co_name == "__call__" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code in (Op.run.__code__, Values.__torch_dispatch__.__code__)


def one_percent(tensor: Tensor) -> object:
    """Make a tensor 1 % wrong."""
    return tensor.mul_(1.01)


def put(value: float) -> Spoil:
    """Return what puts a value in a tensor's first place."""

    def spoil(tensor: Tensor) -> object:  # not through a view, which XLA cuts off here
        places = torch.arange(tensor.numel(), device=tensor.device).reshape(tensor.shape)
        return tensor.masked_fill_(places == 0, value)

    return spoil


class Training(NamedTuple):
    """A model's iteration on a device, with an optimizer's step where it has one."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batch: Any
    device: str

    def run(self) -> None:
        """Go forward and backward."""
        with polycast.autocast(self.device):
            output = self.model(self.batch)
            loss = (output if isinstance(output, Tensor) else output.logits).float().square().mean()
        loss.backward()

    def step(self) -> None:
        """Go forward and backward, and step."""
        self.run()
        self.optimizer.step()


def training(seed: int, device: str) -> Training:
    """Return a training of one of the architectures."""
    torch.manual_seed(seed)
    builds = ARCHITECTURES[device]
    model, batches = builds[seed % len(builds)]()
    model.to(device)
    return Training(model, polycast.syncfree.AdamW(model.parameters()), batches[0].to(device), device)


class Place(NamedTuple):
    """A call that can be spoiled."""

    number: int
    site: Site


def places(train: Training, run: Callable[[], None], *, twice: bool) -> list[Place]:
    """Return the calls of a run whose results are not zero; with `twice` those that give the same when run again."""
    found: list[Place] = []
    sizes: list[Tensor] = []
    count = 0

    def visit(op: Op) -> None:
        nonlocal count
        op.run()
        if op.outputs and _computes(op.function):
            same = torch.Tag.nondeterministic_seeded not in op.function.tags
            if op.outputs[0].numel() > 0 and (same or not twice):
                found.append(Place(count, op.site))
                sizes.append(op.outputs[0].detach().any().float())
            count += 1

    with Values(train.model, visit):
        run()
    train.model.zero_grad()
    return [place for place, size in zip(found, read_numbers(sizes), strict=True) if size > 0]


def compared(seeds: Iterable[int], device: str) -> Iterator[str | None]:
    """Yield, for each seed, what compare names in the place of the planted error; None where it names that."""
    for seed in seeds:
        train = training(seed, device)
        place = Random(seed).choice(places(train, train.run, twice=True))
        with Plant(place.number, one_percent):
            worst = polycast.compare(train.run, model=train.model).worst()[0]
        yield None if worst.site == place.site else f"seed {seed}: {place.site} is wrong, named was {worst}"


def watched(seeds: Iterable[int], device: str) -> Iterator[str | None]:
    """Yield, for each seed, what watch names in the place of the planted value; None where it names that."""
    for seed in seeds:
        train = training(seed, device)
        place = Random(seed).choice(places(train, train.step, twice=False))
        value = Random(seed).choice([math.inf, -math.inf, math.nan])
        train = training(seed, device)
        with warnings.catch_warnings(), Plant(place.number, put(value)):
            warnings.simplefilter("ignore")
            with polycast.watch(train.model, train.optimizer) as watch:
                train.step()
        named = watch.findings[0].site if watch.findings else None
        yield None if named == place.site else f"seed {seed}: {value} is in {place.site}, named was {named}"


class Branch(nn.Module):
    """A pre-norm branch of random layers beside a residual, which stays in float32."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        activation = random.choice([nn.GELU, nn.ReLU, nn.SiLU, nn.Tanh, nn.Identity])
        norm: nn.Module = random.choice([nn.LayerNorm, nn.RMSNorm])(WIDTH)
        inner = [nn.Linear(WIDTH, 2 * WIDTH), activation(), nn.Linear(2 * WIDTH, WIDTH)]
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True) if random.random() < 0.5 else None
        self.norm = norm
        self.inner = nn.Sequential(*inner, nn.Dropout(random.choice([0.0, 0.1])))
        self.gain = random.choice([1.0, 0.5, 30.0])

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the residual and of the branch."""
        y = self.norm(x)
        if self.attention is not None:
            y = self.attention(y, y, y, need_weights=False)[0]
        return x + self.inner(y) * self.gain  # type: ignore[no-any-return]


def branches(seed: int) -> tuple[nn.Module, Callable[[], polycast.watch]]:
    """Return a network, and what watches its forward and backward under a scale that is too large for it."""
    random = Random(seed)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Embedding(16, WIDTH), *(Branch(random) for _ in range(random.randint(1, 3))))
    model.append(random.choice([nn.Identity(), nn.LayerNorm(WIDTH)])).append(nn.Linear(WIDTH, 16))
    if random.random() < 0.3:
        polycast.assign(model, {str(len(model) - 3): {"linear": "float16"}})
    tokens, scale = torch.randint(0, 16, (2, 4)), 2.0 ** random.randint(18, 30)

    def run() -> polycast.watch:
        torch.manual_seed(seed)
        model.zero_grad()
        with polycast.watch(model) as found:
            with polycast.autocast("cpu", torch.float16):
                loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            (loss * scale).backward()  # type: ignore[no-untyped-call]
        return found

    return model, run


def advised(seeds: Iterable[int]) -> Iterator[str | None]:
    """Yield, for each seed, the finding that stays, though its advice was followed; None where none does."""
    for seed in seeds:
        model, run = branches(seed)
        rules, stays = polycast.Policy({}), None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                findings = run().findings
                for _ in range(ROUNDS):
                    if not findings or stays is not None:
                        break
                    first = findings[0]
                    rules = _follow(first.remedy, model, rules)
                    findings = run().findings
                    if any((one.site, one.op) == (first.site, first.op) for one in findings):
                        stays = first
        finally:
            polycast.use(None)
        stays = findings[0] if stays is None and findings else stays
        yield None if stays is None else f"seed {seed}: {stays}"


def _follow(remedy: str, model: nn.Module, rules: polycast.Policy) -> polycast.Policy:
    """Do as a finding's text says, with all that was advised before."""
    _, _, code = remedy.partition("polycast.")
    given = eval(f"polycast.{code}", {"polycast": polycast, "model": model}) if code else None
    if isinstance(given, polycast.Policy):
        rules = rules | given
        polycast.use(rules)
    return rules


def main(arguments: list[str] | None = None) -> int:
    """Plant the faults and print what was named otherwise; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("errors", type=int, nargs="?", default=20)
    parser.add_argument("values", type=int, nargs="?", default=50)
    parser.add_argument("advice", type=int, nargs="?", default=20)
    parser.add_argument("--device", default="cpu", choices=ARCHITECTURES)
    asked = parser.parse_args(arguments)
    if asked.device == "xla" and not HAS_XLA:
        parser.error("torch_xla is not installed beside this torch")
    wrong = 0
    for title, outcomes, count in (
        ("1 % errors that compare names", compared(range(asked.errors), asked.device), asked.errors),
        ("infinities and NaNs that watch names", watched(range(asked.values), asked.device), asked.values),
        ("overflows that watch's advice avoids", advised(range(asked.advice)), asked.advice),
    ):
        missed = [outcome for outcome in tqdm(outcomes, total=count, desc=title, disable=None) if outcome]
        print(*missed, f"{title}: {count - len(missed)} of {count}", sep="\n")
        wrong += len(missed)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
