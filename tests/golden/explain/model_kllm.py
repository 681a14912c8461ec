"""Independent models of KLLM's units, in a few lines of NumPy and Python, with optional mistakes."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from refemu.golden.files.sets import Golden
from tests.golden.explain.collection import Arrays, outputs
from tests.golden.explain.hands import Round, cases, half, stimulus, units16, value16, word16

NAN = 0x7E00


def multiply_add(
    golden: Golden, fused: bool = False, negative_zero: bool = False, nan: int = NAN, flag: str = "", **mode: Any
) -> Arrays:
    """An fp16_mac. negative_zero: sign of sums that cancel; mode: rounding mode."""
    answers, inputs = outputs(golden), stimulus(golden)
    for row in range(golden.rows):
        a, b, acc = (int(inputs[name][row]) for name in ("a", "b", "acc"))
        y = _multiply_add(a, b, acc, fused, negative_zero, mode)
        finite = all(word & 0x7FFF < 0x7C00 for word in (a, b, acc))
        answers["out.y"][row] = nan if y & 0x7FFF > 0x7C00 else y
        over = y & 0x7FFF >= 0x7C00
        flags = {"": finite and over, "any": over, "infinite": y & 0x7FFF == 0x7C00, "saturated": finite and _top(y)}
        answers["out.overflow"][row] = flags[flag]
    return answers


def _top(word: int) -> bool:
    return word & 0x7FFF == 0x7BFF


def _multiply_add(a: int, b: int, acc: int, fused: bool, negative_zero: bool, mode: dict[str, Any]) -> int:
    sign = (a ^ b) >> 15
    if any(word & 0x7FFF >= 0x7C00 for word in (a, b)):
        with np.errstate(all="ignore"):
            return word16(np.float64(value16(a)) * value16(b) + value16(acc))
    product = half(units16(a) * units16(b), -48, zero=sign, **mode)
    if acc & 0x7FFF >= 0x7C00:
        with np.errstate(all="ignore"):
            return acc if fused else word16(np.float64(value16(product)) + value16(acc))
    if not fused and product & 0x7FFF == 0x7C00:
        return product
    exact = units16(a) * units16(b) + (units16(acc) << 24) if fused else units16(product) + units16(acc)
    zeros = sign & acc >> 15 if not (a & 0x7FFF and b & 0x7FFF and fused) else 0
    zero = int(negative_zero) if acc & 0x7FFF else zeros if fused else product >> 15 & acc >> 15
    return half(exact, -48 if fused else -24, zero=zero, **mode)


def clustering(
    golden: Golden, tie: str = "low", normalize: str = "divide", distance: str = "fp16", **mode: Any
) -> Arrays:
    """A clustering unit of preset paper. tie, distance: "midpoints" compares with rounded ones."""
    answers, inputs = outputs(golden), stimulus(golden)
    r = Round(**mode)
    for row in range(golden.rows):
        x, scale = value16(int(inputs["x"][row])), value16(int(inputs["scale"][row]))
        book = [value16(int(word)) for word in inputs["codebook"][row]]
        inverse = r.divided(1.0, scale)
        hat = r(x * inverse) if normalize == "reciprocal" else r.divided(x, scale)
        distances = [abs(r(hat - entry)) if distance == "fp16" else abs(hat - entry) for entry in book]
        least = [place for place, entry in enumerate(distances) if entry == min(distances)]
        best = book.index(book[least[0 if tie == "low" else -1]]) if least else 0
        if distance == "midpoints" and math.isfinite(hat):
            middles = [r((low + high) / 2) for low, high in pairwise(book)]
            best = book.index(book[sum(hat > middle for middle in middles)])
        over = not math.isfinite(hat) or not all(map(math.isfinite, distances))
        answers["out.index"][row] = best
        answers["out.overflow"][row] = over or (normalize == "reciprocal" and math.isinf(inverse))
    return answers


def counter(golden: Golden, width: int = 16, top: str = "wrap", invalid: str = "", clear: bool = True) -> Arrays:
    """An index_counter without amounts. invalid: "zero", "all" count invalid lanes; width: bits of a register."""
    answers, inputs = outputs(golden), stimulus(golden)
    size = answers["out.count"].shape[1]
    for case in cases(golden):
        count = np.zeros(size, np.int64)
        for row in case:
            if inputs["clear"][row] and clear:
                count[:] = 0
            for index, valid in zip(inputs["q"][row], inputs["valid"][row], strict=True):
                if valid or invalid == "all":
                    count[index] += 1
                elif invalid == "zero":
                    count[0] += 1
            limit = (1 << width) - 1
            count = np.minimum(count, limit) if top == "saturate" else count & limit
            answers["out.count"][row] = count
    return answers


def product(golden: Golden, high: str = "a", mask: str = "or", zero: bool = True, **mode: Any) -> Arrays:
    """An index_product. high: operand of the high part; zero: the index of an outlier is 0."""
    answers, inputs, r = outputs(golden), stimulus(golden), Round(**mode)
    config = golden.manifest["config"]
    for row in range(golden.rows):
        at = {name: int(array[row]) for name, array in inputs.items()}
        out = at["a_mask"] & at["b_mask"] if mask == "and" else at["a_mask"] | at["b_mask"]
        index = at["a"] << config["b_bits"] | at["b"] if high == "a" else at["b"] << config["a_bits"] | at["a"]
        word = word16(r(value16(at["a_value"]) * value16(at["b_value"])))
        answers["out.q"][row] = 0 if out and zero else index
        answers["out.mask"][row], answers["out.outlier"][row] = out, word if out else 0
        answers["out.overflow"][row] = out and word & 0x7FFF >= 0x7C00
    return answers


def reduced(counts: Sequence[int], book: Sequence[float], order: str = "up", fused: bool = False, **mode: Any) -> float:
    """Counts times entries. order: "up", "down", or "pairs", a tree of neighbours."""
    r = Round(**mode)
    terms = [(r(float(count)), entry) for count, entry in zip(counts, book, strict=True)]
    if order == "pairs":
        values = [r(count * entry) for count, entry in terms]
        while len(values) > 1:
            values = [r(sum(values[place : place + 2])) for place in range(0, len(values), 2)]
        return values[0]
    total = 0.0
    for count, entry in terms if order == "up" else terms[::-1]:
        total = r(count * entry + total) if fused else r(r(count * entry) + total)
    return total


def weighted_sum(golden: Golden, **mistakes: Any) -> Arrays:
    """A weighted_sum of preset paper."""
    answers, inputs = outputs(golden), stimulus(golden)
    for row in range(golden.rows):
        book = [value16(int(word)) for word in inputs["codebook"][row]]
        with np.errstate(all="ignore"):
            word = word16(reduced([int(count) for count in inputs["count"][row]], book, **mistakes))
        answers["out.y"][row], answers["out.overflow"][row] = word, word & 0x7FFF >= 0x7C00
    return answers


def matmul(golden: Golden, **mistakes: Any) -> Arrays:
    """An index_matmul of preset paper. mistakes: of `_column`."""
    answers, inputs = outputs(golden), stimulus(golden)
    flat = {name: answers[name].reshape(golden.rows, -1) for name in answers}
    for row in range(golden.rows):
        at = {name: np.atleast_1d(array[row]) for name, array in inputs.items()}
        for column in range(flat["out.y"].shape[1]):
            word = _column(at, column, **mistakes)
            flat["out.y"][row, column], flat["out.overflow"][row, column] = word, word & 0x7FFF >= 0x7C00
    return answers


def chip(golden: Golden, scale: str = "root", tie: str = "low", **mistakes: Any) -> Arrays:
    """A kllm_chip with right cycles. scale: "outlier" is that of the last popped one; mistakes: of `_column`."""
    answers, inputs, r = outputs(golden), stimulus(golden), Round()
    for row in range(golden.rows):
        at = {name: np.atleast_1d(array[row]) for name, array in inputs.items()}
        x, mask = [value16(int(word)) for word in at["x"]], answers["out.a_mask"][row]
        decisive = [abs(value) for value, popped in zip(x, mask, strict=True) if bool(popped) == (scale == "outlier")]
        factor = max(decisive) or 1.0
        book = [value16(int(word)) for word in at["a_codebook"]]
        index = [0 if popped else _nearest(r, value, factor, book, tie) for value, popped in zip(x, mask, strict=True)]
        at |= {"a_index": np.array(index), "a_mask": mask, "a_outlier": at["x"], "a_scale": [word16(factor)]}
        answers["out.a_index"][row], answers["out.a_scale"][row] = index, word16(factor)
        for column in range(answers["out.y"].shape[1]):
            word = _column(at, column, **mistakes)
            answers["out.y"][row, column], answers["out.overflow"][row, column] = word, word & 0x7FFF >= 0x7C00
    return answers


def _nearest(r: Round, x: float, scale: float, book: Sequence[float], tie: str) -> int:
    distances = [abs(r(r.divided(x, scale) - entry)) for entry in book]
    least = [place for place, entry in enumerate(distances) if entry == min(distances)]
    return list(book).index(book[least[0 if tie == "low" else -1]])


def _column(
    at: dict[str, Any],
    column: int,
    counted: bool = False,
    scales: str = "rounded",
    bits: int = 16,
    sparse: bool = True,
    masks: str = "both",
    merged: bool = False,
    **mistakes: Any,
) -> int:
    """One output, a word.

    at: the inputs of a row; counted: outliers are counted too; bits: of a counter; sparse: whether the sparse path is
    added; masks: "a": the counts exclude outliers of A only; merged: the scaled sum joins the sparse path unrounded.
    """
    r, k = Round(), len(at["a_index"])
    places, b_bits = slice(column * k, column * k + k), len(at["b_codebook"]).bit_length() - 1
    book, a_book, b_book = ([value16(int(w)) for w in at[name]] for name in ("products", "a_codebook", "b_codebook"))
    a_scale, b_scale = value16(int(at["a_scale"][0])), value16(int(at["b_scale"][column]))
    b_index = at["b_index"][places]
    b_mask = at["b_mask"][places] if "b_mask" in at else np.zeros(k, int)
    counts, total = [0] * len(book), 0.0
    for place in range(k):
        i, j = int(at["a_index"][place]), int(b_index[place])
        out = at["a_mask"][place] | b_mask[place]
        left_out = at["a_mask"][place] if masks == "a" else out
        if not left_out or counted:
            counts[i << b_bits | j] += 1
        if not out or not sparse:
            continue
        x = value16(int(at["a_outlier"][place])) if at["a_mask"][place] else r(a_scale * a_book[i])
        y = value16(int(at["b_outlier"][place])) if b_mask[place] else r(b_scale * b_book[j])
        total = r(x * y + total) if mistakes.get("fused") else r(r(x * y) + total)
    dense = reduced([count & (1 << bits) - 1 for count in counts], book, **mistakes)
    factor = a_scale * b_scale
    if merged:
        return word16(r(dense * r(factor) + total))
    scaled = (
        r(r(dense * a_scale) * b_scale) if scales == "turn" else r(dense * (factor if scales == "exact" else r(factor)))
    )
    return word16(r(scaled + total))


def pops(
    golden: Golden,
    ties: str = "left",
    leaf: str = "config",
    zeros: str = "equal",
    shared: bool = False,
    repaired: bool = True,
    valid: bool = False,
    never: int = -1,
    unsigned: bool = False,
) -> Arrays:
    """An orizuru.

    shared: a popped leaf is gone for both trees; repaired: after the last pop;
    valid: a root that is not; never: not maximal.
    """
    answers, inputs, config = outputs(golden), stimulus(golden), golden.manifest["config"]
    leaf = config["min_leaf"] if leaf == "config" else leaf
    k = config["k"]
    for row in range(golden.rows):
        x = [int(word) for word in inputs["x"][row]]
        key = partial(_key, zeros="ordered" if config["total_order"] else zeros, unsigned=unsigned)
        side = -1 if ties == "right" else 1
        top = sorted((i for i in range(len(x)) if i != never), key=lambda i: (-key(x[i]), side * i))
        top += [never] if never >= 0 else []
        gone = top[:k] if shared else []
        pair = 2 if leaf == "not_max" else 1
        low = sorted(
            (i for i in range(len(x)) if i not in gone), key=lambda i: (key(x[i]), side * (i // pair), -side * i)
        )
        for name, order in (("max", top), ("min", low)):
            answers[f"out.{name}_index"][row] = order[:k]
            shows = order[k - 1 if not repaired else k] if len(order) > k or not repaired else None
            answers[f"out.root_{name}_valid"][row] = shows is not None and (repaired or valid)
            if shows is not None:
                answers[f"out.root_{name}"][row] = x[shows]
        chosen = {*top[:k], *low[:k]}
        answers["out.outlier_mask"][row] = [i in chosen for i in range(len(x))]
    return answers


def _key(word: int, zeros: str, unsigned: bool) -> int:
    magnitude = word & 0x7FFF
    if unsigned:
        return word
    return (-magnitude - (zeros == "ordered")) if word >> 15 else magnitude


def function(golden: Golden, **mode: Any) -> Arrays:
    """A functional of exp, sqrt or recip."""
    answers, words, r = outputs(golden), stimulus(golden)["x"], Round(**mode)
    op = golden.manifest["config"]["op"]
    for row, word in enumerate(words):
        x, y = value16(int(word)), math.nan
        with np.errstate(all="ignore"):
            if op == "exp":
                y = r.real(float(np.exp(np.float64(min(x, 700.0)))))  # finite in float64
            elif op == "sqrt" and (x >= 0 or math.isnan(x)):
                y = r.real(float(np.sqrt(np.float64(x))))
            elif op == "recip":
                y = r.divided(1.0, x)
        answers["out.y"][row] = word16(y)
    return answers


def softmax(golden: Golden, total: str = "fp32", order: str = "up", recip: bool = False, ties: str = "even") -> Arrays:
    """A functional of softmax in fp16."""
    answers, words = outputs(golden), stimulus(golden)["x"]
    r = Round(ties=ties)
    for row in range(golden.rows):
        x = [value16(int(word)) for word in words[row]]
        top = max(x)
        with np.errstate(all="ignore"):
            terms = [np.float32(np.float16(np.exp(np.float64(np.float16(entry - top))))) for entry in x]
            wide = np.float16 if total == "fp16" else np.float32
            whole = wide(0)
            for term in terms if order == "up" else terms[::-1]:
                whole = wide(whole + wide(term))
            for lane, term in enumerate(terms):
                whole32 = np.float32(whole)
                y = term * (np.float32(1) / whole32) if recip else term / whole32
                answers["out.y"][row, lane] = word16(r.real(float(y)))
    return answers


def scores(golden: Golden, ties: str = "even", levels: int = 15, fold: bool = True, zero: int = 0x3C00) -> Arrays:
    """A score_quantizer of four bits that folds in the scales of V. levels: code of the maximum."""
    answers, inputs = outputs(golden), stimulus(golden)
    for row in range(golden.rows):
        values = [value16(int(word)) for word in inputs["p"][row]]
        if fold:
            scales = [value16(int(word)) for word in inputs["v_scale"][row]]
            values = [float(np.float16(x * y)) for x, y in zip(values, scales, strict=True)]
        whole = [units16(word16(value)) for value in values]
        top = max(whole)
        if top == 0:
            answers["out.q"][row], answers["out.scale"][row] = 0, zero
            continue
        for lane, entry in enumerate(whole):
            quotient, rest = divmod(entry * levels, top)
            tie = 2 * rest == top and (ties == "away" or (ties == "even" and quotient % 2 == 1))
            quotient += ties != "cut" and (2 * rest > top or tie)
            answers["out.q"][row, lane] = quotient
        answers["out.scale"][row] = word16(float(np.float16(np.float32(top / levels * 2.0**-24))))
    return answers
