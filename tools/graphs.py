"""Compares what torch.compile traces under the policy's kernels with what it traces under torch's own.

`python -m tools.graphs [DEVICE...]` goes through every op, type and way to trace; it takes half an hour for all
devices. Of devices that are not here fake tensors are traced, without a backward, which they cannot record.
"""

import itertools
import logging
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator

import polycast
import torch
from polycast import _compiled
from tqdm import tqdm

from testing.cases import CASES, Case
from testing.graphs import Graph, Tracing, traced
from testing.probe import HAS_XLA, device_type, kernels_of, stock_kernels
from testing.samples.ops import WITHOUT_SAMPLE

# The columns for whose devices torch, or torch_xla, has kernels, and whose fake tensors carry an autocast key.
COLUMNS = ["cpu", "cuda", "xpu", "mps", "mtia", *(["xla"] if HAS_XLA else [])]
F32 = torch.float32
PROMOTE_RAISES = "Unexpected floating ScalarType in at::autocast::prioritize"


def cells(column: str) -> Iterator[tuple[Case, Tracing]]:
    """Yield what to trace on a device: each op that has a sample, in each way."""
    rows = [case for case in CASES if case.device == column and case.name not in WITHOUT_SAMPLE]
    backward = (False, True) if device_type(column) == "cpu" else (False,)
    for lower in _compiled.DEVICES[column].lower_precision:
        given = ((F32,), (lower,), (lower, F32), (torch.float16, torch.bfloat16))
        for case, types, dynamic, gradients in itertools.product(rows, given, (False, True), backward):
            yield case, Tracing(lower, types, dynamic, gradients)


def compare(case: Case, ours: Graph | str, stock: Graph | str) -> str:
    """Return how the two compare, in a word or two."""
    if isinstance(ours, str) and isinstance(stock, str):
        return "refused by both"
    if ours == stock:
        return "equal"
    if case.op in polycast.policy.notes(case.device) or (isinstance(stock, str) and PROMOTE_RAISES in stock):
        return "different on purpose"
    return "DIFFERENT"


def main(columns: list[str]) -> int:
    """Compare, print the counts and each difference; return whether there is one that the policy does not mean."""
    logging.disable()
    warnings.simplefilter("ignore")
    verdicts: Counter[str] = Counter()
    for column in columns or COLUMNS:
        todo = list(cells(column))
        with kernels_of(column):
            ours = [traced(*cell) for cell in tqdm(todo, f"{column}, ours", leave=False)]
        with stock_kernels():
            stock = [traced(*cell) for cell in tqdm(todo, f"{column}, stock", leave=False)]
        ops = defaultdict[str, Counter[str]](Counter)
        for (case, tracing), mine, other in zip(todo, ours, stock, strict=True):
            verdict = compare(case, mine, other)
            ops[verdict][case.name] += 1
            verdicts[verdict] += 1
            if verdict == "DIFFERENT":
                print(f"{case}, {tracing}:\n  ours  {mine}\n  stock {other}")
        for verdict, names in sorted(ops.items()):
            print(f"{column}: {verdict}: {names.total()} graphs, of {len(names)} ops")
    return int(verdicts["DIFFERENT"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
