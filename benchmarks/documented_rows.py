"""Counts the rows of the documents' op lists that hold, with polycast's kernels and with stock torch's, in one run.

python benchmarks/documented_rows.py
"""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import polycast
from tqdm import tqdm

from testing.probe import HAS_XLA, NO_XLA, device_type, kernels_of
from testing.samples.documented import ROWS, Row, check


def main() -> None:
    """Print for each device how many rows hold under either, and which do not."""
    rows = [row for row in ROWS if HAS_XLA or device_type(row.device) != "xla"]
    if len(rows) < len(ROWS):
        print(f"{len(ROWS) - len(rows)} rows left out: {NO_XLA}.")
    broken: dict[str, list[Row]] = {"polycast": [], "stock": []}
    polycast.uninstall()
    for row in tqdm(rows, unit="row", disable=None):
        if not holds(row):
            broken["stock"].append(row)
        with kernels_of(row.device):
            if not holds(row):
                broken["polycast"].append(row)
    for name, failed in broken.items():
        print(f"{name}: {len(rows) - len(failed)} of {len(rows)} rows hold")
        counts = Counter((row.device, row.name) for row in failed)
        for device in dict.fromkeys(row.device for row in failed):
            names = [f"{op} (x{count})" if count > 1 else op for (on, op), count in counts.items() if on == device]
            print(f"  not on {device}: {', '.join(names)}")


def holds(row: Row) -> bool:
    """Whether a row keeps its promise; a call that raises does not."""
    try:
        check(row)
    except Exception:  # whatever it raises, it does not do what the document says
        return False
    return True


if __name__ == "__main__":
    main()
