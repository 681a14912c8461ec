"""Compile every kernel: `python -m benchmarks.every_kernel` prints seconds per kernel as JSON.

Cases of every unit's compiled form, a few tokens of the tiny model under a scheme of each paper, a model by its shape
on each accelerator, and the kernels that none of them reaches. With `--processes N`, N processes share the work and
fill the cache that REFEMU_CACHE names: `make test` begins with it, so that no test waits for the compiler and no
measured time includes it.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba.core import event

from refemu import models, units
from refemu.arith import dot_compiled, fp16_compiled, fp32_compiled, jit
from refemu.arith.orders import Sequential, Tree
from refemu.formats import BFP8, OVP_INT4
from refemu.formats.harmonia.compiled import bfp as bfp_compiled
from refemu.formats.olive.compiled import ovp as ovp_compiled
from refemu.golden.make import build, generate
from refemu.models import machine
from refemu.models.schemes.leankv import serving
from refemu.models.schemes.leankv.serving.trace import Arrival

SCHEMES = ("fp16", "olive-4", "harmonia-kv4", "kllm-a4")


def name_of(kernel: Any) -> str:
    """Module and name of a kernel."""
    return f"{kernel.py_func.__module__.removeprefix('refemu.')}.{kernel.py_func.__name__}"


class Compiler(event.Listener):
    """Seconds of the processor per kernel, those of the kernels that it calls not counted."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._open: list[list[float]] = []  # start, and what inner ones took

    def on_start(self, event: Any) -> None:
        """A kernel begins."""
        self._open.append([time.thread_time(), 0.0])

    def on_end(self, event: Any) -> None:
        """It ends."""
        start, inner = self._open.pop()
        taken = time.thread_time() - start
        name = name_of(event.data["dispatcher"])
        self.seconds[name] = self.seconds.get(name, 0.0) + taken - inner
        if self._open:
            self._open[-1][1] += taken


def use_units(share: int, processes: int) -> None:
    """The cases of the papers, all configurations of the units of every `processes`-th paper, which share kernels."""
    papers = sorted(set(units.PAPERS.values()))[share::processes]
    for unit in (units.find(name) for name in units.names() if units.PAPERS[name] in papers):
        for config in unit.configs:
            blocks, made = generate.collect(unit, config, ("paper",), 0, ())
            if blocks:
                build.build(unit, config, blocks, generator=made, compiled_from=0)


def use_models() -> None:
    """A prompt and a token."""
    tiny = models.load("tiny")
    for scheme in SCHEMES:
        session = models.session(models.prepare(tiny, scheme))
        session.append(list(range(16)))
        session.append([1])


def use_machines() -> None:
    """Times of a model by its shape, which kernels of the accelerators' machines step."""
    for scheme in ("olive-4", "harmonia-kv4", "kllm-a4"):
        machine.of_shape("llama-3.2-3b", scheme, tokens=64, phase="prompt")


def use_serving() -> None:
    """Requests on the pages of a GPU, which are drawn and grow by kernels of their own."""
    serving.simulate("leankv", [Arrival(0.0, 300, 80)] * 2)


def use_arithmetic() -> None:
    """Accumulators and orders that no unit and no scheme above uses."""
    x = np.eye(4, dtype=np.float32)
    for weights in (x, x.astype(np.float16)):
        for acc in ("fp32", "fp32_fma", "fp16", "fp16_fma"):
            dot_compiled.matmul(x, dot_compiled.panels(weights), order=Sequential(), acc=acc)
    dot_compiled.matmul(x, x, order=Tree(2), acc="fp32")
    fp16_compiled.fma16(x, x, x), fp32_compiled.fma32(x, x, x), fp32_compiled.exp32(x)
    ovp_compiled.decode_pairs(OVP_INT4, np.zeros(8, np.uint8))
    tensor = BFP8.encode(np.zeros((2, 32), np.float16))
    bfp_compiled.dequantize(tensor), bfp_compiled.encode(BFP8, np.zeros((2, 32), np.float16))


def shared(command: Sequence[str], processes: int) -> dict[str, Any]:
    """Reports of processes that share the work, each with the number of its share. Exits if one fails."""
    shares = [
        subprocess.Popen([sys.executable, *command, str(share)], stdout=subprocess.PIPE) for share in range(processes)
    ]
    outputs = [process.communicate()[0] for process in shares]
    if failed := [process.returncode for process in shares if process.returncode]:
        sys.exit(f"a process that compiles kernels ended with {failed[0]}")
    first, *others = map(json.loads, outputs)
    for other in others:
        for name, seconds in other["seconds"].items():  # what several compile counts once
            first["seconds"][name] = max(seconds, first["seconds"].get(name, 0.0))
        first["used"], first["kernels"] = ({*first[each], *other[each]} for each in ("used", "kernels"))
    return {"seconds": first["seconds"], "kernels": sorted(first["kernels"]), "used": sorted(first["used"])}


def main(words: Sequence[str]) -> None:
    """Use everything and print the cost."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.every_kernel")
    options.add_argument("--processes", type=int, default=1, help="processes that share the work")
    options.add_argument("--smallest", action="store_true", help="one small kernel only: does it still run?")
    options.add_argument("--share", type=int, help=argparse.SUPPRESS)
    arguments = options.parse_args(words)
    if arguments.processes > 1 and arguments.share is None:
        print(json.dumps(shared(["-m", "benchmarks.every_kernel", *words, "--share"], arguments.processes)))
        return
    share = arguments.share or 0
    compiler = Compiler()
    event.register("numba:compile", compiler)
    if arguments.smallest:
        ovp_compiled.decode_pairs(OVP_INT4, np.zeros(8, np.uint8))
    else:
        use_units(share, arguments.processes)
    if share == arguments.processes - 1 and not arguments.smallest:
        use_models()
        use_machines()
        use_serving()
        use_arithmetic()
    kernels = sorted(map(name_of, jit._kernels))
    used = [name_of(kernel) for kernel in jit._kernels if kernel.signatures]
    print(json.dumps({"seconds": compiler.seconds, "kernels": kernels, "used": used}))


if __name__ == "__main__":
    main(sys.argv[1:])
