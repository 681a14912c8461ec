"""Compiled form of harmonia_core_clocked: every product by compiled harmonia_core, then looked up by clock.

[harmonia §IV-A, Fig. 12]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refemu.units.cycle_accurate import HELD
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.harmonia.bfp_pe_array import ROWS
from refemu.units.harmonia.harmonia_core import PARTS, Event, HarmoniaCore, Timeline, scheduled
from refemu.units.harmonia.harmonia_core import compiled as harmonia_core_compiled
from refemu.units.harmonia.harmonia_core_clocked.harmonia_core_clocked import UNIT, HarmoniaCoreClocked

Named = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Clocks:
    """What depends on no values: one row for each clock."""

    ended: np.ndarray  #: int64 (clocks,): events so far
    working: np.ndarray  #: uint8 (clocks, parts)
    leaving: np.ndarray  #: int64 (clocks, 3): first row, column, rows of the column that leaves; 0 rows: none leaves
    groups: np.ndarray  #: int64 (clocks, lanes): exponent numbers of the column that leaves
    there: Named  #: int64 (M, K) by event: first clock with its words in the temporary SRAM
    chosen: int  #: first clock with `offset`


@compiled_run(UNIT)
def run(device: HarmoniaCoreClocked, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Every product of every device."""
    core = device.core
    ports = {port.name: array for port, array in zip(device.ports.inputs, inputs, strict=True)}
    go = ports.pop("go")
    known: dict[bytes, Clocks] = {}
    taken: list[tuple[int, int, int, Clocks]] = []  # device, first row, row after the last, clocks
    for number in range(len(go)):
        row = 0
        for first in np.flatnonzero(go[number]).tolist():
            if first < row:
                continue
            clocks = _clocks(device, {name: array[number, first] for name, array in ports.items()}, known)
            row = first + len(clocks.ended)
            taken.append((number, first, row, clocks))
    places = [each[0] for each in taken], [each[1] for each in taken]
    operands = {port.name: ports[port.name][places].reshape(len(taken), port.count) for port in core.ports.inputs}
    values = _values(core, operands) if taken else {}
    shown = dict(zip((port.name for port in device.ports.outputs + device.ports.state), outputs, strict=True))
    for output in shown.values():
        output[:] = 0
    lengths = go.shape[1]
    counts = np.zeros(3, np.int64)
    for place, (number, first, end, clocks) in enumerate(taken):
        last = place + 1 == len(taken) or taken[place + 1][0] != number
        until = lengths if last else taken[place + 1][1]
        rows = {name: output[number, first:until] for name, output in shown.items()}
        clock = np.minimum(np.arange(until - first), end - first - 1)
        some = {name: each[place] for name, each in values.items()}
        _fill(core, rows, clock, end - first, clocks, {name: each[place] for name, each in operands.items()}, some)
        counts += min(end, lengths) - first, clocks.ended[clock[-1]], end <= lengths
    return [int(count) for count in counts]


def _values(core: HarmoniaCore, operands: Named) -> dict[str, np.ndarray]:
    """By product: words after every event that writes them, codes, offsets."""
    words, offset, _ = harmonia_core_compiled.stages(core, operands)
    final = np.ascontiguousarray([*words.values()][-1], np.uint16)
    codes = harmonia_core_compiled.encoded(core, 0 * final if core.kind == "final" else final)
    named = dict(zip(("sign", "mantissa", "exponent"), codes, strict=True))
    return {**words, **named, "final": final, "offsets": offset}


