"""Bias and norm at the ports of index_matmul: compared with the oracle and with whole tensors, and errors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats.kllm.kmeans_norm import row_sums
from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.units.kllm import index_matmul, index_norm
from refemu.units.kllm.index_matmul import UNIT, IndexMatmul, Norm
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from refemu.units.kllm.index_matmul.cases import drawn
from refemu.units.kllm.index_norm import compiled as index_norm_compiled
from refemu.units.unit import Config
from tests.golden import detecting
from tests.oracles import fp16
from tests.oracles.kllm import formats, units
from tests.units.kllm.kmeans_operands import ARITHS, tensor

ROUNDING = ("paper", "fma", "fp32")
EXACT = {"k": 3, "a_bits": 1, "b_bits": 1, "integer": False, "preset": "exact", "biased": True}
SIZES = {"k": 20, "a_bits": 2, "b_bits": 3, "integer": False}


def oracle(row: dict[str, Any], acc: str) -> int:
    """Y of one row of inputs by the oracle."""
    outliers = [word for word, m in zip(row["a_outlier"], row["a_mask"], strict=True) if m]
    a = formats.Vector(row["a_codebook"], row["a_index"], row["a_scale"], row["a_mask"], outliers)
    b = formats.Vector(row["b_codebook"], row["b_index"], row["b_scale"], [0] * len(row["b_index"]), [])
    products = [fp16.to_float(word) for word in row["products"]]
    shift = (row["shift"], row["row_sum"]) if "shift" in row else None
    return units.divided_column(a, b, products, acc, shift, row.get("bias"))


def rows_of(inputs: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Inputs row by row, as Python integers."""
    return [{name: array[i].tolist() for name, array in inputs.items()} for i in range(len(inputs["a_scale"]))]


@pytest.mark.parametrize("name", ROUNDING)
@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("biased", [False, True])
def test_divided_operands_at_ports_equal_the_oracle(name: str, norm: Any, biased: bool) -> None:
    """D-kllm-37, D-kllm-39, D-kllm-40: divided scale and centroids, minus r16(h * R_n), plus the bias."""
    arith, acc, *_ = ARITHS[name]
    config = Config(**SIZES, preset=arith, biased=biased, norm=norm)
    blocks = [block.inputs for block in UNIT.cases(config, "edge", 0)]
    blocks += drawn("index_matmul", config, UNIT.ports(config).inputs, 12, 12, 3)
    for inputs in blocks:
        unit, compiled_run = (run(**inputs, **config) for run in (index_matmul.run, index_matmul_compiled.run))
        assert unit.y.tolist() == [oracle(row, acc) for row in rows_of(dict(inputs))]
        assert unit.equals(compiled_run)


@pytest.mark.parametrize("name", ["paper", "fma", "fp32", "exact"])
@pytest.mark.parametrize("integer", [False, True])
def test_a_bias_at_the_ports_is_added_last(name: str, integer: bool) -> None:
    """D-kllm-40: Y of the column without a bias, plus the bias; of the exact accumulator both are rounded once."""
    arith = ARITHS[name][0]
    plain, config = (Config(**{**SIZES, "integer": integer}, preset=arith, biased=biased) for biased in (False, True))
    for inputs in drawn("index_matmul", config, UNIT.ports(config).inputs, 12, 12, 3):
        unit, compiled_run = (run(**inputs, **config) for run in (index_matmul.run, index_matmul_compiled.run))
        without = {name: array for name, array in inputs.items() if name != "bias"}
        y = index_matmul.run(**without, **plain).y

        assert unit.equals(compiled_run) and unit.y.tolist() != y.tolist()
        if name in ("paper", "fma"):
            pairs = zip(y.tolist(), inputs["bias"].tolist(), strict=True)
            assert unit.y.tolist() == [fp16.add(word, bias) for word, bias in pairs]


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_index_norm_wires_give_bits_of_tensors(norm: Any) -> None:
    """[kllm §III-C2, Fig. 4] what index_norm answers at its ports, laid on those of index_matmul."""
    layer = norm == "layer"
    a, b = tensor((3, 20), 2, 1, 2), tensor((20, 4), 3, 2, axis=0)
    sums, bias = row_sums(b), np.array([0.5, -3, 0, 100], np.float16)
    divisors = index_norm.divisors(a, norm=norm, eps=1e-5, weights=b.codebook)
    y = index_matmul.matmul(a, b, norm=Norm.of(divisors, sums if layer else None), bias=bias).y

    config = Config(**SIZES, preset="paper", biased=True, norm=norm)
    outlier = np.zeros(a.shape, np.uint16)
    outlier[a.mask] = a.outlier
    assert divisors.folded is not None and divisors.divided is not None
    left = {"a_index": a.index, "a_mask": a.mask.astype(np.uint8), "a_outlier": outlier}
    left |= {"a_scale": divisors.folded.view(np.uint16), "b_codebook": divisors.divided.view(np.uint16)}
    if divisors.shift is not None:
        left["shift"] = divisors.shift.view(np.uint16)
    fixed = {"a_codebook": a.codebook.values, "products": cartesian(a.codebook, b.codebook).values}
    inputs = {port: array[:, None] for port, array in left.items()} | fixed
    inputs |= {"b_index": b.index.T, "b_scale": b.scale, "bias": bias.view(np.uint16)}
    if layer:
        inputs["row_sum"] = sums.view(np.uint16)

    for run in (index_matmul.run, index_matmul_compiled.run):
        assert run(**inputs, **config).y.tolist() == y.view(np.uint16).tolist()


