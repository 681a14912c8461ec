"""The oracles of KLLM against worked examples, and against each other where two ways lead to one number."""

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest

from tests.oracles import fp16, prng
from tests.oracles.kllm import formats, functions, units
from tests.oracles.kllm.formats import ONE, Vector

CENTROIDS = "B89B B6EA B55D B425 B237 B053 AD18 A67B 2733 2D44 306D 3254 3438 3575 3701 38A1"
CODEBOOK = [int(word, 16) for word in CENTROIDS.split()]
EXACT: dict[str, Any] = {"normalize": "none", "distance": "real"}


def words(*values: float) -> list[int]:
    """FP16 words of values."""
    return [fp16.from_float(value) for value in values]


def bells(seed: int, count: int, scale: float = 2.0**-15) -> list[int]:
    """FP16 words of bell-shaped values."""
    return [fp16.from_float(prng.bell(word) * scale) for word in prng.words(seed, 0, count)]


A = Vector(words(-0.5, 0.75), [0, 1, 1, 0, 1, 0, 0, 1], ONE, [0] * 8, [])
B = Vector(words(-1, -0.25, 0.25, 1), [3, 0, 2, 2, 1, 3, 0, 1], ONE, [0] * 8, [])


def test_fp16_distances_move_seven_indices() -> None:
    span = [*range(0x1500, 0x1680), *range(0, ONE + 1, 23), *range(0x8000, 0x8000 + ONE, 23)]
    moved = [u for u in span if formats.nearest(u, ONE, CODEBOOK) != formats.nearest(u, ONE, CODEBOOK, **EXACT)]

    assert moved == list(range(0x15C1, 0x15C8))
    assert (formats.nearest(0x15C1, ONE, CODEBOOK, **EXACT), formats.nearest(0x15C1, ONE, CODEBOOK)) == (8, 7)


def test_exact_index_counts_the_midpoints_below() -> None:
    scale = 0x3D55
    for u in bells(1, 200):
        below = [
            2 * formats.exact(u) > formats.exact(scale) * (formats.exact(c) + formats.exact(d))
            for c, d in itertools.pairwise(CODEBOOK)
        ]
        assert formats.nearest(u, scale, CODEBOOK, **EXACT) == sum(below)


@pytest.mark.parametrize(
    "rule", [EXACT, {}, {"distance": "real"}, {"distance": "midpoint16"}, {"normalize": "reciprocal"}]
)
def test_centroids_find_themselves_and_a_run_its_first(rule: dict[str, Any]) -> None:
    assert [formats.nearest(c, ONE, CODEBOOK, **rule) for c in CODEBOOK] == list(range(16))
    assert [formats.nearest(u, ONE, words(0, 1, 1, 1), **rule) for u in words(-5, 0.5, 0.75, 1, 7)] == [0, 0, 1, 1, 1]
    assert formats.nearest(fp16.from_float(0.5), ONE, words(0, 1), tie="high", **rule) == 1


def test_outliers_per_side() -> None:
    sizes = (64, 192, 576, 1536, 4096, 5120, 6656, 11008, 13824, 14336)

    assert [formats.outlier_count(n, "0.5") for n in sizes] == [1, 1, 2, 4, 11, 13, 17, 28, 35, 36]
    assert [formats.outlier_count(n, "1") for n in sizes] == [1, 1, 3, 8, 21, 26, 34, 56, 70, 72]
    assert [formats.outlier_count(n, "10") for n in sizes] == [4, 10, 29, 77, 205, 256, 333, 551, 692, 717]


def test_storage_of_4096_elements() -> None:
    vector = formats.encode(bells(2, 4096), CODEBOOK, k=21)
    codebook = 16 * 16

    assert sum(vector.mask) == len(vector.outlier) == 42
    assert round((formats.storage_bits([vector], "mask") - codebook) / 4096, 3) == 5.168
    assert round((formats.storage_bits([vector], "list") - codebook) / 4096, 3) == 4.291


