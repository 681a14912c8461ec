"""Golden cases of index_matmul: the column with [kllm Fig. 3]'s dimensions, outliers of either operand, scales."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units import Config, Port, find
from refemu.units.stimuli import Blocks, Inputs, Seeds, filled, first_of_each, random_inputs

A = [0, 1, 1, 0, 1, 0, 0, 1]  #: indices of a worked column of [kllm Fig. 3a]'s dimensions
B = [3, 0, 2, 2, 1, 3, 0, 1]
Q = [3, 0, 1, 2, 1, 3, 0, 2]  #: integers for the same B
ONE = 0x3C00
WORKED = {"shift": 0x3800, "row_sum": 0x4200, "bias": 0x3400}  #: h = 0.5, R_n = 3, bias 0.25: Y = -1.5625 - 1.5 + 0.25
#: words for no product at all
NONE = dict.fromkeys(("a_index", "b_index", "a_mask", "b_mask", "a_outlier", "b_outlier", *WORKED), 0)
LONG = 256  #: least number of positions with few random rows


def paper(config: Config) -> Blocks:
    if config["k"] >= len(A):  # a shorter one has no place for the worked column
        where = "[kllm §III-B2, Fig. 3b]" if config["integer"] else "[kllm §III-B1, Fig. 3a]"
        yield f"{where} eight positions, four centroids of B, no outliers", _rows(config, 1)


def edge(config: Config) -> Blocks:
    names = {port.name for port in find("index_matmul").ports(config).inputs}
    if config["k"] < len(A):
        return
    if "bias" in names or "shift" in names:
        yield from _merges(config, names)
    yield "one outlier of A, of B, of both at one position, everywhere", _outliers(config), "D-kllm-12"
    yield "sparse and dense part cancel", _cancelling(config), "D-kllm-33"
    ends = {"a_scale": [0x0001, 0x7BFF, 0x0001, 0x0400], "b_scale": [0x0001, 0x7BFF, 0x7BFF, 0x0400]}
    yield "scales at the ends of fp16: the product of scales underflows or overflows", _rows(config, 4, **ends)
    yield "all positions at one entry of the table: every counter reaches K", _crowded(config), "D-kllm-4"
    if config["k"] <= LONG:
        why = "one product: scaled halfway between two fp16 values, subnormal; none with an infinite scale"
        yield why, _rounded(config), "D-arith-2"
    if config["k"] <= LONG and not config["integer"]:
        book = spread([0, ONE], 1 << config["b_bits"])  # one product, -0.5
        joint = _rows(config, 2, **NONE, a_scale=[0x3C01, 0x3C03], b_scale=0x3E00, b_codebook=book)
        joint["b_index"][:, 0] = 1
        yield "products of scales midway between two fp16 values: up to even, and down", joint, "D-kllm-33"
    if "a_mask" in names:
        place, size = np.arange(config["k"]), 1 << config["b_bits"]
        book = spread([0xAE66, 0xB555, 0x3555, 0x3A66], size)  # inexact products with scales
        outliers = {"a_mask": 1, "a_outlier": 0x4900 + place % 256, "b_index": place % size}
        inexact = _rows(config, 2, **outliers, b_codebook=book, b_scale=[0x3555, 0x2E66])
        yield "every position an outlier of A, weights that are inexact in fp16", inexact, "D-kllm-32"
    if config["k"] > LONG and {"a_mask", "b_mask"} <= names:
        yield "one product, or one outlier of B, of even words and of odd ones", _odd(config)


def random(config: Config, seed: Seeds) -> Blocks:
    ports = find("index_matmul").ports(config).inputs
    rows = 48 if config["a_bits"] + config["b_bits"] > 6 else 96
    merged = {port.name for port in ports} & {"bias", "shift"}
    rows, few = (2, 1) if config["k"] > LONG else (24, 8) if merged else (rows, 12)
    real, wild = drawn("index_matmul", config, ports, rows, few, seed)
    yield "normalized codebooks, one outlier in eight, outliers and scales as in real tensors", real
    yield "uniform words, half of the positions outliers", wild


def _rows(config: Config, count: int, **changed: Any) -> dict[str, np.ndarray]:
    """Rows of the worked column; positions past its end have amount 0, or are outliers of value 0.

    changed: words of ports, if the unit has them.
    """
    place, short, integer = np.arange(config["k"]), config["k"] - len(A), config["integer"]
    words: dict[str, Any] = {"a_index": np.pad(Q if integer else A, (0, short)), "b_index": np.pad(B, (0, short))}
    words |= {"a_scale": ONE, "b_codebook": spread([0xBC00, 0xB400, 0x3400, 0x3C00], 1 << config["b_bits"])}
    if integer:
        words["a_outlier"] = 0x2C00 + 16 * place
    else:
        words |= {**WORKED, "b_scale": ONE, "a_mask": place >= len(A)}
        words["a_codebook"] = spread([0xB800, 0x3A00], 1 << config["a_bits"])
    return with_products(filled("index_matmul", config, count, **words | changed))


def spread(words: list[int], size: int) -> np.ndarray:
    """A codebook that begins with the given entries; the others are 1."""
    table = np.full(size, ONE)
    table[: len(words)] = words[:size]
    return table


def with_products(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add the product codebook of both codebooks [kllm §III-B]."""
    if "a_codebook" not in inputs:
        return inputs
    a, b = (fp16.values(inputs[f"{side}_codebook"]).astype(np.float32) for side in "ab")
    table = fp16.narrow(a[:, :, None] * b[:, None, :] + np.float32(0)).reshape(len(a), -1)
    return {**inputs, "products": fp16.bits(table)}


