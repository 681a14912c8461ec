"""Golden cases of clustering: every value near ties of one codebook, scales that round, ends, codebooks with repeats.

The unit is the Clustering Unit of [kllm §IV-A].
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, columns, crossed, patterns16, uniform

#: trained on normal samples; 7 values in [-1, 1] have different indices in `paper` and `exact` (D-kllm-8)
TRAINED_BELOW = (0xB89B, 0xB6EA, 0xB55D, 0xB425, 0xB237, 0xB053, 0xAD18, 0xA67B)
TRAINED_ABOVE = (0x2733, 0x2D44, 0x306D, 0x3254, 0x3438, 0x3575, 0x3701, 0x38A1)
TRAINED = TRAINED_BELOW + TRAINED_ABOVE
ONE, LARGEST, SUBNORMAL = 0x3C00, 0x7BFF, 0x0001


def paper(config: Config) -> Blocks:
    book = trained(config["bits"])
    why = "[kllm §IV-A] values between the centroids of a trained codebook, scale 1, then 0.1"
    yield _case(why, crossed(scale=[ONE, 0x2E66], x=_between(book)[::-1]), book)


def edge(config: Config) -> Blocks:
    book = trained(config["bits"])
    near = np.unique(np.concatenate([fp16.order_key(_between(book)) + step for step in (-1, 0, 1)]))
    why = "centroids, midpoints and the fp16 values next to them, where roundings decide"
    yield _case(why, columns(x=np.where(near < 0, 0x8000 - near, near), scale=ONE), book, "D-kllm-8")
    why = "0x15C1 to 0x15C7, whose index of the trained codebook depends on rounding, and their neighbours"
    yield _case(why, columns(x=range(0x15BF, 0x15CA), scale=ONE), book, "D-kllm-8")
    ends = [0, 0x8000, SUBNORMAL, 0x8001, 0x03FF, 0x0400, ONE, ONE | 0x8000, LARGEST, LARGEST | 0x8000]
    scales = [ONE, SUBNORMAL, 0x03FF, 0x0400, 0x2E66, 0x3555, LARGEST]
    why = "zeros, subnormals and the largest values under scales of all sizes: x^ overflows, underflows"
    yield _case(why, crossed(scale=scales, x=ends), book)
    size = len(book)
    even = np.arange(2, size + 1, 2)
    x = np.concatenate([0x8000 | np.arange(size + 2), np.arange(size + 2)])
    small = np.concatenate([0x8000 | even[::-1], even])
    yield _case("subnormal centroids and values", columns(x=x, scale=ONE), small, "D-arith-2")
    ties = [
        [0xBC00] * (size // 2) + [ONE] * (size // 2),
        [0] * size,
        [0x8000] * (size - 1) + [ONE],
        [ONE] * (size - 1) + [0x3C01],
        [LARGEST | 0x8000] + [0] * (size - 2) + [LARGEST],
    ]
    why = "centroids that repeat: the first of equals is the index; ties at 0 go down"
    values = columns(x=[0, 0x8000, ONE, 0xBC00, 0x3800, 0xB800, SUBNORMAL, 0x8001], scale=ONE)
    for repeated in ties:
        yield _case(why, values, repeated, "D-kllm-7")
    # a row for each lane but the last, which has the last -1; if that lane reads as 0, it is nearest to x
    split = np.where(np.tri(size - 1, size, dtype=np.bool_), ONE | 0x8000, ONE)
    why = "repeated centroids of -1 and 1, split after each lane: for -1/4, a lane that reads as 0 is nearest"
    yield why, {**columns(x=[0xB400] * (size - 1), scale=ONE), "codebook": split}, "D-kllm-7"
    if KllmArith.preset(config["preset"]).distance == "fp16":
        # rounded another way, such a distance is larger or less than the other one
        low, high = np.transpose([(0xB801, 0x3E04), (0xB807, 0x3E08), (0xB801, 0x3E04), (0xB801, 0x3E04)])
        books = np.where(np.arange(size) < size // 2, low[:, None], high[:, None])
        why = (
            "two distances, one of them midway between two fp16 values; a centroid that its bytes exchanged put next"
            " to 0; a scale whose last bit decides"
        )
        inputs = columns(x=[0x3804, 0x3805, 0x3E04, 0x3805], scale=[ONE, ONE, ONE, ONE | 1])
        yield why, {**inputs, "codebook": books}, "D-kllm-8"


def random(config: Config, seed: Seeds) -> Blocks:
    book = trained(config["bits"])
    drawn = uniform("clustering", config, (64,), seed)
    small = (drawn["x"] & 0x83FF) | (0x2000 + (drawn["x"] & 0x1C00) % 0x1C00)
    yield _case("values of normalized vectors", columns(x=small, scale=ONE), book)
    scales = 0x3A00 + (drawn["scale"] & 0x7FF)
    yield _case("the same values under scales around 1", {"x": small, "scale": scales}, book)
    yield "any codebook, value and scale", legal(None, uniform("clustering", config, (48,), seed))


def trained(bits: int) -> tuple[int, ...]:
    """2**bits centroids of `TRAINED`, spread over all of it."""
    step = len(TRAINED) >> bits
    return TRAINED[step // 2 :: step]


def _between(book: tuple[int, ...]) -> np.ndarray:
    """Centroids and the fp16 values nearest to their midpoints, ascending."""
    values = fp16.values(np.array(book)).astype(np.float64)
    middles = (values[1:] + values[:-1]) / 2
    points = np.append(np.stack([values[:-1], middles], axis=1).ravel(), values[-1])
    return patterns16(points)


def _case(why: str, inputs: dict[str, np.ndarray], book: ArrayLike, decision: str = "") -> Block:
    return why, inputs | {"codebook": np.tile(book, (len(inputs["x"]), 1))}, decision


def legal(config: Config | None, inputs: Inputs) -> dict[str, np.ndarray]:
    """Finite port values with the centroids sorted."""
    order = np.argsort(fp16.order_key(inputs["codebook"]), axis=-1, kind="stable")
    return {**inputs, "codebook": np.take_along_axis(inputs["codebook"], order, axis=-1)}


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
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
