"""The oracles of Harmonia against worked examples, and against each other where two ways lead to one number."""

import math
from fractions import Fraction

import pytest

from tests.oracles import fp16, prng
from tests.oracles.harmonia import bfp, units
from tests.oracles.harmonia.bfp import Group

A = [0x4648, 0xBE48, 0x3268]
B = [fp16.from_float(x) for x in (-3.5, 2.25, 0.875)]


def finite(seed: int, count: int) -> list[int]:
    """FP16 words of any finite value."""
    return [word >> 48 for word in prng.words(seed, 0, 2 * count) if word >> 58 & 31 != 31][:count]


def test_worked_group() -> None:
    eight, four = bfp.encode_group(A), bfp.encode_group(A, 4)

    assert (eight.exponent, eight.sign, eight.mantissa) == (17, [0, 1, 0], [201, 50, 6])
    assert bfp.values(eight) == [6.28125, -1.5625, 0.1875]
    assert (four.mantissa, bfp.values(four)) == ([12, 3, 0], [6, -1.5, 0])


@pytest.mark.parametrize(
    ("words", "exponent", "mantissa", "sign"),
    [
        ([0x0001, 0x8003, 0x03FF], 0, [0, 0, 127], [0, 1, 0]),
        ([0x0400, 0x83FF, 0x0001], 1, [128, 127, 0], [0, 1, 0]),
        ([0x7BFF, 0x3C00, 0x8000], 30, [255, 0, 0], [0, 0, 1]),
    ],
)
def test_groups_at_the_ends(words: list[int], exponent: int, mantissa: list[int], sign: list[int]) -> None:
    assert bfp.encode_group(words) == Group(exponent, sign, mantissa, 8)


def test_options() -> None:
    words = [0x3C00, 0xBC00 + 0x2F, 0x8001]
    rounded = {r: bfp.encode_group(words, 4, r).mantissa for r in ("truncate", "half_even", "half_away", "floor")}

    assert rounded == {"truncate": [8, 8, 0], "half_even": [8, 8, 0], "half_away": [8, 8, 0], "floor": [8, 9, 1]}
    assert bfp.encode_group([0x3FFF], 4, "half_even").mantissa == [15]
    assert bfp.encode_group([0x7FFF], 11, special="hw") == Group(31, [0], [2047], 11)
    assert bfp.values(bfp.encode_group([0x7FFF], 11, special="hw")) == [131008]
    assert bfp.encode_group([0xFC00], 8, special="saturate") == bfp.encode_group([0xFBFF])
    assert bfp.encode_group([0x03FF, 0x0400], 11, subnormals="flush").mantissa == [0, 1024]
    assert bfp.encode_group([0xC800, 0x8001], 4, zero_sign="canonical").sign == [1, 0]
    with pytest.raises(AssertionError):
        bfp.encode_group([0x7C00])


@pytest.mark.parametrize("seed", range(8))
def test_truncation_bounds_and_is_idempotent(seed: int) -> None:
    words = [u & (0xFFFF if seed % 2 else 0xC3FF) for u in finite(seed, 32)]
    for m in range(1, 12):
        group = bfp.encode_group(words, m)
        decoded = bfp.values(group)
        loss = [abs(Fraction(fp16.to_float(u))) - abs(v) for u, v in zip(words, decoded, strict=True)]
        assert all(0 <= x < bfp.unit(group.exponent, m) for x in loss)
        again = [fp16.from_fraction(v, bool(s)) for v, s in zip(decoded, group.sign, strict=True)]
        assert bfp.encode_group(again, m) == group
        assert [g * Fraction(2) ** (-13 - m) for g in bfp.grid(group)] == decoded


def test_demotion_and_growth_equal_a_new_conversion() -> None:
    for seed in range(10):
        words = finite(seed, 33)
        assert bfp.demote(bfp.encode_group(words), 4) == bfp.encode_group(words, 4)
        grown = bfp.encode_group(words)
        old = bfp.encode_group(words[:32])
        assert bfp.realign(old, grown.exponent).mantissa == grown.mantissa[:32]


def test_storage_figures() -> None:
    assert [bfp.storage_bits(32, m) for m in (8, 4)] == [293, 165]
    assert [1 - Fraction(bfp.storage_bits(32, m, exponent=False), 512) for m in (8, 4)] == [0.4375, 0.6875]
    assert [round(100 * (1 - bfp.storage_bits(32, m) / 512), 3) for m in (8, 4)] == [42.773, 67.773]
    assert Fraction(bfp.int_storage_bits(256), 256) == 4.125


