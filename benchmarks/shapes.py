"""The parameter shapes that the benchmarks measure, computed from the architectures' published numbers, and the choice.

A benchmark adds its own options to those of ``new_parser``, and reads all of them with ``parse``.
"""

import os
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

# A measurement holds parameters, gradients and states of all contestants, or of two, and what torch's lists return.
COPIES, COPIES_OF_TWO = 16, 10
SHARE_OF_MEMORY = 0.8

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
        """Return tensors of these shapes on the device, filled with normally distributed numbers.

        XLA gets those of the host, because it would compile a program for each shape.
        """
        drawn = "cpu" if torch.device(device).type == "xla" else device
        return [torch.randn(shape, device=drawn).to(device, self.dtype) for shape in self.shapes]

    def within(self, elements: float) -> "Workload":
        """Return as many of its tensors as hold so many elements of float32. The title says if any is left out."""
        tensors = len(self.shapes)
        while tensors > 1 and sum(map(prod, self.shapes[:tensors])) > elements:
            tensors -= 1
        if tensors == len(self.shapes):
            return self
        kept = replace(self, shapes=self.shapes[:tensors])
        return replace(kept, title=f"{self.title}, {kept.elements / self.elements:.0%} of them")


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

REAL_WORKLOADS = {
    "64x1M": Workload("64 x 1M", ((MEBI,),) * 64),
    "resnet50": Workload("ResNet-50", RESNET_50),
    "gpt2": Workload("GPT-2 small", GPT_2_SMALL),
    "4000x64": Workload("4000 x 64", ((64,),) * 4000),
    "64x1M-bf16": Workload("64 x 1M bf16", ((MEBI,),) * 64, torch.bfloat16),
}
# As many elements in fewer or more tensors, and as many as memory holds: by their names only.
NAMED_WORKLOADS = {
    "1x64M": Workload("1 x 64M", ((64 * MEBI,),)),
    "1024x64k": Workload("1024 x 64k", ((2**16,),) * 1024),
    "16384x4k": Workload("16384 x 4k", ((2**12,),) * 16384),
    "1e9": Workload("1e9 parameters", ((10**7,),) * 100),
}
# Small enough that XLA compiles and runs them on the host in seconds.
XLA_WORKLOADS = {
    "20x256x256": Workload("20 x 256x256", ((256, 256),) * 20),
    "100x256x256": Workload("100 x 256x256", ((256, 256),) * 100),
    "transformer": Workload("transformer", gpt(vocabulary=1000, context=128, width=128, layers=4)),
}


def free_bytes(device: str) -> int:
    """Return the free memory of the device, or half of the host's, which other programs use, too."""
    module = torch.get_device_module(device)
    if hasattr(module, "mem_get_info"):
        free: int = module.mem_get_info()[0]
        return free
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 512 for line in lines if line.startswith("MemAvailable:"))


def new_parser(description: str | None) -> ArgumentParser:
    """Return a parser of the options that all benchmarks over these workloads share."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="a device type of torch (default: cpu)")
    names = f"on xla {', '.join(XLA_WORKLOADS)}; elsewhere {', '.join(REAL_WORKLOADS)}"
    more = ", ".join(NAMED_WORKLOADS)
    parser.add_argument("--workload", nargs="+", metavar="NAME", help=f"{names} (default: all of these), and {more}")
    parser.add_argument("--best", action="store_true", help="beside torch's best alone: less time and memory")
    parser.add_argument("--rounds", type=int, default=30, help="multiples of 6 balance the order (default: 30)")
    parser.add_argument("--threads", type=int, help="torch's threads on the CPU (default: torch's own choice)")
    parser.add_argument("--picture", type=Path, metavar="PATH", help="where to save a bar chart of the ratios")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to save the figures")
    return parser


def parse(parser: ArgumentParser) -> tuple[Namespace, list[Workload]]:
    """Return the options and the workloads that they choose, or exit saying what is wrong; set torch's threads."""
    options = parser.parse_args()
    usual = XLA_WORKLOADS if options.device == "xla" else REAL_WORKLOADS
    known = usual if options.device == "xla" else {**usual, **NAMED_WORKLOADS}
    for name in options.workload or ():
        if name not in known:
            parser.error(f"--workload {name}: on {options.device} there are {', '.join(known)}")
    if options.rounds < 3:
        parser.error(f"--rounds {options.rounds}: quartiles need at least 3")
    if options.threads is not None:
        if options.threads < 1:
            parser.error(f"--threads {options.threads}: it takes at least 1")
        torch.set_num_threads(options.threads)
    if options.device == "xla":
        os.environ.setdefault("PJRT_DEVICE", "CPU")
        import torch_xla  # noqa: F401
    else:
        try:
            torch.empty(0, device=options.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            parser.error(f"--device {options.device}: {str(error).splitlines()[0]}")
    chosen = [known[name] for name in options.workload or usual]
    if options.device != "xla":
        copies = COPIES_OF_TWO if options.best else COPIES
        elements = SHARE_OF_MEMORY * free_bytes(options.device) / (copies * torch.float32.itemsize)
        chosen = [workload.within(elements) for workload in chosen]
    return options, chosen
