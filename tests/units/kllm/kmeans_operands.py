"""Operands of K-Means MatMuls for tests, and the same as the oracle's vectors and orders."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from refemu.arith.orders import Exact, Sequential
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import LANES, KllmArith
from refemu.formats.kllm.kmeans import KMeans, TopK
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.testing import codebooks
from tests.arith.strategies import numbers, repeating
from tests.oracles.kllm import formats

ORACLE_LANES = ("lanes", 32, "blocked", ("tree", 32), "zero")

#: presets, single choices of a datapath, and what the oracle calls them: (arith, acc, order, table)
ARITHS = {
    "paper": (KllmArith(), "fp16", ("sequential",), "fp16"),
    "exact": (KllmArith.preset("exact"), "exact", ("sequential",), "fp16"),
    "fma": (KllmArith(acc="fp16_fma"), "fp16_fma", ("sequential",), "fp16"),
    "fp32": (KllmArith(acc="fp32"), "fp32", ("sequential",), "fp16"),
    "lanes": (KllmArith(order=LANES), "fp16", ORACLE_LANES, "fp16"),
    "lanes fma": (KllmArith(order=LANES, acc="fp16_fma"), "fp16_fma", ORACLE_LANES, "fp16"),
    "wide table": (KllmArith(table="fp32"), "fp16", ("sequential",), "fp32"),
    "wide table fma": (KllmArith(table="fp32", acc="fp16_fma"), "fp16_fma", ("sequential",), "fp32"),
    "wide table fp32": (KllmArith(table="fp32", acc="fp32"), "fp32", ("sequential",), "fp32"),
    "wide table exact": (
        KllmArith(table="fp32", acc="exact", order=Exact(), scale_y="exact"),
        "exact",
        ("sequential",),
        "fp32",
    ),
}
assert KllmArith().order == Sequential()


def codebook(bits: int, rng: np.random.Generator) -> Codebook:
    """Ascending centroids between -1 and 1."""
    return Codebook(bits, np.sort(np.clip(rng.normal(0, 0.4, 1 << bits), -1, 1)).astype(np.float16).astype(np.float64))


def tensor(
    shape: tuple[int, ...],
    bits: int,
    seed: int,
    k: int = 0,
    axis: int = -1,
    zero_point: bool = False,
    spread: float = 3.0,
) -> KMeansTensor:
    """Normal values encoded with a random codebook, k outliers a side."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(0.2 * zero_point, spread, shape)).astype(np.float16)
    return KMeans(codebook(bits, rng), TopK(k=k) if k else None, zero_point).encode(x, axis)


@st.composite
def tensors(draw: st.DrawFn, shape: tuple[int, ...], bits: int, k: int = 0) -> KMeansTensor:
    """Values in [-4, 4) encoded with a codebook, k outliers a side, all of them drawn."""
    fmt = KMeans(draw(codebooks(bits)), TopK(k=k) if k else None)
    return fmt.encode(draw(repeating(numbers, shape)).astype(np.float16))


def vector(t: KMeansTensor, i: int) -> formats.Vector:
    """Vector i of a tensor as the oracle has it."""
    masks = t.rows(t.mask)
    starts = np.concatenate([[0], np.cumsum(masks.sum(axis=1))])
    zero = None if t.zero is None else int(t.zero.reshape(-1)[i])
    return formats.Vector(
        t.codebook.values.tolist(),
        t.rows()[i].tolist(),
        int(t.scale.reshape(-1)[i]),
        masks[i].astype(int).tolist(),
        t.outlier[starts[i] : starts[i + 1]].tolist(),
        zero,
    )


def vectors(t: KMeansTensor) -> list[formats.Vector]:
    """The vectors of a tensor as the oracle has them."""
    return [vector(t, i) for i in range(len(t.rows()))]


def words(y: np.ndarray) -> Any:
    """fp16 patterns as nested lists of ints."""
    return y.view(np.uint16).tolist()
