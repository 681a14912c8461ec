"""The converter's two paths against the format, clock by clock: schedule, registers, counters, errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import Bfp
from refemu.units.harmonia import bfp_converter
from refemu.units.harmonia.bfp_converter import IDLE, UNIT, BfpConverter, Clock, clocks, port_values
from refemu.units.harmonia.bfp_converter import compiled as bfp_converter_compiled
from refemu.units.harmonia.bfp_converter.bfp_converter import TOKEN, V
from refemu.units.stepping import Result
from tests.arith.strategies import codes
from tests.formats.harmonia.bfp_words import words
from tests.oracles.harmonia import units

IMPLEMENTATIONS = [
    pytest.param(bfp_converter.convert, id="unit"),
    pytest.param(bfp_converter_compiled.convert, id="compiled"),
]
ON_PORTS = [pytest.param(bfp_converter.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
AXES = [("token", 1), ("v", 0)]


def drawn(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Words of any kind that are finite."""
    return finite(np.random.default_rng(seed).integers(0, 1 << 16, shape))


def finite(words: np.ndarray) -> np.ndarray:
    return np.where(words & 0x7C00 == 0x7C00, words ^ 0x4000, words).astype(np.uint16)


def on_ports(run: Any, sequence: list[Clock], **options: str) -> Result:
    return run(**{name: array[0] for name, array in port_values([sequence]).items()}, **options)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("kind", "axis"), AXES)
