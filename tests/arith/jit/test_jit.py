"""The compiler's switches: the cache and its key, the rounding path, JIT off. Most are read once a process."""

import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core import event

from refemu.arith import jit, kernels
from refemu.arith.checks import Refused
from tests.arith.interpreted import needs_compiled

ROOT = Path(__file__).resolve().parents[3]
SWITCHES = (
    "REFEMU_CACHE",
    "REFEMU_ROUND16",
    "NUMBA_DISABLE_JIT",
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
    "NUMBA_CACHE_DIR",
)

#: calls a kernel; prints the value, hits and misses of the cache, the folder, numba's own setting
USE = """
import numba
from refemu.arith import jit
from tests.kernels.small_kernel import double
value, stats = double(0.75), getattr(double, "stats", None)
print(value, *(sum(s.values()) for s in (stats.cache_hits, stats.cache_misses)) if stats else "--", jit._folder,
      repr(numba.config.CACHE_DIR))
"""
NO_CACHE = ["1.5", "0", "1", "None", "''"]
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {USE!r}], check=True)"
ENABLE = "from refemu.arith import jit; from tests.kernels import small_kernel; jit.enable_cache({folder!r})\n" + USE
needs_owners = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no owners of files")


class Planted:
    """An object whose pickle makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def run(code, **environment):
    """Output of `code` in a new process in which only these switches are set, in words."""
    clean = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=ROOT, env=clean | environment
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


# Cache


def test_library_caches_nothing_by_default():
    """D-arith-13."""
    assert run(USE) == run(USE, REFEMU_CACHE="") == NO_CACHE


def test_a_second_process_finds_what_the_first_compiled(tmp_path):
    first, second = (run(USE, REFEMU_CACHE=str(tmp_path)) for _ in range(2))

    assert first[:3] == ["1.5", "0", "1"] and second[:3] == ["1.5", "1", "0"]
    assert first[3:] == second[3:] and Path(first[3]).parent == tmp_path and first[4] == "''"


@pytest.mark.long
def test_command_line_caches_kernels_that_exist(tmp_path):
    code = ENABLE.format(folder=str(tmp_path / "default"))

    assert run(code)[1:3] == ["0", "1"] and run(code)[1:3] == ["1", "0"]
    assert not (tmp_path / "other").exists()
    assert run(code, REFEMU_CACHE=str(tmp_path / "other"))[3].startswith(str(tmp_path / "other"))
    assert run(code, REFEMU_CACHE="0") == NO_CACHE


def use(folder, code=USE, **environment):
    """Words that `code` prints with the cache in `folder`, and the lines on stderr."""
    clean = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        env=clean | {"REFEMU_CACHE": str(folder)} | environment,
    )
    return done.stdout.split(), done.stderr.splitlines()


def test_damaged_cache_is_replaced_with_one_line(tmp_path):
    use(tmp_path)
    for path in tmp_path.rglob("*.nb*"):
        path.write_bytes(path.read_bytes()[:40])

    printed, lines = use(tmp_path)
    assert printed[:3] == ["1.5", "0", "1"] and len(lines) == 1 and "damaged entries are compiled again" in lines[0]
    printed, lines = use(tmp_path)
    assert printed[:3] == ["1.5", "1", "0"] and not lines


def test_unwritable_cache_folder_prints_one_line(tmp_path):
    (tmp_path / "file").write_text("in the way")

    printed, lines = use(tmp_path / "file")
    assert printed == NO_CACHE
    assert lines == [f"refemu: kernel cache {tmp_path}/file not used, kernels are compiled again: File exists"]


def test_read_only_cache_prints_one_line(tmp_path):
    """Root can write everywhere, so the test simulates a folder without permission."""
    printed, lines = use(tmp_path, "import os; os.access = lambda *_: False\n" + USE)

    assert printed == NO_CACHE and len(lines) == 1 and "it is read-only; set REFEMU_CACHE" in lines[0]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A cache made under the loosest umask, then its index replaced: an index is a pickle, which runs when loaded."""
    before = os.umask(0)
    try:
        folder = tmp_path_factory.mktemp("planted") / "new" / "cache"
        assert use(folder)[1] == []
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in (folder.parent, folder, *folder.rglob("*"))}
    for index in folder.rglob("*.nbi"):
        index.write_bytes(pickle.dumps(Planted(folder.parent / "ran")))
    return folder, modes


@needs_owners
def test_a_cache_is_private_whatever_the_umask(planted):
    _, modes = planted

    assert {".nbi", ".nbc", ""} == {path.suffix for path in modes}
    assert modes == {path: 0o700 if path.is_dir() else 0o600 for path in modes}


@pytest.mark.long
@needs_owners
@pytest.mark.parametrize(("exposed", "mode"), [("", 0o777), ("*/*.nbi", 0o620)])
def test_world_writable_cache_is_not_loaded(planted, exposed, mode):
    """Nor by a process that this one starts, which says nothing more."""
    folder, _ = planted
    path = next(folder.glob(exposed)) if exposed else folder
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        printed, lines = use(folder, USE + CHILD)
    finally:
        path.chmod(before)

    assert not (folder.parent / "ran").exists()
    assert printed[:4] == ["1.5", "0", "1", "None"]
    assert lines == [
        f"refemu: kernel cache {folder} not used, kernels are compiled again: others own or can write {path} (owner "
        f"{os.geteuid()}, mode {mode:04o}); delete it"
    ]


