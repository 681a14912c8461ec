"""Words of block floating point: the exponent of a group, signs and mantissas of its elements. [harmonia §II-B]"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.draw.bit_fields import Part, row
from refemu.draw.svg import Drawing
from refemu.draw.values import bits, half
from refemu.formats.harmonia.bfp import Bfp, BfpTensor
from refemu.units.ports import Ports

SHOWN = 8  #: elements that are drawn
EXPONENT_BITS = 5
LEGEND = {"exponent": "shared exponent", "sign": "sign", "mantissa": "mantissa"}


def bfp(fmt: Bfp, sign: Sequence[int], mantissa: Sequence[int], exponent: int) -> str:
    """Draw a group of block floating point: its exponent once, then the elements with their values.

    Parameters
    ----------
    fmt : Bfp
        Format.
    sign, mantissa : sequence of int
        Codes of the elements of one group.
    exponent : int
        Exponent field of the group.

    Returns
    -------
    str
        SVG; the first eight elements.

    Raises
    ------
    Refused
        A code has too many bits.

    References
    ----------
    [harmonia §II-B]
    """
    values = fmt.tensor(list(sign), list(mantissa), [exponent]).dequantize().tolist()
    some = list(zip(sign, mantissa, values, strict=True))[:SHOWN]
    about = ", ".join(f"{value:.6g}" for _, _, value in some)
    drawing = Drawing(f"{fmt.name} group with exponent {exponent}", f"values {about}")
    drawing.heading(f"{fmt.name}: exponent {exponent}, scale 2^{max(exponent, 1) - 14 - fmt.mantissa_bits}")
    _exponent(drawing, exponent)
    for s, m, value in some:
        _element(drawing, int(s), int(m), fmt.mantissa_bits, f"{value:.6g}")
    if len(sign) > SHOWN:
        drawing.note(f"and {len(sign) - SHOWN} more elements", "small faint")
    drawing.legend(LEGEND)
    return drawing.svg()


def tensor(shown: BfpTensor) -> str:
    """The first group of a tensor."""
    sign, mantissa, exponent = (
        np.moveaxis(part, shown.axis, -1).reshape(-1, part.shape[shown.axis])
        for part in (shown.sign, shown.mantissa, shown.exponent)
    )
    if not exponent.size:
        return ""
    count = shown.format.group
    return bfp(shown.format, sign[0, :count].tolist(), mantissa[0, :count].tolist(), int(exponent[0, 0]))


def aligner(ports: Ports, state: Any) -> str:
    """The aligner: fp16 words at its input, signs and mantissas at its output."""
    x, emax, sign, mantissa, illegal = (getattr(state, name) for name in ("x", "emax", "sign", "mantissa", "illegal"))
    drawing = Drawing(
        f"aligner, mantissas of {state.m} bits",
        "; ".join(f"lane {at}: {half(x[at])} to {sign[at]} {bits(mantissa[at], state.m)}" for at in range(len(x))),
    )
    drawing.heading(f"aligner: mantissas of {state.m} bits")
    for lane in range(min(len(x), SHOWN)):
        note = "illegal" if illegal[lane] else f"{half(x[lane])}, shared exponent {emax[lane]}"
        _element(drawing, sign[lane], mantissa[lane], max(state.m, 1), note, bool(illegal[lane]))
    drawing.legend({"sign": "sign", "mantissa": "mantissa", "bad": "illegal"})
    return drawing.svg()


def _exponent(drawing: Drawing, exponent: int) -> None:
    row(drawing, "", [Part("exponent", "exponent", bits(exponent, EXPONENT_BITS))], "shared exponent", narrow=True)


def _element(drawing: Drawing, sign: int, mantissa: int, width: int, note: str, bad: bool = False) -> None:
    parts = [
        Part("sign", "bad" if bad else "sign", str(sign)),
        Part("mantissa", "bad" if bad else "mantissa", bits(mantissa, width)),
    ]
    row(drawing, "", parts, note, narrow=True)
