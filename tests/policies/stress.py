"""Threads that compile, enter, fork and change the policy of the process, all at once: no error, no hang.

Run as a module, with the seconds that it takes: ``python -m tests.policies.stress 60``.
"""

import faulthandler
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable

import polycast
import torch
from polycast import Policy

X = torch.eye(4)
OPS = polycast.policy.ops("cpu", "fp32")
KINDS = {"fp32": torch.float32, "float16": torch.float16, "float64": torch.float64, "bfloat16": torch.bfloat16}


def drawn(rng: random.Random) -> tuple[Policy, torch.dtype]:
    """Return one of hundreds of policies, and the dtype that matmul has under it."""
    kind = rng.choice(list(KINDS))
    return Policy({"matmul": kind, f"aten::{rng.choice(OPS)}": rng.choice(("fp32", "float64"))}), KINDS[kind]


def function() -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that nobody has compiled."""
    made: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
    exec("def square(x):\n    return x @ x", made)
    return made["square"]


def enters(rng: random.Random) -> None:
    (outer, kind), (inner, other) = drawn(rng), drawn(rng)
    with polycast.autocast("cpu", policy=outer):
        assert (X @ X).dtype == kind
        with polycast.autocast("cpu", policy=inner):
            assert (X @ X).dtype == other
        assert (X @ X).dtype == kind


def compiles(rng: random.Random) -> None:
    compiled = torch.compile(function(), backend="eager")
    for rules, kind in (drawn(rng), drawn(rng)):
        with polycast.autocast("cpu", policy=rules):
            assert compiled(X).dtype == kind


def compiles_a_region(rng: random.Random) -> None:
    (rules, kind), inner = drawn(rng), function()

    def outer(x: torch.Tensor) -> torch.Tensor:
        with polycast.autocast("cpu", policy=rules):
            return inner(x)

    assert torch.compile(outer, backend="eager")(X).dtype == kind


def forks(rng: random.Random) -> None:
    if (child := os.fork()) == 0:
        code = 1
        try:
            enters(rng)
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            raise AssertionError("a forked child hangs")
        time.sleep(0.005)
    assert ended[1] == 0


def uses(rng: random.Random) -> None:
    polycast.use({"sort": rng.choice(list(KINDS)), "relu": "fp32", f"aten::{rng.choice(OPS)}": "float64"})
    polycast.use(None)


def calls(rng: random.Random) -> None:  # noqa: ARG001
    with polycast.autocast("cpu"):
        for _ in range(50):
            torch.relu(X), torch.sort(X), X @ X


def run(seconds: float) -> list[str]:
    """Return the errors of threads that do one of these each, for so long."""
    roles = (enters, compiles, compiles_a_region, forks, uses, calls)
    torch.set_num_threads(1)  # a forked child has no thread pool
    # Once before: two threads that import dynamo at once fail in torch. And torch looks up an operator at its first
    # call; a child that is forked meanwhile waits for ever when it calls that operator.
    for role in roles:
        role(random.Random(role.__name__))
    end = time.monotonic() + seconds
    errors: list[str] = []

    def repeat(role: Callable[[random.Random], None]) -> None:
        rng = random.Random(role.__name__)
        try:
            while time.monotonic() < end:
                role(rng)
        except BaseException:
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=repeat, args=(role,)) for role in roles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


if __name__ == "__main__":
    faulthandler.dump_traceback_later(2 * float(sys.argv[1]) + 300, exit=True)  # a deadlock
    sys.exit("\n".join(run(float(sys.argv[1]))) or 0)
