"""Hypothesis strategies for tests of KLLM's formats and units: fp16 words, codebooks, arithmetic."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from refemu.formats import Codebook, KllmArith
from tests.oracles.kllm import formats

#: zeros, subnormals, ones and halves with their neighbours, the largest
WORDS = [
    w | s
    for s in (0, 0x8000)
    for w in (
        0,
        1,
        2,
        0x3FF,
        0x400,
        0x1400,
        0x2E66,
        0x37FF,
        0x3800,
        0x3801,
        0x3BFF,
        0x3C00,
        0x3C01,
        0x4200,
        0x6400,
        0x7BFF,
    )
]
#: distance -> indices for infinity, -infinity and NaN, with ties to the lower and to the higher of four centroids
INFINITE = {"fp16": ([0, 0, 0], [3, 3, 3]), "real": ([3, 0, 0], [3, 0, 0]), "midpoint16": ([3, 0, 0], [3, 0, 0])}
words = st.one_of(st.sampled_from(WORDS), st.integers(0, 0x7BFF), st.integers(0x8000, 0xFBFF))
units = st.one_of(
    st.sampled_from([w for w in WORDS if w & 0x7FFF <= 0x3C00]), st.integers(0, 0x3C00), st.integers(0x8000, 0xBC00)
)  #: words of values in [-1, 1]
positives = st.one_of(st.sampled_from([1, 0x3FF, 0x400, 0x2E66, 0x3C00, 0x7BFF]), st.integers(1, 0x7BFF))


def ascending(lane: st.SearchStrategy[int], bits: int) -> st.SearchStrategy[list[int]]:
    """2**bits words in the order of their values; repeats are likely, -0 is not among them."""
    few = st.lists(lane, min_size=1, max_size=1 << bits).map(
        lambda drawn: [drawn[i * len(drawn) >> bits] for i in range(1 << bits)]
    )
    return few.map(lambda drawn: sorted(map(formats.positive_zero, drawn), key=formats.key))


codebooks = (
    st.integers(1, 4)
    .flatmap(lambda bits: st.one_of(ascending(units, bits), ascending(words, bits)))
    .map(lambda drawn: Codebook(len(drawn).bit_length() - 1, drawn))
)

ariths = st.one_of(
    st.sampled_from(["paper", "exact"]),
    st.builds(
        KllmArith,
        st.sampled_from(["divide", "reciprocal"]),
        st.sampled_from(["fp16", "real", "midpoint16"]),
        st.sampled_from(["low", "high"]),
    ),
    st.builds(KllmArith, st.just("none"), st.just("real"), st.sampled_from(["low", "high"])),
)


def described(arith: Any) -> dict[str, str]:
    """The keywords of `oracle.nearest` for an arithmetic."""
    choices = KllmArith.preset(arith)
    return {"normalize": choices.normalize, "distance": choices.distance, "tie": choices.tie}


def halves(values: Any) -> np.ndarray:
    """float16 of words."""
    return np.array(values, np.uint16).view(np.float16)
