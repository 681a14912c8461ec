"""Independent models of LeanKV's units, in a few lines of NumPy and Python, with optional mistakes."""

from typing import Any

import numpy as np

from refemu.golden.files.sets import Golden
from tests.golden.explain.collection import Arrays, outputs
from tests.golden.explain.hands import cases, half, stimulus, word16

MASK = 0xFFFFFFFF


def prefix(golden: Golden, top: str = "wrap", base: bool = True, exclusive: bool = False) -> Arrays:
    """A prefix_sum."""
    inputs = stimulus(golden)
    counts = inputs["counts"].astype(object)
    sums = np.cumsum(counts, axis=1) - (counts if exclusive else 0)
    sums = sums + (inputs["base"].astype(object)[:, None] if base else 0)
    sums = np.minimum(sums, MASK) if top == "saturate" else sums & MASK
    return {"out.inclusive": sums.astype(np.uint32)}


def pages(golden: Golden, behind: bool = False, last: bool = False, first: int = 0, short: bool = False) -> Arrays:
    """A free_page_list.

    `behind`: list_end is the place after the last id; last: ids that came last leave first; first: id of place 0;
    short: the ring is a place shorter when it wraps.
    """
    answers, inputs = outputs(golden), stimulus(golden)
    size = int(golden.manifest["config"]["pages"])
    for case in cases(golden):
        ring = [(place + first) % size for place in range(size)]
        head, tail = 0, size
        for row in case:
            count = int(inputs["count"][row])
            taken = [-1] * size
            if inputs["op"][row] == 0:
                places = range(head, head + count) if not last else range(tail - 1, tail - 1 - count, -1)
                taken[:count] = [ring[place % size] for place in places]
                head, tail = (head, tail - count) if last else (head + count, tail)
            else:
                for place, page in enumerate(inputs["ids"][row][:count].tolist(), tail):
                    ring[place % size] = page
                tail += count
            answers["out.taken"][row] = np.array(taken).astype(np.uint32)
            answers["out.list_start"][row] = head % (size - short)
            answers["out.list_end"][row] = (tail - (not behind)) % size
            answers["out.free"][row] = tail - head
    return answers


def quantizer(
    golden: Golden,
    codes: str = "even",
    zero: str = "negative",
    reciprocal: bool = False,
    stored: bool = False,
    high: bool = False,
    **mode: Any,
) -> Arrays:
    """A kv_quantizer of preset paper.

    codes: rounding of codes; zero: "minimum" is stored as it is; stored: codes are computed with the stored step;
    high: feature 0 is in the highest bits; mode: rounding of the stored step.
    """
    answers, inputs = outputs(golden), stimulus(golden)
    for row in range(golden.rows):
        bits = int(inputs["bits"][row])
        x = inputs["x"][row].astype(np.uint16).view(np.float16).astype(np.float32)
        top = (1 << bits) - 1
        least, most = np.float32(x.min() + np.float32(0)), np.float32(x.max() + np.float32(0))
        with np.errstate(all="ignore"):
            step = (most - least) / np.float32(top)
            numerator, denominator = float(step).as_integer_ratio()
            scale = half(numerator, 1 - denominator.bit_length(), **mode)
            used = np.float32(np.uint16(scale).view(np.float16)) if stored else step
            quotients = (x - least) * (np.float32(1) / used) if reciprocal else (x - least) / used
        rounded = np.rint(quotients) if codes == "even" else np.floor(quotients + np.float32(0.5 * (codes == "up")))
        whole = np.clip(np.nan_to_num(rounded, nan=0.0, posinf=top), 0, top).astype(int)
        number = 0
        for place, code in enumerate(whole.tolist()):
            number |= code << (bits * (place if not high else 31 - place))
        minimum = word16(least if zero == "minimum" else -least) if least != 0 else 0
        answers["out.words"][row] = [number >> 16 * word & 0xFFFF for word in range(16)]
        answers["out.s32"][row] = int(step.view(np.uint32))
        answers["out.scale"][row], answers["out.zero"][row] = scale, minimum
        if reciprocal and step:
            with np.errstate(all="ignore"):
                answers["out.inv32"][row] = (np.float32(1) / step).view(np.uint32)
    return answers


def significance(
    golden: Golden, itself: bool = False, joined: str = "max", normalize: bool = True, reciprocal: bool = False
) -> Arrays:
    """A significance of all queries. itself: a token's own query counts."""
    answers = outputs(golden)
    config = golden.manifest["config"]
    tokens, heads = config["tokens"], config["heads"]
    p = stimulus(golden)["p"].astype(np.uint32).view(np.float32).reshape(-1, tokens, heads, tokens)
    for row in range(golden.rows):
        words: dict[str, list[Any]] = {"sum": [], "mean": [], "count": []}
        for token in range(tokens):
            first = token if itself else token + 1
            each = [np.float32(0)] * heads
            for query in range(first, tokens):
                each = [total + p[row, query, head, token] for head, total in enumerate(each)]
            best = (
                max(np.float32(0), *each)
                if joined == "max"
                else np.float32(sum(each, np.float32(0))) / np.float32(heads)
            )
            count = tokens - first
            words["sum"].append(best)
            words["count"].append(count)
            words["mean"].append(_quotient(best, np.float32(count), reciprocal) if count else np.float32(0))
        total = np.float32(0)
        for mean in words["mean"]:
            total = total + mean
        shares = [_quotient(mean, total, reciprocal) if total else np.float32(0) for mean in words["mean"]]
        words["share"] = shares if normalize else words["mean"]
        for name, values in words.items():
            kind = np.uint32 if name == "count" else np.float32
            answers[f"out.{name}"][row] = np.array(values, kind).view(np.uint32)
    return answers


def _quotient(a: Any, b: Any, reciprocal: bool) -> Any:
    with np.errstate(all="ignore"):
        return a * (np.float32(1) / b) if reciprocal else a / b


def prompts(
    golden: Golden, strict: bool = True, restart: bool = False, ties: str = "first", cut: bool = False
) -> Arrays:
    """A prompt_compressor of rule cumulative.

    strict: a sum that meets a threshold is not below it; restart: low tokens count from 0; ties: which of equal
    shares goes first; cut: the window is a token shorter.
    """
    answers, inputs = outputs(golden), stimulus(golden)
    shares = inputs["share"].astype(np.uint32).view(np.float32)
    limits = inputs["thresholds"].astype(np.uint32).view(np.float32)
    tokens = shares.shape[1]
    for row in range(golden.rows):
        window = int(inputs["window"][row])
        kinds, order = [3] * tokens, list(range(tokens))
        if tokens > window:
            outside = tokens - window + cut
            side = 1 if ties == "first" else -1
            order = sorted(range(outside), key=lambda token: (shares[row][token], side * token))
            total, level = np.float32(0), 0
            for token in order:
                total = total + shares[row][token]
                while level < 2 and not (total < limits[row][level] or (not strict and total == limits[row][level])):
                    level += 1
                    if restart and level == 1:
                        total = np.float32(0) + shares[row][token]
                kinds[token] = level
            order += range(outside, tokens)
        answers["out.cls"][row], answers["out.order"][row] = kinds, order
        for name, kind in (("n_pruned", 0), ("n_low", 1), ("n_high", 2)):
            answers[f"out.{name}"][row] = kinds.count(kind)
    return answers


def raised(thresholds: np.ndarray) -> np.ndarray:
    """Words of the next floats, up to 1: a value equal to a threshold counts as below it."""
    return np.asarray(thresholds + (thresholds < 0x3F800000).astype(thresholds.dtype))
