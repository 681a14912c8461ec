"""The arithmetic of paged attention: which order, which division, which maximum; and what it is refused for.

Paper: [leankv §6.2]. Decisions: D-leankv-41 (order of the sums), D-leankv-42 (fused or not), D-leankv-43 (subtracted
maximum), D-leankv-45 (division of the softmax), D-leankv-46 (partitions), D-leankv-19 (what a score takes of heads).
"""

from dataclasses import dataclass

import numpy as np

from refemu.arith.checks import Refused, RefusedType, at, first_index, require_choice, require_int
from refemu.arith.orders import Chunks, Halves, Lanes, Order, Sequential, Tree
from refemu.formats.kv_page import UnifiedPage

WARPS, WARP = 8, 32  #: of a block of threads, and threads of one
THREADS = Lanes(WARPS * WARP, "strided", Chunks(WARP, Halves(WARP), Halves(WARPS)))  #: order of a block's sum
EPSILON = float(np.float32(1e-6))  #: of the published code


@dataclass(frozen=True)
class Arithmetic:
    """Everything that decides a bit of the result but the pages themselves."""

    order: str = "kernel"  #: "kernel" = groups, warps, trees; or "sequential" = one sum, in the order of the tokens
    fma: bool = True  #: products are added in one rounding
    softmax_div: str = "div"  #: e by "div"; or "recip_mul": times the rounded 1 / sum
    softmax_eps: float = 0.0  #: added to the sum before, of a chunk and of all; a float32 value
    lane_max: bool = False  #: quirk: the maximum is that of slots 0, 4, 8, ... of the pages only
    partition_tokens: int = 0  #: more tokens than `chunk` makes of this are cut into chunks; 0 = never
    partition_score: bool = False  #: quirk: p of token t is weighted as of chunk t // chunk, whatever its own
    include_self: bool = False  #: whether the newest token's p is added to its own score (D-leankv-17)
    gqa: str = "max"  #: of the heads' p that is added to a score: the largest, or the "mean" (D-leankv-19)

    def __post_init__(self) -> None:
        thing = "paged_attention"
        require_choice(self.order, ("kernel", "sequential"), thing, "order")
        require_choice(self.softmax_div, ("div", "recip_mul"), thing, "softmax_div")
        require_choice(self.gqa, ("max", "mean"), thing, "gqa")
        for name in ("fma", "lane_max", "partition_score", "include_self"):
            if not isinstance(getattr(self, name), bool):
                raise RefusedType(f"{thing}: {name} must be a bool, got {getattr(self, name)!r}")
        eps = self.softmax_eps
        if not isinstance(eps, float) or not 0 <= eps < 1 or float(np.float32(eps)) != eps:
            raise Refused(f"{thing}: softmax_eps must be a float32 value in [0, 1), got {eps!r}")
        require_int(self.partition_tokens, 0, 1 << 24, thing, "partition_tokens")


PAPER = Arithmetic()
DIFFKV = Arithmetic(softmax_div="recip_mul", softmax_eps=EPSILON, partition_tokens=4800, include_self=True)
PRESETS = {"paper": PAPER, "diffkv": DIFFKV}


