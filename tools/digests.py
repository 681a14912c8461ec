"""Print the sha256 of results of this interpreter as JSON: golden sets, compiled shards, logits.

    python tools/digests.py FOLDER

Files are written below FOLDER. Runs on any interpreter that has NumPy, numba and refemu on its path.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from refemu import golden, models
from refemu.golden.campaign import plan

SETS = ["ovp_decoder", "olive_mac", "fp16_mac", "bfp_pe", "orizuru", "index_norm", "kv_quantizer"]
SHARDS = ["concat", "orizuru", "bfp_aligner", "kv_quantizer"]
ROWS = 2048


def main() -> None:
    folder = Path(sys.argv[1])
    golden.generate(folder / "sets", units=SETS, kinds=["paper", "edge", "random"])
    plan.run(plan.request(ROWS, units_=SHARDS), folder / "campaign")
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    logits = models.run("tiny", list(range(8)), scheme="fp16").logits
    found["logits of tiny"] = hashlib.sha256(logits.astype(np.dtype("<f4")).tobytes()).hexdigest()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
