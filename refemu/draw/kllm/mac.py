"""The FP16 multiply-accumulate unit: fields of the words, the rounded product, the sum. [kllm §IV-A, Table I]"""

from typing import Any

from refemu.draw.bit_fields import Part, row
from refemu.draw.svg import Drawing
from refemu.draw.values import bits, half
from refemu.units.ports import Ports

FLAGS = ("NX", "UF", "OF", "DZ", "NV")  #: from bit 0 up
LEGEND = {"sign": "sign", "exponent": "exponent", "mantissa": "mantissa"}


def mac(ports: Ports, state: Any) -> str:
    """Draw a multiply-accumulate step: the words of a, b, the product, acc and y with their fields.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of fp16_mac.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [kllm §IV-A, Table I]
    """
    words = (
        ("a", state.a),
        ("b", state.b),
        ("a * b rounded", state.product),
        ("acc", state.acc),
        ("y", state.y),
    )
    said = ", ".join(f"{name} {half(word)}" for name, word in words)
    drawing = Drawing(f"multiply-accumulate: {half(state.acc)} + {half(state.a)} * {half(state.b)}", said)
    drawing.heading(f"{state.event}: y = acc + a * b = {half(state.y)}")
    for name, word in words:
        row(drawing, "", parts(word), f"{name} = {half(word)}", narrow=True)
    drawing.note(_flags(state))
    drawing.legend(LEGEND)
    return drawing.svg()


def parts(word: int) -> list[Part]:
    """Fields of a word of fp16.

    Parameters
    ----------
    word : int
        Word.

    Returns
    -------
    list of Part
        Sign, exponent, mantissa.
    """
    text = bits(word, 16)
    return [
        Part("sign", "sign", text[0]),
        Part("exponent", "exponent", text[1:6]),
        Part("mantissa", "mantissa", text[6:]),
    ]


def _flags(state: Any) -> str:
    """The step's flags and rounding mode."""
    if state.fflags is not None:
        raised = [name for place, name in enumerate(FLAGS) if state.fflags >> place & 1]
        text = f"flags: {' '.join(reversed(raised)) or 'none'}"
    else:
        text = "y became infinite" if state.overflow else "no overflow"
    return text if state.rm is None else f"{text}; rounding mode {state.rm}"
