"""A token by packed pairs gives what the matrix gives, and only where the kernel reads the weights."""

from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.formats import OVP_FLINT4, OVP_INT4, OVP_INT8
from refemu.models.schemes.olive.compiled import linear
from refemu.models.schemes.olive.linear import Part, Product

IDS = list(b"It is a truth universally acknowledged")


def parts(spec: str) -> list[Part]:
    """The quantized parts of the tiny model."""
    prepared: Any = models.prepare(models.load("tiny"), spec, calibration=IDS)
    return list(prepared.parts())


def both(part: Part, x: np.ndarray) -> tuple[Product, Product]:
    """By packed pairs and by the matrix."""
    packed, part._token = part(x), None
    return packed, part(x)


@pytest.mark.parametrize("spec", ["olive-4", "olive-4:preset=repo", "olive-4:types=int"])
def test_token_by_packed_pairs_equals_matrix(spec: str) -> None:
    chosen = [part for part in parts(spec) if part._token is not None]
    for part in chosen:
        x = np.random.default_rng(1).standard_normal((1, part.weights[0].inputs), np.float32) * np.float32(3)
        x[0, ::7] *= np.float32(20)
        packed, plain = both(part, x)

        assert packed.outputs.tobytes() == plain.outputs.tobytes() and packed.overflowed == plain.overflowed == 0
        assert np.array_equal(packed.pairs, plain.pairs) and np.array_equal(packed.exact, plain.exact)
    assert chosen or "int" not in spec


def test_several_tokens_and_invalid_values_use_the_matrix() -> None:
    part = next(part for part in parts("olive-4:types=int") if part._token is not None)
    x = np.ones((1, part.weights[0].inputs), np.float32)
    x[0, 3] = np.inf

    assert part._token(x) is None
    with pytest.raises(ValueError, match="finite"):
        part(x)


def test_weights_of_other_formats_are_not_packed() -> None:
    words = np.zeros((2, 4), np.uint8)
    assert set(linear.arrays([OVP_INT4, OVP_INT4], [words, words])) == set(linear.NAMES)
    assert linear.arrays([OVP_INT4, OVP_FLINT4], [words, words]) == linear.arrays([OVP_INT8], [words]) == {}
    assert linear.of_arrays(OVP_INT4, {}) is None
    assert all(part._token is None for part in parts("olive-8"))
