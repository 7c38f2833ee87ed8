"""The command line: `python -m codegen` writes generated/, `python -m codegen --check` compares it."""

import argparse
import sys
from pathlib import Path

from codegen import find_grammar

if __name__ == "__main__":
    find_grammar()
try:
    from polycast._grammar.errors import PolicyError

    from codegen.parse import read_policy
    from codegen.render import render
    from codegen.schemas import Schemas
    from codegen.write import differences, write
except ModuleNotFoundError as error:
    # The wheel of torch contains torchgen and the operator schemas.
    sys.exit(f"error: codegen needs '{error.name}', which is not installed. Run: pip install torch jinja2 pyyaml")

ROOT = Path(__file__).parent.parent


def main(arguments: list[str] | None = None, torch: object = None) -> int:
    """Run the command and return its exit status. If torch is given, the public names of ops are looked up in it."""
    parser = argparse.ArgumentParser(
        prog="python -m codegen", description="Turn policy.yaml into the files of generated/."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail with a diff where generated/ is stale"
    )
    parser.add_argument("--policy", type=Path, default=ROOT / "policy.yaml", help="the policy to read")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "generated", help="the folder to write; it holds no other files"
    )
    options = parser.parse_args(arguments)
    try:
        return run(options.policy, options.output, torch, check=options.check)
    except PolicyError as error:
        count = len(error.problems)
        print(f"{error}\n{count} problem{'s' if count > 1 else ''}; nothing was written.", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename or options.output}: {error.strerror}; nothing was written.", file=sys.stderr)
    except KeyboardInterrupt:
        print("Interrupted; the files are either all old or all new.", file=sys.stderr)
        return 130
    return 1


def run(policy: Path, output: Path, torch: object, *, check: bool) -> int:
    """Write the files, or compare them, and return the exit status."""
    name = policy.name if policy.parent == ROOT else str(policy)
    schemas = Schemas.installed(torch)
    files = render(read_policy(policy, name, schemas), schemas.history)
    if not check:
        written, removed = write(files, output)
        changes = [(written, "written"), (removed, "removed")]
        done = "; ".join(f"{', '.join(names)} {verb}" for names, verb in changes if names)
        print(f"{output.name}/: {done or 'up to date'}")
        return 0
    diff = differences(files, output)
    if diff:
        print(f"{diff}\n{output.name}/ does not match {name}. Run: python -m codegen", file=sys.stderr)
    return 1 if diff else 0


if __name__ == "__main__":
    sys.exit(main())
