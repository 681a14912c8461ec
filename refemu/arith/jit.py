"""Compilation of kernels: the only place that names numba's `njit`, its cache, and the choice of rounding path.

Environment, read when this module is imported (D-arith-13):
REFEMU_CACHE    a folder: compiled code is kept there; 1: in the user's cache; 0: nowhere, whoever asks
REFEMU_ROUND16  `hardware` or `portable`: which of two equal forms kernels round to fp16 with
"""

import contextlib
import functools
import gc
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding
import numba
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

from refemu.arith.checks import Refused, require_choice
from refemu.home import cache_folder, exposed, make_private

__all__ = ["helper", "kernel"]
PACKAGE = Path(__file__).resolve().parent.parent

_kernels: list[Any] = []  # every dispatcher made so far, so that the cache can be turned on at any time
_folder: Path | None = None  # where compiled code is kept


class _Uninterrupted(event.Listener):
    """No garbage collection while a kernel is compiled: numba holds so many objects that it would take an eighth of
    the time. What a kernel calls is compiled meanwhile, all under numba's lock.
    """

    def __init__(self) -> None:
        self.depth, self.collected = 0, False

    def on_start(self, event: Any) -> None:
        """A kernel begins."""
        if not self.depth:
            self.collected = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """It ends, or could not be compiled."""
        self.depth -= 1
        if not self.depth and self.collected:
            gc.enable()


