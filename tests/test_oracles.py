"""The oracles themselves: worked examples of the papers, IEEE facts, and published test values."""

import math
from fractions import Fraction

import pytest

from tests.oracles import bits, clocked, exp, fp16, prng, rounding, sums
from tests.oracles.olive import ovp, units

RAW_TIES = [-1.5, -0.5, 0.5, 1.5, 2.5]


@pytest.mark.parametrize(
    ("mode", "rounded"),
    [
        ("floor", [-2, -1, 0, 1, 2]),
        ("ceil", [-1, 0, 1, 2, 3]),
        ("truncate", [-1, 0, 0, 1, 2]),
        ("half_even", [-2, 0, 0, 2, 2]),
        ("half_away", [-2, -1, 1, 2, 3]),
        ("half_up", [-1, 0, 1, 2, 3]),
        ("half_down", [-2, -1, 0, 1, 2]),
        ("half_zero", [-1, 0, 0, 1, 2]),
    ],
)
def test_rounding_of_ties(mode: str, rounded: list[int]) -> None:
    assert rounded == [rounding.round_fraction(Fraction(x), mode) for x in RAW_TIES]


def test_half_modes_differ_on_ties_only() -> None:
    for mode in ("half_even", "half_away", "half_up", "half_down", "half_zero"):
        assert [rounding.round_fraction(Fraction(n, 10), mode) for n in (-26, -24, 24, 26)] == [-3, -2, 2, 3]


def test_fp16_words_of_fractions_and_of_floats_agree() -> None:
    for u in [*range(0x410), *range(0x410, 0x7C00, 11), 0x7BFF]:
        value = Fraction(fp16.to_float(u))
        above = Fraction(fp16.to_float(u + 1)) if u < 0x7BFF else Fraction(65536)
        middle = (value + above) / 2
        for x in (value, middle, middle - Fraction(1, 2**30), middle + Fraction(1, 2**30)):
            assert fp16.from_fraction(x) == fp16.from_float(float(x))
            assert fp16.from_fraction(-x, negative_zero=True) == fp16.from_float(-float(x))


def test_fp16_overflow_bound_and_nan() -> None:
    assert [fp16.from_float(x) for x in (65519.99, 65520.0, -65520.0)] == [0x7BFF, 0x7C00, 0xFC00]
    assert fp16.from_float(-math.nan) == fp16.NAN


def test_fp16_fma_is_not_the_float32_expression() -> None:
    """arithmetic.md's example of a case in which rounding to float32 first is wrong."""
    assert fp16.fma(0x39C0, 0xC3FE, 0x07FE) == 0xC1BF


@pytest.mark.parametrize(
    ("a", "b", "c", "result"),
    [
        (0x3C00, 0x3C00, 0xBC00, 0x0000),  # 1 - 1 = +0
        (0x8000, 0x3C00, 0x8000, 0x8000),  # -0 + -0 = -0
        (0x8000, 0x3C00, 0x0000, 0x0000),  # -0 + +0 = +0
        (0x8001, 0x0001, 0x0000, 0x8000),  # underflow keeps the sign of the exact value
        (0x7C00, 0x0000, 0x3C00, 0x7E00),  # inf * 0
        (0x7C00, 0x3C00, 0xFC00, 0x7E00),  # inf - inf
        (0x7BFF, 0x7BFF, 0xFC00, 0xFC00),
    ],
)
def test_fp16_fma_of_special_values(a: int, b: int, c: int, result: int) -> None:
    assert result == fp16.fma(a, b, c)


def test_fp16_square_roots_and_quotients_invert_products() -> None:
    assert [fp16.sqrt(u) for u in (0, 0x8000, 0x7C00, 0xBC00, 0x4400)] == [0x0000, 0x8000, 0x7C00, 0x7E00, 0x4000]
    assert [fp16.div(u, v) for u, v in [(0x3C00, 0), (0x3C00, 0x8000), (0, 0), (0x3C00, 0xFC00)]] == [
        0x7C00,
        0xFC00,
        0x7E00,
        0x8000,
    ]
    for u in range(0x3C00, 0x4400):
        assert fp16.sqrt(u) == fp16.from_float(math.sqrt(fp16.to_float(u)))
        assert fp16.div(0x3C00, u) == fp16.from_float(1 / fp16.to_float(u))