def _outliers(config: Config) -> Inputs:
    place = np.arange(config["k"])
    inputs = _rows(config, 4, a_outlier=0x4900 + place, b_outlier=0xC480 + place)
    masks = [name for name in ("b_mask", "a_mask") if name in inputs]
    for row, positions in enumerate((place == 2, place == 5, place == 5, place >= 0)):
        for mask in [masks[row % len(masks)]] if row < 2 else masks:
            inputs[mask][row, positions] = 1
    return inputs


def _odd(config: Config) -> Inputs:
    """All positions but one are outliers of A of value 0; the one is dense, then an outlier of B of value 1."""
    inputs, odd = _rows(config, 4), np.arange(4) % 2
    inputs["a_mask"][:], inputs["a_mask"][:, 1] = 1, 0
    inputs["b_mask"][2:, 1], inputs["b_outlier"][2:, 1] = 1, ONE
    inputs["a_scale"] = inputs["a_scale"] | odd
    return inputs | {name: inputs[name] | odd[:, None] for name in ("a_codebook", "products")}


def _cancelling(config: Config) -> Inputs:
    """The column's dense part is -1.5625 (of integers 6), the one outlier its opposite, or nearly."""
    inputs = _rows(config, 3)
    inputs["b_index"][:, 7] = 0
    for mask in {"a_mask", "b_mask"} & inputs.keys():
        inputs[mask][:, 7] = 1
    words = [0x3C80, 0x3C81, 0xC600]
    if "b_outlier" in inputs:
        inputs["a_outlier"][:, 7], inputs["b_outlier"][:, 7] = ONE, words
    else:
        inputs["a_outlier"][:, 7] = np.array(words) ^ 0x8000  # times the first centroid of B, -1
    return inputs


def _merges(config: Config, names: set[str]) -> Blocks:
    """What the merge adds after the sparse part: a bias, a LayerNorm's shift."""
    alone = [(0, 0, 0), (0, 0, 0x4500), (0x3800, 0x4200, 0), (0xB800, 0x4200, 0x4500), (0x3800, 0xC200, 0xC500)]
    yield "nothing, the bias alone, the shift alone, both", _added(config, alone), "D-kllm-40"
    if "shift" not in names:
        return
    order = [(0x3800, 0xE800, 0x3C00), (0x3800, 0x6800, 0xBC00), (0xBC00, 0x6800, 0xE801), (0x3C01, 0x3C01, 0x3C02)]
    yield "sums that round: the shift comes before the bias", _added(config, order), "D-kllm-40"
    product = [(0xBD01, 0x3CFF, 0), (0x3555, 0x3555, 0x3E7C), (0x0001, 0x3800, 0), (0x0400, 0x1000, 0x3E40)]
    yield "h by R_n is rounded before it is subtracted", _added(config, product), "D-kllm-39"
    ends = [(0x7BFF, 0x7BFF, 0), (0x7BFF, 0x4000, 0x7BFF), (0x7C00, 0x3C00, 0), (0x7C00, 0, 0), (0, 0x8000, 0x8000)]
    yield "h, R_n or their product beyond fp16, infinity by 0; signs of zeros", _added(config, ends)
    yield "the divided scale is 0, infinite, or subnormal", _folded(config), "D-kllm-37"


