"""Orizuru: pops against sorting, comparisons against the paper's formula, the events of Fig. 7, errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.threads import using_threads
from refemu.units.kllm import orizuru
from refemu.units.kllm.orizuru import Orizuru
from refemu.units.kllm.orizuru import compiled as orizuru_compiled
from tests.oracles.kllm import units

IMPLEMENTATIONS = [pytest.param(orizuru.pops, id="unit"), pytest.param(orizuru_compiled.pops, id="compiled")]
FIG7 = np.array([3, 7, 1, 5, 2, 6, 9, 4], np.float16)  # a row on which the steps are those that Fig. 7 shows
TIES = [0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7BFF, 0x0001]
NANS = [0x7E00, 0xFE00, 0x7C01, 0xFFFF]


def words(x: Any) -> list[int]:
    return np.asarray(x, np.float16).view(np.uint16).tolist()


def vectors(total_order: bool = False) -> st.SearchStrategy[np.ndarray]:
    any_word = st.integers(0, 0xFFFF).filter(lambda word: total_order or word & 0x7FFF <= 0x7C00)
    word = st.one_of(st.sampled_from(TIES + NANS * total_order), any_word)
    return st.lists(word, min_size=1, max_size=40).map(lambda row: np.array(row, np.uint16).view(np.float16))


def assert_popped(result: orizuru.Result, x: np.ndarray, k: int, **options: Any) -> None:
    """Every field is the oracle's; an empty tree shows element 0 and says so."""
    expected = units.orizuru(words(x), k, **options)
    roots = [words(x)[0] if root is None else root for root in (expected.root_max, expected.root_min)]

    assert expected.max_index == result.max_index.tolist()
    assert expected.min_index == result.min_index.tolist()
    assert expected.mask == result.outlier_mask.astype(int).tolist()
    assert roots == words([result.root_max, result.root_min])
    assert [expected.root_max is not None, expected.root_min is not None] == [
        result.root_max_valid,
        result.root_min_valid,
    ]
    assert (expected.comparisons, expected.comparisons_live, expected.cycles) == (
        result.comparisons,
        result.comparisons_live,
        result.cycles,
    )


def test_ports_are_made_once_for_number_of_pops() -> None:
    """They are as wide as the operation pops, whichever device has it."""
    device, other = Orizuru(64, 8), Orizuru(64, 3)
    ports = device.ports
    device.load(np.arange(64, dtype=np.float16))
    assert device.ports is ports
    device.load(np.arange(64, dtype=np.float16), 3)
    assert device.ports is other.ports and device.ports.outputs[0].lanes == 3
    with pytest.raises(RefusedType, match="state must be a State of this unit"):
        device.restore(other.ports)  # type: ignore[arg-type]
    assert device.ports is other.ports


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_steps_of_fig7(run: Any) -> None:
    """[kllm §IV-C, Fig. 7] the maximum is leaf 14 = x[6]; D-kllm-23: the path is repaired after the last pop too."""
    result = run(FIG7, 2)

    assert result.max_index.tolist() == [6, 1]
    assert result.min_index.tolist() == [2, 4]
    assert (result.root_max, result.root_min, result.comparisons) == (6.0, 3.0, 22)
    assert result.max_index.dtype == result.min_index.dtype == np.int64
    assert result.outlier_mask.dtype == np.bool_ and type(result.comparisons) is int
    assert type(result.root_max) is np.float16 and type(result.root_min) is np.float16


def test_registers_of_fig7() -> None:
    """[kllm §IV-C, Fig. 7(b), (c)] bits 1, 1, 0 lead to node 14; then its parent turns to the neighbour."""
    states = list(Orizuru(8).steps(FIG7, 2))
    built_max, built_min, repaired, again = (states[i] for i in (3, 6, 10, 11))

    assert [state.event for state in (built_max, built_min, repaired)] == ["init_max", "init_min", "maintain_max"]
    assert list(built_max.p) == [1, 0, 1, 1, 1, 1, 0]
    assert list(built_min.q) == [0, 1, 0, 0, 0, 0, 1]
    assert list(repaired.p) == [0, 0, 0, 1, 1, 1, 1]
    assert repaired.p_mask[6] == 0 and repaired.q_mask[6] == 1
    assert [repaired.root_max] == words([7.0]) and again.node == 9


