"""Decoders of one code: bits, fields and the pair that leaves, for every code and bias."""

import pytest

from refemu import units
from refemu.formats import E2M1_BIAS2, E4M3_BIAS4, AbFloat
from tests.draw.shapes import boxes, texts, tree


@pytest.mark.parametrize("fmt", [E2M1_BIAS2, E4M3_BIAS4])
def test_every_outlier_code_shows_its_fields(fmt: AbFloat) -> None:
    unit = units.find("outlier_decoder")
    config = unit.config(f"exp_bits={fmt.exp_bits},man_bits={fmt.man_bits}")
    device = unit.unit_class(**config)
    for code in range(1 << fmt.width):
        for bias in (0, 15) if fmt.width > 4 else range(16):
            state = device.step(code, bias)
            found = [box for box in boxes(unit.draw(config, state)) if box.text]
            bits, (integer, exponent, value) = found[: fmt.width], [box.text for box in found[fmt.width :]]
            assert "".join(box.text for box in bits) == f"{code:0{fmt.width}b}"
            kinds = [box.kind for box in bits]
            if state.base_int:
                assert kinds == ["sign"] + ["exponent"] * fmt.exp_bits + ["mantissa"] * fmt.man_bits
            else:
                assert kinds == ["sign"] + ["victim"] * (fmt.width - 1)
            assert (integer, exponent) == (str(state.base_int), str(state.exponent))
            assert int(value) == state.base_int << state.exponent


def test_every_flint_code_shows_its_fields() -> None:
    unit = units.find("flint_decoder")
    config = unit.config("flint4")
    device = unit.unit_class(**config)
    for code in range(16):
        state = device.step(code)
        svg = unit.draw(config, state)
        found = [box for box in boxes(svg) if box.text]
        assert "".join(box.text for box in found[:4]) == f"{code:04b}"
        assert [box.text for box in found[4:]] == [
            str(state.base_int),
            str(state.exponent),
            str(state.base_int << state.exponent),
        ]
        assert ("the identifier: 0" in texts(svg)) == (code == 8)


def test_the_exponent_is_the_field_and_the_bias() -> None:
    unit = units.find("outlier_decoder")
    config = unit.config("exp_bits=2,man_bits=1")
    svg = unit.draw(config, unit.unit_class(**config).step(0b1101, 2))

    assert "exponent 2 + bias 2 = 4 in 4 bits, integer 0b11" in texts(svg)
    assert "exponent 4, integer -3, value -48" in (tree(svg)[1].text or "")
