"""What training sees: Orizuru's outliers and scales, samples and limits equal those of the format."""

import numpy as np
import pytest

from refemu.formats.kllm.kmeans import normalized_inliers
from refemu.formats.kllm.kmeans_outliers import ThresholdCalibration, TopK
from refemu.models.schemes.kllm import quantize
from refemu.models.schemes.kllm.quantize import Found
from tests.oracles.kllm import formats

X = np.random.default_rng(3).standard_t(2, (7, 40)).astype(np.float16)
X[2], X[3, :20] = 0, X[3, 20:]  # a token of zeros, one with ties


@pytest.mark.parametrize("percent", ["0", "1", "10", "40", None])
def test_outliers_and_samples_are_those_of_the_format(percent: str | None) -> None:
    """D-kllm-9, D-kllm-11: the roots of Orizuru give the scale, 1 for zeros."""
    outliers, found = None if percent is None else TopK(percent), Found(X, percent)
    wanted = normalized_inliers(X, outliers)

    assert found.mask is None or np.array_equal(found.mask, TopK(percent).mask(X.astype(np.float32)))
    assert found.scale[2] == 1
    values, counts = np.unique((wanted.astype(np.float64) * 2**24).astype(np.int64), return_counts=True)
    assert np.array_equal(found.samples().bins()[0], values)
    assert np.array_equal(found.samples().bins()[1], counts)


@pytest.mark.parametrize("statistic", ["mean", "pooled"])
def test_limits_equal_the_oracle(statistic: str) -> None:
    """D-kllm-30: from the roots of Orizuru, which are the extreme inliers."""
    found = Found(X, "10").limits(statistic)
    words = X.view(np.uint16).tolist()
    collected = ThresholdCalibration(TopK("10"), statistic)
    collected.add(X)

    assert found is not None
    assert tuple(found.tolist()) == formats.thresholds(words, "10", statistic)
    assert np.array_equal(found, quantize.words_of(collected.thresholds()))


def test_without_outliers_there_are_no_limits() -> None:
    assert Found(X, None).limits("mean") is None


def test_weights_follow_their_samples() -> None:
    """D-kllm-29: a sample of weight 0 is dropped, a weight of 2 is twice the sample."""
    weights = np.ones(X.shape)
    weights[:, 5] = 0
    weights[:, 6] = 2
    found = Found(X, "10")
    kept = ~found.mask if found.mask is not None else np.ones(X.shape, bool)
    total = int(kept.sum() - kept[:, 5].sum() + kept[:, 6].sum())

    assert found.samples(weights).total == total << 31  # the largest weight, 2, is 2**32


def test_codebook_equals_the_oracle() -> None:
    found = Found(X, "10")
    samples = (normalized_inliers(X, TopK("10")).astype(np.float16) + np.float16(0)).view(np.uint16).tolist()

    assert quantize.codebook(found.samples(), 3).tolist() == list(formats.train(samples, None, bits=3).codebook)


def test_quantize_repr() -> None:
    assert repr(Found(X, "10")) == "Found((7, 40), percent='10')"