def test_float32_of_fractions_is_that_of_struct() -> None:
    for x in (1 + 2**-24, 1 + 3 * 2**-24, 2.0**-150, 1.5 * 2.0**-150, 3.4028235677973366e38, -(2.0**-149) * 0.75, 0.1):
        assert fp16.f32_bits(fp16.f32(x)) == fp16.f32_bits(fp16.f32_from_fraction(Fraction(x)))


def test_a_float32_fma_rounds_once() -> None:
    a = 1 + 2.0**-12
    assert fp16.fma32(a, a, -(1 + 2.0**-11)) == 2.0**-24
    assert fp16.fma32(-(2.0**-100), 2.0**-100, 0.0) == -0.0
    assert math.copysign(1, fp16.fma32(-(2.0**-100), 2.0**-100, 0.0)) < 0


HALF = 2.0**-24  #: half an ulp of 1: 1 + HALF is a tie that stays 1, (1 + 2 * HALF) + HALF one that goes up


@pytest.mark.parametrize(
    ("order", "total"),
    [
        (("sequential",), 1.0),
        (("tree", 1), 1.0),
        (("tree", 2), 1 + 4 * HALF),  # 1 | 2 | 1 halves
        (("tree", 3), 1 + 2 * HALF),  # (1 + 1) + 1 | 2
        (("tree", 8), 1 + 4 * HALF),  # ((1 + 1) + (1 + 1)) + 1
        (("halves", 4), 1 + 4 * HALF),
        (("halves", 8), 1 + 2 * HALF),
        (("lanes", 2, "strided", ("sequential",), "zero"), 1 + 2 * HALF),
        (("lanes", 2, "blocked", ("tree", 2), "product"), 1 + 2 * HALF),
        (("lanes", 3, [2, 0, 0, 0, 0], ("sequential",), "zero"), 1 + 4 * HALF),
        (("chunks", 2, ("sequential",), ("sequential",)), 1 + 4 * HALF),
        (("chunks", 3, ("sequential",), ("tree", 2)), 1 + 2 * HALF),
    ],
)
def test_the_order_of_a_sum_is_visible(order: sums.Order, total: float) -> None:
    assert total == sums.total32([1.0, HALF, HALF, HALF, HALF], order)


def test_sum_of_nothing_is_its_start() -> None:
    assert sums.dot([], [], ("tree", 4), "fp32", start=5.0) == 5.0
    assert sums.dot([1.0, 2.0], [1.0, 1.0], ("sequential",), "fp32", start=5.0) == 8.0


def test_a_single_block_keeps_its_negative_zero() -> None:
    assert math.copysign(1, sums.total32([-0.0, -0.0], ("tree", 4))) == -1
    assert math.copysign(1, sums.total32([-0.0, -0.0], ("sequential",))) == 1


def test_accumulators_round_where_they_say() -> None:
    """The product 1 - 2**-20 rounds to 1, and 2051 is a tie."""
    a, b = [2050.0, 1 + 2.0**-10], [1.0, 1 - 2.0**-10]
    assert {acc: sums.dot(a, b, ("sequential",), acc) for acc in ("fp16", "fp16_fma", "fp32", "fp32_fma", "exact")} == {
        "fp16": 2052.0,
        "fp16_fma": 2050.0,
        "fp32": 2051.0,
        "fp32_fma": 2051.0,
        "exact": 2051.0,
    }
    assert sums.dot(a, b, ("exact",), "exact", out="fp16") == 2050.0


def test_a_grouped_sum_scales_each_group() -> None:
    total = sums.grouped(
        [1, 2, 3, 4],
        [1, 1, 1, 1],
        group=2,
        a_exp=[0, -1],
        b_exp=[1, 0],
        b_scale=[1.0, 0.5],
        partial="fp16",
        product="fp16",
        order=("sequential",),
        acc="fp32",
    )

    assert total == 3 * 2 + 7 / 2 * 0.5


