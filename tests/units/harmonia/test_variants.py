"""Other answers to decisions, each by a row that is computed by hand."""

import numpy as np

from tests.units.leankv.test_variants import answers


def test_stored_magnitudes_are_shifted_and_rounded_to_even() -> None:
    """A channel each of 129, 130, 131, 134 / 128, then 4: 8 bits of magnitude, two places down."""
    rows = np.array([[129 / 128, 130 / 128, 131 / 128, 134 / 128], [4.0] * 4], np.float16).view(np.uint16)
    shown = answers("v_grouper", "paper", "stored magnitudes are shifted, rounded to even", v=rows)

    assert shown.exponent[1].tolist() == [17] * 4
    assert shown.mantissa[1].tolist()[:8] == [32, 32, 33, 34, 128, 128, 128, 128]


def test_carry_out_of_rounded_magnitude_is_lost() -> None:
    """2047 / 8 rounds to 256, which 8 bits cannot hold; 1920 / 8 is 240."""
    inputs = {"x": [[0x3FFF, 0x3F80, 0x3C00, 0, 0, 0, 0, 0]], "emax": [[15] * 8], "m": [8]}
    shown = answers("bfp_aligner", "half_even", "a rounded magnitude that carries out wraps", **inputs)

    assert shown.mantissa[0].tolist() == [0, 240, 128, 0, 0, 0, 0, 0]
