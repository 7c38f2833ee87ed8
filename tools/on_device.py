"""Takes from a device all that it can show in ten minutes, into two files: `make gpu`.

    make gpu                                      # on the accelerator that torch finds, with the torch of this machine
    make gpu DEVICE=cpu TORCH=2.9.0               # on another device, in another environment of the Makefile
    python -m tools.on_device --device cuda       # the same as the first

The parts are the build, the tests that run on real devices, `polycast verify`, and the benchmarks. Each has a share of
the time, and what it leaves goes to those after it. A part that fails, or that runs out of time, does not stop the
others. A JSON file and a Markdown file say what each part found, how long it took, and what was not run. They lie in
build/on_device/ beside the output of each part. Ctrl-C ends the part that runs and all after it, and leaves both files.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any
from xml.etree import ElementTree

import torch

ROOT = Path(__file__).parent.parent
GRACE = 15  # seconds that a part has after its time, to say what it has found
BYTES_PER_COMPILER = 2 * 10**9
SHOWN = 60  # lines of what a part prints, and names of tests that fail, in the page
STREAMS = ("copy", "triad")


@dataclass
class Part:
    """A command, its share of the seconds, and what came of it; `found` is what the file says that it leaves."""

    name: str
    share: int
    command: list[str]
    file: Path | None = None
    outcome: str = "not run"
    seconds: float = 0.0
    found: Any = None

    @property
    def log(self) -> str:
        """The name of the file that the command's output goes to."""
        return f"{stem(self.name)}.log"


def stem(name: str) -> str:
    """Return the name that the files of a part have, without what follows the dot."""
    return name.replace(" ", "-").replace(",", "")


def parts(device: str, environment: str, out: Path) -> list[Part]:
    """Return the parts, which write into the folder."""

    def python(name: str, share: int, module: str, *options: str) -> Part:
        """Return the part that runs a module with the option --json."""
        file = out / f"{stem(name)}.json"
        return Part(name, share, [sys.executable, "-m", *module.split(), *options, "--json", str(file)], file)

    processes = ["--numprocesses", "4", "--dist", "loadfile"] if find_spec("xdist") else []
    junit = out / "tests.xml"
    tests = ["-m", "pytest", "-q", *processes, "--real-devices", device, f"--junitxml={junit}"]
    found = [
        Part("build", 210, ["make", "build", f"TORCH={environment}"]),
        Part("tests", 150, [sys.executable, *tests], junit),
        python("verify", 125, "polycast verify", "--device", device),
    ]
    step, whole = ["benchmarks.optimizers", "--device", device], ["benchmarks.amp_step", "--device", device]
    if device == "xla":
        return [*found, python("AdamW", 115, *step, "--rounds", "12")]
    models = ["--workload", "64x1M", "resnet50", "gpt2", "4000x64", "--rounds", "12", "--best"]
    series = ["--workload", "1x64M", "64x1M", "1024x64k", "16384x4k", "--rounds", "6", "--best"]
    return [
        *found,
        python("AdamW", 35, *step, *models),
        python("unscale, clip, AdamW, update", 35, *whole, *models),
        python("AdamW by number of tensors", 20, *step, *series),
        python("AdamW over 1e9 parameters", 25, *step, "--workload", "1e9", "--rounds", "6", "--best"),
    ]


def read_tests(path: Path) -> dict[str, Any]:
    """Return the counts of a file that pytest wrote, the names of what failed, and how often each reason skipped."""
    cases = list(ElementTree.parse(path).iter("testcase"))
    failed, reasons = [], dict[str, int]()
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        if (skipped := case.find("skipped")) is not None:
            reason = skipped.get("message") or ""
            reasons[reason] = reasons.get(reason, 0) + 1
    passed = len(cases) - len(failed) - sum(reasons.values())
    return {"passed": passed, "failed": failed, "skipped": reasons}


