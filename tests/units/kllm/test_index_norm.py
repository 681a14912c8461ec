"""Norms from counts: every rounding against the oracle, the exact norm against fractions, counters, errors."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.orders import Exact
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.formats.kllm.kmeans import Codebook, KMeans, KMeansTensor, TopK
from refemu.units.kllm import index_norm
from refemu.units.kllm.index_norm import IndexNorm
from refemu.units.kllm.index_norm import compiled as index_norm_compiled
from tests.oracles import fp16
from tests.oracles.kllm import functions
from tests.units.kllm.kmeans_operands import vectors

IMPLEMENTATIONS = [
    pytest.param(index_norm.divisors, id="unit"),
    pytest.param(index_norm_compiled.divisors, id="compiled"),
]
CODEBOOK = Codebook(4, (np.arange(-15, 16, 2) / 16).astype(np.float16))
WEIGHTS = Codebook(3, (np.arange(-7, 8, 2) / 8).astype(np.float16))
ROWS = ((np.arange(120) * 29 % 61 - 24) / np.float32(8)).astype(np.float16).reshape(3, 40)
STATS = {
    "fp32": KllmArith(),
    "fp16": KllmArith(stat="fp16"),
    "exact": KllmArith.preset("exact"),
    "exact sums, fp16 matmul": KllmArith(stat="exact"),
    "fp32 squares": KllmArith(table="fp32"),
    "fp16, fp32 squares": KllmArith(table="fp32", stat="fp16"),
}


def encoded(x: np.ndarray = ROWS, k: int = 2, codebook: Codebook = CODEBOOK) -> KMeansTensor:
    return KMeans(codebook, TopK(k=k) if k else None).encode(x)


def quotient(a: float, b: float) -> int:
    """Word of r16(r32(a / b))."""
    return fp16.from_float(fp16.f32_from_fraction(Fraction(a) / Fraction(b)))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", list(STATS))
@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_rms_is_the_oracles(run: Any, name: str, eps: float) -> None:
    """[kllm §III-C2, Eq. (3)], D-kllm-19 (eps), D-kllm-20: each sum and each operation rounded as `stat` says."""
    arith, tensor = STATS[name], encoded()
    result = run(tensor, eps=eps, preset=arith)

    assert result.divisor.tolist() == [functions.rms(v, eps, arith.stat, arith.table) for v in vectors(tensor)]
    assert result.divisor.dtype == (np.float64 if arith.stat == "exact" else np.float32)
    assert result.mean is None and result.shift is None


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", list(STATS))
def test_layer_norm_is_the_oracles(run: Any, name: str) -> None:
    """[kllm §III-C2], D-kllm-39: mean and mean square from the same counts."""
    arith, tensor = STATS[name], encoded()
    result = run(tensor, norm="layer", eps=1e-5, preset=arith)
    expected = [functions.layer_stats(v, 1e-5, arith.stat, arith.table) for v in vectors(tensor)]

    assert list(zip(result.mean.tolist(), result.divisor.tolist(), strict=True)) == expected


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_eps_is_rounded_before_it_is_added(run: Any) -> None:
    """D-kllm-19: a mean square of 2 and half an ulp of it; what eps has beyond float32 does not break the tie."""
    tensor = encoded(np.array([[2, 0]], np.float16), 0, Codebook(1, np.array([0, 1], np.float16)))

    assert run(tensor, eps=2.0**-23 + 2.0**-49).divisor[0] == np.sqrt(np.float32(2))
    assert run(tensor, eps=2.0**-23 + 2.0**-45).divisor[0] > np.sqrt(np.float32(2))


WORDS = st.one_of(st.integers(0, 0x4900), st.integers(0x8000, 0xC900), st.sampled_from([0x7BFF, 0x75C8, 1, 0]))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=50)
@given(x=st.lists(WORDS, min_size=5, max_size=40), k=st.integers(0, 2), name=st.sampled_from(list(STATS)))
def test_any_vector(run: Any, x: list[int], k: int, name: str) -> None:
    """D-kllm-20: outliers whose squares leave fp16 are common in residual streams."""
    arith, tensor = STATS[name], encoded(np.array([x], np.uint16).view(np.float16), k)
    result = run(tensor, norm="layer", eps=1e-3, preset=arith)

    assert (result.mean[0], result.divisor[0]) == functions.layer_stats(
        vectors(tensor)[0], 1e-3, arith.stat, arith.table
    )


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_exact_sums_are_those_of_the_values(run: Any) -> None:
    """[kllm §III-C2, Eq. (3)] counting indices loses nothing: the mean square of the decoded values, in fractions.

    Squares of centroids in float32 are exact, so only the root is not.
    """
    arith = KllmArith(stat="exact", acc="exact", table="fp32", order=Exact())
    tensor = encoded()
    for row, rms in zip(tensor.dequantize().tolist(), run(tensor, preset=arith).divisor.tolist(), strict=True):
        square = sum(Fraction(value) ** 2 for value in row) / len(row)
        assert rms == float(np.sqrt(np.float64(float(square))))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_scaling_by_power_of_two_scales_root(run: Any) -> None:
    """[kllm §III-C2] without eps the divided scale, and so the output, stays."""
    one, eight = (run(encoded(ROWS * np.float16(f)), preset="exact").divisor for f in (1, 8))

    assert (8 * one).tolist() == eight.tolist()
    assert run(encoded(ROWS)).folded.tolist() == run(encoded(ROWS * np.float16(8))).folded.tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", ["fp32", "fp16", "exact sums, fp16 matmul"])
def test_delayed_division(run: Any, name: str) -> None:
    """[kllm §III-C2, Fig. 4], D-kllm-37: one scale for the dense path, centroids of the weights for the sparse one."""
    tensor = encoded()
    result = run(tensor, norm="layer", eps=1e-5, preset=STATS[name], weights=WEIGHTS)
    for r, (rms, mean) in enumerate(zip(result.divisor.tolist(), result.mean.tolist(), strict=True)):
        divided = [quotient(c, rms) for c in WEIGHTS.centroids.tolist()]
        assert int(result.folded[r].view(np.uint16)) == quotient(float(tensor.scales[r]), rms)
        assert result.divided[r].view(np.uint16).tolist() == divided
        assert int(result.shift[r].view(np.uint16)) == quotient(mean, rms)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("norm", "moments"), [("rms", 1), ("layer", 2)])
def test_counters(run: Any, norm: str, moments: int) -> None:
    """[kllm §III-C2] 2**n multiplications instead of N, in addition to those of the outliers; 1 + 2**nW divisions."""
    result = run(encoded(k=2), norm=norm, eps=1e-5, weights=WEIGHTS)

    assert result.indices == 3 * (40 - 4)
    assert result.macs == 3 * moments * (16 + 4)
    assert result.divides == 3 * (1 + 8 + (norm == "layer"))
    assert run(encoded(k=2), norm=norm, eps=1e-5).divides == 3 * (1 + (norm == "layer"))
    assert run(encoded(k=2), norm=norm, eps=1e-5, preset="exact", weights=WEIGHTS).divides == 0


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_multiplications_without_outliers_equal_centroids(run: Any) -> None:
    """[kllm §III-C2] squares N -> 2**n."""
    assert run(encoded(k=0)).macs == 3 * 16


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_the_norm_sees_x_before_the_norm(run: Any) -> None:
    """D-kllm-18: the same tensor feeds the matmul; a gain is none of the unit's business."""
    tensor = encoded(np.full((1, 4), 3, np.float16), 0, Codebook(1, np.array([-1, 1], np.float16)))
    result = run(tensor)

    assert result.divisor.tolist() == [3.0] and result.folded.tolist() == [1.0]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_equal_values_have_no_deviation(run: Any) -> None:
    """D-kllm-39: a variance rounded below 0 is 0, so with eps the deviation is its root."""
    x = np.full((1, 7), 3.4453125, np.float16)
    result = run(encoded(x, 0, Codebook(1, np.array([-1, 1], np.float16))), norm="layer", eps=1e-4)

    assert result.divisor[0] == np.sqrt(np.float32(1e-4))
    with pytest.raises(Refused, match=r"the divisor must be above 0, got 0.0.*; set eps above 0"):
        run(encoded(np.full((1, 8), 2, np.float16), 0, Codebook(1, np.array([-1, 1], np.float16))), norm="layer")


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_overflow_is_flagged(run: Any) -> None:
    """A tiny divisor takes the divided scale beyond fp16; that is the hardware's result."""
    x = np.zeros((2, 4), np.float16)
    x[1] = 1
    tensor = encoded(x, 0, Codebook(1, np.array([0, 1], np.float16)))
    result = run(tensor, eps=1e-10, weights=WEIGHTS)

    assert result.overflow.tolist() == [True, False] and np.isinf(result.folded[0])


