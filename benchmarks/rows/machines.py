"""The machines on a block of a model: a prompt, or under schemes whose next step differs that step; a server."""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.commands import REFEMU, output
from benchmarks.pairs import AnyRow, absolute, size
from benchmarks.rows import model

SECONDS = 60.0  #: by the goals
REQUESTS, SERVED_IN = 100, 10.0  #: of `refemu simulate`


class Machine(NamedTuple):
    """The work of a row. small: the scheme for the model `tiny`."""

    scheme: str
    tokens: int
    phase: str
    small: str


MACHINES = {
    "OLIVE-MACHINE": Machine("olive-4", 16, "prompt", "olive-4"),
    "HARMONIA-MACHINE": Machine("harmonia-kv4", 192, "decode", "harmonia-kv4"),
    "LEANKV-MACHINE": Machine("leankv", 192, "decode", model.NARROW),
    "KLLM-MACHINE": Machine("kllm-a4", 16, "prompt", "kllm-a4"),
}


def machine(id: str) -> Sequence[AnyRow]:
    """The command from its start, preparation included: block 0, every result compared with the scheme's."""
    one = MACHINES[id]
    if absent := model.missing(id):
        return absent
    name, tokens = model.name(), size(one.tokens, 4)
    what = f"refemu machine: {name}, {one.scheme}, block 0, {tokens} tokens, {one.phase}"
    words = [*REFEMU, "machine", "--model", name, "--scheme", size(one.scheme, one.small), "--tokens", str(tokens)]

    def command() -> str:
        return output([*words, "--json", "--phase", one.phase], (0, 1))

    return [absolute(id, what, f"goal: {SECONDS:g} s", SECONDS, command, equal, count=1, clock=time.perf_counter)]


def equal(report: str) -> bool:
    """Whether the phase has operations, none of which differs."""
    operations = json.loads(report)["operations"]
    return bool(operations) and not any(operation["differing"] for operation in operations)


def served() -> Sequence[AnyRow]:
    """`refemu simulate` from its start; every request ends and every page is free again."""
    requests = size(REQUESTS, 2)
    what = f"refemu simulate: Llama-2-7B on one L40, {requests} requests, 1/s"
    words = [*REFEMU, "simulate", "--shape", "llama-2-7b", "--gpu", "l40", "--rate", "1", "--requests", str(requests)]

    def right(report: str) -> bool:
        found = json.loads(report)
        return found["requests"]["finished"] == requests and not found["pages"]["leaked"]

    def command() -> str:
        return output([*words, "--json"])

    goal = f"goal: {SERVED_IN:g} s"
    return [absolute("SIMULATE", what, goal, SERVED_IN, command, right, count=3, clock=time.perf_counter)]


ROWS: dict[str, Callable[[], Sequence[AnyRow]]] = {id: partial(machine, id) for id in MACHINES} | {"SIMULATE": served}
