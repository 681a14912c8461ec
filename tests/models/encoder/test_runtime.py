"""Encoders end to end: separate texts, embeddings, taps, pinned bits, rejected input."""

import hashlib
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.models import schemes
from refemu.models.encoder import runtime
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.scores.perplexity import perplexity
from refemu.models.taps import Watch
from refemu.units.unit import Cases
from tests.oracles import fp16, sums

TEXTS = [b"Sir Walter Elliot", b"of Kellynch Hall,", b"in Somersetshire"]
CALIBRATION = list(b"It is a truth universally acknowledged, that a single man in possession of a good fortune")


@cache
def prepared(scheme: str = "fp16") -> Any:
    return models.prepare("tiny-encoder", schemes.parse(scheme), calibration=CALIBRATION)


PINNED = {
    "fp16": "591da8ca40657b1a036c8bf14591e541d21ad34289230abfbabada316a7c02bd",
    "olive-4": "e39b433c7285c937394016b2957791654c384f59cb46199313d4dcbf94e7d307",
    "olive-8": "5f96b78701f5d1d7d19c1893fca110abc799f019f3d0c8590022a62b0c9de610",
}  #: scheme -> sha256 of the hidden states of "She was now nine-and-twenty"


@pytest.mark.parametrize("scheme", PINNED)
def test_hidden_states_of_tiny_encoder_are_pinned(scheme: str) -> None:
    """Changes only with a decision; a release that changes it says so first."""
    hidden = models.encode("tiny-encoder", list(b"She was now nine-and-twenty"), prepared(scheme))

    assert PINNED[scheme] == hashlib.sha256(hidden.astype("<f4").tobytes()).hexdigest()


@pytest.mark.parametrize("scheme", ["fp16", "olive-4"])
def test_texts_below_each_other_do_not_meet(scheme: str) -> None:
    together = runtime.encode(prepared(scheme), [list(text) for text in TEXTS])
    apart = [models.encode("tiny-encoder", list(text), prepared(scheme)) for text in TEXTS]

    assert together.tobytes() == np.concatenate(apart).tobytes()


def test_states_follow_the_embeddings_and_each_block() -> None:
    ids = np.array(list(TEXTS[0]))
    found = list(runtime.states(prepared(), [ids], Watch()))

    assert [x.shape for x in found] == [(17, 48)] * 3
    assert found[-1].tobytes() == models.encode("tiny-encoder", ids, prepared()).tobytes()


def test_embedding_is_normalized_mean_over_tokens() -> None:
    """In plain Python: float32 sums in ascending order, each quotient and the root rounded once."""
    ids = list(TEXTS[0])
    hidden = models.encode("tiny-encoder", ids, prepared()).tolist()
    columns = zip(*hidden, strict=True)
    mean = [fp16.f32(sums.total32(list(column), ("sequential",)) / len(ids)) for column in columns]
    length = fp16.f32(math.sqrt(sums.total32([fp16.f32(m * m) for m in mean], ("sequential",))))

    assert [fp16.f32(m / length) for m in mean] == models.embedding("tiny-encoder", ids, prepared()).tolist()


def test_positions_matter() -> None:
    one, other = (models.embedding("tiny-encoder", ids, prepared()) for ids in (list(b"abcd"), list(b"dcba")))

    assert one.tobytes() != other.tobytes()


def test_a_context_full_of_tokens_is_read() -> None:
    assert models.encode("tiny-encoder", [65] * 512, prepared()).shape == (512, 48)


@pytest.mark.parametrize("scheme", ["olive-4", "olive-8"])
def test_taps_show_pairs_of_linear_inputs_and_weights(scheme: str) -> None:
    cases: list[tuple[int, str, Cases]] = []
    models.encode("tiny-encoder", list(TEXTS[0]), prepared(scheme), taps=lambda *case: cases.append(case))
    tensors = {case.source["tensor"] for _, unit, case in cases if unit == "ovp_decoder" and case.source}

    assert {f"blk.{layer}.{name}.input" for layer in range(2) for name in ("q", "o", "up", "down")} <= tensors
    assert "blk.1.down.weight" in tensors
    assert {0, 1} == {layer for layer, _, _ in cases}
    assert ("olive_mac" in {unit for _, unit, _ in cases}) == (scheme == "olive-4")


