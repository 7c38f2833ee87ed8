"""The command ``polycast bisect``, which finds the rules that make a command fail."""

import shlex
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryFile

from polycast.debug.bisecting import BUILT_IN, Run, Search
from polycast.scope.process import ENVIRONMENT_POLICY

_ENDING = """
COMMAND must import polycast. It runs repeatedly under mixes of the GOOD and BAD policies. The search reads its exit
status as git bisect run does:
  0          good
  1 to 127   bad, except for 125
  125        cannot be tested
  above 127  ends the search, as does a signal that kills the command; to count both as bad: sh -c 'COMMAND || exit 1'

With --repeat N, rules are bad if any of N runs is bad. If the command fails in a share p of its runs, bad rules count
as good with a probability of (1 - p) ** N: 0.8 % for p = 1/3 and N = 12.

The search finds ops. The last line of its output is the call of polycast.debug.bisect that finds modules as well.

Exit status:
  0    the rules in FILE make the command good
  1    the last run shows that they do not
  2    wrong arguments, nothing to search for, a command that fails at random, or a status above 127
  130  interrupted by Ctrl-C"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.usage = "polycast bisect [OPTIONS] -- COMMAND..."
    parser.epilog = _ENDING
    policy = "policy: a category, a PyTorch release, a policy file, or built-in (default: %(default)s)"
    parser.add_argument("--good", help=f"set the good {policy}", default="fp32")
    parser.add_argument("--bad", help=f"set the bad {policy}", default=BUILT_IN)
    parser.add_argument("--repeat", type=int, metavar="N", default=1, help="run each test up to N times (default: 1)")
    output = "write the rules that make the command good to FILE (default: %(default)s)"
    parser.add_argument("--output", metavar="FILE", type=Path, default=Path("polycast-bisect.yaml"), help=output)
    parser.add_argument("command", nargs="+", metavar="COMMAND")


def run(options: Namespace) -> int:
    """Search for the rules, and return the exit status.

    Raises:
        ValueError: If an argument is wrong, or there is nothing to search for.
        OSError: If the command cannot be run, or the file cannot be written.
    """
    if options.output.is_dir() or not options.output.parent.is_dir():
        raise ValueError(f"--output: expected a file in an existing folder, got '{options.output}'; name another file")
    if not which(options.command[0]):
        raise ValueError(f"COMMAND: expected a program that can be run, got '{options.command[0]}'; check the name")
    found = Search(
        partial(_run, options.command),
        *(options.good, options.bad, options.repeat),
        lambda line: print(line, file=sys.stderr, flush=True),
    ).run()
    print(found)  # the output precedes the save, which can fail
    found.policy.save(options.output)
    output = str(options.output)
    words = f"{ENVIRONMENT_POLICY}={shlex.quote(output)} {shlex.join(options.command)}"
    print(f"The rules are in {output}. To apply them, run: {words}")
    arguments = f"good={output!r}, bad={options.bad!r}, repeat={options.repeat}, model=model"
    print(f"To find the modules as well, call polycast.debug.bisect(check, {arguments})")
    return 0 if found.proved else 1


def _run(command: list[str]) -> Run:
    """Run the command with an empty standard input, and return its status and its last lines."""
    with TemporaryFile() as output:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False).returncode
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()[-10:]
    status = status if status >= 0 else 128 - status
    return Run(status, "\n  ".join([f"status {status}" + ("; its last lines:" if lines else ""), *lines]))
