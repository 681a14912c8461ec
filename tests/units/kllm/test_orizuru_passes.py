"""Orizuru in passes: one tree over the whole token, ties included; counts of every pass; broken passes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.threads import using_threads
from refemu.units.kllm import orizuru
from refemu.units.kllm.orizuru_passes import OrizuruPasses, search
from refemu.units.kllm.orizuru_passes.orizuru_passes import Counts, Ends
from refemu.units.kllm.orizuru_passes.variants import VARIANTS
from tests.oracles.kllm import units

JIT = [pytest.param(False, id="unit"), pytest.param(True, id="compiled")]
OUTPUTS = ("max_index", "min_index", "outlier_mask", "root_max", "root_min", "root_max_valid", "root_min_valid")
TIES = [0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00]
NANS = [0x7E00, 0xFE00, 0x7C01, 0xFFFF]
#: n, k, inputs: one pass, two and three, a chunk of fewer than k values, no pops, rounds, a chunk of one value
SIZES = [
    (1, 1, 2), (5, 5, 8), (16, 4, 16), (18, 3, 16), (18, 14, 16),
    (33, 0, 2), (33, 2, 4), (40, 3, 16), (50, 6, 8), (70, 5, 10),
]  # fmt: skip


def token(n: int, seed: int, total_order: bool = False) -> np.ndarray:
    words = np.array(TIES + NANS * total_order, np.uint16)
    return words[np.random.default_rng(seed).integers(0, len(words), n)].view(np.float16)


def assert_searched(result: Any, x: np.ndarray, k: int, inputs: int, **options: Any) -> None:
    """Every field is the oracle's."""
    words = x.view(np.uint16).tolist()
    popped, passes = units.orizuru_passes(words, k, inputs, **options)
    roots = [words[0] if root is None else root for root in (popped.root_max, popped.root_min)]

    assert popped.max_index == result.max_index.tolist()
    assert popped.min_index == result.min_index.tolist()
    assert popped.mask == result.outlier_mask.astype(int).tolist()
    assert roots == np.array([result.root_max, result.root_min]).view(np.uint16).tolist()
    assert [result.root_max_valid, result.root_min_valid] == [k < len(words)] * 2
    assert (popped.comparisons, popped.comparisons_live, popped.cycles, passes) == (
        result.comparisons,
        result.comparisons_live,
        result.cycles,
        result.passes,
    )
    assert (result.cycles_taken, result.passes_taken) == (result.cycles, result.passes)


@pytest.mark.parametrize("jit", JIT)
@pytest.mark.parametrize("min_leaf", ["not_max", "compare"])
@pytest.mark.parametrize("total_order", [False, True])
@pytest.mark.parametrize(("n", "k", "inputs"), SIZES)
def test_passes_are_one_tree(n: int, k: int, inputs: int, total_order: bool, min_leaf: Any, jit: bool) -> None:
    """D-kllm-60: outputs do not depend on the number of passes."""
    for seed in range(4):
        x = token(n, seed, total_order)
        result = search(x, k, inputs, total_order, min_leaf, jit)
        single = orizuru.pops(x, k, total_order=total_order, min_leaf=min_leaf)

        for name in OUTPUTS:
            a, b = np.asarray(getattr(result, name)), np.asarray(getattr(single, name))
            assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
        assert_searched(result, x, k, inputs, total_order=total_order, min_leaf=min_leaf)


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_the_compiled_form_is_the_unit(data: st.DataObject) -> None:
    inputs = 2 * data.draw(st.integers(1, 12))
    word = st.one_of(st.sampled_from(TIES), st.integers(0, 0x7C00), st.integers(0x8000, 0xFC00))
    x = np.array(data.draw(st.lists(word, min_size=1, max_size=60)), np.uint16).view(np.float16)
    k = data.draw(st.integers(0, x.size if x.size <= inputs else min(x.size, inputs - 2)))
    result = search(x, k, inputs)

    assert result.equals(search(x, k, inputs, jit=True))
    assert_searched(result, x, k, inputs)


@pytest.mark.parametrize("jit", JIT)
def test_order_of_candidates_and_short_passes(jit: bool) -> None:
    """D-kllm-61: of two equal neighbours the min tree pops the odd one, in the last pass too; levels as values need."""
    result = search(np.ones(18, np.float16), 3, 16, jit=jit)

    assert result.max_index.tolist() == [0, 1, 2] and result.min_index.tolist() == [1, 0, 3]
    assert result.passes == 3  # sixteen values, two values, six candidates
    assert result.cycles == (4 + 3 * 5) + (1 + 2 * 2) + (3 + 3 * 4)
    alone = search(np.ones(9, np.float16), 3, 8, jit=jit)
    assert alone.cycles == (3 + 3 * 4) + (1 + 1 * 2) + (3 + 3 * 4)  # eight values, one value, five candidates


