"""What each torch release does to each op inside of autocast: recorded from its wheel, and checked against it.

    python -m tools.history record 2.12.1   # writes history/torch-2.12.yaml; probes the release before it, too
    python -m tools.history check 2.12.1    # probes the wheel again beside what is recorded
    python -m tools.history schemas         # writes the overloads of all releases in history/, as `record` does, too

Environments are made in build/history/ from the package index, minutes and 5 GB each, and removed; --keep keeps them.
"""

import argparse
import json
import re
import sys
from typing import Any

from polycast._grammar.errors import PolicyError
from polycast._grammar.names import join_name
from polycast._grammar.releases import number_of, read_releases

from tests.support.progress import progress
from tools.history import schemas
from tools.history.environments import FOLDER, ROOT, native_functions, probed, python_of
from tools.history.files import text_of

HISTORY = ROOT / "history"
_VERSION = re.compile(r"\d+\.\d+\.\d+", re.ASCII)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.history", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("record", "check", "schemas"))
    parser.add_argument("versions", nargs="*", help="releases such as 2.12.1, the oldest first")
    parser.add_argument("--keep", action="store_true", help="keep the environments that are made")
    options = parser.parse_args(arguments)
    if options.command == "schemas" and not options.versions:
        return _record_schemas()
    wrong = [version for version in options.versions if not _VERSION.fullmatch(version)]
    if wrong or not options.versions:
        given = f"was given '{wrong[0]}'" if wrong else "was given none"
        sys.exit(f"error: {options.command} takes releases, as in: {options.command} 2.12.1; it {given}")
    found = {version: _found(version, options.keep) for version in progress(options.versions, "releases")}
    return _record(found, options.keep) if options.command == "record" else _check(found)


def _found(version: str, keep: bool) -> dict[str, Any]:
    with python_of(version, keep) as python:
        found = probed(python)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{version}.json").write_text(json.dumps(found), encoding="utf-8")
    return found


def _record(found: dict[str, dict[str, Any]], keep: bool) -> int:
    history = read_releases(HISTORY)
    probes = {_name(version): part for version, part in found.items()}
    for name in list(probes):
        names = sorted({*history, *probes}, key=number_of)
        index = names.index(name)
        before = None if index == 0 else (names[index - 1], _before(names[index - 1], probes, history, keep))
        text = text_of(probes[name], before, history[name].reasons if name in history else {})
        (HISTORY / f"{name}.yaml").write_text(text, encoding="utf-8")
        print(f"history/{name}.yaml: {text.count(chr(10))} lines")
        history = read_releases(HISTORY)
    return _record_schemas()


def _record_schemas() -> int:
    versions = [record.packages["torch"].split("+")[0] for record in read_releases(HISTORY).values()]
    releases = {number_of(_name(version)): schemas.facts_of(native_functions(version)) for version in versions}
    text = schemas.text_of(releases)
    (HISTORY / "schemas.txt").write_text(text, encoding="utf-8")
    print(f"history/schemas.txt: {text.count(chr(10))} lines, of {len(releases)} releases")
    return 0


def _before(name: str, probes: dict[str, dict[str, Any]], history: dict[str, Any], keep: bool) -> dict[str, Any]:
    """Return what is found in the release before one; the wheel is asked where it is not at hand."""
    if name not in probes:
        version = history[name].packages["torch"].split("+")[0]
        kept = FOLDER / f"{version}.json"
        probes[name] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else _found(version, keep)
    return probes[name]


def _check(found: dict[str, dict[str, Any]]) -> int:
    history, status = read_releases(HISTORY), 0
    for version, part in found.items():
        record = history.get(_name(version))
        if record is None:
            print(f"torch {version}: not recorded; run: python -m tools.history record {version}")
            status = 1
            continue
        seen = {(device, name): held for device, names in part["devices"].items() for name, held in names.items()}
        wanted = {(device, join_name(op, overload)): held for (op, overload, device), held in record.rules.items()}
        lines = [
            f"  {name} on {device}: recorded {wanted.get((device, name))}, the wheel {seen.get((device, name))}"
            for device, name in sorted({*seen, *wanted})
            if seen.get((device, name)) != wanted.get((device, name))
        ]
        print(f"torch {version}: {len(seen)} rules on {len(part['devices'])} devices, {len(lines)} not as recorded")
        print("".join(f"{line}\n" for line in lines), end="")
        status |= bool(lines)
    return status


def _name(version: str) -> str:
    return f"torch-{'.'.join(version.split('.')[:2])}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PolicyError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
