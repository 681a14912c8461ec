"""Tables for people, laid out in one width. A small layout of its own: rich takes 0.1 s to import and print one."""

import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import zip_longest

GAP = 2  #: spaces between columns
LEAST = 8  #: a column is not folded below this


def lines(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str], width: int) -> Iterator[str]:
    """The header, a rule and the rows, at most `width` wide where folding can do it.

    right: columns of numbers, which stand at the right. These and the first column are never folded.
    """
    fixed = {name for name in columns if name in right or name == columns[0]}
    foldable = [name not in fixed for name in columns]
    widths = fitted([max(map(len, cells)) for cells in zip(columns, *rows, strict=True)], foldable, width)
    aligned: list[Callable[[str, int], str]] = [str.rjust if name in right else str.ljust for name in columns]
    yield _line(columns, widths, aligned)
    yield "─" * (len("".join("-" * size for size in widths)) + GAP * (len(widths) - 1))
    for row in rows:
        folded = [
            textwrap.wrap(cell, size, break_on_hyphens=False) if len(cell) > size else [cell]
            for cell, size in zip(row, widths, strict=True)
        ]
        for parts in zip_longest(*folded, fillvalue=""):
            yield _line(parts, widths, aligned)


def fitted(widths: Sequence[int], foldable: Sequence[bool], width: int) -> list[int]:
    """`widths` with the widest of the foldable columns narrowed until all fit into `width`, or none can be."""
    fitting, over = list(widths), GAP * (len(widths) - 1) - width
    for size in widths:
        over += size
    while over > 0:
        left = [index for index, may in enumerate(foldable) if may and fitting[index] > LEAST]
        if not left:
            break
        fitting[max(left, key=lambda index: fitting[index])] -= 1
        over -= 1
    return fitting


def _line(cells: Sequence[str], widths: Sequence[int], aligned: Sequence[Callable[[str, int], str]]) -> str:
    placed = (align(cell, width) for cell, width, align in zip(cells, widths, aligned, strict=True))
    return (" " * GAP).join(placed).rstrip()
