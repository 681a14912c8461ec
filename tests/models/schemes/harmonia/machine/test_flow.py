"""Clocks of whole products from their sizes: equal to a Timeline that places every event, and to the clocked array."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.models.schemes.harmonia.machine.flow import Port, timed
from refemu.models.schemes.harmonia.machine.sizes import BFP4, BFP8, INT4, Product, packed
from refemu.units.harmonia.bfp_pe_array_clocked.product import tiles
from refemu.units.harmonia.harmonia_core import (
    UNIT,
    HarmoniaCore,
    Rates,
    Timeline,
    stepped,
)
from refemu.units.harmonia.harmonia_core import compiled as harmonia_core_compiled
from refemu.units.harmonia.harmonia_core.timeline import PASSES, Passes
from refemu.units.harmonia.harmonia_core_clocked import HarmoniaCoreClocked

FAST = Rates(256 * 10**15)  #: a clock for every load
CASES: dict[str, dict[str, Any]] = {
    "q": {"kind": "q", "rows": 33, "inner": 320, "columns": 96, "head_dim": 48},
    "keys that wait": {"kind": "k", "rows": 70, "inner": 64, "columns": 64, "window": 32, "head_dim": 32},
    "later keys": {"kind": "k", "rows": 9, "inner": 64, "columns": 32, "window": 32, "start": 40, "rotation": "none"},
    "v": {"kind": "v", "rows": 70, "inner": 64, "columns": 40},
    "scores": {"kind": "score", "rows": 33, "inner": 64, "columns": 130, "start": 97, "b_type": "mixed"},
    "scores, rows": {
        "kind": "score",
        "rows": 16,
        "inner": 32,
        "columns": 40,
        "start": 24,
        "b_type": "mixed",
        "codes": "rows",
    },
    "context": {"kind": "context", "rows": 33, "inner": 320, "columns": 64, "b_type": "mixed"},
    "gate": {"kind": "final", "rows": 16, "inner": 70, "columns": 130, "activation": "silu", "bias_add": "after"},
    "bias before": {"kind": "linear", "rows": 8, "inner": 32, "columns": 64, "bias_add": "accumulator"},
    "wide values": {"kind": "final", "rows": 9, "inner": 40, "columns": 40, "b_type": "bfp8"},
    "low values": {"kind": "context", "rows": 64, "inner": 576, "columns": 32, "b_type": "bfp4", "m": 4},
}


def core(options: dict[str, Any], **more: Any) -> HarmoniaCore:
    """A core."""
    return HarmoniaCore(**{**UNIT.configs["linear"], "activation": "none", **options, **more})


def product(device: HarmoniaCore) -> tuple[Product, np.ndarray]:
    """The product of a core, and its port `wide`: units are demoted from the fifth on, five tokens later."""
    mixed, size = device.b_type == "mixed", 1 if device.kind == "score" else 32
    length = device.columns if device.kind == "score" else device.inner
    seen = np.arange(1, device.rows + 1) + max(0, length - device.rows)
    place = np.arange(-(-length // size)) * size
    falls = np.where(place >= 4, place + size + 5, 0)
    falls = falls * (falls <= length)
    double = device.b_type in ("bfp8", "mixed")
    made = Product(
        device.kind,
        device.rows,
        device.inner,
        device.columns,
        b={"int4": INT4, "bfp4": BFP4}.get(device.b_type, BFP8),
        low=BFP4 if mixed else None,
        slots=1 + double,
        m=device.m,
        tile_m=device.tile_m,
        tile_k=device.tile_k,
        head_dim=device.head_dim,
        dataflow=device.force,
        activation=device.activation,
        rotation=device.rotation if device.kind in ("q", "k") else "none",
        bias=device.bias_add,
        shifted=device.shape.shifted,
        tracked=device.shape.tracked,
        codes=device.codes,
        falls=packed(falls) if mixed else b"",
        seen=packed(seen) if mixed else b"",
    )
    wide = (falls == 0) | (falls > seen[:, None])
    return made, wide.astype(np.uint8) if mixed else np.zeros((device.rows, 0), np.uint8)


@pytest.mark.parametrize("passes", PASSES[1:])
@pytest.mark.parametrize("force", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_clocks_equal_the_timeline(name: str, force: int, passes: Passes) -> None:
    """D-harmonia-49, D-harmonia-58: clocks, busy parts and waits of one product, and of five in sequence."""
    device = core(CASES[name], force=force)
    made, wide = product(device)
    events = list(harmonia_core_compiled.events(device, wide))
    for times in (1, 5):
        line = Timeline(Rates(FAST.bytes_per_second, FAST.clock, FAST.lanes, passes))
        for _ in range(times):
            line.product(device, events)
        found = timed(made, Port(Fraction(8 * FAST.bytes_per_second, FAST.clock), FAST.lanes, passes), times)
        assert (found.clock, found.busy, found.waits) == (line.clock, line.busy, line.waits)


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(["q", "k", "v", "score", "context", "linear", "final"]),
    rows=st.integers(1, 90),
    inner=st.integers(1, 200),
    columns=st.integers(1, 100),
    b_type=st.sampled_from(["int4", "bfp8", "bfp4", "mixed"]),
    codes=st.sampled_from(["sets", "rows"]),
    force=st.integers(0, 2),
    lanes=st.integers(1, 9),
    tiles=st.tuples(st.sampled_from([32, 64]), st.sampled_from([32, 64, 96])),
    times=st.integers(1, 6),
    passes=st.sampled_from(PASSES[1:]),
)
def test_random_products_equal_the_timeline(
    kind: Any, rows: int, inner: int, columns: int, b_type: str, passes: Passes, times: int, lanes: int, **more: Any
) -> None:
    """D-harmonia-49: any sizes, tiles, dataflow and codes."""
    if kind in ("q", "k", "context"):
        more["head_dim"], columns = 32, 32 * -(-columns // 32)  # whole heads
    if kind == "score":
        columns = max(columns, rows)
    tile_m, tile_k = more.pop("tiles")
    mixed = kind in ("score", "context")
    sizes = {"kind": kind, "rows": rows, "inner": inner, "columns": columns, "tile_m": tile_m, "tile_k": tile_k}
    sizes |= {"b_type": b_type if mixed else "int4", "window": 0}
    device = core(sizes | ({"start": max(0, columns - rows)} if kind == "score" else {}), **more)
    made, wide = product(device)
    line, rate = Timeline(Rates(FAST.bytes_per_second, FAST.clock, lanes, passes)), Fraction(8 * FAST.bytes_per_second)
    for _ in range(times):
        line.product(device, harmonia_core_compiled.events(device, wide))
    found = timed(made, Port(rate / FAST.clock, lanes, passes), times)

    assert (found.clock, found.busy, found.waits) == (line.clock, line.busy, line.waits)


def test_clocks_equal_the_timeline_at_memory_rate() -> None:
    """D-harmonia-50: bits of the paper's formats, whole groups."""
    device = core({"kind": "final", "rows": 64, "inner": 256, "columns": 640})
    line = Timeline(Rates(passes="overlap"))
    line.product(device, list(harmonia_core_compiled.events(device, np.zeros((64, 0), np.uint8))))

    found = timed(product(device)[0], Port(Fraction(8 * 256 * 10**9, 300 * 10**6)))
    assert (found.clock, found.busy, found.waits) == (line.clock, line.busy, line.waits)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("groups", [1, 5, 18, 40])
