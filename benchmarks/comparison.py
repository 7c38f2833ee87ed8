"""The end of a benchmark over workloads: measure one after the other, and say how many times faster than the peer."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks import side_by_side
from benchmarks.shapes import Workload
from benchmarks.side_by_side import Ratios


class Comparison(NamedTuple):
    """What is compared with whom: the titles of the last table and of the picture, the peer in both, the targets."""

    table: str
    picture: str
    peer: str
    targets: Mapping[str, float] | float

    def run(self, report: Callable[[Workload], Ratios], workloads: Sequence[Workload], picture: Path | None) -> None:
        """Report each workload, print the ratios, and save the picture that was asked for."""
        print(side_by_side.machine(), flush=True)
        torch.manual_seed(0)
        ratios = Ratios()
        for workload in workloads:
            ratios |= report(workload)
        targets = dict.fromkeys(ratios, self.targets) if isinstance(self.targets, float) else self.targets
        side_by_side.print_ratios(f"{self.table} {self.peer} / this", ratios, targets)
        if picture:
            side_by_side.draw(picture, f"{self.picture} against {self.peer}", ratios, self.peer)
            print(f"\nSaved {picture}.")
