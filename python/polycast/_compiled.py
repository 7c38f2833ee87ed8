"""The one module that touches the compiled module, polycast._C."""

from typing import NamedTuple

import torch

try:
    from polycast._built_for import SOURCES
    from polycast._built_for import TORCH as BUILT_FOR
except ModuleNotFoundError:
    raise ImportError(
        "polycast is not built here; run 'pip install --no-build-isolation .' in its source tree, then "
        "import it from another folder"
    ) from None


def _mismatch() -> str:
    return (
        f"polycast was built for torch {BUILT_FOR} and finds torch {torch.__version__}; rebuild it with "
        "'pip install --no-build-isolation --force-reinstall --no-deps .' in its source tree"
    )


def _release(version: str) -> list[str]:
    return version.split(".")[:2]


if _release(BUILT_FOR) != _release(torch.__version__):
    raise ImportError(_mismatch())
try:
    from polycast import _C
except ImportError as error:
    if str(torch.__version__) == BUILT_FOR:
        raise
    raise ImportError(_mismatch()) from error


class Device(NamedTuple):
    """A column of the policy: its autocast dispatch key and its lower precisions, the default one first."""

    name: str
    dispatch_key: str
    lower_precision: tuple[torch.dtype, ...]


class Row(NamedTuple):
    """One overload of an ATen op on one device. The note is empty if the row does not differ from torch's."""

    op: str
    overload: str
    device: str
    category: str
    note: str


DEVICES: dict[str, Device] = {
    name: Device(name, key, tuple(getattr(torch, dtype) for dtype in dtypes))
    for name, key, dtypes, _, _ in _C.devices()
}
CATEGORIES: dict[str, str] = _C.categories()
ROWS: tuple[Row, ...] = tuple(Row(*row) for row in _C.rows())
DEVICES_LIKE: dict[str, str | None] = {name: like or None for name, _, _, like, _ in _C.devices()}
# Other names that users write for devices. No function takes them; errors suggest the device.
SPOKEN: dict[str, str] = {word: name for name, _, _, _, words in _C.devices() for word in words}
# Pairs of public names and the ops that they call, each separated by spaces.
NAMES: list[tuple[str, str]] = _C.names()

BUILD = SOURCES
KernelPolicy = _C.Policy
Scope = _C.Scope
enter_owner = _C.enter_owner
enter_region = _C.enter_region
enter_scope = _C.enter_scope
find_policy = _C.find_policy
install_kernels = _C.install
installed_kernels = _C.installed
keep_scope = _C.keep_scope
kept_scope = _C.kept_scope
leave_owner = _C.leave_owner
leave_scope = _C.leave_scope
leave_to_depth = _C.leave_to_depth
make_policy = _C.make_policy
number_scope = _C.number_scope
policy_context = _C.policy_context
refresh_kernels = _C.refresh_kernels
region_context = _C.region_context
scope_context = _C.scope_context
scope_depth = _C.scope_depth
scope_in_force = _C.scope_in_force
set_carrier = _C.set_carrier
uninstall_kernels = _C.uninstall
use_policy = _C.use_policy
used_policy = _C.used_policy
start_recording = _C.start_recording
stop_recording = _C.stop_recording
take_calls = _C.take_calls
set_place = _C.set_place
current_call = _C.current_call
cast_counts = _C.cast_counts
cast_obstacle = _C.cast_obstacle
clear_casts = _C.clear_casts
forget_casts = _C.forget_casts
keep_casts = _C.keep_casts
limit_casts = _C.limit_casts
set_recording_probe = _C.set_recording_probe
verify_casts = _C.verify_casts

all_plain = _C.all_plain
check_adam_step = _C.check_adam_step
check_sgd_step = _C.check_sgd_step
any_overlap = _C.any_overlap
check_gradients = _C.check_gradients
check_norm = _C.check_norm
check_tensors = _C.check_tensors
check_unscale = _C.check_unscale
check_update_scale = _C.check_update_scale
own_memory = _C.own_memory
signature = _C.signature
write_back = _C.write_back
