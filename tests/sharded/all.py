"""All checks, and one process of a world of two that runs them: python -m tests.sharded.all FOLDER RANK."""

import json
import sys
import traceback
from pathlib import Path

import torch

from tests.sharded import clipping, collectives, lone, optimizers, programs, scaler, state
from tests.support.sharded.world import CHECKS, Check, distributed, join

__all__ = ["CHECKS", "clipping", "collectives", "lone", "optimizers", "programs", "scaler", "state"]


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


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
