"""The changes that ``use``, ``assign`` and ``keep`` make, and the handles that restore earlier states."""

import gc
from collections.abc import Callable, Iterator

import polycast
import pytest
import torch
from polycast import Policy, cast_cache
from polycast.scope.handle import Handle
from torch import nn

from tests.cast_cache.stock import is_kept, module_of

X = torch.eye(4)
LAYER = nn.Linear(4, 4)
KINDS = {"fp32": torch.float32, "float64": torch.float64, "float16": torch.float16}
IN_FORCE: list[object] = [torch.bfloat16, *KINDS.values()]


def dtype_of(call: Callable[[torch.Tensor], torch.Tensor]) -> torch.dtype:
    with polycast.autocast("cpu"):
        return call(X).dtype


# Each row has a function that makes a change, a function that returns the state, and the states after 0 to 3 changes.
CHANGES: dict[str, tuple[Callable[[str], Handle], Callable[[], object], list[object]]] = {
    "use": (lambda kind: polycast.use({"matmul": kind}), lambda: dtype_of(lambda x: x @ x), IN_FORCE),
    "assign": (lambda kind: polycast.assign(LAYER, {"": {"linear": kind}}), lambda: dtype_of(LAYER), IN_FORCE),
    "keep": (lambda _: cast_cache.keep(LAYER), lambda: is_kept(LAYER.weight), [False, True, True, True]),
}


@pytest.fixture(autouse=True)
def nothing_changed() -> Iterator[None]:
    yield
    polycast.use(None)
    polycast.assign(LAYER, {"": None})


@pytest.mark.parametrize("name", CHANGES)
def test_a_handle_restores_the_earlier_state(name: str) -> None:
    make, found, values = CHANGES[name]
    handles = []
    for kind, value in zip(KINDS, values[1:], strict=True):
        handles.append(make(kind))
        assert found() == value
    for handle, value in zip(reversed(handles), reversed(values[:-1]), strict=True):
        handle.remove()
        assert found() == value
    with make("fp32"):
        handles[0].remove()  # A second removal has no effect.
        assert found() == values[1]
    assert found() == values[0]
    with pytest.raises(ZeroDivisionError), make("fp32"):
        make("float64")
        raise ZeroDivisionError
    assert found() == values[0]


def test_a_change_does_not_keep_models_and_tensors_alive() -> None:
    model = nn.Linear(4, 4)
    handles = polycast.assign(model, {"": "fp32"}), cast_cache.keep(model)
    reference = torch._C._WeakTensorRef(model.weight)  # type: ignore[attr-defined]
    del model
    gc.collect()
    assert reference.expired()
    for handle in handles:
        handle.remove()


def test_a_cast_that_was_kept_before_a_block_is_kept_after_it() -> None:
    other = nn.Linear(2, 2)
    with cast_cache.keep(LAYER):
        cast_cache.keep(nn.Sequential(LAYER, other)).remove()
        assert is_kept(LAYER.weight) and not is_kept(other.weight)


def test_the_handle_of_a_deleted_tensor_does_not_release_another_tensor() -> None:
    for _ in range(1000):
        deleted = torch.ones(2)
        address, first = deleted._cdata, cast_cache.keep(module_of(deleted))
        del deleted
        if (tensor := torch.ones(2))._cdata == address:
            break
    assert tensor._cdata == address, "no tensor got the address of a deleted tensor"
    second = cast_cache.keep(module_of(tensor))
    first.remove()
    assert is_kept(tensor)
    second.remove()
    assert not is_kept(tensor)


def test_a_rule_without_kernels_warns_and_applies_once_they_are_installed() -> None:
    """``use`` and ``assign`` warn that rules apply only after ``polycast.install``."""
    nothing = "polycast is not installed on any device, so no rule applies; call polycast.install"
    with polycast.uninstall():
        with pytest.warns(UserWarning, match=nothing):
            polycast.use({"matmul": "fp32"})
        with pytest.warns(UserWarning, match=nothing):
            polycast.assign(LAYER, {"": {"linear": "float16"}})
        polycast.assign(LAYER, {"": None}), polycast.use(None)  # Calls that remove rules do not warn.
        with pytest.warns(UserWarning, match=nothing):
            polycast.use({"matmul": "fp32"})
        assert polycast.policy.current() == Policy()
    assert polycast.policy.current() == Policy({"matmul": "fp32"})
    assert dtype_of(lambda x: x @ x) == torch.float32


def test_assigned_prints_the_rules_as_a_table() -> None:
    assert repr(polycast.assigned(LAYER)) == "no module has rules"
    polycast.assign(LAYER, {"": {"linear": "fp32"}})
    assert repr(polycast.assigned(LAYER)) == "module       rules\n(the model)  {'linear': 'fp32'}"
