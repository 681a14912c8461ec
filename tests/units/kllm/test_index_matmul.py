"""The index MatMul against rationals and literal fp16 steps: outliers, zero points, norms, integers, accumulators."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.threads import using_threads
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.kllm import index_matmul
from refemu.units.kllm.index_matmul import UNIT, IndexMatmul, Norm, Scores
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from tests.arith.interpreted import interpreted
from tests.arith.strategies import codes
from tests.oracles.kllm import units
from tests.units.kllm.kmeans_operands import ARITHS, tensor, tensors, vector, words

RUNS = (index_matmul.matmul, index_matmul_compiled.matmul)
IMPLEMENTATIONS = [
    pytest.param(index_matmul.matmul, id="unit"),
    pytest.param(index_matmul_compiled.matmul, id="compiled"),
]
ONES = Scores(np.ones((2, 20), np.uint8), np.ones(2, np.float16), np.ones((2, 20), np.float16))
A, B, Q = [0, 1, 1, 0, 1, 0, 0, 1], [3, 0, 2, 2, 1, 3, 0, 1], [3, 0, 1, 2, 1, 3, 0, 2]


def plain(index: list[int], entries: list[float]) -> KMeansTensor:
    """A vector of given indices, scale 1, no outliers."""
    book = Codebook(len(entries).bit_length() - 1, np.array(entries))
    return KMeansTensor(
        book,
        np.array(index, np.uint8),
        np.array(0x3C00, np.uint16),
        np.zeros(len(index), np.bool_),
        np.zeros(0, np.uint16),
    )


def expected(a: KMeansTensor, b: KMeansTensor, name: str, bias: Any = None, norms: Any = None) -> list[list[int]]:
    """fp16 words of the whole matrix by the oracle; norms(m, n) is the norm of an output."""
    _, acc, order, table = ARITHS[name]
    rows, columns = (range(len(t.rows())) for t in (a, b))
    return [
        [
            units.column(
                vector(a, m),
                vector(b, n),
                acc,
                order,
                table,
                None if bias is None else int(bias[n].view(np.uint16)),
                None if norms is None else norms(m, n),
            )
            for n in columns
        ]
        for m in rows
    ]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("preset", ["paper", "exact"])
def test_worked_column_has_the_dimensions_of_figure_3(run: Any, preset: str) -> None:
    """[kllm §III-B1, Fig. 3a] K = 8, nA = 1, nB = 2: eight products instead of 32 MACs over N = 4 columns."""
    a, b = plain(A, [-0.5, 0.75]), plain(B, [-1, -0.25, 0.25, 1])
    four = KMeansTensor(
        b.codebook, np.tile(b.index, (4, 1)), np.full(4, 0x3C00, np.uint16), np.zeros((4, 8), np.bool_), b.outlier
    )
    result = run(a, four, preset=preset)

    assert result.y.tolist() == [-1.5625] * 4 and result.y.dtype == np.float16
    assert (result.concats, result.macs_dense, result.lookups, result.macs_reduce) == (32, 32, 32, 32)
    assert cartesian(a.codebook, b.codebook).values.size == 8  # unique products: 8 multiplications, made offline


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("preset", ["paper", "exact"])
def test_integers_are_amounts_at_the_other_operands_index(run: Any, preset: str) -> None:
    """[kllm §III-B2, Fig. 3b] "+n", the K-Means operand's codebook alone: counts 0 3 3 6, Y = 6."""
    b = plain(B, [-1, -0.25, 0.25, 1])
    under = KMeansTensor(
        b.codebook, b.index[:, None], np.full(8, 0x3C00, np.uint16), np.zeros((8, 1), np.bool_), b.outlier
    )
    result = run(Scores(np.array(Q, np.uint8), np.array(1, np.float16), np.zeros(8, np.float16)), under, preset=preset)

    assert result.y.tolist() == [6.0]
    assert (result.concats, result.indices, result.lookups, result.macs_reduce) == (0, 8, 4, 4)