@pytest.mark.parametrize("shape", [(8, 32), (32, 16), (1, 1), (1, 40), (5, 33), (9, 64), (31, 17), (33, 5), (40, 70)])
@pytest.mark.parametrize("m", [8, 4])
def test_codes_are_the_formats(run: Any, kind: str, axis: int, shape: tuple[int, int], m: int) -> None:
    """[harmonia §IV-C, Fig. 14]: either path gives what group, exponent, shift and truncate give."""
    x = drawn(shape).view(np.float16)

    assert run(x, kind=kind, m=m).tensor.equals(Bfp(m).encode(x, axis))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("kind", "rows", "columns"),
    [
        ("token", 8, 32),
        ("token", 3, 32),
        ("token", 8, 5),
        ("token", 1, 1),
        ("v", 32, 16),
        ("v", 9, 16),
        ("v", 8, 3),
        ("v", 31, 7),
        ("v", 1, 1),
    ],
)
def test_counters_of_a_block_equal_the_oracle(run: Any, kind: str, rows: int, columns: int) -> None:
    """[harmonia §IV-C]: 32 comparisons for a full group on either path; masked lanes are not counted."""
    result = run(drawn((rows, columns)).view(np.float16), kind=kind)
    expected = units.converter_counts(kind, rows, columns)

    assert {name: getattr(result, name) for name in expected} == expected
    assert result.cycles == 2 * expected["compare_cycles"] and result.blocks == 1


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("kind", "shape", "cycles"),
    [("token", (8, 32 * 5), 32 * 6), ("token", (24, 64), 32 * 7), ("v", (64, 32), 64 * 5), ("v", (32, 160), 64 * 11)],
)
def test_stream_of_full_blocks_takes_one_block_more(run: Any, kind: str, shape: tuple[int, int], cycles: int) -> None:
    """[harmonia §IV-C]: 32 (B + 1) cycles for B token blocks, 64 (B + 1) for V: alignment overlaps comparison."""
    assert run(drawn(shape).view(np.float16), kind=kind).cycles == cycles


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=20)
@given(tokens=st.integers(1, 40), channels=st.integers(1, 70), kind=st.sampled_from(["token", "v"]))
def test_cycles_of_any_stream_equal_the_oracle(run: Any, tokens: int, channels: int, kind: str) -> None:
    """[harmonia §IV-C]: two banks, so a block begins when the one two before it is out."""
    lengths = (
        [min(32, channels - c) for _ in range(0, tokens, 8) for c in range(0, channels, 32)]
        if kind == "token"
        else [16 * -(-min(32, tokens - t) // 8) for t in range(0, tokens, 32) for _ in range(0, channels, 16)]
    )

    assert run(drawn((tokens, channels)).view(np.float16), kind=kind).cycles == units.converter_cycles(lengths)


@settings(deadline=None, max_examples=15)
@given(
    tokens=st.integers(1, 35),
    channels=st.integers(1, 40),
    kind=st.sampled_from(["token", "v"]),
    m=st.integers(1, 11),
    data=st.data(),
    rounding=st.sampled_from(["truncate", "half_even", "floor"]),
    zero_sign=st.sampled_from(["keep", "canonical"]),
    subnormals=st.sampled_from(["keep", "flush"]),
)
def test_compiled_form_equals_unit_on_any_matrix(
    tokens: int, channels: int, kind: str, m: int, data: st.DataObject, **options: str
) -> None:
    """D-harmonia-2, D-harmonia-4, D-harmonia-6: the options are the aligner's."""
    some = data.draw(st.lists(words, min_size=1, max_size=20))
    x = np.resize(np.array(some, np.uint16), (tokens, channels)).view(np.float16)

    unit, compiled_run = (
        each.convert(x, kind=kind, m=m, **options) for each in (bfp_converter, bfp_converter_compiled)
    )
    assert unit.equals(compiled_run)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("kind", "axis"), AXES)
def test_infinity_by_policy(run: Any, kind: str, axis: int) -> None:
    """D-harmonia-5."""
    x = np.ones((9, 5), np.float16)
    x[8, 4] = np.inf
    for special in ("hw", "saturate"):
        assert run(x, kind=kind, special=special).tensor.equals(Bfp(8, special=special).encode(x, axis))
    with pytest.raises(Refused, match=r"0x7c00"):
        run(x, kind=kind)


@pytest.mark.parametrize("run", ON_PORTS)
def test_token_path_clock_by_clock(run: Any) -> None:
    """[harmonia §IV-C, Fig. 14]: maxima grow for 32 clocks, then element j of all rows leaves in clock 32 + j."""
    matrix = drawn((8, 32), 1)
    result = on_ports(run, clocks(matrix, TOKEN) + [IDLE] * 33)
    field = (matrix >> 10 & 31).astype(int)
    tensor = Bfp(8).encode(matrix, bits=True)

    for j in range(31):
        assert result.emax[j, :8].tolist() == field[:, : j + 1].max(axis=1).tolist() and result.filled[j] == j + 1
    assert not result.emax[31].any() and result.align_emax[31, :8].tolist() == field.max(axis=1).tolist()
    assert result.out_valid.tolist() == [0] * 32 + [255] * 32 + [0]
    assert np.array_equal(result.mantissa[32:64], tensor.mantissa.T)
    assert np.array_equal(result.sign[32:64], tensor.sign.T == 1)
    assert np.array_equal(result.exponent[32:64], np.broadcast_to(tensor.exponent.T, (32, 8)))
    assert result.element[32:64].tolist() == list(range(32)) and result.position[31:64].tolist() == [*range(32), 0]


@pytest.mark.parametrize("run", ON_PORTS)
def test_v_path_clock_by_clock(run: Any) -> None:
    """[harmonia §IV-C, Fig. 14]: 4 loops of 8 rows; then column c leaves in four clocks of 8 tokens each."""
    matrix = drawn((32, 16), 2)
    result = on_ports(run, clocks(matrix, V, 4) + [IDLE] * 65)
    field = (matrix >> 10 & 31).astype(int)
    tensor = Bfp(4).encode(matrix, 0, bits=True)

    for loop in range(1, 4):
        assert result.emax[16 * loop - 1].tolist() == field[: 8 * loop].max(axis=0).tolist()
    assert result.out_valid.tolist() == [0] * 64 + [255] * 64 + [0] and result.out_kind[64:128].all()
    for clock in range(64):
        column, loop = divmod(clock, 4)
        at = 64 + clock
        assert (result.element[at], result.subgroup[at]) == (column, loop)
        assert result.mantissa[at].tolist() == tensor.mantissa[8 * loop : 8 * loop + 8, column].tolist()
        assert result.exponent[at].tolist() == [tensor.exponent[0, column]] * 8


@pytest.mark.parametrize("run", ON_PORTS)
def test_second_path_compares_and_waits_for_aligner(run: Any) -> None:
    """[harmonia §IV-C]: one aligner. A V block aligns for 16 clocks; a token block of 3 columns is full meanwhile."""
    v, token, third = drawn((8, 16), 3), drawn((8, 3), 4), drawn((2, 2), 5)
    result = on_ports(run, clocks(v, V) + clocks(token, TOKEN) + [IDLE] * 13 + clocks(third, TOKEN, 4) + [IDLE] * 9)

    assert result.ready.tolist() == [True] * 18 + [False] * 13 + [True] * 2 + [False] + [True] * 9
    assert result.out_kind[16:32].all() and not result.out_kind[32:].any()
    assert result.out_valid[32:].tolist() == [255] * 3 + [3] * 2 + [0] * 6
    assert np.array_equal(result.mantissa[32:35], Bfp(8).encode(token, bits=True).mantissa.T)
    assert np.array_equal(result.mantissa[35:37, :2], Bfp(4).encode(third, bits=True).mantissa.T)
    assert (result.compare_cycles, result.align_cycles) == (21, 21)


def test_events_name_what_a_clock_did() -> None:
    matrix = drawn((8, 3), 6)
    sequence = clocks(matrix, TOKEN) + clocks(matrix[:, :1], TOKEN) + [IDLE] * 4
    states = list(BfpConverter().steps(**{name: array[0] for name, array in port_values([sequence]).items()}))

    assert [state.event for state in states] == [
        "compare",
        "compare",
        "max",
        "max align",
        "align",
        "done",
        "done",
        "idle",
    ]


def test_drawing_shows_the_registers_of_both_banks() -> None:
    """[harmonia §IV-C]: what `refemu step bfp_converter` prints after every clock."""
    matrix = np.array([[0x4648, 0x3C00], [0xBE48, 0xC000]], np.uint16)
    converter = BfpConverter()
    sequence = clocks(matrix, TOKEN) + clocks(matrix[:1, :1], TOKEN, 4) + [IDLE] + clocks(matrix[:1, :1], V)[:1]
    drawings = [converter.draw(converter.step(*clock)).splitlines() for clock in sequence]

    assert drawings[0] == ["compare  token, m 8, 1 columns, emax 17 15  0  0  0  0  0  0", "align    empty, 0 aligned"]
    assert drawings[2][1:] == [
        "align    token, m 8, 2 columns, emax 17 16  0  0  0  0  0  0, 1 aligned",
        "out      token element 0  +201/E17  -100/E16  .  .  .  .  .  .",
    ]
    assert drawings[4][0].startswith("compare  v, m 8, 1 columns, emax 17  0") and len(drawings[4]) == 3


@pytest.mark.parametrize("run", ON_PORTS)
@pytest.mark.parametrize("gap", [1, 5])
def test_gaps_between_columns_change_neither_codes_nor_counters(run: Any, gap: int) -> None:
    """[harmonia §IV-C]: a compare cycle is an accepted column."""
    sequence = clocks(drawn((8, 7), 7), TOKEN)
    spread = [clock for one in sequence for clock in [one, *[IDLE] * gap]] + [IDLE] * 8
    dense, wide = (on_ports(run, clock) for clock in (sequence + [IDLE] * 8, spread))

    assert wide.mantissa[wide.out_valid != 0].tolist() == dense.mantissa[dense.out_valid != 0].tolist()
    assert (wide.compare_cycles, wide.comparisons) == (dense.compare_cycles, dense.comparisons) == (7, 56)


@pytest.mark.parametrize("run", ON_PORTS)
@pytest.mark.parametrize("gap", [1, 3])
@pytest.mark.parametrize(("shape", "kind"), [((32, 16), V), ((13, 5), V), ((8, 32), TOKEN), ((3, 7), TOKEN)])
def test_clock_without_column_changes_nothing(run: Any, gap: int, kind: int, shape: tuple[int, int]) -> None:
    """[harmonia §IV-C, Fig. 14] Gaps in a V stream whose kind stays V are not columns of zeros."""
    sequence = clocks(drawn(shape, 9), kind)
    idle = [IDLE] * (len(sequence) + 1)
    spread = [clock for one in sequence for clock in [one, *[(*one[:-1], 0)] * gap]]
    dense, wide = (on_ports(run, clocks + idle) for clocks in (sequence, spread))
    expected = units.converter_counts("v" if kind == V else "token", *shape)

    for name in ("sign", "mantissa", "exponent", "out_valid", "element", "subgroup"):
        got, want = (getattr(result, name)[result.out_valid != 0] for result in (wide, dense))
        assert got.tolist() == want.tolist()
    assert {name: getattr(wide, name) for name in expected} == expected
    assert wide.filled[: gap + 2].tolist() == [1] * (gap + 1) + [2]


@pytest.mark.parametrize("run", ON_PORTS)
def test_without_port_column_is_one_with_valid_lane(run: Any) -> None:
    """[harmonia §IV-C] Of either kind."""
    for kind in (TOKEN, V):
        assert run(np.full((4, 8), 0x3C00), [255, 0, 255, 255], kind, 8, 0).filled.tolist() == [1, 1, 2, 3]
    padded = run(np.full((4, 8), 0x3C00), [255, 0, 255, 255], V, 8, 0, 1)
    assert padded.filled.tolist() == [1, 2, 3, 4] and padded.emax[-1, :4].tolist() == [15, 0, 15, 15]


@settings(deadline=None, max_examples=25)
@given(data=st.data(), masks=st.lists(st.integers(1, 255), min_size=1, max_size=5))
def test_masked_token_blocks_give_codes_of_lanes(data: st.DataObject, masks: list[int]) -> None:
    """[harmonia §IV-C]: token blocks of any mask; a lane that is masked neither compares nor comes out."""
    sequence: list[Clock] = []
    expected = []
    for mask in masks:
        matrix = finite(data.draw(codes((8, data.draw(st.integers(1, 6))), 16)))
        sequence += [(x, mask, *rest) for x, _, *rest in clocks(matrix, TOKEN)] + [IDLE] * 6
        tensor = Bfp(8).encode(matrix, bits=True)
        held = np.array([mask >> lane & 1 for lane in range(8)])
        expected += (tensor.mantissa.T * held).tolist()
    sequence += [IDLE] * 12
    results = [on_ports(run.values[0], sequence) for run in ON_PORTS]

    assert results[0].equals(results[1])
    assert results[0].mantissa[results[0].out_valid != 0].tolist() == expected


def columns(**changes: Any) -> list[Clock]:
    """Two columns of one token block; a change applies to the second."""
    first = {"x": (0x3C00,) * 8, "valid": 255, "kind": TOKEN, "m": 8, "last": 0, "column_valid": 1}
    return [tuple(clock.values()) for clock in (first, first | changes)]  # type: ignore[misc]


def v_loops(*masks: int) -> list[Clock]:
    return [((0x3C00,) * 8, mask, V, 8, 0, 1) for mask in masks for _ in range(16)]


@pytest.mark.parametrize("run", ON_PORTS)
@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        pytest.param(columns(kind=V), "kind 1 with m 8 in clock 1 inside a block of kind 0 with m 8", id="kind"),
        pytest.param(columns(valid=0), "column in clock 1 without a valid lane, of kind token", id="no lane"),
        pytest.param(columns(m=4), "kind 0 with m 4 in clock 1 inside a block of kind 0 with m 8", id="m changes"),
        pytest.param(columns(valid=127), "valid 0x7f in clock 1 inside a token block with 0xff", id="mask"),
        pytest.param(
            columns(x=(0,) * 7 + (0xFC00,)), "x 0xfc00 in lane 7 in clock 1 has exponent field 31", id="field 31"
        ),
        pytest.param(
            [((0, 0x7C01, 0x7C00) + (0,) * 5, 0b00100, TOKEN, 8, 0, 1)],
            "x 0x7c00 in lane 2 in clock 0 has exponent field 31",
            id="field 31 in the one lane",
        ),
        pytest.param(columns(m=0), r"m 0 at index \(1,\) is outside \[1, 12\)", id="m 0"),
        pytest.param(columns(m=12), r"m 12 at index \(1,\) is outside \[1, 12\)", id="m 12"),
        pytest.param(v_loops(255, 127, 255), "V loop 2 in clock 32 after one with valid 0x7f", id="partial loop"),
        pytest.param(
            [*v_loops(255), ((0,) * 8, 255, V, 8, 1, 1)], "last in clock 16 at column 0 of a V loop", id="last"
        ),
        pytest.param(
            [*v_loops(255, 255, 255, 255), *columns(last=1), *columns()],
            "column in clock 66 while both banks are full",
            id="full",
        ),
    ],
)
def test_converter_rejects_invalid_columns(run: Any, sequence: list[Clock], message: str) -> None:
    """D-harmonia-5 for field 31; [harmonia §IV-C] for what a bank holds."""
    with pytest.raises(Refused, match=message):
        on_ports(run, sequence)


