"""The steps on pairs: compiled and readable forms give equal codes, words, formats and scales."""

from typing import Any

import numpy as np
import pytest

from refemu.formats.olive.ovp import OVP_FLINT4, OVP_INT4, OVP_INT4_REPO, OVP_INT8, Ovp
from refemu.models.backend import NUMPY, Jit
from refemu.models.schemes.olive import steps

JIT = Jit()
X = (np.random.default_rng(3).standard_t(3, (6, 24)) * 4).astype(np.float32)
SEARCH = {"base": "sigma", "low": 40, "high": 250, "step": 10}
FORMATS = pytest.mark.parametrize("fmt", [OVP_INT4, OVP_FLINT4, OVP_INT8, OVP_INT4_REPO], ids=repr)


@FORMATS
@pytest.mark.parametrize("scale", [np.float32(0.7), np.linspace(0.3, 2, 6).astype(np.float32)], ids=["one", "rows"])
def test_a_tensor_is_encoded_as_its_format_says(fmt: Ovp, scale: Any) -> None:
    wanted = fmt.encode(X, scale)
    for backend in (JIT, NUMPY):
        tensor = steps.encode(backend, fmt, X, scale)
        assert np.array_equal(tensor.pairs(), wanted.pairs())
        assert np.array_equal(tensor.dequantize(), wanted.dequantize())


@FORMATS
def test_words_of_pairs_are_in_token_order(fmt: Ovp) -> None:
    words = [steps.encode_pairs(backend, fmt, X, np.float32(0.7)) for backend in (JIT, NUMPY)]

    assert words[0].shape == words[1].shape == (6, 12)
    assert np.array_equal(*words)
    assert np.array_equal(fmt.decode(fmt.split(words[1])).reshape(6, 24), fmt.encode(X, np.float32(0.7)).decode())


@pytest.mark.parametrize("per", ["row", "tensor"])
def test_a_search_chooses_the_same_format_and_scales(per: str) -> None:
    """Evenly spread values go to int, powers of two to flint."""
    random = np.random.default_rng(4)
    uniform, powers = random.uniform(-1, 1, (6, 24)), np.exp2(random.integers(-4, 4, (6, 24)))
    chosen = []
    for x in (uniform.astype(np.float32), powers.astype(np.float32)):
        (fast, found), (slow, wanted) = (
            steps.select(backend, x, (OVP_INT4, OVP_FLINT4), per=per, **SEARCH) for backend in (JIT, NUMPY)
        )
        chosen.append(fast)
        assert fast == slow
        assert np.asarray(found.scale).tobytes() == np.asarray(wanted.scale).tobytes()
        assert np.asarray(found.mse).tobytes() == np.asarray(wanted.mse).tobytes()

    assert chosen == [OVP_INT4, OVP_FLINT4]
