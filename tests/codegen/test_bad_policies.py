"""The problems that a policy can have. ``pytest --rewrite-errors`` rewrites their texts in ``bad_policies.txt``."""

import re
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from codegen.categories import UNLISTED, Category
from codegen.devices import DTYPES
from codegen.parse import read_policy
from codegen.render import render
from codegen.yaml_nodes import PolicyError
from tests.codegen.sample import EVERY_CATEGORY, EXCEPTIONS, POLICY, SCHEMAS, edited, problems, read
from tests.support.mutations import damaged
from tests.support.properties import examples
from tests.support.recorded_errors import RecordedError

TABLE = Path(__file__).with_name("bad_policies.txt")


def blocks() -> dict[str, str]:
    """Return the cases in ``bad_policies.txt``, by their names."""
    texts = TABLE.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    return {text.partition("\n")[0].removeprefix("# "): text for text in texts if text.startswith("# ")}


def policy_of(block: str) -> str:
    """Return the policy of a case: a whole file, or the small policy with a replacement or with added lines."""
    old, new, whole = ("\n".join(re.findall(rf"(?m)^[{sign}](.*)$", block)) for sign in "-+|")
    return f"{whole}\n" if whole else edited(old, new) if old else f"{POLICY}{new}\n"


# The small policy remains valid with each of these ops. Some have rules for releases with other schemas.
SOUND = {
    "nothing": "",
    "another older category": "turn: {cast: [{torch: '>=2.10', as: promote}, fp32], overloads: [by], public: [torch]}",
    "an overload of another release": "void: {cast: fp32, overloads: [{new: {torch: '>=2.10'}}], public: [torch.new]}",
    "a view that PyTorch itself casts": "unfold: {cast: {cpu: fp32}, public: [torch.unfold]}",
}


@pytest.mark.parametrize("op", SOUND.values(), ids=SOUND)
def test_a_valid_policy_has_no_problems(tmp_path: Path, op: str) -> None:
    assert problems(tmp_path, f"{POLICY}  {op}\n" if op else POLICY) == ""


@pytest.mark.parametrize("name", blocks())
def test_each_problem_of_a_policy_is_reported(name: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    block = blocks()[name]
    found = problems(tmp_path, policy_of(block))
    if pytestconfig.getoption("rewrite_errors"):
        given = "\n".join(line for line in block.splitlines() if not line.startswith("policy.yaml:"))
        TABLE.write_text(TABLE.read_text(encoding="utf-8").replace(block, f"{given}\n{found}"), encoding="utf-8")
    else:
        assert block.endswith(f"\n{found}") and found.count("\n") + 1 == block.count("\npolicy.yaml:")


def test_an_unreadable_release_is_reported_without_the_exceptions_of_devices(tmp_path: Path) -> None:
    text = edited("like: cuda}", "like: cuda, except: {unlisted: [fold]}}")
    text = text.replace("{cuda: promote}", "{cuda: {as: promote, torch: '2.12'}}")
    expected = "torch: expected a range of PyTorch releases, got '2.12'; write '>=2.10', '<2.13' or '>=2.10,<2.13'"
    assert problems(tmp_path, text) == f"policy.yaml:16:44: error: {expected}"


# Each function creates a file that `bad_policies.txt` cannot contain.
FILES: dict[str, Callable[[Path], object]] = {
    "missing": lambda _: None,
    "a folder": Path.mkdir,
    "empty": Path.touch,
    "a control character": lambda path: path.write_text("devices: é\u2028ops: é\x07\n", encoding="utf-8"),
    "not UTF-8": lambda path: path.write_bytes(b"devices:\n  caf\xe9: {}\n"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_a_policy_raises(name: str, tmp_path: Path, recorded_error: RecordedError) -> None:
    path = tmp_path / "policy.yaml"
    FILES[name](path)
    with recorded_error():
        read_policy(path, "policy.yaml", SCHEMAS)


def check(folder: Path, content: bytes) -> bool:
    """Return whether a policy is valid. Assert that a valid policy renders, and that each problem is well-formed."""
    try:
        policy = read(folder, content)
    except PolicyError as error:
        text = content.decode(errors="replace")
        # YAML breaks lines at these characters. The added empty line is for a problem at the end of the file.
        lines = [*re.split("\r\n|[\n\r\x85\u2028\u2029]", text), ""]
        assert error.problems
        for problem in error.problems:
            assert re.fullmatch(r"policy\.yaml:\d+:\d+: error: \S.*; \S.*", str(problem)), problem
            assert str(problem).isprintable(), problem
            assert 1 <= problem.location.line <= len(lines), problem
            assert 1 <= problem.location.column <= len(lines[problem.location.line - 1]) + 1, problem
        return False
    render(policy)
    for rule in policy.rules():
        names = (rule.op, rule.overload.name, rule.overload.dtype_overload or "default", rule.device)
        assert all(re.fullmatch(r"\w+", name, re.ASCII) for name in names), rule  # C++ requires such names.
    return True


TEXTS = [POLICY, EXCEPTIONS, EVERY_CATEGORY, *map(policy_of, blocks().values())]
WORDS = [*(category.value for category in Category), UNLISTED, "others", *DTYPES]


@given(content=st.sampled_from(TEXTS).flatmap(lambda text: damaged(text, WORDS)))
@examples(50)
def test_a_damaged_policy_is_valid_or_has_well_formed_problems(tmp_path: Path, content: bytes) -> None:
    start = perf_counter()
    event("valid" if check(tmp_path, content) else "has problems")
    assert perf_counter() - start < 60  # A run usually takes 0.1 s. Nested aliases once caused an endless run.
