"""Compilation of kernels: the only place that names numba's `njit`, its cache, and the choice of rounding path.

Environment, read when this module is imported (D-arith-13):
REFEMU_CACHE    a folder: compiled code is cached there; 1: in the user's cache; 0: nowhere, for any caller
REFEMU_COMPILE  `later` or `always`: see tiers.py
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
from types import SimpleNamespace
from typing import Any

import llvmlite
import llvmlite.binding
import numba
import numpy as np
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

from refemu.arith.checks import Refused, require_choice
from refemu.arith.jit.digest import Unknown, digest
from refemu.arith.jit.parts import Flags, PartCompiler, for_parts, make_part, shape_error
from refemu.home import cache_folder, exposed, make_private

__all__ = ["callee", "inlined", "kernel"]

_kernels: list[Any] = []  # every dispatcher made so far, so that the cache can be turned on at any time
_folder: Path | None = None  # cache of compiled code


class _Uninterrupted(event.Listener):
    """No garbage collection while a kernel is compiled: numba holds so many objects that it would take an eighth of
    the time. What a kernel calls is compiled meanwhile, all under numba's lock.

    Afterwards these objects count as old ones, of which few are garbage: a collection of them as young ones would take
    60 ms a kernel.
    """

    def __init__(self) -> None:
        self.depth, self.collected, self.ours = 0, False, False

    def on_start(self, event: Any) -> None:
        """A kernel begins, or a function of numba's that it calls, such as `np.empty`."""
        function = event.data["dispatcher"]
        if self.depth and self.ours and function.py_func.__module__.startswith("numba."):
            function._compiler.pipeline_class = PartCompiler
            function._compiler._customize_flags = Flags
            if function.py_func.__qualname__.startswith("ol_raise_with_shape_context"):
                function._compiler.py_func = shape_error
        if not self.depth:
            self.ours = any(function is each for each in _kernels)  # what others compile is left as it is
            self.collected = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """Note that a compilation ended or failed."""
        self.depth -= 1
        if not self.depth and self.collected:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


