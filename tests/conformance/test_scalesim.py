"""Cycles of arrays next to those of the PyPI package `scalesim`, output stationary, without a memory.

A tile of SCALE-Sim takes K + R + C - 2 cycles: sums leave while the last products of the tile are made, so their way
south is never counted. In the array of a paper a sum stays until its last product. The difference is written out for
each array.
"""

import importlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu.models.schemes.olive import array_works
from refemu.models.schemes.olive.array_options import OliveMachine
from refemu.models.schemes.olive.array_works import Layer, Side
from refemu.units.harmonia import bfp_pe_array_clocked
from refemu.units.olive import olive_systolic_clocked

pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed file", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of scalesim
pytest.importorskip("scalesim", reason="no scalesim; pip install -e '.[conformance]'")

CONFIG = """[general]
run_name = run
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {columns}
IfmapSramSzkB = 1024
FilterSramSzkB = 1024
OfmapSramSzkB = 1024
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = os
Bandwidth = 10
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
SparseRep = ellpack_block
OptimizedMapping = false
BlockSize = 8
RandomNumberGeneratorSeed = 40
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""
#: m, n, k: one tile; tiles in both directions; ragged ones; a layer of tiny; 64 tokens of a BERT-base projection
GEMMS = [(8, 8, 32), (16, 24, 64), (5, 9, 14), (20, 40, 96), (64, 768, 768)]


def cycles(folder: Path, rows: int, columns: int, m: int, n: int, k: int) -> int:
    """Cycles of SCALE-Sim's array for a GEMM: rows of the operands that it demands, one for each cycle."""
    (folder / "array.cfg").write_text(CONFIG.format(rows=rows, columns=columns))
    (folder / "gemm.csv").write_text(f"Layer, M, N, K,\nlayer, {m}, {n}, {k},\n")
    (folder / "layout.csv").write_text(f"Layer,\nlayer, {', '.join(['1'] * 20)},\n")
    parts = ("scale_config", "topology_utils", "layout_utils", "single_layer_sim")
    config, topologies, layouts, simulated = (importlib.import_module(f"scalesim.{part}") for part in parts)
    settings, gemm, layout = config.scale_config(), topologies.topologies(), layouts.layouts()
    settings.read_conf_file(str(folder / "array.cfg"))
    gemm.load_arrays(topofile=str(folder / "gemm.csv"), mnk_inputs=True)
    layout.load_arrays(layoutfile=str(folder / "layout.csv"), mnk_inputs=True)
    layer = simulated.single_layer_sim()
    layer.set_params(0, settings, gemm, layout, verbose=False)
    operands = layer.op_mat_obj
    matrices = (operands.get_ifmap_matrix(), operands.get_filter_matrix(), operands.get_ofmap_matrix())
    ifmap, weights, ofmap = (matrix for _, matrix in matrices)
    layer.compute_system.set_params(settings, ifmap, ofmap, weights)
    demands: Any = layer.compute_system.get_demand_matrices()
    assert len({len(demand) for demand in demands}) == 1
    return len(demands[0])


@pytest.mark.long
@pytest.mark.parametrize(("m", "n", "k"), GEMMS)
@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (4, 16), (64, 64)])
def test_olive_drains_every_tile(rows: int, columns: int, m: int, n: int, k: int, tmp_path: Path) -> None:
    """D-olive-39: R more cycles a tile, in which its sums move south; D-olive-58: tiles that overlap save R + C - 2."""
    tiles, skew = -(-m // rows) * -(-n // columns), rows + columns - 2
    theirs = cycles(tmp_path, rows, columns, m, n, k)
    a, b = np.zeros((m, k // 2), np.uint8), np.zeros((n, k // 2), np.uint8)
    ours = olive_systolic_clocked.multiply(a, b, (0, 0), rows=rows, cols=columns).cycles

    assert theirs == tiles * (k + skew)
    assert ours == theirs + tiles * rows
    if k >= rows:  # a shorter tile waits for the drain of the one before
        side = Side(Fraction(4), 4)
        layer, machine = Layer("", m, n, k, (rows, columns), side, side), OliveMachine(port=1 << 20)
        overlapped = array_works.fed(layer, True, machine)
        assert overlapped == theirs + 1 - (tiles - 1) * skew + rows  # one cycle, in which operands arrive


@pytest.mark.long
@pytest.mark.parametrize(("mode", "slots"), [(0, 1), (1, 1), (2, 2)])
@pytest.mark.parametrize(("m", "n", "groups"), [(8, 16, 4), (16, 48, 40), (5, 20, 24)])
def test_harmonia_skews_columns_alone(mode: int, slots: int, m: int, n: int, groups: int, tmp_path: Path) -> None:
    """D-harmonia-58: R - 2 cycles less a tile: its rows start together, and its last column leaves a cycle later.

    A PE takes a group of 32 values in a slot, M8M8 in two, so the GEMM of SCALE-Sim has slots * groups steps.
    """
    rows, columns, k = 8, 16, slots * groups
    tiles = -(-m // rows) * -(-n // columns)
    theirs = cycles(tmp_path, rows, columns, m, n, k)
    fields = {"a_sign": (m, 32), "a_mag": (m, 32), "a_exp": (m, 1)}
    fields |= {"b": (n, 32), "b_sign": (n, 32), "b_exp": (n, 1), "w_scale": (n, 1)}
    operands = {name: np.zeros((lines, groups * lanes), np.int64) for name, (lines, lanes) in fields.items()}
    operands["mode"] = np.full(groups, mode)
    drained, overlapped = (
        bfp_pe_array_clocked.multiply(operands, rows=rows, columns=columns, overlap=overlap).cycles
        for overlap in (False, True)
    )

    assert drained == theirs - tiles * (rows - 2) == tiles * (k + columns)
    if k >= columns:  # columns leave one by one
        assert overlapped == drained - (tiles - 1) * columns
