"""Functions by table: indices stay, tables and outliers are the oracle's, evaluations, errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.tables import table16
from refemu.formats.kllm.kmeans import Codebook, KMeans, KMeansTensor, TopK
from refemu.units.kllm import index_function
from refemu.units.kllm.index_function import IndexFunction, relu
from refemu.units.kllm.index_function import compiled as index_function_compiled
from tests.oracles.kllm import formats, functions
from tests.units.kllm.kmeans_operands import vectors

IMPLEMENTATIONS = [
    pytest.param(index_function.apply, id="unit"),
    pytest.param(index_function_compiled.apply, id="compiled"),
]
CODEBOOK = Codebook(4, (np.arange(-15, 16, 2) / 16).astype(np.float16))
ROWS = ((np.arange(60) * 29 % 61 - 30) / np.float32(8)).astype(np.float16).reshape(3, 20)
NAMES = ["silu", "gelu_erf", "gelu_tanh", "tanh", "sigmoid", "relu"]


def encoded(x: np.ndarray = ROWS, k: int = 1, codebook: Codebook = CODEBOOK) -> KMeansTensor:
    return KMeans(codebook, TopK(k=k) if k else None).encode(x)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["token", "literal"])
def test_tables_and_outliers_are_the_oracles(run: Any, name: str, mode: str) -> None:
    """[kllm §III-C1, Eq. (2)], D-kllm-17: a table per token from its scale; r16(s f(c)) is the text's."""
    tensor = encoded()
    result = run(tensor, name, mode=mode)
    expected = [functions.index_function(vector, name, mode) for vector in vectors(tensor)]

    assert result.entries.tolist() == [table for table, _ in expected]
    assert result.value.tolist() == [word for _, outliers in expected for word in outliers]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_a_static_scale_makes_one_table(run: Any) -> None:
    """[kllm §III-C1], D-kllm-17: `offline`, 2**n evaluations for a whole layer."""
    tensor = encoded()
    result = run(tensor, "silu", mode="offline", scale=2.5)
    table, _ = functions.index_function(vectors(tensor)[0], "silu", "offline", int(np.float16(2.5).view(np.uint16)))

    assert result.entries.tolist() == table
    assert result.evaluations == 16 + tensor.outlier.size


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_index_stays_and_table_replaces_codebook(run: Any) -> None:
    """[kllm §III-C1] the result is a K-Means tensor of the same indices, scale 1, read without any arithmetic.

    D-kllm-17.
    """
    tensor = encoded()
    result = run(tensor, "gelu_tanh")
    words = table16("gelu_tanh")[tensor.dequantize_fp16().view(np.uint16)]
    expected = np.where(words == 0x8000, 0, words).astype(np.uint16).view(np.float16)

    assert result.tensor.index is tensor.index and result.tensor.codebook.kind == "table"
    assert (result.tensor.scale == 0x3C00).all() and np.array_equal(result.tensor.mask, tensor.mask)
    assert np.array_equal(result.tensor.dequantize_fp16(), expected)
    assert result.tensor.dequantize().tolist() == result.tensor.dequantize_fp16().tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("mode", "tables"), [("token", 3), ("literal", 1)])
def test_evaluations(run: Any, mode: str, tables: int) -> None:
    """[kllm §III-C1] 2**n evaluations instead of N, per token where scales differ, and one per outlier."""
    assert run(encoded(), "silu", mode=mode).evaluations == 16 * tables + 6


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_relu_commutes_with_the_scale(run: Any) -> None:
    """D-kllm-17: for homogeneous functions the text's offline table is right."""
    assert np.array_equal(run(encoded(), "relu").entries, run(encoded(), "relu", mode="literal").entries)


@settings(deadline=None, max_examples=40)
@given(words=st.lists(st.integers(0, 0xFFFF), min_size=16, max_size=16), scale=st.integers(1, 0x7BFF))
def test_any_table_of_the_user(words: list[int], scale: int) -> None:
    """A function is any 65,536 words; x maps to x here but for 16 chosen places."""
    function = np.arange(1 << 16).astype(np.uint16)
    function[np.array(words)] = np.array(words[::-1], np.uint16) & 0xBBFF
    codebook = CODEBOOK.values.tolist()
    device = IndexFunction(function, outliers=0)
    last = list(device.steps(CODEBOOK.values, scale))[-1]
    assert (
        device.function is function and index_function.UNIT.ports({"function": function, "outliers": 0}) == device.ports
    )
    vector = formats.Vector(codebook, [], scale, [], [])

    assert list(last.entries) == functions.index_function(vector, lambda u: int(function[u]))[0]


def test_relu_is_exact_on_every_word() -> None:
    every = np.arange(1 << 16)
    positive = (every > 0) & (every <= 0x7C00)

    assert relu().tolist() == np.where(positive, every, 0).tolist()


