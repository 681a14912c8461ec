"""The search for scale and type: the readable form and its compiled form against the oracle."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu import formats
from refemu.arith.checks import Refused, RefusedType
from refemu.formats import FLINT4, INT4, INT8, OVP_FLINT4, OVP_INT4, OVP_INT4_REPO, OVP_INT8, Flint, Ovp
from refemu.formats.olive import ovp_search
from refemu.formats.olive.compiled import ovp_search as compiled_run
from refemu.formats.olive.ovp_search import Search
from tests.arith.strategies import codes, numbers, repeating
from tests.oracles.olive import ovp

CONSTANTS = {name: fmt for name, fmt in formats.constants().items() if isinstance(fmt, Ovp)}
PLAIN = {"INT4_PLAIN": Ovp(INT4, None), "FLINT4_PLAIN": Ovp(FLINT4, None), "INT8_PLAIN": Ovp(INT8, None)}
SEARCHES = [pytest.param(ovp_search.search, id="readable"), pytest.param(compiled_run.search, id="compiled")]
SELECTS = [pytest.param(ovp_search.select, id="readable"), pytest.param(compiled_run.select, id="compiled")]


def heavy(shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    """Values with a heavy tail, one row constant and one zero where there are that many."""
    return with_flat_rows(np.random.default_rng(seed).standard_t(3, shape).astype(np.float32))


def with_flat_rows(x: np.ndarray) -> np.ndarray:
    if len(x) > 4:
        x[1], x[3] = 0.7, 0
    return x


@st.composite
def heavy_arrays(draw: st.DrawFn) -> np.ndarray:
    """The same with drawn values: one in 16 is up to 32 times as large as the others."""
    shape = draw(st.integers(1, 5)), 2 * draw(st.integers(1, 20))
    powers = draw(repeating(lambda count: codes(count, 8), shape))
    x = draw(repeating(numbers, shape)) * np.exp2(np.where(powers < 240, 0, powers % 6)).astype(np.float32)
    return with_flat_rows(x) * np.float32(10.0 ** draw(st.integers(-30, 30)))


def found(result: Search) -> list[tuple[float, float, int, float]]:
    columns = (np.atleast_1d(a).tolist() for a in (result.alpha, result.scale, result.ratio, result.mse))
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("base", ["sigma", "mean_sigma"])
@pytest.mark.parametrize("name", [*CONSTANTS, *PLAIN])
def test_every_row_finds_what_the_oracle_finds(search: Any, name: str, base: str) -> None:
    """[olive §3.4]; D-olive-26: 3 sigma or |mean| + 3 sigma; D-olive-27: 75 to 249 %; D-olive-28: ordered float64."""
    x = heavy((6, 32)) + np.float32(0.1)
    expected = ovp.search(name, x.tolist(), base)

    assert found(search(x, (CONSTANTS | PLAIN)[name], base=base)) == [tuple(row) for row in expected]


@pytest.mark.parametrize("search", SEARCHES)
def test_the_last_candidate_is_249_percent(search: Any) -> None:
    """D-olive-27: two large neighbours in a row of 120 would fit without a loss at 257 % of 3 sigma."""
    x = np.zeros((1, 120), np.float32)
    x[0, 10:12] = 100, -100

    assert found(search(x, OVP_INT4)) == [tuple(row) for row in ovp.search("OVP_INT4", x.tolist())]
    assert search(x, OVP_INT4).ratio.tolist() == [249] and search(x, OVP_INT4, high=300).ratio.tolist() == [257]


@pytest.mark.parametrize("search", SEARCHES)
@given(data=st.data())
@settings(max_examples=25)
def test_any_row_finds_what_the_oracle_finds(search: Any, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["OVP_INT4", "OVP_FLINT4", "OVP_INT4_REPO", "OVP_INT8", "INT4_PLAIN"]))
    row = data.draw(st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=8).filter(lambda v: len(v) % 2 == 0))
    x = np.array([row], np.float32)

    assert found(search(x, (CONSTANTS | PLAIN)[name], high=120)) == [
        tuple(row) for row in ovp.search(name, x.tolist(), high=120)
    ]


@pytest.mark.parametrize("search", SEARCHES)
def test_a_tensor_is_one_row_in_c_order(search: Any) -> None:
    """D-olive-23."""
    x = heavy((4, 6))
    whole = search(x, OVP_INT4, "tensor")

    assert found(whole) == [tuple(r) for r in ovp.search("OVP_INT4", [x.ravel().tolist()])]
    assert [a.shape for a in (whole.alpha, whole.scale, whole.ratio, whole.mse)] == [()] * 4
    assert [a.dtype for a in (whole.alpha, whole.scale, whole.ratio, whole.mse)] == [
        np.float32,
        np.float32,
        np.int64,
        np.float64,
    ]
    assert found(search(x[:1], OVP_INT4)) == found(search(x[0], OVP_INT4, "tensor"))


@pytest.mark.parametrize("search", SEARCHES)
def test_odd_lines_are_padded_and_padding_costs_nothing(search: Any) -> None:
    """D-olive-24: as the tensor will be encoded."""
    x = heavy((3, 2, 5))
    assert found(search(x[:, 0], OVP_INT4)) == [tuple(r) for r in ovp.search("OVP_INT4", x[:, 0].tolist())]

    planes = search(x, OVP_INT4)
    assert planes.mse.shape == (3,)
    for plane, scale, mse in zip(x, planes.scale, planes.mse, strict=True):
        off = OVP_INT4.encode(plane, scale).decode() * float(scale) - plane
        assert mse == ovp.ordered_sum((off * off).ravel().tolist()) / plane.size


@pytest.mark.parametrize("search", SEARCHES)
def test_rows_without_spread_fall_back(search: Any) -> None:
    """D-olive-30: sigma 0 or one element take max|x|; a zero row has scale 1 and codes 0."""
    x = np.array([[0.7, 0.7], [0, 0], [-3, -3], [1e-44, 0]], np.float32)
    result = search(x, OVP_INT4)

    assert found(result) == [tuple(r) for r in ovp.search("OVP_INT4", x.tolist())]
    assert (result.scale[1], result.ratio[1], result.mse[1]) == (1, 0, 0)
    assert not OVP_INT4.encode(x, result.scale).code[[1, 3]].any()
    assert found(search(np.float32([[5]]), OVP_INT4)) == [tuple(r) for r in ovp.search("OVP_INT4", [[5.0]])]


@pytest.mark.parametrize("search", SEARCHES)
def test_first_of_equal_least_errors_wins(search: Any) -> None:
    x = heavy((5, 16), seed=4)
    for fmt in (OVP_INT4, OVP_FLINT4):
        result = search(x, fmt)
        problem = ovp_search.prepare(x, fmt, "row", "sigma", range(75, 250, 2), ovp_search.total64)
        errors = np.stack([ovp_search.squared_errors(problem, c) for c in range(88)], axis=1)
        for row in (0, 1, 2, 4):
            assert result.mse[row] * 16 <= errors[row].min()
            assert result.ratio[row] == 75 + 2 * errors[row].tolist().index(errors[row].min())


@pytest.mark.parametrize("search", SEARCHES)
def test_permuted_rows_give_permuted_results(search: Any) -> None:
    x, order = heavy((6, 16)), np.array([5, 0, 3, 1, 4, 2])

    assert found(search(x[order], OVP_INT4)) == [found(search(x, OVP_INT4))[row] for row in order]


@pytest.mark.parametrize("select", SELECTS)
def test_type_with_least_sum_of_errors_wins(select: Any) -> None:
    """D-olive-29: one type per tensor."""
    uniform = np.random.default_rng(3).uniform(-1, 1, (4, 32)).astype(np.float32)
    for x in (heavy((4, 32)), uniform):
        fmt, result = select(x, (OVP_INT4, OVP_FLINT4))
        name, rows = ovp.select(("OVP_INT4", "OVP_FLINT4"), x.tolist())
        assert (fmt, found(result)) == (CONSTANTS[name], [tuple(r) for r in rows])
    assert select(uniform, (OVP_INT4, OVP_FLINT4))[0] == OVP_INT4


@pytest.mark.parametrize("select", SELECTS)
def test_a_tie_of_types_goes_to_int(select: Any) -> None:
    """D-olive-29."""
    zeros = np.zeros((2, 4), np.float32)

    assert select(zeros, (OVP_FLINT4, OVP_INT4))[0] == OVP_INT4
    assert select(zeros, (OVP_FLINT4,), per="tensor")[0] == OVP_FLINT4


@settings(max_examples=15)
@given(data=st.data())
def test_compiled_form_equals_readable_in_every_bit(data: st.DataObject) -> None:
    fmt = data.draw(st.sampled_from([*CONSTANTS.values(), *PLAIN.values(), Ovp(Flint(5), None)]))
    x = data.draw(heavy_arrays())
    base = data.draw(st.sampled_from(["sigma", "mean_sigma"]))
    arguments = (x, fmt, data.draw(st.sampled_from(["row", "tensor"])), base)

    assert ovp_search.search(*arguments).equals(compiled_run.search(*arguments))
    assert ovp_search.search(*arguments, 90, 110, 7).equals(compiled_run.search(*arguments, 90, 110, 7, threads=2))


def test_repr_shows_the_arrays() -> None:
    assert repr(ovp_search.search(np.ones((1, 2)), OVP_INT4)).startswith("Search(alpha=array([")


def test_integers_and_half_floats_are_taken() -> None:
    x = np.arange(-8, 8).reshape(2, 8)

    assert found(compiled_run.search(x, OVP_INT4)) == found(compiled_run.search(x.astype(np.float16), OVP_INT4))


X = np.ones((2, 4), np.float32)
BAD_CALLS = [
    pytest.param((np.ones((0, 4)), OVP_INT4), Refused, "needs at least two axes and one element", id="empty"),
    pytest.param((np.ones(4), OVP_INT4), Refused, r"per='row' needs at least two axes .* shape \(4,\)", id="rank"),
    pytest.param((np.float32(1), OVP_INT4, "tensor"), Refused, "per='tensor' needs at least one axis", id="scalar"),
    pytest.param((np.array([[1, np.nan]]), OVP_INT4), Refused, r"search: values\[0, 1\] is nan", id="nan"),
    pytest.param((np.array([[1, 1e39]]), OVP_INT4), Refused, r"search: values\[0, 1\] is inf", id="fl32 overflow"),
    pytest.param((np.array([["1", "2"]]), OVP_INT4), RefusedType, "search: .* got dtype <U1", id="dtype"),
    pytest.param((X, OVP_INT4, "column"), Refused, "per must be one of 'row', 'tensor', got 'column'", id="per"),
    pytest.param((X, OVP_INT4, "row", "max"), Refused, "base must be one of 'sigma', .* got 'max'", id="base"),
    pytest.param((X, OVP_INT4, "row", "sigma", 90, 90), Refused, "0 < low < high .* low=90, high=90", id="high"),
    pytest.param((X, OVP_INT4, "row", "sigma", 0, 90), Refused, "0 < low < high .* low=0, high=90", id="low"),
    pytest.param((X, OVP_INT4, "row", "sigma", 75, 250, 0), Refused, "step >= 1 are needed, got .* step=0", id="step"),
    pytest.param((X, OVP_INT4, "row", "sigma", 75.0), RefusedType, "low must be an int, got 75.0", id="type"),
    pytest.param((X[:, :3], OVP_INT4_REPO), Refused, "flat pairs need an even .* per row, got 3", id="flat"),
    pytest.param(
        (np.float32([[1, 1], [3e38, 3e38]]), OVP_INT8, "row", "sigma", 20000, 20001),
        Refused,
        "row 1, largest magnitude .* has no candidate with a finite normal scale",
        id="no scale",
    ),
]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(("arguments", "error", "message"), BAD_CALLS)
def test_ovp_search_rejects_invalid_inputs(search: Any, arguments: tuple[Any, ...], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        search(*arguments)


@pytest.mark.parametrize("select", SELECTS)
def test_select_rejects_empty_list(select: Any) -> None:
    with pytest.raises(Refused, match="select: at least one format is needed, got none"):
        select(X, ())
