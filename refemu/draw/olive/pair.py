"""The pair word of an outlier-victim pair, its codes and their fields. [olive §3.1, §3.2, §3.3, §4.2]"""

from typing import Any

from refemu.arith.checks import Refused
from refemu.draw.bit_fields import Part, row
from refemu.draw.svg import Drawing
from refemu.draw.values import bits
from refemu.formats.olive.abfloat import AbFloat
from refemu.formats.olive.ovp import Ovp, OvpTensor
from refemu.units.ports import Ports

SHOWN = 4  #: pairs of a tensor that are drawn
LEGEND = {
    "sign": "sign",
    "code": "normal value",
    "exponent": "exponent",
    "mantissa": "mantissa",
    "victim": "identifier: a victim, 0",
    "bad": "illegal",
}


def pair(fmt: Ovp, word: int) -> str:
    """Draw a pair word: the bits of both elements, and their values.

    Parameters
    ----------
    fmt : Ovp
        Format.
    word : int
        Pair word, below 2**(2 * width).

    Returns
    -------
    str
        SVG.

    Raises
    ------
    Refused
        The word has too many bits.

    References
    ----------
    [olive §3.1, §4.2]
    """
    about = fmt.describe(word)
    drawing = Drawing(f"{fmt.name} pair {word:#0{2 + fmt.digits}x}", about)
    drawing.heading(f"pair {word:#0{2 + fmt.digits}x}  {bits(word, 2 * fmt.width)}")
    row(drawing, "", _parts(fmt, word))
    for line in about.partition(": ")[2].split(", "):
        drawing.note(line)
    drawing.legend(_legend(fmt, [word]))
    return drawing.svg()


def abfloat(fmt: AbFloat, code: int) -> str:
    """Draw an abfloat code: sign, exponent and mantissa, and its value.

    Parameters
    ----------
    fmt : AbFloat
        Format.
    code : int
        Code.

    Returns
    -------
    str
        SVG.

    Raises
    ------
    Refused
        The code has too many bits.

    References
    ----------
    [olive §3.3 Eq. (2)]
    """
    about = fmt.describe(code)
    drawing = Drawing(f"abfloat {fmt.name} code {bits(code, fmt.width)}", about)
    drawing.heading(f"{fmt.name}  {bits(code, fmt.width)}")
    row(drawing, "", _outlier(fmt, code))
    drawing.note(about)
    if code & (fmt.identifier - 1):
        drawing.note(f"integer (1 << {fmt.man_bits}) + mantissa, shifted by exponent + bias {fmt.bias}", "small faint")
    drawing.legend({kind: LEGEND[kind] for kind in ("sign", "exponent", "mantissa")})
    return drawing.svg()


def tensor(shown: OvpTensor) -> str:
    """The first pairs of a tensor, one below the other."""
    fmt, words = shown.format, shown.pairs().ravel().tolist()
    some = words[:SHOWN]
    drawing = Drawing(f"first pairs of {shown!r}", "; ".join(fmt.describe(word) for word in some))
    for word in some:
        kind, _, values = fmt.describe(word).partition(": ")[2].partition(", ")
        row(drawing, "", [part._replace(owner="") for part in _parts(fmt, word)], kind, narrow=True)
        drawing.note(values, "small")
    if len(words) > SHOWN:
        drawing.note(f"and {len(words) - SHOWN} more pairs", "small faint")
    drawing.legend(_legend(fmt, some))
    return drawing.svg()


def decoder(ports: Ports, state: Any) -> str:
    """The pair at the decoder's input, and the exponent-integer pairs at its output."""
    fmt = _format(ports.inputs[0].encoding)
    if fmt is None:
        return ""
    drawing = Drawing(
        f"pair {state.pair:#x} decoded",
        f"{fmt.describe(state.pair)}; exponents {state.exponent}, integers {state.base_int}",
    )
    drawing.heading(f"pair {state.pair:#0{2 + fmt.digits}x}")
    row(drawing, "", _parts(fmt, state.pair, illegal=bool(state.illegal)))
    drawing.note(fmt.describe(state.pair).partition(": ")[2], "small")
    drawing.heading("exponent-integer pairs that leave")
    for name, exponent, integer in zip(("left", "right"), state.exponent, state.base_int, strict=True):
        y = drawing.height + 4
        drawing.text(8, y + 17, name)
        drawing.cell(60, y, 130, 24, f"integer {integer}", "code")
        drawing.cell(196, y, 130, 24, f"exponent {exponent}", "exponent")
        drawing.text(336, y + 17, "illegal: 0" if state.illegal else f"= {integer << exponent}", "bold")
    drawing.legend(_legend(fmt, [state.pair]))
    return drawing.svg()


def encoder(ports: Ports, state: Any) -> str:
    """The pair at the encoder's output."""
    fmt = _format(ports.outputs[0].encoding)
    return "" if fmt is None else pair(fmt, state.pair)


def _format(encoding: str) -> Ovp | None:
    """The format of a port; None if no ready format has its name."""
    from refemu import formats

    try:
        fmt = formats.find(encoding)
    except Refused:
        return None
    return fmt if isinstance(fmt, Ovp) else None


def _parts(fmt: Ovp, word: int, illegal: bool | None = None) -> list[Part]:
    """Fields of both codes, the high half of the word first."""
    codes = fmt.split(word).tolist()
    wrong = bool(fmt.illegal(fmt.split(word))) if illegal is None else illegal
    parts: list[Part] = []
    for place in reversed(fmt.low_first):
        fields = [Part("illegal", "bad", bits(codes[place], fmt.width))] if wrong else _fields(fmt, codes, place)
        owner = f"{('left', 'right')[place]} code"
        parts += [fields[0]._replace(owner=owner), *fields[1:]]
    return parts


def _fields(fmt: Ovp, codes: list[int], place: int) -> list[Part]:
    """Fields of one code of a legal pair."""
    code, beside = codes[place], codes[1 - place]
    if code == fmt.normal.identifier:
        return [Part("identifier", "victim", bits(code, fmt.width))]
    if beside == fmt.normal.identifier and fmt.outlier is not None:
        return _outlier(fmt.outlier, code)
    return [Part("normal", "code", bits(code, fmt.width))]


def _outlier(fmt: AbFloat, code: int) -> list[Part]:
    text = bits(code, fmt.width)
    cut = 1 + fmt.exp_bits
    named = (("sign", text[:1]), ("exponent", text[1:cut]), ("mantissa", text[cut:]))
    return [Part(name, name, part) for name, part in named if part]


def _legend(fmt: Ovp, words: list[int]) -> dict[str, str]:
    """Meanings of the colours in these words."""
    used = {part.kind for word in words for part in _parts(fmt, word)}
    return {kind: meaning for kind, meaning in LEGEND.items() if kind in used}
