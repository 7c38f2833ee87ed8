"""One process of a world of two: python -m tests.sharded FOLDER RANK."""

import json
import sys
import traceback
from pathlib import Path

import torch

from tests.sharded.all import CHECKS
from tests.sharded.world import Check, distributed, join


def outcome(check: Check) -> str:
    try:
        check()
    except Exception:
        return traceback.format_exc()
    return ""


def main(folder: Path, rank: int) -> None:
    torch.set_num_threads(1)
    join(folder, rank, size=2)
    results = {name: outcome(check) for name, check in CHECKS.items()}
    (folder / f"rank{rank}.json").write_text(json.dumps(results))
    distributed.barrier()
    distributed.destroy_process_group()


main(Path(sys.argv[1]), int(sys.argv[2]))
