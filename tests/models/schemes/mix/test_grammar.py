"""The text of a mix: where a plus starts a part, layers, rejected texts."""

import pytest

from refemu.arith.checks import Refused
from refemu.models.schemes import SCHEMES
from refemu.models.schemes.mix.grammar import Piece, read_layers, split, write_layers

PARTS = {
    "olive-4": ["olive-4"],
    "olive-4+leankv-k8v4": ["olive-4", "leankv-k8v4"],
    "leankv-k8v4:align=4+4": ["leankv-k8v4:align=4+4"],
    "olive-4+leankv-k8v4:align=4+4": ["olive-4", "leankv-k8v4:align=4+4"],
    "olive-4:types=int++fp16": ["olive-4:types=int+", "fp16"],
    "olive-4:eight_bit=down+blk.0.q+fp16:acc=fp16+leankv": [
        "olive-4:eight_bit=down+blk.0.q",
        "fp16:acc=fp16",
        "leankv",
    ],
    "olive-8@0-1;29+olive-4+harmonia-kv4": ["olive-8@0-1;29", "olive-4", "harmonia-kv4"],
    "olive-4:skip=a+fp16,low=80+fp16": ["olive-4:skip=a+fp16,low=80", "fp16"],
    "olive-4:skip=fp16x+fp16-y": ["olive-4:skip=fp16x+fp16-y"],
    "olive-4:x=[fp16+fp16]+fp16": ["olive-4:x=[fp16+fp16]", "fp16"],
    "olive-4+nothing": ["olive-4", "nothing"],
    "olive-4@1+nothing": ["olive-4@1", "nothing"],
    "+": ["", ""],
    "": [""],
}


@pytest.mark.parametrize(("text", "parts"), PARTS.items(), ids=list(PARTS))
def test_plus_begins_part_only_before_name(text: str, parts: list[str]) -> None:
    found = split(text, SCHEMES)

    assert [piece.text for piece in found] == parts
    assert [piece.number for piece in found] == list(range(1, len(parts) + 1))
    assert all(text[piece.start :].startswith(piece.text) for piece in found)
    assert "+".join(parts) == text


def test_part_has_scheme_layers_and_place() -> None:
    piece = split("fp16+olive-8@0-1;29:low=80+fp16", SCHEMES)[1]

    assert piece == Piece(2, 5, "olive-8@0-1;29:low=80")
    assert (piece.scheme, piece.layers) == ("olive-8:low=80", "0-1;29")
    assert piece.place == "part 2, 'olive-8@0-1;29:low=80', at character 5"
    assert Piece(1, 0, "olive-4:skip=a@b").layers is None


LAYERS = {"0": (0,), "3;1": (1, 3), "0-1;29": (0, 1, 29), "2-2": (2,), "5;0-3;4": (0, 1, 2, 3, 4, 5)}


@pytest.mark.parametrize(("text", "blocks"), LAYERS.items(), ids=list(LAYERS))
def test_layers_are_read(text: str, blocks: tuple[int, ...]) -> None:
    assert read_layers(text, "layers") == blocks
    assert read_layers(write_layers(blocks), "layers") == blocks


def test_layers_are_written_in_ranges() -> None:
    assert write_layers((0, 1, 2, 5, 7, 8)) == "0-2;5;7-8"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "layers: layers must be blocks such as 0-1;29, got ''"),
        ("1-", "layers must be blocks .* got '1-'"),
        ("3-1", "layers must be blocks .* got '3-1'"),
        ("1,2", "layers must be blocks .* got '1,2'"),
        ("-1", "layers must be blocks .* got '-1'"),
        ("99999", r"layers: a block must be in \[0, 9999\], got 99999$"),
        ("0-10000", r"a block must be in \[0, 9999\], got 10000$"),
        ("9" * 5000, r"a block must be in \[0, 9999\], got 9{60}$"),
        ("²", "layers must be blocks"),
        ("0-2;2", "must name each block once, got 2 twice in '0-2;2'"),
        (";".join(["0-9999"] * 2), "must name at most 10000 blocks"),
    ],
)
def test_invalid_layers_are_rejected(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        read_layers(text, "layers")