def test_order_of_events() -> None:
    """[kllm §IV-C] both trees are set level by level, then a pop and one repair per level, max tree first."""
    events = [state.event for state in Orizuru(8).steps(FIG7, 2)]

    assert events == (
        ["load"]
        + ["init_max"] * 3
        + ["init_min"] * 3
        + (["pop_max"] + ["maintain_max"] * 3) * 2
        + (["pop_min"] + ["maintain_min"] * 3) * 2
    )


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_equal_values(run: Any) -> None:
    """D-kllm-21: a tie stays left; the lowest bits of the min tree are the max tree's reversed: odd ones first."""
    result = run(np.ones(8, np.float16), 8)

    assert result.max_index.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert result.min_index.tolist() == [1, 0, 3, 2, 5, 4, 7, 6]
    assert list(range(8)) == run(np.ones(8, np.float16), 8, min_leaf="compare").min_index.tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("n", "k"), [(2, 1), (8, 2), (16, 4), (64, 64), (512, 3), (4096, 1)])
def test_comparisons_follow_the_papers_formula(run: Any, n: int, k: int) -> None:
    """[kllm §IV-C] states 1.5N + 2k log2(N); building both trees costs N - 1 and N/2 - 1, so the count is 2 below.

    D-kllm-23: with k repairs per tree, the last pop's too. [kllm §IV-C] the min tree saves half of its N - 1.
    """
    x = np.arange(n).astype(np.float16)
    log_n = n.bit_length() - 1

    assert 3 * n // 2 - 2 + 2 * k * log_n == run(x, k).comparisons
    assert 2 * n - 2 + 2 * k * log_n == run(x, k, min_leaf="compare").comparisons


@pytest.mark.long
@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("n", "k", "comparisons"), [(8, 2, 22), (576, 3, 1594), (4096, 21, 6646), (11008, 56, 26142)])
def test_sizes_of_models(run: Any, n: int, k: int, comparisons: int) -> None:
    """[kllm §IV-C] with the tokens of real layers; D-kllm-25: other sizes are padded to a power of two."""
    x = ((np.arange(n) * 7919) % 10007 - 5000).astype(np.float16)
    result = run(x, k)
    assert comparisons == result.comparisons
    assert sorted(range(n), key=lambda i: (-float(x[i]), i))[:k] == result.max_index.tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=150)
@given(x=vectors(), data=st.data())
@example(x=np.full(2, -np.inf, np.float16), data=None)  # D-kllm-22: a popped leaf ranks below a real -inf
@example(x=np.array([0, -0.0, 0], np.float16), data=None)
@example(x=np.array([5], np.float16), data=None)
def test_pops_are_a_sort(run: Any, x: np.ndarray, data: Any) -> None:
    """D-kllm-21, D-kllm-22, D-kllm-25, D-kllm-26: any size, drained trees, elements that both trees pop."""
    k = x.size if data is None else data.draw(st.integers(0, x.size))
    min_leaf = "not_max" if data is None else data.draw(st.sampled_from(["not_max", "compare"]))

    assert_popped(run(x, k, min_leaf=min_leaf), x, k, min_leaf=min_leaf)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=100)
@given(x=vectors(total_order=True), data=st.data())
def test_total_order_takes_nan(run: Any, x: np.ndarray, data: st.DataObject) -> None:
    """D-kllm-27: on integer keys -0 < +0, and NaN is beyond infinity."""
    k = data.draw(st.integers(0, x.size))

    assert_popped(run(x, k, total_order=True), x, k, total_order=True)


