"""fp16 functions as tables of 65,536 words, every entry the nearest fp16 value of the exact result.

Built on first use from the C library's float64 functions and pinned by sha256. That is safe: no exact result of these
functions comes nearer to the midpoint of two fp16 values than 2**15 units of the last place of float64, so every
library gives the same table. Decisions: D-arith-7 (a table, or `composed` step by step), D-arith-9 (rsqrt(-0) = -inf).
"""

import functools
import hashlib
import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import lookup, require_range

__all__ = ["COMPOSED", "SHA256", "FunctionName", "TableMode", "apply16", "table16"]


TableMode: TypeAlias = Literal["table", "composed"]  #: Nearest value of the exact result, or fp16 step by step

#: Function with a table
FunctionName: TypeAlias = Literal[
    "exp", "exp2", "log", "tanh", "sigmoid", "silu", "gelu_erf", "gelu_tanh", "rsqrt", "recip", "sqrt"
]

#: sha256 of the little-endian bytes of every table, by name of the function
SHA256: dict[str, str] = {
    "exp": "608c213c696b69ed1068ffad77c072bb7b6077f54f58ae277d4e54278020f342",
    "exp2": "6c319b8ad56f1601204b80c99bb4d7bba57cc9ea183fedb7a1382099bb2c5acb",
    "log": "322c994520bd9cc2f82db2af6dd2a93063983c1b8f6603b19b207ad75f17f99a",
    "tanh": "fe29dbdff0de41fbffd617d5648cdcab89d76b8291b9e2e9ac08a6fc97f0089c",
    "sigmoid": "a1c114a164cf529daac76bff9657e9d4828d3617bf5eb7398732bf78730c252b",
    "silu": "9920d6c12f34224ce88fc96d0d9152a8caabc12958b72f8f7bbd33768361bd83",
    "gelu_erf": "6e527d1f66e760d19ef6ecd2793f6cdc0164c9e8b09e183a4229bcc7b67b95a0",
    "gelu_tanh": "b960970d1fcb8595c33732297040e9b7b2c452f52e56dab055936555d8b609f0",
    "rsqrt": "87d0a874cbf78a0e82326401468f258c0f7e28d56f2f65182ca1f9a4499187fb",
    "recip": "5fd7378a5f83896053b9073ac4f22597d153cfc2dc1e0ac03b77b310830b80a1",
    "sqrt": "72fc6043a8d21ea91d728e1627b582f14dcba8d0ffbbe50889e02898d9947836",
}

_FAR = 700.0  # exp of it is finite in float64 and far beyond fp16, both ways


