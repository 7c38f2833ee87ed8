"""The command line of the generator: `python -m codegen`."""

import shlex
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping
from pathlib import Path

try:
    from .parse import read_policy
    from .render import render
    from .schemas import Schemas
    from .standalone import render_standalone
    from .write import changes, differences, write
    from .yaml_nodes import PolicyError, did_you_mean
except ModuleNotFoundError as error:
    # PyTorch's wheel contains torchgen and the operator schemas.
    sys.exit(f"error: codegen needs '{error.name}', which is not installed. Run: pip install torch jinja2 pyyaml")

ROOT = Path(__file__).parent.parent
POLICY = ROOT / "policy.yaml"
NAME = "python -m codegen"

DESCRIPTION = """\
Generate the files of generated/ from policy.yaml.

With --backend and --standalone, generate one C++ file for a backend outside of PyTorch instead. It needs PyTorch only,
and registers the rules of one device with the macros of ATen/autocast_mode.h. If policy.yaml does not have the device,
add it to a copy of policy.yaml, and pass the copy with --policy."""

EPILOG = """\
exit status:
  0  the files are up to date, or were written
  1  the policy has problems, a package is missing, a file cannot be read or written, or --check found a difference
  2  an option is unknown, has a wrong value, or needs another option"""


def main(arguments: list[str] | None = None, torch: object = None) -> int:
    """Run the command and return its exit status.

    Args:
        arguments: The words of the command line; None for `sys.argv[1:]`.
        torch: The `torch` module, if the caller has imported it, to check the public names of ops.
    """
    parser = ArgumentParser(
        prog=NAME, description=DESCRIPTION, epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; print a diff of the files that are out of date"
    )
    parser.add_argument("--policy", type=Path, default=POLICY, help="read this policy (default: policy.yaml)")
    parser.add_argument(
        "--output",
        type=Path,
        default=ROOT / "generated",
        help="write to this folder, and remove its other generated files (default: generated/)",
    )
    parser.add_argument(
        "--backend", metavar="DEVICE", help="generate a file for this device, which has the key 'backend' in the policy"
    )
    parser.add_argument("--standalone", metavar="FILE", type=Path, help="write the backend's C++ file to this path")
    options = parser.parse_args(arguments)
    if bool(options.backend) != bool(options.standalone):
        parser.error("arguments --backend and --standalone: expected both or neither, got one; add the other one")
    name = options.policy.name if options.policy.parent == ROOT else str(options.policy)
    try:
        policy = read_policy(options.policy, name, Schemas.installed(torch))
        if options.backend is None:
            files = {options.output / path: text for path, text in render(policy).items()}
            return put(
                files, options.output, f"{options.output.name}/ does not match {name}. Run: {NAME}", options.check
            )
        devices = {device.name: device for device in policy.devices if device.backend is not None}
        if options.backend not in devices:
            what = f"expected a device of {name} with the key 'backend', got '{options.backend}'"
            parser.error(f"argument --backend: {what}; {did_you_mean(options.backend, devices)}")
        own = [] if options.policy == POLICY else ["--policy", str(options.policy)]
        chosen = [*own, "--backend", options.backend]
        text = render_standalone(policy, devices[options.backend], options.standalone, chosen)
        command = shlex.join([*chosen, "--standalone", str(options.standalone)])
        stale = f"{options.standalone} does not match the policy. Run: {NAME} {command}"
        return put({options.standalone: text}, None, stale, options.check)
    except PolicyError as error:
        count = len(error.problems)
        print(f"{error}\n{count} problem{'s' if count > 1 else ''}; nothing was written.", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename or options.output}: {error.strerror}; nothing was written.", file=sys.stderr)
    return 1


def put(files: Mapping[Path, str], folder: Path | None, stale: str, check: bool) -> int:
    """Write the files, or with `check` only compare them, and return the exit status."""
    changed = changes(files, folder)
    if check:
        if changed:
            print(f"{differences(changed, folder)}\n{stale}", file=sys.stderr)
        return 1 if changed else 0
    write(changed)
    done: dict[str, list[str]] = {"written": [], "removed": []}
    for path, text in changed.items():
        done["removed" if text is None else "written"].append(str(path.relative_to(folder) if folder else path))
    parts = [f"{', '.join(names)} {verb}" for verb, names in done.items() if names]
    print(("" if folder is None else f"{folder.name}/: ") + ("; ".join(parts) or "up to date"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
