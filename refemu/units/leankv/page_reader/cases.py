"""Golden cases of page_reader: quantized tokens; one token, full pages, values at the ends of fp16, ties, infinities.
[leankv §5.2, §6.2]
"""

from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith import fp16, prng
from refemu.units import Config
from refemu.units.leankv.paged_attention.cases import fill, pages_of
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, uniform

if TYPE_CHECKING:
    from refemu.units.leankv.paged_attention import Pages

SCALE, ZERO = 0, 1  #: words of a group's metadata
#: scales, zeros and codes whose exact value is just above a tie of fp16, while its float32 value is the tie
TIES = [((1417 - 1024) | (exponent + 1) << 10, 0x8000 | (exponent + 20) << 10) for exponent in range(4, 10)]
TIE_CODE = 185
#: a word of scores and positions, scale and zero: outputs 0xAAAA and 0x5555 in fp16, and 1 - 2**-24
ONES = ((0xAAAA, 0x0000, 0x2AAA), (0x5555, 0x0000, 0xD555), (0xAAAA, 0x8001, 0xBC00))
#: rows of any codes, by output; two of a page with many words
ROWS = {"fp16": 4, "fp32": 6}
INFINITY, LARGEST, LEAST = 0x7C00, 0x7BFF, 0x0001
#: scale and zero: the largest, the least, none, and signed zeros
ENDS = (
    *((LARGEST, LARGEST), (LARGEST, 0x8000 | LARGEST), (LEAST, LEAST), (LEAST, 0x8001), (0x0000, 0x0000)),
    *((0x0000, 0x8000), (0x0400, 0x8000), (0x0203, 0x0101), (0xBC00, 0x0000), (0xBC00, 0x8000)),
)


def paper(config: Config) -> Blocks:
    pages = pages_of(config)
    (high, low), two = pages.sections, pages.low is not None
    # high pages and a part of one, low pages without their last two tokens
    counts = _fitting(config, pages, [(2 * high.tokens + 1, low.tokens - 2) if two else (high.tokens - 1, 0)])[0]
    why = "[leankv §6.2] quantized tokens in high pages, then in low pages, in cells of any order"
    yield _rows(why, config, pages, [_quantized(config, pages, *counts, 1, 1.0)])