def test_exponentials_of_float32() -> None:
    assert [1.0, 0.0, math.inf] == [exp.exp32(x) for x in (-0.0, -math.inf, math.inf)]
    assert fp16.f32_bits(exp.exp32(1.0)) == 0x402DF854
    assert fp16.f32_bits(exp.exp32(-103.5)) == 1  # below the smallest float32, above half of it
    assert math.isnan(exp.exp32(math.nan))


def test_random_words_are_splitmix64() -> None:
    """Published values of splitmix64 for seeds 0 and 1234567."""
    assert prng.words(0, 0, 3) == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert prng.words(1234567, 0, 2) == [6457827717110365317, 3203168211198807973]
    assert prng.words(7, 0, 9)[4:] == prng.words(7, 4, 5)
    assert [prng.below(word, 7) for word in (0, 2**64 - 1)] == [0, 6]
    assert [prng.bell(word) for word in (0, 2**64 - 1)] == [-131070, 131070]


def test_packing_puts_element_0_lowest() -> None:
    assert bits.pack([1, 2, 3, 4], 4) == b"\x21\x43"
    assert bits.pack([7, 7, 7], 3) == b"\xff\x01"
    assert bits.unpack(b"\x21\x43", 4, 4) == [1, 2, 3, 4]


def test_normal_types_hold_the_values_of_table_3() -> None:
    """[olive Tbl. 3]."""

    def values(name: str) -> list[int]:
        codes = range(1 << ovp.ELEMENTS[name].width)
        return sorted(v for v in (ovp.element_decode(name, c) for c in codes) if v is not None)

    assert list(range(-7, 8)) == values("INT4")
    assert list(range(-127, 128)) == values("INT8")
    assert values("FLINT4") == [-16, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 16]


def test_e2m1_holds_the_values_of_table_4() -> None:
    """[olive Tbl. 4, §3.3]: bias 0, and the ranges 12..96 and 24..192."""
    assert [ovp.element_decode("E2M1_BIAS0", code) for code in range(8)] == [0, 3, 4, 6, 8, 12, 16, 24]
    assert [ovp.element_decode("E2M1_BIAS2", code) for code in range(1, 8)] == [12, 16, 24, 32, 48, 64, 96]
    assert [ovp.element_decode("E2M1_BIAS3", code) for code in range(1, 8)] == [24, 32, 48, 64, 96, 128, 192]
    assert [ovp.element_decode("E2M1_BIAS2", code) for code in (0, 8)] == [0, 0]


def test_e4m3_codes_end_at_the_clip() -> None:
    """[olive §4.5]: outliers are clipped to 2**15, which is a value of the format."""
    assert ovp.element_encode("E4M3_BIAS4", 10**9) == 64
    assert [ovp.element_decode("E4M3_BIAS4", code) for code in (1, 64)] == [144, 2**15]


@pytest.mark.parametrize(
    ("name", "man_bits", "bias"), [("E2M1_BIAS2", 1, 2), ("E2M1_BIAS3", 1, 3), ("E4M3_BIAS4", 3, 4)]
)
def test_nearest_value_is_algorithm_2_with_repaired_range(name: str, man_bits: int, bias: int) -> None:
    """[olive Alg. 2]."""
    top = ovp.ELEMENTS[name].legal[-1][1]
    for quarter in range(1, 1 << 12):
        value = Fraction(quarter, 4) * (1 if top < 8 else 32)
        code = max(1, min(top, ovp.algorithm2(value, man_bits, bias)))
        assert code == ovp.element_encode(name, value)
        assert code | 1 << (ovp.ELEMENTS[name].width - 1) == ovp.element_encode(name, -value)


