"""The Clustering Unit is the format's rule, one element at a time, and shows how it came to the index."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.orders import Sequential
from refemu.formats import Codebook, KllmArith, KMeans, TopK
from refemu.units.kllm import clustering
from refemu.units.kllm.clustering import Clustering
from refemu.units.kllm.clustering.cases import TRAINED
from refemu.units.stepping import Result
from tests.formats.kllm.kmeans_strategies import INFINITE, ariths, codebooks, described, positives, words
from tests.oracles.kllm import formats

IMPLEMENTATIONS = [pytest.param(clustering.run, id="unit"), pytest.param(clustering.UNIT.run_compiled, id="compiled")]
Run = Callable[..., Result]
UNIT_WORDS = np.concatenate([np.arange(0xBC00, 0x7FFF, -1), np.arange(0x3C01)])


def test_seven_values_differ_between_the_presets() -> None:
    """[kllm §IV-A], D-kllm-8: of all fp16 values in [-1, 1], on the trained codebook of the cases."""
    paper, exact = (
        clustering.UNIT.run_compiled(UNIT_WORDS, 0x3C00, TRAINED, preset=name).index for name in ("paper", "exact")
    )
    differ = UNIT_WORDS[(paper != exact) & (UNIT_WORDS != 0x8000)]

    assert differ.size == 7 and 0x15C1 in differ
    assert [int(clustering.run(0x15C1, 0x3C00, TRAINED, preset=name).index) for name in ("paper", "exact")] == [7, 8]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(words, positives), min_size=1, max_size=5), codebooks, ariths)
@example(
    [(0x0000, 0x0001), (0x0001, 0x0001)], Codebook(1, [0xBC00, 0x3C00]), KllmArith(normalize="reciprocal", tie="high")
)  # 1 / s overflows, and 0 times infinity is NaN
def test_index_is_the_oracles(run: Run, elements: list[tuple[int, int]], book: Codebook, arith: Any) -> None:
    """D-kllm-7, D-kllm-8: also where x^ becomes infinite, which is flagged."""
    x, scale = (list(column) for column in zip(*elements, strict=True))
    result = run(x, scale, book.values, bits=book.bits, preset=arith)
    how = described(arith)
    for word, divisor, nearest, overflow in zip(x, scale, result.index.tolist(), result.overflow.tolist(), strict=True):
        infinite = how["normalize"] != "none" and (
            formats.normalized(word, divisor, how["normalize"]) & 0x7C00 == 0x7C00
            or (how["normalize"] == "reciprocal" and formats.fp16.div(0x3C00, divisor) == 0x7C00)
        )
        assert overflow == infinite
        assert nearest == formats.nearest(word, divisor, book.values.tolist(), **how)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("distance", list(INFINITE))
@pytest.mark.parametrize("tie", ["low", "high"])
def test_an_infinite_quotient_is_flagged_whatever_the_distance(run: Run, distance: str, tie: str) -> None:
    """D-kllm-8: 1 / s is infinite, so x^ is infinity, -infinity and NaN; the sign decides but for fp16 distances."""
    arith = KllmArith(normalize="reciprocal", distance=distance, tie=tie)
    result = run([0x24, 0x8004, 0], 0x24, [0xB800, 0, 0x3400, 0x3C00], bits=2, preset=arith)

    assert result.index.tolist() == INFINITE[distance][tie == "high"]
    assert result.overflow.tolist() == [True, True, True]
    assert run(
        [0x7BFF], 1, [0xB800, 0, 0x3400, 0x3C00], bits=2, preset=KllmArith(distance=distance, tie=tie)
    ).overflow.tolist() == [True], "dividing overflows too"


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("preset", ["paper", "exact", KllmArith(distance="midpoint16")], ids=str)
def test_of_a_vector_it_is_the_format(run: Run, preset: Any) -> None:
    """[kllm §IV-A]: the inliers in ascending position give the indices of `KMeans.encode`."""
    x = np.random.default_rng(2).standard_normal(200).astype(np.float16)
    tensor = KMeans(Codebook(4, TRAINED), TopK("2"), preset=preset).encode(x)
    result = run(x.view(np.uint16)[~tensor.mask], tensor.scale, TRAINED, preset=preset)

    assert result.index.tolist() == tensor.index[~tensor.mask].tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("preset", "each"),
    [("paper", 16), ("exact", 15), (KllmArith(distance="midpoint16"), 15)],
    ids=["paper", "exact", "midpoint16"],
)
@pytest.mark.parametrize("elements", [1, 16, 17, 4096 - 42])
def test_counters(run: Run, preset: Any, each: int, elements: int) -> None:
    """D-kllm-31: 16 elements per cycle; a distance per centroid, or a comparison per midpoint."""
    if elements > 100 and run is clustering.run:
        elements = 100
    result = run(np.full(elements, 0x3555), 0x3C00, TRAINED, preset=preset)

    assert (result.distances, result.cycles) == (each * elements, -(-elements // 16))
    assert run(np.full(elements, 0x3555), 0x3C00, TRAINED, preset=preset, lanes=1).cycles == elements


def test_step_shows_normalized_value_and_every_distance() -> None:
    """D-kllm-8: 0.75 / 1.5 = 0.5 against -1, 0, 0.5, 2; the scan keeps the first of the least."""
    book = [0xBC00, 0x0000, 0x3800, 0x4000]
    state = Clustering(2).step(0x3A00, 0x3E00, book)

    assert (state.event, state.element, state.index, state.x_hat) == ("cluster", 0, 2, 0x3800)
    assert state.compared == (0x3E00, 0x3800, 0, 0x3E00)
    assert Clustering(2, "exact").step(0x3A00, 0x3E00, book).compared == (1, 1, 0)


def test_rejected_element_changes_nothing() -> None:
    device = Clustering()
    device.step(0x3800, 0x3C00, TRAINED)
    before = device.snapshot()
    with pytest.raises(ValueError, match="x must be finite"):
        device.step(0x7C00, 0x3C00, TRAINED)

    assert device.snapshot() == before


@pytest.mark.parametrize(
    "device", [Clustering(), Clustering(3, "exact", 8), Clustering(2, KllmArith(tie="high"))], ids=repr
)
def test_clustering_repr_evaluates_back(device: Clustering) -> None:
    names = {"Clustering": Clustering, "KllmArith": KllmArith, "Sequential": Sequential}

    assert repr(eval(repr(device), names)) == repr(device)


BAD = [
    pytest.param(
        ([0x3C00, 0x7E00], 0x3C00, TRAINED),
        {},
        ValueError,
        r"clustering: x must be finite, got nan at "
        r"index \(1,\)",
        id="nan",
    ),
    pytest.param(([0xFC00], 0x3C00, TRAINED), {}, ValueError, "x must be finite, got -inf", id="infinity"),
    pytest.param(([0], [0], TRAINED), {}, ValueError, r"scale 0 at index \(0,\) is outside \[1, 31744\)", id="scale 0"),
    pytest.param(([0], 0xBC00, TRAINED), {}, ValueError, "scale 48128 is outside", id="negative scale"),
    pytest.param(([0], 0x7C00, TRAINED), {}, ValueError, "scale 31744 is outside", id="infinite scale"),
    pytest.param(
        ([0], 0x3C00, TRAINED[::-1]),
        {},
        ValueError,
        r"codebook must ascend, got a smaller centroid after "
        r"lane 0 at index \(0,\)",
        id="unsorted",
    ),
    pytest.param(
        ([0], 0x3C00, [0, 0x7E00]), {"bits": 1}, ValueError, "codebook must be finite, got nan", id="centroid"
    ),
    pytest.param(([0], 0x3C00, TRAINED[:8]), {}, TypeError, "must hold 16 lanes", id="lanes"),
    pytest.param(([0.5], 0x3C00, TRAINED), {}, TypeError, "integers are needed, got dtype float64", id="floats"),
    pytest.param(([0], 0x3C00, TRAINED), {"bits": 5}, ValueError, r"bits must be in \[1, 4\], got 5", id="bits"),
    pytest.param(([0], 0x3C00, TRAINED), {"lanes": 0}, ValueError, "lanes must be in", id="no lanes"),
    pytest.param(([0], 0x3C00, TRAINED), {"preset": "fast"}, ValueError, "unknown preset 'fast' of KLLM", id="preset"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("inputs", "options", "error", "message"), BAD)
def test_clustering_rejects_invalid_inputs(
    run: Run, inputs: tuple[Any, ...], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """D-kllm-27: what cannot be clustered."""
    with pytest.raises(error, match=message):
        run(*inputs, **options)
