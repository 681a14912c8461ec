"""The schedule of a block as trace events, which Perfetto and chrome://tracing open: a track for every resource."""

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
    tracks = [MEMORY]
    for each in line:
        tracks += [name for name in each.work.busy if name not in tracks]
    named: list[dict[str, Any]] = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": system.name}}]
    for number, name in enumerate(tracks):
        named += [{"ph": "M", "pid": 0, "tid": number, "name": "thread_name", "args": {"name": name}}]
        named += [{"ph": "M", "pid": 0, "tid": number, "name": "thread_sort_index", "args": {"sort_index": number}}]
    shown = []
    for each in line:
        for name, start, cycles in spans(each):
            arguments = {"kind": each.work.kind, "cycles": cycles, "start": each.start, "end": each.end}
            if name == MEMORY:
                arguments |= each.work.bytes
            row = {"ph": "X", "pid": 0, "tid": tracks.index(name), "ts": start, "dur": cycles, "cat": each.work.kind}
            shown.append({**row, "name": each.work.name, "args": arguments})
    return {"displayTimeUnit": "ns", "traceEvents": named + shown, "otherData": {"cycle": "1 us of the trace"}}


def spans(each: Placed) -> list[tuple[str, int, int]]:
    """Resource, first cycle and busy cycles of every resource of an operation.

    An engine's busy cycles are drawn from the operation's start; between start and end they may be spread.
    """
    port = [(MEMORY, each.port, each.transfer)] if each.transfer else []
    return port + [(name, each.start, cycles) for name, cycles in each.work.busy.items() if cycles]