@pytest.mark.parametrize("name", ARITHS)
@pytest.mark.parametrize(("k", "a_bits", "b_bits"), [(1, 4, 4), (17, 3, 4), (64, 4, 3), (33, 1, 2)])
def test_matrices_equal_the_oracle(name: str, k: int, a_bits: int, b_bits: int) -> None:
    """D-kllm-2, D-kllm-3, D-kllm-5, D-kllm-33: rationals for the exact accumulator, literal steps for the others."""
    outliers = 3 if k > 8 else 0
    a, b = tensor((3, k), a_bits, 1, outliers), tensor((4, k), b_bits, 2, outliers)
    bias = np.array([0.5, -3, 0, 1000], np.float16)
    results = [run(a, b, preset=ARITHS[name][0], bias=bias) for run in RUNS]

    assert words(results[0].y) == expected(a, b, name, bias)
    assert results[0].equals(results[1])


@pytest.mark.parametrize("name", ["paper", "exact", "fp32", "fma", "wide table exact"])
def test_zero_points_equal_the_oracle(name: str) -> None:
    """D-kllm-10: three correction terms from marginal counts."""
    for a_zero, b_zero in ((True, True), (True, False), (False, True)):
        a, b = tensor((2, 40), 3, 3, 2, zero_point=a_zero), tensor((3, 40), 4, 4, 2, zero_point=b_zero)
        results = [run(a, b, preset=ARITHS[name][0]) for run in RUNS]

        assert words(results[0].y) == expected(a, b, name)
        assert results[0].equals(results[1])


@pytest.mark.parametrize("name", ["paper", "exact", "fp32", "fma"])
@pytest.mark.parametrize("layer", [False, True], ids=["rms", "layer"])
def test_delayed_division_equals_the_oracle(name: str, layer: bool) -> None:
    """D-kllm-37, D-kllm-39: scale of A and sparse weights divided; the mean's part subtracted before the bias."""
    a, b = tensor((3, 48), 4, 5, 3), tensor((48, 5), 4, 6, axis=0)
    wide = name == "exact"
    divisor = np.array([0.37, 41.5, 3.1], np.float64 if wide else np.float32)
    mean, row_sum = (np.array(x, divisor.dtype) for x in ([0.1, -2.7, 0.3], [0.5, -1.25, 3.3, 0.01, 7]))
    bias = np.array([0, 1, -2, 0.5, 3], np.float16) if layer else None
    norm = Norm(divisor, mean if layer else None, row_sum if layer else None)
    results = [run(a, b, preset=ARITHS[name][0], norm=norm, bias=bias) for run in RUNS]

    def at(m: int, n: int) -> units.Layer:
        means = (float(mean[m]), float(row_sum[n])) if layer else (None, 0.0)
        return units.Layer(float(divisor[m]), *means)

    assert words(results[0].y) == expected(a, b, name, bias, at)
    assert results[0].equals(results[1])


@pytest.mark.parametrize("name", ["paper", "exact", "fp32", "fma", "lanes"])
@pytest.mark.parametrize("fold", [True, False])
def test_integer_matrices_equal_the_oracle(name: str, fold: bool) -> None:
    """D-kllm-14: with fold V's scales are in the integers, else its one scale joins theirs."""
    arith, acc, order, _ = ARITHS[name]
    v = tensor((50, 6), 4, 7, 1)
    if not fold:
        v = KMeansTensor(v.codebook, v.index, np.full(50, 0x3800, np.uint16), v.mask, v.outlier)
    rng = np.random.default_rng(8)
    q, p = rng.integers(0, 16, (3, 50)).astype(np.uint8), rng.uniform(0, 1, (3, 50)).astype(np.float16)
    scale = np.array([0.01, 1 / 15, 0.0], np.float32 if acc == "exact" else np.float16)
    results = [run(Scores(q, scale, p, fold), v, preset=arith) for run in RUNS]
    out = np.zeros(v.shape, np.uint16)
    out[v.mask] = v.outlier
    assert words(results[0].y) == [
        [
            units.integer_column(
                q[m].tolist(),
                v.index[:, n].tolist(),
                v.codebook.values.tolist(),
                float(scale[m]),
                v.mask[:, n].astype(int).tolist(),
                out[v.mask[:, n], n].tolist(),
                p[m].view(np.uint16).tolist(),
                None if fold else 0x3800,
                acc,
                order,
            )
            for n in range(6)
        ]
        for m in range(3)
    ]
    assert results[0].equals(results[1])