def run(part: Part, seconds: float, out: Path) -> bool:
    """Run a part for so many seconds at most, and fill in what came of it. What it prints goes to its log.

    Return whether it ended by itself or by its time, and not by Ctrl-C.
    """
    if part.file:
        part.file.unlink(missing_ok=True)
    print(f"{part.name} (at most {seconds:.0f} s) ... ", end="", flush=True)
    start, late, stopped = perf_counter(), False, False
    with (out / part.log).open("wb") as output, (out / f"{part.log}.stderr").open("wb") as errors:
        process = subprocess.Popen(
            part.command,
            cwd=ROOT,
            stdout=output,
            stderr=errors,
            start_new_session=True,
            env={**os.environ, "MAX_JOBS": str(compilers()), "PYTHONUNBUFFERED": "1"},
        )
        try:
            for patience, sign in ((seconds, signal.SIGINT), (GRACE, signal.SIGKILL)):
                try:
                    process.wait(patience)
                    break
                except subprocess.TimeoutExpired:
                    late = True
                    os.killpg(process.pid, sign)
        except KeyboardInterrupt:  # the part has a session of its own, and does not get it
            stopped = True
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    part.seconds = perf_counter() - start
    ended = "passed" if process.returncode == 0 else f"failed with status {process.returncode}"
    part.outcome = "stopped" if stopped else "ran out of time" if late else ended
    with suppress(FileNotFoundError, ValueError, ElementTree.ParseError):  # there is none, or its writer was killed
        if part.file:
            part.found = (read_tests if part.file.suffix == ".xml" else read_json)(part.file)
    print(f"{part.outcome}, {part.seconds:.0f} s", flush=True)
    return not stopped


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def cores() -> int:
    """Return how many cores this process may use; macOS tells only how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu() -> str:
    """Return the model of the CPU, where Linux tells it, or else its architecture."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def compilers() -> int:
    """Return how many files are compiled at once: one on each core that memory allows."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(cores(), memory // BYTES_PER_COMPILER))


def device_here(asked: str | None) -> tuple[str, str]:
    """Return the device type that is meant, and what torch calls the device.

    Raises:
        ValueError: No tensor can be made on such a device here.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of missing drivers: the error says it
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        device = asked or (accelerator.type if accelerator else "")
        if not device:
            raise ValueError("torch finds no accelerator; make gpu DEVICE=cpu (--device cpu) takes the CPU")
        try:
            if device.partition(":")[0] == "xla":
                import torch_xla  # noqa: F401
            tensor = torch.ones(1, device=device)
            tensor.cpu()
        except Exception as error:  # of torch, of a driver, or of a package: any can say it in its own way
            finds = f"cpu and {accelerator.type}" if accelerator else "cpu"
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise ValueError(f"there is no {device} here, torch finds {finds}: {reason:.240}") from None
        name = ""
        with suppress(Exception):
            name = str(getattr(torch, tensor.device.type).get_device_name())
        return tensor.device.type, name