def _each(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    return np.array(list(map(function, x.tolist())))


def _exp(x: np.ndarray) -> np.ndarray:
    return _each(math.exp, np.clip(x, -_FAR, _FAR))


def _exp2(x: np.ndarray) -> np.ndarray:
    return _each(math.exp2, np.clip(x, -_FAR, _FAR))


def _log(x: np.ndarray) -> np.ndarray:
    positive = x > 0
    logs = _each(math.log, np.where(positive, x, 1.0))
    return np.where(positive, logs, np.where(x == 0, -np.inf, np.nan))


def _tanh(x: np.ndarray) -> np.ndarray:
    return _each(math.tanh, x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + _exp(-x))


def _silu(x: np.ndarray) -> np.ndarray:
    return _or_minus_zero(x, x * _sigmoid(x))


def _gelu_erf(x: np.ndarray) -> np.ndarray:
    return _or_minus_zero(x, x / 2.0 * _each(math.erfc, -x / math.sqrt(2.0)))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    slope = 2.0 * math.sqrt(2.0 / math.pi)
    return _or_minus_zero(x, x / (1.0 + _exp(-slope * (x + 0.044715 * (x * x * x)))))


def _or_minus_zero(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`y`, but -0 at -inf, where the formula has infinity times 0."""
    return np.where(x == -np.inf, -0.0, y)


def _rsqrt(x: np.ndarray) -> np.ndarray:
    return 1.0 / np.sqrt(x)


def _recip(x: np.ndarray) -> np.ndarray:
    return 1.0 / x


_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": _exp,
    "exp2": _exp2,
    "log": _log,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "gelu_erf": _gelu_erf,
    "gelu_tanh": _gelu_tanh,
    "rsqrt": _rsqrt,
    "recip": _recip,
    "sqrt": np.sqrt,
}


@functools.cache
def table16(name: FunctionName) -> np.ndarray:
    """Tabulate a function: entry u is the fp16 word of f of word u.

    Parameters
    ----------
    name : str
        One of `SHA256`.

    Returns
    -------
    ndarray of uint16 (65536,)
        Read-only table.

    Raises
    ------
    Refused
        An unknown name.
    ArithmeticError
        This platform's math library gives another table than the pinned one.
    """
    with np.errstate(all="ignore"):
        words = fp16.bits(fp16.to_f16(exact16(name))).astype("<u2")
    _require_pinned(name, words)
    words.flags.writeable = False
    return words


def exact16(name: FunctionName) -> np.ndarray:
    """Values of which `table16` is rounded: float64 (65536,), as the platform's math library gives them."""
    function = lookup("fp16 function", name, _FUNCTIONS)
    inputs = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        return function(fp16.canonical(inputs).astype(np.float64))


def _require_pinned(name: FunctionName, words: np.ndarray) -> None:
    digest = hashlib.sha256(words.tobytes()).hexdigest()
    if digest != SHA256[name]:
        raise ArithmeticError(
            f'table16("{name}"): sha256 {digest} is not the pinned {SHA256[name]}; the math library '
            f"of this platform is not usable"
        )


def apply16(name: FunctionName, codes: ArrayLike, mode: TableMode = "table") -> np.ndarray:
    """Apply a function to fp16 words.

    Parameters
    ----------
    name : str
        One of `SHA256`; with "composed" one of `COMPOSED`.
    codes : array_like of integers
        Words below 2**16.
    mode : {"table", "composed"}
        "composed" is another unit, which rounds after every step.

    Returns
    -------
    ndarray of uint16
        Words, in the shape of `codes`.

    Raises
    ------
    Refused
        A name or mode is unknown, or a word out of range.
    RefusedType
        Another dtype.
    """
    words = require_range(codes, 0, 1 << 16, "apply16", "code")
    if mode == "composed":
        function = lookup("composed fp16 function", name, COMPOSED)
        return fp16.bits(fp16.to_f16(function(words)))
    lookup("mode of an fp16 function", mode, {"table": None, "composed": None})
    return np.take(table16(name), words)


def _value(name: str, x: np.ndarray) -> np.ndarray:
    """Table `name` of fp16-valued float32."""
    return fp16.values(np.take(table16(name), fp16.bits(fp16.to_f16(x)))).astype(np.float32)


def _composed_sigmoid(u: np.ndarray) -> np.ndarray:
    return fp16.div16(np.float32(1), _one_plus_exp_of_minus(u))


def _composed_silu(u: np.ndarray) -> np.ndarray:
    return fp16.div16(fp16.to_f32(fp16.values(u)), _one_plus_exp_of_minus(u))


def _one_plus_exp_of_minus(u: np.ndarray) -> np.ndarray:
    return fp16.add16(np.float32(1), _value("exp", -fp16.to_f32(fp16.values(u))))


def _composed_rsqrt(u: np.ndarray) -> np.ndarray:
    return fp16.div16(np.float32(1), fp16.sqrt16(fp16.to_f32(fp16.values(u))))


#: Functions computed step by step in fp16, exp by its table (D-arith-7)
COMPOSED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": _composed_sigmoid,
    "silu": _composed_silu,
    "rsqrt": _composed_rsqrt,
}
