"""The array against dot products and its schedule: tiles of every size, columns one after the other, counters."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import BFP4, BFP8
from refemu.formats.groupint import INT4_G128
from refemu.units.harmonia import bfp_pe_array
from refemu.units.harmonia.bfp_pe import M8M4, M8M8, bfp_dot, bfp_dot_int
from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS, BfpPeArray, tile
from refemu.units.harmonia.bfp_pe_array import compiled as bfp_pe_array_compiled
from tests.arith.strategies import numbers, repeating
from tests.oracles.harmonia import units
from tests.oracles.harmonia.bfp import Group, encode

IMPLEMENTATIONS = [
    pytest.param(bfp_pe_array.run, id="unit"),
    pytest.param(bfp_pe_array.UNIT.run_compiled, id="compiled"),
]
KINDS = ("int4", "bfp4", "bfp8")


def half(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def encoded(kind: str, left: np.ndarray, right: np.ndarray) -> tuple[Any, Any, np.ndarray]:
    """Both tensors of float16 values, and their product by the dot functions."""
    a = BFP8.encode(left)
    if kind == "int4":
        b: Any = INT4_G128.encode(right.astype(np.float32))
        return a, b, bfp_dot_int(a, b)
    b = (BFP8 if kind == "bfp8" else BFP4).encode(right)
    return a, b, bfp_dot(a, b)


def operands(kind: str, rows: int, columns: int, inner: int, seed: int = 1) -> tuple[Any, Any, np.ndarray]:
    return encoded(kind, half((rows, inner), seed), half((columns, inner), seed + 1))


def matrix(words: Any) -> np.ndarray:
    return np.asarray(words).view(np.float32).reshape(ROWS, COLUMNS)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=20)
@given(
    kind=st.sampled_from(KINDS),
    rows=st.integers(1, 8),
    columns=st.integers(1, 16),
    inner=st.integers(1, 70),
    data=st.data(),
)
def test_tiles_equal_the_dot_products(
    run: Any, kind: str, rows: int, columns: int, inner: int, data: st.DataObject
) -> None:
    """[harmonia §IV-A] Every size of tile in every mode; rows and columns beyond it are not valid."""
    left, right = (data.draw(repeating(numbers, (some, inner))).astype(np.float16) for some in (rows, columns))
    a, b, product = encoded(kind, left, right)
    result = run(**tile(a, b), groups=-(-inner // 32))
    valid = result.valid.reshape(ROWS, COLUMNS)

    assert matrix(result.acc)[:rows, :columns].tobytes() == product.tobytes()
    assert valid[:rows, :columns].all() and np.count_nonzero(valid) == rows * columns
    assert not matrix(result.acc)[~valid].any()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("partial", ["fp16", "fp32"])
def test_accumulators_are_the_oracles(run: Any, kind: str, partial: str) -> None:
    """[harmonia §IV-A (3)] Every output of a tile, by exact sums of its groups and one rounding for every step."""
    left, right = half((5, 70), 7), half((9, 70), 8)
    a = [encode(row) for row in left.view(np.uint16).tolist()]
    tensor = BFP8.encode(left)
    if kind == "int4":
        b: Any = INT4_G128.encode(right.astype(np.float32))
        codes = np.pad(b.code, ((0, 0), (0, 26))).reshape(9, 3, 32).tolist()
        wanted = [
            [
                units.dot_int(x, y, z, "paper" if partial == "fp16" else "exact")[0]
                for y, z in zip(codes, b.scales_of(32).view(np.uint16).tolist(), strict=True)
            ]
            for x in a
        ]
    else:
        b = (BFP8 if kind == "bfp8" else BFP4).encode(right)
        columns = [encode(row, 8 if kind == "bfp8" else 4) for row in right.view(np.uint16).tolist()]
        wanted = [[units.dot(x, y, "paper" if partial == "fp16" else "exact")[0] for y in columns] for x in a]
    result = run(**tile(tensor, b), groups=3, partial=partial)

    assert matrix(result.acc)[:5, :9].tobytes() == np.array(wanted, np.float32).tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [1, 3])
def test_columns_are_valid_one_after_the_other(kind: str, groups: int) -> None:
    """[harmonia §IV-C, Fig. 14a] D-harmonia-10: all rows of a column in one cycle, columns in T_0 ... T_15."""
    a, b, product = operands(kind, 8, 16, 32 * groups)
    states = list(BfpPeArray(groups).steps(**tile(a, b)))
    slots = 2 if kind == "bfp8" else 1
    leaving = {state.cycle: state for state in states if any(state.column_valid)}

    assert list(leaving) == units.array_cycles([slots] * groups)
    assert [state.col for state in leaving.values()] == list(range(16))
    assert all(state.column_valid == (1,) * 8 for state in leaving.values())
    assert all(
        np.array(state.column, np.uint32).view(np.float32).tolist() == product[:, state.col].tolist()
        for state in leaving.values()
    )
    assert [state.cycle for state in states] == list(range(slots * groups + 16))
    assert [state.event for state in states] == ["compute"] * (slots * groups + 15) + ["read"]
    assert [BfpPeArray(groups).valid_at(c, states[0].mode) for c in range(16)] == list(leaving)


def test_activations_move_one_column_and_weights_follow() -> None:
    """[harmonia §IV-A (2)] Column c does in cycle t what column c - 1 did in cycle t - 1, with its own weights."""
    a, b, _ = operands("bfp8", 8, 16, 64)
    ports = tile(a, b)
    states = list(BfpPeArray(2).steps(**ports))
    for before, after in pairwise(states):
        assert after.work[1:] == before.work[:-1]
        for row in range(ROWS):
            left, right = (state.pes[row * COLUMNS : (row + 1) * COLUMNS] for state in (before, after))
            assert [pe[:3] for pe in right[1:]] == [pe[:3] for pe in left[:-1]]
    column3 = [state.weights[3].b for state in states if state.work[3].slot == 0 and state.work[3].group >= 0]
    assert column3 == [tuple(ports["b"][at : at + 32].tolist()) for at in (6 * 32, 7 * 32)]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "columns", "groups"), [(8, 16, 2), (1, 16, 1), (5, 1, 2), (3, 7, 3)])
def test_counters(run: Any, kind: str, rows: int, columns: int, groups: int) -> None:
    """D-harmonia-22: f * G + 15 cycles a tile, whatever its size; masked PEs count nothing."""
    a, b, _ = operands(kind, rows, columns, 32 * groups)
    result, slots = run(**tile(a, b), groups=groups), groups * (2 if kind == "bfp8" else 1)

    assert (result.cycles, result.macs, result.fp32_adds) == (
        slots + 15,
        32 * rows * columns * groups,
        rows * columns * groups,
    )
    assert (result.act_hops, result.weight_broadcasts) == (rows * (columns - 1) * groups, columns * groups)
    assert result.busy_pe_cycles == slots * rows * columns


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_full_array_has_half_the_rate_in_m8m8(run: Any) -> None:
    """[harmonia §V-C] 4096 and 2048 MACs a cycle of full use, [harmonia §V-A] 8192 and 4096 operations."""
    rates = []
    for kind in KINDS:
        a, b, _ = operands(kind, 8, 16, 64)
        result = run(**tile(a, b))
        rates.append(2 * 128 * result.macs // result.busy_pe_cycles)

    assert rates == [8192, 8192, 4096]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_modes_mixed_in_a_reduction(run: Any) -> None:
    """D-harmonia-36: scores by values, some groups at 4 bits: bits of the 8-bit tile, fewer slots."""
    a, b, _ = operands("bfp8", 8, 16, 64)
    ports = tile(a, b)
    codes = ports["b"].reshape(16, 2, 32).copy()
    codes[:, 0] &= 0xF0  # the first group has empty low nibbles
    wide = run(**ports | {"b": codes.reshape(-1)})
    codes[:, 0] >>= 4
    mixed = ports | {"b": codes.reshape(-1), "mode": np.array([M8M4, M8M8])}
    result, slots = run(**mixed), [1, 2]

    assert result.acc.tolist() == wide.acc.tolist() and result.cycles == sum(slots) + 15 == wide.cycles - 1
    leaving = [state.cycle for state in BfpPeArray(2).steps(**mixed) if any(state.column_valid)]
    assert leaving == units.array_cycles(slots)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_flags_are_those_of_each_pe(run: Any) -> None:
    """D-harmonia-7: infinities of both signs make NaN in one element only."""
    a, b, _ = operands("bfp8", 8, 16, 64)
    ports = tile(a, b) | {"a_exp": np.full(16, 30), "b_exp": np.full(32, 30)}
    result = run(**ports)
    paper = [
        sum(int(bool(flag)) << bit for bit, flag in enumerate(oracle_flags(ports, row, column)))
        for row in range(8)
        for column in range(16)
    ]

    assert result.flags.tolist() == paper and 5 in paper and 1 in paper


def oracle_flags(ports: Any, row: int, column: int) -> Any:
    """Flags of one element by the oracle."""

    def side(name: str, index: int) -> list[Any]:
        some = [slice((2 * index + g) * 32, (2 * index + g + 1) * 32) for g in range(2)]
        mantissa = ports["a_mag" if name == "a" else "b"]
        return [Group(30, ports[f"{name}_sign"][s].tolist(), mantissa[s].tolist(), 8) for s in some]

    return units.dot(side("a", row), side("b", column))[1]


@pytest.mark.parametrize("part", [1, 600])
def test_parts_of_the_sums_do_not_show(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled form adds so many partial sums at once as a cache holds: a tile of 256, two of them, or all five."""
    tiles = [tile(*operands("bfp8", 8, 16, 64, seed)[:2]) for seed in range(5)]
    ports = {name: np.stack([one[name] for one in tiles]) for name in tiles[0]}
    whole = bfp_pe_array.UNIT.run_compiled(**ports)
    monkeypatch.setattr(bfp_pe_array_compiled, "PART", part)

    assert bfp_pe_array.UNIT.run_compiled(**ports).equals(whole)
    assert len({row.tobytes() for row in whole.acc}) == 5