@pytest.mark.parametrize(
    ("name", "v1", "v2", "byte"),
    [
        ("OVP_INT4", 5, -3, 0xD5),
        ("OVP_INT4", 17.6, 1, 0x82),
        ("OVP_INT4", 2, -98, 0xF8),
        ("OVP_INT4", 30.7, 3, 0x84),
        ("OVP_INT4", 48, 0, 0x85),
        ("OVP_INT4", 0, 48, 0x58),
        ("OVP_INT4", 9.5, 1, 0x17),
        ("OVP_INT4_REPO", 9.5, 1, 0x81),
        ("OVP_INT4", -12, 12, 0x18),
        ("OVP_INT4_REPO", -12, 12, 0x89),
        ("OVP_FLINT4", -0.3, 16, 0x40),
        ("OVP_FLINT4", 24, 3, 0x81),
    ],
)
def test_pairs_of_figure_1_and_of_design_page(name: str, v1: float, v2: float, byte: int) -> None:
    """[olive Fig. 1b, Alg. 1]."""
    code1, code2 = ovp.encode_pair(name, v1, v2)
    assert byte == code1 | code2 << 4


@pytest.mark.parametrize(
    ("name", "illegal"),
    [("OVP_INT4", [0x08, 0x80, 0x88]), ("OVP_FLINT4", [0x08, 0x80, 0x88]), ("OVP_INT8", [0x0080, 0x8000, 0x8080])],
)
def test_all_but_three_pairs_are_legal(name: str, illegal: list[int]) -> None:
    width = ovp.ELEMENTS[ovp.PAIRS[name].normal].width
    codes = range(1 << width)
    found = [a | b << width for b in codes for a in codes if ovp.decode_pair(name, a, b) is None]

    assert illegal == sorted(found)


def test_ties_follow_the_rounding_of_the_preset() -> None:
    halves = {"INT4": [0.5, 1.5, 2.5, 6.5], "FLINT4": [3.5, 5, 7, 12], "E2M1_BIAS2": [14, 20, 28, 40, 56, 80]}
    expected = {
        "INT4": ([0, 2, 2, 6], [1, 2, 3, 7], [0, -1, -2, -6]),
        "FLINT4": ([4, 4, 8, 8], [4, 6, 8, 16], [-3, -4, -6, -8]),
        "E2M1_BIAS2": ([16, 16, 32, 32, 64, 64], [16, 24, 32, 48, 64, 96], [-12, -16, -24, -32, -48, -64]),
    }
    for name, ties in halves.items():
        even, up, up_of_negative = expected[name]
        for mode, sign, want in (("half_even", 1, even), ("half_up", 1, up), ("half_up", -1, up_of_negative)):
            assert want == [ovp.element_decode(name, ovp.element_encode(name, sign * tie, mode)) for tie in ties]


def test_search_takes_first_of_least_errors() -> None:
    row = [0.5, -0.25, 0.125, 0.75, -1.0, 0.0, 8.0, 0.25]
    found = ovp.search("OVP_INT4", [row, [0.0] * 8], "sigma")

    assert found[0].ratio in range(75, 250, 2)
    assert (found[1].scale, found[1].mse) == (1.0, 0.0)
    assert found[0] == min(
        (ovp.search("OVP_INT4", [row], "sigma", i, i + 1, 1)[0] for i in range(75, 250, 2)), key=lambda f: f.mse
    )


def test_the_outlier_decoder_reads_0101_as_48() -> None:
    """[olive §4.2]: 0101 with bias 2 is <4, 3>."""
    assert units.outlier_decoder(0b0101, 2, 2, 1, 4) == (4, 3)
    assert units.outlier_decoder(0b1101, 2, 2, 1, 4) == (4, -3)
    assert units.outlier_decoder(0b0000, 2, 2, 1, 4) == (2, 0)


def test_flint_decoder_gives_values_of_table_3() -> None:
    """[olive Tbl. 3]."""
    for code in range(16):
        exponent, integer = units.flint_decoder(code)
        assert (ovp.element_decode("FLINT4", code) or 0) == integer << exponent


