"""Operands of the chip's products, and the same for its oracle."""

from typing import Any

import numpy as np

from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.kllm.index_matmul import Norm, Scores
from refemu.units.kllm.kllm_chip import ChipSizes, Product
from refemu.units.kllm.pe_lane import UNIT as LANE
from tests.oracles import fp16
from tests.oracles.kllm import chip as oracle
from tests.oracles.kllm import formats, units
from tests.units.kllm.kmeans_operands import tensor, vector

SMALL: dict[str, Any] = {"lanes": 3, "concat": 16, "counters": 2, "counter_inputs": 4, "macs": 2}


def sizes(**options: Any) -> ChipSizes:
    """A small chip: six columns a tile."""
    return ChipSizes(**{**SMALL, **options})


def of_oracle(chip: ChipSizes) -> oracle.Chip:
    """The oracle's chip."""
    numbers = chip.lanes, chip.concat, chip.counters, chip.counter_inputs, chip.macs
    return oracle.Chip(*numbers, chip.lane_mapping, chip.merge, chip.carry)


def scores(rows: int, k: int, seed: int) -> Scores:
    """Integers of four bits, and what they were."""
    rng = np.random.default_rng(seed)
    q = rng.integers(0, 16, (rows, k)).astype(np.uint8)
    return Scores(q, rng.uniform(0.1, 2, rows).astype(np.float16), rng.uniform(0, 1, (rows, k)).astype(np.float16))


def expected(
    chip: ChipSizes,
    a: KMeansTensor | Scores,
    b: KMeansTensor,
    seen: Any = None,
    bias: np.ndarray | None = None,
    norm: Norm | None = None,
) -> oracle.Answer:
    """The oracle's answer."""
    limits = None if seen is None else list(seen)
    if isinstance(a, Scores):
        words = a.q.tolist(), a.scale.view(np.uint16).tolist(), a.p.view(np.uint16).tolist()
        rows = [oracle.scores(*each) for each in zip(*words, strict=True)]
        return oracle.product(of_oracle(chip), rows, values_of(b), b.codebook.values.tolist(), limits)
    vectors = [vector(b, n) for n in range(b.scale.size)]
    biases = [None] * len(vectors) if bias is None else bias.view(np.uint16).tolist()
    none = [0.0] * len(vectors)
    sums = none if norm is None or norm.row_sum is None else norm.row_sum.tolist()
    columns = [oracle.right(*each) for each in zip(vectors, map(fp16.from_float, sums), biases, strict=True)]
    rows = [row_of(a, b, m, norm) for m in range(a.scale.size)]
    return oracle.product(of_oracle(chip), rows, columns, cartesian(a.codebook, b.codebook).values.tolist(), limits)


def values_of(v: KMeansTensor) -> list[oracle.Right]:
    """Columns of V, whose vectors are tokens; their scales are in the integers."""
    tokens = [vector(v, k) for k in range(v.scale.size)]
    indices = zip(*(token.index for token in tokens), strict=True)
    outliers = zip(*(formats.spread(token) for token in tokens), strict=True)
    return [oracle.Right(index, 0x3C00, outlier) for index, outlier in zip(indices, outliers, strict=True)]


def row_of(a: KMeansTensor, b: KMeansTensor, m: int, norm: Norm | None) -> oracle.Left:
    """A row; a norm divides its scale and B's centroids."""
    row, centroids = vector(a, m), b.codebook.values.tolist()
    if norm is None:
        return oracle.left(row, centroids)

    def divided(number: float) -> int:
        return fp16.from_float(units.r32(units.quotient(number, float(norm.divisor[m]))))

    shift = None if norm.mean is None else divided(float(norm.mean[m]))
    scale, words = divided(fp16.to_float(row.scale)), [divided(fp16.to_float(word)) for word in centroids]
    return oracle.left(row, words, shift)._replace(scale=scale)


def layer(rows: int, columns: int, seed: int, mean: bool) -> Norm:
    """Statistics of a norm."""
    rng = np.random.default_rng(seed)
    divisor = rng.uniform(0.3, 3, rows).astype(np.float32)
    if not mean:
        return Norm(divisor)
    return Norm(divisor, rng.normal(size=rows).astype(np.float32), rng.normal(size=columns).astype(np.float32))


def equal(result: Product, answer: oracle.Answer) -> bool:
    """Whether outputs, cycles and every counter are the oracle's."""
    counts = {name: getattr(result, name) for name in LANE.counters}
    return (
        result.y.view(np.uint16).tolist() == answer.y
        and result.overflow.astype(int).tolist() == answer.overflow
        and counts == {name: answer.counters.get(name, 0) for name in LANE.counters}
    )


def assert_equal(result: Product, answer: oracle.Answer) -> None:
    """`equal`, with what differs."""
    assert result.y.view(np.uint16).tolist() == answer.y
    assert result.overflow.astype(int).tolist() == answer.overflow
    counts = {name: getattr(result, name) for name in LANE.counters}
    assert counts == {name: answer.counters.get(name, 0) for name in LANE.counters}


#: two rows of 40 positions, three slabs, by eight columns, two tiles of which the last is partial: outliers of both
PAIR = tensor((2, 40), 2, 1, 2), tensor((8, 40), 2, 2, 1)
