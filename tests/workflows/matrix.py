"""Programs for the tables in ``docs/works_with.md``: each runs one feature on a tiny model in one environment.

An output shows the dtype in which it was computed, because the weight rounds differently in float32, float16 and
bfloat16. Products of the weight with small integers are exact. Gradients show the dtype of the backward likewise.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from functools import partial
from threading import get_ident
from typing import Any, NamedTuple
from unittest import mock

import polycast
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.support.probe import stock_kernels
from tests.support.sharded import world

NONE: Any = nullcontext()
WEIGHT = 1 + 2**-9 + 2**-12  # float16 loses the last term, and bfloat16 the last two.
KINDS = {float(torch.tensor(WEIGHT).to(kind)): str(kind)[6:] for kind in (torch.float32, torch.float16, torch.bfloat16)}


class Net(nn.Module):
    """A model whose forward can enter a region, and can call another function instead of linear."""

    def __init__(self, region: Callable[[], Any] = nullcontext, compute: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.linear, self.shift = nn.Linear(4, 4, bias=False), nn.Parameter(torch.zeros(4))
        nn.init.constant_(self.linear.weight, WEIGHT)
        self.region, self.compute = region, compute

    def forward(self, x: Tensor) -> Tensor:
        with self.region():
            y: Tensor = self.linear(x) if self.compute is None else self.compute(x, self.linear.weight)
        return y.float() + self.shift


def same(value: Any = None, *_: object) -> Any:
    return value


def backward(forward: Any, x: Tensor, scale: Any = same, step: Any = same) -> Tensor:
    y: Tensor = forward(x)
    scale(y.sum()).backward()
    step()
    return y.detach()


def data_parallel(model: nn.Module, _: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a function that runs PyTorch's replicas of the model in threads, like ``nn.DataParallel``.

    Each thread enters a PyTorch region, which is enabled if the call is in an enabled region (specification 5.2).
    """

    def copies(tensors: list[Tensor], devices: list[int], detach: bool) -> list[list[Tensor]]:  # noqa: ARG001
        return [[tensor.clone() for tensor in tensors] for _ in devices]

    def work(enabled: bool, replica: nn.Module, x: Tensor) -> Any:
        with torch.autocast("cpu", enabled=enabled):
            return replica(x)

    def run(x: Tensor) -> Tensor:
        module = sys.modules[nn.parallel.replicate.__module__]
        with mock.patch.object(module, "_broadcast_coalesced_reshape", copies), ThreadPoolExecutor(2) as pool:
            replicas = nn.parallel.replicate(model, [0, 1])
            return torch.cat(list(pool.map(partial(work, torch.is_autocast_enabled("cpu")), replicas, x.chunk(2))))

    return run


def in_a_hook(*args: Any) -> Tensor:
    """Run the step in a hook of another backward, in autograd's thread for a device (specification 5.3)."""
    found: list[Any] = []
    outer = torch.ones(1, device="xla", requires_grad=True) * 1
    outer.register_hook(lambda _: found.extend([get_ident(), torch.enable_grad()(backward)(*args)]))  # type: ignore[no-untyped-call]
    outer.backward()  # type: ignore[no-untyped-call]
    assert found[0] != get_ident()
    return found[1]  # type: ignore[no-any-return]


def with_compiled_step(forward: Any, x: Tensor, scale: Any = same, step: Any = same) -> Tensor:
    return backward(forward, x, scale, COMPILE(step))


