"""The tile instruction against Python integers, the dot product units, and its register layout."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.olive import mmaovp
from refemu.units.olive.mmaovp import EDPS, PRODUCTS, TYPES, UNIT, Gpu, MmaOvp, fragments, from_fragments
from refemu.units.olive.olive_edp import DotProductUnit
from tests.arith.strategies import codes
from tests.oracles.bits import signed
from tests.units.olive.operands import decoded as of_pair

IMPLEMENTATIONS = [pytest.param(mmaovp.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
HIGH, LOW = 2**31 - 1, -(2**31)
OPERANDS = [
    ("ovpi4", "ovpi4"),
    ("ovpi4", "ovpf4"),
    ("ovpf4", "ovpi4"),
    ("ovpf4", "ovpf4"),
    ("ovpi8", "ovpi8"),
    ("ovpi8_repo", "ovpi8"),
]


@st.composite
def tiles(draw: st.DrawFn, kind: str) -> np.ndarray:
    """Pairs of 8 rows, a quarter of them with a victim."""
    width, lanes = (8, 64) if kind.startswith("ovpi8") else (4, 128)
    pairs, place = draw(codes(lanes, 2 * width)), draw(codes(lanes, 3))
    mark = np.where(place & 1, 1 << (width - 1), 1 << (2 * width - 1))
    keep = np.where(mark > 1 << width, (1 << width) - 1, ((1 << width) - 1) << width)
    return np.where(place >= 6, pairs & keep | mark, pairs)


def rows(pairs: np.ndarray, bias: int, kind: str) -> list[list[int]]:
    """Integers of 8 rows, by the oracle."""
    name = TYPES[kind]
    decoded = [of_pair(pair, bias, name) for pair in pairs]
    values = [i * 2**e for exponents, integers, _ in decoded for e, i in zip(exponents, integers, strict=True)]
    return [values[i * len(values) // 8 : (i + 1) * len(values) // 8] for i in range(8)]


def expected(a: list[list[int]], b: list[list[int]], c: list[int], overflow: str) -> tuple[list[int], list[bool]]:
    """D and flags: two chunks of K, the second onto the d of the first, each reduced once."""
    result, flags = [], []
    for place, d in enumerate(c):
        x, y, over = a[place // 8], b[place % 8], False
        for chunk in (slice(0, len(x) // 2), slice(len(x) // 2, None)):
            exact = d + sum(p * q for p, q in zip(x[chunk], y[chunk], strict=True))
            over |= not LOW <= exact <= HIGH
            d = signed(exact % 2**32, 32) if overflow == "wrap" else max(LOW, min(HIGH, exact))
        result.append(d)
        flags.append(over)
    return result, flags


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
@pytest.mark.parametrize(("a_type", "b_type"), OPERANDS)
@settings(deadline=None, max_examples=8)
@given(data=st.data(), biases=st.tuples(st.integers(0, 15), st.integers(0, 15)))
def test_tiles_equal_the_oracle(
    run: Any, overflow: str, a_type: str, b_type: str, data: st.DataObject, biases: Any
) -> None:
    """D-olive-34: every operation reduces once, so in `saturate` the order of the chunks is K ascending. D-olive-21."""
    a, b, c = data.draw(tiles(a_type)), data.draw(tiles(b_type)), data.draw(codes(64, 32)) + LOW
    result = run(a, b, *biases, c, a_type=a_type, b_type=b_type, overflow=overflow)
    d, flags = expected(rows(a, biases[0], a_type), rows(b, biases[1], b_type), c.tolist(), overflow)

    assert (result.d.tolist(), result.overflow.tolist()) == (d, flags)
    assert (result.d.dtype, result.overflow.dtype, result.illegal.dtype) == (np.int32, np.bool_, np.bool_)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("a_type", "n"), [("ovpi4", 16), ("ovpi8", 8)])
def test_tile_has_128_operations_in_8_cycles(run: Any, a_type: str, n: int) -> None:
    """[olive §4.1] m8n8k32 and m8n8k16 are 128 dot product operations; 16 EDPs a tensor core."""
    lanes = 8 * n
    result = run(np.ones((3, lanes), int), np.ones((3, lanes), int), 2, 2, [0] * 64, a_type=a_type, b_type=a_type)

    assert {name: getattr(result, name) for name in UNIT.counters} == {
        "operations": 384,
        "macs": 384 * n,
        "decodes": 384 * n,
        "overflows": 0,
        "illegal_operations": 0,
        "cycles": 24,
    }


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_illegal_pair_flags_its_tile_and_its_operations(run: Any) -> None:
    """D-olive-18: one pair of row 7 of A is used by 8 operations."""
    a = np.full((2, 128), 0x11)
    a[1, 127] = 0x08
    result = run(a, np.full(128, 0x11), 2, 2, [0] * 64)

    assert (result.illegal.tolist(), result.illegal_operations) == ([False, True], 8)
    assert result.d[1].reshape(8, 8)[:, 0].tolist() == [32] * 7 + [30]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("a_type", "lanes"), [("ovpi4", 128), ("ovpf4", 128), ("ovpi8", 64)])
def test_a_tile_of_zeros_passes_c_through(run: Any, a_type: str, lanes: int) -> None:
    c = np.resize([0, 1, -1, HIGH, LOW], 64)
    result = run([0] * lanes, [0] * lanes, 2, 15, c, a_type=a_type, b_type=a_type)

    assert result.d.tolist() == c.tolist() and not result.overflow.any() and not result.illegal


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_order_of_k_chunks_matters_only_in_saturate(run: Any) -> None:
    """D-olive-33: 3 * 2**30 and then -2**31 leave 32 bits in between, or the other way round do not."""
    a, b = np.zeros((2, 8, 8), int)
    a[:, [0, 1, 2, 4, 5]], b[:, [0, 1, 2]], b[:, [4, 5]] = 0x8040, 0x8040, 0x80C0
    turned = [4, 5, 6, 7, 0, 1, 2, 3]
    results = [
        [
            int(run(x.ravel(), y.ravel(), 4, 4, [0] * 64, a_type="ovpi8", b_type="ovpi8", overflow=rule).d[0])
            for x, y in ((a, b), (a[:, turned], b[:, turned]))
        ]
        for rule in ("wrap", "saturate")
    ]

    assert results == [[2**30, 2**30], [-1, 2**30]]


def test_states_follow_row_column_and_chunk() -> None:
    core = MmaOvp()
    states = list(core.steps([0x11] * 128, [0x11] * 128, 2, 2, list(range(64))))

    assert [state.phase for state in states] == list(range(128)) and {state.event for state in states} == {"edp"}
    assert [state.d[:2] for state in states[:4]] == [(16, 1), (32, 1), (32, 17), (32, 33)]
    assert [state.cycles for state in states[14:17]] == [0, 1, 1] and not core.busy


def test_wrong_event_order_raises_without_change() -> None:
    core = MmaOvp()
    with pytest.raises(Refused, match="mmaovp: step needs the inputs of an operation, got none"):
        core.step()
    begun = core.step([0] * 128, [0] * 128, 2, 2, [0] * 64)
    with pytest.raises(Refused, match=r"mmaovp: step takes no inputs after event \w+"):
        core.step([0] * 128, [0] * 128, 2, 2, [0] * 64)

    assert core.snapshot() == begun


@pytest.mark.parametrize(("dtype", "lanes", "per_lane"), [(np.uint8, 128, 4), (np.uint16, 64, 2)])
def test_fragments_are_the_registers_of_turings_layout(dtype: Any, lanes: int, per_lane: int) -> None:
    """Lane l: row l >> 2, elements 8t to 8t + 7 (8 bit: 4t to 4t + 3) with t = l & 3; of C columns 2t, 2t + 1."""
    pairs = np.arange(lanes, dtype=dtype)
    registers = fragments(pairs, pairs[::-1].copy(), np.arange(64) - 32)
    row = lanes // 8

    for lane in range(32):
        g, t = lane >> 2, lane & 3
        words = [int(pair) for pair in pairs[g * row + per_lane * t : g * row + per_lane * (t + 1)]]
        bits = 32 // per_lane
        assert int(registers["a"][lane]) == sum(word << bits * i for i, word in enumerate(words))
        assert registers["c"][lane].view(np.int32).tolist() == [g * 8 + 2 * t - 32, g * 8 + 2 * t - 31]
    assert registers["b"].shape == (32,) and int(registers["b"][31]) & 0xFF == per_lane - 1


@pytest.mark.parametrize(
    "convert",
    [list, lambda p: p.astype(np.int64), lambda p: p.astype(">u2"), lambda p: np.repeat(p, 2)[::2]],
    ids=["list", "int64", "big-endian", "strided"],
)
@pytest.mark.parametrize(("dtype", "lanes"), [(np.uint8, 128), (np.uint16, 64)])
def test_fragments_take_any_integers_within_the_ports(convert: Any, dtype: Any, lanes: int) -> None:
    """Leading axes stay, each operand's its own."""
    pairs = np.arange(lanes, dtype=dtype) * np.array(37, dtype)
    tile = np.resize([0, 1, -1, HIGH, LOW], 64)
    plain, converted = (
        fragments(a, b, c)
        for a, b, c in ((pairs, pairs, tile.astype(np.int32)), (convert(pairs), [convert(pairs)], [[tile.tolist()]]))
    )

    assert [converted[name].shape for name in "abc"] == [(32,), (1, 32), (1, 1, 32, 2)]
    for name in "abc":
        assert converted[name].dtype == np.uint32 and converted[name].tobytes() == plain[name].tobytes()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"a": np.zeros(128)}, RefusedType, "a_pairs: integers are needed, got dtype float64", id="floats"),
        pytest.param(
            {"a": [0] * 127 + [300]}, Refused, r": a_pairs 300 at index \(127,\) is outside \[0, 256\)", id="300"
        ),
        pytest.param(
            {"b": [0] * 127 + [-1]}, Refused, r": b_pairs -1 at index \(127,\) is outside \[0, 256\)", id="-1"
        ),
        pytest.param(
            {"a": np.zeros((8, 16), int)},
            RefusedType,
            r"a_pairs: the last axis must hold 128 lanes, got shape \(8, 16\)",
            id="rows",
        ),
        pytest.param({"a": 0}, RefusedType, r"a_pairs: the last axis must hold 128 lanes, got shape \(\)", id="scalar"),
        pytest.param({"b": [0] * 64}, RefusedType, "b_pairs: the last axis must hold 128 lanes", id="widths"),
        pytest.param(
            {"a": np.zeros(64, np.uint8), "b": [0] * 64},
            RefusedType,
            "a_pairs: 64 lanes are words of 16 bits, got bytes",
            id="64 bytes",
        ),
        pytest.param(
            {"a": [0] * 63 + [1 << 16], "b": [0] * 64},
            Refused,
            r": a_pairs 65536 at index \(63,\) is outside \[0, 65536\)",
            id="word",
        ),
        pytest.param({"c": np.arange(64) + 2**40}, Refused, r": c 1099511627776 at index \(0,\) is outside", id="c"),
        pytest.param({"c": [0] * 63}, RefusedType, "c: the last axis must hold 64 lanes", id="63"),
    ],
)
def test_fragments_reject_what_no_port_takes(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    good = {"a": [0] * 128, "b": [0] * 128, "c": [0] * 64}
    with pytest.raises(error, match=f"^mmaovp.fragments.?{message}"):
        fragments(*(good | arguments).values())


@pytest.mark.parametrize(("kind", "bias"), [("ovpi4", 2), ("ovpf4", 3), ("ovpi8", 4), ("ovpi8_repo", 2)])
def test_an_instruction_goes_through_the_registers_and_back(kind: Any, bias: int) -> None:
    """A, B and C into the registers of the lanes and out of them, D into those of C: nothing moves."""
    rng = np.random.default_rng(7)
    lanes, top = (64, 1 << 16) if "8" in kind else (128, 1 << 8)
    a, b = (rng.integers(0, top, (3, lanes)) for _ in range(2))
    c = rng.integers(LOW, HIGH + 1, (3, 64))
    registers = fragments(a, b, c)

    inputs = from_fragments(registers, kind)
    result = UNIT.run_compiled(**inputs, bias_a=bias, bias_b=bias, a_type=kind, b_type=kind)
    d = fragments(a, b, result.d)["c"]
    back = from_fragments({"d": d}, kind)["d"]

    assert [inputs[name].tolist() for name in ("a_pairs", "b_pairs", "c")] == [a.tolist(), b.tolist(), c.tolist()]
    assert [inputs[name].dtype for name in inputs] == [np.uint16 if "8" in kind else np.uint8] * 2 + [np.int32]
    expected = UNIT.run_compiled(a, b, bias, bias, c, a_type=kind, b_type=kind).d
    assert back.dtype == np.int32 and back.tolist() == expected.tolist()
    for lane in range(32):  # Turing's layout, by hand
        row, column = lane >> 2, 2 * (lane & 3)
        assert d[1, lane].view(np.int32).tolist() == expected[1].reshape(8, 8)[row, column : column + 2].tolist()


@pytest.mark.parametrize("convert", [list, lambda w: w.astype(np.int64), lambda w: w.astype(">u4")])
def test_registers_are_any_integers_of_32_bits(convert: Any) -> None:
    words = np.arange(32, dtype=np.uint32) * np.uint32(0x8765_4321)
    for kind, dtype in (("ovpi4", np.uint8), ("ovpi8", np.uint16)):
        pairs = from_fragments({"b": [convert(words)]}, kind)["b_pairs"]  # type: ignore[arg-type]
        assert pairs.dtype == dtype and pairs.tolist() == [words.view(dtype).tolist()]
    assert from_fragments({}) == {}


@pytest.mark.parametrize(
    ("registers", "kind", "error", "message"),
    [
        ({"a": np.zeros(32)}, "ovpi4", RefusedType, ".a: integers are needed, got dtype float64"),
        ({"a": [0] * 31}, "ovpi4", RefusedType, r".a: the last axes must be \(32,\), got shape \(31,\)"),
        ({"d": [0] * 64}, "ovpi4", RefusedType, r".d: the last axes must be \(32, 2\), got shape \(64,\)"),
        (
            {"c": [[0, 0]] * 31 + [[0, -1]]},
            "ovpi4",
            Refused,
            r".c: word -1 at index \(31, 1\) is outside \[0, 4294967296\)",
        ),
        ({"b": [1 << 32] + [0] * 31}, "ovpi8", Refused, r".b: word 4294967296 at index \(0,\) is outside"),
        ({"ab": [0] * 32}, "ovpi4", Refused, ": register must be one of 'a', 'b', 'c', 'd', got 'ab'"),
        ({"a": [0] * 32}, "ovpi5", Refused, ": a_type must be one of 'ovpi4'"),
    ],
)
def test_registers_that_no_warp_has_are_rejected(
    registers: Any, kind: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^mmaovp.from_fragments{message}"):
        from_fragments(registers, kind)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"a_pairs": [0] * 64}, RefusedType, "mmaovp.a_pairs: the last axis must hold 128 lanes", id="k16"),
        pytest.param({"c": [0] * 63}, RefusedType, "mmaovp.c: the last axis must hold 64 lanes", id="c"),
        pytest.param({"bias_a": 16}, Refused, "mmaovp: bias_a 16 is outside", id="bias"),
        pytest.param(
            {"b_type": "ovpi8"}, Refused, "a_type and b_type must have one width, got ovpi4 and ovpi8", id="mix"
        ),
        pytest.param({"a_type": "int4"}, Refused, "a_type must be one of .*, got 'int4'", id="type"),
    ],
)
def test_mmaovp_rejects_invalid_inputs(
    run: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    good = {"a_pairs": [0] * 128, "b_pairs": [0] * 128, "bias_a": 2, "bias_b": 2, "c": [0] * 64}
    with pytest.raises(error, match=message):
        run(**(good | arguments))


@pytest.mark.parametrize(("bits", "multipliers", "tenths"), [(16, 34_816, 1076), (8, 69_632, 2152), (4, 139_264, 4303)])
def test_multipliers_and_operations_of_the_papers_gpu(bits: int, multipliers: int, tenths: int) -> None:
    """[olive §4.1, Tbl. 5] 68 x 8 x 2 x 8 x 4 = 34,816, twice and four times that; 107.6, 215.2, 430.3 TOPS."""
    gpu = Gpu(bits)

    assert (gpu.tensor_cores, gpu.edps, gpu.multipliers) == (544, 8_704, multipliers)
    assert 68 * 8 * 2 * 8 * 4 * (16 // bits) == multipliers
    assert round(2 * gpu.multipliers * 1545 / 10**5) == tenths


def test_pair_decoders_of_the_papers_gpu() -> None:
    """[olive Tbl. 10] 139,264 of 4 bits, 69,632 of 8 bits: one for every pair that a dot product unit reads."""
    assert [Gpu(bits).pair_decoders for bits in (4, 8, 16)] == [139_264, 69_632, 0]
    for bits, kind in ((4, "int4"), (8, "int8")):
        assert DotProductUnit(kind, kind).n == PRODUCTS[bits]
        assert Gpu(bits).pair_decoders == 544 * EDPS * PRODUCTS[bits]


@pytest.mark.parametrize("arguments", [{"bits": 2}, {"sms": 0}, {"cores_per_sm": -1}], ids=str)
def test_impossible_gpus_are_rejected(arguments: dict[str, int]) -> None:
    with pytest.raises(Refused, match=f"Gpu: {next(iter(arguments))} .*{next(iter(arguments.values()))}"):
        Gpu(**arguments)


def test_mmaovp_repr_evaluates_back() -> None:
    assert eval(repr(Gpu(8, 2, 4))) == Gpu(8, 2, 4)
    assert repr(MmaOvp("ovpi8", "ovpi8")) == "MmaOvp(a_type='ovpi8', b_type='ovpi8', overflow='wrap')"
