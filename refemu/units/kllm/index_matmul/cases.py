"""Golden cases of index_matmul: the column with [kllm Fig. 3]'s dimensions, outliers of either operand, scales."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units import Cases, Config, Kind, Port, find
from refemu.units.stimuli import Seeds, first_of_each, random_inputs

A = [0, 1, 1, 0, 1, 0, 0, 1]  #: indices of a worked column of [kllm Fig. 3a]'s dimensions
B = [3, 0, 2, 2, 1, 3, 0, 1]
Q = [3, 0, 1, 2, 1, 3, 0, 2]  #: integers for the same B
ONE = 0x3C00
WORKED = {"shift": 0x3800, "row_sum": 0x4200, "bias": 0x3400}  #: h = 0.5, R_n = 3, bias 0.25: Y = -1.5625 - 1.5 + 0.25
LONG = 256  #: least number of positions with few random rows


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("index_matmul").ports(config).inputs
    merged = {port.name for port in ports} & {"bias", "shift"}
    if kind != "random" and config["k"] < len(A):
        return  # shorter than the worked column
    if kind == "paper":
        where = "[kllm §III-B2, Fig. 3b]" if config["integer"] else "[kllm §III-B1, Fig. 3a]"
        yield Cases(kind, f"{where} eight positions, four centroids of B, no outliers", _rows(config, ports, 1))
    if kind == "edge" and merged:
        yield from _merges(config, ports)
    if kind == "edge":
        yield Cases(
            kind, "one outlier of A, of B, of both at one position, everywhere", _outliers(config, ports), "D-kllm-12"
        )
        yield Cases(kind, "sparse and dense part cancel", _cancelling(config, ports), "D-kllm-33")
        yield Cases(
            kind, "scales at the ends of fp16: the product of scales underflows or overflows", _scales(config, ports)
        )
        why = "all positions at one entry of the table: every counter reaches K"
        yield Cases(kind, why, _crowded(config, ports), "D-kllm-4")
        if config["k"] <= LONG:
            why = "one product: scaled halfway between two fp16 values, subnormal; none with an infinite scale"
            yield Cases(kind, why, _rounded(config, ports), "D-arith-2")
        if config["k"] <= LONG and not config["integer"]:
            why = "products of scales midway between two fp16 values: up to even, and down"
            yield Cases(kind, why, _joint(config, ports), "D-kllm-33")
        if "a_mask" in {port.name for port in ports}:
            why = "every position an outlier of A, weights that are inexact in fp16"
            yield Cases(kind, why, _dequantized(config, ports), "D-kllm-32")
        if config["k"] > LONG and {"a_mask", "b_mask"} <= {port.name for port in ports}:
            yield Cases(kind, "one product, or one outlier of B, of even words and of odd ones", _odd(config, ports))
    if kind == "random":
        rows = 48 if config["a_bits"] + config["b_bits"] > 6 else 96
        rows, few = (2, 1) if config["k"] > LONG else (24, 8) if merged else (rows, 12)
        real, wild = drawn("index_matmul", config, ports, rows, few, seed)
        yield Cases(kind, "normalized codebooks, one outlier in eight, outliers and scales as in real tensors", real)
        yield Cases(kind, "uniform words, half of the positions outliers", wild)


def _rows(config: Config, ports: tuple[Port, ...], count: int) -> dict[str, np.ndarray]:
    """Rows of the worked column; positions past its end have amount 0, or are outliers of value 0."""
    k, integer = config["k"], config["integer"]
    inputs = {port.name: np.zeros((count, *port.shape), np.int64) for port in ports}
    lanes = [inputs[name].reshape(count, k) for name in ("a_index", "b_index")]
    lanes[0][:, :8], lanes[1][:, :8] = (Q if integer else A)[:k], B[:k]
    inputs["a_scale"][:] = ONE
    inputs["b_codebook"][:] = spread([0xBC00, 0xB400, 0x3400, 0x3C00], 1 << config["b_bits"])
    if integer:
        inputs["a_outlier"][:] = 0x2C00 + 16 * np.arange(k)
        return inputs
    for name, word in WORKED.items():
        if name in inputs:
            inputs[name][:] = word
    inputs["b_scale"][:] = ONE
    inputs["a_codebook"][:] = spread([0xB800, 0x3A00], 1 << config["a_bits"])
    inputs["a_mask"][:, 8:] = 1
    return with_products(inputs)


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


def _outliers(config: Config, ports: tuple[Port, ...]) -> dict[str, np.ndarray]:
    inputs = _rows(config, ports, 4)
    masks = [name for name in ("b_mask", "a_mask") if name in inputs]
    for row, positions in enumerate(([2], [5], [5], range(config["k"]))):
        chosen = masks[row % len(masks) :][:1] if row < 2 else masks
        for mask in chosen:
            inputs[mask][row, list(positions)] = 1
    for side, start in (("a", 0x4900), ("b", 0xC480)):
        if f"{side}_outlier" in inputs:
            inputs[f"{side}_outlier"][:] = start + np.arange(config["k"])
    return inputs


def _odd(config: Config, ports: tuple[Port, ...]) -> dict[str, np.ndarray]:
    """All positions but one are outliers of A of value 0; the one is dense, then an outlier of B of value 1."""
    inputs = _rows(config, ports, 4)
    inputs["a_mask"][:], inputs["a_mask"][:, 1] = 1, 0
    inputs["b_mask"][2:, 1], inputs["b_outlier"][2:, 1] = 1, ONE
    odd = np.arange(4) % 2
    inputs["a_scale"] = inputs["a_scale"] | odd
    return inputs | {name: inputs[name] | odd[:, None] for name in ("a_codebook", "products")}


def _cancelling(config: Config, ports: tuple[Port, ...]) -> dict[str, np.ndarray]:
    """The column's dense part is -1.5625 (of integers 6), the one outlier its opposite, or nearly."""
    inputs = _rows(config, ports, 3)
    inputs["b_index"][:, 7] = 0
    for mask in ("a_mask", "b_mask"):
        if mask in inputs:
            inputs[mask][:, 7] = 1
    words = [0x3C80, 0x3C81, 0xC600]
    if "b_outlier" in inputs:
        inputs["a_outlier"][:, 7], inputs["b_outlier"][:, 7] = ONE, words
    else:
        inputs["a_outlier"][:, 7] = np.array(words) ^ 0x8000  # times the first centroid of B, -1
    return inputs


