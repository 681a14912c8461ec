"""The element-wise index product against the oracle: indices, masks, values, and its sum against the MatMul."""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.formats.kllm.kmeans import Codebook, KMeans, TopK
from refemu.units.kllm import index_matmul, index_product
from refemu.units.kllm.index_product import IndexProduct
from tests.oracles.kllm import units
from tests.units.kllm.kmeans_operands import ARITHS, tensor, vector

compiled_run: Any = partial(index_product.product, elements=index_product.UNIT.run_compiled)
IMPLEMENTATIONS = [pytest.param(index_product.product, id="unit"), pytest.param(compiled_run, id="compiled")]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", ["paper", "exact", "wide table exact"])
@pytest.mark.parametrize(("a_bits", "b_bits"), [(4, 4), (3, 4), (4, 3), (1, 2)])
def test_products_equal_the_oracle(run: Any, name: str, a_bits: int, b_bits: int) -> None:
    """[kllm §III-B1] steps 2 and 3 are skipped; D-kllm-16: read as fp16 values."""
    arith, acc, _, table = ARITHS[name]
    a, b = tensor((3, 50), a_bits, 1, 3), tensor((3, 50), b_bits, 2, 3)
    product = run(a, b, preset=arith)
    got = product.tensor

    for m in range(3):
        index, mask, values = units.product(vector(a, m), vector(b, m), acc, table)
        assert (got.rows()[m].tolist(), got.rows(got.mask)[m].astype(int).tolist()) == (index, mask)
        assert got.dequantize_fp16()[m].view(np.uint16).tolist() == values
    assert got.bits == a_bits + b_bits
    assert (product.concats, product.products_sparse) == (150, int(got.mask.sum()))


def test_compiled_form_equals_unit_and_axis_is_preserved() -> None:
    a, b = tensor((20, 3), 4, 3, 2, axis=0), tensor((20, 3), 4, 4, 2, axis=0)
    products = [run(a, b) for run in (index_product.product, compiled_run)]

    assert products[0].equals(products[1]) and not products[0].equals(index_product.product(b, a))
    assert products[0].tensor.axis == 0 and products[0].tensor.equals(products[1].tensor)


def test_the_sum_of_its_entries_is_the_matmul() -> None:
    """With exact sums over a table that holds every product, no outliers: entries times the scales."""
    arith = ARITHS["wide table exact"][0]
    a, b = tensor((1, 40), 4, 5), tensor((1, 40), 4, 6)
    product = index_product.product(a, b, preset=arith).tensor
    exact = sum((Fraction(float(value)) for value in product.dequantize().ravel()), Fraction(0))
    y = index_matmul.matmul(a, b, preset=arith).y[0, 0]

    assert y == np.float64(exact).astype(np.float16)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_index_product_rejects_invalid_inputs(run: Any) -> None:
    a, zeros = tensor((2, 10), 4, 1), tensor((2, 10), 4, 1, zero_point=True)
    with pytest.raises(RefusedType, match="index_product: operands must be KMeansTensors, got ndarray"):
        run(a, np.zeros(3))
    with pytest.raises(Refused, match="index_product: operands must have fp16 scales and no zero points"):
        run(a, zeros)
    with pytest.raises(Refused, match="index_product: operands must have fp16 scales and no zero points"):
        run(index_product.product(a, a, preset="exact").tensor, a)
    with pytest.raises(Refused, match="index_product: operands must have one shape and axis"):
        run(a, tensor((3, 10), 4, 1))
    with pytest.raises(Refused, match=r"index_product: a_bits must be in \[1, 4\], got 8"):  # D-kllm-16
        run(index_product.product(a, a).tensor, a)


def test_a_product_that_leaves_fp16_is_flagged() -> None:
    result = index_product.run([1], [2], [1], [0], [0x7BFF], [0x4000])

    assert result.overflow.tolist() == [True] and result.outlier.tolist() == [0x7C00] and result.overflows == 1


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("axis", [0, 1])
def test_product_beyond_fp16_has_no_tensor(run: Any, axis: int) -> None:
    """Overflow is the hardware's result: answered and flagged. What holds no infinity says so before it is asked."""
    x = np.array([[1, 2, 3, 4, 5, 6], [-60000, 2, 3, 4, 5, 60000]], np.float16)
    tensors = [
        KMeans(Codebook(1, np.array([-1, 1], np.float16)), TopK(k=1)).encode(one if axis else one.T, axis)
        for one in (x[:1], x)
    ]
    fine, lost = (run(one, one) for one in tensors)
    why = f"outlier must be finite, got inf at index {(1, 0) if axis else (0, 1)}"

    assert (fine.why_not(), lost.why_not()) == (None, why)
    assert fine.tensor.dequantize_fp16().ravel()[[0, -1]].tolist() == [1, 36]
    assert int(np.count_nonzero(lost.bits.overflow)) == lost.bits.overflows == 2
    assert lost.bits.outlier.view(np.float16)[lost.bits.mask].tolist().count(float("inf")) == 2
    shape = (2, 6) if axis else (6, 2)
    assert repr(lost) == f"Product(2 bits, shape={shape}, axis={axis}, 4 outliers, no tensor: {why})"
    assert repr(fine) == f"Product(2 bits, shape={(1, 6) if axis else (6, 1)}, axis={axis}, 2 outliers)"
    with pytest.raises(Refused) as refusal:
        _ = lost.tensor
    assert str(refusal.value) == f"index_product: the product has no tensor: {why}; take its words from `bits`"


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("scale", "word"), [(1024, "inf"), (2.0**-13, "0.0")])
def test_product_of_scales_leaves_fp16_at_both_ends(run: Any, scale: float, word: str) -> None:
    """With `exact` the product of scales is a float32, which holds every one."""
    tensor = KMeans(Codebook(1, np.array([-1, 1], np.float16))).encode(np.float16([[0.5, 1], [scale / 2, scale]]))

    assert run(tensor, tensor).why_not() == f"scale must be positive and finite, got {word} at index (1,)"
    assert run(tensor, tensor, preset="exact").tensor.scales.tolist() == [1, float(scale) ** 2]


@pytest.mark.parametrize("wrong", [{"a_bits": 5}, {"b_bits": 0}])
def test_index_product_rejects_widths_of_no_concat_unit(wrong: dict[str, int]) -> None:
    with pytest.raises(Refused, match=f"index_product: {next(iter(wrong))} must be in"):
        IndexProduct(**wrong)


def test_preset_may_be_choices() -> None:
    a = tensor((2, 10), 4, 1)

    assert index_product.product(a, a, preset=KllmArith()).equals(index_product.product(a, a))


def test_index_product_repr_evaluates_back() -> None:
    assert repr(IndexProduct(3, 4)) == "IndexProduct(a_bits=3, b_bits=4)"