@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("name", ["paper", "fma", "fp32", "exact"])
def test_a_matmul_reads_what_the_norm_divided(name: str, norm: Any) -> None:
    """[kllm §III-C2, Fig. 4] the same bits as its own division, and different bits if a wire carries another word."""
    arith = ARITHS[name][0]
    a, b = tensor((3, 40), 4, 5, 3), tensor((40, 5), 4, 6, axis=0)
    sums = row_sums(b, arith) if norm == "layer" else None
    divisors = index_norm_compiled.divisors(a, norm=norm, eps=1e-5, preset=arith).of(b.codebook)
    wired, alone = Norm.of(divisors, sums), Norm(divisors.divisor, divisors.mean, sums)

    assert divisors.equals(divisors.of(b.codebook)) and (divisors.folded is None) == (name == "exact")
    for run in (index_matmul.matmul, index_matmul_compiled.matmul):
        assert run(a, b, preset=arith, norm=wired).equals(run(a, b, preset=arith, norm=alone))
        for wire in ("folded", "divided", "shift"):
            words = getattr(wired, wire)
            if words is not None:
                other = replace(wired, **{wire: words * np.float16(2)})
                assert not run(a, b, preset=arith, norm=other).equals(run(a, b, preset=arith, norm=wired))


def test_bias_far_above_sum_is_decided_exactly() -> None:
    """1 + 2^-11, a tie, decided by a term 60 bits below it, which float64 bounds lose next to the bias."""
    inputs: dict[str, Any] = {
        "a_index": [0, 1, 1],
        "a_mask": [1, 0, 0],
        "a_outlier": [0x1000, 0, 0],
        "a_scale": 0x0001,
        "a_codebook": [0, 0x3C00],
        "b_index": [0, 1, 1],
        "b_mask": [1, 0, 0],
        "b_outlier": [0x3C00, 0, 0],
        "b_scale": [[0x0001, 0x0400]],
        "b_codebook": [0, 0x3C00],
        "products": [[[0, 0, 0, word]] for word in (0x0001, 0x8001)],
        "bias": 0x3C00,
    }
    for run in (index_matmul.run, index_matmul_compiled.run):
        assert run(**inputs, **EXACT).y.tolist() == [[0x3C01, 0x3C01], [0x3C00, 0x3C00]]


FINITE: dict[str, Any] = {
    "a_index": [0, 1, 1],
    "a_mask": [1, 0, 0],
    "a_outlier": [0x1000, 0x7C00, 0],
    "a_scale": 0x4000,
    "a_codebook": [0, 0x3C00],
    "b_index": [1, 1, 0],
    "b_mask": [0, 0, 1],
    "b_outlier": [0x7C00, 0, 0x3C00],
    "b_scale": 0x4000,
    "b_codebook": [0x7BFF, 0x3C00],
    "products": [0, 0, 0, 0x3C00],
    "bias": 0x3C00,
}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"a_outlier": [0xFC00, 0, 0]}, r"A at an outlier's place is -inf at index \(0,\)"),
        ({"b_mask": [0, 1, 1], "b_outlier": [0, 0x7E00, 0]}, r"B at an outlier's place is nan at index \(1,\)"),
        ({"b_index": [0, 1, 0]}, r"B at an outlier's place is inf at index \(0,\)"),
        ({"products": [0, 0, 0x7C00, 0]}, r"the table is inf at index \(2,\)"),
        ({"bias": 0xFC00}, "the bias is -inf$"),
    ],
)
def test_exact_sums_reject_infinity_where_it_is_read(words: dict[str, Any], message: str) -> None:
    """An outlier that no mask takes, or a centroid times its scale that nothing reads, may be infinite."""
    device = IndexMatmul(**EXACT)
    before = device.state
    with pytest.raises(Refused, match=f"index_matmul: the exact accumulator needs finite operands; {message}"):
        device.step(**FINITE | words)
    assert device.state is before
    for run in (index_matmul.run, index_matmul_compiled.run):
        assert np.isfinite(run(**FINITE, **EXACT).y.view(np.float16))
        with pytest.raises(Refused, match="the exact accumulator needs finite operands"):
            run(**FINITE | words, **EXACT)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "layer", "preset": "exact"}, "norm='layer' needs operands that a norm divides, got acc=\"exact\""),
        ({"norm": "rms", "integer": True}, "norm='rms' needs operands that a norm divides, got integers"),
        ({"norm": "batch"}, "norm must be one of 'none', 'rms', 'layer', got 'batch'"),
    ],
)
def test_index_matmul_rejects_norms_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=f"index_matmul: {message}"):
        IndexMatmul(8, 2, 2, **options)


def test_ports_of_the_options() -> None:
    """Addends in their order after the operands; after a norm no outliers of B."""
    plain = [port.name for port in UNIT.ports(UNIT.configs["w4a4"]).inputs]
    layer = [port.name for port in UNIT.ports(UNIT.configs["layer"]).inputs]

    without = [name for name in plain if name not in ("b_mask", "b_outlier")]
    assert layer == [*without, "shift", "row_sum", "bias"]


@pytest.mark.parametrize(
    "says", ["the bias joins the sparse part", "the bias is added before the shift", "the MACs of the merge round once"]
)
def test_order_of_merge_is_detected(says: str) -> None:
    """D-kllm-40: a bias or a shift that is added elsewhere; D-kllm-3: the MACs of the merge round twice."""
    (other,) = (each for each in UNIT.variants if each.says == says)
    found = detecting.by(detecting.drawn("index_matmul-layer"), other)

    assert any(each.startswith("edge/") for each in found)


@pytest.mark.parametrize("port", ["bias", "shift", "row_sum", "a_scale", "b_codebook"])
def test_input_that_is_dropped_is_detected(port: str) -> None:
    answers = detecting.drawn("index_matmul-layer")
    found = detecting.misread(answers, lambda inputs: {**inputs, port: np.zeros_like(inputs[port])})

    assert any(each.startswith("edge/") for each in found)
