"""use, assign and keep take effect at once, and the handle that they return restores the state from before."""

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polycast
import pytest
import torch
from polycast import Policy, cast_cache
from polycast._compiled import used_policy
from polycast.scope.handle import Handle
from torch import nn

from tests.cast_cache.stock import module_of

F32, F64, HALF, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
X = torch.eye(4)
KINDS = {"fp32": F32, "float64": F64, "float16": HALF}
LAYER = nn.Linear(4, 4)


def product() -> torch.dtype:
    with polycast.autocast("cpu"):
        return (X @ X).dtype


def linear() -> torch.dtype:
    with polycast.autocast("cpu"):
        dtype: torch.dtype = LAYER(X).dtype
        return dtype


def kept() -> bool:
    return LAYER.weight._cdata in cast_cache._kept


Makes = dict[str, tuple[Callable[[], Handle], object]]


def using(kind: str) -> Callable[[], Handle]:
    return lambda: polycast.use({"matmul": kind})


def assigning(kind: str) -> Callable[[], Handle]:
    return lambda: polycast.assign(LAYER, {"": {"linear": kind}})


def keeping() -> Handle:
    return cast_cache.keep(LAYER)


def makes(make: Callable[[str], Callable[[], Handle]]) -> Makes:
    return {name: (make(kind), dtype) for name, (kind, dtype) in zip("ABC", KINDS.items(), strict=True)}


# What tells what holds, what holds before, and three changes with what holds after each.
CHANGES: dict[str, tuple[Callable[[], object], object, Makes]] = {
    "use": (product, BF16, makes(using)),
    "assign": (linear, BF16, makes(assigning)),
    "keep": (kept, False, dict.fromkeys("ABC", (keeping, True))),
}
# Each step makes a change (A) or takes one back (-A); what holds after the last.
PROGRAMS = [
    ("A", "A"),
    ("A -A", ""),
    ("A B -B", "A"),
    ("A B -B -A", ""),
    ("A B -B -B -A -A", ""),
    ("A B C -C -B", "A"),
    ("A B -B C -C -A", ""),
]


@pytest.fixture(autouse=True)
def nothing_changed() -> Iterator[None]:
    yield
    polycast.use(None)
    polycast.assign(LAYER, {"": None})
    cast_cache.release(LAYER)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize(("program", "last"), PROGRAMS)
def test_a_change_is_taken_back_to_what_held_before(name: str, program: str, last: str) -> None:
    holds, before, changes = CHANGES[name]
    made: dict[str, Handle] = {}
    for step in program.split():
        if step.startswith("-"):
            made[step[1:]].remove()
        else:
            make, expected = changes[step]
            made[step] = make()
            assert holds() == expected
    assert holds() == (changes[last][1] if last else before)


@pytest.mark.parametrize("name", CHANGES)
def test_a_block_ends_as_it_began_whatever_happens_in_it(name: str) -> None:
    holds, before, changes = CHANGES[name]
    with pytest.raises(ZeroDivisionError), changes["A"][0]():
        changes["B"][0]()
        raise ZeroDivisionError
    assert holds() == before
    changes["A"][0]()
    with changes["B"][0]() as change:
        assert holds() == changes["B"][1]
    assert holds() == changes["A"][1]
    change.remove()
    assert holds() == changes["A"][1]


def test_a_change_holds_no_model_and_no_tensor() -> None:
    model = nn.Linear(4, 4)
    assignment, kept_one = polycast.assign(model, {"": "fp32"}), cast_cache.keep(model)
    reference = torch._C._WeakTensorRef(model.weight)  # type: ignore[attr-defined]
    del model
    gc.collect()
    assert reference.expired()
    assignment.remove()
    kept_one.remove()


def test_what_was_kept_before_a_block_is_kept_after_it() -> None:
    other = nn.Linear(2, 2)
    cast_cache.keep(LAYER)
    with cast_cache.keep(nn.Sequential(LAYER, other)):
        pass
    assert kept()
    assert other.weight._cdata not in cast_cache._kept


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
    assert address in cast_cache._kept
    second.remove()
    assert address not in cast_cache._kept


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
    assert product() == F32


def test_the_policy_of_the_process_is_restored_as_an_object() -> None:
    polycast.use("torch-2.11")
    before = used_policy()
    with polycast.use("fp32") as used:
        assert used.policy == Policy("fp32")
        assert used_policy() is not before
    assert used_policy() is before


SHOWN: list[tuple[object, str]] = [
    (lambda: polycast.use(None), "<the process uses the built-in policy alone>"),
    (lambda: polycast.use({"mm": "fp32"}), "<the process uses mm fp32>"),
    (lambda: cast_cache.keep(LAYER), "<the casts of 2 tensors are kept>"),
    (lambda: polycast.assign(LAYER, {"": None}), "no module has rules"),
    (lambda: polycast.assign(LAYER, {"": {"linear": "fp32"}}), "module       rules\n(the model)  linear fp32"),
]


@pytest.mark.parametrize(("make", "text"), SHOWN)
def test_a_change_says_what_it_is(make: Callable[[], Handle], text: str) -> None:
    assert repr(make()) == text


