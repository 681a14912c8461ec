"""What recompiles a kernel, and what does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from refemu.arith import jit
from refemu.arith.jit.digest import Unknown, digest
from tests.arith.interpreted import needs_compiled

ROOT = Path(__file__).resolve().parents[3]
SOURCE = '''
import numpy as np
import other
from refemu.arith.jit import inlined, kernel
from other import STEP

TABLE = np.arange(4)
UNREAD = 1

@inlined
def inner(x, factor=2):
    return x * factor + TABLE[3]

@kernel
def outer(x):
    """Docstring."""
    return inner(x) + STEP + other.OFFSET  # comment

@kernel
def second(x):
    return x + UNREAD
'''
OTHER = "STEP = 10\nOFFSET = 20\nUNREAD = 30\n"
#: prints what `outer` returns and whether it was compiled, then the same of `second`
USE = "import edited\nfor f in (edited.outer, edited.second): print(f(1), sum(f.stats.cache_misses.values()))\n"


def use(folder, source, other=OTHER):
    """What USE prints with these two modules, compiled code in one cache."""
    (folder / "edited.py").write_text(source)
    (folder / "other.py").write_text(other)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment |= {"PYTHONPATH": f"{folder}:{ROOT}", "REFEMU_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-B", "-c", USE], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A folder in whose cache the two kernels are."""
    folder = tmp_path_factory.mktemp("edited")
    assert use(folder, SOURCE) == ["35", "1", "2", "1"]
    return folder


@pytest.mark.long
@needs_compiled
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Docstring."""', '"""Another docstring,\n\n    of three lines."""'),
        ('    """Docstring."""\n', ""),
        ("# comment", "# another comment"),
        ("import numpy", "# a line more\n\nimport numpy"),
        ("UNREAD = 30", "UNREAD = 31"),
    ],
)
def test_edit_of_text_recompiles_nothing(compiled, old, new):
    assert use(compiled, SOURCE.replace(old, new), OTHER.replace(old, new)) == ["35", "0", "2", "0"]


@pytest.mark.long
@needs_compiled
@pytest.mark.parametrize(
    ("old", "new", "printed"),
    [
        ("STEP = 10", "STEP = 11", "36 1 2 0"),
        ("OFFSET = 20", "OFFSET = 22", "37 1 2 0"),
        ("UNREAD = 1", "UNREAD = 3", "35 0 4 1"),
        ("np.arange(4)", "np.arange(4) + 1", "36 1 2 0"),
        ("x * factor", "x - factor", "32 1 2 0"),
        ("factor=2", "factor=5", "38 1 2 0"),
        ("@inlined\ndef inner", "@kernel\ndef inner", "35 1 2 0"),
    ],
)
def test_edit_of_reached_code_recompiles_that_kernel(compiled, old, new, printed):
    assert " ".join(use(compiled, SOURCE.replace(old, new), OTHER.replace(old, new))) == printed


@needs_compiled
def test_value_of_unknown_kind_is_not_cached():
    class Constant:
        value = 1

    @jit.kernel
    def reads_an_object(x):
        return x + constant.value

    constant = Constant()
    jit._kernels.remove(reads_an_object)
    with pytest.raises(Unknown, match="Constant"):
        digest(reads_an_object)


@needs_compiled
@pytest.mark.parametrize("constant", [[1, 2], {"a": 1}, jit], ids=["list", "dict", "module as a value"])
def test_containers_and_inner_modules_are_not_cached(constant):
    """Nothing says whether what they hold has changed."""

    @jit.kernel
    def reads_a_closure(x):
        return x + len(constant)

    jit._kernels.remove(reads_a_closure)
    with pytest.raises(Unknown):
        digest(reads_a_closure)


@needs_compiled
def test_every_kernel_has_a_digest():
    """Else it would be compiled in every process."""
    code = """
import importlib, pkgutil, refemu
from refemu.arith import jit
from refemu.arith.jit.digest import digest
for layer in ("arith", "formats", "units"):
    package = importlib.import_module(f"refemu.{layer}")
    for module in pkgutil.walk_packages(package.__path__, f"refemu.{layer}."):
        importlib.import_module(module.name)
print(len({digest(kernel) for kernel in jit._kernels}))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 250
