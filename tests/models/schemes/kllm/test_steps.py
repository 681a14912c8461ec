"""Steps of a KLLM scheme by the compiled forms and by the readable units: the same bits."""

from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.formats.kllm.kmeans import KMeans
from refemu.formats.kllm.kmeans_outliers import TopK
from refemu.models.backend import find
from refemu.models.schemes.kllm.steps import Units
from tests.oracles import fp16

BOOK = Codebook(3, np.array([-1, -0.5, -0.25, 0, 0.125, 0.25, 0.5, 1]))
X, Y = (np.random.default_rng(seed).standard_t(3, (3, 10)).astype(np.float16).astype(np.float32) for seed in (1, 2))
SEEN = np.array([1, 2, 3])


def steps(backend: str, preset: str) -> dict[str, Any]:
    """Every step once, each an array."""
    units = Units(find(backend), KllmArith.preset(preset))
    fmt = KMeans(BOOK, TopK(k=1), preset=preset)
    a, b = units.encode(fmt, X), units.encode(fmt, Y)
    weight = units.encode(KMeans(BOOK, preset=preset), Y)
    norm = units.norms(a, "rms", 1e-5, [(weight.codebook, None)])[0]
    p = units.softmax(X.astype(np.float16))
    scores = units.quantize_scores(p, np.arange(1, 11).astype(np.float16), 4, "fold")
    tokens = units.encode(fmt, np.ascontiguousarray(X.T))
    return {
        "index": a.index,
        "scale": a.scale,
        "rms": norm.divisor,
        "plain": units.plain_norm(X, 1e-5).divisor,
        "linear": units.product(a, units.prepare(weight), norm=norm),
        "logits": units.product(a, b, SEEN),
        "p": p,
        "q": scores.q,
        "score scale": scores.scale,
        "mix": units.mix(scores, units.prepare(tokens, integer=True), SEEN),
        "silu": units.elementwise("down_in", units.function(a, "silu", "token", None), b),
        "head": units.head(X, Y.astype(np.float16)),
    }


@pytest.mark.parametrize("preset", ["paper", "exact"])
def test_compiled_forms_and_readable_units_agree(preset: str) -> None:
    jit, numpy = steps("jit", preset), steps("numpy", preset)

    for name, array in jit.items():
        assert array.dtype == numpy[name].dtype, name
        assert array.tobytes() == numpy[name].tobytes(), name


def test_what_is_not_seen_is_zero() -> None:
    logits = steps("jit", "paper")["logits"]

    assert np.array_equal(logits != 0, np.arange(3) < SEEN[:, None])


def test_head_rounds_the_exact_sum_once() -> None:
    """D-kllm-36: FP16 operands, in preset `exact`."""
    row, column = ([fp16.from_float(float(v)) for v in side] for side in (X[1], Y[2]))
    total = sum((fp16.to_float(a) * fp16.to_float(b)) for a, b in zip(row, column, strict=True))  # fits float64

    assert steps("jit", "exact")["head"][1, 2] == float(np.float16(total))


def test_an_overflowing_product_is_rejected_by_its_name() -> None:
    units = Units(find("jit"), KllmArith())
    x = np.full((1, 10), 1, np.float32)
    x[0, :2] = 60000, -60000
    a = units.encode(KMeans(BOOK, TopK(k=1)), x)

    with pytest.raises(
        Refused, match=r"blk\.0\.down_in: products of outliers must be finite, got an overflow at index \(0, 0\)"
    ):
        units.elementwise("blk.0.down_in", a, a)


def test_steps_repr() -> None:
    assert repr(Units(find("numpy"), KllmArith())) == "Units(Numpy())"