def test_tiles_do_not_overlap() -> None:
    """D-harmonia-22: the next tile begins after the last column of this one is read; accumulators start at +0."""
    a, b, product = operands("bfp4", 8, 16, 64)
    two = {name: np.stack([value, value]) for name, value in tile(a, b).items()}
    states = list(BfpPeArray(2).steps(**two))

    assert [state.cycle for state in states] == [*range(18), *range(18)]
    assert matrix(np.array(states[-1].acc, np.uint32)).tobytes() == product.tobytes()
    assert states[-1].cycles == 2 * 17


def test_drawing_shows_who_works_and_what_leaves() -> None:
    a, b, product = operands("bfp4", 2, 3, 64)
    array = BfpPeArray(2)
    drawn = [array.draw(state).split("\n") for state in array.steps(**tile(a, b))]

    assert drawn[1][:2] == ["cycle 1", "group.slot " + "".join(f"{x:>10}" for x in ["1.0", "0.0"] + ["-"] * 14)]
    assert drawn[2][0] == "cycle 2, column 0 leaves" and len(drawn[2]) == 4  # as many rows as the tile has
    assert drawn[-1][2].split()[2:5] == [f"{x:.4g}" for x in product[0]]


BAD = [
    pytest.param({"mode": np.array([3, 3])}, Refused, r"bfp_pe_array: mode 3 at index \(0,\)", id="mode"),
    pytest.param({"row_valid": np.ones(9, int)}, RefusedType, "row_valid: the last axis must hold 8 lanes", id="rows"),
    pytest.param({"col_valid": np.ones(17, int)}, RefusedType, "col_valid: .* 16 lanes", id="columns"),
    pytest.param(
        {"w_scale": np.ones(32, int)}, Refused, r"w_scale must be 0 in mode M8M4, got 1 at index \(0, 0\)", id="w"
    ),
    pytest.param(
        {"b": np.full(1024, 16)}, Refused, r"b must have 4 bits in mode .*, got 16 at index \(0, 0, 0\)", id="b"
    ),
    pytest.param({"groups": 0}, Refused, r"groups must be in \[1, 65536\], got 0", id="groups"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_bfp_pe_array_rejects_invalid_inputs(
    run: Any, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(**tile(*operands("bfp4", 2, 2, 64)[:2]) | change)


def test_tile_larger_than_array_is_rejected() -> None:
    a, b, _ = operands("bfp8", 8, 16, 32)
    with pytest.raises(Refused, match="rows must be at most 8, got 9"):
        tile(BFP8.encode(half((9, 32), 1)), b)
    with pytest.raises(Refused, match="columns must be at most 16, got 17"):
        tile(a, BFP8.encode(half((17, 32), 1)))
    with pytest.raises(Refused, match="8-bit mantissas by INT4, 4 or 8 bits"):
        tile(BFP4.encode(half((8, 32), 1)), b)


@pytest.mark.parametrize("kind", ["bfp4", "bfp8"])
def test_zeros_have_no_sign_at_the_ports(kind: str) -> None:
    a, b, _ = operands(kind, 8, 16, 64)
    ports = tile(a, b)
    a_zero, b_zero = ports["a_mag"] == 0, ports["b"] == 0

    assert b_zero.any() and not ports["a_sign"][a_zero].any() and not ports["b_sign"][b_zero].any()
    assert ports["a_sign"][~a_zero].any() and ports["b_sign"][~b_zero].any()


def test_step_after_last_cycle_is_rejected() -> None:
    array, ports = BfpPeArray(1), tile(*operands("bfp4", 2, 2, 20)[:2])
    inputs = [value.tolist() for value in ports.values()]
    array.step(*inputs)
    with pytest.raises(Refused, match=r"step takes no inputs after event \w+"):
        array.step(*inputs)
    while array.busy:
        array.step()
    done = array.snapshot()
    with pytest.raises(Refused, match="step needs the inputs of an operation, got none"):
        array.step()

    assert array.snapshot() == done


def test_bfp_pe_array_repr_evaluates_back() -> None:
    assert repr(BfpPeArray(3)) == "BfpPeArray(groups=3, partial='fp16', product='fp32')"
