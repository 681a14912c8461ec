"""Table of the diagnoses of devices made by hand.

python -m tests.golden.explain.score <paper> [word [skip]]
"""

import importlib
import itertools
import sys
import time

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.explain.diagnosis import Diagnosis
from tests.golden.explain.collection import outcome_of, rated


def said(result: Diagnosis) -> list[str]:
    """The first two explanations, parts joined."""
    return [
        " + ".join("/".join((part.id, *part.equivalent)) + f" ({part.detail})" for part in story)
        for story in result.stories[:2]
    ]


def main(paper: str, word: str = "", skip: str = "0") -> None:
    """Print a line for every device of a paper whose text has a word, after the first few."""
    module = importlib.import_module(f"tests.golden.explain.devices_{paper}")
    for device in itertools.islice(module.devices(), int(skip), None):
        if word not in str(device):
            continue
        start = time.perf_counter()
        try:
            result = outcome_of(device)
        except (Refused, RefusedType) as refusal:
            print(f"MISS | {device} | REFUSED {refusal}", flush=True)
            continue
        seconds = time.perf_counter() - start
        truth = " + ".join("|".join(sorted(ids)) for ids in device.truth) or "nothing"
        outcome = rated(device, result) if result else "NO DEVICE"
        good = outcome == "right" or (outcome == "silent" and not device.truth)
        texts = " ;; ".join(said(result)) if result else ""
        print(f"{'ok  ' if good else 'MISS'} | {device} | {truth} | {outcome} | {texts} | {seconds:.1f}s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