@pytest.mark.parametrize("shape", [(5,), (2, 3, 8)])
@pytest.mark.parametrize("mode", ["token", "literal"])
def test_compiled_form_equals_unit_on_tensors(shape: tuple[int, ...], mode: str) -> None:
    x = np.linspace(-3, 3, int(np.prod(shape))).astype(np.float16).reshape(shape)
    for axis in range(len(shape)):
        tensor = KMeans(CODEBOOK, None).encode(x, axis)
        unit, compiled_run = (
            run(tensor, "silu", mode=mode) for run in (index_function.apply, index_function_compiled.apply)
        )
        assert unit.equals(compiled_run) and unit.tensor is not None and unit.tensor.shape == shape


def test_a_table_may_pass_through_another_function() -> None:
    """Codebooks with a row per vector are taken too: functions may follow each other."""
    first = index_function.apply(encoded(), "silu").tensor
    assert first is not None
    unit, compiled_run = (run(first, "tanh") for run in (index_function.apply, index_function_compiled.apply))

    assert unit.equals(compiled_run) and unit.entries.shape == (3, 16)


def test_a_zero_is_plus_zero() -> None:
    """silu of the smallest negative value is -0: an entry of a codebook is +0, an outlier keeps its sign."""
    x = np.array([0x8001, 0x8001, 0x3C00, 0x4900], np.uint16).view(np.float16)
    tensor = KMeans(Codebook(1, np.array([0x8001, 0x3C00], np.uint16)), TopK(k=1)).encode(x)

    assert table16("silu")[0x8001] == 0x8000
    for run in (index_function.apply, index_function_compiled.apply):
        result = run(tensor, "silu")
        assert result.entries.tolist() == [0, int(table16("silu")[0x3C00])] and 0x8000 in result.value.tolist()


def test_events_of_a_vector() -> None:
    device = IndexFunction("relu", bits=1, outliers=2)
    states = list(device.steps([0xBC00, 0x3C00], 0x4000, [0x4900, 0xC900]))

    assert [state.event for state in states] == ["centroid", "centroid", "outlier", "outlier"]
    assert (states[-1].entries, states[-1].value) == ((0, 0x4000), (0x4900, 0))
    with pytest.raises(Refused, match="step needs the inputs of an operation, got none"):
        device.step()


def nan_at(word: int) -> np.ndarray:
    function = np.zeros(1 << 16, np.uint16)
    function[word] = 0x7E00
    return function


BAD_CALLS = [
    pytest.param("silo", {}, Refused, "unknown function 'silo'; did you mean 'silu'", id="name"),
    pytest.param(np.zeros(9, np.uint16), {}, RefusedType, r"a name or uint16 \(65536,\), got uint16", id="table"),
    pytest.param("recip", {"mode": "literal"}, Refused, "recip must be finite, got inf at centroid 1", id="infinite"),
    pytest.param(nan_at(0x4D00), {}, Refused, "table must be finite, got nan at outlier 1", id="nan outlier"),
    pytest.param("silu", {"mode": "static"}, Refused, "mode must be one of 'token'", id="mode"),
    pytest.param("silu", {"mode": "offline"}, Refused, 'scale must be given with mode="offline"', id="no scale"),
    pytest.param("silu", {"scale": 2.0}, Refused, "and only there, got 2.0", id="scale"),
    pytest.param("silu", {"mode": "offline", "scale": 0.1}, Refused, "one positive fp16 value, got 0.1", id="not fp16"),
    pytest.param("silu", {"mode": "offline", "scale": -2.0}, Refused, "one positive fp16 value", id="negative"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("function", "options", "error", "message"), BAD_CALLS)
def test_index_function_rejects_invalid_inputs(
    run: Any, function: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    tensor = KMeans(Codebook(1, np.array([-1, 0], np.float16)), TopK(k=1)).encode(np.array([-9, -2, 0, 20], np.float16))
    with pytest.raises(error, match=message):
        run(tensor, function, **options)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_index_function_rejects_other_tensors(run: Any) -> None:
    shifted = KMeans(CODEBOOK, None, zero_point=True).encode(ROWS)
    with pytest.raises(Refused, match="no zero points"):
        run(shifted, "silu")
    with pytest.raises(RefusedType, match="must be a KMeansTensor, got ndarray"):
        run(ROWS, "silu")


def test_rejected_evaluation_changes_nothing() -> None:
    device = IndexFunction("exp", bits=1, outliers=0)
    device.step((0, 0x3C00), 0x4C00)
    before = device.snapshot()
    with pytest.raises(Refused, match="exp must be finite, got inf at centroid 1"):
        device.step()

    assert device.snapshot() == before


def test_index_function_repr_evaluates_back() -> None:
    device = IndexFunction("relu", bits=2, outliers=3, mode="literal")

    assert repr(device) == "IndexFunction(function='relu', bits=2, outliers=3, mode='literal')"
    assert eval(repr(device)).snapshot() == device.snapshot()
