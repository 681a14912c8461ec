"""Claims of the papers that belong to no single module."""

import re
from fractions import Fraction
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.formats import (
    E2M1_BIAS0,
    E4M3_BIAS4,
    FLINT4,
    INT4,
    INT8,
    OVP_FLINT4,
    OVP_INT4,
    OVP_INT8,
    OVP_INT8_REPO,
    Ovp,
)
from refemu.models import machine, text
from refemu.models.scores import perplexity
from refemu.units.olive import mmaovp, olive_edp, olive_mac, olive_pe8, outlier_decoder, ovp_decoder, ovp_encoder
from refemu.units.olive.mmaovp import Gpu
from refemu.units.olive.olive_systolic import OliveSystolic

ROOT = Path(__file__).resolve().parent.parent
INT32 = 2**31 - 1


def section(heading: str) -> str:
    """Text of docs/claims-measurements.md under a heading."""
    return (ROOT / "docs" / "claims-measurements.md").read_text().split(heading, 1)[1].split("\n#", 1)[0]


def values(fmt: Any) -> set[int]:
    return set(fmt.decode(fmt.codes()).tolist())


def test_value_sets_of_normal_types_and_of_e2m1() -> None:
    """[olive §3.3] int4 and E2M1 share {3, 4, 6}. Known loose: flint4 and E2M1 are "almost the same except 24"."""
    outliers = {value for value in values(E2M1_BIAS0) if value > 0}
    int4, flint4 = ({value for value in values(fmt) if value > 0} for fmt in (INT4, FLINT4))

    assert int4 & outliers == {3, 4, 6}
    assert flint4 & outliers == {3, 4, 6, 8, 16}
    assert (outliers - flint4, flint4 - outliers) == ({12, 24}, {1, 2})


def test_largest_exponent_fits_the_root_of_int32() -> None:
    """[olive §4.5] 46,340.95."""
    assert 2**15 < isqrt(INT32) == 46340
    assert 46340.95**2 < INT32 + 1 < 46340.96**2
    assert E4M3_BIAS4.limit == 2**15 and INT32 >= (2**15) ** 2


def test_two_to_the_fifteen_is_768_sigma() -> None:
    """[olive §4.5], D-olive-13: with 3 sigma at 128, which is 8 << 4 and why the bias is 4.

    refemu's scale puts 3 sigma at the largest int8, where the encoder saturates beyond 774 sigma.
    """
    decoded = outlier_decoder.run([1, 64], 4, exp_bits=4, man_bits=3)  # the smallest code, and that of the limit
    assert (decoded.base_int.astype(int) << decoded.exponent).tolist() == [9 << 4, 2**15]

    assert Fraction(2**15 * 3, 8 << 4) == 768
    scale = np.float32(3 / INT8.largest)
    assert saturates(OVP_INT8, np.array([768, 774, 775], np.float32) / scale) == [False, False, True]


def saturates(fmt: Ovp, values: np.ndarray) -> list[bool]:
    """Whether the encoder stores an outlier that is larger than it can."""
    pairs = np.stack([values, np.zeros_like(values)], axis=-1).astype(np.float32)
    return [bool(flag) for flag in ovp_encoder.UNIT.run_compiled(pairs.view(np.uint32), fmt=fmt).saturated]