@pytest.mark.parametrize("shape", [(20,), (2, 3, 20), (4, 1)])
@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("preset", ["paper", "exact"])
def test_compiled_form_equals_unit_on_tensors(shape: tuple[int, ...], norm: str, preset: str) -> None:
    """Vectors along any axis; results have the shape of the vectors."""
    x = ((np.arange(np.prod(shape)) * 37 % 41 - 17) / np.float32(4)).astype(np.float16).reshape(shape)
    for axis in range(len(shape)):
        outliers = TopK(k=1) if shape[axis] > 2 else None
        tensor = KMeans(CODEBOOK, outliers).encode(x, axis)
        unit, compiled_run = (
            run(tensor, norm=norm, eps=1e-5, preset=preset, weights=WEIGHTS)
            for run in (index_norm.divisors, index_norm_compiled.divisors)
        )
        assert unit.equals(compiled_run) and unit.divisor.shape == tensor.vectors


def test_events_of_a_vector() -> None:
    """[kllm §IV-B] sixteen positions a cycle, then the sums, the root, the division."""
    device = IndexNorm(20, bits=1, weight_bits=1, norm="layer", eps=1e-5)
    inputs = {
        "q": [1] * 20,
        "mask": [0] * 19 + [1],
        "x": [0] * 19 + [0x4500],
        "scale": 0x3C00,
        "centroids": [0xBC00, 0x3C00],
        "squares": [0x3C00, 0x3C00],
        "weights": [0xBC00, 0x3C00],
    }
    states = list(device.steps(**inputs))

    assert [state.event for state in states] == [
        "count",
        "count",
        "mean",
        "mean_sparse",
        "square",
        "square_sparse",
        "root",
        "fold",
    ]
    assert [state.count for state in states[:2]] == [(0, 16), (0, 19)]
    mean, square = (int((np.float32(total) / np.float32(20)).view(np.uint32)) for total in (24, 44))
    assert [state.moments for state in states[2:6]] == [(0, 0), (mean, 0), (mean, 0), (mean, square)]
    assert [state.dense for state in states[1:3]] == [0, int(np.float32(19).view(np.uint32))] and states[2].total == 19
    assert (states[-1].indices, states[-1].macs, states[-1].divides) == (19, 6, 4)
    with pytest.raises(Refused, match="step needs the inputs of an operation, got none"):
        device.step()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_index_norm_rejects_invalid_inputs(run: Any) -> None:
    with pytest.raises(Refused, match="norm must be one of 'rms', 'layer', got 'batch'"):
        run(encoded(), norm="batch")
    for eps in (-1.0, float("nan"), float("inf")):
        with pytest.raises(Refused, match="eps must be finite and at least 0"):
            run(encoded(), eps=eps)
    with pytest.raises(Refused, match="no zero points"):
        run(KMeans(CODEBOOK, None, zero_point=True).encode(ROWS))
    with pytest.raises(RefusedType, match="must be a KMeansTensor, got ndarray"):
        run(ROWS)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("shape", "place", "told"),
    [
        ((5, 8), (3,), " at index (3,)"),
        ((8,), (), ""),
        ((2, 3, 8), (1, 0), " at index (1, 0)"),
        ((4, 1), (2,), " at index (2,)"),
    ],
)
def test_divisor_of_zero_is_rejected_with_its_place(
    run: Any, shape: tuple[int, ...], place: tuple[int, ...], told: str
) -> None:
    """One message of unit and compiled form, for tensors and between the ports. D-kllm-19."""
    x = np.ones(shape, np.float16)
    x[place] = 0
    tensor = encoded(x, 0, Codebook(1, np.array([0, 1], np.float16)))
    message = f"index_norm: the divisor must be above 0, got 0.0{told}; set eps above 0"
    with pytest.raises(Refused) as refusal:
        run(tensor)
    ports = {index_norm.divisors: index_norm.run, index_norm_compiled.divisors: index_norm_compiled.run}[run]
    with pytest.raises(Refused) as between:
        ports(
            n=shape[-1],
            bits=1,
            weight_bits=1,
            q=tensor.index,
            mask=tensor.index * 0,
            x=tensor.index * 0,
            scale=tensor.scale,
            squares=tensor.codebook.values,
            weights=[0, 0],
        )

    assert str(refusal.value) == str(between.value) == message


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_index_norm_rejects_empty_vectors(run: Any) -> None:
    empty = KMeansTensor(
        CODEBOOK,
        np.zeros((2, 0), np.uint8),
        np.full(2, 0x3C00, np.uint16),
        np.zeros((2, 0), np.bool_),
        np.zeros(0, np.uint16),
    )
    with pytest.raises(Refused, match=r"at least one value, got shape \(2, 0\)"):
        run(empty)


def test_rejected_root_changes_nothing() -> None:
    device = IndexNorm(1, bits=1, weight_bits=1)
    device.step((0,), (0,), (0,), 0x3C00, squares=(0, 0), weights=(0, 0))
    for _ in range(2):
        device.step()
    before = device.snapshot()
    with pytest.raises(Refused, match="divisor must be above 0"):
        device.step()

    assert device.snapshot() == before and before.event == "square_sparse"


def test_index_norm_repr_evaluates_back() -> None:
    device = IndexNorm(5, bits=3, weight_bits=2, norm="layer", eps=0.5, preset="exact")

    assert repr(device) == "IndexNorm(n=5, bits=3, weight_bits=2, norm='layer', eps=0.5, preset='exact')"
    assert eval(repr(device)).snapshot() == device.snapshot()
