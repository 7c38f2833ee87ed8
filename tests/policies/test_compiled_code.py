"""Policies under torch.compile: the right casts each time, one compile for each policy, and nothing left behind."""

import os
from collections.abc import Callable, Iterator

import polycast
import pytest
import torch
from polycast import Policy
from polycast._compiled import scope_depth, scope_in_force
from torch import nn

from tests.support.process import python

F32, HALF, BF16 = torch.float32, torch.float16, torch.bfloat16
X = torch.eye(4)
HALVES = Policy({"matmul": "float16", "sort": "float16"})
WIDE = Policy({"matmul": "fp32"})
BACKENDS = ("eager", "aot_eager", "inductor")
pytestmark = [
    pytest.mark.filterwarnings("ignore:bf16 and fp16 are mixed in the scheduler node"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No compiled code before, and no policy after."""
    torch._dynamo.reset()
    yield
    assert (scope_depth(), scope_in_force()) == (0, None)


def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x @ x, torch.sort(x).values


def types(tensors: tuple[torch.Tensor, ...]) -> list[torch.dtype]:
    return [tensor.dtype for tensor in tensors]


class Compiled:
    """A function under torch.compile, whose compilations are counted."""

    def __init__(self, function: Callable[..., tuple[torch.Tensor, ...]], backend: str, fullgraph: bool = True) -> None:
        self.count = 0
        self.inner = torch._dynamo.lookup_backend(backend)
        self.run = torch.compile(function, backend=self.backend, fullgraph=fullgraph)

    def backend(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        self.count += 1
        compiled: Callable[..., object] = self.inner(graph, inputs)
        return compiled


@pytest.mark.parametrize("backend", BACKENDS)
def test_regions_around_compiled_code(backend: str) -> None:
    compiled = Compiled(both, backend)
    for policy, expected in ((HALVES, [HALF, HALF]), (WIDE, [F32, F32]), (HALVES, [HALF, HALF]), (WIDE, [F32, F32])):
        with polycast.autocast("cpu", policy=policy):
            assert types(compiled.run(X)) == expected
    with polycast.autocast("cpu"):
        assert types(compiled.run(X)) == [BF16, F32]
    assert types(compiled.run(X)) == [F32, F32]
    assert compiled.count == 4


@polycast.autocast("cpu", policy=HALVES)
def decorated(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return both(x)


def regions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with polycast.autocast("cpu", policy=HALVES):
        first = both(x)
        with polycast.autocast("cpu", policy=WIDE):
            second = both(x)
    with polycast.autocast("cpu"):
        return first + second + both(x)


INSIDE = [
    (decorated, [HALF, HALF]),
    (regions, [HALF, HALF, F32, HALF, BF16, F32]),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "expected"), INSIDE)
def test_regions_inside_compiled_code(
    function: Callable[..., tuple[torch.Tensor, ...]], expected: list[torch.dtype], backend: str
) -> None:
    compiled = Compiled(function, backend)
    for _ in range(2):
        assert types(compiled.run(X)) == types(function(X)) == expected
    assert compiled.count == 1
    x = X.clone().requires_grad_()
    torch.stack([tensor.sum().float() for tensor in compiled.run(x)]).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None


@pytest.mark.parametrize("backend", BACKENDS)
def test_rules_of_modules_in_compiled_code(backend: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    polycast.assign(model, {"0": {"linear": "float16"}, "1": {"linear": "fp32"}})
    outputs: list[torch.dtype] = []
    compiled = Compiled(lambda x: (a := model[0](x), b := model[1](a), model[2](b)), backend)
    for policy, last in ((HALVES, BF16), (Policy({"linear": "float16"}), HALF)):
        with polycast.autocast("cpu", policy=policy):
            outputs = types(compiled.run(X))
        assert outputs == [HALF, F32, last]
    polycast.assign(model, {"0": {"linear": "fp32"}})
    with polycast.autocast("cpu"):
        assert types(compiled.run(X)) == [F32, F32, BF16]


def test_a_graph_break_and_an_error_inside_a_region() -> None:
    def broken(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with polycast.autocast("cpu", policy=HALVES):
            first = x @ x
            torch._dynamo.graph_break()
            return first, *both(x)

    def failing(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with polycast.autocast("cpu", policy=HALVES):
            raise ZeroDivisionError(str((x @ x).shape))

    assert types(Compiled(broken, "aot_eager", fullgraph=False).run(X)) == [HALF, HALF, HALF]
    with pytest.raises(ZeroDivisionError):
        Compiled(failing, "aot_eager", fullgraph=False).run(X)


def test_a_graph_break_inside_a_module_with_rules() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            first = x @ x
            torch._dynamo.graph_break()
            return first, *both(x)

    model = Broken()
    polycast.assign(model, {"": HALVES})
    compiled = Compiled(lambda x: model(x), "aot_eager", fullgraph=False)
    for _ in range(3):
        with polycast.autocast("cpu"):
            assert types(compiled.run(X)) == [HALF, HALF, HALF]
            assert types(both(X)) == [BF16, F32]


def test_as_many_policies_in_one_function_as_one_likes() -> None:
    policies = [Policy({"sort": "float16", f"aten::{op}": "fp32"}) for op in polycast.policy.ops("cpu", "fp32")[:50]]

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for policy in policies:
            with polycast.autocast("cpu", policy=policy):
                x = torch.sort(x).values
        return (x,)

    assert types(Compiled(function, "eager").run(X)) == [HALF]


def test_compiled_code_after_more_policies_than_numbers() -> None:
    for op in polycast.policy.ops("cpu", "fp32")[:50]:
        with polycast.autocast("cpu", policy=Policy({"sort": "bfloat16", f"aten::{op}": "fp32"})):
            pass
    assert types(Compiled(decorated, "eager").run(X)) == [HALF, HALF]


def test_a_policy_outlives_an_equal_one() -> None:
    """Compiled code names a policy by what it does, which is what equal policies share."""
    first, second = Policy({"mm": "fp32"}), Policy({"mm": "fp32"})
    del first

    @torch.compile(backend="eager", fullgraph=True)
    def run(x: torch.Tensor) -> torch.Tensor:
        with polycast.autocast("cpu", policy=second):
            return torch.mm(x, x)

    assert run(X).dtype is F32


def test_a_region_made_outside_breaks_the_graph_and_holds() -> None:
    region = polycast.autocast("cpu", policy=HALVES)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with region:
            return both(x)

    for _ in range(2):
        assert types(Compiled(function, "aot_eager", fullgraph=False).run(X)) == [HALF, HALF]
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="a policy that was made outside of compiled code; make it"):
        Compiled(function, "aot_eager").run(X)


def test_a_region_without_a_policy_made_outside_is_traced() -> None:
    region = polycast.autocast("cpu", dtype="fp16")

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with region:
            return both(x)

    assert types(Compiled(function, "aot_eager").run(X)) == [HALF, F32]


@pytest.mark.parametrize("policy", [{"matmul": "float16", "sort": "fp16"}, "float16", torch.float16])
def test_compiled_code_makes_a_policy_of_what_one_is_made_of(policy: dict[str, str] | str | torch.dtype) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with polycast.autocast("cpu", "bf16", policy=policy):
            return (x @ x,)

    compiled = Compiled(function, "aot_eager")
    for _ in range(2):
        assert types(compiled.run(X)) == [HALF]
    assert compiled.count == 1


def test_compiled_code_follows_the_policy_of_the_process() -> None:
    compiled = Compiled(both, "aot_eager")
    found = []
    for policy in (None, WIDE, HALVES, None):
        polycast.use(policy)
        with polycast.autocast("cpu"):
            found.append(types(compiled.run(X)))
    assert found == [[BF16, F32], [F32, F32], [HALF, HALF], [BF16, F32]]


ON_DISK = """
import torch, polycast
from torch._dynamo.utils import counters
torch._inductor.config.fx_graph_cache = True
def both(x): return x @ x, torch.sort(x).values
A, B = polycast.Policy({"matmul": "float16"}), polycast.Policy({"matmul": "fp32", "sort": "bfloat16"})
compiled = torch.compile(both, fullgraph=True)
for policy in (A, B, polycast.Policy(), A):
    with polycast.autocast("cpu", policy=policy):
        print(*(str(t.dtype)[6:] for t in compiled(torch.eye(4))), end="; ")
hits = counters["aot_autograd"]["autograd_cache_hit"]
polycast.use(B)
with polycast.autocast("cpu"):
    print(*(str(t.dtype)[6:] for t in compiled(torch.eye(4))))
print(hits)
"""


def test_a_second_process_takes_from_the_disk_what_its_policy_compiled(tmp_path: os.PathLike[str]) -> None:
    program = "import warnings; warnings.simplefilter('ignore')\n" + ON_DISK
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1", "TORCH_LOGS": "-all"}
    casts = "float16 float32; float32 bfloat16; bfloat16 float32; float16 float32; float32 bfloat16"
    assert python(program, **environment).splitlines() == [casts, "0"]
    assert python(program, **environment).splitlines() == [casts, "3"]


class Regions(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return regions(x)


class Base(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with polycast.autocast("cpu"):
            return both(x)


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_has_no_place_for_a_policy(strict: bool) -> None:
    assigned = Base()
    polycast.assign(assigned, {"": WIDE})
    for model in (Regions(), assigned):
        with pytest.raises(Exception, match="has no place for a policy"):
            torch.export.export(model, (X,), strict=strict)
    program = torch.export.export(Base(), (X,), strict=strict)
    polycast.use(WIDE)
    try:
        assert types(program.module()(X)) == [F32, F32]
    finally:
        polycast.use(None)
    assert types(program.module()(X)) == [BF16, F32]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_region_with_a_policy_decorates_inside_of_compiled_code(backend: str) -> None:
    policy = Policy({"matmul": "fp32"})

    def function(x: torch.Tensor) -> torch.Tensor:
        @polycast.autocast("cpu", policy=policy)
        def product(x: torch.Tensor) -> torch.Tensor:
            return x @ x

        return product(x)

    assert torch.compile(function, backend=backend)(torch.eye(2)).dtype == torch.float32
    torch._dynamo.reset()