def transformed(model: nn.Module, x: Tensor, scale: Any = same, step: Any = same) -> Any:
    """Run a step with the gradients of each sample, by ``vmap`` of ``grad``, and return the outputs."""

    def loss(params: dict[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.func.functional_call(model, params, x[None])[0]
        return scale(y.sum()), y

    params = dict(model.named_parameters())
    take = torch.func.grad(loss, argnums=(0, 1), has_aux=True)
    (grads, x.grad), y = torch.func.vmap(take, in_dims=(None, 0))(params, x)
    for name, param in params.items():
        param.grad = grads[name].sum(0)
    step()
    return y.detach()


class Way(NamedTuple):
    """An environment: the wrapper of the model, the function that runs a step, the device, and the ops with rules."""

    wrap: Callable[[nn.Module, Tensor], Any] = same
    run: Callable[..., Tensor] = backward
    device: str = "cpu"
    ops: tuple[str, ...] = ("linear",)

    def rules(self, library: Any) -> polycast.Policy | None:
        return polycast.Policy(dict.fromkeys(self.ops, "float16")) if library is polycast else None

    def batch(self, value: float = 1.0) -> Tensor:
        return torch.full((2, 4), value, device=self.device, requires_grad=True)


COMPILE: Any = partial(torch.compile, backend="aot_eager")
FSDP: Any = partial(world.distributed.fsdp.FullyShardedDataParallel, device_id="cpu")
WAYS = {
    "eager": Way(),
    "a thread": Way(run=lambda *args: ThreadPoolExecutor(1).submit(backward, *args).result()),
    "`DataParallel`": Way(data_parallel),
    "autograd's device thread": Way(run=in_a_hook, device="xla"),
    "`checkpoint`, reentrant": Way(lambda model, _: partial(checkpoint, model, use_reentrant=True)),
    "`checkpoint`, not reentrant": Way(lambda model, _: partial(checkpoint, model, use_reentrant=False)),
    "`torch.compile`": Way(lambda model, _: COMPILE(model, fullgraph=True), with_compiled_step),
    "`torch.export`": Way(lambda model, x: torch.export.export(model, (x,)).module()),
    "`torch.jit.trace`": Way(lambda model, x: torch.jit.trace(model, x)),  # type: ignore[no-untyped-call]
    "`torch.func`": Way(run=transformed, ops=("matmul", "mm", "addmm", "bmm")),
    "DDP": Way(lambda model, _: nn.parallel.DistributedDataParallel(model)),
    "FSDP1": Way(lambda model, _: FSDP(model, use_orig_params=not model.get_parameter("linear.weight").requires_grad)),
    "FSDP2": Way(lambda model, _: world.distributed.fsdp.fully_shard(model, mesh=world.mesh(0))),
}


def region(way: Way, library: Any, inner: polycast.Policy | None = None) -> Any:
    return library.autocast(way.device, torch.bfloat16, **({"policy": inner} if inner else {}))


def ruled(way: Way, library: Any) -> Callable[[], Any]:
    return partial(region, way, library, way.rules(library))


def leave(thread: int, stack: ExitStack, loss: Tensor) -> Tensor:
    """Leave the region between forward and backward, unless they run in another thread."""
    if get_ident() == thread:
        stack.close()
    return loss


def kinds(way: Way, net: Net, held: Any = NONE, around: Any = nullcontext, unit: float = 4.0) -> set[Any]:
    """Return the dtypes of forward and backward in three runs."""
    found = set()
    with held:
        with around():
            forward = way.wrap(net.to(way.device), way.batch())
        for _ in range(3):
            x = way.batch()
            with ExitStack() as stack:
                stack.enter_context(around())
                y = way.run(forward, x, partial(leave, get_ident(), stack))
            values = [y[0, 0].item() / 4, x.grad[0, 0].item() / unit]  # type: ignore[index]
            found.add(tuple(KINDS.get(value, f"{value:.4f}") for value in values))
    return found


def outside(way: Way, enter: Callable[[], Any]) -> Callable[[], Any]:
    """Return the region in which PyTorch runs a compiled backward, or no region if a hook would run backward in it."""
    return nullcontext if way.run is in_a_hook else enter


def used(way: Way, library: Any) -> object:
    enter = partial(region, way, library)
    return kinds(way, Net(enter), polycast.use(way.rules(library)), outside(way, enter))


def assigned(way: Way, library: Any) -> object:
    net = Net(enter := partial(region, way, library))
    return kinds(way, net, polycast.assign(net, {"linear": way.rules(library)}), outside(way, enter))


def kept(way: Way, library: Any) -> object:
    """Return the outputs before a write to the weight, after an undetectable write, and after a detectable write."""
    net = Net(partial(region, way, library)).to(way.device)
    weight = net.linear.weight.requires_grad_(False)

    def write_unseen() -> object:
        return (
            sys.modules["_XLAC"]._replace_xla_tensor(weight, 2 * weight) if way.device == "xla" else weight.data.mul_(2)
        )

    forward, outputs = way.wrap(net, way.batch()), []
    with polycast.cast_cache.keep(forward if isinstance(forward, nn.Module) else net) if library is polycast else NONE:
        for write in (same, write_unseen, lambda: net.linear.weight.mul_(2)):
            torch.no_grad()(write)()
            outputs.append(way.run(forward, way.batch())[0, 0].item() / 4)
    return outputs


def multiply_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return doubled gradients, so that the result shows whether this backward ran."""
    x, weight = ctx.saved_tensors
    return 2 * grad.float().mm(weight), 2 * grad.float().t().mm(x)


def custom(way: Way, library: Any) -> object:
    """Return the dtypes of a function whose backward runs after the region, but in the region's dtype."""
    wrap = library.custom_fwd(device_type=way.device)

    class Multiply(torch.autograd.Function):
        generate_vmap_rule = True
        forward = staticmethod(wrap(lambda x, weight: x.mm(weight.t())))
        setup_context = staticmethod(wrap(lambda ctx, inputs, _: ctx.save_for_backward(*inputs)))
        backward = staticmethod(library.custom_bwd(device_type=way.device)(multiply_backward))

    apply: Any = Multiply.apply
    return kinds(way, Net(partial(region, way, library), lambda x, weight: apply(x, weight)), unit=8.0)


def trained(way: Way, make: Callable[[Any], torch.optim.Optimizer], scaler: Any) -> list[float]:
    """Return the outputs and the scales of four steps. With a scaler, the second step overflows."""
    net, seen = Net().to(way.device), []
    forward = way.wrap(net, way.batch())
    optimizer = make((forward if isinstance(forward, nn.Module) else net).parameters())

    def step() -> None:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    for number in range(4):
        x = way.batch(torch.inf if number == 1 and scaler.is_enabled() else 1.0)
        seen += [way.run(forward, x, scaler.scale, step)[0, 0].item(), scaler.get_scale()]
    return [round(value, 4) for value in seen]


def scaled(way: Way, library: Any) -> object:
    scaler = library.GradScaler(way.device, init_scale=64.0, growth_interval=2)
    return trained(way, partial(torch.optim.SGD, lr=0.125), scaler)


def optimized(way: Way, library: Any) -> object:
    optim: Any = polycast.syncfree if library is polycast else torch.optim
    return trained(way, partial(optim.AdamW, lr=0.125), AMP.GradScaler(way.device, enabled=False))


AMP: Any = torch.amp
HALF, REGION = {("float16", "float16")}, {("bfloat16", "bfloat16")}
# Each feature has a test, and the result if the feature works. None means the result of `torch.amp` in eager mode. The
# page has two tables, because one table of all features is too wide for a phone.
POLICIES: dict[str, tuple[Callable[[Way, Any], object], object]] = {
    "`use`": (used, HALF),
    "around": (lambda way, library: kinds(way, Net(), around=ruled(way, library)), HALF),
    "inside": (lambda way, library: kinds(way, Net(ruled(way, library))), HALF),
    "`assign`": (assigned, HALF),
}
OTHERS: dict[str, tuple[Callable[[Way, Any], object], object]] = {
    "`keep`": (kept, [1.0, 1.0, 4.0]),
    "custom": (custom, REGION),
    "scaler": (scaled, None),
    "`syncfree`": (optimized, None),
}
FEATURES = POLICIES | OTHERS


def verdict(feature: str, way: Way) -> str:
    """Return "yes", "as stock", "raises: " or "no: " with details, or "no" if a region applies without its rules."""
    see, works = FEATURES[feature]
    torch._dynamo.reset()
    try:
        found = see(way, polycast)
    except Exception as error:
        return f"raises: {str(error).splitlines()[0]}"
    if found == REGION != works:
        return "no"
    if found == (works or see(Way(), AMP)):
        return "yes"
    with stock_kernels():
        stock = see(way, AMP)
    return "as stock" if found == stock else f"no: {found}; stock: {stock}"