def edge(config: Config) -> Blocks:
    pages = pages_of(config)
    two = pages.low is not None
    high, low = pages.sections
    half = max(1, config["cells"] // 2) if two else config["cells"]
    full = half * high.tokens, (config["cells"] - half) * low.tokens
    few = [(1, 0), (high.tokens, 0)]
    few += [(high.tokens + 1, 1), (1, full[1] - 1), full] if two else [(high.tokens - 1, 0)]
    few = _fitting(config, pages, few)
    rows = [_quantized(config, pages, *counts, seed, 4.0) for seed, counts in enumerate(few, 2)]
    yield _rows("one token, full pages, one token in the last page", config, pages, rows)
    ends = [_quantized(config, pages, *full, seed, size) for seed, size in ((9, 65504.0), (10, 1 / (1 << 20)))]
    yield _rows("features up to the largest of fp16, and subnormal ones", config, pages, ends, "D-arith-2")
    why = "exact values just above a tie of fp16: they differ from those that were rounded to float32 before"
    ties = [_any(config, pages, full, seed, TIES, TIE_CODE) for seed in (11, 12)]
    yield _rows(why, config, pages, ties, "D-leankv-74")
    why = "scales and zeros at the ends of fp16 and zeros of both signs, all codes"
    every = [_any(config, pages, full, seed, ENDS) for seed in (14, 15, 16)]
    yield _rows(why, config, pages, every, "D-leankv-1")
    why = "as many tokens as the entry has places for, any codes and any finite metadata"
    most = (high.tokens, (config["cells"] - 1) * low.tokens) if two else full
    count = ROWS[config["output"]] if config["cells"] > 1 else 2
    yield _rows(why, config, pages, [_any(config, pages, most, seed) for seed in range(100, 100 + count)])
    why = "every bit of every output is 1 in a row"
    yield _rows(why, config, pages, [_ones(config, pages, most, *each) for each in ONES])
    why = "parts of pages whose other slots and pages hold tokens too"
    low_too = [(1, 1), (2, 2), (high.tokens, 1), (2 * high.tokens, 2), (high.tokens, low.tokens)]
    parts = low_too if two else [(1, 0), (2, 0), (6, 0), (17, 0)]
    parts = _fitting(config, pages, parts)
    yield _rows(why, config, pages, [_any(config, pages, each, 50 + row) for row, each in enumerate(parts)])
    why = "an infinite scale or zero, as the quantizer stores it beyond fp16: infinities, and NaN for code 0"
    beyond = [_any(config, pages, full, 17, [(INFINITY, 0x3C00), (0x3C00, 0xFC00), (INFINITY, INFINITY)])]
    yield _rows(why, config, pages, beyond, "D-leankv-7")


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("page_reader", config, (2,), seed)
    yield "any codes and finite metadata", legal(config, drawn)


def _fitting(config: Config, pages: "Pages", rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of the numbers of tokens that the table entry has cells for; one token if there are none."""
    high, low = pages.sections
    cells = [-(-n_high // high.tokens) - (-n_low // low.tokens) for n_high, n_low in rows]
    fits = [row[0] >= 1 and row[1] >= 0 and count <= config["cells"] for row, count in zip(rows, cells, strict=True)]
    return list(compress(rows, fits)) or [(1, 0)]


def _rows(why: str, config: Config, pages: "Pages", rows: list[Any], decision: str = "") -> Block:
    """Cases of rows (images, high tokens, low tokens), each with another order of the pages."""
    orders = [np.argsort(prng.words(row, 0, config["cells"]), kind="stable") for row in range(len(rows))]
    images, n_high, n_low = zip(*rows, strict=True)
    moved = [each[np.argsort(order, kind="stable")].ravel() for each, order in zip(images, orders, strict=True)]
    columns = {"images": np.array(moved, np.int64), "entry": np.array(orders, np.int64)}
    return why, columns | {"n_high": np.array(n_high), "n_low": np.array(n_low)}, decision


def _quantized(
    config: Config, pages: "Pages", n_high: int, n_low: int, seed: int, size: float
) -> tuple[np.ndarray, int, int]:
    """Pages of tokens with features of magnitude `size`, cell by cell, other words 0."""
    images = np.zeros((config["cells"], pages.high.size // 2), np.uint16)
    for section, count in enumerate((n_high, n_low)):
        drawn = prng.words(seed + 100 * section, 0, 2 * count * pages.high.head_size) >> np.uint64(40)
        uniform = drawn.astype(np.float64).reshape(2, count, pages.high.head_size) / (1 << 23) - 1
        vectors = fp16.to_f16((uniform * size).astype(np.float32))
        scores = np.ldexp(np.arange(1, count + 1, dtype=np.float32) / np.float32(3), -(seed % 17))
        fill(images, range(len(images)), pages, section, *vectors, scores, np.arange(count) * 7919 - 3)
    return images, n_high, n_low


def _any(
    config: Config, pages: "Pages", full: tuple[int, int], seed: int, metadata: Any = None, code: int | None = None
) -> tuple[np.ndarray, int, int]:
    """Pages of any codes, or of one code of 8 bits in half of the words; scales and zeros of a list, or any finite."""
    size = config["cells"], pages.high.size // 2
    images = (prng.words(seed, 0, size[0] * size[1]) & np.uint64(0xFFFF)).astype(np.uint16).reshape(size)
    if code is not None:
        images[:, ::2] = code | code << 8
    for cell, image in enumerate(images):
        layout = pages.sections[int(cell >= -(-full[0] // pages.high.tokens))]
        for part in ("key_meta", "val_meta"):
            places = layout.slot_words[:, layout.parts[part]].reshape(-1, 2)
            if metadata is None:
                image[places] = image[places] & 0xBFFF if seed % 4 else image[places] & 0xFBFF | 0x4000
                if seed % 2:  # zeros of smaller exponents than the products: sums with ones in all bits of float32
                    image[places] &= 0x83FF
                    image[places] |= np.array([0x3C00, 2 + seed // 2 % 9 << 10], np.uint16)
            else:
                image[places] = np.array(metadata, np.uint16)[(np.arange(len(places)) + seed) % len(metadata)]
        scores = layout.slot_words[:, layout.parts["score"]][:, 1]  # finite, below 2 or above
        image[scores] = image[scores] & 0xBFFF if seed % 2 else image[scores] & 0xFF7F | 0x4000
    return images, *full


def _ones(
    config: Config, pages: "Pages", full: tuple[int, int], word: int, scale: int, zero: int
) -> tuple[np.ndarray, int, int]:
    """Pages of one scale and zero, all codes 1, scores and positions of one word."""
    images = np.full((config["cells"], pages.high.size // 2), word, np.uint16)
    for cell, image in enumerate(images):
        layout = pages.sections[int(cell >= -(-full[0] // pages.high.tokens))]
        for part, form in (("key", layout.config.key(pages.preset)), ("val", layout.config.value(pages.preset))):
            image[layout.slot_words[:, layout.parts[part]]] = 0xFFFF // ((1 << form.bits) - 1)
            image[layout.slot_words[:, layout.parts[f"{part}_meta"]].reshape(-1, 2)] = scale, zero
    return images, *full


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` with finite metadata and scores, and no more tokens than cells hold."""
    pages = pages_of(config)
    changed = {name: np.array(array) for name, array in inputs.items()}
    cells, rows = config["cells"], changed["n_high"].size
    high, low = pages.sections
    kept = np.full(high.size // 2, 0xFFFF)
    for layout in pages.sections:  # an image may have tokens of either section
        for part, words, bits in (
            ("key_meta", slice(None), 0xBFFF),
            ("val_meta", slice(None), 0xBFFF),
            ("score", slice(1, None, 2), 0xBFFF),
        ):
            kept[layout.slot_words[:, layout.parts[part]][:, words].ravel()] &= bits
    images = changed["images"].reshape(rows, cells, -1)
    changed["images"] = (images & kept.astype(images.dtype)).reshape(changed["images"].shape)
    n_high, n_low = (changed[name].ravel().astype(np.int64) for name in ("n_high", "n_low"))
    left = cells - -(-n_high // high.tokens)
    n_low = np.minimum(n_low, left * low.tokens) * (pages.low is not None)
    changed["n_low"] = n_low.reshape(changed["n_low"].shape).astype(changed["n_low"].dtype)
    return changed