@pytest.mark.parametrize(
    ("fmt", "start", "widest"),
    [(OVP_INT4, 41, 102), (OVP_FLINT4, 36, 90), (OVP_INT8, 774, 1927)],
    ids=["int4", "flint4", "int8"],
)
def test_reach_of_the_outliers_in_sigma(fmt: Ovp, start: int, widest: int) -> None:
    """[olive §4.5] "no outlier is truncated": at 8 bits the largest of [olive Fig. 2], 325 sigma, is not.

    D-olive-12 clips beyond 774 sigma. At 4 bits 325 sigma saturate (D-olive-11), of which the paper does not speak.
    """
    assert fmt.outlier
    top = fmt.outlier.limit or fmt.outlier.largest
    assert [round(Fraction(top * 3 * percent, fmt.normal.largest * 100)) for percent in (100, 249)] == [start, widest]

    scale = np.float32(3 / fmt.normal.largest)  # of data with sigma 1
    for percent, reach in ((100, start), (249, widest)):  # rounded to a sigma
        assert saturates(fmt, np.array([reach - 1, reach + 1]) / (scale * percent / 100)) == [False, True]
    grid = fmt.encode(np.array([325, 0], np.float32), scale).decode()[0]
    saturated = grid == top
    assert saturated == (fmt.width == 4)
    assert (abs(Fraction(int(grid)) * 3 / fmt.normal.largest - 325) < 325 // 16) == (fmt.width == 8)


def largest(fmt: Ovp) -> tuple[int, int]:
    """Exponent and integer of the largest outlier, as the decoder gives them from the pair that the encoder makes."""
    assert fmt.outlier
    top = fmt.outlier.limit or fmt.outlier.largest
    word = int(fmt.encode(np.array([top, 0])).pairs()[0])
    decoded = ovp_decoder.run(
        word, fmt.outlier.bias, normal=fmt.normal.name, outlier=(fmt.outlier.exp_bits, fmt.outlier.man_bits)
    )
    assert decoded.base_int.tolist()[1] == 0  # the victim
    return int(decoded.exponent[0]), int(decoded.base_int[0])


@pytest.mark.parametrize(
    ("a", "b", "product", "pairs"),
    [
        (OVP_INT4, OVP_INT4, 9_216, 233_016),
        (OVP_INT4, OVP_FLINT4, 18_432, 116_508),
        (OVP_FLINT4, OVP_FLINT4, 36_864, 58_254),
        (OVP_INT8, OVP_INT8, 2**30, 1),
        (OVP_INT8_REPO, OVP_INT8_REPO, 4_064_256, 528),
    ],
    ids=["int4", "int4 x flint4", "flint4", "int8", "repo int8"],
)
def test_pairs_until_a_sum_can_leave_32_bits(a: Ovp, b: Ovp, product: int, pairs: int) -> None:
    """[olive §4.4] "the result can store with a 32-bit int": true of one product, of a sum up to this many pairs.

    Run on the elements of the array, which accumulate one product of the largest outliers for each pair.
    """
    (a_exp, a_int), (b_exp, b_int) = largest(a), largest(b)
    steps = np.zeros(pairs + 1, int)
    if a.width == 4:
        result = olive_mac.UNIT.run_compiled(steps, 0, a_exp, a_int, b_exp, b_int)
    else:
        result = olive_pe8.UNIT.run_compiled(steps, 0, a_exp, a_int, b_exp, b_int)

    assert int(result.acc[0]) == product and int(result.acc[pairs - 1]) == pairs * product
    assert np.flatnonzero(result.overflow).tolist() == [pairs]
    assert int(result.acc[pairs]) == (pairs + 1) * product - 2**32


@pytest.mark.parametrize(
    ("a", "b", "product"),
    [(OVP_INT4, OVP_INT4, 9_216), (OVP_INT4, OVP_FLINT4, 18_432), (OVP_FLINT4, OVP_FLINT4, 36_864)],
    ids=["int4", "mixed", "flint4"],
)
def test_no_two_pairs_add_more_than_largest_outliers(a: Ovp, b: Ovp, product: int) -> None:
    """[olive §4.4] a pair holds one outlier at most. All 253 x 253 on the dot product unit, then 8 with a large c."""
    assert a.outlier and b.outlier
    left, right = (np.array(fmt.legal_pairs()) for fmt in (a, b))
    x, y = (np.repeat(left, len(right)), np.tile(right, len(left)))
    zeros = np.zeros((len(x), 7), int)
    config = {"a": a.normal.name, "b": b.normal.name}
    result = olive_edp.UNIT.run_compiled(
        np.column_stack([x, zeros]), np.column_stack([y, zeros]), a.outlier.bias, b.outlier.bias, 0, **config
    )
    assert int(np.abs(result.d).max()) == product

    tops = [int(fmt.encode(np.array([fmt.outlier.largest, 0])).pairs()[0]) for fmt in (a, b)]  # type: ignore[union-attr]
    room = np.array([INT32 - 8 * product, INT32 - 8 * product + 1])
    for run in (olive_edp.run, olive_edp.UNIT.run_compiled):
        full = run([tops[0]] * 8, [tops[1]] * 8, a.outlier.bias, b.outlier.bias, room, **config)
        assert (full.d.tolist(), full.overflow.tolist()) == ([INT32, -INT32 - 1], [False, True])


@pytest.mark.parametrize("count", [516, 517])
def test_outliers_times_normal_values_overflow_after_516_products(count: int) -> None:
    """[olive §4.4] at 8 bits: 2**15 * 127 = 4,161,536; D-olive-33 flags what leaves."""
    result = olive_pe8.UNIT.run_compiled(0, 0, np.full(count, 12), 8, 0, 127)

    assert int(result.overflow.sum()) == (count == 517)
    assert not result.overflow[:516].any() and int(result.acc[515]) == 516 * 4_161_536


def test_areas_of_decoders_follow_from_their_number() -> None:
    """[olive Tbl. 10, Tbl. 11] areas of one block are the paper's; 754 mm2 is the die of the GPU."""
    gpu = [Fraction(area) * Gpu(bits).pair_decoders / 10**6 for bits, area in ((4, "13.53"), (8, "18.00"))]
    assert [f"{float(area):.2f}" for area in gpu] == ["1.88", "1.25"]
    assert [f"{float(area / 754):.3%}" for area in gpu] == ["0.250%", "0.166%"]

    four, eight = OliveSystolic(), OliveSystolic(a="int8", b="int8")
    array = [
        Fraction(area) * count / 10**6
        for area, count in (("37.22", four.decoders), ("49.50", eight.decoders), ("50.01", four.pes))
    ]
    assert [f"{float(area):.3g}" for area in array] == ["0.00476", "0.00317", "0.205"]
    assert [f"{float(area / sum(array)):.1%}" for area in array] == ["2.2%", "1.5%", "96.3%"]


#: model, requests, tokens [olive §5.3]; lengths are refemu's
RUNS = (
    ("bert-base", 16, 384),
    ("bert-large", 16, 384),
    ("gpt2-xl", 2, 1024),
    ("bloom-7b1", 2, 2048),
    ("opt-6.7b", 2, 2048),
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("design", "mean", "least", "most", "paper", "factor", "moved"),
    [
        ("adafloat", 4.49, 4.39, 4.56, 4.8, 1.07, 3.6),
        ("olaccel", 3.46, 3.36, 3.53, 3.8, 1.10, 1.4),
        ("ant", 3.38, 3.37, 3.41, 3.7, 1.09, 2.8),
    ],
)
def test_speed_over_other_designs_on_the_array(
    design: str, mean: float, least: float, most: float, paper: float, factor: float, moved: float
) -> None:
    """[olive §5.4, Fig. 10a] and docs/headlines.md, D-olive-61: prompts of five models."""
    pairs = [
        [machine.of_shape(name, "olive-4", tokens, "prompt", batch, each).total for each in ("", f"design={design}")]
        for name, batch, tokens in RUNS
    ]
    ratios = [other["cycles"] / olive["cycles"] for olive, other in pairs]
    sizes = [sum(other["bytes"].values()) / sum(olive["bytes"].values()) for olive, other in pairs]

    assert [round(each, 2) for each in (sum(ratios) / 5, min(ratios), max(ratios))] == [mean, least, most]
    assert round(paper / mean, 2) == factor and round(sum(sizes) / 5, 1) == moved


def test_speed_on_a_gpu_by_its_multipliers() -> None:
    """[olive Table 5, §5.3] 16, 8 and 4 bits: 34,816, 69,632, 139,264; ANT has 80 % of the layers at int8."""
    fp16, int8 = 139_264 / 34_816, 139_264 / 69_632
    ant = 0.2 + 0.8 * int8

    assert (fp16, int8, round(ant, 1)) == (4, 2, 1.8)
    assert [round(paper / ours, 2) for paper, ours in ((4.5, fp16), (2.7, int8), (2.4, ant))] == [1.12, 1.35, 1.33]


def test_a_larger_threshold_never_gives_more_outlier_pairs() -> None:
    """[olive §3.4] "small threshold": pairs with an outlier, and pairs of two, by the 88 ratios of the search."""
    rng = np.random.default_rng(5)
    x = (rng.standard_t(3, (4096, 2)) * np.abs(rng.standard_normal((4096, 1)))).astype(np.float32)  # outliers cluster
    base = np.float32(3) * x.std(dtype=np.float64).astype(np.float32)
    counts = []
    for percent in range(75, 250, 2):
        scale = base * np.float32(percent * 0.01) / np.float32(7)
        result = ovp_encoder.UNIT.run_compiled((x / scale).view(np.uint32))
        counts.append((result.left_outliers + result.right_outliers, result.pruned_outliers))
    for one in zip(*counts, strict=True):
        assert list(one) == sorted(one, reverse=True) and one[0] > one[-1]


@pytest.mark.parametrize(
    ("a", "b", "config"),
    [
        (OVP_INT4, OVP_INT4, "i4_i4"),
        (OVP_INT4, OVP_FLINT4, "i4_f4"),
        (OVP_FLINT4, OVP_INT4, "f4_i4"),
        (OVP_FLINT4, OVP_FLINT4, "f4_f4"),
        (OVP_INT8, OVP_INT8, "i8_i8"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_encoded_matrices_multiply_as_decoded_integers(a: Ovp, b: Ovp, config: str) -> None:
    """[olive §4]: encoder, decoders and products together, over four chunks of K; values with outliers in most rows."""
    rng = np.random.default_rng(9)
    unit, k = mmaovp.UNIT, 128 if a.width == 4 else 64
    left, right = (fmt.encode(rng.standard_t(2, (8, k)) * fmt.normal.largest / 2) for fmt in (a, b))
    assert a.outlier and b.outlier
    d = np.zeros(64, np.int32)
    for at in range(0, k // 2, k // 8):
        chunk = (tensor.pairs()[:, at : at + k // 8].ravel() for tensor in (left, right))
        d = unit.run_compiled(*chunk, a.outlier.bias, b.outlier.bias, d, **unit.configs[config]).d
    exact = [
        [sum(x * y for x, y in zip(row, column, strict=True)) for column in right.decode().tolist()]
        for row in left.decode().tolist()
    ]

    assert d.reshape(8, 8).tolist() == [[(value + 2**31) % 2**32 - 2**31 for value in row] for row in exact]
    assert np.abs(left.decode()).max() > a.normal.largest


def test_int4_and_ant_exceed_ten_to_thousand() -> None:
    """[olive §5.2, Tbl. 9] "10-1000x worse than FP32": GPT2-XL, BLOOM-7B1 and OPT-6.7B, Wikitext and C4 of each."""
    full, int4, ant = (
        [Fraction(number) for number in line.split()]
        for line in (
            "17.48 16.30 13.05 14.94 22.14 10.63",
            "1E+4 9E+3 3E+6 9E+6 5E+2 1E+2",
            "27.79 27.35 23.22 27.36 4E+4 4E+4",
        )
    )
    worse = [[f"{float(a / b):.1f}" for a, b in zip(line, full, strict=True)] for line in (int4, ant)]

    assert (worse[0][5], worse[0][3]) == ("9.4", "602409.6")
    assert worse[1] == ["1.6", "1.7", "1.8", "1.8", "1806.7", "3762.9"]


def perplexities() -> dict[str, str]:
    """Perplexities of SmolLM2 in docs/claims-measurements.md, by scheme."""
    rows = re.findall(r"^\| `([^`|]+)` \|.*\| ([\d,.]+) \|$", section("## OliVe: perplexity of SmolLM2"), re.MULTILINE)
    return {scheme: f"{float(value.replace(',', '')):.6g}" for scheme, value in rows}


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize(
    "scheme",
    [
        "fp16",
        "olive-8",
        "olive-8:outliers=false",
        "olive-4:act_bits=none",
        "olive-4",
        "olive-4:outliers=false",
        "olive-4:outliers=false,types=int",
    ],
)
def test_perplexities_of_smollm2(smollm2: Any, scheme: str) -> None:
    """[olive Tbl. 9] on another model, the numbers of the page: the first 1,024 tokens of Persuasion."""
    ids = smollm2.tokenizer.encode(text.default())[:1024]
    found = perplexity.perplexity(models.prepare(smollm2, scheme), ids)

    assert found.scored == 1022
    assert f"{found.perplexity:.6g}" == perplexities()[scheme]


@pytest.mark.slow
@pytest.mark.model
def test_order_of_the_schemes_on_smollm2(smollm2: Any) -> None:
    """[olive Tbl. 9, §5.2] FP32, 8 bits, 4 bits, ANT, int4; on 65 tokens, one candidate for every scale."""
    ids, quick = smollm2.tokenizer.encode(text.default())[:65], "low=100,high=101,calibration_tokens=64"
    names = (
        "fp16",
        f"olive-8:{quick}",
        f"olive-4:{quick}",
        f"olive-4:{quick},outliers=false",
        f"olive-4:{quick},outliers=false,types=int",
    )
    costs = [perplexity.perplexity(models.prepare(smollm2, name), ids).perplexity for name in names]

    assert costs == sorted(costs)
