"""An encoded tensor: layout, fields, storage, padding."""

from typing import Any

import numpy as np
import pytest

from refemu import formats
from refemu.arith.checks import Refused
from refemu.formats import OVP_FLINT4, OVP_INT4, OVP_INT4_REPO, OVP_INT8, Ovp
from refemu.formats.olive.compiled import ovp

ENCODERS = [pytest.param(Ovp.encode, id="format"), pytest.param(ovp.encode, id="compiled")]
VALUES = np.array([[5, -3, 17.6, 1], [2, -98, 30.7, 3], [48, 0, 0, 48]])
SHAPES = [
    ((4,), 0),
    ((3, 4), -1),
    ((3, 4), 1),
    ((4, 3), 0),
    ((3, 5), 1),
    ((5, 3), 0),
    ((2, 3, 4), 1),
    ((2, 3, 5), -3),
    ((2, 0), 1),
    ((0, 3), 1),
    ((1, 1), 1),
]


def values(shape: tuple[int, ...]) -> np.ndarray:
    return (np.random.default_rng(5).standard_normal(shape) * 8).astype(np.float32)


@pytest.mark.parametrize("encode", ENCODERS)
def test_byte_k_holds_elements_2k_and_next(encode: Any) -> None:
    """D-olive-1: the left element in the low nibble; the bytes of a row follow each other."""
    tensor = encode(OVP_INT4, VALUES)

    assert tensor.pack().hex(" ", 2) == "d582 f884 8558"
    assert tensor.pairs().tolist() == [[0xD5, 0x82], [0xF8, 0x84], [0x85, 0x58]]
    assert tensor.pairs().dtype == np.uint8
    assert encode(OVP_INT8, VALUES).pairs().dtype == np.uint16


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_any_axis_is_encoded_as_its_rows_are(encode: Any, shape: tuple[int, ...], axis: int) -> None:
    """D-olive-24: pairs run along the axis; an odd length gets one zero, and `decode` drops it."""
    x = values(shape)
    tensor, moved = encode(OVP_FLINT4, x, axis=axis), np.moveaxis(x, axis, -1)
    lines = moved.reshape(x.size // max(x.shape[axis], 1), x.shape[axis])
    rows = [OVP_FLINT4.encode(np.pad(row, (0, len(row) % 2))) for row in lines]

    assert tensor.decode().shape == x.shape
    assert (
        np.moveaxis(tensor.decode(), axis, -1).tolist()
        == np.array([row.decode()[: moved.shape[-1]] for row in rows]).reshape(moved.shape).tolist()
    )
    assert tensor.pack() == b"".join(row.pack() for row in rows) == tensor.pairs().tobytes()
    assert tensor.code.shape[axis] == x.shape[axis] + x.shape[axis] % 2
    assert OVP_FLINT4.unpack(tensor.pack(), shape, axis=axis).equals(tensor)
    assert OVP_FLINT4.tensor(tensor.pairs(), shape, axis=axis).equals(tensor)


@pytest.mark.parametrize("encode", ENCODERS)
def test_flat_pairs_cross_rows_with_row_scales(encode: Any) -> None:
    """D-olive-24: the published code flattens the tensor first."""
    x, scale = values((4, 3)), np.array([1, 2, 4, 8], np.float32)
    tensor = encode(OVP_INT4_REPO, x, scale)

    assert tensor.decode().ravel().tolist() == OVP_INT4_REPO.round((x / scale[:, None]).ravel()).tolist()
    assert tensor.dequantize().tolist() == (tensor.decode() * scale[:, None]).tolist()
    assert tensor.pairs().shape == (6,)
    assert OVP_INT4_REPO.unpack(tensor.pack(), (4, 3), scale).equals(tensor)


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize(
    ("scale", "axis"),
    [(0.3, -1), (np.float32([0.1, 2, 3]), 1), (np.float32([1, 2, 3, 0.1]), 0)],
    ids=["scalar", "per row", "per column"],
)
def test_dequantize_rounds_the_exact_product_once(encode: Any, scale: Any, axis: int) -> None:
    tensor = encode(OVP_INT4, VALUES, scale, axis)
    wide = np.float32(scale).astype(np.float64)
    wide = np.expand_dims(wide, axis) if wide.ndim else wide

    assert tensor.dequantize().dtype == np.float32
    assert np.array_equal(tensor.dequantize(), (tensor.decode() * wide).astype(np.float32))
    assert np.array_equal(encode(OVP_INT4, VALUES).dequantize(), encode(OVP_INT4, VALUES).decode())


def test_fields_are_bit_patterns_in_order() -> None:
    scale = np.float32([0.5, 1, 2])
    fields = OVP_INT4.encode(VALUES, scale).fields()

    assert list(fields) == ["code", "scale"]
    assert (fields["code"].bits, fields["scale"].bits) == (4, 32)
    assert np.array_equal(fields["code"], OVP_INT4.encode(VALUES, scale).code)
    assert np.asarray(fields["scale"]).tolist() == [0x3F000000, 0x3F800000, 0x40000000]
    assert list(OVP_INT4.encode(VALUES).fields()) == ["code"]


@pytest.mark.parametrize(
    ("fmt", "shape", "scale", "codes", "all_bits"),
    [
        (OVP_INT4, (3, 4), None, 48, 53),
        (OVP_INT4, (3, 5), 1.0, 72, 72 + 32 + 5),
        (OVP_INT8, (3, 4), np.ones(3, np.float32), 96, 96 + 3 * 32 + 5),
    ],
)
def test_storage_counts_padding_scales_and_one_type(
    fmt: Ovp, shape: Any, scale: Any, codes: int, all_bits: int
) -> None:
    tensor = fmt.encode(values(shape), scale)

    assert (tensor.storage_bits(metadata=False), tensor.storage_bits()) == (codes, all_bits)
    assert 8 * len(tensor.pack()) == codes


def test_equals_sees_every_part() -> None:
    tensor = OVP_INT4.encode(VALUES, 0.5)
    others = [
        OVP_INT4_REPO.encode(VALUES, 0.5),
        OVP_INT4.encode(VALUES, 0.25),
        OVP_INT4.encode(VALUES),
        OVP_INT4.encode(VALUES[:2], 0.5),
        OVP_INT4.encode(-VALUES, 0.5),
        OVP_INT4.encode(VALUES[:, :3], 0.5),
    ]

    assert tensor.equals(OVP_INT4.encode(VALUES, np.float32(0.5), axis=1))
    assert not any(tensor.equals(other) for other in [*others, None])


def test_arrays_are_read_only_and_scale_is_copy() -> None:
    scale = np.ones(3, np.float32)
    tensor = OVP_INT4.encode(VALUES, scale)
    scale[0] = 2

    assert tensor.scale is not None
    assert tensor.scale.tolist() == [1, 1, 1]
    for array in (tensor.code, tensor.scale):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_repr_names_format_and_shape() -> None:
    assert repr(OVP_INT4.encode(VALUES, 0.5)) == "OvpTensor(ovp_int4_e2m1_bias2, shape=(3, 4), axis=1, scale=())"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(lambda: OVP_INT4.unpack(b"\0\0", (3,)), None, id="3 elements need 2 bytes"),
        pytest.param(lambda: OVP_INT4.unpack(b"\0\0\0", (3,)), "4 codes of 4 bits need 2 bytes, got 3", id="length"),
        pytest.param(lambda: OVP_INT4.split([0, 256]), r"pair 256 at index \(1,\) is outside \[0, 256\)", id="word"),
    ],
)
def test_ovp_tensor_rejects_invalid_inputs(call: Any, message: str | None) -> None:
    if message is None:
        assert call().shape == (3,)
        return
    with pytest.raises(Refused, match=message):
        call()


def test_constants_share_the_tensor_type() -> None:
    assert isinstance(formats.OVP_INT8.encode([1, 2]), formats.OvpTensor)
