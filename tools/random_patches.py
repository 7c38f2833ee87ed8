"""Random rules, as dicts and as files: `python -m tools.random_patches 2000` says how many are valid."""

import pickle
import re
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml
from polycast import Policy, policy
from polycast._compiled import DEVICES, DEVICES_LIKE, NAMES, ROWS
from polycast.policy import operators
from polycast.policy.operators import ATEN
from polycast.policy.policy import PolicyError
from polycast.policy.rows import VALUES
from tqdm import tqdm

from polycast_grammar.categories import FUNCTIONAL, Category
from tools.mutations import CHARACTERS, MUTATIONS

OPERATORS = sorted(torch._C._dispatch_get_all_op_names())
BASE = sorted({row.op for row in ROWS})
PUBLIC = sorted({name for names, _ in NAMES for name in names.split()})
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
# Values and keys that have no form in a policy.
STRANGE: list[object] = [None, 3, 0.5, True, b"fp32", object(), {1}, print, torch.ones(1), float("nan"), (), [], {}, ""]
STRANGE += [
    "\ud800",
    "\x07",
    "fp\n32",
    "é",
    "a" * 9999,
    "::",
    "aten::",
    "torch.",
    "torch.ops.",
    ".",
    "mv.",
    "aten::mv.x.y",
]


def operator(random: Random) -> str:
    """Return a name of an operator, most often one that has the name."""
    name = random.choice(random.choice((BASE, BASE, BASE, PUBLIC, OPERATORS)))
    if "::" in name:
        spelled = name.replace("::", ".", 1)
        name = random.choice((name, name, name.partition(".")[0], f"torch.ops.{spelled}", name.removeprefix("aten::")))
    return _misspelt(random, name) if random.random() < 0.05 else name


def value(random: Random, depth: int = 0) -> object:
    """Return what a rule may give an op, or something like it."""
    if random.random() < 0.01:
        return random.choice(STRANGE)
    form = random.choice(("category", "category", "devices", "cast", "alternatives")) if depth < 3 else "category"
    if form == "devices":
        names: list[object] = [*DEVICES, "others", torch.device("cuda", 1), torch.device("meta")]
        weights = [*(3 for _ in range(len(DEVICES) + 1)), 1, 0.1]
        keys = random.choices(names, weights, k=random.randrange(1, 5))
        return {key: value(random, depth + random.choice((1, 1, 1, 0))) for key in keys}
    if form == "cast":
        cast: dict[object, object] = {"as": value(random, 3)}
        extras: dict[str, object] = {
            "torch": random.choice((">=2.9", "<2.9", ">=2.0,<3.0", "soon")),
            "note": random.choice(("Why.", "".join(random.choices(CHARACTERS, k=8)))),
            "overloads": random.choice((["default"], ["int", "Tensor"], "default", ["Tensor_Scalar"])),
        }
        return cast | {key: part for key, part in extras.items() if random.random() < 0.25}
    if form == "alternatives":
        return random.choice((list, tuple))(value(random, 3) for _ in range(random.randrange(1, 4)))
    name: str = random.choice([*VALUES, *["fp32", "lower_precision_fp", "bfloat16"] * 4])
    return random.choice((name, name, name, _misspelt(random, name) if random.random() < 0.1 else name, *DTYPES))


def rules(random: Random) -> dict[Any, object]:
    """Return a few rules; at times one with an impossible key, or one that holds itself."""
    found: dict[Any, object] = {operator(random): value(random) for _ in range(random.randrange(1, 4))}
    if random.random() < 0.03:
        found[random.choice([part for part in STRANGE if isinstance(part, Hashable)])] = value(random)
    if random.random() < 0.01:
        found["softmax"] = {"cuda": found}
    return found


def check(made: Callable[[], Policy], place: str, folder: Path) -> bool:
    """Return whether rules are valid; assert that they come to rows that fit, or that each problem has its place."""
    try:
        patch = made()
    except PolicyError as error:
        assert error.problems
        for problem in error.problems:
            assert re.fullmatch(rf"{place}: error: \S.*; \S.*", str(problem)), problem
            assert str(problem).isprintable(), problem
        return False
    for row in patch.rows():
        signature = operators.signatures(row.name)[row.overload]
        target = operators.Target(row.name, row.overload)
        assert signature.variant == FUNCTIONAL and signature.tensors, row
        assert operators.obstacle(target, signature, VALUES[row.value][0]) is None, row
        assert row.column in DEVICES and (row.dtype is None or hasattr(torch, row.dtype)), row
        assert bool(row.message) == (row.category == Category.BANNED.value), row
    held = {row.key for row in patch.rows()}
    kept = {(ATEN + row.op, row.overload, row.device) for row in ROWS if row.category == Category.STOCK.value}
    like = {(*key, column) for *key, other in held for column in DEVICES if DEVICES_LIKE[column] == other}
    assert like <= held | kept, patch
    patch.save(folder / "saved.yaml")
    others = (Policy(patch.rules), Policy.load(folder / "saved.yaml"), pickle.loads(pickle.dumps(patch)), patch | patch)
    assert all(other == patch for other in others), patch
    assert patch.diff(others[0]) == "" and str(patch) and policy.resolved(patch, device="cpu")
    return True


def as_file(random: Random, given: dict[Any, object]) -> str | None:
    """Return the rules as the text of a file, at times a damaged one; None where no file can hold them."""
    try:
        text = yaml.safe_dump(
            {"ops": _plain(given)}, sort_keys=False, default_flow_style=random.choice((None, True, False))
        )
    except (yaml.YAMLError, RecursionError, TypeError):
        return None
    for mutation in random.choices(MUTATIONS, k=random.choice((0, 0, 1, 2))):
        text = mutation(random, text)
    return text


def check_patches(folder: Path, seeds: Iterable[int]) -> Counter[tuple[str, bool]]:
    """Check these rules, as a dict and as a file; return how many are valid and how many not."""
    verdicts: Counter[tuple[str, bool]] = Counter()
    path = folder / "mine.yaml"
    at = rf"{re.escape(str(path))}:\d+:\d+"
    for seed in seeds:
        random = Random(seed)
        given = rules(random)
        try:
            verdicts["dict", check(partial(Policy, given), "Policy: .+", folder)] += 1
            text = as_file(random, given)
            if text is not None:
                path.write_bytes(text.encode(errors="surrogatepass"))
                verdicts["file", check(partial(Policy.load, path), at, folder)] += 1
        except Exception as error:
            raise AssertionError(f"rules(Random({seed})): {given!r:.500}") from error
    return verdicts


def _plain(part: object) -> object:
    """Return what a file can hold of a value."""
    if isinstance(part, dict):
        return {_plain(key): _plain(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_plain(value) for value in part]
    return str(part).removeprefix("torch.") if isinstance(part, torch.dtype | torch.device) else part


def _misspelt(random: Random, name: str) -> str:
    at = random.randrange(len(name))
    return name[:at] + random.choice(("", "x", "_", ".", "::")) + name[at + random.randrange(2) :]


def main(count: int) -> None:
    """Check that many rules and print what they were."""
    with TemporaryDirectory() as folder:
        verdicts = check_patches(Path(folder), tqdm(range(count), "patches", leave=False))
    for form in ("dict", "file"):
        print(f"{form}: {verdicts[form, True]} valid, {verdicts[form, False]} with errors")


if __name__ == "__main__":
    main(int(sys.argv[1]))
