"""A policy of any length, and the schemas of its ops."""

from codegen.schemas import Schemas
from polycast_grammar.categories import Category

DEVICES = 10
CATEGORIES = ("lower_precision_fp", "fp32", "promote", "stock")


def policy(ops: int) -> str:
    """Return a policy in which every op names every device."""
    lines = ["devices:"]
    lines += [f"  d{n}: {{dispatch_key: AutocastD{n}, lower_precision: [bfloat16]}}" for n in range(DEVICES)]
    lines += ["categories:", *(f"  {category.value}: A sentence." for category in Category), "ops:"]
    for op in range(ops):
        cast = ", ".join(f"d{n}: {CATEGORIES[(op + n) % len(CATEGORIES)]}" for n in range(DEVICES))
        lines.append(f"  op{op:05}: {{cast: {{{cast}}}, public: [torch.op{op:05}]}}")
    return "\n".join([*lines, ""])


def schemas(ops: int) -> Schemas:
    """Return a torch that has these ops."""
    return Schemas("".join(f"- func: op{op:05}(Tensor self, Tensor other) -> Tensor\n" for op in range(ops)), (2, 9))
