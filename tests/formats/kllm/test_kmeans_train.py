"""Training, by definition and by compiled form, against fractions, dynamic programming, and its own invariances."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from refemu.formats import Codebook, Histogram
from refemu.formats.kllm import kmeans_train
from refemu.formats.kllm.compiled import kmeans_train as kmeans_train_compiled
from refemu.formats.kllm.kmeans_train import ONE, histogram, iterate, nearest16, start
from tests.formats.kllm.kmeans_strategies import halves, units, words
from tests.oracles import fp16
from tests.oracles.kllm import formats

Train = Callable[..., Codebook]
TRAINERS = [pytest.param(kmeans_train.train, id="format"), pytest.param(kmeans_train_compiled.train, id="compiled")]
EXAMPLE = np.float16([-1, -0.5, 0, 0.25, 0.5, 1])
NORMAL = (np.clip(np.random.default_rng(0).standard_normal(3000) / 4, -1, 1)).astype(np.float16)
weighings = st.one_of(st.just(0.0), st.floats(0, 1e6), st.integers(0, 3).map(float), st.floats(0, 1e-9))


@pytest.mark.parametrize("train", TRAINERS)
def test_six_samples_in_two_clusters(train: Train) -> None:
    """[kllm §III-A], D-kllm-28: from -0.5 and 0.5; then -0.5 and 7/12, where the borders repeat."""
    assert train(EXAMPLE, bits=1) == Codebook(1, [0xB800, 0x38AB])
    assert train(EXAMPLE, bits=1, max_iter=0) == Codebook(1, [-0.5, 0.5])


@pytest.mark.parametrize("train", TRAINERS)
@settings(deadline=None, max_examples=120)
@given(st.data(), st.integers(1, 4))
def test_codebook_is_the_oracles(train: Train, data: st.DataObject, bits: int) -> None:
    """D-kllm-28, D-kllm-29: fractions throughout, one rounding per centroid."""
    lane = data.draw(st.sampled_from([units, words, st.integers(0x3400, 0x3C00), st.integers(0, 16)]))
    samples = data.draw(st.lists(lane, min_size=1, max_size=40))
    weights = data.draw(st.none() | st.lists(weighings, min_size=len(samples), max_size=len(samples)))
    assume(weights is None or not max(weights) or min(w for w in weights if w) / max(weights) > 1e-300)
    most = data.draw(st.sampled_from([300, 1, 2]))

    found = train(halves(samples), None if weights is None else np.array(weights), bits=bits, max_iter=most)
    assert found.values.tolist() == formats.train(samples, weights, bits=bits, max_iter=most).codebook


@pytest.mark.parametrize("train", TRAINERS)
def test_sample_on_midpoint_of_fractions_goes_down(train: Train) -> None:
    """D-kllm-28: 0 and 1, 3 and 8 units have means 0.5 and 5.5, whose midpoint is 3; then 4/3 and 8."""
    found = train(halves([0, 1, 3, 8]), bits=1, init=halves([0, 4]))

    assert found.values.tolist() == [1, 8]
    assert formats.train([0, 1, 3, 8], bits=1, given=[0, 4]).borders == [[2], [3], [3]]


@pytest.mark.long
@pytest.mark.parametrize("train", TRAINERS)
@pytest.mark.parametrize("bits", [1, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_of_normal_samples_too(train: Train, bits: int, weighted: bool) -> None:
    weights = np.random.default_rng(1).random(NORMAL.size) if weighted else None
    wanted = formats.train(NORMAL.view(np.uint16).tolist(), None if weights is None else weights.tolist(), bits=bits)

    assert train(NORMAL, weights, bits=bits).values.tolist() == wanted.codebook
    assert wanted.updates > 5 or bits == 1


@pytest.mark.parametrize("train", TRAINERS)
def test_a_given_start_is_taken(train: Train) -> None:
    """D-kllm-28: also when a cluster stays empty, which keeps its centroid."""
    first = [-1.0, 0.5, 0.625, 30.0]
    found = train(NORMAL, bits=2, init=first)

    assert (
        found.values.tolist()
        == formats.train(NORMAL.view(np.uint16).tolist(), bits=2, given=Codebook(2, first).values.tolist()).codebook
    )
    assert float(found.centroids[3]) == 30.0


@pytest.mark.parametrize("train", TRAINERS)
@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(units, st.floats(2.0**-20, 1)), min_size=3, max_size=60), st.data())
def test_no_order_and_no_chunks_change_it(train: Train, pairs: list[tuple[int, float]], data: st.DataObject) -> None:
    """D-kllm-28."""
    x, weights = halves([word for word, _ in pairs]), np.array([weight for _, weight in pairs])
    order = np.array(data.draw(st.permutations(range(x.size))))
    streamed, merged = Histogram(weights.max()), Histogram(weights.max())
    streamed.add(x[:1], weights[:1])
    streamed.add(x[1:], weights[1:])
    merged.add(x[order[::2]], weights[order[::2]])
    other = Histogram(weights.max())
    other.add(x[order[1::2]], weights[order[1::2]])
    merged.merge(other)
    wanted = train(x, weights, bits=2)

    assert train(x[order], weights[order], bits=2) == wanted
    assert train(streamed, bits=2) == train(merged, bits=2) == wanted


@pytest.mark.parametrize("train", TRAINERS)
@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(units, st.integers(1, 4)), min_size=1, max_size=30), st.integers(-20, 20))
def test_a_weight_is_a_number_of_samples(train: Train, pairs: list[tuple[int, int]], power: int) -> None:
    """[kllm §III-A], D-kllm-29: weight 2 equals the sample given twice; a power of two for all changes nothing."""
    x, weights = halves([word for word, _ in pairs]), np.array([weight for _, weight in pairs], np.float64)
    weights[0] = 4.0  # so that quotients by the largest weight are exact
    many = train(np.repeat(x, weights.astype(int)), bits=2)

    assert train(x, weights, bits=2) == many
    assert train(x, weights * 2.0**power, bits=2) == many
    assert train(x, weights.astype(np.int64), bits=2) == many


@pytest.mark.parametrize("train", TRAINERS)
def test_zero_weights_drop_samples_unless_all(train: Train) -> None:
    """D-kllm-28."""
    weights = np.array([1.0] * 5 + [0.0])

    assert train(EXAMPLE, weights, bits=1) == train(EXAMPLE[:5], bits=1)
    assert train(EXAMPLE, np.array([1.0] * 5 + [2.0**-34]), bits=1) == train(EXAMPLE[:5], bits=1)
    assert train(EXAMPLE, weights * 0, bits=1) == train(EXAMPLE, bits=1)


@pytest.mark.parametrize("train", TRAINERS)
def test_few_samples_are_their_own_codebook(train: Train) -> None:
    """D-kllm-28: the last is repeated; -0 is +0."""
    assert train(np.float16([0.5, -0.0, 0.5, -1]), bits=2) == Codebook(2, [-1, 0, 0.5, 0.5])
    assert train(EXAMPLE, bits=3) == Codebook(3, [*EXAMPLE.tolist(), 1, 1])


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 3))
def test_cost_falls_towards_the_optimum(data: st.DataObject, bits: int) -> None:
    """The optimum of one-dimensional K-Means by dynamic programming over sorted samples."""
    samples = data.draw(st.lists(units, min_size=3, max_size=14))
    points, weights = (array.tolist() for array in histogram(halves(samples)).bins())
    assume(len(points) > 1 << bits)
    costs = []
    for state in iterate(points, weights, start(points, weights, bits), 300):
        edges = [0, *state.borders, len(points)]
        costs.append(
            sum(
                (
                    weights[j] * (points[j] - state.centroids[i]) ** 2
                    for i in range(1 << bits)
                    for j in range(edges[i], edges[i + 1])
                ),
                Fraction(0),
            )
        )

    assert costs == sorted(costs, reverse=True)
    assert costs == formats.train(samples, bits=bits).costs
    assert formats.optimum(samples, None, bits) <= costs[-1]


@pytest.mark.parametrize("train", TRAINERS)
def test_mirrored_samples_give_the_mirrored_codebook(train: Train) -> None:
    """For samples that are not on a midpoint or a quantile."""
    assert train(-NORMAL[:2999], bits=3).centroids.tolist() == (-train(NORMAL[:2999], bits=3).centroids[::-1]).tolist()


def test_samples_beyond_the_compiled_forms_bounds_train_alike() -> None:
    """Values of 64 and more, or weights that sum to 2**61, take the readable form."""
    wide = (NORMAL.astype(np.float32) * 2048).astype(np.float16)
    heavy = histogram(NORMAL, np.ones(NORMAL.size))
    while heavy.total < 1 << 61:
        heavy.merge(heavy)

    assert kmeans_train_compiled.train(wide, bits=4) == kmeans_train.train(wide, bits=4)
    assert kmeans_train_compiled.train(heavy, bits=4) == kmeans_train.train(NORMAL, bits=4)


@settings(deadline=None, max_examples=200)
@given(st.integers(-(2**30), 2**30), st.integers(1, 2**61 - 1), st.integers(0, 2**61))
def test_integers_of_two_words_are_exact(quotient: int, divisor: int, factor: int) -> None:
    value = quotient * divisor + factor % divisor
    assert kmeans_train_compiled._divide(value >> 32, value & 0xFFFFFFFF, divisor) == (quotient, factor % divisor)
    upper, lower = kmeans_train_compiled._product(divisor, factor)
    assert (upper << 62) + lower == divisor * factor


@settings(deadline=None, max_examples=200)
@given(st.fractions(-65519, 65519) | st.fractions(-1, 1) | units.map(lambda u: Fraction(fp16.to_float(u))))
def test_fraction_is_rounded_to_nearest_fp16_value(value: Fraction) -> None:
    found = nearest16(value)

    assert int(np.float64(found).astype(np.float16).view(np.uint16)) == formats.positive_zero(fp16.from_fraction(value))
    assert nearest16(Fraction(-1, 4 * ONE)) == 0.0 and not np.signbit(nearest16(Fraction(-1, 4 * ONE)))


def test_two_gibisamples_are_too_many() -> None:
    """D-kllm-28: the sum of weights stays below 2**63; a rejected addition changes nothing."""
    full = histogram(EXAMPLE[:4], np.ones(4))  # four weights of 2**32 sum to 2**34
    for _ in range(28):
        full.merge(full)
    before = full.weights.copy()

    assert full.total == 1 << 62
    with pytest.raises(ValueError, match="weights must sum to less than 2\\*\\*63, got 9223372036854775808"):
        full.merge(full)
    assert full.total == 1 << 62 and np.array_equal(full.weights, before)


BAD = [
    pytest.param({"values": EXAMPLE[:0]}, ValueError, "train: no samples", id="no samples"),
    pytest.param({"values": np.float16([1, np.nan])}, ValueError, r"finite, got nan at index \(1,\)", id="nan"),
    pytest.param({"values": np.float32([1, 0.1])}, ValueError, r"fp16 values, got 0.1 at index \(1,\)", id="not fp16"),
    pytest.param({"values": np.arange(3)}, TypeError, "float16 or float32, got dtype int64", id="integers"),
    pytest.param({"weights": [1, 1, 1, 1, 1, -1.0]}, ValueError, "weight at sample 5 is -1.0", id="negative weight"),
    pytest.param({"weights": [1, np.inf, 1, 1, 1, 1]}, ValueError, "weight at sample 1 is inf", id="infinite weight"),
    pytest.param({"weights": [1, 1]}, ValueError, r"shape of the samples, \(6,\), got \(2,\)", id="shape"),
    pytest.param({"weights": ["1"] * 6}, TypeError, "weights must be real numbers", id="text"),
    pytest.param({"bits": 0}, ValueError, r"bits must be in \[1, 4\], got 0", id="0 bits"),
    pytest.param({"bits": 5}, ValueError, r"bits must be in \[1, 4\], got 5", id="5 bits"),
    pytest.param({"max_iter": -1}, ValueError, "max_iter must be in", id="max_iter"),
    pytest.param({"init": [0.5, 0.5]}, ValueError, r"2 strictly increasing values, got \[0.5, 0.5\]", id="given"),
    pytest.param({"init": [0.5]}, ValueError, "1 bits need 2 values", id="too few given"),
    pytest.param({"init": "random"}, ValueError, "init must be \"quantile\" or 2 values, got 'random'", id="init"),
    pytest.param({"values": Histogram(), "weights": [1.0]}, ValueError, "a Histogram has its weights", id="both"),
]


@pytest.mark.parametrize("train", TRAINERS)
@pytest.mark.parametrize(("how", "error", "message"), BAD)
def test_kmeans_train_rejects_invalid_inputs(
    train: Train, how: dict[str, Any], error: type[Exception], message: str
) -> None:
    options = {"values": EXAMPLE, "bits": 1} | how
    with pytest.raises(error, match=message):
        train(options.pop("values"), options.pop("weights", None), **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Histogram(float("nan")), "w_max must be finite and at least 0, got nan"),
        (lambda: Histogram(-1.0), "w_max must be finite and at least 0, got -1.0"),
        (lambda: Histogram(1.0).add(EXAMPLE, np.full(6, 2.0)), "weights must be at most w_max=1.0, got 2.0"),
        (lambda: Histogram(1.0).merge(Histogram(2.0)), "merge needs one w_max, got 1.0 and 2.0"),
    ],
    ids=["nan", "negative", "above the largest", "merge"],
)
def test_histogram_rejects(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