def _fill(
    core: HarmoniaCore, rows: Named, clock: np.ndarray, length: int, clocks: Clocks, operands: Named, some: Named
) -> None:
    """Rows of one product, from its first clock to the last before the next product. clock: clock of each row."""
    under_way = np.arange(len(clock)) < length
    rows["phase"][:], rows["busy"][:], rows["valid"][:] = clock, clock < length - 1, under_way & (clock == length - 1)
    rows["working"][under_way] = clocks.working[clock[under_way]]
    for name, array in operands.items():
        held = rows[f"{name}{HELD}"]
        held[:] = array.reshape(held.shape[1:])
    words = np.zeros((len(clock), core.rows, core.columns), np.uint16)
    for event, there in clocks.there.items():
        words = np.where(clock[:, None, None] + 1 >= there, some[event], words)
    rows["y"][:] = words.reshape(rows["y"].shape)
    if "offset" in rows:
        offset = np.where((clock + 1 >= clocks.chosen)[:, None], some["offsets"], 0)
        rows["offset"][:] = offset.reshape(rows["offset"].shape)
    leaving = clocks.leaving[clock] * under_way[:, None]
    rows["row"][:], rows["column"][:] = leaving[:, 0], leaving[:, 1]
    sent = rows["sent"].reshape(len(clock), -1)
    height = sent.shape[1]
    lanes = np.arange(height) < leaving[:, 2:]
    place = np.minimum(leaving[:, :1] + np.arange(height), core.rows - 1), leaving[:, 1:2]
    exponents = some["exponent"].reshape(-1)[clocks.groups[clock]]
    columns = {"sent": lanes, "word": some["final"][place], "exponent": exponents}
    columns |= {name: some[name].reshape(core.rows, core.columns)[place] for name in ("sign", "mantissa")}
    for name, values in columns.items():
        rows[name][:] = (values * lanes).reshape(rows[name].shape)


def _clocks(device: HarmoniaCoreClocked, product: Named, known: dict[bytes, Clocks]) -> Clocks:
    """Clocks of a product, computed once for products with the same codes at the same positions."""
    core = device.core
    wide = np.atleast_1d(product.get("wide", np.zeros(0, np.uint8)))
    inside = np.count_nonzero(harmonia_core_compiled.positions(core, product) < core.window) if core.waits else 0
    key = wide.tobytes() + bytes([int(inside)])
    if key not in known:
        by_row = wide.reshape(core.rows, -1)
        events = list(harmonia_core_compiled.events(core, by_row, int(inside)))
        known[key] = _placed(core, events, device.timeline(), int(inside))
    return known[key]


def _placed(core: HarmoniaCore, events: Sequence[Event], timeline: Timeline, tracked: int) -> Clocks:
    """Clocks of events, from a timeline at clock 0.

    tracked: rows that choose the offsets, which change after the last of these rows.
    """
    planned = scheduled(core, events, timeline)
    ends = {number: clock for clock, number in planned.ends}
    writers = [name for name in ("fp2half", "bias", "vector", "offset") if any(e.action.event == name for e in events)]
    if core.bias_add == "accumulator" and "bias" in writers:
        writers.remove("bias")
    there = {name: np.zeros((core.rows, core.columns), np.int64) for name in writers}
    chosen = planned.length + 1
    for number, event in enumerate(events):
        action = event.action
        name, top, bottom = action.event, action.row, action.row + action.rows
        if name not in there:
            continue
        if name == "offset" and bottom >= tracked:
            chosen = min(chosen, ends[number])
            top = 0 if top < tracked else top
        elif name == "offset":
            continue
        there[name][top:bottom, action.column : action.column + action.columns] = ends[number]
    clock = np.arange(planned.length)
    leaving = np.zeros((planned.length, 3), np.int64)
    groups = np.zeros((planned.length, min(ROWS, core.rows)), np.int64)
    for at, column in planned.leaving.items():
        leaving[at] = column[:3]
        groups[at, : column.rows] = column.groups
    working = np.zeros((planned.length, len(PARTS)), np.uint8)
    for span in planned.spans:
        if span.part in PARTS:
            working[span.start : span.end, PARTS.index(span.part)] = 1
    ended = np.searchsorted(np.array([end for end, _ in planned.ends]), clock + 1, side="right")
    return Clocks(ended, working, leaving, groups, there, chosen)
