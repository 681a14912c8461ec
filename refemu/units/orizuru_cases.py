"""Golden cases of orizuru, and its trees as text. The example of [kllm Fig. 7], ties, zeros, infinities, random rows.

This module describes stimuli and drawings only; the descriptor, and with it every answer, is in orizuru.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.arith import prng
from refemu.units.unit import Cases, Config, Port, fields
from refemu.units.unit_cases import random

FIG7 = (0x4200, 0x4700, 0x3C00, 0x4500, 0x4000, 0x4600, 0x4880, 0x4400)  #: 3 7 1 5 2 6 9 4, a row with Fig. 7's steps
HIGH, INF, TINY = 0x7BFF, 0x7C00, 0x0001
MINUS = 0x8000  #: the sign


def cases(config: Config, ports: tuple[Port, ...], kind: str, seed: int) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration, whose input ports are `ports`."""
    n = config["n"]
    if kind == "paper":
        yield _cases(kind, "[kllm §IV-C, Fig. 7] the maximum 9 is leaf 14 of eight, its neighbour follows", n, [FIG7])
    if kind == "edge":
        yield from _edge(config, n)
    if kind == "random":
        yield _block(kind, "uniform finite words", random("orizuru", ports[0], (128,), seed), n)
        few = prng.words(prng.stream("orizuru/ties/x", seed), 0, 64 * n) >> np.uint64(62)
        words = np.array([0, MINUS, 0x3C00, 0xBC00])[few.astype(np.int64)].reshape(64, n)
        yield _block(kind, "rows of four values: ties everywhere", words, n, "D-kllm-21")


def _edge(config: Mapping[str, Any], n: int) -> Iterator[Cases]:
    one, ends = 0x3C00, [INF, MINUS | INF, HIGH, MINUS | HIGH]
    yield _cases("edge", "all values equal: which neighbour goes first", n, [[one], [0], [MINUS | HIGH]], "D-kllm-21")
    yield _cases("edge", "zeros of both signs", n, [[0, MINUS], [MINUS, 0], [0, 0, MINUS], [MINUS, MINUS, 0]],
                 "D-kllm-27")
    yield _cases("edge", "infinities and the ends of fp16: a popped leaf ranks below -inf", n,
                 [ends, ends[::-1], [INF], [MINUS | INF], [one, MINUS | INF, MINUS | INF]], "D-kllm-22")
    yield _cases("edge", "subnormals and their neighbours", n,
                 [[TINY, MINUS | TINY, 0], [0x03FF, 0x0400, 0x8400, 0x83FF]])
    rising = np.arange(n)
    yield _block("edge", "rising and falling rows", np.stack([one + rising, one + rising[::-1]]), n)
    if config["total_order"]:
        nan = [0x7E00, MINUS | 0x7E00, 0x7C01, 0x7FFF, 0xFFFF, 0xFC01]
        yield _cases("edge", "NaN beyond infinity, ordered by its payload", n, [nan, [*ends, *nan]], "D-kllm-27")


def _cases(kind: str, why: str, n: int, rows: Any, decision: str = "") -> Cases:
    """Rows of words, repeated to n values."""
    return _block(kind, why, np.array([[row[i % len(row)] for i in range(n)] for row in rows]), n, decision)


def _block(kind: str, why: str, words: np.ndarray, n: int, decision: str = "") -> Cases:
    return Cases(kind, why, {"x": words if n > 1 else words[:, 0]}, decision)


CELL = 6  #: columns of a leaf in a drawing
WIDEST = 16  #: leaves that fit side by side


def draw(size: int, n: int, state: Any) -> str:
    """The trees of `state` as text, over `size` leaves of which `n` exist.

    A register shows the value it passes on and where that comes from: `<7` the left child, `9>` the right one. `--` is
    an empty place, `[9]` a popped leaf, `*` marks the registers or the leaf that the event is about.
    """
    words = np.array(fields(state.x), np.uint16).view(np.float16)
    texts = [f"{float(word):g}" for word in words] + ["--"] * (size - n)
    if size > WIDEST:
        return _listed(size, state)
    upper, lower = ([_row(size, state, tree, level, texts) for level in range(1, size.bit_length())] for tree in (0, 1))
    leaves = [_row(size, state, tree, size.bit_length(), texts) for tree in (0, 1)]
    return "\n".join([*(f"max {row}" for row in upper), f" P  {leaves[0]}", f" Q  {leaves[1]}",
                      *(f"min {row}" for row in reversed(lower))])


def _row(size: int, state: Any, tree: int, level: int, texts: list[str]) -> str:
    """Nodes of one level, each in the middle of its leaves."""
    first = 1 << (level - 1)
    width = CELL * size // first
    cells = [_cell(size, state, tree, node, texts) for node in range(first, 2 * first)]
    return "".join(cell.center(width) for cell in cells).rstrip()


def _cell(size: int, state: Any, tree: int, node: int, texts: list[str]) -> str:
    bits, alive = state.trees[tree]
    leaf = node
    while leaf < size:
        leaf = 2 * leaf + bits[leaf]
    leaf -= size
    mark = "*" if _meant(state, tree, node) else ""
    if node >= size:
        return mark + (texts[leaf] if alive[leaf] or texts[leaf] == "--" else f"[{texts[leaf]}]")
    if not alive[leaf]:
        return mark + "--"
    return mark + (f"{texts[leaf]}>" if bits[node] else f"<{texts[leaf]}")


def _meant(state: Any, tree: int, node: int) -> bool:
    """Whether the event of `state` set `node`: one, or a whole level."""
    if not state.event.endswith(("max", "min")[tree]):
        return False
    if state.event.startswith("init"):
        return bool(state.node <= node < 2 * state.node)
    return bool(node == state.node)


def _listed(size: int, state: Any) -> str:
    """The bits of every level in a line, for trees too wide to draw."""
    lines = []
    for name, (bits, alive) in zip(("P", "Q"), state.trees, strict=True):
        for level in range(1, size.bit_length()):
            first = 1 << (level - 1)
            lines.append(f"{name}[{first}..{2 * first - 1}] " + "".join(map(str, bits[first : 2 * first])))
        lines.append(f"{name} available " + "".join(map(str, alive)))
    return "\n".join(lines)
