"""Lists of tensors that are not all of one kind: torch.optim's values, or an error that names the parameter."""

import os
import subprocess
import sys

# By Adam; torch.optim raises the same.
CONJUGATE = "RuntimeError: view_as_real doesn't work on unresolved conjugated tensors."
# What is no memory was once read as memory, so all of it runs in a process of its own. The rest is right.
ERRORS = {
    (
        "inference gradient",
        "check_gradients",
    ): "RuntimeError: unscale_: grads[{0}] (of layer{0}) is an inference tensor, "
    "which cannot be written outside of torch.inference_mode()",
    ("subclass", "check_gradients"): "TypeError: the gradient of layer{0} is a TwoTensor, whose values only that class "
    "knows; give it a plain tensor or a DTensor",
    ("zero", "check_steps"): "RuntimeError: ZeroTensors are immutable.",
    ("conjugate", "check_steps"): CONJUGATE,
    ("conjugates", "check_steps"): CONJUGATE,
    ("released", "check_steps"): "RuntimeError: sgd_step_: params[{0}] (of layer{0}) has the sizes [3] and no memory; "
    "its storage was resized to nothing, so give it back its data first",
    ("released gradient", "check_steps"): "RuntimeError: sgd_step_: grads[{0}] (of layer{0}) has the sizes [3] and no "
    "memory; its storage was resized to nothing, so give it back its data first",
    ("released gradient", "check_gradients"): "RuntimeError: find_non_finite: grads[{0}] (of layer{0}) has the sizes "
    "[3] and no memory; its storage was resized to nothing, so give it back its data first",
    ("mkldnn", "check_steps"): "NotImplementedError: Could not run 'aten::empty_strided' with arguments from the "
    "'MkldnnCPU' backend.",
    ("mkldnn", "check_gradients"): "TypeError: find_non_finite: grads[{0}] (of layer{0}) is a Mkldnn tensor of "
    "torch.float32; pass strided tensors of torch.float32, torch.float64, torch.float16 or torch.bfloat16",
}


def test_every_kind_before_and_after_a_plain_parameter() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.optim.kinds"], capture_output=True, text=True, env=os.environ, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert len(lines) == 4 * 13
    for line in lines:
        title, found = line.split(" | ")
        kind, order, work = title.split(", ")
        wanted = ERRORS.get((kind, work), "right").format(0 if order == "first" else 1)
        assert found.startswith(wanted), title