@pytest.mark.parametrize(
    ("name", "bias", "normal", "outlier"),
    [
        ("OVP_INT4", 2, "int4", (2, 1)),
        ("OVP_FLINT4", 3, "flint4", (2, 1)),
        ("OVP_INT8", 4, "int8", (4, 3)),
        ("OVP_INT8_REPO", 2, "int8", (2, 5)),
    ],
)
def test_pair_decoder_gives_values_of_format(name: str, bias: int, normal: str, outlier: tuple[int, int]) -> None:
    """[olive §4.2, §4.4]: <a, b> = b << a."""
    width = 8 if normal == "int8" else 4
    for pair in range(1 << 2 * width):
        values = ovp.decode_pair(name, pair % (1 << width), pair >> width)
        exponents, integers, illegal = units.ovp_decoder(pair, bias, normal, outlier)
        assert illegal == (values is None)
        assert (values or (0, 0)) == tuple(i << e for e, i in zip(exponents, integers, strict=True))


def test_the_accumulator_wraps_or_saturates_and_says_so() -> None:
    """[olive §4.4]: <a, b> * <c, d> = <a + c, b * d>; D-olive-33."""
    events = [(1, 2**31 - 4, 0, 0, 0, 0), (0, 0, 1, 1, 0, 1), (0, 0, 1, 1, 0, 1), (0, 0, 4, -3, 0, 5)]

    assert units.mac(events) == [
        (0, 0, 2**31 - 4, False),
        (1, 1, 2**31 - 2, False),
        (1, 1, -(2**31), True),
        (4, -15, 2**31 - 240, True),
    ]
    assert [acc for _, _, acc, _ in units.mac(events, "saturate")][1:] == [2**31 - 2, 2**31 - 1, 2**31 - 241]


def test_dot_product_is_decoded_multiplied_shifted_and_reduced() -> None:
    """[olive §4.2, §4.4] 48 * 5 + 0 * -3, plus 1."""
    operands = [0x85] + [0] * 7, [0xD5] + [0] * 7, 2, 2, 1
    decoded, multiplied, shifted, reduced = units.edp_events(operands, ("int4", "int4"), ((2, 1), (2, 1)), "wrap")

    assert (decoded[0]["a_exponent"][:2], decoded[0]["a_int"][:2], decoded[0]["b_int"][:2]) == ([4, 0], [3, 0], [5, -3])
    assert (multiplied[0]["shifts"][:2], multiplied[0]["products"][:2]) == ([4, 0], [15, 0])
    assert (shifted[0]["shifted"][0], shifted[0]["above"][0]) == (240, 0)
    assert reduced == ({"d": 241, "overflow": 0}, {"operations": 1, "overflows": 0, "illegal_operations": 0})


def test_tile_takes_one_chunk_per_element_and_event() -> None:
    """[olive §4.6] D-olive-33: 16 + 16 onto C, the second one beyond 32 bits."""
    operands = [0x11] * 128, [0x11] * 128, 2, 2, [2**31 - 17] + [0] * 63
    events = list(units.mmaovp_events(operands, ("int4", "int4"), ((2, 1), (2, 1)), "wrap"))

    assert len(events) == 128
    assert [event[0]["d"][:2] for event in events[:3]] == [[2**31 - 1, 0], [15 - 2**31, 0], [15 - 2**31, 16]]
    assert [event[1]["overflows"] for event in events[:3]] == [0, 1, 0] and events[-1][0]["d"][1:] == [32] * 63
    assert [number for number, event in enumerate(events) if event[1]["cycles"]] == list(range(15, 128, 16))


def test_clocked_machine_takes_start_while_it_is_idle() -> None:
    """Of two events each: the start in row 1 is not taken, that in row 2 is."""
    edges = [(1, "a"), (1, "b"), (1, "c"), (0, "d"), (0, "e")]
    rows = list(clocked.rows(edges, lambda x: [({"x": x}, {}), ({"x": x * 2}, {"n": 1})], {"x": "", "n": 0}))

    assert [row["x"] for row in rows] == ["a", "aa", "c", "cc", "cc"]
    assert [(row["busy"], row["valid"], row["phase"]) for row in rows] == [
        (1, 0, 0),
        (0, 1, 1),
        (1, 0, 0),
        (0, 1, 1),
        (0, 0, 1),
    ]
    assert [row["n"] for row in rows] == [0, 1, 1, 2, 2]
