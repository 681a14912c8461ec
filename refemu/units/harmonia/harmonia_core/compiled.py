"""Compiled form of harmonia_core: each step once for all products, by whole matrices. [harmonia §IV-A]

Rows that see the same codes are multiplied together, as 8-bit codes. Counters are summed along the plan.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from refemu.arith import fp16, fp16_compiled, integers
from refemu.formats.harmonia.bfp import Bfp
from refemu.formats.harmonia.compiled import bfp as bfp_compiled
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.harmonia.bfp_accumulator import M8M8
from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS
from refemu.units.harmonia.bfp_pe_array import compiled as bfp_pe_array_compiled
from refemu.units.harmonia.harmonia_core import UNIT, HarmoniaCore
from refemu.units.harmonia.harmonia_core.passes import wide_units
from refemu.units.harmonia.harmonia_core.plan import HEADS, LANES, plan, vector_width
from refemu.units.harmonia.harmonia_core.timeline import Event
from refemu.units.harmonia.harmonia_core.vector_unit import biased, vector
from refemu.units.harmonia.k_offset import compiled as k_offset_compiled

Named = Mapping[str, np.ndarray]


@compiled_run(UNIT)
def run(core: HarmoniaCore, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all products."""
    operands = {
        port.name: array.reshape(len(array), port.count) for port, array in zip(core.ports.inputs, inputs, strict=True)
    }
    words, offset, tracked = _words(core, operands)
    codes = encoded(core, 0 * words if core.kind == "final" else words)
    costs = array_costs(core, operands.get("wide", np.zeros((len(words), 0), np.uint8)))
    answers = dict(zip(("sign", "mantissa", "exponent"), codes, strict=True))
    answers |= {"y": words, "offset": offset, "array_cycles": costs[:, 2], "array_words": costs[:, 1]}
    for port, output in zip(core.ports.outputs, outputs, strict=True):
        output[:] = answers[port.name].reshape(output.shape)
    return totals(core, costs, tracked)


def _words(core: HarmoniaCore, operands: Named) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """C of every product in FP16, (products, M, K), before its conversion; offsets of rows; rows that chose them."""
    by_event, offset, tracked = stages(core, operands)
    return np.ascontiguousarray([*by_event.values()][-1], np.uint16), offset, tracked


def stages(core: HarmoniaCore, operands: Named) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """C by event that writes the temporary SRAM, in order; offsets of rows; rows that chose them."""
    shape = core.shape
    sums = _sums(core, operands)
    if core.bias_add == "accumulator":
        bias = fp16.to_f32(fp16.values(operands["bias"]))
        sums = (sums.view(np.float32) + bias[:, None]).view(np.uint32)
    words = fp16.bits(fp16_compiled.to_f16(sums.view(np.float32)))
    by_event = {"fp2half": words}
    if core.bias_add == "after":
        by_event["bias"] = words = biased(words, operands["bias"])
    places = positions(core, operands)
    if vector_width(shape):
        by_event["vector"] = words = vector(shape, core.base, words, places).astype(np.uint16, copy=False)
    inside = np.broadcast_to(np.count_nonzero(places < core.window, axis=-1), (len(words),))
    tracked = inside if core.waits else 0 * inside
    offset = operands.get("frozen", np.zeros((len(words), shape.columns), np.uint16)).copy()
    for count in np.unique(tracked[tracked > 0]).tolist():
        some = tracked == count
        offset[some] = k_offset_compiled.select(core.offsets, words[some][:, :count])[0]
    if shape.shifted:
        by_event["offset"] = k_offset_compiled.shift(words, offset[:, None])
    return by_event, offset, tracked


def positions(core: HarmoniaCore, operands: Named) -> np.ndarray:
    """Positions of the rows: (products, M) from the port, else (M,)."""
    if core.positions == "port":
        return np.asarray(operands["position"].astype(np.int64))
    return core.start + np.arange(core.rows)