def _merges(config: Config, ports: tuple[Port, ...]) -> Iterator[Cases]:
    """What the merge adds after the sparse part: a bias, a LayerNorm's shift."""
    names = {port.name for port in ports}
    alone = [(0, 0, 0), (0, 0, 0x4500), (0x3800, 0x4200, 0), (0xB800, 0x4200, 0x4500), (0x3800, 0xC200, 0xC500)]
    yield _added("edge", "nothing, the bias alone, the shift alone, both", config, ports, alone, "D-kllm-40")
    if "shift" not in names:
        return
    order = [(0x3800, 0xE800, 0x3C00), (0x3800, 0x6800, 0xBC00), (0xBC00, 0x6800, 0xE801), (0x3C01, 0x3C01, 0x3C02)]
    yield _added("edge", "sums that round: the shift comes before the bias", config, ports, order, "D-kllm-40")
    product = [(0xBD01, 0x3CFF, 0), (0x3555, 0x3555, 0x3E7C), (0x0001, 0x3800, 0), (0x0400, 0x1000, 0x3E40)]
    yield _added("edge", "h by R_n is rounded before it is subtracted", config, ports, product, "D-kllm-39")
    ends = [(0x7BFF, 0x7BFF, 0), (0x7BFF, 0x4000, 0x7BFF), (0x7C00, 0x3C00, 0), (0x7C00, 0, 0), (0, 0x8000, 0x8000)]
    yield _added("edge", "h, R_n or their product beyond fp16, infinity by 0; signs of zeros", config, ports, ends)
    yield Cases("edge", "the divided scale is 0, infinite, or subnormal", _folded(config, ports), "D-kllm-37")


def _added(
    kind: Kind,
    why: str,
    config: Config,
    ports: tuple[Port, ...],
    rows: Sequence[tuple[int, int, int]],
    decision: str = "",
) -> Cases:
    """The worked column with words of h, R_n and the bias of every row, if they have a port."""
    inputs = _rows(config, ports, len(rows))
    for name, column in zip(("shift", "row_sum", "bias"), zip(*rows, strict=True), strict=True):
        if name in inputs:
            inputs[name][:] = column
    return Cases(kind, why, inputs, decision)


def _folded(config: Config, ports: tuple[Port, ...]) -> dict[str, np.ndarray]:
    """Scales after a division, and divided centroids beyond 1 with outliers of A."""
    inputs = _rows(config, ports, 4)
    inputs["a_scale"][:] = [0, 0x7C00, 0x0003, 0x4D37]
    inputs["b_codebook"][:] = spread([0xD2E1, 0xC8F3, 0x48F3, 0x7C00], 1 << config["b_bits"])
    inputs["a_mask"][2:, :3], inputs["a_outlier"][2:, :3] = 1, 0x4933
    return inputs


