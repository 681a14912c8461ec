"""AffineTensor keeps codes and metadata apart, packs them, and says what it stores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from refemu.arith.checks import Refused
from refemu.formats import Affine
from refemu.formats.leankv.affine import WIDTHS


def tensor_of(bits: int, groups: int = 1) -> tuple[np.ndarray, Affine]:
    x = np.random.default_rng(bits).standard_normal((3, 2, 64)).astype(np.float16)
    return x, Affine(bits, groups)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("bits", WIDTHS)
def test_packed_words_and_metadata_come_back(bits: int, groups: int) -> None:
    """D-leankv-11: words of 16 bits, little-endian, feature 0 in the lowest bits."""
    x, fmt = tensor_of(bits, groups)
    tensor = fmt.encode(x)

    assert fmt.unpack(tensor.pack(), tensor.shape, tensor.scale, tensor.zero).equals(tensor)
    assert fmt.of_words(tensor.words(), tensor.metadata()).equals(tensor)
    assert tensor.words().astype("<u2").tobytes() == tensor.pack()


@settings(deadline=None)
@given(code=hnp.arrays(np.uint8, (2, 16), elements=st.integers(0, 3)))
def test_element_of_word_is_at_index_times_width(code: np.ndarray) -> None:
    meta = np.zeros((2, 1), np.uint16)
    words = Affine(2).unpack(
        sum(int(c) << 2 * i for i, c in enumerate(code.ravel())).to_bytes(8, "little"), (2, 16), meta, meta
    )

    assert np.array_equal(code, words.code)


@pytest.mark.parametrize(("bits", "groups", "codes", "all_bits"), [(4, 2, 1536, 1920), (16, 1, 6144, 6144)])
def test_storage_is_codes_and_metadata(bits: int, groups: int, codes: int, all_bits: int) -> None:
    x, fmt = tensor_of(bits, groups)

    assert (codes, all_bits) == (fmt.encode(x).storage_bits(metadata=False), fmt.encode(x).storage_bits())


def test_fields_are_bit_patterns_without_stages() -> None:
    x, fmt = tensor_of(4)
    tensor = fmt.encode(x)
    fields = tensor.fields()
    loaded = fmt.of_words(tensor.words(), tensor.metadata())

    assert list(fields) == ["code", "scale", "zero", "s32", "inv32", "status"]
    assert list(loaded.fields()) == ["code", "scale", "zero"]
    assert all(
        np.asarray(field).dtype.kind == "u" and np.asarray(field).max() < 1 << field.bits for field in fields.values()
    )


def test_equality_is_of_stored_bits_and_formats() -> None:
    x, fmt = tensor_of(4)
    tensor = fmt.encode(x)

    assert tensor.equals(fmt.encode(x)) and not tensor.equals(x)
    assert not tensor.equals(Affine(4, zero="min").encode(x)) and not tensor.equals(fmt.encode(-x))


def test_arrays_are_read_only() -> None:
    x, fmt = tensor_of(4)
    with pytest.raises(ValueError, match="read-only"):
        fmt.encode(x).code[0] = 1


def test_affine_tensor_rejects_packed_bytes_of_another_length() -> None:
    x, fmt = tensor_of(4)
    tensor = fmt.encode(x)
    with pytest.raises(Refused, match="384 codes of 4 bits need 192 bytes, got 191"):
        fmt.unpack(tensor.pack()[:-1], tensor.shape, tensor.scale, tensor.zero)


def test_repr_names_format_and_shape() -> None:
    x, fmt = tensor_of(4)

    assert repr(fmt.encode(x)) == f"AffineTensor({fmt!r}, shape=(3, 2, 64))"
