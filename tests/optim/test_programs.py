"""Random programs of steps, skipped steps and changes, compared with ``torch.optim`` in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polycast import devices

from tests.optim.changes import CHANGES, Changes
from tests.optim.programs import Program
from tests.support import optimizers
from tests.support.properties import examples


def test_programs_match_torch_optim(kernels: optimizers.Kernels) -> None:
    """Some programs also exchange state with ``torch.optim`` on the CPU."""

    @given(data=st.data())
    @examples(6 if kernels.device == "xla" else 50, shrinks=kernels.device != "xla")
    def programs(data: st.DataObject) -> None:
        program = Program(data, kernels)
        program.step()
        for change in data.draw(st.lists(st.sampled_from(CHANGES), min_size=2, max_size=7), "changes"):
            getattr(Changes(program), change)()
            program.step()

    programs()


@pytest.mark.parametrize(
    ("kind", "state_dtype"),
    [("SGD nesterov", None), ("SGD dampening", None), ("Adam amsgrad", torch.bfloat16), ("AdamW", None)],
)
def test_training_with_skipped_steps_equals_training_without_them(
    kind: str, state_dtype: torch.dtype | None, kernels: optimizers.Kernels
) -> None:
    """The results are equal bit for bit, even if the first step is skipped (specification 8.1)."""
    skipping, straight = (optimizers.parameters(*optimizers.SHAPES, device=kernels.device) for _ in range(2))
    ours, wanted = (
        optimizers.make(optimizers.OURS, kind, params, state_dtype=state_dtype) for params in (skipping, straight)
    )
    for number, skip in enumerate([True, True, False, True, False, None, False, None, True, False]):
        optimizers.set_grads(skipping, number, factor=float("nan") if skip else 1.0)
        optimizers.step(ours, **({} if skip is None else {"found_inf": float(skip)}))
        if not skip:
            optimizers.set_grads(straight, number)
            optimizers.step(wanted)
    assert all(map(optimizers.same_bits, optimizers.tensors(ours), optimizers.tensors(wanted)))
    assert ours.state_dict()["state"].keys() == wanted.state_dict()["state"].keys()


@pytest.mark.parametrize("kind", ["SGD nesterov", "Adam"])
def test_a_bfloat16_step_rounds_once(kind: str, kernels: optimizers.Kernels) -> None:
    (param,) = optimizers.parameters((1000,), dtype=torch.bfloat16, device=kernels.device)
    optimizers.set_grads([param], 0)
    wide = param.detach().cpu().float().requires_grad_()
    wide.grad = param.grad.cpu().float()  # type: ignore[union-attr]
    optimizers.make(optimizers.OURS, kind, [param]).step()
    optimizers.make(optimizers.THEIRS, kind, [wide]).step()
    is_ours = devices.facts_of(kernels.device).skips_by_itself  # `torch.optim` rounds after each operation.
    assert (param.detach().cpu() == wide.detach().bfloat16()).float().mean() > (0.99 if is_ours else 0.8)
