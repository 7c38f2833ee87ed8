"""The command line of the generator: `python -m codegen`."""

import shlex
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from importlib import import_module
from pathlib import Path

from . import find_grammar

if __name__ == "__main__":
    find_grammar()
try:
    from polycast._grammar.errors import PolicyError, did_you_mean

    from .devices import BACKEND_KEY
    from .parse import read_policy
    from .render import render
    from .schemas import Schemas
    from .standalone import TEMPLATES, render_standalone
    from .write import differences, differences_of, write, write_single
except ModuleNotFoundError as error:
    # The wheel of torch contains torchgen and the operator schemas.
    sys.exit(f"error: codegen needs '{error.name}', which is not installed. Run: pip install torch jinja2 pyyaml")

ROOT = Path(__file__).parent.parent
POLICY = ROOT / "policy.yaml"
NAME = "python -m codegen"

DESCRIPTION = """\
Turn policy.yaml into the files of generated/.

With --backend and --standalone these are files for a backend outside of torch, which need torch alone: FILE.cpp
registers the rules of one device of the policy by the macros of ATen/autocast_mode.h, FILE.py tests them on the device,
and FILE.md lists them."""
EPILOG = f"""\
A backend that is no device of the policy is described in a file of its own, as in policy.yaml, perhaps with more ops:

  devices:
    mine:
      dispatch_key: AutocastPrivateUse1
      lower_precision: [bfloat16, float16]
      like: privateuse1
      backend: github.com/me/torch_mine
      except: {{fp32: [prelu], unlisted: [cosh]}}
  ops:
    erf: {{cast: {{mine: fp32}}, public: [torch.erf]}}

  {NAME} --backend mine.yaml --standalone AutoCastOps.cpp test_autocast.py autocast.md"""


def main(arguments: list[str] | None = None, torch: object = None) -> int:
    """Run the command and return its exit status. If torch is given, the public names of ops are looked up in it."""
    parser = ArgumentParser(
        prog=NAME, description=DESCRIPTION, epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail with a diff where a file is stale")
    parser.add_argument("--policy", type=Path, default=POLICY, help=f"the policy to read, instead of {POLICY}")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "generated", help="the folder to write; it holds no other files"
    )
    parser.add_argument("--backend", metavar="DEVICE", help="a device of the policy, or a file that describes one")
    parser.add_argument(
        "--standalone",
        metavar="FILE",
        type=Path,
        nargs="+",
        help="the files to write for the backend, by their suffixes",
    )
    options = parser.parse_args(arguments)
    try:
        if options.backend or options.standalone:
            return run_standalone(parser, options, torch)
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
    files = render(read_policy(policy, name, schemas))
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


def run_standalone(parser: ArgumentParser, options: Namespace, torch: object) -> int:
    """Write the files of one backend, or compare them, and return the exit status."""
    if not (options.backend and options.standalone):
        parser.error("give both --backend DEVICE and --standalone FILE")
    for path in options.standalone:
        if path.suffix not in TEMPLATES:
            parser.error(f"--standalone takes files that end in {', '.join(TEMPLATES)}; '{path}' does not")
    described = Path(options.backend) if options.backend.endswith((".yaml", ".yml")) else None
    name = POLICY.name if options.policy == POLICY else str(options.policy)
    if described and torch is None:
        torch = import_module("torch")  # the public names of its ops are looked up there
    policy = read_policy(options.policy, name, Schemas.installed(torch), described)
    wanted = policy.devices[-1].name if described else options.backend
    outside = {device.name: device for device in policy.devices if device.dispatch_key == BACKEND_KEY}
    known = {name: device for name, device in outside.items() if device.backend is not None}
    if wanted not in known:
        among = {device.name for device in policy.devices}
        what = "is no backend outside of torch" if wanted in among else "is unknown"
        what = "stands for every backend without rules of its own" if wanted in outside else what
        parser.error(f"the device '{wanted}' {what}; {did_you_mean(wanted, known)}")
    own = [] if options.policy == POLICY else ["--policy", str(options.policy)]
    chosen = [*own, "--backend", options.backend]
    files = render_standalone(policy, known[wanted], options.standalone, chosen)
    if not options.check:
        written = write_single(files)
        print(f"{', '.join(map(str, written))} written" if written else "up to date")
        return 0
    diff = differences_of(files)
    if diff:
        command = [*chosen, "--standalone", *map(str, options.standalone)]
        print(f"{diff}\nThe files do not match the policy. Run: {NAME} {shlex.join(command)}", file=sys.stderr)
    return 1 if diff else 0


if __name__ == "__main__":
    sys.exit(main())
