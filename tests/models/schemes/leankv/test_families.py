"""Decoders whose attention pages do not have: refused, or as long as their window."""

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.schemes.leankv.engine import Engine

TEXT = list(b"Sir Walter Elliot, of")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiny-gemma2", r"pages has no soft cap of the logits, no scale of 1 / sqrt\(24.0\), as tiny-gemma2 needs"),
        ("tiny-bloom", "pages has no ALiBi, as tiny-bloom needs"),
    ],
)
def test_what_pages_do_not_have_is_refused(name: str, message: str) -> None:
    """D-leankv-67."""
    with pytest.raises(Refused, match=message):
        models.prepare(name, "leankv")


def test_a_text_ends_where_the_window_does() -> None:
    parts = models.prepare("tiny-mistral", "leankv-k8v4")
    session = models.session(parts)
    found = session.append(TEXT[:12])

    assert found.tobytes() == models.run("tiny-mistral", TEXT[:12]).logits.tobytes()
    with pytest.raises(Refused, match="a query of this model sees 12 keys: a text may have 12 tokens, got 13"):
        session.append(TEXT[12:13])
    assert len(session) == 12
    with pytest.raises(Refused, match="a text may have 12 tokens, got 13"):
        models.session(parts).append(TEXT[:13])


def test_the_engine_refuses_a_request_that_outgrows_the_window() -> None:
    engine = Engine(models.prepare("tiny-mistral", "leankv-k8v4"), slots=1)

    with pytest.raises(Refused, match="a text may have 12 tokens, got 14"):
        engine.submit(TEXT[:10], 5)
    name = engine.submit(TEXT[:8], 3)
    assert len(engine.run()[name]) == 3
