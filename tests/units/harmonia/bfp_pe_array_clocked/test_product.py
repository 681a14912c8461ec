"""Whole products: edge by edge equal to the kernel, and to dot products in sums, at the sizes of models."""

from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats import BFP4, BFP8
from refemu.formats.groupint import INT4_G128
from refemu.units.harmonia import bfp_pe_array
from refemu.units.harmonia.bfp_pe import bfp_dot, bfp_dot_int
from refemu.units.harmonia.bfp_pe_array import operands
from refemu.units.harmonia.bfp_pe_array_clocked import multiply


def tensors(kind: str, rows: int, columns: int, inner: int) -> tuple[Any, Any, np.ndarray]:
    """Operands, and their product by the dot functions."""
    rng = np.random.default_rng(inner)
    a = BFP8.encode(rng.normal(size=(rows, inner)).astype(np.float16))
    w = rng.normal(size=(columns, inner))
    if kind == "int4":
        b: Any = INT4_G128.encode(w.astype(np.float32))
        return a, b, bfp_dot_int(a, b)
    b = (BFP8 if kind == "bfp8" else BFP4).encode(w.astype(np.float16))
    return a, b, bfp_dot(a, b)


@pytest.mark.parametrize("activity", ["by_slot", "parallel"])
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("kind", ["int4", "bfp4", "bfp8"])
@pytest.mark.parametrize("size", [(3, 5, 150), (1, 1, 32), (4, 3, 20)])
def test_steps_and_kernel_agree(size: tuple[int, int, int], kind: str, overlap: bool, activity: Any) -> None:
    a, b, due = tensors(kind, *size)
    options: dict[str, Any] = {"rows": 2, "columns": 3, "activity": activity, "overlap": overlap}

    stepped, compiled = (multiply(operands(a, b), **options, jit=jit) for jit in (False, True))

    assert stepped.equals(compiled)
    assert compiled.acc.view(np.float32).tobytes() == due.tobytes()
    assert (compiled.lost, compiled.missed) == (0, 0)


@pytest.mark.parametrize("activity", ["by_slot", "parallel"])
def test_a_mode_for_each_group(activity: Any) -> None:
    """[harmonia §III-B] Values of both precisions: groups at 4 bits take one cycle, those at 8 bits two."""
    a, b, due = tensors("bfp8", 4, 5, 192)
    fields = operands(a, b)
    codes = fields["b"].reshape(5, 6, 32)
    codes[:, ::3] &= 0xF0
    wide = multiply(fields, rows=2, columns=3, activity=activity)
    codes[:, ::3] >>= 4
    fields["mode"][::3] = 1

    mixed = multiply(fields, rows=2, columns=3, activity=activity)

    assert mixed.acc.tobytes() == wide.acc.tobytes() != due.tobytes()
    assert wide.cycles - mixed.cycles == 2 * 4  # groups, tiles
    assert mixed.equals(multiply(fields, rows=2, columns=3, activity=activity, jit=False))


def test_a_tile_is_the_whole_operation() -> None:
    """The counters of a tile are those of bfp_pe_array, with the edge in which the last column is read."""
    a, b, _ = tensors("bfp8", 5, 11, 96)
    whole = bfp_pe_array.UNIT.run_compiled(**bfp_pe_array.tile(a, b), groups=3)
    clocked = multiply(operands(a, b))

    assert clocked.acc.tolist() == whole.acc.reshape(8, 16)[:5, :11].tolist()
    assert clocked.cycles == whole.cycles + 1
    for name in ("macs", "fp32_adds", "act_hops", "weight_broadcasts", "busy_pe_cycles"):
        assert getattr(clocked, name) == getattr(whole, name), name


def test_a_reduction_of_4096() -> None:
    """[harmonia §IV-A] 128 groups; f * G + 16 edges a tile, or f * G where tiles overlap."""
    a, b, due = tensors("int4", 16, 64, 4096)
    apart, together = (multiply(operands(a, b), overlap=overlap) for overlap in (False, True))

    assert apart.acc.view(np.float32).tobytes() == together.acc.view(np.float32).tobytes() == due.tobytes()
    assert (apart.cycles, together.cycles) == (8 * (128 + 16), 8 * 128 + 16)
    assert apart.macs == 16 * 64 * 4096 and apart.busy_pe_cycles == 16 * 64 * 128


def test_short_reductions_overlap_until_one_column_leaves() -> None:
    """D-harmonia-43: a head of 64 features takes 2 cycles in a column, and 16 columns leave one after the other."""
    a, b, due = tensors("bfp4", 16, 32, 64)
    product = multiply(operands(a, b), overlap=True)

    assert product.acc.view(np.float32).tobytes() == due.tobytes()
    assert product.cycles == 3 * 16 + 2 + 16 and product.missed == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a_mag": np.full((2, 64), 256)}, "a_mag 256"),
        ({"b": np.zeros((3, 32), int)}, r"b must have shape \(3, 64\) for 2 groups, got \(3, 32\)"),
        ({"mode": np.array([3, 0])}, "mode 3"),
        ({"w_scale": np.full((3, 2), 0x7C00)}, "w_scale must be finite"),
        ({"a_exp": np.zeros((2, 3), int)}, "a_exp must have shape"),
    ],
)
def test_bfp_pe_array_clocked_rejects_invalid_inputs(change: dict[str, Any], message: str) -> None:
    a, b, _ = tensors("int4", 2, 3, 64)
    with pytest.raises(Refused, match=message):
        multiply(operands(a, b) | change)
    fields = operands(a, b)
    fields.pop("b_exp")
    with pytest.raises(Refused, match="operands must be"):
        multiply(fields)
