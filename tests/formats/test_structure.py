"""The printed fields add up to the bits that the formats count."""

from fractions import Fraction

import pytest

from refemu import formats


def test_bits_of_a_group() -> None:
    """[harmonia §III-B] 293 and 165 bits for 32 elements of 8 and 4 bits."""
    for fmt, bits in ((formats.BFP8, 293), (formats.BFP4, 165)):
        exponent, sign, mantissa = formats.structure(fmt)
        assert exponent.bits + 32 * (sign.bits + mantissa.bits) == bits == fmt.group_bits
        assert exponent.per == "group of 32"


def test_bits_of_a_weight() -> None:
    """4 bits and an fp16 factor for 128 of them: 4.125."""
    code, scale = formats.structure(formats.INT4_G128)
    assert code.bits + Fraction(scale.bits, 128) == Fraction(33, 8)
    assert [part.field for part in formats.structure(formats.GroupInt(4, zero_point=True))] == ["code", "scale", "zero"]


@pytest.mark.parametrize("name", [name for name, one in formats.blocks().items() if isinstance(one, formats.HeteroKV)])
def test_bytes_of_a_token(name: str) -> None:
    """[leankv §5.2] codes, metadata, score and position."""
    fmt = formats.find(name)
    groups = {
        "feature": 128,
        "token": 1,
        "key": 1,
        "value": 1,
        f"{fmt.k_groups}th part of a key": fmt.k_groups,
        f"{fmt.v_groups}th part of a value": fmt.v_groups,
    }
    bits = [part.bits * groups[part.per] for part in formats.structure(fmt)]
    total = 0
    for one in bits:
        total += one
    assert total == 8 * fmt.token_bytes(128)
