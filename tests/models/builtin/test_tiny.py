"""Model `tiny`: the same weights everywhere, and the outliers of a real decoder."""

import hashlib

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models import load, text
from refemu.models.builtin import tiny
from tests.models.toy_files import forward

LINEAR = [name for name, shape in tiny.CONFIG.shapes.items() if len(shape) == 2 and name != "embed"]


def outliers(x: np.ndarray) -> np.ndarray:
    """Beyond 3 standard deviations of the whole tensor."""
    return np.abs(x) > 3 * x.std()


def test_weights_are_pinned() -> None:
    """A change of one weight changes every golden vector tapped from `tiny`."""
    assert tiny.sha256() == "cf5695aaff60192c6adc5b90e6ee0cc0e5bf19387481da500f99026e0dc6f054"


def test_sha256_covers_every_weight_in_model_order() -> None:
    parts = [tiny.Tiny().tensor(name).astype("<f4").tobytes() for name in tiny.Tiny().names]

    assert hashlib.sha256(b"".join(parts)).hexdigest() == tiny.sha256()


@pytest.mark.parametrize("name", tiny.CONFIG.shapes)
def test_every_weight_is_an_fp16_value(name: str) -> None:
    w = tiny.Tiny().tensor(name)

    assert w.dtype == np.float32 and w.shape == tiny.Tiny().shape(name) == tiny.CONFIG.shapes[name]
    assert np.array_equal(w, w.astype(np.float16))
    assert np.array_equal(w, tiny.integers(name) / 2.0 ** tiny.fraction(name))


def test_test_run_has_at_most_two_million_macs() -> None:
    assert 1_000_000 < tiny.CONFIG.macs(tiny.TEST_TOKENS) <= 2_000_000


def test_heads_are_grouped() -> None:
    assert tiny.CONFIG.heads > tiny.CONFIG.kv_heads > 1


def test_weights_are_heavy_tailed_with_neighbouring_outliers() -> None:
    """Real weights have 0.5 to 1 % outliers [olive Tbl. 2], and more outlier-outlier pairs than chance gives."""
    flags = [outliers(tiny.Tiny().tensor(name)) for name in LINEAR]
    pairs = np.concatenate([flag.reshape(-1, 2) for flag in flags])
    both, single = pairs.all(axis=1).mean(), pairs.mean()

    assert 0.003 < single < 0.01
    assert both > 4 * single**2


def test_marked_token_makes_massive_activation_that_fp16_holds() -> None:
    model = load("tiny")
    found = forward(model, model.tokenizer.encode(text.default())[: tiny.TEST_TOKENS])
    peaks = [np.abs(found[f"blk.{layer}.x"][0]).max() for layer in range(3)] + [np.abs(found["x"][0]).max()]

    assert peaks[0] < 10 and 15_000 < peaks[1] < 60_000 and 15_000 < peaks[2] < 60_000
    assert peaks[3] < peaks[2] / 10
    assert np.abs(found["blk.1.x"][0]).argmax() == tiny.MASSIVE
    assert np.median(np.abs(found["blk.1.x"])) < 2


def test_inputs_of_down_and_o_have_neighbouring_outliers() -> None:
    model = load("tiny")
    found = forward(model, model.tokenizer.encode(text.default())[: tiny.TEST_TOKENS])

    for name in ("blk.0.down_in", "blk.0.o_in"):
        assert outliers(found[name]).reshape(-1, 2).all(axis=1).any()


def test_keys_have_outlier_channels() -> None:
    model = load("tiny")
    mean = np.abs(forward(model, model.tokenizer.encode(text.default())[:256])["blk.0.k"]).mean(axis=0).ravel()

    assert sorted(np.argsort(mean)[-2:]) == sorted(tiny.KEY_ROWS)
    assert mean.max() > 8 * np.median(mean)


def test_logits_are_spread_but_not_extreme() -> None:
    model = load("tiny")
    logits = forward(model, model.tokenizer.encode(text.default())[:256])["logits"]

    assert 0.3 < logits.std() < 3 and np.abs(logits).max() < 20


def test_repr_names_weights_and_unknown_name_raises() -> None:
    assert repr(tiny.Tiny()) == "Tiny()"
    with pytest.raises(Refused, match=r"unknown tensor 'blk\.3\.q'"):
        tiny.Tiny().tensor("blk.3.q")
