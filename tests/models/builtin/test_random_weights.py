"""Seeded integers: stated range and spread, tails drawn by pairs, labels apart."""

import numpy as np

from refemu.models.builtin import random_weights


def test_a_bell_has_the_stated_range_and_spread() -> None:
    x = random_weights.bell("test", (1 << 16,))

    assert x.dtype == np.int64 and x.min() >= -512 and x.max() <= 511
    assert abs(x.std() - 148) < 2 and abs(x.mean()) < 2


def test_tails_have_the_stated_shares() -> None:
    """52 of 4,096 pairs with one outlier, 3 with two, 1 with a far one."""
    shifts = random_weights.tail("test", (1 << 10, 1 << 10)).reshape(-1, 2)
    pairs = len(shifts) / 4096
    single, both = (((shifts > 0).sum(axis=1) == count).sum() / pairs for count in (1, 2))

    assert {0, 3, 5} == set(np.unique(shifts).tolist())
    assert abs(single - 53) < 2 and abs(both - 3) < 1 and abs((shifts == 5).sum() / pairs - 1) < 0.5


def test_equal_labels_give_equal_words() -> None:
    assert np.array_equal(random_weights.bell("a", (8, 2)), random_weights.bell("a", (8, 2)))
    assert not np.array_equal(random_weights.bell("a", (8, 2)), random_weights.bell("b", (8, 2)))
    assert np.array_equal(random_weights.bell("a", (16,)), random_weights.bell("a", (8, 2)).ravel())
