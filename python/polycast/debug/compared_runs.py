"""A run of a compared program: its calls, their results, and the results that each call reads."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from polycast._extension import held_calls, key_of, start_holding
from polycast.cast_by_hand import flatten
from polycast.debug.calls import BACKWARD, Site, is_cast
from polycast.debug.observer import Observer
from polycast.debug.program_calls import Key, StepCalls
from polycast.debug.random_numbers import RandomNumbers
from polycast.debug.tensor_stats import is_plain, local, relative_errors
from polycast.policy.op_names import keys_of

TOOL = "polycast.debug.compare"
Result = tuple[int, int]
"""The index of a call, and the index of one of its results."""


@dataclass
class Ran:
    """A call that computes results, not only views."""

    site: Site
    op: str
    """The op by its name in policies. A call in backward without a rule has the op whose gradient it computes."""
    to_rule: str | None
    """The op whose rule may change the dtype that the call computes in, or None."""
    results: list[Tensor]
    dtypes: tuple[torch.dtype, ...]
    inputs: tuple[Result, ...]
    """The results that the call reads."""
    is_constant: bool
    """Whether no input of the call is a tensor."""
    local: Tensor | None
    """The largest error that the call itself makes, and the largest norm of its results; None if unknown."""
    error: float | None = None
    """The first number of ``local``."""
    errors: Sequence[float] = ()
    """The accumulated errors of the results."""
    norms: Sequence[float] = ()

    @property
    def is_cast(self) -> bool:
        """Whether the call is a cast by the program."""
        return is_cast(self.site.op)


class ProgramRun:
    """A run of a program, with the calls that have results.

    Args:
        run: The program.
        model: The model whose module names identify the calls.
        numbers: The random numbers of the program.
        measures: Whether to run each call again in float32, if possible, to measure its own error.
    """

    def __init__(
        self, run: Callable[[], object], model: nn.Module | None, numbers: RandomNumbers, *, measures: bool = False
    ) -> None:
        with Observer(TOOL, model) as observer:
            start_holding([], lambda _: None, True)
            with numbers:
                returned = run()
            step = StepCalls(held_calls(), observer.take_calls(), observer.modules)
        self._results = {
            index: parts
            for index, call in enumerate(step.calls)
            if (parts := {one.key: part for one in call.outputs if (part := local(one.copy)) is not None})
        }
        self._numbers = {index: number for number, index in enumerate(self._results)}
        self._origins: list[tuple[Result, ...]] = []
        for index in range(len(step.calls)):
            self._origins.append(self._results_in((one.key, makers) for one, makers in step.inputs[index]))
        self.calls = [self._ran(step, index, measures and index not in numbers.calls) for index in self._results]
        self.by_site = {ran.site: ran for ran in self.calls}
        self.redrawn = [site for index, site in enumerate(step.sites) if numbers.calls[index]]
        self._returned = self._results_in((key, step.makers_of(key)) for key in map(key_of, flatten(returned)))
        del self._results, self._origins

    def keep(self, sites: Iterable[Site]) -> None:
        """Drop the results of all calls except the calls at these sites."""
        self.by_site = {site: self.by_site[site] for site in sites if site in self.by_site}
        self.calls = []

    def ends(self) -> list[Result]:
        """Return the results of the program: its return values, or values that no op reads, and its gradients."""
        read: set[Result] = set()
        for index, ran in reversed([*enumerate(self.calls)]):
            is_read = not ran.is_cast or any((index, number) in read for number in range(len(ran.results)))
            read.update(ran.inputs if is_read and not ran.site.op.endswith("_like") else ())
        unread = [
            (index, number)
            for index, ran in enumerate(self.calls)
            if not ran.is_constant
            # The later results of a call in forward are usually for its backward.
            for number in range(len(ran.results) if ran.site.phase == BACKWARD else 1)
            if (index, number) not in read and (ran.site.phase == BACKWARD or not self._returned)
        ]
        return [*dict.fromkeys(source for end in (*self._returned, *unread) for source in self._sources(end))]

    def _sources(self, end: Result) -> Iterator[Result]:
        """Yield a result, or the results from which it was cast or summed up as a gradient.

        Other runs may lack the cast. They lack the sum if the weight had no gradient before.
        """
        ran = self.calls[end[0]]
        if ran.is_cast or (ran.site.phase == BACKWARD and ran.op == "add_"):
            for source in ran.inputs:
                yield from self._sources(source)
        else:
            yield end

    def _results_in(self, inputs: Iterable[tuple[Key, tuple[int, ...]]]) -> tuple[Result, ...]:
        """Return the results that tensors contain. ``inputs`` has the key and the makers of each tensor."""
        found: dict[Result, None] = {}
        for key, makers in inputs:
            for maker in makers:
                if maker in self._results:
                    memories = [one[0] for one in self._results[maker]]
                    if key[0] in memories:
                        found[self._numbers[maker], memories.index(key[0])] = None
                else:
                    found |= dict.fromkeys(self._origins[maker])  # for example, a view has no results
        return tuple(found)

    def _ran(self, step: StepCalls, index: int, measures: bool) -> Ran:
        parts = [*self._results[index].values()]
        ruled, named = step.ruled(index), index
        if step.phase(index) == BACKWARD and ruled != index:
            of = step.gradient_of(index)
            named = index if of is None else of
        return Ran(
            step.sites[index],
            written_name(step.op(named)),
            next((op for _, op in step.rules(index if ruled is None else ruled)), None),
            parts,
            tuple(part.dtype for part in parts),
            self._origins[index],
            not step.calls[index].inputs,
            _local_error(step, index, self._results[index]) if measures else None,
        )


def written_name(op: str) -> str:
    """Return the public name of an op if that name is an op as well: "softmax" for "_softmax"."""
    name = "to" if op == "_to_copy" else op.removeprefix("_").removeprefix("native_")
    return name if keys_of(name) else op


def _local_error(step: StepCalls, index: int, results: dict[Key, Tensor]) -> Tensor | None:
    """Return the largest error and the largest norm of a call's results; None if they cannot be measured.

    Only ops of ATen run again, because others may have side effects. Calls with a uint8 input do not run again. The
    input may be a workspace that a forward kernel filled in another dtype for its backward.
    """
    call = step.calls[index]
    given = step.inputs_as_given(index)
    if given is None or not call.name.startswith("aten::"):
        return None
    if not all(is_plain(tensor) and tensor.dtype is not torch.uint8 for tensor in given.values()):
        return None
    # A kernel may raise any exception for a dtype that it does not support.
    with torch.no_grad(), contextlib.suppress(Exception):
        wide = step.run([index], is_wide=True, given=given)
        inexact = [key for key, result in results.items() if result.is_floating_point()]
        expected = {key: part for key in inexact if (part := local(wide[key])) is not None}
        errors = relative_errors([results[key] for key in expected], [*expected.values()])
        return None if errors is None else errors.amax(1)
    return None
