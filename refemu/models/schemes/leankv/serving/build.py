"""Pages and servers for the sizes of a model and a scheme."""

from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.formats.leankv import hetero_kv
from refemu.models.machine.shapes import Shape as Sizes
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.models.schemes.leankv.layout import pages as layouts_of
from refemu.models.schemes.leankv.serving import shares
from refemu.models.schemes.leankv.serving.pages import Layout, Store
from refemu.units.leankv.page_manager import Shape

BLOCK = 16  #: tokens of a block of the cache without compression, as in vLLM


def high_and_pruned(
    config: LeanKvConfig, shape: str, quality: shares.Quality | None, high: float | None, pruned: float | None
) -> tuple[float, float]:
    """Shares of high and of pruned tokens: given ones, or those of Table 1; one precision stores all tokens high."""
    named = [
        name
        for name, value in zip(("quality", "high_share", "pruned_share"), (quality, high, pruned), strict=True)
        if value is not None
    ]
    if not 0 <= (high or 0.0) <= 1 or not 0 <= (pruned or 0.0) <= 1 - (high or 0.0):
        raise Refused(f"simulate: shares must be at least 0 and at most 1 together, got {high} and {pruned}")
    if config.low is None:
        if named and named != ["pruned_share"]:
            raise Refused(f"simulate: {named[0]} changes nothing with one precision, got {config.high}; leave it out")
        return 1 - (pruned or 0.0), pruned or 0.0
    if high is None and pruned is None:
        pairs = [hetero_kv.find(name) for name in (config.high, config.low)]
        return shares.of_table(shape, quality or "lossless", pairs[0], pairs[1], 128)
    if quality is not None or high is None:
        raise Refused("simulate: give --quality, or --high-share with or without --pruned-share")
    return high, pruned or 0.0


def compressed(
    config: LeanKvConfig,
    sizes: Sizes,
    workers: int,
    memory: int,
    max_len: int,
    slots: int,
    share: tuple[float, float],
    seed: int,
    kind: type[Store] = Store,
) -> list[Store]:
    """Stores of all workers for a LeanKV scheme; memory: bytes for the pages of each."""
    kinds = layouts_of(config, sizes.head_dim)
    high, low = kinds.high, kinds.low or kinds.high
    layout = Layout(
        high.size,
        (high.tokens, low.tokens),
        (high.config.token_bytes(sizes.head_dim), low.config.token_bytes(sizes.head_dim)),
        config.window,
    )
    heads = sizes.kv_heads // workers
    shape = _shape(
        config.num_pages or memory // high.size, sizes.blocks, heads, layout, kinds.low is not None, max_len, slots
    )
    high_share, pruned_share = share if kinds.low is not None else (0.0, share[1])
    limits = shares.of_heads(sizes.blocks * sizes.kv_heads, high_share, pruned_share, seed)
    if kinds.low is None:  # what is not pruned is high
        limits[:, 1] = limits[:, 0]
    limits = limits.reshape(sizes.blocks, sizes.kv_heads, 2)
    return [
        _store(shape, layout, limits[:, worker * heads : (worker + 1) * heads].reshape(-1, 2), seed, worker, kind)
        for worker in range(workers)
    ]


def uncompressed(
    sizes: Sizes, workers: int, memory: int, max_len: int, slots: int, seed: int, kind: type[Store] = Store
) -> list[Store]:
    """Stores of all workers for the paged cache in fp16: a page holds a block of tokens of all heads and layers."""
    token = 4 * sizes.head_dim * sizes.blocks * sizes.kv_heads // workers
    layout = Layout(BLOCK * token, (BLOCK, BLOCK), (token, token), max_len)
    shape = _shape(memory // layout.page, 1, 1, layout, False, max_len, slots)
    return [_store(shape, layout, np.zeros((1, 2), np.int64), seed, worker, kind) for worker in range(workers)]


def _shape(pages: int, layers: int, heads: int, layout: Layout, two: bool, max_len: int, slots: int) -> Shape:
    high, low = layout.tokens
    sizes: dict[str, Any] = {"high_tokens": high, "low_tokens": low if two else None}
    return Shape(pages=pages, layers=layers, heads=heads, max_len=max_len, slots=slots, **sizes)


def _store(
    shape: Shape, layout: Layout, limits: np.ndarray, seed: int, worker: int, kind: type[Store] = Store
) -> Store:
    from refemu.units.leankv.page_manager.compiled import PageManager as Compiled

    return kind(Compiled(**vars(shape)), layout, limits, seed, worker)
