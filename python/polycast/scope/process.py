"""The process-wide policy."""

import os
import sys
from functools import partial
from pathlib import Path

from polycast._extension import KernelPolicy, use_policy, used_policy
from polycast.policy.op_names import IMPORT_FIRST
from polycast.policy.policy import Policy, PolicyError, PolicyLike
from polycast.scope import compiled_code
from polycast.scope.handle import Handle, warn_of_no_kernels
from polycast.torch_internals import disabled

ENVIRONMENT_POLICY = "POLYCAST_POLICY"


@disabled
def use(policy: PolicyLike) -> Handle:
    """Set the process-wide policy. It applies in every autocast region; policies of regions and modules override it.

    The policy applies in all threads until another one is used. ``with polycast.use(...)`` restores the previous policy
    at the end of the block. If no kernels are installed, the policy has no effect, and a warning is issued.

    The environment variable ``POLYCAST_POLICY`` sets the policy at import, to a file, a release, a category or a dtype.
    A forked process inherits the policy. A spawned process reads the variable.

    Args:
        policy: The policy, in any form that :class:`polycast.Policy` accepts, such as a dict or the name of a file. A
            category or dtype is for every op that the built-in policy lists. The policy replaces the previous one. None
            sets the built-in policy.

    Returns:
        A handle: its ``remove()``, or the end of its ``with`` block, restores the previous policy.

    Raises:
        TypeError: If the argument has the wrong type.
        ValueError: If :class:`polycast.Policy` raises it, which may be a ``PolicyError``. If the policy has a rule
            for an operator whose library has registered an autocast kernel.

    Example:
        >>> import torch, polycast
        >>> with polycast.use({"matmul": "fp32"}), polycast.autocast("cpu"):
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.float32
        >>> handle = polycast.use({"matmul": "bf16"})
        >>> polycast.policy.current()
        Policy({'matmul': 'bfloat16'})
        >>> handle.remove()
    """
    kernels = None if policy is None else Policy(policy).kernels
    if kernels is not None:
        warn_of_no_kernels()
    restore = Handle(partial(_set, used_policy()))
    _set(kernels)
    return restore


def _set(policy: KernelPolicy | None) -> None:
    with compiled_code.while_nothing_compiles():
        use_policy(policy)


def use_on_import() -> None:
    """Use the policy of the environment variable ``POLYCAST_POLICY``, if it is set.

    Raises:
        ImportError: If the policy cannot be used.
        SystemExit: If the policy cannot be used in polycast's command line, which prints the error without a traceback.
    """
    path = os.environ.get(ENVIRONMENT_POLICY)
    if path:
        try:
            _set(Policy(path).kernels)
        except ValueError as error:
            text = f"{ENVIRONMENT_POLICY} names {path}, which cannot be used:\n{error}"
            problems = error.problems if isinstance(error, PolicyError) else ()
            if any(problem.remedy.startswith(IMPORT_FIRST) for problem in problems):
                text += f"\nImport it before polycast, or unset {ENVIRONMENT_POLICY} and call polycast.use after both."
            if _is_command_line():
                print(f"error: {text}", file=sys.stderr)
                raise SystemExit(2) from None
            raise ImportError(text) from None


def _is_command_line() -> bool:
    """Return whether the process runs ``polycast`` or ``python -m polycast``."""
    program = sys.argv[0] if sys.argv else ""
    return sys.orig_argv[1:3] == ["-m", "polycast"] if program == "-m" else Path(program).name == "polycast"