def _sums(core: HarmoniaCore, operands: Named) -> np.ndarray:
    """Words of float32 (products, M, K) that leave the array."""
    shape, groups = core.shape, core.groups
    a = [
        operands[name].reshape(-1, shape.rows, width)
        for name, width in (("a_sign", shape.inner), ("a_mag", shape.inner), ("a_exp", groups))
    ]
    b = [
        operands[name].reshape(-1, shape.columns, width)
        for name, width in (("b", shape.inner), ("b_sign", shape.inner), ("b_exp", groups), ("w_scale", groups))
    ]
    modes = np.full((len(a[0]), groups), core.mode, np.uint8)
    if core.b_type != "mixed":
        return bfp_pe_array_compiled.tile_sums(core.array.accumulator, modes, *a, *b)[0]
    sums = np.empty((*a[0].shape[:2], shape.columns), np.uint32)
    units = wide_units(core.kind, shape.columns, groups)
    for i, wide in enumerate(operands["wide"].reshape(-1, shape.rows, units)):
        kinds, kind = np.unique(wide, axis=0, return_inverse=True)
        for number, codes in enumerate(kinds):
            rows, some = kind.ravel() == number, np.s_[i : i + 1]
            left, (mantissa, *right) = [part[some, rows] for part in a], [part[some] for part in b]
            seen = mantissa & np.where(_by_code(core, codes) == 1, 0xFF, 0xF0).astype(mantissa.dtype)
            fields = [*left, seen, *right]
            sums[i, rows] = bfp_pe_array_compiled.tile_sums(core.array.accumulator, modes[some], *fields)[0][0]
    return sums


def _by_code(core: HarmoniaCore, codes: np.ndarray) -> np.ndarray:
    """Lanes of `wide` for a row, one for every code of B."""
    return codes[:, None] if core.kind == "score" else np.repeat(codes, LANES)[: core.inner]


