"""Words of bits."""

from refemu.draw.bit_fields import Part, row
from refemu.draw.svg import Drawing
from tests.draw.shapes import boxes, texts


def test_every_bit_is_in_its_field() -> None:
    drawing = Drawing("t", "d")
    row(drawing, "label", [Part("sign", "sign", "1", "owner"), Part("exponent", "exponent", "010")], "note")

    assert [(box.kind, box.text, box.about) for box in boxes(drawing.svg())] == [
        ("sign", "1", "sign 1"),
        *(("exponent", bit, "exponent 010") for bit in "010"),
    ]
    assert texts(drawing.svg())[0] == "label" and {"owner", "sign", "exponent", "note"} <= set(texts(drawing.svg()))
