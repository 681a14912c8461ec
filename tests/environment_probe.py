"""One process of the environment matrix: prints what is in force and the hashes of what refemu computes there.

python tests/environment_probe.py MODEL BACKEND SCHEME[,SCHEME...] [--generate DIR] [--centroids]

Inside a scheme `;` stands for its commas.
"""

import hashlib
import json
import os
import sys
from typing import Any

import numpy as np

from refemu import models
from refemu.arith import jit
from refemu.models import text
from refemu.models.backend import Jit

KINDS = ["paper", "edge", "random", "model"]  # an exhaustive sweep adds time and no kernel
UNITS = ["olive_edp", "olive_mac", "ovp_decoder", "ovp_encoder"]
TOKENS = {"tiny": 12, "smollm2-135m": 6}


def digest(array: np.ndarray) -> str:
    """sha256 of the little-endian C-order bytes."""
    return hashlib.sha256(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()).hexdigest()


def evidence() -> dict[str, Any]:
    """What shows that a setting really took effect."""
    from threadpoolctl import threadpool_info

    features = np._core._multiarray_umath.__cpu_features__
    blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {
        "numpy": sorted(name for name, on in features.items() if on),
        "blas": [pool.get("architecture") for pool in blas],
        "blas_threads": [pool["num_threads"] for pool in blas],
        "path": jit.rounding_path(),
        "jit": not jit.jit_is_off(),
        "vector": vector_registers(),
    }


def vector_registers() -> list[str]:
    """Kinds of vector registers in the assembly of the compiled float kernels; empty where nothing is compiled."""
    if jit.jit_is_off():
        return []
    text = "".join(assembly for kernel in jit._kernels for assembly in kernel.inspect_asm().values())
    return [name for name in ("zmm", "ymm", "xmm") if f"%{name}" in text]


def centroids(model: Any, engine: Any) -> str:
    """sha256 of what scheme kllm-a4 learns from 64 tokens: codebooks and thresholds."""
    from refemu.models import schemes
    from refemu.models.backend import find
    from refemu.models.schemes.kllm import calibrate
    from refemu.models.schemes.scheme import silent

    ids = model.tokenizer.encode(text.calibration())[:64]
    backend = find(engine) if isinstance(engine, str) else engine
    learnt = calibrate.obtain(model, schemes.parse("kllm-a4"), backend, ids, silent)
    return hashlib.sha256(learnt.to_bytes()).hexdigest()


def main() -> None:
    name, backend, schemes = sys.argv[1:4]
    model = models.load(name)
    ids = model.tokenizer.encode(text.default())[: TOKENS[name]]
    threads = int(os.environ.get("NUMBA_NUM_THREADS", "1"))
    engine = Jit(threads) if backend == "jit" else backend
    hashes = {
        scheme: digest(models.run(model, ids, scheme=scheme.replace(";", ","), backend=engine).logits)
        for scheme in schemes.split(",")
    }
    if "--centroids" in sys.argv:
        hashes["centroids"] = centroids(model, engine)
    if "--generate" in sys.argv:
        from refemu import golden

        golden.generate(
            sys.argv[sys.argv.index("--generate") + 1], units=UNITS, kinds=KINDS, model="tiny", scheme="olive-4"
        )
    print(json.dumps({"hashes": hashes, "evidence": evidence()}))


if __name__ == "__main__":
    main()
