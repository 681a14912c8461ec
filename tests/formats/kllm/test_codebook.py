"""A codebook holds finite entries, knows whether it can encode, and evaluates back."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.formats import Codebook
from tests.formats.kllm.kmeans_strategies import words


def test_values_are_patterns_or_floats_that_they_hold() -> None:
    """[kllm §III-A]: the centroids of a layer are fp16; a zero is always +0."""
    floats = [-1.0, -0.0, 0.5, 65504.0]
    patterns = [0xBC00, 0, 0x3800, 0x7BFF]
    books = [
        Codebook(2, floats),
        Codebook(2, np.float16(floats)),
        Codebook(2, np.float32(floats)),
        Codebook(2, [0xBC00, 0x8000, 0x3800, 0x7BFF]),
        Codebook(2, np.array(patterns, np.uint16)),
    ]
    for book in books:
        assert book.values.tolist() == patterns and book.values.dtype == np.uint16
        assert book.centroids.tolist() == [-1.0, 0.0, 0.5, 65504.0] and book.centroids.dtype == np.float32
        assert not np.signbit(book.centroids[1])
        assert book == books[0] and hash(book) == hash(books[0])


def test_32_bit_entries_hold_fp16_products() -> None:
    """D-kllm-5: one codebook of them is a table."""
    book = Codebook(1, [2.0**-48, 65504.0**2], entry_bits=32)

    assert book.centroids.tolist() == [2.0**-48, 65504.0**2]
    assert (book.values.dtype, book.kind) == (np.uint32, "table")


@pytest.mark.parametrize(
    ("book", "kind"),
    [
        (Codebook(1, [0, 0]), "cluster"),
        (Codebook(2, [-1.0, 0.5, 0.5, 0.5]), "cluster"),
        (Codebook(4, np.arange(16)), "cluster"),
        (Codebook(2, [0.5, 0.25, 1.0, 2.0]), "table"),
        (Codebook(5, np.arange(32)), "table"),
        (Codebook(1, [[0, 1], [0, 2]]), "table"),
    ],
    ids=["equal", "repeats", "4 bits", "descends", "5 bits", "two rows"],
)
def test_ascending_codebook_of_16_can_encode(book: Codebook, kind: str) -> None:
    """[kllm §IV-A]: ports of Concat have 4 bits."""
    assert book.kind == kind
    assert (book.why_not() is None) == (kind == "cluster")


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 4).flatmap(lambda bits: st.lists(words, min_size=1 << bits, max_size=1 << bits)))
def test_codebook_repr_evaluates_back(drawn: list[int]) -> None:
    book = Codebook(len(drawn).bit_length() - 1, drawn)

    assert eval(repr(book)) == book
    assert repr(Codebook(1, [0xB800, 0x38AB])) == "Codebook(bits=1, values=[0xB800, 0x38AB])"
    for other in (Codebook(1, [[0, 1], [0, 2], [3, 4]]), Codebook(1, [0.5, 3.0], 32), Codebook(8, np.arange(256))):
        assert eval(repr(other)) == other


def test_different_codebooks_are_not_equal() -> None:
    book = Codebook(1, [0, 1])

    assert book not in (Codebook(1, [0, 2]), Codebook(2, [0, 1, 1, 1]), Codebook(1, [0, 1], 32), [0, 1])
    assert Codebook(1, [[0, 1]]) != book


BAD = [
    pytest.param((2, [0, 1, 2]), ValueError, r"2 bits need 4 values, got shape \(3,\)", id="too few"),
    pytest.param((1, [0, 1, 2]), ValueError, r"1 bits need 2 values, got shape \(3,\)", id="too many"),
    pytest.param((1, 0.5), ValueError, r"got shape \(\)", id="scalar"),
    pytest.param((1, [0, 0x7E00]), ValueError, "centroid 1 is NaN", id="nan"),
    pytest.param((1, [float("nan"), 0.0]), ValueError, "centroid 0 is NaN", id="nan of a float"),
    pytest.param((1, [0xFC00, 0]), ValueError, "centroid 0 is -inf", id="inf"),
    pytest.param((1, [[0, 0], [0, 0x7C00]]), ValueError, r"centroid \(1, 1\) is inf", id="inf in a row"),
    pytest.param((1, [0, 1 << 16]), ValueError, r"pattern 65536 at index \(1,\) is outside", id="17 bits"),
    pytest.param((1, [0.1, 1.0]), ValueError, r"value 0\.1 at index \(0,\) is not one of 16 bits", id="not fp16"),
    pytest.param((1, ["a", "b"]), TypeError, "integers are needed", id="text"),
    pytest.param((0, [0]), ValueError, r"bits must be in \[1, 8\], got 0", id="0 bits"),
    pytest.param((9, [0] * 512), ValueError, r"bits must be in \[1, 8\], got 9", id="9 bits"),
    pytest.param((1, [0, 1], 8), ValueError, "entry_bits must be 16 or 32, got 8", id="entry bits"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
def test_codebook_rejects_invalid_inputs(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Codebook(*arguments)