def _added(config: Config, rows: Sequence[tuple[int, int, int]]) -> Inputs:
    """The worked column with words of h, R_n and the bias of every row, if they have a port."""
    return _rows(config, len(rows), **dict(zip(("shift", "row_sum", "bias"), np.array(rows).T, strict=True)))


def _folded(config: Config) -> Inputs:
    """Scales after a division, and divided centroids beyond 1 with outliers of A."""
    inputs = _rows(config, 4, a_scale=[0, 0x7C00, 0x0003, 0x4D37])
    inputs["b_codebook"][:] = spread([0xD2E1, 0xC8F3, 0x48F3, 0x7C00], 1 << config["b_bits"])
    inputs["a_mask"][2:, :3], inputs["a_outlier"][2:, :3] = 1, 0x4933
    return inputs


def _crowded(config: Config) -> Inputs:
    """One pair of indices in all positions, another one in the next row; amounts at their largest."""
    tops = [(1 << config[f"{side}_bits"]) - 1 for side in "ab"]
    a, b = (np.array([0, last, last // 2, 1 % (last + 1)])[:, None] for last in tops)
    return _rows(config, 4, a_index=tops[0] if config["integer"] else a, b_index=b, a_mask=0, b_mask=0)


def _rounded(config: Config) -> Inputs:
    """0.75 or its opposite in one position, 0 in the others and, in the last row, in this one too."""
    scales = {"a_scale": [0x3C01, 0x3C03, 0x3C05, 0x3C07] * 2 + [0x0C00, 0x0003, 0x7BFF]}
    scales["b_scale"] = [ONE] * 8 + [0x1000, ONE, 0x7BFF]
    book = np.tile(spread([0, 0x3A00], 1 << config["b_bits"]), (11, 1))
    book[4:8, 1] = 0xBA00
    inputs = _rows(config, 11, **NONE, **scales, a_codebook=ONE, b_codebook=book)
    inputs["b_index"][:-1, 0] = 1
    if config["integer"]:
        inputs["a_index"][:, 0] = 1
    return inputs


def drawn(
    unit: str, config: Config, ports: Sequence[Port], rows: int, wild: int, seed: Seeds
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Random inputs of `rows` rows like those of real tensors, and uniform words in the first `wild` rows.

    Product codebooks are drawn for these only, since they have the most words; the other rows have real ones.
    """
    uniform = random_inputs(unit, [port for port in ports if port.name != "products"], (rows,), seed)
    products = random_inputs(unit, [port for port in ports if port.name == "products"], (wild,), seed)
    return realistic(config, uniform), legal(config, first_of_each(uniform, rows, wild) | products)


def realistic(config: Config, drawn: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drawn words like those of real tensors: ascending codebooks below 1, an outlier in eight, outliers from 1 on."""
    inputs = dict(legal(config, drawn))
    for name, array in drawn.items():
        if name.endswith("_mask"):
            inputs[name] = (drawn[f"{name[0]}_outlier"] % 8 == 0).astype(np.int64)
        elif name.endswith("_codebook"):
            fields = array & 0x83FF | 0x2C00 + (array & 0xC00)
            inputs[name] = np.sort(np.where(fields >= 0x8000, 0x8000 - fields, fields), axis=-1, kind="stable")
            inputs[name] = np.where(inputs[name] < 0, 0x8000 - inputs[name], inputs[name])
        elif name.endswith(("_outlier", "_scale")) or name in WORKED:
            inputs[name] = array & (0x3FF if name.endswith("_scale") else 0x83FF) | 0x3C00 + (array & 0x400)
    return with_products(inputs)


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """Reduce codebooks to magnitudes below 1, as if normalized: no inlier overflows. Divided ones are unchanged."""
    divided = config.get("norm", "none") != "none"
    below = {"a_codebook"} if divided else {"a_codebook", "b_codebook"}
    return {name: array & 0xBBFF if name in below else array for name, array in inputs.items()}


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    masks = [np.asarray(inputs[name], np.int64) for name in ("a_mask", "b_mask") if name in inputs]
    either, both = np.max(masks[0] | masks[-1], axis=-1), np.max(masks[0] & masks[-1], axis=-1)
    return {
        "OVERFLOW": np.asarray(result.overflow, np.bool_),
        "OUTLIER": np.asarray(either > 0),
        "BOTH": np.asarray(both * (len(masks) - 1) > 0),
    }