@pytest.mark.parametrize(("m", "layout"), [(8, "group"), (4, "group"), (5, "group"), (8, "planes"), (4, "planes")])
def test_packing_is_inverted(m: int, layout: str) -> None:
    groups = bfp.encode(finite(3, 70), m)
    data = bfp.pack(groups, layout)

    assert len(groups) == 3
    assert bfp.unpack(data, 3, m, 32, layout) == groups
    if layout == "planes" and m == 8:
        assert data[: -3 * 16] == bfp.pack([bfp.demote(g, 4) for g in groups], layout)
    if layout == "group":
        assert (len(data) * 8 - 3 * (5 + 32 * (1 + m))) in range(8)
        assert bfp.word(groups[0]) & 31 == groups[0].exponent


def test_integer_weights() -> None:
    assert bfp.encode_int([7.0, -3.5, 0.4]) == [bfp.IntGroup(0x3C00, [7, -4, 0])]
    tiny = bfp.encode_int([-9.8 * 2.0**-24])[0]
    assert tiny == bfp.IntGroup(1, [-8])
    assert bfp.encode_int([0.0, 2.0**-40]) == [bfp.IntGroup(0, [0, 0])]
    assert [len(g.code) for g in bfp.encode_int([1.0] * 576)] == [128, 128, 128, 128, 64]
    assert [len(g.code) for g in bfp.encode_int([1.0] * 576, size=None)] == [576]


def test_worked_dot_products() -> None:
    a, eight, four = bfp.encode_group(A), bfp.encode_group(B), bfp.encode_group(B, 4)

    assert (eight.exponent, eight.mantissa, four.mantissa) == (16, [224, 144, 56], [14, 9, 3])
    high = units.sub_pe(a.sign, a.mantissa, eight.sign, [code >> 4 for code in eight.mantissa])
    low = units.sub_pe(a.sign, a.mantissa, eight.sign, [code & 15 for code in eight.mantissa])
    assert (high, low, (high << 4) + low) == (-3246, 48, -51888)
    assert units.integer_partial(a, eight) == -51888
    assert units.partial(a, eight) == -25.3359375
    assert fp16.from_float(units.dot([a], [eight])[0]) == 0xCE56
    assert units.dot([a], [eight], "exact")[0] == -25.3359375
    assert units.partial(a, four) == -25.359375
    assert units.integer_partial(a, [7, -8, 3]) == 1825
    assert fp16.from_fraction(units.partial_int(a, [7, -8, 3])) == 0x5321
    for preset in ("paper", "exact"):
        value, flags = units.dot_int([a], [[7, -8, 3]], [0x224C], preset)
        assert fp16.f32_bits(value) == 0x3F338F30
        assert not any(flags)


def test_flags() -> None:
    huge, tiny = bfp.encode_group([0x7BFF] * 32), bfp.encode_group([0x0001] * 32, 11)
    minus = huge._replace(sign=[1] * 32)

    assert units.dot([huge], [huge]) == (math.inf, (True, False, False))
    assert units.dot([tiny], [tiny]) == (0.0, (False, True, False))
    assert math.isnan(units.dot([huge, minus], [huge, huge])[0])
    assert units.dot([huge, minus], [huge, huge])[1] == (True, False, True)
    assert units.dot([huge, minus], [huge, huge], "exact") == (0.0, (False, False, False))
    assert units.dot_int([huge], [[7] * 32], [0])[1] == (True, False, True)


def test_partials_at_their_bounds() -> None:
    full = Group(15, [0] * 32, [255] * 32, 8)

    assert units.integer_partial(full, [-8] * 32) == -65280
    assert units.integer_partial(full, Group(15, [0] * 32, [15] * 32, 4)) == 122400
    assert units.integer_partial(full, full) == 2080800


@pytest.mark.parametrize("scale_per", [32, 128])
def test_weight_factors_by_group_or_once(scale_per: int) -> None:
    a = bfp.encode([fp16.from_float(prng.bell(w) * 2.0**-15) for w in prng.words(1, 0, 160)])
    codes = [[(w >> 60) - 8 for w in prng.words(g, 0, 32)] for g in range(5)]
    scales = [0x2C00, 0x2C00, 0x2C00, 0x2C00, 0x2E66]
    exact = sum(units.partial_int(x, w) * Fraction(fp16.to_float(s)) for x, w, s in zip(a, codes, scales, strict=True))

    for preset in ("paper", "exact"):
        got = units.dot_int(a, codes, scales, preset, scale_per=scale_per)[0]
        assert abs(Fraction(got) - exact) < Fraction(1, 20 if preset == "paper" else 10**4)


