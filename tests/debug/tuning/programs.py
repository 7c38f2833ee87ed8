"""A program whose losses and times follow from the plan."""

from polycast.debug.progress import Progress
from polycast.debug.tuning.choices import Key, category
from polycast.debug.tuning.evidence import Evidence
from polycast.debug.tuning.proof import Proof
from polycast.debug.tuning.runs import Run
from polycast.policy.plan import Plan

KEYS = [Key("Net", name, "linear", "cpu") for name in "abcdefgh"]


class Stub:
    """Each op in a lower precision saves a millisecond; each culprit makes the loss infinite."""

    memory = timed = "nothing"

    def __init__(self, culprits: str = "", slower: str = "", raises: str = "", interrupt_at: int = 0) -> None:
        self.culprits, self.slower, self.raises, self.interrupt_at = culprits, slower, raises, interrupt_at
        self.runs: list[tuple[Plan, int]] = []

    def run(self, plan: Plan, seed: int, steps: int | None = None) -> Run:  # noqa: ARG002
        self.runs.append((plan, seed))
        if len(self.runs) == self.interrupt_at:
            raise KeyboardInterrupt
        lower = {key.module for key in KEYS if category(plan, key) != "fp32"}
        if lower & {*self.raises}:
            raise RuntimeError("expected scalar type Float\nbut found BFloat16")
        loss = float("inf") if lower & {*self.culprits} else 1.0 + 0.1 * seed
        milliseconds = 10 + sum(1 if name in self.slower else -1 for name in lower)
        return Run((2.0, loss), milliseconds / 1e3, 1_000_000)

    def evidence(self, *_: object) -> list[Evidence]:
        return []


def proof(program: Stub, seeds: int = 3, budget: float | None = None) -> Proof:
    return Proof(program, range(seeds), 1.0, None, budget, Progress("tune"))