def test_scale_and_zero_point() -> None:
    x = words(-3, 1, 2, 9, -7)
    assert formats.encode(x, CODEBOOK).scale == fp16.from_float(9)
    assert formats.encode(x, CODEBOOK, k=1).scale == fp16.from_float(3)
    assert formats.encode(words(0, 0), CODEBOOK).scale == ONE
    assert formats.encode(x, CODEBOOK, limits=(words(2)[0], words(-4)[0])).scale == fp16.from_float(4)
    shifted = formats.encode(words(2, 3, 4), words(-1, -0.5, 0, 1), zero_point=True)
    assert (shifted.scale, shifted.zero, shifted.index) == (ONE, words(-3)[0], [0, 2, 3])
    assert formats.values(shifted) == [2, 3, 4]


def test_static_thresholds() -> None:
    tokens = [words(5, 1, -2, 3), words(7, 0, -8, 4)]

    assert formats.thresholds(tokens, 50) == (words(3.5)[0], words(-0.5 * 1 + 0.5 + 0.5)[0])
    assert formats.thresholds(tokens, 25, "pooled") == (words(5)[0], words(-2)[0])


def test_training_example() -> None:
    trained = formats.train(words(-1, -0.5, 0, 0.25, 0.5, 1), bits=1)

    assert trained.codebook == [0xB800, 0x38AB]
    assert trained.borders == [[3], [3]]
    assert trained.centroids[1] == Fraction(7, 12) * 2**24


@pytest.mark.parametrize("seed", range(6))
def test_training_cost_falls_to_no_less_than_optimum(seed: int) -> None:
    samples = bells(seed, 24)
    weights = [float(word >> 50) for word in prng.words(seed + 100, 0, 24)]
    trained = formats.train(samples, weights, bits=2)

    assert trained.costs == sorted(trained.costs, reverse=True)
    assert trained.costs[-1] >= formats.optimum(samples, weights, 2)
    assert formats.train(samples[::-1], weights[::-1], bits=2) == trained


def test_training_weights_count_samples_and_preserve_few_values() -> None:
    samples = bells(9, 20)

    assert formats.train(samples + samples[:5], bits=2)[0] == formats.train(samples, [2.0] * 5 + [1.0] * 15, bits=2)[0]
    assert formats.train(words(2, -0.0, 0, 1), bits=2).codebook == words(0, 1, 2, 2)
    assert formats.optimum(words(2, 0, 1), None, 2) == 0


def test_worked_column() -> None:
    products = formats.cartesian(A.codebook, B.codebook)
    q = [formats.concat(a, b, 2) for a, b in zip(A.index, B.index, strict=True)]

    assert q == [3, 4, 6, 2, 5, 3, 0, 5]
    assert units.counts(q, [1] * 8, 8) == [1, 0, 1, 2, 1, 2, 1, 0]
    assert words(*products) == [0x3800, 0x3000, 0xB000, 0xB800, 0xBA00, 0xB200, 0x3200, 0x3A00]
    assert units.column(A, B) == units.column(A, B, acc="exact") == fp16.from_float(-1.5625)
    scores = [3, 0, 1, 2, 1, 3, 0, 2]
    assert units.counts(B.index, [1] * 8, 4, scores) == [0, 3, 3, 6]
    assert units.integer_column(scores, B.index, B.codebook, 1.0) == fp16.from_float(6)


@pytest.mark.parametrize("zero", [False, True])
def test_exact_column_is_the_dequantized_product(zero: bool) -> None:
    """Inliers as exact values and, where one side is an outlier, as FP16."""
    a = formats.encode(bells(3, 64), CODEBOOK, k=2, zero_point=zero)
    b = formats.encode(bells(4, 64), CODEBOOK, k=1, zero_point=zero)
    rounded = formats.dequantized(a), formats.dequantized(b)
    total = Fraction(0)
    for k, (x, y) in enumerate(zip(formats.values(a), formats.values(b), strict=True)):
        outside = a.mask[k] or b.mask[k]
        total += formats.exact(rounded[0][k]) * formats.exact(rounded[1][k]) if outside else x * y

    assert units.column(a, b, acc="exact", table="fp32") == fp16.from_fraction(total)
    assert units.column(a, b, acc="exact", table="fp32", bias=ONE) == fp16.from_fraction(total + 1)


