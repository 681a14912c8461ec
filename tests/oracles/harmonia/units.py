"""Harmonia's units on Python integers, floats and fractions [harmonia §III, §IV].

FP16 ports are words (ints), FP32 ports Python floats. `preset` is "paper" or "exact".

    partial(a, b), dot(a, b, ...), dot_int(a, codes, scales, ...)   -> (acc, flags)
    sub_pe(...), pe_counters(mode, groups), array_cycles(factors, columns)
    fp2half(x, saturate)
    align(word, emax, m, special)          one lane of the aligner
    converter_counts(kind, rows, columns), converter_cycles(lengths)
    v_groups(rows, low_groups, ...), v_counters(prefill, appends, channels)
    bits_at(length, ...), demoted(length, ...), fraction_low(length, ...)
    k_offsets(rows, ...), apply_offsets(row, offsets), offset_counters(...)
    ema(...), fdgf_events(...), addresses(...), choose(...)
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracles import fp16
from tests.oracles.fp16 import f32
from tests.oracles.harmonia import bfp
from tests.oracles.harmonia.bfp import Group

# Dot products.


class Flags(NamedTuple):
    """Sticky flags of one output."""

    fp16_overflow: bool
    fp16_underflow: bool
    invalid: bool


def partial(a: Group, b: Group) -> Fraction:
    """Exact value of one group of a BFP-BFP product."""
    return sum((x * y for x, y in zip(bfp.values(a), bfp.values(b), strict=True)), Fraction(0))


def partial_int(a: Group, codes: Sequence[int], zero: int = 0) -> Fraction:
    """Exact value, without the weight factor, of one group of a BFP-INT product; codes past the end are 0."""
    return sum((x * (w - zero) for x, w in zip(bfp.values(a), codes, strict=False)), Fraction(0))


def integer_partial(a: Group, b: Group | Sequence[int]) -> int:
    """The integer p: the partial in units of the product of both groups' units."""
    if isinstance(b, Group):
        whole = partial(a, b) / bfp.unit(a.exponent, a.m) / bfp.unit(b.exponent, b.m)
    else:
        whole = partial_int(a, b) / bfp.unit(a.exponent, a.m)
    assert whole.denominator == 1
    return int(whole)


def dot(a: Sequence[Group], b: Sequence[Group], preset: str = "paper", start: float = 0.0) -> tuple[float, Flags]:
    """FP32 accumulator over groups in ascending order; no weight factor."""
    return accumulate([(partial(x, y), None) for x, y in zip(a, b, strict=True)], preset, start=start)


def dot_int(
    a: Sequence[Group],
    codes: Sequence[Sequence[int]],
    scales: Sequence[int],
    preset: str = "paper",
    product: str = "fp32",
    scale_per: int = 32,
    zeros: Sequence[int] = (),
) -> tuple[float, Flags]:
    """BFP-INT: `codes` and `scales` (FP16 words) one entry per BFP group; `scale_per` 128: one product per 4 groups."""
    zeros = zeros or [0] * len(a)
    exact = [partial_int(x, w, z) for x, w, z in zip(a, codes, zeros, strict=True)]
    return accumulate([(p, fp16.to_float(s)) for p, s in zip(exact, scales, strict=True)], preset, product, scale_per)


def accumulate(
    terms: Sequence[tuple[Fraction, float | None]],
    preset: str,
    product: str = "fp32",
    scale_per: int = 32,
    start: float = 0.0,
) -> tuple[float, Flags]:
    """Partials, each with its weight factor, into one FP32 number; every operation rounded once, none fused."""
    acc, over, under = start, False, False
    waiting = 0.0
    for place, (exact, factor) in enumerate(terms):
        value = converted(exact, preset)
        over |= math.isinf(value) and preset == "paper"
        tiny = preset == "paper" and abs(value) < 2.0**-14
        under |= tiny and Fraction(value) != exact
        if scale_per == 128:
            waiting = f32(waiting + value)
            if place % 4 != 3 and place != len(terms) - 1:
                continue
            value, waiting = waiting, 0.0
        acc = f32(acc + scaled(value, factor, product))
    return acc, Flags(over, under, math.isnan(acc))


def converted(exact: Fraction, preset: str) -> float:
    """A partial as FP16 ("paper") or FP32 number."""
    return fp16.to_float(fp16.from_fraction(exact)) if preset == "paper" else fp16.f32_from_fraction(exact)


def scaled(value: float, factor: float | None, product: str) -> float:
    """Times the weight factor, rounded to FP32 or FP16; at most 35 bits before."""
    if factor is None:
        return value
    return f32(value * factor) if product == "fp32" else fp16.to_float(fp16.from_float(value * factor))


