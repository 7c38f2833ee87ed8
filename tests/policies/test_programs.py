"""Random programs of nested rules, with expected dtypes and values. ``TIMES=50`` runs 2,000 programs on each device.

``program_parts.py`` has the parts of a program, ``programs.py`` runs a program, and this file draws the programs.
"""

import re
from collections.abc import Iterator

import polycast
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from polycast._extension import scope_depth, scope_in_force
from torch import Tensor

from tests.policies import program_parts as parts
from tests.policies.programs import COPIES, made
from tests.support.devices import lower_precision
from tests.support.properties import examples


def _values(op: str) -> st.SearchStrategy[str]:
    names = ["lower_precision_fp", "fp32", "bfloat16", "float16", "float64", "input_dtype", "unlisted"]
    return st.sampled_from(names if op in parts.ONE_TENSOR else [*names, "promote"])


@st.composite
def drawn_rules(draw: st.DrawFn) -> parts.Rules:
    """Draw rules for at most three ops: for all devices, for one device, or for ``cuda`` and the other devices."""
    made: parts.Rules = {}
    for op in draw(st.lists(st.sampled_from(sorted(parts.CALLS)), max_size=3, unique=True)):
        value, form = draw(_values(op)), draw(st.sampled_from(["all", "all", "cpu", "cuda", "others"]))
        made[op] = value if form == "all" else {form: value}
        if form == "others":
            made[op] = {"cuda": draw(_values(op)), "others": value}
    return made


def modules(body: st.SearchStrategy[parts.Block]) -> st.SearchStrategy[parts.Around]:
    copies = st.none() | st.sampled_from(sorted(COPIES))
    return st.builds(parts.Around, st.just("module"), body, drawn_rules(), copies)


ops = st.builds(parts.Op, st.sampled_from(sorted(parts.CALLS)), st.sampled_from(parts.GIVEN))


@st.composite
def regions(draw: st.DrawFn, body: st.SearchStrategy[parts.Block], *, has_rules: bool = False) -> parts.Region:
    """Draw a polycast region, or a PyTorch region, which has no policy."""
    rules = draw(drawn_rules() if has_rules else st.none() | drawn_rules())
    dtype = draw(st.sampled_from([None, None, "bfloat16", "float16"]))
    enabled = draw(st.sampled_from([True, True, True, False]))
    is_torchs = rules is None and draw(st.booleans())
    return parts.Region(draw(body), rules, dtype, enabled, is_torchs, draw(st.sampled_from([False, False, True])))


def blocks(depth: int, kinds: str = "utgrkbdc") -> st.SearchStrategy[parts.Block]:
    """Return a strategy for blocks.

    The letters allow ``use``, threads, generators, raised errors, ``keep``, backward (d: in threads) and compiled code.
    """
    if depth == 0:
        return st.lists(ops, min_size=1, max_size=2).map(tuple)
    within = blocks(depth - 1, kinds)
    nodes: list[st.SearchStrategy[parts.Node]] = [ops, ops, regions(within), regions(within)]
    nodes.append(modules(within))
    if "k" in kinds:
        nodes.append(st.builds(parts.Around, st.just("keep"), within, st.just({}), st.none()))
    if "b" in kinds:
        edge = regions(st.just(())) | modules(st.just(()))
        if "u" in kinds:
            edge |= st.builds(parts.Around, st.just("use"), st.just(()), drawn_rules(), st.none())
        # The inner blocks exclude compiled code, and threads, which follow only the process's policy. They also exclude
        # a backward that could rerun the enclosing forward or wait for its own thread.
        inner, nested = (blocks(depth - 1, "".join(set(kinds) - without)) for without in ({*"tcb"}, {*"tcd"}))
        in_thread = st.booleans() if "d" in kinds else st.just(False)
        nodes.append(st.builds(parts.Checkpoint, inner, edge, edge, st.booleans(), in_thread))
        dtypes = st.none() | st.sampled_from(["float32", "bfloat16"])
        nodes.append(st.builds(parts.Custom, st.tuples(nested, nested), edge, edge, dtypes, in_thread))
    if "u" in kinds:
        nodes.append(st.builds(parts.Around, st.just("use"), within, drawn_rules(), st.none()))
    if "t" in kinds:
        threads = blocks(depth - 1, "".join(set(kinds) - {*"uc"}))  # `use` would affect the other threads.
        nodes.append(st.builds(parts.Threads, st.lists(threads, min_size=1, max_size=2).map(tuple)))
    if "g" in kinds:  # A PyTorch region would outlast the module.
        nodes.append(st.builds(parts.Generator, regions(blocks(0)), within, st.none()))
        nodes.append(st.builds(parts.Generator, regions(blocks(0), has_rules=True), within, drawn_rules()))
    if "r" in kinds:
        raising = st.builds(lambda body: (*body, parts.Raise()), within)
        inside = regions(raising) | modules(raising)
        nodes.append(st.builds(parts.Around, st.just("try"), st.tuples(ops, inside), st.just({}), st.none()))
    if "c" in kinds:
        # As under `torch.autocast`, compiled code ignores the dtype of a disabled region.
        seen = regions(blocks(0)).filter(lambda region: region.enabled or region.dtype is None)
        nodes.append(st.builds(parts.Compiled, blocks(min(depth - 1, 2), ""), seen))
    return st.lists(st.one_of(nodes), min_size=1, max_size=3).map(tuple)


@pytest.fixture(autouse=True)
def _nothing_used() -> Iterator[None]:
    yield
    polycast.use(None)


def check(program: parts.Block, device: str) -> None:
    expected: list[parts.Found] = []
    results: list[Tensor] = []
    made(program, parts.started(device, {}), expected)(results)
    assert [str(result.dtype)[6:] for result in results] == [op.dtype for op in expected]
    for op, result in zip(expected, results, strict=True):
        torch.testing.assert_close(result, op.value(device), rtol=0, atol=0)
    x = torch.eye(2).to(device)
    with polycast.autocast(device):  # The program must leave no state.
        assert (x @ x).dtype == lower_precision(device)[0]
    assert polycast.policy.current() == polycast.Policy()
    assert (scope_depth(), scope_in_force(), torch.is_autocast_enabled(device)) == (0, None, False)


@examples(40)
@given(program=blocks(3, "utgrkbd"))
def test_ops_run_in_the_dtypes_of_nested_rules(real_device: str, program: parts.Block) -> None:
    """A program nests regions and modules (specification 2.6, 2.7, 3.1, 3.7, 4.1, 4.2, 4.3, 5.1 and 7.2)."""
    regions = set(re.findall(r"dtype='(\w+)'", repr(program)))
    assume(regions <= {str(dtype).removeprefix("torch.") for dtype in lower_precision(real_device)})
    check(program, real_device)


@examples(5)
@given(blocks(2, "utgrkbdc"))
def test_ops_of_compiled_programs_run_in_the_dtypes_of_nested_rules(program: parts.Block) -> None:
    """Compiled code follows the policies around it (specification 6.1)."""
    check(program, "cpu")
    torch._dynamo.reset()
