"""Shared parts of devices made by hand: stimulus, runs on changed inputs, bugs of wiring, noise, fp16."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from refemu import units
from refemu.golden.files import fields, sets
from refemu.golden.files.sets import Golden
from tests.golden.explain.collection import Arrays, outputs

Change = Callable[[dict[str, np.ndarray]], Mapping[str, np.ndarray]]
Words = Callable[[np.ndarray], np.ndarray]


@lru_cache(maxsize=4)
def stimulus(golden: Golden) -> dict[str, np.ndarray]:
    """Values of every input, row by row."""
    return {
        entry["name"].removeprefix("in."): fields.decode(golden.arrays[entry["name"]], sets.port_of(entry))
        for entry in golden.manifest["arrays"]
        if entry["role"] == "stimulus"
    }


def cases(golden: Golden) -> Iterator[range]:
    """Rows of every case."""
    for entry in golden.manifest["cases"]:
        for case in range(entry["cases"]):
            first = entry["first"] + case * entry["rows"]
            yield range(first, first + entry["rows"])


def ran(golden: Golden, change: Change | None = None, **parameters: Any) -> Arrays:
    """Answers of the unit with changed inputs or parameters.

    change: new values of some inputs, from all.
    """
    unit = units.find(golden.manifest["unit"])
    arrays = outputs(golden)
    for entry in golden.manifest["cases"]:
        rows = slice(entry["first"], entry["first"] + entry["cases"] * entry["rows"])
        inputs = sets.inputs(golden, unit, entry["first"], entry["cases"], entry["rows"])
        inputs |= change(inputs) if change else {}
        result = unit.run_compiled(**inputs, **{**unit.config(golden.config), **parameters})
        for name, array in arrays.items():
            port = sets.port_of(golden.array(name))
            words = fields.encode(getattr(result, port.name), port, name)
            array[rows] = words.reshape(array[rows].shape)
    return arrays


def wired(golden: Golden, base: Arrays | None = None, **ports: Words) -> Arrays:
    """Outputs with the words of some ports changed, all rows at once; words are cut to the bits of the port."""
    arrays = dict(base or outputs(golden))
    for port, change in ports.items():
        name = f"out.{port}"
        mask = fields.mask_of(sets.port_of(golden.array(name)).bits)
        array = arrays[name]
        arrays[name] = (change(array.copy()).astype(np.int64) & mask).astype(array.dtype)
    return arrays


def in_lane(lane: int, change: Words) -> Words:
    """A change in one lane."""

    def changed(words: np.ndarray) -> np.ndarray:
        words = words.astype(np.int64)
        words[:, lane] = change(words[:, lane])
        return words

    return changed


def late(words: np.ndarray) -> np.ndarray:
    """A row late, 0 first."""
    return np.concatenate([np.zeros_like(words[:1]), words[:-1]])


def early(words: np.ndarray) -> np.ndarray:
    """A row early, 0 last."""
    return np.concatenate([words[1:], np.zeros_like(words[:1])])


def plus(amount: int) -> Words:
    """A constant added."""
    return lambda words: words.astype(np.int64) + amount


def seventh(words: np.ndarray) -> np.ndarray:
    """The lowest bit is wrong in every seventh row."""
    words[3::7] ^= words.dtype.type(1)
    return words


def single(words: np.ndarray) -> np.ndarray:
    """The lowest bit is wrong in the row at the centre."""
    words[len(words) // 2] ^= words.dtype.type(1)
    return words


def scrambled(words: np.ndarray) -> np.ndarray:
    """Every fifth row has a different word."""
    rows = np.arange(1, len(words), 5)
    shape = words[rows].shape
    words[rows] = np.random.default_rng(7).integers(0, 1 << 8 * words.dtype.itemsize, shape, np.uint64)
    return words


def swapped_bits(first: int, second: int) -> Words:
    """Two bits exchanged."""

    def changed(words: np.ndarray) -> np.ndarray:
        words = words.astype(np.int64)
        flip = (words >> first ^ words >> second) & 1
        return np.asarray(words ^ (flip << first | flip << second))

    return changed


def signed(words: Any, bits: int) -> Any:
    """Low bits as two's complement."""
    return ((words & (1 << bits) - 1) ^ (1 << bits - 1)) - (1 << bits - 1)


def clamped(exact: int, bits: int = 32) -> int:
    """The nearest number with `bits` signed bits."""
    return max(-(1 << bits - 1), min((1 << bits - 1) - 1, exact))


def units16(word: int) -> int:
    """Value of a finite fp16 word, in units of 2**-24."""
    exponent, fraction = word >> 10 & 31, word & 1023
    magnitude = fraction if exponent == 0 else (1024 + fraction) << exponent - 1
    return -magnitude if word >> 15 else magnitude


def half(exact: int, unit: int = -24, ties: str = "even", top: str = "inf", flush: bool = False, zero: int = 0) -> int:
    """The fp16 word of exact * 2**unit.

    ties: "even", "away", "up" (to plus infinity), or "cut" (no rounding); top: "inf" or "max"; zero: sign of 0.
    """
    negative, magnitude = exact < 0, abs(exact)
    if not magnitude:
        return zero << 15
    shift = max(magnitude.bit_length() + unit - 11, -24) - unit
    kept = magnitude >> shift if shift > 0 else magnitude << -shift
    if shift > 0 and ties != "cut":
        rest, middle = magnitude & (1 << shift) - 1, 1 << shift - 1
        tie = {"even": kept & 1 == 1, "away": True, "up": not negative}[ties]
        kept += rest > middle or (rest == middle and tie)
    word = kept if kept < 1024 else (shift + unit + 25 << 10) + kept - 1024
    word = min(word, 0x7BFF if top == "max" else 0x7C00)
    return (0 if flush and word < 1024 else word) | negative << 15


def value16(word: int) -> float:
    """Value of an fp16 word."""
    return float(np.uint16(word).view(np.float16))


def word16(value: Any) -> int:
    """The fp16 word nearest to a value; 7E00 for a NaN."""
    with np.errstate(all="ignore"):
        word = np.float16(value)
    return 0x7E00 if np.isnan(word) else int(word.view(np.uint16))


class Round:
    """Rounding to fp16 of values that are multiples of 2**-48, of reals, and of quotients."""

    def __init__(self, **mode: Any) -> None:
        self.mode = mode

    def __call__(self, value: float) -> float:
        """The fp16 value."""
        if not self.mode:
            with np.errstate(all="ignore"):
                return float(np.float16(value))
        if not math.isfinite(value) or value == 0:
            return value
        return value16(half(int(math.ldexp(value, 48)), -48, **self.mode))

    def real(self, value: float) -> float:
        """The fp16 value of any float64."""
        if not math.isfinite(value) or value == 0:
            return value
        numerator, denominator = value.as_integer_ratio()
        return value16(half(numerator, 1 - denominator.bit_length(), **self.mode))

    def divided(self, dividend: float, divisor: float) -> float:
        """The fp16 value of a quotient."""
        if not (math.isfinite(dividend) and math.isfinite(divisor) and dividend and divisor):
            with np.errstate(all="ignore"):
                return float(np.float16(np.float64(dividend) / np.float64(divisor)))
        top, bottom = int(math.ldexp(dividend, 24)), int(math.ldexp(divisor, 24))
        quotient, rest = divmod(abs(top) << 80, abs(bottom))
        sign = -1 if (top < 0) != (bottom < 0) else 1
        return value16(half(sign * (2 * quotient + (rest != 0)), -81, **self.mode))
