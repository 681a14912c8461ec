"""Independent models of Harmonia's units, in a few lines of NumPy and Python, with optional mistakes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.golden.files.sets import Golden
from tests.golden.explain.collection import Arrays, outputs
from tests.golden.explain.hands import cases, half, stimulus, value16, word16


def aligned(
    word: int, emax: int, m: int, rounding: str = "truncate", flush: bool = False, clamp: bool = True, extra: int = 0
) -> int:
    """Magnitude of an fp16 word under a shared exponent. extra: places that it is shifted too far."""
    field, fraction = word >> 10 & 31, word & 1023
    whole = (0 if flush else fraction) if field == 0 else 1024 + fraction
    shift = 11 - m + max(emax, 1) - max(field, 1) + extra
    if shift <= 0:
        return whole << -shift & 0x7FF
    kept, rest, middle = whole >> shift, whole & (1 << shift) - 1, 1 << shift - 1
    if rounding == "half_even":
        kept += rest > middle or (rest == middle and kept & 1)
    if rounding == "half_away":
        kept += rest >= middle
    if rounding == "floor":
        kept += bool(word >> 15 and rest)
    return min(kept, (1 << m) - 1) if clamp else kept & (1 << m) - 1


def aligner(
    golden: Golden, special: str = "error", zero_sign: str = "keep", last: dict[str, Any] | None = None, **mistakes: Any
) -> Arrays:
    """A bfp_aligner. last: mistakes in lane 7 only."""
    answers, inputs = outputs(golden), stimulus(golden)
    for row in range(golden.rows):
        m = int(inputs["m"][row])
        for lane in range(8):
            word, emax = int(inputs["x"][row, lane]), int(inputs["emax"][row, lane])
            code = aligned(word, emax, m, **{**mistakes, **(last or {} if lane == 7 else {})})
            field = word >> 10 & 31
            answers["out.sign"][row, lane] = word >> 15 and (zero_sign == "keep" or code > 0)
            answers["out.mantissa"][row, lane] = code
            answers["out.illegal"][row, lane] = field > emax or (field == 31 and special == "error")
    return answers


def halves(golden: Golden, **mode: Any) -> Arrays:
    """An fp2half."""
    answers, inputs = outputs(golden), stimulus(golden)
    values = inputs["x"].astype(np.uint32).view(np.float32).astype(float)
    for row, lane in np.ndindex(*values.shape):
        value = float(values[row, lane])
        if not math.isfinite(value):
            answers["out.y"][row, lane], answers["out.overflow"][row, lane] = word16(value), 0
            continue
        numerator, denominator = value.as_integer_ratio()
        sign = math.copysign(1, value) < 0
        word = half(numerator, 1 - denominator.bit_length(), zero=int(sign), **mode)
        answers["out.y"][row, lane], answers["out.overflow"][row, lane] = word, abs(value) >= 65520
    return answers


def sums(golden: Golden, lanes: int = 32, bits: int = 18, top: str = "wrap", signs: str = "both") -> Arrays:
    """A sub_pe. lanes: number of added lanes; bits: bits of the sum; signs: "a" ignores those of b."""
    inputs = stimulus(golden)
    sign = inputs["a_sign"] ^ (inputs["b_sign"] if signs == "both" else 0)
    terms = inputs["a_mag"].astype(np.int64) * inputs["b_mag"] * (1 - 2 * sign.astype(np.int64))
    total = terms[:, :lanes].sum(axis=1)
    if top == "saturate":
        total = np.clip(total, -(1 << bits - 1), (1 << bits - 1) - 1)
    total = (total & (1 << bits) - 1 ^ 1 << bits - 1) - (1 << bits - 1)
    return {"out.psum": (total & 0x3FFFF).astype(np.uint32)}


def element(
    golden: Golden,
    nibbles: str = "integers",
    clear: bool = True,
    fused: bool = False,
    codes: str = "twos",
    partial: str = "fp16",
    **mode: Any,
) -> Arrays:
    """A bfp_accumulator or a bfp_pe of preset paper.

    nibbles: "fp32", "fp16" converts both sums of M8M8 and adds there; codes: of INT4 weights, "magnitude" if sign
    and magnitude; partial: "fp32" keeps the sums; mode: of the rounding of partial sums.
    """
    answers, inputs = outputs(golden), stimulus(golden)
    for case in cases(golden):
        acc, flags = np.float32(0), 0
        for row in case:
            at = {name: array[row] for name, array in inputs.items()}
            mode_of, weights = int(at["mode"]), int(at["mode"]) == 0
            if at["clear"] and clear:
                acc, flags = np.float32(0), 0
            high, low = sub_sums(at, codes) if "psum" not in at else (int(at["psum"]), int(at["low"]))
            unit = max(int(at["a_exp"]), 1) - 22
            unit += 0 if weights else max(int(at["b_exp"]), 1) - (18 if mode_of == 1 else 22)
            p = (high << 4) + low if mode_of == 2 else high
            parts = [(high, unit + 4), (low, unit)] if mode_of == 2 and nibbles != "integers" else [(p, unit)]
            with np.errstate(all="ignore"):
                converted = [converted32(*part, partial, mode) for part in parts]
                if nibbles == "fp16" and len(converted) == 2:
                    value = np.float32(np.float16(converted[0] + converted[1]))
                else:
                    value = sum(converted[1:], converted[0])
                tiny = abs(float(value)) < 2.0**-14 and float(value) != p * 2.0**unit
                flags |= int(np.isinf(value)) | 2 * int(tiny)
                if weights:
                    factor = np.float32(value16(int(at["w_scale"])))
                    exact = float(value) * float(factor) + float(acc)
                    value = value * factor
                if nibbles == "fp32" and len(converted) == 2:
                    acc = acc + converted[0] + converted[1]
                else:
                    acc = np.float32(exact) if weights and fused else acc + value
            flags |= 4 * bool(np.isnan(acc))
            answers["out.acc"][row], answers["out.flags"][row] = word32(acc), flags
            if "out.p" in answers:
                answers["out.p"][row], answers["out.value"][row] = p & 0x3FFFFF, word32(value)
    return answers


def sub_sums(at: dict[str, Any], codes: str = "twos") -> tuple[int, int]:
    """Sums of the high (or only) and of the low nibbles."""
    a = at["a_mag"].astype(np.int64) * (1 - 2 * at["a_sign"].astype(np.int64))
    b = at["b"].astype(np.int64)
    if at["mode"] == 0:
        sign = b >> 3 & 1
        return int((a * (np.where(sign, -(b & 7), b & 7) if codes == "magnitude" else (b & 15 ^ 8) - 8)).sum()), 0
    signs = 1 - 2 * at["b_sign"].astype(np.int64)
    if at["mode"] == 1:
        return int((a * signs * b).sum()), 0
    return int((a * signs * (b >> 4)).sum()), int((a * signs * (b & 15)).sum())


def converted32(p: int, unit: int, partial: str, mode: dict[str, Any]) -> np.float32:
    """A sum in fp16, as float32."""
    return np.float32(math.ldexp(p, unit)) if partial == "fp32" else np.float32(value16(half(p, unit, **mode)))


def word32(value: Any) -> int:
    """The word of a float32; 7FC00000 for a NaN."""
    return 0x7FC00000 if np.isnan(value) else int(np.float32(value).view(np.uint32))


def allocator(golden: Golden, local: int = 0, whole: bool = True, prompts: bool = True) -> Arrays:
    """A bit_allocator.

    local: tokens more that are local; whole: a group of V falls with its last token; prompts: one reports nothing.
    """
    answers, inputs, config = outputs(golden), stimulus(golden), golden.manifest["config"]
    first, rest = config["n_initial"], config["n_local"] + local
    for case in cases(golden):
        length = 0
        for row in case:
            before = length
            prefill = int(inputs["prefill"][row])
            length += prefill or 1
            before = length if prefill and prompts else length - 1 if prefill else before
            ends = [max(0, size - rest - first) for size in (before, length)]
            group = [_low_groups(size, first, rest, whole) for size in (before, length)]
            words = {"tokens": length, "low_tokens": ends[1], "low_groups": len(group[1])}
            words |= {"demote_k": ends[1] > ends[0], "k_token": first + ends[1] - 1 if ends[1] > ends[0] else 0}
            fallen = [g for g in group[1] if g not in group[0]]
            words |= {"demote_v": bool(fallen), "v_group": fallen[-1] if fallen else 0}
            for name, word in words.items():
                answers[f"out.{name}"][row] = word
    return answers


def _low_groups(length: int, first: int, rest: int, whole: bool) -> Sequence[int]:
    """Groups of 32 whose first token, or with `whole` all tokens, are ordinary."""
    start = -(-first // 32)
    return range(start, max(start, (length - rest) // 32 if whole else -(-(length - rest) // 32)))


def grouper(golden: Golden, zero_sign: str = "keep", least: int = 0, **mistakes: Any) -> Arrays:
    """A v_grouper. least: smallest shared exponent."""
    answers, rows = outputs(golden), stimulus(golden)["v"]
    channels = rows.shape[1]
    for case in cases(golden):
        for place, row in enumerate(case):
            start = row - place % 32
            block = rows[start : row + 1].astype(int)
            exponents = np.maximum((block >> 10 & 31).max(axis=0), least)
            sign, mantissa = np.zeros((32, channels), int), np.zeros((32, channels), int)
            for token, channel in np.ndindex(*block.shape):
                word = int(block[token, channel])
                code = aligned(word, int(exponents[channel]), 8, **mistakes)
                mantissa[token, channel] = code
                sign[token, channel] = word >> 15 and (zero_sign == "keep" or code > 0)
            answers["out.sign"][row], answers["out.mantissa"][row] = sign.reshape(-1), mantissa.reshape(-1)
            answers["out.exponent"][row] = exponents
            answers["out.count"][row] = place % 32 + 1
            answers["out.commit"][row], answers["out.tokens"][row] = place % 32 == 31, place + 1
    return answers


def encoded(golden: Golden, y: np.ndarray, columns: int, rounding: str = "truncate") -> Arrays:
    """Outputs of a harmonia_core that converts the words y by rows, in groups of 32 columns."""
    answers = outputs(golden)
    answers["out.y"] = y.astype(np.uint16)
    rows, m = y.shape[1] // columns, int(golden.manifest["config"]["m"])
    for number in range(golden.rows):
        words = y[number].astype(int).reshape(rows, columns)
        groups = [(row, start) for row in range(rows) for start in range(0, columns, 32)]
        for group, (row, start) in enumerate(groups):
            part = words[row, start : start + 32]
            top = int((part >> 10 & 31).max())
            answers["out.exponent"][number, group] = top
            for lane, word in enumerate(part.tolist(), row * columns + start):
                answers["out.mantissa"][number, lane] = aligned(word, top, m, rounding)
                answers["out.sign"][number, lane] = word >> 15
    return answers