def look_up(asked: str | None) -> tuple[str, str]:
    """Return what `device_here` says in a process of its own, as some devices serve one process at a time."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        return other.submit(device_here, asked).result()


def facts(device: str, name: str) -> dict[str, str]:
    """Return what the figures were taken on."""
    commit = output_of("git", "rev-parse", "--short=12", "HEAD") or "unknown"
    return {
        "device": device,
        "name": name,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit + (", changed" if output_of("git", "status", "--porcelain") else ""),
        "host": f"{cores()} cores of {cpu()}, load {os.getloadavg()[0]:.1f}",
    }


def output_of(*command: str) -> str:
    """Return what a command prints; nothing if it fails."""
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def markdown(about: dict[str, str], done: Sequence[Part], total: float, out: Path) -> str:
    """Return the page: the outcome of each part, and what it found."""
    lines = [f"## polycast on {about['name'] or about['device']}", ""]
    lines += [", ".join(f"{key} {value}" for key, value in about.items() if value) + f"; {total:.0f} s in all.", ""]
    lines += ["| part | outcome | seconds |", "|---|---|---|"]
    lines += [f"| {part.name} | {summary(part)} | {part.seconds:.0f} |" for part in done]
    for part in done:
        shown: list[str] = []
        if isinstance(part.found, dict) and "rows" in part.found and "machine" in part.found:
            shown += [part.found["machine"], "", *figures(part.found["rows"])]
        elif part.name == "tests" and part.found:
            shown += cases(part.found)
        if part.outcome not in ("not run", "passed") or (part.name == "verify" and part.outcome == "passed"):
            printed = [*last_lines(out / part.log)]
            errors = [] if part.name == "verify" and printed else last_lines(out / f"{part.log}.stderr")
            shown += ["", "```text", *printed, *errors, "```"]
        if shown:
            lines += ["", f"### {part.name}", "", *(shown if shown[0] else shown[1:])]
    return "\n".join(lines) + "\n"


def cases(found: dict[str, Any]) -> Iterator[str]:
    """Yield the tests that failed, and how often each reason skipped one."""
    failed = found["failed"]
    yield from (f"- failed: `{name}`" for name in failed[:SHOWN])
    if len(failed) > SHOWN:
        yield f"- {len(failed) - SHOWN} more failed; the JSON file names them"
    for reason, count in sorted(found["skipped"].items(), key=lambda item: -item[1]):
        yield f"- {count} skipped: {' '.join(reason.split())}"


def last_lines(path: Path) -> Iterator[str]:
    """Yield the last lines of a file, after one that says how many were before them."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if len(lines) > SHOWN:
        yield f"... {len(lines) - SHOWN} lines before, in {path.name}"
    yield from lines[-SHOWN:]


def summary(part: Part) -> str:
    """Return the outcome of a part in a few words."""
    if part.name == "tests" and part.found:
        found = part.found
        skipped = sum(found["skipped"].values())
        counts = f"{found['passed']} passed, {len(found['failed'])} failed, {skipped} skipped"
        return counts if part.outcome in ("passed", "failed with status 1") else f"{part.outcome}: {counts}"
    return part.outcome


def figures(rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield a table of a benchmark: milliseconds, GB/s, and the ratio to torch's best with its middle half."""
    yield "| parameters | | ms | GB/s | times faster than torch's best (middle half) |"
    yield "|---|---|---|---|---|"
    for label, row in rows.items():
        for name, found in row.items():
            middle, low, high = found["faster"]
            faster = "" if name in STREAMS else f"{middle:.3g} ({low:.3g} to {high:.3g})"
            rate = found["gigabytes_per_second"]
            rate = "" if rate is None else f"{rate:.3g}"
            yield f"| {label} | {name} | {found['seconds'] * 1e3:.4g} | {rate} | {faster} |"


def main() -> int:
    """Run the parts and write both files; the exit status is 1 unless all passed, and 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="a device type of torch (default: the accelerator that torch finds)")
    parser.add_argument("--environment", default="installed", help="TORCH of the Makefile (default: installed)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "on_device", help="(default: build/on_device)")
    options = parser.parse_args()
    try:
        device, name = look_up(options.device)
    except (ValueError, BrokenProcessPool) as error:
        parser.exit(2, f"error: {error}\n")
    out: Path = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    every, about, start, share = parts(device, options.environment, out), facts(device, name), perf_counter(), 0
    goes_on = True
    for part in every:
        share += part.share
        if goes_on and (part is every[0] or every[0].outcome == "passed"):
            goes_on = run(part, share - (perf_counter() - start), out)
        total = perf_counter() - start
        data = {**about, "seconds": total, "parts": [asdict(part) for part in every]}
        (out / f"{device}.json").write_text(json.dumps(data, indent=1, default=str) + "\n", encoding="utf-8")
        (out / f"{device}.md").write_text(markdown(about, every, total, out), encoding="utf-8")
    print(f"{total:.0f} s. Saved {out / device}.json and {out / device}.md.")
    return 130 if not goes_on else int(any(part.outcome != "passed" for part in every))


if __name__ == "__main__":
    sys.exit(main())