# Processing elements.


def sub_pe(a_sign: Sequence[int], a_mag: Sequence[int], b_sign: Sequence[int], b_mag: Sequence[int]) -> int:
    """Signed sum of the products of magnitudes."""
    lanes = zip(a_sign, a_mag, b_sign, b_mag, strict=True)
    return sum(x * y if s == t else -x * y for s, x, t, y in lanes)


def pe_counters(mode: str, groups: int) -> dict[str, int]:
    """What one PE counts over a reduction of `groups` groups in mode "m8w4", "m8m4" or "m8m8"."""
    psums = 2 * groups if mode == "m8m8" else groups
    return {
        "macs4x8": 32 * psums,
        "macs": 32 * groups,
        "psums": psums,
        "fusions": groups if mode == "m8m8" else 0,
        "fp_converts": groups,
        "scale_mults": groups if mode == "m8w4" else 0,
        "fp32_adds": groups,
        "cycles": psums,
    }


def array_cycles(factors: Sequence[int], columns: int = 16) -> list[int]:
    """T_c: the cycle in which column c is valid; `factors` are the slots of each group (1, or 2 in M8M8)."""
    return [sum(factors) + c for c in range(columns)]


def fp2half(x: float, saturate: bool = False) -> int:
    """FP16 word of an FP32 number; "saturate" ends at +-65504."""
    word = fp16.from_float(x)
    return word - 1 if saturate and word & 0x7FFF == fp16.INF else word


# Aligner and converter.


def align(word: int, emax: int, m: int, special: str = "error") -> tuple[int, int, bool]:
    """Sign, magnitude (truncated) and whether the lane is illegal; the magnitude of an illegal lane means nothing."""
    illegal = bfp.field(word) > emax or (bfp.field(word) == 31 and special == "error")
    return word >> 15, int(bfp.magnitude(word, "keep") / bfp.unit(emax, m)) % 2048, illegal


