"""A stress test: threads compile, enter policies, fork and change the process's policy, without an error or a deadlock.

Run this file as a module, with a duration in seconds: ``python -m tests.policies.stress 60``.
"""

import faulthandler
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import polycast
import torch
from polycast import Policy
from torch import Tensor

X = torch.eye(4)
OPS = sorted({rule.op for rule in polycast.policy.resolved({}, device="cpu") if rule.category == "fp32"})
KINDS = {"fp32": torch.float32, "float16": torch.float16, "float64": torch.float64, "bfloat16": torch.bfloat16}


def drawn(rng: random.Random) -> tuple[Policy, torch.dtype]:
    """Return one of hundreds of policies, and the dtype of ``matmul`` under that policy."""
    kind = rng.choice(list(KINDS))
    return Policy({"matmul": kind, f"aten::{rng.choice(OPS)}": rng.choice(("fp32", "float64"))}), KINDS[kind]


def enters(rng: random.Random) -> None:
    (outer, kind), (inner, other) = drawn(rng), drawn(rng)
    with polycast.autocast("cpu", policy=outer):
        assert (X @ X).dtype == kind
        with polycast.autocast("cpu", policy=inner):
            assert (X @ X).dtype == other
        assert (X @ X).dtype == kind


def compiles(rng: random.Random) -> None:
    made: dict[str, Callable[[Tensor], Tensor]] = {}
    exec("def square(x): return x @ x", made)  # Dynamo has not compiled this function.
    (rules, kind), (inner, other) = drawn(rng), drawn(rng)

    def within(x: Tensor) -> Tensor:
        with polycast.autocast("cpu", policy=inner):
            return made["square"](x)

    with polycast.autocast("cpu", policy=rules):
        assert torch.compile(made["square"], backend="eager")(X).dtype == kind
    assert torch.compile(within, backend="eager")(X).dtype == other


def forks(rng: random.Random) -> None:
    if (child := os.fork()) == 0:
        signal.alarm(60)  # The alarm ends a child that hangs, because the child has no watchdog.
        try:
            enters(rng)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def uses(rng: random.Random) -> None:
    polycast.use({"sort": rng.choice(list(KINDS)), "relu": "fp32", f"aten::{rng.choice(OPS)}": "float64"})
    polycast.use(None)


def main(seconds: float) -> None:
    """Run one thread for each role, for a number of seconds."""
    faulthandler.dump_traceback_later(2 * seconds + 300, exit=True)  # The timer ends a deadlock.
    roles = (enters, compiles, forks, uses)
    torch.set_num_threads(1)  # A forked child has no thread pool.
    # Each role first runs once, because two threads that import dynamo at once fail in PyTorch. PyTorch also looks up
    # an operator at its first call. A child that is forked during the lookup hangs when it calls the operator.
    for role in roles:
        role(random.Random(role.__name__))
    end = time.monotonic() + seconds

    def repeat(role: Callable[[random.Random], None]) -> None:
        rng = random.Random(role.__name__)
        while time.monotonic() < end:
            role(rng)

    with ThreadPoolExecutor(len(roles)) as pool:
        list(pool.map(repeat, roles))


if __name__ == "__main__":
    main(float(sys.argv[1]))
