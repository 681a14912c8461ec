"""Errors of the index MatMul, and their messages."""

from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.formats.kllm.codebook import Codebook
from refemu.units.kllm import index_matmul
from refemu.units.kllm.index_matmul import IndexMatmul, Norm, Scores
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from tests.units.kllm.kmeans_operands import tensor

IMPLEMENTATIONS = [
    pytest.param(index_matmul.matmul, id="unit"),
    pytest.param(index_matmul_compiled.matmul, id="compiled"),
]


def good() -> dict[str, Any]:
    return {"a": tensor((2, 20), 4, 1, 2), "b": tensor((3, 20), 4, 2)}


def scores(**parts: Any) -> Scores:
    given = {"q": np.ones((2, 20), np.uint8), "scale": np.ones(2, np.float16), "p": np.ones((2, 20), np.float16)}
    return Scores(**given | parts)


V = tensor((20, 4), 4, 5, 1)
BAD = [
    pytest.param({"b": tensor((3, 21), 4, 2)}, Refused, "need the same K, got 20 and 21", id="K"),
    pytest.param({"products": Codebook(7, np.zeros(128))}, Refused, "product codebook needs 256 entries", id="size"),
    pytest.param(
        {"b": tensor((3, 20), 4, 2, 2), "norm": Norm(np.ones(2))},
        Refused,
        "a norm excludes outliers in B",
        id="outliers in B under a norm",
    ),
    pytest.param(
        {"b": tensor((3, 20), 4, 2, zero_point=True), "norm": Norm(np.ones(2))},
        Refused,
        "a norm excludes zero points in B",
        id="zero points under a norm",
    ),
    pytest.param({"norm": Norm(np.ones(3))}, Refused, "a norm needs 2 divisors, got 3", id="divisors"),
    pytest.param({"norm": Norm(np.ones(2), np.ones(2), np.ones(2))}, Refused, r"row_sum must have shape", id="R"),
    pytest.param({"bias": np.zeros(3)}, RefusedType, r"bias must be float16 of shape \(3,\)", id="bias"),
    pytest.param({"bias": np.zeros(2, np.float16)}, RefusedType, r"bias must be float16 of shape \(3,\)", id="length"),
    pytest.param({"seen": [1, 4]}, Refused, r"seen must be in \[0, 3\], got 4", id="seen"),
    pytest.param({"seen": [1.0, 1.0]}, RefusedType, "seen must be 2 integers", id="seen floats"),
    pytest.param({"a": np.zeros((2, 20))}, RefusedType, "must be a KMeansTensor, got ndarray", id="array"),
    pytest.param({"a": scores(), "b": tensor((20, 3), 4, 1, zero_point=True)}, Refused, "without zero", id="zeros"),
    pytest.param({"a": scores(), "b": V, "norm": Norm(np.ones(2))}, Refused, "a norm excludes scores", id="scores"),
    pytest.param(
        {"a": scores(), "b": V, "products": Codebook(8, np.zeros(256))},
        Refused,
        "products must be None for scores",
        id="no",
    ),
    pytest.param({"a": scores(scale=np.ones(2, np.float32)), "b": V}, Refused, 'float32 scales .*"exact"', id="wide"),
    pytest.param({"a": scores(fold=False), "b": V}, Refused, "need one scale for the other operand, got", id="D-14"),
    pytest.param({"preset": "papers"}, Refused, "unknown preset 'papers' of KLLM; did you mean 'paper'", id="preset"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
def test_index_matmul_rejects_invalid_inputs(
    run: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(**good() | arguments)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        pytest.param(
            lambda: Norm(np.array([1.0, 0.0])),
            Refused,
            r"norm divisor must be positive and finite, got 0.0 at index \(1,\)",
            id="rms 0",
        ),
        pytest.param(
            lambda: Norm(np.ones(2), np.ones(2)), Refused, "mean and row_sum of a norm must both be given", id="mean"
        ),
        pytest.param(lambda: scores(q=np.ones((2, 20), np.int64)), RefusedType, "scores need q uint8", id="q"),
        pytest.param(lambda: scores(scale=np.ones(3, np.float16)), Refused, ".*a scale per row", id="scales"),
        pytest.param(lambda: IndexMatmul(a_bits=5), Refused, r"a_bits must be in \[1, 4\], got 5", id="bits"),
        pytest.param(lambda: IndexMatmul(0), Refused, "k must be in", id="k"),
    ],
)
def test_parts_reject_invalid_arguments(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"index_matmul: {message}"):
        make()