WRONG: list[tuple[str, str]] = [
    ("polycast.use(3)", "the policy is 3; give a dict of rules"),
    ("polycast.use('mine.yml')", "mine.yml"),
    ("polycast.assign({'linear': 'fp32'}, LAYER)", "model: expected a torch.nn.Module, got dict"),
    ("polycast.assign(nn.Linear, 'fp32')", "model: expected a torch.nn.Module, got the class Linear"),
    ("polycast.assigned(nn.Linear)", "model: expected a torch.nn.Module, got the class Linear"),
    ("polycast.assign(LAYER, {'linear': 'fp32'})", "it is an op: for the whole model write {'': {'linear': ...}}"),
    ("polycast.assign(LAYER, 'disabled')", "assign: '': error: unknown category, release or file 'disabled'; "),
    ("polycast.assign(LAYER, {nn.GELU: 'fp32'})", "assign: GELU: error: the model has no GELU; it has Linear"),
    ("polycast.assign(LAYER, {(nn.GELU,): 'fp32'})", "a key of type tuple; use the name of a module, a glob such as"),
    ("polycast.assign(LAYER, {nn.Linear(2, 2): 'fp32'})", "this Linear is no module of the model; give the model that"),
    ("polycast.assign(LAYER, {'x.*': 'fp32'})", "assign: x.*: error: matches no module of the model"),
    ("polycast.assign(LAYER, {'': 'fp23'})", "did you mean 'fp32'?"),
]


@pytest.mark.parametrize(("call", "text"), WRONG)
def test_a_wrong_call_says_what_to_write_and_changes_nothing(call: str, text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        eval(call)
    assert text in str(error.value)
    assert (product(), linear(), kept()) == (BF16, BF16, False)


class Mine(nn.LayerNorm):
    pass


def model() -> nn.Sequential:
    block = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), Mine(4))
    return nn.Sequential(block, copy.deepcopy(block), nn.Linear(4, 4))


BLOCKS = model()
NORM = BLOCKS.get_submodule("0.1")
KEYS: dict[str, tuple[object, list[str]]] = {
    "a name": ({"0.1": "fp32"}, ["0.1"]),
    "a glob": ({"*.1": "fp32"}, ["0.1", "1.1"]),
    "a glob over dots": ({"0*": "fp32"}, ["0", "0.0", "0.1", "0.2"]),
    "a glob of characters": ({"[01].[!0]": "fp32"}, ["0.1", "0.2", "1.1", "1.2"]),
    "a pattern": ({r"re:\d\.0": "fp32"}, ["0.0", "1.0"]),
    "a class, with its subclasses": ({nn.LayerNorm: "fp32"}, ["0.1", "0.2", "1.1", "1.2"]),
    "a class of all": ({nn.Module: "fp32"}, [name for name, _ in BLOCKS.named_modules()]),
    "a module": ({NORM: "fp32"}, ["0.1"]),
    "a class and a name that decides": ({nn.LayerNorm: "fp32", "0.1": None}, ["0.2", "1.1", "1.2"]),
    "a class and a module that decides": ({nn.LayerNorm: "fp32", NORM: None}, ["0.2", "1.1", "1.2"]),
    "the model, by a category": ("fp32", [""]),
    "the model, by a dtype": (torch.float32, [""]),
    "the model, by a policy": (Policy({"linear": "fp32"}), [""]),
    "the model, by a release": ("torch-2.11", [""]),
    "nothing": (None, []),
}


@pytest.mark.parametrize(("rules", "names"), KEYS.values(), ids=KEYS)
def test_keys_of_an_assignment(rules: Any, names: list[str]) -> None:
    with polycast.assign(BLOCKS, rules) as assignment:
        assert list(assignment) == list(polycast.assigned(BLOCKS)) == names
        assert all(name in assignment and assignment[name] for name in names)
    assert len(polycast.assigned(BLOCKS)) == 0


def test_a_module_shows_its_rules_and_is_otherwise_as_before() -> None:
    blocks = model()
    before, state = repr(blocks), list(blocks.state_dict())
    polycast.assign(blocks, {"0.0": {"linear": "fp32"}, "1": "fp32"})
    assert "(0): Linear(in_features=4, out_features=4, bias=True, rules: linear fp32)" in repr(blocks)
    assert "(1): Sequential(\n    rules: fp32 for " in repr(blocks)
    for twin in (blocks, copy.deepcopy(blocks), pickle.loads(pickle.dumps(blocks[0]))):
        assert "rules: linear fp32" in repr(twin)
        assert list(blocks.state_dict()) == state
    twin = copy.deepcopy(blocks)
    polycast.assign(blocks, {"*": None})
    assert repr(blocks) == before
    assert list(polycast.assigned(twin)) == ["0.0", "1"]
    assert {type(module) for module in blocks.modules()} == {nn.Sequential, nn.Linear, nn.LayerNorm, Mine}
    assert vars(blocks[1]).keys() == vars(nn.Sequential()).keys()


def test_a_module_with_an_extra_repr_of_its_own_keeps_it() -> None:
    layer = nn.Linear(2, 2)
    layer.extra_repr = lambda: "mine"  # type: ignore[method-assign]
    polycast.assign(layer, "fp32")
    assert repr(layer) == "Linear(mine)"
    polycast.assign(layer, None)
    assert repr(layer) == "Linear(mine)"


def test_a_shared_module_is_taken_back_under_both_names() -> None:
    shared = nn.Linear(4, 4)
    pair = nn.ModuleDict({"one": shared, "two": shared})
    with polycast.assign(pair, {"two": "fp32"}) as assignment:
        assert list(assignment) == ["one", "two"]
    assert len(polycast.assigned(shared)) == 0


def test_apply_assigns() -> None:
    blocks = model()
    blocks.apply(lambda module: polycast.assign(module, "fp32") if isinstance(module, nn.LayerNorm) else None)  # type: ignore[arg-type]
    assert list(polycast.assigned(blocks)) == ["0.1", "0.2", "1.1", "1.2"]


def test_a_problem_in_a_file_has_its_place_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("ops:\n  softmaxx: fp32\n", encoding="utf-8")
    with pytest.raises(polycast.PolicyError, match=r"bad\.yaml:2:3: error: unknown op 'softmaxx'"):
        polycast.assign(nn.Sequential(nn.ReLU()), {"0": str(tmp_path / "bad.yaml")})