@pytest.mark.parametrize(
    "jit", [pytest.param(False, id="unit", marks=pytest.mark.slow), pytest.param(True, id="compiled")]
)
@pytest.mark.parametrize(("n", "k", "passes"), [(4096, 21, 1), (5120, 26, 3), (11008, 56, 4), (14336, 72, 5)])
def test_tokens_of_the_papers_models(n: int, k: int, passes: int, jit: bool) -> None:
    """[kllm Table I] 273 units; 1 % of the values of a layer of LLaMA and Mistral."""
    x = ((np.arange(n) * 7919) % 10007 - 5000).astype(np.float16)
    result = search(x, k, jit=jit)

    assert passes == result.passes
    assert_searched(result, x, k, 4096)


def test_rounds_of_candidates() -> None:
    """Candidates that exceed the tree take further rounds: 50 values in sevens, 44, 39, ... until eight are left."""
    x = token(50, 9)

    assert (
        search(x, 6, 8).passes
        == search(x, 6, 8, jit=True).passes
        == units.orizuru_passes(x.view(np.uint16).tolist(), 6, 8).passes
        > 20
    )


def test_rows_are_single_tokens() -> None:
    x = np.stack([token(40, seed) for seed in range(36)]).reshape(4, 9, 40)
    batch, single = search(x, 3, 16), [search(row, 3, 16) for row in x.reshape(36, 40)]

    assert batch.max_index.shape == (4, 9, 3) and batch.root_min.shape == (4, 9)
    assert np.array_equal(np.stack([row.min_index for row in single]), batch.min_index.reshape(36, 3))
    assert sum(row.comparisons_live for row in single) == batch.comparisons_live
    for threads in (1, 2):
        with using_threads(threads):
            assert batch.equals(search(x, 3, 16, jit=True))


@pytest.mark.parametrize("jit", JIT)
@pytest.mark.parametrize(
    ("x", "k", "inputs", "error", "message"),
    [
        (np.zeros(8, np.float32), 1, 4, RefusedType, "float16 of shape .n,., got float32"),
        (np.zeros(8, np.float16), 9, 4, Refused, r"orizuru: k must be in \[0, 8\], got 9"),
        (np.zeros(8, np.float16), 3, 4, Refused, "k must be at most 2 for 8 values in passes of 4, got 3"),
        (np.zeros(8, np.float16), 1, 5, Refused, "orizuru_passes: inputs must be even, so that no pair is cut, got 5"),
        (np.zeros(8, np.float16), 1, 0, Refused, r"orizuru_passes: inputs must be in \[2, "),
        (np.array([0, 1, np.nan], np.float16), 1, 4, Refused, r"x must not be NaN, got NaN at index \(2,\)"),
    ],
)  # fmt: skip
def test_orizuru_passes_rejects_invalid_inputs(
    x: Any, k: int, inputs: int, error: type[Exception], message: str, jit: bool
) -> None:
    with pytest.raises(error, match=message):
        search(x, k, inputs, jit=jit)


class Forgetful(OrizuruPasses):
    """The last chunk is not searched."""

    def _presented(self, candidates: list[list[int]]) -> list[int]:
        return super()._presented(candidates[:-1])


class Reusing(OrizuruPasses):
    """The min tree reuses comparisons in the last pass too, though its leaves are others."""

    def _array(self, n: int, apart: bool) -> Any:
        array = super()._array(n, apart)
        array.min_leaf = self.min_leaf
        return array


class Shared(OrizuruPasses):
    """The min tree of the last pass is given the candidates of the max tree."""

    def _pass(self, words: Sequence[int], top: list[int], low: list[int], apart: bool) -> Ends:
        return super()._pass(words, top, top, apart)


class Free(OrizuruPasses):
    """The last pass is not counted."""

    def _pass(self, words: Sequence[int], top: list[int], low: list[int], apart: bool) -> Ends:
        ends = super()._pass(words, top, low, apart)
        self._counts[-1] = Counts() if apart else self._counts[-1]
        return ends


@pytest.mark.parametrize("broken", [Forgetful, Reusing, Shared, Free, *(each.unit_class for each in VARIANTS)])
def test_broken_passes_are_seen(broken: type[OrizuruPasses]) -> None:
    """A lost root, lost candidates, stale comparisons, another order, another price."""
    right, wrong = OrizuruPasses(40, 3, 16), broken(40, 3, 16)
    tokens = [token(40, seed).view(np.uint16).tolist() for seed in range(20)]

    assert any(right.step(tuple(words)) != wrong.step(tuple(words)) for words in tokens)


def test_step_and_repr() -> None:
    device = OrizuruPasses(18, 3, inputs=16)
    state = device.step(tuple(token(18, 1).view(np.uint16).tolist()))

    assert (state.event, state.index, state.passes) == ("search", 0, 3)
    assert repr(device) == "OrizuruPasses(n=18, k=3, inputs=16, total_order=False, min_leaf='not_max')"
