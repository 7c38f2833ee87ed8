"""Random programs of nested rules, drawn by hypothesis."""

from dataclasses import replace

from hypothesis import strategies as st

from tests.policies.programs import (
    GIVEN,
    ONE_TENSOR,
    OPS,
    Block,
    Compiled,
    Generator,
    Module,
    Node,
    Op,
    Raise,
    Region,
    Rules,
    Suspended,
    Threads,
    Try,
    Use,
)


def _values(op: str) -> st.SearchStrategy[str]:
    names = ["lower_precision_fp", "fp32", "bfloat16", "float16", "float64", "input_dtype", "unlisted"]
    return st.sampled_from(names if op in ONE_TENSOR else [*names, "promote"])


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    """Draw rules for some of the ops: for all devices, for the CPU, or for others than it."""
    made: Rules = {}
    for op in draw(st.lists(st.sampled_from(OPS), max_size=3, unique=True)):
        value, form = draw(_values(op)), draw(st.sampled_from(["all", "all", "cpu", "cuda", "others"]))
        made[op] = value if form == "all" else {form: value}
        if form == "others":
            made[op] = {"cuda": draw(_values(op)), "others": value}
    return made


ops = st.builds(Op, st.sampled_from(OPS), st.sampled_from(sorted(GIVEN)))


@st.composite
def regions(draw: st.DrawFn, body: st.SearchStrategy[Block]) -> Region:
    """Draw a region; torch's own where it has no policy, now and then."""
    held = draw(st.none() | rules())
    dtype = draw(st.sampled_from([None, None, "bfloat16", "float16"]))
    enabled = draw(st.sampled_from([True, True, True, False]))
    is_torchs = held is None and draw(st.booleans())
    return Region(draw(body), held, dtype, enabled, is_torchs, draw(st.sampled_from([False, False, True])))


def _of_polycast(region: Region) -> Region:
    return replace(region, is_torchs=False)


def blocks(depth: int, kinds: str = "utgsrc") -> st.SearchStrategy[Block]:
    """Draw a block. The letters allow `use`, threads, generators, suspended ones, errors that are raised, compiling."""
    if depth == 0:
        return st.lists(ops, min_size=1, max_size=2).map(tuple)
    within = blocks(depth - 1, kinds)
    nodes: list[st.SearchStrategy[Node]] = [
        ops,
        ops,
        regions(within),
        st.builds(Module, within, rules()),
        regions(within),
    ]
    if "u" in kinds:
        nodes.append(st.builds(Use, within, rules()))
    if "t" in kinds:
        threads = blocks(depth - 1, "".join(set(kinds) - {*"ucs"}))  # `use` would be seen by the others
        nodes.append(st.builds(Threads, st.lists(threads, min_size=1, max_size=2).map(tuple)))
    if "g" in kinds:
        nodes.append(st.builds(Generator, regions(blocks(0)), within))
    if "s" in kinds:
        region = st.builds(replace, regions(blocks(0)), rules=rules())  # torch's own stays entered
        suspending = st.tuples(st.builds(Suspended, region.map(_of_polycast), within))
        nodes.append(st.builds(Module, suspending, rules()))
    if "r" in kinds:
        raising = st.tuples(within, st.just((Raise(),))).map(lambda parts: parts[0] + parts[1])
        region = st.builds(replace, regions(within), body=raising)
        module = st.builds(Module, raising, rules())
        nodes.append(st.builds(Try, st.tuples(ops, region | module, ops)))
    if "c" in kinds:
        nodes.append(st.builds(Compiled, blocks(min(depth - 1, 2), ""), regions(blocks(0))))
    return st.lists(st.one_of(nodes), min_size=1, max_size=3).map(tuple)
