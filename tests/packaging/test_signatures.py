"""The signatures of public callables, which must show the real arguments."""

import inspect
from collections.abc import Callable, Iterator

import polycast
from polycast import cast_cache, debug, policy, syncfree


def public() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the names and objects of public functions, classes and methods."""
    for module in (polycast, cast_cache, debug, policy, syncfree):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value):
                yield f"{module.__name__}.{name}", value
                for method, function in vars(value).items():
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield f"{module.__name__}.{name}.{method}", function
            elif callable(value):
                yield f"{module.__name__}.{name}", value


def test_every_public_callable_shows_its_arguments() -> None:
    """Only exceptions, and the step of a scaler, which forwards arguments to the optimizer, have open arguments."""
    parameters = {name: inspect.signature(function).parameters.values() for name, function in public()}
    kinds = {name: [parameter.kind for parameter in found] for name, found in parameters.items()}
    assert len(kinds) > 50
    open_ended = [name for name, found in kinds.items() if inspect.Parameter.VAR_KEYWORD in found]
    assert [name for name in open_ended if not name.endswith("Error")] == ["polycast.GradScaler.step"]