@needs_owners
def test_the_planted_index_runs_where_it_is_trusted(planted):
    """Else the test above could not fail."""
    folder, _ = planted
    use(folder)

    assert (folder.parent / "ran").exists()


@needs_owners
def test_what_others_own_is_not_run(tmp_path):
    use(tmp_path)
    code = "import os; mine = os.geteuid(); os.geteuid = lambda: mine + 1\n" + USE
    printed, lines = use(tmp_path, code)

    assert printed[3] == "None" and len(lines) == 1
    assert f"others own or can write {tmp_path} (owner {os.geteuid()}, mode 0" in lines[0]


@needs_compiled
def test_turning_it_off_again(tmp_path, monkeypatch):
    monkeypatch.setenv("REFEMU_CACHE", "")
    before = jit._folder
    try:
        folder = jit.enable_cache(tmp_path)
        assert folder == tmp_path / jit.cache_folder_name() and folder.is_dir()
        assert Path(kernels.exp_all._cache.cache_path).is_relative_to(folder)
        monkeypatch.setenv("REFEMU_CACHE", "0")
        assert jit.enable_cache(tmp_path) is None and kernels.exp_all._cache.cache_path is None
    finally:
        monkeypatch.setenv("REFEMU_CACHE", str(before.parent) if before else "0")
        jit.enable_cache("unused")


# Rounding path and JIT

PATH = "from refemu.arith import jit; print(jit.ROUND16)"
AVAILABLE = jit.llvmlite.binding.get_host_cpu_features().get("f16c", False)


def test_rounding_path_is_chosen_when_process_starts():
    assert run(PATH) == ["hardware" if AVAILABLE else "portable"]
    assert run(PATH, NUMBA_CPU_NAME="generic") == ["portable"]


@pytest.mark.parametrize(
    ("config", "wanted", "path"),
    [
        ({}, "", "hardware" if AVAILABLE else "portable"),
        ({"CPU_NAME": "generic"}, "", "portable"),
        ({"CPU_FEATURES": "+sse2"}, "", "portable"),
        ({}, "portable", "portable"),
        ({"DISABLE_JIT": 1}, "", "portable"),
        ({"DISABLE_JIT": 1}, "hardware", "portable"),
    ],
)
def test_the_rounding_path_follows_the_target(config, wanted, path, monkeypatch):
    """Hardware conversions only where the target is this CPU as it is, and has them."""
    for name, value in ({"CPU_NAME": None, "CPU_FEATURES": None, "DISABLE_JIT": 0} | config).items():
        monkeypatch.setattr(numba.config, name, value)
    monkeypatch.setenv("REFEMU_ROUND16", wanted)

    assert jit.rounding_path() == path


def test_path_that_would_crash_is_rejected(monkeypatch):
    monkeypatch.setattr(numba.config, "CPU_NAME", "generic")
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 0)
    monkeypatch.setenv("REFEMU_ROUND16", "hardware")
    with pytest.raises(Refused, match="REFEMU_ROUND16: hardware needs a CPU with F16C"):
        jit.rounding_path()


def test_unknown_path_is_rejected(monkeypatch):
    monkeypatch.setenv("REFEMU_ROUND16", "fast")
    with pytest.raises(Refused, match="REFEMU_ROUND16: path must be one of 'hardware', 'portable', got 'fast'"):
        jit.rounding_path()


def test_without_jit_kernels_are_plain_python():
    types = "print(type(kernels.widen_all).__name__, type(kernels.scalars.fma32).__name__, len(jit._kernels))"
    code = "from refemu.arith import kernels" + USE + types

    assert run(code, NUMBA_DISABLE_JIT="1", REFEMU_CACHE="/nowhere") == [
        "1.5",
        "-",
        "-",
        "None",
        "''",
        "function",
        "function",
        "0",
    ]


@needs_compiled
def test_function_is_inlined_and_kernel_keeps_its_python():
    @jit.inlined
    def twice(x):
        return x + x

    def four_times(x):
        return twice(twice(x))

    kernel = jit.kernel(four_times)
    try:
        assert kernel(3) == 12 and kernel.py_func is four_times
        assert kernel.targetoptions["nogil"] and kernel.targetoptions["error_model"] == "numpy"
        assert "fastmath" not in kernel.targetoptions and "parallel" not in kernel.targetoptions
    finally:
        jit._kernels.remove(kernel)


class Watch(event.Listener):
    """Whether garbage is collected in the passes of the compiler."""

    def __init__(self):
        self.seen = set()

    def on_start(self, event):
        self.seen.add(gc.isenabled())

    def on_end(self, event):
        self.on_start(event)


@needs_compiled
@pytest.mark.parametrize("collected", [True, False])
def test_no_garbage_is_collected_while_kernels_are_compiled(collected):
    """Neither in a kernel nor in those that it calls; afterwards the state is restored, even after a failure."""
    watch, inner = Watch(), numba.njit(lambda x: x + 1)
    outer = numba.njit(lambda x: inner(x) + inner(x * 0.5))
    (gc.enable if collected else gc.disable)()
    try:
        with event.install_listener("numba:run_pass", watch):
            assert outer(2) == 5
        assert watch.seen == {False} and gc.isenabled() == collected
        with pytest.raises(numba.core.errors.TypingError):
            outer(None)
        assert gc.isenabled() == collected
    finally:
        gc.enable()
