"""Libraries of number formats, each where it is installed: ml_dtypes, gfloat, apytypes and torch (PERF-16, PERF-22)."""

import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.pairs import Absent, Row, pairs
from benchmarks.rows.arith import normal
from benchmarks.rows.elementwise import half
from refemu.arith import dot_compiled, fp16_compiled
from refemu.arith.orders import Sequential
from refemu.formats import BFP8, E2M1_BIAS2
from refemu.formats.harmonia.compiled import bfp as bfp_compiled

Rows = list[Row | Absent]


def optional(id: str, extra: str, *modules: str) -> tuple[list[Any], Rows]:
    """The modules, or without one of them a line that says how to get it."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        return [], [Absent(id, f"beside {', '.join(missing)}", f"not installed: pip install -e '.[{extra}]'")]
    return [importlib.import_module(name) for name in modules], []


def casts() -> Rows:
    """A format of four bits, against theirs of as many; their codes mean other values."""
    modules, absent = optional("PERF-22", "bench", "ml_dtypes", "gfloat")
    if absent:
        return absent
    ml_dtypes, gfloat = modules
    small, x = importlib.import_module("gfloat.formats").format_info_ocp_e2m1, half(1, 3.0)
    nearest, wide = E2M1_BIAS2.encode(x.astype(np.float64)), x[: 1 << 16].astype(np.float64)

    def right(_: Any, ours: np.ndarray) -> bool:
        return np.array_equal(nearest[: ours.size], ours)

    return [
        pairs(
            "PERF-22",
            "E2M1_BIAS2 encode 2^20 fp16, without numba",
            "ml_dtypes, float4_e2m1fn",
            lambda: x.astype(ml_dtypes.float4_e2m1fn),
            lambda: E2M1_BIAS2.encode(x),
            right,
        ),
        pairs(
            "PERF-22",
            "E2M1_BIAS2 encode 2^16 fp16, without numba",
            "gfloat, ocp_e2m1",
            lambda: gfloat.round_ndarray(small, wide, sat=True),
            lambda: E2M1_BIAS2.encode(x[: 1 << 16]),
            right,
        ),
    ]


def rounding() -> Rows:
    """float32 to fp16 values: the same function in two libraries, so every bit is compared."""
    modules, absent = optional("RIVAL-ROUND16", "bench", "gfloat", "apytypes")
    if absent:
        return absent
    gfloat, apytypes = modules
    binary16 = importlib.import_module("gfloat.formats").format_info_binary16
    x = normal((1 << 16,), 1)
    wide, what = x.astype(np.float64), "round16 of 2^16 float32"

    def ours() -> np.ndarray:
        return fp16_compiled.round16(x)

    return [
        pairs(
            "RIVAL-ROUND16",
            what,
            "gfloat, binary16",
            lambda: gfloat.round_ndarray(binary16, wide),
            ours,
            np.array_equal,
        ),
        pairs(
            "RIVAL-ROUND16",
            what,
            "apytypes, 5 and 10 bits",
            lambda: apytypes.APyFloatArray.from_float(wide, exp_bits=5, man_bits=10),
            ours,
            lambda theirs, mine: np.array_equal(theirs.to_numpy(), mine),
        ),
    ]


def mac() -> Rows:
    """fp16 multiply and add, each rounded, in order: apytypes computes the same bits, with its own threads."""
    modules, absent = optional("RIVAL-MAC16", "bench", "apytypes")
    if absent:
        return absent
    a, w = normal((1, 1024), 1).astype(np.float16), (normal((1024, 1024), 2) / np.float32(32)).astype(np.float16)
    left, right = (
        modules[0].APyFloatArray.from_float(side.astype(np.float64), exp_bits=5, man_bits=10) for side in (a, w.T)
    )
    wide, weights = a.astype(np.float32), dot_compiled.panels(w)
    return [
        pairs(
            "RIVAL-MAC16",
            "fp16 MAC rounded twice, M=1 K=N=1024",
            "apytypes matmul",
            lambda: left @ right,
            lambda: dot_compiled.matmul(wide, weights, order=Sequential(), acc="fp16"),
            lambda theirs, ours: np.array_equal(theirs.to_numpy(), ours),
            count=5,
            clock=time.perf_counter,
        )
    ]


def blocks() -> Rows:
    """Groups of 32 to 8 bits and an exponent, against a quantizer in float operations as of microscaling libraries."""
    modules, absent = optional("PERF-16", "bench-torch", "torch")
    if absent:
        return absent
    torch, x = modules[0], normal((1 << 10, 1 << 10), 11).astype(np.float16)
    torch.set_num_threads(1)
    values = torch.from_numpy(x.astype(np.float32)).reshape(-1, 32)

    def quantize() -> np.ndarray:
        _, exponent = torch.frexp(values.abs().amax(dim=1, keepdim=True))
        return torch.trunc(torch.ldexp(values, 8 - exponent)).to(torch.int16).numpy()

    return [
        pairs(
            "PERF-16",
            "BFP8 encode 2^20 fp16 along rows",
            "torch eager: frexp, ldexp, trunc",
            quantize,
            lambda: bfp_compiled.encode(BFP8, x),
            lambda theirs, ours: np.array_equal(theirs.reshape(x.shape), ours.signed()),
            6.0,
        )
    ]


def float8() -> Rows:
    """torch's own cast to eight bits, the fastest of the libraries; its codes mean other values."""
    modules, absent = optional("PERF-22", "bench-torch", "torch")
    if absent:
        return absent
    torch, x = modules[0], half(1, 3.0)
    torch.set_num_threads(1)
    values, nearest = torch.from_numpy(x), E2M1_BIAS2.encode(x.astype(np.float64))
    return [
        pairs(
            "PERF-22",
            "E2M1_BIAS2 encode 2^20 fp16, without numba",
            "torch cast to float8_e4m3fn",
            lambda: values.to(torch.float8_e4m3fn),
            lambda: E2M1_BIAS2.encode(x),
            lambda _, ours: np.array_equal(nearest, ours),
        )
    ]


ROWS: dict[str, Callable[[], Sequence[Row | Absent]]] = {
    "PERF-22": lambda: [*casts(), *float8()],
    "RIVAL-ROUND16": rounding,
    "RIVAL-MAC16": mac,
    "PERF-16": blocks,
}
