"""The machines of Harmonia and LeanKV on a block of a model: a prompt, then the step behind it."""

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.commands import REFEMU
from benchmarks.pairs import Absent, Row, absolute
from refemu.models.fetch import store

MODEL, TOKENS, SECONDS = "smollm2-135m", 192, 60.0  #: by the goals
PHASES = ("prompt", "decode")
SCHEMES = {"HARMONIA-MACHINE": "harmonia-kv4", "LEANKV-MACHINE": "leankv"}


def machine(id: str) -> list[Row | Absent]:
    """Both commands from their start, preparation included: block 0, every result compared with the scheme's."""
    scheme = SCHEMES[id]
    what = f"refemu machine: {MODEL}, {scheme}, block 0, {TOKENS} tokens, prompt and step"
    if store.path(MODEL) is None:
        return [Absent(id, what, f"no model: refemu models fetch {MODEL}")]
    words = [*REFEMU, "machine", "--model", MODEL, "--scheme", scheme, "--tokens", str(TOKENS), "--json"]

    def commands() -> list[str]:
        return [subprocess.run([*words, "--phase", phase], capture_output=True, text=True).stdout for phase in PHASES]

    goal, clock = f"goal: {SECONDS:g} s", time.perf_counter
    return [absolute(id, what, goal, SECONDS, commands, equal, count=1, clock=clock)]


def equal(outputs: Sequence[str]) -> bool:
    """Whether both phases have operations, none of which differs."""
    reports = [json.loads(output)["operations"] if output else [] for output in outputs]
    differ = [operation["differing"] for operations in reports for operation in operations]
    return all(reports) and not any(differ)


ROWS: dict[str, Callable[[], list[Row | Absent]]] = {id: partial(machine, id) for id in SCHEMES}
