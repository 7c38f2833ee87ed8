"""Policies under ``torch.compile``: correct casts, one compilation for each policy, and no policy left active."""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Event
from typing import Any

import polycast
import pytest
import torch
from polycast import Policy
from polycast._extension import scope_depth, scope_in_force
from torch import Tensor, nn

from tests.support.process import python, run_python

F64, F32, HALF, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
X = torch.eye(4)
HALVES = Policy({"matmul": "float16", "sort": "float16"})
WIDE = Policy({"matmul": "fp32"})
FP32_OPS = sorted({rule.op for rule in polycast.policy.resolved({}, device="cpu") if rule.category == "fp32"})
FIFTY = [Policy({"sort": "float16", f"aten::{op}": "fp32"}) for op in FP32_OPS[:50]]
FIRST, OUTLIVES, LAST = (Policy({"matmul": "float64"}) for _ in range(3))
del FIRST, LAST
BACKENDS = ("aot_eager", pytest.param("inductor", marks=pytest.mark.slow))
pytestmark = [
    pytest.mark.filterwarnings("ignore:bf16 and fp16 are mixed in the scheduler node"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Reset dynamo before the test, and remove the process's policy after the test."""
    torch._dynamo.reset()
    yield
    polycast.use(None)
    assert (scope_depth(), scope_in_force()) == (0, None)


def both(x: Tensor) -> tuple[Tensor, ...]:
    return x @ x, torch.sort(x).values


def types(tensors: tuple[Tensor, ...]) -> list[torch.dtype]:
    return [tensor.dtype for tensor in tensors]


def ruled(module: nn.Module, policy: Policy) -> nn.Module:
    polycast.assign(module, policy)
    return module


class Compiled:
    """A function under ``torch.compile`` that counts its compilations."""

    def __init__(self, function: Callable[..., Any], backend: str = "aot_eager", fullgraph: bool = True) -> None:
        self.count = 0
        self.inner = torch._dynamo.lookup_backend(backend)
        self.run = torch.compile(function, backend=self.backend, fullgraph=fullgraph)

    def backend(self, graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        self.count += 1
        compiled: Callable[..., object] = self.inner(graph, inputs)
        return compiled


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_code_follows_the_regions_around_it(backend: str) -> None:
    compiled = Compiled(both, backend)
    regions = {name: polycast.autocast("cpu", policy=policy) for name, policy in {"A": HALVES, "B": WIDE}.items()}
    regions |= {"+": polycast.autocast("cpu"), "-": polycast.autocast("cpu", enabled=False)}
    expected = {"A": [HALF, HALF], "B": [F32, F32], "+": [BF16, F32], "-": [F32, F32]}
    for name in "-AABAB-+ABA+":
        with regions[name]:
            assert types(compiled.run(X)) == expected[name]
    assert compiled.count == 4


@polycast.autocast("cpu", policy=HALVES)
def decorated(x: Tensor) -> tuple[Tensor, ...]:
    return both(x)


def regions(x: Tensor) -> tuple[Tensor, ...]:
    with polycast.autocast("cpu", policy=HALVES):
        first = both(x)
        with polycast.autocast("cpu", policy=WIDE):
            second = both(x)
    with polycast.autocast("cpu"):
        return first + second + both(x)


def decorates(x: Tensor) -> tuple[Tensor, ...]:
    @polycast.autocast("cpu", policy=HALVES)
    def product(x: Tensor) -> tuple[Tensor, ...]:
        return both(x)

    return product(x)


def makes_policies(x: Tensor) -> tuple[Tensor, ...]:
    with polycast.autocast("cpu", "bf16", policy={"matmul": "float16", "sort": "fp16"}):
        first = both(x)
    with polycast.autocast("cpu", "bf16", policy=torch.float16):
        return (*first, x @ x)


def enters_fifty(x: Tensor) -> tuple[Tensor, ...]:
    for policy in FIFTY:
        with polycast.autocast("cpu", policy=policy):
            x = torch.sort(x).values
    return (x,)


def enters_one_that_outlives_equal_ones(x: Tensor) -> tuple[Tensor, ...]:
    with polycast.autocast("cpu", policy=OUTLIVES):
        return (x @ x,)


INSIDE: dict[Callable[..., Any], list[torch.dtype]] = {
    decorated: [HALF, HALF],
    decorates: [HALF, HALF],
    regions: [HALF, HALF, F32, HALF, BF16, F32],
    makes_policies: [HALF, HALF, HALF],
    enters_fifty: [HALF],
    enters_one_that_outlives_equal_ones: [F64],
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "expected"), INSIDE.items())
def test_compiled_code_follows_the_regions_inside_it(
    function: Callable[..., Any], expected: list[torch.dtype], backend: str
) -> None:
    compiled = Compiled(function, backend, fullgraph=function is not decorates)
    for _ in range(2):
        assert types(compiled.run(X)) == types(function(X)) == expected
    assert compiled.count == 1
    x = X.clone().requires_grad_()
    torch.stack([tensor.sum().float() for tensor in compiled.run(x)]).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None


def breaking(x: Tensor) -> tuple[Tensor, ...]:
    first = x @ x
    torch._dynamo.graph_break()
    return first, *both(x)


class Breaking(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return breaking(x)


@pytest.mark.parametrize("function", [polycast.autocast("cpu", policy=HALVES)(breaking), ruled(Breaking(), HALVES)])
def test_a_graph_break_leaves_the_policy_around_it_active(function: Callable[..., Any]) -> None:
    compiled = Compiled(lambda x: function(x), fullgraph=False)
    for _ in range(3):
        with polycast.autocast("cpu"):
            assert types(compiled.run(X)) == [HALF, HALF, HALF]
            assert types(both(X)) == [BF16, F32]


def test_an_error_leaves_a_region() -> None:
    def failing(x: Tensor) -> tuple[Tensor, ...]:
        with polycast.autocast("cpu", policy=HALVES):
            raise ZeroDivisionError(str((x @ x).shape))

    with pytest.raises(ZeroDivisionError):
        Compiled(failing, fullgraph=False).run(X)


def test_a_compiler_or_a_graph_that_fails_leaves_no_policy_active() -> None:
    def function(x: Tensor) -> Tensor:
        with polycast.autocast("cpu", policy=WIDE):
            result: Tensor = torch.linalg.cholesky(x) @ x
            return result

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="positive-definite"):
        torch.compile(function, backend=lambda graph, inputs: graph(*inputs))(-X)
    with pytest.raises(RuntimeError, match="positive-definite"):
        torch.compile(function, backend="eager")(-X)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 256))
        self.b = nn.Sequential(nn.Linear(256, 512), nn.Linear(512, 512))

    def forward(self, x: Tensor) -> Any:
        return self.b(self.a(x))


