"""The K-Means format, by definition and by compiled form, against the oracle in every field."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.formats import Codebook, KllmArith, KMeans, KMeansTensor, Thresholds, TopK, train
from refemu.formats.kllm.compiled import kmeans as kmeans_compiled
from refemu.formats.kllm.kmeans import normalized_inliers
from refemu.testing import float16s
from refemu.units.kllm.clustering.cases import TRAINED
from tests.arith.strategies import numbers, repeating
from tests.formats.kllm.kmeans_strategies import INFINITE, ariths, codebooks, described, halves, units, words
from tests.formats.names import PUBLIC
from tests.oracles.kllm import formats as oracle

BOOK = Codebook(4, TRAINED)
ENCODERS = [pytest.param(KMeans.encode, id="format"), pytest.param(kmeans_compiled.encode, id="compiled")]
Encode = Callable[..., KMeansTensor]


def parts(tensor: KMeansTensor) -> tuple[Any, ...]:
    """Of one vector, as the oracle has them."""
    zero = None if tensor.zero is None else int(tensor.zero)
    return (tensor.index.tolist(), int(tensor.scale), [int(bit) for bit in tensor.mask], tensor.outlier.tolist(), zero)


def expected(vector: oracle.Vector) -> tuple[Any, ...]:
    return vector.index, vector.scale, vector.mask, vector.outlier, vector.zero


@pytest.mark.parametrize("encode", ENCODERS)
def test_every_centroid_is_encoded_as_its_index(encode: Encode) -> None:
    """[kllm Eq. (1)] with distinct centroids and a power of two as scale."""
    for scale in (2.0**-8, 1.0, 64.0):
        for preset in ("paper", "exact"):
            tensor = encode(KMeans(BOOK, preset=preset), np.float16(np.append(BOOK.centroids, 1) * scale))
            assert tensor.index[:16].tolist() == list(range(16))
            assert float(tensor.scales) == scale


@pytest.mark.parametrize("encode", ENCODERS)
@settings(deadline=None, max_examples=250)
@given(st.data(), codebooks, ariths, st.booleans(), st.sampled_from(["inlier", "outlier"]))
def test_a_vector_is_the_oracles_in_every_field(
    encode: Encode, data: st.DataObject, book: Codebook, arith: Any, zero_point: bool, scale: str
) -> None:
    """[kllm §III-A], D-kllm-9, D-kllm-10, D-kllm-11, D-kllm-21, D-kllm-26, D-kllm-30."""
    n = data.draw(st.integers(1, 12))
    x = data.draw(st.lists(data.draw(st.sampled_from([words, units])), min_size=n, max_size=n))
    k = data.draw(st.integers(0, (n - 1) // 2))
    ends = data.draw(st.none() | st.tuples(words, words))
    limits = None if ends is None else tuple(sorted(ends, key=oracle.key, reverse=True))
    outliers = TopK(k=k) if limits is None else Thresholds(*halves(limits).astype(np.float64))
    if KllmArith.preset(arith).normalize == "reciprocal":  # an infinite one is another test's
        x, limits, outliers, zero_point = [word & 0x83FF | 0x3800 for word in x], None, TopK(k=k), False
    tensor = encode(KMeans(book, outliers, zero_point, arith, scale), halves(x))

    assert parts(tensor) == expected(
        oracle.encode(x, book.values.tolist(), k, limits, zero_point, **described(arith), scale_from=scale)
    )


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize("distance", list(INFINITE))
@pytest.mark.parametrize("tie", ["low", "high"])
def test_infinite_inverse_takes_end_of_codebook(encode: Encode, distance: str, tie: str) -> None:
    """D-kllm-8: as the Clustering Unit, whose flag the format has not."""
    book = Codebook(2, np.array([-0.5, 0, 0.25, 1], np.float16))
    arith = KllmArith(normalize="reciprocal", distance=distance, tie=tie)

    assert (
        encode(KMeans(book, None, preset=arith), halves([0x24, 0x8004, 0])).index.tolist()
        == (INFINITE[distance][tie == "high"])
    )


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize("gap", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "arith",
    ["paper", KllmArith(distance="midpoint16"), KllmArith(distance="real", tie="high")],
    ids=["paper", "midpoint16", "real"],
)
def test_quotients_halfway_between_subnormals_round_to_even(encode: Encode, gap: int, arith: Any) -> None:
    """D-kllm-8: under a scale of 2 every other quotient of subnormals is a tie, and the index may hang on it."""
    x, book = [*range(16), *range(0x8000, 0x8010), 0x4000], [0x8000 | gap, 0, gap, 0x3C00]

    assert (
        encode(KMeans(Codebook(2, book), preset=arith), halves(x)).index.tolist()
        == oracle.encode(x, book, **described(arith)).index
    )


arrays = st.tuples(
    st.sampled_from([numbers, float16s]),
    st.sampled_from([(24,), (3, 40), (40, 3), (2, 33, 2), (0, 8), (4100, 1)]),
).flatmap(lambda way: repeating(*way).map(lambda x: x.astype(np.float16)))


@pytest.mark.parametrize("encode", ENCODERS)
@settings(deadline=None, max_examples=60)
@given(
    arrays,
    st.sampled_from([None, TopK("5"), TopK(k=3), Thresholds(1.5, -0.75), TopK(0)]),
    st.sampled_from(["paper", "exact"]),
)
@example(np.random.default_rng(0).standard_normal((1, 5000)).astype(np.float16), None, "paper")
def test_any_axis_is_encoded_as_its_vectors_are(encode: Encode, x: np.ndarray, outliers: Any, preset: str) -> None:
    """[kllm §III-A]: a scale per token or per output channel, outliers vector by vector."""
    shape, axis = x.shape, int(np.argmax(x.shape))
    fmt = KMeans(BOOK, outliers, preset=preset)
    tensor, moved = encode(fmt, x, axis), np.moveaxis(x, axis, -1)
    rows = [fmt.encode(row) for row in moved.reshape(-1, moved.shape[-1])]

    assert tensor.rows().tolist() == [row.index.tolist() for row in rows]
    assert tensor.rows(tensor.mask).tolist() == [row.mask.tolist() for row in rows]
    assert tensor.scale.ravel().tolist() == [int(row.scale) for row in rows]
    assert tensor.outlier.tolist() == [word for row in rows for word in row.outlier.tolist()]
    assert (tensor.shape, tensor.axis) == (shape, axis)
    assert encode(fmt, x.astype(np.float32), axis - x.ndim).equals(tensor)


@pytest.mark.parametrize("encode", ENCODERS)
def test_scale_is_the_largest_inlier_magnitude(encode: Encode) -> None:
    """[kllm §II-A], D-kllm-9: outliers do not count; D-kllm-11: of zeros it is 1; D-kllm-30: thresholds fix it."""
    x = np.float16([[9, 1, -3, 2, -8, 0], [5, 0, 0, -0.0, 0, -7]])

    assert encode(KMeans(BOOK), x).scales.tolist() == [9, 7]
    assert encode(KMeans(BOOK, TopK(k=1)), x).scales.tolist() == [3, 1]
    assert encode(KMeans(BOOK, Thresholds(2, -4)), x).scales.tolist() == [4, 4]
    assert encode(KMeans(BOOK, Thresholds(0, 0)), x).scales.tolist() == [1, 1]


@pytest.mark.parametrize("encode", ENCODERS)
def test_scale_may_be_that_of_the_least_outliers(encode: Encode) -> None:
    """[kllm §II-A], D-kllm-9: "determined by the outlier thresholds", the k-th value of either end."""
    x = np.float16([[9, 1, -3, 2, -8, 7, 0], [0, 0, 0, -0.0, 0, -7, 0], [1, 2, 3, 4, 5, 6, 7]])

    assert encode(KMeans(BOOK, TopK(k=1), scale="outlier"), x).scales.tolist() == [9, 7, 7]
    assert encode(KMeans(BOOK, TopK(k=2), scale="outlier"), x).scales.tolist() == [7, 1, 6]
    assert encode(KMeans(BOOK, TopK(k=2)), x).scales.tolist() == [2, 1, 5]
    for without in (TopK(k=0), None, Thresholds(2, -4)):
        assert encode(KMeans(BOOK, without, scale="outlier"), x).equals(encode(KMeans(BOOK, without), x))
    with pytest.raises(Refused, match="KMeans: scale must be one of 'inlier', 'outlier', got 'k'"):
        KMeans(BOOK, scale="k")


@pytest.mark.parametrize("encode", ENCODERS)
def test_thresholds_may_leave_no_inlier_or_no_outlier(encode: Encode) -> None:
    """[kllm §V-A], D-kllm-30: their number varies; outliers keep their bits."""
    none, every = (
        encode(KMeans(BOOK, Thresholds(8, -8)), np.float16([1, 2])),
        encode(KMeans(BOOK, Thresholds(0.5, 0.5)), np.float16([1, -0.0])),
    )

    assert (none.outlier.size, none.mask.any()) == (0, False)
    assert (every.outlier.tolist(), every.index.tolist()) == ([0x3C00, 0x8000], [0, 0])


@settings(deadline=None, max_examples=100)
@given(st.lists(units, min_size=5, max_size=9), st.integers(-3, 8), st.sampled_from(["paper", "exact"]))
def test_a_power_of_two_scales_the_scale_only(x: list[int], power: int, preset: str) -> None:
    """Where no value leaves the normal numbers; outliers are scaled with the data."""
    x = [word if word & 0x7FFF >= 0x1400 else word | 0x1400 for word in x]
    fmt = KMeans(BOOK, TopK(k=1), preset=preset)
    once, scaled = fmt.encode(halves(x)), fmt.encode(halves(x) * np.float16(2.0**power))

    assert once.index.tolist() == scaled.index.tolist() and once.mask.tolist() == scaled.mask.tolist()
    if once.scales != 1 or halves(x)[~once.mask].any():
        assert float(scaled.scales) == float(once.scales) * 2.0**power


@settings(deadline=None, max_examples=100)
@given(st.lists(units, min_size=1, max_size=9))
def test_error_is_at_most_half_gap_between_centroids(x: list[int]) -> None:
    """In `exact`, for values between the end centroids."""
    tensor = KMeans(BOOK, preset="exact").encode(halves(x))
    scale, centroids = float(tensor.scales), BOOK.centroids.astype(np.float64)
    gap = float(np.diff(centroids).max())
    for value, decoded in zip(halves(x).tolist(), tensor.dequantize().tolist(), strict=True):
        if centroids[0] * scale <= value <= centroids[-1] * scale:
            assert abs(value - decoded) <= scale * gap / 2


def test_samples_are_the_normalized_inliers_in_every_preset() -> None:
    """[kllm §V-A]: "the normalized inlier values are quantized"; D-kllm-28: training is the same for all presets."""
    x = np.random.default_rng(4).standard_normal((6, 50)).astype(np.float16)
    for preset in ("paper", "exact", KllmArith(normalize="reciprocal")):
        fmt = KMeans(BOOK, TopK(k=2), preset=preset)
        tensor = fmt.encode(x)
        wanted = [
            oracle.normalized(int(word), int(scale))
            for row, mask, scale in zip(x.view(np.uint16), tensor.mask, tensor.scale, strict=True)
            for word in row[~mask]
        ]
        assert fmt.samples(x).astype(np.float16).view(np.uint16).tolist() == wanted
        assert normalized_inliers(x.T, TopK(k=2), 0).tolist() == fmt.samples(x).tolist()
    assert abs(fmt.samples(x)).max() == 1


@pytest.mark.parametrize(("outliers", "least", "most"), [(TopK("2"), "0.74", "0.78"), (None, "0.62", "0.70")])
def test_fewer_errors_than_integers_of_as_many_bits(outliers: Any, least: str, most: str) -> None:
    """[kllm §II-A]: K-Means follows the data where a uniform grid does not; ratio of mean squares on eight draws."""
    uniform, ratios = Codebook(4, np.float16(np.arange(-7.5, 8) / 7.5)), []
    for seed in range(8):
        x = np.random.default_rng(seed).standard_normal((32, 256)).astype(np.float16)
        trained = train(normalized_inliers(x, outliers), bits=4)
        errors = [
            math.fsum(np.square(KMeans(book, outliers).encode(x).dequantize() - x).ravel().tolist())
            for book in (trained, uniform)
        ]
        ratios.append(errors[0] / errors[1])

    assert max(ratios) < 1
    assert (f"{min(ratios):.2f}", f"{max(ratios):.2f}") == (least, most)


@pytest.mark.parametrize("preset", ["paper", "exact", KllmArith(distance="midpoint16", tie="high")], ids=str)
def test_indices_of_given_scales_and_masks(preset: Any) -> None:
    """The compiled form's inner step, which takes scales and masks from a unit."""
    fmt = KMeans(BOOK, TopK("3"), preset=preset)
    x = np.random.default_rng(8).standard_normal((5, 200)).astype(np.float16)
    tensor = fmt.encode(x)
    found = kmeans_compiled.indices(x.view(np.uint16), tensor.scale, tensor.mask, BOOK, fmt.arith)

    assert found.dtype == np.uint8 and found.tolist() == tensor.index.tolist()


