"""The dataflow controller against the oracle: events, tiles, addresses, access counts and the choice between them."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.harmonia import fdgf
from refemu.units.harmonia.fdgf import COLUMN_MAJOR, ROW_MAJOR, FdgfController, passes
from tests.oracles.harmonia import units

IMPLEMENTATIONS = [pytest.param(fdgf.run, id="unit"), pytest.param(fdgf.UNIT.run_compiled, id="compiled")]
FLOWS = [pytest.param(COLUMN_MAJOR, id="column-major"), pytest.param(ROW_MAJOR, id="row-major")]
EVENTS = fdgf.EVENTS


def ended(run: Any, sizes: tuple[int, int, int], flow: int, events: int, v: int = 0, tile: int = 32) -> list[Any]:
    """(event, mt, kt, count, a_address, b_address) of one product, without the start and what follows the end."""
    start = np.zeros(events, np.int64)
    start[0] = 1
    result = run(start, *sizes, flow, v, m=tile, k=tile)
    columns = (result.code, result.mt, result.kt, result.count, result.a_address, result.b_address)
    rows = [(EVENTS[code], *rest) for code, *rest in zip(*(column.tolist() for column in columns), strict=True)]
    assert rows[-1][0] == "done", "too few events"
    return [row for row in rows[1:] if row[0] != "done"]


sizes = st.tuples(st.integers(1, 100), st.integers(1, 70), st.integers(1, 100))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("flow", FLOWS)
@settings(deadline=None, max_examples=30)
@given(given=sizes)
@example(given=(64, 32, 64))
@example(given=(65, 33, 63))
def test_fetches_and_computations_are_the_oracles(run: Any, flow: int, given: tuple[int, int, int]) -> None:
    """[harmonia §IV-D, Fig. 15] Every tile once, in the dataflow's order; what it fetches is the formula."""
    events = ended(run, given, flow, 1000)
    wanted = list(units.fdgf_events(*given, 32, 32, flow))
    found = [event for event in events if event[0] in ("fetch_a", "fetch_b", "compute")]
    fetched = sum(event[3] for event in events if event[0].startswith("fetch"))

    assert [(e[0], e[3]) for e in found] == [(e[0], e[3]) for e in wanted]
    for event, want in zip(found, wanted, strict=True):
        assert all(w in (-1, got) for got, w in zip(event[1:3], want[1:3], strict=True))
    assert fetched == FdgfController(32, 32).ema(*given, flow) == units.ema(*given, 32, 32, flow)
    stored = [event for event in events if event[0] == "store"]
    assert [e[1:4] for e in stored] == [e[1:4] for e in found if e[0] == "compute"]
    assert sum(e[3] for e in stored) == given[0] * given[2]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("v", [0, 1])
def test_addresses_of_every_pass(run: Any, flow: int, v: int) -> None:
    """[harmonia §IV-D] Groups ascending inside a pass; passes by blocks of 8 x 32, for V of 32 x 16."""
    events = ended(run, (100, 70, 100), flow, 1000, v)
    tiles: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in events:
        if event[0] == "read":
            tiles.setdefault(event[1:3], []).append(event[4:6])

    assert len(tiles) == 16
    for (mt, kt), read in tiles.items():
        high, wide = -(-min(32, 100 - 32 * mt) // 8), -(-min(32, 100 - 32 * kt) // 16)
        order = passes(high, wide, flow, v)
        assert sorted(order) == [(row, column) for row in range(high) for column in range(wide)]
        assert read == [pair for row, column in order for pair in units.addresses(row, column, 3)]


def test_order_of_blocks() -> None:
    """[harmonia Fig. 15] Column-major: down the columns of blocks; row-major: along the rows of them."""
    assert passes(2, 4, COLUMN_MAJOR, 0) == ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3))
    assert passes(2, 4, ROW_MAJOR, 0) == ((0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3))
    v_down = tuple((row, column) for column in range(2) for row in range(5))
    assert passes(5, 2, COLUMN_MAJOR, 1) == v_down
    assert passes(5, 2, ROW_MAJOR, 1) == (*[(r, 0) for r in range(4)], *[(r, 1) for r in range(4)], (4, 0), (4, 1))


@pytest.mark.parametrize(
    ("rows", "first", "second", "ratio"),
    [(1, 17_039_360, 16_781_312, 64), (64, 33_554_432, 17_039_360, 1), (4096, 1_090_519_040, 1_090_519_040, 1)],
)
def test_access_counts_of_the_linear_layer(rows: int, first: int, second: int, ratio: int) -> None:
    """[harmonia §IV-D] D-harmonia-30: N = K = 4096, m = k = 64; the literal fraction of one row is a 64th of a tile."""
    controller = FdgfController()
    counts = [controller.ema(rows, 4096, 4096, flow) for flow in (COLUMN_MAJOR, ROW_MAJOR)]
    literal = controller.ema(rows, 4096, 4096, ROW_MAJOR, literal=True)

    assert counts == [first, second]
    assert literal == units.ema(rows, 4096, 4096, dataflow=2, literal=True)
    assert (literal - rows * 4096) * ratio == counts[1] - rows * 4096
    assert rows != 1 or literal == 266_240


