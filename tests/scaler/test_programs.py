"""Programs of scaler calls in any order, against torch's scaler."""

from tools.random_scaler import compare_all


def test_random_programs_are_torchs() -> None:
    counts = compare_all(range(120))
    assert counts["step"] > 300
    assert counts["step_by_closure"] > 20
    runtime = {f"{call}: RuntimeError" for call in ("clip_grad_norm", "unscale_", "step", "step_with_closure")}
    nothing = {f"{call}: AssertionError" for call in ("copy", "step", "update")}
    assert runtime | nothing <= counts.keys()
