"""Panels hold what they were given, in its own width."""

import numpy as np
import pytest

from refemu.arith.checks import RefusedType
from refemu.arith.panels import WIDTH, panels, peak
from tests.arith.strategies import same


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    "shape", [(1, 1), (17, 5), (0, 3), (3, 0), (WIDTH, 2), (WIDTH + 1, 2), (2 * WIDTH + 5, 3)], ids=str
)
def test_matrix_gives_the_weights_back(shape, dtype):
    w = np.random.default_rng(1).normal(size=shape).astype(dtype)
    packed = panels(w)

    assert same(w.T.astype(np.float32), packed.matrix())
    assert packed.shape == shape and packed.values.shape[2] <= WIDTH and packed.values.shape[2] % 16 == 0
    assert packed.nbytes == packed.values.size * w.itemsize
    assert packed.nbytes <= (shape[0] + 16 * packed.values.shape[0]) * shape[1] * w.itemsize  # hardly any filling


def test_panels_are_frozen_copies():
    w = np.ones((4, 4), np.float32)
    packed = panels(w)
    w[:] = 2

    assert packed.matrix().max() == 1 and not packed.values.flags.writeable
    with pytest.raises(AttributeError):
        packed.peak = 3.0


def test_what_panels_know_of_their_values():
    assert panels(np.full((2, 2), -3.5, np.float16)).peak == 3.5
    assert panels(np.full((2, 2), 0.1, np.float32)).holds_fp16 is False
    assert panels(np.full((2, 2), 0.125, np.float32)).holds_fp16 is True
    assert panels(np.full((2, 2), 0.125, np.float32)).half is False


def test_peak_is_nan_if_one_is():
    assert peak(np.array([1, -np.inf, 2], np.float32)) == np.inf
    assert np.isnan(peak(np.array([1, np.nan, -np.inf], np.float16)))
    assert peak(np.zeros((0, 2), np.float32)) == 0


@pytest.mark.parametrize(
    "w", [np.ones((2, 2)), np.ones(2, np.float32), np.ones((2, 2), np.int8)], ids=["f64", "1d", "int"]
)
def test_panels_rejects_invalid_inputs(w):
    with pytest.raises(RefusedType, match=r"panels: float16 or float32 \(N, K\) is needed, got"):
        panels(w)


def test_repr_says_shape_and_width():
    assert repr(panels(np.ones((3, 2), np.float16))) == "<Panels (3, 2) float16 64 bytes>"
