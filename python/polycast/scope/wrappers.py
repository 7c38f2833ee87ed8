"""The model that a module is for a plan: a wrapper stands for the module that it wraps."""

from collections.abc import Iterator, Mapping

from torch import nn

from polycast.policy.plan import Plan
from polycast.policy.policy import Policy

# Where torch's wrappers, which call a model of the user's, have it.
_WRAPPED = {
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.ActivationWrapper": "_checkpoint_wrapped_module",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": "_fsdp_wrapped_module",
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.optim.swa_utils.AveragedModel": "module",
}


def model_in(module: nn.Module) -> nn.Module:
    """Return the model that a module is, or that torch's wrappers hold."""
    while (name := _wrapped(module)) is not None:
        module = getattr(module, name)
    return module


def modules_in(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yield the names of a model and of all modules in it, with each module. Wrappers have no part in a name."""
    model = model_in(module)
    yield name, model
    for part, child in model._modules.items():
        if child is not None:
            yield from modules_in(child, f"{name}.{part}" if name else part)


def _wrapped(module: nn.Module) -> str | None:
    names = (_WRAPPED.get(f"{cls.__module__}.{cls.__qualname__}") for cls in type(module).__mro__)
    return next((name for name in names if name is not None), None)


def rules_in(plan: Plan, kind: type[nn.Module]) -> Mapping[str, Policy] | None:
    """Return the rules that a plan has for the modules of a model by its class, else by the nearest of the bases."""
    names = [cls.__name__ for cls in kind.__mro__]
    return next((plan.models[name] for name in names if name in plan.models), None)