def converter_counts(kind: str, rows: int, columns: int) -> dict[str, int]:
    """Counters of "token" (up to 8 rows, any number of columns) or "v" (up to 32 rows, up to 16 columns)."""
    loops = -(-rows // 8)
    cycles = columns if kind == "token" else 16 * loops
    comparisons = rows * columns if kind == "token" else 8 * loops * columns
    return {
        "compare_cycles": cycles,
        "align_cycles": cycles,
        "comparisons": comparisons,
        "aligned": rows * columns,
    }


def converter_cycles(lengths: Sequence[int]) -> int:
    """Last cycle of a stream of blocks: one compares while one aligns, and there are two buffers."""
    compared, aligned = [0], [0, 0]
    for length in lengths:
        compared.append(max(compared[-1], aligned[-2]) + length)
        aligned.append(max(compared[-1], aligned[-1]) + length)
    return aligned[-1]


# Groups of V.


def v_groups(
    rows: Sequence[Sequence[int]], low_groups: Sequence[int] = (), high: int = 8, low: int = 4
) -> list[list[Group]]:
    """For each 32 tokens (the last may be short, padded with +0) one group per channel."""
    found = []
    for g, start in enumerate(range(0, len(rows), 32)):
        block = rows[start : start + 32]
        m = low if g in low_groups else high
        columns = [[row[c] for row in block] + [0] * (32 - len(block)) for c in range(len(rows[0]))]
        found.append([bfp.encode_group(column, m) for column in columns])
    return found


def v_counters(prefill: int, appends: int, channels: int) -> dict[str, int]:
    """Conversions, commits and converted elements of a prefill and single rows after it."""
    counters = {"conversions": -(-prefill // 32), "commits": prefill // 32, "converted_elements": prefill * channels}
    for tokens in range(prefill + 1, prefill + appends + 1):
        counters["conversions"] += 1
        counters["commits"] += tokens % 32 == 0
        counters["converted_elements"] += channels * ((tokens - 1) % 32 + 1)
    return counters


def bits_at(
    length: int, n_initial: int = 32, n_local: int = 64, high: int = 8, low: int = 4
) -> tuple[list[int], list[int]]:
    """Bits of K per token and of V per group of 32; a group is low if it is full and all its tokens are ordinary."""
    k = [low if n_initial <= i < length - n_local else high for i in range(length)]
    blocks = [range(start, start + 32) for start in range(0, length, 32)]
    ordinary = [all(n_initial <= i < length - n_local for i in block) for block in blocks]
    return k, [low if o else high for o in ordinary]


def demoted(length: int, **sizes: int) -> tuple[list[int], list[int]]:
    """Tokens of K and groups of V whose bits fall when the token that makes `length` is appended."""
    before, after = bits_at(length - 1, **sizes), bits_at(length, **sizes)
    tokens = [i for i, bits in enumerate(before[0]) if after[0][i] < bits]
    return tokens, [g for g, bits in enumerate(before[1]) if after[1][g] < bits]


def fraction_low(length: int, n_initial: int = 32, n_local: int = 64) -> Fraction:
    """Share of the tokens whose K has few bits."""
    return Fraction(max(0, length - n_initial - n_local), length)


# Offsets of K.


def k_offsets(
    rows: Sequence[Sequence[int]], k: int | None = None, window: int = 32, head: int | None = None, signed: bool = True
) -> tuple[list[int], list[int]]:
    """Offsets (FP16 words) and chosen channels (0/1) from the first tokens; `head`: k of each `head` channels."""
    count, scope = len(rows[0]), head or len(rows[0])
    seen = rows[:window]
    value = []
    for c in range(count):
        column = [fp16.to_float(row[c]) for row in seen]
        first = max(range(len(column)), key=lambda t: (abs(column[t]), -t))
        value.append(column[first])
    chosen = [0] * count
    for start in range(0, count, scope):
        ranked = sorted(range(start, start + scope), key=lambda c: (-abs(value[c]), c))
        for c in ranked[: max(1, scope // 32) if k is None else k]:
            chosen[c] = 1
    halves = [(v if signed else abs(v)) / 2 if c and v else 0.0 for v, c in zip(value, chosen, strict=True)]
    return [fp16.from_float(h) for h in halves], chosen


def apply_offsets(row: Sequence[int], offsets: Sequence[int]) -> list[int]:
    """K minus the offsets; a channel without one passes."""
    return [fp16.sub(u, o) if o & 0x7FFF else u for u, o in zip(row, offsets, strict=True)]


def offset_counters(tokens: int, channels: int, k: int, window: int = 32, head: int | None = None) -> dict[str, int]:
    """Counters after `tokens` tokens have been applied; k per layer, or per head of `head` channels."""
    tracked, heads = min(window, tokens), channels // head if head else 1
    return {
        "comparisons": channels * tracked,
        "select_comparisons": heads * k * ((head or channels) - 1),
        "subtractions": heads * k * tokens,
        "gated_tokens": tokens - tracked,
    }


# Data generation.

Tile = tuple[str, int, int, int]  #: event, row tile, column tile (-1: does not matter), elements


def ema(
    m_rows: int, n: int, k_cols: int, m: int = 64, k: int = 64, dataflow: int = 1, literal: bool = False
) -> Fraction:
    """[harmonia §IV-D]: elements of A and B fetched; `literal` uses fractions of tiles."""
    times = Fraction(k_cols, k) if dataflow == 1 else Fraction(m_rows, m)
    if not literal:
        times = Fraction(math.ceil(times))
    return times * m_rows * n + n * k_cols if dataflow == 1 else times * n * k_cols + m_rows * n


def fdgf_events(m_rows: int, n: int, k_cols: int, m: int = 64, k: int = 64, dataflow: int = 1) -> Iterator[Tile]:
    """Fetches and computations in order (stores left out)."""
    rows = [min(m, m_rows - start) for start in range(0, m_rows, m)]
    columns = [min(k, k_cols - start) for start in range(0, k_cols, k)]
    if dataflow == 1:
        for kt, width in enumerate(columns):
            yield "fetch_b", -1, kt, n * width
            for mt, height in enumerate(rows):
                yield "fetch_a", mt, -1, height * n
                yield "compute", mt, kt, height * width
    else:
        for mt, height in enumerate(rows):
            yield "fetch_a", mt, -1, height * n
            for kt, width in enumerate(columns):
                yield "fetch_b", -1, kt, n * width
                yield "compute", mt, kt, height * width


def addresses(row8: int, col16: int, groups: int) -> list[tuple[int, int]]:
    """Read addresses of A and of B, in groups, for one array pass inside a tile."""
    return [(row8 * groups + g, col16 * groups + g) for g in range(groups)]


def choose(m_rows: int, n: int, k_cols: int, m: int = 64, k: int = 64) -> int:
    """The dataflow with the smaller access count; 1 on a tie."""
    return 1 if ema(m_rows, n, k_cols, m, k, 1) <= ema(m_rows, n, k_cols, m, k, 2) else 2
