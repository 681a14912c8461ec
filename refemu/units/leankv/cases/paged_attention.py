"""Golden cases of paged_attention: quantized tokens in pages; a single token, full pages, low pages only of the last
slot, equal logits, and pages of any words.

This module describes stimuli only; the descriptor, and with it every answer, is in paged_attention.py. [leankv §6.2]
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith import fp16, prng
from refemu.units import find
from refemu.units.stimuli import Seeds, random_inputs
from refemu.units.unit import Cases, Config, Kind

if TYPE_CHECKING:
    from refemu.units.leankv.paged_attention.arithmetic import Pages

NAMES = ("q", "images", "entry", "n_high", "n_low", "newest")


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    pages = _pages(config)
    high, low = pages.sections
    two = pages.low is not None
    if kind == "paper":
        why = "[leankv §6.2] high pages, then low pages of a head, in cells of any order"
        yield _rows(kind, why, pages, config, [(2 * high.tokens + 1, (low.tokens - 2) * two, 1)])
    if kind == "edge":
        full = config["cells"] - two
        rows = [
            (1, 0, 2),
            (high.tokens, 0, 3),
            (high.tokens + 1, two, 4),
            (full * high.tokens, low.tokens * two, 5),
            (1, (full - 1) * low.tokens * two, 6),
        ]
        yield _rows("edge", "one token; a full page; one token in the last page; full tables", pages, config, rows)
        yield _rows(
            "edge",
            "products that cancel: fused or not, the order of the sums",
            pages,
            config,
            [(2 * high.tokens, 2 * two, 7), (2 * high.tokens + 1, 3 * two, 8)],
            4.0,
            "D-leankv-42",
        )
        why = "large logits: one token takes nearly all"
        yield _rows(
            "edge", why, pages, config, [(high.tokens, 3 * two, 9), (2 * high.tokens, two, 10)], 16.0, "D-leankv-43"
        )
        why = "queries of zeros: all tokens are equal"
        yield _rows("edge", why, pages, config, [(3, 2 * two, 11), (2 * high.tokens, low.tokens * two, 12)], 0.0)
    if kind == "random":
        drawn = random_inputs("paged_attention", find("paged_attention").ports(config).inputs, (2,), seed)
        yield Cases(kind, "any words in the pages", legal(config, drawn))


def _pages(config: Mapping[str, Any]) -> "Pages":
    from refemu.units.leankv.paged_attention.arithmetic import Pages

    names = ("head_size", "high", "low", "page_bytes", "preset")
    return Pages.of(**{name: config[name] for name in names})


def _rows(
    kind: Kind,
    why: str,
    pages: "Pages",
    config: Config,
    rows: list[tuple[int, int, int]],
    size: float = 1.0,
    decision: str = "",
) -> Cases:
    """Rows of (high tokens, low tokens, seed): bell-shaped keys, values and queries of deviation `size`."""
    columns = zip(*(_row(pages, config, *row, size) for row in rows), strict=True)
    return Cases(
        kind, why, {name: np.array(column, np.int64) for name, column in zip(NAMES, columns, strict=True)}, decision
    )


def _row(pages: "Pages", config: Config, n_high: int, n_low: int, seed: int, size: float) -> tuple[Any, ...]:
    cells, features, total = config["cells"], config["head_size"], n_high + n_low
    draw = _bells(seed, (2 * total + config["heads"]) * features).reshape(-1, features)
    order = [int(word) for word in np.argsort(prng.words(seed, 1 << 20, cells), kind="stable")]
    images = np.zeros((cells, pages.high.size // 2), np.uint16)
    scores = np.abs(_bells(seed + 100, total))
    positions = np.roll(np.arange(total), total - n_high)  # the low tokens are the oldest
    for section, (layout, count, first) in enumerate(zip(pages.sections, (n_high, n_low), (0, n_high), strict=True)):
        part = slice(first, first + count)
        key, value = (fp16.to_f16(draw[begin : begin + total][part]) for begin in (0, total))
        records = layout.record(
            layout.config.key(pages.preset).encode(key),
            layout.config.value(pages.preset).encode(value),
            scores[part],
            positions[part],
        )
        for index in range(count):
            cell = index // layout.tokens if section == 0 else cells - 1 - index // layout.tokens
            layout.write(images[order[cell]], index % layout.tokens, records[index])
    q = fp16.bits(fp16.to_f16(draw[2 * total :] * np.float32(size)))
    return (q.ravel().tolist(), images.ravel().tolist(), order if cells > 1 else order[0], n_high, n_low, total - 1)


def _bells(seed: int, count: int) -> np.ndarray:
    """float32 values like those of activations: sums of four uniform ones, exact."""
    words = prng.words(seed, 0, 4 * count).reshape(count, 4) >> np.uint64(44)
    total = words[:, 0] + words[:, 1] + words[:, 2] + words[:, 3]
    return (total.astype(np.int64) - (1 << 21)).astype(np.float32) / np.float32(1 << 19)


@lru_cache(maxsize=8)
def _moderate(pages: "Pages") -> np.ndarray:
    """The bits of every word of an image, (words,), that keep scales, zero points, scores and positions moderate."""
    mask = np.full(pages.high.size // 2, 0xFFFF)
    for layout in pages.sections:  # an image may hold tokens of either
        for part, upper, bits in (
            ("key_meta", 0, 0xBFFF),
            ("val_meta", 0, 0xBFFF),
            ("score", 1, 0x3F7F),
            ("pos", 1, 0x3F7F),
        ):
            mask[layout.slot_words[:, layout.parts[part]][:, upper:].ravel()] &= bits
    return mask


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with pages of moderate metadata, each in one cell, and no more tokens than there are cells for.

    Metadata keep a small exponent: an infinite key would make every output NaN.
    """
    pages = _pages(config)
    changed = {name: np.array(array) for name, array in inputs.items()}
    cells, rows = config["cells"], changed["n_high"].size
    high, low = pages.sections
    images = changed["images"].reshape(rows, cells, high.size // 2)
    images &= _moderate(pages).astype(images.dtype)
    entry = np.argsort(changed["entry"].reshape(rows, cells), axis=-1, kind="stable")
    n_high, n_low = changed["n_high"].ravel().astype(np.int64), changed["n_low"].ravel().astype(np.int64)
    n_high = (n_high - 1) % (cells * high.tokens) + 1
    left = cells - -(-n_high // high.tokens)
    changed["n_high"], changed["n_low"] = (
        array.reshape(changed["newest"].shape).astype(changed[name].dtype)
        for name, array in (
            ("n_high", n_high),
            ("n_low", np.minimum(n_low, left * low.tokens) * (pages.low is not None)),
        )
    )
    return changed | {"entry": entry.reshape(changed["entry"].shape).astype(changed["entry"].dtype)}
