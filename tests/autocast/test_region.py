"""``polycast.autocast``: its arguments, its warnings, and the autocast state in its region."""

import copy
import pickle
from contextlib import nullcontext

import polycast
import pytest
import torch
from polycast import region
from polycast.devices import XLA
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.support.devices import NEEDS_XLA

F32, BF16, HALF = torch.float32, torch.bfloat16, torch.float16
X = torch.ones(2, 2)


def state(kind: str) -> tuple[bool, torch.dtype]:
    return torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)


def square(x: torch.Tensor) -> torch.Tensor:
    return x @ x


@pytest.fixture(autouse=True)
def _no_warning_issued() -> None:
    """Reset the warnings that are issued only once."""
    region.warn_once.cache_clear()
    region._doubts.cache_clear()


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        (torch.device("cpu"), "cpu"),
        ("xpu", "xpu"),  # The default for xpu is bfloat16, unlike in PyTorch.
        (torch.device("xpu:1"), "xpu"),
        (None, "xpu"),
        pytest.param(torch.device("xla:0"), "xla", marks=NEEDS_XLA),
    ],
)
def test_a_device_is_a_string_a_device_or_the_current_accelerator(
    device: str | torch.device, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A region accepts a device's name, a ``torch.device``, or None for the current accelerator (a simulated XPU)."""
    monkeypatch.setattr(torch.xpu, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("xpu", 1))
    before = state(kind)
    with polycast.autocast(device):
        assert state(kind) == (True, BF16)
    assert state(kind) == before


# Each row has a call that creates a region, and the dtype of a matrix product in the region.
SPELLINGS: list[tuple[str, torch.dtype]] = [
    ("polycast.autocast('cpu', torch.bfloat16, True, None)", BF16),
    ("polycast.autocast(device_type='cpu', dtype=torch.float16)", HALF),
    ("polycast.autocast(enabled=True, dtype=torch.float16)", HALF),
    ("polycast.autocast(enabled=False)", F32),
    ("polycast.autocast('cpu', 'bf16')", BF16),
    ("polycast.autocast('cpu', 'torch.half', cache_enabled=False)", HALF),
    ("polycast.autocast(X.device)", BF16),
    ("polycast.autocast('cpu:0')", BF16),
    ("polycast.autocast('cpu', policy={'torch.matmul': torch.float16})", HALF),
    ("polycast.autocast('cpu', policy='torch-2.11')", BF16),
    ("polycast.autocast('cpu', policy='fp32')", F32),
    ("polycast.autocast('cpu', policy=torch.float16)", HALF),
    ("polycast.autocast('cpu', policy=polycast.Policy({'matmul': 'fp32'}))", F32),
    ("polycast.Region('cpu', 'bf16', policy={'matmul': 'fp32'})", F32),
]


@pytest.mark.parametrize(("call", "dtype"), SPELLINGS)
def test_each_spelling_of_a_region_has_its_dtype(
    call: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A region and its copies cast to the requested dtype, on a simulated machine with only a CPU."""
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: None)
    monkeypatch.setattr(XLA, "is_here", False)
    with eval(call) as opened:
        assert (X @ X).dtype is dtype
    assert isinstance(opened, torch.autocast)
    assert isinstance(opened, polycast.Region)
    for twin in (copy.copy(opened), copy.deepcopy(opened), pickle.loads(pickle.dumps(opened))):
        with twin:
            assert (X @ X).dtype is dtype
        assert twin.__reduce__() == opened.__reduce__()


def test_a_region_has_its_settings_as_attributes() -> None:
    policy = polycast.Policy({"matmul": "fp32"})
    opened = polycast.autocast("cpu", HALF, False, False, policy=policy)
    assert (opened.device, opened.policy) == ("cpu", policy)
    assert (opened.fast_dtype, opened._enabled, opened._cache_enabled) == (HALF, False, False)


@pytest.mark.parametrize("keep", [True, False])
def test_cache_enabled_sets_the_cast_cache_and_an_exception_restores_the_state(keep: bool) -> None:
    before = state("cpu")
    with pytest.raises(KeyError), polycast.autocast("cpu", HALF, cache_enabled=keep):
        assert torch.is_autocast_cache_enabled() is keep
        with polycast.autocast("cpu"):
            assert torch.is_autocast_cache_enabled() is keep
        raise KeyError
    assert torch.is_autocast_cache_enabled()
    assert state("cpu") == before


def test_polycast_autocast_can_replace_torch_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who cannot edit a library can assign ``polycast.autocast`` to ``torch.autocast``."""
    monkeypatch.setattr(torch, "autocast", polycast.autocast)
    monkeypatch.setattr(torch.amp, "autocast", polycast.autocast)

    def multiply(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x

    assert multiply(X).dtype is BF16
    assert torch.compile(multiply, backend="eager", fullgraph=True)(X).dtype is BF16


def test_a_region_on_cuda_without_cuda_warns_as_in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: True)
    with pytest.warns(UserWarning) as theirs:
        torch.autocast("cuda")
    with pytest.warns(UserWarning) as ours:
        region = polycast.autocast("cuda:0")
    assert [str(warning.message) for warning in ours] == [str(warning.message) for warning in theirs]
    with region:
        assert not torch.is_autocast_enabled("cuda")


@NEEDS_XLA
@pytest.mark.parametrize("variable", ["XLA_USE_BF16", "XLA_DOWNCAST_BF16"])
def test_environment_variables_that_override_the_policy_warn_once(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for off in ("", "0", "false"):
        monkeypatch.setenv(variable, off)
        polycast.autocast("xla")
        region._doubts.cache_clear()
    monkeypatch.setenv(variable, "1")
    with pytest.warns(UserWarning, match=f"{variable} is set: .* every floating-point operation in bfloat16") as caught:
        polycast.autocast("xla")
        polycast.autocast("xla")
    (warning,) = caught
    assert warning.filename == __file__


@NEEDS_XLA
def test_xla_follows_the_hardware_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "xla" in polycast.installed()
    monkeypatch.setattr(XLA, "rules", "xla_gpu")
    with polycast.autocast("xla"):
        assert state("xla") == (True, HALF)
        assert {"xla", "xla_gpu"} & {*polycast.installed()} == {"xla_gpu"}
    with polycast.autocast("xla", BF16):
        assert state("xla") == (True, BF16)
    monkeypatch.undo()
    with polycast.autocast("xla"):
        assert state("xla") == (True, BF16)
        assert {"xla", "xla_gpu"} & {*polycast.installed()} == {"xla"}


@pytest.mark.parametrize("device", ["cpu", pytest.param("xla", marks=NEEDS_XLA)])
def test_a_region_without_kernels_warns_once_and_installs_nothing(device: str) -> None:
    with polycast.uninstall(device), pytest.warns(UserWarning) as caught:
        for _ in range(2):
            with polycast.autocast(device):
                assert device not in polycast.installed()
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message) == (
        f"the policy's kernels for {device} are not installed, so regions on {device} run PyTorch's kernels; "
        f"call polycast.install('{device}')"
    )


@pytest.mark.parametrize(("there", "fake"), [(False, False), (False, True), (True, False)])
def test_a_region_of_an_absent_device_warns(there: bool, fake: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.xpu, "is_available", lambda: there)
    text = r"^no xpu device is available, so autocast\('xpu'\) has no effect; pass the device type of your tensors$"
    wanted = nullcontext() if there or fake else pytest.warns(UserWarning, match=text)
    polycast.autocast("xpu", enabled=False)  # A disabled region does not warn.
    with wanted, FakeTensorMode() if fake else nullcontext():
        polycast.autocast("xpu")