def test_dataflow_2_wins_below_k_only() -> None:
    """[harmonia §IV-D] D-harmonia-31: with m = k the difference is N (K - M), against "as M increases"."""
    controller = FdgfController()
    for rows in (64, 128, 4096, 8192, 1_000_000):
        first, second = (controller.ema(rows, 4096, 4096, flow, literal=True) for flow in (1, 2))
        assert first - second == 4096 * (4096 - rows)
    assert [controller.choose(rows, 4096, 4096) for rows in (64, 4032, 4096, 8192)] == [2, 2, 1, 1]
    ratio = controller.ema(10**6, 4096, 4096, 1, literal=True) / controller.ema(10**6, 4096, 4096, 2, literal=True)
    assert round(float(ratio), 3) == 0.985


def test_dataflow_2_always_wins_for_unequal_tiles() -> None:
    """[harmonia §IV-D] D-harmonia-31: the text holds where K / k >= 1 + K / m."""
    controller = FdgfController(m=128, k=32)
    for rows in (1, 64, 4096, 10**6):
        assert controller.ema(rows, 64, 64, 2, literal=True) < controller.ema(rows, 64, 64, 1, literal=True)


@settings(deadline=None, max_examples=100)
@given(
    given=st.tuples(st.integers(1, 8191), st.integers(1, 8191), st.integers(1, 8191)),
    m=st.sampled_from([32, 64, 96]),
    k=st.sampled_from([32, 64, 96]),
    literal=st.booleans(),
)
def test_formula_is_the_oracles(given: tuple[int, int, int], m: int, k: int, literal: bool) -> None:
    """D-harmonia-30, D-harmonia-31: fractions or whole tiles; fewer accesses, on a tie dataflow 1."""
    controller = FdgfController(m, k)

    assert [controller.ema(*given, flow, literal) for flow in (1, 2)] == [
        units.ema(*given, m, k, flow, literal) for flow in (1, 2)
    ]
    assert controller.choose(*given) == units.choose(*given, m, k)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_choice_is_made_at_the_start_unless_forced(run: Any) -> None:
    """D-harmonia-31."""
    for rows, forced, flow in ((64, 0, 2), (128, 0, 1), (200, 0, 1), (200, 2, 2), (64, 1, 1)):
        assert run([1], rows, 64, 128, forced).dataflow.tolist() == [flow]


def test_bits_weigh_the_choice() -> None:
    """Stored bits: weights of 4.125 bits are cheap to fetch again, so dataflow 2 wins longer."""
    elements, bits = FdgfController(), FdgfController(ema_unit="bits")

    assert elements.choose(160, 256, 128) == 1 and bits.choose(160, 256, 128) == 2
    assert bits.ema(1, 32, 32, 2) == 32 * 32 * Fraction(33, 8) + 293
    assert FdgfController(ema_unit="bits", b_type="bfp4").ema(1, 32, 32, 2) == 32 * 165 + 293


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_a_start_replaces_the_product_under_way(run: Any) -> None:
    start = np.array([0, 1, 0, 0, 1, 0, 0, 0])
    result = run(start, [9, 64, 9, 9, 8, 9, 9, 9], 32, [9, 64, 9, 9, 16, 9, 9, 9], 2, m=32, k=32)

    assert [EVENTS[code] for code in result.code] == [
        "idle",
        "start",
        "fetch_a",
        "fetch_b",
        "start",
        "fetch_a",
        "fetch_b",
        "compute",
    ]
    assert result.count.tolist() == [0, 0, 1024, 1024, 0, 256, 512, 128]
    assert result.fetched.tolist() == [0, 0, 1024, 2048, 0, 256, 768, 768]


def test_plan_is_one_product() -> None:
    states = list(FdgfController(32, 32).plan(33, 40, 20, COLUMN_MAJOR))

    assert [s.event for s in states if s.event != "read"] == [
        "start",
        "fetch_b",
        "fetch_a",
        "compute",
        "store",
        "fetch_a",
        "compute",
        "store",
    ]
    assert (states[-1].fetches, states[-1].computes, states[-1].stores) == (3, 2, 2)
    assert states[-1].reads == 2 * 2 * (4 + 1)  # groups, passes of 16 columns, of 8 rows


