"""Golden cases of paged_attention: quantized tokens in pages; a single token, full pages, low pages with only the last
slot, equal logits, and pages of any words. [leankv §6.2]
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith import fp16, prng
from refemu.units import Config
from refemu.units.stimuli import Blocks, Inputs, Seeds, each, first_of_each, uniform

if TYPE_CHECKING:
    from refemu.units.leankv.paged_attention.arithmetic import Pages

Change = Callable[[np.ndarray, int, int], np.ndarray]  #: of drawn vectors, by the number of high tokens and of all
NAMES = ("q", "images", "entry", "n_high", "n_low", "newest")


MANY = 12  #: cells of a table
SMALL = 16  #: tokens of a high page
#: features of queries for which probabilities of tokens of the paper's pages together have ones in all bits
CROWDS = (2.0, 30.625, 7.890625)
BELOW_TWO = float(np.nextafter(np.float32(2), np.float32(0)))


def paper(config: Config) -> Blocks:
    high, low = pages_of(config).sections
    if high.tokens <= SMALL:
        why = "[leankv §6.2] high pages, then low pages of a head, in cells of any order"
        yield why, _rows(config, [(2 * high.tokens + 1, (low.tokens - 2) * (config["low"] is not None), 1)])


def edge(config: Config) -> Blocks:
    if pages_of(config).high.tokens > SMALL:
        yield from _nearly_empty(config)
    else:
        yield from _few(config) if config.get("stages") else _edge(config)


def random(config: Config, seed: Seeds) -> Blocks:
    if pages_of(config).high.tokens > SMALL:  # a row of tens of kilobytes for each seed
        rows = [(*_almost_full(config), 1043 + number) for number in each(seed)]
        why = "values in pairs of opposite sign with equal keys: every order of every sum shows in `out` or `p`"
        yield why, _rows(config, rows, 2.0, _opposite), "D-leankv-56"
    else:
        drawn = uniform("paged_attention", config, (2,), seed)
        some = first_of_each(drawn, 2, 1 if config["cells"] < MANY and not config.get("stages") else 2)
        yield "any codes and moderate metadata: logits of a few units", legal(config, some)


def _almost_full(config: Config) -> tuple[int, int]:
    """Tokens of a high page but two, and of all low pages but the last, of which a half."""
    high, low = pages_of(config).sections
    return high.tokens - 2, (config["cells"] - 2) * low.tokens + low.tokens // 4 * 2


def _nearly_empty(config: Config) -> Blocks:
    """Pages of the paper's size with few tokens, or with tokens whose keys and values are zeros except for one."""
    counts = _almost_full(config)
    few = [
        (1, 0, 2),
        (2, 1, 3),
        (1, 2, 4),
        (1, 0, 5),
        (3, 1, 6),
        (2, 0, 7),
        (1, 1, 8),
        (2, 2, 9),
        (1, 0, 10),
        (1, 3, 11),
    ]
    yield "one token and a few: every bit of an output set and clear", _rows(config, few)
    for end, where in ((0, "first"), (-1, "last")):
        why = f"all keys except the {where} are equal and have one p; together the rows have ones in all bits of p"
        for turn in range(len(CROWDS)):
            crowd = partial(_crowd, end, CROWDS[turn:] + CROWDS[:turn])
            yield why, _rows(config, [(*counts, 12 + turn)], 1.0, crowd)
        why = f"the {where} token gets all attention; scores just below 2, to which nothing is added"
        yield why, _rows(config, [(*counts, 30)], 1.0, partial(_crowd, end, (1024.0,)), BELOW_TWO)
    why = "values from -65504 to 65504, which decode to 65536 and more: outputs beyond fp16"
    yield why, _rows(config, [(1, 0, 17), (2, 0, 18), (1, 1, 19)], 1.0, _ends), "D-arith-2"
    yield "values of subnormal size", _rows(config, [(1, 0, 21), (2, 1, 22), (3, 2, 23)], 1.0, _tiny), "D-arith-2"


