"""KLLM's block: equal to a plain-Python decoder of the oracles, prefill and decode, rejected input."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.schemes.kllm.layers import Kllm
from tests.models.schemes.kllm import plain as kllm_plain

CALIBRATION = [5, 3, 0, 12, 7, 7, 1, 9, 2, 11, 4, 8, 6, 10, 3, 5]
IDS = [1, 12, 4, 4, 0, 7]
#: what differs, and the decision that it belongs to
SCHEMES = {
    "kllm-a4": "D-kllm-1",
    "kllm-a3": "D-kllm-15",
    "kllm-a4-s": "D-kllm-30",
    "kllm-a4:preset=exact": "D-kllm-1",
    "kllm-a3-s:preset=exact": "D-kllm-30",
    "kllm-a4:kv_outliers=false": "D-kllm-12",
    "kllm-a4:gamma=activations": "D-kllm-18",
    "kllm-a4:norm=fp16": "D-kllm-18",
    "kllm-a4:function_table=literal": "D-kllm-17",
    "kllm-a4:function_table=offline": "D-kllm-17",
    "kllm-a4:score_bits=8": "D-kllm-15",
    "kllm-a4:score_scale=max,v_scale=static": "D-kllm-14",
    "kllm-a4:score_scale=fixed,v_scale=static,preset=exact": "D-kllm-14",
    "kllm-a4:outlier_percent=30": "D-kllm-24",
    "kllm-a4:outlier_percent=0": "D-kllm-24",
    "kllm-a4:weight_bits=3,act_bits=2": "D-kllm-6",
}


@cache
def prepared(text: str, backend: str = "jit") -> Any:
    return models.prepare(kllm_plain.small(), text, backend=backend, calibration=CALIBRATION)


def run(text: str, ids: list[int], backend: str = "jit") -> np.ndarray:
    session = models.session(prepared(text, backend))
    return session.append(ids)


#: their parts are in other schemes of the table, or in the tests of the unit
SLOW = {
    "kllm-a3",
    "kllm-a3-s:preset=exact",
    "kllm-a4:function_table=offline",
    "kllm-a4:outlier_percent=0",
    "kllm-a4:score_scale=fixed,v_scale=static,preset=exact",
}


@pytest.mark.long
@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=pytest.mark.slow) if text in SLOW else text for text in SCHEMES]
)
def test_logits_equal_plain_python(text: str) -> None:
    """D-kllm-12, D-kllm-14, D-kllm-15, D-kllm-16, D-kllm-17, D-kllm-18, D-kllm-34, D-kllm-35, D-kllm-36: the plan of a
    block restated with the oracles gives the same bits.
    """
    found = prepared(text)
    plain = kllm_plain.Plain(kllm_plain.small(), found.config, found.calibration)
    wanted = np.array([plain.logits(token) for token in IDS[:4]], np.float32)

    assert np.array_equal(run(text, IDS[:4]).view(np.uint32), wanted.view(np.uint32))


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "kllm-a4",
        "kllm-a3-s",
        "kllm-a4:preset=exact",
        "kllm-a4:gamma=activations",
        "kllm-a4:score_scale=max,v_scale=static",
        "kllm-a4:function_table=offline",
    ],
)
def test_prefill_is_decode(text: str) -> None:
    session = models.session(prepared(text))
    rows = [session.append(IDS[:1]), session.append(IDS[1:4]), *(session.append([token]) for token in IDS[4:])]

    assert np.concatenate(rows).tobytes() == run(text, IDS).tobytes()


@pytest.mark.long
def test_every_variant_gives_other_logits() -> None:
    found = {run(text, IDS[:4]).tobytes() for text in SCHEMES}

    assert len(found) == len(SCHEMES)


@pytest.mark.parametrize("text", ["kllm-a4", "kllm-a4:preset=exact", "kllm-a3-s"])
def test_layers_backends_agree(text: str) -> None:
    """The readable units and their compiled forms, in one model."""
    assert run(text, IDS[:2]).tobytes() == run(text, IDS[:2], "numpy").tobytes()


@pytest.mark.long
def test_prefill_is_decode_on_tiny() -> None:
    found = models.prepare("tiny", "kllm-a4", calibration=list(b"It is a truth universally acknowledged"))
    ids = list(b"Sir Walter Elliot, of Kellynch Hall")
    session = models.session(found)
    rows = [session.append(ids[:20]), *(session.append([token]) for token in ids[20:])]

    assert np.concatenate(rows).tobytes() == models.run("tiny", ids, found).logits.tobytes()


def test_rewind_and_counters() -> None:
    session = models.session(prepared("kllm-a4"))
    session.append(IDS[:3])
    mark, counters = session.mark(), session.counters
    first = session.append(IDS[3:])
    session.rewind(mark)

    assert counters == session.counters
    assert session.append(IDS[3:]).tobytes() == first.tobytes()
    assert session.counters["encoded_values"] == 2 * len(IDS) * (9 + 16 + 16 + 9 + 11 + 11 + 11)
    assert session.counters["outliers"] == 2 * len(IDS) * 2 * 7  # one on each side of seven vectors


def test_logits_are_fp16_values() -> None:
    """D-kllm-36."""
    logits = run("kllm-a4", IDS)

    assert logits.dtype == np.float32
    assert np.array_equal(logits, logits.astype(np.float16).astype(np.float32))


def test_encoders_are_rejected() -> None:
    with pytest.raises(Refused, match="computes decoders, and tiny-encoder is an encoder"):
        models.prepare("tiny-encoder", "kllm-a4")


def test_repr_says_what_it_is() -> None:
    found = prepared("kllm-a4")

    assert isinstance(found, Kllm)
    assert repr(found).startswith("Kllm('small', KllmConfig(")
    assert repr(found.blocks(np.zeros((2, 9)))) == "Blocks(Units(Jit()))"


def test_another_calibration_gives_other_logits() -> None:
    found = models.prepare(kllm_plain.small(), "kllm-a4", calibration=CALIBRATION[:4])

    assert models.session(found).append(IDS).tobytes() != run("kllm-a4", IDS).tobytes()