def test_passes_begin_as_the_clocked_array_takes_them(groups: int, overlap: bool) -> None:
    """D-harmonia-22, D-harmonia-43, D-harmonia-58: groups + 16 clocks, or with overlap groups, at least 16."""
    starts = [tile.edge for tile in tiles((8, 64), groups, 8, 16, overlap)]
    device = core({"kind": "final", "rows": 8, "inner": 32 * groups, "columns": 64})
    done = timed(product(device)[0], Port(None, passes="overlap" if overlap else "drain"))

    pitch = starts[1]
    assert pitch == (max(groups, 16) if overlap else groups + 16)
    assert done.busy["array"] == 4 * pitch


def test_final_product_takes_the_clocks_of_its_columns() -> None:
    """D-harmonia-54: 576 by 64 for a row; FP16 words leave a column a clock, a block after the other."""
    device = core({"kind": "final", "rows": 1, "inner": 576, "columns": 64})
    line = Timeline()
    line.product(device, list(harmonia_core_compiled.events(device, np.zeros((1, 0), np.uint8))))

    assert line.clock == 189


@pytest.mark.parametrize("pitch", ["drain", "overlap"])
@pytest.mark.parametrize("kind", ["linear", "final", "v", "q"])
def test_product_takes_the_clocks_of_machine_and_cost(kind: Any, pitch: Any) -> None:
    """D-harmonia-64: one clock for array, core, timeline and `refemu cost`."""
    sizes: dict[str, Any] = {"head_dim": 32} if kind == "q" else {}
    unit = HarmoniaCoreClocked(kind, 24, 320, 96, **sizes, pitch=pitch)
    nothing = {port.name: np.zeros(port.shape, int).tolist() for port in unit.core.ports.inputs}
    values = [tuple(value) if isinstance(value, list) else value for value in nothing.values()]
    line = Timeline(Rates(passes=pitch))
    line.product(unit.core, stepped(unit.core, list(unit.core.steps(**nothing))))
    shape = unit.core.shape
    sizes |= {"rotation": shape.rotation if kind == "q" else "none", "m": unit.m}
    made = Product(kind, 24, 320, 96, tile_m=unit.tile_m, tile_k=unit.tile_k, **sizes)

    length = unit.planned(values).length
    assert length == line.clock == timed(made, Port(Fraction(8 * 256 * 10**9, 300 * 10**6), passes=pitch)).clock