def test_compiled_modules_in_ddp_follow_their_rules() -> None:
    """polycast bypasses ``DDPOptimizer``, which would cut the graph between the entry and the exit of a policy."""
    model, store = Pair(), torch.distributed.HashStore()  # type: ignore[attr-defined]
    polycast.assign(model, {"a": {"linear": "fp32"}, "b": {"linear": "bf16"}})
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        compiled = torch.compile(nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1), backend="aot_eager")
        with torch.no_grad(), polycast.autocast("cpu"):
            assert compiled(torch.ones(2, 512)).dtype is BF16
    finally:
        torch.distributed.destroy_process_group()


def test_an_export_in_another_thread_leaves_policies_alone() -> None:
    is_inside, is_checked = Event(), Event()

    class Waiting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            is_inside.set()
            is_checked.wait()
            return x + 1

    with ThreadPoolExecutor(1) as pool:
        exported = pool.submit(torch.export.export, Waiting(), (X,), strict=False)
        is_inside.wait()
        try:
            with polycast.autocast("cpu", policy=WIDE):
                assert (X @ X).dtype is F32
        finally:
            is_checked.set()
        exported.result()


def test_a_region_created_outside_of_compiled_code_applies_and_breaks_the_graph_if_it_has_a_policy() -> None:
    def within(region: AbstractContextManager[object]) -> Callable[[Tensor], tuple[Tensor, ...]]:
        def function(x: Tensor) -> tuple[Tensor, ...]:
            with region:
                return both(x)

        return function

    ruled = within(polycast.autocast("cpu", policy=HALVES))
    for _ in range(2):
        assert types(Compiled(ruled, fullgraph=False).run(X)) == [HALF, HALF]
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="a region from outside of compiled code; create"):
        Compiled(ruled).run(X)
    torch._dynamo.reset()
    assert types(Compiled(within(polycast.autocast("cpu", dtype="fp16"))).run(X)) == [HALF, F32]


