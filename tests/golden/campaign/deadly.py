"""A program with a campaign of two workers, one shard of which kills its worker.

A program, because tests that share a process with it would end with it if it died too.
"""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refemu.arith.checks import Refused
from refemu.golden.campaign import plan
from refemu.golden.campaign.shards import RandomShard, Shard
from tests.golden.campaign.campaigns import UNITS, Deadly, Rigged

ROOT = Path(__file__).parents[3]


def campaign(out: Path, deadly: int, times: int) -> dict[str, Any]:
    """Messages and result of a campaign into `out` whose shard number `deadly` kills some workers."""
    command = [sys.executable, "-m", __name__, str(out), str(deadly), str(times)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, f"the campaign ended with {ended.returncode}: {ended.stderr}"
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def main(words: Sequence[str]) -> None:
    out, deadly, times = Path(words[0]), int(words[1]), int(words[2])
    marks = out.with_name("marks")
    marks.mkdir()

    def exchanged(index: int, shard: RandomShard) -> Shard:
        if index != deadly:
            return shard
        return Deadly(**dataclasses.asdict(shard), marks=str(marks), times=times)

    plan.ROWS = 1 << 12
    answer: dict[str, Any] = {"told": [], "outcome": None, "refused": ""}
    rigged = Rigged(plan.request(3 << 12, units_=UNITS), exchanged)
    try:
        answer["outcome"] = dataclasses.asdict(plan.run(rigged, out, workers=2, notice=answer["told"].append))
    except Refused as error:
        answer["refused"] = str(error)
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
