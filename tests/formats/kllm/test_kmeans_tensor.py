"""An encoded tensor: values, fp16 values, fields, storage, packing, and errors."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.formats import Codebook, KMeans, KMeansTensor, Thresholds, TopK, cartesian
from refemu.formats.kllm.compiled import kmeans as kmeans_compiled
from refemu.formats.kllm.kmeans_tensor import unpack
from refemu.units.kllm.clustering.cases import TRAINED
from tests.formats.kllm.kmeans_strategies import codebooks, positives, words
from tests.oracles.kllm import formats

BOOK = Codebook(4, TRAINED)
DEQUANTIZERS = [
    pytest.param(KMeansTensor.dequantize_fp16, id="format"),
    pytest.param(kmeans_compiled.dequantized, id="compiled"),
]
X = np.random.default_rng(3).standard_normal((3, 50)).astype(np.float16)
TENSOR = KMeans(BOOK, TopK(k=2)).encode(X)


@pytest.mark.parametrize("dequantized", DEQUANTIZERS)
@settings(deadline=None, max_examples=150)
@given(st.data(), codebooks, positives, st.none() | words)
def test_values_are_the_oracles(
    dequantized: Callable[[KMeansTensor], np.ndarray], data: st.DataObject, book: Codebook, scale: int, zero: int | None
) -> None:
    """[kllm Eq. (1)], D-kllm-10, D-kllm-32: s * (c - z) exactly, and rounded once as fp16."""
    index = data.draw(st.lists(st.integers(0, (1 << book.bits) - 1), min_size=1, max_size=8))
    mask = data.draw(st.lists(st.booleans(), min_size=len(index), max_size=len(index)))
    outlier = [data.draw(words) for bit in mask if bit]
    tensor = KMeansTensor(
        book,
        np.array(index, np.uint8),
        np.uint16(scale).reshape(()),
        np.array(mask),
        np.array(outlier, np.uint16),
        zero=None if zero is None else np.uint16(zero).reshape(()),
    )
    vector = formats.Vector(book.values.tolist(), index, scale, [int(bit) for bit in mask], outlier, zero)

    assert tensor.dequantize().tolist() == [float(value) for value in formats.values(vector)]
    assert tensor.dequantize().dtype == np.float64
    found = dequantized(tensor).view(np.uint16).tolist()
    assert [formats.positive_zero(word) for word in found] == [
        formats.positive_zero(word) for word in formats.dequantized(vector)
    ]


@pytest.mark.parametrize("dequantized", DEQUANTIZERS)
@pytest.mark.parametrize("axis", [0, 1])
def test_outliers_have_their_positions(dequantized: Callable[[KMeansTensor], np.ndarray], axis: int) -> None:
    """[kllm §III-D], D-kllm-38: vector by vector, ascending positions, with their bits."""
    x = X.copy().T if axis == 0 else X.copy()
    x.reshape(-1)[5] = -0.0
    tensor = KMeans(BOOK, Thresholds(0.5, 0.25)).encode(x, axis)

    assert tensor.mask.sum() > 100 and dequantized(tensor).shape == x.shape
    assert dequantized(tensor)[tensor.mask].view(np.uint16).tolist() == x[tensor.mask].view(np.uint16).tolist()
    assert dequantized(tensor).tobytes() == tensor.dequantize_fp16().tobytes()
    assert np.array_equal(tensor.dequantize()[tensor.mask], x[tensor.mask])


@pytest.mark.parametrize("dequantized", DEQUANTIZERS)
def test_a_table_may_have_a_row_per_vector(dequantized: Callable[[KMeansTensor], np.ndarray]) -> None:
    """[kllm §III-C], D-kllm-17: functions are tabulated per token."""
    book = Codebook(1, [[1.0, 2.0], [3.0, 4.0]])
    tensor = KMeansTensor(
        book,
        np.uint8([[0, 1, 1], [1, 0, 0]]),
        np.uint16([0x3C00, 0x4000]),
        np.zeros((2, 3), np.bool_),
        np.zeros(0, np.uint16),
    )

    assert tensor.dequantize().tolist() == dequantized(tensor).tolist() == [[1, 2, 2], [8, 6, 6]]


def test_32_bit_scales_and_entries_decode_exactly() -> None:
    """D-kllm-5: what an index product in `exact` holds."""
    table = cartesian(BOOK, BOOK, "fp32")
    scale = np.float32([0.1])
    tensor = KMeansTensor(
        table, np.uint8([[0, 200]]), scale.view(np.uint32), np.zeros((1, 2), np.bool_), np.zeros(0, np.uint16)
    )

    assert tensor.dequantize().tolist() == [[float(scale[0]) * float(table.centroids[i]) for i in (0, 200)]]
    assert tensor.storage_bits(codebook=False) == 2 * 8 + 32 + 2


def test_bits_of_a_vector_of_4096() -> None:
    """[kllm §III-A, §IV-A]: 5.168 bits per value with a mask, 4.291 with a list, the codebook apart (D-kllm-38)."""
    x = np.random.default_rng(1).standard_normal(4096).astype(np.float16)
    tensor = KMeans(BOOK, TopK("1")).encode(x)

    assert tensor.outlier.size == 42
    assert tensor.storage_bits("mask", codebook=False) == 4 * 4096 + 16 + 4096 + 16 * 42 == round(5.168 * 4096)
    assert tensor.storage_bits("list", codebook=False) == 4 * 4096 + 16 + 42 * (16 + 12) == round(4.291 * 4096)
    assert tensor.storage_bits() == tensor.storage_bits(codebook=False) + 256


@pytest.mark.parametrize("outliers", [None, TopK(k=2), Thresholds(1, -1)], ids=str)
@pytest.mark.parametrize("zero_point", [False, True])
def test_storage_is_the_oracles(outliers: Any, zero_point: bool) -> None:
    tensor = KMeans(BOOK, outliers, zero_point).encode(X)
    vectors = [
        formats.Vector(list(TRAINED), row.tolist(), 0, mask.astype(int).tolist(), [], 0 if zero_point else None)
        for row, mask in zip(tensor.index, tensor.mask, strict=True)
    ]

    for layout in ("mask", "list"):
        assert tensor.storage_bits(layout) == formats.storage_bits(vectors, layout)
    if outliers is None:
        assert tensor.storage_bits("none") == formats.storage_bits(vectors, "mask", outliers=False)


def test_column_of_4096_weights_fills_weight_buffer() -> None:
    """[kllm Table I]: 2 KB; element 0 in the low half of byte 0."""
    weights = np.random.default_rng(2).standard_normal((4096, 2)).astype(np.float16)
    tensor = KMeans(BOOK).encode(weights, axis=0)

    assert len(tensor.pack()) == 2 * 2048
    assert tensor.pack()[0] == int(tensor.index[0, 0]) | int(tensor.index[1, 0]) << 4


@pytest.mark.parametrize(("bits", "axis"), [(1, 0), (3, 1), (4, -1)])
def test_packed_indices_come_back(bits: int, axis: int) -> None:
    book = Codebook(bits, np.float16(np.linspace(-1, 1, 1 << bits)))
    tensor = KMeans(book, TopK(k=1)).encode(X, axis)

    assert len(tensor.pack()) == -(-bits * X.size // 8)
    assert unpack(tensor.pack(), tensor).equals(tensor)
    with pytest.raises(ValueError, match=r"codes of . bits need .* bytes"):
        unpack(tensor.pack() + b"\0", tensor)


def test_fields_are_patterns() -> None:
    fields = KMeans(BOOK, TopK(k=2), zero_point=True).encode(X).fields()

    assert {name: (field.bits, np.asarray(field).dtype.kind) for name, field in fields.items()} == {
        "index": (4, "u"),
        "scale": (16, "u"),
        "zero": (16, "u"),
        "mask": (1, "u"),
        "outlier": (16, "u"),
        "codebook": (16, "u"),
    }
    assert np.asarray(fields["codebook"]).tolist() == list(TRAINED)
    assert "zero" not in TENSOR.fields()


def test_tensors_are_equal_in_every_bit_only() -> None:
    assert TENSOR.equals(KMeans(BOOK, TopK(k=2)).encode(X))
    other = TENSOR.index.copy()
    other[0, 0] ^= 1
    changes: list[dict[str, Any]] = [
        {"index": other},
        {"scale": TENSOR.scale + np.uint16(1)},
        {"zero": np.zeros(3, np.uint16)},
        {"codebook": Codebook(4, range(16))},
    ]
    for change in changes:
        assert not TENSOR.equals(dataclasses.replace(TENSOR, **change))
    for encoded in (KMeans(BOOK).encode(X), KMeans(BOOK, TopK(k=2)).encode(X[:2])):
        assert not TENSOR.equals(encoded)
    assert not TENSOR.equals(X)
    with pytest.raises(ValueError, match="read-only"):
        TENSOR.index[0, 0] = 1


def test_repr_says_what_it_holds() -> None:
    assert repr(TENSOR) == "KMeansTensor(4 bits, shape=(3, 50), axis=1, 12 outliers)"
    assert repr(KMeans(BOOK, None, True).encode(X, 0)) == (
        "KMeansTensor(4 bits, shape=(3, 50), axis=0, 0 outliers, with zero points)"
    )


def spoiled(name: str, place: tuple[int, ...], value: Any) -> np.ndarray:
    array = getattr(TENSOR, name).copy()
    array[place] = value
    return array


BAD = [
    pytest.param(
        {"codebook": Codebook(1, [0, 1])}, ValueError, r"index \d+ at index .* is outside \[0, 2\)", id="index"
    ),
    pytest.param({"mask": ~TENSOR.mask}, ValueError, r"mask marks 138 outliers, got \(12,\)", id="mask sum"),
    pytest.param({"outlier": TENSOR.outlier[1:]}, ValueError, r"mask marks 12 outliers, got \(11,\)", id="outliers"),
    pytest.param(
        {"outlier": spoiled("outlier", (3,), 0x7C00)},
        ValueError,
        r"outlier inf at index \(3,\) is not",
        id="infinite outlier",
    ),
    pytest.param(
        {"scale": spoiled("scale", (1,), 0)}, ValueError, r"scale 0\.0 at index \(1,\) is not positive", id="scale 0"
    ),
    pytest.param({"scale": spoiled("scale", (2,), 0xBC00)}, ValueError, r"scale -1\.0 at index \(2,\)", id="negative"),
    pytest.param({"scale": spoiled("scale", (0,), 0x7E00)}, ValueError, r"scale nan at index \(0,\)", id="scale nan"),
    pytest.param({"scale": TENSOR.scale[:2]}, ValueError, r"scale must have shape \(3,\), got \(2,\)", id="scales"),
    pytest.param({"zero": np.uint16([0, 0, 0x7C00])}, ValueError, r"zero inf at index \(2,\)", id="infinite zero"),
    pytest.param(
        {"mask": TENSOR.mask[:2]}, ValueError, r"mask must have shape \(3, 50\), got \(2, 50\)", id="mask shape"
    ),
    pytest.param({"codebook": Codebook(4, [range(16)] * 2)}, ValueError, r"one row, or \(3,\) rows", id="rows"),
    pytest.param({"axis": 2}, TypeError, "has no axis 2", id="axis"),
    pytest.param({"index": TENSOR.index.astype(np.int64)}, TypeError, "index must be uint8, got int64", id="dtype"),
    pytest.param({"scale": TENSOR.scales}, TypeError, "scale must be uint16 or uint32, got float16", id="floats"),
]


@pytest.mark.parametrize(("parts", "error", "message"), BAD)
def test_kmeans_tensor_rejects_invalid_inputs(parts: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dataclasses.replace(TENSOR, **parts)


def test_layouts_are_rejected() -> None:
    with pytest.raises(ValueError, match='layout="none" has no place for 12 outliers'):
        TENSOR.storage_bits("none")
    with pytest.raises(ValueError, match="layout must be one of"):
        TENSOR.storage_bits("dense")


def test_weights_of_4_bits_take_quarter_of_fp16() -> None:
    """[kllm §V-D] "75 %", of the indices alone; with scales and codebook 74.8 % of a matrix 4096 x 64."""
    weights = np.random.default_rng(2).standard_normal((4096, 64)).astype(np.float16)
    tensor = KMeans(BOOK).encode(weights, axis=0)

    assert 4 * len(tensor.pack()) == weights.nbytes
    assert 0.748 < 1 - tensor.storage_bits("none") / (8 * weights.nbytes) < 0.75