def test_peaks_of_the_array() -> None:
    eight, four = units.pe_counters("m8m8", 2), units.pe_counters("m8w4", 4)

    assert (eight["macs"], eight["cycles"], four["macs"], four["cycles"]) == (64, 4, 128, 4)
    assert [128 * 2 * c["macs"] // c["cycles"] for c in (four, eight)] == [8192, 4096]
    assert round(8192 * 0.3 / 0.542) == 4534
    assert units.array_cycles([2] * 4) == list(range(8, 24))


def test_fp2half() -> None:
    points = [65519.99, 65520.0, -65520.0, 2.0**-25, fp16.f32(2.0**-25 * (1 + 2.0**-23))]

    assert [units.fp2half(fp16.f32(x)) for x in points] == [0x7BFF, 0x7C00, 0xFC00, 0, 1]
    assert [units.fp2half(x, True) for x in (65520.0, -math.inf)] == [0x7BFF, 0xFBFF]


def test_aligner_and_converter() -> None:
    words = finite(5, 32)
    group = bfp.encode_group(words)
    lanes = [units.align(u, group.exponent, 8) for u in words]

    assert lanes == [(s, code, False) for s, code in zip(group.sign, group.mantissa, strict=True)]
    assert units.align(0x7C00, 31, 8)[2]
    assert units.align(0x4000, 15, 8)[2]
    assert units.converter_cycles([32] * 5) == 32 * 6
    assert units.converter_cycles([64] * 3) == 64 * 4
    counts = units.converter_counts("v", 32, 16)
    assert (counts["compare_cycles"], counts["comparisons"]) == (64, 32 * 16)


def test_groups_of_v() -> None:
    rows = [finite(100 + t, 2) for t in range(70)]
    groups = units.v_groups(rows, [1])

    assert [len(g) for g in groups] == [2, 2, 2]
    assert groups[1][0] == bfp.demote(bfp.encode_group([row[0] for row in rows[32:64]]), 4)
    assert groups[2][1] == bfp.encode_group([row[1] for row in rows[64:]] + [0] * 26)
    assert units.v_counters(0, 70, 2)["conversions"] == 70
    assert units.v_counters(0, 70, 2)["commits"] == units.v_counters(70, 0, 2)["commits"] == 2


def test_bit_allocation() -> None:
    assert all(bits == 8 for part in units.bits_at(96) for bits in part)
    assert units.demoted(97) == ([32], [])
    assert units.demoted(128) == ([63], [1])
    assert units.bits_at(160)[1] == [8, 4, 4, 8, 8]
    assert units.fraction_low(4000) == Fraction(976, 1000)
    for length, ratio in ((4000, Fraction("3.0463")), (4096, Fraction(64, 21))):
        k, v = units.bits_at(length)
        total = sum(32 * (1 + bits) + 5 for bits in k) / Fraction(32)
        assert abs(16 * length / total - ratio) < Fraction(1, 20000)
        if length % 32 == 0:
            assert sum(32 * (1 + bits) + 5 for bits in v) == total


def test_offsets() -> None:
    words = [[fp16.from_float(x) for x in row] for row in [(1, -4, 0.5, 4), (1, 4, -6, 4), (-9, 0, 0, 0)]]

    assert units.k_offsets(words, 2, window=2) == ([0, 0xC000, 0xC200, 0], [0, 1, 1, 0])
    assert units.k_offsets(words, 1, window=2, head=2)[1] == [0, 1, 1, 0]
    assert units.k_offsets(words, 1) == ([0xC480, 0, 0, 0], [1, 0, 0, 0])
    assert units.k_offsets(words, 1, signed=False)[0][0] == 0x4480
    assert units.k_offsets([[0x0401]], 1) == ([0x0200], [1])
    assert units.k_offsets([[0x8000]], 1) == ([0], [1])
    assert units.apply_offsets([0x8000, 0x3C00], [0, 0x3800]) == [0x8000, 0x3800]


def test_external_memory_accesses() -> None:
    for rows, first, second in [
        (1, 17039360, 16781312),
        (64, 33554432, 17039360),
        (4096, 1090519040, 1090519040),
    ]:
        assert units.ema(rows, 4096, 4096, dataflow=1) == first
        assert (units.ema(rows, 4096, 4096, dataflow=2)) == second
    literal = units.ema(1, 4096, 4096, dataflow=2, literal=True)
    assert (literal, round(units.ema(1, 4096, 4096) / literal)) == (266240, 64)
    assert [units.choose(rows, 4096, 4096) for rows in (64, 4096, 5000)] == [2, 1, 1]
    for dataflow in (1, 2):
        events = list(units.fdgf_events(100, 32, 150, 32, 64, dataflow))
        assert sum(e[3] for e in events if e[0] != "compute") == units.ema(100, 32, 150, 32, 64, dataflow)
        assert sorted(e[1:3] for e in events if e[0] == "compute") == [(a, b) for a in range(4) for b in range(3)]