@pytest.mark.parametrize("run", ON_PORTS)
def test_invalid_lane_may_hold_any_word(run: Any) -> None:
    """D-harmonia-5 is of what is converted."""
    words = [0x7C00] * 8
    words[2] = 0x3C00
    clean, wild = (
        on_ports(run, [(tuple(x), 0b00100, TOKEN, 8, 1, 1), *[IDLE] * 12]) for x in ([0, 0, 0x3C00] + [0] * 5, words)
    )

    assert wild.mantissa[wild.out_valid != 0].tolist() == [[0, 0, 128, 0, 0, 0, 0, 0]]
    assert wild.aligned == clean.aligned == 1


def test_rejected_column_changes_nothing() -> None:
    converter = BfpConverter()
    first, second = columns(valid=3)
    before = converter.step(*first)
    with pytest.raises(Refused, match="inside a token block"):
        converter.step(*second)

    assert converter.snapshot() == before
    with pytest.raises(Refused, match="inputs of steps must be one sequence"):
        list(converter.steps(*(array for array in port_values([[IDLE], [IDLE]]).values())))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param(
            {"x": np.ones((2, 2))},
            RefusedType,
            r"must be a nonempty float16 \(tokens, channels\), got float64",
            id="dtype",
        ),
        pytest.param({"x": np.ones(3, np.float16)}, RefusedType, r"got float16 \(3,\)", id="rank"),
        pytest.param(
            {"x": np.ones((0, 3), np.float16)}, RefusedType, r"nonempty float16 .*, got float16 \(0, 3\)", id="none"
        ),
        pytest.param({"kind": "k"}, Refused, "kind must be one of 'token', 'v', got 'k'", id="kind"),
        pytest.param(
            {"x": np.array([[1, 1, 1], [1, 1, np.inf]], np.float16)},
            Refused,
            r"^bfp_converter: x must hold no infinity and NaN; .*, got 0x7c00 at index \(1, 2\)",
            id="infinity",
        ),
        pytest.param(
            {"x": np.array([[1, np.nan]], np.float16), "special": "saturate"},
            Refused,
            r"^bfp_converter: x must hold no NaN, got 0x7e00 at index \(0, 1\)",
            id="NaN",
        ),
        pytest.param({"m": 12}, Refused, r"m must be in \[1, 11\], got 12", id="m"),
    ],
)
def test_bfp_converter_rejects_matrices(
    run: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(**{"x": np.ones((2, 2), np.float16), **arguments})


def test_bfp_converter_repr_evaluates_back() -> None:
    text = "BfpConverter(rounding='floor', special='hw', subnormals='flush', zero_sign='canonical')"

    assert repr(BfpConverter("floor", "hw", "flush", "canonical")) == text