def test_compiled_code_follows_the_policy_of_the_process_and_is_reused() -> None:
    """A function compiles once under each policy, and later uses reuse the compiled code (specification 6.1)."""
    compiled, found = Compiled(both), []
    for policy in (None, WIDE, HALVES, None, WIDE):
        polycast.use(policy)
        with polycast.autocast("cpu"):
            found += [types(compiled.run(X)), types(compiled.run(X))]
    assert found[::2] == found[1::2] == [[BF16, F32], [F32, F32], [HALF, HALF], [BF16, F32], [F32, F32]]
    assert compiled.count == 3


ON_DISK = """
import torch, polycast, warnings
from torch._dynamo.utils import counters
warnings.simplefilter("ignore")
torch._inductor.config.fx_graph_cache = True
policies = {"A": polycast.Policy({"matmul": "float16"}), "B": polycast.Policy({"matmul": "fp32"})}
compiled = torch.compile(lambda x: x @ x, fullgraph=True)
for name in "%s":
    with polycast.autocast("cpu", policy=policies[name]):
        print(name, compiled(torch.eye(4)).dtype)
print(counters["aot_autograd"]["autograd_cache_hit"])
"""


@pytest.mark.slow
def test_a_second_process_loads_the_code_of_its_policy_from_the_disk(tmp_path: os.PathLike[str]) -> None:
    """The second process enters the policies in reverse order, so that their scopes have other ids."""
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1", "TORCH_LOGS": "-all"}
    first, second = "A torch.float16", "B torch.float32"
    assert python(ON_DISK % "AB", **environment).splitlines() == [first, second, "0"]
    assert python(ON_DISK % "BA", **environment).splitlines() == [second, first, "2"]


PROCESS = """
import json, threading, polycast, torch
from polycast import Policy

entered, compiled, found = threading.Event(), threading.Event(), []
def stay():
    with polycast.autocast("cpu", policy=Policy({"matmul": "fp32"})):
        entered.set()
        compiled.wait()
        found.append(str(square(torch.eye(2)).dtype))
staying = threading.Thread(target=stay, daemon=True)  # It ends with the process if the event is not set.
staying.start()
entered.wait()

layer, x = torch.nn.Linear(2, 2), torch.ones(2, 2)
imports = threading.Thread(target=lambda: torch.compile(layer, backend="eager")(x))
imports.start()
while imports.is_alive():
    polycast.use({"linear": "fp32"})
    polycast.use(None)

square = torch.compile(lambda x: x @ x, backend="eager")
with polycast.autocast("cpu"):
    found.append(str(square(torch.eye(2)).dtype))
compiled.set()
staying.join()

torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1000
kinds = {"fp32": torch.float32, "float64": torch.float64}
names = sorted({rule.op for rule in polycast.policy.resolved({}, device="cpu") if rule.category == "fp32"})
policies = [(Policy({f"aten::{name}": "fp32", "matmul": kind}), kinds[kind]) for name in names for kind in kinds][:60]
whole = torch.compile(lambda x: x @ x + 1, backend="eager", fullgraph=True)
for policy, kind in policies * 2:
    with polycast.autocast("cpu", policy=policy):
        assert square(torch.eye(2)).dtype == whole(torch.eye(2)).dtype == kind
found.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def process() -> list[Any]:
    """Return the findings of a process that runs ``PROCESS``."""
    if torch.__version__.startswith(("2.10.", "2.11.")) and torch.version.cuda and not torch.cuda.is_available():
        pytest.skip("PyTorch 2.10 and 2.11 for CUDA crash without a GPU if a thread compiles before the main thread")
    found: list[Any] = json.loads(python(PROCESS, TORCH_LOGS="-all"))
    return found


def test_a_thread_that_entered_a_scope_before_the_first_compilation_runs_code_of_its_scope(process: list[Any]) -> None:
    assert process[:2] == ["torch.bfloat16", "torch.float32"]


def test_a_function_compiles_once_under_each_of_many_policies(process: list[Any]) -> None:
    """A function that runs again under a policy reuses its compiled code (specification 6.1)."""
    assert process[2] == 120 + 3


@pytest.mark.slow
def test_threads_that_compile_enter_fork_and_use_at_the_same_time() -> None:
    run = run_python("-m", "tests.policies.stress", os.environ.get("STRESS", "5"))
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
