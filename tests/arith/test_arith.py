"""The lowest layer as a whole: which of its modules compile, with which arguments."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import refemu.arith

FOLDER = Path(refemu.arith.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
COMPILED_RUNS = [name for name in MODULES if name.endswith("_compiled")]
COMPILED = ["jit", "kernels", *COMPILED_RUNS]  #: what may bring numba
ALONE = {"fp16": {"mode"}, "dot": {"threads"}}  #: arguments that only one of two forms has: IEEE is what compiles


def test_readable_modules_bring_no_compiler() -> None:
    names = ", ".join(f"refemu.arith.{name}" for name in MODULES if name not in COMPILED)
    code = f"import {names}; import sys; print(sorted({{'numba', 'llvmlite', 'scipy'}} & set(sys.modules)))"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", COMPILED_RUNS)
def test_compiled_forms_have_the_readable_signatures(name: str) -> None:
    """A caller exchanges one module for the other and nothing else."""
    readable = importlib.import_module(f"refemu.arith.{name.removesuffix('_jit')}")
    compiled_run = importlib.import_module(f"refemu.arith.{name}")
    own = [
        each
        for each, f in vars(compiled_run).items()
        if inspect.isfunction(f) and f.__module__ == compiled_run.__name__
    ]
    shared = [each for each in own if not each.startswith("_") and hasattr(readable, each)]
    alone = ALONE.get(name.removesuffix("_jit"), set())

    assert shared
    for each in shared:
        ours, theirs = (inspect.signature(getattr(module, each)).parameters for module in (readable, compiled_run))
        assert ours.keys() - alone == theirs.keys() - alone, each
        assert all(ours[key].kind == theirs[key].kind and ours[key].default == theirs[key].default
                   for key in ours.keys() & theirs.keys()), each  # fmt: skip
