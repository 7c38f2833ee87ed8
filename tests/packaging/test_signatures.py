"""The signature of every public callable shows its real arguments."""

import inspect
from collections.abc import Callable, Iterator

import polycast
import pytest
from polycast import cast_cache, debug, policy, syncfree


def public() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the public functions, classes and methods by their names."""
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


@pytest.mark.parametrize(("name", "function"), [*public()])
def test_a_public_callable_shows_its_arguments(name: str, function: Callable[..., object]) -> None:
    if name.endswith("Error"):
        pytest.skip("an exception takes the arguments of exceptions")
    parameters = inspect.signature(function).parameters.values()
    hidden = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.VAR_KEYWORD]
    assert not hidden, name