def test_a_tap_is_what_the_decoder_reads() -> None:
    """Every pair of a tapped case goes through the unit; none is illegal."""
    from refemu.units.olive import ovp_decoder

    cases: list[tuple[int, str, Cases]] = []
    models.encode("tiny-encoder", list(TEXTS[0]), prepared("olive-4"), taps=lambda *case: cases.append(case))
    for _, unit, case in cases:
        if unit == "ovp_decoder":
            config = ovp_decoder.UNIT.configs[case.config]
            assert not ovp_decoder.run(case.inputs["pair"], case.inputs["bias"], **config).illegal.any()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        pytest.param([], "token ids must be a flat list with at least one", id="no token"),
        pytest.param([1, 256], "token id.*256", id="vocabulary"),
        pytest.param([-1], "token id.*-1", id="negative"),
        pytest.param([0] * 513, "context holds 512 tokens, got 513", id="context"),
        pytest.param([[1, 2]], "token ids must be a flat list", id="two dimensions"),
    ],
)
def test_invalid_token_ids_are_rejected(ids: Any, message: str) -> None:
    with pytest.raises(Refused, match=message):
        models.encode("tiny-encoder", ids, prepared())


def test_token_ids_that_are_not_integers_are_rejected() -> None:
    with pytest.raises(RefusedType):
        models.encode("tiny-encoder", np.array([0.5]), prepared())


def test_empty_list_of_texts_is_rejected() -> None:
    with pytest.raises(Refused, match="at least one text is needed, got none"):
        runtime.encode(prepared(), [])


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: models.run("tiny-encoder", [1]), id="run"),
        pytest.param(lambda: models.run("tiny-encoder", [1], prepared()), id="run prepared"),
        pytest.param(lambda: models.session(prepared()), id="session"),
        pytest.param(lambda: models.greedy(prepared(), [1], 2), id="greedy"),
        pytest.param(lambda: perplexity(prepared(), [1, 2, 3]), id="perplexity"),
    ],
)
def test_what_needs_a_decoder_says_to_use_encode(call: Any) -> None:
    with pytest.raises(Refused, match=r"tiny-encoder is an encoder; use models\.encode"):
        call()


@pytest.mark.parametrize("call", [models.encode, models.embedding])
def test_what_needs_an_encoder_says_to_use_run(call: Any) -> None:
    for scheme in ("fp16", models.prepare("tiny")):
        with pytest.raises(Refused, match=r"tiny is a decoder; use models\.run"):
            call("tiny", [1], scheme)


def test_a_scheme_prepared_for_another_model_is_rejected() -> None:
    with pytest.raises(Refused, match="prepared for model 'tiny-encoder', got 'all-minilm-l6-v2'"):
        models.encode("all-minilm-l6-v2", [1], prepared())


def test_scheme_for_decoders_rejects_an_encoder() -> None:
    class ForDecoders(Fp16Config):
        encoders = False

    with pytest.raises(Refused, match="ForDecoders computes decoders, and tiny-encoder is an encoder"):
        models.prepare("tiny-encoder", ForDecoders())


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        pytest.param(np.zeros((2, 3), np.float32), "mean of the hidden states is 0", id="zero"),
        pytest.param(np.array([[1, np.nan]], np.float32), "must be finite", id="nan"),
        pytest.param(np.array([[1, np.inf]], np.float32), "must be finite", id="infinite"),
    ],
)
def test_embedding_of_zero_mean_is_rejected(hidden: np.ndarray, message: str) -> None:
    with pytest.raises(Refused, match=message):
        runtime.pool(hidden)
