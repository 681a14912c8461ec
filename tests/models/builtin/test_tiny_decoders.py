"""Seeded decoders of every family: the same weights everywhere, and the outliers of real decoders."""

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models import load, text
from refemu.models.builtin import tiny_decoders
from refemu.models.builtin.tiny_decoders import CONFIGS, TinyDecoder
from tests.models import toy_decoder

EACH = pytest.mark.parametrize("name", list(CONFIGS))
PINNED = {
    "tiny-gpt2": "c08a9d927aa9c29b8041010f0da7e0619ce922741d8b8610a4cc3b4973d01396",
    "tiny-opt": "633375380ea372d338b07d5c1e48c5fd88f05a1520252a3560d7ea405a8f0cf7",
    "tiny-mistral": "9959b0a6021d383d1736a7366f1961c499adedf80e76f7329c106be98d31f7b5",
    "tiny-mixtral": "00ff475e1eb075b0fb7b95c8617d7cd1bc3f6e70e6321d6ed6312e66aae924ee",
    "tiny-qwen2": "9d4ad30a20ed42d7dfbc3ceb5ce2a1f5d007613bc25802d08ef9c684bc96c6cf",
    "tiny-qwen3": "6100966cfaa4238a0887b3dfd6adb183ea2f757a9b58bf5498729d3fd71c230e",
    "tiny-phi3": "b5b34c49f6a60fcb811a9e1ebb7a5636532efb37cb047cfc8a9f9688d94c33e8",
    "tiny-gemma2": "63cdcd526c2afa2057d836d377d901624b7f68a122634f866d07a36e5ed18038",
    "tiny-bloom": "0bd85a2ab831336eaefc81e560212b9b21c71149f7aaa01047933d7563eddbec",
}


@EACH
def test_weights_are_pinned(name: str) -> None:
    assert tiny_decoders.sha256(name) == load(name).sha256 == PINNED[name]


@EACH
def test_every_weight_is_an_fp16_value(name: str) -> None:
    weights = TinyDecoder(name)
    for part, shape in CONFIGS[name].shapes.items():
        w = weights.tensor(part)

        assert w.dtype == np.float32 and w.shape == weights.shape(part) == shape
        assert np.array_equal(w, w.astype(np.float16))
        assert np.array_equal(w, weights.integers(part) / 2.0 ** weights.fraction(part))


@EACH
def test_weights_have_heavy_tails_and_loud_channels(name: str) -> None:
    weights, config = TinyDecoder(name), CONFIGS[name]
    linears = [
        weights.tensor(part) for part, shape in config.shapes.items() if part.startswith("blk.") and len(shape) == 2
    ]
    flags = np.concatenate([(np.abs(w) > 3 * w.std()).reshape(-1, 2) for w in linears])
    gain = weights.tensor("blk.1.ffn_norm")

    assert 0.003 < flags.mean() < 0.01
    assert flags.all(axis=1).mean() > 4 * flags.mean() ** 2
    assert sorted(np.argsort(gain)[-2:]) == sorted(tiny_decoders.LOUD)


@pytest.mark.parametrize("name", [name for name, sizes in CONFIGS.items() if sizes.positions == "learned"])
def test_first_token_is_massive_but_logits_are_moderate(name: str) -> None:
    model, steps = load(name), []

    def settle(value: np.ndarray, bound: np.ndarray) -> np.ndarray:
        steps.append(value)
        return value

    logits = toy_decoder.forward(model, model.tokenizer.encode(text.default())[:64], settle)

    assert np.abs(steps[0][0]).argmax() == tiny_decoders.MASSIVE
    assert np.abs(steps[0][0]).max() > 8 * np.abs(steps[0][1:]).max()
    assert 0.3 < logits.std() < 3 and np.abs(logits).max() < 20


@EACH
def test_logits_are_not_extreme(name: str) -> None:
    logits = toy_decoder.forward(load(name), list(text.default().encode())[:64])

    assert 0.3 < logits.std() < 3 and np.abs(logits).max() < 20


def test_repr_names_model_and_unknown_name_raises() -> None:
    assert repr(TinyDecoder("tiny-opt")) == "TinyDecoder('tiny-opt')"
    with pytest.raises(Refused, match=r"unknown tensor 'blk\.2\.q'"):
        TinyDecoder("tiny-opt").tensor("blk.2.q")
    with pytest.raises(Refused, match="unknown model 'tiny-gpt3'; did you mean 'tiny-gpt2'"):
        TinyDecoder("tiny-gpt3")
