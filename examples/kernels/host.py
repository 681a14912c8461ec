"""What the Python kernels share: a golden set by NumPy alone, answers, whether there is a GPU. No refemu in here."""

import ctypes
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

POINT = (-22, -40, -44)  #: what is added to the exponents of a partial sum, by mode [harmonia §IV-B]
POWER_ZERO = 64  #: place of 2**0 in `powers()`


def gpu() -> str:
    """Name of the first CUDA device, "" if there is none. Asks the driver: in its simulator numba always finds one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    count, name = ctypes.c_int(), ctypes.create_string_buffer(100)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return ""
    driver.cuDeviceGetName(name, 100, 0)
    return name.value.decode()


def bandwidth() -> float:
    """Bytes a second that the memory of the first CUDA device moves at most, by the driver's clock and bus width."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, kilohertz, bits = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(device), 0)
    for attribute, value in ((36, kilohertz), (37, bits)):  # memory clock rate, width of the memory bus
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
    return 2e3 * kilohertz.value * bits.value / 8  # two transfers a clock


def load(folder: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Manifest and arrays of a set."""
    with np.load(Path(folder) / "vectors.npz", allow_pickle=False) as arrays:
        return json.loads((Path(folder) / "manifest.json").read_text()), dict(arrays)


def int32(array: np.ndarray) -> np.ndarray:
    """Codes as int32: kernels then compute in one signed type, on a GPU as in a simulator of NumPy scalars."""
    return np.ascontiguousarray(array, dtype=np.int32)


def reductions(manifest: dict[str, Any]) -> np.ndarray:
    """int32 (cases + 1,): first row of every case, and the number of rows."""
    starts = [entry["first"] + case * entry["rows"] for entry in manifest["cases"] for case in range(entry["cases"])]
    return np.array([*starts, manifest["rows"]], np.int32)


def powers() -> np.ndarray:
    """float32: powers of two, 2**0 at POWER_ZERO."""
    return np.ldexp(np.float32(1), np.arange(-POWER_ZERO, POWER_ZERO)).astype(np.float32)


def scales(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The weight factors as float32, which holds every FP16 value."""
    return arrays["in.w_scale"].view(np.float16).astype(np.float32)


def words(values: np.ndarray) -> np.ndarray:
    """float32 as uint32 words; every NaN is 0x7fc00000, whatever the processor made of it."""
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))


def page_answers(
    manifest: dict[str, Any], arrays: dict[str, np.ndarray], key: np.ndarray, value: np.ndarray
) -> dict[str, np.ndarray]:
    """Answers of page_reader: float32 keys and values, narrowed where the set has fp16; scores and positions copied."""
    rows, images = manifest["rows"], arrays["in.images"]
    there = np.arange(32) < arrays["in.n_high"].reshape(-1, 1)
    patterns = words
    if manifest["config"]["output"] == "fp16":
        with np.errstate(over="ignore"):
            key, value = key.astype(np.float16), value.astype(np.float16)
        patterns = halves
    score, position = (np.ascontiguousarray(images[:, at : at + 64]).view("<u4") for at in (3200, 3264))
    return {
        "out.key": patterns(key).reshape(rows, -1),
        "out.value": patterns(value).reshape(rows, -1),
        "out.score": np.where(there, score, 0),
        "out.position": np.where(there, position.view(np.int32), 0),
    }


def halves(values: np.ndarray) -> np.ndarray:
    """float16 as uint16 words; every NaN is 0x7e00."""
    return np.where(np.isnan(values), np.uint16(0x7E00), values.view(np.uint16))


def masked(array: dict[str, Any], values: np.ndarray) -> np.ndarray:
    """Signed integers as the set stores them: two's complement in the bits of their array."""
    return (values.astype(np.int64) & ((1 << array["bits"]) - 1)).astype(array["dtype"])


def main(kernels: dict[str, Callable[..., Any]], where: str, simulated: bool) -> None:
    """`python FILE SET ANSWERS.npz`: run the kernel for the set's unit; print where, rows and seconds as JSON.

    kernels: unit -> function of (manifest, arrays) that returns a call without arguments, which returns the answers.
    """
    manifest, arrays = load(sys.argv[1])
    launch = kernels[manifest["unit"]](manifest, arrays)
    if not simulated:
        launch()  # compiles
    begin = time.perf_counter()
    answers = launch()
    seconds = time.perf_counter() - begin
    listed = {entry["name"]: entry for entry in manifest["arrays"]}
    np.savez(sys.argv[2], **{name: masked(listed[name], values) for name, values in answers.items()})
    print(json.dumps({"where": where, "rows": manifest["rows"], "seconds": seconds}))
