"""Speed of MX blocks compared with OVP_INT4 of refemu, gfloat, ml_dtypes and NumPy: python benchmark.py [VALUES]

Best processor time of several runs, one thread. Exit code 1 where MXFP4 takes longer than OVP_INT4 does;
with another number of VALUES than by default the times are printed and not compared.
"""

import sys
import time
from collections.abc import Callable, Sequence

import gfloat
import ml_dtypes
import numpy as np
from gfloat.formats import format_info_ocp_e2m1
from refemu_mx import mx_dot
from refemu_mx.tensors import MxFormat, Nvfp4Format

from refemu.formats import OVP_INT4

VALUES, RUNS = 1 << 20, 7  #: values of a tensor, a multiple of 32
MXFP4 = MxFormat("e2m1")


def best(function: Callable[[], object], runs: int = RUNS) -> float:
    """Least processor time of several runs after one that compiles, in ms."""
    function()
    times = []
    for _ in range(runs):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def scaled(x: np.ndarray) -> np.ndarray:
    """Values divided by the scale of their block, in NumPy, for libraries that round elements only."""
    blocks = x.reshape(-1, 32)
    _, exponent = np.frexp(np.abs(blocks).max(axis=1, keepdims=True))
    return np.ldexp(blocks, 3 - exponent)


def dots(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """Dot products of 32 values each."""
    one, other = (MXFP4.encode(each.reshape(-1, 32)) for each in (a, b))
    operands = (one.scale[:, 0], one.codes, other.scale[:, 0], other.codes)
    left, right = one.decode(), other.decode()
    return {
        "mx_dot, exact": best(lambda: mx_dot.UNIT.run_compiled(*operands, a="e2m1", b="e2m1", accumulate="exact")),
        "mx_dot, float32 in order": best(
            lambda: mx_dot.UNIT.run_compiled(*operands, a="e2m1", b="e2m1", accumulate="fp32")
        ),
        "NumPy on decoded values": best(lambda: np.einsum("ij,ij->i", left, right)),
    }


def main(words: Sequence[str]) -> int:
    """Print the tables; returns the exit code."""
    count = int(words[0]) if words else VALUES
    x, y = (np.random.default_rng(seed).standard_normal(count).astype(np.float32) for seed in (0, 1))
    pairs, blocks, nvfp4 = OVP_INT4.encode(x, 0.3), MXFP4.encode(x), Nvfp4Format().encode(x)
    codes = scaled(x).astype(ml_dtypes.float4_e2m1fn)
    encode = {
        "MXFP4": best(lambda: MXFP4.encode(x)),
        "NVFP4": best(lambda: Nvfp4Format().encode(x)),
        "OVP_INT4": best(lambda: OVP_INT4.encode(x, 0.3)),
        "ml_dtypes, scales by NumPy": best(lambda: scaled(x).astype(ml_dtypes.float4_e2m1fn)),
        "gfloat, scales by NumPy": best(
            lambda: gfloat.encode_ndarray(
                format_info_ocp_e2m1, gfloat.round_ndarray(format_info_ocp_e2m1, scaled(x), sat=True)
            ),
            runs=2,
        ),
    }
    decode = {
        "MXFP4": best(blocks.decode),
        "NVFP4": best(nvfp4.decode),
        "OVP_INT4": best(pairs.dequantize),
        "ml_dtypes, elements only": best(lambda: codes.astype(np.float32)),
        "gfloat, elements only": best(lambda: gfloat.decode_ndarray(format_info_ocp_e2m1, blocks.codes), runs=2),
    }
    for title, rows in (("encode", encode), ("decode", decode), ("dot products", dots(x, y))):
        print(f"{title} of {count:,} values, ms of processor time")
        for name, took in rows.items():
            print(f"  {name:<28}{took:9.1f}")
    compared = (("encode", encode), ("decode", decode)) if count == VALUES else ()
    slower = [title for title, rows in compared if rows["MXFP4"] > rows["OVP_INT4"]]
    for title in slower:
        print(f"benchmark: MXFP4 must {title} in at most the time of OVP_INT4", file=sys.stderr)
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