def encoded(core: HarmoniaCore, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signs, mantissas and exponents of C; groups of queries and keys end with their heads."""
    width = core.shape.head_dim
    heads = words.reshape(*words.shape[:2], core.shape.columns // width, width) if core.kind in HEADS else words
    code = bfp_compiled.encode(Bfp(core.m), heads, -2 if core.kind == "v" else -1, bits=True)
    return code.sign, code.mantissa, code.exponent


def array_costs(core: HarmoniaCore, wide: np.ndarray) -> np.ndarray:
    """Passes, nibble planes, cycles and MACs in mode M8M8 of the array of every product: int64 (products, 4).

    wide: the port, (products, lanes); without lanes where it is missing.
    """
    shape, groups = core.shape, core.groups
    down, across = -(-shape.rows // ROWS), -(-shape.columns // COLUMNS)
    if core.b_type != "mixed":
        double = core.mode == M8M8
        slots, macs = groups * (1 + double), double * LANES * groups * shape.rows * shape.columns
        costs = [down * across, down * shape.columns * slots, down * across * (slots + COLUMNS - 1), macs]
        return np.tile(costs, (len(wide), 1))
    lanes = wide.reshape(len(wide), shape.rows, wide_units(core.kind, shape.columns, groups))
    return np.array([_mixed(core, rows, core.columns) for rows in lanes.astype(np.bool_)], np.int64).reshape(-1, 4)


def _mixed(core: HarmoniaCore, wide: np.ndarray, columns: int) -> np.ndarray:
    """Costs of some rows and columns of a product, which see codes of both widths: (rows, columns or groups)."""
    score, costs = core.kind == "score", np.zeros(4, np.int64)
    parts = range(0, columns, COLUMNS) if score else [0]
    for top in range(0, len(wide), ROWS):
        for left in parts:
            seen = wide[top : top + ROWS, left : left + COLUMNS] if score else wide[top : top + ROWS]
            costs += _tile(seen, core.groups, score, columns, core.codes == "rows")
    return costs


def _tile(seen: np.ndarray, groups: int, score: bool, columns: int, rows: bool) -> np.ndarray:
    """Costs of 8 rows and 16 columns; for values, whose codes do not depend on the column, of all columns at once."""
    distinct, members = np.unique(seen, axis=0, return_counts=True)
    sets: np.ndarray = seen if rows else distinct
    tiles, width = (1, seen.shape[1]) if score else (-(-columns // COLUMNS), columns)
    planes = (sets.size + np.count_nonzero(sets)) * (groups if score else columns)
    together = np.asarray(sets.any(axis=0, keepdims=True)) if rows else sets
    double = groups * together.any(axis=1) if score else np.count_nonzero(together, axis=1)
    cycles = int(integers.total(groups + double + COLUMNS - 1))
    macs = LANES * width * int(integers.total(double * (len(seen) if rows else members)))
    return np.array([tiles * len(together), planes, tiles * cycles, macs], np.int64)


def events(core: HarmoniaCore, wide: np.ndarray, tracked: int | None = None) -> Iterator[Event]:
    """The events of one product for a `Timeline`, from its sizes alone; wide: the port, (rows, units), or empty.

    tracked: rows that choose the offsets; None: rows from `start` on.
    """
    for action in core.plan if tracked is None else plan(core.shape._replace(tracked=tracked)):
        if action.event != "compute":
            yield Event(action)
        elif core.b_type != "mixed":
            slots = core.groups * (1 + (core.mode == M8M8))
            yield Event(action, action.number * (slots + COLUMNS - 1), action.number)
        else:
            rows = wide[action.row : action.row + action.rows].astype(np.bool_)
            score = core.kind == "score"
            seen = rows[:, action.column : action.column + action.columns] if score else rows
            passes, _, cycles, _ = _mixed(core, seen, action.columns)
            yield Event(action, int(cycles), int(passes), _slots(core, seen, action.columns))


def _slots(core: HarmoniaCore, wide: np.ndarray, columns: int) -> tuple[int, ...]:
    """Clocks in which each pass over a block enters, in the order of the passes."""
    score, slots = core.kind == "score", list[int]()
    for top in range(0, len(wide), ROWS):
        for left in range(0, columns, COLUMNS):
            seen = wide[top : top + ROWS, left : left + COLUMNS] if score else wide[top : top + ROWS]
            sets: list[np.ndarray] = [*{row.tobytes(): row for row in seen}.values()]
            if core.codes == "rows":
                sets = [np.asarray(seen.any(axis=0))]
            slots += [
                core.groups + (core.groups * int(each.any()) if score else int(np.count_nonzero(each))) for each in sets
            ]
    return tuple(slots)


def totals(core: HarmoniaCore, costs: np.ndarray, tracked: np.ndarray) -> tuple[int, ...]:
    """Counters of products in the order of the unit: sums along the plan, and the work of every pass and token.

    costs: as `array_costs` gives them. tracked: rows of each product that chose offsets.
    """
    shape, rule, count = core.shape, core.offsets, len(costs)
    by_event = dict.fromkeys(("load", "fp2half", "bias", "store"), 0)
    for action in core.plan:
        if action.event in by_event:
            by_event[action.event] += action.number
    adds = core.groups * shape.rows * shape.columns
    passes, planes, cycles, wide = (int(integers.total(column)) for column in costs.T)
    work = passes * core.groups, planes, passes, cycles, count * LANES * adds, wide, count * adds
    columns = count * by_event["fp2half"], count * by_event["bias"]
    chosen = int(integers.total(tracked)) * rule.channels
    chosen += rule.chosen * (rule.scope - 1) * int(np.count_nonzero(tracked))
    keys = chosen, count * rule.chosen * shape.rows * shape.shifted
    converted = (count * each for each in conversions(core))
    return (count * by_event["load"], *work, *columns, *converted, *keys, count * by_event["store"])


def counted(core: HarmoniaCore, wide: np.ndarray) -> dict[str, int]:
    """Counters of products by name, from their sizes alone.

    wide: the port, (products, lanes); without lanes where it is missing. Rows have consecutive positions.
    """
    tracked = np.full(len(wide), core.shape.tracked * core.waits)
    return dict(zip(core.counters, totals(core, array_costs(core, wide), tracked), strict=True))


def conversions(core: HarmoniaCore) -> tuple[int, int, int]:
    """Cycles of the converter that compare and that align, and comparisons, of a product."""
    v, clocks, comparisons = core.kind == "v", 0, 0
    for high, wide, tall in _converted(core):
        clocks += COLUMNS * high if v else wide
        comparisons += 8 * high * wide if v else tall * wide
    return clocks, clocks, comparisons


def _converted(core: HarmoniaCore) -> Iterator[tuple[int, int, int]]:
    for action in core.plan:
        if action.event == "convert":
            yield -(-action.rows // ROWS), action.columns, action.rows
