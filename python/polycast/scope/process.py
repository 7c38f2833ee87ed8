"""The policy of the process."""

import os
import sys

from polycast._compiled import use_policy, used_policy
from polycast.policy.policy import Policy, PolicyError
from polycast.policy.reader import IMPORT_FIRST
from polycast.scope import compiled_code

ENVIRONMENT_POLICY = "POLYCAST_POLICY"
# Why the policy of the environment cannot be used. Only `python -m polycast` runs with such a policy.
unusable = ""


def use(policy: Policy | None) -> None:
    """Make a policy that of the process: it holds in every region, under the policies of regions and modules.

    The environment variable POLYCAST_POLICY names a file or a release whose policy is used from the import on. A forked
    process, such as a worker of a ``DataLoader``, inherits the policy. A spawned one has that of the variable, if any.

    Args:
        policy: The rules over the base, which replace those used before; None for the base alone.

    Raises:
        TypeError: It is no policy.
        ValueError: An operator that it names has an autocast kernel of its own.

    Example:
        >>> import torch, polycast
        >>> polycast.use(polycast.Policy({"matmul": "fp32"}))
        >>> with polycast.autocast("cpu"):
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.float32
        >>> polycast.use(None)
    """
    if not (policy is None or isinstance(policy, Policy)):
        raise TypeError(
            f"the policy is {policy!r:.60}; give a polycast.Policy, as of polycast.Policy.load, or None for the base"
        )
    before = used_policy()
    use_policy(policy.kernels if policy else None)
    if used_policy() is not before:
        compiled_code.forget()


def use_on_import() -> None:
    """Use the policy that the environment variable POLYCAST_POLICY names.

    Raises:
        ImportError: It cannot be used. The command line goes on without it, so that it can show what is wrong.
    """
    global unusable
    path = os.environ.get(ENVIRONMENT_POLICY)
    if path:
        try:
            use(Policy(path))
        except ValueError as error:
            text = f"{ENVIRONMENT_POLICY} names {path}, which cannot be used:\n{error}"
            problems = error.problems if isinstance(error, PolicyError) else ()
            if any(problem.remedy.startswith(IMPORT_FIRST) for problem in problems):
                text += f"\n(before polycast, or unset {ENVIRONMENT_POLICY} and call polycast.use after both)"
            if not _is_command_line():
                raise ImportError(text) from None
            unusable = text


def _is_command_line() -> bool:
    """Return whether the process is `python -m polycast`, which imports the package before its __main__.

    While Python looks for the module of -m, "-m" stands in the place of the first argument.
    """
    package = __name__.partition(".")[0]
    return sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].removeprefix("-m") == package