@settings(deadline=None, max_examples=60)
@given(x=st.lists(st.integers(-40, 40), min_size=3, max_size=70), data=st.data())
def test_roots_show_the_extreme_inliers(x: list[int], data: st.DataObject) -> None:
    """[kllm §IV-C] after k pops with 2k < N the roots hold the largest and smallest value that is not an outlier."""
    values = np.array(x, np.float16)
    k = data.draw(st.integers(0, (len(x) - 1) // 2))
    answers = orizuru.pops(values, k)
    inliers = sorted(values[~answers.outlier_mask].tolist())

    assert (inliers[-1], inliers[0]) == (answers.root_max, answers.root_min)


def test_both_trees_may_pop_one_element() -> None:
    """D-kllm-26: the trees have masks of their own; the outlier mask is the union."""
    result = orizuru.pops(np.array([1, 2, 3], np.float16), 3)

    assert sorted(result.max_index) == sorted(result.min_index) == [0, 1, 2]
    assert result.outlier_mask.all() and not result.root_max_valid and not result.root_min_valid


def test_no_pops() -> None:
    result = orizuru.pops(FIG7, 0)

    assert result.max_index.shape == result.min_index.shape == (0,)
    assert not result.outlier_mask.any() and (result.root_max, result.root_min) == (9.0, 1.0)


@pytest.mark.parametrize("n", [1, 3, 16, 37])
def test_rows_are_single_vectors(n: int) -> None:
    """A batch gives each row's pops and the sum of the counters, in the unit and in its compiled form."""
    x = (np.arange(12 * n) * 5 % 17 - 8).astype(np.float16).reshape(3, 4, n)
    k = (n + 1) // 2
    batch, single = orizuru_compiled.pops(x, k), [orizuru.pops(row, k) for row in x.reshape(12, n)]

    assert batch.equals(orizuru.pops(x, k))
    assert batch.max_index.shape == (3, 4, k) and batch.root_max.shape == (3, 4)
    assert np.array_equal(np.stack([one.min_index for one in single]), batch.min_index.reshape(12, k))
    assert sum(one.comparisons_live for one in single) == batch.comparisons_live


def test_more_than_fifteen_levels() -> None:
    """D-kllm-25: wide trees keep winners in 64 bits."""
    x = ((np.arange(40_000) * 7919) % 30011 - 15000).astype(np.float16)
    order = np.argsort(-x.astype(np.float32), kind="stable")[:50]

    assert order.tolist() == orizuru_compiled.pops(x, 50).max_index.tolist()


def test_orizuru_resumes_with_other_number_of_pops() -> None:
    """A snapshot holds the number of pops too: a device built for another one takes it."""
    states = list(Orizuru(8).steps(FIG7, 2))
    for at in (0, 5, 8, len(states) - 2):
        device = Orizuru(8, k=5)
        device.restore(states[at])
        assert [device.step() for _ in states[at + 1 :]] == states[at + 1 :]


def test_step_after_last_pop_is_rejected() -> None:
    device = Orizuru(8)
    last = list(device.steps(FIG7, 1))[-1]
    with pytest.raises(Refused, match="orizuru: step needs the inputs of an operation, got none"):
        device.step()

    assert device.snapshot() == last


def test_load_takes_words_and_values() -> None:
    device = Orizuru(8)
    state = device.load(FIG7, 3)

    assert (state.event, state.k, tuple(words(FIG7))) == ("load", 3, state.x)
    with pytest.raises(Refused, match=r"step takes no inputs after event \w+"):
        device.step(state.x)


BAD_CALLS = [
    pytest.param(np.zeros(8, np.float32), 1, {}, RefusedType, "float16 of shape .n,., got float32", id="float32"),
    pytest.param(np.float16(1), 1, {}, RefusedType, r"got float16 of shape \(\)", id="scalar"),
    pytest.param(np.zeros(0, np.float16), 0, {}, Refused, "at least one value", id="empty"),
    pytest.param(
        np.array([0, np.nan], np.float16), 1, {}, Refused, r"x must not be NaN, got NaN at index \(1,\)", id="nan"
    ),
    pytest.param(FIG7, 9, {}, Refused, r"orizuru: k must be in \[0, 8\], got 9", id="k too large"),
    pytest.param(FIG7, -1, {}, Refused, r"orizuru: k must be in \[0, 8\], got -1", id="k negative"),
    pytest.param(FIG7, 1.0, {}, RefusedType, "k must be an int, got 1.0", id="k float"),
    pytest.param(FIG7, 1, {"min_leaf": "left"}, Refused, "min_leaf must be one of", id="min_leaf"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("x", "k", "options", "error", "message"), BAD_CALLS)
def test_orizuru_rejects_invalid_inputs(
    run: Any, x: Any, k: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(x, k, **options)


def test_orizuru_rejects_nan_only_without_total_order() -> None:
    device = Orizuru(2)
    before = device.snapshot()
    with pytest.raises(Refused, match="x must not be NaN"):
        device.load(np.array([np.nan, 1], np.float16))

    assert device.snapshot() == before
    assert Orizuru(2, total_order=True).load(np.array([np.nan, 1], np.float16)).event == "load"


def test_orizuru_repr_evaluates_back() -> None:
    device = Orizuru(n=5, k=2, total_order=True, min_leaf="compare")

    assert repr(device) == "Orizuru(n=5, k=2, total_order=True, min_leaf='compare')"
    assert eval(repr(device)).snapshot() == device.snapshot()


@pytest.mark.parametrize("total_order", [False, True])
def test_threads_change_nothing(total_order: bool) -> None:
    """Rows are independent; a NaN in the part of any thread is rejected."""
    x = np.random.default_rng(4).integers(0, 0x7C00, (131, 33)).astype(np.uint16).view(np.float16)
    answers = []
    for threads in (1, 2, 3):
        with using_threads(threads):
            answers.append(orizuru_compiled.pops(x, 5, total_order=total_order))

    assert all(one.equals(answers[0]) for one in answers)
    x[130, 7] = np.nan
    with using_threads(3), pytest.raises(Refused, match=r"x must not be NaN, got NaN at index \(130, 7\)"):
        orizuru_compiled.pops(x, 5)