@pytest.mark.parametrize("name", ["paper", "exact"])
@pytest.mark.parametrize("k", [4096, 16384])
def test_counts_beyond_2048(name: str, k: int) -> None:
    """D-kllm-4 at full length: two centroids each, so counts pass 2048, where fp16 has only even numbers."""
    a, b = tensor((1, k), 1, 9, 5), tensor((2, k), 1, 10)
    results = [run(a, b, preset=name) for run in RUNS]

    assert words(results[0].y) == expected(a, b, name)
    assert results[0].equals(results[1])


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_compiled_form_equals_unit_in_every_field(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(ARITHS)))
    k, m, n = (data.draw(st.integers(1, top)) for top in (40, 3, 5))
    a_bits, b_bits = (data.draw(st.integers(1, 4)) for _ in range(2))
    few = data.draw(st.integers(0, (k - 1) // 2))
    fewer = data.draw(st.integers(0, few))
    a, b = data.draw(tensors((m, k), a_bits, few)), data.draw(tensors((n, k), b_bits, fewer))
    seen = data.draw(st.lists(st.integers(0, n), min_size=m, max_size=m))
    arith = ARITHS[name][0]

    assert index_matmul.matmul(a, b, preset=arith, seen=np.array(seen)).equals(
        index_matmul_compiled.matmul(a, b, preset=arith, seen=np.array(seen))
    )


@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_compiled_form_equals_unit_on_scores(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["paper", "exact", "fma", "fp32"]))
    t, n = (data.draw(st.integers(1, top)) for top in (30, 70))
    v = data.draw(tensors((t, n), data.draw(st.integers(1, 4)), data.draw(st.integers(0, (n - 1) // 2))))
    q, p = (data.draw(codes((30, 2), bits))[:t].T for bits in (8, 11))
    scores = Scores(q.astype(np.uint8), np.array([0.1, 3], np.float16), (p / 2048).astype(np.float16))
    seen = np.array(data.draw(st.lists(st.integers(0, t), min_size=2, max_size=2)))
    arith = ARITHS[name][0]

    assert index_matmul.matmul(scores, v, preset=arith, seen=seen).equals(
        index_matmul_compiled.matmul(scores, index_matmul_compiled.prepare(v, integer=True), preset=arith, seen=seen)
    )


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_counters_equal_the_oracle(run: Any) -> None:
    """D-kllm-12, D-kllm-13: what either operand keeps in fp16 is counted as sparse work, not as an index."""
    a, b = tensor((1, 40), 4, 1, 3), tensor((5, 40), 3, 2, 2)
    result = run(a, b)
    excluded = [int((a.mask[0] | mask).sum()) for mask in b.mask]

    assert {name: getattr(result, name) for name in UNIT.counters if name != "overflows"} == units.matmul_counters(
        40, 4, 3, excluded
    )
    assert 3 < excluded[0] < 40 and result.overflows == 0


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", ["paper", "exact", "fma"])
def test_columns_are_independent_and_positions_commute_without_outliers(run: Any, name: str) -> None:
    """A column alone gives what it gives in the matrix; permuting K leaves the counts alone."""
    a, b = tensor((2, 40), 4, 1, 3), tensor((5, 40), 4, 2, 1)
    y = run(a, b, preset=ARITHS[name][0]).y
    one = KMeansTensor(
        b.codebook,
        b.index[3:4].copy(),
        b.scale[3:4].copy(),
        b.mask[3:4].copy(),
        b.outlier[int(b.mask[:3].sum()) : int(b.mask[:4].sum())].copy(),
    )
    assert run(a, one, preset=ARITHS[name][0]).y.tobytes() == y[:, 3].tobytes()

    order = np.random.default_rng(3).permutation(40)
    a, b = tensor((2, 40), 4, 1), tensor((5, 40), 4, 2)
    moved = [KMeansTensor(t.codebook, t.index[:, order], t.scale, t.mask, t.outlier) for t in (a, b)]
    assert run(*moved, preset=ARITHS[name][0]).y.tobytes() == run(a, b, preset=ARITHS[name][0]).y.tobytes()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("preset", ["paper", "exact"])
def test_everything_may_be_an_outlier(run: Any, preset: str) -> None:
    """D-kllm-32: then the sparse path does it all, in ascending order; the counts are 0."""
    a, b = tensor((2, 20), 4, 1), tensor((3, 20), 4, 2)
    full = KMeansTensor(
        a.codebook, a.index * 0, a.scale, np.ones((2, 20), np.bool_), a.dequantize_fp16().view(np.uint16).ravel()
    )
    result = run(full, b, preset=preset)

    assert words(result.y) == expected(full, b, preset)
    assert (result.indices, result.macs_sparse) == (0, 120)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_overflow_is_a_result_and_flagged(run: Any) -> None:
    a = KMeansTensor(
        Codebook(1, np.array([0.5, 1])),
        np.ones((1, 3), np.uint8),
        np.array([0x7BFF], np.uint16),
        np.zeros((1, 3), np.bool_),
        np.zeros(0, np.uint16),
    )
    for preset in ("paper", "exact"):
        result = run(a, a, preset=preset)
        assert result.y.tolist() == [[np.inf]] and result.overflow.tolist() == [[True]] and result.overflows == 1


def test_a_norm_scales_with_its_input() -> None:
    """Exact accumulator: 8 x with 8 rms gives the bits of x with rms."""
    a, b = tensor((2, 30), 4, 1, 2), tensor((30, 4), 4, 2, axis=0)
    larger = KMeansTensor(
        a.codebook,
        a.index,
        (a.scales * np.float16(8)).view(np.uint16),
        a.mask,
        (a.outlier.view(np.float16) * np.float16(8)).view(np.uint16),
    )
    rms = np.array([1.7, 0.3])
    small, large = (
        index_matmul_compiled.matmul(t, b, preset="exact", norm=Norm(rms * factor)).y
        for t, factor in ((a, 1), (larger, 8))
    )

    assert small.tobytes() == large.tobytes()


def test_matrix_beyond_compiled_bounds_is_decided_by_unit() -> None:
    """A value exactly midway between two fp16 values, and its neighbours 2^-20 away: one rounding, ties to even."""
    book = Codebook(1, np.array([2**-11, 1]))
    for low, wanted in ((0, 1.0), (2**-20, 1 + 2**-10), (-(2**-20), 1.0)):
        index, mask = np.array([[1, 0, 0]], np.uint8), np.array([[False, False, True]])
        a = KMeansTensor(book, index, np.full(1, 0x3C00, np.uint16), mask, np.array([low], np.float16).view(np.uint16))
        ones = KMeansTensor(
            Codebook(1, np.array([0.5, 1])),
            np.ones((1, 3), np.uint8),
            np.full(1, 0x3C00, np.uint16),
            np.zeros((1, 3), np.bool_),
            np.zeros(0, np.uint16),
        )
        for run in RUNS:
            assert run(a, ones, preset="exact").y.item() == wanted


@pytest.mark.parametrize("name", ["paper", "exact", "fp32", "fma", "lanes"])
def test_interpreted_kernels_give_the_bits_of_compiled_ones(name: str) -> None:
    """Groups of 0, 1, 2, 8 and more positions, and of more than a counter of eight bits takes."""
    a, b, v = tensor((2, 600), 1, 1, 2), tensor((3, 600), 2, 2, 1), tensor((30, 3), 3, 3, 1)
    q = np.arange(60, dtype=np.uint8).reshape(2, 30) % 7
    given = Scores(q, np.ones(2, np.float16), (q / np.float16(7)).astype(np.float16))
    arith = ARITHS[name][0]
    compiled = [index_matmul_compiled.matmul(x, y, preset=arith) for x, y in ((a, b), (given, v))]
    with interpreted():
        again = [index_matmul_compiled.matmul(x, y, preset=arith) for x, y in ((a, b), (given, v))]

    assert all(one.equals(other) for one, other in zip(compiled, again, strict=True))


def test_distribution_is_what_the_counters_hold() -> None:
    """D-kllm-13: outliers of either operand are in no count."""
    a, b = tensor((2, 300), 4, 1, 3), tensor((5, 300), 3, 2, 2)
    counts = index_matmul_compiled.distribution(a, b)

    for m, n in np.ndindex(2, 5):
        inliers = [int(x) for x in ~(a.mask[m] | b.mask[n])]
        q = [i << 3 | j for i, j in zip(a.index[m].tolist(), b.index[n].tolist(), strict=True)]
        assert counts[m, :, n].tolist() == units.counts(q, inliers, 128)


def test_exact_sums_beyond_64_bits() -> None:
    """Entries of a float32 table in units of 2^-48: 300 of them at 200^2 leave int64."""
    arith = ARITHS["wide table exact"][0]
    a, b = tensor((2, 300), 4, 1), tensor((3, 300), 4, 2)
    wide = [
        KMeansTensor(Codebook(4, t.codebook.centroids * np.float32(256)), t.index, t.scale, t.mask, t.outlier)
        for t in (a, b)
    ]

    assert index_matmul.matmul(*wide, preset=arith).equals(index_matmul_compiled.matmul(*wide, preset=arith))
    assert words(index_matmul_compiled.matmul(*wide, preset=arith).y) == expected(*wide, "wide table exact")


def test_events_of_a_column() -> None:
    """concat, a cycle per sixteen positions, reduction, sparse path, merge."""
    device = IndexMatmul(20)
    (block, *_) = index_matmul.UNIT.cases(index_matmul.UNIT.configs["w4a4"], "edge", 0)
    states = list(device.steps(**{port: array[:1] for port, array in block.inputs.items()}))

    assert [state.event for state in states] == ["concat", "count", "count", "reduce", "sparse", "merge"]
    assert [state.counted for state in states] == [0, 16, 20, 20, 20, 20]
    assert states[0].q[:2] == (0 << 4 | 3, 1 << 4 | 0) and sum(states[-1].count) == states[-1].indices
    with pytest.raises(Refused, match="index_matmul: step needs the inputs of an operation, got none"):
        device.step()
    device.restore(states[2])
    with pytest.raises(Refused, match=r"step takes no inputs after event \w+"):
        device.step(1)
    assert [device.step() for _ in range(3)] == states[3:]


def test_prepared_operands_serve_many_calls_of_their_kind() -> None:
    a, b = tensor((2, 20), 4, 1, 2), tensor((3, 20), 4, 2)
    ready = index_matmul_compiled.prepare(b)

    assert index_matmul_compiled.matmul(a, ready).equals(index_matmul.matmul(a, b))
    assert ready.nbytes >= b.index.nbytes and repr(ready) == f"<Prepared {b!r}>"
    with pytest.raises(RefusedType, match="B is prepared for a KMeansTensor as A, got Scores"):
        index_matmul_compiled.matmul(ONES, ready)


def test_index_matmul_repr_evaluates_back() -> None:
    shown = "IndexMatmul(k=8, a_bits=1, b_bits=2, integer=False, preset='paper', biased=False, norm='none')"
    assert repr(IndexMatmul(8, 1, 2)) == shown and repr(eval(shown)) == shown
    assert (repr(ONES), repr(Norm(np.ones(3)))) == ("<Scores (2, 20)>", "<Norm of 3 rows>")


@pytest.mark.parametrize("members", [0, 1, 7, 8, 247, 248, 249, 255, 256, 497])
def test_groups_of_any_size_beyond_tile_are_distributed(members: int) -> None:
    """Counters of eight bits, and those that take several fills of them; tiles of columns; blocks of rows; outliers."""
    rng = np.random.default_rng(members)
    a, b = tensor((34, 520), 1, 1, 2), tensor((515, 520), 4, 2, 3)
    index = np.where(rng.permutation(520) < members, 0, 1).astype(np.uint8)
    index = np.where(a.mask, np.uint8(0), np.stack([index] * 33 + [1 - index]))
    a = KMeansTensor(a.codebook, index, a.scale, a.mask, a.outlier)
    counts = index_matmul_compiled.distribution(a, b)
    rows, columns = (0, 33), (0, 511, 512, 514)
    answers = [
        [np.bincount((16 * a.index[m] + b.index[n])[~(a.mask[m] | b.mask[n])], minlength=32).tolist() for n in columns]
        for m in rows
    ]

    assert [[counts[m, :, n].tolist() for n in columns] for m in rows] == answers


@pytest.mark.parametrize("name", ["paper", "exact"])
def test_outputs_alone_are_those_of_a_run(name: str) -> None:
    a, b, seen = tensor((5, 48), 4, 5, 3), tensor((7, 48), 4, 6, 2), np.array([0, 7, 3, 1, 7])
    y = index_matmul_compiled.outputs(
        a, index_matmul_compiled.prepare(b), preset=name, seen=seen, bias=np.arange(7, dtype="f2")
    )

    assert y.tobytes() == index_matmul.matmul(a, b, preset=name, seen=seen, bias=np.arange(7, dtype="f2")).y.tobytes()


@pytest.mark.parametrize(("entry", "y"), [(0x0001, 0x3C01), (0x8001, 0x3C00)])
def test_a_bias_far_above_an_exact_sum(entry: int, y: int) -> None:
    """1 + 2^-11 is a tie, and 2^-71 of it is the dense part, which float64 does not hold together with the bias."""
    a_index, mask = np.array([[0, 1, 1]], np.uint8), np.array([[True, False, False]])
    book, small = Codebook(1, np.array([0, 1])), np.array([0x0001], np.uint16)
    a = KMeansTensor(book, a_index, small, mask, np.array([0x1000], np.uint16))
    b = KMeansTensor(book, a_index, small, mask, np.array([0x3C00], np.uint16))
    products = Codebook(2, np.array([0, 0, 0, entry], np.uint16))
    for run in RUNS:
        result = run(a, b, preset="exact", products=products, bias=np.ones(1, np.float16))
        assert result.y.view(np.uint16).tolist() == [[y]]


@pytest.mark.parametrize("name", ["paper", "fp32", "fma", "lanes", "exact"])
def test_threads_change_no_bit_and_no_counter(name: str) -> None:
    """Rows are shared out, with what belongs to them: divisors, means, outliers, how much they see."""
    a, b = tensor((37, 48), 4, 5, 3), tensor((48, 5), 4, 6, axis=0)
    rng = np.random.default_rng(1)
    dtype = np.float64 if name == "exact" else np.float32
    norm = Norm(rng.uniform(0.1, 9, 37).astype(dtype), rng.normal(size=37).astype(dtype), np.arange(5).astype(dtype))
    seen = rng.integers(0, 6, 37)
    scores = Scores(
        rng.integers(0, 16, (37, 48)).astype(np.uint8),
        np.ones(37, np.float16),
        rng.uniform(0, 1, (37, 48)).astype(np.float16),
    )
    answers = []
    for threads in (1, 2, 3):
        with using_threads(threads):
            answers.append(
                (
                    index_matmul_compiled.matmul(a, b, preset=ARITHS[name][0], norm=norm, seen=seen),
                    index_matmul_compiled.matmul(scores, tensor((48, 7), 4, 7, 1), preset=ARITHS[name][0]),
                )
            )

    assert all(one.equals(first) for results in answers[1:] for one, first in zip(results, answers[0], strict=True))
