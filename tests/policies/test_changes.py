"""use, assign and keep take effect at once, and the handle that they return restores the state from before."""

import gc
from collections.abc import Callable, Iterator

import polycast
import pytest
import torch
from polycast import Policy, cast_cache
from polycast._compiled import used_policy
from polycast.scope.handle import Handle
from torch import nn

from tests.cast_cache.stock import module_of

KINDS = {"fp32": torch.float32, "float64": torch.float64, "float16": torch.float16}
X = torch.eye(4)
LAYER = nn.Linear(4, 4)


def product() -> torch.dtype:
    with polycast.autocast("cpu"):
        return (X @ X).dtype


def linear() -> torch.dtype:
    with polycast.autocast("cpu"):
        dtype: torch.dtype = LAYER(X).dtype
        return dtype


def is_kept(tensor: torch.Tensor) -> bool:
    return tensor._cdata in cast_cache._kept


# What makes a change, what tells what holds, and what holds before and after.
CHANGES: dict[str, tuple[Callable[[str], Handle], Callable[[], object], object, list[object]]] = {
    "use": (lambda kind: polycast.use({"matmul": kind}), product, torch.bfloat16, [*KINDS.values()]),
    "assign": (
        lambda kind: polycast.assign(LAYER, {"": {"linear": kind}}),
        linear,
        torch.bfloat16,
        [*KINDS.values()],
    ),
    "keep": (lambda _: cast_cache.keep(LAYER), lambda: is_kept(LAYER.weight), False, [True] * 3),
}


@pytest.fixture(autouse=True)
def nothing_changed() -> Iterator[None]:
    yield
    polycast.use(None)
    polycast.assign(LAYER, {"": None})
    cast_cache.release(LAYER)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_taken_back_to_what_held_before(name: str) -> None:
    make, holds, before, after = CHANGES[name]
    made = []
    for kind, expected in zip(KINDS, after, strict=True):
        made.append(make(kind))
        assert holds() == expected
    for handle, expected in zip(reversed(made), [after[1], after[0], before], strict=True):
        handle.remove()
        assert holds() == expected
    with make("fp32"):
        assert holds() == after[0]
        made[0].remove()  # a second time
        assert holds() == after[0]
    assert holds() == before


@pytest.mark.parametrize("name", CHANGES)
def test_a_block_ends_as_it_began_whatever_happens_in_it(name: str) -> None:
    make, holds, before, _ = CHANGES[name]
    with pytest.raises(ZeroDivisionError), make("fp32"):
        make("float64")
        raise ZeroDivisionError
    assert holds() == before


def test_a_change_holds_no_model_and_no_tensor() -> None:
    model = nn.Linear(4, 4)
    handles = polycast.assign(model, {"": "fp32"}), cast_cache.keep(model)
    reference = torch._C._WeakTensorRef(model.weight)  # type: ignore[attr-defined]
    del model
    gc.collect()
    assert reference.expired()
    for handle in handles:
        handle.remove()


def test_what_was_kept_before_a_block_is_kept_after_it() -> None:
    other = nn.Linear(2, 2)
    cast_cache.keep(LAYER)
    with cast_cache.keep(nn.Sequential(LAYER, other)):
        pass
    assert is_kept(LAYER.weight) and not is_kept(other.weight)


def test_the_handle_of_a_deleted_tensor_takes_back_no_other() -> None:
    for _ in range(1000):
        deleted = torch.ones(2)
        address, first = deleted._cdata, cast_cache.keep(module_of(deleted))
        del deleted
        if (tensor := torch.ones(2))._cdata == address:
            break
    assert tensor._cdata == address, "no tensor got the address of a deleted one"
    second = cast_cache.keep(module_of(tensor))
    first.remove()
    assert is_kept(tensor)
    second.remove()
    assert not is_kept(tensor)


def test_without_kernels_no_rule_holds_until_they_are_installed() -> None:
    """A warning says so, and the rules hold from the installation on."""
    nothing = "polycast is not installed on any device, so no rule holds until polycast.install"
    with polycast.uninstall():
        with pytest.warns(UserWarning, match=nothing):
            polycast.use({"matmul": "fp32"})
        with pytest.warns(UserWarning, match=nothing):
            polycast.assign(LAYER, {"": {"linear": "float16"}})
        polycast.assign(LAYER, {"": None}), polycast.use(None)  # which warn of nothing
        with pytest.warns(UserWarning, match=nothing):
            polycast.use({"matmul": "fp32"})
        assert polycast.policy.in_force() == Policy()
    assert polycast.policy.in_force() == Policy({"matmul": "fp32"})
    assert product() == torch.float32


def test_the_policy_of_the_process_is_restored_as_an_object() -> None:
    polycast.use("torch-2.11")
    before = used_policy()
    with polycast.use("fp32") as used:
        assert used.policy == Policy("fp32")
        assert used_policy() is not before
    assert used_policy() is before


SHOWN: list[tuple[Callable[[], Handle], str]] = [
    (lambda: polycast.use(None), "<the process uses the built-in policy alone>"),
    (lambda: polycast.use({"mm": "fp32"}), "<the process uses mm fp32>"),
    (lambda: cast_cache.keep(LAYER), "<the casts of 2 tensors are kept>"),
    (lambda: polycast.assign(LAYER, {"": None}), "no module has rules"),
    (lambda: polycast.assign(LAYER, {"": {"linear": "fp32"}}), "module       rules\n(the model)  linear fp32"),
]


@pytest.mark.parametrize(("make", "text"), SHOWN)
def test_a_change_says_what_it_is(make: Callable[[], Handle], text: str) -> None:
    assert repr(make()) == text
