"""Plans are proved by whole runs, and taken back by halves."""

import pytest
from polycast.debug.tuning import proof as proving
from polycast.debug.tuning.choices import FLOAT32, category, plan_of
from polycast.debug.tuning.proof import Proof
from polycast.policy.plan import Plan

from tests.debug.tuning.programs import KEYS, Stub, proof

LOWER = "lower_precision_fp"
ALL = Plan()  # the built-in policy has all linear in the lower precision


def ran(program: Stub, **options: float) -> Proof:
    """Return a proof that tried to have all in the lower precision but `a`."""
    made = proof(program, **options)  # type: ignore[arg-type]
    with made.until_stopped():
        made.begin()
        made.prove(plan_of({key: FLOAT32 if key.module == "a" else LOWER for key in KEYS}), "bold", KEYS)
    if made.stopped != proving.INTERRUPTED:
        with made.until_stopped():
            made.race()
    return made


def lower(plan: Plan) -> str:
    return "".join(key.module for key in KEYS if category(plan, key) != FLOAT32)


@pytest.mark.parametrize(
    ("culprits", "slower", "result", "rest"),
    [
        ("", "", "built-in", "abcdefgh"),  # which is the fastest
        ("", "a", "plan 1", "bcdefgh"),
        ("", "abcdefgh", "float32", ""),
        ("a", "", "plan 1", "bcdefgh"),
        ("ab", "", "plan 1.4, 1 taken back", "cdefgh"),
        ("ah", "", "plan 1.8, 1 taken back", "bcdefg"),
        ("abe", "", "plan 1.7, 2 taken back", "cdfgh"),
        ("abcdefgh", "", "float32", ""),
        ("ab", "cdefgh", "float32", ""),  # what is left keeps the loss, and is slower
    ],
)
def test_what_fails_is_taken_back_and_nothing_is_slower(culprits: str, slower: str, result: str, rest: str) -> None:
    found = ran(Stub(culprits, slower))
    best = found.best()
    assert (best.name, lower(best.plan)) == (result, rest)
    assert all(best.seconds <= trial.seconds for trial in found.trials if not trial.complaint)
    assert len({trial.name for trial in found.trials}) == len(found.trials)


def test_one_culprit_costs_runs_by_its_logarithm() -> None:
    found = ran(Stub("ab"))
    failed = [trial for trial in found.trials if trial.complaint]
    assert [len(trial.runs) for trial in failed] == [3, 1]  # the built-in policy; then one seed shows it
    assert [*map(len, (found.trials, found.program.runs))] == [5, 6 + 1 + 3 + 3 + 27]  # type: ignore[attr-defined]


def test_a_plan_under_which_the_program_raises_is_taken_back() -> None:
    found = ran(Stub(raises="b"))
    assert found.best().name == "plan 1.4, 1 taken back"
    assert {trial.complaint for trial in found.trials if trial.complaint} == {
        "it raised RuntimeError: expected scalar type Float"
    }


def test_what_the_program_raises_in_float32_is_raised() -> None:
    class Raising(Stub):
        def run(self, *_: object) -> None:  # type: ignore[override]
            raise RuntimeError("no such file")

    with pytest.raises(RuntimeError, match="no such file"):
        ran(Raising())


def test_a_loss_that_is_not_finite_in_float32_is_an_error() -> None:
    class Infinite(Stub):
        def run(self, plan: Plan, seed: int, steps: int | None = None) -> object:  # type: ignore[override]  # noqa: ARG002
            return super().run(plan, seed)._replace(losses=(float("nan"),))

    message = "the loss of seed 0 is nan at step 0 in float32, so there is no curve to compare with; mend the program"
    with pytest.raises(ValueError, match=message):
        ran(Infinite())


def test_a_loss_that_is_not_finite_with_a_later_seed_is_an_error() -> None:
    class Late(Stub):
        def run(self, plan: Plan, seed: int, steps: int | None = None) -> object:  # type: ignore[override]  # noqa: ARG002
            return super().run(plan, seed)._replace(losses=(1.0, float("nan") if seed == 1 else 1.0))

    with pytest.raises(ValueError, match="the loss of seed 1 is nan at step 1 in float32, so there is no curve"):
        ran(Late())


@pytest.mark.parametrize(("at", "result"), [(2, "float32"), (7, "built-in"), (9, "built-in"), (11, "plan 1")])
def test_ctrl_c_keeps_the_best_that_is_proved(at: int, result: str) -> None:
    found = ran(Stub(slower="a" if at == 11 else "", interrupt_at=at))
    assert found.stopped == proving.INTERRUPTED
    assert (found.best().name, len(found.program.runs)) == (result, at)  # type: ignore[attr-defined]


def test_ctrl_c_before_anything_is_proved_ends_the_program() -> None:
    with pytest.raises(KeyboardInterrupt):
        ran(Stub(interrupt_at=1))


@pytest.mark.parametrize(("budget", "runs"), [(0.5, 1), (3.5, 3), (100.0, 6 + 3 + 27)])
def test_no_run_of_the_search_begins_after_its_share_of_the_budget(
    budget: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run takes a second. Three quarters of the budget are for the search."""
    now = [0.0]
    monkeypatch.setattr(proving, "perf_counter", lambda: now[0])

    class Slow(Stub):
        def run(self, plan: Plan, seed: int, steps: int | None = None) -> object:  # type: ignore[override]  # noqa: ARG002
            now[0] += 1
            return super().run(plan, seed)

    found = ran(Slow(), budget=budget)
    assert len(found.program.runs) == runs  # type: ignore[attr-defined]
    assert found.stopped == ("" if budget == 100 else proving.SPENT)
    assert not found.best().complaint
    assert not any(trial.complaint.startswith("it raised") for trial in found.trials)


def test_a_plan_wins_only_by_more_than_the_noise() -> None:
    found = ran(Stub(slower="a"))
    bold, built_in = found.best(), found.built_in
    bold.rounds = [0.5, 0.5, 1.1, 1.1] * 2
    built_in.rounds = [1.0] * 8
    found.float32.rounds = [2.0] * 8
    assert bold.ratios(built_in) == pytest.approx((0.5, 0.8, 1.1))
    assert found.best() is built_in
    bold.rounds = [0.5, 0.5, 0.9, 0.9] * 2
    assert found.best() is bold
