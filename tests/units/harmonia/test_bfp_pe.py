"""The PE against exact dot products: modes, nibbles, passes, counters, mixed reductions, both presets."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import BFP4, BFP8
from refemu.formats.groupint import INT4_G128
from refemu.units.harmonia import bfp_pe
from refemu.units.harmonia.bfp_pe import LANES, M8M4, M8M8, M8W4, MODES, SLOTS, Accumulator, BfpPe, SubPe
from tests.oracles.harmonia import units
from tests.oracles.harmonia.bfp import Group

IMPLEMENTATIONS = [pytest.param(bfp_pe.run, id="unit"), pytest.param(bfp_pe.UNIT.run_compiled, id="compiled")]
PRESETS = [pytest.param("paper", "fp16", id="paper"), pytest.param("exact", "fp32", id="exact")]
COUNTERS = ("macs4x8", "macs", "psums", "fusions", "fp_converts", "scale_mults", "fp32_adds", "cycles")
ONE = 0x3C00
FILES = tuple(f"{file}_{part}" for file in ("current", "next") for part in ("sign", "mag", "exp"))


def lanes(values: Any) -> np.ndarray:
    row = np.zeros(LANES, np.int64)
    row[: len(values)] = values
    return row


def ports(
    mode: int, a: Any, b: Any, a_exp: int = 15, b_exp: int = 0, w_scale: int = 0, clear: int = 0
) -> dict[str, Any]:
    """One group of signed values as port values."""
    a, b = lanes(a), lanes(b)
    fields = (b & 15, 0 * b) if mode == M8W4 else (abs(b), (b < 0).astype(np.int64))
    return {
        "mode": mode,
        "a_sign": (a < 0).astype(np.int64),
        "a_mag": abs(a),
        "a_exp": a_exp,
        "b": fields[0],
        "b_sign": fields[1],
        "b_exp": b_exp,
        "w_scale": w_scale,
        "clear": clear,
    }


def together(groups: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.array([group[name] for group in groups]) for name in groups[0]}


def number(words: Any) -> list[float]:
    return np.asarray(words, np.uint32).view(np.float32).tolist()


A, B = (201, -50, 6), (-224, 144, 56)
WORKED = [
    (M8W4, (7, -8, 3), 0, 0x224C, 1825, 0x3F338F30),
    (M8M4, (-14, 9, 3), 16, 0, -3246, 0xC1CAE000),
    (M8M8, B, 16, 0, -51888, 0xC1CAC000),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("mode", "b", "b_exp", "w_scale", "p", "acc"), WORKED, ids=MODES)
def test_worked_example(run: Any, mode: int, b: Any, b_exp: int, w_scale: int, p: int, acc: int) -> None:
    """[harmonia §IV-B, Fig. 13] D-harmonia-12: b is split; -25.3359375 is a tie in FP16 and gives -25.34375."""
    given = together([ports(mode, A, b, 17, b_exp, w_scale)])
    result, named = run(**given), run(**given | {"mode": MODES[mode]})

    assert (int(result.psum[0]), int(result.acc[0]), int(result.flags[0])) == (p, acc, 0) and result.equals(named)
    assert (
        number(result.acc)[0]
        == {M8W4: 57.03125 * float(np.uint16(w_scale).view(np.float16)), M8M4: -25.359375, M8M8: -25.34375}[mode]
    )
    assert (result.acc.dtype, result.flags.dtype, result.psum.dtype) == (np.uint32, np.uint8, np.int32)


def test_optional_ports_have_defaults() -> None:
    given = together([ports(M8W4, A, (7, -8, 3), 17)])
    short = {name: given[name] for name in ("mode", "a_sign", "a_mag", "a_exp", "b")}

    assert bfp_pe.run(**short).equals(bfp_pe.run(**given))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("top", [255, -255])
def test_nibble_products_of_8_bits_equal_wide_product(run: Any, top: int) -> None:
    """[harmonia §IV-B] D-harmonia-11, D-harmonia-12: 256 x 256 pairs, 32 of them in a group, all of one sign."""
    a, b = np.meshgrid(np.arange(256), np.arange(256), indexing="ij")
    a, b = a.reshape(-1, LANES), b.reshape(-1, LANES)
    signs = np.full(a.shape, int(top < 0))
    result = run(M8M8, signs, a, 15, b, 0 * signs, 15)

    assert result.psum.tolist() == [sum(x) * (1 if top > 0 else -1) for x in (a * b).tolist()]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("mode", "b", "most"), [(M8W4, -8, -65_280), (M8M4, 15, 122_400), (M8M8, 255, 2_080_800)])
def test_largest_sums_are_as_stated_and_fit_ports(run: Any, mode: int, b: int, most: int) -> None:
    """[harmonia §IV-B] 32 products of 255 by the largest magnitude: 17, 18 and 22 bits with sign."""
    result = run(**together([ports(mode, [255] * LANES, [b] * LANES, 8, 8 * (mode > 0))]))

    assert int(result.psum[0]) == most
    assert abs(most).bit_length() + 1 == {M8W4: 17, M8M4: 18, M8M8: 22}[mode]
    (port,) = (port for port in BfpPe().ports.state if port.name == "psum")
    assert port.limits[0] <= -abs(most) and abs(most) <= port.limits[1]


signed = st.one_of(st.sampled_from([0, 1, -1, 255, -255]), st.integers(-255, 255))


@st.composite
def reductions(draw: st.DrawFn) -> list[dict[str, Any]]:
    mode, groups = draw(st.integers(0, 3)), []
    for _ in range(draw(st.integers(1, 7))):
        own = draw(st.sampled_from([M8M4, M8M8])) if mode == 3 else mode
        most = {M8W4: 7, M8M4: 15, M8M8: 255}[own]
        b = draw(st.lists(st.integers(-most - (own == M8W4), most), min_size=LANES, max_size=LANES))
        a = draw(st.lists(signed, min_size=LANES, max_size=LANES))
        scale = draw(st.integers(0, 0x7BFF)) if own == M8W4 else 0
        groups.append(ports(own, a, b, draw(st.integers(0, 30)), draw(st.integers(0, 30)) * (own > 0), scale))
    return groups


def oracle_acc(groups: list[dict[str, Any]], preset: str) -> tuple[int, int]:
    """Word of the accumulator and flags by the oracle, from the signed values of the ports."""
    terms = list[tuple[Fraction, float | None]]()
    for g in groups:
        a = Group(g["a_exp"], g["a_sign"].tolist(), g["a_mag"].tolist(), 8)
        if g["mode"] == M8W4:
            codes = [int(c) - 16 * (int(c) >> 3) for c in g["b"]]
            terms.append((units.partial_int(a, codes), float(np.uint16(g["w_scale"]).view(np.float16))))
        else:
            bits = 4 if g["mode"] == M8M4 else 8
            terms.append((units.partial(a, Group(g["b_exp"], g["b_sign"].tolist(), g["b"].tolist(), bits)), None))
    acc, flags = units.accumulate(terms, preset)
    word = 0x7FC00000 if acc != acc else int(np.float32(acc).view(np.uint32))
    return word, flags.fp16_overflow + 2 * flags.fp16_underflow + 4 * flags.invalid


@pytest.mark.long
@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("preset", "partial"), PRESETS)
@settings(deadline=None, max_examples=40)
@given(groups=reductions())
def test_reductions_equal_the_oracle(run: Any, preset: str, partial: str, groups: list[dict[str, Any]]) -> None:
    """D-harmonia-7, D-harmonia-10, D-harmonia-21: any mode, and 4 and 8 bits mixed, groups ascending from +0."""
    result = run(**together(groups), partial=partial)

    assert (int(result.acc[-1]), int(result.flags[-1])) == oracle_acc(groups, preset)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=30)
@given(groups=reductions(), data=st.data())
def test_zero_nibbles_order_and_zero_groups_change_nothing(run: Any, groups: Any, data: Any) -> None:
    """D-harmonia-36: a 4-bit operand enters M8M8 shifted by four; the sum of a group is exact; a zero group adds +0."""
    order = data.draw(st.permutations(range(LANES)))
    base = run(**together(groups))
    moved = [{**g, **{port: g[port][order] for port in ("a_sign", "a_mag", "b", "b_sign")}} for g in groups]
    wide = [{**g, "mode": M8M8, "b": g["b"] << 4} if g["mode"] == M8M4 else g for g in groups]
    blank = {**groups[-1], "a_mag": lanes([])}
    if blank["mode"] == M8W4:
        blank["w_scale"] = 0x3C00  # 0 times an infinite scale would be NaN

    after = run(**together(moved))
    assert replace(after, **{name: getattr(base, name) for name in FILES}).equals(base)
    assert run(**together(wide)).acc.tolist() == base.acc.tolist()
    assert run(**together([blank, *groups])).acc.tolist()[1:] == base.acc.tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("mode", [M8W4, M8M4, M8M8], ids=MODES)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
def test_counters_of_a_reduction(run: Any, mode: int, count: int) -> None:
    """[harmonia §IV-B] D-harmonia-21: a slot is a cycle; a pass with fewer groups ends early."""
    result = run(**together([ports(mode, A, (1,), 17)] * count))
    wanted = units.pe_counters(MODES[mode].lower(), count)

    assert {name: getattr(result, name) for name in COUNTERS} == {name: wanted[name] for name in COUNTERS}
    assert result.passes == -(-wanted["cycles"] // SLOTS)
    assert result.slot.tolist() == [
        (g + 1) * (1 + (mode == M8M8)) % SLOTS - 1 if (g + 1) * (1 + (mode == M8M8)) % SLOTS else SLOTS - 1
        for g in range(count)
    ]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("mode", "groups", "macs"), [(M8W4, 4, 128), (M8M4, 4, 128), (M8M8, 2, 64)])
def test_full_pass_has_128_or_64_macs(run: Any, mode: int, groups: int, macs: int) -> None:
    """[harmonia §V-C] D-harmonia-21: half the efficiency in M8M8, at equal cycles."""
    result = run(**together([ports(mode, A, (1,), 17)] * groups))

    assert (result.macs, result.cycles, result.passes) == (macs, SLOTS, 1)


def test_peak_of_the_array_is_the_stated_one() -> None:
    """[harmonia §V-A] D-harmonia-21: 128 PEs, two operations a MAC, 300 MHz, 542 mW: 4534 and 2267 GOPS/W."""
    for mode, groups, ops, stated in ((M8W4, 4, 8192, 4534), (M8M8, 2, 4096, 2267)):
        result = bfp_pe.run(**together([ports(mode, A, (1,), 17)] * groups))
        per_cycle = Fraction(2 * 128 * result.macs, result.cycles)

        assert per_cycle == ops and int(per_cycle * Fraction(3, 10) / Fraction(542, 1000)) == stated


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_a_mode_or_an_output_starts_a_pass(run: Any) -> None:
    """D-harmonia-21."""
    modes = [M8M4, M8M8, M8M4, M8M4, M8M8, M8M8, M8M8, M8M4]
    mixed = run(**together([ports(mode, A, (1,), 17) for mode in modes]))
    cleared = run(**together([ports(M8M4, A, (1,), 17, clear=clear) for clear in (0, 0, 1, 0)]))

    assert mixed.slot.tolist() == [0, 1, 0, 1, 1, 3, 1, 0] and mixed.passes == 6
    assert cleared.slot.tolist() == [0, 1, 0, 1] and cleared.passes == 2
    assert number(cleared.acc)[1] == 2 * number(cleared.acc)[0] == number(cleared.acc)[3]


def test_events_show_the_registers() -> None:
    """[harmonia Fig. 13] A group of M8M8: load, high nibbles, low nibbles, fuse, accumulate; wrappers 0 and 1.

    D-harmonia-12.
    """
    states = list(BfpPe().steps(**together([ports(M8M8, A, B, 17, 16)])))

    assert [s.event for s in states] == ["load", "psum", "psum", "fuse", "accumulate"]
    assert [s.psum for s in states] == [0, -3246, 48, -51888, -51888]
    assert [s.slot for s in states] == [0, 0, 1, 1, 1] and [s.cycles for s in states] == [0, 1, 2, 2, 2]
    assert states[2].latched == (-3246, 0, 48, 0)  # sub-PE 0 of both wrappers
    assert states[0].next_sign[:3] == (0, 1, 0) and states[0].next_mag[:3] == (201, 50, 6) and states[0].next_exp == 17
    assert not any((*states[0].current_sign, *states[0].current_mag, states[0].current_exp))
    for part in ("sign", "mag", "exp"):
        assert getattr(states[1], f"current_{part}") == getattr(states[0], f"next_{part}")
    assert states[3].value == states[4].acc == 0xC1CAC000
    assert [s.todo for s in states] == [4, 3, 2, 1, 0] and [s.acc for s in states[:4]] == [0] * 4


@pytest.mark.parametrize(
    ("mode", "events"), [(M8W4, ["load", "psum", "scale", "accumulate"]), (M8M4, ["load", "psum", "accumulate"])]
)
def test_events_of_the_modes_with_four_bits(mode: int, events: list[str]) -> None:
    """[harmonia §IV-B] The weight factor "is bypassed in M8M4"; four groups are in four sub-PEs."""
    states = list(BfpPe().steps(**together([ports(mode, A, (group + 1,), 17) for group in range(4)])))

    assert [s.event for s in states] == events * 4
    assert states[-1].latched == tuple(201 * (group + 1) for group in range(4))


def test_wrong_event_order_raises_without_change() -> None:
    pe, group = BfpPe(), ports(M8M4, A, (1,))
    inputs = [
        group[port.name] if isinstance(group[port.name], int) else group[port.name].tolist() for port in pe.ports.inputs
    ]
    with pytest.raises(Refused, match="bfp_pe: step needs the inputs of an operation, got none"):
        pe.step()
    begun = pe.step(*inputs)
    with pytest.raises(Refused, match=r"bfp_pe: step takes no inputs after event \w+"):
        pe.step(*inputs)

    assert pe.busy and pe.snapshot() == begun


BAD = [
    pytest.param({"mode": 3}, Refused, r"bfp_pe: mode 3 is outside \[0, 3\)", id="mode 3"),
    pytest.param({"mode": "M4M4"}, Refused, "mode must be one of 'M8W4', 'M8M4', 'M8M8', got 'M4M4'", id="mode name"),
    pytest.param(
        {"b": lanes([0, 16])[None]}, Refused, r"b must have 4 bits in mode M8W4, got 16 at index \(0, 1\)", id="wide b"
    ),
    pytest.param(
        {"b_sign": lanes([0, 0, 1])[None]},
        Refused,
        r"b_sign must be 0 in mode M8W4, got 1 at index \(0, 2\)",
        id="b_sign",
    ),
    pytest.param({"b_exp": [1]}, Refused, r"b_exp must be 0 in mode M8W4, got 1 at index \(0,\)", id="b_exp"),
    pytest.param({"w_scale": [0x7C00]}, Refused, "w_scale must be finite in mode M8W4, got 31744 .*", id="infinite"),
    pytest.param({"w_scale": [0x7E00]}, Refused, "w_scale must be finite.*, got 32256 .*", id="nan"),
    pytest.param({"mode": 1, "w_scale": [1]}, Refused, "w_scale must be 0 in mode M8M4, got 1 .*", id="w_scale"),
    pytest.param({"a_mag": lanes([256])[None]}, Refused, r"a_mag 256 at index \(0, 0\) is outside", id="a_mag"),
    pytest.param({"a_mag": np.zeros((1, 31), int)}, RefusedType, "a_mag: the last axis must hold 32 lanes", id="lanes"),
    pytest.param(
        {"a_exp": [1, 2], "b": np.zeros((3, LANES), int)}, Refused, "shapes of the ports must broadcast", id="groups"
    ),
    pytest.param(
        {
            "a_exp": np.zeros(0, int),
            "b": np.zeros((0, LANES), int),
            "a_sign": np.zeros((0, LANES), int),
            "a_mag": np.zeros((0, LANES), int),
            "b_sign": np.zeros((0, LANES), int),
            "mode": np.zeros(0, int),
            "b_exp": np.zeros(0, int),
            "w_scale": np.zeros(0, int),
            "clear": np.zeros(0, int),
        },
        Refused,
        "groups must be at least 1, got 0",
        id="no groups",
    ),
    pytest.param({"partial": "bf16"}, Refused, "partial must be one of", id="partial"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_bfp_pe_rejects_invalid_inputs(run: Any, change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(**together([ports(M8W4, A, (1,), w_scale=ONE)]) | {"w_scale": [0] if "mode" in change else [ONE]} | change)


def test_drawing_shows_every_register() -> None:
    """[harmonia Fig. 13]"""
    pe = BfpPe()
    states = list(pe.steps(**together([ports(M8M8, A, B, 17, 16), ports(M8W4, A, (7, -8, 3), 17, 0, 0x224C)])))

    assert pe.draw(states[2]).split("\n") == [
        "M8M8, group 0, slot 1, cycle 2",
        "next       201 -50 6 29 x 0, E 17",
        "current    201 -50 6 29 x 0, E 17",
        "b          -224 144 56 29 x 0, E 16",
        "wrapper 0   sub-PE 0:    -3246   sub-PE 1:        0",
        "wrapper 1  *sub-PE 0:       48   sub-PE 1:        0",
        "sum 48, value 0 (00000000), acc 0 (00000000), flags none",
    ]
    assert "b          7 -8 3 29 x 0, factor 0.0123" in pe.draw(states[-1])
    assert "value -25.34375 (c1cac000), acc -25.34375 (c1cac000)" in pe.draw(states[4])
    assert "flags FP16 overflow, NaN" in pe.draw(replace(states[0], flags=5))


def test_public_names_are_here() -> None:
    """Classes and dot products, the compiled forms in the compiled form."""
    from refemu.units.harmonia.bfp_pe import compiled as bfp_pe_compiled

    a, w = BFP8.encode(np.ones(32, np.float16)), INT4_G128.encode(np.ones(32, np.float32))
    assert isinstance(SubPe(), object) and Accumulator() is not None
    for module in (bfp_pe, bfp_pe_compiled):
        assert float(module.bfp_dot(a, BFP4.encode(np.ones(32, np.float16)))) == 32.0
        assert float(module.bfp_dot_int(a, w)) == float(w.scale[0]) * 7 * 32


def test_bfp_pe_repr_evaluates_back() -> None:
    assert repr(BfpPe("fp32", "fp16")) == "BfpPe(partial='fp32', product='fp16')"


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=20)
@given(groups=reductions())
def test_registers_after_every_group(run: Any, groups: list[dict[str, Any]]) -> None:
    """[harmonia §IV-B, Fig. 13] Both register files hold the group; sums of sub-PEs stay until their slot returns."""
    result, latched = run(**together(groups)), [0] * SLOTS
    for number, group in enumerate(groups):
        for name in FILES:
            assert np.array_equal(getattr(result, name)[number], group["a_" + name.split("_")[1]])
        a = np.where(group["a_sign"], -group["a_mag"], group["a_mag"])
        if group["mode"] == M8M8:
            signs, last = np.where(group["b_sign"], -1, 1), int(result.slot[number])
            latched[last // 2] = int(a @ (signs * (group["b"] >> 4)))
            latched[2 + last // 2] = int(a @ (signs * (group["b"] & 15)))
        else:
            latched[result.slot[number]] = int(result.psum[number])
        assert result.latched[number].tolist() == latched and result.todo[number] == 0
