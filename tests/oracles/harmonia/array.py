"""Harmonia's clocked array by a schedule, not by registers that move [harmonia §IV-A, §IV-B, §IV-C].

When a group begins in a column follows from when it and its weights came and when the group before ends; what a
register holds after an edge is what was last put in it. Sums are exact, each rounding is one. Nothing of refemu.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tests.oracles import fp16
from tests.oracles.harmonia import units
from tests.oracles.harmonia.bfp import Group

W4, M4, M8 = range(3)
LANES = 32
NEVER = 10**9


class Entry(NamedTuple):
    """What enters column 0 in an edge: one group, or those of a pass."""

    edge: int
    mode: int
    clear: int
    last: int
    rows: frozenset[int]
    columns: frozenset[int]
    groups: int

    @property
    def per(self) -> int:
        """Cycles of a group: two in M8M8."""
        return 2 if self.mode == M8 else 1


class Work(NamedTuple):
    """An entry in a column: when it and its weights came, when its first and its last slot are."""

    entry: Entry
    came: int
    weights: int  #: edge
    begin: int
    end: int


class Column(NamedTuple):
    """What a column does."""

    taken: list[tuple[int, Entry]]  #: activations that came in
    weights: list[int]  #: edges whose weights came in
    works: list[Work]
    lost: list[int]  #: edges


def column(arrivals: Sequence[tuple[int, Entry]], weights: Sequence[int], number: int) -> Column:
    """The schedule of a column: its i-th group takes the i-th weights; both files hold one that waits."""
    found = Column([], [], [], [])
    free, end = -1, -1
    a, w = list(arrivals), list(weights)
    while True:
        waits, came = None, NEVER
        while a and waits is None:
            time, entry = a.pop(0)
            if time < free:
                found.lost.append(time)
                continue
            found.taken.append((time, entry))
            if number in entry.columns:
                waits, came = entry, time
        brought = NEVER
        while w and brought == NEVER:
            time = w.pop(0)
            if time < free:
                found.lost.append(time)
            else:
                brought = time
                found.weights.append(time)
        begin = max(came, brought, end) + 1
        if waits is None or brought == NEVER:
            if waits is not None:
                found.works.append(Work(waits, came, NEVER, NEVER, NEVER))
                found.lost.extend(time for time, _ in a)
            if brought != NEVER:
                found.lost.extend(w)
            return found
        end = begin + waits.groups * waits.per - 1
        found.works.append(Work(waits, came, brought, begin, end))
        free = begin


def columns_of(entries: Sequence[Entry], weights: Sequence[Sequence[int]]) -> list[Column]:
    """All columns: what one takes comes to the next an edge later, if its tile has a column there or beyond."""
    found: list[Column] = []
    arrivals = [(entry.edge, entry) for entry in entries]
    for number, each in enumerate(weights):
        found.append(column(arrivals, each, number))
        arrivals = [(time + 1, entry) for time, entry in found[-1].taken if max(entry.columns, default=-1) > number]
    return found


def held(columns: Sequence[Column], edge: int) -> bool:
    """Whether some column has a group after an edge: one that came in it, waits, or has slots left."""
    return any(
        any(time == edge for time, _ in each.taken)
        or any(work.came <= edge < work.begin or work.begin <= edge < work.end for work in each.works)
        for each in columns
    )


def seat(mode: int, slot: int) -> int:
    """The sub-PE of a slot of a pass: in M8M8 the wrappers take turns, high nibbles first."""
    return [0, 2, 1, 3][slot] if mode == M8 else slot


class Array:
    """One device over a list of edges. inputs: by port, lists over edges, lanes in lists."""

    def __init__(
        self,
        rows: int,
        columns: int,
        partial: str,
        product: str,
        activity: str,
        overlap: bool,
        inputs: Mapping[str, Sequence[Any]],
    ):
        self.rows, self.columns, self.product = rows, columns, product
        self.preset = "paper" if partial == "fp16" else "exact"
        self.parallel, self.width = activity == "parallel", 4 if activity == "parallel" else 1
        self.inputs = {name: [listed(value) for value in values] for name, values in inputs.items()}
        self.edges = len(self.inputs["mode"])
        valid = [[e for e in range(self.edges) if self.inputs["b_valid"][e][c]] for c in range(columns)]
        entries: list[Entry] = []
        self.blocked: list[int] = []
        for edge in range(self.edges):
            entry = self.entry(edge)
            if not entry.rows:
                continue
            if entry.clear and not overlap and held(columns_of(entries, valid), edge - 1):
                self.blocked.append(edge)
            else:
                entries.append(entry)
        self.work = columns_of(entries, valid)

    def entry(self, edge: int) -> Entry:
        """What is at the ports."""
        mode, clear, last = (self.inputs[name][edge][0] for name in ("mode", "clear", "last"))
        rows, columns = (
            frozenset(i for i, bit in enumerate(self.inputs[name][edge]) if bit) for name in ("a_valid", "col_valid")
        )
        return Entry(edge, mode, clear, last, rows, columns, self.inputs["groups"][edge][0] if self.parallel else 1)

    def lanes(self, name: str, edge: int, line: int, each: int = 1) -> list[int]:
        """The lanes of a row or column at a port: 0 before anything came."""
        count = self.width * each
        return self.inputs[name][edge][line * count : (line + 1) * count] if edge >= 0 else [0] * count

    def sums(self, work: Work, row: int, number: int, group: int) -> list[int]:
        """What the sub-PEs make of a group: one sum, or those of the high and low nibbles."""
        some = slice(group * LANES, (group + 1) * LANES)
        a = [self.lanes(name, work.entry.edge, row, LANES)[some] for name in ("a_sign", "a_mag")]
        b, signs = (self.lanes(name, work.weights, number, LANES)[some] for name in ("b", "b_sign"))
        if work.entry.mode == W4:
            codes = [code % 16 - 16 * (code % 16 // 8) for code in b]
            return [units.sub_pe(*a, [int(code < 0) for code in codes], [abs(code) for code in codes])]
        low = units.sub_pe(*a, signs, [code % 16 for code in b])
        return [low] if work.entry.mode == M4 else [units.sub_pe(*a, signs, [code // 16 for code in b]), low]

    def value(self, work: Work, row: int, number: int, group: int) -> tuple[Fraction, float | None]:
        """The exact value of a group, and its weight factor."""
        some = slice(group * LANES, (group + 1) * LANES)
        sign, magnitude = (self.lanes(name, work.entry.edge, row, LANES)[some] for name in ("a_sign", "a_mag"))
        a = Group(self.lanes("a_exp", work.entry.edge, row)[group], sign, magnitude, 8)
        b, signs = (self.lanes(name, work.weights, number, LANES)[some] for name in ("b", "b_sign"))
        if work.entry.mode == W4:
            codes = [code % 16 - 16 * (code % 16 // 8) for code in b]
            return units.partial_int(a, codes), fp16.to_float(self.lanes("w_scale", work.weights, number)[group])
        bits = 8 if work.entry.mode == M8 else 4
        mantissas = [code % 2**bits for code in b]
        return units.partial(a, Group(self.lanes("b_exp", work.weights, number)[group], signs, mantissas, bits)), None

    def pe(self, row: int, number: int) -> "Element":
        """All that happens in a PE."""
        return Element(self, row, number)

    def ends(self, edge: int) -> list[int]:
        """Columns whose output ends in an edge."""
        return [c for c, each in enumerate(self.work) if any(w.end == edge and w.entry.last for w in each.works)]

    def rows_of(self) -> Iterator[dict[str, Any]]:
        """Every output, register and counter after every edge."""
        pes = [[self.pe(r, c) for c in range(self.columns)] for r in range(self.rows)]
        for edge in range(self.edges):
            found = {name: [] for name in NAMES} | self.of_output(pes, edge)
            for c in range(self.columns):
                for name, value in self.of_column(c, edge).items():
                    found[name].extend(value)
            for line in pes:
                for each in line:
                    for name, value in each.registers(edge).items():
                        found[name].extend(value)
            yield found | self.counters(pes, edge)

    def of_output(self, pes: Sequence[Sequence["Element"]], edge: int) -> dict[str, Any]:
        """The column that leaves, and whether some column has a group."""
        ended = self.ends(edge)
        found: dict[str, Any] = {name: [0] * self.rows for name in ("acc", "flags", "valid")}
        found |= {"col": max(ended, default=0), "busy": int(held(self.work, edge))}
        if ended:
            work = next(w for w in self.work[found["col"]].works if w.end == edge)
            for r in work.entry.rows:
                state = pes[r][found["col"]].registers(edge)
                found["acc"][r], found["flags"][r], found["valid"][r] = state["sums"][0], state["sum_flags"][0], 1
        return found

    def of_column(self, c: int, edge: int) -> dict[str, list[int]]:
        """Registers of a column after an edge."""
        each = self.work[c]
        came = [entry for time, entry in each.taken if time <= edge]
        begun = [work for work in each.works if work.begin <= edge]
        weights = [time for time in each.weights if time <= edge]
        used = [work.weights for work in begun]
        found = {
            "arrived": [int(any(time == edge for time, _ in each.taken))],
            "waiting": [int(any(work.came <= edge < work.begin for work in each.works))],
            "b_waiting": [int(len(weights) > len(used))],
            "left": [max(0, begun[-1].end - edge) if begun else 0],
            "sub_pes": [self.multiplying(c, edge)],
        }
        for which, entries, edges in (("next", came, weights), ("current", [w.entry for w in begun], used)):
            last = entries[-1] if entries else Entry(-1, 0, 0, 0, frozenset(), frozenset(), 0)
            bits = [[sum(1 << i for i in places)] for places in (last.rows, last.columns)]
            values = [[last.mode], [last.clear], [last.last], *bits, [last.groups]]
            names = ("mode", "clear", "last", "rows", "columns", "groups")
            found |= {f"{which}_{name}": value for name, value in zip(names, values, strict=True)}
            at = edges[-1] if edges else -1
            found |= {f"{which}_{name}": self.lanes(name, at, c, LANES) for name in ("b", "b_sign")}
            found |= {f"{which}_{name}": self.lanes(name, at, c) for name in ("b_exp", "w_scale")}
        return found

    def multiplying(self, c: int, edge: int) -> int:
        """Sub-PEs of a column at work in an edge, a bit each; all rows do alike (D-harmonia-40)."""
        for work in self.work[c].works:
            if work.begin <= edge <= work.end:
                pe = self.pe(min(work.entry.rows), c)
                return sum(1 << place for time, place, _ in pe.latches if time == edge)
        return 0

    def counters(self, pes: Sequence[Sequence["Element"]], edge: int) -> dict[str, int]:
        """Totals after an edge."""
        every = [each for line in pes for each in line]
        works = [(c, work) for c, each in enumerate(self.work) for work in each.works if work.begin <= edge]
        psums = sum(len([1 for time, *_ in each.latches if time <= edge]) for each in every)
        terms = [work.entry.mode for each in every for time, work, *_ in each.adds if time <= edge]
        starts = sum(len([time for time in each.starts if time <= edge]) for each in every)
        slots = [(min(work.end, edge) - work.begin + 1) * len(work.entry.rows) for _, work in works]
        busy = {time for _, work in works for time in range(work.begin, min(work.end, edge) + 1)}
        moved = [entry.groups * len(entry.rows) for each in self.work[1:] for time, entry in each.taken if time <= edge]
        lost = [*self.blocked, *(time for each in self.work for time in each.lost)]
        return {
            "cycles": edge + 1,
            "compute_cycles": len(busy),
            "macs": LANES * starts,
            "macs4x8": LANES * psums,
            "psums": psums,
            "fusions": terms.count(M8),
            "fp_converts": len(terms),
            "scale_mults": terms.count(W4),
            "fp32_adds": len(terms),
            "act_hops": sum(moved),
            "weight_broadcasts": sum(bisect_right(each.weights, edge) for each in self.work),
            "busy_pe_cycles": sum(slots),
            "lost": len([time for time in lost if time <= edge]),
            "missed": sum(max(0, len(self.ends(time)) - 1) for time in range(edge + 1)),
        }


class Element:
    """What happens in a PE, and when."""

    def __init__(self, array: Array, row: int, number: int):
        self.array, self.row, self.number = array, row, number
        mine = array.work[number]
        self.filled = [(time, entry.edge) for time, entry in mine.taken if row in entry.rows]
        self.works = [work for work in mine.works if row in work.entry.rows and work.begin < array.edges]
        self.latches: list[tuple[int, int, int]] = []  #: edge, sub-PE, sum
        self.slots: list[tuple[int, int]] = []  #: edge, slot of the pass
        self.starts: list[int] = []  #: edges in which a group starts
        self.adds: list[tuple[int, Work, int, int]] = []  #: edge, entry, accumulator, flags
        slot, mode, acc, flags = 3, W4, 0.0, 0
        for work in self.works:
            entry = work.entry
            if entry.clear or array.parallel or mode != entry.mode:
                slot = 3
            mode = entry.mode
            for group in range(entry.groups):
                acc, flags = (0.0, 0) if entry.clear and group == 0 else (acc, flags)
                first = work.begin + group * entry.per
                self.starts.append(first)
                for part, total in enumerate(array.sums(work, row, number, group)):
                    slot = (slot + 1) % 4
                    self.slots.append((first + part, slot))
                    made = work.begin if array.parallel else first + part
                    self.latches.append((made, seat(mode, slot), total))
                acc, flags = self.added(work, group, acc, flags)
                self.adds.append((first + entry.per - 1, work, fp16.f32_bits(acc), flags))
        self.latches = [latch for latch in self.latches if latch[0] < array.edges]

    def added(self, work: Work, group: int, acc: float, flags: int) -> tuple[float, int]:
        """The accumulator after a group: one rounding of its exact value, of the product, of the sum."""
        array = self.array
        exact, factor = array.value(work, self.row, self.number, group)
        value = units.converted(exact, array.preset)
        if array.preset == "paper":
            flags |= (value in (float("inf"), float("-inf"))) | 2 * (abs(value) < 2.0**-14 and Fraction(value) != exact)
        acc = fp16.f32(acc + units.scaled(value, factor, array.product))
        return acc, flags | 4 * (acc != acc)

    def registers(self, edge: int) -> dict[str, list[int]]:
        """Registers after an edge; an accumulator is 0 from the first slot of an output on, until a group is added."""
        filled = [number for time, number in self.filled if time <= edge]
        begun = [work for work in self.works if work.begin <= edge]
        latched = [0] * 4
        for time, place, total in self.latches:
            if time <= edge:
                latched[place] = total
        slots = [slot for time, slot in self.slots if time <= edge]
        adds = [(time, acc, flags) for time, _, acc, flags in self.adds if time <= edge]
        cleared = max((work.begin for work in begun if work.entry.clear), default=-1)
        acc, flags = (adds[-1][1], adds[-1][2]) if adds and adds[-1][0] >= cleared else (0, 0)
        found = {"latched": latched, "slot": [slots[-1] if slots else 3], "sums": [acc], "sum_flags": [flags]}
        found["pe_mode"] = [begun[-1].entry.mode if begun else 0]
        ends = (("next", filled), ("current", [work.entry.edge for work in begun]))
        for which, numbers in ends:
            at = numbers[-1] if numbers else -1
            for name, each in (("sign", LANES), ("mag", LANES), ("exp", 1)):
                found[f"{which}_{name}"] = self.array.lanes(f"a_{name}", at, self.row, each)
        return found


NAMES = (
    *("arrived", "sub_pes", "waiting", "b_waiting", "left", "latched", "slot", "sums", "sum_flags", "pe_mode"),
    *(
        f"{which}_{name}"
        for which in ("next", "current")
        for name in (
            *("mode", "clear", "last", "rows", "columns", "groups", "b", "b_sign", "b_exp", "w_scale"),
            *("sign", "mag", "exp"),
        )
    ),
)


def listed(value: Any) -> list[int]:
    """Lanes of a port in one edge."""
    return [int(each) for each in value] if isinstance(value, list | tuple) else [int(value)]


def simulate(
    rows: int,
    columns: int,
    partial: str,
    product: str,
    activity: str,
    overlap: bool,
    inputs: Mapping[str, Sequence[Any]],
    holdable: bool = False,
) -> list[dict[str, Any]]:
    """Outputs, registers and counters of one device after every edge. inputs: by port, lists over edges.

    An edge with 1 at port `hold` does not exist for the array: the others are those of an array without it.
    """
    options = rows, columns, partial, product, activity, overlap
    if not holdable:
        return list(Array(*options, inputs).rows_of())
    moves = [not bit for bit in inputs["hold"]]
    kept = {name: [v for v, here in zip(values, moves, strict=True) if here] for name, values in inputs.items()}
    nothing = {name: [zero(value) for value in values[:1]] for name, values in inputs.items()}
    (before,) = Array(*options, nothing).rows_of()  # after the reset
    done, rest = [], iter(Array(*options, kept).rows_of() if any(moves) else ())
    for number, here in enumerate(moves, 1):
        if here:
            before = next(rest)
        silent = {name: [0] * rows for name in ("acc", "flags", "valid")} | {"col": 0, "sub_pes": [0] * columns}
        done.append((before if here else before | silent) | {"cycles": number})
    return done


def zero(value: Any) -> Any:
    """Zeros in the place of a value of a port."""
    return [0] * len(value) if isinstance(value, list | tuple) else 0
