"""Preparation, second start, prefill, decode and memory of a model of 1 B or 7 B random weights; run by hand for 7 B.

    python -m benchmarks.sizes 7b FOLDER [--scheme S ...] [--tokens 256] [--plot FILE.svg]

FOLDER gets the checkpoint and the prepared models; delete it afterwards. Each measurement is a process of its own, on
one thread except for the preparation, compared with the float32 BLAS products of the same shapes in the same process,
decoding with a copy of as many bytes too. `--plot` draws the roofline of decoding.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SCHEMES = ("fp16", "leankv-k8v4", "harmonia-kv4", "olive-4:low=90,high=110,step=20")
CALIBRATION = 32  #: tokens that olive's inputs are searched on
PAIRS = 3
PLACE, STEPS = 16, 4  #: tokens before the decoded ones, and those
COPIED = 1 << 27  #: bytes that a copy reads, more than caches hold
#: bytes of a block's weight that a decoded token reads: codes, and the factors of Harmonia's groups of 32
BYTES = {"fp16": 2.0, "leankv": 2.0, "harmonia": 0.625, "olive": 0.5, "kllm": 1.0}


def measure(folder: Path, scheme: str, tokens: int) -> dict[str, Any]:
    """Cost of one start, in a fresh process."""
    import numpy as np

    from refemu import models
    from refemu.arith.jit import enable_cache

    enable_cache(folder / "kernels")
    _compile(scheme)
    started, cpu = time.perf_counter(), time.process_time()
    model = models.load(folder / "checkpoint")
    loaded, loaded_cpu = time.perf_counter(), time.process_time()
    prepared = models.prepare(model, scheme, calibration=_calibration(model, scheme))
    ready = time.perf_counter()
    count = int(sum(np.prod(shape) for shape in model.config.shapes.values()))
    result = {
        "scheme": scheme,
        "weights": count,
        "load_s": loaded - started,
        "prepare_s": ready - loaded,
        "start_s": ready - started,
        "load_cpu_s": loaded_cpu - cpu,
        "prepare_cpu_s": time.process_time() - loaded_cpu,
    }
    if tokens:
        result |= _prefill(model, prepared, tokens) | _decode(model, prepared, scheme)
    return {**result, "anonymous_mb": _status("RssAnon"), "peak_mb": _status("VmHWM")}


def _compile(scheme: str) -> None:
    """Compile the scheme's kernels on a small model, so that no start includes it."""
    from benchmarks.seeded_checkpoint import weight
    from refemu import models
    from refemu.models.config import ModelConfig
    from refemu.models.model import Model

    small = ModelConfig(1, 1024, 1024, 8, 8, 128, 1024, 512, rope_interleaved=False, tied_head=False)

    class Seeded:
        names = tuple(small.shapes)

        def shape(self, name: str) -> tuple[int, ...]:
            return small.shapes[name]

        def tensor(self, name: str) -> Any:
            return weight(name, small.shapes[name]).astype("f4")

    model = Model("small", small, Seeded(), "0" * 64)
    prepared = models.prepare(model, scheme, calibration=_calibration(model, scheme))
    session = models.session(prepared)
    session.append(list(range(64)))
    session.append([1])


def _calibration(model: Any, scheme: str) -> Any:
    """Token ids for olive; factors of 1 for harmonia: learning them takes hours at this size and changes no cost."""
    if scheme.startswith("harmonia"):
        from refemu.models.schemes.harmonia import smoothing

        return smoothing.ones(model.config)
    return list(range(100, 100 + CALIBRATION)) if scheme.startswith("olive") else None


