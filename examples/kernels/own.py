"""A kernel of your own on the inputs of a golden set: `python own.py FILE SET ANSWERS.npz DEVICE`.

FILE has a function with the unit's name. It takes the inputs by port, as keyword arguments, and returns a dictionary of
outputs by port, arrays or tensors. If FILE imports torch, inputs are tensors on DEVICE ("cpu", "cuda"), words of 16 and
32 bits as int16 and int32; else they are NumPy arrays. The time is that of a call, without copies of the tensors.
"""

import json
import runpy
import sys
import time
from typing import Any

import numpy as np

from examples.kernels import host
from refemu.arith.checks import Refused, RefusedType
from refemu.arith.checks import host as on_cpu

TIMED = 0.1  #: seconds that the calls are repeated for


def inputs_of(arrays: dict[str, np.ndarray], device: str) -> dict[str, Any]:
    """Inputs by port; tensors of PyTorch if it was imported."""
    named = {name.removeprefix("in."): array for name, array in arrays.items() if name.startswith("in.")}
    torch = sys.modules.get("torch")
    if torch is None:
        return named
    signed = {name: array if array.itemsize == 1 else array.view(f"i{array.itemsize}") for name, array in named.items()}
    return {name: torch.from_numpy(np.ascontiguousarray(array)).to(device) for name, array in signed.items()}


def wait() -> None:
    """Wait for the GPU, if a library is in use that has one."""
    torch, cuda = sys.modules.get("torch"), sys.modules.get("numba.cuda")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()
    elif cuda is not None and host.gpu():
        cuda.synchronize()


def seconds_of(kernel: Any, inputs: dict[str, Any]) -> tuple[Any, float]:
    """The outputs, and the seconds of a call after the first, which compiles."""
    outputs = kernel(**inputs)
    wait()
    calls, begin = 0, time.perf_counter()
    while calls == 0 or time.perf_counter() - begin < TIMED:
        outputs = kernel(**inputs)
        wait()
        calls += 1
    return outputs, (time.perf_counter() - begin) / calls


def main(file: str, folder: str, answers: str, device: str) -> int:
    """Run, write the answers, print where, rows and seconds as JSON. Returns 2 for an invalid file or output."""
    manifest, arrays = host.load(folder)
    kernel = runpy.run_path(file).get(manifest["unit"])
    if not callable(kernel):
        print(f"{file}: has no function {manifest['unit']}", file=sys.stderr)
        return 2
    outputs, seconds = seconds_of(kernel, inputs_of(arrays, device))
    if not isinstance(outputs, dict):
        print(f"{file}: {manifest['unit']} must return a dictionary by port, got {type(outputs)}", file=sys.stderr)
        return 2
    try:
        found = {f"out.{name}": on_cpu(each, f"{file}: {name}") for name, each in outputs.items()}
    except (Refused, RefusedType) as refusal:
        print(refusal, file=sys.stderr)
        return 2
    np.savez(answers, **{name: each.array for name, each in found.items()})
    where = host.gpu() if device == "cuda" else device
    print(json.dumps({"where": where, "rows": manifest["rows"], "seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
