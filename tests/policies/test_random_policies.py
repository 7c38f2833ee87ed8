"""Rules of any form, valid and broken: they come to rows that fit, or each problem names its place."""

import re
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import event, given
from polycast import Policy

from tests.policies.random_policies import check, files, rules
from tests.support.properties import examples


@given(given_rules=rules())
@examples(60)
def test_rules_as_a_dict(tmp_path: Path, given_rules: dict[Any, object]) -> None:
    event("valid" if check(partial(Policy, given_rules), "Policy: .+", tmp_path) else "has problems")


@given(content=files())
@examples(60)
def test_rules_as_a_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    event(
        "valid" if check(partial(Policy.load, path), rf"{re.escape(str(path))}:\d+:\d+", tmp_path) else "has problems"
    )