def _few(config: Config) -> Blocks:
    """A few rows of small pages, whose registers are shown: a full table, an almost empty one, orders of sums."""
    (high, low), cells = pages_of(config).sections, config["cells"]
    most = (cells // 2 * high.tokens, (cells - cells // 2) * low.tokens)
    rows = [(1, 0, 2), (high.tokens + 1, 1, 4), (1, (cells - 1) * low.tokens, 6)]
    yield "one token; one token in the last page; full low pages", _rows(config, rows)
    why = "full pages: the order of the exponentials, and probabilities in many binades"
    for size, seeds in ((0.5, (24, 25, 26, 32)), (2.0, (24, 25, 26, 27, 44)), (4.0, (7, 8, 30))):
        longest = [(high.tokens, (cells - 1) * low.tokens, each) for each in seeds]
        yield why, _rows(config, longest, size), "D-leankv-56"
    why = "values from -65504 to 65504, which decode to 65536 and more: outputs beyond fp16"
    yield why, _rows(config, [(1, 0, 17), (2, 0, 18), (1, 1, 19)], 1.0, _ends), "D-arith-2"
    why = "values in pairs of opposite sign with equal keys: the result shows the order of the sums"
    yield why, _rows(config, [(*most, 13), (*most, 15), (*most, 23)], 1.0, _opposite), "D-leankv-56"


def _edge(config: Config) -> Blocks:
    (high, low), cells, two = pages_of(config).sections, config["cells"], config["low"] is not None
    full = cells - two
    rows = [(1, 0, 2), (high.tokens, 0, 3), (high.tokens + 1, two, 4), (full * high.tokens, low.tokens * two, 5)]
    rows += [(1, (full - 1) * low.tokens * two, 6)]
    yield "one token; a full page; one token in the last page; full tables", _rows(config, rows)
    both = [(2 * high.tokens, 2 * two, 7), (2 * high.tokens + 1, 3 * two, 8)]
    yield "queries of deviation 4: logits of a few units", _rows(config, both, 4.0), "D-leankv-42"
    half = cells // 2
    most = [
        (half * high.tokens, (cells - half) * low.tokens * two, 13),
        ((half + 1) * high.tokens - 1, ((cells - half - 1) * low.tokens - 1) * two, 14),
        (high.tokens + 1, (cells - 2) * low.tokens * two, 15),
        ((cells - two) * high.tokens, two, 16),
    ]
    few = most[:3:2] if cells > MANY else most
    why = "every cell in use, moderate logits: the order of the exponentials, and of the products of a key"
    yield why, _rows(config, few), "D-leankv-41"
    why = "values in pairs of opposite sign with equal keys: the result shows the order of the sums"
    yield why, _rows(config, most, 1.0, _opposite), "D-leankv-41"
    longest = (high.tokens, (cells - 1) * low.tokens) if two else (cells * high.tokens, 0)
    seeds = (24, 25, 48, 51) if cells > MANY else (24, 25, 26, 37) if two else range(24, 29)
    more = [(*longest, seed) for seed in seeds]
    why = "full pages, queries of deviation 2: probabilities of every slot in many binades"
    yield why, _rows(config, more, 2.0, _moved if two else _bell)
    for first in range(4 * two):
        teeth = [(*longest, seed + first) for seed in (51, 67)]
        why = f"tokens {first}, {first + 4}, ... have most of the attention, especially the first half of them"
        yield why, _rows(config, teeth, 0.5, partial(_comb, first))
    if cells > MANY:  # the rest needs few tokens, and these pages are large
        return
    why = "large logits: one token gets nearly all attention"
    large = [(high.tokens, 3 * two, 9), (2 * high.tokens, two, 10), (2 * high.tokens, two, 33), (3, 0, 34)]
    yield why, _rows(config, large, 16.0), "D-leankv-43"
    why = "queries of zeros: all tokens are equal"
    yield why, _rows(config, [(3, 2 * two, 11), (2 * high.tokens, low.tokens * two, 12)], 0.0)
    why = "exponentials of -87 and less with 1: subnormal probabilities"
    yield why, _rows(config, most[:3], 1.0, _far), "D-leankv-44"
    why = "values from -65504 to 65504, which decode to 65536 and more: outputs beyond fp16, one token and several"
    yield why, _rows(config, [(1, 0, 17), (2, 0, 18), (1, two, 19), (1, 2 * two, 20)], 1.0, _ends), "D-arith-2"
    why = "values of subnormal size"
    yield why, _rows(config, [(1, 0, 21), (2, two, 22), (3, 2 * two, 23)], 1.0, _tiny), "D-arith-2"


def _bell(draw: np.ndarray, n_high: int, total: int) -> np.ndarray:
    """Keys, values and queries as drawn."""
    return draw


def _moved(draw: np.ndarray, n_high: int, total: int) -> np.ndarray:
    """Every key and value but two is that of two tokens before, 4 features on: the file is small."""
    for vectors in (draw[:total], draw[total : 2 * total]):
        for token in range(2, total):
            vectors[token] = np.roll(vectors[token - 2], 4)
    return draw


def _opposite(draw: np.ndarray, n_high: int, total: int) -> np.ndarray:
    """Tokens in pairs, half a section apart: equal keys, and integers of opposite sign, exact in 4 and 2 bits."""
    keys, values = draw[:total], draw[total : 2 * total]
    for first, count, top in ((0, n_high, 15), (n_high, total - n_high, 3)):
        half = count // 2
        for token in range(first, first + half):
            whole = np.floor(np.abs(values[token]) * 1024) % (top + 1) - top // 2
            whole[:2] = -(top // 2), top - top // 2
            keys[token + half], values[token], values[token + half] = keys[token], 64 * whole, -64 * whole
    return draw


def _comb(first: int, draw: np.ndarray, n_high: int, total: int) -> np.ndarray:
    """Feature 0 of every fourth key from `first` on matches every query: logits of 3.5 and 4 among small ones."""
    _moved(draw, n_high, total)[:total, 0] = 0
    draw[first:total:4, 0] = np.where(np.arange(first, total, 4) < total // 2, 4, 3.5)
    draw[2 * total :, 0] = 16
    return draw


def _crowd(end: int, queries: tuple[float, ...], draw: np.ndarray, n_high: int, total: int) -> np.ndarray:
    """Keys of zeros except for the first or the last, which query head h multiplies by its turn of `queries`."""
    token = end % total
    draw[: 2 * total], draw[token, 0] = 0, 255 / 64  # exact in codes of 8 and of 4 bits
    draw[total + token] = np.arange(draw.shape[1]) % 16 - 5
    heads = draw[2 * total :]
    heads[:], heads[:, 0] = 0, [queries[head % len(queries)] for head in range(len(heads))]
    return draw


def _far(draw: np.ndarray, n_high: int, total: int) -> np.ndarray:
    """Logits by feature 0 alone: that of token 0 is 96, that of token t > 0 below it by 86 + t % 20."""
    draw[:total] = 0
    draw[:total, 0] = [8 if t == 0 else (10 - t % 20) / 12 for t in range(total)]
    draw[2 * total :] = 0
    draw[2 * total :, 0] = 96
    return draw


def _ends(draw: np.ndarray, n_high: int, total: int) -> np.ndarray:
    """Values at both ends of fp16."""
    draw[total : 2 * total] = np.where(draw[total : 2 * total] < 0, -65504, 65504)
    return draw


def _tiny(draw: np.ndarray, n_high: int, total: int) -> np.ndarray:
    """Values of up to about 2**-17."""
    draw[total : 2 * total] *= np.float32(1 / (1 << 18))
    return draw


def pages_of(config: Mapping[str, Any]) -> "Pages":
    """Layouts of a configuration."""
    from refemu.units.leankv.paged_attention.arithmetic import CONSTANTS, Pages

    names = {"head_size", "high", "low", "page_bytes", "preset", *CONSTANTS}
    return Pages.of(**{name: value for name, value in config.items() if name in names})


def _rows(
    config: Config,
    rows: list[tuple[int, int, int]],
    size: float = 1.0,
    change: Change = _bell,
    score: float | None = None,
) -> Inputs:
    """Rows of (high tokens, low tokens, seed): bell-shaped keys, values and queries of deviation `size`, changed.

    score: score of every token before the step; None for drawn scores.
    """
    pages = pages_of(config)
    held = [row for row in rows if min(row[:2]) >= 0 and _cells(pages, row) <= config["cells"]] or [(0, 0, 0)]
    columns = zip(*(_row(pages, config, *row, size, change, score) for row in held), strict=True)
    return {name: np.array(column, np.int64) for name, column in zip(NAMES, columns, strict=True)}


def _cells(pages: "Pages", row: tuple[int, int, int]) -> int:
    """Pages of the two sections of a row."""
    high, low = (-(-count // layout.tokens) for count, layout in zip(row, pages.sections, strict=False))
    return high + low


def _row(
    pages: "Pages", config: Config, n_high: int, n_low: int, seed: int, size: float, change: Change, score: float | None
) -> tuple[Any, ...]:
    cells, features, total = config["cells"], config["head_size"], n_high + n_low
    drawn = _bells(seed, (2 * total + config["heads"]) * features).reshape(-1, features)
    draw = change(drawn, n_high, total)
    order = [int(word) for word in np.argsort(prng.words(seed, 1 << 20, cells), kind="stable")]
    images = np.zeros((cells, pages.high.size // 2), np.uint16)
    scores = np.ldexp(np.abs(_bells(seed + 100, total)) / np.float32(3), -(seed % 17))  # all bits of a word
    if score is not None:
        scores = np.full(total, score, np.float32)
    positions = np.roll(np.arange(total), total - n_high)  # the low tokens are the oldest
    for section, (count, first) in enumerate(((n_high, 0), (n_low, n_high))):
        part = slice(first, first + count)
        vectors = (fp16.to_f16(draw[begin : begin + total][part]) for begin in (0, total))
        fill(images, order, pages, section, *vectors, scores[part], positions[part])
    q = fp16.bits(fp16.to_f16(draw[2 * total :] * np.float32(size)))
    return (q.ravel().tolist(), images.ravel().tolist(), order, n_high, n_low, total - 1)


def fill(images: np.ndarray, order: Sequence[int], pages: "Pages", section: int, *token: np.ndarray) -> None:
    """Write tokens into the slots of a section: keys, values, scores and positions; order: pages of the table entry."""
    layout, (key, value, *stored) = pages.sections[section], token
    formats = layout.config.key(pages.preset), layout.config.value(pages.preset)
    for index, record in enumerate(layout.record(formats[0].encode(key), formats[1].encode(value), *stored)):
        cell, slot = divmod(index, layout.tokens)
        layout.write(images[order[cell if section == 0 else -1 - cell]], slot, record)


def _bells(seed: int, count: int) -> np.ndarray:
    """float32 values like those of activations: sums of four uniform ones, exact."""
    words = prng.words(seed, 0, 4 * count).reshape(count, 4) >> np.uint64(44)
    total = words[:, 0] + words[:, 1] + words[:, 2] + words[:, 3]
    return (total.astype(np.int64) - (1 << 21)).astype(np.float32) / np.float32(1 << 19)


@lru_cache(maxsize=8)
def _moderate(pages: "Pages") -> tuple[np.ndarray, np.ndarray]:
    """Masks of bits of every word of an image, (words,), to retain and to set: moderate metadata and scores.

    Steps are from 2**-7 to 2**-5 and zero points within 2, so keys of 8 bits reach 10, and logits a few units.
    """
    kept, put = np.full(pages.high.size // 2, 0xFFFF), np.zeros(pages.high.size // 2, np.int64)
    for layout in pages.sections:  # an image may have tokens of either section
        for part, word, bits, more in (
            ("key_meta", slice(1, None, 2), 0xBFFF, 0),
            ("val_meta", slice(1, None, 2), 0xBFFF, 0),
            ("key_meta", slice(0, None, 2), 0x07FF, 0x2000),
            ("val_meta", slice(0, None, 2), 0x07FF, 0x2000),
            ("score", slice(1, None, 2), 0x3F7F, 0),
            ("pos", slice(1, None, 2), 0x3F7F, 0),
        ):
            places = layout.slot_words[:, layout.parts[part]][:, word].ravel()
            kept[places] &= bits
            put[places] |= more
    return kept, put & kept | put


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` with queries and pages of moderate size, each page in one cell, and no more tokens than cells hold."""
    pages = pages_of(config)
    changed = {name: np.array(array) for name, array in inputs.items()}
    cells, rows = config["cells"], changed["n_high"].size
    high, low = pages.sections
    images = changed["images"].reshape(rows, cells, high.size // 2)
    for change, bits in zip((np.bitwise_and, np.bitwise_or), _moderate(pages), strict=True):
        images = change(images, bits.astype(images.dtype))
    changed["images"] = images.reshape(changed["images"].shape)
    changed["q"] = changed["q"] & changed["q"].dtype.type(0xBFFF)
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
