"""Options of paged attention's arithmetic: order, block of threads, division, subtracted maximum; and their checks.

Paper: [leankv §6.2].
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np

from refemu.arith.checks import Refused, RefusedType, at, first_index, reject, require_choice
from refemu.arith.orders import Chunks, Halves, Lanes, Order, Sequential, Tree
from refemu.arith.records import require_options
from refemu.formats.leankv import hetero_kv
from refemu.formats.leankv.hetero_kv import PairName
from refemu.formats.leankv.kv_layout import ALIGN
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.declaration import constant
from refemu.units.leankv.kv_quantizer import Preset
from refemu.units.leankv.significance import Gqa

WARPS = 8  #: warps of a block
WARP = 32  #: threads of a warp
SumOrder = Literal["kernel", "sequential"]  #: Order of attention's sums (D-leankv-41)
Join = Literal["tree", "sequential"]  #: Order of the sum of accumulators (D-leankv-56)
SoftmaxDiv = Literal["div", "recip_mul"]  #: Division of the softmax (D-leankv-45)
#: Parameters of a block of threads
BLOCK = ("warps", "sum_threads", "key_threads", "value_rows", "value_slots")
EPSILON = float(np.float32(1e-6))  #: Softmax epsilon of the published code


@dataclass(frozen=True)
class Arithmetic:
    """Options that decide bits of the result, in addition to the pages."""

    order: SumOrder = "kernel"  #: "kernel" = groups, warps, trees; or "sequential" = one sum, token by token
    fma: bool = True  #: whether products are added in one rounding
    softmax_div: SoftmaxDiv = "div"  #: e by "div"; or "recip_mul": times the rounded 1 / sum
    softmax_eps: float = 0.0  #: added to the sum of a chunk and of all before the division; a float32 value
    lane_max: bool = False  #: quirk: whether the maximum is that of slots 0, 4, 8, ... of the pages only
    #: tokens above which a head is divided into chunks, rounded by `chunk`; 0 = never
    partition_tokens: Annotated[int, 0, 1 << 24] = 0
    partition_score: bool = False  #: quirk: whether p of token t is weighted as in chunk t // chunk, not its own
    include_self: bool = False  #: whether the newest token's p is added to its own score (D-leankv-17)
    gqa: Gqa = "max"  #: p added to a score: the largest of the heads, or the "mean" (D-leankv-19)
    #: warps of a block, which take the pages of a section in turn (this and the rest: D-leankv-56)
    warps: Annotated[int, 1, 32] = WARPS
    sum_threads: Annotated[int, 1, 1024] = WARPS * WARP  #: threads that sum the exponentials
    key_threads: Annotated[int, 0, 32] = 0  #: threads that share a key; 0 = Kgroup of the pages
    value_rows: Annotated[int, 0, 32] = 0  #: accumulators of a warp; 0 = 32 / Vgroup of the pages
    #: neighbouring slots of a page that share an accumulator; 0 = Vvec of the pages
    value_slots: Annotated[int, 0, 1024] = 0
    join: Join = "tree"  #: accumulators are added by halves, or "sequential"

    def __post_init__(self) -> None:
        thing = "paged_attention"
        require_options(self, thing)
        self._require_block(thing)
        eps = self.softmax_eps
        if not isinstance(eps, float) or not 0 <= eps < 1 or float(np.float32(eps)) != eps:
            raise Refused(f"{thing}: softmax_eps must be a float32 value in [0, 1), got {eps!r}")

    def _require_block(self, thing: str) -> None:
        """Reject counts that a tree of halves cannot add, and a block if `order` has none."""
        for name in BLOCK[:-1]:
            value = getattr(self, name)
            if value & (value - 1):
                also = " or 0" if name in ("key_threads", "value_rows") else ""
                raise Refused(f"{thing}: {name} must be a power of two{also}, got {value}")
        if self.order == "sequential":
            for name in (*BLOCK, "join"):
                value, usual = getattr(self, name), type(self).__dataclass_fields__[name].default
                if value != usual:
                    raise Refused(f"{thing}: order 'sequential' has no block of threads, got {name}={value!r}")


PAPER = Arithmetic()  #: Arithmetic of the paper
#: Arithmetic of the published code
DIFFKV = Arithmetic(softmax_div="recip_mul", softmax_eps=EPSILON, partition_tokens=4800, include_self=True)
CONSTANTS = ("k_vec", "k_group", "v_vec", "v_group", "align")  #: Constants of the pages, as for `UnifiedPage`
PRESETS = {"paper": PAPER, "diffkv": DIFFKV}


def threads(count: int) -> Lanes:
    """Order of the sum of a block of threads: halves within each warp, then halves of the warps' results."""
    warp = min(count, WARP)
    return Lanes(count, "strided", Chunks(warp, Halves(warp), Halves(count // warp)))


@dataclass(frozen=True)
class Pages:
    """Layouts of high and of low pages, which share one pool, and the preset that reads their codes."""

    high: UnifiedPage  #: layout of high pages
    low: UnifiedPage | None = None  #: layout of low pages; None: one precision
    preset: Preset = "paper"  #: preset of the formats: sign of the stored zero points (D-leankv-1)

    def __post_init__(self) -> None:
        require_choice(self.preset, get_args(Preset), "paged_attention", "preset")
        if WARP % self.high.v_group or self.rows & (self.rows - 1):
            raise Refused(f"paged_attention: Vgroup must be a power of two up to {WARP}, got {self.high.v_group}")
        if self.low is not None:
            for name in ("head_size", "size", "k_group", "v_vec", "v_group"):
                mine, other = getattr(self.high, name), getattr(self.low, name)
                if mine != other:
                    raise Refused(f"paged_attention: high and low pages must have one {name}, got {mine} and {other}")

    @classmethod
    def of(
        cls,
        head_size: int,
        high: PairName,
        low: PairName | None,
        page_bytes: int | None,
        preset: Preset,
        **constants: Any,
    ) -> "Pages":
        """Make the layouts of precisions by name."""
        pairs = [hetero_kv.find(name) for name in (high, low) if name is not None]
        layouts = [UnifiedPage(head_size, pair, page_bytes, **constants) for pair in pairs]
        return cls(layouts[0], layouts[1] if len(layouts) > 1 else None, preset)

    @property
    def sections(self) -> tuple[UnifiedPage, UnifiedPage]:
        """Layouts of high and low tokens; without a low precision both are the high one."""
        return self.high, self.low or self.high

    @property
    def rows(self) -> int:
        """Accumulators of a warp of 32 threads: value slots processed at once, Vvec tokens each."""
        return WARP // self.high.v_group

    def rows_of(self, arithmetic: Arithmetic) -> int:
        """Accumulators of a warp."""
        return arithmetic.value_rows or self.rows

    def most_chunks(self, arithmetic: Arithmetic, cells: int) -> int:
        """Most partitions of a head."""
        size = self.chunk(arithmetic)
        if size == 0:
            return 1
        high, low = (size // page.tokens for page in self.sections)
        some = range(cells + 1) if self.low is not None else (cells,)
        return max(-(-pages // high) - (pages - cells) // low for pages in some)

    def chunk(self, arithmetic: Arithmetic) -> int:
        """Tokens of a partition: a multiple of what both pages hold, `partition_tokens` or just above."""
        unit = self.high.tokens * self.sections[1].tokens
        return -(-arithmetic.partition_tokens // unit) * unit

    def key_order(self, arithmetic: Arithmetic) -> Lanes:
        """Order of the products of a query and a key: Kgroup threads with F / Kgroup features each, then a tree.

        Raises Refused: the features are not a multiple of the threads.
        """
        groups = (arithmetic.key_threads or self.high.k_group) if arithmetic.order == "kernel" else 1
        if self.high.head_size % groups:
            raise Refused(f"paged_attention: key_threads must divide head_size {self.high.head_size}, got {groups}")
        return Lanes(groups, "blocked", Tree(groups), "product")

    def total_order(self, arithmetic: Arithmetic) -> Order:
        """Order of the sum of exponentials."""
        return threads(arithmetic.sum_threads) if arithmetic.order == "kernel" else Sequential()

    def accumulators(self, arithmetic: Arithmetic) -> int:
        """Accumulators of the values, for one query head."""
        return arithmetic.warps * self.rows_of(arithmetic) if arithmetic.order == "kernel" else 1

    def place(self, page: int, slot: int, arithmetic: Arithmetic) -> int:
        """Accumulator of a slot."""
        rows, slots = self.rows_of(arithmetic), arithmetic.value_slots or self.high.v_vec
        return (rows * (page % arithmetic.warps) + slot // slots % rows) % self.accumulators(arithmetic)


@dataclass(frozen=True)
class Paging:
    """Parameters of the pages of a KV head, which units share."""

    layout: ClassVar[type[Pages]] = Pages  #: orders of sums and accumulators (D-leankv-41)
    head_size: int = 64  #: F, features of a key and of a value
    high: PairName = "K8V4"  #: ready pair of precisions, such as "K8V4"
    low: PairName | None = "K4V2"  #: the low pair; None for one precision
    page_bytes: int | None = 640  #: bytes of a page
    preset: Preset = "paper"  #: preset of the codes
    k_vec: int = UnifiedPage.k_vec  #: packs of a key side by side, as for `UnifiedPage`
    k_group: int = UnifiedPage.k_group  #: threads that share a key, each with packs of its own
    v_vec: int = UnifiedPage.v_vec  #: tokens of a value pack side by side
    v_group: int = UnifiedPage.v_group  #: threads that share a value
    align: tuple[int, int] = ALIGN  #: bytes

    @constant
    def layouts(self) -> Pages:
        """Layouts of the pages of both precisions."""
        constants = {name: getattr(self, name) for name in CONSTANTS}
        return self.layout.of(self.head_size, self.high, self.low, self.page_bytes, self.preset, **constants)


def require(pages: Pages, q: np.ndarray, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray) -> None:
    """Reject invalid shapes and dtypes, heads without a token, table entries that are too short or name no page.

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
    require_runs(pages, len(images), cells, lengths.astype(np.int64))


def finite(q: np.ndarray) -> None:
    """Reject NaN and infinity in queries."""
    reject(~np.isfinite(q), "paged_attention: q must be finite", q)


def require_runs(
    pages: Pages, count: int, cells: np.ndarray, lengths: np.ndarray, thing: str = "paged_attention"
) -> None:
    """Check the numbers of tokens and the table entries of heads. [leankv §5.2]

    cells: (..., L), table entries. lengths: (..., 2), tokens, high and low. Raises Refused: a head has no token, its
    table is too short, or a page id is outside the pool.
    """
    high, low = pages.sections
    used = np.stack([-(-lengths[..., 0] // high.tokens), -(-lengths[..., 1] // low.tokens)], axis=-1)
    total = lengths[..., 0] + lengths[..., 1]
    needed = used[..., 0] + used[..., 1]
    rules: tuple[tuple[Any, Callable[[tuple[int, ...]], str]], ...] = (
        ((lengths < 0).any(axis=-1), lambda i: f"lengths must be at least 0, got {lengths[i].tolist()}"),
        (total == 0, lambda i: "stored tokens must be at least 1, got 0"),
        (needed > cells.shape[-1], lambda i: f"cells must be at most {cells.shape[-1]}, got {needed[i]}"),
    )
    for bad, message in rules:
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
        raise Refused(
            f"{thing}: head{at(index[:-1])}: page must be in [0, {count}), got {cells[index]} in cell {index[-1]}"
        )


def require_distinct(pages: Pages, cells: np.ndarray, lengths: np.ndarray) -> None:
    """Reject a page in two cells of the runs of one of the rows; cells (rows, L), lengths (rows, 2)."""
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
            raise Refused(f"paged_attention: head{at((row,))}: pages must differ, got page {twice[0]} in two cells")


@dataclass(frozen=True, eq=False)
class Attended:
    """Result of `attend`."""

    out: np.ndarray  #: (..., G, F) float16
    p: np.ndarray  #: (..., G, tokens) float32, high slots, then low ones; zeros after the last token of a head


def empty(q: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Zeros for out (..., G, F) and p (..., G, most tokens of a head) of a call, float32."""
    tokens = int((lengths[..., 0].astype(np.int64) + lengths[..., 1]).max(initial=0))
    return np.zeros(q.shape, np.float32), np.zeros((*q.shape[:-1], tokens), np.float32)
