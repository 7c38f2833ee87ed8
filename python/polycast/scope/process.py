"""The policy of the process."""

import os
import reprlib
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


class Used(Handle):
    """A handle that :func:`use` returns: removing it uses the policy that was used before."""

    def __init__(self, policy: Policy | None) -> None:
        self.policy = policy
        """The policy that was used; None for the built-in one alone."""
        super().__init__(partial(_set, used_policy()))
        _set(None if policy is None else policy.kernels)

    def __repr__(self) -> str:
        rules = "the built-in policy alone" if self.policy is None else reprlib.repr(self.policy.rules)
        return f"<the process uses {rules}>"


@disabled
def use(policy: PolicyLike) -> Used:
    """Make a policy that of the process: it holds in every region, under the policies of regions and modules.

    It holds from the call on, in all threads, until another is used. ``with polycast.use(...)`` brings back what was
    used before at the end of the block. Without installed kernels it holds nowhere, and a warning says so.

    The environment variable POLYCAST_POLICY names a file, a release, a category or a dtype, whose policy is used from
    the import on. A forked process, such as a worker of a ``DataLoader``, inherits the policy. A spawned one has that
    of the variable, if any.

    Args:
        policy: What :class:`polycast.Policy` takes: a policy, a dict, a file, a release, or a category or dtype for
            every op that the built-in policy lists. What was used before is replaced. None uses the built-in policy
            alone.

    Returns:
        A handle whose ``remove()``, or whose end as a context manager, uses what was used before.

    Raises:
        PolicyError: A ``ValueError``, as for :class:`polycast.Policy`.
        TypeError: It is nothing that a policy can be made of.
        ValueError: An operator that it names has an autocast kernel of its own.

    Example:
        >>> import torch, polycast
        >>> with polycast.use({"matmul": "fp32"}), polycast.autocast("cpu"):
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.float32
        >>> polycast.use({"matmul": "bf16"})
        <the process uses {'matmul': 'bfloat16'}>
        >>> polycast.use(None)
        <the process uses the built-in policy alone>
    """
    if policy is None:
        return Used(None)
    made = Policy(policy)
    warn_of_no_kernels()
    return Used(made)


def _set(policy: KernelPolicy | None) -> None:
    with compiled_code.while_nothing_compiles():
        use_policy(policy)


def use_on_import() -> None:
    """Use the policy that the environment variable POLYCAST_POLICY names.

    Raises:
        ImportError: If it cannot be used.
        SystemExit: Instead, on the command line of polycast, which prints the error without a traceback.
    """
    path = os.environ.get(ENVIRONMENT_POLICY)
    if path:
        try:
            Used(Policy(path))
        except ValueError as error:
            text = f"{ENVIRONMENT_POLICY} names {path}, which cannot be used:\n{error}"
            problems = error.problems if isinstance(error, PolicyError) else ()
            if any(problem.remedy.startswith(IMPORT_FIRST) for problem in problems):
                text += f"\n(before polycast, or unset {ENVIRONMENT_POLICY} and call polycast.use after both)"
            if _is_command_line():
                print(f"error: {text}", file=sys.stderr)
                raise SystemExit(2) from None
            raise ImportError(text) from None


def _is_command_line() -> bool:
    """Return whether the process runs `polycast` or `python -m polycast`."""
    program = sys.argv[0] if sys.argv else ""
    return sys.orig_argv[1:3] == ["-m", "polycast"] if program == "-m" else Path(program).name == "polycast"
