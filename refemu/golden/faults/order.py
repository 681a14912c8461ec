"""Faults of class `order`: answers some rows late or early, or neighbouring rows swapped."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from refemu.golden.explain.table import Table
from refemu.golden.faults.fault import Fault, Rows, Words, short

LATE = (1, 2, 3, 4, -1, -2)  #: rows late that a diagnosis tries


def faults(rows: Rows) -> Iterator[Fault]:
    """All outputs a row late, a row early and swapped, and each alone late and early."""
    every = tuple(rows.ports)
    yield shifted(every, "", 1)
    yield shifted(every, "", -1)
    yield swapped(every)
    if rows.unit.timing == "event":
        yield shifted(every, "", 1, within=False)
    for array in every if len(every) > 1 else ():
        yield shifted((array,), array, 1)
        yield shifted((array,), array, -1)


def suspected(table: Table, words: Words) -> Iterator[Fault]:
    """All outputs, or one that differs, some rows late or early; swapped."""
    every = tuple(table.ports)
    alone = [array for array in every if len(every) > 1 and table.unlike(array, words[array]).any()]
    for arrays, array in ((every, ""), *(((each,), each) for each in alone)):
        for late in LATE:
            for within in (True, False) if table.unit.timing == "event" else (True,):
                yield shifted(arrays, array, late, within)
        yield shifted(arrays, array, 1, frozen=True)
    yield swapped(every)


def shifted(arrays: tuple[str, ...], array: str, late: int, within: bool = True, frozen: bool = False) -> Fault:
    """Outputs some rows late (positive) or early.

    array: the only one, "" for all; within: cases do not mix. Rows without a source are 0 if late, else as they are;
    frozen: they are as they are if late too.
    """
    what = f"{array} comes" if array else "answers come"
    rest = ", zeros first" if late > 0 and not frozen else ", the last of a case stays" if late < 0 else ""
    through = ", across cases" * (not within)
    says = f"{what} {rows_of(abs(late))} {'late' if late > 0 else 'early'}{rest}{through}"
    parts = ["frozen" if frozen else "late" if late > 0 else "early", *[array] * bool(array)]
    id = "/".join([*parts, *[str(abs(late))] * (abs(late) > 1), *["across"] * (not within)])
    parameters: dict[str, object] = {"rows": late, **({"port": short(array)} if array else {})}
    moved = partial(_moved, arrays, late, within, frozen)
    return Fault(id, says, "row_shift", parameters, answers=moved, remembers=True)


def swapped(arrays: tuple[str, ...]) -> Fault:
    """The answers of every two rows of a case exchanged."""
    says, swap = "the answers of every two rows are swapped", partial(_swapped, arrays)
    return Fault("swapped", says, "row_swap", answers=swap, remembers=True)


def rows_of(count: int) -> str:
    """ "a row", "2 rows"."""
    return "a row" if count == 1 else f"{count} rows"


def _moved(arrays: tuple[str, ...], late: int, within: bool, frozen: bool, rows: Rows, words: Words) -> Words:
    return _from(arrays, rows.numbers - late, within, late > 0 and not frozen, rows, words)


def _swapped(arrays: tuple[str, ...], rows: Rows, words: Words) -> Words:
    first, _ = rows.span(True)
    partner = rows.numbers + 1 - 2 * ((rows.numbers - first) % 2)
    return _from(arrays, partner, True, False, rows, words)


def _from(arrays: tuple[str, ...], source: np.ndarray, within: bool, zeros: bool, rows: Rows, words: Words) -> Words:
    """Words of other rows; those of a row without a source are 0 or its own. A source that is not here says nothing."""
    first, last = rows.span(within)
    inside = (source >= first) & (source <= last)
    place = rows.place(np.where(inside, source, rows.numbers))
    place = np.where(place < 0, np.arange(len(place)), place)
    moved = {array: words[array][place] for array in arrays}
    if zeros:
        for array in moved.values():
            array[~inside] = 0
    return {**words, **moved}
