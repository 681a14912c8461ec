"""The backend of a command."""

import pytest

from refemu import models
from refemu.arith.jit import tiers
from refemu.models import engine

TINY = models.load("tiny")


def backend(scheme: str, tokens: int) -> str:
    return engine.backend_of(models.schemes.parse(scheme), TINY, tokens)


@pytest.mark.parametrize("scheme", ["leankv", "leankv-k8v4"])
def test_short_session_of_pages_is_readable_unless_compiled(monkeypatch, scheme):
    monkeypatch.setattr(tiers, "is_deferred", lambda kernel: kernel.__name__ == "paged_heads")
    assert (backend(scheme, 32), backend(scheme, 1000)) == ("numpy", "jit")
    monkeypatch.setattr(tiers, "is_deferred", lambda kernel: False)
    assert backend(scheme, 32) == "jit"


@pytest.mark.parametrize("scheme", ["fp16", "olive-4", "harmonia-kv4", "kllm-a4"])
def test_other_schemes_choose_form_by_form(monkeypatch, scheme):
    monkeypatch.setattr(tiers, "is_deferred", lambda kernel: True)
    assert backend(scheme, 1) == "jit"
