"""One vector in one kernel: the parts of the readable encoding."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import fp16
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.compiled.kmeans_row import Encoder, is_plain
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.formats.kllm.kmeans import KMeans, Thresholds, TopK
from tests.arith.interpreted import needs_compiled
from tests.formats.kllm.kmeans_strategies import codebooks

ARITHS = [
    KllmArith(),
    KllmArith(tie="high"),
    KllmArith(distance="real", normalize="none"),
    KllmArith(distance="midpoint16"),
]


def same(fmt: KMeans, x: np.ndarray) -> None:
    found, wanted = Encoder(fmt, x.size).encode(x[None].astype(np.float32)), fmt.encode(x)
    assert found is not None
    assert found.codes.tobytes() == wanted.index.tobytes()
    assert found.mask.tobytes() == wanted.mask.tobytes()
    assert found.word[found.mask].tobytes() == wanted.outlier.tobytes()
    assert not found.word[~found.mask].any()
    assert found.value.tobytes() == fp16.to_f32(wanted.dequantize_fp16()).tobytes()
    assert (found.scale, found.outliers) == (int(wanted.scale), wanted.outlier.size)
    assert found.tensor(fmt.codebook).equals(fmt.encode(x[None]))


@pytest.mark.long
@needs_compiled
@pytest.mark.parametrize("outliers", [None, TopK(k=0), TopK(k=2), TopK(percent="10"), Thresholds(0.5, -1.5)], ids=str)
@pytest.mark.parametrize("arith", ARITHS, ids=range(len(ARITHS)))
@given(
    words=st.lists(st.integers(0, 0xFFFF).filter(lambda w: w & 0x7C00 != 0x7C00), min_size=5, max_size=40),
    book=codebooks,
    scale=st.sampled_from(["inlier", "outlier"]),
)
def test_encodes_as_the_format(outliers: Any, arith: KllmArith, words: list[int], book: Codebook, scale: str) -> None:
    same(KMeans(book, outliers, preset=arith, scale=scale), fp16.values(np.array(words, np.uint16)))


@needs_compiled
def test_zeros_have_scale_one() -> None:
    """D-kllm-11."""
    same(KMeans(Codebook(2, np.array([-1, -0.5, 0, 1])), TopK(k=1)), np.zeros(6, np.float16))


@needs_compiled
def test_non_finite_values_use_the_readable_form() -> None:
    fmt = KMeans(Codebook(1, np.array([0, 1])))
    x = np.ones((1, 4), np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        x[0, 2] = bad
        assert Encoder(fmt, 4).encode(x) is None


def test_what_is_plain() -> None:
    book = Codebook(1, np.array([0, 1]))

    assert is_plain(KMeans(book))
    assert not is_plain(KMeans(book, zero_point=True))
    assert not is_plain(KMeans(book, preset=KllmArith(normalize="reciprocal")))
