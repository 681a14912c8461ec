"""A field is its codes with a width and a meaning."""

import numpy as np

from refemu.formats import Field


def test_numpy_takes_a_field_for_an_array() -> None:
    field = Field(np.array([[1, 2]], np.uint8), 4, False, "codes")

    assert np.array_equal(field, [[1, 2]])
    assert np.asarray(field).dtype == np.uint8
    assert np.asarray(field, np.int64).dtype == np.int64


def test_field_is_itself_and_can_be_key() -> None:
    """Equality by content would compare arrays, which have no one truth."""
    codes = np.array([1, 2], np.uint8)
    field, other = Field(codes, 4, False, "codes"), Field(codes, 4, False, "codes")

    assert field == field and field != other and len({field, other}) == 2


def test_repr_names_width_and_meaning() -> None:
    assert repr(Field(np.array([1], np.uint8), 4, True, "codes")).endswith("bits=4, signed=True, meaning='codes')")
