"""Group words and planes against the oracle's bits; invalid bytes are rejected."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.formats import BFP4, BFP8, Bfp
from refemu.formats.harmonia import bfp_layout
from tests.formats.harmonia.bfp_words import words
from tests.oracles.harmonia import bfp


@settings(deadline=None)
@given(
    row=st.lists(words, min_size=1, max_size=40),
    bits=st.integers(1, 11),
    group=st.integers(1, 12),
    layout=st.sampled_from(["group", "planes"]),
)
def test_packed_rows_equal_the_oracle_and_come_back(row: list[int], bits: int, group: int, layout: str) -> None:
    """D-harmonia-34: exponent, signs, magnitudes from the least significant bit on; or planes filled up to bytes."""
    bits = bits if layout == "group" else (8 if bits > 5 else 4)
    fmt = Bfp(bits, group)
    tensor = fmt.encode(np.array(row, np.uint16), bits=True)
    groups = bfp.encode(row, bits, group)
    data = tensor.pack(layout)

    assert data == bfp.pack(groups, layout)
    assert tensor.words() == [bfp.word(one) for one in groups]
    assert fmt.unpack(data, (len(row),), layout=layout).equals(tensor)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("layout", ["group", "planes"])
def test_groups_are_packed_with_their_axis_moved_last(axis: int, layout: str) -> None:
    x = np.random.default_rng(5).standard_normal((3, 5, 4)).astype(np.float16)
    tensor = Bfp(8, 2).encode(x, axis)

    assert tensor.pack(layout) == Bfp(8, 2).encode(np.moveaxis(x, axis, -1)).pack(layout)
    assert Bfp(8, 2).unpack(tensor.pack(layout), x.shape, axis, layout).equals(tensor)


def test_demotion_drops_the_last_plane() -> None:
    """D-harmonia-34, [harmonia §III-B]: the bytes of 4 bits are the first ones of 8 bits."""
    tensor = BFP8.encode(np.random.default_rng(6).standard_normal((4, 96)).astype(np.float16))
    data = tensor.pack("planes")

    assert tensor.demote(4).pack("planes") == data[: -4 * 96 // 2]
    assert len(data) == (12 * 5 + 7) // 8 + 4 * 96 // 8 + 4 * 96


def test_one_word_by_hand() -> None:
    """E 17 at [4:0], signs at [7:5], M 201 50 6 from bit 8 on."""
    tensor = Bfp(8, 3).encode(np.array([0x4648, 0xBE48, 0x3268], np.uint16), bits=True)

    assert tensor.words() == [17 | 0b010 << 5 | 201 << 8 | 50 << 16 | 6 << 24]
    assert tensor.pack() == bytes([0x51, 201, 50, 6])


@pytest.mark.parametrize(
    ("fmt", "data", "length", "layout", "message"),
    [
        pytest.param(BFP8, b"\0" * 36, 32, "group", "need 37 bytes, got 36", id="short"),
        pytest.param(BFP8, b"\0" * 38, 32, "planes", "1 groups need 37 bytes, got 38", id="planes long"),
        pytest.param(BFP8, b"\0" * 36 + b"\x20", 32, "group", "spare bits of the last byte are set", id="spare bits"),
        pytest.param(BFP8, b"\x1f" + b"\0" * 36, 32, "group", r"exponent 31 at index \(0,\)", id="exponent"),
        pytest.param(
            BFP4,
            b"\0" * 20 + b"\x10",
            31,
            "group",
            r"mantissa of fill element 0 of row \(\) must be 0, got 8",
            id="fill",
        ),
        pytest.param(BFP4, b"\0" * 4 + b"\x10" + b"\0" * 16, 31, "group", "sign of fill element 0", id="fill sign"),
        pytest.param(Bfp(6), b"", 32, "planes", "layout 'planes' needs 4 or 8 mantissa bits, got 6", id="bits"),
        pytest.param(BFP8, b"", 32, "rows", "layout must be one of 'group', 'planes', got 'rows'", id="layout"),
        pytest.param(BFP8, b"", 0, "group", "axis -1 must hold at least one element", id="empty"),
    ],
)
def test_bfp_layout_rejects_invalid_inputs(fmt: Bfp, data: bytes, length: int, layout: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        fmt.unpack(data, (length,), layout=layout)


def test_pack_rejects_planes_of_other_widths() -> None:
    with pytest.raises(Refused, match="needs 4 or 8 mantissa bits, got 5"):
        Bfp(5).encode(np.ones(3, np.float16)).pack("planes")


@pytest.mark.parametrize(
    ("codes", "wrong"),
    [
        pytest.param(np.array([1, -1, 0]), r"-1 at index \(1,\)", id="negative"),
        pytest.param(np.array([0, 7, 8, 9]), r"8 at index \(2,\)", id="large"),
        pytest.param(np.array([[0, 7], [8, 9]], np.uint8), r"8 at index \(1, 0\)", id="unsigned"),
    ],
)
def test_first_code_outside_is_rejected(codes: np.ndarray, wrong: str) -> None:
    with pytest.raises(Refused, match=rf"^BfpTensor: mantissa {wrong} is outside \[0, 8\)$"):
        bfp_layout.require_codes(codes, 8, "mantissa")


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
@pytest.mark.parametrize("codes", [[0, 7], [7], []])
def test_codes_inside_are_taken(codes: list[int], dtype: type) -> None:
    """None at all, too."""
    bfp_layout.require_codes(np.array(codes, dtype), 8, "mantissa")
