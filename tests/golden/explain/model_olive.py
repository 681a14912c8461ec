"""Independent models of OliVe's units, in a few lines of NumPy and Python, with optional mistakes."""

from typing import Any

import numpy as np

from refemu.golden.files.sets import Golden
from tests.golden.explain.collection import Arrays, outputs
from tests.golden.explain.hands import cases, clamped, signed, stimulus
from tests.oracles.olive import array as array_oracle

FLINT = {  # by magnitude code: exponent, integer
    "right": [(0, 0), (0, 1), (0, 2), (0, 3), (4, 1), (2, 2), (0, 4), (0, 6)],
    "page": [(0, 0), (0, 1), (0, 2), (0, 3), (4, 1), (3, 1), (1, 2), (1, 3)],
    "sixteen": [(0, 0), (0, 1), (0, 2), (0, 3), (3, 2), (2, 2), (0, 4), (0, 6)],
}
FORMATS = {"int4": (4, 2, 1, 4), "flint4": (4, 2, 1, 4), "int8": (8, 4, 3, 5)}  # width, fields, bits of the exponent


def decoded(
    pairs: np.ndarray,
    bias: np.ndarray,
    kind: str,
    left: str = "low",
    right_outliers: bool = True,
    victim: str = "zero",
    reserved: str = "bias",
    top: str = "wrap",
    flint: str = "right",
    positive: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exponents and integers, lanes last, and whether a pair is illegal."""
    width, exp_bits, man_bits, exponent_bits = FORMATS[kind]
    mark, mask = 1 << width - 1, (1 << width) - 1
    pairs, bias = pairs.astype(np.int64), bias.astype(np.int64)
    codes = [pairs & mask, pairs >> width]
    codes = codes[::-1] if left == "high" else codes
    exponents, integers = [], []
    for lane in range(2):
        code, partner = codes[lane], codes[1 - lane]
        exponent, integer = normal(code, kind, flint)
        if lane == 0 or right_outliers:
            beside = partner == mark
            raised, abfloat = outlier(code, bias, exp_bits, man_bits, exponent_bits, top, reserved)
            exponent = np.where(beside, raised, exponent)
            integer = np.where(beside, np.abs(abfloat) if positive else abfloat, integer)
        exponents.append(np.where(code == mark, bias if victim == "bias" else 0, exponent))
        integers.append(np.where(code == mark, 0, integer))
    illegal = ((codes[0] == mark) & (codes[1] & mask >> 1 == 0)) | ((codes[1] == mark) & (codes[0] & mask >> 1 == 0))
    return np.stack(exponents, -1), np.stack(integers, -1), illegal


def normal(code: np.ndarray, kind: str, flint: str = "right") -> tuple[np.ndarray, np.ndarray]:
    """A normal value."""
    if kind == "flint4":
        table = np.array(FLINT[flint])[code & 7]
        return table[..., 0], np.where(code > 7, -table[..., 1], table[..., 1])
    return np.zeros_like(code), signed(code, FORMATS[kind][0])


def outlier(
    code: np.ndarray, bias: np.ndarray, exp_bits: int, man_bits: int, exponent_bits: int, top: str, reserved: str
) -> tuple[np.ndarray, np.ndarray]:
    """An abfloat."""
    magnitude = code & (1 << exp_bits + man_bits) - 1
    integer = np.where(magnitude == 0, 0, (magnitude & (1 << man_bits) - 1) + (1 << man_bits))
    exponent, limit = bias + (magnitude >> man_bits), (1 << exponent_bits) - 1
    exponent = np.minimum(exponent, limit) if top == "saturate" else exponent & limit
    if reserved == "zero":
        exponent = np.where(magnitude == 0, 0, exponent)
    return exponent, np.where(code >> exp_bits + man_bits & 1 == 1, -integer, integer)


def decoder(golden: Golden, illegal: str = "right", cut: int = -1, **mistakes: Any) -> Arrays:
    """An ovp_decoder. cut: connected bits of the exponent."""
    inputs = stimulus(golden)
    kind = str(golden.manifest["config"]["normal"])
    exponent, integer, bad = decoded(inputs["pair"], inputs["bias"], kind, **mistakes)
    width = FORMATS[kind][0]
    return {
        "out.exponent": (exponent & cut).astype(np.uint8),
        "out.base_int": (integer & (1 << width) - 1).astype(np.uint8),
        "out.illegal": (bad & (illegal == "right")).astype(np.uint8),
    }


def outliers(
    golden: Golden, top: str = "wrap", reserved: str = "bias", hidden: int = 1, positive: bool = False, cut: int = -1
) -> Arrays:
    """An outlier_decoder. hidden: the hidden one; cut: connected bits of the exponent."""
    config, inputs = golden.manifest["config"], stimulus(golden)
    exp_bits, man_bits = config["exp_bits"], config["man_bits"]
    code = inputs["code"].astype(np.int64)
    exponent, integer = outlier(
        code, inputs["bias"].astype(np.int64), exp_bits, man_bits, config["exponent_bits"], top, reserved
    )
    if not hidden:
        integer = np.sign(integer) * (np.abs(integer) & (1 << man_bits) - 1)
    integer = np.abs(integer) if positive else integer
    width = 1 + exp_bits + man_bits
    return {
        "out.exponent": (exponent & cut).astype(np.uint8),
        "out.base_int": (integer & (1 << width) - 1).astype(np.uint8),
    }


def flints(golden: Golden, flint: str = "right", positive: bool = False) -> Arrays:
    """A flint_decoder."""
    exponent, integer = normal(stimulus(golden)["code"].astype(np.int64), "flint4", flint)
    integer = np.abs(integer) if positive else integer
    return {"out.exponent": exponent.astype(np.uint8), "out.base_int": (integer & 15).astype(np.uint8)}


def encoder(golden: Golden, **mistakes: Any) -> Arrays:
    """An ovp_encoder of int4."""
    values = stimulus(golden)["value"].astype(np.uint32).view(np.float32).astype(float)
    return encoded(values, outputs(golden), **mistakes)


def encoded(
    values: np.ndarray,
    answers: Arrays,
    left: str = "low",
    closed: bool = False,
    tie: str = "right",
    winner: str = "larger",
    ties: str = "even",
    outlier_ties: str = "even",
    signed: bool = True,
    threshold: float = 9.5,
    mark: int = 8,
) -> Arrays:
    """Pairs of int4 and their flags, written into `answers`."""
    for row, pair in enumerate(values):
        sizes = [abs(value) if signed or value > 0 else 0.0 for value in pair]
        out = [size > threshold or (closed and size == threshold) for size in sizes]
        lane = 0 if out[0] and (not out[1] or winner == "left" or sizes[0] > sizes[1]) else 1
        lane = 0 if out[0] and out[1] and sizes[0] == sizes[1] and tie == "left" else lane
        codes, flags = [normal4(value, ties) for value in pair], (0, 0)
        if any(out):
            codes[lane], codes[1 - lane] = abfloat4(pair[lane], outlier_ties), mark
            flags = int(abs(pair[lane]) > 96), int(abs(pair[lane]) < 12)
        codes = codes[::-1] if left == "high" else codes
        answers["out.pair"][row] = codes[0] | codes[1] << 4
        answers["out.kind"][row] = 1 + lane if any(out) else 0
        answers["out.saturated"][row], answers["out.raised"][row] = flags
    return answers


def normal4(value: float, ties: str) -> int:
    """Code of int4."""
    size = abs(value)
    whole = int(size)
    rest = size - whole if size < 16 else 0.0
    whole += rest > 0.5 or (rest == 0.5 and (ties == "away" or whole % 2 == 1))
    whole = min(whole, 7)
    return -whole & 15 if value < 0 else whole


def abfloat4(value: float, ties: str = "even") -> int:
    """Code of E2M1 with bias 2."""
    legal = [12, 16, 24, 32, 48, 64, 96]
    size = min(max(abs(value), 12.0), 96.0)
    best = min(abs(size - entry) for entry in legal)
    near = [code + 1 for code, entry in enumerate(legal) if abs(size - entry) == best]
    code = near[-1] if ties == "away" else next((code for code in near if code % 2 == 0), near[0])
    return code | 8 if value < 0 else code


def mac(
    golden: Golden,
    saturate: bool = False,
    shift: int = 31,
    unsigned: bool = False,
    load: str = "set",
    sticky: bool = False,
    bits: int = 32,
) -> Arrays:
    """An olive_mac. shift: connected bits of the shift; bits: width at which it saturates."""
    answers, inputs = outputs(golden), stimulus(golden)
    for case in cases(golden):
        acc, flag = 0, 0
        for row in case:
            at = {name: int(array[row]) for name, array in inputs.items()}
            places = (at["a_exp"] + at["b_exp"]) & shift
            product = at["a_int"] * (at["b_int"] & 15 if unsigned else at["b_int"])
            if at["load"]:
                places = product = 0
                exact = acc + at["acc_in"] if load == "add" else at["acc_in"]
            else:
                exact = acc + (product << places)
            acc = clamped(exact, bits) if saturate else signed(exact, 32)
            flag = int(exact != clamped(exact)) | (flag if sticky else 0)
            words = {"shift": places, "product": product & 255, "acc": acc & 0xFFFFFFFF, "overflow": flag}
            for name, word in words.items():
                answers[f"out.{name}"][row] = word
    return answers


def pe8(golden: Golden, saturate: bool = False, split: str = "twos", order: tuple[int, ...] = (0, 1, 2, 3)) -> Arrays:
    """An olive_pe8."""
    answers, inputs = outputs(golden), stimulus(golden)
    for case in cases(golden):
        acc = 0
        for row in case:
            at = {name: int(array[row]) for name, array in inputs.items()}
            parts, places = [0] * 4, [0] * 4
            exact = at["acc_in"]
            if not at["load"]:
                x, y = halves(at["x_int"], split), halves(at["y_int"], split)
                parts = [x[i] * y[j] for i in (1, 0) for j in (1, 0)]
                places = [at["x_exp"] + at["y_exp"] + 4 * (i + j) for i in (1, 0) for j in (1, 0)]
                exact = acc + sum(part << place for part, place in zip(parts, places, strict=True))
            acc = clamped(exact) if saturate else signed(exact, 32)
            answers["out.partial"][row] = [parts[lane] & 1023 for lane in order]
            answers["out.shift"][row] = [places[lane] for lane in order]
            answers["out.acc"][row], answers["out.overflow"][row] = acc & 0xFFFFFFFF, exact != clamped(exact)
    return answers


def halves(value: int, split: str) -> tuple[int, int]:
    """Low and high half of an integer."""
    if split == "twos":
        return value & 15, value >> 4
    sign = -1 if value < 0 else 1
    return sign * (abs(value) & 15), sign * (abs(value) >> 4)


def operands(
    inputs: dict[str, np.ndarray], kinds: tuple[str, str], biases: bool, left: str, **mistakes: Any
) -> tuple[list[list[int]], list[list[int]], np.ndarray]:
    """Exact values of A and B as Python integers, row by row, and illegal rows. left: of B."""
    bias = [inputs["bias_a"][:, None], inputs["bias_b"][:, None]]
    bias = bias[::-1] if biases else bias
    values, illegal = [], np.zeros(len(bias[0]), np.bool_)
    for side, port in enumerate(("a_pairs", "b_pairs")):
        half: dict[str, Any] = {"left": left} if side else {}
        exponent, integer, bad = decoded(inputs[port], bias[side], kinds[side], **half, **mistakes)
        illegal |= bad.any(axis=1)
        exact = [
            [int(i) << int(e) for i, e in zip(*row, strict=True)]
            for row in zip(integer.reshape(len(integer), -1), exponent.reshape(len(exponent), -1), strict=True)
        ]
        values.append(exact)
    return values[0], values[1], illegal


def edp(
    golden: Golden,
    saturate: bool = False,
    chain: bool = False,
    biases: bool = False,
    left: str = "low",
    more: int = 0,
    terms: int = 16,
    **mistakes: Any,
) -> Arrays:
    """An olive_edp. terms: number of added products; more: added to the result; left: half of B's left element."""
    answers, inputs, config = outputs(golden), stimulus(golden), golden.manifest["config"]
    a, b, illegal = operands(inputs, (config["a"], config["b"]), biases, left, **mistakes)
    for row in range(golden.rows):
        products = [x * y for x, y in zip(a[row], b[row], strict=True)][:terms]
        exact = int(inputs["c"][row])
        if chain:
            over = 0
            for product in products:
                over |= int(exact + product != clamped(exact + product))
                exact = clamped(exact + product) if saturate else signed(exact + product, 32)
        else:
            exact += sum(products)
            over = int(exact != clamped(exact))
        answers["out.d"][row] = ((clamped(exact) if saturate else exact) + more) & 0xFFFFFFFF
        answers["out.overflow"][row], answers["out.illegal"][row] = over, illegal[row]
    return answers


def tile(golden: Golden, saturate: bool = False, biases: bool = False, left: str = "low", **mistakes: Any) -> Arrays:
    """An mmaovp, or an olive_systolic whose sums do not leave 32 bits."""
    answers, inputs, config = outputs(golden), stimulus(golden), golden.manifest["config"]
    systolic = "a" in config
    kinds = (config["a"], config["b"]) if systolic else tuple(_kind(config[f"{side}_type"]) for side in "ab")
    a, b, illegal = operands(inputs, (kinds[0], kinds[1]), biases, left, **mistakes)
    m, n, k = (config["m"], config["n"], config["k"]) if systolic else (8, 8, len(a[0]) // 8)
    step = 1 if systolic else k // 2
    for row in range(golden.rows):
        for i in range(m):
            for j in range(n):
                place, over = i * n + j, 0
                acc = 0 if systolic else int(inputs["c"][row][place])
                for first in range(0, k, step):
                    x = a[row][i * k + first : i * k + first + step]
                    y = b[row][j * k + first : j * k + first + step]
                    exact = acc + sum(p * q for p, q in zip(x, y, strict=True))
                    over |= int(exact != clamped(exact))
                    acc = clamped(exact) if saturate else signed(exact, 32)
                answers["out.d"][row][place] = acc & 0xFFFFFFFF
                answers["out.overflow"][row][place] = over
        answers["out.illegal"][row] = illegal[row]
    return answers


def _kind(name: str) -> str:
    return {"ovpi4": "int4", "ovpf4": "flint4", "ovpi8": "int8"}[name]


def gated(golden: Golden, zero: bool) -> Arrays:
    """A sequential form whose data outputs are 0, or unchanged, while `valid` is 0."""
    answers = outputs(golden)
    closes = answers["out.valid"] != 0
    for name, array in answers.items():
        if name in ("out.valid", "out.busy"):
            continue
        kept = np.zeros_like(array[0])
        for row in range(golden.rows):
            if closes[row]:
                kept = array[row].copy()
            else:
                array[row] = 0 if zero else kept
    return answers


def lasting(golden: Golden) -> Arrays:
    """A sequential form whose `valid` remains set until the next start."""
    answers = outputs(golden)
    for case in cases(golden):
        valid = 0
        for row in case:
            valid = 0 if answers["out.busy"][row] else valid | int(answers["out.valid"][row])
            answers["out.valid"][row] = valid
    return answers


class RightFirst(array_oracle.Array):
    """The right element of a pair enters first."""

    def pair(self, which: int, edge: int, word: int) -> Any:
        (e0, e1), (i0, i1), illegal = super().pair(which, edge, word)
        return (e1, e0), (i1, i0), illegal


class ShowsBottom(array_oracle.Array):
    """The south border shows the bottom row in every edge."""

    def rows_of(self) -> list[dict[str, Any]]:
        rows = super().rows_of()
        for edge, row in enumerate(rows):
            if not self.drain[edge]:
                size = 1 + self.wide[edge]
                last = [(self.rows - size) * self.cols + j for j in range(0, self.cols, size)]
                for lane, at in enumerate(last):
                    row["south"][lane], row["south_overflow"][lane] = row["acc"][at], row["acc_overflow"][at]
        return rows


class Both(RightFirst, ShowsBottom):
    """Both devices."""


def systolic(kind: type[array_oracle.Array], golden: Golden) -> Arrays:
    """A different olive_systolic_clocked."""
    answers, inputs = outputs(golden), stimulus(golden)
    for case in cases(golden):
        ports = {name: [values[row] for row in case] for name, values in inputs.items()}
        for row, state in zip(case, kind(**golden.manifest["config"], inputs=ports).rows_of(), strict=True):
            answers["out.south"][row] = np.array(state["south"]) & 0xFFFFFFFF
            answers["out.south_overflow"][row] = state["south_overflow"]
            answers["out.illegal"][row] = state["illegal"]
    return answers
