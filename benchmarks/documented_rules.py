"""Counts the rules of the documents' op lists that hold, with polycast's kernels and with stock torch's, in one run.

python benchmarks/documented_rules.py
"""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import polycast
from polycast.backends import device_type_of

from tests.support.probe import HAS_XLA, NO_XLA, kernels_of
from tests.support.progress import progress
from tests.support.samples.documented import RULES, DocumentedRule, check


def main() -> None:
    """Print for each device how many rules hold under either, and which do not."""
    rules = [rule for rule in RULES if HAS_XLA or device_type_of(rule.device) != "xla"]
    if len(rules) < len(RULES):
        print(f"{len(RULES) - len(rules)} rules left out: {NO_XLA}.")
    broken: dict[str, list[DocumentedRule]] = {"polycast": [], "stock": []}
    polycast.uninstall()
    for rule in progress(rules, "rules"):
        if not holds(rule):
            broken["stock"].append(rule)
        with kernels_of(rule.device):
            if not holds(rule):
                broken["polycast"].append(rule)
    for name, failed in broken.items():
        print(f"{name}: {len(rules) - len(failed)} of {len(rules)} rules hold")
        counts = Counter((rule.device, rule.name) for rule in failed)
        for device in dict.fromkeys(rule.device for rule in failed):
            names = [f"{op} (x{count})" if count > 1 else op for (on, op), count in counts.items() if on == device]
            print(f"  not on {device}: {', '.join(names)}")


def holds(rule: DocumentedRule) -> bool:
    """Whether a rule keeps its promise; a call that raises does not."""
    try:
        check(rule)
    except Exception:  # whatever it raises, it does not do what the document says
        return False
    return True


if __name__ == "__main__":
    main()
