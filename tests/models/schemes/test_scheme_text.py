"""Single schemes by name, below the registry; test_registry.py has their texts."""

import pytest

from refemu.arith.checks import Refused
from refemu.models.schemes import scheme_text
from refemu.models.schemes.olive.config import OliveConfig


def test_a_text_is_one_scheme() -> None:
    assert scheme_text.parse("olive-4:low=80") == OliveConfig(low=80)
    assert scheme_text.text(OliveConfig(low=80)) == "olive-4:low=80"
    with pytest.raises(Refused, match=r"unknown scheme 'olive-4\+fp16'"):
        scheme_text.parse("olive-4+fp16")


def test_differences_are_those_of_a_registered_scheme() -> None:
    assert scheme_text.differences("olive-4", OliveConfig(low=80, step=3)) == {"low": 80, "step": 3}
    assert scheme_text.differences("olive-8", OliveConfig()) == {"weight_bits": 4, "act_bits": 4}
    assert scheme_text.name(OliveConfig(low=80)) == "olive-4"


def test_schemes_are_read_by_name() -> None:
    assert "olive-4" in scheme_text.SCHEMES and "olive" not in scheme_text.SCHEMES
    assert len(scheme_text.SCHEMES) == len(list(scheme_text.SCHEMES)) == len(scheme_text.PAPERS)
