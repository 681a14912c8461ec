"""Functions that are compiled as parts of kernels."""

import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from numba.core.compiler import Flags as NumbaFlags

from refemu.arith import jit
from refemu.arith.jit.parts import Flags, PartCompiler, PartLibrary, shape_error
from tests.arith.interpreted import needs_compiled

SOURCE = """
from refemu.arith.jit import callee, inlined, kernel
@callee
def add(x):
    return x + 3
@inlined
def apply(function, x):
    return function(x)
@callee
def inner(x):
    return apply(add, x)
@kernel
def outer(x):
    return inner(x) * 2
@kernel
def second(x):
    return inner(x) * 3
"""
#: prints what a function returns, then how often `inner` was read from the cache, and compiled
USE = "import made; s = made.inner.stats; print(made.{}(1), s.cache_hits.total(), s.cache_misses.total())"
pytestmark = needs_compiled


@pytest.fixture
def part(monkeypatch):
    """A function that is not left in the list of all kernels, without a cache."""
    monkeypatch.setattr(jit, "_folder", None)
    monkeypatch.setattr(jit, "_kernels", [])

    @jit.callee
    def least(x):
        if not x.size:
            raise ValueError("no values")
        return min(x[0], 7)

    return least


def test_callee_has_no_machine_code(part):
    assert jit.kernel(lambda x: part(x) + 1)(np.arange(9, 12)) == 8
    (compiled,) = part.overloads.values()
    assert isinstance(compiled.library, PartLibrary)


def test_callee_called_from_python_is_a_kernel(part):
    jit.kernel(lambda x: part(x))(np.arange(2))
    assert part(np.arange(9, 12)) == 7 and part(np.array([2.5])) == 2.5


def test_callee_raises_through_its_kernel(part):
    with pytest.raises(ValueError, match="no values"):
        jit.kernel(lambda x: part(x))(np.arange(0))


@pytest.mark.long
def test_another_kernel_finds_a_callee_in_the_cache(tmp_path, monkeypatch):
    (tmp_path / "made.py").write_text(SOURCE)
    monkeypatch.setenv("REFEMU_CACHE", str(tmp_path / "cache"))
    for name, printed in (("outer", "8 0 1"), ("outer", "8 0 0"), ("second", "12 1 0"), ("inner", "4 0 0")):
        code = f"import sys; sys.path[:0] = {[str(tmp_path), *sys.path]}; {USE.format(name)}"
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
        assert done.stdout.strip() == printed, done.stderr


@pytest.mark.parametrize("ours", [True, False])
def test_functions_of_numba_are_parts_only_in_kernels(ours):
    """A function of numba's that others compile has its machine code."""
    named = {"__module__": "numba.np.arrayobj", "__qualname__": "ol_raise_with_shape_context_cpu.<locals>.impl"}
    library = SimpleNamespace(py_func=SimpleNamespace(**named), _compiler=Mock())
    dispatchers = (jit._kernels[0] if ours else SimpleNamespace(), library)
    listener = jit._Uninterrupted()
    for dispatcher in dispatchers:
        listener.on_start(SimpleNamespace(data={"dispatcher": dispatcher}))
    for _ in dispatchers:
        listener.on_end(None)

    assert (library._compiler.pipeline_class is PartCompiler) == ours
    assert (library._compiler.py_func is shape_error) == ours


def test_flags_equal_those_of_numba():
    flags = NumbaFlags()
    flags.release_gil = True
    ours = Flags(flags)
    assert ours == flags and hash(ours) == hash(flags) and ours.get_mangle_string() == flags.get_mangle_string()
    assert ours != NumbaFlags() and ours.copy() == ours and ours != 1


def test_slice_of_another_size_raises_without_its_shape(part):
    def assign(x, y):
        x[1:] = y

    with pytest.raises(ValueError, match=r"^cannot assign slice from input of different size$"):
        jit.kernel(assign)(np.zeros(4), np.zeros(2))


@pytest.mark.parametrize(
    ("frozen", "calls"), [(0, ["disable", "freeze", "unfreeze", "enable"]), (5, ["disable", "enable"])]
)
def test_objects_of_a_compilation_are_old(part, monkeypatch, frozen, calls):
    """What another part of the program froze stays frozen."""
    collector = Mock(**{"isenabled.return_value": True, "get_freeze_count.return_value": frozen})
    monkeypatch.setattr(jit, "gc", collector)
    jit.kernel(lambda x: part(x))(np.arange(2))
    assert [name for name, *_ in collector.method_calls if name in ("disable", "freeze", "unfreeze", "enable")] == calls
