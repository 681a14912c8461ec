"""Decoders with attention that pages lack: rejected, or limited to their window."""

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.schemes.leankv.engine import Engine

TEXT = list(b"Sir Walter Elliot, of")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiny-gemma2", r"pages lacks soft cap of the logits and scale of 1 / sqrt\(24.0\), which tiny-gemma2 needs"),
        ("tiny-bloom", "pages lacks ALiBi, which tiny-bloom needs"),
    ],
)
def test_what_pages_do_not_have_is_rejected(name: str, message: str) -> None:
    """D-leankv-67."""
    with pytest.raises(Refused, match=message):
        models.prepare(name, "leankv")


def test_a_text_ends_where_the_window_does() -> None:
    parts = models.prepare("tiny-mistral", "leankv-k8v4")
    session = models.session(parts)
    found = session.append(TEXT[:12])

    assert found.tobytes() == models.run("tiny-mistral", TEXT[:12]).logits.tobytes()
    with pytest.raises(Refused, match="a text must have at most the 12 tokens of the model's window, got 13"):
        session.append(TEXT[12:13])
    assert len(session) == 12
    with pytest.raises(Refused, match="a text must have at most the 12 tokens of the model's window, got 13"):
        models.session(parts).append(TEXT[:13])


def test_engine_rejects_request_longer_than_the_window() -> None:
    engine = Engine(models.prepare("tiny-mistral", "leankv-k8v4"), slots=1)

    with pytest.raises(Refused, match="a text must have at most the 12 tokens of the model's window, got 14"):
        engine.submit(TEXT[:10], 5)
    name = engine.submit(TEXT[:8], 3)
    assert len(engine.run()[name]) == 3