event.register("numba:compile", _Uninterrupted())


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function`: numpy's error model (vectorisable), no fastmath, GIL released. As it is when JIT is off.

    Without the wrapper for callers in C, which nobody has, a tenth of the compiler's time is saved.

    Parameters
    ----------
    function : callable
        Function of arrays and scalars. It may use names of refemu and of its own package: the key of the cache of
        compiled code holds their sources, and of no others.

    Returns
    -------
    callable
        Compiled at the first call with its types.
    """
    compiled = numba.njit(error_model="numpy", nogil=True, no_cfunc_wrapper=True)(function)
    if compiled is not function:
        _kernels.append(compiled)
        _use_cache(compiled)
    return compiled


def helper(function: Callable[..., Any]) -> Any:
    """Compile like `kernel`, inlined into the kernels of the same file.

    Parameters
    ----------
    function : callable
        Function that a kernel calls.

    Returns
    -------
    callable
        For kernels only.
    """
    return numba.njit(error_model="numpy", nogil=True, inline="always")(function)


def jit_is_off() -> bool:
    """Whether NUMBA_DISABLE_JIT is set: kernels are then the Python functions themselves."""
    return bool(numba.config.DISABLE_JIT)


def rounding_path() -> str:
    """`hardware` (conversions of the CPU) or `portable` (integer and float32 operations): equal bits, other speed.

    Hardware needs F16C: without it LLVM's half cast crashes. Refused: hardware, by REFEMU_ROUND16, where it would.
    """
    wanted = os.environ.get("REFEMU_ROUND16", "")
    possible = has("f16c")
    if not wanted:
        return "hardware" if possible else "portable"
    require_choice(wanted, ["hardware", "portable"], "REFEMU_ROUND16", "path")
    if wanted == "hardware" and not possible and not jit_is_off():
        raise Refused("REFEMU_ROUND16: hardware needs a CPU with F16C, compiled for as it is, got portable only")
    return "portable" if jit_is_off() else wanted


def has(feature: str) -> bool:
    """Whether compiled code may count on a feature of the CPU, such as `f16c`.

    A target named by NUMBA_CPU_NAME or NUMBA_CPU_FEATURES may lack it, and so does Python when JIT is off.
    """
    other_target = numba.config.CPU_NAME is not None or numba.config.CPU_FEATURES is not None
    return not (jit_is_off() or other_target) and llvmlite.binding.get_host_cpu_features().get(feature, False)


ROUND16 = rounding_path()  #: the path of this process
FUSES = has("fma")  #: whether a fused multiply-add is one instruction


def enable_cache(default_folder: str | os.PathLike[str]) -> Path | None:
    """Keep compiled code below REFEMU_CACHE, or `default_folder` without it. Returns the folder in use.

    Called by the command line; the library keeps nothing unless REFEMU_CACHE names a folder. None, and no cache, where
    REFEMU_CACHE is 0, JIT is off, the folder cannot be written, or others own or can write it or anything below: then
    one line on stderr says so, for what lies there is run.
    """
    global _folder
    root = os.environ.get("REFEMU_CACHE") or os.fspath(default_folder)
    root = os.fspath(cache_folder() / "kernels") if root == "1" else root
    _folder = None if root == "0" or jit_is_off() else _usable(Path(root).absolute())
    for dispatcher in _kernels:
        _use_cache(dispatcher)
    return _folder


@functools.cache
def cache_key() -> str:
    """Name of the folder that fits this code: sha256 of all kernel sources, compiler versions and rounding path.

    numba itself looks at the time stamp of the one file that defines a kernel, so it would miss an edit elsewhere.
    """
    digest = hashlib.sha256(f"numba {numba.__version__} llvmlite {llvmlite.__version__} {ROUND16}\n".encode())
    for path in kernel_files():
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def kernel_files() -> list[Path]:
    """Sources that decide what compiled code does: the layers that have kernels, whose constants they may take in.

    Cases and alternatives are not among them: no kernel may use their names.
    """
    layers = ("arith", "formats", "units")
    files = (path for layer in layers for path in (PACKAGE / layer).rglob("*.py"))
    return sorted(path for path in files if path.parent.name not in ("cases", "alternatives"))


class _PrivateFiles(IndexDataCacheFile):
    """numba's files, readable and writable by this user alone, whatever the umask."""

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        with super()._open_for_write(filepath) as file:
            os.chmod(file.name, 0o600)
            yield file


class _Cache(FunctionCache):
    """numba's cache, but a damaged file or a full disk costs a compilation and nothing else, and files are private."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _PrivateFiles(self.cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever a truncated pickle raises
            with contextlib.suppress(OSError):
                self.flush()  # else the damaged index would be in the way of saving
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


def _use_cache(dispatcher: Any) -> None:
    """Point `dispatcher` at the folder in use; numba.config is as before afterwards."""
    if _folder is None:
        dispatcher._cache = NullCache()
        return
    folder = _folder_of(Path(dispatcher.py_func.__code__.co_filename))
    if folder is None:
        dispatcher._cache = NullCache()
        return
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = os.fspath(folder)
    try:
        cache = _Cache(dispatcher.py_func)
    finally:
        numba.config.CACHE_DIR = before
    # numba falls back on other folders, without the key, where it cannot write
    inside = Path(cache.cache_path).is_relative_to(folder)
    if inside:
        os.chmod(cache.cache_path, 0o700)  # numba made it under the umask
    dispatcher._cache = cache if inside else NullCache()


def _folder_of(source: Path) -> Path | None:
    """The folder for kernels of one source: that in use; of a plug-in's sources one below it, by what they hold.

    A kernel of a plug-in may use names of refemu and of its own package. None: that folder cannot be made.
    """
    if _folder is None or source.is_relative_to(PACKAGE):
        return _folder
    try:
        folder = _folder / f"plug-in-{_foreign_key(_top(source))}"
        make_private(folder)
    except OSError:  # or there is no such source: code of a notebook, or made by `exec`
        return None
    return folder


def _top(source: Path) -> Path:
    """The highest package with an `__init__` that a source is in; the file itself where it is in none."""
    packages = [folder for folder in source.parents if (folder / "__init__.py").is_file()]
    return packages[-1] if packages else source


@functools.cache
def _foreign_key(top: Path) -> str:
    """sha256 of the place and all sources of a package that is not refemu, or of one file."""
    digest = hashlib.sha256(os.fspath(top).encode())
    for path in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
        digest.update(path.relative_to(top).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def _usable(root: Path) -> Path | None:
    """The folder of this code below `root`, made if need be; None where it cannot be written or trusted."""
    folder = root / cache_key()
    try:
        make_private(folder)
        others = exposed(root, folder)
    except OSError:
        return None
    if others:
        print(
            f"refemu: the kernel cache {root} is not used, for others own or can write {others}; kernels are "
            "compiled afresh. Delete it, and it is made anew",
            file=sys.stderr,
        )
        if "REFEMU_CACHE" in os.environ:
            os.environ["REFEMU_CACHE"] = "0"  # processes that this one starts need not say it again
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


if os.environ.get("REFEMU_CACHE", "0") not in ("", "0"):
    enable_cache(os.environ["REFEMU_CACHE"])
