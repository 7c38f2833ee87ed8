"""A user's command, run in a process of its own under a policy."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from polycast.policy.policy import Policy
from polycast.scope.process import ENVIRONMENT_POLICY

_PATIENCE = 5.0  # seconds that a process has to end by itself


class Outcome(NamedTuple):
    """How a command ended."""

    status: int
    """As shells have it: 0 to 127 by itself, 128 and the number of the signal that killed it."""
    seconds: float


def run(command: Sequence[str], policy: Policy, output: str | os.PathLike[str]) -> Outcome:
    """Run a command under a policy, which POLYCAST_POLICY names in its environment.

    Ctrl-C, SIGTERM and a closed terminal end the command's process group, and raise KeyboardInterrupt. No process can
    handle SIGKILL: it ends this one, and leaves the command running. The standard input of the command is empty.

    Args:
        command: The program and its arguments. No shell reads them.
        policy: The policy.
        output: A file for what the command writes on its standard output and standard error. It is replaced.

    Raises:
        ValueError: There is no such command, or it cannot be executed.
        OSError: The file cannot be written.

    Example:
        >>> import polycast
        >>> run(["sh", "-c", "echo $POLYCAST_POLICY; exit 3"], polycast.Policy("fp32"), "/dev/null").status
        3
    """
    with TemporaryDirectory(prefix="polycast-") as folder, Path(output).open("wb") as kept, _interruptible():
        rules = Path(folder, "rules.yaml")
        policy.save(rules)
        variables = {**os.environ, ENVIRONMENT_POLICY: str(rules)}
        start = time.perf_counter()
        process = _started(command, variables, kept.fileno())
        try:
            process.wait()
            seconds = time.perf_counter() - start
        except BaseException:
            _end(process)
            raise
        number = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Outcome(number, seconds)


def last_lines(output: str | os.PathLike[str], count: int = 10) -> list[str]:
    """Return the last lines of a file, from its last 10 kB."""
    with Path(output).open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 10_000))
        return file.read().decode(errors="replace").splitlines()[-count:]


def _started(command: Sequence[str], environment: dict[str, str], output: int) -> Any:
    try:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except OSError as error:
        remedy = f"; to run a script: python {command[0]}" if Path(command[0]).is_file() else ""
        raise ValueError(f"'{command[0]}' cannot be run: {(error.strerror or str(error)).lower()}{remedy}") from None


def _end(process: Any) -> None:
    """End the process group of a command: first as its programs can handle it, then at once."""
    try:
        _signal_all(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
    finally:
        _signal_all(process, signal.SIGKILL)
        process.wait()


def _signal_all(process: Any, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # none is left
        os.killpg(process.pid, number)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for the signals that would end this process and leave the command behind."""
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    if threading.current_thread() is not threading.main_thread():  # which alone handles signals
        numbers = []
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
