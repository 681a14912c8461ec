"""Pairs and abfloat codes: bits, fields and values are those of the format."""

import pytest

from refemu import draw
from refemu.arith.checks import Refused
from refemu.formats import E2M1_BIAS2, E4M3_BIAS4, OVP_FLINT4, OVP_INT4, OVP_INT8, Ovp
from refemu.units.olive import ovp_decoder
from tests.draw.shapes import boxes, texts, tree


@pytest.mark.parametrize("fmt", [OVP_INT4, OVP_FLINT4])
def test_every_pair_shows_its_bits(fmt: Ovp) -> None:
    """The kind of a bit says whether the code is normal, an outlier or a victim, as `describe` says in words."""
    for word in range(256):
        svg = draw.pair(fmt, word)
        bits = [box for box in boxes(svg) if box.text]
        about = fmt.describe(word)
        kinds = [{box.kind for box in half} for half in (bits[:4], bits[4:])]
        right, left = kinds  # the left element is in the low half

        assert "".join(box.text for box in bits) == f"{word:08b}"
        assert tree(svg)[1].text == about
        outlier = {"sign", "exponent", "mantissa"}
        wanted = {
            "N-N": ({"code"}, {"code"}),
            "O-V": (outlier, {"victim"}),
            "V-O": ({"victim"}, outlier),
            "illegal": ({"bad"}, {"bad"}),
        }[about.partition(": ")[2].replace(":", ",").partition(",")[0]]
        assert (left, right) == wanted


def test_pair_of_the_paper_shows_its_fields() -> None:
    """(48, 0) is 0x85 [olive §4.2]: a victim next to sign 0, exponent 10, mantissa 1."""
    svg = draw.pair(OVP_INT4, 0x85)

    assert [(box.kind, box.about) for box in boxes(svg) if box.text][3:] == [
        ("victim", "identifier 1000"),
        ("sign", "sign 0"),
        ("exponent", "exponent 10"),
        ("exponent", "exponent 10"),
        ("mantissa", "mantissa 1"),
    ]
    assert "left 0 10 1 = 3 << 4 = 48" in texts(svg)
    assert len([box for box in boxes(draw.pair(OVP_INT8, 0x80F3)) if box.text]) == 16


def test_abfloat_code_shows_its_fields() -> None:
    for fmt in (E2M1_BIAS2, E4M3_BIAS4):
        for code in range(1 << fmt.width):
            bits = [box for box in boxes(draw.abfloat(fmt, code)) if box.text]
            assert "".join(box.text for box in bits) == f"{code:0{fmt.width}b}"
            assert [sum(box.kind == kind for box in bits) for kind in ("sign", "exponent", "mantissa")] == [
                1,
                fmt.exp_bits,
                fmt.man_bits,
            ]
            assert tree(draw.abfloat(fmt, code))[1].text == fmt.describe(code)


def test_code_with_too_many_bits_is_rejected() -> None:
    with pytest.raises(Refused):
        draw.pair(OVP_INT4, 256)
    with pytest.raises(Refused):
        draw.abfloat(E2M1_BIAS2, 16)


@pytest.mark.parametrize(("word", "values"), [(0x85, ["= 48", "= 0"]), (0xD5, ["= 5", "= -3"])])
def test_decoder_shows_its_outputs(word: int, values: list[str]) -> None:
    device = ovp_decoder.OvpDecoder()
    device.step(pair=word, bias=2)

    assert [
        text
        for text in texts(ovp_decoder.UNIT.draw(ovp_decoder.UNIT.config("int4"), device.state))
        if text.startswith("= ")
    ] == values