@pytest.mark.parametrize(
    "fmt",
    [
        KMeans(BOOK),
        KMeans(BOOK, TopK("0.5"), preset="exact"),
        KMeans(BOOK, Thresholds(2, -1), zero_point=True),
        KMeans(Codebook(1, [0, 0]), TopK(k=2), preset=KllmArith(tie="high")),
    ],
    ids=repr,
)
def test_kmeans_repr_evaluates_back(fmt: KMeans) -> None:
    names = PUBLIC | {"Sequential": KllmArith().order.__class__}

    assert eval(repr(fmt), names) == fmt and hash(eval(repr(fmt), names)) == hash(fmt)


X = np.float16([1, 2, 3, 4])
BAD = [
    pytest.param({}, np.float16([1, np.nan]), {}, ValueError, r"x must be finite, got nan at index \(1,\)", id="nan"),
    pytest.param({}, np.float16([[1, 2], [-np.inf, 0]]), {}, ValueError, r"got -inf at index \(1, 0\)", id="inf"),
    pytest.param({}, np.float32([1, 0.1]), {}, ValueError, r"fp16 values, got 0\.1 at index \(1,\)", id="not fp16"),
    pytest.param({}, np.float64([1, 0.1]), {}, ValueError, r"fp16 values, got 0\.1 at index \(1,\)", id="float64"),
    pytest.param({}, np.float64([1, 1e300]), {}, ValueError, r"fp16 values, got 1e\+300 at", id="beyond float32"),
    pytest.param({}, np.arange(4), {}, TypeError, "float16 or float32, got dtype int64", id="integers"),
    pytest.param({}, np.float16(1), {}, TypeError, "at least one axis", id="scalar"),
    pytest.param({}, X[:0], {}, ValueError, r"vectors must not be empty, got shape \(0,\)", id="empty"),
    pytest.param({}, np.zeros((0, 3), np.float16), {"axis": 0}, ValueError, "must not be empty", id="empty axis"),
    pytest.param({}, X, {"axis": 1}, ValueError, r"axis must be in \[-1, 0\], got 1", id="axis"),
    pytest.param({"outliers": TopK(k=2)}, X, {}, ValueError, "2k must be below the 4 values", id="short vector"),
    pytest.param({"outliers": TopK("80")}, X, {}, ValueError, "use outliers=None", id="short for the percentage"),
]


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize(("how", "x", "options", "error", "message"), BAD)
def test_encode_rejects(
    encode: Encode, how: dict[str, Any], x: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """D-kllm-27: NaN and infinity have no index."""
    with pytest.raises(error, match=message):
        encode(KMeans(BOOK, **how), x, **options)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((Codebook(2, [0.0, 1.0, 0.5, 2.0]),), ValueError, "centroids must ascend, got 0.5 at index 2 after 1.0"),
        ((Codebook(5, np.arange(32)),), ValueError, "at most 4 bits encode, got 5"),
        ((Codebook(1, [[0, 1]]),), ValueError, "one row of fp16 entries encodes"),
        ((Codebook(1, [0, 1], 32),), ValueError, "one row of fp16 entries encodes"),
        ((TRAINED,), TypeError, "codebook must be a Codebook"),
        ((BOOK, "1%"), TypeError, "outliers a TopK, Thresholds or None"),
        ((BOOK, None, 1), TypeError, "zero_point must be a bool, got 1"),
        ((BOOK, None, False, "literal"), ValueError, "unknown preset 'literal' of KLLM"),
    ],
    ids=["unsorted", "table", "rows", "wide", "no codebook", "outliers", "zero point", "preset"],
)
def test_format_that_cannot_encode_is_rejected(
    arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        KMeans(*arguments)


def test_pythons_numbers_are_taken_where_they_are_fp16() -> None:
    """A list becomes float64; nothing is rounded on the way."""
    fmt = KMeans(train([-1, -0.5, 0.0, 0.25, 0.5, 1.0], bits=1))
    assert fmt.codebook.values.tolist() == [0xB800, 0x38AB]
    assert fmt.encode([0.5, -1.0]).equals(fmt.encode(np.float16([0.5, -1])))
    with pytest.raises(ValueError, match=r"values must hold fp16 values, got 0\.1 at index \(1,\)"):
        train([0.5, 0.1], bits=1)