@pytest.mark.parametrize("acc", ["fp16", "fp16_fma", "fp32"])
@pytest.mark.parametrize("order", [("sequential",), ("lanes", 4, "blocked", ("tree", 4), "zero")])
def test_every_accumulator_is_near_the_exact_one(acc: str, order: tuple[object, ...]) -> None:
    for zero in (False, True):
        a = formats.encode(bells(5, 200), CODEBOOK, k=2, zero_point=zero)
        b = formats.encode(bells(6, 200), CODEBOOK, k=1, zero_point=zero)
        for bias in (None, ONE):
            got = units.column(a, b, acc, order, bias=bias)
            want = units.column(a, b, "exact", bias=bias)
            assert abs(fp16.to_float(got) - fp16.to_float(want)) < 1


def test_delayed_division_is_near_the_division_before() -> None:
    a, b = formats.encode(bells(7, 100, 2.0**-10), CODEBOOK, k=2), formats.encode(bells(8, 100), CODEBOOK)
    size = functions.rms(a)
    dense = sum(x * y for x, y in zip(formats.values(a), formats.values(b), strict=True)) / Fraction(size)
    average, deviation = functions.layer_stats(a)
    spread = [x - Fraction(average) for x in formats.values(a)]
    centred = sum(x * y for x, y in zip(spread, formats.values(b), strict=True)) / Fraction(deviation)

    for acc, stat in (("fp16", "fp32"), ("exact", "exact")):
        got = units.column(a, b, acc, norm=units.Layer(size))
        assert abs(formats.exact(got) - dense) < Fraction(1, 4)
        norm = units.Layer(deviation, average, functions.row_sum(b, stat))
        assert abs(formats.exact(units.column(a, b, acc, norm=norm)) - centred) < Fraction(1, 4)


def test_norm_statistics_are_those_of_the_values() -> None:
    a = formats.encode(bells(10, 50), CODEBOOK, k=2)
    values = formats.values(a)
    square, average = sum(x * x for x in values) / 50, sum(values) / 50
    for stat in ("fp32", "exact"):
        assert math.isclose(functions.rms(a, stat=stat, table="fp32"), math.sqrt(square), rel_tol=1e-5)
        got = functions.layer_stats(a, 1e-5, stat, "fp32")
        assert math.isclose(got[0], average, rel_tol=1e-4)
        assert math.isclose(got[1], math.sqrt(square - average**2 + Fraction(1e-5)), rel_tol=1e-5)


def test_norm_of_huge_outliers_overflows_fp16_sums_only() -> None:
    a = formats.encode(words(*[1] * 7, 23686), CODEBOOK, k=1)

    assert functions.rms(a, stat="fp16") == math.inf
    assert 8372 < functions.rms(a) < 8373


def test_index_product_sums_to_the_matmul() -> None:
    a, b = formats.encode(bells(11, 32), CODEBOOK), formats.encode(bells(12, 32), CODEBOOK)
    q, mask, values = units.product(a, b, "exact", "fp32")
    table = formats.cartesian(a.codebook, b.codebook, "fp32")
    total = sum(Fraction(table[i]) for i in q) * formats.exact(a.scale) * formats.exact(b.scale)

    assert mask == [0] * 32
    assert fp16.from_fraction(total) == units.column(a, b, "exact", table="fp32")
    assert values == [fp16.from_fraction(x * y) for x, y in zip(formats.values(a), formats.values(b), strict=True)]


