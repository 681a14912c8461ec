"""Golden cases of clustering: every value near ties of one codebook, scales that round, ends, codebooks with repeats.

The unit is the Clustering Unit of [kllm §IV-A].
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units import Cases, Config, Kind, Port, find
from refemu.units.stimuli import Seeds, columns, random_inputs

#: trained on normal samples; 7 values in [-1, 1] have different indices in `paper` and `exact` (D-kllm-8)
TRAINED_BELOW = (0xB89B, 0xB6EA, 0xB55D, 0xB425, 0xB237, 0xB053, 0xAD18, 0xA67B)
TRAINED_ABOVE = (0x2733, 0x2D44, 0x306D, 0x3254, 0x3438, 0x3575, 0x3701, 0x38A1)
TRAINED = TRAINED_BELOW + TRAINED_ABOVE
ONE, LARGEST, SUBNORMAL = 0x3C00, 0x7BFF, 0x0001


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("clustering").ports(config).inputs
    book = trained(config["bits"])
    if kind == "paper":
        why = "[kllm §IV-A] values between the centroids of a trained codebook, scale 1, then 0.1"
        yield _case(
            kind, why, columns(x=_between(book)[::-1] * 2, scale=np.repeat([ONE, 0x2E66], 2 * len(book) - 1)), book
        )
    if kind == "edge":
        yield from _edge(book)
        yield _split(len(book))
        if KllmArith.preset(config["preset"]).distance == "fp16":
            yield _midway(len(book))
    if kind == "random":
        yield from _random(ports, seed, book)


def _edge(book: tuple[int, ...]) -> Iterator[Cases]:
    near = np.unique(np.concatenate([fp16.order_key(np.array(_between(book))) + step for step in (-1, 0, 1)]))
    why = "centroids, midpoints and the fp16 values next to them, where roundings decide"
    yield _case("edge", why, columns(x=_words(near), scale=ONE), book, "D-kllm-8")
    why = "0x15C1 to 0x15C7, whose index of the trained codebook depends on rounding, and their neighbours"
    yield _case("edge", why, columns(x=range(0x15BF, 0x15CA), scale=ONE), book, "D-kllm-8")
    ends = [0, 0x8000, SUBNORMAL, 0x8001, 0x03FF, 0x0400, ONE, ONE | 0x8000, LARGEST, LARGEST | 0x8000]
    scales = [ONE, SUBNORMAL, 0x03FF, 0x0400, 0x2E66, 0x3555, LARGEST]
    pairs = [(x, scale) for scale in scales for x in ends]
    why = "zeros, subnormals and the largest values under scales of all sizes: x^ overflows, underflows"
    yield _case("edge", why, columns(x=[x for x, _ in pairs], scale=[scale for _, scale in pairs]), book)
    size = len(book)
    small = [0x8000 | 2 * step for step in range(size // 2, 0, -1)] + [2 * step for step in range(1, size // 2 + 1)]
    x = [0x8000 | word for word in range(size + 2)] + list(range(size + 2))
    yield _case("edge", "subnormal centroids and values", columns(x=x, scale=ONE), tuple(small), "D-arith-2")
    ties = [
        [0xBC00] * (size // 2) + [ONE] * (size // 2),
        [0] * size,
        [0x8000] * (size - 1) + [ONE],
        [ONE] * (size - 1) + [0x3C01],
        [LARGEST | 0x8000] + [0] * (size - 2) + [LARGEST],
    ]
    for repeated in ties:
        yield _case(
            "edge",
            "centroids that repeat: the first of equals is the index; ties at 0 go down",
            columns(x=[0, 0x8000, ONE, 0xBC00, 0x3800, 0xB800, SUBNORMAL, 0x8001], scale=ONE),
            tuple(repeated),
            "D-kllm-7",
        )


def _split(size: int) -> Cases:
    """A row for each lane but the last, which has the last -1; if that lane reads as 0, it is nearest to x."""
    below = np.tri(size - 1, size, dtype=np.bool_)
    inputs = {"x": np.full(size - 1, 0xB400), "scale": np.full(size - 1, ONE)}
    why = "repeated centroids of -1 and 1, split after each lane: for -1/4, a lane that reads as 0 is nearest"
    return Cases("edge", why, {**inputs, "codebook": np.where(below, ONE | 0x8000, ONE)}, "D-kllm-7")


def _midway(size: int) -> Cases:
    """A distance midway between two fp16 values, next to the other: rounded another way, it is larger or less."""
    low, high = np.transpose([(0xB801, 0x3E04), (0xB807, 0x3E08), (0xB801, 0x3E04), (0xB801, 0x3E04)])
    books = np.where(np.arange(size) < size // 2, low[:, None], high[:, None])
    inputs = columns(x=[0x3804, 0x3805, 0x3E04, 0x3805], scale=[ONE, ONE, ONE, ONE | 1])
    why = (
        "two distances, one of them midway between two fp16 values; a centroid that its bytes exchanged put next to "
        "0; a scale whose last bit decides"
    )
    return Cases("edge", why, inputs | {"codebook": books}, "D-kllm-8")


def _random(ports: tuple[Port, ...], seed: Seeds, book: tuple[int, ...]) -> Iterator[Cases]:
    drawn = random_inputs("clustering", ports, (64,), seed)
    rows = len(drawn["x"])
    drawn["codebook"] = np.broadcast_to(np.array(book), (rows, len(book)))
    small = {"x": (drawn["x"] & 0x83FF) | (0x2000 + (drawn["x"] & 0x1C00) % 0x1C00), "scale": np.full(rows, ONE)}
    yield Cases("random", "values of normalized vectors", drawn | small)
    why = "the same values under scales around 1"
    yield Cases("random", why, drawn | {"x": small["x"], "scale": 0x3A00 + (drawn["scale"] & 0x7FF)})
    yield Cases("random", "any codebook, value and scale", legal(None, random_inputs("clustering", ports, (48,), seed)))


def trained(bits: int) -> tuple[int, ...]:
    """2**bits centroids of `TRAINED`, spread over all of it."""
    step = len(TRAINED) >> bits
    return TRAINED[step // 2 :: step]


def _between(book: tuple[int, ...]) -> list[int]:
    """Centroids and the fp16 values nearest to their midpoints, ascending."""
    values = fp16.values(np.array(book)).astype(np.float64)
    middles = (values[1:] + values[:-1]) / 2
    points = np.append(np.stack([values[:-1], middles], axis=1).ravel(), values[-1])
    return fp16.bits(fp16.to_f16(points)).tolist()


def _words(keys: np.ndarray) -> np.ndarray:
    return np.where(keys < 0, 0x8000 - keys, keys)


def _case(kind: Kind, why: str, inputs: dict[str, np.ndarray], book: tuple[int, ...], decision: str = "") -> Cases:
    rows = len(inputs["x"])
    return Cases(kind, why, inputs | {"codebook": np.broadcast_to(np.array(book), (rows, len(book)))}, decision)


def legal(config: Mapping[str, Any] | None, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Finite port values with the centroids sorted."""
    order = np.argsort(fp16.order_key(inputs["codebook"]), axis=-1, kind="stable")
    return {**inputs, "codebook": np.take_along_axis(inputs["codebook"], order, axis=-1)}


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    arith = KllmArith.preset(config["preset"])
    x, scale, book = (fp16.to_f32(fp16.values(inputs[name])) for name in ("x", "scale", "codebook"))
    if arith.normalize == "none":
        wide = book.astype(np.float64)
        borders = scale.astype(np.float64)[:, None] * (wide[:, 1:] + wide[:, :-1])
        tie = ((2.0 * x.astype(np.float64)[:, None] == borders) & (wide[:, 1:] > wide[:, :-1])).any(axis=-1)
    else:
        with np.errstate(all="ignore"):
            distances = np.abs(fp16.round16(fp16.div16(x, scale)[:, None] - book))
        least = distances == distances.min(axis=-1, keepdims=True)
        distinct = np.concatenate([np.ones((len(x), 1), np.bool_), book[:, 1:] > book[:, :-1]], axis=-1)
        tie = np.count_nonzero(least & distinct, axis=-1) > 1
    return {"TIE": tie, "OVERFLOW": np.asarray(result.overflow, np.bool_)}