def _crowded(config: Config, ports: tuple[Port, ...]) -> dict[str, np.ndarray]:
    """One pair of indices in all positions, another one in the next row; amounts at their largest."""
    inputs = _rows(config, ports, 4)
    for name in ("a_index", "b_index"):
        last = (1 << config[f"{name[0]}_bits"]) - 1
        inputs[name][:] = np.array([0, last, last // 2, 1 % (last + 1)])[:, None]
    if config["integer"]:
        inputs["a_index"][:] = (1 << config["a_bits"]) - 1
    for name in ("a_mask", "b_mask"):
        if name in inputs:
            inputs[name][:] = 0
    return inputs


def _scales(config: Config, ports: tuple[Port, ...]) -> dict[str, np.ndarray]:
    inputs = _rows(config, ports, 4)
    inputs["a_scale"][:] = [0x0001, 0x7BFF, 0x0001, 0x0400]
    if "b_scale" in inputs:
        inputs["b_scale"][:] = [0x0001, 0x7BFF, 0x7BFF, 0x0400]
    return inputs


def _joint(config: Config, ports: tuple[Port, ...]) -> dict[str, np.ndarray]:
    """One product, -0.5, with a first scale of 1 and a few units and a second scale of 1.5."""
    inputs = _rows(config, ports, 2)
    for name in ("a_index", "b_index", "a_mask", "b_mask", "a_outlier", "b_outlier", *WORKED):
        if name in inputs:
            inputs[name][:] = 0
    inputs["a_scale"][:], inputs["b_scale"][:] = [0x3C01, 0x3C03], 0x3E00
    inputs["b_codebook"][:] = spread([0, ONE], 1 << config["b_bits"])
    inputs["b_index"][:, 0] = 1
    return with_products(inputs)


def _rounded(config: Config, ports: tuple[Port, ...]) -> dict[str, np.ndarray]:
    """0.75 or its opposite in one position, 0 in the others and, in the last row, in this one too."""
    scales = [0x3C01, 0x3C03, 0x3C05, 0x3C07] * 2 + [0x0C00, 0x0003, 0x7BFF]
    inputs = _rows(config, ports, len(scales))
    for name in ("a_index", "b_index", "a_mask", "b_mask", "a_outlier", "b_outlier"):
        if name in inputs:
            inputs[name][:] = 0
    for name in WORKED:
        if name in inputs:
            inputs[name][:] = 0
    inputs["a_scale"][:] = scales
    inputs["b_codebook"][:] = spread([0, 0x3A00], 1 << config["b_bits"])
    inputs["b_codebook"][4:8, 1] = 0xBA00
    inputs["b_index"][:-1, 0] = 1
    if config["integer"]:
        inputs["a_index"][:, 0] = 1
        return inputs
    inputs["a_codebook"][:] = ONE
    inputs["b_scale"][-3:] = [0x1000, ONE, 0x7BFF]
    return with_products(inputs)


def _dequantized(config: Config, ports: tuple[Port, ...]) -> dict[str, np.ndarray]:
    """Two rows with scales whose products with centroids are all inexact."""
    inputs = _rows(config, ports, 2)
    inputs["a_mask"][:] = 1
    inputs["a_outlier"][:] = 0x4900 + np.arange(config["k"]) % 256
    inputs["b_index"][:] = np.arange(config["k"]) % (1 << config["b_bits"])
    inputs["b_codebook"][:] = spread([0xAE66, 0xB555, 0x3555, 0x3A66], 1 << config["b_bits"])
    inputs["b_scale"][:] = [0x3555, 0x2E66]
    return with_products(inputs)


def drawn(
    unit: str, config: Mapping[str, Any], ports: Sequence[Port], rows: int, wild: int, seed: Seeds
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Random inputs of `rows` rows like those of real tensors, and uniform words in the first `wild` rows.

    Product codebooks are drawn for these only, since they have the most words; the other rows have real ones.
    """
    uniform = random_inputs(unit, [port for port in ports if port.name != "products"], (rows,), seed)
    products = random_inputs(unit, [port for port in ports if port.name == "products"], (wild,), seed)
    return realistic(config, uniform), legal(config, first_of_each(uniform, rows, wild) | products)


def realistic(config: Mapping[str, Any], drawn: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
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


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Reduce codebooks to magnitudes below 1, as if normalized: no inlier overflows. Divided ones are unchanged."""
    divided = config.get("norm", "none") != "none"
    below = {"a_codebook"} if divided else {"a_codebook", "b_codebook"}
    return {name: array & 0xBBFF if name in below else array for name, array in inputs.items()}


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    masks = [np.asarray(inputs[name], np.int64) for name in ("a_mask", "b_mask") if name in inputs]
    either, both = np.max(masks[0] | masks[-1], axis=-1), np.max(masks[0] & masks[-1], axis=-1)
    return {
        "OVERFLOW": np.asarray(result.overflow, np.bool_),
        "OUTLIER": np.asarray(either > 0),
        "BOTH": np.asarray(both * (len(masks) - 1) > 0),
    }
