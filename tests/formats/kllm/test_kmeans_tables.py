"""Tables made of codebooks: products, squares, functions; the tables of the paper's sizes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from refemu.arith.tables import table16
from refemu.formats import Codebook, cartesian, function_table, squares
from refemu.units.kllm.clustering.cases import TRAINED
from tests.formats.kllm.kmeans_strategies import codebooks, positives
from tests.oracles import fp16
from tests.oracles.kllm import formats

BOOK = Codebook(4, TRAINED)


@settings(deadline=None, max_examples=150)
@given(codebooks, codebooks, st.sampled_from(["fp16", "fp32"]))
def test_entry_is_product_of_two_centroids(a: Codebook, b: Codebook, table: str) -> None:
    """[kllm §III-B], D-kllm-5, D-kllm-6: entry (i << nB) | j; a zero is +0."""
    wanted = formats.cartesian(a.values.tolist(), b.values.tolist(), table)
    assume(np.isfinite(wanted).all())
    found = cartesian(a, b, table)

    assert found.centroids.tolist() == wanted and not np.signbit(found.centroids[found.centroids == 0]).any()
    assert (found.bits, found.entry_bits) == (a.bits + b.bits, 16 if table == "fp16" else 32)


@settings(deadline=None, max_examples=100)
@given(codebooks, st.sampled_from(["fp16", "fp32"]))
def test_squares_are_those_of_the_oracle(book: Codebook, table: str) -> None:
    """[kllm §III-C]: 2^n of them instead of N."""
    wanted = formats.squares(book.values.tolist(), table)
    assume(np.isfinite(wanted).all())

    assert squares(book, table).centroids.tolist() == wanted


@pytest.mark.parametrize(("bits", "entries"), [((1, 2), 8), ((4, 4), 256), ((3, 4), 128), ((3, 3), 64)], ids=str)
def test_sizes_of_product_codebooks(bits: tuple[int, int], entries: int) -> None:
    """[kllm §III-B, Fig. 3a]: 8; 256 at W4A4, 128 at W4A3; 2 KB hold four of 256 fp16 entries [kllm Table I]."""
    books = [Codebook(n, np.float16(np.linspace(-1, 1, 1 << n))) for n in bits]
    found = cartesian(books[0], books[1])

    assert found.values.size == entries
    assert 4 * cartesian(BOOK, BOOK).values.nbytes == 2048


@settings(deadline=None, max_examples=100)
@given(codebooks, st.none() | positives, st.sampled_from(["silu", "gelu_erf", "tanh"]))
def test_function_is_looked_up_at_every_scaled_centroid(book: Codebook, scale: int | None, name: str) -> None:
    """[kllm §III-C, Eq. (2)]: f(r16(s * c)); without a scale f(c)."""
    table = table16(name)
    places = [c if scale is None else fp16.mul(scale, c) for c in book.values.tolist()]
    assume(all(word & 0x7FFF < 0x7C00 for word in places))
    found = function_table(book, table) if scale is None else function_table(book, table, scale)

    assert found.values.tolist() == [formats.positive_zero(int(table[word])) for word in places]


def test_scales_give_a_row_each() -> None:
    """D-kllm-17: a table per token."""
    scales = np.uint16([[0x3C00, 0x4000], [0x3800, 0x3C00]])
    found = function_table(BOOK, table16("silu"), scales)

    assert found.values.shape == (2, 2, 16)
    assert found.values[0, 1].tolist() == function_table(BOOK, table16("silu"), 0x4000).values.tolist()
    assert cartesian(found, BOOK).values.shape == (2, 2, 256)
    assert (
        cartesian(found, BOOK).values[1, 0].tolist()
        == cartesian(function_table(BOOK, table16("silu"), 0x3800), BOOK).values.tolist()
    )


WIDE = Codebook(1, [0x7BFF, 0x7BFF])
BAD = [
    pytest.param(lambda: cartesian(Codebook(5, range(32)), BOOK), ValueError, "at most 8 bits, got 5 \\+ 4", id="bits"),
    pytest.param(
        lambda: cartesian(WIDE, Codebook(1, [0x3C00, 0x4000])),
        ValueError,
        "cartesian: entry 1, 131008.0, overflows fp16",
        id="overflow",
    ),
    pytest.param(lambda: squares(WIDE), ValueError, "squares: entry 0, .* overflows fp16", id="square overflow"),
    pytest.param(lambda: squares(BOOK, "fp64"), ValueError, "table must be one of 'fp16', 'fp32'", id="table"),
    pytest.param(
        lambda: function_table(BOOK, table16("silu")[:4]),
        TypeError,
        r"function must be uint16 \(65536,\)",
        id="short table",
    ),
    pytest.param(
        lambda: function_table(BOOK, table16("log"), name="log"), ValueError, "log is NaN at centroid 0", id="nan"
    ),
    pytest.param(
        lambda: function_table(Codebook(1, [0, 1]), table16("log"), [0x3C00], "log"),
        ValueError,
        r"log is -inf at centroid \(0, 0\)",
        id="inf",
    ),
    pytest.param(lambda: function_table(BOOK, table16("silu"), 0), ValueError, "scale 0 is outside", id="scale 0"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_kmeans_tables_rejects_invalid_inputs(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_table_evaluates_back() -> None:
    for table in (cartesian(BOOK, BOOK), cartesian(BOOK, BOOK, "fp32"), squares(BOOK)):
        assert eval(repr(table)) == table