LAYERS = {"Llama 7B": 11008, "Llama 13B": 13824, "Llama 3": 14336, "OPT 6.7B": 16384, "Llama 3.2": 8192}


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("ffn", LAYERS.values(), ids=LAYERS)
def test_layers_of_the_papers_models_are_accepted(run: Any, ffn: int) -> None:
    """[harmonia §V-A] Up and down projections of one token: the first tile of each is fetched whole."""
    for inner, columns in ((4096, ffn), (ffn, 4096)):
        result = run([1, *[0] * 3], 1, inner, columns)
        assert result.count.tolist() == [0, inner, 64 * inner, 64]
    last = FdgfController(32, 32)
    assert list(last.tiles(1, ffn, ffn))[-1].kt == -(-ffn // 32) - 1
    last.step(1, (1 << 17) - 1, (1 << 17) - 1, (1 << 17) - 1, 0, 0)
    assert last.step(0, 0, 0, 0, 0, 0).count == 32 * ((1 << 17) - 1)


def test_ports_hold_what_largest_product_puts_on_them() -> None:
    """Largest tiles and sizes: elements of a fetch, tiles of a side, addresses of the last pass."""
    most, widths = (1 << fdgf.SIZE_BITS) - 1, {port.name: port.bits for port in fdgf.UNIT.ports({}).all}

    assert -(-most // 32) - 1 < 1 << widths["mt"] == 1 << widths["kt"]
    assert max(8192 * most, 8192 * 8192) < 1 << widths["count"]
    assert (8192 // 8) * -(-most // 32) <= 1 << widths["a_address"] == 1 << widths["b_address"]
    assert max(FdgfController(32, 32).ema(most, most, most, flow) for flow in (1, 2)) < 1 << widths["fetched"]


@settings(deadline=None, max_examples=60)
@given(given=sizes, m=st.sampled_from([32, 64]), k=st.sampled_from([32, 96]), flow=st.integers(0, 2))
@example(given=(64, 32, 64), m=32, k=32, flow=0)
@example(given=(1, 1, 1), m=32, k=32, flow=0)
def test_tiles_are_the_steps_but_start_and_reads(given: tuple[int, int, int], m: int, k: int, flow: int) -> None:
    """The plan by tiles against the controller that steps through every read."""
    controller = FdgfController(m, k)
    stepped = [
        (s.code, s.dataflow, s.mt, s.kt, s.count)
        for s in controller.plan(*given, flow)
        if s.event not in ("start", "read")
    ]

    assert [tuple(tile) for tile in controller.tiles(*given, flow)] == stepped


def test_large_product_tiles_have_no_step_per_read() -> None:
    """[harmonia §IV-D] 2048 x 4096 x 4096: 6,176 events, where the controller reads 8.4 million times."""
    tiles = list(FdgfController().tiles(2048, 4096, 4096))

    assert len(tiles) == 6176 and 32 * 64 * (8 * 4) * 128 == 8_388_608
    assert sum(tile.elements for tile in tiles if tile.code in (fdgf.FETCH_A, fdgf.FETCH_B)) == FdgfController().ema(
        2048, 4096, 4096, tiles[0].dataflow
    )
    with pytest.raises(Refused, match="fdgf: K must be at least 1, got 0"):
        next(FdgfController().tiles(1, 1, 0))


BAD = [
    pytest.param({"rows": 0}, "fdgf: M must be at least 1, got 0", id="M"),
    pytest.param({"inner": 0}, "fdgf: N must be at least 1, got 0", id="N"),
    pytest.param({"columns": 0}, "fdgf: K must be at least 1, got 0", id="K"),
    pytest.param({"rows": 1 << 17}, r"rows 131072 is outside \[0, 131072\)", id="port"),
    pytest.param({"forced": 3}, "forced 3", id="forced"),
    pytest.param({"m": 48}, "m must be a multiple of 32, got 48", id="m"),
    pytest.param({"k": 0}, r"k must be in \[32, 8192\], got 0", id="k"),
    pytest.param({"ema_unit": "bytes"}, "ema_unit must be one of", id="unit"),
    pytest.param({"b_type": "fp16"}, "b_type must be one of", id="type"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("change", "message"), BAD)
def test_fdgf_rejects_invalid_inputs(run: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        run(**{"start": [1], "rows": 8, "inner": 32, "columns": 16, **change})


def test_dataflow_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(Refused, match="dataflow must be one of 1, 2, got 3"):
        FdgfController().ema(1, 1, 1, 3)


def test_fdgf_repr_evaluates_back() -> None:
    assert repr(FdgfController(32)) == "FdgfController(m=32, k=64, ema_unit='elements', b_type='int4')"


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("flow", FLOWS)
@settings(deadline=None, max_examples=10)
@given(given=sizes, v=st.integers(0, 1))
def test_registers_say_what_is_under_way(run: Any, flow: int, given: tuple[int, int, int], v: int) -> None:
    """[harmonia §IV-D] Sizes and `v` as at the start; pass and group of the next read, 0 outside of the reads."""
    start = np.zeros(600, np.int64)
    start[1] = 1
    others = np.where(start == 1, np.array(given)[:, None], 7)
    result = run(start, *others, np.where(start == 1, flow, 0), np.where(start == 1, v, 1 - v), m=64, k=32)
    groups, reads = -(-given[1] // 32), 0

    assert result.sizes.tolist() == [[0, 0, 0]] + [list(given)] * 599
    assert result.blocks_v.tolist() == [False] + [bool(v)] * 599
    for code, place, group in zip(*(x.tolist() for x in (result.code, result.place, result.group)), strict=True):
        reads = reads + 1 if EVENTS[code] == "read" else 0
        assert (place, group) == divmod(reads, groups)
