"""The parameter shapes that the benchmarks measure, computed from the architectures' published numbers, and the choice.

A benchmark adds its own options to those of ``new_parser``, and reads all of them with ``parse``.
"""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

Shape: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = tuple[Shape, ...]


@dataclass(frozen=True)
class Workload:
    """The parameters of a model, or as many tensors of one shape, in one dtype."""

    title: str
    shapes: Shapes
    dtype: torch.dtype = torch.float32

    @property
    def elements(self) -> int:
        """How many numbers the tensors hold together."""
        return sum(map(prod, self.shapes))

    @property
    def description(self) -> str:
        """The title, with the dtype, the number of tensors and that of their elements."""
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.title}, {dtype}: {len(self.shapes)} tensors, {self.elements / 1e6:.1f}M elements"

    def random(self, device: torch.device | str = "cpu") -> list[Tensor]:
        """Return tensors of these shapes on the device, filled with normally distributed numbers."""
        return [torch.randn(shape).to(self.dtype).to(device) for shape in self.shapes]


def resnet(blocks: tuple[int, ...] = (3, 4, 6, 3), classes: int = 1000) -> Shapes:
    """Return the shapes of a ResNet of bottleneck blocks, ResNet-50 by default, in the order of torchvision's model.

    Source: Kaiming He and others: Deep residual learning for image recognition, 2015, table 1.
    """
    shapes = list(_convolution(3, 64, 7))
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        for block in range(count):
            shapes += (*_convolution(channels, width, 1), *_convolution(width, width, 3))
            shapes += _convolution(width, 4 * width, 1)
            if block == 0:
                shapes += _convolution(channels, 4 * width, 1)
            channels = 4 * width
    return (*shapes, *_linear(channels, classes))


def _convolution(before: int, after: int, kernel: int) -> Shapes:
    """A square convolution without bias, and the scale and shift of its batch normalization."""
    return (after, before, kernel, kernel), (after,), (after,)


def _linear(before: int, after: int) -> Shapes:
    return (after, before), (after,)


def gpt(vocabulary: int = 50257, context: int = 1024, width: int = 768, layers: int = 12) -> Shapes:
    """Return the shapes of a GPT-2, its smallest by default; the output shares the weight of the embedding.

    Source: Alec Radford and others: Language models are unsupervised multitask learners, 2019, table 2, and the code
    released with it, whose linear layers hold their weights transposed.
    """
    norm: Shapes = ((width,), (width,))
    attention: Shapes = ((width, 3 * width), (3 * width,), (width, width), (width,))
    perceptron: Shapes = ((width, 4 * width), (4 * width,), (4 * width, width), (width,))
    return ((vocabulary, width), (context, width), *(norm + attention + norm + perceptron) * layers, *norm)


def _counted(shapes: Shapes, tensors: int, elements: int) -> Shapes:
    """Return the shapes, known to be as many, and to hold as many numbers, as the published model."""
    assert len(shapes) == tensors, f"{len(shapes)} tensors, and the published model has {tensors}"
    count = sum(map(prod, shapes))
    assert count == elements, f"{count} elements, and the published model has {elements}"
    return shapes


MEBI = 2**20
RESNET_50 = _counted(resnet(), 161, 25_557_032)
GPT_2_SMALL = _counted(gpt(), 148, 124_439_808)

CPU_WORKLOADS = {
    "64x1M": Workload("64 x 1M", ((MEBI,),) * 64),
    "resnet50": Workload("ResNet-50", RESNET_50),
    "gpt2": Workload("GPT-2 small", GPT_2_SMALL),
    "4000x64": Workload("4000 x 64", ((64,),) * 4000),
    "64x1M-bf16": Workload("64 x 1M bf16", ((MEBI,),) * 64, torch.bfloat16),
}
# Small enough that XLA compiles and runs them on the host in seconds.
XLA_WORKLOADS = {
    "20x256x256": Workload("20 x 256x256", ((256, 256),) * 20),
    "100x256x256": Workload("100 x 256x256", ((256, 256),) * 100),
    "transformer": Workload("transformer", gpt(vocabulary=1000, context=128, width=128, layers=4)),
}
#: By device, and then by the names that the option --workload takes.
WORKLOADS = {"cpu": CPU_WORKLOADS, "xla": XLA_WORKLOADS}


def new_parser(description: str | None) -> ArgumentParser:
    """Return a parser of the options that all benchmarks over these workloads share."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=WORKLOADS, default="cpu", help="(default: cpu)")
    names = "; ".join(f"on {device} {', '.join(workloads)}" for device, workloads in WORKLOADS.items())
    parser.add_argument("--workload", nargs="+", metavar="NAME", help=f"{names} (default: all of the device)")
    parser.add_argument("--rounds", type=int, default=30, help="multiples of 6 balance the order (default: 30)")
    parser.add_argument("--threads", type=int, help="torch's threads on the CPU (default: torch's own choice)")
    parser.add_argument("--picture", type=Path, metavar="PATH", help="where to save a bar chart of the ratios")
    return parser


def parse(parser: ArgumentParser) -> tuple[Namespace, list[Workload]]:
    """Return the options and the workloads that they choose, or exit saying what is wrong; set torch's threads."""
    options = parser.parse_args()
    known = WORKLOADS[options.device]
    for name in options.workload or ():
        if name not in known:
            parser.error(f"--workload {name}: on {options.device} there are {', '.join(known)}")
    if options.rounds < 3:
        parser.error(f"--rounds {options.rounds}: quartiles need at least 3")
    if options.threads is not None:
        if options.threads < 1:
            parser.error(f"--threads {options.threads}: it takes at least 1")
        torch.set_num_threads(options.threads)
    return options, [known[name] for name in options.workload or known]