def _prefill(model: Any, prepared: Any, tokens: int) -> dict[str, Any]:
    """Seconds of a prompt, and of the products of its shapes by BLAS, in turn; the first of each warms up."""
    import numpy as np

    from refemu import models

    session = models.session(prepared)
    mark, ids = session.mark(), [7 * i % model.config.vocab for i in range(tokens)]
    ours, theirs = [], []
    for _ in range(PAIRS + 1):
        session.rewind(mark)
        begin = time.thread_time()
        logits = session.append(ids, last=True)
        ours.append(time.thread_time() - begin)
        theirs.append(_blas(model.config, tokens))
    assert np.isfinite(logits).all()
    ratios = sorted(their / our for our, their in zip(ours[1:], theirs[1:], strict=True))
    return {"prefill_s": min(ours[1:]), "blas_s": min(theirs[1:]), "blas/prefill": ratios[len(ratios) // 2]}


def _decode(model: Any, prepared: Any, scheme: str) -> dict[str, Any]:
    """Seconds of a token after a few others, and of the same products by BLAS; bytes read, and the speed of a copy."""
    import numpy as np

    from refemu import models

    session = models.session(prepared)
    session.append(list(range(PLACE)))
    mark, ours, theirs, copies = session.mark(), [], [], []
    source = np.ones(COPIED, np.uint8)
    target = source.copy()
    for _ in range(PAIRS + 1):
        session.rewind(mark)
        begin = time.thread_time()
        for token in range(STEPS):
            session.append([token])
        ours.append((time.thread_time() - begin) / STEPS)
        theirs.append(_blas(model.config, 1))
        begin = time.thread_time()
        np.copyto(target, source)
        copies.append(2 * COPIED / (time.thread_time() - begin) / 1e9)
    weights = [int(np.prod(shape)) for name, shape in model.config.shapes.items() if name.startswith("blk.")]
    size = BYTES[scheme.partition("-")[0]] * sum(weights) + 2 * model.config.vocab * model.config.width
    ratios = sorted(their / our for our, their in zip(ours[1:], theirs[1:], strict=True))
    speed = {"decode_s": min(ours[1:]), "decode_blas_s": min(theirs[1:]), "blas/decode": ratios[len(ratios) // 2]}
    return {
        **speed,
        "bytes": size,
        "copy_gb_s": max(copies[1:]),
        "macs": sum(weights) + model.config.vocab * model.config.width,
    }


def _blas(config: Any, tokens: int) -> float:
    """Thread seconds of the float32 products of all blocks, measured on one block's shapes, and of the last logits."""
    import numpy as np

    rng, total = np.random.default_rng(0), 0.0
    for name, shape in [*config.shapes.items(), ("logits", (config.vocab, config.width))]:
        if name.startswith(("blk.0.", "logits")) and len(shape) == 2:
            rows = 1 if name == "logits" else tokens
            x, w = (rng.standard_normal(size, dtype=np.float32) for size in ((rows, shape[1]), shape))
            x @ w.T
            begin = time.thread_time()
            x @ w.T
            total += (time.thread_time() - begin) * (1 if name == "logits" else config.blocks)
    return total


def _status(field: str) -> int:
    """A line of /proc/self/status in MB."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) // 1024


def child(folder: Path, scheme: str, tokens: int) -> dict[str, Any]:
    """`measure` in a separate process, one thread per library."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    env = {**os.environ, **threads, "REFEMU_HOME": str(folder / "home"), "REFEMU_PREPARED": "1"}
    env.setdefault("REFEMU_CACHE", str(folder / "kernels"))
    command = [sys.executable, "-m", "benchmarks.sizes", "--child", scheme, str(folder), str(tokens)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    """Make the checkpoint where it is not, then measure a first and a second start of every scheme."""
    if sys.argv[1] == "--child":
        print(json.dumps(measure(Path(sys.argv[3]), sys.argv[2], int(sys.argv[4]))))
        return
    from benchmarks import roofline, seeded_checkpoint
    from refemu import plotting

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=seeded_checkpoint.SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scheme", action="append")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--plot", type=Path, metavar="FILE", help=".svg or .png")
    arguments = parser.parse_args()
    if arguments.plot:
        plotting.require(arguments.plot)
    if not (arguments.folder / "checkpoint").exists():
        seeded_checkpoint.write(arguments.shape, arguments.folder / "checkpoint")
    found = []
    for scheme in arguments.scheme or SCHEMES:
        print("first ", json.dumps(child(arguments.folder, scheme, 0)), flush=True)
        found.append(child(arguments.folder, scheme, arguments.tokens))
        print("second", json.dumps(found[-1]), flush=True)
    if arguments.plot:
        arguments.plot.write_bytes(roofline.drawn(found, arguments.plot.suffix[1:]))


if __name__ == "__main__":
    main()