def test_orizuru_examples() -> None:
    found = units.orizuru(words(3, 7, 1, 5, 2, 6, 9, 4), 2)

    assert (found.max_index, found.min_index) == ([6, 1], [2, 4])
    assert (found.root_max, found.root_min) == (words(6)[0], words(3)[0])
    assert found.mask == [0, 1, 1, 0, 1, 0, 1, 0]
    equal = units.orizuru(words(*[2] * 8), 8)
    assert (equal.max_index, equal.min_index) == ([0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6])
    assert equal.root_max is equal.root_min is None


def test_orizuru_comparisons_and_units() -> None:
    for n, k, comparisons in [(8, 2, 22), (576, 3, 1594), (4096, 21, 6646), (11008, 56, 26142)]:
        assert units.orizuru([0] * n, k).comparisons == comparisons
    full = units.orizuru(bells(13, 64), 0)
    assert full.comparisons == full.comparisons_live == 94
    assert [units.units_needed(n) for n in (16, 1024, 4096, 11008, 16384)] == [1, 69, 273, 735, 1093]


def test_functions() -> None:
    assert [functions.function16("silu", u) for u in words(0, -0.0, 1, -20)] == [
        *words(0, -0.0, 0.7310585786),
        0x8001,
    ]
    assert functions.function16("exp", 0xFC00) == 0
    assert functions.function16("gelu_erf", words(1)[0]) == fp16.from_float(0.8413447460685429)
    assert functions.function16("gelu_tanh", words(1)[0]) == fp16.from_float(0.8411919906082768)
    assert functions.function16("tanh", words(-2)[0]) == fp16.from_float(math.tanh(-2))
    vector = Vector(words(-1, 0.5), [0, 1, 0], words(4)[0], [0, 0, 1], words(-7))
    assert functions.index_function(vector, "relu") == (words(0, 2), [0])
    assert functions.index_function(vector, "relu", "literal") == (words(0, 2), [0])
    assert functions.index_function(vector, "relu", "offline", words(2)[0]) == (words(0, 1), [0])


@pytest.mark.parametrize("preset", ["paper", "exact"])
def test_softmax_and_scores(preset: str) -> None:
    assert functions.softmax(words(1, 1, -math.inf, 1), preset) == [
        *[fp16.from_float(1 / 3)] * 2,
        0,
        fp16.from_float(1 / 3),
    ]
    q, scale = functions.quantize_scores(words(0.5, 0.25, 0.125), words(1, 4, 2), 4, "fold", preset)
    assert (q, scale) == ([8, 15, 4], units.f16(1 / 15) if preset == "paper" else units.r32(Fraction(1, 15)))
    assert functions.quantize_scores(words(0.5, 0.25), (), 4, "max", preset)[0] == [15, 8]
    assert functions.quantize_scores(words(0.5, 0.25), (), 4, "fixed", preset)[0] == [8, 4]
    assert functions.quantize_scores(words(0, 0), words(1, 1), 4, "fold", preset) == ([0, 0], 1.0)


def test_events_of_orizuru_match_figure_7_and_sort() -> None:
    """[kllm §IV-C, Fig. 7] bits 1, 1, 0 lead to node 14; then its parent turns to the neighbour."""
    x = words(3, 7, 1, 5, 2, 6, 9, 4)
    events = list(units.orizuru_events(x, 2))
    expected = units.orizuru(x, 2)
    last = events[-1][0]

    assert (events[3][0]["p"], events[6][0]["q"]) == ([1, 0, 1, 1, 1, 1, 0], [0, 1, 0, 0, 0, 0, 1])
    assert (events[7][0]["node"], events[10][0]["p"]) == (14, [0, 0, 0, 1, 1, 1, 1])
    assert (last["max_index"], last["min_index"], last["outlier_mask"]) == expected[:3]
    assert (last["root_max"], last["root_min"]) == expected[3:5]
    assert tuple(sum(added[name] for _, added in events) for name in events[0][1]) == expected[5:]