@dataclass(frozen=True)
class Pages:
    """Layouts of high and of low pages, which share one pool, and how their codes are read."""

    high: UnifiedPage
    low: UnifiedPage | None = None  #: None: one precision
    preset: str = "paper"  #: of the formats: which sign the stored zero points have (D-leankv-1)

    def __post_init__(self) -> None:
        require_choice(self.preset, ("paper", "diffkv"), "paged_attention", "preset")
        if WARP % self.high.v_group or self.rows & (self.rows - 1):
            raise Refused(f"paged_attention: Vgroup must be a power of two up to {WARP}, got {self.high.v_group}")
        if self.low is not None:
            for name in ("head_size", "size", "k_group", "v_vec", "v_group"):
                mine, other = getattr(self.high, name), getattr(self.low, name)
                if mine != other:
                    raise Refused(f"paged_attention: high and low pages must have one {name}, got {mine} and {other}")

    @property
    def sections(self) -> tuple[UnifiedPage, UnifiedPage]:
        """Of high and low tokens; without a low precision both are the high one."""
        return self.high, self.low or self.high

    @property
    def rows(self) -> int:
        """Accumulators of a warp: value slots that it works on at once, Vvec tokens each."""
        return WARP // self.high.v_group

    def chunk(self, arithmetic: Arithmetic) -> int:
        """Tokens of a partition: a multiple of what both pages hold, `partition_tokens` or just above; 0 = none."""
        unit = self.high.tokens * self.sections[1].tokens
        return -(-arithmetic.partition_tokens // unit) * unit

    def key_order(self, arithmetic: Arithmetic) -> Order:
        """Of the products of a query and a key: Kgroup threads with F / Kgroup features each, then a tree."""
        groups = self.high.k_group if arithmetic.order == "kernel" else 1
        return Lanes(groups, "blocked", Tree(groups), "product")

    def total_order(self, arithmetic: Arithmetic) -> Order:
        """Of the exponentials."""
        return THREADS if arithmetic.order == "kernel" else Sequential()

    def accumulators(self, arithmetic: Arithmetic) -> int:
        """Of the values, for one query head."""
        return WARPS * self.rows if arithmetic.order == "kernel" else 1

    def place(self, page: int, slot: int, arithmetic: Arithmetic) -> int:
        """The accumulator of a slot in the page of this number within its section."""
        row = self.rows * (page % WARPS) + slot // self.high.v_vec % self.rows
        return row % self.accumulators(arithmetic)


def require(pages: Pages, q: np.ndarray, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray) -> None:
    """Refuse shapes, dtypes, heads without a token and table entries that are too short or name no page.

    q: (..., G, F) float16. images: (pages, words) uint16. cells: (..., L). lengths: (..., 2) tokens high and low.
    """
    thing = "paged_attention"
    if q.dtype != np.float16 or q.ndim < 2 or q.shape[-1] != pages.high.head_size:
        raise RefusedType(
            f"{thing}: q must be float16 of shape (..., heads, {pages.high.head_size}), got {q.dtype} of "
            f"shape {q.shape}"
        )
    if images.dtype != np.uint16 or images.ndim != 2 or images.shape[1] != pages.high.size // 2:
        raise RefusedType(
            f"{thing}: images must be uint16 of shape (pages, {pages.high.size // 2}), got "
            f"{images.dtype} of shape {images.shape}"
        )
    lead = q.shape[:-2]
    for name, array, shape in (("cells", cells, (*lead, cells.shape[-1])), ("lengths", lengths, (*lead, 2))):
        if array.dtype.kind not in "iu" or array.shape != shape:
            raise RefusedType(
                f"{thing}: {name} must be integers of shape {shape}, got {array.dtype} of shape {array.shape}"
            )
    finite(q)
    _require_runs(pages, len(images), cells, lengths.astype(np.int64))


def finite(q: np.ndarray) -> None:
    """Refuse NaN and infinity in queries."""
    bad = ~np.isfinite(q)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"paged_attention: q must be finite, got {q[index]} at index {index}")


def _require_runs(pages: Pages, count: int, cells: np.ndarray, lengths: np.ndarray) -> None:
    thing, (high, low) = "paged_attention", pages.sections
    used = np.stack([-(-lengths[..., 0] // high.tokens), -(-lengths[..., 1] // low.tokens)], axis=-1)
    total = lengths[..., 0] + lengths[..., 1]
    needed = used[..., 0] + used[..., 1]
    for bad, message in (
        ((lengths < 0).any(axis=-1), lambda i: f"a negative length, {lengths[i].tolist()}"),
        (total == 0, lambda i: "no stored token"),
        (needed > cells.shape[-1], lambda i: f"needs {needed[i]} cells of {cells.shape[-1]}"),
    ):
        if bad.any():
            index = first_index(np.asarray(bad))
            raise Refused(f"{thing}: head{at(index)}: {message(index)}")
    if pages.low is None and lengths[..., 1].any():
        index = tuple(int(i) for i in np.argwhere(lengths[..., 1])[0])
        raise Refused(f"{thing}: head{at(index)}: low tokens without a low precision")
    cell = np.arange(cells.shape[-1])
    inside = (cell < used[..., :1]) | (cell >= cells.shape[-1] - used[..., 1:])
    bad = inside & ((cells < 0) | (cells >= count))
    if bad.any():
        index = first_index(bad)
        raise Refused(f"{thing}: head{at(index[:-1])}: cell {index[-1]} names page {cells[index]} of {count}")


def require_distinct(pages: Pages, cells: np.ndarray, lengths: np.ndarray) -> None:
    """Refuse a page in two cells of the runs of one of the rows; cells (rows, L), lengths (rows, 2)."""
    cell, length = np.arange(cells.shape[1]), cells.shape[1]
    used = -(-lengths // np.array([page.tokens for page in pages.sections]))
    inside = (cell < used[:, :1]) | (cell >= length - used[:, 1:])
    named = np.sort(np.where(inside, cells, -1 - cell), axis=1, kind="stable")
    suspect = (named[:, 1:] == named[:, :-1]).any(axis=1) | (used[:, 0] + used[:, 1] > length)
    for row in np.flatnonzero(suspect).tolist():
        entry, (high, low) = cells[row].tolist(), used[row].tolist()
        runs = entry[:high] + entry[max(length - low, 0) :]
        twice = [page for place, page in enumerate(runs) if page in runs[:place]]
        if twice:
            raise Refused(f"paged_attention: head{at((row,))}: page {twice[0]} stands in two cells")


@dataclass(frozen=True, eq=False)
class Attended:
    """What `attend` returns."""

    out: np.ndarray  #: (..., G, F) float16
    p: np.ndarray  #: (..., G, tokens) float32, high slots, then low ones; zeros behind the last token of a head


def empty(q: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Zeros for the out (..., G, F) and p (..., G, most tokens of a head) of a call, float32."""
    tokens = int((lengths[..., 0].astype(np.int64) + lengths[..., 1]).max(initial=0))
    return np.zeros(q.shape, np.float32), np.zeros((*q.shape[:-1], tokens), np.float32)
