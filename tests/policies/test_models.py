"""Rules of a plan for the modules of models, beside the same rules assigned by hand."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from random import Random

import polycast
import pytest
import torch
from polycast import Policy
from polycast.policy.plan import Plan
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

from tests.support.process import python

RULES = {"": {"matmul": "fp32"}, "b.0": {"linear": "fp32"}, "c": {"linear": "float16"}, "b.*": {"gelu": "fp32"}}
PLAN = Plan(Policy({"softmax": "bf16"}), {"Net": RULES})


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.c = nn.Linear(8, 8), nn.Linear(8, 8)
        self.b = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.c(self.b(self.a(values)) @ torch.eye(8)), -1)


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    with polycast.use(polycast.policy.in_force()):
        yield
    torch._dynamo.reset()  # the code of Net is compiled for each test, and torch compiles no code more than 8 times


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


def run(model: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
    """Return the result of a model, and the gradient of what it was given."""
    values = torch.linspace(-1, 1, 16).reshape(2, 8).requires_grad_()
    with polycast.autocast("cpu"):
        result = model(values)
    result.float().square().sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    return [result.detach(), values.grad]


def expect(net: Net) -> list[torch.Tensor]:
    """Return what a copy of a model returns to which the rules are assigned by hand."""
    copy = deepcopy(net)
    with polycast.use(PLAN.ops), polycast.assign(copy, RULES):
        return run(copy)


def assert_equal(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert all(map(torch.equal, found, expected))


def test_the_first_call_follows_the_rules_and_so_does_each_later_one(net: Net) -> None:
    expected, plain = expect(net), run(net)
    assert not torch.equal(plain[0], expected[0])
    with polycast.use(PLAN):
        for _ in range(3):
            assert_equal(run(net), expected)
        assert polycast.assigned(net)["c"] == {"linear": "float16"} and "rules: matmul fp32" in repr(net)
    assert_equal(run(net), plain)
    assert not polycast.assigned(net) and type(net) is Net


def test_copies_follow_the_rules_while_the_plan_is_used(net: Net) -> None:
    expected, plain = expect(net), run(net)
    with polycast.use(PLAN):
        run(net)
        copy = deepcopy(net)
        assert not polycast.assigned(copy)
        assert_equal(run(copy), expected)
        kept = deepcopy(copy)
    assert_equal(run(copy), plain)
    assert_equal(run(kept), plain)


def test_assigned_rules_stay_and_decide(net: Net) -> None:
    hand = {"c": {"linear": "fp32", "relu": "fp32"}}
    with polycast.use(PLAN.ops), polycast.assign(other := deepcopy(net), RULES | hand):
        expected = run(other)
    for order in ("before", "after"):
        model = deepcopy(net)
        with polycast.use(PLAN):
            if order == "after":
                run(model)
            assigned = polycast.assign(model, hand)
            assert_equal(run(model), expected)
            assert_equal(run(deepcopy(model)), expected)
        assert polycast.assigned(model) == hand
        assigned.remove()
        assert not polycast.assigned(model) and type(model) is Net


def test_taking_an_assignment_back_leaves_the_rules_of_the_plan(net: Net) -> None:
    expected = expect(net)
    with polycast.use(PLAN):
        run(net)
        with polycast.assign(net, {"c": "fp32"}):
            run(net)
        assert_equal(run(net), expected)


def test_another_use_takes_the_rules_back_and_its_end_brings_them_again(net: Net) -> None:
    expected, plain = expect(net), run(net)
    with polycast.use(PLAN):
        assert_equal(run(net), expected)
        with polycast.use(None):
            assert_equal(run(net), plain)
        assert polycast.assigned(net)
        assert_equal(run(net), expected)


def checkpointed(reentrant: bool) -> Callable[[Net], Callable[[torch.Tensor], torch.Tensor]]:
    return lambda net: lambda values: checkpoint(net, values, use_reentrant=reentrant)


def with_a_hook(net: Net) -> Net:
    net.register_forward_hook(lambda *_: None)
    return net


def parametrized(net: Net) -> Net:
    parametrize.register_parametrization(net.a, "weight", nn.Identity())
    return net


def compiled_inside(net: Net) -> Net:
    net.b = torch.compile(net.b, backend="eager")  # type: ignore[assignment]
    return net


def compiled_in_place(net: Net) -> Net:
    net.compile(backend="eager")  # type: ignore[no-untyped-call]
    return net


def compiled_function(net: Net) -> Callable[[torch.Tensor], torch.Tensor]:
    return torch.compile(lambda values: net(values), backend="eager")


def in_a_thread(net: Net) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(values: torch.Tensor) -> torch.Tensor:
        with ThreadPoolExecutor(1) as pool:
            region = polycast.autocast("cpu")
            result: torch.Tensor = pool.submit(region(net), values).result()
        return result

    return call


# how a program calls a model
CALLS: dict[str, Callable[[Net], Callable[[torch.Tensor], torch.Tensor]]] = {
    "with a hook": with_a_hook,
    "in DataParallel": nn.parallel.DataParallel,
    "in AveragedModel": torch.optim.swa_utils.AveragedModel,
    "checkpointed": checkpointed(False),
    "checkpointed, reentrant": checkpointed(True),
    "parametrized": parametrized,
    "in a thread": in_a_thread,
    "compiled": lambda net: torch.compile(net, backend="eager"),
    "compiled inside": compiled_inside,
    "compiled in place": compiled_in_place,
    "called in a compiled function": compiled_function,
}


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo reads it
@pytest.mark.parametrize("way", CALLS)
def test_a_model_follows_the_rules_however_it_is_called(way: str, net: Net) -> None:
    expected = expect(net)
    with polycast.use(PLAN):
        model = CALLS[way](deepcopy(net))
        for _ in range(2):
            assert_equal(run(model), expected)


def test_the_first_call_cannot_be_compiled_as_one_graph(net: Net) -> None:
    expected = expect(net)
    with polycast.use(PLAN):
        model = torch.compile(lambda values: net(values), backend="eager", fullgraph=True)
        with pytest.raises(torch._dynamo.exc.Unsupported, match="rules when it is first called; call it once uncompil"):
            run(model)
        run(net)
        assert_equal(run(model), expected)


def test_code_that_was_compiled_before_follows_the_rules(net: Net) -> None:
    expected = expect(net)
    with polycast.use(PLAN.ops):
        model = torch.compile(net, backend="eager", fullgraph=True)
        before = run(model)
        with polycast.use(PLAN):
            assert_equal(run(model), expected)
            with polycast.use(Plan(PLAN.ops, {"Net": {"c": "fp32"}})):
                assert not torch.equal(run(model)[0], expected[0])
            assert_equal(run(model), expected)
        assert_equal(run(model), before)


def test_each_instance_follows_the_rules_and_so_do_those_of_a_subclass(net: Net) -> None:
    class Sub(Net):
        pass

    torch.manual_seed(0)
    sub = Sub()
    with polycast.use(PLAN):
        assert_equal(run(net), run(sub))
        other = Net()
        assert_equal(run(other), expect(other))


def test_a_module_that_is_called_before_its_model_is_a_model_of_its_own(net: Net) -> None:
    plan = Plan({}, {"Net": {"a": {"linear": "fp32"}, "c": {"linear": "fp32"}}, "Linear": {"": {"linear": "float16"}}})
    with polycast.use(plan), polycast.debug.trace() as trace:
        run(net.a)
        run(net)
        run(net.c)
    assert polycast.assigned(net) == {}
    rules = {(call.module, call.rule) for call in trace.calls if call.op == "linear"}
    assert rules == {("Linear", "float16"), ("Net.b.0", "lower_precision_fp"), ("Net.c", "fp32")}


def test_a_fused_layer_follows_the_rules_of_its_modules() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    plan = Plan({}, {"TransformerEncoderLayer": {"linear1": {"linear": "fp32"}}})
    values = torch.ones(1, 3, 8)
    with torch.no_grad(), polycast.autocast("cpu"):
        fused = layer(values)
        with polycast.assign(layer, plan):
            expected = layer(values)
        with polycast.use(plan):
            for _ in range(2):
                assert torch.equal(layer(values), expected)
            assigned = polycast.assign(layer, {"linear1": "fp32"})
        assigned.remove()
        assert torch.equal(layer(values), fused) and not layer.linear1._forward_pre_hooks


def test_a_plan_may_end_in_the_first_call_of_a_model(net: Net) -> None:
    class Ends(Net):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            polycast.use(None)
            return super().forward(values)

    expected = run(net)
    torch.manual_seed(0)
    model = Ends()
    with polycast.use(PLAN):
        run(model)
        assert not polycast.policy.in_force()
        assert_equal(run(model), expected)
    assert not torch.nn.modules.module._global_forward_hooks


def test_an_error_in_the_first_call_leaves_no_rules_behind(net: Net) -> None:
    expected = expect(net)
    with polycast.use(PLAN):
        for values in (torch.ones(2, 3), torch.ones(2, 3)):
            with pytest.raises(RuntimeError):
                net(values)
            assert polycast.policy.in_force() == PLAN.ops
        assert_equal(run(net), expected)


NAMES = ["", "a", "b", "b.0", "b.1", "b.2", "c", "b.*", "re:[ac]", "*"]
OPS = ["linear", "gelu", "matmul", "softmax", "layer_norm", "mm"]


def draw(random: Random) -> dict[str, dict[str, str]]:
    """Return rules for the modules of a Net."""
    names = random.sample(NAMES[:7], random.randint(0, 4)) + random.sample(NAMES[7:], random.randint(0, 1))
    categories = ["fp32", "bfloat16", "float16", "unlisted", "input_dtype"]
    return {name: {op: random.choice(categories) for op in random.sample(OPS, random.randint(1, 3))} for name in names}


@pytest.mark.parametrize("seed", range(20))
def test_random_rules_do_what_assign_does(seed: int, net: Net) -> None:
    random = Random(seed)
    plan, hand = Plan({"softmax": "fp32"}, {"Net": draw(random)}), draw(random)
    copy = deepcopy(net)
    with polycast.use(plan.ops), polycast.assign(copy, plan.models.get("Net", {})):
        rules = polycast.assigned(copy)
        joined = dict(rules)
        with polycast.assign(copy, hand):
            joined |= {name: joined.get(name, Policy()) | policy for name, policy in polycast.assigned(copy).items()}
        polycast.assign(copy, joined)
        try:
            expected: list[torch.Tensor] | RuntimeError = run(copy)
        except RuntimeError as error:  # of dtypes that do not go together
            expected = error
    with polycast.use(plan):
        order = random.random() < 0.5
        if order:
            with suppress(RuntimeError):
                run(net)
        polycast.assign(net, hand)
        for _ in range(2):
            if isinstance(expected, RuntimeError):
                with pytest.raises(RuntimeError):
                    run(net)
            else:
                assert_equal(run(net), expected)


def test_a_missing_module_is_warned_of_once(net: Net) -> None:
    plan = Plan({}, {"Net": {"b.7": {"linear": "fp32"}, "lin": "fp32", "c": {"linear": "fp32"}}})
    with polycast.use(plan):
        with pytest.warns(UserWarning, match=r"Net\.b\.7: the model has no module 'b\.7'; did you mean 'b\.") as found:
            run(net)
        assert len(found) == 1 and "Net.lin: the model has no module 'lin'" in str(found[0].message)
        assert found[0].filename == __file__
        assert polycast.assigned(net) == {"c": {"linear": "fp32"}}
        run(deepcopy(net))


def test_no_hook_is_there_without_rules_for_modules() -> None:
    hooks = torch.nn.modules.module._global_forward_pre_hooks
    filters = list(warnings.filters)
    polycast.use(PLAN.ops)
    assert not hooks
    with polycast.use(PLAN) as used:
        assert len(hooks) == 1 and repr(used) == "<the process uses softmax bfloat16, and rules for Net>"
        for values in (torch.ones(2, 3), torch.ones(2, 8)):
            with suppress(RuntimeError):
                Net()(values)
        assert not torch.nn.modules.module._global_forward_hooks
    assert not hooks and list(warnings.filters) == filters


def test_assign_takes_the_rules_of_the_models_class_from_a_file(net: Net, tmp_path: Path) -> None:
    PLAN.save(tmp_path / "plan.yaml")
    expected = expect(net)
    polycast.assign(net, tmp_path / "plan.yaml")
    assert_equal(run(net), expected)
    with pytest.raises(ValueError, match="there are no rules for modules of a Linear; they are for Net"):
        polycast.assign(net.a, PLAN)


COMMAND = """
import sys, torch, polycast
sys.path.insert(0, {folder!r})
from tests.policies.test_models import Net, run
torch.manual_seed(0)
print([part.tolist() for part in run(Net())])
"""


def test_a_class_that_is_never_called_is_warned_of_at_the_end(tmp_path: Path) -> None:
    Plan({}, {"Nett": {"": "fp32"}}).save(tmp_path / "plan.yaml")
    program = "import polycast, torch\nclass Net(torch.nn.Identity): ...\n{}(0)"
    for called, expected in (
        ("Net()", "hold nowhere:\nno Nett was called outside of other modules; did you mean 'Net"),
        ("str", ""),
    ):
        environment = os.environ | {"POLYCAST_POLICY": str(tmp_path / "plan.yaml")}
        words = [sys.executable, "-c", program.format(called)]
        said = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stderr
        assert expected in said and bool(said) is bool(expected)


def test_a_command_follows_a_file(net: Net, tmp_path: Path) -> None:
    PLAN.save(tmp_path / "plan.yaml")
    text = COMMAND.format(folder=str(Path(__file__).parents[2]))
    expected = str([part.tolist() for part in expect(net)])
    assert python(text, POLYCAST_POLICY=str(tmp_path / "plan.yaml")).strip() == expected
