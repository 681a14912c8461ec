"""The outlier decoder and the flint decoder: fields of a code, exponent, integer and value. [olive §4.2, Fig. 7]"""

from collections.abc import Sequence
from typing import Any

from refemu.draw.bit_fields import Part, row
from refemu.draw.svg import Drawing
from refemu.draw.values import bits
from refemu.units.ports import Ports

LEGEND = {"sign": "sign", "exponent": "exponent", "mantissa": "mantissa", "code": "magnitude or integer", "victim": "0"}


def outlier(ports: Ports, state: Any) -> str:
    """Draw the outlier decoder: fields of the abfloat code, the bias, and the pair that leaves.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of outlier_decoder.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [olive §4.2, Fig. 7]
    """
    text = bits(state.code, ports.inputs[0].bits)
    mantissa = abs(state.base_int).bit_length() - 1  # the integer is 1m: its length gives the format's mantissa
    if state.base_int == 0:
        parts, about = [Part("magnitude 0", "victim", text[1:])], f"magnitude 0: exponent {state.exponent}"
    else:
        field, last = text[1 : len(text) - mantissa], text[len(text) - mantissa :]
        parts = [Part("exponent", "exponent", field), Part("mantissa", "mantissa", last)]
        width = ports.outputs[0].bits
        about = f"exponent {int(field, 2)} + bias {state.bias} = {state.exponent} in {width} bits, integer 0b1{last}"
    return _drawn("abfloat", text, parts, about, state)


def flint(ports: Ports, state: Any) -> str:
    """The flint decoder: sign and flint, and the pair that leaves."""
    text = bits(state.code, ports.inputs[0].bits)
    identifier = state.code == 1 << len(text) - 1
    kind, name = ("victim", "identifier") if identifier else ("code", "flint")
    about = "the identifier: 0" if identifier else f"flint {text[1:]}: {abs(state.base_int)} << {state.exponent}"
    return _drawn("flint", text, [Part(name, kind, text[1:])], about, state)


def _drawn(name: str, text: str, parts: Sequence[Part], about: str, state: Any) -> str:
    value = state.base_int << state.exponent
    said = f"{about}; exponent {state.exponent}, integer {state.base_int}, value {value}"
    drawing = Drawing(f"{name} code {text} decoded", said)
    drawing.heading(f"{state.event}: {name} code {text}")
    row(drawing, "", [Part("sign", "sign", text[0]), *parts])
    drawing.note(about)
    drawing.named(
        [
            ("integer", str(state.base_int), "code"),
            ("exponent", str(state.exponent), "exponent"),
            ("integer << exponent", str(value), "plain"),
        ]
    )
    used = {"sign", "exponent", "code", *(part.kind for part in parts)}
    drawing.legend({kind: meaning for kind, meaning in LEGEND.items() if kind in used})
    return drawing.svg()
