"""Sizes of the products of a block on Harmonia's timeline: linear layers, and both products of the attention.

Paper: [harmonia §III-B, §IV-A, §IV-D]. Decision: D-harmonia-60 (query heads that share a KV head).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from refemu.models.machine.report import Cost
from refemu.models.schemes.harmonia.machine import work
from refemu.models.schemes.harmonia.machine.options import HarmoniaMachine
from refemu.models.schemes.harmonia.machine.sizes import BFP4, BFP8, INT4, Format, Product, packed
from refemu.units.declaration import decides

STORED = {8: BFP8, 4: BFP4}  #: format by mantissa bits
SLOTS = {8: 2, 4: 1}  #: clocks of a group by mantissa bits


def linear(config: Mapping[str, Any], machine: HarmoniaMachine) -> Product:
    """The product of a linear layer. config: of harmonia_core, or the part of it that differs from a plain one."""
    path, kind, window = machine.datapath, config["kind"], config.get("window", 0)
    sizes = config["rows"], config["inner"], config["columns"]
    tile_m, tile_k = tiles = machine.tiles(*sizes, path.linear, INT4)
    shifted = kind == "k" and window > 0 and path.converts
    return Product(
        kind,
        *sizes,
        a=path.linear,
        b=INT4,
        slots=path.weights,
        m=config.get("m", 8) if path.converts else 0,
        tile_m=tile_m,
        tile_k=tile_k,
        head_dim=config.get("head_dim", 32),
        dataflow=machine.force(*sizes, tiles, INT4),
        activation=config.get("activation", "none"),
        rotation=config.get("rotation", "none") if kind in ("q", "k") else "none",
        bias=config.get("bias_add", "none"),
        shifted=shifted,
        tracked=min(window, config["rows"]) if shifted and config.get("start", 0) == 0 else 0,
    )


class Heads(NamedTuple):
    """The attention of some new tokens of one request, or of several alike."""

    heads: int
    kv_heads: int
    size: int  #: channels of a head
    length: int  #: keys of the cache
    seen: np.ndarray  #: int64 (tokens,): cache length whose widths each token sees
    keys: np.ndarray  #: int64 (tokens,): keys that each token may see
    falls: tuple[np.ndarray, np.ndarray]  #: cache lengths at which keys, and groups of values, are demoted; 0: never
    bits: tuple[int, int]  #: mantissa bits before and after
    requests: int = 1

    def share(self, machine: HarmoniaMachine) -> int:
        """Query heads in one product."""
        return shared(self.heads, self.kv_heads, machine)


@decides("D-harmonia-60")
def shared(heads: int, kv_heads: int, machine: HarmoniaMachine) -> int:
    """Query heads in one product: those of a KV head, row by row of each token, or one."""
    return heads // kv_heads if machine.heads == "shared" else 1


def attention(heads: Heads, score: bool, machine: HarmoniaMachine) -> tuple[Product, int]:
    """Queries times keys, or scores times values, of one KV head, and how many such products there are."""
    path, share = machine.datapath, heads.share(machine)
    (high, low), rows = heads.bits, share * len(heads.seen)
    a, b = (path.attention or each for each in (BFP8, STORED[high]))
    narrow: Format | None = STORED[low] if path.converts and low < high else None
    inner, columns = (heads.size, heads.length) if score else (heads.length, heads.size)
    kind = "score" if score else "final" if heads.size % 32 else "context"
    tile_m, tile_k = tiles = machine.tiles(rows, inner, columns, a, b)
    product = Product(
        kind,  # type: ignore[arg-type]
        rows,
        inner,
        columns,
        a=a,
        b=b,
        low=narrow,
        slots=path.products or SLOTS[high],
        low_slots=SLOTS[low],
        m=8 if path.converts else 0,
        tile_m=tile_m,
        tile_k=tile_k,
        dataflow=machine.force(rows, inner, columns, tiles, b),
        codes=machine.codes,
        falls=packed(heads.falls[0 if score else 1]) if narrow else b"",
        seen=packed(np.repeat(heads.seen, share)) if narrow else b"",
    )
    return work.visible(product, np.repeat(heads.keys, share), machine), heads.requests * heads.heads // share


def attended(heads: Heads, machine: HarmoniaMachine, place: str = "") -> Iterator[tuple[str, Cost]]:
    """Costs of both products. place: of the names of their records."""
    for name, score, stream in (("scores", True, "keys"), ("context", False, "values")):
        product, times = attention(heads, score, machine)
        yield "attention", work.cost(name + place, "attention", product, stream, machine, times)
