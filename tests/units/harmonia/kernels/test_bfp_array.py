"""The kernel of the clocked array: its dot product, and counts of a product of odd size."""

import numpy as np

from refemu.formats import BFP8
from refemu.units.harmonia.bfp_pe_array import operands
from refemu.units.harmonia.bfp_pe_array_clocked import multiply
from refemu.units.harmonia.kernels import bfp_array


def test_dot_products_at_their_bounds() -> None:
    x, y = np.full(32, -255, np.int16), np.full(32, 15, np.int16)

    assert bfp_array.dot(x, y) == -122_400
    assert bfp_array.dot(np.arange(32, dtype=np.int16), np.ones(32, np.int16)) == 496


def test_powers_reach_all_exponents() -> None:
    """Exponents 0 to 31 of both operands in every mode."""
    lowest, highest = bfp_array.POINT[2] + 2, bfp_array.POINT[1] + 62

    assert bfp_array.POWERS[lowest + bfp_array.LOWEST] == 2.0**-42
    assert bfp_array.POWERS[highest + bfp_array.LOWEST] == 2.0**22


def test_counts_of_a_product_of_odd_size() -> None:
    rng = np.random.default_rng(1)
    a, b = (BFP8.encode(rng.normal(size=(n, 96)).astype(np.float16)) for n in (5, 7))

    product = multiply(operands(a, b), rows=2, columns=3)

    tiles = 3 * 3
    assert product.cycles == tiles * (6 + 3)
    assert (product.macs, product.psums, product.fusions) == (5 * 7 * 96, 5 * 7 * 6, 5 * 7 * 3)
    assert product.act_hops == 5 * 3 * (2 + 2 + 0)  # to the last column of each tile
    assert product.weight_broadcasts == 3 * 7 * 3  # row blocks, columns, groups