event.register("numba:compile", _Uninterrupted())


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function`: numpy's error model (vectorisable), no fastmath, GIL released. As it is when JIT is off.

    Without the wrapper for callers in C, which nobody has, a tenth of the compiler's time is saved.

    Parameters
    ----------
    function : callable
        Function of arrays and scalars.

    Returns
    -------
    callable
        Compiled at the first call with its types.
    """
    compiled = numba.njit(error_model="numpy", nogil=True, no_cfunc_wrapper=True)(function)
    if compiled is not function:
        compiled._compiler._customize_flags = Flags
        _kernels.append(compiled)
        _use_cache(compiled)
    return compiled


def callee(function: Callable[..., Any]) -> Any:
    """Compile like `kernel`, but only as a part of the kernels that call the function.

    Parameters
    ----------
    function : callable
        Function that kernels call. Python can call it too: the first such call compiles a kernel of it.

    Returns
    -------
    callable
        For kernels.
    """
    dispatcher = make_part(function, kernel)
    if dispatcher is not function:
        _kernels.append(dispatcher)
        _use_cache(dispatcher)
    return dispatcher


def inlined(function: Callable[..., Any]) -> Any:
    """Compile like `callee`, but let LLVM inline the function into the kernels that call it.

    Parameters
    ----------
    function : callable
        Function that a kernel calls.

    Returns
    -------
    callable
        For kernels only.
    """
    return make_part(function, kernel, forceinline=True)


def jit_is_off() -> bool:
    """Whether NUMBA_DISABLE_JIT is set: kernels are then the Python functions themselves."""
    return bool(numba.config.DISABLE_JIT)


_NOTHING = contextlib.nullcontext()


def quiet() -> contextlib.AbstractContextManager[None]:
    """Around the call of a kernel: only as Python code would it warn of overflow or NaN, which are results here."""
    return np.errstate(all="ignore") if numba.config.DISABLE_JIT else _NOTHING


def rounding_path() -> str:
    """How kernels round to fp16: `hardware` (CPU conversions) or `portable` (integers and float32, the same bits).

    Hardware needs F16C, without which LLVM's half cast crashes. Raises Refused if REFEMU_ROUND16 asks for it there.
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
    REFEMU_CACHE is 0 or JIT is off. Also where the folder cannot be written, or others own or can write it or anything
    below, for what is there is run: one line on stderr says so.
    """
    global _folder
    root = os.environ.get("REFEMU_CACHE") or os.fspath(default_folder)
    root = os.fspath(cache_folder() / "kernels") if root == "1" else root
    _folder = None if root == "0" or jit_is_off() else _usable(Path(root).absolute())
    for dispatcher in _kernels:
        _use_cache(dispatcher)
    return _folder


def cache_folder_name() -> str:
    """Name of the folder for this machine's compilers, which the digest of a kernel leaves out."""
    versions = sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__
    return hashlib.sha256(repr(versions).encode()).hexdigest()[:32]


class _PrivateFiles(IndexDataCacheFile):
    """numba's files, readable and writable by this user alone, whatever the umask."""

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        with super()._open_for_write(filepath) as file:
            os.chmod(file.name, 0o600)
            yield file


class _Compiled(FunctionCache._impl_class):
    """How numba writes compiled code. Where and under which name is `_Cache`'s."""

    def __init__(self, function: Any) -> None:
        code = function.__code__
        self._locator = SimpleNamespace(_py_file=code.co_filename, ensure_cache_path=lambda: None)
        self._lineno = code.co_firstlineno


class _Cache(FunctionCache):
    """numba's cache, but a file is named after what a kernel reaches; numba would look at its source's time stamp.

    A damaged file or a full disk costs a compilation and nothing else, and files are private.
    """

    def __init__(self, dispatcher: Any, folder: Path) -> None:
        self._name, self._py_func = repr(dispatcher.py_func), dispatcher.py_func
        self._dispatcher, self._cache_path = dispatcher, os.fspath(folder)
        self._impl = _Compiled(self._py_func)
        self.enable()

    @functools.cached_property
    def _cache_file(self) -> _PrivateFiles:
        """At the first use: a kernel may reach names that are defined after it."""
        key = digest(self._dispatcher)
        name = f"{self._py_func.__module__}.{self._py_func.__qualname__}".translate({60: None, 62: None})
        return _PrivateFiles(self._cache_path, f"{name}-{key[:32]}", key)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """What the digest leaves out. numba adds bytecode, which differs where a docstring appears."""
        return sig, codegen.magic_tuple()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if self._dispatcher._compiler.pipeline_class is PartCompiler:
            target_context = for_parts(target_context)
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # whatever a truncated pickle raises
            if not isinstance(error, Unknown):
                _warn_of_damage(self._cache_path)
            with contextlib.suppress(OSError, Unknown):
                self.flush()  # else the damaged index would be in the way of saving
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError, Unknown):
            super().save_overload(sig, data)


@functools.cache
def _warn_of_damage(folder: str) -> None:
    print(f"refemu: kernel cache {folder}: damaged entries are compiled again and replaced", file=sys.stderr)


def _use_cache(dispatcher: Any) -> None:
    """Point `dispatcher` at the folder in use."""
    dispatcher._cache = NullCache() if _folder is None else _Cache(dispatcher, _folder)


def _usable(root: Path) -> Path | None:
    """The folder for these compilers below `root`, made if need be; None where it cannot be written or trusted."""
    folder = root / cache_folder_name()
    try:
        make_private(folder)
        others = exposed(root, folder)
        reason = f"others own or can write {others}; delete it" if others else ""
        if not os.access(folder, os.W_OK | os.X_OK):
            reason = "it is read-only; set REFEMU_CACHE to a folder that you can write"
    except OSError as error:
        reason = error.strerror or str(error)
    if not reason:
        return folder
    print(f"refemu: kernel cache {root} not used, kernels are compiled again: {reason}", file=sys.stderr)
    if "REFEMU_CACHE" in os.environ:
        os.environ["REFEMU_CACHE"] = "0"  # processes that this one starts need not print it again
    return None


if os.environ.get("REFEMU_CACHE", "0") not in ("", "0"):
    enable_cache(os.environ["REFEMU_CACHE"])
