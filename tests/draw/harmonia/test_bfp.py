"""Groups of block floating point, and the aligner's words."""

import numpy as np
import pytest

from refemu import draw
from refemu.arith.checks import Refused
from refemu.formats import BFP4, BFP8, Bfp
from refemu.units import bfp_aligner
from tests.draw.shapes import boxes, texts


@pytest.mark.parametrize("fmt", [BFP8, BFP4])
def test_group_shows_its_bits_and_values(fmt: Bfp) -> None:
    encoded = fmt.encode(np.array([1.5, -0.25, 0.0, 0.75], np.float16))
    sign, mantissa, exponent = encoded.sign.tolist(), encoded.mantissa.tolist(), int(encoded.exponent[0])
    svg = draw.bfp(fmt, sign, mantissa, exponent)
    bits = [box for box in boxes(svg) if box.text]

    assert "".join(box.text for box in bits) == f"{exponent:05b}" + "".join(
        f"{s}{m:0{fmt.mantissa_bits}b}" for s, m in zip(sign, mantissa, strict=True)
    )
    assert [box.kind for box in bits].count("sign") == 4
    words = [text for text in texts(svg) if text in ("1.5", "-0.25", "0.75")]
    assert words == ["1.5", "-0.25", "0.75"]


def test_code_with_too_many_bits_is_rejected() -> None:
    with pytest.raises(Refused):
        draw.bfp(BFP4, [0], [16], 15)


def test_aligner_shows_its_outputs() -> None:
    device = bfp_aligner.BfpAligner()
    words = np.array([1.5, -0.25, 0, 0, 0, 0, 0, 2], np.float16).view(np.uint16)
    state = device.step(x=words.tolist(), emax=[15] * 8, m=8)
    bits = [box for box in boxes(bfp_aligner.UNIT.draw({}, state)) if box.text]
    last = bits[-9:]

    assert "".join(box.text for box in bits[:9]) == f"0{state.mantissa[0]:08b}"
    assert {box.kind for box in last} == {"bad"}  # its exponent is above the shared one
