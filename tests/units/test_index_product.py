"""The element-wise index product against the oracle: indices, masks, values, and its sum against the MatMul."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.formats.kllm_arith import KllmArith
from refemu.units import index_matmul, index_product, index_product_jit
from refemu.units.index_product import IndexProduct
from tests.oracles import kllm_units as oracle
from tests.units.kmeans_operands import ARITHS, tensor, vector

IMPLEMENTATIONS = [pytest.param(index_product.run, id="unit"), pytest.param(index_product_jit.run, id="twin")]


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
        index, mask, values = oracle.product(vector(a, m), vector(b, m), acc, table)
        assert (got.rows()[m].tolist(), got.rows(got.mask)[m].astype(int).tolist()) == (index, mask)
        assert got.dequantized()[m].view(np.uint16).tolist() == values
    assert got.bits == a_bits + b_bits
    assert (product.concats, product.products_sparse) == (150, int(got.mask.sum()))


def test_twin_equals_unit_and_axis_is_kept() -> None:
    a, b = tensor((20, 3), 4, 3, 2, axis=0), tensor((20, 3), 4, 4, 2, axis=0)
    products = [run(a, b) for run in (index_product.run, index_product_jit.run)]

    assert products[0].equals(products[1]) and not products[0].equals(index_product.run(b, a))
    assert products[0].tensor.axis == 0 and products[0].tensor.equals(products[1].tensor)


def test_the_sum_of_its_entries_is_the_matmul() -> None:
    """With exact sums over a table that holds every product, no outliers: entries times the scales."""
    arith = ARITHS["wide table exact"][0]
    a, b = tensor((1, 40), 4, 5), tensor((1, 40), 4, 6)
    product = index_product.run(a, b, preset=arith).tensor
    exact = sum((Fraction(float(value)) for value in product.decode().ravel()), Fraction(0))
    y = index_matmul.run(a, b, preset=arith).y[0, 0]

    assert y == np.float64(exact).astype(np.float16)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_refuses(run: Any) -> None:
    a, zeros = tensor((2, 10), 4, 1), tensor((2, 10), 4, 1, zero_point=True)
    with pytest.raises(RefusedType, match="index_product: two KMeansTensors are needed, got ndarray"):
        run(a, np.zeros(3))
    with pytest.raises(Refused, match="index_product: operands have fp16 scales and no zero points"):
        run(a, zeros)
    with pytest.raises(Refused, match="index_product: operands have fp16 scales and no zero points"):
        run(index_product.run(a, a, preset="exact").tensor, a)
    with pytest.raises(Refused, match="index_product: both operands need one shape and axis"):
        run(a, tensor((3, 10), 4, 1))
    with pytest.raises(Refused, match=r"index_product: a_bits must be in \[1, 4\], got 8"):  # D-kllm-16
        run(index_product.run(a, a).tensor, a)


def test_a_product_that_leaves_fp16_is_flagged_and_makes_no_tensor() -> None:
    result = index_product.run_ports([1], [2], [1], [0], [0x7BFF], [0x4000])

    assert result.overflow.tolist() == [True] and result.outlier.tolist() == [0x7C00] and result.overflows == 1


@pytest.mark.parametrize("wrong", [{"a_bits": 5}, {"b_bits": 0}])
def test_refuses_widths_of_no_concat_unit(wrong: dict[str, int]) -> None:
    with pytest.raises(Refused, match=f"index_product: {next(iter(wrong))} must be in"):
        IndexProduct(**wrong)


def test_preset_may_be_choices() -> None:
    a = tensor((2, 10), 4, 1)

    assert index_product.run(a, a, preset=KllmArith()).equals(index_product.run(a, a))


def test_repr_evaluates_back() -> None:
    assert repr(IndexProduct(3, 4)) == "IndexProduct(a_bits=3, b_bits=4)"
