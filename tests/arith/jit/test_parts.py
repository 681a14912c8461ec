"""Functions that are compiled as parts of kernels."""

import subprocess
import sys

import numpy as np
import pytest

from refemu.arith import jit
from refemu.arith.jit.parts import PartLibrary
from tests.arith.interpreted import needs_compiled

SOURCE = """
from refemu.arith.jit import callee, kernel

@callee
def inner(x):
    return x + 3

@kernel
def outer(x):
    return inner(x) * 2

@kernel
def second(x):
    return inner(x) * 3
"""
#: prints what a kernel returns, then how often its callee was read from the cache, and compiled
USE = "import made; s = made.inner.stats; print(made.{}(1), s.cache_hits.total(), s.cache_misses.total())"


@pytest.fixture
def made(monkeypatch):
    """Kernels that are compiled without a cache, and not left in the list of all."""
    monkeypatch.setattr(jit, "_folder", None)
    before = list(jit._kernels)
    yield
    jit._kernels[:] = before


@needs_compiled
def test_callee_has_no_machine_code(made):
    @jit.callee
    def total(x):
        sums = np.zeros(1, np.int64)
        for value in x:
            sums[0] += value
        return sums[0]

    assert jit.kernel(lambda x: total(x))(np.arange(5)) == 10
    (part,) = total.overloads.values()
    assert isinstance(part.library, PartLibrary) and not part.library.get_pointer_to_function(
        part.fndesc.llvm_func_name
    )
    assert not jit.kernel(lambda x: total(x))(np.arange(0))


@needs_compiled
def test_callee_called_from_python_becomes_a_kernel(made):
    @jit.callee
    def twice(x):
        return x + x

    assert jit.kernel(lambda x: twice(x) + 1)(2) == 5
    assert twice(2) == 4 and twice(2.5) == 5


@needs_compiled
def test_callee_raises_through_its_kernel(made):
    @jit.inlined
    def positive(x):
        if x <= 0:
            raise ValueError("not positive")
        return x

    kernel = jit.kernel(lambda x: positive(x))
    assert kernel(2) == 2
    with pytest.raises(ValueError, match="not positive"):
        kernel(0)


@needs_compiled
def test_another_kernel_finds_a_callee_in_the_cache(tmp_path, monkeypatch):
    (tmp_path / "made.py").write_text(SOURCE)
    monkeypatch.setenv("REFEMU_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)

    def use(name):
        code = f"import sys; sys.path[:0] = {sys.path!r}; {USE.format(name)}"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert use("outer") == ["8", "0", "1"]
    assert use("outer") == ["8", "0", "0"]
    assert use("second") == ["12", "1", "0"]
    assert use("inner") == ["4", "0", "0"]
