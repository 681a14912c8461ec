"""The schedule of a block as trace events, which Perfetto and chrome://tracing open: a track for every resource.

Complete events of one thread must nest, so uses of a resource at the same time have tracks of their own.
"""

from collections.abc import Sequence
from typing import Any

from refemu.models.machine.schedule import Placed
from refemu.models.machine.system import MEMORY, System


def events(line: Sequence[Placed], system: System) -> dict[str, Any]:
    """Trace events of a schedule; a cycle of the machine is one microsecond of the trace.

    Parameters
    ----------
    line : sequence of Placed
        Operations.
    system : System
        Machine.

    Returns
    -------
    dict
        JSON object in the Trace Event Format.
    """
    shown, tracks = [], _tracks(line)
    named: list[dict[str, Any]] = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": system.name}}]
    for number, (name, again) in enumerate(tracks):
        label = f"{name} {again + 1}" if again else name
        named += [{"ph": "M", "pid": 0, "tid": number, "name": "thread_name", "args": {"name": label}}]
        named += [{"ph": "M", "pid": 0, "tid": number, "name": "thread_sort_index", "args": {"sort_index": number}}]
        for each, start, cycles in tracks[name, again]:
            arguments = {"kind": each.work.kind, "cycles": cycles, "start": each.start, "end": each.end}
            if name == MEMORY:
                arguments |= each.work.bytes
            row = {"ph": "X", "pid": 0, "tid": number, "ts": start, "dur": cycles, "cat": each.work.kind}
            shown.append({**row, "name": each.work.name, "args": arguments})
    return {"displayTimeUnit": "ns", "traceEvents": named + shown, "otherData": {"cycle": "1 us of the trace"}}


def _tracks(line: Sequence[Placed]) -> dict[tuple[str, int], list[tuple[Placed, int, int]]]:
    """Uses of every resource, by resource and number of the track: first cycle and cycles."""
    uses: dict[str, list[tuple[Placed, int, int]]] = {MEMORY: []}
    for each in line:
        for name, start, cycles in spans(each):
            uses.setdefault(name, []).append((each, start, cycles))
    tracks: dict[tuple[str, int], list[tuple[Placed, int, int]]] = {(MEMORY, 0): []}
    for name, mine in uses.items():
        for use in sorted(mine, key=lambda use: use[1]):
            again = 0
            while any(start + cycles > use[1] for _, start, cycles in tracks.get((name, again), [])[-1:]):
                again += 1
            tracks.setdefault((name, again), []).append(use)
    return dict(sorted(tracks.items(), key=lambda item: (list(uses).index(item[0][0]), item[0][1])))


def spans(each: Placed) -> list[tuple[str, int, int]]:
    """Resource, first cycle and busy cycles of every resource of an operation.

    An engine's busy cycles are drawn from the operation's start; between start and end they may be spread.
    """
    port = [(MEMORY, each.port, each.transfer)] if each.transfer else []
    return port + [(name, each.start, cycles) for name, cycles in each.work.busy.items() if cycles]
