"""The clocked array against the oracle, edge by edge in every output, register and counter; its decisions by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.formats import BFP4, BFP8
from refemu.formats.groupint import INT4_G128
from refemu.units.harmonia import bfp_pe_array_clocked
from refemu.units.harmonia.bfp_pe import M8M4, M8M8, M8W4
from refemu.units.harmonia.bfp_pe_array import operands
from refemu.units.harmonia.bfp_pe_array_clocked import UNIT, BfpPeArrayClocked, edges
from refemu.units.harmonia.bfp_pe_array_clocked.product import idle
from tests.oracles.harmonia import array, units
from tests.units.clocked_rows import assert_cases, assert_rows

IMPLEMENTATIONS = [pytest.param(bfp_pe_array_clocked.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
SMALL: dict[str, Any] = {
    "rows": 2,
    "columns": 3,
    "partial": "fp16",
    "product": "fp32",
    "activity": "by_slot",
    "overlap": False,
}


def inputs(config: Any, seed: int, count: int) -> dict[str, np.ndarray]:
    """Any operands, near each other for odd seeds; many groups and weights."""
    rng = np.random.default_rng(seed)
    drawn = {}
    for port in UNIT.ports(config).inputs:
        low, high = port.limits
        drawn[port.name] = rng.integers(low, high + 1, (count, *port.shape))
    for name in ("a_valid", "b_valid", "col_valid"):
        drawn[name] |= rng.random(drawn[name].shape) < 0.5
    if seed % 2:
        drawn["a_exp"], drawn["b_exp"] = (12 + drawn[name] % 8 for name in ("a_exp", "b_exp"))
        drawn["clear"] &= rng.random(count) < 0.3
    return dict(UNIT.legal(config, drawn)) if UNIT.legal else drawn


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("activity", ["by_slot", "parallel"])
@settings(deadline=None, max_examples=10)
@given(
    size=st.sampled_from([(1, 1), (1, 2), (2, 3), (3, 1)]),
    overlap=st.booleans(),
    partial=st.sampled_from(["fp16", "fp32"]),
    product=st.sampled_from(["fp16", "fp32"]),
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 14),
    holdable=st.booleans(),
)
def test_edges_equal_the_oracle(
    run: Any, activity: str, size: Any, overlap: bool, partial: str, product: str, seed: int, count: int, holdable: bool
) -> None:
    """D-harmonia-63: held edges too."""
    config = {"rows": size[0], "columns": size[1], "partial": partial, "product": product}
    config |= {"activity": activity, "overlap": overlap, "holdable": holdable}
    ports = inputs(config, seed, count)

    expected = array.simulate(**config, inputs={name: values.tolist() for name, values in ports.items()})

    assert_rows(UNIT, config, run(**ports, **config), expected)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", UNIT.configs)
@pytest.mark.parametrize("kind", ["paper", "edge", "random"])
def test_golden_cases_equal_the_oracle(run: Any, name: str, kind: Any) -> None:
    def simulated(config: Any, inputs: Any) -> Any:
        return array.simulate(**config, inputs={port: values.tolist() for port, values in inputs.items()})

    assert_cases(UNIT, name, kind, run, simulated)


def tensors(kind: str, rows: int, columns: int, inner: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(inner)
    a = BFP8.encode(rng.normal(size=(rows, inner)).astype(np.float16))
    w = rng.normal(size=(columns, inner))
    if kind == "int4":
        return operands(a, INT4_G128.encode(w.astype(np.float32)))
    return operands(a, (BFP8 if kind == "bfp8" else BFP4).encode(w.astype(np.float16)))


def states(ports: dict[str, np.ndarray], **config: Any) -> list[Any]:
    return list(BfpPeArrayClocked(**{**SMALL, **config}).steps(**ports))


@pytest.mark.parametrize("activity", ["by_slot", "parallel"])
@pytest.mark.parametrize("kind", ["int4", "bfp4", "bfp8"])
def test_columns_leave_in_their_cycles(kind: str, activity: Any) -> None:
    """D-harmonia-42, [harmonia §IV-C, Fig. 14a]: T_c = f * G + c from the edge in which the first group enters."""
    groups, slots = 5, 2 if kind == "bfp8" else 1
    trace = states(edges(tensors(kind, 8, 16, 32 * groups), 8, 16, activity), rows=8, columns=16, activity=activity)
    leaving = {state.index: state for state in trace if any(state.valid)}

    assert list(leaving) == units.array_cycles([slots] * groups)
    assert [state.col for state in leaving.values()] == list(range(16))
    assert all(state.valid == (1,) * 8 for state in leaving.values())
    assert trace[-1].compute_cycles == slots * groups + 15 and len(trace) == slots * groups + 16
    assert not trace[-1].busy and trace[-2].busy


def test_sub_pes_work_one_a_slot() -> None:
    """D-harmonia-40, D-harmonia-21: the groups of a pass go from sub-PE to sub-PE; nibbles of M8M8 to both wrappers."""
    narrow, wide = (
        [state.sub_pes[0] for state in states(edges(tensors(kind, 1, 1, 160), 2, 3))][1:] for kind in ("int4", "bfp8")
    )

    assert narrow[:6] == [1, 2, 4, 8, 1, 0]
    assert wide[:11] == [1, 4, 2, 8, 1, 4, 2, 8, 1, 4, 0]


def test_sub_pes_of_a_pass_work_together() -> None:
    """D-harmonia-40, `parallel`: four groups enter together, or two of M8M8, and results are as early as one by one."""
    for kind, working in (("int4", [15, 0, 0, 0, 1, 0]), ("bfp8", [15, 0, 0, 0, 15, 0, 0, 0, 5, 0, 0])):
        ports = tensors(kind, 1, 1, 160)
        trace = states(edges(ports, 2, 3, "parallel"), activity="parallel")
        slow = states(edges(ports, 2, 3))

        assert [state.sub_pes[0] for state in trace][1 : 1 + len(working)] == working
        assert [(s.acc, s.flags, s.valid, s.col) for s in trace] == [(s.acc, s.flags, s.valid, s.col) for s in slow]
        assert trace[-1].psums == slow[-1].psums and trace[1].latched != slow[1].latched


def early(by: int) -> dict[str, np.ndarray]:
    """Two groups of M8M8 for one element, the second `by` edges before it can begin."""
    ports = edges(tensors("bfp8", 1, 1, 64), 2, 3)
    moved = {name: np.concatenate([values, 0 * values[:2]]) for name, values in ports.items()}
    for values in moved.values():
        values[2 - by], values[2] = values[2].copy(), 0 * values[2] if by else values[2]
    return moved


def test_operands_wait_in_the_next_file() -> None:
    """D-harmonia-41: a group that comes while the one before has a slot left changes no result."""
    timely, waiting = (states(early(by)) for by in (0, 1))

    assert waiting[1].left[0] == 1 and waiting[1].waiting[0] == waiting[1].b_waiting[0] == 1
    assert waiting[1].next_mag[:32] != waiting[1].current_mag[:32] == waiting[2].current_mag[:32]
    assert [state.sums for state in waiting] == [state.sums for state in timely]
    assert waiting[-1].lost == 0


def test_what_finds_both_files_in_use_is_lost() -> None:
    """D-harmonia-41: the group that waits stays."""
    ports = edges(tensors("bfp8", 1, 1, 96), 2, 3)
    crowded = {name: values.copy() for name, values in ports.items()}
    for values in crowded.values():
        values[1], values[2] = values[2].copy(), values[4].copy()

    trace = states(crowded)

    assert trace[2].next_mag == trace[1].next_mag and trace[2].lost == 2  # activations and weights
    assert trace[2].arrived[0] == 0


def test_bits_unread_by_mode_have_no_effect() -> None:
    """D-harmonia-42."""
    ports = edges(tensors("int4", 2, 3, 64), 2, 3)
    noisy = ports | {"b": ports["b"] | 0xF0, "b_sign": ports["b_sign"] | 1, "b_exp": ports["b_exp"] | 31}

    assert [state.sums for state in states(noisy)] == [state.sums for state in states(ports)]


def tiles(first: int, second: int, start: int) -> dict[str, np.ndarray]:
    """A tile of `first` groups, and one of `second` groups from edge `start` on."""
    parts = [edges(tensors("bfp4", 2, 3, 32 * groups), 2, 3) for groups in (first, second)]
    joined = idle(start + len(parts[1]["mode"]), 2, 3, "by_slot")
    for at, part in zip((0, start), parts, strict=True):
        for name, values in part.items():
            joined[name][at : at + len(values)] |= values
    return joined


def test_tile_waits_for_end_of_one_before() -> None:
    """D-harmonia-22, D-harmonia-43: its first group is lost while a column holds one."""
    blocked, taken = states(tiles(2, 1, 4)), states(tiles(2, 1, 5))

    assert blocked[3].busy and blocked[4].arrived[0] == 0 and blocked[-1].lost > 0
    assert not taken[4].busy and taken[5].arrived[0] == 1 and taken[-1].lost == 0


def test_tiles_overlap() -> None:
    """D-harmonia-43: the next tile as soon as no two columns end together; of two the right one leaves."""
    ahead, closer = (states(tiles(4, 2, start), overlap=True) for start in (5, 4))

    assert [state.col for state in ahead if any(state.valid)] == [0, 1, 2, 0, 1, 2]
    assert ahead[-1].missed == ahead[-1].lost == 0
    assert closer[6].col == 2 and closer[-1].missed == 1


def test_held_array_continues_where_it_stopped() -> None:
    """D-harmonia-63: every column of 8 x 16 leaves as many edges later as the array was held, with the same sums."""
    ports = edges(tensors("bfp8", 8, 32, 128), 8, 16, overlap=True)
    free = states(ports, rows=8, columns=16, overlap=True)
    count, at = len(ports["mode"]), 12
    order = [*range(at), *[at] * 5, *range(at, count)]
    held = {name: values[order] for name, values in ports.items()} | {"hold": np.zeros(count + 5, int)}
    held["hold"][at : at + 5] = 1

    trace = states(held, rows=8, columns=16, overlap=True, holdable=True)

    assert [(s.acc, s.valid, s.col, s.arrived) for s in (*trace[:at], *trace[at + 5 :])] == [
        (s.acc, s.valid, s.col, s.arrived) for s in free
    ]
    assert {state.event for state in trace[at : at + 5]} == {"stay"} and trace[at].sums == trace[at - 1].sums
    assert trace[-1].lost == 0 and trace[-1].cycles == free[-1].cycles + 5


def test_activations_move_to_last_column_of_tile() -> None:
    """D-harmonia-44: through columns that the tile lacks, and no further; a hop is a group that one PE passes on."""
    ports = edges(tensors("int4", 8, 16, 32), 8, 16)
    for columns, hops in (([15], 120), ([0, 3], 24), ([0], 0)):
        masked = ports | {"col_valid": ports["col_valid"] * np.isin(np.arange(16), columns)}
        trace = states(masked, rows=8, columns=16)

        assert trace[-1].act_hops == hops
        assert [state.arrived.index(1) for state in trace if any(state.arrived)] == list(range(columns[-1] + 1))


def test_group_with_exponent_of_0_comes_with_it() -> None:
    zero = BFP8.encode(np.zeros((1, 32), np.float16))

    assert operands(zero, zero)["a_exp"].tolist() == [[0]]


@pytest.mark.parametrize("activity", ["by_slot", "parallel"])
def test_any_state_can_be_restored(activity: Any) -> None:
    ports = tensors("bfp8", 2, 3, 160)
    ports["mode"][1:3] = M8M4
    rows = edges(ports, 2, 3, activity)
    trace = states(rows, activity=activity)
    device = BfpPeArrayClocked(**{**SMALL, "activity": activity})
    for edge in range(len(trace) - 1):
        device.restore(trace[edge])
        again = device.step(**{name: values[edge + 1].tolist() for name, values in rows.items()})
        assert again == trace[edge + 1]


def test_error_changes_nothing() -> None:
    device = BfpPeArrayClocked(**SMALL)
    rows = edges(tensors("int4", 2, 3, 64), 2, 3)
    first = {name: values[0].tolist() for name, values in rows.items()}
    device.step(**first)
    before = device.snapshot()
    with pytest.raises(Refused, match=r"w_scale must be finite, got 0x7c00 at index \(1,\)"):
        device.step(**{**first, "w_scale": [0, 0x7C00, 0]})

    assert device.snapshot() == before


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("mode", "groups", "most"), [(M8W4, 0, 4), (M8M8, 3, 2)])
def test_bfp_pe_array_clocked_rejects_pass_sizes(run: Any, mode: int, groups: int, most: int) -> None:
    ports = edges(tensors("bfp8", 2, 3, 64), 2, 3, "parallel")
    ports["mode"][0], ports["groups"][0] = mode, groups
    with pytest.raises(Refused, match=rf"groups must be in \[1, {most}\], got {groups} at index \(0,\)"):
        run(**ports, **{**SMALL, "activity": "parallel"})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rows": 9}, r"rows must be in \[1, 8\]"),
        ({"columns": 0}, r"columns must be in \[1, 16\]"),
        ({"activity": "serial"}, "activity"),
        ({"partial": "bf16"}, "partial"),
    ],
)
def test_bfp_pe_array_clocked_rejects_invalid_inputs(parameters: Any, message: str) -> None:
    with pytest.raises(Refused, match=message):
        BfpPeArrayClocked(**parameters)
